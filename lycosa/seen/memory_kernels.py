"""Kernels of the in-memory table: an ordered scatter table in 256 pages, seven bytes per slot.

A key is first mixed by a bijection of the 64-bit integers (keys share their top bits by host). The
top 8 bits of the mix name the page; the other 56, the *rest*, are what a slot stores, in two
planes:

    page  = high low
    high  = u32 x slots          the upper 32 bits of each rest
    low   = (u8 u8 u8) x slots   the lower 24 bits, least significant byte first

Within a page the *home* of a rest is its upper 32 bits scaled to the page's capacity, which is
monotone, and linear probing keeps the rests in ascending order (Amble and Knuth, Ordered hash
tables, 1974). Hence:

- a search ends at the first rest that is not smaller, so an absent key costs no more than a present
  one, and loads of 15/16 are fit for use: 7 probes on average where plain linear probing takes 130;
- a page is copied into a larger one in one sequential pass, without searching;
- the largest rest, all ones, stands for *empty*; whether the page holds that very rest is a field
  apart.

A page has a few slots beyond its last home for what overflows, the very last of them always empty,
so that no search needs a bound. What a page needs is one row of `pages`:

    ADDRESS CAPACITY SLOTS COUNT ONES WARM

The arrays are given by their addresses, not as a list, because passing a list of arrays to a kernel costs more
than looking up a batch of keys. Their owner keeps them alive.

The homes of some keys are read together before the searches, so that their cache misses overlap. The result
is written to WARM, an otherwise unused field, so that the compiler cannot leave the reading out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import Later, intrinsic, njit
from lycosa.url.key_kernels import mix, unmix

PAGES = 256
ADDRESS, CAPACITY, SLOTS, COUNT, ONES, WARM = range(6)
FIELDS = 6
_AHEAD = 32

DONE = -1
"""The whole batch was processed."""
BUFFER_FULL = -2
"""The array for keys that became known is full. Zero and above: that page must grow."""

_U1, _U16, _U24, _U32, _U56 = (np.uint64(n) for n in (1, 16, 24, 32, 56))
_LOW_32 = np.uint64(0xFFFFFFFF)
_LOW_24 = np.uint64(0xFFFFFF)
_LOW_56 = np.uint64((1 << 56) - 1)
types: Any = Later("numba", "types")
cgutils: Any = Later("numba.core.cgutils")


def _as_pointer(_typing: Any, _address: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.uint64), codegen


def _as_move(_typing: Any, _target: Any, _source: Any, _size: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        target, source = (builder.inttoptr(arg, cgutils.voidptr_t) for arg in args[:2])
        cgutils.raw_memmove(builder, target, source, args[2], 1)
        return args[2]

    return types.int64(types.uint64, types.uint64, types.int64), codegen


_pointer: Any = intrinsic(_as_pointer)
_move: Any = intrinsic(_as_move)
_view: Any = Later("numba", "carray")


@njit(cache=True, nogil=True, inline="always")
def _find(high: Any, low: Any, at: Any, rest_high: Any, rest_low: Any) -> Any:
    """The first slot from `at` on whose rest is not smaller, and whether it is equal."""
    while high[at] < rest_high:
        at += 1
    while high[at] == rest_high:
        here = np.uint32(low[3 * at]) | np.uint32(low[3 * at + 1]) << 8 | np.uint32(low[3 * at + 2]) << 16
        if here >= rest_low:
            return at, here == rest_low
        at += 1
    return at, False


@njit(cache=True, nogil=True, inline="always")
def _planes(row: Any) -> Any:
    slots = np.int64(row[SLOTS])
    high = _view(_pointer(row[ADDRESS]), (slots,), np.uint32)
    low = _view(_pointer(row[ADDRESS] + np.uint64(4 * slots)), (3 * slots,), np.uint8)
    return high, low


@njit(cache=True, nogil=True)
def clear(row: Any) -> Any:
    """Make every slot of a page empty."""
    high, low = _planes(row)
    high[:] = np.uint32(0xFFFFFFFF)
    low[:] = np.uint8(0xFF)


@njit(cache=True, nogil=True)
def copy(old: Any, new: Any) -> Any:
    """Fill a page from a smaller one, in order; False if it overflows (then a larger one is needed)."""
    clear(new)
    old_high, old_low = _planes(old)
    high, low = _planes(new)
    last = np.int64(new[SLOTS]) - 1
    free = np.int64(0)
    for at in range(np.int64(old[SLOTS])):
        h = old_high[at]
        l0, l1, l2 = old_low[3 * at], old_low[3 * at + 1], old_low[3 * at + 2]
        if h == 0xFFFFFFFF and l0 == 0xFF and l1 == 0xFF and l2 == 0xFF:
            continue
        home = np.int64((np.uint64(h) * new[CAPACITY]) >> _U32)
        if home > free:
            free = home
        if free >= last:
            return False
        high[free] = h
        low[3 * free], low[3 * free + 1], low[3 * free + 2] = l0, l1, l2
        free += 1
    new[COUNT] = old[COUNT]
    new[ONES] = old[ONES]
    return True


@njit(cache=True, nogil=True, inline="always")
def _read_ahead(pages: Any, keys: Any, start: Any) -> Any:
    warm = np.uint64(0)
    for i in range(start, min(start + _AHEAD, keys.size)):
        mixed = mix(keys[i])
        row = pages[mixed >> _U56]
        home = np.int64((((mixed & _LOW_56) >> _U24) * row[CAPACITY]) >> _U32)
        slots = np.int64(row[SLOTS])
        high = _view(_pointer(row[ADDRESS]), (slots,), np.uint32)
        low = _view(_pointer(row[ADDRESS] + np.uint64(4 * slots)), (3 * slots,), np.uint8)
        warm += np.uint64(high[home]) + np.uint64(low[3 * home])
    pages[0, WARM] = warm


@njit(cache=True, nogil=True)
def certain(pages: Any, keys: Any, known: Any) -> Any:
    """Set `known` for the keys that are in the table; returns how many."""
    found = 0
    for i in range(keys.size):
        if i % _AHEAD == 0 and keys.size > 4:
            _read_ahead(pages, keys, i)
        mixed = mix(keys[i])
        row = pages[mixed >> _U56]
        rest = mixed & _LOW_56
        if rest == _LOW_56:
            here = row[ONES] != 0
        else:
            high, low = _planes(row)
            rest_high = rest >> _U24
            home = np.int64((rest_high * row[CAPACITY]) >> _U32)
            _, here = _find(high, low, home, np.uint32(rest_high), np.uint32(rest & _LOW_24))
        known[i] = here
        found += here
    return found


@njit(cache=True, nogil=True)
def insert(pages: Any, keys: Any, start: Any, new: Any, news: Any, known: Any, knowns: Any) -> Any:
    """Insert keys from `start` on; `new[news:]` gets the indices, `known[knowns:]` the keys of the new ones.

    Returns (where it stopped, news, knowns, why it stopped).
    """
    for i in range(start, keys.size):
        if (i - start) % _AHEAD == 0 and keys.size > 4:
            _read_ahead(pages, keys, i)
        key = keys[i]
        mixed = mix(key)
        page = mixed >> _U56
        row = pages[page]
        rest = mixed & _LOW_56
        if rest == _LOW_56:
            if row[ONES] != 0:
                continue
            if knowns == known.size:
                return i, news, knowns, BUFFER_FULL
            row[ONES] = _U1
        else:
            high, low = _planes(row)
            rest_high = np.uint32(rest >> _U24)
            rest_low = np.uint32(rest & _LOW_24)
            home = np.int64((np.uint64(rest_high) * row[CAPACITY]) >> _U32)
            at, here = _find(high, low, home, rest_high, rest_low)
            if here:
                continue
            if knowns == known.size:
                return i, news, knowns, BUFFER_FULL
            if row[COUNT] * _U16 >= row[CAPACITY] * np.uint64(15):
                return i, news, knowns, np.int64(page)
            free = at
            while not (
                high[free] == 0xFFFFFFFF
                and low[3 * free] == 0xFF
                and low[3 * free + 1] == 0xFF
                and low[3 * free + 2] == 0xFF
            ):
                free += 1
            if free >= high.size - 1:
                return i, news, knowns, np.int64(page)
            from_high = row[ADDRESS] + np.uint64(4 * at)
            from_low = row[ADDRESS] + np.uint64(4 * high.size + 3 * at)
            _move(from_high + np.uint64(4), from_high, 4 * (free - at))
            _move(from_low + np.uint64(3), from_low, 3 * (free - at))
            high[at] = rest_high
            low[3 * at] = np.uint8(rest_low & 0xFF)
            low[3 * at + 1] = np.uint8((rest_low >> 8) & 0xFF)
            low[3 * at + 2] = np.uint8(rest_low >> 16)
        row[COUNT] += _U1
        new[news] = i
        news += 1
        known[knowns] = key
        knowns += 1
    return keys.size, news, knowns, DONE


@njit(cache=True, nogil=True)
def collect(pages: Any, first: Any, last: Any, low: Any, high: Any, out: Any) -> Any:
    """The keys from `low` to `high` in the pages from `first` up to `last`, in no order.

    Returns how many there are, even if `out` is too small to hold them.
    """
    n = 0
    for page in range(first, last):
        row = pages[page]
        top = np.uint64(page) << _U56
        if row[ONES] != 0:
            key = unmix(top | _LOW_56)
            if low <= key <= high:
                if n < out.size:
                    out[n] = key
                n += 1
        highs, lows = _planes(row)
        for at in range(highs.size):
            h = highs[at]
            rest_low = np.uint64(lows[3 * at]) | np.uint64(lows[3 * at + 1]) << np.uint64(8)
            rest_low |= np.uint64(lows[3 * at + 2]) << _U16
            if h == 0xFFFFFFFF and rest_low == _LOW_24:
                continue
            key = unmix(top | np.uint64(h) << _U24 | rest_low)
            if low <= key <= high:
                if n < out.size:
                    out[n] = key
                n += 1
    return n
