"""A scripted network: fetches and name lookups answered by a function, without a socket.

The agent crawls through the usual interfaces; only what is behind them is a script. A script takes the request and
how often that URL was asked before, and returns a `Reply`, or a `Failure` to simulate an unhealthy site.
Latency passes on the crawl's own clock, so on virtual time it costs no real time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from lycosa.clock import Clock
from lycosa.fetch.dns import DnsFailure, DnsKind, Resolution
from lycosa.fetch.protocol import Failure, Fetcher, Request, Response
from lycosa.records import Timing
from lycosa.url.parts import path_of


class Reply(NamedTuple):
    """The answer of a scripted site."""

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/html; charset=utf-8"),)
    closed: bool = False  # the site closes the connection


Script = Callable[[Request, int], Reply | Failure]


def answer(request: Request, reply: Reply, timing: Timing) -> Response:
    """A scripted reply as a fetcher returns it."""
    head, location, retry = _head(reply.status, reply.headers)
    return Response(
        url=request.url,
        status=reply.status,
        version="HTTP/1.1",
        request_head=f"GET {path_of(request.url)} HTTP/1.1\r\n\r\n".encode("ascii"),
        head=head,
        body=reply.body,
        decoded=reply.body,
        timing=timing,
        address=request.address,
        location=location,
        retry_after=retry,
        closed=reply.closed,
    )


def at_once(seconds: float) -> Timing:
    """The timing of an answer that came as a whole after so many seconds."""
    total = int(seconds * 1000)
    return Timing(0, 0, total, total)


@lru_cache(maxsize=1 << 10)
def _head(status: int, headers: tuple[tuple[str, str], ...]) -> tuple[bytes, str | None, float | None]:
    """The head of an answer, its Location and its Retry-After: few answers differ in them, so they are cached."""
    lines = [f"HTTP/1.1 {status} OK", *(f"{name}: {value}" for name, value in headers)]
    location = next((value for name, value in headers if name.lower() == "location"), None)
    retry = next((float(value) for name, value in headers if name.lower() == "retry-after"), None)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), location, retry


class ScriptedFetcher:
    """Answers from a script; records every request and its times."""

    needs_address = True

    def __init__(self, script: Script, clock: Clock, latency: float = 0.01) -> None:
        self._script = script
        self._clock = clock
        self._latency = latency
        self._asked: Counter[str] = Counter()
        self.requests: list[tuple[float, float, str]] = []
        """Start and end on the monotonic clock, and the URL, of each request."""

    async def fetch(self, request: Request) -> Response | Failure:
        start = self._clock.monotonic()
        before = self._asked[request.url]
        self._asked[request.url] += 1
        await self._clock.sleep(self._latency)
        self.requests.append((start, self._clock.monotonic(), request.url))
        reply = self._script(request, before)
        if isinstance(reply, Failure):
            return reply
        return answer(request, reply, at_once(self._clock.monotonic() - start))

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""


class ScriptedFetchers:
    """One scripted fetcher for http and https."""

    schemes = ["http", "https"]  # noqa: RUF012 - a constant of the double

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    def for_scheme(self, scheme: str) -> Fetcher | None:
        return self._fetcher if scheme in self.schemes else None

    async def close(self) -> None:
        await self._fetcher.close()


class ScriptedResolver:
    """Resolves names from a table; others do not exist."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self._table = table

    async def resolve(self, host: str) -> Resolution | DnsFailure:
        address = self._table.get(host)
        if address is None:
            return DnsFailure(DnsKind.NXDOMAIN, f"{host} is not in the script", True)
        return Resolution((address,), float("inf"))

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""
