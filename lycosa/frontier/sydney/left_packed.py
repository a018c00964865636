"""Left-behind entries in append-only files; in RAM 50 bytes per queue, and a bounded number of entries.

New entries wait in RAM, in the *tails* of their queues, at most `tails` in all. When there are more, all tails
are written at once, each as a block (or some, of 1,024 entries at most) that points at the queue's block before:
a *chain*, of which only the newest block's address is kept. A chain leads from the newest to the oldest, but
the oldest entry is wanted first. So when a queue comes to its chain, the chain is walked back once and its entries
are copied, in order, to a *run*, which is read from front to back. An entry is written twice at most; one that is
popped before its tail is written, never.

    file     = (block | run)*                                      `left_segments.py` has names and addresses
    block    = queue:u64 before:u64 back:u64 count:u32 check:u32 entry x count        little-endian
    run      = entry*
    entry    = position:u64 cursor:u32 check:u32

`check` of a block is the CRC-32C of the fields before it, that of an entry the CRC-32C of the queue's number
and of the fields before it: each entry is checked by itself, wherever reading begins, and one that belongs to
another queue is detected.

A chain may have any length, and the event loop must not wait for it. So it is cut into *stretches*
of 64 blocks, and one stretch at a time, the oldest, becomes a run: at most 65,536 entries. `before` is the address
of the queue's block before, `back` that of the last block of the stretch before the block's own; by these the
oldest stretch is found in one read for every 64 blocks. A stretch of one block is not copied: the run is where its
entries are. Addresses beyond the chain that counts (`blocks` blocks) mean nothing.

    snapshot = head row-piece* tail-piece*
    head     = [version, rows, tails, entries, next, end, [[base, size, wanted]*]]              MessagePack
    row      = queue:u64 chain:u64 anchor:u64 run:u64 left:u32 count:u32 blocks:u32      (`left_store.SAVED`)
    tail     = queue:u64 position:u64 cursor:u32                                         (`left_store.TAIL`)

Rows are in the order of the round, OTHERS first; `next` is the number of the one that comes next. The tails of
one queue are in the order of their queue. A freeze copies rows and tails and writes no file.

Guarantees: those of `left_behind.LeftBehind`; a failed write leaves the store as it was, and the next one goes
to another file; an entry whose check does not hold is never given out.

Deliberate limit: a file is removed with its last entry, so a queue that is never popped may keep files that are
mostly used up. That costs disk space, not RAM.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import google_crc32c
import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.frontier.checking import checked
from lycosa.frontier.sydney import left_checking
from lycosa.frontier.sydney import left_kernels as kernels
from lycosa.frontier.sydney import left_store as store
from lycosa.frontier.sydney.left_behind import Entry
from lycosa.frontier.sydney.left_segments import LAST, Segment, Segments
from lycosa.frontier.sydney.left_store import BLOCK, SAVED, STRETCH, TAIL

VERSION = 1
ROWS_OF_PIECE = 5000
TAILS_OF_PIECE = 12_000
GUESS = 16
"""Entries that are read together with the head of a block: most blocks have few."""

_HEAD = struct.Struct("<QQQII")
_ENTRY = struct.Struct("<QII")
_QUEUE = struct.Struct("<Q")
_DAMAGED = "what the snapshot left behind is damaged: remove it, so that the one before is used"


class Head(msgspec.Struct, array_like=True):
    """The first piece of a snapshot."""

    version: int
    rows: int
    tails: int
    entries: int
    next: int
    end: int
    segments: list[Segment]


@checked(
    lambda left: left._s.fields.queues + left._s.fields.top, "push", "pop", "next_queue", "clear", "thaw"
)
class PackedLeftBehind:
    """The store that crawls use; see the module's docstring."""

    def __init__(self, files: Files, *, tails: int = 1 << 14, segment_bytes: int = 4 << 20) -> None:
        """At most `tails` entries wait in RAM to be written; a new file is begun after `segment_bytes`."""
        if tails < 1 or segment_bytes < 1:
            raise ValueError("tails and segment_bytes are at least 1")
        self._tails = tails
        self._s = store.new_store(tails)
        self._segments = Segments(files, segment_bytes)

    # -- in and out

    def push(self, queue: int, entry: Entry) -> None:
        self._push(queue, entry)

    def _push(self, queue: int, entry: Entry) -> None:
        position, cursor = entry
        if not (0 <= position < 1 << 63 and 0 <= cursor < 1 << 32):
            raise ValueError(f"{entry} is out of range")
        number = np.uint64(queue)
        while status := kernels.push(self._s, number, position, cursor):
            if status == kernels.SPILL:
                self._spill()
            else:
                store.make_room(self._s)

    def pop(self, queue: int) -> Entry | None:
        number = np.uint64(queue)
        while True:
            what, a, b = kernels.pop(self._s, number)
            if what == kernels.NOTHING:
                return None
            if what == kernels.CHAIN:
                self._run_of_stretch(queue, a, b)
                continue
            if what == kernels.RUN:
                address, row = a, b
                a, b = self._entry(queue, address)
                trim = kernels.advance(self._s, row)
                self._segments.release(address, 1)
            else:
                trim = what == kernels.GOT_TRIM
            if trim:
                store.trim(self._s)
            return Entry(a, b)

    def count(self, queue: int) -> int:
        return int(kernels.count(self._s, np.uint64(queue)))

    def next_queue(self) -> int | None:
        return kernels.next_queue(self._s) or None

    def entries(self) -> Iterator[tuple[int, Entry]]:
        rows, tails = self._rows_now(), self._tails_now()
        for queue, position, cursor in tails.tolist():
            yield queue, Entry(position, cursor)
        for row in rows[rows["count"] > 0]:
            queue, chain, _, run, left, _, blocks = _saved(row).tolist()
            pieces = []
            if left:
                data = self._segments.read(run, left * _ENTRY.size)
                pieces.append(self._entries(queue, run, data, left))
            for _ in range(blocks):
                _, chain, _, entries = self._block(queue, chain)
                pieces.append(entries)
            for piece in pieces:
                for position, cursor, _ in _ENTRY.iter_unpack(piece):
                    yield queue, Entry(position, cursor)

    def clear(self) -> None:
        self._s = store.new_store(self._tails)
        self._segments.clear()

    def check(self) -> None:
        """Raise `BrokenError` if an invariant (`left_checking.py`) does not hold; reads all of RAM."""
        left_checking.check(self._s, self._segments)

    def __len__(self) -> int:
        return self._s.fields.entries

    @property
    def nbytes(self) -> int:
        """Bytes of RAM held (without those of a freeze under way, another 46 per queue)."""
        return sum(array.nbytes for array in self._s) + self._segments.nbytes

    # -- files

    def _spill(self) -> None:
        """Write every tail."""
        entries = self._s.fields.pooled
        out = np.empty(entries * (store.HEAD_WORDS + store.ENTRY_WORDS), np.uint32)
        base = self._segments.end
        words = kernels.spill(self._s, out, base, False)
        self._segments.append(out[:words].tobytes(), entries)
        kernels.spill(self._s, out, base, True)

    def _run_of_stretch(self, queue: int, row: int, blocks: int) -> None:
        """Make a run of the oldest stretch of a queue's chain of `blocks` blocks."""
        address, anchor = kernels.newest(self._s, row)
        stretches = (blocks - 1) // STRETCH
        if stretches:
            address = anchor
            for _ in range(stretches - 1):
                address = self._head(queue, address, self._segments.read(address, _HEAD.size))[2]
        found: list[tuple[int, int]] = []
        parts: list[bytes] = []
        size = STRETCH if stretches else blocks
        for _ in range(size):
            count, before, _, entries = self._block(queue, address)
            found.append((address, count))
            parts.append(entries)
            address = before
        total = sum(count for _, count in found)
        if size == 1:
            kernels.set_run(self._s, row, found[0][0] + _HEAD.size, total, 1)
            return
        data = b"".join(reversed(parts))
        kernels.set_run(self._s, row, self._segments.append(data, total), total, size)
        for address, count in found:
            self._segments.release(address, count)

    def _head(self, queue: int, address: int, data: bytes) -> tuple[int, int, int]:
        """Count, before and back of the block that the data begins with."""
        if len(data) >= _HEAD.size:
            found, before, back, count, check = _HEAD.unpack_from(data)
            sound = google_crc32c.value(data[: _HEAD.size - 4]) == check
            if found == queue and 0 < count <= BLOCK and sound:
                return count, before, back
        raise self._segments.damage(address, "there is no sound block of the queue")

    def _block(self, queue: int, address: int) -> tuple[int, int, int, bytes]:
        """Count, before and back of a block, and its entries, checked."""
        data = self._segments.read(address, _HEAD.size + GUESS * _ENTRY.size)
        count, before, back = self._head(queue, address, data)
        entries = data[_HEAD.size : _HEAD.size + count * _ENTRY.size]
        if len(entries) < count * _ENTRY.size:
            entries = self._segments.read(address + _HEAD.size, count * _ENTRY.size)
        return count, before, back, self._entries(queue, address, entries, count)

    def _entries(self, queue: int, address: int, data: bytes, count: int) -> bytes:
        """The data, checked to be `count` sound entries of the queue."""
        short = len(data) != count * _ENTRY.size
        if short or kernels.unsound(np.frombuffer(data, "<u4"), np.uint64(queue)) >= 0:
            raise self._segments.damage(address, "an entry's checksum does not match")
        return data

    def _entry(self, queue: int, address: int) -> tuple[int, int]:
        page, at = self._segments.page(address)
        position, cursor, check = _ENTRY.unpack_from(page, at)
        crc = google_crc32c.value(_QUEUE.pack(queue))
        if google_crc32c.extend(crc, page[at : at + _ENTRY.size - 4]) != check:
            raise self._segments.damage(address, "an entry's checksum does not match")
        return position, cursor

    # -- snapshots

    def freeze(self) -> Iterator[bytes]:
        rows, tails = self._rows_now(), self._tails_now()
        segments = self._segments.freeze()
        head = Head(
            VERSION, len(rows), len(tails), len(self), self._s.fields.next_row, self._segments.end, segments
        )
        return _pieces(head, rows, tails)

    def files(self) -> list[str]:
        return self._segments.files()

    def settle(self) -> None:
        self._segments.settle()

    def keep(self, named: Collection[str]) -> list[str]:
        return self._segments.keep(named)

    def thaw(self, pieces: Iterable[bytes]) -> None:
        iterator = iter(pieces)
        first = next(iterator, None)
        if first is None:
            return
        try:
            head = _decode_head(first)
        except msgspec.MsgspecError as error:
            raise StorageError(f"what the snapshot left behind is not readable: {error}") from None
        if head.version != VERSION:
            raise StorageError(f"what the snapshot left behind has version {head.version}, not {VERSION}")
        self._segments.thaw(head.segments, head.end)
        s = self._s
        read = 0
        while read < head.rows:
            part = _parsed(next(iterator, b""), SAVED)
            read += len(part)
            store.make_room(s, len(part))
            addresses = np.maximum(np.maximum(part["chain"], part["anchor"]), part["run"])
            chained = part["count"].astype(np.int64) - part["left"]
            sound = (chained >= part["blocks"]) & ((chained > 0) == (part["blocks"] > 0)) & (addresses < LAST)
            if not sound.all() or not kernels.load(s, part):
                raise StorageError(_DAMAGED)
        if read != head.rows or read != s.fields.queues or not 1 <= head.next <= read:
            raise StorageError(_DAMAGED)
        s.fields.next_row = head.next
        wanted = sum(segment.wanted for segment in head.segments)
        if wanted != s.fields.entries:
            raise StorageError(_DAMAGED)
        for piece in iterator:
            for queue, position, cursor in _parsed(piece, TAIL).tolist():
                if position < 0:
                    raise StorageError(_DAMAGED)
                self._push(queue, Entry(position, cursor))
        empty = bool((s.rows["count"][1:read] == 0).any())
        if empty or read != s.fields.queues or not len(self) == head.entries == wanted + head.tails:
            raise StorageError(_DAMAGED)

    def _rows_now(self) -> NDArray[Any]:
        """A copy of the rows, their counts without the tails."""
        s = self._s
        rows: NDArray[Any] = s.rows[: s.fields.queues].copy()
        last = s.pool[: s.fields.top]
        last = last[last["size"] > 0]
        rows["count"][last["row"]] -= last["size"].astype(np.uint32)
        return rows

    def _tails_now(self) -> NDArray[Any]:
        out = np.empty(self._s.fields.pooled, TAIL)
        kernels.tails(self._s, out)
        return out


def _saved(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows as a snapshot has them."""
    out = np.empty(rows.shape, SAVED)
    for name in ("queue", "left", "count", "blocks"):
        out[name] = rows[name]
    for name in ("chain", "anchor", "run"):
        out[name] = rows[name] | rows[name + "_top"].astype(np.uint64) << np.uint64(32)
    return out


def _parsed(piece: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    if not piece or len(piece) % dtype.itemsize:
        raise StorageError(_DAMAGED)
    return np.frombuffer(piece, dtype)


def _pieces(head: Head, rows: NDArray[Any], tails: NDArray[Any]) -> Iterator[bytes]:
    yield msgspec.msgpack.encode(head)
    for at in range(0, len(rows), ROWS_OF_PIECE):
        yield _saved(rows[at : at + ROWS_OF_PIECE]).tobytes()
    for at in range(0, len(tails), TAILS_OF_PIECE):
        yield tails[at : at + TAILS_OF_PIECE].tobytes()


# Made at import: msgspec crashes where two threads are the first to decode a struct, as when shards recover.
_decode_head = msgspec.msgpack.Decoder(Head).decode
