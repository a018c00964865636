"""Answers over small indexes: fields, filters, folding, snippets, suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lycosa.files import DiskFiles
from lycosa.index.query import parse
from lycosa.index.ranks import RankFile, write_ranks
from lycosa.index.search import Asked, Search
from tests.index.made import page, shards

DAY = 86_400_000
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PAGES = [
    page(1, "The wolf spider hunts on foot and carries her young.", "Wolf spiders", sketch=1 << 40),
    page(2, "A garden spider sits in her web. Spiders have eight legs.", "Garden spiders", host="b.a.test"),
    page(3, "Wolves hunt in packs. The wolf is no spider.", "Wolves", type="application/pdf", at=2 * DAY),
    page(4, "Häuser am Fluss", "Straße", language="de", at=1 * DAY),
    page(5, "東京都に行く", "旅行", language="ja"),
    page(6, "Nothing of that kind.", "Other", anchors=("tarantulas",), type=DOCX),
]


@pytest.fixture(scope="module", params=[1, 3])
def search(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Search:
    return Search(shards(tmp_path_factory.mktemp("index"), PAGES, request.param))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("spider", {1, 2, 3}),
        ("spiders", {1, 2, 3}),
        ('"wolf spider"', {1}),
        ('"wolf spider" -young', set()),
        ('"hunts foot"~1', {1}),
        ('"wolf hunts foot"~1', {1}),
        ('"wolf foot young"~1', set()),
        ("+wolf +garden", set()),
        ("wolf AND hunt", {1, 3}),
        ("wolf OR garden", {1, 2, 3}),
        ("(wolf OR garden) AND web", {2}),
        ("spider -wolf", {2}),
        ("-spider", {4, 5, 6}),
        ("gard*", {2}),
        ("gardan~", {2}),
        ("spider site:b.a.test", {2}),
        ("spider site:a.test", {1, 2, 3}),
        ("site:a.test/nowhere/", set()),
        ("spider (site:b.a.test OR site:nowhere.test)", {2}),
        ("site:b.a.test OR site:nowhere.test", {2}),
        ("lang:(de ja)", {4, 5}),
        ("wolf lang:(de ja)", set()),
        ("intitle:(wolf OR wolves) packs", {1, 3}),
        ("intitle:wolf", {1}),
        ("inurl:b", {2}),
        ("inanchor:tarantula", {6}),
        ("tarantula", {6}),
        ("type:pdf", {3}),
        ("type:application/pdf wolf", {3}),
        ("type:docx", {6}),
        ("type:text", set()),
        ("lang:de", {4}),
        ("hauser", {4}),
        ("HAUS lang:de", {4}),
        ("strasse", {4}),
        ("東京", {5}),
        ("京", {5}),
        ("before:1970-01-02", set()),
        ("before:1970-01-03", {4}),
        ("after:1970-01-03 before:1971", {3}),
        ("", set()),
        ('"', set()),
        ("zzz", set()),
        ("the spider", {1, 2, 3}),
        ("+the spider", {1, 3}),
        ("the", {1, 3}),
        ('"in packs"', {3}),
    ],
)
def test_what_matches(search: Search, query: str, found: set[int]) -> None:
    answer = search.search(query)
    assert {result.id for result in answer.results} == found
    assert answer.total == len(found)
    assert answer.pages == 6


@pytest.mark.parametrize(
    ("query", "notes"),
    [
        ("lang:xx wolf", ("no page has lang:xx; there are en, de, ja",)),
        ("site:nowhere.test", ("no page has site:nowhere.test",)),
        ("lang:de wolf", ()),
        ("-", ("there is no word to search for",)),
        ("OR", ("there is no word to search for",)),
        ("type:", ("type: has no value: write it without a space, like type:word",)),
        ("xyzzy", ()),
    ],
)
def test_why_nothing_was_found(search: Search, query: str, notes: tuple[str, ...]) -> None:
    answer = search.search(query)
    assert answer.notes == notes
    assert not answer.results


def test_the_better_comes_first(search: Search) -> None:
    assert search.search("wolf spider").results[0].id == 1
    scores = [r.score for r in search.search("wolf spider web").results]
    assert scores == sorted(scores, reverse=True)


def test_results_without_words_come_newest_first(search: Search) -> None:
    assert [r.id for r in search.search("site:a.test").results] == [6, 5, 2, 1, 3, 4]


def test_snippets_mark_what_was_asked_for(search: Search) -> None:
    first = search.search("hunting wolves").results[0]
    words = {first.snippet.text[a:b] for a, b in first.snippet.marks}
    assert words == {"Wolves", "hunt"}


def test_a_misspelled_word(search: Search, tmp_path: Path) -> None:
    many = [page(n, f"spiders and other animals {n}") for n in range(30)]
    assert Search(shards(tmp_path, many)).search("spidrs").suggestion == "spiders"
    assert search.search("spider").suggestion == ""
    rooted = [page(n, f"strange plants that rooted here {n}") for n in range(30)]
    near = Search(shards(tmp_path / "rooted", [*rooted, page(50, "strasse")]))
    assert near.search("rotted").suggestion == "rooted"
    assert near.search("strasse").suggestion == ""  # a page has it, and two letters are different
    assert near.search("robots").suggestion == ""  # its stem is near that of the other, the word is not


def test_a_rare_word_that_is_nearly_the_same_among_very_many(tmp_path: Path) -> None:
    many = " ".join(f"sa{number:05d}" for number in range(21_000))
    search = Search(shards(tmp_path, [page(1, many, language="xx"), page(2, "szpider", language="xx")]))
    assert [result.id for result in search.search("szpidre~").results] == [2]


def test_more_like_a_page(search: Search) -> None:
    page = search.page("http://a.test/1")
    assert page is not None
    answer = search.like(page)
    assert answer is not None
    assert {result.id for result in answer.results} == {2, 3}
    assert search.page("http://a.test/99") is None


class MadeClusters:
    """Pages 1 to 3 say nearly the same, and so do 8 and 9."""

    made = 1

    def reload(self) -> None: ...

    def leaders(self, ids: Sequence[int]) -> list[int]:
        return [{1: 1, 2: 1, 3: 1, 8: 9, 9: 9}.get(each, 0) for each in ids]

    def others(self, identity: int) -> int:
        return {1: 2, 2: 2, 3: 2, 8: 1, 9: 1}.get(identity, 0)


def test_pages_of_a_cluster_are_one_result(tmp_path: Path) -> None:
    texts = ["lichens " * (12 - number) + f"word{number} " * 20 for number in range(10)]
    readers = shards(tmp_path, [page(number, texts[number]) for number in (1, 2, 4, 9)])
    clusters = MadeClusters()
    search = Search(readers, clusters=clusters)
    results = search.search("lichens").results
    assert [(row.id, row.alike, row.others) for row in results] == [
        (1, 2, ("http://a.test/2",)),
        (4, 0, ()),
        (9, 1, ()),
    ]
    assert len(search.search("lichens", Asked(fold=False)).results) == 4
    assert [row.id for row in Search(readers).search("lichens").results] == [1, 2, 4, 9]
    # A newer table makes the kept answer old.
    clusters.leaders = lambda ids: [0] * len(ids)  # type: ignore[method-assign]
    assert len(search.search("lichens").results) == 3
    clusters.made = 2
    assert len(search.search("lichens").results) == 4


def test_copies_are_folded(tmp_path: Path) -> None:
    text = "one text about lichens"
    pages = [
        page(1, text, digest=7),
        page(2, text, digest=7, host="b.test"),
        page(3, text, sketch=0b1111, host="c.test"),
        page(4, text + "!", sketch=0b1000, host="d.test"),
        page(5, "", digest=7, host="e.test", copy=True),
    ]
    search = Search(shards(tmp_path, pages, 2))
    answer = search.search("lichens")
    assert [(r.url, set(r.others)) for r in answer.results] == [
        ("http://a.test/1", {"http://b.test/2", "http://e.test/5"}),
        ("http://c.test/3", {"http://d.test/4"}),
    ]
    assert len(search.search("lichens", Asked(fold=False)).results) == 4
    assert len(search.search("lichens", Asked(count=1)).results) == 1
    assert [r.url for r in search.search("lichens", Asked(count=1, skip=1)).results] == ["http://c.test/3"]


def test_at_most_n_of_a_host(tmp_path: Path) -> None:
    pages = [
        page(n, "lichens " * (30 - n) + "moss", host="a.test" if n < 20 else "b.test") for n in range(1, 23)
    ]
    search = Search(shards(tmp_path, pages, 2))
    hosts = [r.host for r in search.search("lichens", Asked(per_host=2)).results]
    assert sorted(hosts) == ["a.test", "a.test", "b.test", "b.test"]


def test_the_rank_counts(tmp_path: Path) -> None:
    readers = shards(tmp_path, [page(n, "lichens") for n in (1, 2, 3)], 2)
    files = DiskFiles(tmp_path)
    write_ranks(files, 1, np.array([3], np.uint64), np.array([0.5], np.float32))
    search = Search(readers, ranks=RankFile(files))
    ranked = search.search("lichens", Asked(rank_weight=1.0)).results
    assert [r.id for r in ranked] == [3, 1, 2]
    assert ranked[0].score == pytest.approx(1.5 * ranked[1].score) and ranked[0].rank == 0.5
    assert [r.id for r in search.search("lichens", Asked(rank_weight=0.0)).results] == [1, 2, 3]


def test_expansion_finds_what_the_query_does_not_name(tmp_path: Path) -> None:
    pages = [page(n, f"lichens grow on bark number {n}") for n in range(5)]
    pages += [page(10 + n, f"unrelated text about cars {n}") for n in range(20)]
    pages.append(page(50, "what else grows on bark"))
    search = Search(shards(tmp_path, pages, 2))
    assert 50 not in {r.id for r in search.search("lichens", Asked(fold=False)).results}
    assert 50 in {r.id for r in search.search("lichens", Asked(expand=True, fold=False, count=20)).results}


def test_expansion_without_common_words(tmp_path: Path) -> None:
    search = Search(shards(tmp_path, [page(1, "lichens"), page(2, "moss"), page(3, "", anchors=("ferns",))]))
    assert [r.id for r in search.search("lichens moss", Asked(expand=True)).results] == [1, 2]
    assert [r.id for r in search.search("ferns", Asked(expand=True)).results] == [3]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(alphabet='wolf spider()"+-~*:AND OR\x00site東', max_size=40) | st.text(max_size=40))
def test_hostile_queries(search: Search, query: str) -> None:
    search.search(query)


def test_a_word_with_several_terms_counts_as_one(tmp_path: Path) -> None:
    """The rare term of a language that leaves the word as it is must not outweigh the word itself."""
    pages = [page(n, f"virtual host number {n} and other hosts of page {n}") for n in range(40)]
    pages.append(page(100, "virtual hosts are hosts, and a host may be virtual", "Virtual hosts"))
    foreign = "de los hosts y del host virtual"
    pages += [page(200 + n, f"{foreign} {n} {'palabra ' * (3 + n)}", language="es") for n in range(4)]
    search = Search(shards(tmp_path, pages, 2))
    broker = search.broker(Asked())
    plan = broker.plan(parse("hosts"))
    body = [clause for clause in plan.scored if clause.field == "body"]
    assert {clause.terms for clause in body} == {("host",), ("hosts",)}
    assert len({broker.statistics.weight(clause) for clause in body}) == 1
    results = search.search("virtual hosts", Asked(fold=False)).results
    assert results[0].id == 100
    assert results[1].language == "en"


def test_a_word_of_a_language_that_few_pages_are_in(tmp_path: Path) -> None:
    pages = [page(n, f"the {'porter' if n < 3 else 'port'} of page {n}") for n in range(120)]
    pages.append(page(200, "Des crèmes brûlées pour les élèves", language="fr"))
    pages.append(page(201, "Библиотеки открыты", language="ru"))
    search = Search(shards(tmp_path, pages, 2))
    for words in ("creme brulee", "élève", '"crème brûlée"', "+brûlées -port"):
        assert [result.id for result in search.search(words).results] == [200]
        assert search.search(words).suggestion == ""
    assert [result.id for result in search.search("библиотека").results] == [201]
    # What pages of the first language have is looked for in it alone: in the other, "porter" is "port".
    assert {result.id for result in search.search("porter", Asked(fold=False)).results} == {0, 1, 2}


def test_function_words_are_those_of_one_language(tmp_path: Path) -> None:
    pages = [page(n, f"how to make a table {n}") for n in range(30)]
    pages += [page(100 + n, f"so wird der tisch zu einem {n}", language="de") for n in range(10)]
    pages += [page(200, "die hard is a film"), page(201, "hard words")]
    broker = Search(shards(tmp_path, pages)).broker(Asked())

    def terms(text: str) -> set[str]:
        return {term for clause in broker.plan(parse(text)).scored for term in clause.terms}

    assert "tabl" in terms("how to make a table")
    assert not terms("how to make a table") & {"how", "to", "a"}
    assert not terms("wie wird der tisch") & {"der"} and "tisch" in terms("wie wird der tisch")
    assert "die" in terms("die hard")  # one such word makes no German of it
