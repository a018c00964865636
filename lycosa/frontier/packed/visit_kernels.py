"""Kernels of the packed frontier that put and take URLs."""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.frontier.orders.order import LEVELS
from lycosa.frontier.packed.draw_kernels import biased_queue
from lycosa.frontier.packed.host_kernels import is_active, settle_host, touch
from lycosa.frontier.packed.queue_kernels import (
    ATTEMPT,
    DEPTH,
    HOPS,
    append,
    drop_head,
    free_queue,
    has_room,
    load_tail,
    new_text,
    queue_of,
    read_head,
)
from lycosa.frontier.packed.store import GROUP, NO
from lycosa.frontier.packed.table_kernels import find_or_add
from lycosa.frontier.packed.view_kernels import fields_of, hosts_of, names_of, queues_of, spans_of, texts_of
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
def _same(data: Any, a: Any, z: Any, b: Any, y: Any) -> Any:
    """Whether data[a:z] and data[b:y] are equal."""
    i = 0
    while a + i < z and b + i < y and data[a + i] == data[b + i]:
        i += 1
    return a + i == z and b + i == y


@njit(cache=True, nogil=True)
def put(c: Any, data: Any, numbers: Any, i: Any, now: Any, slots: Any) -> Any:
    """Put URLs from the i-th on: `data` holds the URLs, `numbers` their lengths, then their levels, depths, hops
    and attempts.

    Returns how many are done: all, or those before the one for which there is no room; -1, with none done, if a
    number is out of bounds. `slots` has room for the host of each, or is empty.
    """
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    texts = texts_of(c)
    count = len(numbers) // 5
    if i == 0:
        for j in range(len(numbers)):
            if numbers[j] < 0 or (count <= j < 2 * count and numbers[j] >= LEVELS):
                return np.int64(-1)
    start = np.int64(0)
    for j in range(i):
        start += numbers[j]
    slot = loaded = np.int64(-1)
    a = z = start
    while i < count:
        end = start + numbers[i]
        before_a, before_z = a, z
        a, z = host_span(data, start, end)
        if not has_room(c, end - start, z - a):
            break
        # A page's links come in runs of one host and level.
        if slot < 0 or not _same(data, before_a, before_z, a, z):
            if slot >= 0:
                settle_host(c, now, slot)
            slot = find_or_add(c, data, a, z)
            touch(c, slot)
            if not is_active(c, slot):
                f.active += 1
        q = queue_of(c, slot, numbers[count + i])
        if q != loaded:
            load_tail(c, q)
            loaded = q
        text = n = new_text(c, q)
        for j in range(start, a):
            texts[n] = data[j]
            n += 1
        for j in range(z, end):
            texts[n] = data[j]
            n += 1
        append(c, q, n - text, numbers[2 * count + i], numbers[3 * count + i], numbers[4 * count + i])
        hosts[slot].queued += 1
        f.queued += 1
        if len(slots):
            slots[i] = slot
        start = end
        i += 1
    if slot >= 0:
        settle_host(c, now, slot)
    return i


@njit(cache=True, nogil=True)
def write_url(c: Any, slot: Any, texts: Any, base: Any, n: Any, out: Any) -> Any:
    """Write the URL of a decoded text: the host is inserted again after `://`."""
    hosts = hosts_of(c)
    names = names_of(c)
    a, _ = host_span(texts, base, base + n)
    size = np.int64(0)
    for i in range(base, a):
        out[size] = texts[i]
        size += 1
    at = np.int64(hosts[slot].name)
    for i in range(np.int64(hosts[slot].length)):
        out[size] = names[at + i]
        size += 1
    for i in range(a, base + n):
        out[size] = texts[i]
        size += 1
    return size


@njit(cache=True, nogil=True)
def key_of(c: Any, data: Any, n: Any) -> Any:
    """`lycosa.url.key.Keyer.key` of the URL data[:n]."""
    f = fields_of(c)[0]
    seed = np.uint64(f.seed)
    a, z = host_span(data, NO, n)
    start: Any = NO
    return (xxh64(data, a, z, seed) & _HIGH_16) | (xxh64(data, start, n, seed) & _LOW_48)


@njit(cache=True, nogil=True)
def levels_of(c: Any, slot: Any, levels: Any) -> Any:
    """Write the levels at which a host has URLs in queues to `levels`; returns how many."""
    hosts = hosts_of(c)
    queues = queues_of(c)
    n = 0
    q = np.int64(hosts[slot].queue)
    while q >= 0:
        levels[n] = queues[q].level
        n += 1
        q = np.int64(queues[q].next)
    return n


@njit(cache=True, nogil=True)
def _drop(c: Any, slot: Any, before: Any, q: Any, block: Any, at: Any) -> None:
    """Remove the first URL of a queue; `before` is the host's queue before it, or -1."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    queues = queues_of(c)
    drop_head(c, q, block, at)
    hosts[slot].queued -= 1
    f.queued -= 1
    if queues[q].count == 0:
        if before >= 0:
            queues[before].next = queues[q].next
        else:
            hosts[slot].queue = queues[q].next
        free_queue(c, q)


@njit(cache=True, nogil=True)
def take(c: Any, slot: Any, number: Any, out: Any) -> Any:
    """Take the next URL into `out`; returns its length (-1: none), level, key, depth, hops, attempt, and whether
    the host's queues have more. `number` is that of the draw by which levels are chosen; -1: the lowest."""
    hosts = hosts_of(c)
    queues = queues_of(c)
    texts = texts_of(c)
    spans = spans_of(c)
    q = np.int64(hosts[slot].queue)
    if q < 0:
        none = np.int64(0)
        return np.int64(-1), none, np.uint64(0), none, none, none, False
    before = np.int64(-1)
    if number >= 0 and queues[q].next >= 0:
        q, before = biased_queue(c, slot, number)
    touch(c, slot)
    level = np.int64(queues[q].level)
    k, block, at = read_head(c, texts, spans, q)
    n = write_url(c, slot, texts, spans[k], spans[GROUP + k], out)
    _drop(c, slot, before, q, block, at)
    hosts[slot].flying = 1
    more = hosts[slot].queue >= 0
    return n, level, key_of(c, out, n), spans[DEPTH], spans[HOPS], spans[ATTEMPT], more


@njit(cache=True, nogil=True)
def drop_if_first(c: Any, slot: Any, url: Any, out: Any) -> Any:
    """Remove the URL wherever it is the first of its level, once per level; returns how many were removed."""
    hosts = hosts_of(c)
    queues = queues_of(c)
    texts = texts_of(c)
    spans = spans_of(c)
    touch(c, slot)
    removed = 0
    before = np.int64(-1)
    q = np.int64(hosts[slot].queue)
    while q >= 0:
        after = np.int64(queues[q].next)
        k, block, at = read_head(c, texts, spans, q)
        n = write_url(c, slot, texts, spans[k], spans[GROUP + k], out)
        same = n == len(url)
        i = 0
        while same and i < n:
            same = out[i] == url[i]
            i += 1
        if same:
            last = queues[q].count == 1
            _drop(c, slot, before, q, block, at)
            hosts[slot].flying = 1  # as in `take`: the caller settles the host
            removed += 1
            if last:
                q = after
                continue
        before = q
        q = after
    return removed
