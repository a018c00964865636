"""Kernels of the packed frontier's heaps. A host that waits is in exactly one of them:

    FRONT   it has URLs, its time has come, it is not in play     by (class, rank, place)
    TIME    it has URLs and waits for its time, in play or not    by (ready, place)
    READY   it has URLs, its time has come, it is in play         by (class, rank, ready, place)
    IDLE    it has no URLs, only a time; forgotten when it comes  by (ready, place)

All are binary heaps of slots, and a row knows where in its heap it is (`pos`): a change is one sift, and no
entry is ever stale.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lycosa.frontier.store import FRONT, IDLE, NOWHERE, READY, TIME


@njit(cache=True, nogil=True)
def _heap(s: Any, which: Any) -> Any:
    if which == FRONT:
        return s.front
    if which == TIME:
        return s.time
    if which == READY:
        return s.ready
    return s.idle


@njit(cache=True, nogil=True)
def is_better(s: Any, a: Any, b: Any) -> Any:
    """Whether a host is better than another by (class, rank)."""
    if s.hosts[a].tier != s.hosts[b].tier:
        return s.hosts[a].tier < s.hosts[b].tier
    return s.hosts[a].rank < s.hosts[b].rank


@njit(cache=True, nogil=True)
def _before(s: Any, which: Any, a: Any, b: Any) -> Any:
    if which in (FRONT, READY):
        if is_better(s, a, b):
            return True
        if is_better(s, b, a):
            return False
    if which != FRONT and s.hosts[a].ready != s.hosts[b].ready:
        return s.hosts[a].ready < s.hosts[b].ready
    return s.hosts[a].place < s.hosts[b].place


@njit(cache=True, nogil=True)
def _up(s: Any, which: Any, heap: Any, i: Any) -> Any:
    slot = heap[i]
    while i > 0:
        parent = (i - 1) >> 1
        if not _before(s, which, slot, heap[parent]):
            break
        heap[i] = heap[parent]
        s.hosts[heap[i]].pos = i
        i = parent
    heap[i] = slot
    s.hosts[slot].pos = i
    return i


@njit(cache=True, nogil=True)
def _down(s: Any, which: Any, heap: Any, i: Any) -> None:
    slot = heap[i]
    n = s.c[which]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(s, which, heap[child + 1], heap[child]):
            child += 1
        if not _before(s, which, heap[child], slot):
            break
        heap[i] = heap[child]
        s.hosts[heap[i]].pos = i
        i = child
    heap[i] = slot
    s.hosts[slot].pos = i


@njit(cache=True, nogil=True)
def first(s: Any, which: Any) -> Any:
    """The host at the top of a heap; -1 if it is empty."""
    return np.int64(_heap(s, which)[0]) if s.c[which] > 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def enter(s: Any, which: Any, slot: Any) -> None:
    """Into a heap; it is in none."""
    heap = _heap(s, which)
    i = s.c[which]
    heap[i] = slot
    s.c[which] += 1
    s.hosts[slot].where = which
    _up(s, which, heap, i)


@njit(cache=True, nogil=True)
def leave(s: Any, slot: Any) -> None:
    """Out of whichever heap it is in."""
    which = np.int64(s.hosts[slot].where)
    s.hosts[slot].where = NOWHERE
    if which > IDLE:
        return
    heap = _heap(s, which)
    i = np.int64(s.hosts[slot].pos)
    s.c[which] -= 1
    n = s.c[which]
    if i < n:
        heap[i] = heap[n]
        _down(s, which, heap, _up(s, which, heap, i))


@njit(cache=True, nogil=True)
def moved(s: Any, slot: Any) -> None:
    """What the host's heap goes by has changed."""
    which = np.int64(s.hosts[slot].where)
    if which <= IDLE:
        heap = _heap(s, which)
        _down(s, which, heap, _up(s, which, heap, np.int64(s.hosts[slot].pos)))
