"""Kernels of the packed frontier that put and take URLs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lycosa.frontier.host_kernels import find_or_add, is_active, settle_host, touch
from lycosa.frontier.queue_kernels import append, drop_head, load_tail, new_block, read_head
from lycosa.frontier.store import ACTIVE, ATTEMPT, DEPTH, FREE_QUEUE, GROUP, HOPS, QUEUED, QUEUES, STRIDE
from lycosa.url.key_kernels import xxh64

_LOW_48 = np.uint64((1 << 48) - 1)
_HIGH_16 = np.uint64(0xFFFF << 48)


@njit(cache=True, nogil=True)
def host_span(data: Any, start: Any, end: Any) -> Any:
    """Where the host of a URL begins and ends (`lycosa.url.parts.host_of`)."""
    at = start
    while at + 2 < end and not (data[at] == 58 and data[at + 1] == 47 and data[at + 2] == 47):
        at += 1
    if at + 2 >= end:
        return end, end
    at += 3
    stop = at
    if stop < end and data[stop] == 91:  # an IPv6 address in brackets
        while stop < end and data[stop] != 93 and data[stop] != 47:
            stop += 1
        if stop < end and data[stop] == 93:
            stop += 1
        return at, stop
    while stop < end and data[stop] != 58 and data[stop] != 47:
        stop += 1
    return at, stop


@njit(cache=True, nogil=True)
def queue_of(s: Any, slot: Any, level: Any) -> Any:
    """The host's queue of that level, made if need be."""
    before = np.int64(-1)
    q = np.int64(s.hosts[slot].queue)
    while q >= 0 and s.queues[q].level < level:
        before = q
        q = np.int64(s.queues[q].next)
    if q >= 0 and s.queues[q].level == level:
        return q
    fresh = s.c[FREE_QUEUE]
    if fresh >= 0:
        s.c[FREE_QUEUE] = s.queues[fresh].next
    else:
        fresh = s.c[QUEUES]
        s.c[QUEUES] += 1
    block = new_block(s)
    s.queues[fresh].next = q
    s.queues[fresh].count = 0
    s.queues[fresh].head_block = block
    s.queues[fresh].tail_block = block
    s.queues[fresh].end_block = block
    s.queues[fresh].head_at = 0
    s.queues[fresh].tail_at = 0
    s.queues[fresh].end_at = 0
    s.queues[fresh].skip = 0
    s.queues[fresh].tail_count = 0
    s.queues[fresh].level = level
    if before >= 0:
        s.queues[before].next = fresh
    else:
        s.hosts[slot].queue = fresh
    return fresh


@njit(cache=True, nogil=True)
def put(s: Any, data: Any, ends: Any, metas: Any, now: Any) -> None:
    """Put URLs, `data` cut at `ends`, with rows (level, depth, hops, attempt) of `metas`."""
    start = np.int64(0)
    loaded = np.int64(-1)
    for i in range(len(ends)):
        end = np.int64(ends[i])
        a, z = host_span(data, start, end)
        slot = find_or_add(s, data, a, z)
        touch(s, slot)
        if not is_active(s, slot):
            s.c[ACTIVE] += 1
        q = queue_of(s, slot, metas[i, 0])
        if q != loaded:  # a page's links come in runs of one host and level
            load_tail(s, q)
            loaded = q
        n = np.int64(GROUP * s.c[STRIDE])
        for j in range(start, a):
            s.texts[n] = data[j]
            n += 1
        for j in range(z, end):
            s.texts[n] = data[j]
            n += 1
        append(s, q, n - GROUP * s.c[STRIDE], metas[i, 1], metas[i, 2], metas[i, 3])
        s.hosts[slot].queued += 1
        s.c[QUEUED] += 1
        settle_host(s, now, slot)
        s.slots[i] = slot
        start = end


@njit(cache=True, nogil=True)
def _write_url(s: Any, slot: Any, k: Any, out: Any) -> Any:
    """The URL of a decoded text: the host goes back behind `://`."""
    base = k * s.c[STRIDE]
    n = np.int64(s.lens[k])
    a, _ = host_span(s.texts, base, base + n)
    size = np.int64(0)
    for i in range(base, a):
        out[size] = s.texts[i]
        size += 1
    at = np.int64(s.hosts[slot].name)
    for i in range(np.int64(s.hosts[slot].length)):
        out[size] = s.names[at + i]
        size += 1
    for i in range(a, base + n):
        out[size] = s.texts[i]
        size += 1
    return size


@njit(cache=True, nogil=True)
def key_of(s: Any, data: Any, n: Any) -> Any:
    """`lycosa.url.key.Keyer.key` of the URL data[:n]."""
    a, z = host_span(data, 0, n)
    high = xxh64(data, a, z, s.seed[0]) & _HIGH_16
    return high | (xxh64(data, 0, n, s.seed[0]) & _LOW_48)


@njit(cache=True, nogil=True)
def level_of(s: Any, slot: Any) -> Any:
    """The lowest level at which a host has URLs in queues; -1 if none."""
    q = np.int64(s.hosts[slot].queue)
    return np.int64(-1) if q < 0 else np.int64(s.queues[q].level)


@njit(cache=True, nogil=True)
def _drop(s: Any, slot: Any, before: Any, q: Any, block: Any, at: Any) -> None:
    """Remove the first URL of a queue; `before` is the host's queue before it, or -1."""
    drop_head(s, q, block, at)
    s.hosts[slot].queued -= 1
    s.c[QUEUED] -= 1
    if s.queues[q].count == 0:
        if before >= 0:
            s.queues[before].next = s.queues[q].next
        else:
            s.hosts[slot].queue = s.queues[q].next
        s.queues[q].next = s.c[FREE_QUEUE]
        s.c[FREE_QUEUE] = q


@njit(cache=True, nogil=True)
def take(s: Any, slot: Any, out: Any) -> Any:
    """Take the next URL into `out`: its length (-1: none), level, key, depth, hops, attempt, and how many
    the host's queues still have."""
    q = np.int64(s.hosts[slot].queue)
    if q < 0:
        none = np.int64(0)
        return np.int64(-1), none, np.uint64(0), none, none, none, none
    touch(s, slot)
    level = np.int64(s.queues[q].level)
    k, block, at = read_head(s, q)
    n = _write_url(s, slot, k, out)
    _drop(s, slot, -1, q, block, at)
    s.hosts[slot].flying = 1
    left = np.int64(s.hosts[slot].queued)
    return n, level, key_of(s, out, n), s.c[DEPTH], s.c[HOPS], s.c[ATTEMPT], left


@njit(cache=True, nogil=True)
def drop_if_first(s: Any, slot: Any, url: Any, out: Any) -> Any:
    """Remove the URL wherever it is the first of its level, once per level; how many were removed."""
    touch(s, slot)
    removed = 0
    before = np.int64(-1)
    q = np.int64(s.hosts[slot].queue)
    while q >= 0:
        after = np.int64(s.queues[q].next)
        k, block, at = read_head(s, q)
        n = _write_url(s, slot, k, out)
        same = n == len(url)
        i = 0
        while same and i < n:
            same = out[i] == url[i]
            i += 1
        if same:
            last = s.queues[q].count == 1
            _drop(s, slot, before, q, block, at)
            s.hosts[slot].flying = 1  # as in `take`: the caller settles the host
            removed += 1
            if last:
                q = after
                continue
        before = q
        q = after
    return removed
