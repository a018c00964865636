"""Keeping a shard while its lease lasts: the log into the tail, sealed segments and checkpoints to shared storage.

The order of things, which everything else rests on:

    open      claim the tail for our epoch, then restore the directory from storage and what the tail held
    commit    1. the batch's blocks go to the tail, and are taken;  2. only then to our own disk (`Log.write`)
    tidy      segments that the tail shows sealed go to storage, and only then is the tail purged up to their end
    save      a snapshot, whose position is committed, goes to storage as a checkpoint of our epoch

A full tail is tidied, then waited for; nobody but us can make room in it, so segments must be much smaller than
the tail's limit. When the lease is over, or the tail has another holder, every step says so (`Fenced`,
`Unavailable`), and the shard must be let go: its directory is nobody's until the next `open`.
"""

from __future__ import annotations

import asyncio

from nats.aio.client import Client
from nats.js import JetStreamContext

from lycosa.clock import Clock
from lycosa.cluster.engine.outcomes import Fenced, Full, Unavailable
from lycosa.cluster.engine.streams import Names
from lycosa.cluster.engine.tail import Piece, Tail
from lycosa.cluster.lease import Holding
from lycosa.cluster.storage import Checkpoint, Restored, ShardStorage, TailAhead
from lycosa.files import Files
from lycosa.log.log import Batch, pack
from lycosa.log.reader import segment_name, segments

_AGAIN = 0.2
_LOOKS = 5


def segment_for(log: Files, batch: Batch, segment_bytes: int) -> int:
    """The segment that `Log.write` will put a batch into."""
    firsts = segments(log)
    if firsts and log.size(segment_name(firsts[-1])) < segment_bytes:
        return firsts[-1]
    return batch.first


class ShardKeeper:
    """One shard that we hold."""

    def __init__(
        self,
        *,
        client: Client,
        js: JetStreamContext,
        names: Names,
        shard: int,
        storage: ShardStorage,
        files: Files,
        holding: Holding,
        clock: Clock,
        segment_bytes: int,
    ) -> None:
        """`files`: the shard's local directory, with `log/` and `snapshots/` in it."""
        self._storage = storage
        self._files = files
        self._log = files.within("log")
        self._holding = holding
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._stored: set[int] = set()
        self._tail = Tail(
            client,
            js,
            names,
            shard,
            patience=holding.lease.seconds,
            may_go_on=lambda: holding.may_write(clock.monotonic()),
        )

    @property
    def committed(self) -> int:
        return self._tail.committed

    async def open(self) -> Restored:
        """Make the directory what the shard is; `Log` and `Saver` open it next."""
        found: list[Piece] = []
        await self._tail.claim(self._holding.epoch, found.append)
        for look in range(_LOOKS):
            try:
                restored = await asyncio.to_thread(self._storage.restore, self._files, found)
                break
            except TailAhead:
                if look == _LOOKS - 1:
                    raise
                await self._clock.sleep(_AGAIN)
        self._stored = set(await asyncio.to_thread(self._storage.segments))
        return restored

    async def commit(self, batch: Batch, data: bytes | None = None) -> None:
        """Commit a batch (packed: `data`): when this returns it is log, and may be written to our own disk."""
        segment = segment_for(self._log, batch, self._segment_bytes)
        if data is None:
            data = await asyncio.to_thread(pack, batch)
        while True:
            self._demand_lease()
            try:
                await self._tail.append(batch.first, data, self._holding.epoch, segment)
                return
            except Full:
                try:
                    room = await self.tidy()
                except Unavailable:
                    room = 0  # shared storage is away: wait for it, while the lease lasts
                if not room:
                    await self._clock.sleep(_AGAIN)

    async def tidy(self) -> int:
        """Put sealed segments on storage and purge the tail; how many pieces of it went."""
        sealed = self._tail.sealed
        for first in segments(self._log):
            if first < sealed and first not in self._stored:
                await asyncio.to_thread(self._storage.put_segment, self._log, first)
                self._stored.add(first)
        return await self._tail.purge(sealed) if sealed else 0

    async def save(self, position: int, about: dict[str, int] | None = None) -> Checkpoint:
        """Make the local snapshot at a position a checkpoint."""
        self._demand_lease()
        if position > self._tail.committed:
            raise ValueError(
                f"a snapshot at {position} knows more than the log, which ends at {self.committed}"
            )
        saved = await asyncio.to_thread(self._storage.save, self._files, position, self._holding.epoch, about)
        if saved is None:
            raise Fenced("a later holder of the shard has saved a checkpoint")
        return saved

    def _demand_lease(self) -> None:
        if not self._holding.may_write(self._clock.monotonic()):
            raise Fenced("the lease of the shard is over")
