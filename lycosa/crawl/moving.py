"""Shards arrive at an agent, and leave it, while it crawls.

adopt       open a shard that nobody has, recover it, log what must be logged first, and crawl it
leave       nothing begins for it any more, and its visits end; then one of these follows:
hand over   save it and close it: the next holder finds all of it in its files
drop        it is another agent's by now: nothing more of it is saved or written
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from lycosa.crawl.blaming import Blame
from lycosa.crawl.chores import Chores
from lycosa.crawl.delivery import Exchange
from lycosa.crawl.pulse import Pulse
from lycosa.crawl.refreshing import Refreshing
from lycosa.crawl.saving import Saver
from lycosa.crawl.scheduling import Scheduler
from lycosa.crawl.shard import ContentIndex, Shard
from lycosa.crawl.shard_set import ShardSet
from lycosa.frontier import Room
from lycosa.records import Record

_RECORDS = 64
"""Records that are appended before the event loop runs again."""


class Mover:
    """Moves the shards of one agent; see the module."""

    def __init__(
        self,
        *,
        shards: ShardSet,
        open_shard: Callable[[int], Shard],
        saver: Saver,
        exchange: Exchange,
        visits: Scheduler,
        chores: Chores,
        blame: Blame,
        content: ContentIndex,
        room: Room,
        pulse: Pulse,
        refreshing: Refreshing | None,
    ) -> None:
        """`open_shard`: makes a shard in its state before recovery."""
        self._shards = shards
        self._open_shard = open_shard
        self._saver = saver
        self._exchange = exchange
        self._visits = visits
        self._chores = chores
        self._blame = blame
        self._content = content
        self._room = room
        self._pulse = pulse
        self._refreshing = refreshing

    async def adopt(self, number: int, lost: Iterable[Record] = ()) -> None:
        """Open a shard that no agent has, and crawl it; its last holder may have been interrupted.

        The caller ensures that the archive holds all that the shard's log points at, and that senders
        elsewhere begin at its cursors. `lost`: records to be logged before the shard is crawled. All of that is
        durable before the first visit; if the ledger refuses it, the agent does not have the shard afterwards.
        """
        shard = await asyncio.to_thread(self.opened, number)
        found = await asyncio.to_thread(self._blame.find, [shard])
        if self._refreshing is not None:
            self._refreshing.mend(shard)
        self._shards.configure(shard)
        for count, record in enumerate(lost, 1):
            shard.append(record)
            if not count % _RECORDS:
                await asyncio.sleep(0)
        self._blame.log(found)
        # In a thread, too: it reads all sites that the shard ever asked.
        await asyncio.to_thread(shard.hold_all, self._shards.options.politeness)
        await self._saver.commit(shard)  # before its visits: a blamed page may end this process, too
        if shard.log.committed < shard.log.end:
            await self.drop(shard)  # it was lost meanwhile
            return
        self._blame.forget()
        self._content.stores[number] = shard.content_store
        self._chores.rank_log(shard)
        await self._saver.commit()
        self._shards.add(shard)
        self._shards.configure(shard)  # the options may have changed while the shard was not ours
        self._exchange.catch_up(running=True)
        self._pulse.wake()

    def opened(self, number: int) -> Shard:
        """A recovered shard. May run in a thread."""
        shard = self._open_shard(number)
        self._saver.recover_one(shard)
        return shard

    async def leave(self, number: int) -> None:
        """Begin no more visits of a shard, and let those under way end; `hand_over` or `drop` come next."""
        self._shards.leave(number)
        await self._visits.end(number)

    async def hand_over(self, number: int) -> None:
        """End a shard's visits, save it, and close it. The saver still knows its snapshot."""
        shard = self._shards.find(number)
        if shard is None:
            return
        try:
            await self.leave(number)
            await self._chores.end(number)
            self._shards.remove(shard)  # from here on nothing is delivered to it
            await self._saver.commit(shard)
            await self._saver.snapshot(shard)
        finally:
            self._shards.stay(number)
        self._close(shard)
        await self._saver.commit()
        self._exchange.catch_up(running=True)
        self._pulse.wake()

    async def drop(self, shard: Shard) -> None:
        """Let a shard go that is another agent's by now: nothing more of it is saved or written."""
        number = shard.number
        self._shards.leave(number)
        try:
            self._shards.lose(shard)
            await self._visits.cut(number)
            await self._chores.end(number)
            await self._saver.settle_lost(shard)
        finally:
            self._shards.stay(number)
        self._blame.drop(shard)
        self._close(shard)
        self._pulse.wake()

    def _close(self, shard: Shard) -> None:
        shard.log.close()
        self._room.forget(shard.number)
        self._content.stores.pop(shard.number, None)
