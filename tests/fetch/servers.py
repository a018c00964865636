"""Real servers on loopback for the tests of this room: raw bytes over TCP or TLS; DNS over UDP."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Site:
    """A server that runs `handler` once per connection, and remembers what it saw."""

    port: int = 0
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)
    resumed: list[bool] = field(default_factory=list)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def url(self, path: str = "/", host: str = "site.test", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@contextlib.asynccontextmanager
async def serving(
    handler: Handler, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Site]:
    """A server for any bytes."""
    site = Site()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        site.connections += 1
        tls_object = writer.get_extra_info("ssl_object")
        if tls_object is not None:
            site.resumed.append(bool(tls_object.session_reused))
        try:
            await handler(reader, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, host, port, ssl=tls, backlog=2048)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(true: Callable[[], object]) -> None:
    """Wait for something that nothing announces."""
    while not true():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def read_head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


def saying(data: bytes, *, chunk: int = 0, gap: float = 0.0) -> Handler:
    """Answer the first request with `data`, at once or in pieces, then close."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        size = chunk or len(data) or 1
        for at in range(0, len(data), size):
            writer.write(data[at : at + size])
            await writer.drain()
            if gap:
                await asyncio.sleep(gap)

    return handler


def answering(*, body: bytes = b"ok", extra: bytes = b"", heads: list[bytes] | None = None) -> Handler:
    """Answer every request on a kept connection."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await read_head(reader)
            if heads is not None:
                heads.append(head)
            writer.write(b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (extra, len(body), body))
            await writer.drain()

    return handler


# DNS -----------------------------------------------------------------------------------------------------

A, AAAA, CNAME, SOA = 1, 28, 5, 6
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5


@dataclass
class Answer:
    """What a name answers: a code, and addresses with a TTL. `drop`: nothing at all."""

    addresses: tuple[str, ...] = ()
    ttl: int = 60
    code: int = NOERROR
    drop: bool = False
    delay: float = 0.0
    cname: str = ""


class NameServer(asyncio.DatagramProtocol):
    """A small authoritative server over UDP: `names` maps a name to its answers, used up one by one."""

    def __init__(self) -> None:
        self.names: dict[str, list[Answer]] = {}
        self.asked: list[tuple[str, int]] = []
        self.port = 0
        self.hold = 0
        """Nothing is answered before so many names have been asked for."""
        self._held: list[tuple[bytes, tuple[str, int]]] = []
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name, kind, question = self._question(data)
        self.asked.append((name, kind))
        answers = self.names.get(name)
        if not answers:
            answer = Answer(code=NXDOMAIN)
        else:
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer.drop:
            return
        reply = self._reply(data[:2], kind, question, answer)
        if len({asked for asked, _ in self.asked}) < self.hold:
            self._held.append((reply, addr))
            return
        while self._held:
            self._send(*self._held.pop())
        if answer.delay:
            asyncio.get_running_loop().call_later(answer.delay, self._send, reply, addr)
        else:
            self._send(reply, addr)

    def _send(self, reply: bytes, addr: tuple[str, int]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(reply, addr)

    @staticmethod
    def _question(data: bytes) -> tuple[str, int, bytes]:
        at = 12
        labels = []
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode("ascii"))
            at += 1 + data[at]
        kind = struct.unpack_from("!H", data, at + 1)[0]
        return ".".join(labels).lower(), kind, data[12 : at + 5]

    @staticmethod
    def _reply(ident: bytes, kind: int, question: bytes, answer: Answer) -> bytes:
        records = []
        owner = b"\xc0\x0c"
        if answer.cname:
            target = b"".join(bytes([len(x)]) + x.encode() for x in answer.cname.split(".")) + b"\0"
            records.append(owner + struct.pack("!HHIH", CNAME, 1, answer.ttl, len(target)) + target)
            owner = target
        for text in answer.addresses:
            packed = ipaddress.ip_address(text).packed
            if (kind == A) == (len(packed) == 4):
                records.append(owner + struct.pack("!HHIH", kind, 1, answer.ttl, len(packed)) + packed)
        head = ident + struct.pack("!HHHHH", 0x8580 | answer.code, 1, len(records), 0, 0)
        return head + question + b"".join(records)


@contextlib.asynccontextmanager
async def name_server() -> AsyncIterator[NameServer]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(NameServer, local_addr=("127.0.0.1", 0))
    try:
        yield server
    finally:
        transport.close()
