"""Words typed without their accents: the terms that the same word has with them.

Accents are folded after stemming (`words`), and some stemmers know an ending only with its accent: *brûlée*
becomes *brul*, but *brulee* becomes *brule*. So a query's word without accents also stands for the terms of its
spellings with them: each letter among the last `_END` that the language has with an accent may have it, `_MOST` of
them at a time. (Before that no stemmer looks at accents, and folding is enough.) In German ä, ö and ü may also be
written ae, oe and ue, and the other way round.

Nobody knows such a spelling to be a word; the caller keeps those that are in the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from lycosa.index.words import fold, terms_of

_END = 6
_MOST = 2
_NORDIC = "aå oø"
_LETTERS = {
    "da": _NORDIC,
    "de": "aä oö uü",
    "el": "αά εέ ηή ιί οό υύ ωώ",
    "es": "aá eé ií oó uú nñ",
    "fi": "aä oö",
    "fr": "aâà cç eéè iî oô uû",
    "hu": "aá eé ií oóöő uúüű",
    "it": "aà eè iì oò uù",
    "nb": _NORDIC,
    "nl": "eë iï",
    "nn": _NORDIC,
    "no": _NORDIC,
    "pt": "aáãâ cç eéê ií oóõô uú",
    "ro": "aăâ iî sș tț",
    "sv": "aåä oö",
    "tr": "cç gğ iı oö sş uü",
}
"""Letters of languages that have a stemmer, each with its accented forms."""
_WITH = {language: {part[0]: part[1:] for part in letters.split()} for language, letters in _LETTERS.items()}
_UMLAUTS = (("ä", "ae"), ("ö", "oe"), ("ü", "ue"))


def respelled(word: str, language: str) -> list[str]:
    """The terms of other spellings of a word, without its own."""
    if language not in _WITH:
        return []
    word = word.lower()
    own = terms_of(word, language)
    return [term for term in dict.fromkeys(_terms(word, language)) if term and term != own]


def _terms(word: str, language: str) -> Iterator[str]:
    for spelling in _spellings(word, language):
        yield terms_of(spelling, language)


def _spellings(word: str, language: str) -> Iterator[str]:
    if language == "de":
        for one, two in _UMLAUTS:
            yield word.replace(two, one)
            yield word.replace(one, two)
    if fold(word) != word:
        return  # whoever types accents types all of them
    letters = _WITH[language]
    places = [at for at in range(max(0, len(word) - _END), len(word)) if word[at] in letters]
    for count in range(1, _MOST + 1):
        for some in combinations(places, count):
            for forms in product(*(letters[word[at]] for at in some)):
                spelt = list(word)
                for at, form in zip(some, forms, strict=True):
                    spelt[at] = form
                yield "".join(spelt)
