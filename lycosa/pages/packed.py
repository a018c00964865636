"""The page table, packed: the newest summaries in RAM, the others in sorted files.

    recent      a dictionary of the pages noted last, `RECENT` at most
    sealed      runs of rows in RAM, each at least twice as long as the next younger one
    runs        the same on disk (`lycosa.pages.runs`)

Noting a page changes only the dictionary. When that is full it becomes a run; when the runs in RAM take more than
`memory` they become a file. Nothing is looked up meanwhile: a page that is fetched again has rows in several runs,
and these are joined, the older with the younger, when runs are merged or a page is looked up. So a lookup reads one
block of 4,096 bytes of each file, and there are few files: two neighbours are merged, the smallest first, until
each file is at least twice as long as the next younger one. That happens in `settle`, in the thread that makes a
snapshot durable; snapshots are taken every so many records. A page is thus written about log2(pages / pages in RAM)
times in all, in sequential passes.

Runs never change, so a freeze is a list of them:

    snapshot = head piece*
    head     = [version, [[file, rows]*]]       MessagePack, the oldest file first
    piece    = row*                             what is in RAM, the oldest first

After a thaw, new files get new names. `lycosa.lifetimes` decides when a file that was merged away is removed.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

import msgspec
import numpy as np

from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.lifetimes import FileSet
from lycosa.pages.rows import NO_ROWS, ROW, ROW_BYTES, Rows, find, fold, merged, pack, unpack
from lycosa.pages.runs import Run, write
from lycosa.pages.summary import Summary, joined

VERSION = 1
RECENT = 1024
PIECE_ROWS = 20_000
"""Rows to a piece of a snapshot: just under a megabyte."""
_RECENT_BYTES = 500
"""Bytes of a summary in the dictionary."""


class PackedPages:
    """The page table; see the module's docstring. All methods but `settle` belong to one thread."""

    def __init__(self, files: Files, *, memory: int = 1 << 20, recent: int = RECENT) -> None:
        """`memory`: bytes of rows in RAM; `recent`: pages in the dictionary before them."""
        self._files = files
        self._memory = memory
        self._most_recent = recent
        self._recent: dict[int, Summary] = {}
        self._sealed: list[Rows] = []
        self._runs: list[Run] = []
        self._number = -1  # of the last file; -1: not known yet
        self._held = FileSet(files)
        self._merged: list[str] = []  # files that were merged away, and may still be read at this moment
        self._lock = threading.Lock()
        """Guards the runs, numbers, files and merged names, which `settle` changes in its thread."""
        self._merging = threading.Lock()

    # -- the contract

    def note(self, key: int, summary: Summary) -> None:
        before = self._recent.get(key)
        if before is not None:
            self._recent[key] = joined(before, summary)
            return
        self._recent[key] = summary
        if len(self._recent) >= self._most_recent:
            self._seal()

    def find(self, key: int) -> Summary | None:
        found: Summary | None = None
        for part in (*(run.find(key) for run in self._runs), *(find(rows, key) for rows in self._sealed)):
            if part is not None:
                found = part if found is None else joined(found, part)
        recent = self._recent.get(key)
        if recent is not None:
            found = recent if found is None else joined(found, recent)
        return found

    def items(self) -> Iterator[tuple[int, Summary]]:
        return (unpack(row) for part in self.rows() for row in part)

    def rows(self) -> Iterator[Rows]:
        self._seal()
        parts: Iterable[Rows] = iter(())
        for run in self._runs:
            parts = merged(parts, run.read())
        for rows in self._sealed:
            parts = merged(parts, [rows])
        return iter(parts)

    @property
    def nbytes(self) -> int:
        return (
            _RECENT_BYTES * len(self._recent)
            + sum(rows.nbytes for rows in self._sealed)
            + sum(run.nbytes for run in self._runs)
        )

    @property
    def runs(self) -> list[Run]:
        """The files, the oldest first."""
        return list(self._runs)

    # -- from RAM to disk

    def _seal(self) -> None:
        """Turn the recent pages into a run; if RAM has too many rows, turn them into a file."""
        if not self._recent:
            return
        sealed = [*self._sealed, fold(pack(self._recent.items()))]
        while len(sealed) > 1 and len(sealed[-2]) < 2 * len(sealed[-1]):
            newer = sealed.pop()
            sealed[-1] = fold(np.concatenate((sealed[-1], newer)))
        self._sealed = sealed
        self._recent = {}
        if sum(map(len, sealed)) * ROW_BYTES > self._memory:
            run = write(self._files, self._next_name(), [fold(np.concatenate(sealed))])
            with self._lock:
                self._held.use(run.name)
                self._runs = [*self._runs, run]
            self._sealed = []

    def _next_name(self) -> str:
        with self._lock:
            if self._number < 0:
                there = (int(name) for name in self._files.list("") if name.isdigit())
                self._number = max(there, default=0)
            self._number += 1
            return f"{self._number:08d}"

    def _merge(self) -> None:
        """Merge files until each is at least twice as long as the next younger one. Runs in a thread."""
        while True:
            runs = self._runs
            pairs = [pair for pair in pairwise(runs) if pair[0].rows < 2 * pair[1].rows]
            if not pairs:
                return
            older, newer = min(pairs, key=lambda pair: pair[0].rows + pair[1].rows)
            new = write(self._files, self._next_name(), merged(older.read(), newer.read()))
            with self._lock:
                at = self._runs.index(older)  # younger ones may have been added meanwhile
                self._held.use(new.name)
                self._runs = [*self._runs[:at], new, *self._runs[at + 2 :]]
                self._merged += (older.name, newer.name)

    # -- Durable

    def freeze(self) -> Iterator[bytes]:
        self._seal()
        with self._lock:
            runs = self._runs
            self._held.cut({run.name: run.size for run in runs})
        head = msgspec.msgpack.encode((VERSION, [(run.name, run.rows) for run in runs]))
        return self._pieces(head, self._sealed)

    @staticmethod
    def _pieces(head: bytes, sealed: list[Rows]) -> Iterator[bytes]:
        yield head
        for rows in sealed:
            for at in range(0, len(rows), PIECE_ROWS):
                yield rows[at : at + PIECE_ROWS].tobytes()

    def files(self) -> list[str]:
        return self._held.names()

    def settle(self) -> None:
        self._held.settle()
        if self._merging.acquire(blocking=False):  # else a snapshot that was given up is still at it
            try:
                self._merge()
            finally:
                self._merging.release()

    def thaw(self, pieces: Iterable[bytes]) -> None:
        iterator = iter(pieces)
        first = next(iterator, None)
        if first is None:
            return
        try:
            version, runs = msgspec.msgpack.decode(first, type=tuple[int, list[tuple[str, int]]])
        except msgspec.MsgspecError as error:
            raise StorageError(f"the snapshot's page table is not readable: {error}") from None
        if version != VERSION:
            raise StorageError(f"the snapshot's page table has version {version}, not {VERSION}")
        self._runs = [Run(self._files, name, rows) for name, rows in runs]
        for run in self._runs:
            size = self._files.size(run.name) if self._files.exists(run.name) else 0
            if size != run.size:
                raise StorageError(
                    f"page file {run.name} has {size} bytes, but the snapshot needs {run.size}: restore it, or "
                    "remove the crawl's snapshots to have the log read anew"
                )
        self._held.thawed({run.name: run.size for run in self._runs})
        rows = fold(np.concatenate([NO_ROWS, *(np.frombuffer(piece, ROW) for piece in iterator)]))
        self._sealed = [rows] if len(rows) else []

    def keep(self, named: Collection[str]) -> list[str]:
        with self._lock:
            for name in self._merged:
                self._held.drop(name)
            self._merged = []
            return self._held.keep(named)
