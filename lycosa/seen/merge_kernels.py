"""Kernels of the stores on disk: grouping waiting records, merging them with sorted keys, and recent keys.

The plain references are in `tests/seen/references.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.url.key_kernels import mix

OFFER, MARK, CHECK = 0, 1, 2
"""The kinds of records in a waiting file; see `waiting`."""

NONE = np.int64(1 << 62)
"""No record."""

_ZERO = np.uint64(0)
_AHEAD = 32


@njit(cache=True, nogil=True)
def group(keys: Any, order: Any, kinds: Any, unique: Any, marked: Any, offer: Any, first: Any) -> Any:
    """Fold records, visited in the order of their keys (stably), into one row per key; returns how many rows.

    A row has the key, whether a mark is among its records, and the first record that is an offer and
    the first that is either (`NONE` if there is none). Keys that are only checked get no row.
    """
    n = -1
    for at in range(order.size):
        record = order[at]
        kind = kinds[record]
        if kind == CHECK:
            continue
        key = keys[record]
        if n < 0 or unique[n] != key:
            n += 1
            unique[n] = key
            marked[n] = False
            offer[n] = NONE
            first[n] = record
        if kind == MARK:
            marked[n] = True
        elif offer[n] == NONE:
            offer[n] = record
    return n + 1


@njit(cache=True, nogil=True)
def merge(
    old: Any,
    old_states: Any,
    i: Any,
    more_old: Any,
    keys: Any,
    states: Any,
    j: Any,
    more_keys: Any,
    out: Any,
    out_states: Any,
    n: Any,
    known: Any,
) -> Any:
    """Merge `old[i:]` with `keys[j:]`, both ascending without repeats, into `out[n:]`; states are or-ed.

    `known[j]` becomes true where a key was among the old. Stops when `out` is full, when one side has ended
    of which there is more to come, and when both have ended. Returns the new (i, j, n).
    """
    end = keys.size
    while n < out.size:
        if j == end and more_keys:
            break
        if i < old.size:
            here = old[i]
            if j == end or here < keys[j]:
                out[n] = here
                out_states[n] = old_states[i]
                i += 1
            elif here == keys[j]:
                out[n] = here
                out_states[n] = old_states[i] | states[j]
                known[j] = True
                i += 1
                j += 1
            else:
                out[n] = keys[j]
                out_states[n] = states[j]
                j += 1
            n += 1
        elif j < end and not more_old:
            out[n] = keys[j]
            out_states[n] = states[j]
            j += 1
            n += 1
        else:
            break
    return i, j, n


@njit(cache=True, nogil=True, inline="always")
def _read_ahead(keys: Any, start: Any, recent: Any, older: Any, sink: Any) -> Any:
    """Read the first slots of some keys together, so that their cache misses overlap.

    The result goes to `sink`, which is not used, lest the compiler leave the reading out.
    """
    mask, older_mask = np.int64(recent.size - 1), np.int64(older.size - 1)
    warm = np.uint64(0)
    for i in range(start, min(start + _AHEAD, keys.size)):
        mixed = np.int64(mix(keys[i]))
        warm += recent[mixed & mask] + older[mixed & older_mask]
    sink[0] = warm


@njit(cache=True, nogil=True)
def probe(keys: Any, recent: Any, older: Any, zeros: Any, sink: Any, found: Any) -> Any:
    """Set `found` for the keys that are in either generation."""
    mask = np.int64(recent.size - 1)
    older_mask = np.int64(older.size - 1)
    for i in range(keys.size):
        if i % _AHEAD == 0 and keys.size > 4:
            _read_ahead(keys, i, recent, older, sink)
        key = keys[i]
        if key == _ZERO:
            found[i] = zeros[0] or zeros[1]
            continue
        mixed = np.int64(mix(key))
        at = mixed & mask
        while recent[at] != _ZERO and recent[at] != key:
            at = (at + 1) & mask
        if recent[at] == key:
            found[i] = True
            continue
        at = mixed & older_mask
        while older[at] != _ZERO and older[at] != key:
            at = (at + 1) & older_mask
        found[i] = older[at] == key


@njit(cache=True, nogil=True)
def remember(
    keys: Any,
    start: Any,
    recent: Any,
    older: Any,
    zeros: Any,
    sink: Any,
    room: Any,
    fresh: Any,
    freshes: Any,
) -> Any:
    """Add keys from `start` on to the newer generation; `fresh[freshes:]` gets the indices of those added.

    Stops when `room` more keys have been added. Returns (where it stopped, freshes, room left).
    """
    mask = np.int64(recent.size - 1)
    older_mask = np.int64(older.size - 1)
    for i in range(start, keys.size):
        if (i - start) % _AHEAD == 0 and keys.size > 4:
            _read_ahead(keys, i, recent, older, sink)
        key = keys[i]
        if key == _ZERO:
            if not (zeros[0] or zeros[1]):
                zeros[0] = True
                fresh[freshes] = i
                freshes += 1
            continue
        mixed = np.int64(mix(key))
        at = mixed & mask
        while recent[at] != _ZERO and recent[at] != key:
            at = (at + 1) & mask
        if recent[at] == key:
            continue
        there = mixed & older_mask
        while older[there] != _ZERO and older[there] != key:
            there = (there + 1) & older_mask
        if older[there] == key:
            continue
        if room == 0:
            return i, freshes, room
        recent[at] = key
        room -= 1
        fresh[freshes] = i
        freshes += 1
    return keys.size, freshes, room
