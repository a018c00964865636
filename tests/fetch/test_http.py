"""The HTTP fetcher against real loopback servers that behave."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import resource
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import brotli
import pytest
import trustme
import zstandard

from lycosa.clock import SystemClock
from lycosa.errors import ConfigError, LocalError
from lycosa.fetch.decode import Decoding
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.http import HttpFetcher, password_site
from lycosa.fetch.poller import Poller, SelectorPoller, best_poller
from lycosa.fetch.protocol import Failure, FailureKind, FetchOptions, Kind, Request, Response
from lycosa.meters import Meters

from .servers import answering, read_head, saying, serving

LOCAL = "127.0.0.1"


@contextlib.asynccontextmanager
async def fetching(
    guard: AddressGuard | None = None, poller: Callable[[], Poller] = best_poller, **options: Any
) -> AsyncIterator[HttpFetcher]:
    fetcher = HttpFetcher(FetchOptions(**options), SystemClock(), Meters(), guard, poller)
    try:
        yield fetcher
    finally:
        await fetcher.close()


async def get(fetcher: HttpFetcher, url: str, address: str = LOCAL, **more: Any) -> Response:
    answer = await fetcher.fetch(Request(url, address, **more))
    assert isinstance(answer, Response), answer
    return answer


async def fail(fetcher: HttpFetcher, url: str, address: str = LOCAL, **more: Any) -> Failure:
    answer = await fetcher.fetch(Request(url, address, **more))
    assert isinstance(answer, Failure), answer
    return answer


async def patient(fetcher: HttpFetcher, request: Request) -> Response | Failure:
    """Fetch; and once more if a kept connection turned out to be dead, which libcurl may or may not notice."""
    answer = await fetcher.fetch(request)
    if isinstance(answer, Failure) and answer.kind is FailureKind.STALE:
        answer = await fetcher.fetch(request)
    return answer


# Requests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/", "", "?q=1", "/a/../b/./c", "/%2e%2e/x?y=%20&z#frag", "/a//b;p=1?x?y", "/|{}^`", "/?"],
)
async def test_the_recorded_request_is_the_one_sent(path: str) -> None:
    seen: list[bytes] = []
    async with serving(answering(heads=seen)) as site, fetching(headers=("X-One: 1", "X-None:")) as fetcher:
        answer = await get(fetcher, site.url(path))
        assert answer.request_head == seen[0]
        assert b"\r\nX-One: 1\r\n" in seen[0]
        assert b"\r\nX-None:\r\n" in seen[0]


async def test_every_kind_of_line_is_sent_and_recorded(tmp_path: Path) -> None:
    jar = tmp_path / "cookies.txt"
    jar.write_text(
        "# Netscape HTTP Cookie File\n"
        ".site.test\tTRUE\t/\tFALSE\t0\tall\t1\n"
        "#HttpOnly_site.test\tFALSE\t/deep\tFALSE\t0\tdeep\t2\n"
        "other.test\tFALSE\t/\tFALSE\t0\tother\t3\n"
        "site.test\tFALSE\t/\tTRUE\t0\tsecure\t4\n"
        "site.test\tFALSE\t/\tFALSE\t1\texpired\t5\n"
    )
    seen: list[bytes] = []
    options: dict[str, Any] = {
        "cookie_file": str(jar),
        "cookies": ("a=b",),
        "user_agent": "ours/1 (+https://ours.test)",
        "accept_language": "en",
    }
    async with (
        serving(answering(heads=seen)) as site,
        fetching(auth={site.url("", scheme="http"): "user:p\u00e4ss"}, **options) as fetcher,
    ):
        answer = await get(
            fetcher,
            site.url("/deep/er?x"),
            etag='"abc"',
            modified="Sat, 29 Oct 1994 19:43:31 GMT",
            headers=(("X-Two", "2"),),
        )
        plain = await get(fetcher, site.url("/", host="third.test"))
    assert answer.request_head == seen[0]
    assert plain.request_head == seen[1]
    assert answer.request_head.decode().split("\r\n") == [
        "GET /deep/er?x HTTP/1.1",
        f"Host: site.test:{site.port}",
        "User-Agent: ours/1 (+https://ours.test)",
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "Accept-Language: en",
        "Accept-Encoding: gzip, deflate, br, zstd",
        "Authorization: Basic dXNlcjpww6Rzcw==",
        "Cookie: a=b; deep=2; all=1",
        'If-None-Match: "abc"',
        "If-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT",
        "X-Two: 2",
        "",
        "",
    ]
    assert b"Authorization" not in seen[1]
    assert b"\r\nCookie: a=b\r\n" in seen[1]


async def test_lines_of_one_request_do_not_leak_into_the_next() -> None:
    seen: list[bytes] = []
    async with serving(answering(heads=seen)) as site, fetching() as fetcher:
        await get(fetcher, site.url("/1"), headers=(("X-Secret", "1"),), etag='"e"')
        await get(fetcher, site.url("/2"))
        await get(fetcher, f"http://me:you@site.test:{site.port}/3")
        await get(fetcher, site.url("/4"))
    assert b"X-Secret" in seen[0]
    assert b"X-Secret" not in seen[1] and b"If-None-Match" not in seen[1]
    assert b"Authorization: Basic bWU6eW91\r\n" in seen[2] and b"me:you" not in seen[2]
    assert b"Authorization" not in seen[3]


async def test_secrets_are_for_the_site_and_not_for_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password by its place, and a session's cookie; what was posted does not come again."""
    monkeypatch.setenv("LYCOSA_SECRET_BASIC", "me:you")
    seen: list[bytes] = []
    async with (
        serving(answering(heads=seen)) as site,
        fetching(auth={site.url("", scheme="http"): "env:LYCOSA_SECRET_BASIC"}) as fetcher,
    ):
        posted = await get(fetcher, site.url("/in"), cookie="sid=secret", body=b"")
        plain = await get(fetcher, site.url("/"), cookie="sid=secret")
    for head, answer, first in zip(seen, (posted, plain), (b"POST /in", b"GET /"), strict=True):
        assert head.startswith(first) and answer.request_head.startswith(first)
        assert b"Authorization: Basic bWU6eW91\r\n" in head and b"Cookie: sid=secret\r\n" in head
        assert b"Authorization: ...\r\n" in answer.request_head and b"Cookie: ...\r\n" in answer.request_head
    assert b"Content-Type" not in seen[1]


async def test_operator_lines_replace_ours() -> None:
    seen: list[bytes] = []
    options: dict[str, Any] = {"headers": ("user-agent: mine", "Accept-Encoding: identity"), "accept": ""}
    async with serving(answering(heads=seen)) as site, fetching(**options) as fetcher:
        answer = await get(fetcher, site.url())
    assert answer.request_head == seen[0]
    assert seen[0].lower().count(b"user-agent") == 1
    assert b"Accept:" not in seen[0]
    assert seen[0].count(b"Accept-Encoding: identity") == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://site.test/a\r\nX-Evil: 1",
        "http://site.test/a b",
        "http://site.test/\u00e4",
        "http://site.test/\x00",
        "http:///nohost",
        "http://user@/x",
        "ftp://site.test/",
        "javascript:1",
        "",
        "http://site.test:99999/",
        "http://site.test:port/",
        "http://[::1/",
        "http://a\\b.test/",
    ],
)
async def test_what_cannot_be_sent_is_a_value(url: str) -> None:
    async with fetching() as fetcher:
        failure = await fail(fetcher, url)
    assert failure.kind is FailureKind.REQUEST
    assert not failure.transient


async def test_header_injection_is_impossible() -> None:
    seen: list[bytes] = []
    async with serving(answering(heads=seen)) as site, fetching() as fetcher:
        for bad in (("X", "a\r\nEvil: 1"), ("X\r\nEvil", "1"), ("X", "\x00"), ("Host", "evil"), ("", "x")):
            assert (await fail(fetcher, site.url(), headers=(bad,))).kind is FailureKind.REQUEST
        await get(fetcher, site.url(), etag='"x"\r\nEvil: 1', modified="now\nEvil: 1")
    assert len(seen) == 1
    assert b"Evil" not in seen[0] and b"If-" not in seen[0]


@pytest.mark.parametrize(
    "options",
    [
        {"user_agent": "a\nb"},
        {"headers": ("no colon",)},
        {"headers": ("X: 1\r\nY: 2",)},
        {"headers": ("Host: x",)},
        {"headers": ("Content-Length: 3",)},
        {"cookies": ("novalue",)},
        {"cookies": ("a=b\r\nc",)},
        {"cookie_file": "/no/such/file"},
        {"ca_file": "/no/such/file"},
    ],
)
def test_bad_options_are_the_operators(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        HttpFetcher(FetchOptions(**options), SystemClock(), Meters())
    assert "\n" not in str(caught.value)


# Answers ---------------------------------------------------------------------------------------------------


async def test_an_answer_is_kept_as_sent() -> None:
    head = (
        b"HTTP/1.1 404 Not Here\r\ncontent-TYPE: text/html\r\nX-A:1\r\nx-a:  2 \r\nContent-Length: 3\r\n\r\n"
    )
    async with serving(saying(head + b"abc")) as site, fetching() as fetcher:
        answer = await get(fetcher, site.url())
    assert (answer.status, answer.version) == (404, "HTTP/1.1")
    assert (answer.head, answer.body, answer.decoded) == (head, b"abc", b"abc")
    assert answer.header("Content-Type") == "text/html"
    assert answer.header("nothing") is None
    assert answer.headers("X-A") == ["1", "2"]
    assert (answer.truncated, answer.problem, answer.address) == ("", "", LOCAL)
    assert answer.timing.total >= answer.timing.first_byte >= answer.timing.connect >= 0


async def test_chunks_are_joined_and_trailers_left_out() -> None:
    data = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
        b"4\r\nWiki\r\n6;ext=1\r\npedia \r\n0\r\nX-T: 1\r\nHTTP/1.1: Evil\r\n\r\n"
    )
    async with serving(saying(data, chunk=7)) as site, fetching() as fetcher:
        answer = await get(fetcher, site.url())
    assert answer.body == b"Wikipedia "
    assert answer.head.endswith(b"Trailer: X-T\r\n\r\n")
    assert answer.truncated == ""


async def test_informational_answers_are_passed_over() -> None:
    data = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    )
    async with serving(saying(data)) as site, fetching() as fetcher:
        answer = await get(fetcher, site.url())
    assert (answer.status, answer.body) == (200, b"ok")
    assert answer.head == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    async with serving(saying(b"HTTP/1.0 200 OK\r\n\r\nall of it")) as site, fetching() as fetcher:
        answer = await get(fetcher, site.url())
    assert (answer.version, answer.body, answer.truncated) == ("HTTP/1.0", b"all of it", "")


async def test_bare_line_feeds_are_written_out_in_full() -> None:
    async with serving(saying(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok")) as site, fetching() as fetcher:
        answer = await get(fetcher, site.url())
    assert answer.head == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    assert answer.header("content-length") == "2"


@pytest.mark.parametrize(
    ("coding", "coded"),
    [
        (b"gzip", gzip.compress(b"page" * 1000, mtime=0)),
        (b"br", brotli.compress(b"page" * 1000)),
        (b"zstd", zstandard.compress(b"page" * 1000)),
        (b"gzip, br", brotli.compress(gzip.compress(b"page" * 1000, mtime=0))),
    ],
)
async def test_the_body_stays_coded_and_comes_decoded(coding: bytes, coded: bytes) -> None:
    handler = answering(body=coded, extra=b"Content-Encoding: %s\r\n" % coding)
    async with serving(handler) as site, fetching() as fetcher:
        answer = await get(fetcher, site.url())
    assert answer.body == coded
    assert (answer.decoded, answer.problem) == (b"page" * 1000, "")


async def test_a_large_body_is_decoded_without_holding_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    coded = gzip.compress(bytes(48 << 20), 1)
    handler = answering(body=coded, extra=b"Content-Encoding: gzip\r\n")
    here = threading.get_ident()
    on_the_loop: list[int] = []
    elsewhere: list[int] = []
    advance = Decoding.advance

    def noted(self: Decoding, most: int) -> bool:
        (on_the_loop if threading.get_ident() == here else elsewhere).append(most)
        return advance(self, most)

    monkeypatch.setattr(Decoding, "advance", noted)
    async with serving(handler) as site, fetching(max_decoded_bytes=64 << 20) as fetcher:
        answer = await get(fetcher, site.url())
    assert len(answer.decoded) == 48 << 20
    assert on_the_loop == [1 << 20], "the loop makes a small part itself ..."
    assert len(elsewhere) == 1, "... and a thread the rest"


async def test_redirects_are_not_followed() -> None:
    data = b"HTTP/1.1 301 Moved\r\nLocation: http://169.254.169.254/latest/\r\nContent-Length: 0\r\n\r\n"
    async with serving(saying(data)) as site, fetching() as fetcher:
        answer = await get(fetcher, site.url())
    assert (answer.status, answer.location) == (301, "http://169.254.169.254/latest/")
    assert site.connections == 1


async def test_location_counts_on_a_redirect_only() -> None:
    data = b"HTTP/1.1 200 OK\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"
    async with serving(saying(data)) as site, fetching() as fetcher:
        assert (await get(fetcher, site.url())).location is None


async def test_retry_after_and_not_modified() -> None:
    data = b"HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n"
    async with serving(saying(data)) as site, fetching() as fetcher:
        assert (await get(fetcher, site.url())).retry_after == 120.0
    async with serving(saying(b'HTTP/1.1 304 Same\r\nETag: "x"\r\n\r\n')) as site, fetching() as fetcher:
        answer = await get(fetcher, site.url(), etag='"x"')
    assert (answer.status, answer.body, answer.retry_after) == (304, b"", None)


# Connections -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("poller", [best_poller, SelectorPoller])
async def test_connections_are_kept(poller: Callable[[], Poller]) -> None:
    async with serving(answering()) as site, fetching(poller=poller) as fetcher:
        for number in range(5):
            await get(fetcher, site.url(f"/{number}"))
        assert site.connections == 1


async def test_the_address_is_the_one_that_was_asked_for_even_on_kept_connections() -> None:
    async with (
        serving(answering(body=b"one")) as one,
        serving(answering(body=b"two"), host="127.0.0.2", port=one.port),
        fetching() as fetcher,
    ):
        for address, body in (("127.0.0.1", b"one"), ("127.0.0.2", b"two")) * 3:
            answer = await get(fetcher, one.url(), address)
            assert (answer.body, answer.address) == (body, address)


async def test_many_names_and_addresses_at_once_never_mix() -> None:
    hosts = [f"127.0.1.{n}" for n in range(1, 9)]
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(serving(answering(body=hosts[0].encode()), host=hosts[0]))
        for host in hosts[1:]:
            await stack.enter_async_context(
                serving(answering(body=host.encode()), host=host, port=first.port)
            )
        fetcher = await stack.enter_async_context(fetching(connections=20))

        async def ask(number: int) -> None:
            address = hosts[number * 7 % len(hosts)]
            answer = await get(fetcher, first.url(host=f"name{number % 3}.test"), address)
            assert (answer.body.decode(), answer.address) == (address, address)

        await asyncio.gather(*map(ask, range(300)))


async def test_the_guard_is_asked_again_when_a_socket_opens() -> None:
    async with serving(answering()) as site:
        async with fetching(guard=AddressGuard()) as fetcher:
            failure = await fail(fetcher, site.url())
        assert failure.kind is FailureKind.REFUSED_ADDRESS
        assert "loopback" in failure.detail
        assert not failure.transient
        assert site.connections == 0
        async with fetching(guard=AddressGuard(["127.0.0.0/8"])) as fetcher:
            await get(fetcher, site.url())


async def test_an_address_in_the_url_does_not_bypass_the_pin() -> None:
    async with (
        serving(answering(body=b"one")) as one,
        serving(answering(body=b"two"), host="127.0.0.2", port=one.port),
        fetching() as fetcher,
    ):
        answer = await get(fetcher, one.url(host="127.0.0.2"), "127.0.0.1")
        assert (answer.body, answer.address) == (b"one", "127.0.0.1")


async def test_without_an_address_nothing_is_asked() -> None:
    async with serving(answering()) as site, fetching() as fetcher:
        assert (await fail(fetcher, site.url(), "")).kind is FailureKind.REFUSED_ADDRESS
        assert site.connections == 0


async def test_a_thousand_in_flight() -> None:
    many = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4 * many:  # both ends are in this process
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * many), hard))
    gate = asyncio.Event()
    waiting = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal waiting
        await read_head(reader)
        waiting += 1
        if waiting == many:
            gate.set()
        await gate.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with serving(handler) as site, fetching(connections=many) as fetcher:
        answers = await asyncio.gather(
            *(get(fetcher, site.url(host=f"h{number}.test")) for number in range(many))
        )
    assert len(answers) == many
    assert site.connections == many


async def test_no_more_transfers_than_allowed_and_first_come_first_served() -> None:
    now = most = 0
    order: list[bytes] = []
    three = asyncio.Barrier(3)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        head = await read_head(reader)
        order.append(head.split()[1])
        now += 1
        most = max(most, now)
        await three.wait()
        now -= 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    async with serving(handler) as site, fetching(connections=3) as fetcher:
        await asyncio.gather(*(get(fetcher, site.url(f"/{n}", host=f"h{n}.test")) for n in range(12)))
    assert most == 3
    assert sorted(order[:3]) == [b"/0", b"/1", b"/2"]
    assert sorted(order[-3:]) == [b"/10", b"/11", b"/9"]


async def test_cancelling_frees_the_handle_and_the_connection() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (await read_head(reader)).startswith(b"GET /slow"):
            asked.set()
            await reader.read()
            closed.set()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with serving(handler) as site, fetching(connections=1) as fetcher:
        slow = asyncio.ensure_future(fetcher.fetch(Request(site.url("/slow"), LOCAL)))
        queued = asyncio.ensure_future(fetcher.fetch(Request(site.url("/queued"), LOCAL)))
        await asked.wait()
        queued.cancel()
        slow.cancel()
        await asyncio.gather(slow, queued, return_exceptions=True)
        await closed.wait()
        assert (await get(fetcher, site.url("/fast"))).body == b"ok"


async def test_closing_ends_what_is_in_flight() -> None:
    asked = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        asked.set()
        await reader.read()

    async with serving(handler) as site, fetching(connections=1) as fetcher:
        fetches = [asyncio.ensure_future(fetcher.fetch(Request(site.url(), LOCAL))) for _ in range(2)]
        await asked.wait()
        await fetcher.close()
        first, second = await asyncio.gather(*fetches, return_exceptions=True)
        assert isinstance(first, Failure) and first.kind is FailureKind.LOCAL
        assert isinstance(second, LocalError)
        with pytest.raises(LocalError):
            await fetcher.fetch(Request(site.url(), LOCAL))


def inheritable() -> set[int]:
    found = set()
    for fd in range(3, 1024):
        with contextlib.suppress(OSError):
            if os.get_inheritable(fd):
                found.add(fd)
    return found


async def test_child_processes_inherit_no_connection() -> None:
    async with serving(answering()) as site, fetching() as fetcher:
        before = inheritable()
        await asyncio.gather(*(get(fetcher, site.url(host=f"h{n}.test")) for n in range(5)))
        assert inheritable() == before


async def test_a_kept_connection_that_died_is_replaced() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with serving(handler) as site, fetching() as fetcher:
        for _ in range(3):
            answer = await patient(fetcher, Request(site.url(), LOCAL))
            assert isinstance(answer, Response) and answer.body == b"ok"
            await asyncio.sleep(0.02)
        assert site.connections == 3


async def test_connections_that_were_let_go_are_ended_and_never_used_again() -> None:
    """libcurl looks for dead connections once a second only: here it has no time to."""
    async with serving(answering()) as site, fetching() as fetcher:
        for visit in range(1, 6):
            assert not (await get(fetcher, site.url())).closed
            assert not (await get(fetcher, site.url(), reuse=True)).closed
            assert site.connections == visit
            fetcher.let_go("site.test")
            if visit % 2:
                failure = await fail(fetcher, site.url(), reuse=True)
                assert failure.kind is FailureKind.STALE, "it may not open another"
            await get(fetcher, site.url("/", "other.test"))
            fetcher.let_go("other.test")
            site.connections -= 1


@pytest.mark.parametrize("turns", [0, 1], ids=["before the connection", "before the request"])
async def test_a_request_whose_time_is_over_is_not_sent(turns: int) -> None:
    """Whoever was stopped between deciding to ask and asking must not ask on waking."""
    heads: list[bytes] = []
    answers = iter([True] * turns + [False])
    async with serving(answering(heads=heads)) as site, fetching() as fetcher:
        failed = await fail(fetcher, site.url("/a"), may_send=lambda: next(answers))
        assert failed.kind is FailureKind.LATE
        assert (await get(fetcher, site.url("/b"), may_send=lambda: True)).status == 200
        assert site.connections == turns + 1
    assert [head.split()[1] for head in heads] == [b"/b"]


async def test_the_bandwidth_cap_holds() -> None:
    async with serving(answering(body=bytes(40_000))) as site, fetching(bandwidth=100_000) as fetcher:
        start = time.perf_counter()
        for _ in range(6):
            await get(fetcher, site.url())
        # 240 kB at 100 kB/s, of which one second's worth may come at once.
        assert time.perf_counter() - start > 0.9


async def test_meters_count() -> None:
    meters = Meters()
    fetcher = HttpFetcher(FetchOptions(), SystemClock(), meters)
    async with serving(answering(body=b"12345")) as site:
        await get(fetcher, site.url())
        await get(fetcher, site.url())
    await fail(fetcher, site.url())
    await fetcher.close()
    values = meters.read()
    assert values["http.requests"] == 3
    assert values["http.bytes"] == 10
    assert values["http.failures"] == 1
    assert values["http.in_flight"] == 0


# TLS -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


def server_tls(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


async def test_tls_checks_the_name_not_the_address(authority: trustme.CA, ca_file: str) -> None:
    context = server_tls(authority, "site.test")
    async with serving(answering(body=b"safe"), tls=context) as site, fetching(ca_file=ca_file) as fetcher:
        answer = await get(fetcher, site.url(scheme="https"))
        assert (answer.body, answer.version) == (b"safe", "HTTP/1.1")
        failure = await fail(fetcher, site.url(scheme="https", host="other.test"))
        assert (failure.kind, failure.transient) == (FailureKind.TLS, False)


async def test_a_password_goes_to_its_site_over_https_unless_told(
    authority: trustme.CA, ca_file: str
) -> None:
    seen: list[bytes] = []
    context = server_tls(authority, "site.test", "other.test")

    async def sent(url: str, passwords: dict[str, str]) -> bool:
        async with fetching(auth=passwords, ca_file=ca_file) as fetcher:
            await get(fetcher, url)
        return b"\r\nAuthorization: Basic " in seen.pop()

    async with (
        serving(answering(heads=seen)) as plain,
        serving(answering(heads=seen), tls=context) as safe,
    ):
        https = safe.url(scheme="https")
        assert await sent(https, {f"site.test:{safe.port}": "me:secret"})
        assert await sent(https, {f"https://SITE.test:{safe.port}": "me:secret"})
        assert not await sent(https, {"site.test": "me:secret"}), "that is port 443"
        assert not await sent(https, {f"other.test:{safe.port}": "me:secret"})
        assert not await sent(
            safe.url(host="other.test", scheme="https"), {f"site.test:{safe.port}": "me:you"}
        )
        everything = {
            "site.test": "me:secret",
            f"site.test:{plain.port}": "me:secret",
            "http://site.test": "a:b",
        }
        assert not await sent(plain.url(), everything), "nothing says http and this port"
        assert await sent(plain.url(), {f"http://site.test:{plain.port}": "me:secret"})
        assert not await sent(plain.url(host="other.test"), {f"http://site.test:{plain.port}": "me:secret"})


def test_where_a_password_goes() -> None:
    assert password_site("a.test") == password_site("https://a.test:443") == "https://a.test"
    assert password_site("A.test:8443") == "https://a.test:8443"
    assert password_site("http://a.test:80") == "http://a.test"
    assert password_site("[2001:db8::1]:8443") == "https://[2001:db8::1]:8443"
    for text in (
        "",
        "a.test/path",
        "ftp://a.test",
        "you@a.test",
        "a b",
        "https://",
        "file://a.test",
        "a.test?x",
        "/a.test",
    ):
        with pytest.raises(ConfigError, match="not a site that a password is for"):
            password_site(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("garbage", "line 1 of .* is not a cookie: in Netscape's format"),
        ("# Netscape HTTP Cookie File\n\n[{}]\nmore\n", "line 3 of .* is not a cookie"),
        ("a.test FALSE / FALSE 0 name value\n", "line 1 .* with tabs between"),
        ("", "has no cookie: in"),
        ("# Netscape HTTP Cookie File\n", "has no cookie: in"),
    ],
)
def test_a_cookie_file_without_a_cookie_is_the_operators(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "cookies.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said) as raised:
        HttpFetcher(FetchOptions(cookie_file=str(path)), SystemClock(), Meters())
    assert "\n" not in str(raised.value)


async def test_an_unknown_authority_is_refused_unless_told(authority: trustme.CA) -> None:
    context = server_tls(authority, "site.test")
    async with serving(answering(), tls=context) as site:
        async with fetching() as fetcher:
            assert (await fail(fetcher, site.url(scheme="https"))).kind is FailureKind.TLS
        async with fetching(verify_tls=False) as fetcher:
            assert (await get(fetcher, site.url(scheme="https"))).body == b"ok"


async def test_tls_sessions_are_resumed(authority: trustme.CA, ca_file: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    context = server_tls(authority, "site.test")
    async with serving(handler, tls=context) as site, fetching(ca_file=ca_file) as fetcher:
        for _ in range(4):
            await get(fetcher, site.url(scheme="https"))
    assert site.resumed[0] is False
    assert any(site.resumed[1:])


async def test_certificates_are_read_once(authority: trustme.CA, ca_file: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    context = server_tls(authority, "one.test", "two.test")
    async with serving(handler, tls=context) as site, fetching(ca_file=ca_file) as fetcher:
        await get(fetcher, site.url(host="one.test", scheme="https"))
        await asyncio.to_thread(Path(ca_file).unlink)
        await get(fetcher, site.url(host="two.test", scheme="https"))  # a full handshake: another name
    assert site.resumed == [False, False]


async def test_a_server_that_does_not_speak_tls(ca_file: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serving(handler) as site, fetching(ca_file=ca_file) as fetcher:
        assert (await fail(fetcher, site.url(scheme="https"))).kind is FailureKind.TLS


@pytest.mark.parametrize("farewell", [True, False])
async def test_a_tls_body_that_ends_with_the_connection(
    authority: trustme.CA, ca_file: str, farewell: bool
) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        await writer.drain()
        if not farewell:
            await asyncio.sleep(0.05)
            writer.transport.abort()

    context = server_tls(authority, "site.test")
    async with serving(handler, tls=context) as site, fetching(ca_file=ca_file) as fetcher:
        answer = await get(fetcher, site.url(scheme="https"))
    assert (answer.body, answer.truncated) == (b"all of it", "")


# Proxies ---------------------------------------------------------------------------------------------------


async def test_through_a_proxy_no_address_is_needed() -> None:
    seen: list[bytes] = []
    async with (
        serving(answering(heads=seen, body=b"proxied")) as proxy,
        fetching(proxy=f"http://127.0.0.1:{proxy.port}", guard=AddressGuard()) as fetcher,
    ):
        assert not fetcher.needs_address
        answer = await get(fetcher, "http://far.test/x", "")
    assert answer.body == b"proxied"
    assert seen[0].startswith(b"GET http://far.test/x HTTP/1.1\r\nHost: far.test\r\n")


async def test_of_several_proxies_each_host_has_its_own() -> None:
    async with (
        serving(answering(body=b"one")) as one,
        serving(answering(body=b"two")) as two,
        fetching(proxy=f"http://127.0.0.1:{one.port} http://127.0.0.1:{two.port}") as fetcher,
    ):
        assert not fetcher.needs_address
        hosts = [f"host{number}.test" for number in range(12)]
        found = [(await get(fetcher, f"http://{host}/", "")).body for host in hosts]
        assert set(found) == {b"one", b"two"}, "both are used"
        again = [(await get(fetcher, f"http://{host}:81/x", "")).body for host in hosts]
    assert again == found, "a host is always asked through the same one"


async def test_a_tunnel_through_a_proxy(authority: trustme.CA, ca_file: str) -> None:
    context = server_tls(authority, "site.test")
    async with serving(answering(body=b"tunnelled"), tls=context) as site:

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert (await read_head(reader)).startswith(b"CONNECT site.test:")
            far_reader, far_writer = await asyncio.open_connection(LOCAL, site.port)
            writer.write(b"HTTP/1.1 200 Connection established\r\nX-Proxy: 1\r\n\r\n")

            async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                while data := await source.read(65536):
                    sink.write(data)
                sink.close()

            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)

        async with serving(handler) as proxy:
            options: dict[str, Any] = {"proxy": f"http://127.0.0.1:{proxy.port}", "ca_file": ca_file}
            async with fetching(**options) as fetcher:
                answer = await get(fetcher, site.url(scheme="https"), "")
    assert answer.body == b"tunnelled"
    assert answer.head.startswith(b"HTTP/1.1 200 OK\r\n") and b"X-Proxy" not in answer.head


async def test_a_proxy_that_refuses_is_no_answer_of_the_site() -> None:
    refusal = b"HTTP/1.1 407 Who\r\nContent-Length: 2\r\n\r\nno"
    async with (
        serving(saying(refusal)) as proxy,
        fetching(proxy=f"http://127.0.0.1:{proxy.port}") as fetcher,
    ):
        assert (await fail(fetcher, "https://far.test/", "")).kind is FailureKind.PROXY
    async with fetching(proxy=f"http://127.0.0.1:{proxy.port}") as fetcher:
        assert (await fail(fetcher, "http://far.test/", "")).kind is FailureKind.PROXY


async def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with serving(answering()) as site, fetching() as fetcher:
        assert (await get(fetcher, site.url())).status == 200


async def test_robots_files_have_their_own_limit() -> None:
    async with serving(answering(body=bytes(600_000))) as site, fetching() as fetcher:
        page = await get(fetcher, site.url())
        robots = await get(fetcher, site.url("/robots.txt"), kind=Kind.ROBOTS)
    assert (len(page.body), page.truncated) == (600_000, "")
    assert (len(robots.body), len(robots.decoded), robots.truncated) == (512_000, 512_000, "length")
