"""The kernel of sketches: SimHash and MinHash of a text's shingles in one pass over its bytes. See `sketches`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit

SHINGLE = 3
BINS = 128
ROWS = 3
BANDS = BINS // ROWS
MOST_WORDS = 100_000

_FNV = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)
_BIN_SHIFT = np.uint64(64 - 7)
_SPREAD = np.array([sum((byte >> bit & 1) << 8 * bit for bit in range(8)) for byte in range(256)], np.uint64)
"""The bits of a byte, each in a byte of its own: eight bits are counted with one addition, up to 255 times."""
_BYTE = np.uint64(0xFF)


@njit(cache=True, nogil=True)
def mixed(value: Any) -> Any:
    """Mix a hash, so that all bits depend on all others."""
    value ^= value >> np.uint64(30)
    value *= _MIX_1
    value ^= value >> np.uint64(27)
    value *= _MIX_2
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True)
def _count(lanes: Any, votes: Any) -> None:
    """Move what the lanes have counted into the votes."""
    for part in range(8):
        for bit in range(8):
            votes[8 * part + bit] += np.int32((lanes[part] >> np.uint64(8 * bit)) & _BYTE)
        lanes[part] = 0


@njit(cache=True, nogil=True)
def sketch(text: Any, votes: Any, least: Any) -> Any:
    """Add the shingles of a text to the votes of its bits, and to the least value of each bin; gives the simhash.

    `votes` are 64 zeroes, `least` are BINS times 2^64 - 1. Gives the simhash and how many shingles there are.
    """
    stop = text.size
    at = words = shingles = 0
    first = second = np.uint64(0)
    value = _FNV
    length = 0
    lanes = np.zeros(8, np.uint64)
    while at <= stop and words < MOST_WORDS:
        ends = True
        alone = 0
        if at < stop:
            byte = text[at]
            if 97 <= byte <= 122 or 48 <= byte <= 57:
                ends = False
            elif byte >= 0x80:
                if byte == 0xE2 and at + 2 < stop and text[at + 1] in (0x80, 0x81):
                    at += 2  # general punctuation
                elif byte == 0xC2 and at + 1 < stop and text[at + 1] not in (0xAA, 0xB5, 0xBA):
                    at += 1  # signs of Latin-1
                elif byte == 0xEF and at + 2 < stop and text[at + 1] == 0xBC:
                    at += 2  # full-width punctuation
                elif 0xE3 <= byte <= 0xED and at + 2 < stop:
                    if byte == 0xE3 and text[at + 1] == 0x80:
                        at += 2  # punctuation of East Asian scripts
                    else:
                        alone = 3  # a character of a script without spaces is a word
                else:
                    ends = False
        if not ends:
            value = (value ^ np.uint64(text[at])) * _PRIME
            length += 1
            at += 1
            continue
        # Up to two words end here: the one before this place, and the character at it.
        for turn in range(2):
            if turn == 0:
                if length == 0:
                    continue
                word = value
            else:
                if alone == 0:
                    continue
                word = _FNV
                for n in range(3):
                    word = (word ^ np.uint64(text[at + n])) * _PRIME
            value, length = _FNV, 0
            words += 1
            # The order of words counts: each place has a factor of its own.
            whole = ((first * _FACTOR + second) * _FACTOR + word) * _FACTOR
            first, second = second, word
            if words >= SHINGLE:
                shingles += 1
                hashed = mixed(whole)
                for part in range(8):
                    lanes[part] += _SPREAD[np.int64((hashed >> np.uint64(8 * part)) & _BYTE)]
                if shingles % 255 == 0:
                    _count(lanes, votes)
                place = np.int64(hashed >> _BIN_SHIFT)
                rest = mixed(hashed ^ _FACTOR)
                if rest < least[place]:
                    least[place] = rest
        at += max(1, alone)
    _count(lanes, votes)
    if words > 0 and shingles == 0:
        # A text of one or two words is one shingle.
        shingles = 1
        hashed = mixed((first * _FACTOR + second) * _FACTOR)
        for bit in range(64):
            votes[bit] += np.int32((hashed >> np.uint64(bit)) & np.uint64(1))
        least[np.int64(hashed >> _BIN_SHIFT)] = mixed(hashed ^ _FACTOR)
    found = np.uint64(0)
    for bit in range(64):
        if 2 * votes[bit] > shingles:
            found |= np.uint64(1) << np.uint64(bit)
    return found, shingles


@njit(cache=True, nogil=True)
def fill(least: Any) -> None:
    """Give each empty bin the value of a bin that is not, chosen by the number of the bin alone (Shrivastava
    2017)."""
    empty = 0
    for place in range(BINS):
        if least[place] == _NONE:
            empty += 1
    if empty == 0 or empty == BINS:
        return
    whole = least.copy()
    for place in range(BINS):
        step = np.uint64(1)
        while least[place] == _NONE:
            other = np.int64(mixed(np.uint64(place) * _FACTOR + step * _MIX_1) >> _BIN_SHIFT)
            if whole[other] != _NONE:
                least[place] = mixed(whole[other] + np.uint64(place))
            step += np.uint64(1)


@njit(cache=True, nogil=True)
def finish(least: Any, octets: Any, bands: Any) -> None:
    """Write what is kept: the lowest byte of each bin, and 32 bits for each group of bins."""
    for place in range(BINS):
        octets[place] = np.uint8(least[place] & _BYTE)
    for band in range(BANDS):
        value = np.uint64(0)
        for row in range(ROWS):
            value = (value + least[band * ROWS + row]) * _FACTOR
        bands[band] = np.uint32(value >> np.uint64(32))
