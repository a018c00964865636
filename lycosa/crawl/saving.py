"""Saving: commits and snapshots of the shards of one agent, and their recovery.

Commit. Records appended since the last commit become durable: the archive's bytes before the records that point at
them, then the *ledger*, then our own disk. A shard that the ledger refuses is another agent's by now; nothing more
of it is written. (On one machine the disk is the ledger.) Then the exchange delivers links: only those that are
durable.

Snapshot. All parts of all shards are frozen at one instant; their pieces are written between other work; then
everything up to that instant is committed, the parts' files are made durable, and each shard's snapshot is
sealed. So a snapshot never knows more than its log.

Recovery. The newest whole snapshot is thawed, and the log's tail is replayed. If anything knows of more records of
a log than it holds (see `wholeness`), the crawl is refused before anything is appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from lycosa.archive.writer import Archive
from lycosa.clock import Clock
from lycosa.crawl.admission import ANSWERS
from lycosa.crawl.config import SnapshotOptions
from lycosa.crawl.delivery import Exchange
from lycosa.crawl.pulse import Pulse, nap
from lycosa.crawl.replay import replay
from lycosa.crawl.shard import Shard
from lycosa.crawl.shard_set import ShardSet
from lycosa.crawl.snapshots import Snapshots, missing_files, snapshot_claims
from lycosa.crawl.wholeness import Known, MissingLog, cursor_claims, highest, missing, refuse
from lycosa.files import Files
from lycosa.log.log import Batch, pack
from lycosa.log.snapshot import SnapshotWriter

_STEP = 8
"""Maximum number of pieces written before the event loop runs again."""
_SLICE = 0.005
"""Seconds after which the next piece waits for the event loop to run."""


class Ledger(Protocol):
    """Commits the logs of an agent's shards before they are written to its own disk."""

    async def commit(self, shard: Shard, batch: Batch, packed: bytes) -> bool:
        """True: the batch is committed. False: the shard is no longer ours."""
        ...


class OwnDisk:
    """The ledger of an agent whose shards nobody else can have: data on its disk is committed."""

    async def commit(self, shard: Shard, batch: Batch, packed: bytes) -> bool:
        return True


class Saver:
    """Commits, saves and recovers an agent's shards."""

    def __init__(
        self,
        *,
        files: Files,
        shards: ShardSet,
        archive: Archive | None,
        store: str,
        clock: Clock,
        exchange: Exchange,
        ledger: Ledger,
        levelling: asyncio.Lock,
        wanted: SnapshotOptions | None,
    ) -> None:
        """`levelling` excludes freezing frontiers. `wanted`: when a snapshot is due; None: others decide that."""
        self._files = files
        self._shards = shards
        self._archive = archive
        self._clock = clock
        self._exchange = exchange
        self._ledger = ledger
        self._levelling = levelling
        self._wanted = wanted
        self._snapshots = Snapshots(files, store)
        self._committing = asyncio.Lock()
        self._last = clock.monotonic()

    # -- commit

    async def run(
        self, seconds: float, ending: asyncio.Event, pulse: Pulse, after: Callable[[], None]
    ) -> None:
        """Commit every `seconds`, and take snapshots when they are due, until the end; call `after` after each."""
        try:
            while not ending.is_set():
                await nap(self._clock, seconds, ending)
                await self.commit()
                after()
                pulse.wake()
                if self._is_due():
                    await self.snapshot()
        except Exception as error:
            pulse.fail(error)

    async def commit(self, only: Shard | None = None) -> None:
        """Make everything appended so far durable, and deliver the links that may be sent then."""
        async with self._committing:
            batches: list[tuple[Shard, Batch]] = []
            for shard in self._shards if only is None else [only]:
                batch = None if self._shards.is_lost(shard) else shard.log.cut()
                if batch is not None:
                    batches.append((shard, batch))
            if batches:
                await self._enter(batches)
            if only is None:
                await self._exchange.deliver()

    async def _enter(self, batches: list[tuple[Shard, Batch]]) -> None:
        packed = await asyncio.to_thread(self._pack, batches)
        entered = await asyncio.gather(
            *(
                self._ledger.commit(shard, batch, data)
                for (shard, batch), data in zip(batches, packed, strict=True)
            )
        )
        taken = []
        for (shard, batch), data, ours in zip(batches, packed, entered, strict=True):
            if not ours:
                self._shards.lose(shard)
            elif not self._shards.is_lost(shard):
                taken.append((shard, batch, data))
        await asyncio.to_thread(self._put, taken)
        for shard, batch, _ in taken:
            shard.log.confirm(batch)

    def _pack(self, batches: list[tuple[Shard, Batch]]) -> list[bytes]:
        if self._archive is not None:
            self._archive.sync()
        return [pack(batch) for _, batch in batches]

    @staticmethod
    def _put(taken: list[tuple[Shard, Batch, bytes]]) -> None:
        for shard, batch, data in taken:
            shard.log.put(batch, data)

    # -- snapshot

    def covered(self, number: int) -> int:
        """The position of a shard's last snapshot; 0: it has none."""
        return self._snapshots.covered(number)

    def _is_due(self) -> bool:
        if self._wanted is None:
            return False
        records = sum(shard.log.end - self.covered(shard.number) for shard in self._shards)
        since = self._clock.monotonic() - self._last
        return records >= self._wanted.records or (since >= self._wanted.seconds and records > 0)

    async def snapshot(self, only: Shard | None = None) -> None:
        """Write the state of every shard that moved since its last snapshot; or of one, which was removed."""
        async with self._levelling:  # a part can be frozen once at a time, and not while it is levelled
            self._last = self._clock.monotonic()
            await self._snapshot(self._shards if only is None else [only], only)

    async def _snapshot(self, shards: Sequence[Shard], only: Shard | None) -> None:
        for shard in shards:  # freezing puts answered URLs into the frontier: there must not be many
            more = True
            while more:
                more = shard.admission.put_answered(ANSWERS)
                await asyncio.sleep(0)
        frozen = [made for shard in shards if (made := self._snapshots.freeze(shard)) is not None]
        writers: list[SnapshotWriter] = []
        try:
            for each in frozen:
                writers.append(self._snapshots.writer(each))
                await self._write_pieces(writers[-1], each.parts)
            await self.commit(only)
            for writer, each in zip(writers, frozen, strict=True):
                if self._shards.is_lost(each.shard):
                    writer.abandon()
                    continue
                await asyncio.to_thread(self._snapshots.seal, writer, each, self._ends())
                self._snapshots.keep(each)
        except BaseException:
            for writer in writers:
                writer.abandon()
            raise

    async def _write_pieces(self, writer: SnapshotWriter, parts: dict[str, Iterator[bytes]]) -> None:
        since, began = 0, self._clock.monotonic()
        for name, pieces in parts.items():
            for piece in pieces:
                writer.add(name, piece)
                since += 1
                if since >= _STEP or self._clock.monotonic() - began >= _SLICE:
                    await asyncio.sleep(0)
                    since, began = 0, self._clock.monotonic()

    def forget(self, shard: Shard) -> None:
        """The shard was saved alone and is closed."""
        self._snapshots.forget(shard.number)

    async def settle_lost(self, shard: Shard) -> None:
        """Wait until nothing that is under way uses a lost shard."""
        async with self._levelling, self._committing:
            self._shards.settle(shard)
            self.forget(shard)

    # -- recovery

    def recover(self, told: Callable[[str], None] | None = None) -> None:
        """Bring every shard to the end of its log."""
        replayed = 0
        spoken = self._clock.monotonic()
        self._demand_snapshots(self._shards)
        # All are thawed before any is replayed: replaying one marks contents in the indexes of others.
        starts = [self._snapshots.thaw(shard) for shard in self._shards]
        for row, shard in enumerate(self._shards):
            replayed += replay(shard, starts[row])
            if told is not None and self._clock.monotonic() - spoken > 2.0:
                spoken = self._clock.monotonic()
                told(f"recovering: shard {row + 1} of {len(self._shards)}, {replayed:,} records replayed")
        claims = [
            claim
            for shard in self._shards
            for claim in cursor_claims(shard.number, shard.cursors, shard.answers)
        ]
        refuse(self._files.path(""), missing(self._ends(), claims))

    def recover_one(self, shard: Shard) -> None:
        """Bring a shard that is not yet this agent's to the end of its log. May run in a thread."""
        self._demand_snapshots([shard])
        replay(shard, self._snapshots.thaw(shard))

    def _demand_snapshots(self, shards: Sequence[Shard]) -> None:
        """Refuse logs that lack records which the shards' snapshots know of."""
        ends = {shard.number: shard.log.committed for shard in shards}
        troubles: list[MissingLog | str] = []
        claims: list[Known] = []
        for number in ends:
            place = self._snapshots.place(number)
            claims += snapshot_claims(place, number)
            troubles += missing_files(place, number)
        refuse(self._files.path(""), [*missing(ends, claims), *troubles])

    def _ends(self) -> dict[int, int]:
        """Where the log of each shard ends."""
        return {shard.number: shard.log.committed for shard in self._shards}

    def archive_ends(self) -> dict[str, int]:
        """For each archive file that the logs of these shards point into: the end of the last exchange."""
        return highest(shard.archive_ends for shard in self._shards)
