"""Scoring: the operator's own scores of URLs, on top of any order.

    score(url, depth, text, source) -> float | None     1 is best, 0 is worst; None: no opinion

`text` is the anchor text and `source` the page's URL; both are empty where they are not known (any more). With
a score the level is round((1 - score) · 255), a score outside 0 … 1 counting as the nearer end; without
one it is that of the inner order. Then boosts: each pattern that is found in the URL moves it by its levels,
earlier or later, and the result stays within 0 … 255.

A scorer is called for every new URL, in the middle of the crawl: it should take microseconds. (It may be called
twice for a URL that has to wait for an answer.) A scorer that raises, or returns something that is not a number,
does not end the crawl: the call is counted in `failed`, the first failure is reported, and the URL gets the level
of the inner order.

With a scorer, hosts go by the level of their next URL if the inner order does not distinguish them: otherwise a
score would act only within its host.

An order by rank re-levels pending URLs, by key, at each calculation. Scores must survive that, though only keys are
known then: so differences from the inner order are remembered as rows, and put over the new levels:

    row = key (8 bytes), value (2 bytes)        0 … 255: the level; _SHIFT + n: n levels later than the inner order

At each calculation rows of done URLs are dropped. There are at most `MOST` rows; beyond that a URL keeps its score
only until the next calculation, and is counted in `forgotten`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lycosa.frontier.options import Boost
from lycosa.frontier.orders.order import Order, Ranking, Sighting
from lycosa.frontier.orders.ranked import WORST, Judging, Noted, Over, Plan, RankedOrder, Ranks, find
from lycosa.frontier.orders.rows import Rows, chosen, joined
from lycosa.frontier.protocol import Levels
from lycosa.plugins import load_function, told
from lycosa.records import Waiting
from lycosa.url.key import Keys

Scorer = Callable[[str, int, str, str], "float | None"]
MOST = 2_000_000
_ROW = np.dtype([("key", np.uint64), ("value", np.int16)])
_SHIFT = 1000
_NO_KEYS = np.empty(0, np.uint64)
_NO_LEVELS = np.empty(0, np.uint8)


class ScoredOrder:
    """An order with scores and boosts on top."""

    def __init__(self, inner: Order, scorer: Scorer | None = None, boosts: Sequence[Boost] = ()) -> None:
        self.inner = inner
        self._scorer = scorer
        self._boosts = [(re.compile(boost.pattern), boost.levels) for boost in boosts if boost.levels]
        self.bias = inner.bias
        self.sighted = scorer is not None or inner.sighted
        self._by_level = scorer is not None and inner.ranking is Ranking.TIME
        self.ranking = Ranking.LEVEL if self._by_level else inner.ranking
        self._judge = inner if isinstance(inner, Judging) else None
        self.failed = 0
        """How often the scorer failed."""
        self.told: Callable[[str], None] | None = None
        """Called with a description of the first failure."""

    def rank(self, host: str, queued: int, level: int) -> float:
        return float(level) if self._by_level else self.inner.rank(host, queued, level)

    def levels(self, items: Sequence[Waiting], sighting: Sighting | None) -> list[int]:
        levels = self.inner.levels(items, sighting)
        if self._scorer is None and not self._boosts:
            return levels
        for row, (item, level) in enumerate(zip(items, levels, strict=True)):
            scored = None if self._scorer is None else self._score(item, row, sighting)
            shift = self._shift(item.url) if self._boosts else 0
            if scored is not None:
                levels[row] = _within(scored + shift)
                self._remember(item.key, levels[row])
            elif shift:
                levels[row] = _within(level + shift)
                self._remember(item.key, _SHIFT + shift)
        return levels

    def rank_of(self, key: int) -> float | None:
        return None if self._judge is None else self._judge.rank_of(key)

    def is_low(self, key: int) -> bool:
        return self._judge is not None and self._judge.is_low(key)

    def _score(self, item: Waiting, row: int, sighting: Sighting | None) -> int | None:
        """The scorer's level; None if it has no opinion or failed."""
        text, source = ("", "") if sighting is None else (sighting.texts[row], sighting.source)
        try:
            assert self._scorer is not None
            number = _number(self._scorer(item.url, item.depth, text, source))
        except Exception as error:
            self.failed += 1
            if self.failed == 1 and self.told is not None:
                self.told(f"the scorer failed: {told(error)} ({item.url[:200]})")
            return None
        return None if number is None else round((1 - min(max(number, 0.0), 1.0)) * WORST)

    def _shift(self, url: str) -> int:
        """By how many levels the boosts move a URL; below 0: earlier."""
        shift = -sum(levels for pattern, levels in self._boosts if pattern.search(url))
        return max(-WORST, min(shift, WORST))

    def _remember(self, key: int, value: int) -> None:
        """Nothing to do here: only an order that re-levels must remember what it gave."""


class ScoredRankedOrder(ScoredOrder):
    """The same around an order by rank."""

    def __init__(
        self, inner: RankedOrder, scorer: Scorer | None = None, boosts: Sequence[Boost] = (), most: int = MOST
    ) -> None:
        super().__init__(inner, scorer, boosts)
        self._ranked = inner
        self.batch = inner.batch
        self._rows = Rows(_ROW)
        self._most = most
        self.forgotten = 0
        """Scores that will not survive the next calculation."""

    def resume(self) -> None:
        self._ranked.resume()

    def note(self, noted: Noted) -> None:
        self._ranked.note(noted)

    def planner(self) -> Callable[[Ranks], Plan]:
        cut, count, within = self._rows.cut(), len(self._rows), self._ranked.planner()

        def plan(ranks: Ranks) -> Plan:
            made = within(ranks)
            kept = newest(joined(cut, _ROW), ranks.done)
            keys, levels = (_NO_KEYS, _NO_LEVELS) if ranks.by_host else (ranks.keys, made.levels)
            return made._replace(over=Over(count, kept, overlaid(keys, levels, kept)))

        return plan

    def adopt(self, plan: Plan) -> Levels:
        inner = self._ranked.adopt(plan)
        if plan.over is None:
            return inner
        self._rows.replace(plan.over.rows, plan.over.kept)
        # Levels by host would wipe out scores: pending URLs stay where they are.
        return plan.over.levels._replace(other=-1 if plan.ranks.by_host else inner.other)

    def _remember(self, key: int, value: int) -> None:
        if len(self._rows) < self._most:
            self._rows.add((key, value))
        else:
            self.forgotten += 1


def newest(rows: NDArray[Any], done: Keys) -> NDArray[Any]:
    """The last row of each key, ascending by key, without the keys that are done."""
    order = np.argsort(rows["key"], kind="stable")
    keys = rows["key"][order]
    last = np.ones(len(keys), np.bool_)
    last[:-1] = keys[1:] != keys[:-1]
    gone, _ = find(done, keys)
    return chosen(rows, order[last & ~gone])


def overlaid(keys: Keys, levels: NDArray[np.uint8], rows: NDArray[Any]) -> Levels:
    """Levels of keys with rows (ascending, each key once) put over them.

    A shift of a page without a rank counts from the worst level.
    """
    found, at = find(keys, rows["key"])
    value = rows["value"].astype(np.int64)
    below = np.where(found, levels[at], WORST).astype(np.int64) if len(levels) else np.full(len(rows), WORST)
    shifted = value > WORST
    new = np.clip(np.where(shifted, below + value - _SHIFT, value), 0, WORST).astype(np.uint8)
    merged = levels.copy()
    merged[at[found]] = new[found]
    places = np.searchsorted(keys, rows["key"][~found])
    return Levels(np.insert(keys, places, rows["key"][~found]), np.insert(merged, places, new[~found]), -1)


def scored(inner: Order, scorer: Scorer | None, boosts: Sequence[Boost]) -> Order:
    """The order with scores and boosts on top; the order itself if there are none."""
    if scorer is None and not any(boost.levels for boost in boosts):
        return inner
    if isinstance(inner, RankedOrder):
        return ScoredRankedOrder(inner, scorer, boosts)
    return ScoredOrder(inner, scorer, boosts)


def _number(score: object) -> float | None:
    """A scorer's result as a number; None stays None."""
    if score is None:
        return None
    if not isinstance(score, Real) or math.isnan(score):
        raise TypeError(f"{score!r:.60} is not a number from 0 to 1")
    return float(score)


def _within(level: int) -> int:
    return min(max(level, 0), WORST)


# -- loading


def load_scorer(text: str) -> Scorer:
    """The function that `module:function` or `file.py:function` names."""
    return load_function(text, "frontier.scorer", url="", depth=0, text="", source="")  # type: ignore[no-any-return]
