"""The network of a predicted crawl: how long every answer takes, and what limits the crawl meanwhile.

A request takes the time to connect, if it needs a connection, a site's latency until the first byte, and size
over bandwidth until the last. Two things are shared: the crawl's *link*, and the *processor* of each agent. Both
are queues in the order of arrival: each page occupies the link for its bytes over the bandwidth, and the processor
for its CPU time. While they are not saturated neither delays anything; a saturated one delays the rest. Some
requests fail: half of those by closed connections, half by 503.

Bodies hold a page's links and nothing more: the other costs of a page are in the model and need not be
computed.

The limiting factor is recorded all the time. At any moment it is the first of

    bandwidth    the link has work for a second or more in its queue
    processor    an agent's processor has
    visits       as many requests are open as visits are allowed
    politeness   URLs are pending, and their hosts must not be asked yet
    discovery    everything found is being fetched: further links are awaited
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from lycosa.fetch.protocol import Failure, FailureKind, Request, Response
from lycosa.lab.costs import Costs
from lycosa.lab.network import Reply, ScriptedFetchers, answer
from lycosa.lab.predict_web import NEVER, Page, PredictedWeb, Site
from lycosa.records import Timing
from lycosa.url.parts import host_of, path_of

LIMITS = ("bandwidth", "processor", "visits", "politeness", "discovery")
_BUSY = 1.0
"""Seconds of queued work from which on a resource counts as saturated."""
_ROBOTS = "/robots.txt"
_NONE = Reply(b"", 404)
_BROKEN = Failure(FailureKind.DISCONNECT, "the connection was reset")


class Network:
    """The network of a whole crawl; runs on the crawl's event loop."""

    def __init__(
        self, web: PredictedWeb, *, link: float, errors: float, visits: int, costs: Costs, seed: int
    ) -> None:
        """`link`: bytes per second of the whole crawl, 0: no limit. `visits`: of all agents together."""
        self.web = web
        self.whole = False
        """Whether bodies have their full sizes; else they hold links alone."""
        self.link = link
        self.errors = errors
        self.visits = visits
        self.costs = costs
        self._chance = Random(f"{seed} network")
        self._link_free = 0.0
        self._free: dict[str, float] = {}
        self._last_free = 0.0  # time at which the last processor becomes free
        self._open = 0
        self._time: Callable[[], float] | None = None
        self._since = 0.0
        self._found: set[str] = set(web.seeds)
        self._left: Counter[str] = Counter(host_of(url) for url in web.seeds)
        """URLs of each host that were found and not answered yet."""
        self._waiting = len(self._found)
        self._asked: set[str] = set()
        self._tried: Counter[str] = Counter()
        self.bound: dict[str, float] = dict.fromkeys(LIMITS, 0.0)
        """Seconds for which each factor was limiting."""
        self.times: list[float] = []
        """The times at which pages came."""
        self.order: list[str] = []
        """Their URLs."""
        self.hosts_left: list[int] = []
        """The number of hosts with URLs left at those times."""
        self.last: dict[str, float] = {}
        """When the last page of a host came."""
        self.per_host: Counter[str] = Counter()
        self.requests = 0
        self.failed = 0
        self.bytes = 0
        self.most_waiting = self._waiting

    async def serve(self, agent: str, request: Request) -> Reply | Failure:
        """Answer an agent's request, taking the modelled time."""
        now = self.now()
        self._note(now)
        self._open += 1
        self.requests += 1
        host = host_of(request.url)
        page = None if path_of(request.url) == _ROBOTS else self.web.pages.get(request.url)
        site = self.web.sites.get(host)
        try:
            reply = self._reply(request, site, page)
            asked = page if isinstance(reply, Reply) else None
            await asyncio.sleep(self._seconds(request, site, asked, agent, now))
            if asked is not None and reply.status != 503:  # type: ignore[union-attr]
                self._came(request.url, host, asked, self.now())
            return reply
        finally:
            self._note(self.now())
            self._open -= 1

    def now(self) -> float:
        """Seconds on the loop that runs the crawl."""
        if self._time is None:
            self._time = asyncio.get_running_loop().time
        return self._time()

    def _note(self, now: float) -> None:
        """Add the time since the last event to the limiting factor."""
        gone, self._since = now - self._since, now
        if gone <= 0:
            return
        before = now - gone
        if self.link and self._link_free - before > _BUSY:
            what = "bandwidth"
        elif self._last_free - before > _BUSY:
            what = "processor"
        elif self._open >= self.visits:
            what = "visits"
        else:
            what = "politeness" if self._waiting > self._open else "discovery"
        self.bound[what] += gone

    def _reply(self, request: Request, site: Site | None, page: Page | None) -> Reply | Failure:
        """The site's answer."""
        url = request.url
        if path_of(url) == _ROBOTS:
            return _NONE if site is None or site.robots is None else Reply(site.robots, 200, _TEXT)
        if self.errors and self._chance.random() < self.errors:
            self.failed += 1
            return _BROKEN if self._chance.random() < 0.5 else Reply(b"", 503)
        if page is None:
            return _NONE
        if page.failures > self._tried[url]:
            self._tried[url] += 1
            self.failed += 1
            return Reply(b"", 503, (("Retry-After", f"{page.busy:.0f}"),)) if page.busy else _BROKEN
        if page.location:
            return Reply(b"", page.status, (("Location", page.location),))
        if page.status != 200:
            return Reply(b"", page.status)
        # The text of each page is unique, or one would count as a copy of another.
        anchors = '<a href="' + '"></a><a href="'.join(page.links) + '"></a>' if page.links else ""
        body = f"<p>{url}</p>{anchors}".encode()
        return Reply(body.ljust(page.size) if self.whole else body)

    def _seconds(
        self, request: Request, site: Site | None, page: Page | None, agent: str, now: float
    ) -> float:
        """How long an answer takes from now on; occupies the link and the agent's processor for it."""
        if site is None:
            return 0.1
        took = site.latency if request.reuse else site.connect + site.latency
        size = page.size if page is not None else 500
        took += size / max(site.bandwidth, 1.0)
        self.bytes += size
        if self.link:
            self._link_free = max(self._link_free, now) + size / self.link
            took = max(took, self._link_free - now)
        cpu = self.costs.page_cpu if request.reuse else self.costs.page_cpu + self.costs.host_cpu
        free = self._free[agent] = max(self._free.get(agent, 0.0), now) + cpu
        self._last_free = max(self._last_free, free)
        return max(took, free - now)

    def _came(self, url: str, host: str, page: Page, now: float) -> None:
        """A page has arrived: count its links as found."""
        if url in self._asked:
            return
        self._asked.add(url)
        if url not in self._found:
            self._found.add(url)
            self._left[host] += 1
            self._waiting += 1
        self._waiting -= 1
        self._left[host] -= 1
        if not self._left[host]:
            del self._left[host]
        found = self._found
        for to in (page.location,) if page.location else page.links:
            if to not in found and to and not self._is_lost(to):
                found.add(to)
                self._left[host_of(to)] += 1
                self._waiting += 1
        self.most_waiting = max(self.most_waiting, self._waiting)
        self.times.append(now)
        self.order.append(url)
        self.hosts_left.append(len(self._left))
        self.per_host[host] += 1
        self.last[host] = now

    def _is_lost(self, url: str) -> bool:
        page = self.web.pages.get(url)
        return page is not None and page.failures >= NEVER


_TEXT = (("Content-Type", "text/plain"),)


class _Line:
    """The fetcher of a single agent; `lycosa.fetch.protocol.Fetcher`."""

    needs_address = True

    def __init__(self, network: Network) -> None:
        self._network = network

    async def fetch(self, request: Request) -> Response | Failure:
        network = self._network
        began = network.now()
        reply = await network.serve("", request)
        if isinstance(reply, Failure):
            return reply
        total = int((network.now() - began) * 1000)
        site = network.web.sites.get(host_of(request.url))
        if site is None:
            return answer(request, reply, Timing(0, 0, total, total))
        connect = 0 if request.reuse else int(site.connect * 1000)
        first = min(connect + int(site.latency * 1000), total)
        return answer(request, reply, Timing(0, connect, first, total))

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""


def fetchers_of(network: Network) -> ScriptedFetchers:
    """The fetchers of a single agent."""
    return ScriptedFetchers(_Line(network))
