"""The wide web: what its pages say, what it says of itself, and its server."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.ask.reading import CrawlReader
from lycosa.crawl.api import Crawl
from lycosa.errors import ConfigError
from lycosa.lab.webs.wide import LEAST_LINKS, WideOptions, WideServer, WideWeb
from lycosa.page.registry import read_page
from lycosa.records import Fetched
from lycosa.url.canonical import canonicalise

SMALL = WideOptions(pages=700, hosts=6, domains=3, links=60, port=8123)
WEB = WideWeb(SMALL)


@st.composite
def webs(draw: st.DrawFn) -> WideWeb:
    hosts = draw(st.integers(1, 40))
    return WideWeb(
        WideOptions(
            pages=draw(st.integers(hosts, 5000)),
            hosts=hosts,
            domains=draw(st.integers(1, hosts)),
            links=draw(st.integers(LEAST_LINKS, 120)),
            seed=draw(st.sampled_from((1, -5))),
            port=draw(st.sampled_from((80, 8123))),
        )
    )


@given(webs(), st.data())
@settings(max_examples=60, deadline=None)
def test_the_links_in_a_page_are_those_that_it_has(web: WideWeb, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, web.options.pages - 1))
    url = web.url(number)
    place, host = divmod(number, web.options.hosts)
    body = web.page(host, place)
    hrefs = read_page(body, "text/html; charset=utf-8", url).hrefs
    found = [canonicalise(href, url) for href in hrefs]
    links = web.links(number)
    assert found == [web.url(link) for link in links]
    homes = len(links) - web.options.links
    assert homes == 0 or (place == 0 and 0 < homes <= 16)
    assert 1000 < len(body) < 6000 and body.isascii()


@given(webs(), st.data())
@settings(max_examples=60, deadline=None)
def test_urls_and_numbers(web: WideWeb, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, web.options.pages - 1))
    url = web.url(number)
    assert web.number(url) == number
    assert canonicalise(url) == url
    cut = data.draw(st.integers(0, len(url)))
    other = url[:cut] + data.draw(st.sampled_from(("", "0", "/", "x", ":", "?", " "))) + url[cut:]
    at = web.number(other)
    assert at == -1 or web.url(at) == other, "a URL has one form"


@given(st.text(max_size=60))
def test_any_text_may_be_asked_about(text: str) -> None:
    for url in (text, "http://" + text, WEB.origins[2] + text):
        number = WEB.number(url)
        assert number == -1 or WEB.url(number) == url


def test_every_page_is_reached_and_linked_from_several() -> None:
    web = WEB
    linked = Counter(dict.fromkeys(range(web.options.pages), 0))
    for number in range(web.options.pages):
        linked.update(set(web.links(number)) - {number})
    assert len(linked) == web.options.pages
    assert min(linked.values()) >= 10
    reached, todo = {0}, [0]
    while todo:
        new = set(web.links(todo.pop())) - reached
        reached |= new
        todo += new
    assert len(reached) == web.options.pages
    assert len(list(web.urls())) == len(set(web.urls())) == web.options.pages


def test_the_queue_of_a_breadth_first_crawl() -> None:
    web = WideWeb(WideOptions(pages=8_000, port=80))
    queue, seen, peak = [0], {0}, 1
    for taken, number in enumerate(queue, 1):  # which grows as it is read
        new = dict.fromkeys(link for link in web.links(number) if link not in seen)
        seen |= new.keys()
        queue += new
        peak = max(peak, len(queue) - taken)
    assert len(queue) == 8_000
    assert web.peak() == peak > 0.8 * 8_000


def test_the_same_options_give_the_same_web() -> None:
    one, same = WideWeb(SMALL), WideWeb(SMALL)
    other = WideWeb(WideOptions(pages=700, hosts=6, domains=3, links=60, port=8123, seed=2))
    assert [one.page(3, place) for place in range(90)] == [same.page(3, place) for place in range(90)]
    assert one.page(3, 5) != other.page(3, 5) != other.page(2, 5)
    assert one.at(99).number("http://h001.wide001.test:99/0/1") == 7
    assert one.seeds() == ["http://h000.wide000.test:8123/"]
    assert len(one.seeds(every=True)) == 6
    assert len({name.partition(".")[2] for name in one.names}) == 3


def test_a_large_web_takes_no_more_memory_than_a_small_one() -> None:
    WideWeb(SMALL).page(0, 0)  # the words are made once
    tracemalloc.start()
    try:
        web = WideWeb(WideOptions(pages=100_000_000, hosts=1000, port=80))
        web.page(999, 99_999)
        assert web.number(web.url(99_999_999)) == 99_999_999
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_what_a_crawl_fetched_beside_the_truth() -> None:
    web = WEB
    assert web.check(web.urls()).exact
    urls = list(web.urls())
    missing = web.check(urls[:300] + urls[301:])
    assert (missing.fetched, missing.examples, missing.exact) == (699, [urls[300]], False)
    repeated = web.check([*urls, urls[5]])
    assert (repeated.fetched, repeated.repeated, repeated.exact) == (700, 1, False)
    foreign = web.check([*urls, "http://h000.wide000.test:8123/robots.txt"])
    assert (foreign.foreign, foreign.exact) == (1, False)
    assert web.check([]).fetched == 0
    assert len(web.check([]).examples) == 10


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pages": 0}, "pages"),
        ({"pages": 5, "hosts": 6}, "home page"),
        ({"hosts": 0}, "hosts"),
        ({"domains": 257}, "domains"),
        ({"links": 10}, "links"),
        ({"port": 70_000}, "port"),
    ],
)
def test_options(options: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        WideOptions(**options)


# -- the server


async def talk(server: WideServer, *pieces: bytes) -> bytes:
    """What the server says to what comes in these pieces, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.web.options.port)
    answer = b""
    with suppress(ConnectionError):  # it has said its last word while we were still talking
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.001)
    with suppress(ConnectionError):
        while data := await asyncio.wait_for(reader.read(1 << 16), 170):
            answer += data
    writer.close()
    return answer


def request(host: str, path: str, *more: str, method: str = "GET", version: str = "1.1") -> bytes:
    rows = (f"{method} {path} HTTP/{version}", f"Host: {host}", *more, "", "")
    return "\r\n".join(rows).encode()


def one_address(**more: int) -> WideWeb:
    return WideWeb(WideOptions(pages=700, hosts=6, domains=3, single=True, **more))


async def test_pages_over_a_connection_that_is_kept() -> None:
    async with WideServer(one_address()) as server:
        web = server.web
        asked = [(1, 3), (5, 0), (0, 100), (2, 65)]
        text = b"".join(request(web.names[host], web.path(place)) for host, place in asked[:-1])
        text += request(f"{web.names[2]}:{web.options.port}".upper(), web.path(65), "Connection: close")
        whole = await talk(server, text)
        assert server.connections == 1
        rest = whole
        for host, place in asked:
            head, _, rest = rest.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\nDate: ")
            body = web.page(host, place)
            assert f"Content-Length: {len(body)}".encode() in head
            assert rest.startswith(body)
            rest = rest[len(body) :]
        assert rest == b""
        for size in (1, 7, 64):
            pieces = [text[at : at + size] for at in range(0, len(text), size)]
            if size == 1:
                pieces = [bytes([byte]) for byte in text[-120:]]
                pieces.insert(0, text[:-120])
            assert without_date(await talk(server, *pieces)) == without_date(whole)
        assert server.requests == 16


def without_date(answer: bytes) -> list[bytes]:
    return [line for line in answer.split(b"\r\n") if not line.startswith(b"Date:")]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (request("h000.wide000.test", "/robots.txt", version="1.0"), b"200"),
        (request("h000.wide000.test", "/", version="1.0"), b"200"),
        (request("h000.wide000.test", "/0/1?x", version="1.0"), b"404"),
        (request("h000.wide000.test", "/0/0", version="1.0"), b"404"),
        (request("h009.wide000.test", "/", version="1.0"), b"404"),
        (request("other.test", "http://h001.wide001.test/0/2", version="1.0"), b"200"),
        (request("h000.wide000.test", "/", method="POST"), b"405"),
        (request("h000.wide000.test", "/", "Content-Length: 5") + b"GET /", b"400"),
        (request("h000.wide000.test", "/", "transfer-encoding: chunked"), b"400"),
        (b"GET /\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 70_000, b"400"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"400"),
    ],
)
async def test_one_request(text: bytes, status: bytes) -> None:
    async with WideServer(one_address()) as server:
        pieces = [text[at : at + 30_000] for at in range(0, len(text), 30_000)]
        assert (await talk(server, *pieces)).startswith(b"HTTP/1.1 " + status)


@given(st.lists(st.binary(max_size=80), max_size=4))
@settings(max_examples=20, deadline=None)
def test_any_bytes_may_come(pieces: list[bytes]) -> None:
    async def ask() -> None:
        async with WideServer(one_address()) as server:
            await talk(server, *pieces, b"\r\n\r\n", request("h000.wide000.test", "/", version="1.0"))
            fine = await talk(server, request("h000.wide000.test", "/", version="1.0"))
            assert fine.startswith(b"HTTP/1.1 200 OK")

    asyncio.run(ask())


async def test_head_has_no_body() -> None:
    async with WideServer(one_address()) as server:
        answer = await talk(server, request("h003.wide000.test", "/0/9", "Connection: close", method="HEAD"))
        assert answer.endswith(b"\r\n\r\n")
        assert f"Content-Length: {len(server.web.page(3, 9))}\r\n".encode() in answer


async def test_a_client_that_does_not_read_is_not_answered_without_end() -> None:
    async with WideServer(one_address()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.web.options.port, limit=1)
        text = request("h003.wide000.test", "/0/9")
        for _ in range(60):
            writer.write(text * 200)
            await asyncio.sleep(0)
        await asyncio.sleep(0.3)
        answered = server.requests
        assert answered < 12_000, "it read, and buffered, everything"
        body, found = len(server.web.page(3, 9)), 0
        while found < 11_000 * body:
            found += len(await asyncio.wait_for(reader.read(1 << 20), 170))
        assert server.requests > answered
        writer.close()


@pytest.mark.parametrize("memory", [1 << 20, 256 << 20])
async def test_a_crawl_of_it_is_complete(tmp_path: Path, memory: int) -> None:
    async with WideServer(WideWeb(WideOptions(pages=600, hosts=12, domains=4, single=True))) as server:
        web = server.web
        crawl = Crawl(
            web.seeds(),
            into=tmp_path / "crawl",
            shards=4,
            public=False,
            allow=["127.0.0.0/8"],
            scope={"mode": "any"},
            dns={"resolve": [f"{host}:{address}" for host, address in web.resolve().items()]},
            politeness={"wait": 0.0, "factor": 0.0, "address_wait": 0.0, "pages_per_visit": 1000},
            frontier={"memory": memory},
        )
        await crawl.start()
        await crawl.wait()
        records = CrawlReader(tmp_path / "crawl").records()
        found = web.check(record.url for _, _, record in records if isinstance(record, Fetched))
    assert found.exact, found
    assert server.requests == 600 + 12, "one for each page, and a robots.txt for each host"
