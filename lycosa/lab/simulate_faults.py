"""What happens to a simulated cluster: a schedule of troubles drawn from a seed, and the class that carries it out.

    killed      an agent ends at any of its callbacks; its disk is kept, torn (what was synced, and some of the
                rest) or lost
    leave       an agent is told to leave, and hands over; it may come back
    join        one more agent comes
    cut         an agent is cut off from the servers, both ways
    deaf        the servers receive from an agent, but it does not receive from them
    stopped     an agent is stopped, as by SIGSTOP; its requests are answered meanwhile
    slow        an agent runs for a moment, is stopped for a moment, and so on
    late        threads (disk and storage) take seconds
    storage     shared storage fails: it refuses, or does what it is asked and reports an error
    full        a shard's log accepts no more, or the streams of the exchange accept only now and then
    rough       many calls are late, lost, unheard or come twice
    lease       calls for the keys of an agent's leases are answered late, or not, or are lost; all others work
    unread      an agent does not get what is in the streams of its shards
    lag         appends to the logs of an agent's shards arrive seconds later, whatever happens to it meanwhile;
                and it may die then, or they do not arrive, and it dies
    turn        an agent that uses an address is not heard when it asks for turns
    doubt       an agent loses its leases, and regains them when its earlier appends finally arrive, while it
                is still checking which of its archive files are valid

Every trouble ends; killed agents come back, or others are there. Then the crawl has to come to its end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import msgspec

from lycosa.cluster.control import Report
from lycosa.cluster.lease import decode
from lycosa.cluster.leases import lease_key
from lycosa.cluster.names import exchange_of, log_of
from lycosa.cluster.tasks import end_tasks
from lycosa.cluster.turn_table import owner_of
from lycosa.engine.memory import Fate
from lycosa.lab.cluster_network import DiceNetwork, Hard
from lycosa.lab.cluster_run import CRAWL, AgentClock, Running
from lycosa.lab.simulate_loop import Delay
from lycosa.lab.simulate_profiles import Kind, Profile, When, profile_of
from lycosa.lab.simulate_storage import Mishap
from lycosa.lab.simulate_web import ADDRESS

_UNREAD = 8.0
"""Least seconds for which an agent does not read its streams: the others come to the end of theirs meanwhile."""
_BRINGS = 10.0
"""Seconds within which an agent copies its archive files to storage."""
_TAKEN = 6.0
"""Seconds until a shard is taken again, even if threads are late."""
_TURN = 4.2
"""Least seconds for which an agent's requests for turns are lost: a turn that it has ends meanwhile."""
_PATIENCE = 30.0
"""Seconds after which the crawl is assumed to be about to end."""
APART = 1.09
"""An agent's clock is at most so much faster, or slower, than the common one: two differ by 20% at most."""


def _lost(chance: Random) -> Fate:
    return Fate(None, None)


def _unheard(chance: Random) -> Fate:
    return Fate(chance.uniform(0.0, 0.01), None)


def _late(chance: Random) -> Fate:
    """A late answer that is still in time, for writes of keys."""
    return Fate(chance.uniform(0.0, 0.01), chance.uniform(1.0, 1.95))


def _at_last(chance: Random) -> Fate:
    """An answer at the last moment: any later would be too late."""
    return Fate(chance.uniform(0.0, 0.01), chance.uniform(1.85, 1.98))


def _well(chance: Random) -> Fate:
    return Fate(chance.uniform(0.0, 0.01), chance.uniform(0.0, 0.01))


def _slowly(chance: Random) -> Fate:
    return Fate(chance.uniform(2.0, 5.0), 0.001)


def _very_slowly(chance: Random) -> Fate:
    """A delay longer than a lease of three seconds and the wait after its end."""
    return Fate(chance.uniform(7.0, 9.0), 0.001)


def _lagging(chance: Random) -> Fate:
    return Fate(chance.uniform(1.0, 6.0), 0.001) if chance.random() < 0.5 else _well(chance)


_LEASES = (
    (_lost,),
    (_late, _lost),
    (_unheard, _well, _well, _lost),
    (_late, _late, _unheard, _lost, _well),
    (_at_last, _lost),
)
"""The fates of renewals of a lease."""


class Trouble(NamedTuple):
    """One thing that happens."""

    at: float
    kind: Kind
    whom: int
    """An index into the agents running at that time, modulo their number."""
    seconds: float
    steps: int = 0
    disk: str = ""
    back: float = 0.0
    """Seconds until an agent that is gone comes back; 0.0: never, if others are there."""
    when: When = When.BEGUN
    """The event from which `at` counts; if not the beginning, only a quarter of `at`."""


class Schedule(NamedTuple):
    """All that happens in a run."""

    lease: float
    clocks: dict[str, float]
    troubles: list[Trouble]
    network: DiceNetwork


def draw_schedule(seed: int, agents: int, lease: float, profile: Profile | None = None) -> Schedule:
    """The schedule drawn from a seed, by its own profile or by the given one."""
    profile = profile or profile_of(seed)
    chance = Random(f"{seed} troubles")
    troubles = []
    for _ in range(chance.choice(profile.troubles)):
        kind = chance.choices(list(profile.kinds), list(profile.kinds.values()))[0]
        troubles.append(
            Trouble(
                at=chance.uniform(*profile.begins),
                kind=kind,
                whom=chance.randrange(12),
                seconds=chance.uniform(0.2, profile.lasting * lease),
                steps=chance.randrange(1_000),
                disk=chance.choice(profile.disks),
                back=0.0 if chance.random() < 0.3 else chance.uniform(0.1, 1.5 * lease),
                when=When.BEGUN if kind is Kind.UNREAD else chance.choice(profile.whens),
            )
        )
    network = DiceNetwork(seed)
    if chance.random() < profile.calm:
        network = DiceNetwork(seed, lost=0.0, unheard=0.0, twice=0.0, late=0.0)
    drift = chance.random() < 0.5
    first = chance.randrange(2)
    clocks = {}
    for number in range(agents + 8):
        rate = (
            (1 / APART, APART)[(number + first) % 2] if profile.extreme else chance.uniform(1 / APART, APART)
        )
        clocks[f"agent{number}"] = rate if drift or profile.extreme else 1.0
    return Schedule(lease, clocks, sorted(troubles), network)


class Halt(NamedTuple):
    """An interval of time in which an agent was stopped."""

    agent: str
    start: float
    seconds: float


class Troubler:
    """Carries out a schedule."""

    def __init__(
        self, schedule: Schedule, agents: int, seed: int, pages: int, profile: Profile | None = None
    ) -> None:
        """`pages`: the number of pages of the web."""
        self._profile = profile or profile_of(seed)
        self._schedule = schedule
        self._pages = pages
        self._next = agents
        self._chance = Random(f"{seed} mishaps")
        self._network = schedule.network
        self._late = 0
        self._away = 0
        self._filled: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._one_doubt = asyncio.Lock()
        self.done: list[tuple[float, str]] = []
        """What happened, and when."""
        self.halts: list[Halt] = []
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
        seconds = self._chance.expovariate(1 / self._profile.late)
        return Delay(before=seconds) if self._chance.random() < 0.5 else Delay(after=seconds)

    def _mishap(self) -> Mishap:
        if not self._away or self._chance.random() < 0.5:
            return Mishap.NONE
        return self._chance.choice((Mishap.REFUSED, Mishap.UNHEARD))

    def _fell(self, name: str) -> None:
        """An agent has ended with an error: restart it, as its supervisor would."""
        self._tasks.append(asyncio.ensure_future(self._again(name, 5.0)))

    # -- what happens

    async def _when_due(self, trouble: Trouble) -> None:
        running = self._running
        while trouble.when is not When.BEGUN:
            if running.servers.finished or running.clock.monotonic() >= _PATIENCE:
                break
            if self._all_asked() and (trouble.when is When.LAST or self._all_idle()):
                await running.clock.sleep(trouble.at / (4 if trouble.when is When.LAST else 30))
                break
            await running.clock.sleep(0.5 if trouble.when is When.LAST else 0.1)
        else:
            await running.clock.sleep(max(trouble.at - running.clock.monotonic(), 0.0))
        if not running.servers.finished:
            await self._one(trouble)

    def _all_asked(self) -> bool:
        return len({row.url for row in self._running.asked if row.status}) >= self._pages - 1

    def _all_idle(self) -> bool:
        kept = self._running.servers.crawl(CRAWL)
        reports = [msgspec.json.decode(row.value or b"", type=Report) for row in kept.all("report.*")]
        return 2 * len(reports) == len(kept.streams) and all(report.idle for report in reports)

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
            if self._profile.owned and trouble.steps % 5:
                names = [name for name in names if self._owner() in self._held(name)] or names
            if kind is Kind.TURN:
                names = [name for name in names if self._running.asks(name)] or names
            if self._profile.slowest and trouble.steps % 5:
                names = sorted(names, key=lambda name: self._schedule.clocks.get(name, 1.0))[:1]
            if trouble.when is When.IDLE or kind is Kind.UNREAD:  # spare who sees the end
                names = [name for name in names if 0 not in self._held(name)] or names
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
        flicker = trouble.steps % 4 > 0
        names = [*map(exchange_of, range(shards))] if flicker else [log_of(trouble.whom % shards)]
        limits = {name: streams[name].limit for name in names if name not in self._filled}
        if not limits:
            return
        self._filled |= limits.keys()
        what = "exchange takes something only now and then" if flicker else f"stream {names[0]} is full"
        self._say(trouble.kind, f"the {what} for {trouble.seconds:.1f} s")
        clock, chance = self._running.clock, self._chance
        until = clock.monotonic() + trouble.seconds
        while clock.monotonic() < until:
            for name in limits:
                streams[name].limit = max(streams[name].bytes, 1)
            await clock.sleep(chance.uniform(0.3, 1.2) if flicker else trouble.seconds)
            for name, limit in limits.items():
                streams[name].limit = limit
            await clock.sleep(chance.uniform(0.1, 0.6) if flicker else 0.0)
        self._filled -= limits.keys()

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
        elif kind is Kind.DOUBT:
            await self._doubt(name)
        elif kind in (Kind.LEASE, Kind.UNREAD, Kind.LAG, Kind.TURN):
            await self._hard(trouble, name)
        elif kind is Kind.STOPPED:
            self._say(kind, f"{name} stands still for {trouble.seconds:.1f} s")
            await self._halt(name, trouble.seconds)
        else:
            self._say(kind, f"{name} is slow for {trouble.seconds:.1f} s")
            until = running.clock.monotonic() + trouble.seconds
            while name in running.members and running.clock.monotonic() < until:
                await self._halt(name, self._chance.uniform(0.1, 0.8))
                await running.clock.sleep(self._chance.uniform(0.02, 0.2))

    async def _hard(self, trouble: Trouble, name: str) -> None:
        """Make some of an agent's calls hard: to the keys or streams of shards that it holds."""
        held, seconds, network = self._held(name), trouble.seconds, self._network
        dies = trouble.kind is Kind.LAG and trouble.whom % 2 > 0
        if trouble.kind is Kind.UNREAD:
            what, seconds = "does not read what it was sent", seconds + _UNREAD
            rows = {(name, exchange_of(shard)): Hard([_lost]) for shard in held}
        elif trouble.kind is Kind.TURN:
            what, seconds = "is not heard when it asks for turns", max(seconds, _TURN)
            shards = range(len(self._running.servers.crawl(CRAWL).streams) // 2)
            rows = {(name, f"turn.{shard}"): Hard([_lost]) for shard in shards}
        elif trouble.kind is Kind.LAG:
            silent = dies and trouble.steps % 2
            what = "appends in vain" if silent else "appends late"
            late = [_lost] if silent else [_lagging]
            rows = {(name, log_of(shard)): Hard(late) for shard in held}
        else:
            what, seconds = (
                "hardly reaches its leases",
                max(seconds, self._profile.least * self._schedule.lease),
            )
            one = list(held)[trouble.steps % len(held)] if held and trouble.steps % 4 else None
            if self._profile.owned and self._owner() in held:
                one = self._owner()
            renewals = self._profile.renewals
            fates = _LEASES[renewals[trouble.steps % len(renewals)]]
            rows = {(name, lease_key(shard)): Hard(fates) for shard in held if one in (None, shard)}
            if self._profile.doubts:  # and its appends are under way when the leases end
                rows = {(name, lease_key(shard)): Hard([_lost]) for shard in held if one in (None, shard)}
                rows.update(
                    {(name, log_of(shard)): Hard([_slowly]) for shard in held if one in (None, shard)}
                )
                self._tasks.append(asyncio.ensure_future(self._late_for(seconds + 5.0)))
            elif trouble.whom % 4 or len(renewals) == 1:  # and its heartbeats are lost
                rows.update({(name, f"agent.{holder}"): Hard([_lost]) for holder in held.values()})
        keys = ", ".join(to for _, to in rows) or "it has none"
        self._say(trouble.kind, f"{name} {what} ({keys}) for {seconds:.1f} s")
        network.hard.update(rows)
        await self._running.clock.sleep(seconds)
        if dies and name in self._running.members:
            self._tasks.append(asyncio.ensure_future(self._kill(trouble, name)))
            await self._running.clock.sleep(0.5)
        for row, hard in rows.items():
            if network.hard.get(row) is hard:
                del network.hard[row]

    async def _doubt(self, name: str) -> None:
        """An agent loses its leases, and regains them when its earlier appends finally arrive.

        Meanwhile its archive files are in doubt. The scan of the logs that decides about them takes long.
        """
        async with self._one_doubt:
            clock, network = self._running.clock, self._network
            brought, until = self._brought(), clock.monotonic() + _BRINGS
            while self._brought() == brought and clock.monotonic() < until:
                await clock.sleep(0.1)  # what is fetched from now on has arrived when the leases are over
            if name not in self._running.members or not (held := list(self._held(name))):
                return
            leases = {(name, lease_key(shard)): Hard([_lost]) for shard in held}
            logs = {(name, log_of(shard)): Hard([_very_slowly]) for shard in held}
            self._say(Kind.DOUBT, f"{name} loses its leases ({held}), and appends very late")
            network.hard.update({**leases, **logs})
            await clock.sleep(self._schedule.lease)
            looked = asyncio.Event()

            def look(chance: Random) -> Fate:
                if not looked.is_set():
                    self._late += 1
                looked.set()
                return _well(chance)

            logs = {row: Hard([look]) for row in logs}
            network.hard.update(logs)
            before, until = self._ends(held), clock.monotonic() + _BRINGS
            while not (looked.is_set() and self._ends(held) != before) and clock.monotonic() < until:
                await clock.sleep(0.1)
            await clock.sleep(0.5)
            self._say(Kind.DOUBT, f"{name} can have its leases again")
            for row, hard in {**leases, **logs}.items():
                if network.hard.get(row) is hard:
                    del network.hard[row]
            if looked.is_set():
                await clock.sleep(_TAKEN)
                self._late -= 1

    def _brought(self) -> int:
        """The archive files on shared storage."""
        return sum(name.startswith(f"{CRAWL}/archive/") for name in self._running.storage)

    def _ends(self, shards: Sequence[int]) -> list[int]:
        """The ends of the logs of shards, according to the servers."""
        streams = self._running.servers.crawl(CRAWL).streams
        return [streams[log_of(shard)].last for shard in shards]

    async def _late_for(self, seconds: float) -> None:
        self._late += 1
        await self._running.clock.sleep(seconds)
        self._late -= 1

    def _owner(self) -> int:
        """The shard that owns the turns of the first address."""
        return owner_of(ADDRESS, len(self._running.servers.crawl(CRAWL).streams) // 2)

    def _held(self, name: str) -> dict[int, str]:
        """The shards whose leases an agent holds, according to the servers, and the holder's id in each."""
        kept, held = self._running.servers.crawl(CRAWL), {}
        for row in kept.all("lease.*"):
            lease = decode(row.value or b"")
            if lease is not None and not lease.released and lease.holder.startswith(f"{name}_"):
                held[int(row.key.partition(".")[2])] = lease.holder
        return dict(sorted(held.items()))

    async def _halt(self, name: str, seconds: float) -> None:
        running = self._running
        run = running.run_of(name)
        if running.loop.is_halted(run):
            return
        running.loop.halt(run)
        self._network.halted.add(name)
        self.halts.append(Halt(name, running.clock.monotonic(), seconds))
        await running.clock.sleep(seconds)
        self._network.halted.discard(name)
        if name in running.members and running.run_of(name) == run:
            running.loop.go_on(run)

    async def _kill(self, trouble: Trouble, name: str) -> None:
        running = self._running
        steps = trouble.steps % 50 if trouble.when is When.IDLE else trouble.steps
        died = running.die_at(name, steps, trouble.disk)
        while not died.done() and name in running.members:
            await asyncio.wait([died], timeout=1.0)
        if not died.done():
            died.cancel()  # it ended before that
            return
        self._say(trouble.kind, f"{name} is killed at its callback {steps}, its disk {trouble.disk}")
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
