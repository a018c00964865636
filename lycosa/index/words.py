"""Words: a text becomes terms in the same way when it is indexed and when it is searched for.

    term := a run of letters and digits, in lower case, stemmed by the text's language, accents folded
          | two neighbouring characters of a run in a script that does not put spaces between words

- Runs are cut as Unicode has letters, digits and marks; an underscore, an apostrophe or a hyphen ends one.
- The stemmers are tantivy's (Snowball), one for each of `STEMMED`. A text in any other language is not stemmed.
- Folding (é to e, ß to ss, ø to o, full width to plain) comes after stemming, so that the stemmer sees the language
  as it is written; somebody who types without accents finds the same term in nearly all cases.
- Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese runs become overlapping pairs (bigrams); a single
  character between others of no such script is a term by itself.
- A run longer than `LONGEST` is no word (a key, an encoded file) and is left out.

Terms of a text are joined by spaces: tantivy cuts them again at spaces, in a thread of its own. Each distinct word
is stemmed once; the memo for that is bounded.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Any

import tantivy

LONGEST = 64
"""Characters of a run."""
_MEMO = 200_000
"""Words of a language whose term is remembered; all are forgotten when there are more."""

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
"""The closed classes of words, after Snowball's list. (tantivy's list for English is shorter.)"""

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
    """Whether a run has characters of a script that does not put spaces between words."""
    return _HAS_UNSPACED.search(word) is not None


@lru_cache(maxsize=32)
def _stemmer(language: str) -> Any:
    name = STEMMED.get(language)
    if name is None:
        return None
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
    return builder.filter(tantivy.Filter.stemmer(name)).build()


@lru_cache(maxsize=32)
def _stops(language: str) -> Any:
    try:
        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
        return builder.filter(tantivy.Filter.stopword(STEMMED[language])).build()
    except (KeyError, ValueError):  # there is no list for it
        return None


def is_function_word(word: str, language: str) -> bool:
    """Whether a word (the, of, which) says nothing of what a text is about."""
    word = word.lower()
    if language == "en":
        return word in _ENGLISH
    stops = _stops(language)
    return stops is not None and not stops.analyze(word)


class _Memo(dict[str, str]):
    """Lower-case run to its terms, joined by spaces; "" if it has none."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._stemmer = _stemmer(language)

    def __missing__(self, run: str) -> str:
        if is_unspaced(run):
            found = " ".join(self._pieces(run))
        else:
            found = self._term(run)
        if len(run) <= LONGEST:
            if len(self) >= _MEMO:
                self.clear()
            self[run] = found
        return found

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


@lru_cache(maxsize=64)
def _memo(language: str) -> _Memo:
    return _Memo(language)


def base_language(tag: str) -> str:
    """The language of a tag such as `en-GB`; "" if it names none."""
    base = tag.strip().replace("_", "-").split("-")[0].lower()
    return base if 2 <= len(base) <= 3 and base.isascii() and base.isalpha() else ""


def runs_of(text: str) -> list[str]:
    """The runs of letters, digits and marks of a text."""
    return _RUN.findall(text.replace("_", " "))


def terms_of(text: str, language: str) -> str:
    """The terms of a text, joined by single spaces."""
    memo = _memo(language if language in STEMMED else "")
    return " ".join(filter(None, map(memo.__getitem__, runs_of(text.lower()))))


def count_of(terms: str) -> int:
    """How many terms there are in what `terms_of` gave."""
    return terms.count(" ") + 1 if terms else 0
