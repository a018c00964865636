"""Kernels that give waiting URLs new levels.

Hosts are processed one after the other, by slot. The queues of the host at hand are detached from its row
(MOVING_QUEUE is the first that is left) and its URLs are put into new ones, chunk by chunk: a chunk is decoded, its
keys are looked up, and then it is appended level by level, so that the last group of a queue is decoded once per
chunk and not once per URL. How a queue is cut into chunks makes no difference to the order of its URLs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lycosa.compiled import njit
from lycosa.frontier.orders.order import LEVELS, Ranking
from lycosa.frontier.orders.rank_kernels import place_of
from lycosa.frontier.packed.host_kernels import settle_host
from lycosa.frontier.packed.queue_kernels import (
    ATTEMPT,
    DEPTH,
    HOPS,
    append,
    decode,
    drop_head,
    free_queue,
    has_room,
    load_tail,
    new_text,
    queue_of,
    read_head,
)
from lycosa.frontier.packed.store import FREE, GROUP, NO
from lycosa.frontier.packed.view_kernels import fields_of, hosts_of, queues_of, texts_of
from lycosa.frontier.packed.visit_kernels import key_of, write_url

PAUSED, DONE, NO_ROOM, OUTSIDE, ASK = range(5)
"""Why `move` returned: enough were moved; all are moved; there is no room for more; the host at hand has URLs in
flight or put back, which must get new levels; the order must be asked for the rank of the host at hand."""

# The fields of `state`.
CURSOR, END, MOVED, COUNT, NEXT, NEED, STATES = range(7)
"""The slot to look at next, and the one to stop at; URLs moved since the count was set to 0; URLs of the current
chunk, and which of them, by level, is next; bytes for which there was no room; how many fields there are."""

_ASKED = int(Ranking.ASKED)
_ROWS = 1 << 16
"""Rows of hosts without URLs that one call looks at."""


class Chunk(NamedTuple):
    """Buffers: the group being read; the texts of a chunk; for each URL the end of its text, depth, hops, attempt
    and level; and the URLs in the order of their levels."""

    texts: Any
    spans: Any
    data: Any
    ends: Any
    metas: Any
    levels: Any
    order: Any


_HIGH_16 = np.uint64(0xFFFF << 48)


@njit(cache=True, nogil=True)
def _level(keys: Any, levels: Any, other: Any, key: Any, old: Any) -> Any:
    at = place_of(keys, key)
    if at < len(keys) and keys[at] == key:
        return np.int64(levels[at])
    return old if other < 0 else other


@njit(cache=True, nogil=True)
def _gather(
    c: Any, chunk: Any, keys: Any, levels: Any, other: Any, by_host: Any, limit: Any, out: Any
) -> Any:
    """Move at most `limit` URLs from the first queue that is left into the chunk; returns how many."""
    f = fields_of(c)[0]
    queues = queues_of(c)
    slot, q = f.moving, f.moving_queue
    old = np.int64(queues[q].level)
    m = top = np.int64(0)
    k, block, at = read_head(c, chunk.texts, chunk.spans, q)
    while True:
        base, n = chunk.spans[k], chunk.spans[GROUP + k]
        for i in range(n):
            chunk.data[top + i] = chunk.texts[base + i]
        size = write_url(c, slot, chunk.texts, base, n, out)
        top += n
        chunk.ends[m] = top
        chunk.metas[m, 0] = chunk.spans[DEPTH]
        chunk.metas[m, 1] = chunk.spans[HOPS]
        chunk.metas[m, 2] = chunk.spans[ATTEMPT]
        key = key_of(c, out, size)
        if by_host:
            key = (key & _HIGH_16) | np.uint64(hosts_of(c)[slot].hash)
        chunk.levels[m] = _level(keys, levels, other, key, old)
        m += 1
        drop_head(c, q, block, at)
        if queues[q].count == 0:
            f.moving_queue = queues[q].next
            free_queue(c, q)
            return m
        if m == limit or top + f.longest > len(chunk.data):
            return m
        k = np.int64(queues[q].skip)
        if k == 0:  # its blocks before may be gone
            block, at = np.int64(queues[q].head_block), np.int64(queues[q].head_at)
        block, at = decode(c, chunk.texts, chunk.spans, k, block, at)


@njit(cache=True, nogil=True)
def _sort(chunk: Any, m: Any) -> None:
    """Sort the chunk's URLs by level (a stable sort)."""
    starts = np.zeros(LEVELS + 1, np.int64)
    for i in range(m):
        starts[np.int64(chunk.levels[i]) + 1] += 1
    for level in range(LEVELS):
        starts[level + 1] += starts[level]
    for i in range(m):
        at = np.int64(chunk.levels[i])
        chunk.order[starts[at]] = i
        starts[at] += 1


@njit(cache=True, nogil=True)
def _scatter(c: Any, state: Any, chunk: Any) -> Any:
    """Append the chunk to the host's new queues; False if there is no room for the next URL."""
    f = fields_of(c)[0]
    texts = texts_of(c)
    slot = f.moving
    loaded = np.int64(-1)
    while state[NEXT] < state[COUNT]:
        i = np.int64(chunk.order[state[NEXT]])
        start = np.int64(chunk.ends[i - 1]) if i > 0 else np.int64(0)
        n = np.int64(chunk.ends[i]) - start
        if not has_room(c, n, NO):
            state[NEED] = n
            return False
        q = queue_of(c, slot, np.int64(chunk.levels[i]))
        if q != loaded:
            load_tail(c, q)
            loaded = q
        text = new_text(c, q)
        for j in range(n):
            texts[text + j] = chunk.data[start + j]
        append(c, q, n, chunk.metas[i, 0], chunk.metas[i, 1], chunk.metas[i, 2])
        state[NEXT] += 1
        state[MOVED] += 1
    return True


@njit(cache=True, nogil=True)
def _detach(c: Any, state: Any) -> Any:
    """Make the next host that has URLs the one at hand; False if there was none among the rows looked at."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    stop = min(state[END], state[CURSOR] + _ROWS)
    while state[CURSOR] < stop:
        slot = state[CURSOR]
        state[CURSOR] += 1
        host = hosts[slot]
        if host.where != FREE and (host.queue >= 0 or host.back > 0 or host.flying > 0):
            f.moving = slot
            f.moving_queue = host.queue
            hosts[slot].queue = -1
            return True
    return False


@njit(cache=True, nogil=True)
def move(
    c: Any,
    state: Any,
    chunk: Any,
    keys: Any,
    levels: Any,
    other: Any,
    by_host: Any,
    limit: Any,
    one: Any,
    now: Any,
    out: Any,
) -> Any:
    """Move up to `limit` URLs to new levels (with `one`, only of the host at hand); returns why it stopped."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    while True:
        if state[NEXT] < state[COUNT]:
            if not _scatter(c, state, chunk):
                return NO_ROOM
            settle_host(c, now, f.moving)
            if f.ranking == _ASKED:
                return ASK
        if f.moving >= 0 and f.moving_queue < 0:
            f.moving = -1
        if one and f.moving < 0:
            return DONE
        if state[MOVED] >= limit:
            return PAUSED
        if f.moving < 0:
            if not _detach(c, state):
                return DONE if state[CURSOR] >= state[END] else PAUSED
            if hosts[f.moving].back > 0 or hosts[f.moving].flying > 0:
                return OUTSIDE
            continue
        most = min(limit - state[MOVED], len(chunk.ends))
        state[COUNT] = _gather(c, chunk, keys, levels, other, by_host, most, out)
        state[NEXT] = 0
        _sort(chunk, state[COUNT])
