"""The language of a web: words, sentences and addresses made of syllables, identical for equal seeds.

Pages need text that is cheap to make, that differs from page to page (or every page would be a
near-duplicate of every other), and that is free of copyright. A vocabulary and a few thousand sentences
are made once; a page picks some by its dice.
"""

from __future__ import annotations

from functools import lru_cache

from lycosa.lab.webs.dice import rolls, shorts

_ONSETS = [
    "b",
    "br",
    "c",
    "cl",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "qu",
    "r",
    "s",
    "sh",
    "st",
    "t",
    "tr",
    "v",
    "w",
    "z",
]
_NUCLEI = ["a", "e", "i", "o", "u", "ai", "ea", "ou"]
_CODAS = ["", "", "l", "m", "n", "r", "s", "t", "nd", "st", "ck"]

SENTENCES = 4096


class Words:
    """Vocabulary and sentences of one seed."""

    def __init__(self, seed: int) -> None:
        self.words = _vocabulary(seed, 512)
        self.sentences = _sentences(seed, self.words)
        self.mean = sum(map(len, self.sentences)) / len(self.sentences)

    def pair(self, number: int) -> tuple[str, str]:
        """Two words, by the low 18 bits."""
        return self.words[number & 511], self.words[number >> 9 & 511]

    def text(self, count: int, seed: int, *parts: int | str) -> list[str]:
        """`count` sentences."""
        sentences = self.sentences
        return [sentences[k & (SENTENCES - 1)] for k in shorts(count, seed, *parts)]


@lru_cache(maxsize=4)
def words_of(seed: int) -> Words:
    """The language of that seed, made once."""
    return Words(seed)


def _vocabulary(seed: int, count: int) -> list[str]:
    words: list[str] = []
    seen: set[str] = set()
    for number in rolls(count * 4, seed, "vocabulary"):
        word = ""
        for _ in range(2 + number % 2):
            number >>= 2
            word += _ONSETS[number % len(_ONSETS)]
            number //= len(_ONSETS)
            word += _NUCLEI[number % len(_NUCLEI)]
            number //= len(_NUCLEI)
        word += _CODAS[number % len(_CODAS)]
        if word not in seen:
            seen.add(word)
            words.append(word)
            if len(words) == count:
                break
    return words


def _sentences(seed: int, words: list[str]) -> list[str]:
    made = []
    for n in range(SENTENCES):
        picks = shorts(16, seed, "sentence", n)
        chosen = [words[k & 511] for k in picks[: 8 + picks[15] % 7]]
        made.append(" ".join(chosen).capitalize() + ". ")
    return made
