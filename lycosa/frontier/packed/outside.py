"""URLs of the packed frontier that are outside its queues: in flight, and put back.

They are few (as many as visits can have), so they are Python objects. A URL in flight knows the level it was
taken from; when it is put back, it is the first of that level again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lycosa.records import Waiting

PER_URL = 500
"""Bytes per URL, roughly: the URL, its numbers, and its places in the tables here."""


class Flown(NamedTuple):
    """A URL in flight."""

    slot: int
    level: int
    waiting: Waiting


class Outside:
    """URLs in flight and URLs put back, by the slot of their host."""

    def __init__(self) -> None:
        self._flying: dict[int, list[Flown]] = {}  # by key
        self._flown: dict[int, list[Flown]] = {}  # by slot, as they were taken
        self.back: dict[int, dict[int, deque[Waiting]]] = {}  # slot, level -> URLs put back
        self.in_flight = 0
        self.put_back = 0

    def fly(self, flown: Flown) -> None:
        """Add a URL that was taken."""
        key = flown.waiting.key
        if key in self._flying:
            self._flying[key].append(flown)
        else:
            self._flying[key] = [flown]
        if flown.slot in self._flown:
            self._flown[flown.slot].append(flown)
        else:
            self._flown[flown.slot] = [flown]
        self.in_flight += 1

    def land(self, key: int, waiting: Waiting | None = None) -> Flown | None:
        """Remove one URL of that key (`waiting` itself, if given) from those in flight."""
        for flown in self._flying.get(key, ()):
            if waiting is None or flown.waiting == waiting:
                _drop(self._flying, key, flown)
                _drop(self._flown, flown.slot, flown)
                self.in_flight -= 1
                return flown
        return None

    def is_flying(self, slot: int) -> bool:
        """Whether URLs of a host are in flight."""
        return slot in self._flown

    def give_back(self, flown: Flown, *, first: bool = True) -> None:
        """Put a URL back as the first of its level (or as the last of those put back)."""
        queue = self.back.setdefault(flown.slot, {}).setdefault(flown.level, deque())
        if first:
            queue.appendleft(flown.waiting)
        else:
            queue.append(flown.waiting)
        self.put_back += 1

    def take(self, slot: int, level: int) -> Waiting:
        """Take the first URL put back to that level; there must be one."""
        queues = self.back[slot]
        waiting = queues[level].popleft()
        if not queues[level]:
            del queues[level]
            if not queues:
                del self.back[slot]
        self.put_back -= 1
        return waiting

    def of(self, slot: int) -> tuple[int, int, int]:
        """Of a host: whether URLs are in flight, how many were put back, and their lowest level."""
        queues = self.back.get(slot)
        if queues is None:
            return int(slot in self._flown), 0, 0
        return int(slot in self._flown), sum(map(len, queues.values())), min(queues)

    def withdraw(self, slot: int, url: str) -> None:
        """Forget a URL."""
        for flown in [flown for flown in self._flown.get(slot, ()) if flown.waiting.url == url]:
            self.land(flown.waiting.key, flown.waiting)
        queues = self.back.get(slot, {})
        for level, queue in list(queues.items()):
            for waiting in [waiting for waiting in queue if waiting.url == url]:
                queue.remove(waiting)
                self.put_back -= 1
            if not queue:
                del queues[level]
        if not queues:
            self.back.pop(slot, None)

    def relevel(self, slot: int, level_of: Callable[[int, int], int]) -> int:
        """Give a host's URLs new levels, by key and old level; returns how many were put back."""
        for index, flown in enumerate(flowns := self._flown.get(slot, [])):
            level = level_of(flown.waiting.key, flown.level)
            flowns[index] = flown._replace(level=level)
            rows = self._flying[flown.waiting.key]
            rows[next(n for n, row in enumerate(rows) if row is flown)] = flowns[index]
        moved = 0
        for level, queue in sorted(self.back.pop(slot, {}).items()):
            for waiting in queue:
                self.give_back(Flown(slot, level_of(waiting.key, level), waiting), first=False)
                moved += 1
        self.put_back -= moved
        return moved

    def rows(self) -> Iterator[Flown]:
        """All of them, each host's in the order in which they come out of a snapshot."""
        for flowns in self._flown.values():
            yield from flowns
        for slot, queues in self.back.items():
            for level, queue in queues.items():
                yield from (Flown(slot, level, waiting) for waiting in queue)

    def __len__(self) -> int:
        return self.in_flight + self.put_back


def _drop(table: dict[int, list[Flown]], key: int, flown: Flown) -> None:
    rows = table[key]
    if len(rows) == 1:
        del table[key]
        return
    for index, row in enumerate(rows):
        if row is flown:
            del rows[index]
            return
