"""`memory`: an exact table of keys in RAM, after Mercator's (Broder, Najork, Wiener, section 4.1).

Mercator indexed by three bytes of the checksum and stored the rest. Here one byte of the mixed key
names one of 256 pages and seven bytes are stored (see `memory_kernels`); a page is at least 15/16 x
16/17 full once it has some hundred keys, so a URL costs just under 8 bytes. Pages grow by a
sixteenth, each by itself: never more than one page exists twice, and the longest pause is the
copying of one page (1/256 of the keys).

Every offer is answered at once; nothing waits, payloads are not used.

Durability. Keys that became known are appended to a key file (see `key_file`) in blocks, so that a
snapshot is small whatever the size of the table: the key files with the lengths that count, and the
keys not yet in any block. The pieces of `freeze`:

    head    msgpack [[name, length]..., count]
    buffer  key:u64 x n, little endian (n may be 0)

After `thaw` writing goes on in a file of a new name: a file is only ever appended to by the process
that created it, so the prefix that an older snapshot counts on never changes.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.errors import LocalError, StorageError
from lycosa.files import Appender, Files
from lycosa.lifetimes import FileSet
from lycosa.seen import key_file
from lycosa.seen import memory_kernels as kernels
from lycosa.seen.protocol import Answer, Keys, Merge

_NONE: NDArray[np.intp] = np.empty(0, np.intp)
_SMALLEST = 128  # homes of a page's first array: no page need grow before there are some 25,000 keys
_LINE = 64  # bytes of a line of the processor's cache
_DOUBLED, _QUARTERED = 256, 2048
"""A page of fewer homes than these doubles, or grows by a quarter: at most 0.9 MB of the table is free for that,
and a young crawl would otherwise spend more on growing than on lookups."""
_MAPPED = 1 << 16
"""From this size on a page has a memory mapping of its own: when freed, it goes back to the system at once, while a
heap would keep holes just too small for the next larger page."""


class Table:
    """A set of 64-bit keys. Grows; never forgets."""

    def __init__(self) -> None:
        self._nowhere = np.full(8, 0xFF, np.uint8)  # an empty page: one slot, always empty
        self._pages = np.zeros((kernels.PAGES, kernels.FIELDS), np.uint64)
        self._pages[:, kernels.ADDRESS] = self._nowhere.ctypes.data
        self._pages[:, kernels.SLOTS] = 1
        self._arrays: list[NDArray[np.uint8] | None] = [None] * kernels.PAGES
        self._bytes = 0

    def __len__(self) -> int:
        return int(self._pages[:, kernels.COUNT].sum())

    @property
    def nbytes(self) -> int:
        return self._bytes + self._pages.nbytes + 128 * kernels.PAGES  # 128: an array's object

    def certain(self, keys: Keys, known: NDArray[np.bool_]) -> int:
        """Set `known` for the keys that are here; returns how many."""
        return int(kernels.certain(self._pages, keys, known))

    def insert(
        self, keys: Keys, start: int, new: NDArray[np.intp], news: int, known: Keys, knowns: int
    ) -> tuple[int, int, int]:
        """Insert until the keys end or `known` is full; returns (stopped at, news, knowns)."""
        while True:
            start, news, knowns, why = kernels.insert(self._pages, keys, start, new, news, known, knowns)
            if why < 0:
                return start, news, knowns
            if self._pages[why, kernels.CAPACITY]:
                self._grow(why)
            else:
                self._begin()

    def _begin(self) -> None:
        """Give every page its first array: all at once, since one by one they cost as much each."""
        slots = _SMALLEST + _SMALLEST // 128 + 8
        size = -(-7 * slots // _LINE) * _LINE
        block = np.full((kernels.PAGES, size), 0xFF, np.uint8)
        starts = np.arange(kernels.PAGES, dtype=np.uint64) * np.uint64(size)
        self._pages[:, kernels.ADDRESS] = np.uint64(block.ctypes.data) + starts
        self._pages[:, kernels.CAPACITY] = _SMALLEST
        self._pages[:, kernels.SLOTS] = slots
        self._arrays = list(block[:, : 7 * slots])
        self._bytes = kernels.PAGES * 7 * slots

    def reserve(self, count: int) -> None:
        """Make room for about `count` keys at once."""
        homes = count // kernels.PAGES * 16 // 15
        homes += homes // 32  # pages differ
        for page in range(kernels.PAGES):
            if homes > self._pages[page, kernels.CAPACITY]:
                self._grow(page, homes)

    def collect(self, low: int, high: int, pages: int = kernels.PAGES) -> Keys:
        """The keys from `low` to `high`, sorted; of the first `pages` pages alone, a fair sample of them."""
        room = len(self) // 8 + 1024
        while True:
            out: Keys = np.empty(room, np.uint64)
            count = kernels.collect(self._pages, 0, pages, np.uint64(low), np.uint64(high), out)
            if count <= room:
                out = out[:count]
                out.sort()
                return out
            room = count

    def _grow(self, page: int, homes: int = 0) -> None:
        old = self._pages[page]
        new = np.zeros(kernels.FIELDS, np.uint64)
        capacity = homes
        while True:
            if not homes:
                capacity = max(capacity, int(old[kernels.CAPACITY]))
                share = 1 if capacity < _DOUBLED else 4 if capacity < _QUARTERED else 16
                capacity += max(_SMALLEST, capacity // share)
            homes = 0
            slots = capacity + capacity // 128 + 8
            array = _room(7 * slots)
            new[kernels.ADDRESS] = array.__array_interface__["data"][0]
            new[kernels.CAPACITY] = capacity
            new[kernels.SLOTS] = slots
            if kernels.copy(old, new):
                break
        before = self._arrays[page]
        self._bytes += array.nbytes - (0 if before is None else before.nbytes)
        self._arrays[page] = array
        self._pages[page] = new


def _room(size: int) -> NDArray[np.uint8]:
    if size < _MAPPED:
        return np.empty(size, np.uint8)
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(mapping, np.uint8)


_STORE = "memory"
"""What its cuts are called in a set of files that it shares."""


class MemorySeen:
    """The store `memory`."""

    def __init__(
        self,
        files: Files,
        *,
        prefix: str = "keys-",
        block_keys: int = key_file.BLOCK_KEYS,
        held: FileSet | None = None,
    ) -> None:
        """`held`: the set of files of a store that this one is a part of."""
        self._files = files
        self._prefix = prefix
        self._table = Table()
        self._count = 0
        self._buffer: Keys = np.empty(block_keys, np.uint64)
        self._buffered = 0
        self._scratch = np.empty(256, np.intp)
        self._out: Appender | None = None
        self._sealed: list[tuple[str, int]] = []  # files written by earlier processes
        self._name = ""
        self._held = FileSet(files) if held is None else held

    # -- the contract

    def certain(self, keys: Keys) -> NDArray[np.bool_]:
        known = np.empty(len(keys), np.bool_)
        self._table.certain(keys, known)
        return known

    def offer(self, keys: Keys, payloads: Sequence[bytes]) -> Answer:
        news = self._insert(keys)
        return Answer(self._scratch[:news].copy() if news else _NONE, _NONE)

    def mark(self, keys: Keys) -> None:
        self._insert(keys)

    def merge(self) -> list[tuple[int, bytes]]:
        return []

    @property
    def waiting(self) -> int:
        return 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._table.nbytes + self._buffer.nbytes + self._scratch.nbytes

    @property
    def table(self) -> Table:
        """The table itself, for those who move its keys elsewhere."""
        return self._table

    # -- merging: there is nothing to merge

    @property
    def due(self) -> bool:
        return False

    def plan(self) -> Merge | None:
        return None

    def apply(self, merge: Merge) -> list[tuple[int, bytes]]:
        raise LocalError("the store `memory` plans no merges")

    def abandon(self, merge: Merge) -> None:
        raise LocalError("the store `memory` plans no merges")

    # -- durability

    def freeze(self) -> Iterator[bytes]:
        named = list(self._sealed)
        if self._out is not None:
            self._out.flush()
            named.append((self._name, self._out.size))
        self._held.cut(dict(named), _STORE)
        head = msgspec.msgpack.encode([named, self._count])
        tail = self._buffer[: self._buffered].astype("<u8").tobytes()
        return iter((head, tail))

    def files(self) -> list[str]:
        return self._held.names()

    def settle(self) -> None:
        self._held.settle()

    def keep(self, named: Collection[str]) -> list[str]:
        return self._held.keep(named)

    def thaw(self, pieces: Iterable[bytes]) -> None:
        parts = list(pieces)
        named, count = msgspec.msgpack.decode(parts[0], type=tuple[list[tuple[str, int]], int])
        self._table.reserve(count)
        scratch = np.empty(key_file.BLOCK_KEYS, np.intp)
        sink: Keys = np.empty(key_file.BLOCK_KEYS, np.uint64)
        for name, length in named:
            for keys in key_file.read(self._files, name, length):
                for at in range(0, len(keys), len(sink)):
                    part = keys[at : at + len(sink)]
                    self._count += self._table.insert(part, 0, scratch, 0, sink, 0)[1]
        self._sealed = named
        self._held.thawed(dict(named), _STORE)
        self._insert(np.frombuffer(b"".join(parts[1:]), "<u8").astype(np.uint64))
        if self._count != count:
            raise StorageError(
                f"the key files {', '.join(name for name, _ in named)} hold {self._count} keys where the"
                f" snapshot counted {count}: restore them, or start the crawl anew"
            )

    def retire(self) -> None:
        """End the use of this store, and of its files."""
        self.close()
        for name in [name for name, _ in self._sealed] + [self._name] * bool(self._name):
            self._held.drop(name)
        self._table = Table()

    def close(self) -> None:
        """Close the file; what the last snapshot does not name is lost, as after a crash."""
        if self._out is not None:
            self._out.close()
            self._out = None

    # -- inside

    def _insert(self, keys: Keys) -> int:
        if len(keys) > len(self._scratch):
            self._scratch = np.empty(len(keys), np.intp)
        at, news = 0, 0
        while True:
            at, news, self._buffered = self._table.insert(
                keys, at, self._scratch, news, self._buffer, self._buffered
            )
            if self._buffered == len(self._buffer):
                self._write()
            if at == len(keys):
                break
        self._count += news
        return news

    def _write(self) -> None:
        if self._out is None:
            self._name = free_name(self._files, self._prefix)
            self._out = key_file.create(self._files, self._name)
            self._held.use(self._name)
        self._out.write(key_file.block(self._buffer[: self._buffered]))
        self._buffered = 0


def free_name(files: Files, prefix: str) -> str:
    """A name that no file has: `prefix` and the next number."""
    numbers = [
        int(name[len(prefix) :])
        for name in files.list("")
        if name.startswith(prefix) and name[len(prefix) :].isdigit()
    ]
    return f"{prefix}{max(numbers, default=-1) + 1:06d}"
