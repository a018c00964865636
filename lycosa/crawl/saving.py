"""Saving: commits, snapshots and recovery of the shards of one agent.

Commit. What was appended since the last one becomes durable, the archive's bytes before the records that
point at them. Then links for other shards are delivered: only what is durable travels.

Snapshot. All parts of all shards are frozen at one instant; their pieces are written between other work; then
everything up to that instant is committed, the parts' files are made durable, and each shard's snapshot is
sealed. So a snapshot never knows more than its log. A file goes once neither of the last two snapshots of its
shard names it.

Recovery. The newest whole snapshot is thawed, files that no kept snapshot names are deleted, and the log's
tail is replayed. The archive is cut to what the logs know of it.

    running     a file that is there while a process crawls: found at the start, the last stop was unclean
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from lycosa.archive.writer import Archive
from lycosa.clock import Clock, milliseconds
from lycosa.crawl.exchange import catch_up, deliver
from lycosa.crawl.replay import refill_outbox, replay
from lycosa.crawl.shard import Shard
from lycosa.files import Files, write_whole
from lycosa.log import snapshot
from lycosa.log.log import Batch
from lycosa.log.snapshot import SnapshotWriter

RUNNING = "running"
_OWN_FILES = ("seen", "content", "calendar", "left", "sites")
_STEP = 8
"""Pieces between two breaths: a piece takes at most a few milliseconds."""


class Saver:
    """Commits and snapshots of an agent's shards."""

    def __init__(
        self,
        *,
        files: Files,
        shard_files: Sequence[Files],
        shards: Sequence[Shard],
        archive: Archive | None,
        store: str,
        clock: Clock,
    ) -> None:
        self._files = files
        self._shard_files = shard_files
        self._shards = shards
        self._archive = archive
        self._store = store
        self._clock = clock
        self._committing = asyncio.Lock()
        self._named: list[list[tuple[int, dict[str, list[str]]]]] = [[] for _ in shards]
        """For each shard, its kept snapshots: position and the files they name."""
        self.commits = 0
        self.snapshots = 0

    # -- commit

    async def commit(self) -> None:
        """Make everything appended so far durable, and deliver what thereby may travel."""
        async with self._committing:
            batches: list[tuple[Shard, Batch]] = []
            for shard in self._shards:
                batch = shard.log.cut()
                if batch is not None:
                    batches.append((shard, batch))
            if batches:
                await asyncio.to_thread(self._write, batches)
                for shard, batch in batches:
                    shard.log.confirm(batch)
                self.commits += 1
            deliver(self._shards, milliseconds(self._clock))

    def _write(self, batches: list[tuple[Shard, Batch]]) -> None:
        if self._archive is not None:
            self._archive.sync()
        for shard, batch in batches:
            shard.log.write(batch)

    @property
    def records(self) -> int:
        """Records that no snapshot covers yet."""
        return sum(
            shard.log.end - (named[-1][0] if named else 0)
            for shard, named in zip(self._shards, self._named, strict=True)
        )

    # -- snapshot

    async def snapshot(self) -> None:
        """Write the state of every shard that moved since its last snapshot."""
        frozen: list[tuple[int, int, dict[str, Iterator[bytes]], dict[str, list[str]]]] = []
        for number, shard in enumerate(self._shards):
            named = self._named[number]
            if named and named[-1][0] == shard.log.end:
                continue
            parts = {name: part.freeze() for name, part in shard.parts.items()}
            names = {name: shard.parts[name].files() for name in _OWN_FILES}
            frozen.append((number, shard.log.end, parts, names))
        writers: list[SnapshotWriter] = []
        try:
            for number, position, parts, _ in frozen:
                writer = SnapshotWriter(self._shard_files[number].within("snapshots"), position)
                writers.append(writer)
                await self._write_pieces(writer, parts)
            await self.commit()
            for writer, (number, position, _, names) in zip(writers, frozen, strict=True):
                await asyncio.to_thread(self._seal, writer, number, names)
                self._forget(number, position, names)
        except BaseException:
            for writer in writers:
                writer.abandon()
            raise
        self.snapshots += 1

    @staticmethod
    async def _write_pieces(writer: SnapshotWriter, parts: dict[str, Iterator[bytes]]) -> None:
        since = 0
        for name, pieces in parts.items():
            for piece in pieces:
                writer.add(name, piece)
                since += 1
                if since >= _STEP:
                    await asyncio.sleep(0)
                    since = 0

    def _seal(self, writer: SnapshotWriter, number: int, names: dict[str, list[str]]) -> None:
        for name in _OWN_FILES:
            self._shards[number].parts[name].settle()
        writer.seal({"files": names, "store": self._store})

    def _forget(self, number: int, position: int, names: dict[str, list[str]]) -> None:
        """Remove the files that only snapshots older than the last two named."""
        named = self._named[number]
        named.append((position, names))
        for _, old in named[: -snapshot.KEPT]:
            for part in _OWN_FILES:
                kept = {name for _, new in named[-snapshot.KEPT :] for name in new.get(part, [])}
                gone = set(old.get(part, [])) - kept
                for name in gone:
                    self._shard_files[number].remove(f"{part}/{name}")
        del named[: -snapshot.KEPT]
        kept = {name for _, new in named for name in new.get("calendar", [])}
        self._shards[number].calendar.forget(kept)

    # -- recovery

    def recover(self, told: Callable[[str], None] | None = None) -> int:
        """Bring every shard to the end of its log; returns how many records were replayed."""
        replayed = 0
        spoken = self._clock.monotonic()
        # All are thawed before any is replayed: replaying one marks contents in the indexes of others.
        starts = [self._thaw(number, shard) for number, shard in enumerate(self._shards)]
        for number, shard in enumerate(self._shards):
            replayed += replay(shard, starts[number])
            if told is not None and self._clock.monotonic() - spoken > 2.0:
                spoken = self._clock.monotonic()
                told(f"recovering: shard {number + 1} of {len(self._shards)}, {replayed:,} records replayed")
        if self._archive is not None:
            ends: dict[str, int] = {}
            for shard in self._shards:
                for name, end in shard.archive_ends.items():
                    ends[name] = max(end, ends.get(name, 0))
            self._archive.recover(ends)
        return replayed

    def catch_up(self) -> None:
        """Deliver what was on its way between shards when the last process stopped."""
        catch_up(self._shards, refill_outbox, milliseconds(self._clock))

    def _thaw(self, number: int, shard: Shard) -> int:
        files = self._shard_files[number]
        places = files.within("snapshots")
        found = snapshot.newest(places)
        if found is not None and found.about.get("store") != self._store:
            # Another uniqueness store than before: it is a fold like any other, so the log is read anew.
            snapshot.remove_all(places)
            found = None
        kept: list[tuple[int, dict[str, list[str]]]] = []
        for position in snapshot.positions(places):
            read = snapshot.read(places, position) if found and position != found.position else found
            if read is not None and found is not None and position <= found.position:
                kept.append((position, read.about.get("files", {})))
        for part in _OWN_FILES:
            named = {name for _, names in kept for name in names.get(part, [])}
            for name in files.list(part):
                if name not in named:
                    files.remove(f"{part}/{name}")
        self._named[number] = kept
        if found is None:
            return 0
        for name, part_state in shard.parts.items():
            part_state.thaw(found.pieces.get(name, []))
        return found.position

    # -- clean and unclean stops

    def begin_running(self) -> bool:
        """Note that a process crawls; True if the last one did not stop cleanly."""
        unclean = self._files.exists(RUNNING)
        if not unclean:
            write_whole(self._files, RUNNING, b"")
        return unclean

    def end_running(self) -> None:
        """The stop is clean: the snapshot is sealed and nothing was asked since."""
        self._files.remove(RUNNING)
        self._files.sync_dir("")
