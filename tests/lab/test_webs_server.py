"""The server, over real sockets: every odd way of sending as promised, and the log of it."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import ssl
import time
import zlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec
import pytest
import trustme

from lycosa.clock import ManualClock
from lycosa.errors import ConfigError
from lycosa.lab.webs import Politeness, Web, WebOptions, WebServer, preset, serving, violations
from lycosa.lab.webs.plan import DEAD_ADDRESS, Host
from lycosa.lab.webs.server import bind
from tests.fetch.servers import until

TINY = msgspec.structs.replace(preset("tiny"), slow_ms=80)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool = True


@pytest.fixture
async def server() -> AsyncIterator[WebServer]:
    async with WebServer(Web(TINY)) as running:
        yield running


def host_with(server: WebServer, what: str) -> Host:
    return next(host for host in server.web.hosts if host.role == what or what in host.sections)


async def get(
    server: WebServer, host: Host, path: str, *more: str, method: str = "GET", close: bool = True
) -> Reply:
    """One request over its own connection; reads until the server closes it."""
    reader, writer = await asyncio.open_connection(host.address, server.port)
    rows = [f"{method} {path} HTTP/1.1", f"Host: {host.name}:{server.port}", *more]
    if close:
        rows.append("Connection: close")
    writer.write(("\r\n".join(rows) + "\r\n\r\n").encode())
    data = await asyncio.wait_for(reader.read(-1), 170)
    writer.close()
    return parse(data)


def parse(data: bytes) -> Reply:
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    if not lines[0].startswith("HTTP/1.1 "):
        return Reply(0, {}, data)
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    whole = True
    if headers.get("transfer-encoding") == "chunked":
        parts, whole = [], False
        while body:
            size, _, body = body.partition(b"\r\n")
            length = int(size, 16)
            parts.append(body[:length])
            body = body[length + 2 :]
            whole = length == 0
        body = b"".join(parts)
    elif "content-length" in headers:
        whole = len(body) == int(headers["content-length"])
    return Reply(int(lines[0].split(" ")[1]), headers, body, whole)


async def test_ordinary_pages_come_as_respond_says(server: WebServer) -> None:
    for host in server.web.hosts[:3]:
        url = server.web.url(host)
        reply = await get(server, host, "/")
        assert reply.status == 200
        assert reply.whole
        assert b"</html>" in reply.body
        assert "date" in reply.headers
        assert url.startswith(f"http://{host.name}:{server.port}/")
    assert (await get(server, server.web.hosts[0], "/none")).status == 404


async def test_keep_alive_and_pipelining(server: WebServer) -> None:
    host = server.web.hosts[0]
    reader, writer = await asyncio.open_connection(host.address, server.port)
    one = f"GET /assets/style.css HTTP/1.1\r\nHost: {host.name}\r\n\r\n".encode()
    head = f"HEAD / HTTP/1.1\r\nhOST:{host.name.upper()}\r\nConnection: close\r\n\r\n".encode()
    writer.write(one * 3 + head[:9])
    await asyncio.sleep(0.05)
    writer.write(head[9:])
    data = await asyncio.wait_for(reader.read(-1), 170)
    writer.close()
    assert data.count(b"HTTP/1.1 200 OK") == 4
    assert data.count(b"body{margin:1em}") == 3
    assert data.endswith(b"\r\n\r\n"), "the answer to HEAD has no body"
    assert [access.path for access in server.log.accesses] == ["/assets/style.css"] * 3 + ["/"]
    assert len({access.connection for access in server.log.accesses}) == 1


async def test_old_and_wrong_requests(server: WebServer) -> None:
    host = server.web.hosts[0]

    async def raw(data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(host.address, server.port)
        writer.write(data)
        answer = await asyncio.wait_for(reader.read(-1), 170)
        writer.close()
        return answer

    old = f"GET / HTTP/1.0\r\nHost: {host.name}\r\n\r\n".encode()
    assert b"Connection: close" in await raw(old)
    assert b" 404 " in await raw(b"GET / HTTP/1.0\r\nHost: unknown.test\r\n\r\n")
    assert b" 404 " in await raw(b"GET / HTTP/1.0\r\n\r\n")
    assert b" 400 " in await raw(b"hello\r\n\r\n")
    assert b" 400 " in await raw(b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000)
    assert b" 400 " in await raw(b"POST / HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n")
    assert b" 400 " in await raw(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert b" 405 " in await raw(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi")
    other = server.web.hosts[1]
    proxied = f"GET {server.web.url(other)} HTTP/1.0\r\nHost: x\r\n\r\n".encode()
    assert b" 200 " in await raw(proxied)
    assert server.log.accesses[-1].host == other.name


async def test_packing(server: WebServer) -> None:
    host = host_with(server, "packing")
    plain = await get(server, host, "/packed/gzip.html")
    assert "content-encoding" not in plain.headers
    packed = await get(server, host, "/packed/gzip.html", "Accept-Encoding: br;q=1, gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert (
        "content-encoding"
        not in (await get(server, host, "/packed/gzip.html", "Accept-Encoding: gzip;q=0")).headers
    )
    for coding in ("deflate", "br", "zstd"):
        reply = await get(server, host, f"/packed/{coding}.html", f"Accept-Encoding: {coding}")
        assert reply.headers["content-encoding"] == coding
        assert reply.body != plain.body
    assert gzip.decompress((await get(server, host, "/packed/unasked.html")).body)
    with pytest.raises(zlib.error):
        gzip.decompress((await get(server, host, "/packed/broken-gzip.html")).body)


async def test_ways_of_sending(server: WebServer) -> None:
    host = host_with(server, "packing")
    chunked = await get(server, host, "/packed/chunked.html")
    assert chunked.whole
    assert chunked.body.endswith(b"</html>")
    closed = await get(server, host, "/packed/until-close.html", close=False)
    assert "content-length" not in closed.headers
    assert closed.body.endswith(b"</html>")
    cut = await get(server, host, "/packed/cut.html", close=False)
    assert not cut.whole
    assert b"behind-cut.html" in cut.body
    half = await get(server, host, "/packed/cut-chunked.html", close=False)
    assert not half.whole
    assert b"behind-cut-chunked.html" in half.body
    spilled = await get(server, host, "/packed/spill.html", close=False)
    assert len(spilled.body) > int(spilled.headers["content-length"])
    assert (await get(server, host, "/packed/garbage", close=False)).status == 0
    assert (await get(server, host, "/packed/hang-up", close=False)).body == b""
    start = time.monotonic()
    dribbled = await get(server, host, "/packed/dribble.html")
    assert dribbled.whole
    assert time.monotonic() - start > 0.08


async def test_an_answer_ends_when_its_last_byte_is_written(server: WebServer) -> None:
    """Not when the server comes to look at the clock: whoever has it all has begun to wait."""
    host = host_with(server, "packing")
    reader, writer = await asyncio.open_connection(host.address, server.port)
    for path in ("/packed/dribble.html", "/"):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host.name}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(parse(head).headers["content-length"]))
        had = time.monotonic()
        await until(lambda path=path: any(row.path == path for row in server.log.accesses))
        assert server.log.accesses[-1].end < had
    writer.close()


async def test_bombs_go_off_when_asked_for() -> None:
    options = msgspec.structs.replace(TINY, bomb_bytes=3_000_000)
    async with WebServer(Web(options)) as server:
        reply = await get(server, host_with(server, "packing"), "/packed/bomb.html")
        assert len(reply.body) < 20_000
        assert len(gzip.decompress(reply.body)) > 3_000_000


async def test_slow_hosts_take_their_time(server: WebServer) -> None:
    host = host_with(server, "slow")
    start = time.monotonic()
    assert (await get(server, host, "/")).status == 200
    assert time.monotonic() - start >= 0.08
    access = server.log.accesses[-1]
    assert access.end - access.start >= 0.08


async def test_flapping_hosts_answer_the_third_time(server: WebServer) -> None:
    hung = host_with(server, "hang-up")
    assert [(await get(server, hung, "/")).status for _ in range(3)] == [0, 0, 200]
    rude = host_with(server, "reset")
    for _ in range(2):
        with pytest.raises(ConnectionResetError):
            await get(server, rude, "/")
    assert (await get(server, rude, "/")).status == 200
    assert (await get(server, rude, "/robots.txt")).status == 200
    assert [access.status for access in server.log.accesses if access.host == rude.name] == [0, 0, 200, 200]


async def test_dead_hosts_refuse(server: WebServer) -> None:
    host = host_with(server, "dead")
    assert host.address == DEAD_ADDRESS
    with pytest.raises(ConnectionRefusedError):
        await get(server, host, "/")


async def test_busy_pages_pass(server: WebServer) -> None:
    host = host_with(server, "statuses")
    for name, status in (("busy", 503), ("dated", 503), ("many", 429), ("silent", 503)):
        replies = [await get(server, host, f"/state/{name}.html") for _ in range(3)]
        assert [reply.status for reply in replies] == [status, status, 200]
        assert ("retry-after" in replies[0].headers) == (name != "silent")
    assert server.log.accesses[0].wait == TINY.retry_after
    for status in (404, 410, 500, 204, 451):
        assert (await get(server, host, f"/state/{status}")).status == status


async def test_robots_files(server: WebServer) -> None:
    statuses = {}
    for host in server.web.hosts:
        if host.role != "dead":
            statuses[host.role] = (await get(server, host, "/robots.txt")).status
    assert statuses["absent"] == 404
    assert statuses["forbidden"] == 403
    assert statuses["unauthorised"] == 401
    assert statuses["broken"] == 500
    assert statuses["redirected"] == 301
    busy = host_with(server, "busy")
    assert [(await get(server, busy, "/robots.txt")).status for _ in range(2)] == [503, 200]
    assert len((await get(server, host_with(server, "huge"), "/robots.txt")).body) > 500 * 1024
    assert (await get(server, host_with(server, "crlf"), "/robots.txt")).body.startswith(b"\xef\xbb\xbf")
    delay = (await get(server, host_with(server, "delay"), "/robots.txt")).body
    assert b"Crawl-delay: 0.2\n" in delay
    assert server.web.delays() == {host_with(server, "delay").name: 0.2}


async def test_redirects_of_every_status(server: WebServer) -> None:
    host = host_with(server, "redirects")
    for status in (301, 302, 303, 307, 308):
        reply = await get(server, host, f"/go/{status}")
        assert (reply.status, reply.headers["location"]) == (status, f"/go/landed-{status}.html")
    away = await get(server, host, "/go/away")
    assert away.headers["location"].startswith(server.web.origins[0] + "/landing/")
    landing = "/landing/" + away.headers["location"].rpartition("/")[2]
    assert (await get(server, server.web.hosts[0], landing)).status == 200
    assert (await get(server, server.web.hosts[0], "/landing/999.html")).status == 404


async def test_conditional_requests_and_the_clock() -> None:
    clock = ManualClock()
    options = WebOptions(hosts=2, pages=50, change_share=1.0, change_rates=(0.01,))
    async with WebServer(Web(options), clock=clock) as server:
        host = server.web.hosts[0]
        first = await get(server, host, "/")
        asked = f"If-None-Match: {first.headers['etag']}"
        same = await get(server, host, "/", asked)
        assert (same.status, same.body) == (304, b"")
        assert "content-length" not in same.headers
        clock.advance(3600)
        later = await get(server, host, "/", asked)
        assert later.status == 200
        assert later.body != first.body


async def test_the_cache_is_bounded_and_tells_the_same() -> None:
    options = WebOptions(hosts=3, pages=300, kinds=("packing",), page_bytes=8000)
    async with WebServer(Web(options), cache_bytes=100_000) as server:
        for _ in range(2):
            for page in range(0, 60, 3):
                host = server.web.hosts[0]
                path = server.web.pages.path(host, page)
                reply = await get(server, host, path)
                still = server.web.changes.version(0, page, 0)
                extra = ("/directory/",) if page == 0 else ()
                assert reply.body == server.web.pages.render(host, page, still, extra)
        assert 0 < len(server._cache) < 20
        assert server._cache_room >= 0
    async with WebServer(Web(options)) as server:
        assert server.prerender(limit=25) == 25
        assert server.prerender() == 300
        assert (await get(server, server.web.hosts[0], "/")).status == 200
        assert server.requests == 1


async def test_the_log_shows_who_is_polite(server: WebServer) -> None:
    host = server.web.hosts[0]
    for _ in range(2):
        await get(server, host, "/")
    found = violations(server.log, Politeness(wait=600.0))
    assert [violation.rule for violation in found] == ["visit"]
    one, two = sorted(server.log.accesses)
    gap = two.start - one.end
    await asyncio.sleep(gap + 0.5)
    await get(server, host, "/")
    found = violations(server.log, Politeness(wait=gap + 0.25))
    assert [violation.at for violation in found] == [two.start], "the third has waited"
    await until(lambda: all(connection.closed for connection in server.log.connections.values()))


async def test_one_port_on_all_addresses_and_mistakes(server: WebServer) -> None:
    for address in server.web.addresses:
        with socket.create_connection((address, server.port), 60):
            pass
    with pytest.raises(ConfigError, match="in use"):
        await WebServer(server.web).start()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), 60)


async def test_closing_lets_answers_finish() -> None:
    server = WebServer(Web(TINY))
    await server.start()
    host = host_with(server, "slow")
    reader, idle = await asyncio.open_connection(host.address, server.port)
    under_way = asyncio.ensure_future(get(server, host, "/", close=False))
    await until(lambda: server.requests)
    await server.close()
    assert (await under_way).status == 200
    assert await reader.read() == b""
    idle.close()


async def test_tls() -> None:
    authority = trustme.CA()
    options = WebOptions(hosts=2, pages=10, scheme="https", addresses="single")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("site0.test").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with WebServer(Web(options), tls=context) as server:
        assert server.web.seeds()[0].startswith("https://site0.test:")
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=trusting, server_hostname="site0.test"
        )
        writer.write(b"GET / HTTP/1.1\r\nHost: site0.test\r\nConnection: close\r\n\r\n")
        assert parse(await reader.read()).whole
        writer.close()


def test_a_process_of_its_own() -> None:
    with serving(TINY) as served:
        assert served.web.options.port > 0
        host = served.web.hosts[1]
        with socket.create_connection((host.address, served.web.options.port), 5) as sock:
            sock.sendall(f"GET / HTTP/1.1\r\nHost: {host.name}\r\nConnection: close\r\n\r\n".encode())
            data = b""
            while piece := sock.recv(65536):
                data += piece
        assert parse(data).whole
    log = served.log()
    assert [(access.host, access.path, access.status) for access in log.accesses] == [(host.name, "/", 200)]
    assert len(log.connections) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(served.pid, 0)


def test_a_process_that_cannot_serve_says_why() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.1.1", 0))
        taken.listen()
        options = msgspec.structs.replace(TINY, port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="in use"), serving(options):
            pass


def test_a_port_that_another_takes_meanwhile_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a socket listens, others may bind its port, too; who listens first has it."""
    thieves: list[socket.socket] = []

    class Late(socket.socket):
        def bind(self, address: tuple[str, int]) -> None:  # type: ignore[override]
            super().bind(address)
            if not thieves:
                thieves.append(thief := plain())
                thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                thief.bind(self.getsockname())
                thief.listen()

    plain = socket.socket
    monkeypatch.setattr(socket, "socket", Late)
    sockets = bind(("127.0.1.1", "127.0.1.2"), 0)
    with thieves[0]:
        ports = {sock.getsockname()[1] for sock in sockets}
        assert len(ports) == 1 and thieves[0].getsockname()[1] not in ports
    for sock in sockets:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), "from now on it is ours"
        sock.close()
