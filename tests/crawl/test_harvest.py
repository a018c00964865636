"""What a page may cost the record that it becomes."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc

from lycosa.crawl.harvest import MOST_BYTES, Crop, Harvester
from lycosa.crawl.rendering import Rendition
from lycosa.crawl.underway import Underway
from lycosa.fetch.protocol import Response
from lycosa.meters import Meters
from lycosa.page.linking import Linker
from lycosa.page.protocol import Limits, Page
from lycosa.page.registry import Parsers
from lycosa.page.scan import ScanParser
from lycosa.records import LinkKind, Links, Rendered, Timing, Waiting
from lycosa.url.canonical import NO_RULES
from lycosa.url.hrefs import HrefMemo
from lycosa.url.key import Keyer
from lycosa.url.memo import LinkMemo

URL = "http://h.test/"
LIMITS = Limits(repeats=False)


def harvester(parsers: Parsers | None = None, underway: Underway | None = None) -> Harvester:
    keyer, memo = Keyer(7), HrefMemo(1 << 16, NO_RULES, Meters())
    return Harvester(
        archive=None,
        parsers=parsers or Parsers(LIMITS, ScanParser(LIMITS, deferred=True)),
        memo=memo,
        linker=Linker(LinkMemo(1 << 16, keyer), memo, keyer, NO_RULES, LIMITS, Meters()),
        seen_content=lambda digest: False,
        agent="bot",
        underway=underway,
    )


def response(body: bytes, media: str) -> Response:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n\r\n".encode()
    return Response(
        url=URL, status=200, version="HTTP/1.1", request_head=b"", head=head, body=body, decoded=body,
        timing=Timing(), address="127.0.0.1",
    )  # fmt: skip


async def harvested(body: bytes, media: str = "text/html") -> Crop:
    return await harvester().harvest(Waiting(URL, 1), response(body, media), 0)


async def test_a_long_base_does_not_multiply_a_page() -> None:
    links = b"".join(b"<a href=%d>" % row for row in range(20_000))
    head = b"<base href='http://h.test/" + b"x" * 8000 + b"/'>"
    body = head + links
    await harvested(head + links[:200])  # so that no kernel is compiled while memory is counted
    tracemalloc.start()
    try:
        record = (await harvested(body)).record
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert MOST_BYTES / 2 < len(record.links.urls) <= MOST_BYTES + 2048
    assert len(record.links) + record.dropped == 20_000
    assert peak < 8 * MOST_BYTES, f"{peak >> 20} MiB"


async def test_many_links_that_fit_are_all_kept() -> None:
    body = b"".join(b"<a href=/%d>" % row for row in range(15_000)) + b"<a href=/1#again>"
    record = (await harvested(body)).record
    assert len(record.links) == 15_000 and record.dropped == 0


async def test_links_that_the_page_s_limits_leave_out_are_counted() -> None:
    body = b"".join(b"<a href=/%d>" % row for row in range(20_010)) + b"<a href='/" + b"x" * 9000 + b"'>"
    record = (await harvested(body)).record
    assert len(record.links) == 20_000 and record.dropped == 11


class Stuck:
    """A parser that does not come back before it is told to."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.free = threading.Event()

    def parse(self, body: bytes, url: str, media: str, charset: str) -> Page:
        self.entered.release()
        self.free.wait()
        return Page(type=media)


async def test_stuck_readers_leave_the_threads_of_commits_alone() -> None:
    parsers, stuck = Parsers(), Stuck()
    parsers.register("text/html", stuck)
    underway = Underway(None)
    reader = harvester(parsers, underway)
    body = b"<p>" * (1 << 17)
    pages = [
        asyncio.create_task(reader.harvest(Waiting(f"{URL}{row}", row), response(body, "text/html"), 0))
        for row in range(100)
    ]
    await asyncio.to_thread(stuck.entered.acquire)
    pages[0].cancel()
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "committed"), 170) == "committed"
    assert f"{URL}0" in [reading.url for reading in underway.now()], (
        "its thread is at work, whoever waits for it"
    )
    stuck.free.set()
    await asyncio.wait(pages)
    assert sum(not page.cancelled() for page in pages) == 99
    while underway.now():  # noqa: ASYNC110 - of the page that nobody waits for; the test's timeout ends this
        await asyncio.sleep(0.001)
    reader.close()


SHELL = b"<title>sent</title><a href=/sent>x</a><script src=a.js></script>"


async def rendered(html: str, **more: object) -> Crop:
    """What becomes of a page for which a browser shows `html`."""

    async def render(page: Page, links: Links) -> Rendition:
        assert page.title == "sent"
        assert [link.url for link in links if link.kind is LinkKind.ANCHOR] == ["http://h.test/sent"]
        fields = {"base": URL, "moves": (), "parts": [], **more}
        record = Rendered("auto", length=len(html), problem="" if html else "browser: it ended twice")
        return Rendition(record, html.encode(), **fields)  # type: ignore[arg-type]

    return await harvester().harvest(Waiting(URL, 1), response(SHELL, "text/html"), 0, None, render)


async def test_what_the_browser_shows_is_the_page() -> None:
    html = "<title>shown ü</title><a href=/shown>y</a>"
    crop = await rendered(html)
    record = crop.record
    assert (record.title, record.charset, record.length) == ("shown ü", "utf-8", len(SHELL))
    assert [link.url for link in record.links] == ["http://h.test/shown"]
    assert record.digest == (await rendered(html)).record.digest
    assert record.digest != (await harvested(SHELL)).record.digest
    assert crop.response.decoded == html.encode()
    assert crop.response.body == SHELL


async def test_links_of_a_rendered_page_are_relative_to_what_its_scripts_made_its_url() -> None:
    moves = ("http://h.test/deep/here", URL, "javascript:0", "http://h.test/deep/beside")
    record = (await rendered("<a href=beside>y</a>", base="http://h.test/deep/here", moves=moves)).record
    assert [(link.url, link.kind) for link in record.links] == [
        ("http://h.test/deep/beside", LinkKind.ANCHOR),
        ("http://h.test/deep/here", LinkKind.REFRESH),
    ]


async def test_a_page_that_could_not_be_rendered_keeps_what_it_was_sent_with() -> None:
    record = (await rendered("")).record
    plain = (await harvested(SHELL)).record
    assert (record.title, record.links, record.digest) == (plain.title, plain.links, plain.digest)
    assert record.rendered is not None
    assert record.rendered.problem == "browser: it ended twice"
    assert plain.rendered is None
