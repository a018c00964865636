"""Shares: temporary ranks of pages without a rank, as sums of the shares that pages with links to them give.

A bounded table from key to sum (Castillo §6.3, "Partial"): 16 bytes per slot, open addressing, at most three
quarters full. When it is full, new keys are refused and counted; the sums of held keys still grow. It is cleared at
each calculation of ranks, which gives these pages a rank proper.

`PlainShares` does the same with a dictionary; the tests compare the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lycosa.frontier.orders import rank_kernels
from lycosa.url.key import Keys

SLOTS = 1 << 20
Sums = NDArray[np.float64]


class Shares:
    """Sums by key, packed."""

    def __init__(self, slots: int = SLOTS) -> None:
        if slots < 4 or slots & (slots - 1):
            raise ValueError(f"slots must be a power of two of at least 4, not {slots}")
        self._slots = slots
        self._most = slots // 4 * 3
        self.refused = 0
        self.clear()

    def clear(self) -> None:
        """Forget all sums."""
        # The system provides zeroed pages when they are first touched: nothing is written here.
        self._keys = np.zeros(self._slots, np.uint64)
        self._sums = np.zeros(self._slots, np.float64)
        self._held = 0

    def __len__(self) -> int:
        return self._held

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._sums.nbytes

    def add(self, keys: Keys, share: float, ranked: Keys) -> None:
        """Add `share`, above 0, to the sum of each key that is not in `ranked` (ascending)."""
        self._held, refused = rank_kernels.add_share(
            self._keys, self._sums, ranked, keys, share, self._held, self._most
        )
        self.refused += refused

    def read(self, keys: Keys) -> Sums:
        """The sum of each key; 0 where nothing is known."""
        out = np.zeros(len(keys))
        rank_kernels.read_sums(self._keys, self._sums, keys, out)
        return out


class PlainShares:
    """The same with a dictionary."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._most = slots // 4 * 3
        self._sums: dict[int, float] = {}
        self.refused = 0

    def clear(self) -> None:
        self._sums = {}

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, keys: Keys, share: float, ranked: Keys) -> None:
        known = set(ranked.tolist())
        for key in keys.tolist():
            if key in known:
                continue
            if key not in self._sums and len(self._sums) >= self._most:
                self.refused += 1
                continue
            self._sums[key] = self._sums.get(key, 0.0) + share

    def read(self, keys: Keys) -> Sums:
        return np.array([self._sums.get(key, 0.0) for key in keys.tolist()])
