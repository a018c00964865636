"""Clusters of near duplicates, for reading: what `lycosa.ask.clustering` saved last.

found = ClusterReader.of(crawl)             None if nobody has looked for near duplicates
found.cluster_of(url)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from lycosa.ask.follower import Place
from lycosa.ask.reading import CrawlReader
from lycosa.content.alike import note_of
from lycosa.content.clusters import Members
from lycosa.content.variants import CONFIDENT, PROPOSED
from lycosa.errors import ConfigError, StorageError
from lycosa.files import DiskFiles
from lycosa.records import Fetched

DIRECTORY = "clusters"
INDEX = "index"
POSITIONS = 48
"""Bits of a place that hold the position; the shard is in those above."""


class Near(msgspec.Struct):
    """A page of a cluster, compared with its representative."""

    url: str
    similarity: float
    distance: int


class Cluster(msgspec.Struct, kw_only=True):
    """Pages with nearly the same content."""

    pages: int
    representative: str
    others: list[Near]
    """The most similar first; of a large cluster not all."""


class Proposal(msgspec.Struct, kw_only=True):
    """A rule about URLs that lead to the same page, with its evidence: see `lycosa.content.variants`."""

    rule: str
    agreed: int  # pages that had the same content as another of their form
    disagreed: int
    confidence: float
    examples: list[str]


class Note(msgspec.Struct):
    """What the manifest of the index of sketches holds about the clusters."""

    crawl: str
    members: str
    number: int
    places: list[Place]
    rules: list[Proposal] = []


# Forces msgspec to complete the struct: it crashes where two threads are the first to read one that holds others.
msgspec.json.Decoder(Note)


def read_note(crawl: CrawlReader, note: Any) -> Note | None:
    """The note of an index of this crawl; None if there is none."""
    if note is None:
        return None
    read = msgspec.convert(note, Note)
    if read.crawl != crawl.crawl:
        raise ConfigError(f"{crawl.directory / DIRECTORY} is of another crawl ({read.crawl}): remove it")
    return read


def record_at(crawl: CrawlReader, place: int) -> Fetched | None:
    """The fetch with which a page was last put into the index."""
    shard, position = place >> POSITIONS, place & (1 << POSITIONS) - 1
    record = crawl.logs[shard].read(position)
    return record if isinstance(record, Fetched) else None


class ClusterReader:
    """The clusters of a crawl as they were last saved."""

    def __init__(self, crawl: CrawlReader, members: Members, proposals: list[Proposal]) -> None:
        self._crawl = crawl
        self._members = members
        self.proposals = [row for row in proposals if row.agreed >= PROPOSED and row.confidence >= CONFIDENT]
        """Rules about URLs, those with the most support first."""
        self._url = lru_cache(4096)(self._read_url)

    @staticmethod
    def of(crawl: CrawlReader) -> ClusterReader | None:
        """None if nobody has looked for near duplicates yet."""
        files = DiskFiles(crawl.directory / DIRECTORY)
        for _ in range(3):
            note = read_note(crawl, note_of(files.within(INDEX)))
            if note is None:
                return None
            try:
                return ClusterReader(crawl, Members(files.read(note.members)), note.rules)
            except StorageError:
                continue  # a round has just saved another one
        return None

    def counts(self) -> tuple[int, int, int]:
        """Clusters, pages in them, and how many of these pages resemble a page of another host."""
        _, sizes = self._members.sizes()
        return len(sizes), int(sizes.sum()), self._members.across()

    def all(self, shown: int = 5) -> Iterator[Cluster]:
        """All clusters, the largest first, each with some of its pages."""
        leaders, _ = self._members.sizes()
        for leader in leaders:
            found = self._cluster(int(leader), shown)
            if found is not None:
                yield found

    def largest(self, most: int, shown: int = 5) -> list[Cluster]:
        """The `most` largest clusters."""
        return list(islice(self.all(shown), most))

    def cluster_of(self, url: str, shown: int = 20) -> Cluster | None:
        """The cluster that a page is in; None if it is alone."""
        row = self._members.find(self._crawl.keyer.key(url))
        return None if row is None else self._cluster(row.leader, shown)

    def representative_of(self, url: str) -> str | None:
        """The page that represents the cluster of this one, which may be itself; None if it is alone."""
        row = self._members.find(self._crawl.keyer.key(url))
        if row is None or row.leader == row.key:
            return None if row is None else url
        leader = self._members.find(row.leader)
        return None if leader is None else self._url(leader.place)

    def _cluster(self, leader: int, shown: int) -> Cluster | None:
        rows = self._members.of(leader)
        first = next((row for row in rows if row.key == leader), None)
        if first is None:
            return None
        others = sorted((row for row in rows if row.key != leader), key=lambda row: (-row.like, row.distance))
        return Cluster(
            pages=len(rows),
            representative=self._url(first.place),
            others=[Near(self._url(row.place), round(row.like, 3), row.distance) for row in others[:shown]],
        )

    def _read_url(self, place: int) -> str:
        record = record_at(self._crawl, place)
        return "" if record is None else record.url


class Leaders:
    """Which page represents which, for searching: the table of clusters as it was last saved.

    A page that was fetched since then counts in the cluster that it was in.
    """

    def __init__(self, crawl: CrawlReader) -> None:
        self._crawl = crawl
        self._files = DiskFiles(crawl.directory / DIRECTORY)
        self._keys: Any = np.zeros(0, np.uint64)
        self._of: Any = self._keys
        self._sorted: Any = self._keys
        self._seen: object = None
        self.made = 0
        """The number of the table; 0 if nobody has looked for near duplicates."""

    def reload(self) -> None:
        """Load a newer table if there is one."""
        try:
            found = (self._crawl.directory / DIRECTORY / INDEX / "manifest.json").stat()
        except OSError:
            found = None
        seen = None if found is None else (found.st_mtime_ns, found.st_ino)
        if seen == self._seen:
            return
        note = read_note(self._crawl, note_of(self._files.within(INDEX))) if seen is not None else None
        rows = Members(self._files.read(note.members)).rows if note is not None else Members().rows
        # Contiguous columns: a search in one field of a structured array would copy it each time.
        self._keys, self._of = np.ascontiguousarray(rows["key"]), np.ascontiguousarray(rows["leader"])
        self._sorted = np.sort(self._of)
        self._seen, self.made = seen, note.number if note is not None else 0

    def leaders(self, ids: Sequence[int]) -> list[int]:
        """The keys of the pages that represent these; 0 for one that is alone."""
        if not len(self._keys):
            return [0] * len(ids)
        wanted = np.array(ids, np.uint64)
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        found: list[int] = np.where(self._keys[at] == wanted, self._of[at], 0).tolist()
        return found

    def others(self, identity: int) -> int:
        """How many pages besides this one are in its cluster."""
        (leader,) = self.leaders([identity])
        if not leader:
            return 0
        low, high = (np.searchsorted(self._sorted, np.uint64(leader), side) for side in ("left", "right"))
        return int(high - low) - 1
