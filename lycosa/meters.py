"""Meters: what a running crawl counts, for the screen, `status` and the dashboard.

A meter is a plain number that its owner changes in place; reading all of them is one dictionary.
Counters only grow and are named `room.thing` (`fetch.pages`); gauges are functions called at reading time, so
that the owner of a quantity (the frontier's length, a cache's size) need not report each change.
"""

from __future__ import annotations

from collections.abc import Callable


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, n: int = 1) -> None:
        self.value += n


class Meters:
    """Every counter and gauge of one agent, by name."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Callable[[], float]] = {}

    def counter(self, name: str) -> Counter:
        """The counter of that name, created at the first call."""
        found = self._counters.get(name)
        if found is None:
            found = self._counters[name] = Counter()
        return found

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Register `read` to be called for `name` whenever the meters are read."""
        self._gauges[name] = read

    def read(self) -> dict[str, float]:
        """All values now, sorted by name."""
        values: dict[str, float] = {name: c.value for name, c in self._counters.items()}
        for name, read in self._gauges.items():
            values[name] = read()
        return dict(sorted(values.items()))
