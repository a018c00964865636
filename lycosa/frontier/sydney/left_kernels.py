"""Kernels of the store of left-behind entries: the table of queues, the pool of tails, blocks to be written.

`left_store.py` has the arrays. Rows are dense and in the order of the round: row 0 is OTHERS, which always exists;
those from 1 up to `next_row` were named in this round, or were added in it; those from there up to `queues` are
still to be named. A new row is put at `next_row`; the place of a removed one is filled from the ends of the two
parts, so the array can shrink with the number of queues. Rows are found by their mixed number through a linear-hash
table (Litwin, VLDB 1980) that grows and shrinks by one bucket at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lycosa.compiled import Later, njit
from lycosa.frontier.field_kernels import start
from lycosa.frontier.sydney.left_store import BLOCK, ENTRY_WORDS, FIELDS, HEAD_WORDS, STRETCH
from lycosa.url.key_kernels import mix

carray: Any = Later("numba", "carray")

DONE, SPILL, ROOM = range(3)
"""The results of `push`: it is in; the pool must be written first; some array must grow first."""
NOTHING, GOT, GOT_TRIM, RUN, CHAIN = range(5)
"""The results of `pop`."""

_LOW = 0xFFFFFFFF


# -- checksums


def _tables() -> NDArray[np.int64]:
    """Tables for CRC-32C four bytes at a time: the effect of a byte with 0 to 3 bytes after it."""
    tables = np.zeros((4, 256), np.int64)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        tables[0, byte] = crc
    for after in range(1, 4):
        crcs = tables[after - 1]
        tables[after] = crcs >> 8 ^ tables[0][crcs & 255]
    return tables


_TABLES = _tables()


@njit(cache=True, nogil=True, inline="always")
def _crc(crc: Any, word: Any) -> Any:
    x = crc ^ word
    return (
        _TABLES[3, x & 255]
        ^ _TABLES[2, x >> 8 & 255]
        ^ _TABLES[1, x >> 16 & 255]
        ^ _TABLES[0, x >> 24]
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _crc_of_queue(queue: Any) -> Any:
    """The unfinished CRC of a queue's number, with which every check of the queue begins."""
    crc = _crc(np.int64(_LOW), np.int64(queue & np.uint64(_LOW)))
    return _crc(crc, np.int64(queue >> np.uint64(32)))


@njit(cache=True, nogil=True)
def unsound(words: Any, queue: Any) -> Any:
    """The first of some entries whose check does not hold; -1 if all hold."""
    begin = _crc_of_queue(queue)
    for at in range(0, len(words), ENTRY_WORDS):
        crc = begin
        for i in range(3):
            crc = _crc(crc, np.int64(words[at + i]))
        if crc ^ _LOW != np.int64(words[at + 3]):
            return at // ENTRY_WORDS
    return -1


@njit(cache=True, nogil=True, forceinline=True)
def fields_of(c: Any) -> Any:
    """The named fields: `fields_of(s.c)[0]` is their record."""
    return carray(start(c), (1,), FIELDS)


# -- the table


@njit(cache=True, nogil=True)
def _bucket(s: Any, queue: Any) -> Any:
    f = fields_of(s.c)[0]
    size = np.int64(1)
    while size < f.buckets:
        size <<= 1
    bucket = np.int64(mix(queue)) & (size - 1)
    if bucket >= f.buckets:
        bucket &= (size >> 1) - 1
    return bucket


@njit(cache=True, nogil=True)
def _find(s: Any, queue: Any) -> Any:
    if queue == np.uint64(0):
        return np.int64(0)
    slot = np.int64(s.heads[_bucket(s, queue)])
    while slot >= 0 and s.rows[slot].queue != queue:
        slot = np.int64(s.rows[slot].link)
    return slot


@njit(cache=True, nogil=True)
def _point(s: Any, slot: Any, to: Any) -> None:
    """Let the link that points at a row of the table point at another one."""
    bucket = _bucket(s, s.rows[slot].queue)
    at = np.int64(s.heads[bucket])
    if at == slot:
        s.heads[bucket] = to
        return
    while np.int64(s.rows[at].link) != slot:
        at = np.int64(s.rows[at].link)
    s.rows[at].link = to


@njit(cache=True, nogil=True)
def _move(s: Any, slot: Any, to: Any) -> None:
    _point(s, slot, to)
    s.rows[to] = s.rows[slot]
    if s.rows[to].tail >= 0:
        s.pool[s.rows[to].tail].row = to


@njit(cache=True, nogil=True)
def _resize_table(s: Any) -> None:
    """Add or remove a bucket: its rows are split off from, or joined with, those of its half."""
    f = fields_of(s.c)[0]
    queues = f.queues - 1
    buckets = f.buckets
    if queues > buckets:
        edge, fresh = buckets, buckets + 1
    elif buckets > 1 and 2 * queues < buckets:
        edge, fresh = buckets - 1, buckets - 1
    else:
        return
    half = np.int64(1)
    while half * 2 <= edge:
        half <<= 1
    first = np.int64(s.heads[edge - half])
    second = np.int64(s.heads[edge]) if fresh <= edge else np.int64(-1)
    s.heads[edge - half] = -1
    if fresh > edge:
        s.heads[edge] = -1
    f.buckets = fresh
    for slot in (first, second):
        while slot >= 0:
            after = np.int64(s.rows[slot].link)
            bucket = _bucket(s, s.rows[slot].queue)
            s.rows[slot].link = s.heads[bucket]
            s.heads[bucket] = slot
            slot = after


@njit(cache=True, nogil=True)
def _add(s: Any, queue: Any) -> Any:
    """Add a row for a queue that has none; there must be room."""
    f = fields_of(s.c)[0]
    slot = f.next_row
    if slot < f.queues:
        _move(s, slot, f.queues)
    f.queues += 1
    f.next_row += 1
    bucket = _bucket(s, queue)
    s.rows[slot].queue = queue
    s.rows[slot].link = s.heads[bucket]
    s.rows[slot].tail = -1
    s.rows[slot].left = 0
    s.rows[slot].count = 0
    s.rows[slot].blocks = 0
    s.heads[bucket] = slot
    _resize_table(s)
    return slot


@njit(cache=True, nogil=True)
def _took(s: Any, slot: Any) -> Any:
    """Count an entry of a row as gone, and remove the row if it was the last; whether arrays are far too large."""
    f = fields_of(s.c)[0]
    f.entries -= 1
    s.rows[slot].count -= 1
    if s.rows[slot].count > 0 or slot == 0:
        return False
    _point(s, slot, np.int64(s.rows[slot].link))
    if slot < f.next_row:
        f.next_row -= 1
        if slot < f.next_row:
            _move(s, f.next_row, slot)
        slot = f.next_row
    f.queues -= 1
    if slot < f.queues:
        _move(s, f.queues, slot)
    _resize_table(s)  # twice, since it may have two buckets for each queue
    _resize_table(s)
    return len(s.rows) > 2 * f.queues + 1024


# -- entries


@njit(cache=True, nogil=True)
def push(s: Any, queue: Any, position: Any, cursor: Any) -> Any:
    """Add an entry at the end of a queue; DONE, or what must be done first."""
    f = fields_of(s.c)[0]
    if f.pooled >= f.tails:
        return SPILL
    slot = _find(s, queue)
    if slot < 0 and (f.queues >= len(s.rows) or f.buckets >= len(s.heads)):
        return ROOM
    if f.free < 0 and f.top >= len(s.pool):
        return ROOM
    if slot < 0:
        slot = _add(s, queue)
    i = f.free
    if i >= 0:
        f.free = s.pool[i].next
    else:
        i = f.top
        f.top += 1
    f.pooled += 1
    f.entries += 1
    last = np.int64(s.rows[slot].tail)
    s.pool[i].position = position
    s.pool[i].cursor = cursor
    s.pool[i].row = slot
    if last < 0:
        s.pool[i].next = i
        s.pool[i].size = 1
    else:
        s.pool[i].next = s.pool[last].next
        s.pool[i].size = s.pool[last].size + 1
        s.pool[last].next = i
        s.pool[last].size = 0
    s.rows[slot].tail = i
    s.rows[slot].count += 1
    return DONE


@njit(cache=True, nogil=True)
def pop(s: Any, queue: Any) -> Any:
    """The first entry of a queue, if it is in RAM.

    (NOTHING, -, -); (GOT or GOT_TRIM, position, cursor); (RUN, its address, row): read it and call `advance`;
    (CHAIN, row, blocks): make a run of the oldest stretch, call `set_run`, ask again.
    """
    f = fields_of(s.c)[0]
    slot = _find(s, queue)
    if slot < 0 or s.rows[slot].count == 0:
        return NOTHING, np.int64(0), np.int64(0)
    if s.rows[slot].left > 0:
        return RUN, np.int64(s.rows[slot].run) | np.int64(s.rows[slot].run_top) << 32, slot
    if s.rows[slot].blocks > 0:
        return CHAIN, slot, np.int64(s.rows[slot].blocks)
    last = np.int64(s.rows[slot].tail)
    i = np.int64(s.pool[last].next)
    if i == last:
        s.rows[slot].tail = -1
    else:
        s.pool[last].next = s.pool[i].next
        s.pool[last].size -= 1
    position, cursor = np.int64(s.pool[i].position), np.int64(s.pool[i].cursor)
    s.pool[i].next = f.free
    s.pool[i].size = 0
    f.free = i
    f.pooled -= 1
    return (GOT_TRIM if _took(s, slot) else GOT), position, cursor


@njit(cache=True, nogil=True)
def _set_run(s: Any, slot: Any, address: Any, left: Any) -> None:
    s.rows[slot].run = address & _LOW
    s.rows[slot].run_top = address >> 32
    s.rows[slot].left = left


@njit(cache=True, nogil=True)
def advance(s: Any, slot: Any) -> Any:
    """Remove the first entry of a row's run, which was read; returns whether to `trim`."""
    address = np.int64(s.rows[slot].run) | np.int64(s.rows[slot].run_top) << 32
    _set_run(s, slot, address + 4 * ENTRY_WORDS, s.rows[slot].left - 1)
    return _took(s, slot)


@njit(cache=True, nogil=True)
def set_run(s: Any, slot: Any, address: Any, left: Any, blocks: Any) -> None:
    """Replace the oldest `blocks` blocks of a row by a run."""
    _set_run(s, slot, address, left)
    s.rows[slot].blocks -= blocks


@njit(cache=True, nogil=True)
def newest(s: Any, slot: Any) -> Any:
    """The addresses of the newest block of a row's chain, and of the last of the stretch before."""
    return (
        np.int64(s.rows[slot].chain) | np.int64(s.rows[slot].chain_top) << 32,
        np.int64(s.rows[slot].anchor) | np.int64(s.rows[slot].anchor_top) << 32,
    )


@njit(cache=True, nogil=True)
def count(s: Any, queue: Any) -> Any:
    slot = _find(s, queue)
    return np.int64(s.rows[slot].count) if slot >= 0 else np.int64(0)


@njit(cache=True, nogil=True)
def next_queue(s: Any) -> Any:
    """The queue whose turn it is; 0: there is none."""
    f = fields_of(s.c)[0]
    if f.queues == 1:
        return np.uint64(0)
    if f.next_row >= f.queues:
        f.next_row = 1
    f.next_row += 1
    return s.rows[f.next_row - 1].queue


# -- to files and snapshots


@njit(cache=True, nogil=True)
def _put(out: Any, at: Any, number: Any, crc: Any) -> Any:
    """Write a number as two words; returns the crc after them."""
    out[at], out[at + 1] = number & _LOW, number >> 32
    return _crc(_crc(crc, number & _LOW), number >> 32)


@njit(cache=True, nogil=True)
def _put_block(s: Any, out: Any, w: Any, queue: Any, before: Any, back: Any, n: Any, i: Any) -> Any:
    """Write a block of n entries from the pool, from place i on; returns the place after them."""
    begin = _crc_of_queue(queue)
    out[w], out[w + 1] = np.int64(queue & np.uint64(_LOW)), np.int64(queue >> np.uint64(32))
    crc = _put(out, w + 4, back, _put(out, w + 2, before, begin))
    out[w + 6], out[w + 7] = n, _crc(crc, n) ^ _LOW
    w += HEAD_WORDS
    for _ in range(n):
        cursor = np.int64(s.pool[i].cursor)
        crc = _put(out, w, np.int64(s.pool[i].position), begin)
        out[w + 2], out[w + 3] = cursor, _crc(crc, cursor) ^ _LOW
        w += ENTRY_WORDS
        i = np.int64(s.pool[i].next)
    return i


@njit(cache=True, nogil=True)
def spill(s: Any, out: Any, base: Any, commit: Any) -> Any:
    """Every tail as blocks, which will lie from the address `base` on; returns how many words they have.

    Writes the words to `out` and changes nothing else; with `commit`, once they are in a file, empties the pool.
    """
    f = fields_of(s.c)[0]
    w = np.int64(0)
    for last in range(f.top):
        todo = np.int64(s.pool[last].size)
        if todo == 0:
            continue
        i = np.int64(s.pool[last].next)
        slot = np.int64(s.pool[last].row)
        blocks = np.int64(s.rows[slot].blocks)
        chain, anchor = newest(s, slot) if blocks > 0 else (np.int64(0), np.int64(0))
        while todo > 0:
            if blocks % STRETCH == 0:
                anchor = chain
            n = todo if todo < BLOCK else np.int64(BLOCK)
            if not commit:
                i = _put_block(s, out, w, s.rows[slot].queue, chain, anchor, n, i)
            chain = base + 4 * w
            w += HEAD_WORDS + ENTRY_WORDS * n
            blocks += 1
            todo -= n
        if commit:
            s.rows[slot].tail = -1
            s.rows[slot].blocks = blocks
            s.rows[slot].chain, s.rows[slot].chain_top = chain & _LOW, chain >> 32
            s.rows[slot].anchor, s.rows[slot].anchor_top = anchor & _LOW, anchor >> 32
    if commit:
        f.top = 0
        f.free = -1
        f.pooled = 0
    return w


@njit(cache=True, nogil=True)
def tails(s: Any, out: Any) -> None:
    """Write the entries of the pool, those of a queue in order, into an array of `TAIL`."""
    f = fields_of(s.c)[0]
    n = 0
    for last in range(f.top):
        i = np.int64(last)
        for _ in range(s.pool[last].size):
            i = np.int64(s.pool[i].next)
            out[n].queue = s.rows[s.pool[last].row].queue
            out[n].position = s.pool[i].position
            out[n].cursor = s.pool[i].cursor
            n += 1


@njit(cache=True, nogil=True)
def load(s: Any, saved: Any) -> Any:
    """Add rows of a snapshot; False if a queue occurs twice. There must be room."""
    f = fields_of(s.c)[0]
    for i in range(len(saved)):
        queue = saved[i].queue
        slot = _find(s, queue)
        if slot < 0:
            slot = _add(s, queue)
        elif slot > 0 or s.rows[0].count > 0:
            return False
        address = np.int64(saved[i].run)
        _set_run(s, slot, address, saved[i].left)
        address = np.int64(saved[i].chain)
        s.rows[slot].chain, s.rows[slot].chain_top = address & _LOW, address >> 32
        address = np.int64(saved[i].anchor)
        s.rows[slot].anchor, s.rows[slot].anchor_top = address & _LOW, address >> 32
        s.rows[slot].count = saved[i].count
        s.rows[slot].blocks = saved[i].blocks
        f.entries += np.int64(saved[i].count)
    return True
