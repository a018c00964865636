"""What happens to a simulated cluster: a schedule of troubles drawn from a seed, and the one who carries it out.

    killed      an agent ends at any of its callbacks; its disk is kept, torn (what was synced, and some of the
                rest) or lost
    leave       an agent is told to leave, and hands over; it may come back
    join        one more agent comes
    cut         an agent is cut off from the servers, both ways
    deaf        the servers hear an agent, and it does not hear them
    stopped     an agent stands still, as after SIGSTOP; its requests are answered meanwhile
    slow        an agent runs for a moment, stands still for a moment, and so on
    late        threads (disk and storage) take seconds
    storage     shared storage errs: it refuses, or does what it is asked and says that it failed
    full        a stream takes no more
    rough       many calls are late, lost, unheard or come twice

Every trouble ends; what was killed comes back, or others are there. Then the crawl has to come to its end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from random import Random
from typing import NamedTuple

from lycosa.cluster.names import exchange_of, log_of
from lycosa.cluster.tasks import end_tasks
from lycosa.lab.cluster_run import CRAWL, AgentClock, DiceNetwork, Running
from lycosa.lab.simulate_loop import Delay
from lycosa.lab.simulate_storage import Mishap


class Kind(StrEnum):
    KILLED = "killed"
    LEAVE = "leave"
    JOIN = "join"
    CUT = "cut"
    DEAF = "deaf"
    STOPPED = "stopped"
    SLOW = "slow"
    LATE = "late"
    STORAGE = "storage"
    FULL = "full"
    ROUGH = "rough"


_OFTEN = {Kind.KILLED: 5, Kind.LEAVE: 2, Kind.CUT: 2, Kind.STOPPED: 3}
_DISKS = ("kept", "torn", "torn", "lost")
_PATIENCE = 30.0
"""Seconds after which the crawl is taken to be about to end."""
APART = 1.09
"""An agent's clock goes at most so much faster, or slower, than the common one: two are 20% apart at most."""


class Trouble(NamedTuple):
    """One thing that happens."""

    at: float
    kind: Kind
    whom: int
    """Which of the agents that run then, by number modulo their number."""
    seconds: float
    steps: int = 0
    disk: str = ""
    back: float = 0.0
    """Seconds until an agent that is gone comes back; 0.0: it does not, if others are there."""
    last: bool = False
    """Not from the beginning: from when almost all pages were asked for, when the crawl is about to end."""


class Schedule(NamedTuple):
    """All that happens in a run."""

    lease: float
    clocks: dict[str, float]
    troubles: list[Trouble]
    network: DiceNetwork


def draw_schedule(seed: int, agents: int, lease: float) -> Schedule:
    """What a seed wants to happen."""
    chance = Random(f"{seed} troubles")
    weights = [_OFTEN.get(kind, 1) for kind in Kind]
    troubles = []
    for _ in range(chance.choice((0, 1, 2, 2, 3, 3, 4, 5))):
        kind = chance.choices(list(Kind), weights)[0]
        seconds = chance.uniform(0.2, 2.0 * lease)
        troubles.append(
            Trouble(
                at=chance.uniform(0.3, 9.0),
                kind=kind,
                whom=chance.randrange(12),
                seconds=seconds,
                steps=chance.randrange(1_000),
                disk=chance.choice(_DISKS),
                back=0.0 if chance.random() < 0.3 else chance.uniform(0.1, 1.5 * lease),
                last=chance.random() < 0.35,
            )
        )
    network = DiceNetwork(seed)
    if chance.random() < 0.3:
        network = DiceNetwork(seed, lost=0.0, unheard=0.0, twice=0.0, late=0.0)
    drift = chance.random() < 0.5
    clocks = {
        f"agent{number}": chance.uniform(1 / APART, APART) if drift else 1.0 for number in range(agents + 8)
    }
    return Schedule(lease, clocks, sorted(troubles), network)


class Troubler:
    """Carries a schedule out."""

    def __init__(self, schedule: Schedule, agents: int, seed: int, pages: int) -> None:
        """`pages`: those of the web."""
        self._schedule = schedule
        self._pages = pages
        self._next = agents
        self._chance = Random(f"{seed} mishaps")
        self._network = schedule.network
        self._late = 0
        self._away = 0
        self._filled: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self.done: list[tuple[float, str]] = []
        """What happened, and when."""
        self.counts: Counter[str] = Counter()

    async def __call__(self, running: Running) -> None:
        """`lycosa.lab.cluster_run.Plan`."""
        self._running = running
        self._calm = (self._network.lost, self._network.unheard, self._network.twice, self._network.late)
        running.loop.threads = self._thread
        running.mishap = self._mishap
        running.fell = self._fell
        running.coming += 1
        try:
            for trouble in self._schedule.troubles:
                self._tasks.append(asyncio.ensure_future(self._when_due(trouble)))
            while pending := [task for task in self._tasks if not task.done()]:
                await asyncio.wait(pending)
            if not running.members and not running.servers.finished:
                self._start(self._name())
        finally:
            running.arrived()
            await end_tasks(self._tasks)
        for task in self._tasks:
            task.result()

    # -- what agents meet

    def _thread(self, agent: str) -> Delay:
        if not agent or not self._late or self._chance.random() < 0.4:
            return Delay()
        seconds = self._chance.expovariate(1 / 0.8)
        return Delay(before=seconds) if self._chance.random() < 0.5 else Delay(after=seconds)

    def _mishap(self) -> Mishap:
        if not self._away or self._chance.random() < 0.5:
            return Mishap.NONE
        return self._chance.choice((Mishap.REFUSED, Mishap.UNHEARD))

    def _fell(self, name: str) -> None:
        """An agent has ended with an error: whoever watches over it starts it again."""
        self._tasks.append(asyncio.ensure_future(self._again(name, 5.0)))

    # -- what happens

    async def _when_due(self, trouble: Trouble) -> None:
        running = self._running
        while trouble.last and not running.servers.finished and running.clock.monotonic() < _PATIENCE:
            if len({row.url for row in running.asked if row.status}) >= self._pages - 1:
                await running.clock.sleep(trouble.at / 4)
                break
            await running.clock.sleep(0.5)
        else:
            await running.clock.sleep(max(trouble.at - running.clock.monotonic(), 0.0))
        if not running.servers.finished:
            await self._one(trouble)

    async def _one(self, trouble: Trouble) -> None:
        kind = trouble.kind
        if kind is Kind.JOIN:
            self._say(kind, f"{self._start(self._name())} joins")
        elif kind is Kind.LATE:
            await self._while(trouble, "threads are late")
        elif kind is Kind.STORAGE:
            await self._while(trouble, "storage errs")
        elif kind is Kind.ROUGH:
            await self._while(trouble, "the network is rough")
        elif kind is Kind.FULL:
            await self._full(trouble)
        else:
            names = sorted(self._running.members)
            if names:
                await self._agent(trouble, names[trouble.whom % len(names)])

    async def _while(self, trouble: Trouble, what: str) -> None:
        network, sign = self._network, 1
        self._say(trouble.kind, f"{what} for {trouble.seconds:.1f} s")
        for sign in (1, -1):
            if trouble.kind is Kind.LATE:
                self._late += sign
            elif trouble.kind is Kind.STORAGE:
                self._away += sign
            else:
                rates = (0.15, 0.15, 0.15, 0.2) if sign > 0 else self._calm
                network.lost, network.unheard, network.twice, network.late = rates
            if sign > 0:
                await self._running.clock.sleep(trouble.seconds)

    async def _full(self, trouble: Trouble) -> None:
        streams = self._running.servers.crawl(CRAWL).streams
        shards = len(streams) // 2
        name = (exchange_of, log_of)[trouble.steps % 2](trouble.whom % shards)
        stream = streams[name]
        if name in self._filled:
            return
        self._filled.add(name)
        self._say(trouble.kind, f"the stream {name} is full for {trouble.seconds:.1f} s")
        limit, stream.limit = stream.limit, max(stream.bytes, 1)
        await self._running.clock.sleep(trouble.seconds)
        stream.limit = limit
        self._filled.discard(name)

    async def _agent(self, trouble: Trouble, name: str) -> None:
        running, network, kind = self._running, self._network, trouble.kind
        if kind is Kind.KILLED:
            await self._kill(trouble, name)
        elif kind is Kind.LEAVE:
            self._say(kind, f"{name} is told to leave")
            running.leave(name)
            while name in running.members and not running.servers.finished:
                await running.clock.sleep(0.5)
            await self._back(trouble, name)
        elif kind in (Kind.CUT, Kind.DEAF):
            cut = network.cut if kind is Kind.CUT else network.deaf
            what = "is cut off from the servers" if kind is Kind.CUT else "is heard, and hears nobody,"
            self._say(kind, f"{name} {what} for {trouble.seconds:.1f} s")
            cut.add(name)
            await running.clock.sleep(trouble.seconds)
            cut.discard(name)
        elif kind is Kind.STOPPED:
            self._say(kind, f"{name} stands still for {trouble.seconds:.1f} s")
            await self._halt(name, trouble.seconds)
        else:
            self._say(kind, f"{name} is slow for {trouble.seconds:.1f} s")
            until = running.clock.monotonic() + trouble.seconds
            while name in running.members and running.clock.monotonic() < until:
                await self._halt(name, self._chance.uniform(0.1, 0.8))
                await running.clock.sleep(self._chance.uniform(0.02, 0.2))

    async def _halt(self, name: str, seconds: float) -> None:
        running = self._running
        run = running.run_of(name)
        if running.loop.is_halted(run):
            return
        running.loop.halt(run)
        self._network.halted.add(name)
        await running.clock.sleep(seconds)
        self._network.halted.discard(name)
        if name in running.members and running.run_of(name) == run:
            running.loop.go_on(run)

    async def _kill(self, trouble: Trouble, name: str) -> None:
        running = self._running
        died = running.die_at(name, trouble.steps, trouble.disk)
        while not died.done() and name in running.members:
            await asyncio.wait([died], timeout=1.0)
        if not died.done():
            died.cancel()  # it has ended before
            return
        self._say(trouble.kind, f"{name} is killed at its callback {trouble.steps}, its disk {trouble.disk}")
        await running.bury(died.result())
        await self._back(trouble, name)

    async def _back(self, trouble: Trouble, name: str) -> None:
        if trouble.back or not self._running.members:
            await self._again(name, max(trouble.back, 0.5))

    async def _again(self, name: str, seconds: float) -> None:
        running = self._running
        running.coming += 1
        try:
            await running.clock.sleep(seconds)
            if name not in running.members and not running.servers.finished:
                self._start(name)
                self.done.append((running.clock.monotonic(), f"{name} is started again"))
        finally:
            running.arrived()

    def _start(self, name: str) -> str:
        self._running.start(name, AgentClock(self._running.clock, self._schedule.clocks.get(name, 1.0)))
        return name

    def _name(self) -> str:
        self._next += 1
        return f"agent{self._next - 1}"

    def _say(self, kind: Kind, what: str) -> None:
        self.counts[str(kind)] += 1
        self.done.append((self._running.clock.monotonic(), what))


def kinds_of(troubles: Sequence[Trouble]) -> Counter[str]:
    return Counter(str(trouble.kind) for trouble in troubles)
