"""Kernels of the caching experiment: the trace of a crawl, and when each link is requested next.

The plain form of `trace` is `lycosa.lab.experiments.caching_plain`.
"""

from __future__ import annotations

import numpy as np

from lycosa.compiled import njit
from lycosa.lab.experiments.synthetic_kernels import begin, roll


@njit(cache=True, nogil=True)
def trace(  # type: ignore[no-untyped-def]
    starts,
    nodes,
    sites,
    machine,
    machines,
    sources,
    visits,
    lifo,
    repeats,
    seed,
    links,
    visit_of,
    origin,
    count,
):
    """Crawl with several machines; write every link that machine 0 meets to `links`, beside it the visit that met
    it and its page's site. Returns how many.

    Each visit in turn fetches a page of its site, or takes the site of its machine that has waited longest. Ends
    when nothing is left or `links` is full. `count[0]` is the pages that machine 0 fetched, `count[1]` their links
    to another site, `count[2]` the sum, over these pages, of the pages of their rounds.
    """
    pages, most = len(starts) - 1, len(links)
    number = 0
    for page in range(pages):
        if sites[page] >= number:
            number = sites[page] + 1
    seen = np.zeros(pages, np.bool_)
    after = np.full(pages, np.int32(-1))  # the next page in the queue of a page's site
    head = np.full(number, np.int32(-1))
    tail = np.full(number, np.int32(-1))
    busy = np.zeros(number, np.bool_)  # visited, or in line
    # Sites that wait for a visit of their machine, in rings: each is there once at most.
    line = np.empty((machines, number), np.int32)
    first = np.zeros(machines, np.int64)
    waiting = np.zeros(machines, np.int64)
    at = np.full(machines * visits, np.int32(-1))
    dice = np.empty(1, np.uint64)
    end, left = 0, 0
    for i in range(len(sources)):
        page = sources[i]
        if seen[page]:
            continue
        seen[page] = True
        left += 1
        site = sites[page]
        if head[site] < 0:
            head[site] = page
        else:
            after[tail[site]] = page
        tail[site] = page
        if not busy[site]:
            busy[site] = True
            m = machine[site]
            line[m, (first[m] + waiting[m]) % number] = site
            waiting[m] += 1
    while left:
        before = count[0]
        for v in range(machines * visits):
            m = v // visits
            if at[v] < 0:
                if not waiting[m]:
                    continue
                at[v] = line[m, first[m]]
                first[m] = (first[m] + 1) % number
                waiting[m] -= 1
            noted = m == 0
            site = at[v]
            page = head[site]
            head[site] = after[page]
            left -= 1
            count[0] += noted
            begin(dice, seed, page)
            a, b = starts[page], starts[page + 1]
            for j in range(a, b):
                target = nodes[j]
                if noted:
                    if end == most:
                        return end
                    links[end] = target
                    visit_of[end] = v
                    origin[end] = site
                    end += 1
                    if sites[target] != site:
                        count[1] += 1
                while noted and repeats > 0 and roll(dice) < repeats:
                    if end == most:
                        return end
                    again = nodes[a + np.int64(roll(dice) * (j - a + 1))]
                    links[end] = again
                    visit_of[end] = v
                    origin[end] = site
                    end += 1
                    if sites[again] != site:
                        count[1] += 1
                if seen[target]:
                    continue
                seen[target] = True
                left += 1
                its = sites[target]
                after[target] = -1
                if head[its] < 0:
                    head[its] = target
                    tail[its] = target
                elif lifo:
                    after[target] = head[its]
                    head[its] = target
                else:
                    after[tail[its]] = target
                    tail[its] = target
                if not busy[its]:
                    busy[its] = True
                    m = machine[its]
                    line[m, (first[m] + waiting[m]) % number] = its
                    waiting[m] += 1
            if head[site] < 0:
                at[v] = -1
                busy[site] = False
        count[2] += (count[0] - before) ** 2
    return end


@njit(cache=True, nogil=True)
def following(ids, last, out):  # type: ignore[no-untyped-def]
    """When each link is requested next (section 5.1): read backwards. `last` has an entry for each id, initially
    the end; finally it holds when each was requested first.

    Returns how many distinct ids there are.
    """
    distinct = 0
    never = len(ids)
    for t in range(len(ids) - 1, -1, -1):
        out[t] = last[ids[t]]
        if last[ids[t]] == never:
            distinct += 1
        last[ids[t]] = t
    return distinct
