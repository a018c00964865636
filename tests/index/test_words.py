"""Terms of texts in many languages."""

from __future__ import annotations

import pytest

from lycosa.index.words import LONGEST, base_language, count_of, fold, terms_of


@pytest.mark.parametrize(
    ("text", "language", "terms"),
    [
        ("The houses' running", "en", "the hous run"),
        ("don't snake_case e-mail", "", "don t snake case e mail"),
        ("Die Häuser der Straße", "de", "die haus der strass"),
        ("études écoles", "fr", "etud ecol"),
        ("études", "", "etudes"),
        ("東京都に行く", "ja", "東京 京都 都に に行 行く"),
        ("第3章 abc", "zh", "第 3 章 abc"),
        ("ＡＢＣ ﬁne", "", "abc fine"),
        ("हिन्दी में", "hi", "हिन्दी में"),
        ("ø Ł æ", "", "o l ae"),
        ("", "en", ""),
        ("— … !", "en", ""),
    ],
)
def test_terms(text: str, language: str, terms: str) -> None:
    assert terms_of(text, language) == terms
    assert count_of(terms_of(text, language)) == len(terms.split())


def test_what_is_too_long_is_no_word() -> None:
    assert terms_of(f"a {'x' * (LONGEST + 1)} b", "en") == "a b"


def test_somebody_without_accents_finds_the_same() -> None:
    assert terms_of("naive cafes", "fr") == terms_of("naïve cafés", "fr")
    assert fold("ÉTÉ") == "ete"


@pytest.mark.parametrize(
    ("tag", "language"), [("en-GB", "en"), ("PT_br", "pt"), ("", ""), ("x", ""), ("<b>", "")]
)
def test_base_language(tag: str, language: str) -> None:
    assert base_language(tag) == language
