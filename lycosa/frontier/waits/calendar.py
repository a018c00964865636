"""The calendar: deferred entries by due time, on disk until that time is near.

Entries are `Deferred` records: URLs to retry, sites whose robots.txt could not be had, sites over budget,
revisits. Each waits in the file of the *bucket* its due time falls into; only the current bucket, the entries
not yet written and a few numbers per file are in RAM.

Buckets. With one width, a retry in a minute and a revisit in a year would make either wide buckets or
fifty thousand files. So there are three wheels, each with buckets `SPOKES` times as wide as the one before
(600 s, 10.7 h, 28 days by default). An entry goes to the finest wheel on which its bucket is fewer than
`SPOKES` ahead. When a coarse bucket's time comes its entries are dealt out to finer ones, as in a
hierarchical timing wheel.

    file  = frame*                              named <wheel>-<bucket>
    frame = size crc seq record                 little-endian u32, u32, u64
    size  = bytes of seq and record
    crc   = CRC-32 of seq and record
    seq   = the number of the `add` that brought the entry

Files are append-only, and nothing is appended once reading has begun. A snapshot names each file with the span of
it that counts, and holds the entries in RAM; so recovery sees exactly the committed prefix and cuts off what lies
beyond; entries added again by the replay are appended there. `due` reads a file in slices, a few milliseconds at a
time, and the snapshot records how far it has come.

Guarantees:

- an entry that was added comes out of `due` exactly once, at a time no earlier than its due time, unless
  it was withdrawn after it was added;
- a recovered calendar holds what it held at the freeze;
- no file is removed that a snapshot may name (`lycosa.lifetimes`).

Withdrawing is for replay. If the log says that a URL was fetched, but the snapshot's calendar still holds it,
it must not come out. Finding it in a file would mean reading all files for each URL: so names are gathered,
and `settle_withdrawn` reads the files once, and keeps the seqs to drop. Entries added after the withdrawal
stay.

    snapshot = head, frame*          the frames of entries in RAM, some to a piece
"""

from __future__ import annotations

import heapq
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.lifetimes import FileSet
from lycosa.records import Deferred

VERSION = 1
SPOKES = 64
WHEELS = 3
SLICE = 1 << 18
"""Bytes read per step: some 2,000 entries, a few milliseconds."""
PIECE = 1 << 19

_FRAME = struct.Struct("<II")
_SEQ = struct.Struct("<Q")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Deferred).decode


class Entry(NamedTuple):
    """An entry in RAM: the due time first, so that heaps compare it; `frame` is its frame."""

    due: int
    seq: int
    frame: bytes


class _Span(msgspec.Struct, array_like=True):
    """The part of a file that counts: bytes from `start` to `stop`, and what they hold."""

    start: int
    stop: int
    entries: int
    first: int  # no entry is due before this


class _Head(msgspec.Struct, array_like=True):
    version: int
    bucket_ms: int
    reached: int
    next_seq: int
    spans: dict[str, _Span]
    dropped: list[int]
    withdrawn: dict[str, int]


def frame(seq: int, deferred: Deferred) -> bytes:
    """The bytes of an entry."""
    body = _SEQ.pack(seq) + _encode(deferred)
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def unframe(data: bytes | memoryview) -> tuple[list[tuple[int, Deferred, bytes]], int]:
    """(seq, record, frame) of the frames at the beginning of `data`, and how many bytes they take.

    Takes any bytes and never raises: it stops at the first frame that is incomplete or not sound.
    """
    rows: list[tuple[int, Deferred, bytes]] = []
    view = memoryview(data)
    at = 0
    while at + _FRAME.size <= len(view):
        size, crc = _FRAME.unpack_from(view, at)
        stop = at + _FRAME.size + size
        if size < _SEQ.size or stop > len(view):
            break
        body = view[at + _FRAME.size : stop]
        if zlib.crc32(body) != crc:
            break
        try:
            record = _decode(body[_SEQ.size :])
        except msgspec.MsgspecError:
            break
        rows.append((_SEQ.unpack_from(body)[0], record, bytes(view[at:stop])))
        at = stop
    return rows, at


class Calendar:
    """The deferred entries; see the module's docstring. Due times are milliseconds since the epoch."""

    def __init__(self, files: Files, bucket: float = 600.0, buffer: int = 1 << 20) -> None:
        """Buckets of `bucket` seconds; at most about `buffer` bytes of entries wait to be written."""
        if bucket * 1000 < 1:
            raise ValueError("a bucket is at least a millisecond wide")
        self._files = files
        self._held = FileSet(files)
        self._bucket_ms = int(bucket * 1000)
        self._buffer_limit = buffer
        self._reached = 0  # everything due before this is in `_near`
        self._near: list[Entry] = []  # heap
        self._near_bytes = 0
        self._spans: dict[str, _Span] = {}  # every file that still counts, written or about to be
        self._buffers: dict[str, list[Entry]] = {}
        self._buffered = 0
        self._starts: list[tuple[int, int, str]] = []  # heap: when the time of each bucket comes
        self._reading = False  # whether the first of them is being read
        self._len = 0
        self._next_seq = 0
        self._dropped: set[int] = set()
        self._withdrawn: dict[str, int] = {}  # name -> entries of smaller seq are dropped

    # -- in and out

    def add(self, deferred: Deferred) -> None:
        """Keep an entry until it is due."""
        seq = self._next_seq
        self._next_seq += 1
        self._len += 1
        self._place(Entry(deferred.due, seq, frame(seq, deferred)))
        if self._buffered > self._buffer_limit:
            self._flush()

    def due(self, now_ms: int, at_most: int = 1000) -> list[Deferred]:
        """At most `at_most` due entries, soonest first.

        The work of a call is bounded, so there may be more: then `next_due` is not after `now_ms`.
        """
        self._advance(now_ms)
        out: list[Deferred] = []
        while self._near and self._near[0].due <= now_ms and len(out) < at_most:
            entry = heapq.heappop(self._near)
            self._near_bytes -= len(entry.frame)
            deferred = _decode(memoryview(entry.frame)[_FRAME.size + _SEQ.size :])
            if not self._is_dropped(entry.seq, deferred):
                self._len -= 1
                out.append(deferred)
        return out

    def next_due(self) -> int | None:
        """No entry is due before this time; None if there is no entry."""
        times = [span.first for span in self._spans.values()]
        if self._near:
            times.append(self._near[0].due)
        return min(times, default=None)

    def __len__(self) -> int:
        """Entries that will come out (those withdrawn but not settled are still counted)."""
        return self._len

    @property
    def nbytes(self) -> int:
        """Bytes of RAM held, the overhead of objects included."""
        held = self._near_bytes + self._buffered + 200 * len(self._near)
        held += 200 * sum(len(buffer) for buffer in self._buffers.values())
        return held + 400 * len(self._spans) + 100 * len(self._dropped) + 200 * len(self._withdrawn)

    # -- replay

    def withdraw(self, name: str) -> None:
        """Drop the present entries of a URL (or site): they do not come out."""
        self._withdrawn[name] = self._next_seq

    def settle_withdrawn(self) -> None:
        """End the replay: find the withdrawn entries, forget the names. Reads every file once."""
        if not self._withdrawn:
            return
        for entry in self._in_ram():
            self._drop_if_withdrawn(entry.seq, _decode(entry.frame[_FRAME.size + _SEQ.size :]))
        for name, span in self._spans.items():
            at = span.start
            while at < span.stop:
                rows, at = self._read(name, at, span.stop)
                for seq, deferred, _ in rows:
                    self._drop_if_withdrawn(seq, deferred)
        self._withdrawn.clear()

    # -- snapshots

    def freeze(self) -> Iterator[bytes]:
        """The snapshot. No file is written here: entries not yet written are part of the snapshot."""
        spans = {
            name: _Span(span.start, span.stop, span.entries - len(self._buffers.get(name, ())), span.first)
            for name, span in self._spans.items()
            if span.stop > span.start
        }
        head = _Head(
            VERSION,
            self._bucket_ms,
            self._reached,
            self._next_seq,
            spans,
            sorted(self._dropped),
            dict(self._withdrawn),
        )
        self._held.cut({name: span.stop for name, span in spans.items()})
        ram = list(self._in_ram())  # references only: entries never change
        return _pieces(head, ram)

    def files(self) -> list[str]:
        return self._held.names()

    def settle(self) -> None:
        self._held.settle()

    def thaw(self, pieces: Iterable[bytes]) -> None:
        iterator = iter(pieces)
        try:
            head = _decode_head(next(iterator))
        except (StopIteration, msgspec.MsgspecError) as error:
            raise StorageError(f"the snapshot's calendar is not readable: {error}") from None
        if head.version != VERSION:
            raise StorageError(f"the snapshot's calendar has version {head.version}, not {VERSION}")
        # The files have buckets of this width; another width takes effect in a new crawl only.
        self._bucket_ms = head.bucket_ms
        self._reached, self._next_seq = head.reached, head.next_seq
        self._dropped, self._withdrawn = set(head.dropped), dict(head.withdrawn)
        for name, span in head.spans.items():
            size = self._files.size(name) if self._files.exists(name) else 0
            if size < span.stop:
                raise StorageError(
                    f"calendar file {name} has {size} bytes, but the snapshot needs {span.stop}: "
                    "restore it, or start the crawl in another directory"
                )
            if size > span.stop:
                self._files.truncate(name, span.stop)
            self._span(name, span)
        self._held.thawed({name: span.stop for name, span in head.spans.items()})
        for piece in iterator:
            rows, stop = unframe(piece)
            if stop != len(piece):
                raise StorageError("the snapshot's calendar is damaged: go back to the one before")
            for seq, deferred, data in rows:
                self._place(Entry(deferred.due, seq, data))
        self._len = len(self._near) + sum(span.entries for span in self._spans.values())
        self._len -= len(self._dropped)

    def keep(self, named: Collection[str]) -> list[str]:
        return self._held.keep(named)

    # -- buckets

    def _place(self, entry: Entry) -> None:
        """Put an entry where it belongs at this time: in RAM, or in the buffer of a bucket."""
        if entry.due < self._reached:
            heapq.heappush(self._near, entry)
            self._near_bytes += len(entry.frame)
            return
        name = self._bucket_of(entry.due)
        span = self._spans.get(name)
        if span is None:
            span = self._span(name, _Span(0, 0, 0, entry.due))
        span.entries += 1
        span.first = min(span.first, entry.due)
        self._buffers.setdefault(name, []).append(entry)
        self._buffered += len(entry.frame)

    def _bucket_of(self, due: int) -> str:
        width = self._bucket_ms
        for wheel in range(WHEELS):
            if wheel == WHEELS - 1 or due // width - self._reached // width < SPOKES:
                break
            width *= SPOKES
        return f"{wheel}-{due // width}"

    def _span(self, name: str, span: _Span) -> _Span:
        """Have a new file, written or about to be."""
        self._spans[name] = span
        wheel, number = map(int, name.split("-"))
        # Of two whose time comes at once the coarser is first: it is dealt out to the finer.
        heapq.heappush(self._starts, (number * self._bucket_ms * SPOKES**wheel, -wheel, name))
        return span

    def _advance(self, now_ms: int) -> None:
        """Bring buckets whose time has come into RAM, about `SLICE` bytes of them."""
        budget = SLICE
        while budget > 0 and self._starts and self._starts[0][0] <= now_ms:
            start, minus_wheel, name = self._starts[0]
            span = self._spans[name]
            if not self._reading:
                # From here on nothing is added to this bucket: what is due in it goes to RAM, or to a
                # finer wheel.
                self._reading = True
                self._reached = max(self._reached, start + (0 if minus_wheel else self._bucket_ms))
                for entry in self._take_buffer(name):
                    budget -= len(entry.frame)
                    span.entries -= 1
                    self._place(entry)
            if span.start < span.stop:
                rows, at = self._read(name, span.start, span.stop)
                budget -= at - span.start
                span.start = at
                span.entries -= len(rows)
                for seq, deferred, data in rows:
                    if not self._is_dropped(seq, deferred):
                        self._place(Entry(deferred.due, seq, data))
            if span.start >= span.stop:
                # Finer buckets made meanwhile start no earlier and come after: it is still the first.
                heapq.heappop(self._starts)
                del self._spans[name]
                self._reading = False
                if span.stop:
                    self._held.drop(name)
        else:
            if budget > 0:  # all buckets up to that of `now_ms` are in RAM
                this = now_ms - now_ms % self._bucket_ms
                self._reached = max(self._reached, this + self._bucket_ms)
        if self._buffered > self._buffer_limit:
            self._flush()

    def _read(self, name: str, start: int, stop: int) -> tuple[list[tuple[int, Deferred, bytes]], int]:
        """Some rows of a file from `start` on, at least one, and where the next is."""
        length = min(SLICE, stop - start)
        while True:
            rows, used = unframe(self._files.read_at(name, start, length))
            if rows:
                return rows, start + used
            if length >= stop - start:
                raise StorageError(
                    f"calendar file {name} is damaged at byte {start}: what waits there cannot be read; "
                    "go back to the snapshot before, or remove the crawl's calendar"
                )
            length = min(length * 4, stop - start)

    def _flush(self) -> None:
        """Write every buffer to its file."""
        for name in list(self._buffers):
            span = self._spans[name]
            handle = self._files.append(name) if span.stop else self._files.create(name)
            self._held.use(name)
            try:
                if handle.size != span.stop:
                    # An earlier write failed half way.
                    self._files.truncate(name, span.stop)
                data = b"".join(entry.frame for entry in self._buffers[name])
                handle.write(data)
            finally:
                handle.close()
            span.stop += len(data)
            self._take_buffer(name)

    def _take_buffer(self, name: str) -> list[Entry]:
        entries = self._buffers.pop(name, [])
        self._buffered -= sum(len(entry.frame) for entry in entries)
        return entries

    def _in_ram(self) -> Iterator[Entry]:
        yield from self._near
        for buffer in self._buffers.values():
            yield from buffer

    # -- withdrawals

    def _drop_if_withdrawn(self, seq: int, deferred: Deferred) -> None:
        if seq < self._withdrawn.get(deferred.url or deferred.site, 0) and seq not in self._dropped:
            self._dropped.add(seq)
            self._len -= 1

    def _is_dropped(self, seq: int, deferred: Deferred) -> bool:
        """Whether an entry that is about to come out was withdrawn; if so, forgets the withdrawal."""
        if seq in self._dropped:
            self._dropped.remove(seq)
            return True
        if seq < self._withdrawn.get(deferred.url or deferred.site, 0):
            self._len -= 1
            return True
        return False


def _pieces(head: _Head, entries: list[Entry]) -> Iterator[bytes]:
    yield msgspec.msgpack.encode(head)
    piece: list[bytes] = []
    size = 0
    for entry in entries:
        piece.append(entry.frame)
        size += len(entry.frame)
        if size >= PIECE:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


# Made at import: msgspec crashes where two threads are the first to decode a struct, as when shards recover.
_decode_head = msgspec.msgpack.Decoder(_Head).decode
