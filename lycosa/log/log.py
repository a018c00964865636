"""Writing a log: append, cut a batch, write it, confirm it.

Records are appended in memory and get their position at once; a *commit* makes them durable. It has three
steps, so that the slow one can run in a thread while the crawl goes on appending:

    batch = log.cut()       on the loop: everything appended since the last cut
    log.write(batch)        in a thread: compress, write, sync (and rotate); consists of `pack` and `put`, for
                            callers who must store the packed bytes elsewhere first
    log.confirm(batch)      on the loop: `committed` moves to the batch's end

One batch at a time. Unconfirmed records may or may not survive a crash, but those that do form a prefix: recovery
cuts a torn tail at a block's edge, and blocks of one commit are written in order. (On a disk that reorders
unsynced writes, a later block of the torn commit may be whole behind a torn one: it is cut too.)

Rotation: when a segment has reached its size, the next commit starts a new one, whose head and whose name
in the directory are made durable before its first record.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from lycosa.errors import StorageError
from lycosa.files import Appender, Files
from lycosa.log import blocks
from lycosa.log.reader import (
    KEPT_BLOCKS,
    SEGMENT_HEAD,
    Block,
    LogReader,
    gaps,
    over_gaps,
    segment_head,
    segment_name,
    segments,
    walk,
)
from lycosa.records import Record, decode, encode

BLOCK_BYTES = 1 << 18
"""A block is closed when its records reach this size: a random read unpacks a whole block."""


SEGMENT_BYTES = 64 << 20


class Batch(NamedTuple):
    """The records that one commit writes."""

    number: int
    first: int
    records: list[bytes]

    @property
    def end(self) -> int:
        return self.first + len(self.records)


def pack(batch: Batch) -> bytes:
    """The blocks of a batch, as they are stored in a segment. Runs in a thread."""
    out: list[bytes] = []
    first, group, size = batch.first, list[bytes](), 0
    for record in batch.records:
        group.append(record)
        size += len(record)
        if size >= BLOCK_BYTES:
            out.append(blocks.pack(batch.number, first, group))
            first, group, size = first + len(group), [], 0
    if group:
        out.append(blocks.pack(batch.number, first, group))
    return b"".join(out)


class Log:
    """The log of one shard, open for appending. Opening it recovers it: a torn tail is cut."""

    def __init__(
        self, files: Files, segment_bytes: int = SEGMENT_BYTES, kept_blocks: int = KEPT_BLOCKS
    ) -> None:
        self._files = files
        self._segment_bytes = segment_bytes
        self._reader = LogReader(files, kept_blocks)
        self._fetcher = LogReader(files)
        self._fetching = threading.Lock()
        self._buffer: list[bytes] = []
        self._cut: Batch | None = None
        self._out: Appender | None = None
        self.torn = 0
        """Bytes of torn tail that opening the log cut off."""
        self._gaps = gaps(files)
        self.committed, self._batch = self._recover()
        self._end = self.committed

    @property
    def end(self) -> int:
        """The position that the next record will get."""
        return self._end

    def append(self, record: Record) -> int:
        """Append a record; returns its position. Durable only after the next commit."""
        self._buffer.append(encode(record))
        self._end += 1
        return self._end - 1

    def cut(self) -> Batch | None:
        """Everything appended since the last cut; None if there is nothing."""
        if self._cut is not None:
            raise RuntimeError("a batch is already under way")
        if not self._buffer:
            return None
        self._batch += 1
        records, self._buffer = self._buffer, []
        self._cut = Batch(self._batch, self._end - len(records), records)
        return self._cut

    def write(self, batch: Batch) -> None:
        """Make a batch durable. Runs in a thread; touches no state that `append` uses."""
        self.put(batch, pack(batch))

    def put(self, batch: Batch, packed: bytes) -> None:
        """Make durable a batch that is already packed."""
        out = self._out
        if out is not None and out.size >= self._segment_bytes:
            out.close()
            out = self._out = None
        if out is None:
            out = self._out = self._new_segment(batch.first)
        out.write(packed)
        out.sync()

    def confirm(self, batch: Batch) -> None:
        """The batch is durable."""
        self._cut = None
        self.committed = batch.end

    def commit(self) -> None:
        """All three steps at once, for callers that may block."""
        batch = self.cut()
        if batch is not None:
            self.write(batch)
            self.confirm(batch)

    @property
    def reader(self) -> LogReader:
        """A reader of what is committed."""
        return self._reader

    def read(self, position: int) -> Record:
        """The record at a position, committed or not."""
        if position < self.committed:
            return self._reader.read(position)
        return decode(self.read_encoded(position))

    def read_encoded(self, position: int) -> bytes | memoryview:
        """The record at a position, committed or not, as it is stored."""
        if position < self.committed:
            return self._reader.read_encoded(position)
        first = self._end - len(self._buffer)
        if position >= first:
            return self._buffer[position - first]
        assert self._cut is not None
        return self._cut.records[position - self._cut.first]

    def holds(self, position: int) -> bool:
        """Whether `read` finds the record in memory. If not, call `fetch` in a thread, then `keep` on the loop."""
        return position >= self.committed or self._reader.holds(position)

    def fetch(self, position: int) -> Block:
        """The block that `keep` takes, to have the record at a position in memory. May run in threads."""
        with self._fetching:
            return self._fetcher.block_of(position)

    def keep(self, block: Block) -> None:
        """Hold a block in memory for a while."""
        self._reader.keep(block)

    def is_doubtful(self, position: int) -> bool:
        """Whether records before this one may be missing that the log had before it was repaired (see `Gap`)."""
        return any(gap.end <= position < gap.until for gap in self._gaps.values())

    def close(self) -> None:
        if self._out is not None:
            self._out.close()
            self._out = None

    def _new_segment(self, first: int) -> Appender:
        out = self._files.create(segment_name(first))
        out.write(segment_head(first))
        out.sync()
        self._files.sync_dir("")
        return out

    def _recover(self) -> tuple[int, int]:
        """Cut the torn tail; returns the end of the log and the number of its last commit."""
        firsts = segments(self._files)
        while firsts:
            first = firsts[-1]
            name = segment_name(first)
            size = self._files.size(name)
            if size < SEGMENT_HEAD or self._files.read_at(name, 0, SEGMENT_HEAD) != segment_head(first):
                if size > SEGMENT_HEAD:
                    raise StorageError(
                        f"{self._files.path(name)} is not a log segment: remove it or restore it from a copy"
                    )
                self.torn += size
                self._files.remove(name)  # its head never became durable, so it never held a record
                firsts.pop()
                continue
            offset, end, batch = SEGMENT_HEAD, first, 0
            for at, _ in walk(self._files, first):
                offset, end, batch = at.end, at.head.end, at.head.batch
            if offset < size:
                self.torn += size - offset
                self._files.truncate(name, offset)
            if batch == 0 and len(firsts) > 1:
                batch = self._last_batch(firsts[-2], first)
            if (beyond := over_gaps(end, self._gaps)) == end:
                self._out = self._files.append(name)
            return beyond, batch
        return over_gaps(0, self._gaps), 0

    def _last_batch(self, first: int, following: int) -> int:
        batch, end = 0, first
        for at, _ in walk(self._files, first):
            batch, end = at.head.batch, at.head.end
        if over_gaps(end, self._gaps) != following:
            raise StorageError(
                f"log segment {self._files.path(segment_name(first))} is cut short: "
                f"restore it from a copy, or see what lycosa repair can do; nothing was changed"
            )
        return batch
