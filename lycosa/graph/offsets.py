"""Where each list of a graph starts: an ascending sequence in a few bits an entry (Elias and Fano).

Of each of the m values below u, the low w = ⌊log₂(u/m)⌋ bits lie side by side in `low`. The high part h of
the i-th value is a one at bit h + i of `high`, so that the i-th value is found by the position of the i-th
one; every 64th one's position is kept in `samples`. That is w + 2 bits per entry, one more for the samples: 8
bits for cnr-2000, where plain 64-bit offsets would take more memory than the graph itself.

A gap of g between two values is a run of g/2^w zeros, which an access behind the gap crosses word by word;
all runs together have at most 2m zeros.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from lycosa.graph import bv_kernels

_EVERY = 64  # as in bv_kernels


class Offsets:
    """An immutable ascending sequence."""

    def __init__(self, count: int, most: int, values: Iterable[npt.NDArray[np.int64]]) -> None:
        """`values` in pieces, `count` in all, none above `most`; `ValueError` if they are anything else."""
        self.count = count
        self.width = max(0, (most // max(1, count)).bit_length() - 1)
        self.low = np.zeros((count * self.width + 63) // 64 + 2, dtype=np.uint64)
        self.high = np.zeros(((most >> self.width) + count + 64) // 64 + 1, dtype=np.uint64)
        self.samples = np.zeros(count // _EVERY + 1, dtype=np.int64)
        done, last = 0, 0
        for piece in values:
            if not len(piece):
                continue
            if done + len(piece) > count or piece[0] < last or piece[-1] > most:
                raise ValueError("offsets out of range")
            if np.any(piece[1:] < piece[:-1]):
                raise ValueError("offsets that descend")
            bv_kernels.fill_offsets(piece, done, self.low, self.width, self.high)
            done += len(piece)
            last = int(piece[-1])
        if done != count:
            raise ValueError("too few offsets")
        bv_kernels.sample_offsets(self.high, self.samples)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> int:
        if not 0 <= i < self.count:
            raise IndexError(i)
        return int(self.many(np.array([i], dtype=np.int64))[0])

    def many(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The values at these indices, which must be in range."""
        out = np.empty(len(indices), dtype=np.int64)
        bv_kernels.offsets_of(indices, self.low, self.width, self.high, self.samples, out)
        return out

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self.low.nbytes + self.high.nbytes + self.samples.nbytes
