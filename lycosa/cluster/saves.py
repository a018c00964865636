"""When an agent of a cluster saves: checkpoints, archives on shared storage, shortening of tails.

A checkpoint is due after a number of records or seconds, whichever comes first; archives are copied more often,
since what is only on this disk is lost with it. If storage is away, that is reported once, and tried again a little
later: the crawl goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lycosa.clock import Clock
from lycosa.cluster.held import Holder
from lycosa.cluster.keeping import Keeping
from lycosa.cluster.storage import Away
from lycosa.crawl.config import SnapshotOptions

_TIDY = 10.0
_STORAGE = 5.0
"""Seconds after which shared storage that was away is tried again."""


class Saves:
    """Checks now and then what is due, and does it."""

    def __init__(
        self,
        holder: Holder,
        keeping: Keeping,
        wanted: Callable[[], SnapshotOptions],
        clock: Clock,
        told: Callable[[str], None],
    ) -> None:
        self._holder = holder
        self._keeping = keeping
        self._wanted = wanted
        self._clock = clock
        self._told = told
        self._away = False
        self._saved_at = self._brought_at = self._tidied_at = clock.monotonic()

    async def step(self) -> None:
        """Save what is due."""
        try:
            await self._what_is_due()
            self._away = False
        except Away as away:
            if not self._away:
                self._told(f"{away}: the crawl goes on, and is saved when shared storage is back")
            self._away = True
            await self._clock.sleep(_STORAGE)

    async def _what_is_due(self) -> None:
        now, wanted = self._clock.monotonic(), self._wanted()
        held = self._holder.held.values()
        records = sum(each.shard.log.end - each.saved for each in held if each.shard is not None)
        if records >= wanted.records or (now - self._saved_at >= wanted.seconds and records > 0):
            await self._holder.save()
            self._saved_at = self._brought_at = self._clock.monotonic()
            return
        waiting = await asyncio.to_thread(self._keeping.waiting)
        late = now - self._brought_at >= wanted.archive_seconds
        if waiting >= wanted.archive_bytes or (late and waiting):
            await self._holder.bring()
            self._brought_at = self._clock.monotonic()
        elif late:
            self._brought_at = now  # nothing was fetched: the interval begins with the next page
        if now - self._tidied_at >= _TIDY:
            await self._holder.tidy()
            self._tidied_at = self._clock.monotonic()
