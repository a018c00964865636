"""Words typed without accents find those with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.index.accents import respelled
from lycosa.index.search import Search
from lycosa.index.words import terms_of
from tests.index.made import page, shards


@pytest.mark.parametrize(
    ("language", "typed", "written"),
    [
        ("fr", "brulee", "brûlée"),
        ("es", "informacion", "información"),
        ("pt", "informacao", "informação"),
        ("de", "Mueller", "Müller"),
        ("de", "Müller", "Mueller"),
        ("tr", "kadin", "kadın"),
        ("hu", "varos", "város"),
        ("it", "citta", "città"),
    ],
)
def test_the_term_of_the_right_spelling_is_among_those_of_others(
    language: str, typed: str, written: str
) -> None:
    assert terms_of(written, language) in [terms_of(typed, language), *respelled(typed, language)]


@pytest.mark.parametrize(
    ("typed", "language"), [("resume", "en"), ("brulée", "fr"), ("lodz", ""), ("", "fr")]
)
def test_some_words_have_one_spelling(typed: str, language: str) -> None:
    assert respelled(typed, language) == []


@pytest.mark.parametrize("count", [1, 2])
def test_a_search_without_accents(tmp_path: Path, count: int) -> None:
    pages = [
        page(1, "La crème brûlée de la maison", language="fr"),
        page(2, "Une crème et une sauce", language="fr"),
        page(3, "Herr Müller liest", language="de"),
        page(4, "Mr Lodz met Pan Łódź", language="pl"),
    ]
    search = Search(shards(tmp_path, pages, count))

    def found(query: str) -> list[str]:
        return [row.url[-1] for row in search.search(query).results]

    assert found("brulee") == found("brûlée") == ["1"]
    assert found('"creme brulee"') == found('"crème brûlée"') == ["1"]
    assert found("-brulee creme") == ["2"]
    assert found("mueller") == found("muller") == ["3"]
    assert found("łódź") == found("lodz") == ["4"]
    marked = search.search("brulee").results[0].snippet
    assert [marked.text[first:last] for first, last in marked.marks] == ["brûlée"]
    assert search.search("brulee").results[0].score == search.search("brûlée").results[0].score


def test_a_spelling_that_fewer_pages_have_is_not_meant(tmp_path: Path) -> None:
    pages = [page(number, f"brulee {number}", language="fr") for number in range(3)]
    pages += [page(9, "brûlée", language="fr")]
    found = Search(shards(tmp_path, pages)).search("brulee").results
    assert len(found) == 3
