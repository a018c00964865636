"""Kernels of the packed frontier's host table: slots, names, the heaps of times, visits, freezing.

A host is a row (`HOST`) at a *slot* that does not change while the host is known. Rows are found by the
XXH64 of the name through a linear-hash table (Litwin, VLDB 1980): `heads` has a chain per bucket, and one
bucket is split per host that is added, so that the table never stops the crawl to grow. Names lie in one
byte array.

Where a host is:

    NOWHERE   it has no URLs in queues, but URLs in flight
    IN_HEAP   it has URLs and waits for its time, in the binary heap `heap` by (ready, place)
    IS_IDLE   it has no URLs, only a time, in the heap `idle`; forgotten when the time has come
    BEGUN     a visit is under way
    RANKED    it has URLs and its time has come; the order's own heap has it
    FREE      the slot has no host

Both heaps know where in them a host is (`pos`), so a changed time is one sift and no entry is ever stale.

Freezing. Before a row or its queues change for the first time in a freeze, `touch` writes the row's
*descriptor* (its numbers and its queues' cursors, not their bytes) to `side`. The freeze works descriptors
off one after the other, and touches the next host itself when there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lycosa.frontier.store import (
    ACTIVE,
    BEGUN,
    BUCKETS,
    EPOCH,
    FIXED,
    FREE,
    FREE_HOST,
    FROZEN,
    GARBAGE,
    HEAP,
    HOSTS,
    IDLE,
    IN_HEAP,
    IS_IDLE,
    LIVE,
    NAMES,
    NOWHERE,
    PER_QUEUE,
    PLACES,
    RANKED,
    SIDE,
)
from lycosa.url.key_kernels import xxh64

_MASK_32 = np.uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def _before(s: Any, a: Any, b: Any) -> Any:
    if s.hosts[a].ready != s.hosts[b].ready:
        return s.hosts[a].ready < s.hosts[b].ready
    return s.hosts[a].place < s.hosts[b].place


@njit(cache=True, nogil=True)
def _up(s: Any, heap: Any, i: Any) -> None:
    slot = heap[i]
    while i > 0:
        parent = (i - 1) >> 1
        if not _before(s, slot, heap[parent]):
            break
        heap[i] = heap[parent]
        s.hosts[heap[i]].pos = i
        i = parent
    heap[i] = slot
    s.hosts[slot].pos = i


@njit(cache=True, nogil=True)
def _down(s: Any, heap: Any, n: Any, i: Any) -> None:
    slot = heap[i]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(s, heap[child + 1], heap[child]):
            child += 1
        if not _before(s, heap[child], slot):
            break
        heap[i] = heap[child]
        s.hosts[heap[i]].pos = i
        i = child
    heap[i] = slot
    s.hosts[slot].pos = i


@njit(cache=True, nogil=True)
def _push(s: Any, heap: Any, which: Any, slot: Any) -> None:
    heap[s.c[which]] = slot
    s.c[which] += 1
    _up(s, heap, s.c[which] - 1)


@njit(cache=True, nogil=True)
def _remove(s: Any, heap: Any, which: Any, slot: Any) -> None:
    i = np.int64(s.hosts[slot].pos)
    s.c[which] -= 1
    if i < s.c[which]:
        last = heap[s.c[which]]
        heap[i] = last
        s.hosts[last].pos = i
        _up(s, heap, i)
        _down(s, heap, s.c[which], np.int64(s.hosts[last].pos))


@njit(cache=True, nogil=True)
def leave(s: Any, slot: Any) -> None:
    """Out of whichever heap it is in."""
    if s.hosts[slot].where == IN_HEAP:
        _remove(s, s.heap, HEAP, slot)
    elif s.hosts[slot].where == IS_IDLE:
        _remove(s, s.idle, IDLE, slot)
    s.hosts[slot].where = NOWHERE


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
    return np.int64(xxh64(data, start, end, s.seed[0]) & _MASK_32)


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
def _grow(s: Any) -> None:
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
    digest = digest_of(s, data, start, end)
    slot = find(s, data, start, end, digest)
    if slot >= 0:
        return slot
    if s.c[LIVE] >= s.c[BUCKETS]:
        _grow(s)
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
    s.hosts[slot].name = s.c[NAMES]
    s.hosts[slot].hash = digest
    s.hosts[slot].chain = s.heads[bucket]
    s.hosts[slot].queue = -1
    s.hosts[slot].queued = 0
    s.hosts[slot].pos = -1
    s.hosts[slot].epoch = s.c[EPOCH]  # it was not there at the last freeze
    s.hosts[slot].length = end - start
    s.hosts[slot].front = 0
    s.hosts[slot].flying = 0
    s.hosts[slot].where = NOWHERE
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
def compact_names(s: Any, fresh: Any) -> None:
    """Copy the names that are in use to `fresh`."""
    top = np.int64(0)
    for slot in range(s.c[HOSTS]):
        if s.hosts[slot].where != FREE:
            at = np.int64(s.hosts[slot].name)
            s.hosts[slot].name = top
            for i in range(np.int64(s.hosts[slot].length)):
                fresh[top + i] = s.names[at + i]
            top += np.int64(s.hosts[slot].length)
    s.c[NAMES] = top
    s.c[GARBAGE] = 0


@njit(cache=True, nogil=True)
def find_host(s: Any, data: Any) -> Any:
    """The slot of the host of that name; -1 if it is not known."""
    return find(s, data, 0, len(data), digest_of(s, data, 0, len(data)))


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
    s.side[at + 4] = n
    s.c[SIDE] = word


@njit(cache=True, nogil=True)
def settle_host(s: Any, now: Any, slot: Any) -> None:
    """Give a host that was changed its place in a heap, or forget it. (`PlainFrontier._enter`.)"""
    where = s.hosts[slot].where
    if where == BEGUN:
        return
    if s.hosts[slot].queued > 0 or s.hosts[slot].front > 0:
        if where not in (IN_HEAP, RANKED):
            leave(s, slot)
            s.hosts[slot].ready = max(s.hosts[slot].ready, now)
            s.hosts[slot].place = s.c[PLACES]
            s.hosts[slot].where = IN_HEAP
            s.c[PLACES] += 1
            _push(s, s.heap, HEAP, slot)
        return
    leave(s, slot)
    s.hosts[slot].place = -1
    if s.hosts[slot].flying:
        return
    if s.hosts[slot].ready > now:
        s.hosts[slot].where = IS_IDLE
        _push(s, s.idle, IDLE, slot)
    else:
        _forget(s, slot)


@njit(cache=True, nogil=True)
def is_active(s: Any, slot: Any) -> Any:
    return s.hosts[slot].queued > 0 or s.hosts[slot].front > 0 or s.hosts[slot].flying > 0


@njit(cache=True, nogil=True)
def set_outside(s: Any, now: Any, slot: Any, flying: Any, front: Any) -> None:
    """Say whether URLs of a host are in flight, or put back, outside the queues."""
    touch(s, slot)
    was = is_active(s, slot)
    s.hosts[slot].flying = flying
    s.hosts[slot].front = front
    s.c[ACTIVE] += np.int64(is_active(s, slot)) - np.int64(was)
    settle_host(s, now, slot)


@njit(cache=True, nogil=True)
def set_ready(s: Any, now: Any, slot: Any, ready: Any) -> None:
    """Let a host wait until `ready` at least."""
    touch(s, slot)
    if ready > s.hosts[slot].ready:
        s.hosts[slot].ready = ready
        if s.hosts[slot].where == IN_HEAP:
            _down(s, s.heap, s.c[HEAP], np.int64(s.hosts[slot].pos))
        elif s.hosts[slot].where == IS_IDLE:
            _down(s, s.idle, s.c[IDLE], np.int64(s.hosts[slot].pos))
        elif s.hosts[slot].where == RANKED:  # its time has not come after all
            s.hosts[slot].where = IN_HEAP
            _push(s, s.heap, HEAP, slot)
    settle_host(s, now, slot)


@njit(cache=True, nogil=True)
def begin(s: Any, now: Any, then: Any, out: Any) -> Any:
    """The longest ready host, which leaves the heap for `then`, and its name's length in `out`; -1: none."""
    for _ in range(8):  # idle hosts go a few at a time: each call adds at most one
        if s.c[IDLE] == 0 or s.hosts[s.idle[0]].ready > now:
            break
        slot = np.int64(s.idle[0])
        touch(s, slot)
        settle_host(s, now, slot)
    if s.c[HEAP] == 0 or s.hosts[s.heap[0]].ready > now:
        return np.int64(-1), np.int64(0)
    slot = np.int64(s.heap[0])
    touch(s, slot)
    _remove(s, s.heap, HEAP, slot)
    s.hosts[slot].where = then
    if then == BEGUN:
        s.hosts[slot].place = -1
    length = np.int64(s.hosts[slot].length)
    at = np.int64(s.hosts[slot].name)
    for i in range(length):
        out[i] = s.names[at + i]
    return slot, length


@njit(cache=True, nogil=True)
def claim(s: Any, now: Any, slot: Any) -> Any:
    """Begin a visit of that host, if none is under way and it is ready; 1 or 0."""
    if s.hosts[slot].where == BEGUN or s.hosts[slot].ready > now:
        return 0
    touch(s, slot)
    leave(s, slot)
    s.hosts[slot].where = BEGUN
    s.hosts[slot].place = -1
    return 1


@njit(cache=True, nogil=True)
def end(s: Any, now: Any, slot: Any, ready: Any, flying: Any, front: Any) -> None:
    """The visit of a host is over."""
    touch(s, slot)
    s.hosts[slot].where = NOWHERE
    s.hosts[slot].ready = max(s.hosts[slot].ready, ready)
    set_outside(s, now, slot, flying, front)


@njit(cache=True, nogil=True)
def begin_ranked(s: Any, slot: Any) -> None:
    """Begin a visit of a host that waits among the ranked."""
    touch(s, slot)
    s.hosts[slot].where = BEGUN
    s.hosts[slot].place = -1
