"""Kernels of the budgets: a bounded table of names with page counts and, for domains, sketches of in-links.

    table  = row x (WAYS << bits)          sets of WAYS rows; the top `bits` bits of a name choose its set
    row    = name pages [sketch sketch]    u64 each; name: a 64-bit hash, 0 for an empty row
    sketch = 32 registers of 4 bits, 16 to a word, the first lowest

Within a set the rows lie in the order they were made, empty ones last. A set that is full is split, with all
others, by the next bit of the names, as long as the table may grow; after that the row of fewest pages (then of
the smallest sketch, then the oldest) is forgotten for a new one.

A sketch is a HyperLogLog (Flajolet, Fusy, Gandouet, Meunier 2007): the hash of a source chooses a register and a
rank, P(rank > r) = 2^-r, and each register keeps the highest rank it has met. Neither the order of what it is told
matters nor repetition. With 32 registers the estimate is off by 18% (one standard error), by less for few sources,
which are counted by the registers still empty (linear counting); it ends at some 700,000.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lycosa.compiled import njit

NAME, PAGES, SKETCH = 0, 1, 2
WAYS = 8
REGISTERS = 32
RANKS = 15
DONE, UNKNOWN, NO_ROOM = 0, 1, 2

_U0, _U1, _U2, _U4, _U15, _U64 = (np.uint64(n) for n in (0, 1, 2, 4, 15, 64))


@njit(cache=True, nogil=True)
def find(rows: Any, bits: Any, name: Any) -> Any:
    """(the row of a name, True), or (where a row for it can be made, -1 if its set is full, False)."""
    first = np.int64(name >> np.uint64(64 - bits)) * WAYS
    for at in range(first, first + WAYS):
        if rows[at, NAME] == name:
            return at, True
        if rows[at, NAME] == _U0:
            return at, False
    return -1, False


@njit(cache=True, nogil=True)
def weight(rows: Any, at: Any) -> Any:
    """The sum of a sketch's ranks: grows with what it has met."""
    total = _U0
    for column in range(SKETCH, rows.shape[1]):
        word = rows[at, column]
        while word:
            total += word & _U15
            word >>= _U4
    return total


@njit(cache=True, nogil=True)
def make(rows: Any, bits: Any, name: Any, forget: Any) -> Any:
    """The row of a name, made if need be; -1 if there is no room and none is to be forgotten."""
    at, here = find(rows, bits, name)
    if here:
        return at
    if at < 0:
        if not forget:
            return -1
        first: Any = np.int64(name >> np.uint64(64 - bits)) * WAYS
        worst: Any = first
        for other in range(first + 1, first + WAYS):
            if rows[other, PAGES] < rows[worst, PAGES] or (
                rows[other, PAGES] == rows[worst, PAGES] and weight(rows, other) < weight(rows, worst)
            ):
                worst = other
        for other in range(worst, first + WAYS - 1):
            rows[other] = rows[other + 1]
        at = first + WAYS - 1
    rows[at] = _U0
    rows[at, NAME] = name
    return at


@njit(cache=True, nogil=True)
def count(rows: Any, bits: Any, name: Any, forget: Any) -> Any:
    """One more page of a name; how many it has, or -1 as `make`."""
    at = make(rows, bits, name, forget)
    if at < 0:
        return -1
    rows[at, PAGES] += _U1
    return np.int64(rows[at, PAGES])


@njit(cache=True, nogil=True)
def meet(rows: Any, bits: Any, name: Any, forget: Any, register: Any, rank: Any) -> Any:
    """Show a source to the sketch of a name; False if there is no room, as `make`."""
    at = make(rows, bits, name, forget)
    if at < 0:
        return False
    column = SKETCH + register // 16
    shift = np.uint64(4 * (register % 16))
    word = rows[at, column]
    if ((word >> shift) & _U15) < np.uint64(rank):
        rows[at, column] = (word & ~(_U15 << shift)) | (np.uint64(rank) << shift)
    return True


@njit(cache=True, nogil=True)
def meet_all(
    rows: Any, bits: Any, hosts: Any, start: Any, memo: Any, own: Any, forget: Any, register: Any, rank: Any
) -> Any:
    """Show a source to the domains of hosts, from `start` on: all but its own, and those of nobody (0).

    `memo` has (hash of a host, domain) in pairs of slots by the low bits of the hash. Returns where it stopped,
    and why: a host that is not in the memo, or want of room.
    """
    last = _U0
    for i in range(start, hosts.size):
        host = hosts[i]
        if host == last:  # links stay mostly on one host
            continue
        slot: Any = np.int64(host & np.uint64(memo.shape[0] - 1))
        if memo[slot, 0] != host:
            slot ^= 1
            if memo[slot, 0] != host:
                return i, UNKNOWN
        domain = memo[slot, 1]
        if domain not in (_U0, own) and not meet(rows, bits, domain, forget, register, rank):
            return i, NO_ROOM
        last = host
    return hosts.size, DONE


@njit(cache=True, nogil=True)
def split(old: Any, new: Any, bits: Any) -> None:
    """Fill an empty table of `bits` bits from one with half as many sets; every row keeps its order."""
    for at in range(old.shape[0]):
        if old[at, NAME] != _U0:
            to, _ = find(new, bits, old[at, NAME])
            new[to] = old[at]


@njit(cache=True, nogil=True)
def refill(rows: Any, bits: Any, kept: Any, start: Any, forget: Any) -> Any:
    """Put in the rows `kept` from `start` on, in order; where it stopped for want of room."""
    for i in range(start, kept.shape[0]):
        at = make(rows, bits, kept[i, NAME], forget)
        if at < 0:
            return i
        rows[at] = kept[i]
    return kept.shape[0]


@njit(cache=True, nogil=True)
def estimate(rows: Any, at: Any) -> Any:
    """How many different sources a row's sketch has met."""
    empty = 0
    total = 0.0
    for column in range(SKETCH, SKETCH + 2):
        word = rows[at, column]
        for _ in range(16):
            rank = word & _U15
            word >>= _U4
            empty += rank == _U0
            total += 2.0 ** -np.float64(rank)
    raw = 0.697 * REGISTERS * REGISTERS / total
    if raw <= 2.5 * REGISTERS and empty:
        return REGISTERS * math.log(REGISTERS / empty)
    return raw
