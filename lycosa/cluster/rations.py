"""Pages for the shards that an agent holds: taken from the crawl's quota in chunks, so that the limit is exact.

A shard counts what it has fetched and what is under way against what it was granted in all (`control`). A shard
that runs short asks for more; one that has had unused pages for a while returns them, since another shard may need
the last ones. Both are repeated until acknowledged: a grant whose answer was lost is requested again, and so is a
return; otherwise the pages would belong to nobody, and the limit would never be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from lycosa.clock import Clock
from lycosa.cluster.control import Control
from lycosa.cluster.outcomes import Fenced
from lycosa.crawl.config import Limits
from lycosa.engine.protocol import Unavailable

_CHUNK = 64
_LOOK = 0.5
_UNUSED = 2.0


class _Ration:
    """The pages of one shard."""

    def __init__(self, epoch: int, pages: int, needs: Callable[[], bool], now: float) -> None:
        self.epoch = epoch
        self.needs = needs
        self.taken = pages
        """Pages fetched or under way."""
        self.granted = pages
        self.used = now
        self.wishes = False
        self.owes = False
        """It is returning pages, which has not been acknowledged yet."""


class Rations:
    """What an agent's shards may still fetch; `lycosa.crawl.limits.RunQuota`. Limits of bytes and time are
    elsewhere."""

    def __init__(self, control: Control, limit: int, clock: Clock, unused: float = _UNUSED) -> None:
        """`unused`: seconds after which unused pages are returned."""
        self._unused = unused
        self._control = control
        self._limit = limit
        self._clock = clock
        self._of: dict[int, _Ration] = {}
        self._wished = asyncio.Event()

    async def begin(self, shard: int, epoch: int, pages: int, needs: Callable[[], bool]) -> None:
        """A shard is ours, and its log has this many pages: what its last holder was granted beyond them is free.

        `needs`: whether it has anything to fetch.
        """
        if self._limit:
            await self._control.settle_pages(shard, epoch, pages)
        self._of[shard] = _Ration(epoch, pages, needs, self._clock.monotonic())

    def end(self, shard: int) -> None:
        """The shard is no longer ours."""
        self._of.pop(shard, None)

    async def settle(self, shard: int, pages: int) -> None:
        """Nothing of the shard is under way: return what it does not need."""
        ration = self._of.get(shard)
        if self._limit and ration is not None:
            with contextlib.suppress(Fenced, Unavailable):
                await self._control.settle_pages(shard, ration.epoch, pages)

    # -- called by visits

    def start(self) -> None:
        """The run begins: nothing here depends on its start."""

    def take(self, shard: int = 0) -> bool:
        if not self.may(shard):
            return False
        ration = self._of[shard]
        ration.taken += 1
        ration.used = self._clock.monotonic()
        return True

    def give_back(self, shard: int = 0) -> None:
        if (ration := self._of.get(shard)) is not None:
            ration.taken -= 1

    def may(self, shard: int) -> bool:
        """Whether a shard has a page left; if not, this asks for some."""
        ration = self._of.get(shard)
        if ration is None:
            return False
        if not self._limit or ration.taken < ration.granted:
            return True
        if not ration.wishes and ration.needs():
            ration.wishes = True
            self._wished.set()
        return False

    def open(self) -> bool:
        return True  # each shard is asked for itself

    def reached(self) -> bool:
        return False  # decided where all shards are visible

    def change(self, limits: Limits) -> None:
        """Set another limit of pages. If there was none before, pages under way may exceed it."""
        if limits.pages and not self._limit:
            for ration in self._of.values():
                ration.granted, ration.owes = ration.taken, True
        self._limit = limits.pages

    # -- in tasks of their own

    async def tend(self) -> bool:
        """Get the pages asked for and return unused ones; True if any came. Waits until there is something to
        do."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wished.wait(), max(min(_LOOK, self._unused), self._unused / 4))
        self._wished.clear()
        if not self._limit:
            return False
        came = False
        now = self._clock.monotonic()
        for shard, ration in list(self._of.items()):
            if self._of.get(shard) is not ration:
                continue
            if ration.granted > ration.taken and now - ration.used > self._unused:
                ration.granted, ration.owes = ration.taken, True
            try:
                if ration.wishes and ration.taken >= ration.granted:
                    came |= await self._get(shard, ration)
                elif ration.owes:
                    await self._control.settle_pages(shard, ration.epoch, ration.granted)
                    ration.owes = False
            except (Fenced, Unavailable):
                continue
        return came

    async def _get(self, shard: int, ration: _Ration) -> bool:
        quota = await self._control.quota()
        have = ration.granted
        # The quota's number for us is ignored: it may be a grant whose answer was lost.
        others = sum(pages for number, (_, pages) in quota.granted.items() if number != shard)
        free = quota.limit - others - have
        if free <= 0:
            return False
        wanted = max(min(_CHUNK, free // 4), 1)
        ration.granted = await self._control.take_pages(shard, ration.epoch, have, wanted)
        ration.wishes = ration.owes = False
        ration.used = self._clock.monotonic()
        return ration.granted > have
