"""The hosts and queues of a packed frontier, and what kernels cannot do: growing, names, asking the order.

Shared by `PackedFrontier`, its withdrawals and its relevelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lycosa.errors import LocalError
from lycosa.frontier.orders.order import LEVELS, Order, Ranking
from lycosa.frontier.packed import host_kernels, queue_kernels, table_kernels, visit_kernels
from lycosa.frontier.packed.outside import Outside
from lycosa.frontier.packed.store import FREE, READY, Store
from lycosa.records import Waiting
from lycosa.url.parts import host_of

MAX_URL = 65_535
NEVER = float("-inf")
_NO_SLOTS = np.zeros(0, np.int64)
_LEAST_GARBAGE = 1 << 12


class Taken(NamedTuple):
    """A URL that left its queue."""

    waiting: Waiting
    level: int
    more: bool  # whether queues of the host have more


class PackedQueues:
    """Hosts by slot, and their queues."""

    def __init__(self, order: Order, seed: int, back_queues: int) -> None:
        self.order = order
        self.store = Store(seed, int(order.ranking), back_queues)
        self.c = self.store.c
        self.fields = self.store.fields
        self.outside = Outside()
        self.now = NEVER
        """The latest time that the frontier was given."""
        self.visited: set[int] = set()
        """Hosts being visited."""
        self.perhaps_empty: set[int] = set()
        """Those of them whose queues may have been emptied: `done` checks these."""
        self.frozen = False
        self._asked = order.ranking is Ranking.ASKED
        self.out = np.zeros(64, np.uint8)
        self._text = self.out.data

    # -- hosts

    def find(self, name: str) -> int:
        """The slot of a host; -1 if it is not known."""
        return int(table_kernels.find_host(self.c, name.encode("ascii")))

    def add(self, name: str) -> int:
        """The slot of a host, created if need be; the caller must settle it."""
        if len(name) > MAX_URL:
            raise LocalError(f"a host's name has {len(name)} bytes; the limit is {MAX_URL}")
        self.store.reserve_hosts(1, len(name))
        return int(table_kernels.add_host(self.c, name.encode("ascii")))

    def name(self, slot: int) -> str:
        return bytes(self.store.name(slot)).decode("ascii")

    def begin(self) -> tuple[str, int] | None:
        """Begin a visit of the best ready host; returns its name and slot."""
        self.before_change(1)
        slot, length = host_kernels.begin(self.c, self.now, self.out)
        return None if slot < 0 else (str(self._text[:length], "ascii"), slot)

    def end(self, slot: int, ready: float) -> None:
        """End the visit of a host."""
        self.before_change(1)
        outside = self.outside.of(slot)
        if self._asked:
            self._ask(slot, *outside[1:])
        host_kernels.end(self.c, self.now, slot, ready, *outside)
        self.compact_names()

    def settle(self, slot: int) -> bool:
        """Update the host's row for URLs outside its queues; it may enter a heap. False if it was forgotten."""
        self.before_change(1)
        host_kernels.set_outside(self.c, self.now, slot, *self.outside.of(slot))
        self.rank(slot)
        self.compact_names()
        return bool(self.store.hosts[slot]["where"] != FREE)

    def hold(self, slot: int, ready: float) -> None:
        """Let a host wait until `ready` at least."""
        self.before_change(1)
        host_kernels.set_ready(self.c, self.now, slot, ready)
        self.compact_names()

    # -- ranks, if the order is to be asked for them

    def rank(self, slot: int) -> None:
        """Update the rank of a host whose queues were changed."""
        if self._asked and self.store.hosts[slot]["where"] <= READY:
            self._ask(slot, *self.outside.of(slot)[1:])

    def rank_all(self) -> None:
        """Update the ranks of all hosts."""
        if self._asked:
            for slot in np.flatnonzero(self.store.rows()["where"] <= READY).tolist():
                self.rank(slot)

    def _ask(self, slot: int, back: int, back_level: int) -> None:
        levels = self.levels(slot)
        if back:
            levels.append(back_level)
        if levels:
            queued = int(self.store.hosts[slot]["queued"]) + back
            rank = self.order.rank(self.name(slot), queued, min(levels))
            host_kernels.set_rank(self.c, slot, float(rank))

    def levels(self, slot: int) -> list[int]:
        """The levels at which a host has URLs in queues."""
        levels = np.zeros(LEVELS, np.uint8)
        n = int(visit_kernels.levels_of(self.c, slot, levels))
        return list(levels[:n].tobytes())

    def has_any(self, slot: int) -> bool:
        """Whether a host has URLs that can be taken, in queues or put back."""
        return slot in self.outside.back or bool(self.store.hosts[slot]["queue"] >= 0)

    # -- URLs

    def put(self, items: Sequence[Waiting], levels: Sequence[int]) -> None:
        if len(items) != len(levels):
            raise LocalError(f"{len(items)} URLs were put with {len(levels)} levels")
        if not items:
            return
        urls, _, depths, hops, attempts, before = zip(*items, strict=True)
        tries = [item.tries for item in items] if any(before) else attempts
        lengths = list(map(len, urls))
        longest = max(lengths)
        if longest > MAX_URL:
            raise LocalError(f"a URL of {longest} bytes was put; the limit is {MAX_URL}")
        data = "".join(urls).encode("ascii")
        numbers = np.array([*lengths, *levels, *depths, *hops, *tries], np.int64)
        self.make_ready(longest)
        slots = np.zeros(len(items), np.int64) if self._asked else _NO_SLOTS
        done = 0
        while True:
            done = visit_kernels.put(self.c, data, numbers, done, self.now, slots)
            if done == len(items):
                break
            if done < 0:
                raise LocalError(f"no number of a URL is below 0, and levels are at most {LEVELS - 1}")
            self.store.make_room(lengths[done], len(host_of(urls[done])))
        for slot in set(slots.tolist()):
            self.rank(slot)

    def take(self, slot: int, number: int) -> Taken | None:
        """The next URL of the host's queues; its levels race with draw number `number`, -1: the lowest wins."""
        if self.frozen:
            self.store.reserve_freeze(1)
        size, level, key, depth, hops, tries, more = visit_kernels.take(self.c, slot, number, self.out)
        if size < 0:
            return None
        url = str(self._text[:size], "ascii")
        return Taken(Waiting.of_tries(url, key, depth, hops, tries), level, more)

    def drop_if_first(self, slot: int, url: str) -> int:
        """Remove a URL wherever it is the first of its level; returns how many. The caller must settle the host."""
        data = url.encode("ascii")
        removed = 0
        while True:
            self.before_change(1)
            n = int(visit_kernels.drop_if_first(self.c, slot, data, self.out))
            removed += n
            if not n:
                return removed

    # -- memory

    def make_ready(self, longest: int) -> None:
        """Make the buffers long enough for URLs of that length."""
        self.store.make_ready(longest)
        if longest > len(self.out):
            self.out = np.zeros(longest, np.uint8)
            self._text = self.out.data

    def before_change(self, hosts: int) -> None:
        """Make room for the descriptors of so many hosts that are about to change during a freeze."""
        if self.frozen:
            self.store.reserve_freeze(hosts)

    def end_freeze(self) -> None:
        """End the freeze, finished or abandoned."""
        self.frozen = False
        queue_kernels.free_limbo(self.c)
        self.fields.side_words = 0
        self.store.end_freeze()
        self.compact_names()

    def compact_names(self) -> None:
        f = self.fields
        if f.garbage > _LEAST_GARBAGE and f.garbage * 2 > f.name_bytes and not f.frozen:
            fresh = np.zeros(f.name_bytes - f.garbage, np.uint8)
            table_kernels.compact_names(self.c, fresh)
            self.store.replace_names(fresh)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + self.out.nbytes

    @property
    def used(self) -> int:
        return self.store.used + self.out.nbytes
