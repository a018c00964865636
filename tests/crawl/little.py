"""Little webs written down as tables, crawled whole on virtual time: robots, politeness, scope, limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, NamedTuple

from lycosa.clock import Clock
from lycosa.crawl import manifest as manifests
from lycosa.crawl.agent import Agent, End, build
from lycosa.crawl.config import read_options
from lycosa.fetch.dns import DnsFailure, DnsKind, Resolution, Resolver
from lycosa.fetch.protocol import Failure, Request, Response
from lycosa.files import Files
from lycosa.lab import virtual
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.lab.network import Reply, ScriptedFetcher, ScriptedFetchers
from lycosa.lab.virtual import VirtualClock
from lycosa.log.reader import LogReader
from lycosa.records import Deferred, Fetched, Record, Robots, Skipped
from lycosa.url.parts import host_of

Answer = Reply | Failure | Callable[[int], Reply | Failure]
"""What a URL says; a function is told how often it was asked before."""

NO_RULES = Reply(b"", 404)
PLAIN = (("Content-Type", "text/plain"),)


def html(*hrefs: str, head: str = "", headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """A page with links."""
    anchors = "".join(f'<a href="{href}">{href}</a> ' for href in hrefs)
    return Reply(f"{head}<p>{anchors}".encode(), 200, (("Content-Type", "text/html"), *headers))


def rules(text: str) -> Reply:
    """A robots file."""
    return Reply(text.encode(), 200, PLAIN)


def moved(to: str) -> Reply:
    return Reply(b"", 302, (("Location", to),))


class Sent(NamedTuple):
    """One request as the network saw it, in seconds of virtual time."""

    start: float
    end: float
    url: str
    address: str


class Net(ScriptedFetcher):
    """The scripted network, remembering addresses too."""

    def __init__(self, pages: Mapping[str, Answer], clock: VirtualClock, latency: float) -> None:
        super().__init__(self._answer, clock, latency)
        self._pages = pages
        self._now = clock.monotonic
        self.sent: list[Sent] = []

    def _answer(self, request: Request, before: int) -> Reply | Failure:
        found = self._pages.get(request.url)
        if found is None:
            return NO_RULES if request.url.endswith("/robots.txt") else Reply(b"nothing here", 404)
        return found if isinstance(found, Reply | Failure) else found(before)

    async def fetch(self, request: Request) -> Response | Failure:
        start = self._now()
        outcome = await super().fetch(request)
        self.sent.append(Sent(start, self._now(), request.url, request.address))
        return outcome


class Names:
    """A resolver: each host has an address of its own unless the table says otherwise."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self._table = dict(table)

    async def resolve(self, host: str) -> Resolution | DnsFailure:
        if host.startswith("nowhere"):
            return DnsFailure(DnsKind.NXDOMAIN, f"{host} does not exist", True)
        address = self._table.setdefault(host, f"127.1.0.{len(self._table) + 1}")
        return Resolution((address,), float("inf"))

    async def close(self) -> None:
        """There is nothing to close."""


class PowerCut:
    """Given to `crawl` as `during`: the machine stops after so many seconds of the run."""

    def __init__(self, files: FaultyFiles, seconds: float, random: Random | None = None) -> None:
        self.files = files
        self.after = files
        """What the disk holds after the cut."""
        self._seconds = seconds
        self._random = random or Random(0)

    async def __call__(self, agent: Agent, clock: Clock) -> None:
        await clock.sleep(self._seconds)
        self.after = self.files.restart(self._random)


class Ran(NamedTuple):
    """What a run did."""

    end: End | None  # None: the machine stopped
    sent: list[Sent]
    until: float
    agent: Agent
    records: list[Record]
    """The whole log at the end of the run, by time; empty if the machine stopped."""

    def times(self, host: str = "", url: str = "") -> list[tuple[float, float]]:
        """Start and end of the requests at a host or URL, in order."""
        return sorted(
            (row.start, row.end)
            for row in self.sent
            if (not host or host_of(row.url) == host) and (not url or row.url == url)
        )

    @property
    def urls(self) -> list[str]:
        return [row.url for row in self.sent]

    @property
    def fetched(self) -> dict[str, int]:
        """URL to status of what was fetched, all runs together; fails if one is there twice."""
        found: dict[str, int] = {}
        for row in self.records:
            if isinstance(row, Fetched):
                assert row.url not in found, f"{row.url} is in the log twice"
                found[row.url] = row.status
        return found

    @property
    def skipped(self) -> dict[str, str]:
        """URL to the reason, the last one if there are several."""
        return {row.url: str(row.why) for row in self.records if isinstance(row, Skipped)}

    @property
    def deferred(self) -> list[Deferred]:
        return [row for row in self.records if isinstance(row, Deferred)]

    @property
    def robots(self) -> list[Robots]:
        return [row for row in self.records if isinstance(row, Robots)]


def records(files: Files) -> list[Record]:
    """Every record of every shard, by time."""
    count = len(files.list("shards"))
    rows = [
        record
        for number in range(count)
        for _, record in LogReader(files.within(f"{manifests.shard_directory(number)}/log")).scan()
    ]
    return sorted(rows, key=lambda row: row.at)


OPTIONS: dict[str, Any] = {"public": False, "allow": ["127.0.0.0/8"], "scope": {"mode": "any"}}


def crawl(
    files: Files,
    pages: Mapping[str, Answer],
    seeds: list[str],
    *,
    start: float = 0.0,
    latency: float = 0.01,
    shards: int = 4,
    names: Mapping[str, str] | Resolver | None = None,
    during: Callable[[Agent, Clock], Coroutine[Any, Any, None]] | None = None,
    told: Callable[[str], None] | None = None,
    **options: Any,
) -> Ran:
    """A whole run; `during` may give a coroutine that runs beside it."""
    resolver = Names(names or {}) if names is None or isinstance(names, Mapping) else names

    async def go(clock: VirtualClock) -> Ran:
        net = Net(pages, clock, latency)
        agent = build(
            files,
            read_options({**OPTIONS, **options}),
            seeds,
            shards=shards,
            hash_seed=7,
            clock=clock,
            fetchers=ScriptedFetchers(net),
            resolver=resolver,
            told=told,
        )
        beside = asyncio.ensure_future(during(agent, clock)) if during else None
        end: End | None = None
        try:
            end = await agent.run()
        except Crash:
            assert beside is not None and beside.done(), "a crash that nobody asked for"
        if beside is not None:
            beside.cancel()
        return Ran(end, net.sent, clock.monotonic(), agent, records(files) if end is not None else [])

    return virtual.run(go, start)
