"""A whole crawl of the embedded web, exported as CDXJ and replayed by pywb: bodies come back as they were."""

from __future__ import annotations

import asyncio
from pathlib import Path

import lycosa
from lycosa.archive.reader import read_exchange
from lycosa.ask.reading import CrawlReader
from lycosa.cli.main import main
from lycosa.crawl.pages import FetchedPage
from lycosa.lab.webs import WebOptions, for_this_machine, serving
from tests.archive.replay import wayback
from tests.crawl.served import options

KINDS = ("robots", "redirects", "statuses", "packing", "types", "charsets", "copies")
SMALL = WebOptions(hosts=8, pages=60, kinds=KINDS, retry_after=0, crawl_delay=0.02, failures=1)
MOST = 60
"""Captures that are replayed, of each kind of status and coding some."""


def test_a_crawl_is_replayed(tmp_path: Path) -> None:
    into = tmp_path / "crawl"
    with serving(for_this_machine(SMALL)) as served:
        polite = {"wait": 0.02, "address_wait": 0.0, "factor": 0.0}
        quick = {"politeness": polite, "retry": {"first": 0.1, "growth": 1.0}, "robots": {"first_retry": 0.1}}
        crawl = lycosa.Crawl(served.web.seeds(), into=into, **options(served.web, **quick))

        async def go() -> list[FetchedPage]:
            return [page async for page in crawl]

        pages = asyncio.run(asyncio.wait_for(go(), 240))
    assert main(["export", str(into), "cdxj"]) == 0
    archive = CrawlReader(into).archive_files
    chosen = choose(pages)
    assert {page.status // 100 for page in chosen} >= {2, 3, 4}
    codings = {page.header("content-encoding") for page in chosen}
    assert codings >= {None, "gzip", "br", "zstd"}
    scratch = tmp_path / "pywb"
    scratch.mkdir()
    with wayback(into / "archive", into / "archive" / "index.cdxj", scratch) as server:
        for page in chosen:
            got = server.get(page.url, "2099")
            assert got.status == page.status, page.url
            if page.status // 100 == 3:
                assert got.headers.get("location") == page.header("location"), page.url
                continue
            # pywb undoes the codings it knows for a client that takes none, and passes the others on.
            stored = page.record.stored
            assert stored is not None
            sent = read_exchange(archive, stored).body
            known = page.header("content-encoding") in (None, "gzip", "br", "deflate")
            assert got.body == page.body or (not known and got.body == sent), page.url
        assert server.get(chosen[0].url + "/never/fetched").status == 404


def choose(pages: list[FetchedPage]) -> list[FetchedPage]:
    """Whole captures in sound codings, spread over the crawl; the rarest kinds first."""
    found: dict[tuple[int, str], list[FetchedPage]] = {}
    for page in pages:
        if not page.record.truncated and not page._crop.response.problem:
            kind = (page.status // 100, page.header("content-encoding") or "")
            found.setdefault(kind, []).append(page)
    chosen: list[FetchedPage] = []
    for number, rows in enumerate(sorted(found.values(), key=len)):
        share = max(1, (MOST - len(chosen)) // (len(found) - number))
        chosen += rows[:: max(1, len(rows) // share)][:share]
    return chosen
