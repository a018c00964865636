"""Saving: commits, snapshots and recovery of the shards of one agent.

Commit. What was appended since the last one becomes durable, the archive's bytes before the records that
point at them. Then links for other shards are delivered: only what is durable travels.

Snapshot. All parts of all shards are frozen at one instant; their pieces are written between other work; then
everything up to that instant is committed, the parts' files are made durable, and each shard's snapshot is
sealed. So a snapshot never knows more than its log. A file goes once neither of the last two snapshots of its
shard names it.

Recovery. The newest whole snapshot is thawed, files that no kept snapshot names are deleted, and the log's
tail is replayed. The archive is cut to what the logs know of it. If anything knows more of a log than it holds
(see `wholeness`), the crawl is refused before anything is appended.

With several agents a batch is entered in a `ledger` before it is written here: archive, ledger, our own disk, in
this order. A shard that the ledger refuses is another agent's by now; nothing of it is written any more.

The shards of an agent may change while it runs: `add` and `remove` say which they are, each is recovered and
saved by itself as well as with the others.

    running     a file that is there while a process crawls: found at the start, the last stop was unclean
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from lycosa.archive.writer import Archive
from lycosa.clock import Clock, milliseconds
from lycosa.crawl.exchange import Exchange, delivering
from lycosa.crawl.manifest import shard_directory
from lycosa.crawl.replay import catch_up, replay
from lycosa.crawl.shard import Shard
from lycosa.crawl.wholeness import Known, Missing, cursor_claims, missing, refuse
from lycosa.files import Files, write_whole
from lycosa.lifetimes import remove_unnamed
from lycosa.log import snapshot
from lycosa.log.log import Batch, pack
from lycosa.log.reader import segment_name, segments
from lycosa.log.snapshot import SnapshotWriter
from lycosa.records import Fetched, Lost

RUNNING = "running"
_STEP = 8
_RECORDS = 64
"""Pieces, and records that are delivered, between two breaths; and"""
_SLICE = 0.005
"""seconds, after which the next of them waits."""


class Ledger(Protocol):
    """Where the logs of an agent's shards are committed before its own disk has them."""

    async def commit(self, shard: Shard, batch: Batch, packed: bytes) -> bool:
        """True: it is log. False: the shard is no longer ours."""
        ...


class Saver:
    """Commits and snapshots of an agent's shards."""

    def __init__(
        self,
        *,
        files: Files,
        shards: Sequence[Shard],
        archive: Archive | None,
        store: str,
        clock: Clock,
        exchange: Exchange | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """With a `ledger` the exchange carries all links between shards, also those within this agent."""
        self._ledger = ledger
        self._lost: set[Shard] = set()
        self._files = files
        self.shards: list[Shard] = list(shards)
        """The agent's shards, by number."""
        self._archive = archive
        self._store = store
        self._clock = clock
        self._exchange = exchange
        self._behind: dict[int, int] = {}
        """By sender: what its log has for others before this position is delivered before anything else is."""
        self._committing = asyncio.Lock()
        self._snapshotting = asyncio.Lock()
        self._named: dict[int, list[tuple[int, dict[str, list[str]]]]] = {}
        """For each shard, its kept snapshots: position and the files they name."""
        self.snapshots = 0

    def add(self, shard: Shard) -> None:
        """A shard, recovered, is one of this agent's from now on."""
        self.shards.append(shard)
        self.shards.sort(key=lambda each: each.number)

    def remove(self, shard: Shard) -> None:
        """Nothing is delivered to the shard any more; it is to be saved once more, alone."""
        if shard in self.shards:
            self.shards.remove(shard)

    def forget(self, shard: Shard) -> None:
        """The shard was saved alone and is closed."""
        self._named.pop(shard.number, None)

    def lose(self, shard: Shard) -> None:
        """The shard is another agent's: nothing of it is written any more."""
        self._lost.add(shard)
        if shard in self.shards:
            self.shards.remove(shard)

    async def settle_lost(self, shard: Shard) -> None:
        """Until nothing that is under way touches a lost shard."""
        async with self._snapshotting, self._committing:
            self._lost.discard(shard)
            self.forget(shard)

    def covered(self, number: int) -> int:
        """The position of a shard's last snapshot; 0: it has none."""
        return self._covered(number)

    def find(self, number: int) -> Shard | None:
        """The shard of a number, if it is one of this agent's."""
        if len(self.shards) > number and self.shards[number].number == number:
            return self.shards[number]  # the agent has all, or the first few
        return next((shard for shard in self.shards if shard.number == number), None)

    def _place(self, number: int) -> Files:
        return self._files.within(shard_directory(number))

    # -- commit

    async def commit(self, only: Shard | None = None) -> None:
        """Make everything appended so far durable, and deliver what thereby may travel."""
        async with self._committing:
            batches: list[tuple[Shard, Batch]] = []
            for shard in self.shards if only is None else [only]:
                batch = None if shard in self._lost else shard.log.cut()
                if batch is not None:
                    batches.append((shard, batch))
            if batches:
                if self._ledger is None:
                    await asyncio.to_thread(self._write, batches)
                else:
                    batches = await self._enter(self._ledger, batches)
                for shard, batch in batches:
                    shard.log.confirm(batch)
            if only is None:
                if self._ledger is None:
                    await self._deliver()
                if self._exchange is not None:
                    self._exchange.deliver()

    async def _deliver(self) -> None:
        """What the commit made durable travels between the agent's shards, with breaths of the loop in between."""
        at = milliseconds(self._clock)
        while (number := next(iter(self._behind), None)) is not None:
            stop, sender = self._behind[number], self.find(number)
            if sender is not None:
                await catch_up(sender, [each for each in self.shards if each is not sender], stop, at)
            if self._behind.get(number) == stop:
                del self._behind[number]
        since, began = 0, self._clock.monotonic()
        for _ in delivering(self.shards, at):
            since += 1
            if since >= _RECORDS or self._clock.monotonic() - began >= _SLICE:
                await asyncio.sleep(0)
                since, began = 0, self._clock.monotonic()

    async def _enter(self, ledger: Ledger, batches: list[tuple[Shard, Batch]]) -> list[tuple[Shard, Batch]]:
        """Commit batches elsewhere, then here; those that were taken."""
        packed = await asyncio.to_thread(self._pack, batches)
        entered = await asyncio.gather(
            *(ledger.commit(shard, batch, data) for (shard, batch), data in zip(batches, packed, strict=True))
        )
        taken = []
        for (shard, batch), data, ours in zip(batches, packed, entered, strict=True):
            if not ours:
                self.lose(shard)
            elif shard not in self._lost:
                taken.append((shard, batch, data))
        await asyncio.to_thread(self._put, taken)
        return [(shard, batch) for shard, batch, _ in taken]

    def _pack(self, batches: list[tuple[Shard, Batch]]) -> list[bytes]:
        if self._archive is not None:
            self._archive.sync()
        return [pack(batch) for _, batch in batches]

    @staticmethod
    def _put(taken: list[tuple[Shard, Batch, bytes]]) -> None:
        for shard, batch, data in taken:
            shard.log.put(batch, data)

    def _write(self, batches: list[tuple[Shard, Batch]]) -> None:
        if self._archive is not None:
            self._archive.sync()
        for shard, batch in batches:
            shard.log.write(batch)

    @property
    def records(self) -> int:
        """Records that no snapshot covers yet."""
        return sum(shard.log.end - self._covered(shard.number) for shard in self.shards)

    def _covered(self, number: int) -> int:
        named = self._named.get(number)
        return named[-1][0] if named else 0

    # -- snapshot

    async def snapshot(self, only: Shard | None = None) -> None:
        """Write the state of every shard that moved since its last snapshot; or of one, which was removed."""
        async with self._snapshotting:  # a part can be frozen once at a time
            await self._snapshot(self.shards if only is None else [only], only)

    async def _snapshot(self, shards: Sequence[Shard], only: Shard | None) -> None:
        frozen: list[tuple[Shard, int, dict[str, Iterator[bytes]], dict[str, list[str]]]] = []
        for shard in shards:
            named = self._named.get(shard.number)
            if named and named[-1][0] == shard.log.end:
                continue
            parts = {name: part.freeze() for name, part in shard.parts.items()}
            names = {name: part.files() for name, part in shard.filed.items()}
            frozen.append((shard, shard.log.end, parts, names))
        writers: list[SnapshotWriter] = []
        try:
            for shard, position, parts, _ in frozen:
                writer = SnapshotWriter(self._place(shard.number).within("snapshots"), position)
                writers.append(writer)
                await self._write_pieces(writer, parts)
            await self.commit(only)
            for writer, (shard, position, _, names) in zip(writers, frozen, strict=True):
                if shard in self._lost:
                    writer.abandon()
                    continue
                await asyncio.to_thread(self._seal, writer, shard, names)
                self._forget(shard, position, names)
        except BaseException:
            for writer in writers:
                writer.abandon()
            raise
        self.snapshots += 1

    async def _write_pieces(self, writer: SnapshotWriter, parts: dict[str, Iterator[bytes]]) -> None:
        since, began = 0, self._clock.monotonic()
        for name, pieces in parts.items():
            for piece in pieces:
                writer.add(name, piece)
                since += 1
                if since >= _STEP or self._clock.monotonic() - began >= _SLICE:
                    await asyncio.sleep(0)
                    since, began = 0, self._clock.monotonic()

    def _seal(self, writer: SnapshotWriter, shard: Shard, names: dict[str, list[str]]) -> None:
        for part in shard.filed.values():
            part.settle()
        log = self._place(shard.number).within("log")
        sealed = [(first, log.size(segment_name(first))) for first in segments(log)[:-1]]
        logs = {each.number: each.log.committed for each in self.shards}
        writer.seal({"files": names, "store": self._store, "segments": sealed, "logs": logs})

    def _forget(self, shard: Shard, position: int, names: dict[str, list[str]]) -> None:
        """Say which files the last two snapshots name: the others may go."""
        named = self._named.setdefault(shard.number, [])
        named.append((position, names))
        del named[: -snapshot.KEPT]
        for name, part in shard.filed.items():
            part.keep(names_in(named, name))

    # -- recovery

    def recover(self, told: Callable[[str], None] | None = None) -> int:
        """Bring every shard to the end of its log; returns how many records were replayed."""
        replayed = 0
        spoken = self._clock.monotonic()
        self._demand_snapshots(self.shards)
        # All are thawed before any is replayed: replaying one marks contents in the indexes of others.
        starts = [self._thaw(shard) for shard in self.shards]
        for row, shard in enumerate(self.shards):
            replayed += replay(shard, starts[row])
            if told is not None and self._clock.monotonic() - spoken > 2.0:
                spoken = self._clock.monotonic()
                told(f"recovering: shard {row + 1} of {len(self.shards)}, {replayed:,} records replayed")
        claims = [
            claim
            for shard in self.shards
            for claim in cursor_claims(shard.number, shard.cursors, shard.answers)
        ]
        if self._ledger is None:
            refuse(self._files.path(""), missing(self.ends(), claims))
        return replayed

    def ends(self) -> dict[int, int]:
        """Where the log of each shard ends."""
        return {shard.number: shard.log.committed for shard in self.shards}

    def _demand_snapshots(self, shards: Sequence[Shard]) -> None:
        """Refuse logs that do not hold what the shards' snapshots know of them."""
        if self._ledger is not None:
            return  # whoever restored the shard has compared the two
        ends = {shard.number: shard.log.committed for shard in shards}
        troubles: list[Missing | str] = []
        claims: list[Known] = []
        for number in ends:
            claims += snapshot_claims(self._place(number), number)
            troubles += missing_files(self._place(number), number)
        refuse(self._files.path(""), [*missing(ends, claims), *troubles])

    def recover_one(self, shard: Shard) -> None:
        """Bring a shard that is not yet this agent's to the end of its log. May run in a thread."""
        self._demand_snapshots([shard])
        replay(shard, self._thaw(shard))

    def archive_ends(self) -> dict[str, int]:
        """Of each archive file that the logs of these shards point into: the end of the last exchange."""
        ends: dict[str, int] = {}
        for shard in self.shards:
            for name, end in shard.archive_ends.items():
                ends[name] = max(end, ends.get(name, 0))
        return ends

    def recover_archive(self, ends: Mapping[str, int]) -> None:
        """Cut the archive to what the logs of all shards know of it; before anything is stored."""
        if self._archive is not None:
            self._archive.recover(ends)

    @property
    def is_behind(self) -> bool:
        """Whether logs are to be read for what was on its way between shards."""
        return bool(self._behind)

    def catch_up(self, running: bool = False) -> None:
        """With the next commit deliver what was on its way between shards when the last process stopped, or when
        shards changed. `running`: what was found since the last commit is in the outboxes, and stays there."""
        if self._ledger is not None:
            return  # whatever is on its way is the exchange's business
        for shard in self.shards:
            shard.outbox.clear(shard.log.committed if running else None)
            if shard.log.committed:
                self._behind[shard.number] = shard.log.committed

    def _thaw(self, shard: Shard) -> int:
        number = shard.number
        files = self._place(number)
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
        for name in shard.filed:
            remove_unnamed(files.within(name), names_in(kept, name))
        self._named[number] = kept
        if found is None:
            return 0
        for name, part_state in shard.parts.items():
            if name in found.pieces or name != "revisits":  # of which older snapshots know nothing
                part_state.thaw(found.pieces.get(name, []))
        if "pages" not in found.pieces:  # it is older than the page table
            for at, record in shard.log.reader.scan(0, found.position):
                if isinstance(record, Fetched | Lost):
                    shard.note_page(record, at)
        for name, part in shard.filed.items():
            part.keep(names_in(kept, name))
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


def names_in(snapshots: Sequence[tuple[int, dict[str, list[str]]]], part: str) -> set[str]:
    """The files of a part that some snapshots name."""
    return {name for _, names in snapshots for name in names.get(part, [])}


def snapshot_claims(files: Files, number: int) -> list[Known]:
    """How far logs came, as the snapshots of a shard know it."""
    places = files.within("snapshots")
    claims = [Known(number, position, "its snapshot") for position in snapshot.positions(places)]
    for position in snapshot.positions(places):
        said = snapshot.about(places, position) or {}
        by = f"the snapshot of shard {number:02d}"
        claims += [
            Known(int(shard), end, by) for shard, end in said.get("logs", {}).items() if int(shard) != number
        ]
    return claims


def missing_files(files: Files, number: int) -> list[str]:
    """What the newest snapshot of a shard names and is not there: sealed segments, files of the parts."""
    places = files.within("snapshots")
    positions = snapshot.positions(places)
    said = snapshot.about(places, positions[-1]) if positions else None
    if said is None:
        return []  # a snapshot that is damaged is passed over: the log tells all
    troubles = []
    log = files.within("log")
    for first, size in said.get("segments", []):
        there = log.size(segment_name(first)) if log.exists(segment_name(first)) else 0
        if there < size:
            what = "is missing" if not there else f"is cut to {there:,} of {size:,} bytes"
            troubles.append(f"the segment {segment_name(first)} of shard {number:02d} {what}")
    for part, names in said.get("files", {}).items():
        gone = set(names) - set(files.list(part))
        if gone:
            troubles.append(f"{part}/{min(gone)} of shard {number:02d} is missing")
    return troubles
