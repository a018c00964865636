"""Kernels of `lycosa.url.memo`: lookup and insertion in the table of raw hrefs, on the page's bytes.

A memo is nine arrays (made by `lycosa.url.memo.LinkMemo`, with all data of an entry in one line of the processor's
cache):

    slots     int32, a power of two: entry + 1, or 0; open addressing by the low bits of the entry's hash
    hashes    uint64 an entry: XXH64 of the raw bytes, seeded by the context
    contexts  uint64 an entry: what else the answer depends on (see `lycosa.url.memo`)
    places    int32 x 4 an entry: where its raw bytes lie and how many, where its URL lies and how many;
              a length of NONE: the href has no URL, PENDING: it is not resolved yet
    keys      uint64 an entry: the URL's key
    hosts     uint64 an entry: the hash of its host
    stamps    int64 an entry, for callers
    arena     uint8: raw bytes and URLs, one behind the other
    used      int64 x 2: entries, bytes of the arena
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.url.key_kernels import xxh64

NONE, PENDING = -1, -2
FULL = -1


@njit(cache=True, nogil=True)
def find_or_add(
    slots: Any,
    hashes: Any,
    contexts: Any,
    places: Any,
    arena: Any,
    used: Any,
    data: Any,
    start: int,
    stop: int,
    context: Any,
) -> Any:
    """The entry of `data[start:stop]` in a context, added as pending if it is new; FULL: there is no room."""
    mask = np.int64(len(slots) - 1)
    digest = xxh64(data, start, stop, context)
    at = np.int64(digest & np.uint64(mask))
    length = stop - start
    while slots[at] != 0:
        entry = slots[at] - 1
        if hashes[entry] == digest and contexts[entry] == context and places[entry, 1] == length:
            first = places[entry, 0]
            same = True
            for n in range(length):
                if arena[first + n] != data[start + n]:
                    same = False
                    break
            if same:
                return entry
        at = (at + 1) & mask
    entry = used[0]
    if entry >= len(hashes) or used[1] + length > len(arena):
        return FULL
    slots[at] = entry + 1
    hashes[entry] = digest
    contexts[entry] = context
    first = used[1]
    for n in range(length):
        arena[first + n] = data[start + n]
    places[entry, 0], places[entry, 1] = first, length
    places[entry, 2], places[entry, 3] = 0, PENDING
    used[0] = entry + 1
    used[1] = first + length
    return entry


@njit(cache=True, nogil=True)
def fill(
    places: Any,
    keys: Any,
    hosts: Any,
    arena: Any,
    used: Any,
    entries: Any,
    urls: Any,
    ends: Any,
    url_keys: Any,
    url_hosts: Any,
) -> bool:
    """Set the URLs of entries; `ends[n]` is the end of the n-th one's URL in `urls`, NONE where it has none.

    False, with nothing done, if the arena has no room.
    """
    if used[1] + len(urls) > len(arena):
        return False
    start = 0
    row = 0
    at = used[1]
    for n in range(len(ends)):
        stop = ends[n]
        entry = entries[n]
        if stop < 0:
            places[entry, 3] = NONE
            continue
        places[entry, 2] = at
        places[entry, 3] = stop - start
        keys[entry], hosts[entry] = url_keys[row], url_hosts[row]
        row += 1
        for i in range(start, stop):
            arena[at] = urls[i]
            at += 1
        start = stop + 1
    used[1] = at
    return True
