"""A whole cluster in one process: members, engine, web and disks on one virtual clock, from one seed.

    ran = run_cluster(7, web, storage=place, agents=3)

The members are those of `lycosa agent`; what differs is what they are handed: the engine in memory, with a network
that decides the fate of every call; a machine with a virtual clock, a disk in memory and a scripted web. Shared
storage is a directory. What may happen to a run besides is a `Plan`: a coroutine that begins with it, and may stop
agents, kill them (their disks keep what was promised, and no more), cut them off and start others.

The same seed, web and plan give the same run.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from weakref import WeakSet

from lycosa.clock import Clock, milliseconds
from lycosa.cluster.control import About, Control, State, Wanted
from lycosa.cluster.links import send_seeds
from lycosa.cluster.member import Member
from lycosa.cluster.names import exchange_of, log_of
from lycosa.cluster.storage import DirectoryStorage, ShardStorage
from lycosa.cluster.tail import Piece, pieces
from lycosa.cluster.tasks import end_tasks
from lycosa.crawl.config import Options, canonical_seeds, encode_options, read_options, with_seeds
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.underway import Underway
from lycosa.engine.memory import Fate, MemoryEngine, MemoryServers, Network
from lycosa.engine.protocol import Engine, got
from lycosa.fetch.protocol import Failure, Request, Response
from lycosa.lab import virtual
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Script, ScriptedFetcher, ScriptedFetchers, ScriptedResolver
from lycosa.lab.virtual import VirtualClock
from lycosa.log.reader import LogReader
from lycosa.records import Record
from lycosa.url.domains import Domains
from lycosa.url.parts import host_of
from lycosa.url.rules import Rules

CRAWL = "simulated"
_DAY = 86_400.0
_SUFFIXES = b"com\nnet\norg\ntest\n"
"""The public suffixes of simulated webs; the whole list takes longer to read than a small crawl."""


_AGENT = contextvars.ContextVar("agent", default="")


class SimulatedWeb(NamedTuple):
    """The web that is crawled."""

    script: Script
    names: Mapping[str, str]
    """Addresses by host."""
    seeds: Sequence[str]
    latency: float = 0.05


class Asked(NamedTuple):
    """A request as the web saw it, in seconds of the run."""

    agent: str
    start: float
    end: float
    url: str
    address: str


class Ran(NamedTuple):
    """What a run left."""

    records: dict[int, list[tuple[int, Record]]]
    """The log of every shard, as its next holder would find it."""
    asked: list[Asked]
    """What the web saw, by time."""
    ends: dict[str, str]
    """Why each agent ended, by name; none for those that were killed."""
    told: list[tuple[float, str, str]]
    """What agents said: when, who, what."""
    state: State
    seconds: float


class DiceNetwork:
    """A network that loses, delays and repeats calls by chance; and cuts clients off when it is told to."""

    def __init__(
        self, seed: int, *, lost: float = 0.01, unheard: float = 0.01, twice: float = 0.01, late: float = 0.02
    ) -> None:
        """How often a call is lost, its answer is, it comes twice, or takes seconds instead of milliseconds."""
        self._random = Random(f"{seed} network")
        self._lost = lost
        self._unheard = unheard
        self._twice = twice
        self._late = late
        self.cut: set[str] = set()
        """Clients that nobody hears, and that hear nobody."""

    def fate(self, client: str, to: str) -> Fate:
        chance = self._random
        if client in self.cut or chance.random() < self._lost:
            return Fate(None, None)
        there = chance.expovariate(1 / (4.0 if chance.random() < self._late else 0.002))
        back = None if chance.random() < self._unheard else chance.expovariate(1 / 0.002)
        return Fate(there, back, chance.random() < self._twice)


class _Line(ScriptedFetcher):
    """An agent's way to the web, which notes what it sees there."""

    def __init__(self, web: SimulatedWeb, clock: Clock, agent: str, seen: list[Asked]) -> None:
        super().__init__(web.script, clock, web.latency)
        self._now = clock
        self._agent = agent
        self._seen = seen
        self.off = False

    async def fetch(self, request: Request) -> Response | Failure:
        if self.off:
            await asyncio.Event().wait()  # nothing comes, until whoever waits is gone
        start = self._now.monotonic()
        try:
            return await super().fetch(request)
        finally:
            end = self._now.monotonic()
            self._seen.append(Asked(self._agent, start, end, request.url, request.address))


class SimulatedMachine:
    """The machine of one agent; `lycosa.cluster.machine.Machine`."""

    def __init__(
        self, web: SimulatedWeb, clock: Clock, files: FaultyFiles, name: str, seed: str, seen: list[Asked]
    ) -> None:
        self.clock = clock
        self.files = files
        self._line = _Line(web, clock, name, seen)
        self.fetchers = ScriptedFetchers(self._line)
        self.resolver = ScriptedResolver(web.names)
        self._random = Random(seed)

    async def begin(self) -> None:
        """Nobody else has this disk."""

    def warm(self, options: Options) -> None:
        """What is not compiled will be: no time passes here."""

    def watch(self, underway: Underway) -> None:
        """A loop on virtual time does not stand still."""

    def end(self) -> None:
        """There is nothing to let go."""

    def stop(self, random: Random) -> FaultyFiles:
        """The power is cut: nothing of this machine reaches the web or its disk any more. The disk then."""
        self._line.off = True
        return self.files.restart(random)

    def remove(self, directory: str) -> None:
        for name in self.files.list(directory):
            path = f"{directory}/{name}"
            if self.files.list(path):
                self.remove(path)
            else:
                self.files.remove(path)

    def token(self, size: int) -> str:
        return self._random.randbytes(size).hex()


class Running:
    """A cluster that runs: for a `Plan` to act upon."""

    def __init__(self, seed: int, web: SimulatedWeb, clock: VirtualClock, network: Network | None) -> None:
        self.clock = clock
        self.servers = MemoryServers()
        self.asked: list[Asked] = []
        self.ends: dict[str, str] = {}
        self.told: list[tuple[float, str, str]] = []
        self.members: dict[str, Member] = {}
        """Those that live."""
        self._seed = seed
        self._web = web
        self._network = network
        self._disks: dict[str, FaultyFiles] = {}
        self._machines: dict[str, SimulatedMachine] = {}
        self._engines: dict[str, MemoryEngine] = {}
        self._tasks: dict[str, asyncio.Task[str]] = {}
        self._all: dict[str, WeakSet[asyncio.Task[Any]]] = {}
        self._starts = 0
        asyncio.get_running_loop().set_task_factory(self._begun)

    def _begun(self, loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        """Every task is known by the agent that began it."""
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **more)
        self._all.setdefault(_AGENT.get(), WeakSet()).add(task)
        return task

    def start(self, name: str, clock: Clock | None = None) -> None:
        """Begin an agent of that name, on the disk that an earlier one of the name left. `clock`: its own."""
        self._starts += 1
        clock = clock or self.clock
        files = self._disks.setdefault(name, FaultyFiles())
        seed = f"{self._seed} {name} {self._starts}"
        machine = SimulatedMachine(self._web, clock, files, name, seed, self.asked)
        self._machines[name] = machine

        async def reach(agent: str) -> Engine:
            self._engines[name] = self.engine(name, clock)
            return self._engines[name]

        def told(text: str) -> None:
            self.told.append((self.clock.monotonic(), name, text))

        self.members[name] = Member(reach, machine, name=name, told=told)
        began = _AGENT.set(name)
        self._tasks[name] = asyncio.ensure_future(self._run(name, self.members[name]))
        _AGENT.reset(began)

    async def _run(self, name: str, member: Member) -> str:
        try:
            self.ends[name] = end = await member.run()
            return end
        finally:
            if self.members.get(name) is member:
                del self.members[name]

    async def kill(self, name: str) -> None:
        """End an agent at whatever it waits for; its disk keeps what was promised of it.

        What its tasks still do while they are ended reaches nobody: the machine is off.
        """
        if name in self._engines:
            self._engines[name].vanish()
        self._disks[name] = self._machines[name].stop(Random(f"{self._seed} disk {self._starts}"))
        self._tasks.pop(name)
        self.members.pop(name, None)
        tasks = list(self._all.pop(name, ()))
        await end_tasks(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # nobody else will look

    def engine(self, client: str, clock: Clock | None = None) -> MemoryEngine:
        """A client of the servers."""
        return MemoryEngine(self.servers, CRAWL, clock or self.clock, client=client, network=self._network)

    async def over(self) -> None:
        """Until all agents have ended; the failure of one is raised."""
        while self._tasks:
            done, _ = await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            for name in [name for name, task in self._tasks.items() if task in done]:
                self._tasks.pop(name).result()


Plan = Callable[[Running], Awaitable[None]]


def run_cluster(
    seed: int,
    web: SimulatedWeb,
    *,
    storage: Path,
    agents: int = 2,
    shards: int = 4,
    options: Mapping[str, Any] | None = None,
    network: Network | None = None,
    lease: float = 30.0,
    plans: Sequence[Plan] = (),
    limit: float = 30 * _DAY,
) -> Ran:
    """Crawl a web to the end with so many agents.

    `network`: decides the fate of every call to the engine; without one all is well. `limit`: seconds of virtual
    time after which the run is given up (`TimeoutError`).
    """

    async def main(clock: VirtualClock) -> Ran:
        running = Running(seed, web, clock, network)
        await _create(running, seed, web, storage, shards, lease, options or {})
        beside = [asyncio.ensure_future(plan(running)) for plan in plans]
        for number in range(agents):
            running.start(f"agent{number}")
        async with asyncio.timeout(limit):
            await running.over()
        await end_tasks(beside)
        for task in beside:
            if not task.cancelled():
                task.result()
        plain = MemoryEngine(running.servers, CRAWL, clock, client="reader")
        return Ran(
            records=await _logs(plain, DirectoryStorage(storage), shards),
            asked=sorted(running.asked, key=lambda each: each.start),
            ends=running.ends,
            told=running.told,
            state=await Control(plain, clock).state(),
            seconds=clock.monotonic(),
        )

    return virtual.run(main)


async def _create(
    running: Running,
    seed: int,
    web: SimulatedWeb,
    storage: Path,
    shards: int,
    lease: float,
    given: Mapping[str, Any],
) -> None:
    """Make the crawl, give it its seeds and set it going; as an operator does, but for what is drawn by chance."""
    clock = running.clock
    engine = MemoryEngine(running.servers, CRAWL, clock, client="operator")
    control = Control(engine, clock)
    options = read_options(dict(given))
    urls = canonical_seeds(web.seeds, Rules.named(options.rules))
    options = with_seeds(options, None, urls)
    about = About(
        crawl=Random(f"{seed} crawl").randbytes(6).hex(),
        shards=shards,
        hash_seed=Random(f"{seed} hash").getrandbits(63),
        created=milliseconds(clock),
        storage=str(storage),
        replicas=1,
        lease=lease,
    )
    await control.create(about, encode_options(options).decode(), DirectoryStorage(storage), _SUFFIXES)
    await control.limit_pages(options.limits.pages)
    splitter = Splitter(shards, Domains(_SUFFIXES), about.splitter)
    for url in urls:
        shard = splitter.shard_of(host_of(url))
        got(await send_seeds(engine.stream(exchange_of(shard)), shard, [url]))
    await control.want(Wanted.RUNNING, milliseconds(clock))


async def _logs(
    engine: MemoryEngine, storage: DirectoryStorage, shards: int
) -> dict[int, list[tuple[int, Record]]]:
    found: dict[int, list[tuple[int, Record]]] = {}
    for shard in range(shards):
        tail: list[Piece] = [piece async for piece in pieces(engine.stream(log_of(shard)))]
        disk = FaultyFiles()
        ShardStorage(storage, CRAWL, shard).restore(disk, tail)
        found[shard] = list(LogReader(disk.within("log")).scan())
    return found
