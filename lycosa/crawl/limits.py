"""Limits of a run: pages, bytes, time; visits draw on a quota, so that a limit of pages is exact.

A limit of pages counts URLs: a page that is fetched again does not count, and a continuous crawl that
has all its pages continues with these. A limit of bytes counts everything that is fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lycosa.clock import Clock
from lycosa.crawl.config import Limits
from lycosa.crawl.shard import Shard


class RunQuota(Protocol):
    """What a run may still fetch. Visits take pages from it one by one."""

    def start(self) -> None:
        """The run begins now."""
        ...

    def take(self, shard: int = 0) -> bool:
        """Ask for one page of a shard; False if there is none left."""
        ...

    def give_back(self, shard: int = 0) -> None:
        """The page that was taken did not become one."""
        ...

    def open(self) -> bool:
        """Whether another page may be taken."""
        ...

    def reached(self) -> bool:
        """Whether the run is over."""
        ...

    def change(self, limits: Limits) -> None:
        """The operator has changed the limits."""
        ...


class RunLimits:
    """Counts the whole crawl's pages, including earlier runs, and the fetches under way."""

    def __init__(
        self, limits: Limits, shards: Sequence[Shard], clock: Clock, *, continuous: bool = False
    ) -> None:
        self._limits = limits
        self._continuous = continuous
        self._shards = shards
        self._clock = clock
        self._granted = sum(shard.totals.pages for shard in shards)
        self._started = clock.monotonic()

    def start(self) -> None:
        self._started = self._clock.monotonic()

    def take(self, shard: int = 0) -> bool:
        """Ask for one page."""
        if not self.open():
            return False
        self._granted += 1
        return True

    def give_back(self, shard: int = 0) -> None:
        """The page that was taken did not become one."""
        self._granted -= 1

    def open(self) -> bool:
        """Whether another page may be taken."""
        return not self._limits.pages or self._granted < self._limits.pages

    def reached(self) -> bool:
        """Whether the run is over."""
        limits = self._limits
        if (
            limits.pages
            and not self._continuous
            and sum(shard.totals.pages for shard in self._shards) >= limits.pages
        ):
            return True
        if limits.bytes and sum(shard.totals.size for shard in self._shards) >= limits.bytes:
            return True
        return bool(limits.seconds) and self._clock.monotonic() - self._started >= limits.seconds

    def change(self, limits: Limits) -> None:
        self._limits = limits

    @property
    def pages(self) -> int:
        return self._limits.pages
