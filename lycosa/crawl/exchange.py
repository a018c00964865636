"""The exchange between the shards of one agent: links found by one shard for hosts of another.

The sender's own log is the exchange: a link is on its way from the moment its record is logged, and the
receiver's log says how far it has come (`Received.cursor`, a position in the sender's log). So

- delivering is appending `Received` to the receiver's log, for links whose records are committed;
- after a crash, what each sender logged from the receiver's cursor on is delivered (again, or at last):
  links that come twice are known to the receiver's seen set, and nothing is forgotten.

A link that was sent a moment ago is sent again only when it has left the agent's URL cache (Broder, Najork and
Wiener's cross sub-trace: most links across hosts repeat). The cache may forget, never invent, so a hit means that
the link is known to its owner, or already on its way from a position no later than this one.

A receiver's cursor also moves without links, every `HEARTBEAT` positions, so that recovery never has far to
read back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lycosa.records import Links, Received
from lycosa.seen.cache import Cache
from lycosa.seen.protocol import Keys

if TYPE_CHECKING:
    from lycosa.crawl.shard import Shard

HEARTBEAT = 1_000
_MOST = 5_000
"""Links in one Received record."""


class Outbox:
    """Links of one shard that wait to be delivered to others."""

    def __init__(self, cache: Cache) -> None:
        self._rows: dict[int, list[tuple[int, str, int, int, int]]] = {}
        self._cache = cache
        self.offered = 0
        self.sent = 0

    def add(self, keys: Keys, rows: list[tuple[int, tuple[int, str, int, int, int]]]) -> None:
        """Links, each with its owner: (position in the sender's log, URL, kind, depth, hops)."""
        known = np.empty(len(rows), np.bool_)
        self.offered += len(rows)
        self.sent += len(rows) - self._cache.probe(keys, known)
        for hit, (owner, row) in zip(known.tolist(), rows, strict=True):
            if not hit:
                self._rows.setdefault(owner, []).append(row)

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def take(self, owner: int, before: int) -> list[tuple[int, str, int, int, int]]:
        """The links for one shard that were found before a position."""
        rows = self._rows.pop(owner, [])
        kept = [row for row in rows if row[0] >= before]
        if not kept:
            return rows
        self._rows[owner] = kept
        return [row for row in rows if row[0] < before]

    def clear(self) -> None:
        """Forget everything, what was sent included: recovery finds out what to send."""
        self._rows.clear()
        self._cache.clear()


def deliver(shards: Sequence[Shard], at: int) -> int:
    """Deliver what is committed; returns how many records were appended."""
    appended = 0
    for sender in shards:
        committed = sender.log.committed
        for receiver in shards:
            if receiver is sender:
                continue
            rows = sender.outbox.take(receiver.number, committed)
            behind = committed - receiver.cursors.get(sender.number, 0)
            if rows or behind >= HEARTBEAT:
                appended += _receive(receiver, sender.number, committed, rows, at)
    return appended


def _receive(
    receiver: Shard, sender: int, cursor: int, rows: list[tuple[int, str, int, int, int]], at: int
) -> int:
    """Append rows in records of bounded size; only the last one may move the cursor to its end."""
    rows = sorted(rows, key=lambda row: row[0])  # a record's cursor must not be past rows of a later record
    parts = [rows[start : start + _MOST] for start in range(0, len(rows), _MOST)] or [[]]
    for part in parts:
        end = cursor if part is parts[-1] else part[-1][0]
        links = Links("\n".join(row[1] for row in part).encode("ascii"), bytes(row[2] for row in part), b"")
        depths, hops = [row[3] for row in part], bytes(min(row[4], 255) for row in part)
        receiver.append(Received(at, sender, end, links, depths, hops))
    return len(parts)


def catch_up(shards: Sequence[Shard], refill: Callable[[Shard, int], int], at: int) -> int:
    """After recovery: deliver what senders logged behind receivers' cursors; records looked at.

    `refill` puts what a shard's log has for others from a position on into its outbox.
    """
    looked = 0
    for sender in shards:
        sender.outbox.clear()
        others = [receiver for receiver in shards if receiver is not sender]
        if not others:
            continue
        start = min(receiver.cursors.get(sender.number, 0) for receiver in others)
        looked += refill(sender, start)
        for receiver in others:
            cursor = receiver.cursors.get(sender.number, 0)
            rows = [
                row for row in sender.outbox.take(receiver.number, sender.log.committed) if row[0] >= cursor
            ]
            if rows:
                _receive(receiver, sender.number, sender.log.committed, rows, at)
    return looked
