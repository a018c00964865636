"""Choosing references for many lists together, for the presets that ask for it (`Parameters.thorough`).

Choosing list by list, as WebGraph does, spends the chain limit badly: lists that would be good prototypes
have used up their chain for small savings, and a larger window can even make the graph larger (on cnr-2000
with chains of 16: 2.63 bits per link in a window of 16, 2.77 in one of 200). `plan` goes three steps:

1. Every list takes its best prototype as if there were no limit, which makes a forest.
2. Of its edges those are kept that save the most bits in all without a chain above the limit, by dynamic
   programming over the depth of each list, which is exact on a forest.
3. Lists that lost their prototype take the best one left that keeps all chains within the limit.

To choose in a forest is an idea of Zuckerli (Versari and others, 2020), which approximates step 2. The format
does not change: every reader of BV graphs reads the result. With limits of 0 and 1 there is little to plan,
and choosing list by list is as good or better.
"""

from __future__ import annotations

import numpy as np

from lycosa.compiled import njit
from lycosa.graph.bv_write_kernels import list_cost, split_list


@njit(cache=True, nogil=True)
def _savings(lists, starts, j, count, x, how, saving, chosen):  # type: ignore[no-untyped-def]
    """saving[i, r]: bits that reference r saves for list j+i, negative if none; chosen[j+i]: the best r."""
    longest = np.int64(0)
    for i in range(count):
        longest = max(longest, starts[i + 1] - starts[i])
    blocks = np.empty(2 * longest + 4, dtype=np.int64)
    extras = np.empty(longest + 1, dtype=np.int32)
    for i in range(count - j):
        a = starts[j + i]
        degree = starts[j + i + 1] - a
        chosen[j + i] = 0
        if degree == 0:
            continue
        for e in range(degree):
            extras[e] = lists[a + e]
        alone = list_cost(x + i, 0, how, blocks, 0, extras, degree, np.int64(1) << 40)
        most = 0
        for r in range(1, min(how[6], j + i) + 1):
            b = starts[j + i - r]
            if b == starts[j + i - r + 1]:
                continue
            block, extra = split_list(lists, a, a + degree, b, starts[j + i - r + 1], blocks, extras)
            cost = list_cost(x + i, r, how, blocks, block, extras, extra, alone)
            if cost < alone:
                saving[i, r] = min(alone - cost, np.int64(2147483647))
                if saving[i, r] > most:
                    most = saving[i, r]
                    chosen[j + i] = r


@njit(cache=True, nogil=True)
def _cut(j, limit, saving, chains, chosen):  # type: ignore[no-untyped-def]
    """Step 2: drop references until no chain is above the limit, at the least loss."""
    many = len(saving)
    # worth[i, d]: the most that the tree above list i can save if the chain below list i has length d.
    worth = np.zeros((many, limit + 1), dtype=np.int64)
    for i in range(many - 1, -1, -1):
        r = chosen[j + i]
        if r == 0 or r > i:
            continue
        for d in range(limit + 1):
            kept = saving[i, r] + worth[i, d + 1] if d < limit else np.int64(-1)
            worth[i - r, d] += max(kept, worth[i, 0])
    for i in range(many):
        r = chosen[j + i]
        chains[j + i] = 0
        if r > 0:
            d = chains[j + i - r]
            if d < limit and saving[i, r] + worth[i, d + 1] >= worth[i, 0]:
                chains[j + i] = d + 1
            else:
                chosen[j + i] = 0


@njit(cache=True, nogil=True)
def _mend(j, window, limit, saving, chains, chosen):  # type: ignore[no-untyped-def]
    """Step 3: lists without a prototype take the best that the trees above them leave."""
    many = len(saving)
    height = np.zeros(many, dtype=np.int64)  # of the tree above a list
    for i in range(many - 1, -1, -1):
        r = chosen[j + i]
        if 0 < r <= i:
            height[i - r] = max(height[i - r], height[i] + 1)
    for i in range(many):
        r = chosen[j + i]
        if r > 0:  # its prototype, which lies before it, may lie deeper by now
            chains[j + i] = chains[j + i - r] + 1
            continue
        most = 0
        for s in range(1, min(window, j + i) + 1):
            if saving[i, s] > most and chains[j + i - s] + 1 + height[i] <= limit:
                most = saving[i, s]
                r = s
        if r == 0:
            continue
        chosen[j + i] = r
        chains[j + i] = chains[j + i - r] + 1
        # Every list of the chain below has a higher tree above it now.
        low = i - r
        reach = height[i] + 1
        while low >= 0 and height[low] < reach:
            height[low] = reach
            if chosen[j + low] == 0:
                break
            low -= chosen[j + low]
            reach += 1


@njit(cache=True, nogil=True)
def plan(lists, starts, j, count, x, how, chains, chosen):  # type: ignore[no-untyped-def]
    """Choose the references of the lists j … count−1, the first being that of node x, into chosen[j:count].

    chains[:j] are those of the lists before; the chain limit must be one.
    """
    saving = np.full((count - j, how[6] + 1), -1, dtype=np.int32)
    _savings(lists, starts, j, count, x, how, saving, chosen)
    _cut(j, how[8], saving, chains, chosen)
    _mend(j, how[6], how[8], saving, chains, chosen)
