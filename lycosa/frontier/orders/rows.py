"""Rows: append-only packed rows, in chunks that a thread may read while more are appended.

    rows.append(array)          add rows at the end
    cut = rows.cut()            the rows so far, as views: nothing is copied, and a cut never changes
    rows.replace(len, array)    replace the first `len` rows (a cut's) by `array`, their compacted form

Invariant: a row is never written again once it was appended, so a cut never changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

CHUNK = 1 << 16


class Rows:
    """Append-only rows of one type."""

    def __init__(self, dtype: DTypeLike, chunk: int = CHUNK) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._chunk = chunk
        self._sealed: list[NDArray[Any]] = []
        self._open: NDArray[Any] = np.empty(0, self._dtype)
        self._used = 0
        self._rows = 0  # in sealed chunks
        self._bytes = 0

    def __len__(self) -> int:
        return self._rows + self._used

    @property
    def nbytes(self) -> int:
        """Bytes held, free places of the last chunk included."""
        return self._bytes

    def cost(self, count: int) -> int:
        """Bytes that appending so many rows would add."""
        over = count - (len(self._open) - self._used)
        return -(-over // self._chunk) * self._chunk * self._dtype.itemsize if over > 0 else 0

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        at = 0
        while at < len(rows):
            if self._used == len(self._open):
                self._begin_chunk()
            some = min(len(rows) - at, len(self._open) - self._used)
            self._open[self._used : self._used + some] = rows[at : at + some]
            self._used += some
            at += some

    def add(self, row: Any) -> None:
        """Add one row: a number, or a tuple of the row's fields."""
        if self._used == len(self._open):
            self._begin_chunk()
        self._open[self._used] = row
        self._used += 1

    def cut(self) -> list[NDArray[Any]]:
        """The rows so far, in their order."""
        return [*self._sealed, self._open[: self._used]] if self._used else list(self._sealed)

    def whole(self) -> NDArray[Any]:
        """The rows so far, copied into one array."""
        return joined(self.cut(), self._dtype)

    def replace(self, count: int, by: NDArray[Any]) -> None:
        """Put `by` in the place of the first `count` rows."""
        rest: list[NDArray[Any]] = []
        for chunk in self.cut():
            skipped = min(count, len(chunk))
            count -= skipped
            if skipped < len(chunk):
                rest.append(chunk[skipped:])
        # Copied, since a view would keep the whole chunk alive; only rows added since the cut, so it is little.
        tail = joined(rest, self._dtype)
        self._sealed, self._rows, self._bytes = [], 0, 0
        self._open, self._used = np.empty(0, self._dtype), 0
        if len(by):
            self._sealed, self._rows, self._bytes = [by], len(by), by.nbytes
        self.append(tail)

    def clear(self) -> None:
        """Forget everything."""
        self.replace(len(self), np.empty(0, self._dtype))

    def _begin_chunk(self) -> None:
        if self._used:
            self._sealed.append(self._open)
            self._rows += self._used
        self._open = np.empty(self._chunk, self._dtype)
        self._bytes += self._open.nbytes
        self._used = 0


def joined(chunks: list[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    """Chunks as one array."""
    if not chunks:
        return np.empty(0, dtype)
    if len({chunk.dtype for chunk in chunks}) > 1 or chunks[0].dtype.fields is None:
        return np.concatenate(chunks)
    # As bytes: field by field NumPy takes ten times as long.
    return np.concatenate([chunk.view(np.uint8) for chunk in chunks]).view(dtype)


def chosen(rows: NDArray[Any], places: NDArray[np.intp]) -> NDArray[Any]:
    """Rows of several fields by their places, column by column: whole rows take NumPy five times as long."""
    out = np.empty(len(places), rows.dtype)
    for name in rows.dtype.names or ():
        out[name] = rows[name][places]
    return out
