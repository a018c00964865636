"""Kernels of the site table: the pages of its index, and the reading of its frames.

A *page* of the index is an ordered scatter table (Amble and Knuth, Ordered hash tables, 1974), as in
`lycosa.seen.memory_kernels` but with a place beside each hash:

    page = (hash:u64 place:u64) x slots

The *home* of a hash is its bits 24 to 55 scaled to the page's capacity (the top 8 bits name the page). Linear
probing keeps hashes in ascending order, so a search ends at the first that is not smaller, loads of 15/16 are
fit for use, and a page is copied into a larger one in one pass. An empty slot has all ones for its hash and 0
for its place, and the last slot of a page is always empty, so that no search needs a bound. Equal hashes lie
side by side: a hash may have several places, since two names may have one hash.

Frames are those of `lycosa.crawl.site_files`, whose plain reader the tests hold `scan` against.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.url.key_kernels import xxh64

HASH, PLACE = 0, 1
HEAD = 20
"""Bytes of a frame before its name."""

_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_NONE = np.uint64(0)
_LOW_32 = np.uint64(0xFFFFFFFF)
_U24, _U32 = np.uint64(24), np.uint64(32)


def _castagnoli() -> Any:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1).astype(np.uint32)
    return table


_CRC = _castagnoli()


@njit(cache=True, nogil=True)
def _crc32c(data: Any, start: Any, end: Any) -> Any:
    crc = np.uint32(0xFFFFFFFF)
    for at in range(start, end):
        crc = _CRC[(crc ^ np.uint32(data[at])) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    return crc ^ np.uint32(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def _number(data: Any, at: Any, size: int) -> Any:
    value = np.uint64(0)
    for i in range(size):
        value |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return value


@njit(cache=True, nogil=True)
def scan(data: Any, base: Any, seed: Any, hashes: Any, places: Any, replaced: Any) -> Any:
    """Read the whole frames at the beginning of `data`: hash of the name, place, place it replaces.

    `base` is the place of the first byte. Stops at the first frame that is incomplete or not sound, or when
    the arrays are full; returns (frames, bytes they take).
    """
    at: Any = 0
    count = 0
    while at + HEAD <= data.size and count < hashes.size:
        size: Any = np.int64(_number(data, at + 4, 4))
        name: Any = np.int64(_number(data, at + 8, 4))
        end = at + 8 + size
        if size < HEAD - 8 or end > data.size or name > size - (HEAD - 8):
            break
        if np.uint64(_crc32c(data, at + 4, end)) != _number(data, at, 4):
            break
        hashes[count] = xxh64(data, at + HEAD, at + HEAD + name, seed)
        places[count] = base + np.uint64(at)
        replaced[count] = _number(data, at + 12, 8)
        count += 1
        at = end
    return count, at


@njit(cache=True, nogil=True)
def _first(page: Any, capacity: Any, hashed: Any) -> Any:
    """The first slot, from the hash's home on, whose hash is not smaller."""
    at = np.int64((((hashed >> _U24) & _LOW_32) * np.uint64(capacity)) >> _U32)
    while page[at, HASH] < hashed:
        at += 1
    return at


@njit(cache=True, nogil=True)
def nth(page: Any, capacity: Any, hashed: Any, n: Any) -> Any:
    """The n-th place of a hash; 0 if it has no more."""
    at = _first(page, capacity, hashed) + n
    # Equal hashes lie side by side, so a slot n further on either is of this hash or says that there are fewer.
    if at < page.shape[0] and page[at, HASH] == hashed:
        return page[at, PLACE]
    return _NONE


@njit(cache=True, nogil=True)
def replace(page: Any, capacity: Any, hashed: Any, old: Any, new: Any) -> Any:
    """Put one place of a hash for another; False if the hash has no such place."""
    at = _first(page, capacity, hashed)
    while page[at, HASH] == hashed and page[at, PLACE] != _NONE:
        if page[at, PLACE] == old:
            page[at, PLACE] = new
            return True
        at += 1
    return False


@njit(cache=True, nogil=True)
def insert(page: Any, capacity: Any, hashed: Any, place: Any) -> Any:
    """Add a place to a hash; False if the page has no slot left for it."""
    at = _first(page, capacity, hashed)
    while page[at, HASH] == hashed and page[at, PLACE] != _NONE:
        at += 1
    free = at
    while page[free, PLACE] != _NONE:
        free += 1
    if free >= page.shape[0] - 1:
        return False
    while free > at:
        page[free, HASH] = page[free - 1, HASH]
        page[free, PLACE] = page[free - 1, PLACE]
        free -= 1
    page[at, HASH] = hashed
    page[at, PLACE] = place
    return True


@njit(cache=True, nogil=True)
def clear(page: Any) -> None:
    """Make every slot empty."""
    page[:, HASH] = _ONES
    page[:, PLACE] = _NONE


@njit(cache=True, nogil=True)
def copy(old: Any, new: Any, capacity: Any) -> Any:
    """Fill a page from a smaller one, in order; False if it overflows (then a larger one is needed)."""
    clear(new)
    free = np.int64(0)
    last = new.shape[0] - 1
    for at in range(old.shape[0]):
        if old[at, PLACE] == _NONE:
            continue
        home = np.int64((((old[at, HASH] >> _U24) & _LOW_32) * np.uint64(capacity)) >> _U32)
        free = max(home, free)
        if free >= last:
            return False
        new[free, HASH] = old[at, HASH]
        new[free, PLACE] = old[at, PLACE]
        free += 1
    return True


@njit(cache=True, nogil=True)
def put_all(
    page: Any, capacity: Any, room: Any, hashes: Any, places: Any, replaced: Any, rows: Any, start: Any
) -> Any:
    """Of the frames `rows[start:]`, let each take the place of the one it replaces, or be added.

    At most `room` are added. Returns (where it stopped, how many were added).
    """
    added = 0
    for i in range(start, rows.size):
        row = rows[i]
        if replaced[row] != _NONE and replace(page, capacity, hashes[row], replaced[row], places[row]):
            continue
        if added == room or not insert(page, capacity, hashes[row], places[row]):
            return i, added
        added += 1
    return rows.size, added


@njit(cache=True, nogil=True)
def alive(page: Any, capacity: Any, hashes: Any, places: Any, rows: Any, out: Any) -> None:
    """Say in `out` which of the frames `rows` the page knows by hash and place."""
    for i in range(rows.size):
        row = rows[i]
        at = _first(page, capacity, hashes[row])
        out[row] = False
        while page[at, HASH] == hashes[row] and page[at, PLACE] != _NONE:
            if page[at, PLACE] == places[row]:
                out[row] = True
                break
            at += 1
