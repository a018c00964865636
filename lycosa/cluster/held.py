"""The shards that an agent holds: taking one, saving it, handing it over, letting it go.

    take        lease -> restore the directory (`ShardKeeper.open`) -> what was lost -> recover -> exchange -> crawl
    save        snapshot -> archives to shared storage -> checkpoint -> purge
    bring       archives to shared storage, more often: what is only on this disk is lost with it
    hand over   no more links -> visits end -> commit, snapshot -> archives -> checkpoint -> release the lease, and
                with it the turns of addresses that are still out: the next holder need not wait for them
    let go      the lease is over, or another agent has the shard: visits are cut, nothing more is written, the
                directory is removed

A shard is in one of these steps at a time, and in one `Stage`:

    opening  --ready-->      crawling  --closed-->  closing
      any   --refused-->    refused                          the tail refused us, or the lease is over: let it go

`may_fetch` keeps an agent whose lease is over from fetching: it is asked, by the clock, before every request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum, auto

import msgspec

from lycosa.clock import Clock
from lycosa.cluster.control import About
from lycosa.cluster.foreign import Foreign
from lycosa.cluster.keeping import Keeper, Keeping
from lycosa.cluster.lease import Holding
from lycosa.cluster.leases import Leases
from lycosa.cluster.links import Cursors
from lycosa.cluster.names import cursors_of, exchange_of
from lycosa.cluster.outcomes import Fenced
from lycosa.cluster.rations import Rations
from lycosa.cluster.storage import Away
from lycosa.cluster.streaming import Incoming, Outgoing, StreamExchange
from lycosa.cluster.turns import TurnKeeper
from lycosa.crawl.agent import Agent
from lycosa.crawl.shard import Shard
from lycosa.engine.protocol import Engine, Full, Unavailable, got
from lycosa.log.log import Batch

_AGAIN = 0.3
_TURNS = 3.0
"""Seconds that other agents, which stop as well, are given to end their visits at addresses of a shard."""


class Pace:
    """The recent growth rate of a number."""

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds = seconds
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, number: int) -> float:
        """Note the number at a time; returns its growth per second over the last seconds."""
        self._seen.append((now, number))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self._seconds:
            self._seen.popleft()
        began, before = self._seen[0]
        return round(max(number - before, 0) / (now - began), 3) if now > began else 0.0


class Stage(Enum):
    """The state of a shard whose lease is ours."""

    OPENING = auto()
    CRAWLING = auto()
    CLOSING = auto()
    REFUSED = auto()


class Event(Enum):
    """An event that changes a shard's stage."""

    READY = auto()
    CLOSED = auto()
    REFUSED = auto()


_NEXT = {
    (Stage.OPENING, Event.READY): Stage.CRAWLING,
    (Stage.CRAWLING, Event.CLOSED): Stage.CLOSING,
    **{(stage, Event.REFUSED): Stage.REFUSED for stage in Stage},
    # Refused while it was being opened, or before it was closed: it stays refused.
    (Stage.REFUSED, Event.READY): Stage.REFUSED,
    (Stage.REFUSED, Event.CLOSED): Stage.REFUSED,
}


class Held:
    """One shard, from the moment its lease is ours."""

    def __init__(self, number: int, holding: Holding, keeper: Keeper) -> None:
        self.number = number
        self.holding = holding
        self.keeper = keeper
        self.shard: Shard | None = None
        """Set once it is recovered."""
        self.stage = Stage.OPENING
        self.saved = 0
        self.lost = 0
        """Pages that were found lost when we took the shard."""
        self.pace = Pace()
        self.cut = False
        """Its lease is near its end: visits were broken off, and connections closed."""

    def on(self, event: Event) -> None:
        self.stage = _NEXT[self.stage, event]

    @property
    def refused(self) -> bool:
        return self.stage is Stage.REFUSED


class HeldShards(dict[int, Held]):
    """The shards that an agent holds, by number; implements `lycosa.crawl.saving.Ledger`."""

    def __init__(self, clock: Clock, told: Callable[[str], None]) -> None:
        super().__init__()
        self._clock = clock
        self._told = told

    def may_fetch(self, number: int) -> bool:
        held = self.get(number)
        return held is not None and held.holding.may_fetch(self._clock.monotonic())

    async def commit(self, shard: Shard, batch: Batch, packed: bytes) -> bool:
        held = self.get(shard.number)
        if held is None or held.refused or (held.shard is not None and held.shard is not shard):
            return False
        refused = await held.keeper.commit(batch, packed)
        if refused is not None:
            held.on(Event.REFUSED)
            self._told(f"shard {shard.number}: {refused}")
            return False
        return held.holding.may_write(self._clock.monotonic())

    def crawling(self) -> list[Held]:
        return [held for held in self.values() if held.stage is Stage.CRAWLING]


class Holder:
    """Takes, saves and hands over the shards of one agent."""

    def __init__(
        self,
        *,
        held: HeldShards,
        agent: Agent,
        keeping: Keeping,
        engine: Engine,
        leases: Leases,
        exchange: StreamExchange,
        turns: TurnKeeper,
        rations: Rations,
        clock: Clock,
        about: About,
        refresh: Callable[[], Awaitable[None]],
        closed: Callable[[Held], Awaitable[None]],
        told: Callable[[str], None],
        foreign: Foreign,
    ) -> None:
        """`closed` is called with shards that are about to be handed over."""
        self.held = held
        self._agent = agent
        self._keeping = keeping
        self._foreign = foreign
        self._engine = engine
        self._leases = leases
        self._exchange = exchange
        self._turns = turns
        self._rations = rations
        self._clock = clock
        self._about = about
        self._refresh = refresh
        self._closed = closed
        self._told = told
        self._saving = asyncio.Lock()

    # -- take

    async def take(self, number: int) -> bool:
        """Take a shard, if its lease can be had, and begin to crawl it."""
        holding = await self._leases.acquire(number)
        if holding is None:
            return False
        held = self.held[number] = Held(number, holding, self._keeping.keeper(number, holding))
        try:
            refused = await self._open(held)
        except Unavailable as away:
            refused = away
        if refused is not None:
            self._told(f"shard {number} cannot be taken now: {refused}")
            await self.let_go(number)
            return False
        return True

    async def _open(self, held: Held) -> Fenced | Full | Unavailable | None:
        number, holding = held.number, held.holding
        restored = await held.keeper.open()
        if isinstance(restored, Fenced | Full | Unavailable):
            return restored
        start = restored.checkpoint.position if restored.checkpoint is not None else 0
        held.saved = start
        gone = await asyncio.to_thread(self._keeping.lost, number, start)
        held.lost = len(gone)
        await self._refresh()
        await self._agent.moves.adopt(number, gone)
        shard = self._agent.shards.find(number)
        if shard is None:
            return Fenced("its tail took nothing from us")
        held.shard = shard
        held.saved = max(start, self._agent.saver.covered(number))
        about = self._about
        out = Outgoing(
            self._engine,
            shard,
            about.shards,
            holding.epoch,
            self._clock,
            self._agent.meters,
            about.message_bytes,
            self._foreign,
            patience=about.pause(1.0),
        )
        while (away := await self._begin(out, held, shard)) is not None:
            if isinstance(away, Fenced) or not holding.may_write(self._clock.monotonic()):
                return away
            await self._clock.sleep(_AGAIN)
        incoming = Incoming(
            self._engine.stream(exchange_of(number)),
            shard,
            clock=self._clock,
            meters=self._agent.meters,
            woken=self._agent.wake,
            refresh=self._refresh,
            foreign=self._foreign,
            patience=about.pause(1.0),
        )
        self._exchange.add(number, out, incoming)
        await self._turns.keep(number, shard, lambda: self.held.may_fetch(number), holding.turns)
        again = f", {held.lost} pages are lost and fetched again" if held.lost else ""
        self._told(f"shard {number}: taken, epoch {holding.epoch}, {shard.log.end:,} records{again}")
        held.on(Event.READY)
        self._agent.wake()
        return None

    async def _begin(self, out: Outgoing, held: Held, shard: Shard) -> Fenced | Unavailable | None:
        """Find out where links to us continue, and ours to others, and which pages are ours; None when that
        succeeded."""
        try:
            told = msgspec.json.encode(Cursors(shard.cursors))
            got(await self._engine.bucket.put(cursors_of(held.number), told))
            away = await out.resume()
            if away is None:
                epoch, pages = held.holding.epoch, shard.totals.pages
                await self._rations.begin(held.number, epoch, pages, lambda: shard.frontier.pending > 0)
        except (Fenced, Unavailable) as error:
            return error
        return away

    # -- save

    async def save(self) -> None:
        """Checkpoint every shard that moved since its last checkpoint."""
        async with self._saving:
            await self._agent.saver.snapshot()
            await self._keeping.bring(self._agent.saver.commit)
            for held in self.held.crawling():
                if held.stage is Stage.CRAWLING:  # it may have changed meanwhile
                    await self._save_one(held)

    async def bring(self) -> None:
        """Copy the archive to shared storage, without a checkpoint."""
        async with self._saving:
            await self._keeping.bring(self._agent.saver.commit)

    async def _save_one(self, held: Held) -> None:
        position = self._agent.saver.covered(held.number)
        if position <= held.saved or held.refused or held.shard is None:
            return
        saved = await held.keeper.save(position, {"received": held.shard.received})
        if isinstance(saved, Fenced):
            held.on(Event.REFUSED)
            self._told(f"shard {held.number}: {saved}")
            return
        held.saved = position
        self._keeping.saved(held.shard)
        await self._tidy(held)

    async def _tidy(self, held: Held) -> None:
        with contextlib.suppress(Away):  # the next call does it
            await held.keeper.tidy()

    async def _patiently(self, held: Held, save: Callable[[], Awaitable[None]]) -> None:
        """Retry while shared storage is away, as long as the lease lasts: unsaved data would be lost."""
        while held.holding.may_write(self._clock.monotonic()):
            try:
                await save()
                return
            except Unavailable:
                await self._clock.sleep(_AGAIN)
        held.on(Event.REFUSED)

    async def tidy(self) -> None:
        """Move sealed segments from the tail to storage."""
        async with self._saving:  # letting a shard go waits until its files are no longer read
            for held in self.held.crawling():
                if held.stage is Stage.CRAWLING:  # it may have changed meanwhile
                    await self._tidy(held)

    # -- hand over, and let go

    async def hand_over(self, number: int, *, ending: bool = False) -> None:
        """Save a shard and release its lease. `ending`: the whole crawl stops, so that turns come back soon."""
        held = self.held.get(number)
        if held is None or held.shard is None or held.stage is not Stage.CRAWLING:
            return
        held.on(Event.CLOSED)
        shard = held.shard
        await self._exchange.remove(number)
        await self._turns.drop_hosts(number)
        await self._agent.moves.leave(number)  # all shards that are handed over at once, together
        async with self._saving:
            await self._agent.moves.hand_over(number)
            if not held.refused:
                await self._patiently(held, lambda: self._keeping.bring(self._agent.saver.commit))
                await self._patiently(held, lambda: self._save_one(held))
            self._agent.saver.forget(shard)
        if held.refused or not held.holding.may_write(self._clock.monotonic()):
            await self.let_go(number)
            return
        with contextlib.suppress(Unavailable):
            await self._closed(held)
        await self._rations.settle(number, shard.totals.pages)
        self._rations.end(number)
        turns = await self._turns.end(number, _TURNS if ending else 0.0)
        self.held.pop(number, None)
        self._keeping.drop(number)
        await self._leases.release(number, turns)
        self._told(f"shard {number}: handed over at position {shard.log.end:,}")

    async def let_go(self, number: int) -> None:
        """The shard is no longer ours, or could not be fetched: nothing of it is saved."""
        held = self.held.get(number)
        if held is None:
            return
        held.on(Event.REFUSED)
        self._rations.end(number)
        if self._agent.shards.find(number) is not None:
            await self._agent.visits.cut(number)  # before anything that waits for the servers
        await self._turns.drop(number)
        shard = held.shard or self._agent.shards.find(number)
        if shard is not None:
            self._agent.shards.lose(shard)
        await self._exchange.remove(number)
        if shard is not None:
            await self._agent.moves.drop(shard)
            await self._keeping.doubt()
        async with self._saving:  # a checkpoint under way may still read its files
            self.held.pop(number, None)
            self._keeping.drop(number)
        if not held.holding.lost:
            await self._leases.release(number)  # no effect if another agent has it by now
        self._told(f"shard {number}: let go")
