"""Relevelling: every waiting URL of a packed frontier is given a new level, some 1,000 URLs at a time.

Hosts are processed one after the other. Between two steps all or none of a host's URLs have new levels, except
for the host *at hand*: its row has the new queues, which other calls use as if they were all, and the rest of its
URLs are set aside. Its new queues are never empty while there is a rest: `refill` ensures that.

1M URLs take about a second, a step about a millisecond (`docs/benchmarks/frontier.md`).
"""

from __future__ import annotations

import numpy as np

from lycosa.errors import LocalError
from lycosa.frontier.orders.order import LEVELS
from lycosa.frontier.packed import relevel_kernels
from lycosa.frontier.packed.queues import PackedQueues
from lycosa.frontier.packed.relevel_kernels import (
    ASK,
    CURSOR,
    END,
    MOVED,
    NEED,
    NO_ROOM,
    OUTSIDE,
    STATES,
    Chunk,
)
from lycosa.frontier.packed.store import SPANS, WINDOW
from lycosa.frontier.protocol import STEP, Levels

_CHUNK = 1 << 15
_ALL = 1 << 60
_HIGH_16 = 0xFFFF << 48


class Relevelling:
    """A relevelling under way."""

    def __init__(self, queues: PackedQueues, levels: Levels) -> None:
        if not -1 <= levels.other < LEVELS or len(levels.keys) != len(levels.levels):
            raise LocalError("the new levels are not sound")
        self._queues = queues
        self._keys = np.ascontiguousarray(levels.keys, np.uint64)
        self._levels = np.ascontiguousarray(levels.levels, np.uint8)
        self._other = levels.other
        self._by_host = levels.by_host
        self._state = np.zeros(STATES, np.int64)
        self._state[END] = queues.fields.slots
        self._chunk = _new_chunk(0)
        self._longest = -1

    @property
    def is_over(self) -> bool:
        return bool(self._state[CURSOR] >= self._state[END] and self._queues.fields.moving < 0)

    def is_at_hand(self, slot: int) -> bool:
        """Whether URLs of that host are set aside."""
        return self._queues.fields.moving == slot

    def step(self) -> int:
        """Move some URLs; returns how many."""
        return self._move(STEP, one=False)

    def refill(self, slot: int) -> None:
        """URLs of that host were taken: if it is at hand, move more of them into its new queues."""
        if self.is_at_hand(slot) and not self._queues.has_any(slot):
            self._move(STEP, one=True)

    def finish(self, slot: int | None = None) -> None:
        """If that host (None: any host) is at hand, move the rest of its URLs."""
        if self._queues.fields.moving >= 0 and (slot is None or self.is_at_hand(slot)):
            self._move(_ALL, one=True)

    def _move(self, limit: int, *, one: bool) -> int:
        queues, state = self._queues, self._state
        if queues.store.longest > self._longest:  # longer URLs were put meanwhile
            self._longest = queues.store.longest
            self._chunk = _new_chunk(self._longest)
        state[MOVED] = 0
        while True:
            why = relevel_kernels.move(
                *(queues.c, state, self._chunk, self._keys, self._levels, self._other, self._by_host),
                *(limit, one, queues.now, queues.out),
            )
            slot = queues.fields.moving
            if why == NO_ROOM:
                queues.store.make_room(int(state[NEED]), 0)
            elif why == OUTSIDE:
                state[MOVED] += queues.outside.relevel(slot, self._level)
                queues.settle(slot)
            elif why == ASK:
                queues.rank(slot)
            else:
                return int(state[MOVED])

    def _level(self, key: int, old: int) -> int:
        if self._by_host:
            slot = self._queues.fields.moving
            key = key & _HIGH_16 | int(self._queues.store.hosts[slot]["hash"])
        at = int(np.searchsorted(self._keys, np.uint64(key)))
        if at < len(self._keys) and int(self._keys[at]) == key:
            return int(self._levels[at])
        return old if self._other < 0 else self._other

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._chunk)


def _new_chunk(longest: int) -> Chunk:
    return Chunk(
        texts=np.zeros(max(WINDOW, longest), np.uint8),
        spans=np.zeros(SPANS, np.int64),
        data=np.zeros(max(_CHUNK, longest), np.uint8),
        ends=np.zeros(STEP, np.int64),
        metas=np.zeros((STEP, 3), np.int64),
        levels=np.zeros(STEP, np.uint8),
        order=np.zeros(STEP, np.int64),
    )
