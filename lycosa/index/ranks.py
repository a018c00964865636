"""Static ranks of pages, kept beside the index: one file, replaced atomically.

    ranks := "LyRNK1\\r\\n" made:u64 count:u64 keys:u64×count ranks:f32×count

`made` is the time at which they were made, in milliseconds; keys ascend. They reflect the links known at that time:
a page that came later has rank 0 until they are made again, which `Answer.ranked` shows to the reader.

A rank is ln(1 + n·p) / ln(1 + 10,000), at most 1, where p is the page's PageRank and n the number of URLs in the
graph: a page with the mean PageRank has 0.075, one with a thousand times that 0.75, whatever the size of the crawl.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lycosa.errors import StorageError
from lycosa.files import DiskFiles, write_whole

NAME = "ranks"
_MAGIC = b"LyRNK1\r\n"
_HEAD = struct.Struct("<8sQQ")
_FULL = 10_000.0


def scaled(values: NDArray[np.float64], nodes: int) -> NDArray[np.float32]:
    """Ranks from PageRanks, which add up to 1 over so many nodes."""
    return np.minimum(np.log1p(values * nodes) / math.log1p(_FULL), 1.0).astype(np.float32)


def write_ranks(files: DiskFiles, made: int, keys: NDArray[np.uint64], ranks: NDArray[np.float32]) -> None:
    """Replace the ranks by these."""
    order = np.argsort(keys)
    head = _HEAD.pack(_MAGIC, made, len(keys))
    write_whole(
        files, NAME, head + keys[order].astype("<u8").tobytes() + ranks[order].astype("<f4").tobytes()
    )


class StaticRanks(Protocol):
    """The ranks of pages."""

    @property
    def made(self) -> int:
        """When they were made, in milliseconds; 0 if there are none."""
        ...

    def reload(self) -> bool:
        """Load newer ranks; whether there were any."""
        ...

    def __call__(self, ids: Sequence[int]) -> list[float]:
        """The ranks of documents; 0 for unknown ones."""
        ...


class RankFile:
    """The ranks in the file; `made` is 0 while there are none."""

    def __init__(self, files: DiskFiles) -> None:
        self._files = files
        self._stamp: object = None
        self.made = 0
        self._keys: Any = np.zeros(0, np.uint64)
        self._ranks: Any = np.zeros(0, np.float32)
        self.reload()

    def reload(self) -> bool:
        """Load newer ranks; whether there were any."""
        try:
            found = self._files.path(NAME)
            now = Path(found).stat()
        except FileNotFoundError:
            return False
        stamp = now.st_mtime_ns, now.st_ino
        if stamp == self._stamp:
            return False
        data: Any = np.memmap(found, np.uint8, "r")
        magic, made, count = (
            _HEAD.unpack(bytes(data[: _HEAD.size])) if len(data) >= _HEAD.size else (b"", 0, 0)
        )
        if magic != _MAGIC or len(data) != _HEAD.size + 12 * count:
            raise StorageError(f"{found} is damaged: build the index anew with --rebuild")
        middle = _HEAD.size + 8 * count
        self._keys = np.frombuffer(data[_HEAD.size : middle], "<u8")
        self._ranks = np.frombuffer(data[middle:], "<f4")
        self.made, self._stamp = made, stamp
        return True

    def __len__(self) -> int:
        return len(self._keys)

    def __call__(self, ids: Sequence[int]) -> list[float]:
        """The ranks of documents; 0 for unknown ones."""
        if not len(self._keys):
            return [0.0] * len(ids)
        wanted = np.array(ids, np.uint64)
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        found: list[float] = (
            np.where(self._keys[at] == wanted, self._ranks[at], 0).astype(np.float64).tolist()
        )
        return found
