"""Orders: which waiting URL of a host comes first, and which of the hosts that are ready.

An order decides two things. When URLs are about to be put, `levels` says in which of the host's FIFO queues each
waits (0 first): Mercator's front queues (Manning et al. §20.2.3). When a visit can begin, hosts are ranked
(lowest first): the long-term scheduling of Castillo's thesis, ch. 6. Politeness comes before either: no visit
begins at a host that is not ready.

How hosts rank is a `Ranking`: a formula of the host's numbers that kernels compute in place, or, for orders of the
user's own, `ASKED`: then `rank` is called. `rank` is the plain form of every formula; the tests compare the two.
It must depend on its arguments alone.

`bias` says how `take` chooses among the levels of one host: 0, the lowest first, always; F > 0, a random
choice among F front queues that favours the low ones (Manning et al. §20.2.3, "biased").

Random choices are *races*: each candidate draws a time, and the least wins. Times are exponential, at a rate
that falls with the level, so that a candidate at level l wins with a probability proportional to 1 / (l + 1)²:
however many candidates there are at lower levels, it is never shut out. A draw is a function of the host's name,
of a number and of the level, so a crawl on a virtual clock is reproducible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple, Protocol

from xxhash import xxh64_intdigest

from lycosa.records import Waiting
from lycosa.url.key import mix

LEVELS = 256
"""Levels are 0 to 255: as many as fit a byte of a host's queue."""


class Ranking(IntEnum):
    """How ready hosts are compared."""

    TIME = 0  # all alike: the longest ready first
    LENGTH = 1  # most waiting URLs first
    LEVEL = 2  # lowest next level first
    BIASED = 3  # a draw that favours low levels
    ASKED = 4  # by the order's own `rank`


class Sighting(NamedTuple):
    """The page on which links were found: all that a level may depend on besides the link itself."""

    source: str  # the page's URL
    key: int  # its key
    links: int  # how many links it has
    texts: Sequence[str]  # the anchor text of each


class Order(Protocol):
    """A policy of levels and ranks; the module's docstring is its contract."""

    @property
    def ranking(self) -> Ranking: ...

    @property
    def bias(self) -> int: ...

    @property
    def sighted(self) -> bool:
        """Whether levels depend on the sighting; if not, it need not be made."""
        ...

    def levels(self, items: Sequence[Waiting], sighting: Sighting | None) -> list[int]:
        """The level of each URL, 0 (first) to `LEVELS` - 1. No sighting: the page is not known (any more)."""
        ...

    def rank(self, host: str, queued: int, level: int) -> float:
        """How soon a ready host with `queued` URLs, the lowest at `level`, is visited: lowest first."""
        ...


_depth_of = attrgetter("depth")


class DepthOrder:
    """Breadth-first: the level is the depth, and hosts go by ready time."""

    ranking = Ranking.TIME
    bias = 0
    sighted = False

    def levels(self, items: Sequence[Waiting], sighting: Sighting | None) -> list[int]:
        # URLs deeper than the last level all get the last level.
        depths: list[int] = list(map(_depth_of, items))
        if depths and max(depths) >= LEVELS:
            depths = [min(depth, LEVELS - 1) for depth in depths]
        return depths

    def rank(self, host: str, queued: int, level: int) -> float:
        return 0.0


class LengthOrder(DepthOrder):
    """The host with most waiting URLs first; within a host breadth-first (Castillo's "length")."""

    ranking = Ranking.LENGTH

    def rank(self, host: str, queued: int, level: int) -> float:
        return -float(queued)


class BiasedOrder:
    """Mercator's front queues: depths up to F - 1 are levels; the choice is random, with a bias to low levels.

    A host's rank is a draw at its lowest level, repeated whenever its queues change; in `take` the host's levels
    race against each other.
    """

    ranking = Ranking.BIASED
    sighted = False

    def __init__(self, front_queues: int) -> None:
        self.bias = front_queues

    def levels(self, items: Sequence[Waiting], sighting: Sighting | None) -> list[int]:
        last = min(self.bias, LEVELS) - 1
        return [min(item.depth, last) for item in items]

    def rank(self, host: str, queued: int, level: int) -> float:
        return draw(host, queued, level)


def draw(host: str, number: int, level: int) -> float:
    """The random time of a level of a host: exponential, with mean (level + 1)²."""
    mixed = mix(xxh64_intdigest(host.encode("ascii")) ^ (number << 8 | level) & (1 << 64) - 1)
    return -math.log(((mixed >> 11) + 1) / 2**53) * (level + 1) ** 2


def winner(host: str, number: int, levels: Iterable[int]) -> int:
    """The level that wins the race; it depends only on the draws of the given levels."""
    return min(levels, key=lambda level: (draw(host, number, level), level))
