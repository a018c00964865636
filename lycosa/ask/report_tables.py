"""The tables that a report's first pass fills: bounded, whatever names the sites invent."""

from __future__ import annotations

import heapq
import math
from array import array
from itertools import count
from typing import Any, Generic, TypeVar

from lycosa.ask.report import (
    Count,
    Reason,
    SiteRow,
)

NAMES = 1_000
OTHERS = "others"
_EXAMPLES = 3
_STEPS = 72  # quarter octaves: up to 2^18 ms
T = TypeVar("T")


class Top(Generic[T]):
    """The `size` heaviest items of those offered; among equals, the first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[float, int, T]] = []
        self._turn = count(0, -1)

    def wants(self, weight: float) -> bool:
        """Whether an item of this weight would be kept: asked before it is made."""
        return len(self._heap) < self._size or (self._size > 0 and weight > self._heap[0][0])

    def offer(self, weight: float, row: T) -> None:
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, (weight, next(self._turn), row))
        elif self.wants(weight):
            heapq.heapreplace(self._heap, (weight, next(self._turn), row))

    def rows(self) -> list[T]:
        """The heaviest first."""
        return [row for _, _, row in sorted(self._heap, key=lambda row: row[:2], reverse=True)]


class Table:
    """Counts by name, for a bounded number of names."""

    def __init__(self, limit: int = NAMES) -> None:
        self._limit = limit
        self.rows: dict[str, list[Any]] = {}  # name -> count, bytes, examples

    def add(self, name: str, size: int = 0, example: str = "") -> None:
        row = self.rows.get(name)
        if row is None:
            if len(self.rows) >= self._limit:
                row = self.rows.setdefault(OTHERS, [0, 0, []])
            else:
                row = self.rows[name] = [0, 0, []]
        row[0] += 1
        row[1] += size
        if example and len(row[2]) < _EXAMPLES:
            row[2].append(example)

    @property
    def full(self) -> bool:
        return OTHERS in self.rows

    def counts(self) -> list[Count]:
        rows = sorted(self.rows.items(), key=lambda row: -row[1][0])
        return [Count(name=name, pages=row[0], bytes=row[1]) for name, row in rows]

    def reasons(self) -> list[Reason]:
        rows = sorted(self.rows.items(), key=lambda row: -row[1][0])
        return [Reason(name=name, count=row[0], examples=row[2]) for name, row in rows]


class Times:
    """A histogram of milliseconds."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}

    def add(self, ms: int) -> None:
        step = min(int(4 * math.log2(ms + 1)), _STEPS) if ms > 0 else 0
        self._steps[step] = self._steps.get(step, 0) + 1

    def median(self) -> int:
        left = (sum(self._steps.values()) + 1) // 2
        for step in sorted(self._steps):
            left -= self._steps[step]
            if left <= 0:
                return round(2 ** ((step + 0.5) / 4) - 1) if step else 0
        return 0


class SiteSums:
    """The sums of a site that was asked, or could not be."""

    __slots__ = ("bytes", "errors", "failed", "pages", "slowest", "times")

    def __init__(self) -> None:
        self.pages = self.bytes = self.errors = self.failed = self.slowest = 0
        self.times = Times()

    def row(self, site: str) -> SiteRow:
        return SiteRow(
            site=site,
            pages=self.pages,
            bytes=self.bytes,
            errors=self.errors,
            failed=self.failed,
            median_ms=self.times.median(),
            slowest_ms=self.slowest,
        )


class Places:
    """Keys of URLs and the places of their records, in columns."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.keys = array("Q")
        self.shards = array("H")
        self.positions = array("q")
        self.lost = 0

    def add(self, key: int, shard: int, position: int) -> bool:
        if len(self.keys) >= self.limit:
            self.lost += 1
            return False
        self.keys.append(key)
        self.shards.append(shard)
        self.positions.append(position)
        return True
