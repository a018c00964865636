"""Kernels of the packed frontier's hosts: where they wait, visits, freezing.

Where a host is: in one of the four heaps (`heap_kernels.py`), or

    NOWHERE   it has no URLs in queues, but URLs in flight
    BEGUN     a visit is under way
    FREE      the slot has no host

A host in play is in READY, or in TIME, or begun; `playing` says so, and PLAYING counts them. In all kernels, `now`
is the latest time that the frontier was given: no host in TIME has a time up to it (`pass_to` ensures that).
A host in IDLE may have one: it counts as forgotten.

Freezing. Before a row or its queues change for the first time in a freeze, `touch` writes the row's
*descriptor* (its numbers and its queues' cursors, not their bytes) to `side`. The freeze processes descriptors
one after the other, and touches the next host itself when there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.frontier.packed.draw_kernels import rank_again
from lycosa.frontier.packed.heap_kernels import enter, first, is_better, leave, moved
from lycosa.frontier.packed.store import (
    BEGUN,
    D_LENGTH,
    D_NAME,
    D_PLACE,
    D_QUEUES,
    D_READY,
    D_TIER,
    FIXED,
    FRONT,
    IDLE,
    NO,
    NOWHERE,
    PER_QUEUE,
    Q_COUNT,
    Q_END_AT,
    Q_END_BLOCK,
    Q_HEAD_AT,
    Q_HEAD_BLOCK,
    Q_LEVEL,
    Q_SKIP,
    READY,
    TIME,
    YES,
)
from lycosa.frontier.packed.table_kernels import digest_of, find, forget
from lycosa.frontier.packed.view_kernels import fields_of, hosts_of, names_of, queues_of, side_of

# -- where a host waits


@njit(cache=True, nogil=True)
def touch(c: Any, slot: Any) -> None:
    """Write the descriptor of a host that is about to change, if a freeze still needs it."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    queues = queues_of(c)
    side = side_of(c)
    if not f.frozen or np.int64(hosts[slot].epoch) == f.epoch:
        return
    hosts[slot].epoch = f.epoch
    at = f.side_words
    side[at + D_READY] = hosts[slot].ready
    side[at + D_PLACE] = hosts[slot].place
    side[at + D_NAME] = hosts[slot].name
    side[at + D_LENGTH] = hosts[slot].length
    side[at + D_TIER] = hosts[slot].tier
    n = 0
    q = np.int64(hosts[slot].queue)
    word = at + FIXED
    while q >= 0:
        row = queues[q]
        side[word + Q_LEVEL] = row.level
        side[word + Q_COUNT] = row.count
        side[word + Q_SKIP] = row.skip
        side[word + Q_HEAD_BLOCK] = row.head_block
        side[word + Q_HEAD_AT] = row.head_at
        side[word + Q_END_BLOCK] = row.end_block
        side[word + Q_END_AT] = row.end_at
        word += PER_QUEUE
        n += 1
        q = np.int64(row.next)
    side[at + D_QUEUES] = n
    f.side_words = word


@njit(cache=True, nogil=True)
def _play(c: Any, slot: Any, playing: Any) -> None:
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    f.playing += playing - np.int64(hosts[slot].playing)
    hosts[slot].playing = playing


@njit(cache=True, nogil=True)
def _wait(c: Any, now: Any, slot: Any) -> None:
    """Put a host that has URLs into the heap where it belongs."""
    hosts = hosts_of(c)
    if hosts[slot].ready > now:
        enter(c, TIME, slot)
    elif hosts[slot].playing:
        enter(c, READY, slot)
    else:
        enter(c, FRONT, slot)


@njit(cache=True, nogil=True)
def settle_host(c: Any, now: Any, slot: Any) -> None:
    """Put a changed host where it belongs, or forget it. (`PlainFrontier._settle`.)"""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    where = hosts[slot].where
    if where == BEGUN:
        return
    if hosts[slot].queued > 0 or hosts[slot].back > 0:
        another = rank_again(c, slot)
        if where in (FRONT, READY):
            if another:
                moved(c, slot)
        elif where != TIME:
            renew(c, now, slot)
            leave(c, slot)
            hosts[slot].ready = max(hosts[slot].ready, now)
            hosts[slot].place = f.places
            f.places += 1
            if f.back_queues == 0:
                _play(c, slot, YES)
            _wait(c, now, slot)
        return
    leave(c, slot)
    _play(c, slot, NO)
    hosts[slot].place = -1
    if hosts[slot].flying:
        return
    if hosts[slot].ready > now:
        enter(c, IDLE, slot)
    else:
        forget(c, slot)


@njit(cache=True, nogil=True)
def renew(c: Any, now: Any, slot: Any) -> None:
    """Treat a host in IDLE whose time has passed as a new one: it counts as forgotten."""
    hosts = hosts_of(c)
    if hosts[slot].where == IDLE and hosts[slot].ready <= now:
        hosts[slot].tier = 0


@njit(cache=True, nogil=True)
def is_active(c: Any, slot: Any) -> Any:
    hosts = hosts_of(c)
    return hosts[slot].queued > 0 or hosts[slot].back > 0 or hosts[slot].flying > 0


@njit(cache=True, nogil=True)
def _outside(c: Any, slot: Any, flying: Any, back: Any, back_level: Any) -> None:
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    was = is_active(c, slot)
    hosts[slot].flying = flying
    hosts[slot].back = back
    hosts[slot].back_level = back_level
    f.active += np.int64(is_active(c, slot)) - np.int64(was)


@njit(cache=True, nogil=True)
def set_outside(c: Any, now: Any, slot: Any, flying: Any, back: Any, back_level: Any) -> None:
    """Set whether URLs of a host are in flight, how many were put back, and their lowest level."""
    touch(c, slot)
    _outside(c, slot, flying, back, back_level)
    settle_host(c, now, slot)


@njit(cache=True, nogil=True)
def set_back(c: Any, slot: Any, back: Any, back_level: Any) -> None:
    """Set what was put back for a host that is not settled yet."""
    _outside(c, slot, NO, back, back_level)


@njit(cache=True, nogil=True)
def set_ready(c: Any, now: Any, slot: Any, ready: Any) -> None:
    """Let a host wait until `ready` at least."""
    hosts = hosts_of(c)
    touch(c, slot)
    renew(c, now, slot)
    if ready > hosts[slot].ready:
        hosts[slot].ready = ready
        where = hosts[slot].where
        if where in (FRONT, READY) and ready > now:  # its time has not come after all
            leave(c, slot)
            enter(c, TIME, slot)
        else:
            moved(c, slot)
    settle_host(c, now, slot)


@njit(cache=True, nogil=True)
def set_rank(c: Any, slot: Any, rank: Any) -> None:
    """Set the rank that the order gave when it was asked."""
    hosts = hosts_of(c)
    hosts[slot].rank = rank
    moved(c, slot)


@njit(cache=True, nogil=True)
def set_class(c: Any, now: Any, data: Any, to: Any) -> Any:
    """Set the class of the host of that name, if it is known; returns whether it is higher than before."""
    hosts = hosts_of(c)
    slot = find(c, data, NO, len(data), digest_of(c, data, NO, len(data)))
    if slot < 0 or (hosts[slot].where == IDLE and hosts[slot].ready <= now) or hosts[slot].tier == to:
        return False
    higher = to > hosts[slot].tier
    touch(c, slot)
    hosts[slot].tier = to
    moved(c, slot)
    return higher


# -- visits


@njit(cache=True, nogil=True)
def pass_to(c: Any, now: Any) -> None:
    """Advance the time: hosts whose time has come become ready."""
    hosts = hosts_of(c)
    while True:
        slot = first(c, TIME)
        if slot < 0 or hosts[slot].ready > now:
            return
        leave(c, slot)
        _wait(c, now, slot)


@njit(cache=True, nogil=True)
def pass_time(c: Any, now: Any) -> None:
    """`pass_to`, for Python."""
    pass_to(c, now)


@njit(cache=True, nogil=True)
def _begin(c: Any, slot: Any) -> None:
    hosts = hosts_of(c)
    touch(c, slot)
    leave(c, slot)
    _play(c, slot, YES)
    hosts[slot].where = BEGUN
    hosts[slot].place = -1


@njit(cache=True, nogil=True)
def begin(c: Any, now: Any, out: Any) -> Any:
    """Begin a visit of the best ready host; returns its slot, and the length of its name in `out`; -1: none."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    names = names_of(c)
    for _ in range(8):  # idle hosts go a few at a time: each call adds at most one
        slot = first(c, IDLE)
        if slot < 0 or hosts[slot].ready > now:
            break
        touch(c, slot)
        settle_host(c, now, slot)
    pass_to(c, now)
    while f.heaps[FRONT] > 0 and (f.playing < f.back_queues or f.heaps[READY] == 0):
        slot = first(c, FRONT)
        leave(c, slot)
        _play(c, slot, YES)
        enter(c, READY, slot)
    slot = first(c, READY)
    if slot < 0:
        return np.int64(-1), np.int64(0)
    _begin(c, slot)
    length = np.int64(hosts[slot].length)
    at = np.int64(hosts[slot].name)
    for i in range(length):
        out[i] = names[at + i]
    return slot, length


@njit(cache=True, nogil=True)
def claim(c: Any, now: Any, slot: Any) -> Any:
    """Begin a visit of that host if it is ready and none is under way; returns 1, else 0."""
    hosts = hosts_of(c)
    pass_to(c, now)
    if hosts[slot].where == BEGUN or hosts[slot].ready > now:
        return 0
    renew(c, now, slot)
    _begin(c, slot)
    return 1


@njit(cache=True, nogil=True)
def end(c: Any, now: Any, slot: Any, ready: Any, flying: Any, back: Any, back_level: Any) -> None:
    """End the visit of a host. If the order must be asked for ranks, the host's is up to date already."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    touch(c, slot)
    _outside(c, slot, flying, back, back_level)
    hosts[slot].where = NOWHERE
    hosts[slot].ready = max(hosts[slot].ready, ready)
    if f.back_queues > 0 and (hosts[slot].queued > 0 or back > 0):
        rank_again(c, slot)
        if f.playing > f.back_queues or (f.heaps[FRONT] > 0 and is_better(c, first(c, FRONT), slot)):
            _play(c, slot, NO)
    settle_host(c, now, slot)


@njit(cache=True, nogil=True)
def next_ready(c: Any) -> Any:
    """The earliest time of a waiting host with URLs (if some are ready now, that of one of them); inf: none."""
    hosts = hosts_of(c)
    for which in (READY, FRONT, TIME):
        slot = first(c, which)
        if slot >= 0:
            return hosts[slot].ready
    return np.inf
