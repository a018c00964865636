"""Kernels of `lycosa.url.key`: XXH64 over packed URLs, and the mix of keys.

XXH64 as its specification has it (Yann Collet, "xxHash fast digest algorithm", §XXH64): four lanes over
stripes of 32 bytes, then the rest by 8, 4 and 1 bytes, then a final avalanche. Words are little-endian
whatever the machine, since they are put together byte by byte (LLVM makes one load of the eight).

The kernels read `bytes` objects directly: making a NumPy view of a page's links costs more than hashing
a dozen of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.url.key import MIX_1, MIX_2, UNMIX_1, UNMIX_2

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
LOW_48 = np.uint64((1 << 48) - 1)
HIGH_16 = np.uint64(0xFFFF << 48)
_M1, _M2, _U1, _U2 = np.uint64(MIX_1), np.uint64(MIX_2), np.uint64(UNMIX_1), np.uint64(UNMIX_2)
_33 = np.uint64(33)
_NEWLINES = np.uint64(0x0A0A0A0A0A0A0A0A)
_ONES = np.uint64(0x0101010101010101)
_TOPS = np.uint64(0x8080808080808080)

_NEWLINE, _COLON, _SLASH, _OPEN, _CLOSE = 10, 58, 47, 91, 93


@njit(cache=True, nogil=True, inline="always")
def mix(key: Any) -> Any:
    """`lycosa.url.key.mix` for kernels; takes and returns a uint64."""
    key = (key ^ (key >> _33)) * _M1
    key = (key ^ (key >> _33)) * _M2
    return key ^ (key >> _33)


@njit(cache=True, nogil=True, inline="always")
def unmix(mixed: Any) -> Any:
    """`lycosa.url.key.unmix` for kernels; takes and returns a uint64."""
    mixed = (mixed ^ (mixed >> _33)) * _U2
    mixed = (mixed ^ (mixed >> _33)) * _U1
    return mixed ^ (mixed >> _33)


@njit(cache=True, nogil=True, inline="always")
def _turn(x: Any, bits: int) -> Any:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@njit(cache=True, nogil=True, inline="always")
def _word(data: Any, at: int) -> Any:
    i = np.uint64(at)
    return (
        np.uint64(data[i])
        | np.uint64(data[i + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[i + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[i + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[i + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[i + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[i + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[i + np.uint64(7)]) << np.uint64(56)
    )


@njit(cache=True, nogil=True, inline="always")
def _round(lane: Any, word: Any) -> Any:
    return _turn(lane + word * _P2, 31) * _P1


@njit(cache=True, nogil=True)
def xxh64(data: Any, start: int, end: int, seed: Any) -> Any:
    """XXH64 of `data[start:end]`."""
    at = start
    if end - start >= 32:
        a = seed + _P1 + _P2
        b = seed + _P2
        c = seed
        d = seed - _P1
        while end - at >= 32:
            a = _round(a, _word(data, at))
            b = _round(b, _word(data, at + 8))
            c = _round(c, _word(data, at + 16))
            d = _round(d, _word(data, at + 24))
            at += 32
        h = _turn(a, 1) + _turn(b, 7) + _turn(c, 12) + _turn(d, 18)
        h = (h ^ _round(np.uint64(0), a)) * _P1 + _P4
        h = (h ^ _round(np.uint64(0), b)) * _P1 + _P4
        h = (h ^ _round(np.uint64(0), c)) * _P1 + _P4
        h = (h ^ _round(np.uint64(0), d)) * _P1 + _P4
    else:
        h = seed + _P5
    h += np.uint64(end - start)
    while end - at >= 8:
        h = _turn(h ^ _round(np.uint64(0), _word(data, at)), 27) * _P1 + _P4
        at += 8
    if end - at >= 4:
        i = np.uint64(at)
        word = (
            np.uint64(data[i])
            | np.uint64(data[i + np.uint64(1)]) << np.uint64(8)
            | np.uint64(data[i + np.uint64(2)]) << np.uint64(16)
            | np.uint64(data[i + np.uint64(3)]) << np.uint64(24)
        )
        h = _turn(h ^ word * _P1, 23) * _P2 + _P3
        at += 4
    while at < end:
        h = _turn(h ^ np.uint64(data[np.uint64(at)]) * _P5, 11) * _P1
        at += 1
    h = (h ^ (h >> _33)) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


@njit(cache=True, nogil=True, inline="always")
def _line_end(data: Any, at: int, size: int) -> int:
    """Where the newline at or after `at` is; `size` if there is none."""
    while at + 8 <= size:
        # A byte of `word` is zero where the data have a newline; the usual test for a zero byte.
        word = _word(data, at) ^ _NEWLINES
        if (word - _ONES) & ~word & _TOPS:
            break
        at += 8
    while at < size and data[np.uint64(at)] != _NEWLINE:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _host(data: Any, start: int, size: int) -> Any:
    """(start, end) of the host of the line at `start`, and a place in that line from which to read on."""
    at = start
    while at < size and data[np.uint64(at)] != _NEWLINE:
        if (
            data[np.uint64(at)] == _COLON
            and at + 2 < size
            and data[np.uint64(at + 1)] == _SLASH
            and data[np.uint64(at + 2)] == _SLASH
        ):
            break
        at += 1
    else:
        return start, start, at
    at += 3
    host = at
    colon = -1
    close = -1
    while at < size:
        c = data[np.uint64(at)]
        if c in (_SLASH, _NEWLINE):
            break
        if c == _COLON and colon < 0:
            colon = at
        elif c == _CLOSE and close < 0:
            close = at
        at += 1
    if host < at and data[np.uint64(host)] == _OPEN:
        return host, close + 1 if close >= 0 else host, at
    return host, colon if colon >= 0 else at, at


@njit(cache=True, nogil=True)
def scan(data: Any, seed: Any, keys: Any, hosts: Any) -> None:
    """Key and host hash of every line; `keys` and `hosts` have as many places as there are lines."""
    size = len(data)
    start = 0
    last_start, last_end, last_hash = 0, -1, np.uint64(0)
    for row in range(len(keys)):
        host_start, host_end, end = _host(data, start, size)
        end = _line_end(data, end, size)
        # Links stay mostly on one host: the hash of the line before serves if the name is the same.
        same = host_end - host_start == last_end - last_start
        if same:
            for i in range(host_end - host_start):
                if data[np.uint64(host_start + i)] != data[np.uint64(last_start + i)]:
                    same = False
                    break
        if not same:
            last_hash = xxh64(data, host_start, host_end, seed)
        last_start, last_end = host_start, host_end
        hosts[row] = last_hash
        keys[row] = (last_hash & HIGH_16) | (xxh64(data, start, end, seed) & LOW_48)
        start = end + 1
