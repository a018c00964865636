"""A whole cluster in one process: members, engine, web, disks and storage on one virtual clock, from one seed.

    ran = run_cluster(7, web, agents=3)

The members are the same code as in `lycosa agent`; only their environment differs: the engine in memory, with a
network that decides the fate of every call; shared storage in memory; a machine with a clock of its own, a disk in
memory and a scripted web. Disturbances of a run are a `Plan`: a coroutine that begins with it, and may stop agents,
kill them at any of their callbacks, cut them off and start others. `lycosa.lab.simulate` draws such plans
from a seed.

Servers and the web belong to no agent: a call under way arrives, and a request is answered, even if its sender is
gone; a killed process's connections are closed at once. The same seed, web and plan give the same
run.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec

from lycosa.clock import Clock, milliseconds
from lycosa.cluster.control import About, Control, State, Wanted
from lycosa.cluster.links import sow
from lycosa.cluster.member import Member
from lycosa.cluster.names import log_of
from lycosa.cluster.shared_keeping import SharedHome
from lycosa.cluster.storage import ShardStorage, Storage
from lycosa.cluster.tail import Piece, pieces
from lycosa.cluster.tasks import end_tasks
from lycosa.crawl.config import Options, canonical_seeds, encode_options, read_options, with_seeds
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.underway import Underway
from lycosa.engine.memory import MemoryEngine, MemoryServers, Network
from lycosa.engine.protocol import Engine, Unavailable
from lycosa.errors import StorageError
from lycosa.lab import virtual
from lycosa.lab.cluster_web import Asked, SimulatedWeb, Web, WebLine
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import ScriptedFetchers, ScriptedResolver
from lycosa.lab.simulate_loop import AGENT, AgentLoop
from lycosa.lab.simulate_storage import MemoryStorage, Mishap
from lycosa.lab.virtual import VirtualClock
from lycosa.log.reader import LogReader
from lycosa.records import Record
from lycosa.url.domains import Domains
from lycosa.url.rules import Rules

CRAWL = "simulated"
_DAY = 86_400.0
_SUFFIXES = b"com\nnet\norg\ntest\n"
"""The public suffixes of simulated webs; the whole list takes longer to read than a small crawl takes."""
_NOBODY = contextvars.Context()


class Ran(NamedTuple):
    """The outcome of a run."""

    records: dict[int, list[tuple[int, Record]]]
    """The log of every shard, as its next holder would find it."""
    asked: list[Asked]
    """The requests that the web saw, by time."""
    ends: dict[str, str]
    """Why each agent ended, by name; killed agents are missing."""
    told: list[tuple[float, str, str]]
    """The agents' messages: time, agent, text."""
    state: State
    seconds: float
    failed: list[tuple[float, str, BaseException]]
    """Agents that ended with an error: time, agent, error."""
    finished: float
    """When the crawl reported its end; 0.0: never."""
    storage: dict[str, bytes]


class AgentClock:
    """An agent's clock: monotonic time of its own, faster or slower than the run's; common calendar time."""

    def __init__(self, common: VirtualClock, rate: float = 1.0) -> None:
        self._common = common
        self.rate = rate

    def wall(self) -> float:
        return self._common.wall()

    def monotonic(self) -> float:
        return self._common.monotonic() * self.rate

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.rate)


class SimulatedMachine:
    """The machine of one agent; `lycosa.cluster.machine.Machine`."""

    agents = 1

    def __init__(self, web: Web, clock: Clock, files: FaultyFiles, name: str, run: str, seed: str) -> None:
        self.clock = clock
        self.files = files
        self.line = WebLine(web, clock, name, run)
        self.fetchers = ScriptedFetchers(self.line)
        self.resolver = ScriptedResolver(web.web.names_for(name))
        self._random = Random(seed)

    async def begin(self) -> None:
        """Does nothing: nobody else uses this disk."""

    def warm(self, options: Options) -> None:
        """Does nothing: compiling takes no virtual time."""

    def watch(self, underway: Underway) -> None:
        """Does nothing: a loop on virtual time cannot hang."""

    def end(self) -> None:
        """Does nothing: there is nothing to release."""

    def remove(self, directory: str) -> None:
        for name in self.files.list(directory):
            path = f"{directory}/{name}"
            if self.files.list(path):
                self.remove(path)
            else:
                self.files.remove(path)

    def token(self, size: int) -> str:
        return self._random.randbytes(size).hex()


class _Servers(MemoryServers):
    """Servers that note when the crawl has ended."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._state = 0
        self.finished = 0.0

    def changed(self, crawl: str, of: str) -> None:
        super().changed(crawl, of)
        entry = (self.crawl(crawl).keys or {}).get("state") if not of else None
        if entry is not None and entry.revision != self._state and not self.finished:
            self._state = entry.revision
            if msgspec.json.decode(entry.value or b"{}", type=State).finished:
                self.finished = self._clock.monotonic()


class _Life:
    """One run of one agent."""

    def __init__(self, name: str, run: str, machine: SimulatedMachine, member: Member) -> None:
        self.name = name
        self.run = run
        self.machine = machine
        self.member = member
        self.engine: MemoryEngine | None = None
        self.task: asyncio.Task[str] | None = None
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """All tasks that it began and that have not ended, in order."""
        self.dead = False


class Running:
    """A running cluster, for a `Plan` to act upon."""

    def __init__(
        self,
        seed: int,
        web: SimulatedWeb,
        clock: VirtualClock,
        loop: AgentLoop,
        network: Network | None,
        storage: dict[str, bytes],
    ) -> None:
        self.clock = clock
        self.loop = loop
        self.servers = _Servers(clock)
        self.storage = storage
        self.ends: dict[str, str] = {}
        self.told: list[tuple[float, str, str]] = []
        self.failed: list[tuple[float, str, BaseException]] = []
        self.mishap: Callable[[], Mishap] = lambda: Mishap.NONE
        self.fell: Callable[[str], None] = lambda name: None
        """Called with the name of each agent that ended with an error."""
        self.coming = 0
        """Agents that are still to be started: the run does not end before."""
        self._seed = seed
        self._web = Web(web, clock, loop)
        self._network = network
        self._disks: dict[str, FaultyFiles] = {}
        self._lives: dict[str, _Life] = {}
        self._runs: dict[str, _Life] = {}
        self._starts = 0
        self._hopeless = False
        self._changed = asyncio.Event()
        loop.set_task_factory(self._begun)

    def _begun(self, loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        """Task factory: every task is attributed to the agent that began it."""
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **more)
        context = more.get("context")
        run = AGENT.get() if context is None else context.get(AGENT, "")
        if run in self._runs:
            tasks = self._runs[run].tasks
            tasks[task] = None
            task.add_done_callback(lambda task: tasks.pop(task, None), context=_NOBODY)
        return task

    # -- agents

    @property
    def members(self) -> dict[str, Member]:
        """The agents that run, by name."""
        return {name: life.member for name, life in self._lives.items()}

    @property
    def asked(self) -> list[Asked]:
        return self._web.seen

    def run_of(self, name: str) -> str:
        """The name by which the loop knows an agent's run."""
        return self._lives[name].run

    def asks(self, name: str) -> bool:
        """Whether an agent is waiting for an answer of the web."""
        return self._lives[name].machine.line.waits

    def start(self, name: str, clock: Clock | None = None) -> None:
        """Start an agent, on the disk that its predecessor of the same name left. `clock`: its own."""
        self._starts += 1
        clock = clock or self.clock
        files = self._disks.setdefault(name, FaultyFiles())
        run = f"{name}.{self._starts}"
        machine = SimulatedMachine(self._web, clock, files, name, run, f"{self._seed} {run}")

        async def reach(agent: str) -> Engine:
            life.engine = self.engine(name, clock)
            return life.engine

        def told(text: str) -> None:
            if not life.dead:
                self.told.append((self.clock.monotonic(), name, text))

        def storage(place: str, crawl: str, *, replicas: int = 0) -> Storage:
            return MemoryStorage(self.storage, lambda: self.mishap())

        member = Member(reach, machine, SharedHome(storage), name=name, told=told)
        life = self._lives[name] = self._runs[run] = _Life(name, run, machine, member)
        began = AGENT.set(run)
        life.task = asyncio.ensure_future(self._run(life))
        AGENT.reset(began)
        self._changed.set()

    async def _run(self, life: _Life) -> str:
        try:
            self.ends[life.name] = end = await life.member.run()
            return end
        except Exception as error:
            if not life.dead:
                self.failed.append((self.clock.monotonic(), life.name, error))
                self.told.append((self.clock.monotonic(), life.name, f"ended with an error: {error!r}"))
                self._hopeless |= not isinstance(error, Unavailable)
                _NOBODY.copy().run(self.fell, life.name)
            return f"failed: {error}"
        finally:
            if not life.dead:
                if self._lives.get(life.name) is life:
                    del self._lives[life.name]
                self._disks[life.name] = life.machine.files.killed()
                self._changed.set()

    def leave(self, name: str) -> None:
        """Tell an agent to hand everything over and end."""
        self._lives[name].member.leave()

    async def kill(self, name: str, disk: str = "torn") -> None:
        """End an agent wherever it currently waits.

        `disk`: what remains: `kept` all that was written, `torn` what was synced and some of the rest, `lost` none.
        """
        life = self.power_off(name, disk)
        await self.bury(life)

    def power_off(self, name: str, disk: str = "torn") -> _Life:
        """From now on an agent does nothing, as if switched off. Its tasks must still be ended (`bury`)."""
        life = self._lives.pop(name)
        life.dead = True
        if life.engine is not None:
            life.engine.vanish()
        life.machine.line.hang_up()
        files = life.machine.files
        chance = Random(f"{self._seed} disk {self._starts} {disk}")
        kept = files.restart(chance) if disk == "torn" else files.killed()
        self._disks[name] = FaultyFiles() if disk == "lost" else kept
        self.loop.halt(life.run)
        self._changed.set()
        return life

    async def bury(self, life: _Life) -> None:
        """End the tasks of an agent that is off; what they do while being ended has no effect on others."""
        tasks = list(life.tasks)
        for task in tasks:
            task.cancel()
        self.loop.go_on(life.run)
        await end_tasks(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # marks it as retrieved

    def die_at(self, name: str, callbacks: int, disk: str) -> asyncio.Future[_Life]:
        """End an agent at its n-th callback from now; the future is done then: `bury` it."""
        died: asyncio.Future[_Life] = self.loop.create_future()

        def end() -> None:
            if name in self._lives and self._lives[name].run == run and not died.done():
                died.set_result(self.power_off(name, disk))

        run = self._lives[name].run
        self.loop.end_at(run, callbacks, end)
        return died

    def engine(self, client: str, clock: Clock | None = None) -> MemoryEngine:
        """A client of the servers."""
        return MemoryEngine(self.servers, CRAWL, clock or self.clock, client=client, network=self._network)

    async def over(self) -> None:
        """Wait until all agents have ended and none is to come; or one has ended with an error of its own."""
        while (self._lives or self.coming) and not self._hopeless:
            self._changed.clear()
            await self._changed.wait()

    def arrived(self) -> None:
        """One of the agents to come has been started."""
        self.coming -= 1
        self._changed.set()


Plan = Callable[[Running], Awaitable[None]]


def run_cluster(
    seed: int,
    web: SimulatedWeb,
    *,
    agents: int = 2,
    shards: int = 4,
    options: Mapping[str, Any] | None = None,
    network: Network | None = None,
    lease: float = 30.0,
    turn: float = 0.0,
    log_bytes: int = 256 << 20,
    look: float = 0.5,
    plans: Sequence[Plan] = (),
    limit: float = 30 * _DAY,
    clocks: Mapping[str, float] | None = None,
    running: type[Running] = Running,
) -> Ran:
    """Crawl a web to the end with `agents` agents.

    `network`: decides the fate of every call to the engine; without one all calls succeed. `limit`: seconds of
    virtual time after which the run is given up (`TimeoutError`). `turn`: of an address, in seconds; 0.0: a
    lease's. `log_bytes`: of a shard's tail; its segments are an eighth. `look`: seconds between two polls of an
    agent for what others did. `clocks`: the speed of an agent's clock, by its name.
    """
    loop = AgentLoop()
    storage: dict[str, bytes] = {}

    async def main(clock: VirtualClock) -> Ran:
        made = running(seed, web, clock, loop, network, storage)
        about = About(
            crawl=Random(f"{seed} crawl").randbytes(6).hex(),
            shards=shards,
            hash_seed=Random(f"{seed} hash").getrandbits(63),
            created=milliseconds(clock),
            storage="memory",
            replicas=1,
            lease=lease,
            turn_seconds=turn,
            log_bytes=log_bytes,
            look=look,
        )
        await _create(made, about, web, MemoryStorage(storage), options or {})
        beside = [asyncio.ensure_future(plan(made)) for plan in plans]
        for number in range(agents):
            name = f"agent{number}"
            made.start(name, AgentClock(clock, (clocks or {}).get(name, 1.0)))
        try:
            async with asyncio.timeout(limit):
                await made.over()
        except TimeoutError:
            made.failed.append((clock.monotonic(), "", TimeoutError(f"not over after {limit:.0f} s")))
        seconds = clock.monotonic()
        await end_tasks(beside)
        for task in beside:
            if not task.cancelled():
                task.result()
        while made.members:  # while one is killed, another may end by itself
            await made.kill(next(iter(made.members)))
        plain = MemoryEngine(made.servers, CRAWL, clock, client="reader")
        return Ran(
            records=await _logs(plain, MemoryStorage(storage), range(shards), made.failed),
            asked=sorted(made.asked, key=lambda each: each.start),
            ends=made.ends,
            told=made.told,
            state=await Control(plain, clock).state(),
            seconds=seconds,
            failed=made.failed,
            finished=made.servers.finished,
            storage=storage,
        )

    return virtual.run(main, loop=loop)


async def _create(
    running: Running, about: About, web: SimulatedWeb, storage: Storage, given: Mapping[str, Any]
) -> None:
    """Make the crawl, add its seeds and start it, as an operator does, but without anything drawn by chance."""
    clock = running.clock
    engine = MemoryEngine(running.servers, CRAWL, clock, client="operator")
    control = Control(engine, clock)
    options = read_options(dict(given))
    urls = canonical_seeds(web.seeds, Rules.named(options.rules))
    options = with_seeds(options, None, urls)
    await control.create(about, encode_options(options).decode(), storage, _SUFFIXES)
    await control.limit_pages(options.limits.pages)
    splitter = Splitter(about.shards, Domains(_SUFFIXES), about.splitter)
    await sow(engine, splitter, urls)
    await control.want(Wanted.RUNNING, milliseconds(clock))


async def _logs(
    engine: MemoryEngine,
    storage: Storage,
    shards: Iterable[int],
    failed: list[tuple[float, str, BaseException]],
) -> dict[int, list[tuple[int, Record]]]:
    found: dict[int, list[tuple[int, Record]]] = {}
    for shard in shards:
        try:
            tail: list[Piece] = [piece async for piece in pieces(engine.stream(log_of(shard)))]
            disk = FaultyFiles()
            ShardStorage(storage, CRAWL, shard).restore(disk, tail)
            found[shard] = list(LogReader(disk.within("log")).scan())
        except StorageError as error:
            failed.append((0.0, f"the reader of shard {shard}'s log", error))
            found[shard] = []
    return found
