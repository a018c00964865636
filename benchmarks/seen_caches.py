"""The URL caches: probes per second, bits per entry, and miss rates by size, on a trace like a crawl's."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from lycosa.seen.cache import (
    ChainedCache,
    LruCache,
    ScatterCache,
    StaticCache,
    infinite_hits,
    min_hits,
)
from lycosa.url.key import Keys, mix_array

MAKERS: dict[str, Any] = {
    "CLOCK, scatter table": lambda n: ScatterCache(n),
    "RANDOM, scatter table": lambda n: ScatterCache(n, clock=False),
    "CLOCK, direct chaining": lambda n: ChainedCache(n),
    "RANDOM, direct chaining": lambda n: ChainedCache(n, clock=False),
    "LRU": lambda n: LruCache(n),
}


def trace(count: int, visits: int = 200, seed: int = 3) -> Keys:
    """Links in the order in which a crawl meets them, after the model of section 5.2.

    `visits` hosts are crawled at a time, a page of each in turn, each for 300 pages on average. A page has 60
    links: 30% repeat one of the same page; of the others 81% stay on the host, half of them to its 20 most
    popular pages (the set L'), half to its pages by popularity (L''); 5% lead to 1,000 pages popular everywhere
    (G); and 14% lead anywhere.

    The shares were chosen by us so that the curve has the paper's shape (a first trace without pages' repeats
    and visits had 40% hits at 2^16). So the hit rates illustrate the order of the policies; they are no evidence
    that a crawl hits 78% of the time. That must come from a real crawl.
    """
    dice = np.random.default_rng(seed)
    sizes = (50 + dice.pareto(1.1, 200_000) * 300).astype(np.int64)
    hosts = dice.integers(0, len(sizes), visits)
    rounds = []
    for _ in range(-(-count // (60 * visits))):
        ended = dice.random(visits) < 1 / 300
        hosts = np.where(ended, dice.integers(0, len(sizes), visits), hosts)
        shape = (visits, 60)
        here = np.broadcast_to(hosts[:, None], shape)
        anywhere = dice.integers(0, len(sizes), shape)
        kind = dice.random(shape)
        host = np.select([kind < 0.81, kind < 0.86], [here, np.full(shape, -1)], anywhere)
        known = sizes[np.maximum(host, 0)]
        page = (known * dice.random(shape) ** 3).astype(np.int64)
        page = np.where(kind < 0.405, dice.integers(0, 20, shape), page)
        page = np.where(host < 0, dice.integers(0, 1000, shape), page)
        prefix = mix_array((host + 2).astype(np.uint64)) & np.uint64(0xFFFF << 48)
        name = (host + 2).astype(np.uint64) * np.uint64(1 << 32) + page.astype(np.uint64)
        keys = prefix | (mix_array(name) & np.uint64((1 << 48) - 1))
        column = np.broadcast_to(np.arange(60), shape)
        earlier = (dice.random(shape) * column).astype(np.int64)
        repeats = (dice.random(shape) < 0.3) & (column > 0)
        copied = np.take_along_axis(keys, earlier, axis=1)
        rounds.append(np.where(repeats, copied, keys).ravel())
    return np.concatenate(rounds)[:count]


def speeds(keys: Keys, orders: tuple[int, ...] = (16, 20), repeats: int = 3) -> list[dict[str, Any]]:
    """Probes per second, the best of some runs; bits measured from the arrays."""
    rows = []
    hits = np.empty(len(keys), np.bool_)
    for order in orders:
        for name, make in MAKERS.items():
            best = float("inf")
            for _ in range(repeats):
                cache = make(1 << order)
                cache.probe(keys[:1000], hits[:1000])
                started = time.perf_counter()
                found = cache.probe(keys, hits)
                best = min(best, time.perf_counter() - started)
            rows.append(
                {
                    "cache": name,
                    "entries": 1 << order,
                    "probes_per_second": len(keys) / best,
                    "bits_per_entry": cache.nbytes * 8 / (1 << order),
                    "hit_rate": found / len(keys),
                }
            )
    return rows


def misses(keys: Keys, orders: range) -> dict[str, list[float]]:
    """Miss rates by policy, for caches of 2^order entries."""
    hits = np.empty(len(keys), np.bool_)
    values, counts = np.unique(keys, return_counts=True)
    by_popularity = values[np.argsort(-counts, kind="stable")]
    out: dict[str, list[float]] = {}
    for order in orders:
        size = 1 << order
        found = {
            "INFINITE": infinite_hits(keys),
            "MIN": min_hits(keys, size),
            "LRU": LruCache(size).probe(keys, hits),
            "CLOCK": ScatterCache(size).probe(keys, hits),
            "RANDOM": ScatterCache(size, clock=False).probe(keys, hits),
            "STATIC": StaticCache(by_popularity[:size]).probe(keys, hits),
        }
        for name, count in found.items():
            out.setdefault(name, []).append(1 - count / len(keys))
    return out
