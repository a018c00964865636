"""What a crawl keeps on shared storage, and how a shard is restored from it.

    CRAWL/crawl.json public_suffix.dat            what never changes
    CRAWL/archive/NAME.warc.gz                    sealed archives
    CRAWL/shards/NN/log/POSITION.seg              sealed segments of the shard's log
    CRAWL/shards/NN/files/EPOCH/PART/NAME.SIZE    files that checkpoints name
    CRAWL/shards/NN/files/EPOCH/snapshots/POSITION.snap
    CRAWL/shards/NN/checkpoints/EPOCH-POSITION.json

    checkpoint := {"epoch", "position", "snapshot": stored name, "files": {local name: [stored name, size]}}

Two kinds of things are kept, with different rules.

*Sealed segments and archives* are facts. A segment may be put here once the log's tail holds a record of a later
segment (see `lycosa.cluster.tail`): its bytes are then the same for every holder, past or future, and it does not
matter who puts it, or how often.

*Checkpoints* are opinions of one holder: its snapshot with every file that the snapshot names. A checkpoint never
replaces another; the one with the highest epoch, and then the highest position, counts. So a stale holder's
checkpoint cannot win over a newer holder's, whenever it comes. A holder puts files only below its own epoch,
including those it took over, and removes only files of its own epoch and, once two checkpoints of its own exist, of
earlier ones. So a stale holder can harm nobody but itself.

A file that a snapshot names may be longer when it is copied than it was at the snapshot: such files are appended
to, and recovery cuts or skips what lies beyond. The size is part of the stored name, so a grown file is
another file.

`restore` gives a directory in which the log and the saver find what they would have found on the holder's own
disk: newest checkpoint, sealed segments, and the pieces of the tail, which become the rest of the segments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from lycosa.clock import Clock
from lycosa.cluster.storage.protocol import Missing, Storage, check_name
from lycosa.errors import StorageError
from lycosa.files import Appender, Files
from lycosa.log import blocks, snapshot
from lycosa.log.reader import segment_head, segment_name, segments

KEPT = 2
_LOOKS = 5
_AGAIN = 0.2
T = TypeVar("T")


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A holder's saved state of a shard."""

    epoch: int
    position: int
    snapshot: str
    files: dict[str, tuple[str, int]]
    about: dict[str, int] = {}
    """Further values that the holder passes to its successor (the exchange's sequence, for example)."""


class TailPiece(Protocol):
    """Blocks of the log, from the tail."""

    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def segment(self) -> int: ...
    @property
    def data(self) -> bytes: ...


class Restored(NamedTuple):
    """What `restore` made of a shard's directory."""

    end: int  # the position after the last record
    checkpoint: Checkpoint | None
    reused: int  # sealed segments that the directory already had


class TailAhead(StorageError):  # noqa: N818
    """The tail begins after the end of what is on storage: a segment was sealed and purged meanwhile. Look
    again."""


class CheckpointAhead(TailAhead):
    """A checkpoint is ahead of the log that was read before it: its holder continued meanwhile. Look again."""


class ShardStorage:
    """One shard's part of shared storage."""

    def __init__(self, storage: Storage, crawl: str, shard: int) -> None:
        self._storage = storage
        self._place = f"{crawl}/shards/{shard:02d}"

    # -- facts

    def put_segment(self, log: Files, first: int) -> None:
        """Store a sealed segment of the log; the caller knows that it is sealed."""
        _put_fact(self._storage, f"{self._place}/log/{segment_name(first)}", log, segment_name(first))

    def segments(self) -> list[int]:
        names = (name for name in self._storage.list(f"{self._place}/log") if name.endswith(".seg"))
        return sorted(int(name[:-4]) for name in names if name[:-4].isdigit())

    def segment(self, first: int) -> bytes:
        """A sealed segment, whole."""
        return self._storage.get(f"{self._place}/log/{segment_name(first)}")

    # -- opinions

    def checkpoints(self) -> list[tuple[int, int]]:
        """(epoch, position) of the checkpoints, the valid one last."""
        found = []
        for name in self._storage.list(f"{self._place}/checkpoints"):
            epoch, _, position = name.removesuffix(".json").partition("-")
            if name.endswith(".json") and epoch.isdigit() and position.isdigit():
                found.append((int(epoch), int(position)))
        return sorted(found)

    def read(self, epoch: int, position: int) -> Checkpoint | None:
        """A checkpoint; None if it is gone or damaged. `StorageError` if it names files that cannot be its own."""
        try:
            found = msgspec.json.decode(self._storage.get(self._name(epoch, position)), type=Checkpoint)
        except (Missing, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        for local in found.files:
            check_name(local, self._name(epoch, position), parts=2)
        for stored in (found.snapshot, *(stored for stored, _ in found.files.values())):
            check_name(stored, self._name(epoch, position), below=f"{self._place}/files/")
        return found

    def newest(self) -> Checkpoint | None:
        for epoch, position in reversed(self.checkpoints()):
            found = self.read(epoch, position)
            if found is not None:
                return found
        return None

    def save(
        self, files: Files, position: int, epoch: int, about: dict[str, int] | None = None
    ) -> Checkpoint | None:
        """Store the snapshot taken at `position`, and all files it names; None if a newer holder's checkpoint is
        there.

        `files` is the shard's directory. Runs in a thread.
        """
        known = self.checkpoints()
        if known and known[-1] > (epoch, position):
            return None
        found = snapshot.read(files.within("snapshots"), position)
        if found is None:
            raise StorageError(f"there is no snapshot at position {position} in {files.path('snapshots')}")
        before = self.newest()
        named: dict[str, tuple[str, int]] = {}
        for part, names in found.about.get("files", {}).items():
            for name in names:
                local = f"{part}/{name}"
                named[local] = self._put_part(files, local, epoch, before)
        stored = f"{self._place}/files/{epoch:08d}/snapshots/{position:020d}.snap"
        self._storage.put_file(stored, files, f"snapshots/{position:020d}.snap")
        checkpoint = Checkpoint(
            epoch=epoch, position=position, snapshot=stored, files=named, about=about or {}
        )
        self._storage.put(self._name(epoch, position), msgspec.json.encode(checkpoint))
        self._forget(epoch)
        return checkpoint

    def _put_part(self, files: Files, local: str, epoch: int, before: Checkpoint | None) -> tuple[str, int]:
        size = files.size(local)
        stored = f"{self._place}/files/{epoch:08d}/{local}.{size}"
        if before is not None and before.epoch == epoch and before.files.get(local) == (stored, size):
            return stored, size
        self._storage.put_file(stored, files, local, size)
        return stored, size

    def _forget(self, epoch: int) -> None:
        """Remove files that no kept checkpoint needs: all but two checkpoints of this epoch, then all earlier
        epochs."""
        known = self.checkpoints()
        own = [row for row in known if row[0] == epoch]
        kept = [found for row in own[-KEPT:] if (found := self.read(*row)) is not None]
        needed = {
            name for one in kept for name in (one.snapshot, *(stored for stored, _ in one.files.values()))
        }
        for row in own[:-KEPT]:
            old = self.read(*row)
            self._storage.remove(self._name(*row))
            if old is not None:
                for name in {old.snapshot, *(stored for stored, _ in old.files.values())} - needed:
                    self._storage.remove(name)
        if len(own) >= KEPT:
            for row in known:
                if row[0] < epoch:
                    self._storage.remove(self._name(*row))
            for name in self._storage.list(f"{self._place}/files"):
                if name.isdigit() and int(name) < epoch:
                    self._storage.remove_all(f"{self._place}/files/{name}")

    def _name(self, epoch: int, position: int) -> str:
        return f"{self._place}/checkpoints/{epoch:08d}-{position:020d}.json"

    # -- restoring a directory

    def restore(self, files: Files, tail: Iterable[TailPiece]) -> Restored:
        """Bring `files` (the shard's local directory) to the state of the committed log and the newest checkpoint.

        `tail`: what the log's tail held *before* this was called, in order: a segment is put here before it is
        purged there, so what the tail no longer held is found here. `TailAhead` if it is not (storage whose
        lists lag behind): try again.

        Sealed segments that the directory holds with the right size are kept; this relies on holders writing
        their own files only after the tail accepted the same bytes.
        """
        log = files.within("log")
        checkpoint = self._restore_checkpoint(files)
        end, reused = self.restore_segments(log)
        writer = SegmentWriter(log, end)
        try:
            for piece in tail:
                writer.write(piece)
        finally:
            writer.close()
        log.sync_dir("")
        end = writer.end
        if checkpoint is not None and checkpoint.position > end:
            raise CheckpointAhead(
                f"the checkpoint at position {checkpoint.position} of {self._place} is ahead of the log, which "
                f"ends at {end}: records are missing from the stream"
            )
        return Restored(end, checkpoint, reused)

    def _restore_checkpoint(self, files: Files) -> Checkpoint | None:
        while True:
            checkpoint = self.newest()
            for name in files.list("snapshots"):  # recovery removes files that no snapshot names, as always
                files.remove(f"snapshots/{name}")
            files.sync_dir("snapshots")
            if checkpoint is None:
                return None
            try:
                for local, (stored, _) in checkpoint.files.items():
                    self._storage.get_file(stored, files, local)
                local = f"snapshots/{checkpoint.position:020d}.snap"
                self._storage.get_file(checkpoint.snapshot, files, local)
            except Missing:
                if self.newest() == checkpoint:
                    raise
                continue  # its holder, unaware that it is stale, has replaced it meanwhile
            for directory in {local.rpartition("/")[0] for local in checkpoint.files} | {"snapshots"}:
                files.sync_dir(directory)
            return checkpoint

    def restore_segments(self, log: Files) -> tuple[int, int]:
        """Bring `log` to the sealed segments, keeping those already whole. Returns their end, and how many were
        kept."""
        reused = 0
        firsts = self.segments()
        sizes = self._storage.sizes(f"{self._place}/log")
        for first in segments(log):
            name = segment_name(first)
            if first not in firsts or log.size(name) != sizes.get(name):
                log.remove(name)
        for first in firsts:
            if first in segments(log):
                reused += 1
            else:
                name = segment_name(first)
                self._storage.get_file(f"{self._place}/log/{name}", log, name)
        log.sync_dir("")
        return (_end_of(log, firsts[-1]) if firsts else 0), reused


def _end_of(log: Files, first: int) -> int:
    """The position after the last record of a whole segment."""
    name = segment_name(first)
    size, offset, end = log.size(name), len(segment_head(first)), first
    while offset < size:
        head = blocks.head_of(log.read_at(name, offset, blocks.HEAD_BYTES))
        if head is None:
            raise StorageError(f"{log.path(name)} is damaged at byte {offset}: restore it from a copy")
        offset, end = offset + head.size, head.end
    return end


class SegmentWriter:
    """Writes what follows the sealed segments of a log; byte for byte what its holder wrote."""

    def __init__(self, log: Files, end: int) -> None:
        """`end`: the position where the existing segments end."""
        self._log = log
        self.end = end
        self._segment = -1
        self._out: Appender | None = None

    def write(self, piece: TailPiece) -> None:
        """Write the next piece of the tail; one that was sealed meanwhile, and not purged yet, is skipped."""
        if piece.end <= self.end:
            return
        if piece.first > self.end:
            raise TailAhead(
                f"the tail goes on at position {piece.first}, and {self._log.path('')} ends at {self.end}"
            )
        if piece.first < self.end:
            raise StorageError(f"the tail goes on at position {piece.first}, not {self.end}")
        if piece.segment != self._segment:
            if piece.first != piece.segment:
                raise TailAhead(f"the tail has segment {piece.segment} from {piece.first} on only")
            self.close()
            self._segment, self._out = piece.segment, self._log.create(segment_name(piece.segment))
            self._out.write(segment_head(piece.segment))
        assert self._out is not None
        self._out.write(piece.data)
        self.end = piece.end

    def flush(self) -> None:
        if self._out is not None:
            self._out.flush()

    def close(self) -> None:
        """Make the content durable, but not the names."""
        if self._out is not None:
            self._out.sync()
            self._out.close()
            self._out = None


async def look_again(look: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """Look at a shard on storage, whose lists may lag behind: several times, if the tail is ahead of it."""
    for _ in range(_LOOKS - 1):
        try:
            return await look()
        except TailAhead:
            await clock.sleep(_AGAIN)
    return await look()


# -- archives


def put_archive(storage: Storage, crawl: str, files: Files, name: str) -> None:
    """Store a sealed archive, or its index."""
    _put_fact(storage, f"{crawl}/archive/{name}", files, name)


def archives(storage: Storage, crawl: str) -> dict[str, int]:
    """Archives on shared storage and their sizes: a record that points elsewhere points at a lost page."""
    return storage.sizes(f"{crawl}/archive")


def _put_fact(storage: Storage, name: str, source: Files, local: str) -> None:
    """Store a file whose bytes are the same from every writer, unless it is there."""
    try:
        if storage.size(name) == source.size(local):
            return
    except Missing:
        pass
    storage.put_file(name, source, local)
