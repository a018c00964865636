"""The URL caches: probes per second, bits per entry, and miss rates by size, on the stream of `seen_stream`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from seen_stream import Web

from lycosa.seen.cache import (
    ChainedCache,
    LruCache,
    ScatterCache,
    StaticCache,
    infinite_hits,
    min_hits,
)

MAKERS: dict[str, Any] = {
    "CLOCK, scatter table": lambda n: ScatterCache(n),
    "RANDOM, scatter table": lambda n: ScatterCache(n, clock=False),
    "CLOCK, direct chaining": lambda n: ChainedCache(n),
    "RANDOM, direct chaining": lambda n: ChainedCache(n, clock=False),
    "LRU": lambda n: LruCache(n),
}


def trace(count: int, visits: int = 100) -> np.ndarray:
    """Links in the order a crawl meets them: `visits` hosts at a time, pages of one host near each other."""
    web = Web(20_000_000, 16)
    dice = np.random.default_rng(3)
    parts = []
    number = 0
    while count > 0:
        keys = web.cycle(number).extracted
        number += 1
        # The cycle's links are in no order: bring those of a source host together, hosts in turns.
        hosts = keys >> np.uint64(48)
        turn = dice.permutation(1 << 16)[hosts.astype(np.int64)]
        rounds = np.argsort(
            turn // (65536 // visits * 4) * 10_000_000 + dice.integers(0, 9_999_999, len(keys))
        )
        parts.append(keys[rounds][:count])
        count -= len(parts[-1])
    return np.concatenate(parts)


def speeds(keys: np.ndarray, orders: tuple[int, ...] = (16, 20), repeats: int = 3) -> list[dict[str, Any]]:
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


def misses(keys: np.ndarray, orders: range) -> dict[str, list[float]]:
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
