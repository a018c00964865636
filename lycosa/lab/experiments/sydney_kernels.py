"""The kernel of `lycosa.lab.experiments.sydney`: one crawl of a graph, compiled. `sydney_plain` does the same.

A page is in P (the pending) at most once at a time, and so in S (the left behind): both are rings of as many places
as there are nodes, and a page's cursor is kept by its number. A sampled page's links are put into their order in
place, so a return goes on at the cursor and nothing is sorted twice: O(links · log longest list), however often
pages come back.
"""

from __future__ import annotations

import numpy as np

from lycosa.compiled import njit
from lycosa.url.key_kernels import mix

NONE, FIFO, LIFO, EMPTIED = 0, 1, 2, 3
"""What S is: nothing at all; a queue; a stack; a queue that is emptied into P when P is empty."""

ALL = 1 << 30
"""As `lycosa.frontier.sydney.room.ALL`."""
DEEP = -1
"""In `first`: as many as there are, if any may enter at all."""

FETCHED, PEAK, PEAK_AT, PEAK_P, PEAK_S, LEFT, RETURNS, BARREN, DROPPED, FORGOTTEN = range(10)
"""What is counted; `lycosa.lab.experiments.sydney.Trace` says what the words mean."""
COUNTS = 10


@njit(cache=True, nogil=True)
def permute(nodes, keys, position):  # type: ignore[no-untyped-def]
    """Put a page's links into the order of `lycosa.frontier.sydney.room.permuted`."""
    salt = mix(np.uint64(position + 1))
    mixed = np.empty(len(nodes), np.uint64)
    for i in range(len(nodes)):
        mixed[i] = mix(keys[nodes[i]] ^ salt)
    nodes[:] = nodes[np.argsort(mixed)]


@njit(cache=True, nogil=True)
def _note(c, p, s, stride, curve):  # type: ignore[no-untyped-def]
    """The queues are so long now. A point of the curve is the largest state of its stretch of pages."""
    total = p + s
    if total > c[PEAK]:
        c[PEAK] = total
        c[PEAK_AT] = c[FETCHED]
    c[PEAK_P] = max(c[PEAK_P], p)
    c[PEAK_S] = max(c[PEAK_S], s)
    at = c[FETCHED] // stride
    if total >= curve[at, 0] + curve[at, 1]:
        curve[at, 0] = p
        curve[at, 1] = s


@njit(cache=True, nogil=True)
def crawl(  # type: ignore[no-untyped-def]
    starts, nodes, keys, sources, first, plan, table, stride, order, curve, returned, c
):  # fmt: skip
    """Crawl from the sources until nothing is pending nor left behind; fills the last four arguments.

    The arguments before are those of `lycosa.lab.experiments.sydney.Plan`. `nodes` is changed.
    """
    again, returns, least, low, budget, base, kind, lifo, shuffled, whole = plan
    n = len(starts) - 1
    seen = np.zeros(n, np.bool_)
    cursor = np.full(n, -1, np.int64)
    primary = np.empty(n, np.int32)
    secondary = np.empty(n, np.int32)
    head_p, p, head_s, s = 0, 0, 0, 0
    for v in sources:
        if seen[v]:
            continue
        if budget >= 0 and p >= budget:
            c[DROPPED] += 1
            continue
        seen[v] = True
        primary[p] = v
        p += 1
    if lifo:
        primary[:p] = primary[:p][::-1].copy()
    _note(c, p, s, stride, curve)
    while p or s:
        if kind == EMPTIED and p == 0:
            for i in range(s):
                primary[(head_p + i) % n] = secondary[(head_s + i) % n]
            p, s = s, 0
            _note(c, p, s, stride, curve)
        starving = p == 0
        if s and kind != EMPTIED and p < low:
            s -= 1
            if kind == LIFO:
                v = secondary[(head_s + s) % n]
            else:
                v = secondary[head_s]
                head_s = (head_s + 1) % n
        elif lifo:
            p -= 1
            v = primary[(head_p + p) % n]
        else:
            p -= 1
            v = primary[head_p]
            head_p = (head_p + 1) % n
        start, end = starts[v], starts[v + 1]
        at = min(p, len(table) - 1)
        back = cursor[v] >= 0
        if back:
            returned[v] = True
            c[RETURNS] += 1
            limit = again
            if at >= 0:
                limit = min(limit, table[at, 0])
            if returns and limit:
                limit = max(limit, (end - start) // returns)
            if starving:
                limit = max(limit, least)
        else:
            order[c[FETCHED]] = v
            c[FETCHED] += 1
            cursor[v] = start
            limit = first[v]
            if limit == DEEP:
                limit = ALL if at < 0 or table[at, 0] else 0
            elif at >= 0:
                limit = min(limit, table[at, 0])
            calm = ALL
            if at >= 0:
                limit = min(limit, table[at, 1])
                calm = table[at, 2]
            new = 0
            for i in range(start, end):
                if not seen[nodes[i]]:
                    new += 1
            if shuffled and (new > limit or new > calm):
                permute(nodes[start:end], keys, base + c[FETCHED] - 1)
        # What it gives now, new links up to the limit, ends at `stop`; `rest` is the next new one behind.
        found = 0
        stop = cursor[v]
        rest = stop
        while rest < end:
            if not seen[nodes[rest]]:
                if found == limit:
                    break
                found += 1
                stop = rest + 1
            rest += 1
        if back and found == 0:
            c[BARREN] += 1
        # Links have their places first; then it is asked whether there is one for the page.
        fits = budget < 0 or (whole and p + s < budget)
        room = found if fits else min(found, max(budget - p - s, 0))
        given = 0
        for i in range(cursor[v], stop):
            w = nodes[i]
            if seen[w]:
                continue
            if given == room:
                c[DROPPED] += 1
                continue
            seen[w] = True
            primary[(head_p + p + given) % n] = w
            given += 1
        if lifo:  # the page's first link comes out first
            for i in range(given // 2):
                x = (head_p + p + i) % n
                y = (head_p + p + given - 1 - i) % n
                primary[x], primary[y] = primary[y], primary[x]
        p += given
        cursor[v] = rest
        if rest < end:
            at = min(p, len(table) - 1)
            if kind == NONE or not (fits or p + s < budget) or (at >= 0 and not table[at, 3]):
                c[FORGOTTEN] += 1
            else:
                secondary[(head_s + s) % n] = v
                s += 1
                c[LEFT] += 1
        _note(c, p, s, stride, curve)
