"""Mentions: which stretches of a log may hold a URL, so that `explain` reads a few blocks and not the whole log.

The log has no index of URLs: explaining one would mean reading every block, five seconds at a million pages. For
each stretch of some blocks this keeps a Bloom filter of the *terms* of its records:

    a URL                               records that hold a link to it
    `own(URL)`, `own(pattern)`          what happened to it (Fetched, Skipped, Deferred), or was learned of it
    `rules(site)`, `content(digest)`    a site's robots.txt; fetches with this content
    `ACTS`                              options that an operator changed

A term that is there is always found; of the stretches without it fewer than one in a hundred are read in vain. 2^16
bits and four positions from 64 bits of a hash, for about `TERMS` terms: some 16 bytes for a page of twenty links.
Records that amend earlier ones (`Lost`, `Duplicates`) are kept whole: everything found must be resolved with them.

    DIR/serve/mentions/NN         entry*        of shard NN, in the order of its log, without gaps
    DIR/serve/mentions/NN.amends  (position << 1 | lost):i64*
    entry                         see `_ENTRY`: positions, where the bytes lie, the last block's head, the filter

It is a cache: an entry whose checksum is wrong, or whose last block has changed (it was not durable yet, and the
machine lost power), is dropped with all after it, and rebuilt from the log. The end of the log, as long as it has
too few terms for an entry, is read directly.
"""

from __future__ import annotations

import struct
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from lycosa.ask.follower import Stretch, amendments
from lycosa.log.blocks import Head
from lycosa.log.reader import BlockAt, LogReader, decoded
from lycosa.records import (
    Configured,
    Deferred,
    Duplicates,
    Fetched,
    Learned,
    Links,
    Lost,
    Received,
    Record,
    Robots,
    Skipped,
)

DIRECTORY = "mentions"
TERMS = 5_000
"""Distinct terms after which an entry is closed."""
ACTS = b"\x00acts"
_CHECKED = 16
"""Entries at the end of the file whose checksums are verified."""
_BITS = 1 << 16
_SHIFTS = (0, 16, 32, 48)
_PLACE = struct.Struct("<qqqqqqIQQ")
"""first, end (positions), segment, offset, size, the last block's offset and sum, amendments so far, sum of all"""
_ENTRY = _PLACE.size + _BITS // 8
_FIRST, _END, _SEGMENT, _OFFSET, _SIZE, _LAST, _CRC, _AMENDED, _SUM = range(9)


def own(name: str) -> bytes:
    """The term for what happened to a URL, or was learned about a pattern."""
    return b"\x01" + name.encode("utf-8", "replace")


def rules(site: str) -> bytes:
    return b"\x02" + site.encode("utf-8", "replace")


def content(digest: int) -> bytes:
    return b"\x03" + msgspec.msgpack.encode(digest)


def terms_of(record: Record) -> list[bytes]:
    """The terms by which a record is found."""
    terms: list[bytes] = []
    links = getattr(record, "links", None)
    if isinstance(links, Links) and links.urls and not isinstance(record, Received):
        terms = links.urls.split(b"\n")
    if isinstance(record, Fetched | Skipped | Deferred):
        terms.append(own(record.url))
    if isinstance(record, Fetched) and record.digest:
        terms.append(content(record.digest))
    elif isinstance(record, Robots):
        terms.append(rules(record.site))
    elif isinstance(record, Learned):
        terms.append(own(record.subject))
    elif isinstance(record, Configured) and record.acts:
        terms.append(ACTS)
    return terms


@dataclass
class _Part:
    """Blocks after the last entry, which have too few terms for one."""

    segment: int
    first: BlockAt
    last: BlockAt
    terms: set[int] = field(default_factory=set)
    amended: list[int] = field(default_factory=list)


def _amended(head: Head, rows: list[memoryview]) -> list[int]:
    """What the records of a block amend: position << 1 | lost."""
    found: list[int] = []
    for _, record in amendments(head, rows):
        if isinstance(record, Lost):
            found.append(record.position << 1 | 1)
        elif isinstance(record, Duplicates):
            found += [each << 1 for each in record.positions]
    return found


class Mentions:
    """The filters of one shard's log. One thread at a time adds to them; any thread may ask."""

    def __init__(self, log: LogReader, path: Path, seed: int) -> None:
        """`seed`: the crawl's, so that nobody can craft URLs that match every filter."""
        self._log = log
        self._path = path
        self._seed = seed
        self._adding = threading.Lock()
        self._lock = threading.Lock()
        self._entries: list[tuple[Any, ...]] = []
        self._lost, self._late = array("q"), array("q")
        self._part: _Part | None = None
        self._open()

    # -- the file

    @property
    def _amends(self) -> Path:
        return self._path.with_suffix(".amends")

    def _open(self) -> None:
        """Load the existing entries that are still valid."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (self._path, self._amends):
            path.touch()
        count = self._path.stat().st_size // _ENTRY
        with self._path.open("rb") as file:
            for number in range(count):
                file.seek(number * _ENTRY)
                data = file.read(_ENTRY if number >= count - _CHECKED else _PLACE.size)
                entry = _PLACE.unpack_from(data)
                if entry[_FIRST] != self.end or (
                    len(data) == _ENTRY and entry[_SUM] != self._sum(entry, data)
                ):
                    break
                self._entries.append(entry)
        raw = self._amends.read_bytes()
        amended = array("q", raw[: len(raw) // 8 * 8])
        while self._entries and not self._is_true(self._entries[-1], len(amended)):
            self._entries.pop()
        del amended[self._entries[-1][_AMENDED] if self._entries else 0 :]
        for path, size in ((self._path, _ENTRY * len(self._entries)), (self._amends, 8 * len(amended))):
            with path.open("ab") as file:
                file.truncate(size)
        self._take(amended)

    def _is_true(self, entry: tuple[Any, ...], amended: int) -> bool:
        """Whether the blocks that an entry was made from are unchanged."""
        head = self._log.head_at(entry[_SEGMENT], entry[_LAST])
        return (
            entry[_AMENDED] <= amended
            and head is not None
            and (head.crc, head.end) == (entry[_CRC], entry[_END])
        )

    def _take(self, amended: Iterable[int]) -> None:
        for each in amended:
            (self._lost if each & 1 else self._late).append(each >> 1)

    def _sum(self, entry: tuple[Any, ...], data: bytes) -> int:
        return xxhash.xxh3_64_intdigest(_PLACE.pack(*entry[:_SUM], 0) + data[-_BITS // 8 :], seed=self._seed)

    # -- adding

    @property
    def end(self) -> int:
        """The position up to which the filters cover the log."""
        return self.end_of(len(self._entries))

    def end_of(self, count: int) -> int:
        """The position after so many entries."""
        return int(self._entries[count - 1][_END]) if count else 0

    def catch_up(self, most: int) -> int:
        """Read at most about so many new records; returns how many were read."""
        with self._adding:
            read = 0
            part = self._part
            if part is not None and self._log.head_at(part.segment, part.last.offset) != part.last.head:
                part = None  # it was not durable
            for segment, at, rows in self._log.located(part.last.head.end if part is not None else self.end):
                if part is not None and part.segment != segment:
                    self._close(part)
                    part = None
                part = part or _Part(segment, at, at)
                for position, row in enumerate(rows, at.head.first):
                    part.terms.update(map(self._hash, terms_of(decoded(position, row))))
                part.amended += _amended(at.head, rows)
                part.last, read = at, read + len(rows)
                if len(part.terms) >= TERMS:
                    self._close(part)
                    part = None
                if read >= most:
                    break
            self._part = part
            return read

    def _hash(self, term: bytes) -> int:
        return xxhash.xxh3_64_intdigest(term, seed=self._seed)

    def _close(self, part: _Part) -> None:
        """Write the entry of some blocks."""
        import numpy as np

        hashes = np.fromiter(part.terms, dtype="<u8", count=len(part.terms))
        bits = np.zeros(_BITS, dtype=np.bool_)
        for shift in _SHIFTS:
            bits[(hashes >> np.uint64(shift)) & np.uint64(_BITS - 1)] = True
        packed = np.packbits(bits, bitorder="little").tobytes()
        first, last = part.first, part.last
        so_far = (self._entries[-1][_AMENDED] if self._entries else 0) + len(part.amended)
        place = (first.head.first, last.head.end, part.segment, first.offset, last.end - first.offset)
        unsigned = (*place, last.offset, last.head.crc, so_far, 0)
        entry = (*unsigned[:_SUM], self._sum(unsigned, packed))
        with self._amends.open("ab") as file:
            file.write(array("q", part.amended).tobytes())
        with self._path.open("ab") as file:
            file.write(_PLACE.pack(*entry) + packed)
        with self._lock:
            self._take(part.amended)
            self._entries.append(entry)

    # -- asking

    def stretch(self) -> Stretch:
        """The log as it is now, for one question."""
        with self._lock:
            return _Indexed(
                self._log, self, len(self._entries), array("q", self._lost), array("q", self._late)
            )

    def may_hold(self, terms: Sequence[bytes], count: int) -> Iterator[tuple[Head, list[memoryview]]]:
        """The blocks of the first `count` entries that may hold one of some terms."""
        import numpy as np

        table = np.memmap(self._path, dtype=np.uint8, mode="r", shape=(count, _ENTRY))[:, _PLACE.size :]
        found = np.zeros(count, dtype=np.bool_)
        for hashed in map(self._hash, terms):
            holds = np.ones(count, dtype=np.bool_)
            for shift in _SHIFTS:
                bit = hashed >> shift & _BITS - 1
                holds &= (table[:, bit >> 3] >> (bit & 7) & 1).astype(np.bool_)
            found |= holds
        for number in np.flatnonzero(found).tolist():
            entry = self._entries[number]
            yield from self._log.run(entry[_SEGMENT], entry[_OFFSET], entry[_SIZE])


class _Indexed(Stretch):
    """A whole log, of which the beginning has filters. The rest is short, and read once."""

    def __init__(
        self, log: LogReader, known: Mentions, count: int, lost: array[int], late: array[int]
    ) -> None:
        super().__init__(log)
        self._known = known
        self._count = count
        self._lost, self._late = lost, late
        self._from = known.end_of(count)

    @cached_property
    def _tail(self) -> list[tuple[Head, list[memoryview]]]:
        return list(self._log.blocks(self._from))

    def _may_hold(self, terms: Sequence[bytes], end: int | None) -> Iterator[tuple[Head, list[memoryview]]]:
        if self._count:
            yield from self._known.may_hold(terms, self._count)
        yield from self._tail

    def _look(self) -> None:
        if self._looked:
            return
        amended = [each for head, rows in self._tail for each in _amended(head, rows)]
        self._lost.extend(each >> 1 for each in amended if each & 1)
        self._late.extend(each >> 1 for each in amended if not each & 1)
        self._lost, self._late = array("q", sorted(self._lost)), array("q", sorted(self._late))
        self._end = self._tail[-1][0].end if self._tail else self._from
        self._looked = True
