"""Kernels of the synthetic web: the lists of pages, site by site. `synthetic` says what they make.

Numbers are drawn by xorshift64* from a state that is the mix of the seed and the page, so a page's draws do not
depend on those of others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.url.key_kernels import mix

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_STAR = np.uint64(0x2545F4914F6CDD1D)


@njit(cache=True, nogil=True, inline="always")
def begin(dice, seed, page):  # type: ignore[no-untyped-def]
    """The dice of a page."""
    dice[0] = mix(np.uint64(seed) * _GOLDEN ^ (np.uint64(page) + np.uint64(1))) | np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def roll(dice):  # type: ignore[no-untyped-def]
    """A number from 0 up to, but not, 1."""
    x = dice[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    dice[0] = x
    return np.float64((x * _STAR) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def alike(starts, nodes, pages):  # type: ignore[no-untyped-def]
    """How many of these pages share a link with the page before them. Lists ascend."""
    count = 0
    for page in pages:
        i, j = starts[page - 1], starts[page]
        while i < starts[page] and j < starts[page + 1]:
            if nodes[i] == nodes[j]:
                count += 1
                break
            if nodes[i] < nodes[j]:
                i += 1
            else:
                j += 1
    return count


@njit(cache=True, nogil=True)
def degrees(seed, knee, rise, fall, none, most, out):  # type: ignore[no-untyped-def]
    """Links that each page wants: double-Pareto around the knee, or none."""
    dice = np.empty(1, np.uint64)
    under = fall / (rise + fall)
    for page in range(len(out)):
        begin(dice, seed, page)
        if roll(dice) < none:
            out[page] = 0
            continue
        u = roll(dice)
        if u < under:
            x = knee * (u / under) ** (1.0 / rise)
        else:
            x = knee * ((1.0 - u) / (1.0 - under)) ** (-1.0 / fall)
        out[page] = min(np.int64(x) + 1, most)


@njit(cache=True, nogil=True)
def fill(seed, bounds, wanted, how, starts, nodes):  # type: ignore[no-untyped-def]
    """Write every page's list, ascending and without repeats; `starts` are where lists begin. Returns the links.

    `bounds[s]` is the first page of site s. `nodes` has room for the links wanted, and one a page more.
    """
    first: Any
    take: Any
    child: Any
    copy, longest, window, remote, home, inside, abroad, children = how
    dice = np.empty(1, np.uint64)
    sites = len(bounds) - 1
    row = np.empty(wanted.max() + 2 if len(wanted) else 2, np.int64)
    end = 0
    for s in range(sites):
        first, size = bounds[s], bounds[s + 1] - bounds[s]
        child = 1  # the first page of the site that nothing leads to yet
        for j in range(size):
            page = first + j
            starts[page] = end
            begin(dice, seed + 1, page)
            want = wanted[page]
            count = 0
            if child < size:
                take = np.int64(children * want)
                if child == j + 1:
                    take = max(take, 1)
                take = min(take, size - child)
                for k in range(take):
                    row[count] = first + child + k
                    count += 1
                child += take
            while count < want:
                if j and roll(dice) < copy:
                    other = page - 1 - np.int64(roll(dice) * min(j, window))
                    a, b = starts[other], starts[other + 1] if other + 1 <= page else end
                    if b > a:
                        # A stretch of the neighbour's list, as menus are.
                        at = a + np.int64(roll(dice) * (b - a))
                        run = min(min(b - at, want - count), 1 + np.int64(roll(dice) * longest))
                        for k in range(run):
                            row[count] = nodes[at + k]
                            count += 1
                        continue
                if size > 1 and roll(dice) >= remote:
                    row[count] = first + np.int64(size * roll(dice) ** inside)
                else:
                    to = np.int64(sites * roll(dice) ** abroad)
                    there = bounds[to + 1] - bounds[to]
                    deep = np.int64(there * roll(dice) ** inside) if roll(dice) >= home else 0
                    row[count] = bounds[to] + deep
                count += 1
            row[:count].sort()
            last = np.int64(-1)
            for k in range(count):
                if row[k] != last and row[k] != page:
                    nodes[end] = row[k]
                    end += 1
                    last = row[k]
            starts[page + 1] = end
    return end
