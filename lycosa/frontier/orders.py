"""Orders: which waiting URL of a host comes first, and which of the hosts that are ready.

An order is asked twice. When a URL is about to be put, `level` says in which of the host's FIFO queues it
waits (0 first): Mercator's front queues (Manning et al. §20.2.3). When a visit can begin, `rank` says how
good each ready host is (lowest first): the long-term scheduling of Castillo's thesis, ch. 6. Politeness
comes before either: a host that is not ready is never compared.

An order whose `ranked` is false leaves hosts to their ready times, the longest ready first, which costs
nothing per host. The rank of a ranked order must depend on its arguments alone, for as long as the
frontier is not told otherwise: frontiers keep ranks in a heap and ask again only when an argument changed.

`DepthOrder` is breadth-first search: a URL's level is its depth, hosts go by ready time. `LengthOrder`
takes the host with most waiting URLs first (Castillo's "length": large sites are begun early, so that the
crawl does not end with a few of them).
"""

from __future__ import annotations

from typing import Protocol

from lycosa.records import Waiting

LEVELS = 256
"""Levels are 0 to 255: as many as fit a byte of a host's queue."""


class Order(Protocol):
    """A policy of levels and ranks; the module's docstring is its contract."""

    @property
    def ranked(self) -> bool:
        """False: hosts go by ready time, and `rank` is never asked."""
        ...

    def level(self, waiting: Waiting) -> int:
        """The level at which a URL is put, from 0 (first) to `LEVELS` - 1."""
        ...

    def rank(self, host: str, queued: int, level: int) -> float:
        """How soon a ready host with `queued` URLs, the next at `level`, is visited: lowest first."""
        ...


class DepthOrder:
    """Breadth-first: the level is the depth, and hosts go by ready time."""

    ranked = False

    def level(self, waiting: Waiting) -> int:
        # Beyond the last level a URL is so deep that its place among the deep ones does not matter.
        return min(waiting.depth, LEVELS - 1)

    def rank(self, host: str, queued: int, level: int) -> float:
        return 0.0


class LengthOrder(DepthOrder):
    """The host with most waiting URLs first; within a host breadth-first."""

    ranked = True

    def rank(self, host: str, queued: int, level: int) -> float:
        return -float(queued)
