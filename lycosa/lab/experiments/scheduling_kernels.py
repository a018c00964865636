"""Kernels of the scheduling experiment: one crawl of a web on a virtual clock. `scheduling_sim` says what happens.

The plain form is `lycosa.lab.experiments.scheduling_plain`; there the choice of the next site and page can also be
left to a production frontier.

Three kinds of heaps, all in arrays:

    pages of a site    a stretch of `heap` as long as the site has pages, best first by (key, sequence); `spot` is
                       where each page is, so that keys can change
    ready sites        best first by (rank, ready time, place); `where` is where each site is
    times              (time, number) pairs: sites that wait, connections that begin to be answered, and, on the
                       clock of transfers, pages that will be there

All transfers slow down alike when the link is full, so their clock runs at `speed` <= 1 of the real one, and a page
that takes s seconds at the site's own bandwidth is there when that clock has gone on by s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit

OPTIMAL, DEPTH, LENGTH, BATCH, PARTIAL, LISTED = 0, 1, 2, 3, 4, 5
GIVES, IN_LINE = 1, 2
_DAMPING = 0.85
_KEEPS = 0.01
"""The share of its rank that a page may keep. On a web of 50,000 pages ranks are then off by 0.8% in all."""


@njit(cache=True, nogil=True, inline="always")
def _better(key, sequence, a, b):  # type: ignore[no-untyped-def]
    return key[a] > key[b] or (key[a] == key[b] and sequence[a] < sequence[b])


@njit(cache=True, nogil=True)
def page_up(heap, spot, key, sequence, base, i):  # type: ignore[no-untyped-def]
    """Move the page at place i of a site's heap up to where it belongs."""
    page = heap[base + i]
    while i > 0:
        above = (i - 1) >> 1
        other = heap[base + above]
        if not _better(key, sequence, page, other):
            break
        heap[base + i] = other
        spot[other] = i
        i = above
    heap[base + i] = page
    spot[page] = i


@njit(cache=True, nogil=True)
def page_down(heap, spot, key, sequence, base, count, i):  # type: ignore[no-untyped-def]
    """Move the page at place i of a site's heap down to where it belongs."""
    page = heap[base + i]
    while True:
        below = 2 * i + 1
        if below >= count:
            break
        if below + 1 < count and _better(key, sequence, heap[base + below + 1], heap[base + below]):
            below += 1
        other = heap[base + below]
        if not _better(key, sequence, other, page):
            break
        heap[base + i] = other
        spot[other] = i
        i = below
    heap[base + i] = page
    spot[page] = i


@njit(cache=True, nogil=True, inline="always")
def _site_rank(kind, length, best, site):  # type: ignore[no-untyped-def]
    if kind == LENGTH:
        return float(length)
    return -float(site) if kind == LISTED else best


@njit(cache=True, nogil=True, inline="always")
def _sooner(rank, ready, place, a, b):  # type: ignore[no-untyped-def]
    if rank[a] != rank[b]:
        return rank[a] > rank[b]
    if ready[a] != ready[b]:
        return ready[a] < ready[b]
    return place[a] < place[b]


@njit(cache=True, nogil=True)
def site_up(line, where, rank, ready, place, i):  # type: ignore[no-untyped-def]
    """Move the site at place i of the ready ones up to where it belongs."""
    site = line[i]
    while i > 0:
        above = (i - 1) >> 1
        other = line[above]
        if not _sooner(rank, ready, place, site, other):
            break
        line[i] = other
        where[other] = i
        i = above
    line[i] = site
    where[site] = i


@njit(cache=True, nogil=True)
def site_down(line, where, rank, ready, place, count, i):  # type: ignore[no-untyped-def]
    """Move the site at place i of the ready ones down to where it belongs."""
    site = line[i]
    while True:
        below = 2 * i + 1
        if below >= count:
            break
        if below + 1 < count and _sooner(rank, ready, place, line[below + 1], line[below]):
            below += 1
        other = line[below]
        if not _sooner(rank, ready, place, other, site):
            break
        line[i] = other
        where[other] = i
        i = below
    line[i] = site
    where[site] = i


@njit(cache=True, nogil=True)
def push(times, numbers, count, time, number):  # type: ignore[no-untyped-def]
    """Add a (time, number) to a heap of so many."""
    i = count
    while i > 0:
        above = (i - 1) >> 1
        if times[above] < time or (times[above] == time and numbers[above] < number):
            break
        times[i] = times[above]
        numbers[i] = numbers[above]
        i = above
    times[i] = time
    numbers[i] = number


@njit(cache=True, nogil=True)
def pop(times, numbers, count):  # type: ignore[no-untyped-def]
    """Take the earliest out of a heap of so many; its number."""
    first = numbers[0]
    time, number = times[count - 1], numbers[count - 1]
    count -= 1
    i = 0
    while True:
        below = 2 * i + 1
        if below >= count:
            break
        if below + 1 < count and (
            times[below + 1] < times[below]
            or (times[below + 1] == times[below] and numbers[below + 1] < numbers[below])
        ):
            below += 1
        if time < times[below] or (time == times[below] and number <= numbers[below]):
            break
        times[i] = times[below]
        numbers[i] = numbers[below]
        i = below
    times[i] = time
    numbers[i] = number
    return first


@njit(cache=True, nogil=True)
def rank_known(starts, nodes, fetched, before, count, known, met, found, rank, left, giving, line):  # type: ignore[no-untyped-def]
    """PageRank of the `found` known pages by the links of the `count` fetched ones, up to a common factor.

    Pages that are not fetched, or have no links, give their rank to all known pages alike. So all pages have the
    same beside what links give them, and that is 1 here: x = 1 + d A x. Links only ever come, and ranks only grow;
    so a calculation goes on where the last one ended, with the pages known[met:found] and fetched[before:count],
    instead of going over the whole graph again (some 7,000 times in a crawl with N/350).

    `left` is the part of its rank that a page has not given on. A fetched page gives it when it is more than
    `_KEEPS` of its rank. `giving` is whether a page was fetched, `line` a ring of pages that will give; initially
    all are zero.
    """
    pages = len(line)
    for i in range(met, found):
        rank[known[i]] += 1.0
        left[known[i]] += 1.0
    first, waiting = 0, 0
    for i in range(before, count):
        giving[fetched[i]] = IN_LINE
        line[waiting] = fetched[i]
        waiting += 1
    while waiting:
        page = line[first]
        first = first + 1 if first + 1 < pages else 0
        waiting -= 1
        giving[page] = GIVES
        a, b = starts[page], starts[page + 1]
        share = _DAMPING * left[page] / max(b - a, 1)
        left[page] = 0.0
        for j in range(a, b):
            other = nodes[j]
            rank[other] += share
            left[other] += share
            if giving[other] == GIVES and left[other] > _KEEPS * rank[other]:
                giving[other] = IN_LINE
                line[(first + waiting) % pages] = other
                waiting += 1


@njit(cache=True, nogil=True)
def crawl(  # type: ignore[no-untyped-def]
    starts, nodes, sites, bases, sources, sizes, latency, bandwidth, oracle, how, order, times, active
):
    """Crawl; fills `order` with pages as they came, with their times, and how many connections were open then.

    `how`: which order, connections, pages per connection, seconds between visits, bytes per second of the link,
    pages between two calculations of ranks, connections below which a batch is stopped, and the share of the link
    that the predicted bandwidths of open connections are to fill (0: all connections are used).
    Returns how many pages came, and how often ranks were calculated.
    """
    kind, connections, per_visit, wait, link, between, halt, fill = how
    pages, number = len(starts) - 1, len(bases) - 1
    now: Any = 0.0
    key = np.zeros(pages, np.float64)
    sequence = np.zeros(pages, np.int64)
    heap = np.empty(pages, np.int32)
    spot = np.full(pages, np.int32(-1))
    length = np.zeros(number, np.int64)
    depth = np.zeros(pages, np.int32)
    seen = np.zeros(pages, np.bool_)
    known = np.empty(pages, np.int32)
    ranked = np.zeros(pages, np.bool_)  # in the last calculation of ranks
    score = np.zeros(pages, np.float64)
    links = pages if kind in (BATCH, PARTIAL) else 0
    worths = np.zeros(links, np.float64)  # ranks, as far as they are calculated
    left = np.zeros(links, np.float64)
    giving = np.zeros(links, np.int8)
    giver_line = np.zeros(links, np.int32)
    aside = np.empty(pages if kind == BATCH else 0, np.int32)  # known, and not in the batch
    rank = np.zeros(number, np.float64)
    ready = np.zeros(number, np.float64)
    place = np.full(number, np.int64(-1))
    where = np.full(number, np.int32(-1))
    line = np.empty(number, np.int32)
    wait_times = np.empty(number, np.float64)
    wait_sites = np.empty(number, np.int64)
    answer_times = np.empty(connections, np.float64)
    answer_slots = np.empty(connections, np.int64)
    there_times = np.empty(connections, np.float64)
    there_slots = np.empty(connections, np.int64)
    busy = np.zeros(number, np.bool_)
    slot_page = np.empty(connections, np.int64)
    slot_left = np.empty(connections, np.int64)
    free = np.arange(connections - 1, -1, -1)
    idle = connections
    lined, waiting, answering, coming = 0, 0, 0, 0
    found, got, places, since, besides, calculated = 0, 0, 0, 0, 0, 0
    met, used = 0, 0  # pages found, and pages fetched, at the last calculation of ranks
    clock = 0.0  # of transfers
    flow = 0.0  # bytes per second that the sites could send
    measured = np.zeros(number, np.bool_)  # sites from which a page has come
    speeds, those = 0.0, 0  # of them, summed up
    expected = 0.0  # predicted bytes per second of open connections
    slot_expected = np.zeros(connections, np.float64)
    fresh = np.empty(len(sources), np.int64)
    for i in range(len(sources)):
        fresh[i] = sources[i]
    # Pages to be put, the page they were found on, and the connection whose turn it is.
    new, source, turn = np.int64(len(sources)), np.int64(-1), np.int64(-1)
    came = False  # a page, just now
    while True:
        # Pages that were found: into the heaps of their sites, or aside.
        for i in range(new):
            page = fresh[i]
            if seen[page]:
                if kind == PARTIAL and source >= 0 and not ranked[page] and spot[page] >= 0:
                    key[page] += score[source] / (starts[source + 1] - starts[source])
                    score[page] = key[page]
                    site = sites[page]
                    page_up(heap, spot, key, sequence, bases[site], spot[page])
                    rank[site] = key[heap[bases[site]]]
                    if where[site] >= 0:
                        site_up(line, where, rank, ready, place, where[site])
                continue
            seen[page] = True
            sequence[page] = found
            known[found] = page
            found += 1
            depth[page] = depth[source] + 1 if source >= 0 else 0
            if kind == OPTIMAL:
                key[page] = oracle[page]
            elif kind in (DEPTH, LENGTH, LISTED):
                key[page] = -depth[page]
            elif source < 0:
                key[page] = 1.0 / len(sources)
                score[page] = key[page]
            elif kind == PARTIAL:
                key[page] = score[source] / (starts[source + 1] - starts[source])
                score[page] = key[page]
            if kind == BATCH:
                aside[besides] = page
                besides += 1
                continue
            site = sites[page]
            heap[bases[site] + length[site]] = page
            length[site] += 1
            page_up(heap, spot, key, sequence, bases[site], length[site] - 1)
            rank[site] = _site_rank(kind, length[site], key[heap[bases[site]]], site)
            if where[site] >= 0:
                site_up(line, where, rank, ready, place, where[site])
            elif not busy[site] and place[site] < 0:
                ready[site] = max(ready[site], now)
                place[site] = places
                places += 1
                push(wait_times, wait_sites, waiting, ready[site], site)
                waiting += 1
        new = np.int64(0)
        # The next page of a visit, or its end.
        if turn >= 0:
            slot, turn = turn, np.int64(-1)
            page = slot_page[slot]
            site = np.int64(sites[page]) if page >= 0 else -1 - page
            if slot_left[slot] and length[site]:
                page = heap[bases[site]]
                length[site] -= 1
                spot[page] = -1
                if length[site]:
                    heap[bases[site]] = heap[bases[site] + length[site]]
                    page_down(heap, spot, key, sequence, bases[site], length[site], 0)
                    rank[site] = _site_rank(kind, length[site], key[heap[bases[site]]], site)
                slot_left[slot] -= 1
                slot_page[slot] = page
                flow += bandwidth[site]
                push(there_times, there_slots, coming, clock + sizes[page] / bandwidth[site], slot)
                coming += 1
            else:
                busy[site] = False
                free[idle] = slot
                idle += 1
                expected = expected - slot_expected[slot] if idle < connections else 0.0
                ready[site] = now + wait
                if length[site]:
                    place[site] = places
                    places += 1
                    push(wait_times, wait_sites, waiting, ready[site], site)
                    waiting += 1
        # Recalculate ranks: for a batch when the last one is over or stopped, for partial every so many pages.
        over = kind == BATCH and besides > 0 and idle == connections and waiting == 0 and lined == 0
        if kind == BATCH and came and besides > 0 and connections - idle < halt and since >= between // 10:
            over = True
        came = False
        if over or (kind == PARTIAL and since >= between):
            if got:
                rank_known(
                    starts, nodes, order, used, got, known, met, found, worths, left, giving, giver_line
                )
                used, met = got, found
                calculated += 1
                score[:] = worths
            since = 0
            for page in range(pages):  # by number, which is the order of memory
                ranked[page] = seen[page]
                if spot[page] >= 0:
                    key[page] = score[page]
            for site in range(number):
                for i in range(length[site] // 2 - 1, -1, -1):
                    page_down(heap, spot, key, sequence, bases[site], length[site], i)
                if length[site]:
                    rank[site] = key[heap[bases[site]]]
            for i in range(lined // 2 - 1, -1, -1):
                site_down(line, where, rank, ready, place, lined, i)
            if kind == BATCH:
                take = min(between, besides)
                worth = np.empty(besides, np.float64)
                for i in range(besides):
                    worth[i] = -score[aside[i]]
                least = np.partition(worth, take - 1)[take - 1]
                alike = take - np.count_nonzero(worth < least)
                some = np.empty(take, np.int64)
                count = 0
                chosen = np.zeros(besides, np.bool_)
                for i in range(besides):  # of those as good as the last, the ones found first
                    alike -= worth[i] == least
                    if worth[i] < least or (worth[i] == least and alike >= 0):
                        chosen[i] = True
                        some[count] = i
                        count += 1
                best = some[np.argsort(worth[some], kind="mergesort")]
                for i in range(take):
                    page = aside[best[i]]
                    key[page] = score[page]
                    site = sites[page]
                    heap[bases[site] + length[site]] = page
                    length[site] += 1
                    page_up(heap, spot, key, sequence, bases[site], length[site] - 1)
                    rank[site] = key[heap[bases[site]]]
                    if where[site] >= 0:
                        site_up(line, where, rank, ready, place, where[site])
                    elif not busy[site] and place[site] < 0:
                        ready[site] = max(ready[site], now)
                        place[site] = places
                        places += 1
                        push(wait_times, wait_sites, waiting, ready[site], site)
                        waiting += 1
                kept = 0
                for i in range(besides):
                    if not chosen[i]:
                        aside[kept] = aside[i]
                        kept += 1
                besides = kept
        # Sites whose time has come.
        while waiting and wait_times[0] <= now:
            site = pop(wait_times, wait_sites, waiting)
            waiting -= 1
            line[lined] = site
            lined += 1
            site_up(line, where, rank, ready, place, lined - 1)
        # Visits that can begin.
        while idle and lined and (fill == 0.0 or expected < fill * link):
            site = line[0]
            lined -= 1
            where[site] = -1
            if lined:
                line[0] = line[lined]
                site_down(line, where, rank, ready, place, lined, 0)
            busy[site] = True
            place[site] = -1
            idle -= 1
            slot = free[idle]
            slot_left[slot] = per_visit
            slot_page[slot] = -1 - site
            if measured[site]:
                slot_expected[slot] = bandwidth[site]
            else:
                slot_expected[slot] = speeds / those if those else 0.0
            expected += slot_expected[slot]
            push(answer_times, answer_slots, answering, now + latency[site], slot)
            answering += 1
        # What happens next.
        speed = link / flow if flow > link else 1.0
        at = np.inf
        if answering:
            at = answer_times[0]
        if coming:
            at = min(at, now + max(there_times[0] - clock, 0.0) / speed)
        arrived = coming > 0 and (not answering or at < answer_times[0])
        if waiting and idle and wait_times[0] <= at:
            clock += (wait_times[0] - now) * speed
            now = wait_times[0]
            continue
        if at == np.inf:
            return got, calculated
        clock = max(clock, there_times[0]) if arrived else clock + (at - now) * speed
        now = at
        if arrived:
            slot = pop(there_times, there_slots, coming)
            coming -= 1
            page = slot_page[slot]
            flow -= bandwidth[sites[page]]
            if coming == 0:
                flow = 0.0  # without what rounding has left
            if not measured[sites[page]]:
                measured[sites[page]] = True
                speeds += bandwidth[sites[page]]
                those += 1
            order[got] = page
            times[got] = now
            active[got] = connections - idle
            got += 1
            since += 1
            came = True
            source = page
            new = starts[page + 1] - starts[page]
            if new > len(fresh):
                fresh = np.empty(2 * new, np.int64)
            for j in range(new):
                fresh[j] = nodes[starts[page] + j]
        else:
            slot = pop(answer_times, answer_slots, answering)
            answering -= 1
        turn = np.int64(slot)
