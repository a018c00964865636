"""The HTTP fetcher against servers that lie, stall, flood and break off: values, within limits, in time."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lycosa.fetch.http import HttpFetcher
from lycosa.fetch.protocol import Failure, FailureKind, Request, Response

from .servers import Handler, Site, read_head, saying, serving, until
from .test_http import LOCAL, fail, fetching, get


def endless(head: bytes, piece: bytes, gap: float = 0.0) -> Handler:
    """The head, then `piece` for ever."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(gap)

    return handler


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_no_first_byte() -> None:
    async with serving(silent) as site, fetching(first_byte_timeout=0.2) as fetcher:
        failures = await asyncio.gather(*(fail(fetcher, site.url(host=f"h{n}.test")) for n in range(20)))
    assert {failure.kind for failure in failures} == {FailureKind.TIMEOUT}
    assert all(failure.transient and "first byte" in failure.detail for failure in failures)
    assert all(failure.timing.total >= 190 for failure in failures)


async def test_a_slow_transfer_outlives_the_first_byte_limit() -> None:
    go_on = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n")
        await go_on.wait()
        writer.write(b"Content-Length: 10\r\n\r\n0123456789")

    async with serving(handler) as site, fetching(first_byte_timeout=600) as fetcher:
        asking = asyncio.ensure_future(get(fetcher, site.url()))
        transfers = fetcher._transfers
        await until(lambda: any(transfer.lines for transfer in transfers._active.values()))
        for transfer in transfers._active.values():
            transfer.started -= 601  # the limit has passed
        transfers._on_watch()
        assert transfers._watch_timer is None and transfers.in_flight == 1
        go_on.set()
        assert (await asking).body == b"0123456789"


async def test_a_head_that_trickles_ends_at_the_total_limit() -> None:
    handler = endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", 0.02)
    async with serving(handler) as site, fetching(total_timeout=0.4) as fetcher:
        failure = await fail(fetcher, site.url())
    assert (failure.kind, failure.transient) == (FailureKind.TIMEOUT, True)


async def test_an_endless_head_ends_at_its_limit() -> None:
    handler = endless(b"HTTP/1.1 200 OK\r\n", b"X-Header: " + b"v" * 80 + b"\r\n")
    async with serving(handler) as site, fetching(max_header_bytes=8192) as fetcher:
        failure = await fail(fetcher, site.url())
    assert (failure.kind, failure.transient) == (FailureKind.HEADER_TOO_LARGE, False)
    assert "8192" in failure.detail


async def test_one_endless_header_line() -> None:
    async with serving(endless(b"HTTP/1.1 200 OK\r\nX: ", b"v" * 4096)) as site, fetching() as fetcher:
        assert (await fail(fetcher, site.url())).kind is FailureKind.HEADER_TOO_LARGE


async def test_endless_informational_answers() -> None:
    handler = endless(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    async with serving(handler) as site, fetching(max_header_bytes=8192) as fetcher:
        assert (await fail(fetcher, site.url())).kind is FailureKind.HEADER_TOO_LARGE


async def test_endless_trailers_end_with_the_lines_that_libcurl_takes() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
    async with serving(endless(head, b"X-Trailer: y\r\n" * 100)) as site, fetching() as fetcher:
        answer = await get(fetcher, site.url())
    assert (answer.body, answer.truncated) == (b"ok", "disconnect")


async def test_the_header_limit_is_exact() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    async with serving(saying(head + b"ok")) as site:
        async with fetching(max_header_bytes=len(head)) as fetcher:
            assert (await get(fetcher, site.url())).body == b"ok"
        async with fetching(max_header_bytes=len(head) - 1) as fetcher:
            assert (await fail(fetcher, site.url())).kind is FailureKind.HEADER_TOO_LARGE


@pytest.mark.parametrize("head", [b"", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 99999999999\r\n"])
async def test_an_endless_body_is_kept_up_to_the_limit(head: bytes) -> None:
    piece = b"x" * 4096
    if b"chunked" in head:
        piece = b"1000\r\n" + piece + b"\r\n"
    async with (
        serving(endless(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n", piece)) as site,
        fetching(max_body_bytes=100_000) as fetcher,
    ):
        answer = await get(fetcher, site.url())
    assert (answer.body, answer.truncated) == (b"x" * 100_000, "length")


async def test_the_body_limit_is_exact() -> None:
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + bytes(1000)
    async with serving(saying(data)) as site:
        async with fetching(max_body_bytes=1000) as fetcher:
            assert (await get(fetcher, site.url())).truncated == ""
        async with fetching(max_body_bytes=999) as fetcher:
            answer = await get(fetcher, site.url())
            assert (len(answer.body), answer.truncated) == (999, "length")


async def soonest(site: Site, limited: Callable[[int], AbstractAsyncContextManager[HttpFetcher]]) -> Response:
    """What is fetched within the shortest time in which this machine gets the beginning of a body."""
    for seconds in (1, 5, 25):
        async with limited(seconds) as fetcher:
            answer = await fetcher.fetch(Request(site.url(), LOCAL))
        if isinstance(answer, Response):
            return answer
    raise AssertionError(answer)


async def test_a_body_that_trickles_is_cut_at_the_total_limit() -> None:
    handler = endless(b"HTTP/1.1 200 OK\r\n\r\n", b"drip", 0.02)
    async with serving(handler) as site:
        answer = await soonest(site, lambda seconds: fetching(total_timeout=seconds))
    assert answer.truncated == "time"
    assert answer.body.startswith(b"drip")


async def test_a_body_slower_than_the_lowest_speed_is_cut() -> None:
    handler = endless(b"HTTP/1.1 200 OK\r\n\r\n", b"d", 0.2)
    async with serving(handler) as site:
        answer = await soonest(site, lambda seconds: fetching(slow_bytes=1000, slow_time=seconds))
    assert answer.truncated == "time"


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"Content-Length: 100\r\n\r\nonly this", b"only this"),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", b"hello"),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n", b"hello"),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nffffffffffffffffffff\r\nmore", b"hello"),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7fffffffffffffff\r\nmore", b"hellomore"),
        (b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n", b""),
        (b"Transfer-Encoding: chunked\r\n\r\n", b""),
    ],
)
async def test_a_body_cut_short_is_kept(data: bytes, body: bytes) -> None:
    async with serving(saying(b"HTTP/1.1 200 OK\r\n" + data)) as site, fetching() as fetcher:
        answer = await get(fetcher, site.url())
    assert (answer.body, answer.truncated) == (body, "disconnect")


async def test_more_than_the_content_length_is_not_the_body_and_not_the_next_answer() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 Evil\r\n\r\nsmuggled")
        await reader.read()

    async with serving(handler) as site, fetching() as fetcher:
        for _ in range(2):
            answer = await get(fetcher, site.url())
            assert (answer.body, answer.truncated) == (b"ok", "")
    assert site.connections == 2


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", FailureKind.EMPTY),
        (b"garbage without end", FailureKind.PROTOCOL),
        (b"\x00\x01\x02\xff" * 100, FailureKind.PROTOCOL),
        (b"<html>HTTP/0.9 page</html>", FailureKind.PROTOCOL),
        (b"SSH-2.0-OpenSSH_9.2\r\n", FailureKind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", FailureKind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nX: cut in the mid", None),
        (b"HTTP/1.1\r\n\r\n", FailureKind.PROTOCOL),
        (b"HTTP/1.1 abc OK\r\n\r\n", FailureKind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nabcdefg", None),
        (b"HTTP/1.1 100 Continue\r\n\r\n", None),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nabc", None),
        (b"HTTP/7.3 200 OK\r\n\r\nabc", None),
        (b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, banana\r\n\r\nabc", None),
    ],
)
async def test_garbage_is_a_value(data: bytes, kind: FailureKind | None) -> None:
    async with serving(saying(data)) as site, fetching() as fetcher:
        answer = await fetcher.fetch(Request(site.url(), LOCAL))
        if kind is not None:
            assert isinstance(answer, Failure), answer
            assert answer.kind is kind
        if isinstance(answer, Failure):
            assert answer.detail and "\n" not in answer.detail


async def test_any_bytes_at_all() -> None:
    """Hypothesis drives, one server and one fetcher answer: whatever is sent ends in a value."""
    say: list[bytes] = [b""]

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(say[0])

    loop = asyncio.get_running_loop()
    fragments = st.sampled_from(
        [
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 100 C\r\n\r\n",
            b"Content-Length: 5\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Content-Encoding: gzip\r\n",
            b"\r\n",
            b"5\r\n",
            b"hello",
            b"0\r\n\r\n",
        ]
    )
    anything = st.lists(fragments | st.binary(max_size=12), max_size=9).map(b"".join)
    async with serving(handler) as site, fetching(first_byte_timeout=1, total_timeout=1) as fetcher:

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(anything)
        def check(data: bytes) -> None:
            say[0] = data
            asked = asyncio.run_coroutine_threadsafe(fetcher.fetch(Request(site.url(), LOCAL)), loop)
            assert isinstance(asked.result(60), Response | Failure)

        await asyncio.to_thread(check)


async def test_nothing_listens() -> None:
    async with serving(silent) as site:
        pass
    async with fetching() as fetcher:
        failure = await fail(fetcher, site.url())
    assert (failure.kind, failure.transient) == (FailureKind.CONNECT, True)


async def test_bombs_stop_at_the_decoded_limit() -> None:
    for name, bomb in (
        (b"gzip", gzip.compress(bytes(1 << 20), 9) * 300),
        (b"zstd", zstandard.compress(bytes(300 << 20))),
    ):
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (name, len(bomb))
        async with serving(saying(head + bomb)) as site, fetching(max_decoded_bytes=1 << 20) as fetcher:
            answer = await get(fetcher, site.url())
        assert (len(answer.decoded), answer.problem, answer.truncated) == (1 << 20, "capped", "")
        assert answer.body == bomb


async def test_a_cut_body_is_decoded_as_far_as_it_goes() -> None:
    text = bytes(range(256)) * 400
    coded = gzip.compress(text)
    data = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(coded)
    async with serving(saying(data + coded[:-20])) as site, fetching() as fetcher:
        answer = await get(fetcher, site.url())
    assert (answer.truncated, answer.problem) == ("disconnect", "cut")
    assert answer.decoded and text.startswith(answer.decoded)


async def test_transfers_that_end_badly_leave_the_fetcher_well() -> None:
    """Every bad ending, many times over few handles; then a good one."""
    endings = [
        b"",
        b"garbage",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nX: \0\r\n",
    ]

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await read_head(reader)).split()[1]
        if path == b"/good":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        else:
            writer.write(endings[int(path[1:]) % len(endings)])

    async with serving(handler) as site, fetching(connections=4) as fetcher:
        requests = [Request(site.url(f"/{n}"), LOCAL) for n in range(80)]
        results = await asyncio.gather(*(until_fresh(fetcher, request) for request in requests))
        assert sum(isinstance(result, Response) for result in results) == 20
        last = await until_fresh(fetcher, Request(site.url("/good"), LOCAL))
        assert isinstance(last, Response) and last.body == b"ok"


async def until_fresh(fetcher: HttpFetcher, request: Request) -> Response | Failure:
    """Fetch, again while kept connections turn out to be dead: each such try takes one out of the pool."""
    while True:
        answer = await fetcher.fetch(request)
        if not (isinstance(answer, Failure) and answer.kind is FailureKind.STALE):
            return answer


async def test_a_dead_kept_connection_is_told_and_the_request_is_not_repeated() -> None:
    """libcurl would send it again at once on a new connection; when to ask again is the visit's to decide."""
    asked: list[bytes] = []

    async def once_then_hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with serving(once_then_hang_up) as site, fetching() as fetcher:
        await get(fetcher, site.url("/"))
        again = await fail(fetcher, site.url("/"))
        assert again.kind is FailureKind.STALE and again.transient
        assert len(asked) == 2, "two requests were made, none repeated"
        await get(fetcher, site.url("/"))  # the next one opens a connection of its own


async def test_a_body_in_chunks_of_two_bytes() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    wanted = b"".join(b"%02d" % (n % 100) for n in range(20_000))
    chunks = b"".join(b"2\r\n%s\r\n" % wanted[at : at + 2] for at in range(0, len(wanted), 2))
    async with serving(saying(head + chunks + b"0\r\n\r\n")) as site, fetching() as fetcher:
        response = await get(fetcher, site.url())
    assert response.body == wanted
    assert type(response.body) is bytes
