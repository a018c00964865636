"""A stream of URLs like a crawl's, as keys: input for uniqueness stores in the lab and in benchmarks.

The generator:

- hosts have Pareto-distributed numbers of pages (shape 1.1, at least 5 pages), sized so that the *known* pages of
  all hosts add up to the number of stored URLs asked for; page p of host h has the key
  `top 16 bits of hash(h) | low 48 bits of hash(h, p)`, as in `lycosa.url.key`;
- a cycle crawls 100,000 known pages (unless told otherwise) of the hosts whose keys lie in one of N equal ranges
  (the schedule of VEUNIQ: URLs are selected by server), hosts in proportion to their known pages, and extracts
  900,000 links from them;
- 81% of the links stay on the host of their page, the others go to hosts anywhere, in proportion to their
  known pages (Broder, Najork, Wiener, 4.1: 81.5% of links were local);
- a local link leads with probability 0.8 to a known page, by popularity (page number = known * u^3), else to one
  of the host's next pages, not known yet; a link abroad leads to a known page with probability 0.9;
- pages discovered count as known from the next cycle in which the host takes part.

Everything follows from one seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lycosa.url.key import mix_array

Keys = NDArray[np.uint64]
CRAWLED, EXTRACTED = 100_000, 900_000
LOCAL = 0.81
_LOW_48 = np.uint64((1 << 48) - 1)
_HIGH_16 = np.uint64(0xFFFF << 48)


@dataclass
class Cycle:
    """What one cycle gives to a store."""

    crawled: Keys
    extracted: Keys


class Web:
    """Hosts and their known pages."""

    def __init__(
        self, stored: int, ranges: int, seed: int = 1, *, crawled: int = CRAWLED, extracted: int = EXTRACTED
    ) -> None:
        """`crawled` pages and `extracted` links make a cycle."""
        self._crawled, self._extracted = crawled, extracted
        self._dice = np.random.default_rng(seed)
        self.ranges = ranges
        mean = 300
        count = max(stored // mean, 16 * ranges)
        sizes = 5 + self._dice.pareto(1.1, count) * 30
        sizes = np.maximum(sizes * (stored / sizes.sum()), 1).astype(np.int64)
        prefix = mix_array(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
        order = np.argsort(prefix & _HIGH_16, kind="stable")
        self.prefix: Keys = (prefix & _HIGH_16)[order]
        self._salt: Keys = (prefix | np.uint64(1))[order]
        self.known = sizes[order]
        lows = np.array([i * (1 << 64) // ranges for i in range(ranges)], np.uint64)
        self._bounds = np.append(np.searchsorted(self.prefix, lows), count)
        self._everywhere = np.cumsum(self.known)

    def keys(self, hosts: NDArray[np.int64], pages: NDArray[np.int64]) -> Keys:
        """The keys of pages of hosts."""
        mixed = mix_array(self._salt[hosts] * (pages.astype(np.uint64) + np.uint64(1)))
        return self.prefix[hosts] | (mixed & _LOW_48)

    def stored(self, part: int) -> Keys:
        """All known keys of a range, ascending."""
        hosts = np.arange(self._bounds[part], self._bounds[part + 1])
        counts = self.known[hosts]
        rows = np.repeat(hosts, counts)
        pages = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        keys = np.sort(self.keys(rows, pages))
        return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys

    def cycle(self, number: int) -> Cycle:
        """Crawl pages of one range, and extract links from them."""
        dice = self._dice
        crawls, extracts = self._crawled, self._extracted
        part = number % self.ranges
        start, end = int(self._bounds[part]), int(self._bounds[part + 1])
        weights = np.cumsum(self.known[start:end])
        pick = dice.integers(0, weights[-1], crawls)
        hosts = start + np.searchsorted(weights, pick, side="right")
        pages = (dice.random(crawls) * self.known[hosts]).astype(np.int64)
        crawled = self.keys(hosts, pages)

        source = hosts[dice.integers(0, crawls, extracts)]
        local = dice.random(extracts) < LOCAL
        abroad = np.searchsorted(
            self._everywhere, dice.integers(0, self._everywhere[-1], extracts), side="right"
        )
        target = np.where(local, source, abroad)
        old = dice.random(extracts) < np.where(local, 0.8, 0.9)
        known = self.known[target]
        page = (known * dice.random(extracts) ** 3).astype(np.int64)
        fresh = known + dice.integers(0, np.maximum(known // 20, 2))
        extracted = self.keys(target, np.where(old, page, fresh))
        new_hosts, new_counts = np.unique(target[~old], return_counts=True)
        self.known[new_hosts] += np.minimum(new_counts, np.maximum(self.known[new_hosts] // 20, 2))
        return Cycle(crawled, extracted)


def links(stored: int, count: int, seed: int = 1, batch: int = 60) -> Iterator[Keys]:
    """A stream of pages' links, batch by batch, over a web that starts with `stored` known pages."""
    web = Web(stored, 16, seed)
    number = 0
    while count > 0:
        keys = web.cycle(number).extracted[:count]
        count -= len(keys)
        number += 1
        for at in range(0, len(keys), batch):
            yield keys[at : at + batch]
