"""The files of the site table: entries evicted from RAM, each in a frame, in append-only files.

    file     = magic frame*                              named by its number, 8 digits
    magic    = "LySIT1\\r\\n"
    frame    = crc:u32 size:u32 length:u32 replaces:u64 name fields
    crc      = CRC-32C of everything after it
    size     = bytes after itself
    length   = bytes of the name (UTF-8)
    replaces = the place of the frame that this one replaces; 0: the name had none
    fields   = the entry, in MessagePack
    place    = number << 40 | offset                     of a frame; never 0

Frames are written to the file of the highest number; a process never appends to a file of an earlier process, so
the files that a snapshot relies on never change. An index in RAM has the place of every live frame by the hash of
its name; the name in the frame decides, so names with equal hashes do no harm.

`replaces` allows the index to be rebuilt by one sequential reading, without looking at names: a frame takes the
index entry of the frame it replaces or, if that is not there, a new one. That is right as long as the file of a
replaced frame is removed no later than that of the frame which replaced it. Hence garbage is collected from the
oldest file on, and only there: live frames at its beginning are rewritten at the end, and when all are, the file is
*retired*. A round over all files writes the live frames once and begins only when there is as much garbage, so a
frame is written twice on average. The work is done in slices of some two milliseconds, four bytes read for each
byte written, hence garbage never exceeds about 1.5 times the live data (plus a constant).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import google_crc32c
import msgspec
import numpy as np
from xxhash import xxh64_intdigest

from lycosa.crawl import site_kernels as kernels
from lycosa.crawl.site_index import Index, Words
from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.lifetimes import FileSet

MAGIC = b"LySIT1\r\n"
NONE = 0
"""Means no place."""

_HEAD = struct.Struct("<IIIQ")
_REST = struct.Struct("<IIQ")
_CRC = struct.Struct("<I")
_OFFSET = 40
_LOW = (1 << _OFFSET) - 1
_GUESS = 512
"""Bytes read for one frame; nearly all are shorter."""
FILE_BYTES = 64 << 20
BUFFER = 1 << 18
"""Bytes that may wait to be written."""
CHUNK = 1 << 20
SLICE = 1 << 15
"""Bytes examined in one step of garbage collection: some 400 frames, two milliseconds."""
EAGER = 4
FEW = 1 << 10
"""Number of garbage frames up to which collection does not pay."""


class Frame(NamedTuple):
    """A frame that was read."""

    replaces: int
    name: bytes
    fields: bytes


class Span(msgspec.Struct, array_like=True):
    """A file: its number, the number of its valid bytes, and of frames in them."""

    number: int
    stop: int
    frames: int

    @property
    def name(self) -> str:
        return f"{self.number:08d}"


def frame(replaces: int, name: bytes, fields: bytes) -> bytes:
    """The bytes of an entry's frame."""
    body = _REST.pack(12 + len(name) + len(fields), len(name), replaces) + name + fields
    return _CRC.pack(google_crc32c.value(body)) + body


def unframe(data: bytes, at: int = 0) -> tuple[Frame, int] | None:
    """The frame that begins at `at`, and where it ends; None if it is incomplete or damaged.

    Accepts any bytes.
    """
    if at + _HEAD.size > len(data):
        return None
    crc, size, length, replaces = _HEAD.unpack_from(data, at)
    end = at + 8 + size
    if size < 12 or end > len(data) or length > size - 12 or google_crc32c.value(data[at + 4 : end]) != crc:
        return None
    middle = at + _HEAD.size + length
    return Frame(replaces, data[at + _HEAD.size : middle], data[middle:end]), end


class SiteFiles:
    """Entries by name, on disk; see the module."""

    def __init__(
        self,
        files: Files,
        *,
        seed: int = 0,
        moved: Callable[[bytes, int, int], None] = lambda name, old, new: None,
    ) -> None:
        """`moved` is called with a name whose frame moved from one place to another."""
        self._files = files
        self._seed = seed
        self._moved = moved
        self._index = Index()
        self._spans: deque[Span] = deque()  # by number; all but the last are sealed
        self._by_number: dict[int, Span] = {}
        self._open = False  # whether the last may be written to
        self._buffer = bytearray()  # the end of the last, not yet written
        self._frames = 0
        self._debt = 0  # bytes to be read by the collection of garbage
        self._collected = 0  # of the first file: how far its frames were examined; 0: not begun
        self._held = FileSet(files)
        self.still = False
        """While set, nothing is moved: a snapshot is being written that contains places."""

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """Bytes of RAM."""
        return self._index.nbytes + len(self._buffer) + 200 * len(self._spans)

    @property
    def garbage(self) -> int:
        """Number of frames in the files that are no longer valid."""
        return self._frames - len(self._index)

    # -- entries

    def find(self, name: bytes) -> tuple[int, bytes] | None:
        """The place and the fields of a name."""
        for place in self._index.places(xxh64_intdigest(name, self._seed)):
            found = self._read(place)
            if found.name == name:
                return place, found.fields
        return None

    def write(self, name: bytes, fields: bytes, replaces: int) -> None:
        """Store an entry, which replaces the one at `replaces`."""
        self._append(name, fields, replaces)
        self._debt = min(self._debt + EAGER * (_HEAD.size + len(name) + len(fields)), 2 * SLICE)
        self._flush_if_full()
        self._collect()

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Name and fields of every entry, read file by file. One that is moved meanwhile may come twice."""
        number = -1
        while (span := next((s for s in self._spans if s.number > number), None)) is not None:
            number, at = span.number, len(MAGIC)
            while (
                at < span.stop and number in self._by_number
            ):  # else the file was collected: its entries come later
                data, hashes, places, _, used = self._frames_at(span, at, CHUNK)
                start = at
                at += used
                for place in places[self._index.alive(hashes, places)].tolist():
                    read = unframe(data, (place & _LOW) - start)
                    assert read is not None, "the kernel found it sound"
                    yield read[0].name, read[0].fields

    # -- snapshots

    def cut(self) -> list[Span]:
        """The files with the sizes of their valid parts, which are written, though not yet durable."""
        self._flush()
        spans = [Span(span.number, span.stop, span.frames) for span in self._spans]
        self._held.cut({span.name: span.stop for span in spans})
        return spans

    def files(self) -> list[str]:
        """The files of the last cut."""
        return self._held.names()

    def settle(self) -> None:
        """Make the files of the last cut durable; may run in a thread."""
        self._held.settle()

    def open(self, spans: list[Span]) -> None:
        """Restore the entries of a cut."""
        for span in spans:
            size = self._files.size(span.name) if self._files.exists(span.name) else 0
            if size < span.stop:
                raise StorageError(
                    f"site file {span.name} has {size} bytes, but the snapshot needs {span.stop}: "
                    "restore it, or remove the crawl's snapshots to have the log read anew"
                )
            at, frames = len(MAGIC), 0
            while at < span.stop:
                _, hashes, places, replaced, used = self._frames_at(span, at, CHUNK)
                self._index.put_all(hashes, places, replaced)
                frames += len(hashes)
                at += used
            if frames != span.frames:
                raise self._damaged(span.name, at)
            self._frames += frames
            self._add_span(span)
        self._held.thawed({span.name: span.stop for span in spans})

    def keep(self, named: Collection[str]) -> list[str]:
        """See `lycosa.lifetimes`."""
        return self._held.keep(named)

    # -- inside

    def _append(self, name: bytes, fields: bytes, replaces: int) -> int:
        """Write a frame at the end, and update the index; returns its place."""
        span = self._current()
        place = span.number << _OFFSET | span.stop
        data = frame(replaces, name, fields)
        self._buffer += data
        span.stop += len(data)
        span.frames += 1
        self._frames += 1
        hashed = xxh64_intdigest(name, self._seed)
        if not (replaces and self._index.move(hashed, replaces, place)):
            self._index.add(hashed, place)
        return place

    def _current(self) -> Span:
        if not self._open:
            there = (int(name) for name in self._files.list("") if name.isdigit())
            known = (span.number for span in self._spans)
            number = max(max(there, default=0), max(known, default=0)) + 1
            self._add_span(Span(number, len(MAGIC), 0))
            self._buffer += MAGIC
            self._open = True
        return self._spans[-1]

    def _add_span(self, span: Span) -> None:
        self._spans.append(span)
        self._by_number[span.number] = span

    def _seal(self) -> None:
        self._flush()
        self._open = False

    def _flush_if_full(self) -> None:
        # After the index is updated: if writing fails, the buffer keeps the frame, and the next call tries again.
        if self._open and self._spans[-1].stop >= FILE_BYTES:
            self._seal()
        elif len(self._buffer) > BUFFER:
            self._flush()

    def _flush(self) -> None:
        """Write the buffer to its file."""
        if not self._buffer:
            return
        span = self._spans[-1]
        written = span.stop - len(self._buffer)
        handle = self._files.append(span.name) if written else self._files.create(span.name)
        self._held.use(span.name)
        try:
            if handle.size != written:
                # An earlier write failed, and left a part of its bytes.
                self._files.truncate(span.name, written)
            handle.write(bytes(self._buffer))
        finally:
            handle.close()
        self._buffer.clear()

    def _bytes(self, span: Span, start: int, length: int) -> bytes:
        """At most so many bytes of a file, including those not yet written."""
        length = min(length, span.stop - start)
        if not self._buffer or span is not self._spans[-1]:
            return self._files.read_at(span.name, start, length)
        written = span.stop - len(self._buffer)
        before = (
            self._files.read_at(span.name, start, min(length, written - start)) if start < written else b""
        )
        after = max(start - written, 0)
        return before + bytes(self._buffer[after : after + length - len(before)])

    def _read(self, place: int) -> Frame:
        span, at = self._by_number[place >> _OFFSET], place & _LOW
        data = self._bytes(span, at, _GUESS)
        found = unframe(data)
        if found is None and len(data) == _GUESS:
            found = unframe(self._bytes(span, at, 8 + _HEAD.unpack_from(data)[1]))
        if found is None:
            raise self._damaged(span.name, at)
        return found[0]

    def _frames_at(self, span: Span, at: int, length: int) -> tuple[bytes, Words, Words, Words, int]:
        """Some bytes of a file, and for the frames in them: hashes, places, replaced places; and their bytes in
        all."""
        while True:
            data = self._bytes(span, at, length)
            room = len(data) // _HEAD.size + 1
            hashes, places, replaced = (np.empty(room, np.uint64) for _ in range(3))
            base = np.uint64(span.number << _OFFSET | at)
            view = np.frombuffer(data, np.uint8)
            count, used = kernels.scan(view, base, np.uint64(self._seed), hashes, places, replaced)
            if count:
                break
            if length >= span.stop - at:
                raise self._damaged(span.name, at)
            length *= 4  # for a frame longer than that
        return data, hashes[:count], places[:count], replaced[:count], used

    def _damaged(self, name: str, at: int) -> StorageError:
        return StorageError(
            f"site file {self._files.path(name)} is damaged at byte {at}: restore it, or remove the crawl's "
            "snapshots to have the log read anew"
        )

    # -- garbage

    def _collect(self) -> None:
        """Do the garbage collection that is due for the bytes written so far."""
        if self.still:
            return
        while self._debt >= SLICE:
            if not self._collected:
                if self.garbage <= max(len(self._index), FEW):
                    self._debt = 0
                    return
                if len(self._spans) == 1:
                    self._seal()
                self._collected = len(MAGIC)
            self._debt -= SLICE
            self._collect_slice(self._spans[0])

    def _collect_slice(self, span: Span) -> None:
        start = self._collected
        if start < span.stop:
            data, hashes, places, _, used = self._frames_at(span, start, SLICE)
            for place in places[self._index.alive(hashes, places)].tolist():
                read = unframe(data, (place & _LOW) - start)
                assert read is not None, "the kernel found it sound"
                self._moved(read[0].name, place, self._append(read[0].name, read[0].fields, place))
            self._collected += used
            self._flush_if_full()
        if self._collected >= span.stop:
            self._spans.popleft()
            del self._by_number[span.number]
            self._frames -= span.frames
            self._held.drop(span.name)
            self._collected = 0
