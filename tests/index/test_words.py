"""Terms of texts in many languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch

from lycosa.index import words as module
from lycosa.index.words import LONGEST, base_language, counted_terms, fold, terms_of


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
    assert counted_terms(text, language) == (terms, len(terms.split()))


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


_WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["Straße", "don’t", "naïve", "über", "x" * 64, "x" * 65, "é" * 32, "é" * 33, "漢字", "Σίσυφος", "İ_i"]
    ),
)


@given(st.lists(_WORDS, min_size=1, max_size=30), st.sampled_from(["en", "de", "el", "", "zh"]))
def test_the_kernel_of_long_texts_finds_what_is_found_word_by_word(words: list[str], language: str) -> None:
    text = " -".join(words)
    known = language if language in module.STEMMED else ""
    found = module._Table(known).terms(text)
    plain = module.plain_terms(text, known)
    assert found is None or found == (plain, len(plain.split()))


def test_most_texts_are_ones_for_the_kernel_and_the_table_grows_and_begins_anew(
    monkeypatch: MonkeyPatch,
) -> None:
    table = module._Table("en")
    monkeypatch.setattr(module, "_MEMO", 9_000)
    for first in range(0, 20_000, 4_000):
        text = " ".join(f"Running{number} naïve–CAFÉ" for number in range(first, first + 6_000))
        found = table.terms(text)
        assert found is not None
        assert found[0] == module.plain_terms(text, "en")
        assert table._count <= 9_000
    assert module.terms_of("Running " * 100, "en") == " ".join(["run"] * 100)
