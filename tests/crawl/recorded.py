"""A small web on real sockets that remembers every request: for crawls run as users run them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any, NamedTuple

from lycosa.ask.reading import CrawlReader
from lycosa.records import Fetched, Record


class Asked(NamedTuple):
    """One request as the server saw it."""

    at: float
    address: str  # where it came in
    host: str
    path: str
    headers: Mapping[str, str]  # by lower-case name
    form: bytes | None = None  # of a POST


class Said(NamedTuple):
    """One answer."""

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/html; charset=utf-8"),)
    delay: float = 0.0


Answer = Callable[[Asked], Said]


class Site:
    """A running server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[Asked] = []

    def url(self, path: str = "/", host: str = "site.test") -> str:
        return f"http://{host}:{self.port}{path}"

    def paths(self, host: str = "") -> list[str]:
        """What was asked for, in order, robots files apart."""
        return [
            row.path
            for row in self.asked
            if row.path != "/robots.txt" and (not host or row.host.partition(":")[0] == host)
        ]


def page(title: str, *hrefs: str, extra: str = "") -> Said:
    anchors = "".join(f'<p><a href="{href}">to {href}</a>' for href in hrefs)
    return Said(f"<title>{title}</title><h1>{title}</h1>{extra}{anchors}".encode())


MISSING = Said(b"no such page", 404)


def pages(table: Mapping[str, Said]) -> Answer:
    """Answers by path; without a robots file unless the table has one."""
    return lambda asked: table.get(asked.path, MISSING)


def chain(length: int, size: int = 0) -> Answer:
    """/, /1, /2 ...: each links the next two; `size` bytes of padding each, which do not compress well."""

    def answer(asked: Asked) -> Said:
        if not asked.path.strip("/").isdigit() and asked.path != "/":
            return MISSING
        number = int(asked.path[1:] or 0)
        hrefs = [f"/{n}" for n in (number + 1, number + 2) if n < length]
        return page(f"page {number}", *hrefs, extra=f"<!--{noise(number, size)}-->" if size else "")

    return answer


def noise(seed: int, size: int) -> str:
    return Random(seed).randbytes(size // 2).hex()


@contextmanager
def serving(answer: Answer, address: str = "127.0.0.1", port: int = 0) -> Iterator[Site]:
    """Serve on an address of loopback until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30
        disable_nagle_algorithm = True  # head and body are two writes: 40 ms an answer otherwise

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def do_GET(self) -> None:
            self._answer(None)

        def _answer(self, form: bytes | None) -> None:
            asked = Asked(
                time.monotonic(),
                address,
                self.headers.get("Host", ""),
                self.path,
                {name.lower(): value for name, value in self.headers.items()},
                form,
            )
            site.asked.append(asked)
            said = answer(asked)
            if said.delay and quit_now.wait(said.delay):
                self.close_connection = True
                return
            self.send_response_only(said.status)
            for name, value in said.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *_: object) -> None:
            """Tests read `Site.asked`."""

    quit_now = threading.Event()
    server = ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    site = Site(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        quit_now.set()
        server.shutdown()
        server.server_close()
        thread.join()


OPTIONS: dict[str, Any] = {
    "public": False,
    "allow": ["127.0.0.0/8"],
    "politeness": {"wait": 0.0, "address_wait": 0.0, "factor": 0.0},
    "retry": {"first": 0.1, "growth": 1.0},
    "dns": {"resolve": ["*.test:127.0.0.1"]},
}
"""For crawls of such a server: nobody to be polite to."""

FLAGS = [
    *("--private", "--allow", "127.0.0.0/8", "--wait", "0s", "--resolve", "*.test:127.0.0.1", "--quiet"),
    *("--set", "politeness.address_wait=0.0", "--set", "politeness.factor=0.0"),
    *("--set", "retry.first=0.1", "--set", "retry.growth=1.0"),
]
"""The same for the command line."""


def records(directory: object) -> list[Record]:
    """Every record of a crawl, in the order of time."""
    return [record for _, _, record in CrawlReader(str(directory)).records(by_time=True)]


def fetched(directory: object) -> list[Fetched]:
    return [record for record in records(directory) if isinstance(record, Fetched)]
