"""Pages that change at known rates: a Poisson process per page, as a pure function of time.

Revisit policies are judged against the true times of change, so the web must know them without
having simulated the time before. Time since `EPOCH` is cut into windows in which `PER_WINDOW` changes are
expected; how many happen in a window, and when, are rolls named by page and window. Counts that are
Poisson and independent, with times uniform given the count, are a Poisson process. The version
shown at a time is the last change before it, found by looking back a window or two; nothing is
stored.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from lycosa.lab.webs.dice import chance, roll, rolls, unit
from lycosa.lab.webs.options import WebOptions

EPOCH = 1_577_836_800.0
"""2020-01-01, the date of the first version of every page."""

PER_WINDOW = 4


def _cumulated() -> list[float]:
    total, rows = 0.0, []
    for n in range(24):
        total += math.exp(-PER_WINDOW) * PER_WINDOW**n / math.factorial(n)
        rows.append(total)
    return rows


_CUMULATED = _cumulated()


class Version(NamedTuple):
    """The version of a page at some time, named by the change that made it."""

    since: float
    tag: str


STILL = Version(EPOCH, "0")


class Changes:
    """When the pages of a web change."""

    def __init__(self, options: WebOptions) -> None:
        self._seed = options.seed
        self._share = options.change_share if options.has("changes") else 0.0
        self._rates = options.change_rates

    def rate(self, host: int, page: int) -> float:
        """Changes per second; 0 for a page that never changes."""
        if not self._share or not self._rates:
            return 0.0
        number = roll(self._seed, "rate", host, page)
        if not chance(number, self._share):
            return 0.0
        return self._rates[number % len(self._rates)]

    def version(self, host: int, page: int, at: float) -> Version:
        """The version of the page at that time."""
        rate = self.rate(host, page)
        if not rate or at <= EPOCH:
            return STILL
        length = PER_WINDOW / rate
        window = int((at - EPOCH) / length)
        while window >= 0:
            times = self._window(host, page, window, length)
            for number in range(len(times) - 1, -1, -1):
                if times[number] <= at:
                    return Version(times[number], f"{window:x}.{number}")
            window -= 1
        return STILL

    def between(self, host: int, page: int, start: float, end: float) -> list[float]:
        """The times of change after `start` and until `end`, in order."""
        rate = self.rate(host, page)
        if not rate or end <= EPOCH:
            return []
        length = PER_WINDOW / rate
        first = max(0, int((start - EPOCH) / length))
        last = int((end - EPOCH) / length)
        times = [
            time for window in range(first, last + 1) for time in self._window(host, page, window, length)
        ]
        return [time for time in times if start < time <= end]

    def _window(self, host: int, page: int, window: int, length: float) -> list[float]:
        first = unit(roll(self._seed, "changes", host, page, window))
        count = next((n for n, upto in enumerate(_CUMULATED) if first < upto), len(_CUMULATED))
        spots = rolls(count, self._seed, "times", host, page, window) if count else ()
        start = EPOCH + window * length
        return sorted(start + unit(spot) * length for spot in spots)
