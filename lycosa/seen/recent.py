"""Recent keys: a bounded set of keys that are certainly known or waiting, in front of a store on
disk.

Two generations, each an open-addressed table of keys (8 bytes per slot, at most 3/4 full). When the
newer is full it becomes the older and the older is forgotten: no deletion, no rehashing, no pause.
A generation has twice the slots of the one before it until the limit is reached, so that a small
crawl stays small.

Forgetting is harmless: a key that is met again is written to a waiting file again, and the merge
drops it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lycosa.seen import merge_kernels as kernels
from lycosa.seen.protocol import Keys

_FIRST = 1 << 12


class RecentKeys:
    """At most `limit` bytes (and at least 64 KiB) of keys."""

    def __init__(self, limit: int) -> None:
        self.limit(limit)
        self._recent: Keys = np.zeros(_FIRST, np.uint64)
        self._older: Keys = np.zeros(1, np.uint64)
        self._zeros = np.zeros(2, np.bool_)  # whether the newer, the older generation holds the key 0
        self._room = _FIRST * 3 // 4
        self._fresh = np.empty(256, np.intp)
        self._sink = np.zeros(1, np.uint64)

    def limit(self, limit: int) -> None:
        """Change the limit, in bytes; it holds from the next generation on."""
        self._largest = _FIRST
        while 2 * 8 * (2 * self._largest) <= limit:
            self._largest *= 2

    def certain(self, keys: Keys) -> NDArray[np.bool_]:
        """Which keys are here."""
        found = np.empty(len(keys), np.bool_)
        kernels.probe(keys, self._recent, self._older, self._zeros, self._sink, found)
        return found

    def add(self, keys: Keys) -> NDArray[np.intp]:
        """Add keys; the indices of those that were not here. The array is valid until the next call."""
        if len(keys) > len(self._fresh):
            self._fresh = np.empty(len(keys), np.intp)
        at, count = 0, 0
        while True:
            at, count, self._room = kernels.remember(
                keys, at, self._recent, self._older, self._zeros, self._sink, self._room, self._fresh, count
            )
            if at == len(keys):
                return self._fresh[:count]
            self._older = self._recent
            size = min(self._largest, 2 * len(self._recent))
            self._recent = np.zeros(size, np.uint64)
            self._zeros[1], self._zeros[0] = self._zeros[0], False
            self._room = size * 3 // 4

    @property
    def nbytes(self) -> int:
        return self._recent.nbytes + self._older.nbytes + self._fresh.nbytes
