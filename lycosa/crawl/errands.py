"""Errands: requests by the scripts of one page, made within the visit that fetched the page.

The browser makes no connections (`lycosa.render`); each of its requests comes here and takes the same steps as a
page, one after the other: method, scope's exclusions, the cache, the address and its guard, the host's turn,
robots.txt, the visit's connection with its pages and waits. Requests to the page's own host use the visit's own
turn. For another host that host's turn is claimed, waited for if necessary, and kept while the following requests
are for the same host.

Refused requests, each with a word that goes into the page's record:

    method      anything but GET: a crawl changes nothing
    kind        images, media, fonts (unless `images`), pings and the like: they have nothing to read
    scheme      anything but http and https
    excluded    the operator excludes the host
    robots      the site's rules forbid it, or could not be fetched
    address     the host has no address that may be connected to
    turn        the host's turn could not be had in time, or is over
    failed      the site did not answer
    limit       the page has reached its limit of requests or bytes
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from lycosa.archive.writer import Part
from lycosa.clock import Clock, milliseconds
from lycosa.fetch.protocol import Response
from lycosa.render.options import RenderOptions
from lycosa.render.page import Answer, Wish
from lycosa.url.canonical import NO_RULES, canonicalise
from lycosa.url.parts import host_of

if TYPE_CHECKING:
    from lycosa.crawl.visit import Stay, Visitor

_PICTURES = frozenset(("Image", "Media", "Font", "TextTrack"))
_NEVER = frozenset(
    ("Ping", "CSPViolationReport", "Prefetch", "Manifest", "SignedExchange", "WebSocket", "EventSource")
)
_PASSED = ("Origin", "Referer")
"""Headers of a page's request that are passed on."""
_DROPPED = frozenset(
    (
        *("content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive", "trailer"),
        *("alt-svc", "strict-transport-security", "report-to", "nel", "reporting-endpoints", "link"),
        *("service-worker-allowed", "refresh", "clear-site-data", "accept-ch", "critical-ch"),
    )
)
"""Headers of answers that describe the transfer, or that make a browser send requests by itself."""
_LARGE = 4
"""One answer takes at most this fraction (one in so many) of the cache."""
STOPPED = "turn (is over)"
"""The reason for refusing everything once the run stops, or the right to ask has ended."""
_TOLD = 20
"""Maximum number of refused requests that a record names."""


class StoppedError(Exception):
    """The visit ended before the page was rendered: the page is fetched again."""


class Cache:
    """Recent answers to requests of pages, bounded in bytes; the oldest leave first."""

    def __init__(self, size: int, seconds: float, clock: Clock) -> None:
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._rows: OrderedDict[tuple[str, str], tuple[float, Answer]] = OrderedDict()
        self.nbytes = 0

    def get(self, origin: str, url: str) -> Answer | None:
        row = self._rows.get((origin, url))
        return row[1] if row is not None and row[0] > self._clock.monotonic() else None

    def put(self, origin: str, url: str, answer: Answer) -> None:
        if len(answer.body) * _LARGE > self._size:
            return
        old = self._rows.pop((origin, url), None)
        self.nbytes -= len(old[1].body) if old is not None else 0
        self._rows[origin, url] = self._clock.monotonic() + self._seconds, answer
        self.nbytes += len(answer.body)
        while self.nbytes > self._size:
            _, (_, gone) = self._rows.popitem(last=False)
            self.nbytes -= len(gone.body)


class Errands:
    """The errands of one page."""

    def __init__(
        self, visitor: Visitor, turn: Stay, options: RenderOptions, cache: Cache, clock: Clock
    ) -> None:
        self._visitor = visitor
        self._turn = turn
        self._options = options
        self._cache = cache
        self._clock = clock
        self._one = asyncio.Lock()
        self._other: Stay | None = None  # the turn of another host, while we have it
        self._bytes = 0
        self._asked = 0
        self.answered = 0
        self.stopped = False
        """A request was refused because the visit must end: the page is incomplete."""
        self.refused: list[str] = []
        """The first requests without an answer: reason and URL. Those refused for their kind are not included."""
        self.parts: list[Part] = []
        """The exchanges for the archive."""

    async def ask(self, wish: Wish) -> Answer | None:
        """Implements `Asker`."""
        why = self._barred(wish)
        url = None if why else canonicalise(wish.url, None, NO_RULES)
        if url is None:
            return self._refused(why or "scheme", wish.url)
        origin = wish.headers.get("Origin", "")
        async with self._one:
            if (answer := self._had(origin, url)) is not None:
                return answer
            if self._asked >= self._options.requests or self._bytes >= self._options.bytes:
                return self._refused("limit", url)
            self._asked += 1
            turn = await self._turn_for(url)
            if (answer := self._had(origin, url)) is not None:  # another page asked while this one waited
                return answer
            headers = tuple((name, wish.headers[name]) for name in _PASSED if wish.headers.get(name))
            found = turn if isinstance(turn, str) else await self._visitor.errand(turn, url, headers)
        if isinstance(found, str):
            self.stopped |= found == STOPPED
            return self._refused(found, url)
        self.answered += 1
        self._bytes += len(found.decoded)
        at = milliseconds(self._clock) - found.timing.total
        self.parts.append(
            Part(url, at, found.request_head, found.head, found.body, found.address, found.truncated)
        )
        answer = Answer(found.status, answer_headers(found), found.decoded)
        if (
            found.status == 200
            and not found.truncated
            and "no-store" not in (found.header("cache-control") or "")
        ):
            self._cache.put(origin, url, answer)
        return answer

    async def close(self) -> None:
        """The page is done: give up another host's turn."""
        other, self._other = self._other, None
        if other is not None:
            self._visitor.leave(other)

    def _barred(self, wish: Wish) -> str:
        if wish.method != "GET":
            return "method"
        picture = wish.kind in _PICTURES or (
            wish.kind == "Other" and wish.headers.get("Accept", "").startswith("image/")
        )
        if wish.kind in _NEVER or (picture and not self._options.images):
            return "kind"
        if wish.headers.get("Sec-Purpose") or wish.headers.get("Purpose"):
            return "kind"  # a prefetch: it may never be needed
        return "" if wish.url.startswith(("http://", "https://")) else "scheme"

    def _refused(self, why: str, url: str) -> Answer | None:
        if why != "kind" and len(self.refused) < _TOLD:
            self.refused.append(f"{why} {url}"[:500])
        return None

    def _had(self, origin: str, url: str) -> Answer | None:
        answer = self._cache.get(origin, url)
        self.answered += answer is not None
        return answer

    async def _turn_for(self, url: str) -> Stay | str:
        """The turn on which a URL may be requested, waited for if necessary; or the reason why there is none."""
        host = host_of(url)
        if (excluded := self._turn.shard.scope.excludes(host)) is not None:
            return f"excluded ({excluded.rule})"
        if self._other is not None and self._other.host != host:
            await self.close()
        if host == self._turn.host:
            return self._turn
        if self._other is None:
            until = self._clock.monotonic() + self._options.turn_seconds
            other = await self._visitor.lodge(self._turn, url, until)
            if isinstance(other, str):
                return other
            self._other = other
        return self._other


def answer_headers(response: Response) -> list[tuple[str, str]]:
    """The headers of an answer for the browser, which gets the body decoded and whole."""
    found: list[tuple[str, str]] = []
    for line in response.head.decode("latin-1").split("\n")[1:]:
        name, colon, value = line.partition(":")
        if colon and name.strip().lower() not in _DROPPED:
            found.append((name.strip(), value.strip()))
    return found
