"""Chaos test of a cluster: agents and servers are killed, stopped and wiped during a crawl; then it is judged.

    storm = Storm(seed=7, events=24)
    ran = run(storm, place, print)
    ran.verdict.right

Three replicating NATS servers, an embedded web in a process of its own, four `lycosa agent` processes with a
directory each and shared storage between them, all on loopback. Events are drawn from the seed (`chaos_events`).
The crawl must still be running when the last one happens: one that ends earlier proves nothing and is a fault
(make the web larger). When everything killed has come back the crawl runs to its end, the agents end with it, and
the result is judged (`chaos_verdict`): the crawl's own report that it has finished, its logs, its archive on
shared storage, and what the web's servers saw.

Limits that depend on the order of events (pages, bytes, depth) are not set, and the web has no traps: so what must
be fetched is the same, however the crawl was disturbed.

Everything is bounded: an event waits a limited time for its victims, the crawl has `Storm.seconds`,
and every process that was started is ended by its id, whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lycosa.ask.reading import CrawlReader
from lycosa.crawl.warming import warm
from lycosa.engine.protocol import Unavailable
from lycosa.errors import LocalError
from lycosa.lab.chaos_agents import AgentProcess
from lycosa.lab.chaos_crawl import ClusterCrawl, options_for, read_records
from lycosa.lab.chaos_events import Event, Kind, draw
from lycosa.lab.chaos_verdict import Pause, Verdict, judge, read_log
from lycosa.lab.nats_servers import Server, Servers
from lycosa.lab.webs import Politeness, Served, Web, WebOptions, serving
from lycosa.records import Fetched, Record

_TICK = 0.05
_LOOK = 1.0
"""Seconds between two polls of the crawl's state."""
_VICTIMS = 60.0
"""Seconds that an event waits until there are enough agents, or servers, for it."""
_LEAVE = 45.0
"""Seconds that an agent may take to hand over and end, when told to leave or when the crawl ends."""

WEB = WebOptions(
    hosts=48,
    pages=7_000,
    page_bytes=2_000,
    links=14,
    local_share=0.6,
    skew=0.15,
    slow_ms=30,
    crawl_delay=0.4,
    change_share=0.0,
)
"""Hosts of nearly equal size, all busy until the end; every oddity; links that lead to other shards."""


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a run and of its events."""

    seed: int = 1
    events: int = 24
    agents: int = 4
    servers: int = 3
    shards: int = 12
    lease: float = 10.0
    gap: tuple[float, float] = (1.0, 7.0)
    """Seconds between events: least and most."""
    seconds: float = 900.0
    """The watchdog's limit: everything except the judgement ends by then."""
    web: WebOptions = WEB
    wait: float = 0.6
    pages_per_visit: int = 2  # a robots.txt that redirects twice is asked for as that
    address_wait: float = 0.05
    commit_seconds: float = 0.9
    shared: str = ""
    """Where shared storage is; by default a directory of its own."""

    @property
    def rules(self) -> dict[str, Any]:
        return {
            "wait": self.wait,
            "address_wait": self.address_wait,
            "factor": 0.0,
            "pages_per_visit": self.pages_per_visit,
        }


class Ran(NamedTuple):
    """The outcome of a run."""

    verdict: Verdict
    happened: list[str]
    """Every event, with the seconds since the start."""
    seconds: float


def politeness(storm: Storm, web: Web) -> Politeness:
    """The politeness that the crawl promises to the servers."""
    return Politeness(
        wait=storm.wait,
        pages=storm.pages_per_visit,
        address_wait=storm.address_wait,
        factor=0.0,
        delays=web.delays(),
        # libcurl may ask again, once and immediately, when a kept connection turns out to be dead.
        same_connection=False,
        # With more processes than cores a server notices the end of an answer some time after it sent it.
        tolerance=0.05,
    )


def run(
    storm: Storm,
    place: Path,
    say: Callable[[str], None] = lambda line: None,
    events: list[Event] | None = None,
) -> Ran:
    """Run it all in a directory of its own; `say` is called with progress. `events`: instead of those drawn."""
    if events is None:
        events = draw(storm.seed, storm.events, storm.lease, storm.gap)
    warm()  # once, and not by every agent at the same time
    with serving(storm.web) as served, Servers(place / "nats", storm.servers) as servers:
        running = _Running(storm, served, servers, place, say)
        try:
            records = asyncio.run(running.go(events))
        finally:
            running.end_all()
        say("judging")
        with (place / "accesses.jsonl").open("wb") as out:
            out.writelines(served.log().lines())
        running.check_words(records)
        verdict = judge(
            records,
            running.crawl.archive,
            served.log(),
            served.web.truth(),
            politeness(storm, served.web),
            running.pauses,
        )
        faults = [*running.faults, *verdict.faults]
        return Ran(verdict._replace(faults=faults), running.happened, running.took)


class _Running:
    """A run under way."""

    def __init__(
        self, storm: Storm, served: Served, servers: Servers, place: Path, say: Callable[[str], None]
    ) -> None:
        self._storm = storm
        self._servers = servers
        self._web = served.web
        self._place = place
        self._say = say
        self.crawl = ClusterCrawl("storm", servers.urls, place, storm.shared)
        self.agents: list[AgentProcess] = []
        self.pauses: list[Pause] = []
        self.happened: list[str] = []
        self.faults: list[str] = []
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._began = time.monotonic()
        self._finished = False
        self.took = 0.0

    # -- the course of things

    async def go(self, events: list[Event]) -> list[tuple[int, int, Record]]:
        """Start, run the events, wait for the end, gather; returns the records of the crawl."""
        storm = self._storm
        options = options_for(
            self._web,
            self._web.resolve(),
            ["127.0.0.0/8"],
            politeness=storm.rules,
            commit_seconds=storm.commit_seconds,
            snapshot={"records": 400, "seconds": 600.0},
            archive={"rotate_bytes": 400_000},
        )
        await asyncio.to_thread(
            self.crawl.create,
            options,
            self._web.seeds(),
            shards=storm.shards,
            lease=storm.lease,
            replicas=min(storm.servers, 3),
        )
        for _ in range(storm.agents):
            self._add().start()
        await self.crawl.open()
        try:
            self._began = time.monotonic()
            looking = asyncio.ensure_future(self._look())
            try:
                await asyncio.wait_for(self._through(events), storm.seconds)
            except TimeoutError:
                self._fault(f"not over after {storm.seconds:.0f} s: the watchdog ended it")
            finally:
                looking.cancel()
                self.took = time.monotonic() - self._began
            return list(await self.crawl.gather(self._place / "result"))
        finally:
            await self.crawl.close()

    async def _through(self, events: list[Event]) -> None:
        await self._working()
        for event in events:
            await self._pass(event.gap)
            if self._finished:
                self._fault(f"the crawl had ended before event {event.number}: it must be longer")
                break
            await self._happen(event)
        while self._due:
            await self._pass(_TICK)
        self._note("the storm is over")
        while not self._finished:
            await self._pass(_TICK)
        self._note("the crawl has finished")
        await self._ended()

    async def _working(self) -> None:
        """Wait until pages come in: agents that are still starting would not be much disturbed."""
        while True:
            await self._pass(_LOOK)
            try:
                if await self.crawl.pages() > 2 * len(self._web.hosts):
                    return
            except Unavailable:
                continue

    async def _pass(self, seconds: float) -> None:
        """Let time pass: undo what is due, notice deaths."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            while self._due and self._due[0][0] <= now:
                heapq.heappop(self._due)[2]()
            self._notice_deaths()
            await asyncio.sleep(min(_TICK, max(until - now, 0.0)))

    async def _look(self) -> None:
        while not self._finished:
            with contextlib.suppress(Unavailable):  # servers are down
                self._finished = (await self.crawl.state()).finished
            await asyncio.sleep(_LOOK)

    # -- events

    async def _happen(self, event: Event) -> None:
        if event.kind is Kind.LEADER:
            await self._kill_leader(event)
        elif event.kind is Kind.JOIN:
            agent = self._add()
            agent.start()
            self._note(f"event {event.number}: join {agent.name}")
        else:
            agent = await self._victim(event)
            if event.kind is Kind.STOP:
                self._stop(event, agent)
            elif event.kind is Kind.LEAVE:
                self._leave(event, agent)
            else:
                self._kill(event, agent)

    async def _victim(self, event: Event) -> AgentProcess:
        """A living agent to act upon; the last one is spared, or time would just pass."""
        end = time.monotonic() + _VICTIMS
        while True:
            living = [agent for agent in self.agents if agent.working]
            if len(living) > 1:
                return living[event.choose(len(living))]
            if time.monotonic() > end:
                raise LocalError(f"event {event.number} found no two agents that live")
            await self._pass(_TICK)

    def _kill(self, event: Event, agent: AgentProcess) -> None:
        agent.kill()
        what = f"event {event.number}: {event.kind} {agent.name}"
        if event.kind is Kind.WIPE:
            shutil.rmtree(agent.directory, ignore_errors=True)  # it may not have been made yet
            what += ", its disk is deleted; it comes back"
        elif event.anew:
            self.agents.remove(agent)
            agent = self._add()
            what += f"; {agent.name} comes instead"
        else:
            what += "; it comes back"
        self._note(f"{what} in {event.rest:.1f} s")
        self._later(event.rest, lambda: self._start(agent))

    def _start(self, agent: AgentProcess) -> None:
        agent.start()
        self._note(f"  {agent.name} starts")

    def _stop(self, event: Event, agent: AgentProcess) -> None:
        began = time.monotonic()
        peers = agent.stop()
        self._note(
            f"event {event.number}: stop {agent.name} for {event.rest:.1f} s, {len(peers)} sockets open"
        )

        def wake() -> None:
            self.pauses.append(Pause(began, time.monotonic(), peers))
            agent.wake()
            self._note(f"  {agent.name} is woken")

        self._later(event.rest, wake)

    def _leave(self, event: Event, agent: AgentProcess) -> None:
        self._note(f"event {event.number}: leave {agent.name}; it comes back {event.rest:.1f} s after")
        agent.leave()
        end = time.monotonic() + _LEAVE

        def look() -> None:
            if agent.alive and time.monotonic() < end:
                self._later(_TICK, look)
                return
            self._check_left(agent)
            self._later(event.rest, lambda: self._start(agent))

        look()

    def _check_left(self, agent: AgentProcess) -> None:
        if agent.alive:
            self._fault(f"{agent.name} did not end within {_LEAVE:.0f} s: {agent.said()}")
            agent.kill()
        elif agent.code == -signal.SIGTERM and not agent.said():
            self._note(f"  {agent.name} has ended before it began")  # Python itself was still starting
        elif agent.code:
            self._fault(f"{agent.name} ended with exit code {agent.code}: {agent.said()}")
        else:
            self._note(f"  {agent.name} has ended")

    async def _kill_leader(self, event: Event) -> None:
        """Two servers of three must be up at any time: three copies guarantee no more."""
        end = time.monotonic() + _VICTIMS
        streams = self.crawl.streams(self._storm.shards)
        stream = streams[event.choose(len(streams))]
        server: Server | None = None
        while server is None:
            if all(each.running for each in self._servers.all) and self._well():
                server = self._leader(stream)
            if server is None:
                if time.monotonic() > end:
                    raise LocalError(f"event {event.number} found no leader of {stream}")
                await self._pass(0.5)
        server.kill()
        self._note(
            f"event {event.number}: leader {server.name} of {stream}; it comes back in {event.rest:.1f} s"
        )
        self._later(event.rest, lambda: self._start_server(server))

    def _start_server(self, server: Server) -> None:
        server.start()
        self._note(f"  {server.name} starts")

    def _well(self) -> bool:
        return all((each.ask("/healthz") or {}).get("status") == "ok" for each in self._servers.all)

    def _leader(self, stream: str) -> Server | None:
        for each in self._servers.all:
            told = each.ask("/jsz?streams=true") or {}
            for account in told.get("account_details", []):
                for row in account.get("stream_detail", []):
                    leader = row.get("cluster", {}).get("leader", "")
                    if row.get("name") == stream and leader:
                        return self._servers.named(leader)
        return None

    # -- agents

    def _add(self) -> AgentProcess:
        number = len(list(self._place.glob("agent*.txt"))) + 1
        name = f"agent{number}"
        words = self._place / f"{name}.txt"
        words.touch()
        agent = AgentProcess(name, self._place / "disks" / name, words, self.crawl.agent_command)
        self.agents.append(agent)
        return agent

    def _notice_deaths(self) -> None:
        """An agent that ends while the crawl runs, and was not asked to, is a fault; it is restarted."""
        for agent in self.agents:
            if agent.died and not self._finished and not agent.saw_the_end:
                self._fault(f"{agent.name} ended by itself with exit code {agent.code}: {agent.said()}")
                agent.kill()  # it is dead already; this records it
                self._later(1.0, lambda agent=agent: self._start(agent))  # type: ignore[misc]

    async def _ended(self) -> None:
        """When the crawl ends its agents end, by themselves."""
        until = time.monotonic() + _LEAVE
        while any(agent.alive for agent in self.agents) and time.monotonic() < until:
            await self._pass(_TICK)
        for agent in self.agents:
            self._check_left(agent)

    def end_all(self) -> None:
        """Kill whatever still runs."""
        for agent in self.agents:
            if agent.alive:
                agent.kill()

    # -- words

    def check_words(self, records: list[tuple[int, int, Record]]) -> None:
        """Check that what the operator is told agrees with the logs."""
        status = self.crawl.status()
        outcome = read_log(records)
        told = (status["state"], status["pages"], status["agents"])
        if told != ("finished", len(outcome.pages), []):
            self._fault(f"status tells of {told}, the logs have {len(outcome.pages)} pages")
        into = self._place / "fetched"
        self.crawl.operate("fetch", "--into", str(into))
        if list(read_records(into, self._storm.shards)) != records:
            self._fault("lycosa cluster fetch does not bring what the logs say")
        shown = [row for _, _, row in CrawlReader(into).records() if isinstance(row, Fetched)]
        if sorted({row.url for row in shown}) != sorted(page.url for page in outcome.pages):
            self._fault("a reader of what was brought does not see each page once")

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), do))

    def _note(self, line: str) -> None:
        said = f"{time.monotonic() - self._began:6.1f} s  {line}"
        self.happened.append(said)
        self._say(said)

    def _fault(self, line: str) -> None:
        self.faults.append(line)
        self._note(f"FAULT: {line}")
