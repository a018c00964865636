"""The server: a web on loopback sockets.

HTTP/1.1 with keep-alive and pipelining, GET and HEAD, on asyncio protocols rather than streams: a
page that is in the cache costs one look-up and one write. Requests of one connection are answered
in their order, one at a time.

The server adds what a `Web` lacks: the time, and how often each URL was asked for (kept only where
the answer depends on it). It keeps an access log, by which `accesses.violations` judges a crawler.

Only loopback addresses are bound, one listening socket for each address of the web. Lasting answers
are cached whole, up to `cache_bytes`; then the oldest are evicted. All limits here protect the machine it
runs on, since any crawler may be pointed at it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import struct
from email.utils import formatdate
from http import HTTPStatus

from lycosa.clock import Clock, SystemClock
from lycosa.errors import ConfigError
from lycosa.lab.webs.accesses import Access, AccessLog, Connection
from lycosa.lab.webs.answers import Answer, Request, Sending
from lycosa.lab.webs.plan import Host
from lycosa.lab.webs.web import Web

MAX_HEAD = 64 * 1024
MAX_BODY = 1 << 20
IDLE = 120.0
"""Seconds after which a connection without a request is closed."""
BACKLOG = 1024
PIECES = 5
PAUSE = 0.02
"""A dribbled body is sent in so many pieces, with this pause before each."""

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_NOT_HERE = Answer(404, (("Content-Type", "text/plain"),), b"no such host in this web\n")
_ONLY_GET = Answer(405, (("Allow", "GET, HEAD"),), b"only GET and HEAD\n")
_BAD = Answer(400, (("Content-Type", "text/plain"),), b"not a request\n")
_ENDS = {
    Sending.CLOSE,
    Sending.CUT,
    Sending.CUT_CHUNKED,
    Sending.SPILL,
    Sending.GARBAGE,
    Sending.HANG_UP,
    Sending.RESET,
}
"""Ways of sending after which the connection is closed."""


def head_of(answer: Answer) -> bytes:
    """Status line and headers, up to where Date, Connection and the empty line go."""
    reason = _REASONS.get(answer.status, "Odd")
    rows = [f"HTTP/1.1 {answer.status} {reason}"]
    rows += [f"{name}: {value}" for name, value in answer.headers]
    if answer.sending in (Sending.CHUNKED, Sending.CUT_CHUNKED):
        rows.append("Transfer-Encoding: chunked")
    elif answer.sending is not Sending.CLOSE and answer.status not in (204, 304):
        rows.append(f"Content-Length: {len(answer.body)}")
    return ("\r\n".join(rows) + "\r\n").encode("latin-1")


def body_of(answer: Answer) -> bytes:
    """The body as it is sent."""
    body = answer.body
    if answer.sending is Sending.CUT:
        return body[: len(body) // 2]
    if answer.sending is Sending.SPILL:
        return body + b'<a href="/spilled.html">beyond the end</a>' * 3
    if answer.sending in (Sending.CHUNKED, Sending.CUT_CHUNKED):
        cut = answer.sending is Sending.CUT_CHUNKED
        if cut:
            body = body[: len(body) // 2]
        size = max(1, len(body) // 3)
        parts = [body[at : at + size] for at in range(0, len(body), size)]
        chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
        return b"".join(chunks) + (b"" if cut else b"0\r\n\r\n")
    return body


class WebServer:
    """Serves a web in the running event loop.

    `web.options.port` 0 lets the server choose a free port; `self.web` is then the web on that port.
    """

    def __init__(
        self,
        web: Web,
        *,
        clock: Clock | None = None,
        log: AccessLog | None = None,
        cache_bytes: int = 64 << 20,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.web = web
        self.clock = clock or SystemClock()
        self.log = AccessLog() if log is None else log
        self.requests = 0
        self._tls = tls
        self._cache: dict[tuple[bytes, bytes, bytes], tuple[bytes, bytes, Answer]] = {}
        self._cache_room = cache_bytes
        self._attempts: dict[tuple[int, str], int] = {}
        self._servers: list[asyncio.Server] = []
        self._open: set[_Connection] = set()
        self._empty = asyncio.Event()
        self._numbers = 0
        self._date = (0, b"")

    async def __aenter__(self) -> WebServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def port(self) -> int:
        """The port that it listens on, or will."""
        return self.web.options.port

    async def start(self) -> None:
        """Listen. Raises `ConfigError` if an address or the port is not available."""
        sockets = bind(self.web.addresses, self.web.options.port)
        port = sockets[0].getsockname()[1]
        if port != self.web.options.port:
            self.web = self.web.at(port)
        loop = asyncio.get_running_loop()
        for sock in sockets:
            server = await loop.create_server(
                lambda: _Connection(self), sock=sock, ssl=self._tls, backlog=BACKLOG
            )
            self._servers.append(server)

    async def close(self, grace: float = 1.0) -> None:
        """Stop listening, let answers under way finish for at most `grace` seconds, close everything."""
        for server in self._servers:
            server.close()
        for connection in list(self._open):
            connection.finish()
        if self._open:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), grace)
        for connection in list(self._open):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    def prerender(self, accept: str = "", limit: int | None = None) -> int:
        """Fill the cache with ordinary pages, as a client with that Accept-Encoding gets them; returns how many."""
        count = 0
        for host in self.web.hosts:
            name = self.web.origins[host.number].partition("://")[2].encode()
            for page in range(host.size):
                if (limit is not None and count >= limit) or self._cache_room <= 0:
                    return count
                path = self.web.pages.path(host, page)
                answer = self.web.respond(host, Request(path=path, accept=accept))
                if answer.lasting:
                    self._remember((name, path.encode(), accept.encode()), answer)
                    count += 1
        return count

    # for connections

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def date(self) -> bytes:
        """The Date header, made once a second."""
        now = int(self.clock.wall())
        if self._date[0] != now:
            self._date = now, f"Date: {formatdate(now, usegmt=True)}\r\n".encode()
        return self._date[1]

    def answer(
        self, name: bytes, target: bytes, accept: bytes, etag: bytes, since: bytes
    ) -> tuple[bytes, bytes, Answer]:
        """Head, body and answer for a request."""
        self.requests += 1
        key = (name, target, accept)
        conditional = etag or since
        if not conditional and (cached := self._cache.get(key)):
            return cached
        host = self._host(name)
        if host is None:
            return head_of(_NOT_HERE), _NOT_HERE.body, _NOT_HERE
        path = target.decode("latin-1")
        attempt = 0
        if self.web.counted(host, path):
            attempt = self._attempts.get((host.number, path), 0)
            self._attempts[host.number, path] = attempt + 1
        answer = self.web.respond(
            host,
            Request(
                path=path,
                at=self.clock.wall(),
                attempt=attempt,
                accept=accept.decode("latin-1"),
                etag=etag.decode("latin-1"),
                since=since.decode("latin-1"),
            ),
        )
        if answer.lasting and not conditional:
            return self._remember(key, answer)
        return head_of(answer), body_of(answer), answer

    def _host(self, name: bytes) -> Host | None:
        text = name.decode("latin-1").lower()
        return self.web.host(text.rpartition(":")[0] or text)

    def _remember(self, key: tuple[bytes, bytes, bytes], answer: Answer) -> tuple[bytes, bytes, Answer]:
        # The body is stored once: the cached head is followed by the body itself, except for odd ways of sending.
        body = body_of(answer)
        entry = (head_of(answer), body, Answer(answer.status, sending=answer.sending, delay=answer.delay))
        self._cache[key] = entry
        self._cache_room -= len(body) + 600
        while self._cache_room < 0 and len(self._cache) > 1:
            oldest = next(iter(self._cache))
            self._cache_room += len(self._cache.pop(oldest)[1]) + 600
        return entry

    def joined(self, connection: _Connection) -> None:
        self._open.add(connection)
        self._empty.clear()

    def left(self, connection: _Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._empty.set()


def bind(addresses: tuple[str, ...], port: int) -> list[socket.socket]:
    """A listening socket on each address, all on one port."""
    for attempt in range(20):
        sockets: list[socket.socket] = []
        wanted = port
        try:
            for address in addresses:
                sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                sockets.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((address, wanted))
                sock.listen(BACKLOG)  # at once: before this others may take the port as well
                wanted = sock.getsockname()[1]
            return sockets
        except OSError as error:
            for sock in sockets:
                sock.close()
            if error.errno == errno.EADDRINUSE and port == 0 and attempt < 19:
                continue
            if error.errno == errno.EADDRINUSE:
                raise ConfigError(f"port {wanted} is in use: choose another one with --port") from None
            if error.errno == errno.EADDRNOTAVAIL:
                raise ConfigError(
                    f"this machine has no address {address}: use --single-address (macOS has only 127.0.0.1)"
                ) from None
            raise ConfigError(f"cannot listen on {address}:{wanted}: {error.strerror}") from None
    raise ConfigError("found no port that is free on all addresses: choose one with --port")


def field(head: bytes, lower: bytes, name: bytes) -> bytes:
    """The value of a header; `lower` is the head in lower case."""
    at = lower.find(b"\r\n" + name + b":")
    if at < 0:
        return b""
    start = at + len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else len(head)].strip()


class _Connection(asyncio.Protocol):
    """One connection: parses requests and sends answers, strictly in turn."""

    def __init__(self, server: WebServer) -> None:
        self._server = server
        self._buffer = b""
        self._busy = False
        self._last = False  # no more requests are taken
        self._skip = 0  # bytes of a request's body still to come
        self._timer: asyncio.TimerHandle | None = None

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._number = self._server.next_number()
        self._peer = "{}:{}".format(*transport.get_extra_info("peername")[:2])
        self._local = str(transport.get_extra_info("sockname")[0])
        self._server.joined(self)
        now = self._server.clock.monotonic()
        self._server.log.open(Connection(self._number, now, 0.0, self._peer, self._local))
        self._used = self._loop.time()
        self._idle = self._loop.call_later(IDLE, self._check_idle)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if not self._busy:
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._server.log.close(self._number, self._server.clock.monotonic())
        self._server.left(self)

    # the server's side

    def finish(self) -> None:
        """Finish the current answer, then close."""
        self._last = True
        if not self._busy:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def _check_idle(self) -> None:
        left = self._used + IDLE - self._loop.time()
        if left <= 0 and not self._busy:
            self._transport.close()
        else:
            self._idle = self._loop.call_later(max(left, 1.0), self._check_idle)

    # requests

    def _next(self) -> None:
        """Take requests from the buffer until one must wait or none is complete."""
        while not self._busy and not self._transport.is_closing():
            if self._skip:
                dropped = min(self._skip, len(self._buffer))
                self._skip -= dropped
                self._buffer = self._buffer[dropped:]
                if self._skip:
                    return
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0 or end > MAX_HEAD:
                if len(self._buffer) > MAX_HEAD:
                    self._refuse(_BAD)
                return
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            self._request(head)

    def _refuse(self, answer: Answer) -> None:
        self._last = True
        self._transport.write(
            head_of(answer) + self._server.date() + b"Connection: close\r\n\r\n" + answer.body
        )
        self._transport.close()

    def _request(self, head: bytes) -> None:
        start = self._server.clock.monotonic()
        line, _, _ = head.partition(b"\r\n")
        words = line.split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            self._refuse(_BAD)
            return
        method, target, version = words
        lower = head.lower()
        name = field(head, lower, b"host")
        if target.lower().startswith((b"http://", b"https://")):  # as to a proxy
            name, _, rest = target.partition(b"://")[2].partition(b"/")
            target = b"/" + rest
        length = field(head, lower, b"content-length")
        if length or b"\r\ntransfer-encoding:" in lower:
            if not length.isdigit() or int(length) > MAX_BODY:
                self._refuse(_BAD)
                return
            self._skip = int(length)
        said = field(head, lower, b"connection").lower()
        keep = said != b"close" if version == b"HTTP/1.1" else said == b"keep-alive"
        if method not in (b"GET", b"HEAD"):
            self._refuse(_ONLY_GET)
            return
        wire, body, answer = self._server.answer(
            name,
            target,
            field(head, lower, b"accept-encoding"),
            field(head, lower, b"if-none-match"),
            field(head, lower, b"if-modified-since"),
        )
        if method == b"HEAD":
            body = b""
        access = Access(
            start,
            start,
            name.decode("latin-1").lower().rpartition(":")[0] or name.decode("latin-1").lower(),
            target.decode("latin-1"),
            answer.status,
            self._number,
            self._peer,
            self._local,
            answer.wait,
            field(head, lower, b"user-agent").decode("latin-1"),
        )
        keep = keep and not self._last and answer.sending not in _ENDS
        if answer.delay:
            self._busy = True
            self._timer = self._loop.call_later(
                answer.delay, self._send_late, wire, body, answer, access, keep
            )
        else:
            self._send(wire, body, answer, access, keep)

    # answers

    def _send_late(self, wire: bytes, body: bytes, answer: Answer, access: Access, keep: bool) -> None:
        self._busy = False
        self._send(wire, body, answer, access, keep)
        self._next()

    def _send(self, wire: bytes, body: bytes, answer: Answer, access: Access, keep: bool) -> None:
        access = self._ending(access)
        sending = answer.sending
        if sending is Sending.RESET:
            sock = self._transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._done(access, keep=False)
            self._transport.abort()
            return
        if sending is Sending.GARBAGE:
            self._transport.write(body)
        elif sending is not Sending.HANG_UP:
            ending = b"\r\n" if keep else b"Connection: close\r\n\r\n"
            head = wire + self._server.date() + ending
            if sending is Sending.DRIBBLE and body:
                self._transport.write(head)
                self._busy = True
                size = -(-len(body) // PIECES)
                parts = [body[at : at + size] for at in range(0, len(body), size)]
                self._dribble(parts, access, keep)
                return
            self._transport.write(head + body)
        self._done(access, keep)

    def _dribble(self, parts: list[bytes], access: Access, keep: bool) -> None:
        if parts:
            access = self._ending(access)
            self._transport.write(parts[0])
            self._timer = self._loop.call_later(PAUSE, self._dribble, parts[1:], access, keep)
            return
        self._busy = False
        self._done(access, keep)
        self._next()

    def _ending(self, access: Access) -> Access:
        """The access of an answer whose last byte is written now. The clock is read before the write: after it the
        client's wait has begun, and the system may let the client run before the server continues."""
        return access._replace(end=self._server.clock.monotonic())

    def _done(self, access: Access, keep: bool) -> None:
        self._used = self._loop.time()
        self._server.log.add(access)
        if not keep or self._last:
            self._transport.close()
