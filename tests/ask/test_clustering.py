"""Near duplicates follow the log: pages that change, go, are taken back; rounds, kills, and who asks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lycosa.ask.clustering import Clustering, Round
from lycosa.ask.clusters import DIRECTORY, ClusterReader
from lycosa.ask.explain import as_plain, explain
from lycosa.ask.export import pages
from lycosa.ask.indexing import Indexing
from lycosa.ask.report import make_report
from lycosa.ask.report_html import render
from lycosa.ask.searching import opened
from lycosa.errors import ConfigError
from lycosa.records import Lost
from tests.crawl.made import BEGIN, MadeCrawl


def html(topic: int, changed: int = 0, words: int = 200) -> bytes:
    source = random.Random(topic)
    text = [f"word{source.randrange(9000)}" for _ in range(words)]
    for n in range(changed):
        text[n * 37 % words] = f"other{n}"
    return f"<html><title>t</title><article><p>{' '.join(text)}</p></article></html>".encode()


def look(crawl: MadeCrawl, **options: bool) -> Round:
    with Clustering(crawl.reader(), **options) as clustering:
        return clustering.round()


def groups(crawl: MadeCrawl) -> list[list[str]]:
    found = ClusterReader.of(crawl.reader())
    assert found is not None
    return [[row.representative, *sorted(near.url for near in row.others)] for row in found.largest(100, 100)]


@pytest.fixture
def made(tmp_path: Path) -> MadeCrawl:
    crawl = MadeCrawl(tmp_path)
    crawl.configure()
    for name, changed in (("", 0), ("a", 1), ("b", 2)):
        crawl.fetch(f"http://a.test/{name}", body=html(1, changed), keep=True)
    crawl.fetch("http://b.test/mirror", body=html(1, 3), keep=True)
    crawl.fetch("http://a.test/else", body=html(2), keep=True)
    crawl.fetch("http://a.test/few", body=html(3, words=5), keep=True)
    crawl.fetch("http://a.test/few2", body=html(3, words=5), keep=True)
    return crawl


def first_of(crawl: MadeCrawl) -> str:
    return groups(crawl)[0][0]


def test_near_duplicates_are_found_across_sites_and_a_second_round_does_nothing(made: MadeCrawl) -> None:
    assert ClusterReader.of(made.reader()) is None
    assert look(made).pages == 5
    (group,) = groups(made)
    assert sorted(group) == ["http://a.test/", "http://a.test/a", "http://a.test/b", "http://b.test/mirror"]
    assert look(made).records == 0
    reader = ClusterReader.of(made.reader())
    assert reader is not None
    assert reader.counts()[:2] == (1, 4)
    assert reader.cluster_of("http://a.test/else") is None
    assert reader.representative_of("http://a.test/b") == group[0]
    assert reader.representative_of(group[0]) == group[0]
    assert reader.representative_of("http://a.test/few") is None
    made.fetch("http://c.test/late", body=html(2, 1), keep=True)
    assert look(made).pages == 1
    assert ["http://a.test/else", "http://c.test/late"] in groups(made)


def test_a_page_that_changes_or_goes_is_in_its_cluster_no_more(made: MadeCrawl) -> None:
    look(made)
    made.fetch("http://a.test/a", body=html(2, 1), keep=True)
    made.fetch("http://a.test/b", 404, body=b"gone")
    made.fetch("http://a.test/", 304)
    made.fetch("http://b.test/mirror", 503, body=b"busy")
    done = look(made)
    assert (done.pages, done.removed) == (1, 1)
    assert sorted(map(sorted, groups(made))) == [
        ["http://a.test/", "http://b.test/mirror"],
        ["http://a.test/a", "http://a.test/else"],
    ]


def test_a_fetch_that_is_taken_back_brings_the_version_before_it(made: MadeCrawl) -> None:
    shard, position = made.fetch("http://a.test/else", body=html(1, 2), keep=True)
    look(made)
    assert "http://a.test/else" in groups(made)[0]
    gone = made.pages[shard, position]
    lost = Lost(made.tick(), gone.url, 0, 0, "f", position, 200, gone.size, 0, gone.digest, remains=True)
    made.log(lost, shard)
    look(made)
    assert "http://a.test/else" not in groups(made)[0]
    made.fetch("http://a.test/like-else", body=html(2, 1), keep=True)
    look(made)
    assert sorted(groups(made)[1]) == ["http://a.test/else", "http://a.test/like-else"]


def test_what_a_kill_left_is_done_again(made: MadeCrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    look(made)
    before = groups(made)
    made.fetch("http://a.test/c", body=html(1, 4), keep=True)
    with Clustering(made.reader()) as clustering, monkeypatch.context() as patch:
        patch.setattr(clustering._index, "save", _killed)
        with pytest.raises(KeyboardInterrupt):
            clustering.round()
    assert groups(made) == before
    assert look(made).pages == 1
    assert "http://a.test/c" in groups(made)[0]
    assert len(list((made.directory / DIRECTORY).glob("members-*"))) == 1
    assert look(made, rebuild=True).pages == 6


def test_a_search_shows_one_page_of_a_cluster_and_how_many_are_like_it(made: MadeCrawl) -> None:
    with Indexing(made.reader()) as indexing:
        indexing.round()
    search = opened(made.reader())
    word = html(1).split()[20].decode()  # all of the four have it
    assert all(row.alike == 0 for row in search.search(word).results)
    look(made)
    (row,) = search.search(word).results
    assert row.alike == 3 and len(row.others) == 3
    (alone,) = search.search(html(2).split()[20].decode()).results
    assert alone.alike == 0


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_directory_of_another_crawl_is_refused(made: MadeCrawl, tmp_path: Path) -> None:
    look(made)
    other = MadeCrawl(tmp_path / "other")
    (made.directory / DIRECTORY).rename(other.directory / DIRECTORY)
    with pytest.raises(ConfigError, match="another crawl"):
        Clustering(other.reader())
    with pytest.raises(ConfigError, match="another crawl"):
        ClusterReader.of(other.reader())


def test_explain_report_and_export_know_clusters(made: MadeCrawl) -> None:
    reader = made.reader()
    assert explain(reader, "http://a.test/b").cluster is None
    assert {row["cluster"] for row in pages(reader)} == {None}
    assert make_report(reader, at=BEGIN).clusters.clusters == 0
    look(made)
    reader, first = made.reader(), first_of(made)
    found = explain(reader, "http://a.test/b").cluster
    assert found is not None and found.representative == first and found.pages == 4
    assert as_plain(explain(reader, "http://a.test/b"))["cluster"]["representative"] == first
    exported = {row["url"]: row["cluster"] for row in pages(reader)}
    assert exported["http://b.test/mirror"] == exported["http://a.test/a"] == first
    assert exported["http://a.test/else"] is None
    report = make_report(reader, at=BEGIN)
    assert (report.clusters.clusters, report.clusters.pages) == (1, 4)
    assert report.clusters.largest[0].representative == first
    assert "http://b.test/mirror" in render(report)


def test_rules_about_urls_are_proposed_and_kept_from_round_to_round(made: MadeCrawl) -> None:
    rule = "param:sid@http://c.test/"
    for session in range(3):
        for page in range(3):
            made.fetch(f"http://c.test/{page}?sid={session}", body=html(50 + page), keep=True)
    look(made)
    found = ClusterReader.of(made.reader())
    assert found is not None
    (proposal,) = [row for row in found.proposals if row.rule == rule]
    assert (proposal.agreed, proposal.disagreed) == (6, 0)
    for session in range(3):
        made.fetch(f"http://c.test/9?sid={session}", body=html(60 + session), keep=True)
    look(made)
    assert make_report(made.reader(), at=BEGIN).rules.proposed == [], "two of eight comparisons disagreed"
    for page in range(3, 6):
        for session in range(5):
            made.fetch(f"http://c.test/{page}?sid={session}", body=html(50 + page), keep=True)
    look(made)
    (row,) = make_report(made.reader(), at=BEGIN).rules.proposed
    assert (row.rule, row.agreed, row.disagreed) == (rule, 18, 2), "what disagreed is not forgotten"
