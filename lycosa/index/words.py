"""Words: converts text to terms, in the same way for indexing and for searching.

    term := a run of letters and digits, in lower case, stemmed by the text's language, accents folded
          | two neighbouring characters of a run in a script that does not put spaces between words

- Runs are sequences of Unicode letters, digits and marks; an underscore, an apostrophe or a hyphen ends one.
- The stemmers are tantivy's (Snowball), one for each of `STEMMED`. A text in any other language is not stemmed.
- Folding (é to e, ß to ss, ø to o, full width to plain) comes after stemming, so that the stemmer sees the language
  as it is written; a query typed without accents gives the same term in nearly all cases.
- Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese runs become overlapping pairs (bigrams); a single
  character between others of no such script is a term by itself.
- A run longer than `LONGEST` is not a word (but a key, or an encoded file) and is left out.

Terms of a text are joined by spaces: tantivy splits them again, in a thread of its own. Each distinct word
is stemmed once; the cache for that is bounded.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Collection
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import tantivy

from lycosa.index import word_kernels as kernels

LONGEST = 64
"""Most characters of a run."""
_MEMO = 200_000
"""Most cached words of a language; when there are more all are dropped."""
_LONG = 300
"""Characters of a text from which on the kernel (`word_kernels`) is used. Words of queries are read without it
(`plain_terms`): to load compiled code would take longer than the whole answer."""

STEMMED = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nb": "norwegian",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
"""Languages that have a stemmer."""

_CLOSED = """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves what which who whom whose this that these those am is are was
    were be been being have has had having do does did doing would should could can may might must shall will ought
    a an the and but if or because as until while of at by for with about against between into through during before
    after above below to from up down in out on off over under again further then once here there when where why how
    all any both each few more most other some such no nor not only own same so than too very
"""
_ENGLISH = frozenset(_CLOSED.split())
"""Words of the closed classes, after Snowball's list. (tantivy's list for English is shorter.)"""

_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963"
    "\u0980-\u0dff\u0e30-\u0e4e\u0eb0-\u0ece\u0f71-\u0f84\u102b-\u103e\u17b4-\u17d3\u3099\u309a"
)
_RUN = re.compile(rf"[\w{_MARKS}]+")
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u1100-\u11ff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
_PIECES = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_HAS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_LETTERS = str.maketrans(
    {"ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h"}
)
_ACCENTS = re.compile("[\u0300-\u036f]+")


def fold(word: str) -> str:
    """A word in lower case without its accents."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word.lower())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", plain)).translate(_LETTERS)


def is_unspaced(word: str) -> bool:
    """Whether a run has characters of a script written without spaces between words."""
    return _HAS_UNSPACED.search(word) is not None


@lru_cache(maxsize=64)
def _stemmer(language: str, *, many: bool = False) -> Any:
    """The stemmer of a word; with `many`, of words with spaces between them."""
    name = STEMMED.get(language)
    if name is None:
        return None
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace() if many else tantivy.Tokenizer.raw())
    return builder.filter(tantivy.Filter.stemmer(name)).build()


@lru_cache(maxsize=32)
def _stops(language: str) -> Any:
    try:
        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
        return builder.filter(tantivy.Filter.stopword(STEMMED[language])).build()
    except (KeyError, ValueError):  # there is no list for this language
        return None


def is_function_word(word: str, language: str) -> bool:
    """Whether a word (the, of, which) tells nothing about the topic of a text."""
    word = word.lower()
    if language == "en":
        return word in _ENGLISH
    stops = _stops(language)
    return stops is not None and not stops.analyze(word)


class _Memo(dict[str, str]):
    """Maps a lower-case run to its terms, joined by spaces; "" if it has none."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._stemmer = _stemmer(language)

    def __missing__(self, run: str) -> str:
        found = self.made(run)
        if len(run) <= LONGEST:
            if len(self) >= _MEMO:
                self.clear()
            self[run] = found
        return found

    def made(self, run: str) -> str:
        """The terms of a run, computed without the cache."""
        return " ".join(self._pieces(run)) if is_unspaced(run) else self._term(run)

    def _term(self, run: str) -> str:
        if len(run) > LONGEST:
            return ""
        if self._stemmer is not None:
            run = "".join(self._stemmer.analyze(run))
        return "".join(fold(run).split())

    def _pieces(self, run: str) -> list[str]:
        terms: list[str] = []
        for piece in _PIECES.findall(unicodedata.normalize("NFKC", run)):
            if not is_unspaced(piece):
                terms.append(self._term(piece))
            elif len(piece) == 1:
                terms.append(piece)
            else:
                terms += map("".join, pairwise(piece))
        return [term for term in terms if term]


class _Table:
    """The same for long texts: words and their terms in a table for the kernel."""

    def __init__(self, language: str) -> None:
        self._made = _Memo(language).made
        self._stemmer = _stemmer(language, many=True)
        self._lock = threading.Lock()
        self._empty()

    def _empty(self) -> None:
        self._count = self._used = 0
        self._slots: Any = np.full(1 << 13, -1, np.int32)
        self._rows: Any = np.empty((1 << 12, kernels.WIDTH), np.int64)
        self._arena: Any = np.empty(1 << 16, np.uint8)

    def terms(self, text: str) -> tuple[str, int] | None:
        """The terms of a text, joined by spaces, and their number; None if the kernel cannot process it."""
        try:
            data = np.frombuffer(text.encode(), np.uint8)
        except UnicodeEncodeError:
            return None
        out = np.empty(2 * len(data), np.uint8)
        unknown = np.empty((min(len(data) // 8 + 16, 1 << 14), 2), np.int64)
        place = np.zeros(3, np.int64)
        with self._lock:  # the kernel does not hold the interpreter
            while True:
                table = self._slots, self._rows, self._arena
                length, missing = kernels.look_up(data, *table, out, unknown, place)
                if length == kernels.TOO_LONG:
                    return None
                if not missing:
                    return out[:length].tobytes().decode(), int(place[2])
                places = unknown[:missing].tolist()
                self._learn({data[start:end].tobytes().lower() for start, end in places})

    def _learn(self, unknown: Collection[bytes]) -> None:
        plain = list(filter(bytes.isascii, unknown))
        others = [word for word in unknown if not word.isascii()]
        made = plain
        if plain and self._stemmer is not None:  # nearly all words; stemmed at once
            made = [term.encode() for term in self._stemmer.analyze(b" ".join(plain).decode())]
        made = made + [
            " ".join(filter(None, map(self._made, _small_runs(word.decode())))).encode() for word in others
        ]
        words = plain + others
        ends = np.cumsum(
            [size for pair in zip(map(len, words), map(len, made), strict=True) for size in pair]
        )
        data = b"".join(part for pair in zip(words, made, strict=True) for part in pair)
        if self._count + len(made) > _MEMO:
            self._empty()
        self._grow(self._count + len(made), self._used + len(data))
        fresh = np.frombuffer(data, np.uint8), ends.reshape(-1, 2)
        self._count, self._used = kernels.learn(
            *fresh, self._count, self._used, self._slots, self._rows, self._arena
        )

    def _grow(self, count: int, used: int) -> None:
        """Make room for so many words, and bytes of them."""
        rows, room = len(self._rows), len(self._arena)
        while rows < count:
            rows *= 2
        while room < used:
            room *= 2
        if (rows, room) == (len(self._rows), len(self._arena)):
            return
        held = self._arena[: self._used], np.ascontiguousarray(self._rows[: self._count, 2:])
        self._slots = np.full(2 * rows, -1, np.int32)
        self._rows = np.empty((rows, kernels.WIDTH), np.int64)
        self._arena = np.empty(room, np.uint8)
        kernels.learn(*held, 0, 0, self._slots, self._rows, self._arena)


@lru_cache(maxsize=64)
def _memo(language: str) -> _Memo:
    return _Memo(language)


@lru_cache(maxsize=64)
def _table(language: str) -> _Table:
    return _Table(language)


def base_language(tag: str) -> str:
    """The language of a tag such as `en-GB`; "" if it names none."""
    base = tag.strip().replace("_", "-").split("-")[0].lower()
    return base if 2 <= len(base) <= 3 and base.isascii() and base.isalpha() else ""


def runs_of(text: str) -> list[str]:
    """The runs of letters, digits and marks of a text."""
    return _RUN.findall(text.replace("_", " "))


def _small_runs(text: str) -> list[str]:
    return list(map(str.lower, runs_of(text)))


def terms_of(text: str, language: str) -> str:
    """The terms of a text, joined by single spaces."""
    return counted_terms(text, language)[0]


def counted_terms(text: str, language: str) -> tuple[str, int]:
    """The terms of a text, joined by single spaces, and their number."""
    language = language if language in STEMMED else ""
    if len(text) >= _LONG and (found := _table(language).terms(text)) is not None:
        return found
    terms = plain_terms(text, language)
    return terms, terms.count(" ") + 1 if terms else 0


def plain_terms(text: str, language: str) -> str:
    """The same, word by word."""
    return " ".join(filter(None, map(_memo(language).__getitem__, _small_runs(text))))
