"""Withdrawals from a packed frontier: URLs that replay found done.

A URL to withdraw is nearly always the first of its level: a host's URLs are fetched one at a time, in the order of
its queues, and the log has them in that order. Such a URL is dropped at once. Others are remembered by key and
skipped when they are taken; `settle` removes them by taking a host's URLs out and in again, some 5 us each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from lycosa.frontier.packed.queues import PackedQueues
from lycosa.frontier.packed.store import FREE
from lycosa.records import Waiting
from lycosa.url.parts import host_of

_PER_KEY = 64
_PER_HOST = sys.getsizeof(set()) + 100


class Withdrawals:
    """URLs that are still in queues but must not come out."""

    def __init__(self, queues: PackedQueues, gather: Callable[[int], None]) -> None:
        """`gather` moves all URLs of a host into its queues, so that none is set aside."""
        self._queues = queues
        self._gather = gather
        self._keys: dict[int, set[int]] = {}  # by slot
        self._count = 0

    def withdraw(self, slot: int, url: str, key: int) -> None:
        """Ensure that a host's URL never comes out again."""
        queues = self._queues
        self._gather(slot)
        queues.outside.withdraw(slot, url)
        removed = queues.drop_if_first(slot, url)
        if slot in queues.visited:
            queues.perhaps_empty.add(slot)
        if not removed and queues.store.hosts[slot]["queued"]:
            self._keys.setdefault(slot, set()).add(key)
            self._count += 1
        if not queues.settle(slot):
            self._forget(slot)

    def has(self, slot: int, key: int) -> bool:
        """Whether a URL that was taken is withdrawn."""
        return key in self._keys.get(slot, ())

    def skipped(self, slot: int) -> None:
        """Note that a withdrawn URL was taken, and dropped."""
        if not self._queues.settle(slot):
            self._forget(slot)

    def before_put(self, items: Sequence[Waiting]) -> None:
        """Settle withdrawals of URLs that are about to be put again, lest the two be confused."""
        for waiting in items:
            slot = self._queues.find(host_of(waiting.url))
            if waiting.key in self._keys.get(slot, ()):
                self._purge(slot)

    def settle(self) -> None:
        """Remove all withdrawn URLs from the queues."""
        for slot in list(self._keys):
            self._purge(slot)

    def _purge(self, slot: int) -> None:
        """Take a host's URLs out of its queues, and put back those that were not withdrawn."""
        keys = self._keys[slot]
        self._forget(slot)
        if self._queues.store.hosts[slot]["where"] == FREE:
            return  # its URLs were taken, those withdrawn skipped, and the host was forgotten
        self._gather(slot)
        kept: list[Waiting] = []
        levels: list[int] = []
        while (taken := self._queues.take(slot, -1)) is not None:
            if taken.waiting.key not in keys:
                kept.append(taken.waiting)
                levels.append(taken.level)
        # While it was empty the host kept its place in its heap, and counted as having URLs in flight.
        self._queues.put(kept, levels)
        if slot in self._queues.visited:
            self._queues.perhaps_empty.add(slot)
        self._queues.settle(slot)

    def _forget(self, slot: int) -> None:
        self._count -= len(self._keys.pop(slot, ()))

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def nbytes(self) -> int:
        """Bytes held, roughly."""
        return _PER_HOST * len(self._keys) + _PER_KEY * self._count
