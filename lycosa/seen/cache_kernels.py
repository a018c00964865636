"""Kernels of the URL cache: Broder, Najork, Wiener, section 6, over bits in arrays.

Both structures keep l = 64 bits of mixed key for k = 2^r entries by Lampson's abbreviated keys: the top
bits of the mix are the place, so only the others, the *rest*, are stored, and the bits saved hold links.

Scatter table with circular lists (Knuth, volume 3, exercise 6.4.13). An entry is one word,

    word  = rest : 64 - r bits | link : r bits
    first = 1 bit       the entry is the first of its list: its place is the home of its key
    mark  = 1 bit       CLOCK only

A list begins at its home and its last entry links back to it. An empty entry is one that is not first and links to
itself, which no real entry does; so emptiness costs no bit. To insert a key whose home holds an entry
of another list, that entry moves to the slot that was freed. To free a first entry, the second of its list
moves into its place, and the second's slot is free instead. Marks move with their entries.

Direct circular chaining. A table of 2^(r-x) heads of r bits; entries stay where they are:

    word  = low rest : 64 - r bits | link : r bits
    extra = high rest : x bits
    last  = 1 bit       the link is the number of the head, not of an entry
    mark  = 1 bit       CLOCK only

A head is never empty: it may lead to another head's list, which can be told by the list's last entry. Hence a
matching rest counts only if the list is the head's own.

`state` holds: 0 the clock's handle, 1 how many entries are filled, 2 the random number (never 0).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.url.key_kernels import mix

HANDLE, FILLED, DICE = 0, 1, 2
_ONE = np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def _bit(bits: Any, i: Any) -> Any:
    return (bits[i >> 3] >> (i & 7)) & 1


@njit(cache=True, nogil=True, inline="always")
def _set(bits: Any, i: Any, on: Any) -> Any:
    if on:
        bits[i >> 3] |= np.uint8(1 << (i & 7))
    else:
        bits[i >> 3] &= np.uint8(0xFF ^ (1 << (i & 7)))


@njit(cache=True, nogil=True, inline="always")
def _roll(state: Any, r: Any) -> Any:
    """A random slot (xorshift64*, Vigna 2016)."""
    x = np.uint64(state[DICE])
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[DICE] = np.int64(x)
    if r == 0:
        return np.int64(0)
    return np.int64((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(64 - r))


# -- scatter table with circular lists


@njit(cache=True, nogil=True)
def scatter_clear(words: Any, firsts: Any, marks: Any) -> None:
    """Empty the table."""
    for i in range(words.size):
        words[i] = np.uint64(i)
    firsts[:] = 0
    marks[:] = 0


@njit(cache=True, nogil=True, inline="always")
def _before(words: Any, low: Any, at: Any) -> Any:
    """The entry that links to `at` in its circular list."""
    e = at
    while np.int64(words[e] & low) != at:
        e = np.int64(words[e] & low)
    return e


@njit(cache=True, nogil=True, inline="always")
def _scatter_free(words: Any, firsts: Any, marks: Any, low: Any, clock: Any, victim: Any) -> Any:
    """Take the entry at `victim` out of its list; returns the slot that is free then."""
    after = np.int64(words[victim] & low)
    if after == victim:
        _set(firsts, victim, False)
        return victim
    if not _bit(firsts, victim):
        before = _before(words, low, victim)
        words[before] = (words[before] & ~low) | np.uint64(after)
        words[victim] = np.uint64(victim)
        return victim
    words[victim] = words[after]  # if the second was the last it linked to `victim`, which is right
    if clock:
        _set(marks, victim, _bit(marks, after))
    words[after] = np.uint64(after)
    return after


@njit(cache=True, nogil=True, inline="always")
def _scatter_slot(words: Any, firsts: Any, marks: Any, state: Any, r: Any, low: Any, clock: Any) -> Any:
    """A free slot: an empty one until all are filled, then one that the policy chooses and we free."""
    at = np.int64(state[HANDLE])
    if state[FILLED] < words.size:
        # Nothing is ever freed while filling, so the handle meets each slot once and never turns.
        while np.int64(words[at] & low) != at or _bit(firsts, at):
            at = (at + 1) & np.int64(low)
        state[HANDLE] = (at + 1) & np.int64(low)
        state[FILLED] += 1
        return at
    if not clock:
        return _scatter_free(words, firsts, marks, low, clock, _roll(state, r))
    while _bit(marks, at):
        _set(marks, at, False)
        at = (at + 1) & np.int64(low)
    state[HANDLE] = (at + 1) & np.int64(low)
    return _scatter_free(words, firsts, marks, low, clock, at)


@njit(cache=True, nogil=True, inline="always")
def _scatter_find(words: Any, firsts: Any, r: Any, low: Any, home: Any, rest: Any) -> Any:
    """The entry of a key; -1 if it is not there."""
    if not _bit(firsts, home):
        return np.int64(-1)
    e = home
    while True:
        word = words[e]
        if word >> np.uint64(r) == rest:
            return e
        e = np.int64(word & low)
        if e == home:
            return np.int64(-1)


@njit(cache=True, nogil=True)
def scatter_touch(words: Any, firsts: Any, marks: Any, r: Any, clock: Any, keys: Any, hits: Any) -> Any:
    """Look keys up, without inserting; returns how many are there."""
    low = (_ONE << np.uint64(r)) - _ONE
    found = 0
    for i in range(keys.size):
        mixed = mix(keys[i])
        home = np.int64(mixed >> np.uint64(64 - r)) if r else np.int64(0)
        rest = mixed & ((_ONE << np.uint64(64 - r)) - _ONE) if r else mixed
        e = _scatter_find(words, firsts, r, low, home, rest)
        hits[i] = e >= 0
        if e >= 0:
            found += 1
            if clock:
                _set(marks, e, True)
    return found


@njit(cache=True, nogil=True)
def scatter_probe(
    words: Any, firsts: Any, marks: Any, state: Any, r: Any, clock: Any, keys: Any, hits: Any
) -> Any:
    """Request keys in turn: a hit is marked, a miss is inserted; returns the hits."""
    low = (_ONE << np.uint64(r)) - _ONE
    found = 0
    for i in range(keys.size):
        mixed = mix(keys[i])
        home = np.int64(mixed >> np.uint64(64 - r)) if r else np.int64(0)
        rest = mixed & ((_ONE << np.uint64(64 - r)) - _ONE) if r else mixed
        e = _scatter_find(words, firsts, r, low, home, rest)
        hits[i] = e >= 0
        if e >= 0:
            found += 1
            if clock:
                _set(marks, e, True)
            continue
        empty = np.int64(words[home] & low) == home and not _bit(firsts, home)
        if empty and state[FILLED] < words.size:
            state[FILLED] += 1
        else:
            slot = _scatter_slot(words, firsts, marks, state, r, low, clock)
            if slot != home and _bit(firsts, home):
                words[slot] = (rest << np.uint64(r)) | (words[home] & low)
                words[home] = (words[home] & ~low) | np.uint64(slot)
                if clock:
                    _set(marks, slot, False)
                continue
            if slot != home:
                before = _before(words, low, home)
                words[before] = (words[before] & ~low) | np.uint64(slot)
                words[slot] = words[home]
                if clock:
                    _set(marks, slot, _bit(marks, home))
        words[home] = (rest << np.uint64(r)) | np.uint64(home)
        _set(firsts, home, True)
        if clock:
            _set(marks, home, False)
    return found


# -- direct circular chaining


@njit(cache=True, nogil=True, inline="always")
def _field(bits: Any, width: Any, i: Any) -> Any:
    """The i-th field of `width` (at most 32) bits in 64-bit words."""
    if width == 0:
        return np.uint64(0)
    at = i * width
    word, shift = at >> 6, np.uint64(at & 63)
    value = bits[word] >> shift
    if shift + np.uint64(width) > np.uint64(64):
        value |= bits[word + 1] << (np.uint64(64) - shift)
    return value & ((_ONE << np.uint64(width)) - _ONE)


@njit(cache=True, nogil=True, inline="always")
def _set_field(bits: Any, width: Any, i: Any, value: Any) -> Any:
    if width == 0:
        return
    at = i * width
    word, shift = at >> 6, np.uint64(at & 63)
    mask = (_ONE << np.uint64(width)) - _ONE
    bits[word] = (bits[word] & ~(mask << shift)) | (value << shift)
    if shift + np.uint64(width) > np.uint64(64):
        back = np.uint64(64) - shift
        bits[word + 1] = (bits[word + 1] & ~(mask >> back)) | (value >> back)


@njit(cache=True, nogil=True, inline="always")
def _chain_find(
    words: Any, extra: Any, lasts: Any, heads: Any, r: Any, x: Any, low: Any, head: Any, rest: Any
) -> Any:
    """(the entry of a key or -1, whether the list that the head leads to is its own)."""
    e = np.int64(_field(heads, r, head))
    match = np.int64(-1)
    while True:
        word = words[e]
        link = np.int64(word & low)
        whole = (_field(extra, x, e) << np.uint64(64 - r)) | (word >> np.uint64(r)) if r else word
        if whole == rest:
            match = e
        if _bit(lasts, e):
            return (match if link == head else np.int64(-1)), link == head
        e = link


@njit(cache=True, nogil=True)
def chain_touch(
    words: Any, extra: Any, lasts: Any, heads: Any, marks: Any, state: Any, r: Any, x: Any, clock: Any,
    keys: Any, hits: Any,
) -> Any:  # fmt: skip
    """Look keys up, without inserting; returns how many are there."""
    low = (_ONE << np.uint64(r)) - _ONE
    found = 0
    for i in range(keys.size):
        mixed = mix(keys[i])
        head = np.int64(mixed >> np.uint64(64 - r + x)) if r > x else np.int64(0)
        rest = mixed & ((_ONE << np.uint64(64 - r + x)) - _ONE) if r > x else mixed
        e = np.int64(-1)
        if state[FILLED] > 0:
            e, _ = _chain_find(words, extra, lasts, heads, r, x, low, head, rest)
        hits[i] = e >= 0
        if e >= 0:
            found += 1
            if clock:
                _set(marks, e, True)
    return found


@njit(cache=True, nogil=True)
def chain_probe(
    words: Any, extra: Any, lasts: Any, heads: Any, marks: Any, state: Any, r: Any, x: Any, clock: Any,
    keys: Any, hits: Any,
) -> Any:  # fmt: skip
    """Request keys in turn: a hit is marked, a miss is inserted; returns the hits."""
    low = (_ONE << np.uint64(r)) - _ONE
    found = 0
    for i in range(keys.size):
        mixed = mix(keys[i])
        head = np.int64(mixed >> np.uint64(64 - r + x)) if r > x else np.int64(0)
        rest = mixed & ((_ONE << np.uint64(64 - r + x)) - _ONE) if r > x else mixed
        e, own = np.int64(-1), False
        if state[FILLED] > 0:
            e, own = _chain_find(words, extra, lasts, heads, r, x, low, head, rest)
        hits[i] = e >= 0
        if e >= 0:
            found += 1
            if clock:
                _set(marks, e, True)
            continue
        if state[FILLED] < words.size:
            slot = np.int64(state[FILLED])
            state[FILLED] += 1
        else:
            if clock:
                slot = np.int64(state[HANDLE])
                while _bit(marks, slot):
                    _set(marks, slot, False)
                    slot = (slot + 1) & np.int64(low)
                state[HANDLE] = (slot + 1) & np.int64(low)
            else:
                slot = _roll(state, r)
            # Follow the victim's list to its head, then from the head to the one before the victim.
            e = slot
            while not _bit(lasts, e):
                e = np.int64(words[e] & low)
            its = np.int64(words[e] & low)
            e = np.int64(_field(heads, r, its))
            if e == slot:
                if not _bit(lasts, slot):
                    _set_field(heads, r, its, words[slot] & low)
                elif its == head:
                    own = False  # the head's only entry goes: what it leads to is no list of its own
            else:
                while np.int64(words[e] & low) != slot or _bit(lasts, e):
                    e = np.int64(words[e] & low)
                words[e] = (words[e] & ~low) | (words[slot] & low)
                _set(lasts, e, _bit(lasts, slot))
        link = _field(heads, r, head) if own else np.uint64(head)
        words[slot] = (rest << np.uint64(r)) | link if r else rest
        _set_field(extra, x, slot, rest >> np.uint64(64 - r) if r else np.uint64(0))
        _set(lasts, slot, not own)
        _set_field(heads, r, head, np.uint64(slot))
        if clock:
            _set(marks, slot, False)
    return found


# -- the others


@njit(cache=True, nogil=True)
def lru_probe(
    keys_in: Any, chain: Any, heads: Any, newer: Any, older: Any, state: Any, shift: Any, keys: Any, hits: Any
) -> Any:
    """LRU: entries in a doubly linked list by last request, and in hashed lists. -1 ends a list.

    `state`: 0 the newest entry, 1 how many are filled, 2 the oldest entry.
    """
    found = 0
    size = keys_in.size
    for i in range(keys.size):
        mixed = mix(keys[i])
        head = np.int64(mixed >> np.uint64(shift)) if shift < 64 else np.int64(0)
        e = heads[head]
        while e >= 0 and keys_in[e] != mixed:
            e = chain[e]
        hits[i] = e >= 0
        if e >= 0:
            found += 1
            if state[0] == e:
                continue
            before, after = newer[e], older[e]
            older[before] = after
            if after >= 0:
                newer[after] = before
            else:
                state[2] = before
        else:
            if state[1] < size:
                e = np.int32(state[1])
                state[1] += 1
            else:
                e = np.int32(state[2])
                state[2] = newer[e]
                if state[2] >= 0:
                    older[state[2]] = -1
                its = np.int64(keys_in[e] >> np.uint64(shift)) if shift < 64 else np.int64(0)
                if heads[its] == e:
                    heads[its] = chain[e]
                else:
                    b = heads[its]
                    while chain[b] != e:
                        b = chain[b]
                    chain[b] = chain[e]
            keys_in[e] = mixed
            chain[e] = heads[head]
            heads[head] = e
        # e becomes the newest
        newer[e] = -1
        older[e] = np.int32(state[0]) if size > 1 and state[0] >= 0 and state[0] != e else np.int32(-1)
        if older[e] >= 0:
            newer[older[e]] = e
        state[0] = e
        if state[2] < 0 or older[e] < 0:
            state[2] = e
    return found


@njit(cache=True, nogil=True)
def min_hits(ids: Any, following: Any, distinct: Any, size: Any, flags: Any) -> Any:
    """MIN (Belady): evict what is requested farthest away. `following[t]` is the time of the next request.

    A heap of (next request, item), its largest first. Outdated pairs are dropped when they surface, and all of
    them when there are three for each entry of the cache: so it is never larger than four caches.
    `flags`: set for requests that hit; may be empty.
    """
    following_of = np.full(distinct, np.int64(-1))  # of items in the cache: their next request
    room = min(ids.size, max(4 * size, 16)) + 1
    heap_time = np.empty(room, np.int64)
    heap_item = np.empty(room, np.int64)
    n, held, hits = 0, 0, 0
    for t in range(ids.size):
        item = ids[t]
        hit = following_of[item] >= 0
        if flags.size:
            flags[t] = hit
        if hit:
            hits += 1
        else:
            if held == size:
                while True:
                    time, victim = heap_time[0], heap_item[0]
                    n -= 1
                    _sink(heap_time, heap_item, n, 0, heap_time[n], heap_item[n])
                    if following_of[victim] == time:
                        following_of[victim] = -1
                        break
            else:
                held += 1
        following_of[item] = following[t]
        if n == room:
            kept = 0
            for i in range(n):
                if following_of[heap_item[i]] == heap_time[i]:
                    heap_time[kept], heap_item[kept] = heap_time[i], heap_item[i]
                    kept += 1
            n = kept
            for i in range(n // 2 - 1, -1, -1):
                _sink(heap_time, heap_item, n, i, heap_time[i], heap_item[i])
        at = n
        n += 1
        while at > 0 and heap_time[(at - 1) >> 1] < following[t]:
            heap_time[at], heap_item[at] = heap_time[(at - 1) >> 1], heap_item[(at - 1) >> 1]
            at = (at - 1) >> 1
        heap_time[at], heap_item[at] = following[t], item
    return hits


@njit(cache=True, nogil=True)
def _sink(heap_time: Any, heap_item: Any, n: Any, at: Any, time: Any, item: Any) -> None:
    """Put a pair where the heap of the n first has a hole, or below."""
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and heap_time[child + 1] > heap_time[child]:
            child += 1
        if heap_time[child] <= time:
            break
        heap_time[at], heap_item[at] = heap_time[child], heap_item[child]
        at = child
    heap_time[at], heap_item[at] = time, item
