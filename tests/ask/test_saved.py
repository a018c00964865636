"""Reading a crawl that is saved: the same pages as the crawl gave, with their bodies and texts."""

from __future__ import annotations

from pathlib import Path

import pytest

import lycosa
from lycosa.crawl.api import FetchedPage
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
    for place, words in ((tmp_path, "holds no crawl"), (tmp_path / "nowhere", "not a directory")):
        with pytest.raises(ConfigError, match=words) as told:
            lycosa.open(place)
        assert "--" not in str(told.value)
