"""Runs of the page table on disk: immutable files of rows in ascending order of keys.

    file   = block* index crc:u32 magic
    block  = check:u32 row*              4,096 bytes: 93 rows; the last may have fewer
    index  = key:u64 * blocks            the first key of each block
    magic  = "LyPGS1\\r\\n"

`check` is the CRC-32C of the block's rows, `crc` that of the index. A row is as in `lycosa.pages.rows`. Where the
index begins follows from the number of rows, which must be known to open the file. A page is found with one read of
one block; the index, 8 bytes for 93 pages, is read at the first look and kept in RAM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.pages.rows import NO_ROWS, ROW, ROW_BYTES, Rows, find
from lycosa.pages.summary import Summary

MAGIC = b"LyPGS1\r\n"
BLOCK = 4096
CHECK = 4
BLOCK_ROWS = (BLOCK - CHECK) // ROW_BYTES
READ_BLOCKS = 256
"""Blocks read at a time when all are read: a megabyte."""


class Run:
    """A run in a file. The file does not change, so any thread may read it."""

    def __init__(self, files: Files, name: str, rows: int) -> None:
        self.name = name
        self.rows = rows
        self.blocks = -(-rows // BLOCK_ROWS)
        self._files = files
        self._firsts: NDArray[np.uint64] | None = None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._body + 8 * self.blocks + CHECK + len(MAGIC)

    @property
    def _body(self) -> int:
        return self.rows * ROW_BYTES + self.blocks * CHECK

    @property
    def nbytes(self) -> int:
        """Bytes of RAM."""
        return 200 + (0 if self._firsts is None else self._firsts.nbytes)

    def find(self, key: int) -> Summary | None:
        """The summary of a key: one read of one block, or none if the key is below all."""
        block = int(np.searchsorted(self._index(), np.uint64(key), "right")) - 1
        if block < 0:
            return None
        return find(self._rows(block, 1), key)

    def read(self) -> Iterator[Rows]:
        """All rows, in parts."""
        for block in range(0, self.blocks, READ_BLOCKS):
            yield self._rows(block, READ_BLOCKS)

    def _index(self) -> NDArray[np.uint64]:
        if self._firsts is None:
            data = self._files.read_at(self.name, self._body, self.size - self._body)
            keys, end = data[: 8 * self.blocks], data[8 * self.blocks :]
            if len(data) != self.size - self._body or end != _check(keys) + MAGIC:
                raise self._damaged(self._body)
            self._firsts = np.frombuffer(keys, "<u8").astype(np.uint64)
        return self._firsts

    def _rows(self, block: int, count: int) -> Rows:
        start = block * BLOCK
        data = self._files.read_at(self.name, start, min(count * BLOCK, self._body - start))
        parts = []
        for at in range(0, len(data), BLOCK):
            part = data[at + CHECK : at + BLOCK]
            if len(part) % ROW_BYTES or data[at : at + CHECK] != _check(part):
                raise self._damaged(start + at)
            parts.append(part)
        if start + len(data) < min((block + count) * BLOCK, self._body):
            raise self._damaged(start + len(data))
        return np.frombuffer(b"".join(parts), ROW)

    def _damaged(self, at: int) -> StorageError:
        return StorageError(
            f"page file {self._files.path(self.name)} is damaged at byte {at}: restore it, or remove the crawl's "
            "snapshots to have the log read anew"
        )


def write(files: Files, name: str, parts: Iterable[Rows]) -> Run:
    """Write the parts of a run as a file; it is not durable yet."""
    out = files.create(name)
    firsts: list[bytes] = []
    rows = 0
    rest = NO_ROWS
    try:

        def put(run: Rows) -> None:
            blocks: list[bytes] = []
            for at in range(0, len(run), BLOCK_ROWS):
                data = run[at : at + BLOCK_ROWS].tobytes()
                firsts.append(data[:8])
                blocks += (_check(data), data)
            out.write(b"".join(blocks))

        for part in parts:
            run = np.concatenate((rest, part)) if len(rest) else part
            whole = len(run) - len(run) % BLOCK_ROWS
            put(run[:whole])
            rows += whole
            rest = run[whole:]
        put(rest)
        rows += len(rest)
        index = b"".join(firsts)
        out.write(index + _check(index) + MAGIC)
    finally:
        out.close()
    return Run(files, name, rows)


def _check(data: bytes) -> bytes:
    return int(google_crc32c.value(data)).to_bytes(CHECK, "little")
