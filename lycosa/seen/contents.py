"""`Contents`: a set of 64-bit digests with a limit of memory, which answers at once.

    young     a table in RAM (`memory.Table`), of `memory` bytes at most
    sealed    tables that were full, until the next snapshot
    runs      the same on disk: sorted files (`repository`), each `FAN` times as long as the next younger or more

The stores of URLs answer when they have merged; whether a content was met must be known at once. So a digest that
is not in RAM is looked for in each run: the fences in RAM (every 512th key) tell the place, and one read of 4 KB
the answer. Tables become runs, and runs are merged, in `settle`, in the thread that makes a snapshot durable. RAM
has at most the young table, digests added between two snapshots, and one 64th of a byte for each digest on disk.

    snapshot = head piece*
    head     = ["contents", [[file, keys]*]]        MessagePack, the oldest file first
    piece    = key:u64 *                            what was in RAM, little endian

Older snapshots, which have the pieces of `MemorySeen`, are read too.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.lifetimes import FileSet
from lycosa.seen import key_file, repository
from lycosa.seen.memory import Table, free_name
from lycosa.seen.protocol import Answer, Keys
from lycosa.seen.repository import BLOCK_KEYS, Builder, Repository

FENCE: Final = 512
FAN: Final = 4
_HEAD: Final = "contents"
_PREFIX: Final = "digests-"
_LAST: Final = (1 << 64) - 1
_NONE: Keys = np.empty(0, np.uint64)
_NO_ROWS: NDArray[np.intp] = np.empty(0, np.intp)


class _Run:
    """A sorted file of digests. It does not change, so any thread may read it."""

    def __init__(self, files: Files, made: Repository, fences: Keys) -> None:
        self.files, self.made, self.fences = files, made, fences

    @staticmethod
    def open(files: Files, made: Repository) -> _Run:
        """Open an existing run: all of it is read, and checked."""
        parts = [keys[::FENCE] for keys, _ in repository.read(files, made)]
        return _Run(files, made, np.concatenate([_NONE, *parts]))

    def holds(self, key: int) -> bool:
        """Whether the run has a digest: one read of at most 4 KB."""
        row = int(np.searchsorted(self.fences, np.uint64(key), "right")) - 1
        if row < 0:
            return False
        first = row * FENCE
        block, within = divmod(first, BLOCK_KEYS)
        length = min(FENCE, self.made.keys - first)
        start = Repository("", block * BLOCK_KEYS, 0).size + repository.HEAD_BYTES + 8 * within
        data = self.files.read_at(self.made.name, start, 8 * length)
        if len(data) < 8 * length:
            raise StorageError(
                f"the repository {self.made.name} ends too early: restore it, or start the crawl anew"
            )
        keys = np.frombuffer(data, "<u8")
        at = int(np.searchsorted(keys, np.uint64(key)))
        return at < len(keys) and int(keys[at]) == key

    def read(self) -> Iterator[Keys]:
        return (keys for keys, _ in repository.read(self.files, self.made))


class Contents:
    """The set; see the module's docstring. All methods but `settle` belong to one thread."""

    def __init__(self, files: Files, *, memory: int = 1 << 20) -> None:
        self._files = files
        self._memory = memory
        self._young = Table()
        self._sealed: tuple[Table, ...] = ()
        self._runs: tuple[_Run, ...] = ()
        self._held = FileSet(files)
        self._merged: list[str] = []  # files that were merged away, and may still be read at this moment
        self._lock = threading.Lock()
        """Guards the sealed tables, the runs, the set of files and merged names, which `settle` changes."""
        self._settling = threading.Lock()
        self._scratch: NDArray[np.intp] = np.empty(256, np.intp)
        self._sink: Keys = np.empty(256, np.uint64)

    # -- the contract

    def certain(self, keys: Keys) -> NDArray[np.bool_]:
        known = np.empty(len(keys), np.bool_)
        self._young.certain(keys, known)
        # A table leaves `_sealed` only after its run was added: in this order none is overlooked.
        sealed, runs = self._sealed, self._runs
        for table in sealed:
            also = np.empty(len(keys), np.bool_)
            table.certain(keys, also)
            known |= also
        for row in np.flatnonzero(~known).tolist() if runs else ():
            known[row] = any(run.holds(int(keys[row])) for run in runs)
        return known

    def offer(self, keys: Keys, payloads: Sequence[bytes]) -> Answer:
        if not self._sealed and not self._runs:  # else a key that is there would be in the young table, too
            return Answer(self._insert(keys), _NO_ROWS)
        unknown = (~self.certain(keys)).nonzero()[0]
        return Answer(unknown[self._insert(keys[unknown])], _NO_ROWS)

    def mark(self, keys: Keys) -> None:
        self.offer(keys, ())

    def merge(self) -> list[tuple[int, bytes]]:
        return []

    @property
    def waiting(self) -> int:
        return 0

    def __len__(self) -> int:
        return len(self._young) + sum(map(len, self._sealed)) + sum(run.made.keys for run in self._runs)

    @property
    def nbytes(self) -> int:
        tables = self._young.nbytes + sum(table.nbytes for table in self._sealed)
        return tables + sum(run.fences.nbytes for run in self._runs)

    def _insert(self, keys: Keys) -> NDArray[np.intp]:
        """Rows of keys that were not in the young table."""
        if len(keys) > len(self._scratch):
            self._scratch, self._sink = np.empty(len(keys), np.intp), np.empty(len(keys), np.uint64)
        news = self._young.insert(keys, 0, self._scratch, 0, self._sink, 0)[1]
        found = self._scratch[:news].copy()
        if self._young.nbytes > self._memory:
            with self._lock:
                self._sealed = (*self._sealed, self._young)
            self._young = Table()
        return found

    # -- from RAM to disk, in a thread

    def _write(self, parts: Iterator[Keys]) -> _Run:
        with self._lock:
            name = free_name(self._files, _PREFIX)
        builder = Builder(self._files, name)
        fences, rest = [_NONE], _NONE
        try:
            for part in parts:
                rest = np.concatenate((rest, part))
                while len(rest) > BLOCK_KEYS:
                    block, rest = rest[:BLOCK_KEYS], rest[BLOCK_KEYS:]
                    builder.add(block, np.zeros(len(block), np.uint8))
                    fences.append(block[::FENCE])
            builder.add(rest, np.zeros(len(rest), np.uint8))
            fences.append(rest[::FENCE])
            made = builder.finish()
        finally:
            builder.abandon()
        with self._lock:
            self._held.use(name)
        return _Run(self._files, made, np.concatenate(fences))

    def _work(self) -> None:
        while self._sealed:
            run = self._write(iter([self._sealed[0].collect(0, _LAST)]))
            with self._lock:
                self._runs = (*self._runs, run)
                self._sealed = self._sealed[1:]
        while pair := next(
            ((a, b) for a, b in pairwise(self._runs) if a.made.keys < FAN * b.made.keys), None
        ):
            run = self._write(_union(pair[0].read(), pair[1].read()))
            with self._lock:
                at = self._runs.index(pair[0])
                self._runs = (*self._runs[:at], run, *self._runs[at + 2 :])
                self._merged += [each.made.name for each in pair]

    # -- durability

    def freeze(self) -> Iterator[bytes]:
        with self._lock:
            sealed, runs = self._sealed, self._runs
            self._held.cut({run.made.name: run.made.size for run in runs})
        young = self._young.collect(0, _LAST)  # copied now: the table grows while the pieces are written
        head = msgspec.msgpack.encode((_HEAD, [(run.made.name, run.made.keys) for run in runs]))
        return self._pieces(head, young, sealed)

    @staticmethod
    def _pieces(head: bytes, young: Keys, sealed: Sequence[Table]) -> Iterator[bytes]:
        yield head
        yield young.astype("<u8").tobytes()
        for table in sealed:
            yield table.collect(0, _LAST).astype("<u8").tobytes()

    def files(self) -> list[str]:
        return self._held.names()

    def settle(self) -> None:
        self._held.settle()
        if self._settling.acquire(blocking=False):  # else a snapshot that was given up is still at it
            try:
                self._work()
            finally:
                self._settling.release()

    def keep(self, named: Collection[str]) -> list[str]:
        with self._lock:
            for name in self._merged:
                self._held.drop(name)
            self._merged = []
            return self._held.keep(named)

    def thaw(self, pieces: Iterable[bytes]) -> None:
        first, *rest = [*pieces] or [b""]
        if not first:
            return
        head, named = msgspec.msgpack.decode(first)
        if head != _HEAD:
            self._thaw_older(head, rest)
            return
        made = [Repository(name, keys, 0) for name, keys in named]
        self._runs = tuple(_Run.open(self._files, each) for each in made)
        self._held.thawed({each.name: each.size for each in made})
        for piece in rest:
            self._insert(np.frombuffer(piece, "<u8").astype(np.uint64))

    def _thaw_older(self, named: list[tuple[str, int]], rest: Sequence[bytes]) -> None:
        """Take over the digests of a `MemorySeen`, whose files are no longer needed."""
        self._held.thawed(dict(named))
        for name, length in named:
            for keys in key_file.read(self._files, name, length):
                self._insert(keys)
            self._held.drop(name)
        self._held.cut({})
        self._insert(np.frombuffer(b"".join(rest), "<u8").astype(np.uint64))


def _union(one: Iterator[Keys], other: Iterator[Keys]) -> Iterator[Keys]:
    """The keys of both, ascending, in parts."""
    sources = [one, other]
    parts = [next(source, _NONE) for source in sources]
    while len(parts[0]) and len(parts[1]):
        end = min(parts[0][-1], parts[1][-1])
        cuts = [int(np.searchsorted(part, end, "right")) for part in parts]
        yield np.union1d(parts[0][: cuts[0]], parts[1][: cuts[1]])
        parts = [part[cut:] for part, cut in zip(parts, cuts, strict=True)]
        parts = [
            part if len(part) else next(source, _NONE) for part, source in zip(parts, sources, strict=True)
        ]
    for part, source in zip(parts, sources, strict=True):
        if len(part):
            yield part
            yield from source
