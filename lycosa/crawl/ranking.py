"""Ranking: periodic calculation of a crawl's ranks, and of the levels of its pending URLs from them.

    ranker.note(record)                     every record of the agent's shards, before its links are given levels
    ranker.rebuild(slices)                  after a restart: the fold again from the logs
    if ranker.due(...): recalculate(...)    in a task of its own

A calculation is due when K pages have been fetched since the last began; and earlier, but not before K/10 pages,
when the best pages that it found are used up, or when few visits are active (Castillo, §6.4: the cycle is stopped
when too few robots work, and what was not crawled is in the next). Early ones take at most a twentieth of the time.

It takes the loop some milliseconds: the calculation runs in a thread over rows that never change, and so does the
planning of levels; then pending URLs are moved in steps of about a thousand. Snapshots exclude that last part: both
take the lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import numpy as np

from lycosa.clock import Clock
from lycosa.crawl.rank_fold import SOURCE, RankFold, host_ranks, lists_of, rank_lists, rows_of_hosts
from lycosa.errors import ConfigError
from lycosa.frontier import (
    BatchOrder,
    DepthOrder,
    Frontier,
    FrontierOptions,
    LengthOrder,
    Levels,
    OptimalOrder,
    Order,
    PartialOrder,
    Plan,
    RankedOrder,
    Scorer,
    load_scorer,
    scored,
)
from lycosa.meters import Meters
from lycosa.records import Record
from lycosa.url.key import Keyer

_SLICE = 0.005
"""Seconds of adding records before the event loop runs again."""
_RECORDS = 200
"""Maximum number of records added before that."""
_EARLY = 10
"""K divided by this: the pages before which no calculation is due."""
_SHARE = 20
"""An early calculation waits this many times the duration of the last one."""
_FEW = 4
"""Visits are few when fewer than one in so many of the allowed ones are active."""


def make_order(options: FrontierOptions, seed: int, scorer: Scorer | None = None) -> Order:
    """The order that the options ask for; `seed` is that of the crawl's keys.

    `scorer`: a function instead of the one that the options name.
    """
    if scorer is None and options.scorer:
        scorer = load_scorer(options.scorer)
    return scored(_plain_order(options, Keyer(seed)), scorer, options.boosts)


def _plain_order(options: FrontierOptions, keyer: Keyer) -> Order:
    match options.order:
        case "depth":
            return DepthOrder()
        case "length":
            return LengthOrder()
        case "biased":
            from lycosa.frontier import BiasedOrder

            return BiasedOrder(options.front_queues)
        case "batch":
            return BatchOrder(options.batch, keyer)
        case "partial":
            return PartialOrder(options.batch, keyer)
        case "optimal":
            return OptimalOrder.load(options.oracle, keyer)
    raise ConfigError(f"frontier.order: there is no order {options.order!r}")


def ranked(order: Order) -> RankedOrder | None:
    """The order, if it uses ranks."""
    return order if isinstance(order, RankedOrder) else None


class Ranker:
    """The ranks of one agent's crawl; see the module."""

    def __init__(
        self, order: RankedOrder, fold: RankFold, *, lock: asyncio.Lock, clock: Clock, meters: Meters
    ) -> None:
        self._order = order
        self.fold = fold
        self._lock = lock
        self._clock = clock
        self._busy = False
        self._reading = False
        self._overdue = False
        self._pages = 0  # as reported last
        self._at = 0  # pages at the last calculation
        self._batch = order.batch  # number of pages that the last calculation put first
        self._took = 0.0
        self._ended = -float("inf")
        self.known = 0
        """Pages (or hosts) that the last calculation ranked."""
        self._calculations = meters.counter("rank.calculations")
        self._moved = meters.counter("rank.moved")
        meters.gauge("rank.known", lambda: self.known)
        meters.gauge("rank.links", lambda: self.fold.links)
        meters.gauge("rank.bytes", lambda: self.fold.nbytes)
        meters.gauge("rank.by_host", lambda: float(self.fold.by_host))
        meters.gauge("rank.dropped", lambda: self.fold.dropped)
        meters.gauge("rank.seconds", lambda: self._took)

    def note(self, record: Record) -> None:
        """Note a record that was logged. To be called before its links are given levels."""
        noted = self.fold.add(record)
        if noted is not None:
            self._order.note(noted)

    async def rebuild(self, slices: AsyncIterator[Sequence[Record]], pages: int) -> None:
        """Add what the logs held when this process began; `pages` had been fetched by then.

        Threads read the slices; between portions of them the crawl continues, and its new records are noted.
        When all is read a calculation is due at once. A rebuilding that is interrupted begins anew with
        the next process: nothing of it is durable.
        """
        self._reading, self._at = True, pages
        try:
            async for records in slices:
                began = self._clock.monotonic()
                for count, record in enumerate(records, 1):
                    self.fold.add(record)
                    if count % _RECORDS == 0 or self._clock.monotonic() - began >= _SLICE:
                        await asyncio.sleep(0)
                        began = self._clock.monotonic()
                if self.fold.crowded:
                    await self._sum_up()
            self._overdue = self.fold.pages > 0
        finally:
            self._reading = False

    async def _sum_up(self) -> None:
        calculation = self.fold.cut()
        await asyncio.to_thread(calculation.sum_up)
        self.fold.settle(calculation)

    def due(self, pages: int, active: int, wanted: int) -> bool:
        """Whether to calculate now: `pages` are fetched, `active` of `wanted` visits are under way."""
        self._pages = pages
        if self._busy or self._reading:
            return False
        since = pages - self._at
        if self._overdue or since >= self._order.batch or self.fold.crowded:
            return True
        if since < max(self._order.batch // _EARLY, 1):
            return False
        if since < self._batch and active * _FEW >= wanted:
            return False
        return self._clock.monotonic() - self._ended >= _SHARE * self._took

    async def recalculate(self, frontiers: Sequence[Frontier]) -> None:
        """Calculate ranks from what is known, and set the levels of pending URLs by them."""
        if self._busy:
            return
        self._busy, self._overdue, self._at = True, False, self._pages
        began = self._clock.monotonic()
        try:
            calculation, planner = self.fold.cut(), self._order.planner()
            plan: Plan = await asyncio.to_thread(lambda: planner(calculation.run()))
            self.fold.settle(calculation)
            self.known = len(plan.ranks.keys)
            self._batch = self._order.batch if plan.ranks.by_host else plan.batch
            async with self._lock:
                await self._level(self._order.adopt(plan), frontiers)
            self._calculations.add()
        finally:
            self._busy = False
            self._ended = self._clock.monotonic()
            self._took = self._ended - began

    async def _level(self, levels: Levels, frontiers: Sequence[Frontier]) -> None:
        if not len(levels.keys) and levels.other < 0:
            return  # nothing to move
        for frontier in frontiers:
            for moved in frontier.relevel(levels):
                self._moved.add(moved)
                await asyncio.sleep(0)


def warm_ranking() -> None:
    """Compile the kernels of ranks."""
    from lycosa.frontier import Shares

    keys = np.arange(1, 9, dtype=np.uint64)
    host_ranks(rows_of_hosts(1, keys), rank_lists)
    lists = lists_of(keys, np.array([(1, 7)], SOURCE), [keys[1:]])
    rank_lists(lists)
    shares = Shares(16)
    shares.add(keys, 0.5, keys[:1])
    shares.read(keys)
