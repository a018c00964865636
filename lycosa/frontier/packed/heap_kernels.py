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

from lycosa.compiled import njit
from lycosa.frontier.packed.store import FRONT, IDLE, NOWHERE, READY, TIME
from lycosa.frontier.packed.view_kernels import fields_of, front_of, hosts_of, idle_of, ready_of, time_of


@njit(cache=True, nogil=True)
def _heap(c: Any, which: Any) -> Any:
    if which == FRONT:
        return front_of(c)
    if which == TIME:
        return time_of(c)
    if which == READY:
        return ready_of(c)
    return idle_of(c)


@njit(cache=True, nogil=True)
def is_better(c: Any, a: Any, b: Any) -> Any:
    """Whether host `a` is better than host `b` by (class, rank)."""
    hosts = hosts_of(c)
    if hosts[a].tier != hosts[b].tier:
        return hosts[a].tier < hosts[b].tier
    return hosts[a].rank < hosts[b].rank


@njit(cache=True, nogil=True)
def _before(c: Any, which: Any, a: Any, b: Any) -> Any:
    hosts = hosts_of(c)
    if which in (FRONT, READY):
        if is_better(c, np.int64(a), np.int64(b)):
            return True
        if is_better(c, np.int64(b), np.int64(a)):
            return False
    if which != FRONT and hosts[a].ready != hosts[b].ready:
        return hosts[a].ready < hosts[b].ready
    return hosts[a].place < hosts[b].place


@njit(cache=True, nogil=True)
def _up(c: Any, which: Any, heap: Any, i: Any) -> Any:
    hosts = hosts_of(c)
    slot = heap[i]
    while i > 0:
        parent = (i - 1) >> 1
        if not _before(c, which, slot, heap[parent]):
            break
        heap[i] = heap[parent]
        hosts[heap[i]].pos = i
        i = parent
    heap[i] = slot
    hosts[slot].pos = i
    return i


@njit(cache=True, nogil=True)
def _down(c: Any, which: Any, heap: Any, i: Any) -> None:
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    slot = heap[i]
    n = f.heaps[which]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(c, which, heap[child + 1], heap[child]):
            child += 1
        if not _before(c, which, heap[child], slot):
            break
        heap[i] = heap[child]
        hosts[heap[i]].pos = i
        i = child
    heap[i] = slot
    hosts[slot].pos = i


@njit(cache=True, nogil=True)
def first(c: Any, which: Any) -> Any:
    """The host at the top of a heap; -1 if it is empty."""
    f = fields_of(c)[0]
    return np.int64(_heap(c, which)[0]) if f.heaps[which] > 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def enter(c: Any, which: Any, slot: Any) -> None:
    """Put a host that is in no heap into one."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    heap = _heap(c, which)
    i = f.heaps[which]
    heap[i] = slot
    f.heaps[which] += 1
    hosts[slot].where = which
    _up(c, which, heap, i)


@njit(cache=True, nogil=True)
def leave(c: Any, slot: Any) -> None:
    """Take a host out of its heap, if it is in one."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    which = np.int64(hosts[slot].where)
    hosts[slot].where = NOWHERE
    if which > IDLE:
        return
    heap = _heap(c, which)
    i = np.int64(hosts[slot].pos)
    f.heaps[which] -= 1
    n = f.heaps[which]
    if i < n:
        heap[i] = heap[n]
        _down(c, which, heap, _up(c, which, heap, i))


@njit(cache=True, nogil=True)
def moved(c: Any, slot: Any) -> None:
    """Restore the host's heap after a change of the fields by which it is ordered."""
    hosts = hosts_of(c)
    which = np.int64(hosts[slot].where)
    if which <= IDLE:
        heap = _heap(c, which)
        _down(c, which, heap, _up(c, which, heap, np.int64(hosts[slot].pos)))
