"""The crawl of `sydney_kernels` in its simplest form: sets, deques and lists. The tests compare the two.

Where the kernel uses a cursor this uses lists: `_rest[v]` is what page v has not given yet, in its
order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from lycosa.frontier.sydney.room import ALL, permuted
from lycosa.lab.experiments.sydney import Plan
from lycosa.lab.experiments.sydney_kernels import DEEP, EMPTIED, LIFO, NONE


class PlainCrawl:
    """One crawl of a graph under one rule; `run` it, then read what it counted."""

    def __init__(self, links: Sequence[Sequence[int]], keys: Sequence[int], plan: Plan) -> None:
        self._links, self._keys, self._plan = links, keys, plan
        self._seen: set[int] = set()
        self._pending: deque[int] = deque()
        self._left: deque[int] = deque()
        self._rest: dict[int, list[int]] = {}
        self.order: list[int] = []
        self.sizes: list[tuple[int, int, int]] = []  # pages fetched, |P| and |S|, after every step
        self.returned: set[int] = set()
        self.left = self.returns = self.barren = self.dropped = self.forgotten = 0

    def run(self, sources: Sequence[int]) -> None:
        plan = self._plan
        self._enter(list(dict.fromkeys(sources)))
        self._note()
        while self._pending or self._left:
            if plan.kind == EMPTIED and not self._pending:
                self._pending, self._left = self._left, self._pending
                self._note()
            starving = not self._pending
            if self._left and plan.kind != EMPTIED and len(self._pending) < plan.low:
                v = self._left.pop() if plan.kind == LIFO else self._left.popleft()
            else:
                v = self._pending.pop() if plan.lifo else self._pending.popleft()
            if v in self._rest:
                self._come_back(v, starving)
            else:
                self._fetch(v)
            self._note()

    def _now(self) -> list[int]:
        """The current row of the plan's table."""
        table: list[list[int]] = self._plan.table.tolist()
        return table[min(len(self._pending), len(table) - 1)] if table else [ALL, ALL, ALL, 1]

    def _fetch(self, v: int) -> None:
        t, free, calm, _ = self._now()
        limit = int(self._plan.first[v])
        limit = (ALL if t else 0) if limit == DEEP else min(limit, t)
        new = [w for w in self._links[v] if w not in self._seen]
        if self._plan.shuffled and (len(new) > min(limit, free) or len(new) > calm):
            new = [w for w in self._ordered(v) if w not in self._seen]
        self.order.append(v)
        self._give(v, new, min(limit, free))

    def _come_back(self, v: int, starving: bool) -> None:
        plan = self._plan
        limit = min(plan.again, self._now()[0])
        if limit and plan.returns:
            limit = max(limit, len(self._links[v]) // plan.returns)
        if starving:
            limit = max(limit, plan.least)
        new = [w for w in self._rest[v] if w not in self._seen]
        self.returned.add(v)
        self.returns += 1
        if not new[:limit]:
            self.barren += 1
        self._give(v, new, limit)

    def _give(self, v: int, new: list[int], limit: int) -> None:
        self._rest[v] = new[limit:]
        fits = self._plan.whole and self._room() != 0
        self._enter(new[:limit], fits)
        if self._rest[v]:
            if self._plan.kind == NONE or not (fits or self._room() != 0) or not self._now()[3]:
                self.forgotten += 1
            else:
                self._left.append(v)
                self.left += 1

    def _ordered(self, v: int) -> list[int]:
        links = list(self._links[v])
        keys = np.array([self._keys[w] for w in links], np.uint64)
        return [links[i] for i in permuted(keys, self._plan.base + len(self.order)).tolist()]

    def _enter(self, new: Sequence[int], fits: bool = False) -> None:
        room = None if fits else self._room()
        inside = list(new) if room is None else list(new[:room])
        self.dropped += len(new) - len(inside)
        self._seen.update(inside)
        self._pending.extend(reversed(inside) if self._plan.lifo else inside)

    def _room(self) -> int | None:
        """Places that are left; None: no limit."""
        if self._plan.budget < 0:
            return None
        return max(self._plan.budget - len(self._pending) - len(self._left), 0)

    def _note(self) -> None:
        self.sizes.append((len(self.order), len(self._pending), len(self._left)))
