"""Segments: the append-only files of the store of left-behind entries, as one space of addresses.

An *address* is where a byte would be if all segments ever written were one file. A segment is named by the
address of its first byte, in hexadecimal (`left-00000001c340`), and ends where the next begins. Addresses only
grow, and none is written twice: after a crash, no address leads to bytes that were appended after the snapshot,
and a thawed store begins a new segment. Every write is a multiple of 16 bytes long, so that an entry never lies
across two pages.

Each segment knows how many of its entries are still wanted. When none is, it is removed as soon as no snapshot
needs it (`lycosa.lifetimes`).

A few of the pages that were read last are cached, for all queues together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable

import msgspec

from lycosa.errors import LocalError, StorageError
from lycosa.files import Bytes, Files
from lycosa.frontier.checking import demand
from lycosa.lifetimes import FileSet

PAGE = 4096
PAGES = 16
"""Pages kept: 64 KiB."""
LAST = 1 << 48
"""Addresses are below this."""

_SENSELESS = (
    "the snapshot's list of left-behind files makes no sense: remove it, so that the one before is used"
)


class Segment(msgspec.Struct, array_like=True):
    """A file: its first address, the bytes of it that count, and the entries still wanted."""

    base: int
    size: int
    wanted: int

    @property
    def name(self) -> str:
        return f"left-{self.base:012x}"


class Segments:
    """The files; see the module's docstring."""

    def __init__(self, files: Files, segment_bytes: int) -> None:
        self._files = files
        self._most = segment_bytes
        self._segments: dict[int, Segment] = {}
        self._bases: list[int] = []  # the keys, ascending
        self._open: Segment | None = None  # the one that is appended to
        self._held = FileSet(files)
        self._pages: dict[tuple[int, int], bytes] = {}  # the longest unused first
        self.end = 0
        """The address of the next byte appended."""

    # -- writing

    def append(self, data: Bytes, entries: int) -> int:
        """Write some bytes, which hold so many entries, into one file; the address of the first of them."""
        if self.end + len(data) > LAST:
            raise LocalError("too much was left behind: the addresses of its files are used up")
        segment, self._open = self._open, None
        if segment is not None and segment.size >= self._most:
            if not segment.wanted:
                self._drop(segment)
            segment = None
        # If this fails the file may end with a part of the data: it is closed, so that the next address is in a
        # new file.
        if segment is None:
            segment = Segment(self.end, 0, 0)
            out = self._files.create(segment.name)
            self._held.use(segment.name)
        else:
            out = self._files.append(segment.name)
        try:
            out.write(data)
        finally:
            out.close()
        if not segment.size:
            self._segments[segment.base] = segment
            self._bases.append(segment.base)
        self._open = segment
        segment.size += len(data)
        segment.wanted += entries
        address = self.end
        self.end += len(data)
        return address

    def release(self, address: int, entries: int) -> None:
        """Note that `entries` entries at an address are no longer wanted."""
        segment = self._at(address)
        segment.wanted -= entries
        if not segment.wanted and segment is not self._open:
            self._drop(segment)

    def _drop(self, segment: Segment) -> None:
        del self._segments[segment.base]
        self._bases.remove(segment.base)
        self._held.drop(segment.name)

    def clear(self) -> None:
        """Drop all segments."""
        self._open = None
        self._pages.clear()
        for segment in list(self._segments.values()):
            self._drop(segment)

    # -- reading

    def read(self, address: int, length: int) -> bytes:
        """At most `length` bytes from an address on, as far as its segment goes."""
        segment = self._at(address)
        offset = address - segment.base
        length = min(length, segment.size - offset)
        data = self._files.read_at(segment.name, offset, length)
        if len(data) < length:
            raise self._short(segment)
        return data

    def page(self, address: int) -> tuple[bytes, int]:
        """The page of an address, and where in it the address is; it has at least 16 bytes from there."""
        segment = self._at(address)
        number, at = divmod(address - segment.base, PAGE)
        key = (segment.base, number)
        data = self._pages.pop(key, b"")
        if len(data) < at + 16:  # not cached, or the file has grown since it was read
            data = self._files.read_at(segment.name, number * PAGE, PAGE)
            if len(data) < at + 16:
                raise self._short(segment)
            if len(self._pages) >= PAGES:
                del self._pages[next(iter(self._pages))]
        self._pages[key] = data
        return data, at

    def damage(self, address: int, what: str) -> StorageError:
        """The error to raise when the bytes at an address are not what they should be."""
        segment = self._at(address)
        return StorageError(
            f"{self._files.path(segment.name)} is damaged at byte {address - segment.base}: {what}; restore it, "
            "or remove the shard's snapshots, so that its log is read anew"
        )

    def _at(self, address: int) -> Segment:
        index = bisect_right(self._bases, address) - 1
        segment = self._segments[self._bases[index]] if index >= 0 else None
        if segment is None or address >= segment.base + segment.size:
            raise StorageError(
                f"no file of what was left behind has the address {address}: remove the shard's snapshots, so that "
                "its log is read anew"
            )
        return segment

    def _short(self, segment: Segment) -> StorageError:
        there = self._files.exists(segment.name)
        size = f"has {self._files.size(segment.name)} bytes" if there else "is missing"
        return StorageError(
            f"{self._files.path(segment.name)} {size}, but {segment.size} are needed: restore it, or remove the "
            "shard's snapshots, so that its log is read anew"
        )

    # -- checking

    def has(self, address: int) -> bool:
        """Whether the address lies in a segment."""
        index = bisect_right(self._bases, address) - 1
        return index >= 0 and address < self._bases[index] + self._segments[self._bases[index]].size

    @property
    def wanted(self) -> int:
        """Entries still wanted, in all segments."""
        return sum(segment.wanted for segment in self._segments.values())

    def check(self) -> None:
        """Raise `BrokenError` unless segments lie one after the other."""
        demand(self._bases == sorted(self._segments), "files: segments are by their addresses")
        end = 0
        for base in self._bases:
            demand(base >= end, "files: segments lie apart", base)
            demand(self._segments[base].wanted >= 0, "files: none is wanted less than not at all", base)
            end = base + self._segments[base].size
        demand(end <= self.end, "files: no segment lies beyond the end")

    # -- snapshots

    def freeze(self) -> list[Segment]:
        """The segments that are wanted, as they are now."""
        for row in list(self._segments.values()):
            if not row.wanted and row is not self._open:  # its last write failed
                self._drop(row)
        rows = [Segment(row.base, row.size, row.wanted) for row in self._segments.values() if row.wanted]
        self._held.cut({row.name: row.size for row in rows})
        return rows

    def files(self) -> list[str]:
        return self._held.names()

    def settle(self) -> None:
        self._held.settle()

    def keep(self, named: Collection[str]) -> list[str]:
        return self._held.keep(named)

    def thaw(self, rows: Iterable[Segment], end: int) -> None:
        """Go on from a freeze, in a store that has no segments yet."""
        if not 0 <= end <= LAST:
            raise StorageError(_SENSELESS)
        for row in sorted(rows, key=lambda row: row.base):
            if row.base < self.end or row.size < 0 or row.wanted < 0 or row.base + row.size > end:
                raise StorageError(_SENSELESS)
            if not self._files.exists(row.name) or self._files.size(row.name) < row.size:
                raise self._short(row)
            self._segments[row.base] = row
            self._bases.append(row.base)
            self.end = row.base + row.size
        self.end = end
        self._held.thawed({row.name: row.size for row in self._segments.values()})

    @property
    def nbytes(self) -> int:
        """Bytes of RAM held, the overhead of objects included."""
        return 400 * len(self._segments) + sum(map(len, self._pages.values())) + 200 * len(self._pages)
