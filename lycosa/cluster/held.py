"""The shards that an agent holds: taking one, saving it, handing it over, letting it go.

    take        lease -> restore the directory (`ShardKeeper.open`) -> what was lost -> recover -> exchange -> crawl
    save        snapshot -> archives to shared storage -> checkpoint -> purge
    bring       archives to shared storage, more often than that: what is only here dies with this disk
    hand over   no more links -> visits end -> commit, snapshot -> archives -> checkpoint -> release the lease, with
                it the turns of addresses that are still out: the next holder need not wait for them
    let go      the lease is over, or somebody else has the shard: visits are cut, nothing is written any more, the
                directory is removed

A shard is in one of these steps at a time. `may_ask` is what keeps an agent that is late from the network: it looks
at the clock before every request.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path

from nats.aio.client import Client
from nats.js import JetStreamContext

from lycosa.clock import Clock, milliseconds
from lycosa.cluster.courier import Courier
from lycosa.cluster.engine.foreign import Foreign
from lycosa.cluster.engine.host_turns import HostKeeper
from lycosa.cluster.engine.keeping import ShardKeeper
from lycosa.cluster.engine.leases import Leases
from lycosa.cluster.engine.outcomes import Fenced, Unavailable
from lycosa.cluster.engine.streams import Names
from lycosa.cluster.engine.turns import TurnKeeper
from lycosa.cluster.lease import Holding
from lycosa.cluster.losses import lost_pages
from lycosa.cluster.rations import Rations
from lycosa.cluster.storage import ShardStorage, Storage
from lycosa.cluster.streaming import Incoming, Outgoing, StreamExchange
from lycosa.crawl.agent import Agent
from lycosa.crawl.manifest import shard_directory
from lycosa.crawl.shard import Shard
from lycosa.files import DiskFiles
from lycosa.log.log import Batch
from lycosa.log.reader import LogReader
from lycosa.records import Lost

_AGAIN = 0.3
_TURNS = 3.0
"""Seconds that other agents, who stop as well, are given to end their visits at addresses of a shard."""


class Pace:
    """How fast a number has grown lately."""

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds = seconds
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, number: int) -> float:
        """It is so much now; by how much a second it grew since some seconds ago."""
        self._seen.append((now, number))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self._seconds:
            self._seen.popleft()
        began, before = self._seen[0]
        return round(max(number - before, 0) / (now - began), 3) if now > began else 0.0


class Held:
    """One shard, from the moment its lease is ours."""

    def __init__(self, number: int, holding: Holding, keeper: ShardKeeper) -> None:
        self.number = number
        self.holding = holding
        self.keeper = keeper
        self.shard: Shard | None = None
        """Once it is recovered and crawls."""
        self.saved = 0
        self.lost = 0
        """Pages that were lost when we took it."""
        self.failed = False
        """The tail refused us: it is to be let go."""
        self.closing = False
        self.pace = Pace()
        self.cut = False
        """Its lease is near its end: visits were broken off, and connections ended."""


class Holder:
    """All shards of one agent; `lycosa.crawl.saving.Ledger`."""

    def __init__(
        self,
        *,
        client: Client,
        js: JetStreamContext,
        names: Names,
        work: Path,
        storage: Storage,
        leases: Leases,
        exchange: StreamExchange,
        turns: TurnKeeper,
        hosts: HostKeeper,
        rations: Rations,
        clock: Clock,
        shards: int,
        segment_bytes: int,
        refresh: Callable[[], Awaitable[None]],
        told: Callable[[str], None],
        foreign: Foreign,
    ) -> None:
        self._foreign = foreign
        self._client = client
        self._js = js
        self._names = names
        self._work = work
        self._storage = storage
        self._leases = leases
        self._exchange = exchange
        self._turns = turns
        self._hosts = hosts
        self._rations = rations
        self._clock = clock
        self._shards = shards
        self._segment_bytes = segment_bytes
        self._refresh = refresh
        self._told = told
        self.held: dict[int, Held] = {}
        self._agent: Agent | None = None
        self._courier: Courier | None = None
        self._saving = asyncio.Lock()

    def begin(self, agent: Agent, courier: Courier) -> None:
        self._agent, self._courier = agent, courier

    @property
    def agent(self) -> Agent:
        assert self._agent is not None
        return self._agent

    @property
    def courier(self) -> Courier:
        assert self._courier is not None
        return self._courier

    def may_fetch(self, number: int) -> bool:
        held = self.held.get(number)
        return held is not None and held.holding.may_fetch(self._clock.monotonic())

    # -- the ledger

    async def commit(self, shard: Shard, batch: Batch, packed: bytes) -> bool:
        held = self.held.get(shard.number)
        if held is None or held.failed or (held.shard is not None and held.shard is not shard):
            return False
        try:
            await held.keeper.commit(batch, packed)
        except (Fenced, Unavailable) as error:
            held.failed = True
            self._told(f"shard {shard.number}: {error}")
            return False
        return held.holding.may_write(self._clock.monotonic())

    # -- take

    async def take(self, number: int) -> bool:
        """Take a shard, if its lease can be had, and begin to crawl it."""
        holding = await self._leases.acquire(number)
        if holding is None:
            return False
        files = DiskFiles(self._work / shard_directory(number))
        keeper = ShardKeeper(
            client=self._client,
            js=self._js,
            names=self._names,
            shard=number,
            storage=ShardStorage(self._storage, self._names.crawl, number),
            files=files,
            holding=holding,
            clock=self._clock,
            segment_bytes=self._segment_bytes,
        )
        held = self.held[number] = Held(number, holding, keeper)
        try:
            await self._open(held, files)
        except (Fenced, Unavailable) as error:
            self._told(f"shard {number} cannot be taken now: {error}")
            await self.let_go(number)
            return False
        return True

    async def _open(self, held: Held, files: DiskFiles) -> None:
        number, holding = held.number, held.holding
        restored = await held.keeper.open()
        start = restored.checkpoint.position if restored.checkpoint is not None else 0
        held.saved = start
        gone: list[Lost] = await asyncio.to_thread(
            lambda: lost_pages(
                LogReader(files.within("log")).scan(start), self.courier.has, milliseconds(self._clock)
            )
        )
        held.lost = len(gone)
        await self._refresh()
        await self.agent.adopt(number, apart=True, mend=lambda shard: gone)
        shard = self.agent.saver.find(number)
        if shard is None:
            raise Fenced("its tail took nothing from us")
        held.shard = shard
        out = Outgoing(
            self._js, self._names, shard, self._shards, holding.epoch, self._clock, self.agent.meters
        )
        while True:
            try:
                await out.resume()
                await self._rations.begin(
                    number, holding.epoch, shard.totals.pages, lambda: shard.frontier.pending > 0
                )
                break
            except Unavailable:
                if not holding.may_write(self._clock.monotonic()):
                    raise
                await self._clock.sleep(_AGAIN)
        incoming = Incoming(
            self._client,
            self._js,
            self._names,
            shard,
            clock=self._clock,
            meters=self.agent.meters,
            woken=self.agent.wake,
            refresh=self._refresh,
            foreign=self._foreign,
        )
        self._exchange.add(number, out, incoming)
        await self._turns.keep(number, lambda: self.may_fetch(number), holding.turns)
        await self._hosts.keep(number, shard.frontier, lambda: self.may_fetch(number))
        again = f", {held.lost} pages are lost and fetched again" if held.lost else ""
        self._told(f"shard {number}: taken, epoch {holding.epoch}, {restored.end:,} records{again}")
        self.agent.wake()

    # -- save

    async def save(self) -> None:
        """Checkpoint every shard that moved since its last."""
        async with self._saving:
            await self.agent.snapshot()
            await self.courier.bring(self.agent.saver.commit)
            for held in list(self.held.values()):
                if held.shard is not None and not held.closing:
                    await self._save_one(held)

    async def bring(self) -> None:
        """Have the archive on shared storage, without a checkpoint."""
        async with self._saving:
            await self.courier.bring(self.agent.saver.commit)

    async def _save_one(self, held: Held) -> None:
        position = self.agent.saver.covered(held.number)
        if position <= held.saved or held.failed or held.shard is None:
            return
        try:
            await held.keeper.save(position, {"received": held.shard.received})
            held.saved = position
            held.shard.archive_ends.clear()  # those files are all on shared storage: nobody asks for them again
            await held.keeper.tidy()
        except Fenced as error:
            held.failed = True
            self._told(f"shard {held.number}: {error}")
        except Unavailable:
            return  # of the purge: the next one does it

    async def tidy(self) -> None:
        """Sealed segments go to storage, and leave the tail."""
        for held in list(self.held.values()):
            if held.shard is not None and not held.failed and not held.closing:
                with contextlib.suppress(Unavailable):
                    await held.keeper.tidy()

    # -- hand over, and let go

    async def hand_over(self, number: int, *, ending: bool = False) -> None:
        """Save a shard and give its lease back. `ending`: the whole crawl stops, so that turns come back soon."""
        held = self.held.get(number)
        if held is None or held.shard is None or held.failed:
            return
        held.closing = True
        shard = held.shard
        await self._exchange.remove(number)
        await self._hosts.drop(number)
        async with self._saving:
            await self.agent.hand_over(number, keep_named=True)
            if not held.failed:
                await self.courier.bring(self.agent.saver.commit)
                await self._save_one(held)
            self.agent.saver.forget(shard)
        if held.failed or not held.holding.may_write(self._clock.monotonic()):
            await self.let_go(number)
            return
        await self._rations.settle(number, shard.totals.pages)
        self._rations.end(number)
        turns = await self._turns.end(number, _TURNS if ending else 0.0)
        self.held.pop(number, None)
        self._remove_directory(number)
        await self._leases.release(number, turns)
        self._told(f"shard {number}: handed over at position {shard.log.end:,}")

    async def let_go(self, number: int) -> None:
        """The shard is not ours any more, or could not be had: nothing of it is saved."""
        held = self.held.get(number)
        if held is None:
            return
        held.failed = held.closing = True
        self._rations.end(number)
        if self.agent.saver.find(number) is not None:
            await self.agent.cut_visits(number)  # before anything that waits for the servers
        await self._hosts.drop(number)
        await self._turns.drop(number)
        shard = held.shard or self.agent.saver.find(number)
        if shard is not None:
            self.agent.saver.lose(shard)
        await self._exchange.remove(number)
        if shard is not None:
            await self.agent.drop(shard)
            await self.courier.doubt_all()
        async with self._saving:  # a checkpoint under way may still read its files
            self.held.pop(number, None)
            self._remove_directory(number)
        if not held.holding.lost:
            await self._leases.release(number)  # if it is another's by now, nothing happens
        self._told(f"shard {number}: let go")

    def _remove_directory(self, number: int) -> None:
        shutil.rmtree(self._work / shard_directory(number), ignore_errors=True)
