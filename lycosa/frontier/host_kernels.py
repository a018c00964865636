"""Kernels of the packed frontier's hosts: the table, their names, where they wait, visits, freezing.

A host is a row (`HOST`) at a *slot* that does not change while the host is known. Rows are found by the
XXH64 of the name through a linear-hash table (Litwin, VLDB 1980): `heads` has a chain per bucket, and one
bucket is split per host that is added, so that the table never stops the crawl to grow. Names lie in one
byte array.

Where a host is: in one of the four heaps (`heap_kernels.py`), or

    NOWHERE   it has no URLs in queues, but URLs in flight
    BEGUN     a visit is under way
    FREE      the slot has no host

A host in play is in READY, or in TIME, or begun; `playing` says so, and PLAYING counts them. `now` is, in all
kernels, the latest time that the frontier was told: no host in TIME has a time up to it (`pass_to` sees to that).
A host in IDLE may: it is as good as forgotten.

Freezing. Before a row or its queues change for the first time in a freeze, `touch` writes the row's
*descriptor* (its numbers and its queues' cursors, not their bytes) to `side`. The freeze works descriptors
off one after the other, and touches the next host itself when there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lycosa.frontier.draw_kernels import rank_again
from lycosa.frontier.heap_kernels import enter, first, is_better, leave, moved
from lycosa.frontier.store import (
    ACTIVE,
    BACK,
    BEGUN,
    BUCKETS,
    EPOCH,
    FIXED,
    FREE,
    FREE_HOST,
    FRONT,
    FROZEN,
    GARBAGE,
    HOSTS,
    IDLE,
    IN_FRONT,
    IN_READY,
    LIVE,
    NAMES,
    NOWHERE,
    PER_QUEUE,
    PLACES,
    PLAYING,
    READY,
    SEED,
    SIDE,
    TIME,
)
from lycosa.frontier.view_kernels import view
from lycosa.url.key_kernels import xxh64

_MASK_32 = np.uint64(0xFFFFFFFF)


# -- the table


@njit(cache=True, nogil=True)
def _bucket(s: Any, digest: Any) -> Any:
    size = np.int64(1)
    while size < s.c[BUCKETS]:
        size <<= 1
    bucket = np.int64(digest) & (size - 1)
    if bucket >= s.c[BUCKETS]:
        bucket &= (size >> 1) - 1
    return bucket


@njit(cache=True, nogil=True)
def digest_of(s: Any, data: Any, start: Any, end: Any) -> Any:
    """32 bits of the host's hash, low ones: keys have the top 16."""
    return np.int64(xxh64(data, start, end, np.uint64(s.c[SEED])) & _MASK_32)


@njit(cache=True, nogil=True)
def find(s: Any, data: Any, start: Any, end: Any, digest: Any) -> Any:
    slot = np.int64(s.heads[_bucket(s, digest)])
    while slot >= 0:
        if np.int64(s.hosts[slot].hash) == digest and np.int64(s.hosts[slot].length) == end - start:
            at = np.int64(s.hosts[slot].name)
            i = 0
            while i < end - start and s.names[at + i] == data[start + i]:
                i += 1
            if i == end - start:
                return slot
        slot = np.int64(s.hosts[slot].chain)
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _split(s: Any) -> None:
    """One more bucket, which takes its share of the one it splits."""
    fresh = s.c[BUCKETS]
    half = np.int64(1)
    while half * 2 <= fresh:
        half <<= 1
    old = fresh - half
    s.c[BUCKETS] += 1
    slot = np.int64(s.heads[old])
    s.heads[old] = -1
    s.heads[fresh] = -1
    while slot >= 0:
        after = np.int64(s.hosts[slot].chain)
        bucket = np.int64(s.hosts[slot].hash) & (2 * half - 1)
        s.hosts[slot].chain = s.heads[bucket]
        s.heads[bucket] = slot
        slot = after


@njit(cache=True, nogil=True)
def find_or_add(s: Any, data: Any, start: Any, end: Any) -> Any:
    """The slot of a host, made if need be: there is room for it."""
    digest = digest_of(s, data, start, end)
    slot = find(s, data, start, end, digest)
    if slot >= 0:
        return slot
    if s.c[LIVE] >= s.c[BUCKETS]:
        _split(s)
    slot = s.c[FREE_HOST]
    if slot >= 0:
        s.c[FREE_HOST] = s.hosts[slot].chain
    else:
        slot = s.c[HOSTS]
        s.c[HOSTS] += 1
    s.c[LIVE] += 1
    bucket = _bucket(s, digest)
    s.hosts[slot].ready = -np.inf
    s.hosts[slot].place = -1
    s.hosts[slot].rank = 0.0
    s.hosts[slot].name = s.c[NAMES]
    s.hosts[slot].hash = digest
    s.hosts[slot].chain = s.heads[bucket]
    s.hosts[slot].queue = -1
    s.hosts[slot].queued = 0
    s.hosts[slot].pos = -1
    s.hosts[slot].epoch = s.c[EPOCH]  # it was not there at the last freeze
    s.hosts[slot].back = 0
    s.hosts[slot].length = end - start
    s.hosts[slot].back_level = 0
    s.hosts[slot].flying = 0
    s.hosts[slot].where = NOWHERE
    s.hosts[slot].tier = 0
    s.hosts[slot].playing = 0
    s.heads[bucket] = slot
    for i in range(end - start):
        s.names[s.c[NAMES] + i] = data[start + i]
    s.c[NAMES] += end - start
    return slot


@njit(cache=True, nogil=True)
def _forget(s: Any, slot: Any) -> None:
    bucket = _bucket(s, np.int64(s.hosts[slot].hash))
    at = np.int64(s.heads[bucket])
    if at == slot:
        s.heads[bucket] = s.hosts[slot].chain
    else:
        while s.hosts[at].chain != slot:
            at = np.int64(s.hosts[at].chain)
        s.hosts[at].chain = s.hosts[slot].chain
    s.hosts[slot].where = FREE
    s.hosts[slot].chain = s.c[FREE_HOST]
    s.c[FREE_HOST] = slot
    s.c[LIVE] -= 1
    s.c[GARBAGE] += np.int64(s.hosts[slot].length)


@njit(cache=True, nogil=True)
def compact_names(c: Any, fresh: Any) -> None:
    """Copy the names that are in use to `fresh`."""
    s = view(c)
    top = np.int64(0)
    for slot in range(c[HOSTS]):
        if s.hosts[slot].where != FREE:
            at = np.int64(s.hosts[slot].name)
            s.hosts[slot].name = top
            for i in range(np.int64(s.hosts[slot].length)):
                fresh[top + i] = s.names[at + i]
            top += np.int64(s.hosts[slot].length)
    c[NAMES] = top
    c[GARBAGE] = 0


@njit(cache=True, nogil=True)
def find_host(c: Any, data: Any) -> Any:
    """The slot of the host of that name; -1 if it is not known."""
    s = view(c)
    return find(s, data, 0, len(data), digest_of(s, data, 0, len(data)))


@njit(cache=True, nogil=True)
def add_host(c: Any, data: Any) -> Any:
    """The slot of the host of that name, made if need be; the caller has it settled."""
    return find_or_add(view(c), data, 0, len(data))


@njit(cache=True, nogil=True)
def queued_of(c: Any, data: Any) -> Any:
    """URLs of a host in its queues, those put back included."""
    s = view(c)
    slot = find(s, data, 0, len(data), digest_of(s, data, 0, len(data)))
    return np.int64(0) if slot < 0 else np.int64(s.hosts[slot].queued) + np.int64(s.hosts[slot].back)


# -- where a host waits


@njit(cache=True, nogil=True)
def touch(s: Any, slot: Any) -> None:
    """Write the descriptor of a host that is about to change, if a freeze still needs it."""
    if not s.c[FROZEN] or np.int64(s.hosts[slot].epoch) == s.c[EPOCH]:
        return
    s.hosts[slot].epoch = s.c[EPOCH]
    at = s.c[SIDE]
    s.side[at] = s.hosts[slot].ready
    s.side[at + 1] = s.hosts[slot].place
    s.side[at + 2] = s.hosts[slot].name
    s.side[at + 3] = s.hosts[slot].length
    s.side[at + 4] = s.hosts[slot].tier
    n = 0
    q = np.int64(s.hosts[slot].queue)
    word = at + FIXED
    while q >= 0:
        row = s.queues[q]
        s.side[word] = row.level
        s.side[word + 1] = row.count
        s.side[word + 2] = row.skip
        s.side[word + 3] = row.head_block
        s.side[word + 4] = row.head_at
        s.side[word + 5] = row.end_block
        s.side[word + 6] = row.end_at
        word += PER_QUEUE
        n += 1
        q = np.int64(row.next)
    s.side[at + 5] = n
    s.c[SIDE] = word


@njit(cache=True, nogil=True)
def _play(s: Any, slot: Any, playing: Any) -> None:
    s.c[PLAYING] += playing - np.int64(s.hosts[slot].playing)
    s.hosts[slot].playing = playing


@njit(cache=True, nogil=True)
def _wait(s: Any, now: Any, slot: Any) -> None:
    """Into the heap of a host that has URLs."""
    if s.hosts[slot].ready > now:
        enter(s, TIME, slot)
    elif s.hosts[slot].playing:
        enter(s, READY, slot)
    else:
        enter(s, FRONT, slot)


@njit(cache=True, nogil=True)
def settle_host(s: Any, now: Any, slot: Any) -> None:
    """Have a host that was changed where it belongs, or forget it. (`PlainFrontier._settle`.)"""
    where = s.hosts[slot].where
    if where == BEGUN:
        return
    if s.hosts[slot].queued > 0 or s.hosts[slot].back > 0:
        rank_again(s, slot)
        if where in (FRONT, READY):
            moved(s, slot)
        elif where != TIME:
            renew(s, now, slot)
            leave(s, slot)
            s.hosts[slot].ready = max(s.hosts[slot].ready, now)
            s.hosts[slot].place = s.c[PLACES]
            s.c[PLACES] += 1
            if s.c[BACK] == 0:
                _play(s, slot, 1)
            _wait(s, now, slot)
        return
    leave(s, slot)
    _play(s, slot, 0)
    s.hosts[slot].place = -1
    if s.hosts[slot].flying:
        return
    if s.hosts[slot].ready > now:
        enter(s, IDLE, slot)
    else:
        _forget(s, slot)


@njit(cache=True, nogil=True)
def renew(s: Any, now: Any, slot: Any) -> None:
    """A host that was as good as forgotten is met again: it is a new one."""
    if s.hosts[slot].where == IDLE and s.hosts[slot].ready <= now:
        s.hosts[slot].tier = 0


@njit(cache=True, nogil=True)
def is_active(s: Any, slot: Any) -> Any:
    return s.hosts[slot].queued > 0 or s.hosts[slot].back > 0 or s.hosts[slot].flying > 0


@njit(cache=True, nogil=True)
def _outside(s: Any, slot: Any, flying: Any, back: Any, back_level: Any) -> None:
    was = is_active(s, slot)
    s.hosts[slot].flying = flying
    s.hosts[slot].back = back
    s.hosts[slot].back_level = back_level
    s.c[ACTIVE] += np.int64(is_active(s, slot)) - np.int64(was)


@njit(cache=True, nogil=True)
def set_outside(c: Any, now: Any, slot: Any, flying: Any, back: Any, back_level: Any) -> None:
    """Say whether URLs of a host are in flight, how many were put back, and their lowest level."""
    s = view(c)
    touch(s, slot)
    _outside(s, slot, flying, back, back_level)
    settle_host(s, now, slot)


@njit(cache=True, nogil=True)
def set_back(c: Any, slot: Any, back: Any, back_level: Any) -> None:
    """Say what was put back, of a host that is not settled yet."""
    _outside(view(c), slot, 0, back, back_level)


@njit(cache=True, nogil=True)
def set_ready(c: Any, now: Any, slot: Any, ready: Any) -> None:
    """Let a host wait until `ready` at least."""
    s = view(c)
    touch(s, slot)
    renew(s, now, slot)
    if ready > s.hosts[slot].ready:
        s.hosts[slot].ready = ready
        where = s.hosts[slot].where
        if where in (FRONT, READY) and ready > now:  # its time has not come after all
            leave(s, slot)
            enter(s, TIME, slot)
        else:
            moved(s, slot)
    settle_host(s, now, slot)


@njit(cache=True, nogil=True)
def set_rank(c: Any, slot: Any, rank: Any) -> None:
    """What the order said, when it was asked."""
    s = view(c)
    s.hosts[slot].rank = rank
    moved(s, slot)


@njit(cache=True, nogil=True)
def set_class(c: Any, now: Any, data: Any, to: Any) -> Any:
    """Give the host of that name its class, if it is known; whether it is higher than before."""
    s = view(c)
    slot = find(s, data, 0, len(data), digest_of(s, data, 0, len(data)))
    if slot < 0 or (s.hosts[slot].where == IDLE and s.hosts[slot].ready <= now):
        return False
    if s.hosts[slot].tier == to:
        return False
    higher = to > s.hosts[slot].tier
    touch(s, slot)
    s.hosts[slot].tier = to
    moved(s, slot)
    return higher


# -- visits


@njit(cache=True, nogil=True)
def pass_to(s: Any, now: Any) -> None:
    """Time goes on: hosts whose time has come are found ready."""
    while True:
        slot = first(s, TIME)
        if slot < 0 or s.hosts[slot].ready > now:
            return
        leave(s, slot)
        _wait(s, now, slot)


@njit(cache=True, nogil=True)
def pass_time(c: Any, now: Any) -> None:
    """`pass_to`, for Python."""
    pass_to(view(c), now)


@njit(cache=True, nogil=True)
def _begin(s: Any, slot: Any) -> None:
    touch(s, slot)
    leave(s, slot)
    _play(s, slot, 1)
    s.hosts[slot].where = BEGUN
    s.hosts[slot].place = -1


@njit(cache=True, nogil=True)
def begin(c: Any, now: Any, out: Any) -> Any:
    """Begin a visit of the best host that is ready: its slot, and its name's length in `out`; -1: none is."""
    s = view(c)
    for _ in range(8):  # idle hosts go a few at a time: each call adds at most one
        slot = first(s, IDLE)
        if slot < 0 or s.hosts[slot].ready > now:
            break
        touch(s, slot)
        settle_host(s, now, slot)
    pass_to(s, now)
    while c[IN_FRONT] > 0 and (c[PLAYING] < c[BACK] or c[IN_READY] == 0):
        slot = first(s, FRONT)
        leave(s, slot)
        _play(s, slot, 1)
        enter(s, READY, slot)
    slot = first(s, READY)
    if slot < 0:
        return np.int64(-1), np.int64(0)
    _begin(s, slot)
    length = np.int64(s.hosts[slot].length)
    at = np.int64(s.hosts[slot].name)
    for i in range(length):
        out[i] = s.names[at + i]
    return slot, length


@njit(cache=True, nogil=True)
def claim(c: Any, now: Any, slot: Any) -> Any:
    """Begin a visit of that host, if none is under way and it is ready; 1 or 0."""
    s = view(c)
    pass_to(s, now)
    if s.hosts[slot].where == BEGUN or s.hosts[slot].ready > now:
        return 0
    renew(s, now, slot)
    _begin(s, slot)
    return 1


@njit(cache=True, nogil=True)
def end(c: Any, now: Any, slot: Any, ready: Any, flying: Any, back: Any, back_level: Any) -> None:
    """The visit of a host is over. Its rank is right, if the order is to be asked."""
    s = view(c)
    touch(s, slot)
    _outside(s, slot, flying, back, back_level)
    s.hosts[slot].where = NOWHERE
    s.hosts[slot].ready = max(s.hosts[slot].ready, ready)
    if c[BACK] > 0 and (s.hosts[slot].queued > 0 or back > 0):
        rank_again(s, slot)
        if c[PLAYING] > c[BACK] or (c[IN_FRONT] > 0 and is_better(s, first(s, FRONT), slot)):
            _play(s, slot, 0)
    settle_host(s, now, slot)


@njit(cache=True, nogil=True)
def next_ready(c: Any) -> Any:
    """The earliest time of a host that waits with URLs: of those ready now, that of one of them; inf: none."""
    s = view(c)
    for which in (READY, FRONT, TIME):
        slot = first(s, which)
        if slot >= 0:
            return s.hosts[slot].ready
    return np.inf
