"""A server on loopback that counts its open connections by address, and remembers when each was open."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

Say = Callable[[str, bytes], tuple[bytes, bool]]
"""An answer to (path, head), and whether the connection stays open after it."""


class Counted:
    """What the server saw."""

    def __init__(self) -> None:
        self.port = 0
        self.open: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        """Connections at a time, by address."""
        self.times: list[tuple[str, float, float]] = []
        """Address, opened, closed."""
        self.asked: list[tuple[str, str]] = []
        """Host and path of each request."""
        self.requests: Counter[int] = Counter()
        """Requests by connection."""


def page(body: bytes, *lines: bytes, version: bytes = b"HTTP/1.1", status: bytes = b"200 OK") -> bytes:
    head = [version + b" " + status, b"Content-Type: text/html", b"Content-Length: %d" % len(body), *lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


@contextlib.contextmanager
def counted(say: Say) -> Iterator[Counted]:
    """Serve on every address of loopback, in a thread of its own."""
    seen = Counted()
    ready = threading.Event()
    numbers = itertools.count()
    stop: list[Callable[[], object]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")[0]
        number, opened = next(numbers), time.monotonic()
        seen.open[address] += 1
        seen.most[address] = max(seen.most[address], seen.open[address])
        try:
            stays = True
            while stays:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ")[1].decode()
                host = head.lower().partition(b"\r\nhost: ")[2].partition(b"\r\n")[0].decode()
                seen.asked.append((host.partition(":")[0], path))
                seen.requests[number] += 1
                answer, stays = say(path, head)
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            seen.open[address] -= 1
            seen.times.append((address, opened, time.monotonic()))
            writer.close()

    async def main() -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(end.set))
        server = await asyncio.start_server(serve, "0.0.0.0", 0, backlog=2048)
        seen.port = server.sockets[0].getsockname()[1]
        ready.set()
        await end.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(240)
    try:
        yield seen
    finally:
        stop[0]()
        thread.join(170)
