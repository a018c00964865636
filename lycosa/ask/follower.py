"""Follower: the one way to read a crawl's log from outside the crawl.

    follower = Follower.kept(crawl, files, "place.json")      or Follower(crawl): from the beginning, nothing kept
    for shard, position, record in follower.read():           what is committed and was not handed out yet
        ...                                                   do something with it
    follower.save()                                           marks it as done

**What is handed out.** Every valid record of every shard, exactly once, in the order of its shard's log (shard by
shard, or with `by_time` merged by the times the records carry). Records that amend an earlier fetch are resolved:

- a Fetched that was taken back (`Lost`) is not handed out, and neither is its Lost;
- a Fetched whose content a later `Duplicates` reports as known comes with `duplicate` set, and the Duplicates does
  not come;
- a record that amends a fetch already handed out (it was logged later) is the only kind that comes by itself:
  the Lost, or a Duplicates with just those positions. (A fetch among the latter may have been taken back.)

So a consumer that sums up what it is handed counts each fetch as valid or as taken back, never as both. A follower
that has read everything at once meets neither Lost nor Duplicates.

**How far.** A log is read in *stretches*: from where the last one ended up to the last whole block. A stretch is
searched for amendments before it is handed out; they are few, and records are not decoded for that. A torn block
means that the writer is at work; the next `read` goes on there. Whole blocks of a commit that is being synced
could still vanish in a power cut. A follower that keeps its place (`settled`) is therefore not given the last
commit of a log while the crawl runs: it comes with the next one, or when the crawl ends.

**The place** is three positions per shard, [start, next, end]: the stretch, and the next record of it. `save`
writes it atomically, and states that everything handed out before is done. After a kill at any moment `read` goes
on from the last saved place: what was handed out after it comes again, resolved in exactly the same way, because
the stretch is kept.

    place file := {"crawl": id, "shards": [[start, next, end]*]}          JSON

A log that ends before the place (a directory restored from an older copy) is refused: what the follower did with
the records after its end cannot be undone here.

A crawl may run, be finished, and be continued later; it may be on one machine or be copied from a cluster (`lycosa
cluster fetch`, repeatedly into the same directory): positions are the same wherever the log lies.
"""

from __future__ import annotations

import bisect
import heapq
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, cast

import msgspec

from lycosa.errors import ConfigError, StorageError
from lycosa.files import Files, write_whole
from lycosa.log.blocks import Head
from lycosa.log.reader import LogReader, decoded
from lycosa.records import Duplicates, Fetched, Lost, Record, has_tag, tag_of

Entry = tuple[int, int, Record]
"""Shard, position, record."""

_LOST, _DUPLICATES = tag_of(Lost), tag_of(Duplicates)


class Followed(Protocol):
    """What a follower must know about a crawl."""

    @property
    def crawl(self) -> str:
        """The crawl's id: a place belongs to one crawl."""
        ...

    @property
    def logs(self) -> Sequence[LogReader]:
        """The logs of its shards, by number."""
        ...

    def is_running(self) -> bool:
        """Whether somebody may be writing to the logs: then the last commit of each may not be durable."""
        ...


class Place(msgspec.Struct, frozen=True, array_like=True):
    """How far a follower is in the log of one shard."""

    start: int = 0
    next: int = 0
    end: int = 0

    @staticmethod
    def at(position: int) -> Place:
        """The place where everything before a position is done."""
        return Place(position, position, position)


class _Kept(msgspec.Struct):
    """The place file."""

    crawl: str
    shards: list[Place]


class Stretch:
    """The records of one log from `start` up to `end` (or its last whole block), resolved.

    The amendments are searched for at the first `read`; every later `read` resolves in the same way.
    """

    def __init__(
        self, log: LogReader, start: int = 0, end: int | None = None, *, settled: bool = False
    ) -> None:
        """`settled`: leave out the last commit."""
        self._log = log
        self.start = start
        self._end = end
        self._settled = settled
        self._looked = False
        self._lost = array("q")
        self._late = array("q")

    @property
    def end(self) -> int:
        """The position after its last record."""
        self._look()
        assert self._end is not None
        return self._end

    def read(self, start: int = 0) -> Iterator[tuple[int, Record]]:
        """Positions and valid records, from `start` on."""
        end = self.end
        for position, row in self._log.scan_encoded(max(start, self.start), end):
            if (record := self._resolved(position, row)) is not None:
                yield position, record

    def find(
        self,
        needle: bytes,
        *,
        taken_back: bool = False,
        before: int | None = None,
        terms: Sequence[bytes] = (),
    ) -> Iterator[tuple[int, Record]]:
        """Positions and valid records whose encoding holds `needle`; blocks without it are not decoded.

        `terms`: terms of the records that are wanted, if not the needle itself (see `lycosa.ask.mentions`).

        With `taken_back` nothing is resolved: fetches that were taken back come too. (The links that they found
        were found all the same.) Blocks after the one in which the time `before` is passed are not looked at.
        """
        end = self._end if taken_back else self.end
        for head, rows in self._may_hold(terms or (needle,), end):
            if before is not None and decoded(head.first, rows[0]).at > before:
                return
            if needle not in cast(bytes, rows[0].obj):
                continue
            for position, row in enumerate(rows, head.first):
                if position < self.start or (end is not None and position >= end) or needle not in bytes(row):
                    continue
                record = decoded(position, row) if taken_back else self._resolved(position, row)
                if record is not None:
                    yield position, record

    def _may_hold(self, _: Sequence[bytes], end: int | None) -> Iterator[tuple[Head, list[memoryview]]]:
        """Blocks up to `end` that may hold one of some terms."""
        return self._log.blocks(self.start, end)

    def _resolved(self, position: int, row: memoryview) -> Record | None:
        """The record with its amendments applied; None if nothing of it remains."""
        if _has(self._lost, position):
            return None
        record = decoded(position, row)
        if isinstance(record, Fetched) and _has(self._late, position):
            return msgspec.structs.replace(record, duplicate=True)
        if isinstance(record, Lost):
            return record if record.position < self.start else None
        if isinstance(record, Duplicates):
            before = [each for each in record.positions if each < self.start]
            return msgspec.structs.replace(record, positions=before) if before else None
        return record

    def _look(self) -> None:
        """Find the end, and the amendments to fetches of this stretch."""
        if self._looked:
            return
        end = begun = self.start
        batch = 0
        amended: list[tuple[int, Record]] = []
        for head, rows in self._log.blocks(self.start, self._end):
            if head.batch != batch:
                batch, begun = head.batch, max(head.first, self.start)
            end = head.end
            amended += amendments(head, rows)
        if self._end is None:
            self._end = begun if self._settled else end
        for position, record in amended:
            if self.start <= position < self._end:
                if isinstance(record, Lost):
                    self._lost.append(record.position)
                elif isinstance(record, Duplicates):
                    self._late.extend(record.positions)
        self._lost, self._late = array("q", sorted(self._lost)), array("q", sorted(self._late))
        self._looked = True


def amendments(head: Head, rows: list[memoryview]) -> list[tuple[int, Record]]:
    """The records of a block that amend earlier ones, with their positions."""
    plain = cast(bytes, rows[0].obj)
    if _LOST not in plain and _DUPLICATES not in plain:
        return []
    return [
        (position, decoded(position, row))
        for position, row in enumerate(rows, head.first)
        if has_tag(row, _LOST) or has_tag(row, _DUPLICATES)
    ]


def _has(positions: array[int], position: int) -> bool:
    at = bisect.bisect_left(positions, position)
    return at < len(positions) and positions[at] == position


class Follower:
    """Reads a crawl's logs from a place on; for its guarantees see the module's text."""

    def __init__(self, crawl: Followed, places: Sequence[Place] = (), *, settled: bool = False) -> None:
        """Shards without a place are read from the beginning. `settled`: for callers that keep the place."""
        self._crawl = crawl
        self._settled = settled
        self._places = [*places[: len(crawl.logs)], *(Place() for _ in range(len(crawl.logs) - len(places)))]
        self._file: tuple[Files, str] | None = None
        for shard, place in enumerate(self._places):
            if not crawl.logs[shard].reaches(place.end):
                raise StorageError(
                    f"the log of shard {shard:02d} has not come to position {place.end}, up to which it was read"
                    f" before: it is an older copy; restore the newer one, or read it from its beginning"
                )

    @staticmethod
    def kept(crawl: Followed, files: Files, name: str) -> Follower:
        """The follower whose place is kept in a file; from the beginning if there is none yet."""
        places: Sequence[Place] = ()
        if files.exists(name):
            try:
                found = _decode_kept(files.read(name))
            except msgspec.MsgspecError as error:
                raise StorageError(
                    f"{files.path(name)} is damaged ({error}): remove it to read the crawl from its beginning"
                ) from None
            if found.crawl != crawl.crawl:
                raise ConfigError(f"{files.path(name)} is a place in another crawl ({found.crawl})")
            places = found.shards
        follower = Follower(crawl, places, settled=True)
        follower._file = files, name
        return follower

    @property
    def places(self) -> list[Place]:
        """The place in each shard, after what was handed out last."""
        return list(self._places)

    @property
    def positions(self) -> dict[int, int]:
        """By shard: the position before which everything was handed out."""
        return {shard: place.next for shard, place in enumerate(self._places)}

    def save(self) -> None:
        """Save the place: everything that was handed out is done, and will not come again."""
        if self._file is None:
            raise RuntimeError("this follower has no file for its place")
        files, name = self._file
        write_whole(files, name, msgspec.json.encode(_Kept(self._crawl.crawl, self._places)))

    def read(self, *, by_time: bool = False, shards: Iterable[int] | None = None) -> Iterator[Entry]:
        """What is committed and was not handed out yet (of some shards). Ends there; called again, it goes on."""
        settled = self._settled and self._crawl.is_running()  # first: a crawl ending later has committed
        numbers = range(len(self._places)) if shards is None else shards
        streams = [self._shard(number, settled) for number in numbers]
        merged = heapq.merge(*streams, key=lambda entry: entry[2].at) if by_time else _chained(streams)
        for shard, position, record in merged:
            self._places[shard] = msgspec.structs.replace(self._places[shard], next=position + 1)
            yield shard, position, record

    def _shard(self, number: int, settled: bool) -> Iterator[Entry]:
        log = self._crawl.logs[number]
        place = self._places[number]
        stretches = [Stretch(log, place.end, settled=settled)]
        if place.next < place.end:
            stretches.insert(0, Stretch(log, place.start, place.end))
        for stretch in stretches:
            first = place.next if stretch.start == place.start else stretch.start
            self._places[number] = Place(stretch.start, max(first, stretch.start), stretch.end)
            for position, record in stretch.read(first):
                yield number, position, record
            self._places[number] = Place.at(stretch.end)


def _chained(streams: Sequence[Iterator[Entry]]) -> Iterator[Entry]:
    for stream in streams:
        yield from stream


# Made at import: msgspec crashes where two threads are the first to decode a struct that holds others.
_decode_kept = msgspec.json.Decoder(_Kept).decode
