"""Visits of an agent: which host is visited when, how many at a time, and how visits under way are ended.

Shards take turns; each shard's frontier names the host that is ready. Visits begin while there are fewer than
allowed, the limits of the run are not reached and the shard may ask (its lease, if it has one). The `Mode` is:

    open    --pause-->  paused      none begins, and those under way end with the page that they are at
    paused  --go on-->  open
    any     --end-->    ending      none begins, and those under way end with the page that they are at
    ending  --again-->  open
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from enum import Enum, auto

from lycosa.clock import Clock
from lycosa.crawl.limits import RunQuota
from lycosa.crawl.pulse import Pulse
from lycosa.crawl.shard import Shard
from lycosa.crawl.shard_set import ShardSet
from lycosa.crawl.visit import Visitor

GRACE = 5.0
"""Seconds that visits under way are given to finish when the crawl stops, or their shard leaves."""
HELD = 1.0
"""Seconds between checks whether a host that the operator holds is still held."""
IDLE = 10.0
"""Seconds that a continuous crawl without anything to do waits at a time."""


class Mode(Enum):
    """Whether visits may begin."""

    OPEN = auto()
    PAUSED = auto()
    ENDING = auto()


class Scheduler:
    """Begins the visits of one agent, and ends them."""

    def __init__(
        self,
        *,
        shards: ShardSet,
        visitor: Visitor,
        quota: RunQuota,
        clock: Clock,
        pulse: Pulse,
        most: int,
        may_ask: Callable[[int, str], bool],
        continuous: bool,
    ) -> None:
        """`most`: visits at a time. `may_ask`: whether a shard's hosts may be asked now (at an address)."""
        self._shards = shards
        self._visitor = visitor
        self._quota = quota
        self._clock = clock
        self._pulse = pulse
        self._most = most
        self._may_ask = may_ask
        self._continuous = continuous
        self._mode = Mode.OPEN
        self._visits: dict[asyncio.Task[None], int] = {}
        """Visits under way, with the shard of each."""
        self._next = -1
        self._first = [host for host, said in shards.options.site.items() if said.first]

    def change(self, most: int) -> None:
        """The operator has changed options: the number of visits at a time, and the hosts that go first."""
        self._most = most
        self._first = [host for host, said in self._shards.options.site.items() if said.first]
        self._pulse.wake()

    def __len__(self) -> int:
        """Number of visits under way."""
        return len(self._visits)

    def of(self, number: int) -> int:
        """Number of visits under way to hosts of a shard."""
        return sum(1 for at in self._visits.values() if at == number)

    # -- begin

    def start(self, now: float) -> None:
        """Begin the visits that may begin now."""
        if not self._may_begin(now):
            return
        count = len(self._shards)
        misses = 0
        may_open = self._quota.open() or self._continuous  # known pages do not count for a limit of pages
        if may_open:
            self._start_first(now)
        while len(self._visits) < self._most and misses < count and may_open:
            self._next = (self._next + 1) % count
            shard = self._shards[self._next]
            host = shard.frontier.begin(now) if self._may_visit(shard) else None
            if host is None:
                misses += 1
                continue
            misses = 0
            if self._visitor.holds(host):
                shard.frontier.end(host, now + HELD)
                continue
            if shard.is_over_budget(host):
                shard.frontier.end(host, now)  # its class is higher now: others go first
                continue
            self._begin(shard, host)

    def _begin(self, shard: Shard, host: str) -> None:
        task = asyncio.create_task(self._visitor.visit(shard, host))
        self._visits[task] = shard.number
        task.add_done_callback(self._ended)

    def _start_first(self, now: float) -> None:
        """Begin visits of the hosts that the operator wants first, if they are ready."""
        for host in self._first:
            shard = self._shards.of_host(host)
            if shard is None or self._visitor.holds(host) or not self._may_visit(shard):
                continue
            if (
                len(self._visits) < self._most
                and shard.frontier.queued(host)
                and shard.frontier.claim(host, now)
            ):
                self._begin(shard, host)

    def _may_begin(self, now: float) -> bool:
        """Whether visits of any shard may begin."""
        return self._mode is Mode.OPEN and now >= self._visitor.short_until

    def _may_visit(self, shard: Shard) -> bool:
        return not self._shards.is_leaving(shard.number) and self._may_ask(shard.number, "")

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._visits.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._pulse.fail(error)
        self._pulse.wake()

    def patience(self, now: float) -> float:
        """Seconds until another visit might begin; limited, so that other work is not delayed."""
        timeout = IDLE if self._continuous and not self._visits else 1.0
        if now < self._visitor.short_until:
            timeout = self._visitor.short_until - now
        if len(self._visits) < self._most and self._may_begin(now):
            for shard in self._shards:
                ready = shard.frontier.next_ready() if self._may_visit(shard) else None
                if ready is not None:
                    timeout = min(timeout, ready - now)
        return timeout

    # -- end

    def pause(self) -> None:
        """Begin no more visits until `go_on`; those under way end with their present page."""
        if self._mode is Mode.OPEN:
            self._mode = Mode.PAUSED
            self._visitor.stopping = True

    def go_on(self) -> None:
        if self._mode is Mode.PAUSED:
            self._mode = Mode.OPEN
            self._visitor.stopping = False
            self._pulse.wake()

    def let_end(self, on: bool = True) -> None:
        """Whether visits under way are to end with their present page, and none is to begin."""
        if on:
            self._mode = Mode.ENDING
        elif self._mode is Mode.ENDING:
            self._mode = Mode.OPEN
        self._visitor.stopping = on

    async def end(self, number: int | None = None, grace: float | None = None) -> None:
        """Wait for the visits (of a shard) to end; those that take longer are cut short."""
        visits = self._of(number)
        if not visits:
            return
        await asyncio.wait(visits, timeout=GRACE if grace is None else grace)
        late = [task for task in visits if not task.done()]  # in order, so that a simulation is repeatable
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    async def cut(self, number: int) -> None:
        """End the visits of a shard at once, and their connections: its hosts are about to be another agent's."""
        while visits := [task for task in self._of(number) if not task.done()]:
            for task in visits:
                task.cancel()
            await asyncio.wait(visits, timeout=1.0)  # repeated, in case a cancellation was lost

    def _of(self, number: int | None) -> Collection[asyncio.Task[None]]:
        return [task for task, at in self._visits.items() if number in (None, at)]

    async def close(self) -> None:
        await self._visitor.close()
