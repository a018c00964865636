"""Logs in which pages were fetched many times, read by all who read logs: fetches and pages are told apart."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lycosa.ask import export
from lycosa.ask.explain import explain
from lycosa.ask.report import make_report
from lycosa.ask.report_html import render
from lycosa.ask.saved import SavedCrawl
from lycosa.ask.versions import Versions
from lycosa.cli.main import dispatch
from lycosa.records import NO_LINKS, Before, Fetched, Link, LinkKind, Links, Lost
from tests.crawl.made import MadeCrawl, anchors

A, B, C, GONE = "http://a.test/", "http://a.test/b", "http://c.test/", "http://a.test/gone"


@pytest.fixture(params=["told", "untold"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> MadeCrawl:
    """Four pages and thirteen fetches; readers must not need what records say of themselves (`before`)."""
    crawl = MadeCrawl(tmp_path / "crawl")
    seen: set[str] = set()
    plain = crawl.fetch

    def fetch(url: str, *args: Any, **fields: Any) -> tuple[int, int]:
        if request.param == "told" and url in seen:
            fields["before"] = Before.PAGE
        seen.add(url)
        return plain(url, *args, **fields)

    crawl.configure()
    crawl.seed(A)
    fetch(A, 200, anchors(B, GONE), b"<p>first</p>", keep=True, title="first")
    fetch(B, 200, anchors(C), b"<p>bee</p>", depth=1, keep=True)
    fetch(GONE, 200, anchors(A), b"<p>here</p>", depth=1, keep=True)
    fetch(C, 200, anchors(A), b"<p>sea</p>", depth=2, keep=True, title="sea")
    fetch(A, 200, anchors(B, GONE, C), b"<p>second</p>", keep=True, title="second")
    fetch(GONE, 404, body=b"none", depth=1, keep=True)
    fetch(C, 304, NO_LINKS, depth=2)
    fetch(B, 301, Links.pack([Link(C, LinkKind.REDIRECT, False, "")]), depth=1)
    fetch(B, 200, anchors(A, C), b"<p>bee</p>", depth=1, keep=True)
    fetch(A, 200, anchors(C), b"<p>third</p>", keep=True, title="third")
    fetch(GONE, 404, body=b"none, again", depth=1, keep=True)
    fetch(C, 503, body=b"sorry", depth=2, keep=True)
    fetch(A, 200, anchors(C), b"<p>third</p>", keep=True, title="third")
    crawl.commit()
    return crawl


NOW = {A: (200, "third"), B: (200, ""), C: (200, "sea"), GONE: (404, "")}
LINKS = Counter({(A, C): 1, (B, A): 1, (B, C): 1, (C, A): 1, (None, A): 1})


def test_a_page_is_one_row_and_a_fetch_another(made: MadeCrawl) -> None:
    crawl = made.reader()
    rows = list(export.pages(crawl, text=True))
    assert {row["url"]: (row["status"], row["title"]) for row in rows} == NOW and len(rows) == 4
    assert {row["url"]: row["text"] for row in rows}[A] == "third"
    assert len(list(export.pages(crawl, all_fetches=True))) == 13
    assert Counter((row["source"], row["target"]) for row in export.links(crawl)) == LINKS
    assert Counter((row["source"], row["target"]) for row in export.links(crawl, all_fetches=True))[A, B] == 2


def test_a_program_that_reads_a_crawl(made: MadeCrawl) -> None:
    crawl = SavedCrawl(made.directory)
    for by_time in (False, True):
        pages = list(crawl.pages(by_time=by_time))
        assert {page.url: (page.status, page.title) for page in pages} == NOW and len(pages) == 4
        assert len(list(crawl.pages(by_time=by_time, all_fetches=True))) == 13


def test_the_report_counts_pages_and_fetches(made: MadeCrawl) -> None:
    report = make_report(made.reader(), at=made.at)
    assert (report.pages, report.fetches, report.sites, report.links) == (4, 13, 2, 4)
    assert {row.name: row.pages for row in report.statuses} == {"200": 3, "404": 1}
    assert {row.name: row.pages for row in report.depths} == {"0": 1, "1": 2, "2": 1}
    assert report.bytes == sum(record.size for record in made.pages.values())
    assert sum(row.pages for row in report.timeline) == 13
    assert [(row.site, row.pages, row.errors) for row in report.largest_sites] == [
        ("http://a.test", 3, 1),
        ("http://c.test", 1, 0),
    ]
    assert report.redirects.pages == 0, "that redirect is no more"
    assert (report.broken.urls, report.broken.links) == (1, 0), "nobody links to it any more"
    assert len(report.slowest) == len(report.largest) == 4
    assert "13" in render(report)


def test_a_url_is_explained_with_all_its_fetches(made: MadeCrawl) -> None:
    found = explain(made.reader(), A)
    assert (found.state, found.why) == ("fetched", "status 200, fetched 4 times, changed 2")
    assert [row.title for row in found.fetches] == ["first", "second", "third", "third"]
    assert explain(made.reader(), GONE).why == "status 404, fetched 3 times, changed 1"


def test_verbs(made: MadeCrawl, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    made.close()
    into = str(made.directory)
    assert dispatch(["export", into, "pages"]) == 0
    rows = [msgspec.json.decode(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert {row["url"]: (row["status"], row["title"]) for row in rows} == NOW
    assert dispatch(["export", into, "pages", "--all-fetches"]) == 0
    assert len(capsysbinary.readouterr().out.splitlines()) == 13
    assert dispatch(["export", into, "links", "--all-fetches"]) == 0
    assert (
        len(capsysbinary.readouterr().out.splitlines())
        == sum(len(record.links) for record in made.pages.values()) + 1
    )
    assert dispatch(["export", into, "cdxj", "--to", str(tmp_path / "index.cdxj")]) == 0
    captures = (tmp_path / "index.cdxj").read_bytes().splitlines()
    assert len(captures) == sum(record.stored is not None for record in made.pages.values())
    assert dispatch(["export", into, "cdxj", "--all-fetches"]) == 2
    capsysbinary.readouterr()
    assert dispatch(["report", into]) == 0
    assert b"4 pages (13 fetches) of 2 sites" in capsysbinary.readouterr().out
    assert dispatch(["graph", "build", into]) == 0
    capsysbinary.readouterr()
    assert dispatch(["graph", "out", into, A]) == 0
    assert capsysbinary.readouterr().out.split() == [C.encode()], "the links of the last version"


def test_what_a_loss_takes_back_is_not_current(tmp_path: Path) -> None:
    made = MadeCrawl(tmp_path, shards=1)
    made.configure()
    _, first = made.fetch(A, title="first")
    _, second = made.fetch(A, title="second", before=Before.PAGE)
    _, third = made.fetch(B)
    made.log(Lost(made.tick(), A, 0, 0, "f", second, 200, 1, 0, 0, remains=True), 0)
    made.log(Lost(made.tick(), B, 0, 0, "f", third, 200, 1, 0, 0), 0)
    versions = Versions(made.reader())
    assert [versions.is_current(0, at) for at in (first, second, third)] == [True, False, False]
    assert versions.pages(0) == 1


def test_what_comes_after_the_look_is_of_no_page(tmp_path: Path) -> None:
    made = MadeCrawl(tmp_path, shards=1)
    made.configure()
    made.fetch(A)
    crawl = made.reader()
    versions = Versions(crawl)
    assert versions.pages(0) == 1 and versions.end(0) == 2
    _, later = made.fetch(A, before=Before.PAGE)
    made.commit()
    assert not versions.is_current(0, later) and versions.is_current(0, 1)


def test_an_empty_log(tmp_path: Path) -> None:
    versions = Versions(MadeCrawl(tmp_path, shards=2).reader())
    assert versions.pages(1) == versions.end(1) == 0 and not versions.is_current(1, 0)


def test_many_fetches_against_a_dictionary(tmp_path: Path) -> None:
    source = random.Random(4)
    made = MadeCrawl(tmp_path, shards=2)
    made.configure()
    for _ in range(9_000):
        url = f"http://h{source.randrange(9)}.test/{source.randrange(200)}"
        made.fetch(url, source.choice((200, 304, 404, 503)))
    expected: dict[str, tuple[int, int]] = {}
    for place, record in made.pages.items():
        before = expected.get(record.url)
        if (
            before is None
            or record.status < 304
            or record.status == 404
            or made.pages[before].status in (304, 503)
        ):
            expected[record.url] = place
    crawl = made.reader()
    versions = Versions(crawl)
    found = {
        record.url: (shard, position)
        for shard, position, record in crawl.records()
        if isinstance(record, Fetched) and versions.is_current(shard, position)
    }
    assert found == expected
    assert versions.pages(0) + versions.pages(1) == len(expected)
