"""Traces of links, and the miss rates of caches over them: the computation behind `caching`.

The trace is that of a crawl of the given web in the way of Mercator (§4.1): a number of visits at a time, each with
a site of its own, from which it fetches a page whenever its turn comes, first in, first out, until no page of the
site is pending; then it takes the site that has waited longest. With several machines each has as many visits, and
the sites assigned to it by a hash; the trace is that of the first. Every link of a page is a request to the cache.

CLOCK and RANDOM are the caches that a crawl uses (`lycosa.seen.cache.ScatterCache`), LRU and STATIC are from the
same module, MIN is the kernel of `lycosa.seen.cache_kernels`: nothing is implemented twice.

A trace of 70 million links takes 0.7 GB, and its curves need 1.1 GB more: an experiment holds one trace at a
time.

The *critical region* of a curve: the sizes around its steepest fall, as far as each doubling of the cache lowers
the miss rate at least half as much as the steepest one does. Caches below 2^5 are left out: their hits are repeats
within a page. The *knee*: after the region's beginning, the size at which the curve lies farthest below
the straight line to the first cache that holds everything, sizes on a log scale.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lycosa.lab.experiments import caching_kernels as kernels
from lycosa.lab.experiments.result import Told
from lycosa.lab.experiments.web import Web
from lycosa.seen import cache_kernels
from lycosa.seen.cache import LruCache, ScatterCache, StaticCache
from lycosa.url.key import Keys, mix_array

LARGEST = 25
PROCESSES = 4
REPEATS = 0.3
MOST = 70_000_000
"""Links of a trace: as many as the paper compared its three crawls with. Longer crawls are cut off there."""
WITHIN = 5
"""Caches below 2^5 catch only the repeats within a page."""
POLICIES = ("MIN", "LRU", "CLOCK", "RANDOM", "STATIC")
Rates = dict[str, list[float]]


class Trace(NamedTuple):
    """The links that a crawl meets, in order."""

    links: npt.NDArray[np.int32]
    visits: npt.NDArray[np.int16]  # which visit met each
    origins: npt.NDArray[np.int32]  # the site of the page with each link
    fetched: int
    remote: int  # links to another site
    in_use: float  # visits that had a site when a page was fetched, averaged over the pages


def machine_of(web: Web, machines: int) -> npt.NDArray[np.int8]:
    """The machine of each site."""
    sites = np.arange(len(web.homes), dtype=np.uint64)
    return np.asarray((mix_array(sites) % np.uint64(machines)).astype(np.int8))


def trace(
    web: Web,
    visits: int,
    *,
    machines: int = 1,
    repeats: float = REPEATS,
    lifo: bool = False,
    most: int = MOST,
) -> Trace:
    """Crawl the web with that many visits at a time on each machine; returns what the first machine meets."""
    machine = machine_of(web, machines)
    met = int(np.diff(web.lists.starts)[machine[web.sites] == 0].sum())
    room = min(int(met / (1 - repeats) * 1.02) + 1_000, most)
    links = np.empty(room, np.int32)
    of = np.empty(room, np.int16)
    origins = np.empty(room, np.int32)
    count = np.zeros(3, np.int64)
    graph = (web.lists.starts, web.lists.nodes, web.sites, machine, machines, web.start)
    end = kernels.trace(*graph, visits, lifo, repeats, web.seed, links, of, origins, count)
    in_use = int(count[2]) / max(int(count[0]), 1)
    return Trace(links[:end], of[:end], origins[:end], int(count[0]), int(count[1]), in_use)


def cross(web: Web, made: Trace) -> npt.NDArray[np.bool_]:
    """Which links a crawl by four machines sends to another."""
    machine = machine_of(web, PROCESSES)
    return np.asarray(machine[web.sites[made.links]] != machine[made.origins])


class Curves:
    """Miss rates of one trace, by policy and size."""

    def __init__(self, web: Web, links: npt.NDArray[np.int32]) -> None:
        self.links = links
        self.keys: Keys = web.keys[links]
        self.following = np.empty(len(links), np.int32)  # a trace has far fewer links than 2^31
        first = np.full(web.pages, len(links), np.int32)
        self.distinct = int(kernels.following(links, first, self.following))
        self._first = first[first < len(links)]
        counts = np.bincount(links, minlength=web.pages)
        self._popular: Keys = web.keys[np.argsort(-counts, kind="stable")[: self.distinct]]
        self.hits = np.empty(len(links), np.bool_)

    @property
    def infinite(self) -> float:
        return self.distinct / max(len(self.links), 1)

    def cache(self, policy: str, order: int) -> LruCache | ScatterCache | StaticCache:
        """A cache of 2^order entries."""
        size = 1 << order
        if policy == "STATIC":
            return StaticCache(self._popular[:size])
        return LruCache(size) if policy == "LRU" else ScatterCache(size, clock=policy == "CLOCK")

    def rate(self, policy: str, order: int) -> float:
        """The miss rate. A cache that holds everything misses each link once; STATIC, loaded in advance, never."""
        return 1 - self._probe(policy, order) / max(len(self.links), 1)

    def _probe(self, policy: str, order: int) -> int:
        """The number of hits; `hits` says which links they are."""
        if policy != "MIN":
            return self.cache(policy, order).probe(self.keys, self.hits)
        ids = self.links
        most = int(ids.max(initial=0)) + 1
        return int(cache_kernels.min_hits(ids, self.following, most, 1 << order, self.hits))

    def rates(self, policies: Sequence[str], told: Told, what: str) -> Rates:
        """The rates of all sizes, up to the first that holds everything."""
        made: Rates = {policy: [] for policy in policies}
        for order in range(LARGEST + 1):
            whole = 1 << order >= 2 * self.distinct
            for policy, values in made.items():
                told(f"{what}: {policy}, 2^{order} entries")
                values.append(values[-1] if whole and values else self.rate(policy, order))
        return made

    def over_time(self, policy: str, order: int, points: int = 50) -> list[float]:
        """The miss rate of each fiftieth of the trace."""
        if policy == "INFINITE":
            self.hits[:] = True
            self.hits[self._first] = False
        else:
            self._probe(policy, order)
        return [1 - float(part.mean()) for part in np.array_split(self.hits, points) if len(part)]


class Region(NamedTuple):
    """Where a curve falls, in log2 of entries."""

    start: int
    end: int
    knee: int


def region(rates: Sequence[float]) -> Region:
    """The critical region and the knee; see above."""
    falls = [a - b for a, b in pairwise(rates)]
    first = min(WITHIN, len(falls) - 1)
    steepest = max(range(first, len(falls)), key=lambda i: falls[i])
    start, end = steepest, steepest + 1
    while start > first and falls[start - 1] >= falls[steepest] / 2:
        start -= 1
    while end < len(falls) and falls[end] >= falls[steepest] / 2:
        end += 1
    whole = next(i for i, rate in enumerate(rates) if rate <= rates[-1] + 0.001)
    span = max(whole - start, 1)
    below = [
        rates[start] + (rates[-1] - rates[start]) * (i - start) / span - rates[i]
        for i in range(start, whole + 1)
    ]
    return Region(start, end, start + int(np.argmax(below)) if below else end)


def per_visit(web: Web, made: Trace, visits: int, entries: int) -> float:
    """The miss rate with one cache per visit, together at least as large as a common one of `entries` (§7)."""
    each = 1 << max(math.ceil(math.log2(entries / visits)), 0)
    found = 0
    for v in range(visits):
        keys = web.keys[made.links[made.visits == v]]
        found += ScatterCache(each).probe(keys, np.empty(len(keys), np.bool_))
    return 1 - found / max(len(made.links), 1)


def speed(curves: Curves, order: int = 16) -> float:
    """References per second of CLOCK on one core, by CPU time: the best of ten runs; of three if it takes long."""
    best = math.inf
    for _ in range(10 if len(curves.links) < 20_000_000 else 3):
        cache = ScatterCache(1 << order)
        began = time.thread_time()
        cache.probe(curves.keys, curves.hits)
        best = min(best, time.thread_time() - began)
    return len(curves.links) / max(best, 1e-9)
