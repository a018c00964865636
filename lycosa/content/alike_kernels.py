"""Kernels of the index of sketches: its part in memory, a hash table of entries in chains. See `alike`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit

_HALF = np.uint64(32)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def _slot(value: Any, size: int) -> Any:
    return np.int64(((value >> _HALF) * _FACTOR) >> _HALF) & (size - 1)


@njit(cache=True, nogil=True)
def put(entries: Any, nexts: Any, heads: Any, count: int, fresh: Any) -> None:
    """Add entries behind the first `count`."""
    for n in range(fresh.size):
        at = _slot(fresh[n], heads.size)
        entries[count + n] = fresh[n]
        nexts[count + n] = heads[at]
        heads[at] = count + n


@njit(cache=True, nogil=True)
def get(entries: Any, nexts: Any, heads: Any, wanted: Any, out: Any) -> int:
    """Collect the row numbers of all entries with one of the wanted hashes, as many as there is room for."""
    found = 0
    for n in range(wanted.size):
        at = heads[_slot(wanted[n], heads.size)]
        while at >= 0 and found < out.size:
            if entries[at] >> _HALF == wanted[n] >> _HALF:
                out[found] = entries[at] & np.uint64(0xFFFFFFFF)
                found += 1
            at = nexts[at]
    return found
