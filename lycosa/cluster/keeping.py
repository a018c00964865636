"""Keeping shards while their leases last, and the archive that their logs point into.

An agent needs three interfaces to its shards' storage: `Keeper` (one shard), `Keeping` (all of them, with the
archive) and `Home` (their place). The classes themselves implement them for one machine: a shard's log is its
directory, and the archive is where it was written. Nothing is restored or copied, and the next holder of a shard
opens the same directory. Therefore a holder must be known to be dead before another takes its place: nothing
would refuse what it still writes. So leases of one machine do not expire (`FOREVER`), and the process that started
an agent, and has seen it end, releases its leases (`lycosa.cluster.leases.end_leases`). What the
logs know of the archive, and of each other, is checked before any agent begins (`survey`).

In a cluster a shard consists of a tail and its files on shared storage: `ShardKeeper` here, and `shared_keeping`.
Everything else relies on this order:

    open      claim the tail for our epoch, then restore the directory from storage and from the tail commit    1.
    the batch's blocks are accepted by the tail;  2. only then are they written to our disk (`Log.write`) tidy
    segments that the tail shows sealed go to storage, and only then is the tail purged up to their end save      a
    snapshot, whose position is committed, goes to storage as a checkpoint of our epoch

A full tail is tidied, then waited for; only we can make room in it, so segments must be much smaller than
the tail's limit. When the lease is over, or the tail has another holder, every step returns that (`Fenced`,
`Unavailable`), and the shard must be let go: its directory is unused until the next `open`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from lycosa.archive.writer import Archive, archive_names
from lycosa.clock import Clock
from lycosa.cluster.control import About
from lycosa.cluster.lease import Holding
from lycosa.cluster.machine import Machine
from lycosa.cluster.outcomes import Fenced
from lycosa.cluster.storage import Away, Checkpoint, Restored, ShardStorage, look_again
from lycosa.cluster.tail import Piece, Tail
from lycosa.crawl.shard import Shard
from lycosa.engine.protocol import Engine, Full, Stream, Unavailable
from lycosa.files import Files
from lycosa.log.log import Batch, pack
from lycosa.log.reader import segment_name, segments
from lycosa.records import Lost

if TYPE_CHECKING:
    from lycosa.cluster.held import HeldShards

FOREVER = 1e9
"""The duration in seconds of a lease that ends only with its holder's process."""
_AGAIN = 0.2


def segment_for(log: Files, batch: Batch, segment_bytes: int) -> int:
    """The segment that `Log.write` will put a batch into."""
    firsts = segments(log)
    if firsts and log.size(segment_name(firsts[-1])) < segment_bytes:
        return firsts[-1]
    return batch.first


class Keeper:
    """Keeps one shard that we hold; this implementation keeps it in its own directory."""

    async def open(self) -> Restored | Fenced | Full | Unavailable:
        """Bring the directory to the shard's committed state; `Log` and `Saver` open it next."""
        return Restored(0, None, 0)

    async def commit(self, batch: Batch, data: bytes | None = None) -> Fenced | Unavailable | None:
        """Commit a batch (packed: `data`). None: it is committed, and may be written to our own disk."""
        return None

    async def tidy(self) -> int | Unavailable:
        """Make room; returns how much. `Away` is raised."""
        return 0

    async def save(self, position: int, about: dict[str, int] | None = None) -> Checkpoint | Fenced | None:
        """Make the local snapshot at a position the one with which the next holder begins."""
        return None


class Keeping:
    """Keeps an agent's shards, and the archive that their logs point into; this implementation is for one
    machine."""

    def __init__(self, archive: Files) -> None:
        """`archive`: its directory."""
        self._archive = archive

    async def begin(self) -> Mapping[str, int]:
        """Called before anything is crawled: the agent's own archive files that it continues, and their ends."""
        return {name: self._archive.size(name) for name in archive_names(self._archive)}

    def keeper(self, number: int, holding: Holding) -> Keeper:
        return Keeper()

    def lost(self, number: int, start: int) -> list[Lost]:
        """The pages of a shard's log from a position on whose bytes are no longer available. Runs in a thread."""
        return []

    def waiting(self) -> int:
        """Bytes of archive that would be lost with this disk. Runs in a thread."""
        return 0

    async def bring(self, commit: Callable[[], Awaitable[None]] | None = None) -> None:
        """Copy the archive to where the next holders of the shards find it; `commit`: commits the records that name
        it."""

    async def doubt(self) -> None:
        """A shard was lost: the archive must be checked for what is still valid."""

    def saved(self, shard: Shard) -> None:
        """A snapshot was saved with which the next holder would begin."""

    def drop(self, number: int) -> None:
        """The shard is no longer ours."""


class Home:
    """The place where the crawl is kept. Calls may block on remote storage, so they run in threads and are retried.

    This implementation is for the agent's own directory, which the process that started the agent has opened.
    """

    def open(self, crawl: str, about: About) -> None:
        """Open the place; refuse one that belongs to another crawl."""

    def prepare(self, files: Files) -> None:
        """Prepare the work directory for this crawl; one that another crawl left is refused."""

    def close(self) -> None:
        """No further calls will follow."""

    def keeping(
        self, *, engine: Engine, about: About, machine: Machine, archive: Archive | None, held: HeldShards
    ) -> Keeping:
        return Keeping(machine.files.within("archive"))


class ShardKeeper(Keeper):
    """One shard of a cluster that we hold."""

    def __init__(
        self,
        *,
        stream: Stream,
        storage: ShardStorage,
        files: Files,
        holding: Holding,
        clock: Clock,
        segment_bytes: int,
    ) -> None:
        """`stream`: the tail. `files`: the shard's local directory, with `log/` and `snapshots/` in it."""
        self._storage = storage
        self._files = files
        self._log = files.within("log")
        self._holding = holding
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._stored: set[int] = set()
        self._tail = Tail(
            stream,
            clock,
            patience=holding.lease.seconds,
            may_go_on=lambda: holding.may_write(clock.monotonic()),
        )

    @property
    def committed(self) -> int:
        return self._tail.committed

    async def open(self) -> Restored | Fenced | Full | Unavailable:
        found: list[Piece] = []
        refused = await self._tail.claim(self._holding.epoch, found.append)
        if refused is not None:
            return refused
        restored = await look_again(
            lambda: asyncio.to_thread(self._storage.restore, self._files, found), self._clock
        )
        self._stored = set(await asyncio.to_thread(self._storage.segments))
        return restored

    async def commit(self, batch: Batch, data: bytes | None = None) -> Fenced | Unavailable | None:
        segment = segment_for(self._log, batch, self._segment_bytes)
        if data is None:
            data = await asyncio.to_thread(pack, batch)
        while True:
            if not self._may_write():
                return Fenced("the lease of the shard is over")
            answer = await self._tail.append(batch.first, data, self._holding.epoch, segment)
            if isinstance(answer, int):
                return None
            if not isinstance(answer, Full):
                return answer
            try:
                room = await self.tidy()
            except Away:
                room = 0  # shared storage is away: wait for it while the lease lasts
            if isinstance(room, Unavailable) or not room:
                await self._clock.sleep(_AGAIN)

    async def tidy(self) -> int | Unavailable:
        """Put sealed segments on storage and purge the tail; returns how many pieces were purged. `Away` is
        raised."""
        sealed = self._tail.sealed
        for first in segments(self._log):
            if first < sealed and first not in self._stored:
                await asyncio.to_thread(self._storage.put_segment, self._log, first)
                self._stored.add(first)
        return await self._tail.purge(sealed) if sealed else 0

    async def save(self, position: int, about: dict[str, int] | None = None) -> Checkpoint | Fenced:
        """Make the local snapshot at a position a checkpoint."""
        if not self._may_write():
            return Fenced("the lease of the shard is over")
        if position > self._tail.committed:
            raise ValueError(
                f"a snapshot at {position} knows more than the log, which ends at {self.committed}"
            )
        saved = await asyncio.to_thread(self._storage.save, self._files, position, self._holding.epoch, about)
        return saved or Fenced("a later holder of the shard has saved a checkpoint")

    def _may_write(self) -> bool:
        return self._holding.may_write(self._clock.monotonic())
