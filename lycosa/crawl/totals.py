"""Totals: the crawl in numbers, as a fold; limits are checked against them, and `status` shows them.

Counted are fetches, and how many of them were of a URL that was a page already; the rest are pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from lycosa.records import Before, Deferred, Duplicates, Fetched, Lost, Record, Robots, Skipped


class Totals(msgspec.Struct, array_like=True):
    """Counts over one shard's log."""

    fetched: int = 0  # number of fetches; the fields from here to `duplicates` cover all of them
    size: int = 0  # bytes of bodies as sent
    links: int = 0
    duplicates: int = 0
    robots: int = 0
    deferred: int = 0
    statuses: dict[int, int] = msgspec.field(default_factory=dict)  # by hundreds: 2, 3, 4, 5
    skipped: dict[str, int] = msgspec.field(default_factory=dict)  # by why
    lost: int = 0  # fetches taken back; they are in no other number
    again: int = 0  # fetches of URLs that were pages already

    @property
    def pages(self) -> int:
        """Number of URLs with a valid fetch."""
        return self.fetched - self.again

    def apply(self, record: Record) -> None:
        if isinstance(record, Fetched):
            self.fetched += 1
            self.again += record.before is Before.PAGE
            self.size += record.size
            self.links += len(record.links)
            self.duplicates += record.duplicate
            kind = record.status // 100
            self.statuses[kind] = self.statuses.get(kind, 0) + 1
        elif isinstance(record, Skipped):
            self.skipped[record.why] = self.skipped.get(record.why, 0) + 1
        elif isinstance(record, Deferred):
            self.deferred += 1
        elif isinstance(record, Robots):
            self.robots += 1
        elif isinstance(record, Duplicates):
            self.duplicates += len(record.positions)
        elif isinstance(record, Lost):
            self.lost += 1
            self.fetched -= 1
            self.again -= record.remains
            self.size -= record.size
            self.links -= record.outlinks
            self.duplicates -= record.duplicate
            self.statuses[record.status // 100] = self.statuses.get(record.status // 100, 0) - 1

    def add(self, other: Totals) -> None:
        self.fetched += other.fetched
        self.size += other.size
        self.links += other.links
        self.duplicates += other.duplicates
        self.robots += other.robots
        self.deferred += other.deferred
        self.lost += other.lost
        self.again += other.again
        for kind, n in other.statuses.items():
            self.statuses[kind] = self.statuses.get(kind, 0) + n
        for why, n in other.skipped.items():
            self.skipped[why] = self.skipped.get(why, 0) + n

    # -- Durable

    def freeze(self) -> Iterator[bytes]:
        return iter([msgspec.msgpack.encode(self)])

    def thaw(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            read = _decode_totals(piece)
            for name in self.__struct_fields__:
                setattr(self, name, getattr(read, name))


def summed(parts: Iterable[Totals]) -> Totals:
    """The totals of several shards."""
    total = Totals()
    for part in parts:
        total.add(part)
    return total


# Made at import: msgspec crashes where two threads are the first to decode a struct, as when shards recover.
_decode_totals = msgspec.msgpack.Decoder(Totals).decode
