"""Clusters of near duplicates: pages with nearly the same text, one of which represents the others.

Two pages are near duplicates if both sketches agree: the MinHash estimate of their similarity is at least `LIKE`,
and their simhashes differ in at most `WITHIN` bits, or `ACROSS` if they are of two hosts. Each page of a cluster is
a near duplicate of its *representative*, the first page of the cluster; so clusters do not chain from page to page
until the ends are no longer similar. A page similar to several representatives joins the most similar one.

    put         add or update a page: if its text has changed it leaves its cluster, and may join another
    remove      remove a page

When a representative leaves, the page that has been in the cluster longest takes its place; pages that are not near
duplicates of it are placed anew.

Only representatives, and pages without a cluster, are found in the index of sketches (`alike`); the others are
hidden there. So placing a page costs as much in a cluster of a million pages as in one of two.

`Members` is the table of the clusters' pages, in memory: 26 bytes for each page in a cluster, and 8 more once
members are listed. In a file it is:

    members := row *              ascending by key
    row     := key:u64 leader:u64 place:u64 like:u8 distance:u8        like: the similarity in 255ths
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np

from lycosa.content.alike import AlikeIndex
from lycosa.content.sketches import Sketch

LIKE: Final = 0.9
WITHIN: Final = 16
ACROSS: Final = 9
"""The most bits in which the simhashes of near duplicates differ, on one host and on two. Across hosts, where fewer
pages are similar, that rejects most false positives of the other sketch."""
FEW: Final = 12
"""A text of fewer words is not evidence: it may be a message, or be made by a script."""

MEMBER: Final = np.dtype(
    [("key", "<u8"), ("leader", "<u8"), ("place", "<u8"), ("like", "u1"), ("distance", "u1")]
)


def near(one: int, other: int, like: float, distance: int) -> bool:
    """Whether two pages, by their keys, are near duplicates."""
    return like >= LIKE and distance <= (WITHIN if one >> 48 == other >> 48 else ACROSS)


class Member(msgspec.Struct, frozen=True, gc=False):
    """A page of a cluster."""

    key: int
    leader: int
    """The key of the representative, which may be its own."""
    place: int
    like: float = 1.0
    """Its similarity to the representative."""
    distance: int = 0


class Members:
    """The cluster of each page that is in one."""

    def __init__(self, data: bytes = b"") -> None:
        self._rows = np.frombuffer(data, MEMBER)
        self._order: Any = None
        """The rows by leader."""
        self._changes: dict[int, Member | None] = {}
        self._joined: dict[int, set[int]] = {}
        """Keys that joined since the rows were read, by leader; some may have left again."""

    def find(self, key: int) -> Member | None:
        """The page's row; None if it is in no cluster."""
        if key in self._changes:
            return self._changes[key]
        at = int(np.searchsorted(self._rows["key"], np.uint64(key)))
        if at == len(self._rows) or int(self._rows["key"][at]) != key:
            return None
        return _member(self._rows[at])

    @property
    def rows(self) -> Any:
        """The table as it was read."""
        return self._rows

    def of(self, leader: int) -> list[Member]:
        """All pages of a cluster, by place."""
        if self._order is None:
            self._order = np.argsort(self._rows["leader"], kind="stable")
        leaders = self._rows["leader"][self._order]
        low, high = (
            np.searchsorted(leaders, np.uint64(leader), "left"),
            np.searchsorted(leaders, np.uint64(leader), "right"),
        )
        found = {
            row.key: row
            for row in map(_member, self._rows[self._order[low:high]])
            if row.key not in self._changes
        }
        for key in self._joined.get(leader, ()):
            row = self._changes.get(key)
            if row is not None and row.leader == leader:
                found[key] = row
        return sorted(found.values(), key=lambda row: (row.place, row.key))

    def put(self, member: Member) -> None:
        self._changes[member.key] = member
        self._joined.setdefault(member.leader, set()).add(member.key)

    def drop(self, key: int) -> None:
        self._changes[key] = None

    def encode(self) -> bytes:
        """The table as it is now, for a file; its changes are merged."""
        if self._changes:
            gone = np.fromiter(self._changes, np.uint64, len(self._changes))
            kept = self._rows[~np.isin(self._rows["key"], gone)]
            fresh = [row for row in self._changes.values() if row is not None]
            added = np.array(
                [(row.key, row.leader, row.place, round(row.like * 255), row.distance) for row in fresh],
                MEMBER,
            )
            rows = np.concatenate([kept, added])
            self._rows = rows[np.argsort(rows["key"], kind="stable")]
            self._order, self._changes, self._joined = None, {}, {}
        return self._rows.tobytes()

    def sizes(self) -> tuple[Any, Any]:
        """The leaders, those of the largest clusters first, and how many pages each has."""
        self.encode()
        leaders, counts = np.unique(self._rows["leader"], return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return leaders[order], counts[order]

    def across(self) -> int:
        """Pages whose representative is on another host, by the host's bits of the keys."""
        self.encode()
        hosts = self._rows["key"] >> np.uint64(48) != self._rows["leader"] >> np.uint64(48)
        return int(np.count_nonzero(hosts))


def _member(row: Any) -> Member:
    return Member(
        int(row["key"]), int(row["leader"]), int(row["place"]), int(row["like"]) / 255, int(row["distance"])
    )


class Clusters:
    """Maintains clusters while pages are added, changed and removed."""

    def __init__(
        self, index: AlikeIndex, members: Members, sketch_of: Callable[[int], Sketch | None]
    ) -> None:
        """`sketch_of(place)`: the sketch of the page at a place, made again from its text; None if that is gone."""
        self._index = index
        self.members = members
        self._sketch_of = sketch_of

    def put(self, key: int, sketch: Sketch, place: int) -> bool:
        """Add or update a page that was fetched; returns whether it is new or has changed."""
        had = self._index.get(key)
        if had is not None:
            if had[0].simhash == sketch.simhash and had[0].least == sketch.least:
                return False
            self.remove(key)
        self._settle(key, sketch, place)
        return True

    def remove(self, key: int) -> bool:
        """Remove a page; returns whether it was there."""
        if not self._index.remove(key):
            return False
        row = self.members.find(key)
        if row is None:
            return True
        self.members.drop(key)
        rest = self.members.of(row.leader)
        if row.leader == key:
            self._succeed(rest)
        elif len(rest) == 1:
            self.members.drop(rest[0].key)
        return True

    def place_of(self, key: int) -> int | None:
        """The place that was given with a page."""
        had = self._index.get(key)
        return None if had is None else had[1]

    def _settle(self, key: int, sketch: Sketch, place: int) -> None:
        """Find a cluster for a page that is in none."""
        found = [
            row for row in self._index.find(sketch, LIKE) if near(key, row.key, row.similarity, row.distance)
        ]
        self._index.add(key, sketch, place, hidden=bool(found))
        if found:
            best = found[0]
            if self.members.find(best.key) is None:
                self.members.put(Member(best.key, best.key, best.place))
            self.members.put(Member(key, best.key, place, best.similarity, best.distance))

    def _succeed(self, rest: list[Member]) -> None:
        """Place these pages anew, after their representative has left."""
        for row in rest:
            self.members.drop(row.key)
        first: tuple[Member, Sketch] | None = None
        for row in rest:
            had = self._index.get(row.key)
            if had is None:
                continue
            if first is not None:
                leader, said = first
                like, distance = said.like(had[0]), said.distance(had[0])
                if near(leader.key, row.key, like, distance):
                    self.members.put(Member(leader.key, leader.key, leader.place))
                    self.members.put(Member(row.key, leader.key, row.place, like, distance))
                    continue
            # It is hidden, and its row has not all that it is found by.
            sketch = self._sketch_of(row.place)
            self._index.remove(row.key)
            if sketch is None or not sketch.least:
                continue
            self._settle(row.key, sketch, row.place)
            if first is None and self.members.find(row.key) is None:
                first = row, sketch
