"""HTTP/2 by ALPN, against a server that speaks just enough of it by hand (RFC 9113, RFC 7541)."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme

from lycosa.fetch.protocol import Failure, Request, Response

from .servers import Handler, serving
from .test_http import LOCAL, fetching, get, server_tls

DATA, HEADERS, SETTINGS, GOAWAY, RESET = 0, 1, 4, 7, 3
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def fields(*pairs: tuple[bytes, bytes]) -> bytes:
    """`:status 200` by its index, then literals without indexing."""
    rest = b"".join(b"\0" + bytes([len(n)]) + n + bytes([len(v)]) + v for n, v in pairs)
    return b"\x88" + rest


def speaking(*answer: tuple[int, int, bytes]) -> Handler:
    """Send these frames on the stream of every request."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readexactly(24)).startswith(b"PRI * HTTP/2.0")
        writer.write(frame(SETTINGS, 0, 0))
        while True:
            head = await reader.readexactly(9)
            await reader.readexactly(int.from_bytes(head[:3], "big"))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            if kind == SETTINGS and not flags & ACK:
                writer.write(frame(SETTINGS, ACK, 0))
            elif kind == HEADERS:
                writer.writelines(frame(each, marks, stream, payload) for each, marks, payload in answer)
            await writer.drain()

    return handler


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return str(tmp_path / "ca.pem")


@pytest.fixture
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = server_tls(authority, "site.test")
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


async def test_an_answer_over_http2_looks_like_any_other(tls: ssl.SSLContext, ca_file: str) -> None:
    head = fields((b"content-type", b"text/html"), (b"x-one", b"1"))
    handler = speaking((HEADERS, END_HEADERS, head), (DATA, 0, b"hello "), (DATA, END_STREAM, b"world"))
    async with serving(handler, tls=tls) as site, fetching(ca_file=ca_file) as fetcher:
        answers = [await get(fetcher, site.url(f"/{n}", scheme="https")) for n in range(3)]
        assert site.connections == 1
    answer = answers[2]
    assert (answer.version, answer.status, answer.body) == ("HTTP/2", 200, b"hello world")
    assert answer.head.startswith(b"HTTP/2 200")
    assert answer.head.endswith(b"content-type: text/html\r\nx-one: 1\r\n\r\n")
    assert answer.header("Content-Type") == "text/html"
    assert answer.request_head.startswith(b"GET /2 HTTP/2\r\nHost: site.test:")


async def test_the_operator_may_do_without_it(tls: ssl.SSLContext, ca_file: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET / HTTP/1.1\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with serving(handler, tls=tls) as site, fetching(ca_file=ca_file, http2=False) as fetcher:
        assert (await get(fetcher, site.url(scheme="https"))).version == "HTTP/1.1"


async def test_a_stream_that_is_reset_keeps_what_came(tls: ssl.SSLContext, ca_file: str) -> None:
    handler = speaking(
        (HEADERS, END_HEADERS, fields()), (DATA, 0, b"half"), (RESET, 0, (2).to_bytes(4, "big"))
    )
    async with serving(handler, tls=tls) as site, fetching(ca_file=ca_file) as fetcher:
        answer = await get(fetcher, site.url(scheme="https"))
    assert (answer.body, answer.truncated) == (b"half", "disconnect")


@pytest.mark.parametrize(
    "answer",
    [
        [(RESET, 0, (7).to_bytes(4, "big"))],
        [(HEADERS, END_HEADERS | END_STREAM, b"\xff\xff\xff\xff\xff\xff")],
        [(DATA, END_STREAM, b"data before headers")],
        [(99, 255, b"what is this"), (SETTINGS, 0, b"odd")],
        [(GOAWAY, 0, bytes(8))],
        [(HEADERS, END_HEADERS | END_STREAM, b"\x00\x01x\x01\n")],
    ],
)
async def test_nonsense_is_a_value(
    tls: ssl.SSLContext, ca_file: str, answer: list[tuple[int, int, bytes]]
) -> None:
    async with (
        serving(speaking(*answer), tls=tls) as site,
        fetching(ca_file=ca_file, first_byte_timeout=1, total_timeout=2) as fetcher,
    ):
        found = await fetcher.fetch(Request(site.url(scheme="https"), LOCAL))
    assert isinstance(found, Failure), found


async def test_headers_are_limited_too(tls: ssl.SSLContext, ca_file: str) -> None:
    head = fields(*((b"x-%d" % n, b"v" * 100) for n in range(60)))
    handler = speaking((HEADERS, END_HEADERS | END_STREAM, head))
    async with (
        serving(handler, tls=tls) as site,
        fetching(ca_file=ca_file, max_header_bytes=2000) as fetcher,
    ):
        found = await fetcher.fetch(Request(site.url(scheme="https"), LOCAL))
    assert not isinstance(found, Response)
    assert found.kind == "header-too-large"
