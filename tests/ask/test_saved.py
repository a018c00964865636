"""Reading a crawl that is saved: the same pages as the crawl gave, with their bodies and texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import lycosa
from lycosa.crawl.pages import FetchedPage
from lycosa.errors import ConfigError
from lycosa.records import Configured, Fetched
from tests.crawl.recorded import OPTIONS, Said, chain, pages, serving


async def crawled(url: str, into: Path) -> list[FetchedPage]:
    return [page async for page in lycosa.crawl([url], into=into, **OPTIONS)]


async def test_saved_pages_are_those_that_were_fetched(tmp_path: Path) -> None:
    with serving(chain(20)) as site:
        live = await crawled(site.url(), tmp_path)
    saved = list(lycosa.open(tmp_path).pages(by_time=True))
    assert sorted(page.url for page in saved) == sorted(page.url for page in live)
    assert [page.at for page in saved] == sorted(page.at for page in saved)
    before = {page.url: page for page in live}
    for page in lycosa.open(str(tmp_path)).pages():
        same = before[page.url]
        assert (page.status, page.depth, page.type, page.title) == (200, same.depth, "text/html", same.title)
        assert (page.body, page.text, page.links) == (same.body, same.text, same.links)
        assert page.record == same.record and repr(page) == repr(same)


async def test_a_body_that_was_not_kept(tmp_path: Path) -> None:
    twice = Said(b"<p>the same words, long enough to be called the same<p><a href=/b>b</a>", 200)
    with serving(pages({"/": twice, "/b": twice})) as site:
        await crawled(site.url(), tmp_path / "kept")
        crawl = lycosa.Crawl(site.url(), into=tmp_path / "bare", archive={"keep": False}, **OPTIONS)
        await crawl.wait()
    first, second = lycosa.open(tmp_path / "kept").pages()
    assert (first.duplicate, second.duplicate) == (False, True)
    assert first.body == second.body == twice.body
    assert {(page.body, page.text) for page in lycosa.open(tmp_path / "bare").pages()} == {(None, None)}


async def test_options_and_records(tmp_path: Path) -> None:
    with serving(chain(3)) as site:
        await crawled(site.url(), tmp_path)
    crawl = lycosa.open(tmp_path)
    assert crawl.directory == tmp_path
    assert crawl.options is not None and not crawl.options.public
    records = [record for _, _, record in crawl.records()]
    assert sum(isinstance(record, Fetched) for record in records) == 3
    assert any(isinstance(record, Configured) for record in records)


def test_what_is_no_crawl(tmp_path: Path) -> None:
    for place, words in (
        (tmp_path, "is not the directory of a crawl"),
        (tmp_path / "nowhere", "not a directory"),
    ):
        with pytest.raises(ConfigError, match=words) as told:
            lycosa.open(place)
        assert "--" not in str(told.value)


RICH = {
    "/": Said(b"<title>All</title><h1>Spiders</h1><a href=/wolf>w</a><a href=/gone>g</a><a href=/data>d</a>"),
    "/wolf": Said(
        "<h1>Wölf</h1><p class=legs>eight".encode("latin-1"),
        headers=(("Content-Type", "text/html; charset=iso-8859-1"), ("X-Kind", "page")),
    ),
    "/data": Said(b"name,legs\nwolf,8\n", headers=(("Content-Type", "text/csv"),)),
}


@pytest.fixture(name="rich", scope="module")
def _rich(tmp_path_factory: pytest.TempPathFactory) -> tuple[lycosa.SavedCrawl, str]:
    """A crawl of four URLs, one of them not there, and where the site was."""
    into = tmp_path_factory.mktemp("rich") / "crawl"
    with serving(pages(RICH)) as site:
        lycosa.Crawl(site.url(), into=into, **OPTIONS).run()
        return lycosa.open(into), site.url("")


def test_a_page_by_its_url(rich: tuple[lycosa.SavedCrawl, str]) -> None:
    crawl, site = rich
    page = crawl.page(site.upper().replace("HTTP", "http") + "/wolf#legs")
    assert page is not None and page.url == f"{site}/wolf"
    assert page.tree.select_one("h1").text == "Wölf" and page.tree.select(".legs")[0].text == "eight"
    assert page.header("x-kind") == "page" and page.head is not None and page.head.startswith(b"HTTP/1.")
    assert [(row.version, row.changed, row.position) for row in page.history] == [(1, False, page.position)]
    assert page.history[0].body == page.body
    assert crawl.page(f"{site}/nowhere") is None and crawl.page("mailto:me") is None
    assert crawl.history("mailto:me") == []


def test_every_filter_leaves_what_it_says(rich: tuple[lycosa.SavedCrawl, str]) -> None:
    crawl, site = rich
    root = crawl.page(site)
    assert root is not None
    at = datetime.fromtimestamp(root.at / 1000, UTC)

    def found(**filters: Any) -> set[str]:
        return {page.url.removeprefix(site) for page in crawl.pages(**filters)}

    everything = {"/", "/wolf", "/gone", "/data"}
    assert found() == everything == {page.url.removeprefix(site) for page in crawl}
    assert found(status=404) == {"/gone"} and found(status=range(200, 300)) == everything - {"/gone"}
    assert found(type="text/csv") == {"/data"} and found(type={"text/csv", "text/html"}, status=200) == {
        "/",
        "/wolf",
        "/data",
    }
    assert found(host="site.test") == everything and found(host=["other.test"]) == set()
    assert found(matching="/(wolf|data)$") == {"/wolf", "/data"}
    assert found(since=at) == everything and found(until=at) == set()
    # An answer may come in the same millisecond as the root's.
    later = {page.url.removeprefix(site) for page in crawl if page.at > root.at}
    assert found(since=root.at + 1, until=at + timedelta(days=1)) == later
    assert found(where=lambda page: b"wolf" in (page.body or b"")) == {"/", "/data"}


def test_filters_that_say_nothing_are_refused(rich: tuple[lycosa.SavedCrawl, str]) -> None:
    crawl, _ = rich
    with pytest.raises(ConfigError, match="not a regular expression"):
        crawl.pages(matching="(")
    with pytest.raises(ConfigError, match="with its zone"):
        crawl.pages(since=datetime(2026, 1, 1))


def test_pages_and_links_as_arrow(rich: tuple[lycosa.SavedCrawl, str]) -> None:
    arrow = pytest.importorskip("pyarrow")
    crawl, site = rich
    reader = crawl.arrow(text=True, body=True, type="text/html", status=200)
    assert isinstance(reader, arrow.RecordBatchReader)
    rows = {row["url"]: row for row in reader.read_all().to_pylist()}
    assert rows.keys() == {f"{site}/", f"{site}/wolf"}
    wolf = crawl.page(f"{site}/wolf")
    assert wolf is not None
    assert (rows[wolf.url]["body"], rows[wolf.url]["text"]) == (wolf.body, wolf.text)
    assert rows[wolf.url]["position"] == wolf.position
    links = crawl.arrow("links").read_all().to_pylist()
    assert {row["target"] for row in links if row["source"] == f"{site}/"} == {
        f"{site}{path}" for path in ("/wolf", "/gone", "/data")
    }
    with pytest.raises(ConfigError, match="belong to pages"):
        crawl.arrow("links", text=True)
    with pytest.raises(ConfigError, match="there are pages and links"):
        crawl.arrow("hosts")
