"""Links found by one shard for hosts of another: the outbox of the sender, and how the receiver accepts them.

A link is under way from the moment its record is logged, and the receiver's log tells how far it has received
(`Received.cursor`, a position in the sender's log). `lycosa.crawl.delivery.Exchange` transports the links.

A link that was sent recently is sent again only when it has left the agent's URL cache (Broder, Najork and Wiener's
cross sub-trace: most links across hosts repeat). The cache may forget, but never invents, so a hit means that the
link is known to its owner, or already under way from a position no later than this one.

A receiver's cursor also moves without links, every `HEARTBEAT` positions, so that recovery never has to
read back far; less often with many shards, or logs would hold little else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from lycosa.records import Links, Received
from lycosa.seen.cache import Cache
from lycosa.seen.protocol import Keys

if TYPE_CHECKING:
    from lycosa.crawl.shard import Shard


HEARTBEAT = 1_000
_SHARE = 8
"""At most one in so many records is a heartbeat."""
_MOST = 500
"""Links in one Received record: if all are new, making them pending takes the loop some five milliseconds."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """A link under way to another shard. Not a tuple: hundreds of thousands may wait, and each full collection of
    garbage would look at every tuple of a class of its own.

    Its `hint` is what only the page's shard knows and the link's owner needs: a hash of the page's registered
    domain, and the level that the order gave the link by its text and its page. 0: no hint.

        hint = 32 bits of the domain's hash . 9 bits of the level + 1 (0: the order does not need it)
    """

    at: int  # position of the record in the sender's log
    url: str
    kind: int
    depth: int
    hops: int
    hint: int = 0


R = TypeVar("R", Row, tuple[int, int])
_position = attrgetter("at")


def pack_hint(domain: int, level: int | None) -> int:
    return (domain & 0xFFFFFFFF) << 9 | (0 if level is None else level + 1)


def unpack_hint(hint: int) -> tuple[int, int | None]:
    """The hash of the domain (0: unknown), and the level."""
    level = hint & 0x1FF
    return hint >> 9 & 0xFFFFFFFF, min(level, 256) - 1 if level else None


class Heartbeats:
    """Tells when some of a sender's receivers may be far behind although no links wait for them."""

    def __init__(self) -> None:
        self._next = 0

    def is_due(self, committed: int) -> bool:
        """Whether all receivers are to be checked."""
        return committed >= self._next

    def looked(self, cursors: Collection[int]) -> None:
        """Note the present cursors of all receivers."""
        self._next = min(cursors, default=0) + every(len(cursors))

    def reset(self) -> None:
        """The receivers, or their cursors, have changed."""
        self._next = 0


def every(receivers: int) -> int:
    """Number of positions after which a cursor moves without links."""
    return max(HEARTBEAT, _SHARE * receivers)


class Outbox:
    """Links of one shard that wait to be delivered to others."""

    def __init__(self, cache: Cache) -> None:
        self.heartbeats = Heartbeats()
        """For the receivers within the agent."""
        self._rows: dict[int, list[Row]] = {}
        self._asks: dict[int, list[tuple[int, int]]] = {}
        self._cache = cache
        self._shut: set[int] = set()
        self.offered = 0
        self.sent = 0

    def add(self, keys: Keys, rows: list[tuple[int, Row]]) -> None:
        """Add links, each with its owner."""
        known = np.empty(len(rows), np.bool_)
        self.offered += len(rows)
        self.sent += len(rows) - self._cache.probe(keys, known)
        for hit, (owner, row) in zip(known.tolist(), rows, strict=True):
            if not hit and owner not in self._shut:
                self._rows.setdefault(owner, []).append(row)

    def ask(self, owner: int, position: int, digest: int) -> None:
        """Ask about a content fetched at `position` whose digest is kept by another agent's shard."""
        if owner not in self._shut:
            self._asks.setdefault(owner, []).append((position, digest))

    def take_asks(self, owner: int, before: int) -> list[tuple[int, int]]:
        """The contents fetched before a position that one shard is to be asked about: (position, digest)."""
        return _before(self._asks, owner, before, itemgetter(0))

    def owners(self) -> list[int]:
        """The shards for which anything waits."""
        return list(self._rows.keys() | self._asks.keys()) if self._asks else list(self._rows)

    def __len__(self) -> int:
        return sum(map(len, self._rows.values())) + sum(map(len, self._asks.values()))

    def take(self, owner: int, before: int) -> list[Row]:
        """The links for one shard that were found before a position."""
        return _before(self._rows, owner, before, _position)

    def clear(self, before: int | None = None) -> None:
        """Forget everything (found before a position), including sent links: recovery finds out what to send."""
        kept = {
            owner: [row for row in rows if before is not None and row.at >= before]
            for owner, rows in self._rows.items()
        }
        self._rows = {owner: rows for owner, rows in kept.items() if rows}
        if before is None:
            self._asks.clear()
        self._cache.clear()
        self.heartbeats.reset()

    def shut(self, owners: Iterable[int]) -> None:
        """Keep nothing for these shards: links for them will be read from the log when they can be sent."""
        self._shut.update(owners)
        for owner in self._shut:
            self._rows.pop(owner, None)
            self._asks.pop(owner, None)

    def reopen(self, owners: Iterable[int]) -> None:
        """Keep links found for these shards from now on."""
        self._shut.difference_update(owners)


def _before(table: dict[int, list[R]], owner: int, before: int, at: Callable[[R], int]) -> list[R]:
    """Remove and return what waits for a shard and was found before a position."""
    rows = table.pop(owner, [])
    kept = [row for row in rows if at(row) >= before]
    if not kept:
        return rows
    table[owner] = kept
    return [row for row in rows if at(row) < before]


def receiving(
    receiver: Shard,
    sender: int,
    cursor: int,
    rows: list[Row],
    at: int,
    asks: Sequence[tuple[int, int, int]] = (),
    sequence: int = 0,
) -> Iterator[None]:
    """Append rows in records of bounded size; only the last one may move the cursor to its end.

    The others move it to where the next one continues: a record of the sender is not split, unless it is large by
    itself. So if this is interrupted between two of them, and called with all the rows again, it continues with the
    rest.

    `asks` are digests for the receiver's partition: (position in the sender's log, digest, that position or -1);
    each goes into the record whose cursor passes its position, so that it is processed exactly once. `sequence` (of
    the cluster message that contained everything) goes into the last.
    """
    rows = sorted(rows, key=_position)  # a record's cursor must not pass rows of a later record
    parts = _parts(rows)
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        end = cursor if following is None else min(following[0].at, cursor)
        told = [row for row in asks if row[0] < end or part is parts[-1]]
        asks = [row for row in asks if row[0] >= end and part is not parts[-1]]
        digests = b"".join(digest.to_bytes(8, "little") for _, digest, _ in told)
        links = Links(
            "\n".join(row.url for row in part).encode("ascii"), bytes(row.kind for row in part), b""
        )
        depths, hops = [row.depth for row in part], bytes(min(row.hops, 255) for row in part)
        asked = [row for _, _, row in told]
        hints = [row.hint for row in part] if any(row.hint for row in part) else []
        last = sequence if part is parts[-1] else 0
        receiver.append(Received(at, sender, end, links, depths, hops, digests, asked, hints, last))
        yield


def _parts(rows: list[Row]) -> list[list[Row]]:
    """Split sorted rows into parts of about `_MOST`, each of whole records of the sender; at least one part."""
    parts: list[list[Row]] = []
    start = 0
    while len(rows) - start > _MOST:
        stop = start + _MOST
        most = min(stop + _MOST, len(rows))
        while stop < most and rows[stop].at == rows[stop - 1].at:
            stop += 1
        parts.append(rows[start:stop])
        start = stop
    return [*parts, rows[start:]] if start < len(rows) or not parts else parts
