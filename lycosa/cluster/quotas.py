"""Limits of pages for several agents: rations handed out in chunks, so that the total is exact.

The supervisor has a pool, the pages that may still be fetched; an agent asks for some before it fetches. What an
agent was granted counts as fetched until it says otherwise, so the limit is never passed; and what lies unused with
one agent is called back when another has nothing left, so the limit is reached if there are pages for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_CHUNK = 64
_NO_LIMIT = 1 << 60


class Ration:
    """An agent's part of the run's limits; `lycosa.crawl.limits.RunQuota`. Bytes and time others watch over."""

    def __init__(self, limited: bool, wish: Callable[[], None]) -> None:
        self._left = 0 if limited else _NO_LIMIT
        self._limited = limited
        self._wish = wish
        self._wished = False

    def start(self) -> None:
        """The run begins: nothing here depends on when."""

    def take(self, shard: int = 0) -> bool:
        if not self.open():
            return False
        self._left -= 1
        return True

    def give_back(self, shard: int = 0) -> None:
        self._left += 1

    def open(self) -> bool:
        if self._left > 0:
            return True
        if not self._wished:
            self._wished = True
            self._wish()
        return False

    def reached(self) -> bool:
        return False

    @property
    def left(self) -> int:
        return self._left if self._limited else 0

    def grant(self, pages: int) -> None:
        self._left += pages
        self._wished = False

    def recall(self) -> int:
        """Give up what is not in use."""
        if not self._limited:
            return 0
        pages, self._left = max(self._left, 0), min(self._left, 0)
        return pages


class Pool:
    """What all agents together may still fetch. Says whom to grant how much, and from whom to call back."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reserved: dict[int, int] = {}
        """By agent: what it has fetched in all runs, and what it was granted."""
        self._waiting: list[int] = []

    def begin(self, agent: int, fetched: int) -> None:
        """An agent begins, or begins again: what it was granted and did not commit is free again."""
        self._reserved[agent] = fetched
        self._waiting = [each for each in self._waiting if each != agent]

    @property
    def free(self) -> int:
        return max(self._limit - sum(self._reserved.values()), 0) if self._limit else _NO_LIMIT

    def wish(self, agent: int) -> None:
        if agent not in self._waiting:
            self._waiting.append(agent)

    def returned(self, agent: int, pages: int) -> None:
        self._reserved[agent] = self._reserved.get(agent, 0) - pages

    def grants(self) -> list[tuple[int, int]]:
        """Whom to grant how much now."""
        given = []
        while self._waiting and (free := self.free):
            agent = self._waiting.pop(0)
            pages = max(min(_CHUNK, free // (2 * max(len(self._reserved), 1))), 1)
            self._reserved[agent] = self._reserved.get(agent, 0) + pages
            given.append((agent, pages))
        return given

    def idle_with(self, left: Sequence[tuple[int, int]]) -> list[int]:
        """Who has pages left (by agent) while others wait for some."""
        if not self._waiting or self.free:
            return []
        return [agent for agent, pages in left if pages > 0 and agent not in self._waiting]
