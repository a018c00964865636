"""Kernels of the packed frontier's table of hosts, and of their names.

A host is a row (`HOST`) at a *slot* that does not change while the host is known. Rows are found by the
XXH64 of the name through a linear-hash table (Litwin, VLDB 1980): `heads` has a chain per bucket, and one
bucket is split per host that is added, so that the table never stops the crawl to grow. Names lie in one
byte array; names of forgotten hosts are garbage until `compact_names`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.frontier.packed.store import FREE, NO, NOWHERE
from lycosa.frontier.packed.view_kernels import fields_of, heads_of, hosts_of, names_of
from lycosa.url.key_kernels import xxh64

_MASK_32 = np.uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def _bucket(c: Any, digest: Any) -> Any:
    f = fields_of(c)[0]
    size = np.int64(1)
    while size < f.buckets:
        size <<= 1
    bucket = np.int64(digest) & (size - 1)
    if bucket >= f.buckets:
        bucket &= (size >> 1) - 1
    return bucket


@njit(cache=True, nogil=True)
def digest_of(c: Any, data: Any, start: Any, end: Any) -> Any:
    """32 bits of the host's hash, low ones: keys have the top 16."""
    f = fields_of(c)[0]
    return np.int64(xxh64(data, start, end, np.uint64(f.seed)) & _MASK_32)


@njit(cache=True, nogil=True)
def find(c: Any, data: Any, start: Any, end: Any, digest: Any) -> Any:
    hosts = hosts_of(c)
    heads = heads_of(c)
    names = names_of(c)
    slot = np.int64(heads[_bucket(c, digest)])
    while slot >= 0:
        if np.int64(hosts[slot].hash) == digest and np.int64(hosts[slot].length) == end - start:
            at = np.int64(hosts[slot].name)
            i = 0
            while i < end - start and names[at + i] == data[start + i]:
                i += 1
            if i == end - start:
                return slot
        slot = np.int64(hosts[slot].chain)
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _split(c: Any) -> None:
    """Add a bucket, which takes its share of the hosts of the one that is split."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    heads = heads_of(c)
    fresh = f.buckets
    half = np.int64(1)
    while half * 2 <= fresh:
        half <<= 1
    old = fresh - half
    f.buckets += 1
    slot = np.int64(heads[old])
    heads[old] = -1
    heads[fresh] = -1
    while slot >= 0:
        after = np.int64(hosts[slot].chain)
        bucket = np.int64(hosts[slot].hash) & (2 * half - 1)
        hosts[slot].chain = heads[bucket]
        heads[bucket] = slot
        slot = after


@njit(cache=True, nogil=True)
def find_or_add(c: Any, data: Any, start: Any, end: Any) -> Any:
    """The slot of a host, created if need be: there is room for it."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    heads = heads_of(c)
    names = names_of(c)
    digest = digest_of(c, data, start, end)
    slot = find(c, data, start, end, digest)
    if slot >= 0:
        return slot
    if f.live >= f.buckets:
        _split(c)
    slot = f.free_host
    if slot >= 0:
        f.free_host = hosts[slot].chain
    else:
        slot = f.slots
        f.slots += 1
    f.live += 1
    bucket = _bucket(c, digest)
    hosts[slot].ready = -np.inf
    hosts[slot].place = -1
    hosts[slot].rank = 0.0
    hosts[slot].name = f.name_bytes
    hosts[slot].hash = digest
    hosts[slot].chain = heads[bucket]
    hosts[slot].queue = -1
    hosts[slot].queued = 0
    hosts[slot].pos = -1
    hosts[slot].epoch = f.epoch  # it was not there at the last freeze
    hosts[slot].back = 0
    hosts[slot].length = end - start
    hosts[slot].back_level = 0
    hosts[slot].flying = 0
    hosts[slot].where = NOWHERE
    hosts[slot].tier = 0
    hosts[slot].playing = 0
    heads[bucket] = slot
    for i in range(end - start):
        names[f.name_bytes + i] = data[start + i]
    f.name_bytes += end - start
    return slot


@njit(cache=True, nogil=True)
def forget(c: Any, slot: Any) -> None:
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    heads = heads_of(c)
    bucket = _bucket(c, np.int64(hosts[slot].hash))
    at = np.int64(heads[bucket])
    if at == slot:
        heads[bucket] = hosts[slot].chain
    else:
        while hosts[at].chain != slot:
            at = np.int64(hosts[at].chain)
        hosts[at].chain = hosts[slot].chain
    hosts[slot].where = FREE
    hosts[slot].chain = f.free_host
    f.free_host = slot
    f.live -= 1
    f.garbage += np.int64(hosts[slot].length)


@njit(cache=True, nogil=True)
def compact_names(c: Any, fresh: Any) -> None:
    """Copy the names that are in use to `fresh`."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    names = names_of(c)
    top = np.int64(0)
    for slot in range(f.slots):
        if hosts[slot].where != FREE:
            at = np.int64(hosts[slot].name)
            hosts[slot].name = top
            for i in range(np.int64(hosts[slot].length)):
                fresh[top + i] = names[at + i]
            top += np.int64(hosts[slot].length)
    f.name_bytes = top
    f.garbage = 0


@njit(cache=True, nogil=True)
def find_host(c: Any, data: Any) -> Any:
    """The slot of the host of that name; -1 if it is not known."""
    return find(c, data, NO, len(data), digest_of(c, data, NO, len(data)))


@njit(cache=True, nogil=True)
def add_host(c: Any, data: Any) -> Any:
    """The slot of the host of that name, created if need be; the caller must settle it."""
    return find_or_add(c, data, NO, len(data))


@njit(cache=True, nogil=True)
def queued_of(c: Any, data: Any) -> Any:
    """How many URLs a host has in its queues, those put back included."""
    hosts = hosts_of(c)
    slot = find(c, data, NO, len(data), digest_of(c, data, NO, len(data)))
    return np.int64(0) if slot < 0 else np.int64(hosts[slot].queued) + np.int64(hosts[slot].back)
