"""The Sydney strategy: how many of a page's new links enter the frontier at once. Decisions only, no I/O.

Castillo, Nelli and Panconesi, "Crawling the Web with Limited Memory", §3: of a page's new links at most *t*,
drawn at random, enter the primary queue; a page with more goes to the secondary queue, and is revisited later.
Here that means reading the page's record in the log, not fetching it again (§3.2 suggests as much); again at most
*t* of the links that are still new enter.

*Fill* is how much of the frontier's memory is used: 0 is empty, 1 is full. (Full is at 85% of the limit: arrays
grow by an eighth, and URLs that come back from the calendar or from a visit are never refused.) On fill depend

    t                  adaptive: all below 0.5, then 64, 32, 16, 8, and none from 1 on
                       sample, fixed, truncated: `sample` (or all), and none from 1 on
    a host's cap       none below 0.5; then a host holds at most an eighth of what fits, or a few slow hosts
                       would fill the memory and leave the others idle
    coming back        adaptive: below 0.45, or when a shard has nothing else to do
                       sample, fixed: when a shard has few URLs left; in any case at most 64 links at a time

and the mode decides what happens to the rest: left behind (adaptive, sample), dropped once the memory is full
(fixed: §3.3), always dropped (truncated: §3.1). Only the first two modes cover everything.

§5.2 names two refinements, both options: sampling only pages near the root of a site (`directories`: deep
pages are linked by few others, so all their links enter), and leaving a page of many links and a low rank
behind first (`quality`).

`permuted` is the order in which a record's links are offered: pseudo-random, and the same whenever the record
is read again, so that a cursor is all that a record left behind needs.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from lycosa.frontier.options import FrontierOptions
from lycosa.url.key import Keys, mix, mix_array

ALL = 1 << 30
"""Stands for no limit on the number of links."""
MOST_BACK = 64
"""The most links that a left-behind record gives at a time, lest one huge page fill the memory at once."""
FULL = 0.85
"""The share of the limit at which the memory counts as full."""
_HELD = 0.94
"""From this share of the limit on, frontiers do not grow: an array grows by an eighth at once."""
_WITHIN = 0.8
"""A frontier that uses less than this share of what it holds has room for a page's links without growing."""
PER_URL = 40
"""Bytes that a waiting URL takes, its share of its host included: an estimate, for caps and answers awaited."""
_STEPS = ((0.5, ALL), (0.6, 64), (0.7, 32), (0.85, 16), (1.0, 8))
_CAP_FROM = 0.5
_LOW_FILL = 0.45
_LOW_PENDING = 64
_LOW_HOST = 16


def permuted(keys: Keys, position: int) -> NDArray[np.intp]:
    """The order in which the links of the record at `position` are offered, as indices."""
    return np.argsort(mix_array(keys ^ np.uint64(mix(position + 1))), kind="stable")


class Room:
    """The memory of an agent's frontiers: one limit over all of its shards.

    There are two numbers per shard: the bytes in *use* determine the fill, hence how many links may enter; the
    limit is on the bytes *held*. A frontier keeps the memory it held once for URLs of its own, so over a long
    crawl the shards together may hold more than they use; near the limit only a shard with room in what it holds
    gets more links. Shards call `tell` from any thread: some are just being recovered.
    """

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self.limit = limit
        self.used = 0
        self.held = 0
        self._of: dict[int, tuple[int, int]] = {}

    def tell(self, shard: int, used: int, held: int | None = None) -> None:
        """Set how many bytes a shard's frontier uses and holds now, answers that it awaits included."""
        with self._lock:
            before = self._of.get(shard, (0, 0))
            now = (used, max(used, before[1] if held is None else held))
            self._of[shard] = now
            self.used += now[0] - before[0]
            self.held += now[1] - before[1]

    def forget(self, shard: int) -> None:
        """The shard is no longer this agent's."""
        with self._lock:
            used, held = self._of.pop(shard, (0, 0))
            self.used -= used
            self.held -= held

    @property
    def is_tight(self) -> bool:
        """Whether the memory is so full that exact numbers of bytes held are needed."""
        return 4 * max(self.used, self.held) > self.limit

    def may_grow(self, shard: int) -> bool:
        """Whether URLs may be put into that shard's frontier as far as the limit goes."""
        used, held = self._of.get(shard, (0, 0))
        return self.held < _HELD * self.limit or used < _WITHIN * held

    @property
    def fill(self) -> float:
        return self.used / (FULL * self.limit)

    def urls_left(self, until: float) -> int:
        """About how many more URLs fit until the fill is `until`."""
        return max(int(until * FULL * self.limit) - self.used, 0) // PER_URL


class Sampler:
    """How many links enter, and what becomes of the rest."""

    def __init__(self, options: FrontierOptions) -> None:
        self._mode = options.admit
        self._sample = options.sample or ALL
        self._directories = options.directories
        self._quality = options.quality
        self.host_cap = max(int(FULL * options.memory) // (8 * PER_URL), 64)

    def t(self, fill: float) -> int:
        """How many new links of a page may enter now."""
        if fill >= 1.0:
            return 0
        if self._mode != "adaptive":
            return self._sample
        return min(self._sample, next(t for below, t in _STEPS if fill < below))

    def of_page(self, fill: float, url: str, links: int, low: bool) -> int:
        """`t` for one page: its address, how many links it has, whether its rank is known to be low."""
        t = self.t(fill)
        if self._directories and t and directories_of(url) >= self._directories:
            return ALL
        if self._quality and low and links > min(t, MOST_BACK):
            return 0
        return t

    def back(self, fill: float) -> int:
        """How many links a left-behind record gives at a time."""
        return min(self.t(fill), MOST_BACK)

    def cap(self, fill: float) -> int:
        """How many URLs a host may have waiting."""
        return ALL if fill < _CAP_FROM else self.host_cap

    def keeps(self, fill: float) -> bool:
        """Whether links that do not enter are left behind; else they are dropped."""
        return self._mode in ("adaptive", "sample") or (self._mode == "fixed" and fill < 1.0)

    def is_low(self, fill: float, pending: int) -> bool:
        """Whether a shard with so many pending URLs should come back to records it left behind."""
        if self._mode == "adaptive":
            return fill < _LOW_FILL
        return fill < 1.0 and pending < _LOW_PENDING

    def host_is_low(self, fill: float, queued: int) -> bool:
        """Whether a host with so many URLs should get more of those left behind for it."""
        return fill < 1.0 and queued < _LOW_HOST


def directories_of(url: str) -> int:
    """How many directories the path of a URL has."""
    path = url.partition("://")[2].partition("?")[0]
    return max(path.count("/") - 1, 0)
