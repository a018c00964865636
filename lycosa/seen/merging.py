"""One merge: the waiting records of some buckets go, in order, into one repository, in one sequential pass.

The work of a merge is independent of any store's state, so that it can run in a thread while the
store is used: it reads files that no longer change and writes files of new names.

    for each bucket, in the order of keys
        read the columns of its waiting files; sort by key, stably; fold into one row per key
        merge the rows with the blocks of the old repository into blocks of the new
        the new keys are those offered, not marked, and not in the old repository
        read the payloads of the new keys alone

A key that is offered twice keeps its first payload, since sorting is stable and files are in order
of time. The memory of a merge is one bucket's columns (about 50 bytes per record), two blocks, and
its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lycosa.files import Files
from lycosa.seen import merge_kernels as kernels
from lycosa.seen import repository, waiting
from lycosa.seen.protocol import Keys
from lycosa.seen.repository import Builder, Repository, States
from lycosa.seen.waiting import KIND_SHIFT, Columns, Source

RECORD_BYTES = 56
"""RAM that a merge needs per record."""

_NO_KEYS: Keys = np.frombuffer(b"", "<u8")
_NO_STATES: States = np.zeros(0, np.uint8)


class Checked(NamedTuple):
    """The answer to a check: whether the key was in the repository, or offered or marked before."""

    key: int
    payload: bytes
    known: bool


class Rows(NamedTuple):
    """Records folded by key."""

    keys: Keys
    marked: NDArray[np.uint8]
    offer: NDArray[np.int64]
    first: NDArray[np.int64]


def fold(columns: Columns, order: NDArray[np.intp], kinds: NDArray[np.uint8]) -> Rows:
    """One row for each key that is offered or marked."""
    n = len(order)
    rows = Rows(np.empty(n, np.uint64), np.empty(n, np.uint8), np.empty(n, np.int64), np.empty(n, np.int64))
    count = kernels.group(columns.keys, order, kinds, *rows)
    keys, marked, offer, first = rows
    return Rows(keys[:count], marked[:count], offer[:count], first[:count])


class MergeRun:
    """A planned merge of `buckets` (the waiting files of each, ascending by key) into `old`."""

    def __init__(
        self,
        files: Files,
        old: Repository | None,
        buckets: list[list[Source]],
        names: Callable[[], str],
        *,
        split: int = 0,
        garbage: list[str] | None = None,
    ) -> None:
        self.buckets = buckets
        self.old = old
        self.parts: list[tuple[int, Repository]] = []
        """The written parts, ascending: lowest key and repository. Several if the repository was split."""
        self.new: list[tuple[int, bytes]] = []
        self.checked: list[Checked] = []
        self.bytes_read = 0
        self.bytes_written = 0
        self._files = files
        self._names = names
        self._garbage = garbage or []
        records = sum(source.records for sources in buckets for source in sources)
        total = records + (old.keys if old else 0)
        self._quota = repository.BLOCK_KEYS * ((total // repository.BLOCK_KEYS) + 1)
        if split and total > split:
            pieces = max(2, round(2 * total / split))
            quota = -(-total // pieces)
            blocks = -(-quota // repository.BLOCK_KEYS)
            self._quota = repository.BLOCK_KEYS * blocks if blocks > 1 else quota
        self._builder: Builder | None = None
        self._in_part = 0

    def run(self) -> None:
        for name in self._garbage:
            self._files.remove(name)
        try:
            self._merge()
        except BaseException:
            if self._builder is not None:
                self._builder.abandon()
            raise

    def _merge(self) -> None:
        size = min(self._quota, repository.BLOCK_KEYS)
        out: Keys = np.empty(size, np.uint64)
        out_states: States = np.empty(size, np.uint8)
        old, old_states, i, n = _NO_KEYS, _NO_STATES, 0, 0
        blocks: Iterator[tuple[Keys, States]] = iter(())
        left = 0
        if self.old is not None:
            blocks = repository.read(self._files, self.old)
            left = self.old.keys
            self.bytes_read += self.old.size
        for number, sources in enumerate(self.buckets):
            columns = waiting.read_columns(self._files, sources)
            order = np.argsort(columns.keys, kind="stable")
            kinds = (columns.whats >> KIND_SHIFT).astype(np.uint8)
            rows = fold(columns, order, kinds)
            known = np.zeros(len(rows.keys), np.bool_)
            more_keys = number + 1 < len(self.buckets)
            j = 0
            while True:
                i, j, n = kernels.merge(
                    old, old_states, i, left > 0, rows.keys, rows.marked, j, more_keys,
                    out, out_states, n, known,
                )  # fmt: skip
                if n == size:
                    self._write(out, out_states)
                    n = 0
                elif i == len(old) and left and not (more_keys and j == len(rows.keys)):
                    old, old_states = next(blocks)
                    left -= len(old)
                    i = 0
                else:
                    break
            self._answer(columns, order, kinds, rows, known)
            self.bytes_read += sum(source.length for source in sources)
        if n:
            self._write(out[:n], out_states[:n])
        self._close()

    def _write(self, keys: Keys, states: States) -> None:
        if self._builder is not None and self._in_part >= self._quota:
            self._close()
        if self._builder is None:
            self._builder = Builder(self._files, self._names())
            self._in_part = 0
            self._low = int(keys[0])
        self._builder.add(keys, states)
        self._in_part += len(keys)

    def _close(self) -> None:
        if self._builder is not None:
            done = self._builder.finish()
            self.parts.append((self._low, done))
            self.bytes_written += done.size
            self._builder = None

    def _answer(
        self,
        columns: Columns,
        order: NDArray[np.intp],
        kinds: NDArray[np.uint8],
        rows: Rows,
        known: NDArray[np.bool_],
    ) -> None:
        is_new = (rows.offer != kernels.NONE) & ~known & (rows.marked == 0)
        records = np.sort(rows.offer[is_new])
        payloads = waiting.read_payloads(self._files, columns, records)
        self.new += zip(columns.keys[records].tolist(), payloads, strict=True)
        checks = np.flatnonzero(kinds == kernels.CHECK)
        if not len(checks):
            return
        keys = columns.keys[checks]
        at = np.searchsorted(rows.keys, keys)
        at_row = np.minimum(at, max(len(rows.keys) - 1, 0))
        known_now = self._in_old(keys)
        if len(rows.keys):
            known_now |= (rows.keys[at_row] == keys) & (rows.first[at_row] < checks)
        self.checked += map(
            Checked,
            keys.tolist(),
            waiting.read_payloads(self._files, columns, checks),
            known_now.tolist(),
        )

    def _in_old(self, keys: Keys) -> NDArray[np.bool_]:
        """Which of some keys are in the old repository: a pass of its own, only for checks."""
        found = np.zeros(len(keys), np.bool_)
        if self.old is not None:
            for block, _ in repository.read(self._files, self.old):
                at = np.minimum(np.searchsorted(block, keys), len(block) - 1)
                found |= block[at] == keys
        return found
