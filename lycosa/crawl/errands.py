"""Errands: what the scripts of one page ask for, asked for within the visit that fetched the page.

A browser asks nobody (`lycosa.render`); each of its requests comes here and takes the way that a page takes, one
after the other: method, scope's exclusions, the cache, the address and its guard, the host's turn, robots.txt, the
visit's connection with its pages and waits. What is on the page's own host goes over the visit's own turn. For what
is on another host that host's turn is claimed, waited for if need be, and kept while the requests that follow are
for the same host.

Refused, each with a word that goes into the page's record:

    method      anything but GET: a crawl changes nothing
    kind        images, media, fonts (unless `images`), pings and the like: nothing to read in them
    scheme      anything but http and https
    excluded    the operator excludes the host
    robots      the site's rules forbid it, or could not be had
    address     the host has none that may be asked
    turn        the host's turn could not be had in time, or is over
    failed      the site did not answer
    limit       the page has had its requests or its bytes
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
"""Headers of a page's request that are sent on."""
_DROPPED = frozenset(
    (
        *("content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive", "trailer"),
        *("alt-svc", "strict-transport-security", "report-to", "nel", "reporting-endpoints", "link"),
        *("service-worker-allowed", "refresh", "clear-site-data", "accept-ch", "critical-ch"),
    )
)
"""Headers of answers that say how they were sent, or that have a browser ask somebody by itself."""
_LARGE = 4
"""One answer takes at most this part of the cache."""
STOPPED = "turn (is over)"
"""Why nothing is asked for when the run stops, or the right to ask has ended."""
_TOLD = 20
"""Refused requests that a record names."""


class StoppedError(Exception):
    """The visit ended before the page was rendered: it is fetched again."""


class Cache:
    """Answers that pages were given a moment ago, up to a number of bytes; the oldest leave first."""

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
    """Those of one page."""

    def __init__(
        self, visitor: Visitor, turn: Stay, options: RenderOptions, cache: Cache, clock: Clock
    ) -> None:
        self._visitor = visitor
        self._turn = turn
        self._options = options
        self._cache = cache
        self._clock = clock
        self._one = asyncio.Lock()
        self._other: Stay | None = None  # the turn of another host, while it is had
        self._bytes = 0
        self._asked = 0
        self.answered = 0
        self.stopped = False
        """Something was not asked for because the visit must end: the page is not what it would be."""
        self.refused: list[str] = []
        """The first of those that got no answer: why, and the URL. What nobody reads (kind) is not among them."""
        self.parts: list[Part] = []
        """For the archive."""

    async def ask(self, wish: Wish) -> Answer | None:
        """An `Asker`."""
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
        """The page is done: no other host's turn is kept."""
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
            return "kind"  # a prefetch: perhaps nobody will want it
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
        """The turn on which a URL may be asked for, waited for if need be; or why there is none."""
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
    """The headers of an answer, as a browser is told them: its body is decoded and whole."""
    found: list[tuple[str, str]] = []
    for line in response.head.decode("latin-1").split("\n")[1:]:
        name, colon, value = line.partition(":")
        if colon and name.strip().lower() not in _DROPPED:
            found.append((name.strip(), value.strip()))
    return found
