"""The kernel of `words`: a text's words are looked up in a table of known ones, in one pass over its bytes.

    table   := slots rows arena       open addressing
    slots   := i32 *                  a power of two; -1, or a row
    row     := hash key end after     the word is arena[key:end], its terms, joined by spaces, are arena[end:after]

A *word* here is a run of ASCII letters, digits and bytes beyond ASCII: nothing that `words` takes for a term
crosses its ends. Its ASCII letters are made small as it is read.

Rows are not taken as views: each would count references, which took a third of the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit

HASH, KEY, END, AFTER = range(4)
WIDTH = 4
LONGEST = 64
"""Bytes of a word that is looked up."""
TOO_LONG = -1
"""A word of letters beyond ASCII is longer than that, or there is no room."""
_FNV = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SMALL = np.zeros(256, np.uint8)
_SMALL[48:58] = range(48, 58)
_SMALL[65:91] = range(97, 123)
_SMALL[97:123] = range(97, 123)
_SMALL[128:] = range(128, 256)
"""Each byte of a word, in lower case if it is ASCII; 0: no part of a word."""


@njit(cache=True, nogil=True)
def _slot(hashed: Any, text: Any, start: int, end: int, slots: Any, rows: Any, arena: Any) -> Any:
    """The slot of a word, or the empty one that it would have."""
    mask = slots.size - 1
    at = np.int64((hashed * _MIX) >> np.uint64(33)) & mask
    while True:
        found = slots[at]
        if found < 0:
            return at
        if rows[found, HASH] == np.int64(hashed):
            key = rows[found, KEY]
            if rows[found, END] - key == end - start:
                n = 0
                while start + n < end and arena[key + n] == _SMALL[text[start + n]]:
                    n += 1
                if start + n == end:
                    return at
        at = (at + 1) & mask


@njit(cache=True, nogil=True)
def look_up(text: Any, slots: Any, rows: Any, arena: Any, out: Any, unknown: Any, place: Any) -> Any:
    """Write the terms of a text from a place on; gives their length (`TOO_LONG`), and how many words are unknown.

    These are in `unknown`, as pairs of start and end, as many as there is room for; and `place` is then the first:
    where it is in the text, and length and number of the terms before it.
    """
    stop = text.size
    missing = 0
    at, length, count = place[0], place[1], place[2]
    while at < stop:
        byte = _SMALL[text[at]]
        if byte == 0:
            at += 1
            continue
        start = at
        hashed = _FNV
        beyond = np.uint8(0)
        while byte != 0:
            hashed = (hashed ^ np.uint64(byte)) * _PRIME
            beyond |= byte
            at += 1
            if at == stop:
                break
            byte = _SMALL[text[at]]
        if at - start > LONGEST:
            if beyond >= 128:
                return TOO_LONG, 0
            continue  # no word: a key, an encoded file
        found = slots[_slot(hashed, text, start, at, slots, rows, arena)]
        if found < 0:
            if missing == 0:
                place[0], place[1], place[2] = start, length, count
            if missing < unknown.shape[0]:
                unknown[missing, 0], unknown[missing, 1] = start, at
                missing += 1
            continue
        first, last = rows[found, END], rows[found, AFTER]
        if missing > 0 or first == last:
            continue
        if length + last - first + 1 > out.size:
            return TOO_LONG, 0
        if length > 0:
            out[length] = 32
            length += 1
        count += 1
        for n in range(first, last):
            out[length] = arena[n]
            count += arena[n] == 32
            length += 1
    if missing == 0:
        place[2] = count
    return length, missing


@njit(cache=True, nogil=True)
def learn(words: Any, ends: Any, count: int, used: int, slots: Any, rows: Any, arena: Any) -> Any:
    """Add words in lower case and their terms, which lie in `words` one after the other up to `ends`; gives the new
    counts.

    A word that comes twice is added once. There is room for all of them.
    """
    start = 0
    for n in range(ends.shape[0]):
        end, after = ends[n, 0], ends[n, 1]
        hashed = _FNV
        for at in range(start, end):
            hashed = (hashed ^ np.uint64(words[at])) * _PRIME
        slot = _slot(hashed, words, start, end, slots, rows, arena)
        if slots[slot] < 0:
            slots[slot] = count
            rows[count, HASH] = np.int64(hashed)
            rows[count, KEY], rows[count, END], rows[count, AFTER] = (
                used,
                used + end - start,
                used + after - start,
            )
            for at in range(start, after):
                arena[used + at - start] = words[at]
            used += after - start
            count += 1
        start = after
    return count, used
