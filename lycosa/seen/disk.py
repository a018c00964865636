"""The common part of the stores on disk: waiting buckets, repositories of sorted keys, one merge
at a time.

Keys are cut into contiguous ranges, since they sort by server: a *bucket* gathers offers, marks and
checks for the keys of a range, and a *shelf* is a repository with the buckets that are merged into it.
The stores differ only in their shelves, and in when and what they merge:

    mercator   one shelf of one bucket
    drum       k shelves of one bucket each, merged one after the other in one pass
    veuniq     N shelves of one bucket each, one merged at a time

Offered keys go through the recent keys (see `recent`), which drop those certainly known or waiting,
into the buffer of their bucket, and from there to the bucket's waiting file (see `waiting`). Marks go
the same way. Nothing is answered before a merge (see `merging`).

Memory is limited to `memory`: half for recent keys, an eighth for buffers (16 MiB at most), a
quarter for a merge. Records of a bucket beyond one merge's share stay in its files for later merges.

Durability. Files are written once under names that only grow, and are named by the snapshot:

    head    msgpack [next number, shelves]; a shelf is [repository or nil, buckets], a bucket is
            [lowest key, waiting files, whether a buffer follows]
    buffer  one piece for each bucket that has one: a block of a waiting file

A file that a merge made superfluous is removed by the next merge, unless a snapshot needs it (`lycosa.lifetimes`).
After `thaw` no older file is appended to.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.errors import LocalError
from lycosa.files import Files
from lycosa.lifetimes import FileSet
from lycosa.seen import merge_kernels as kernels
from lycosa.seen import waiting
from lycosa.seen.merging import RECORD_BYTES, MergeRun
from lycosa.seen.protocol import Answer, Keys, Merge
from lycosa.seen.recent import RecentKeys
from lycosa.seen.repository import Repository
from lycosa.seen.waiting import KIND_SHIFT, Buffer, Source

_PREFIXES = ("repo-", "wait-")
_STORE = "disk"
"""What its cuts are called in a set of files that it shares."""
_NONE: NDArray[np.intp] = np.empty(0, np.intp)
_SMALLEST_BLOCK = 1 << 12
_LARGEST_BLOCK = 1 << 18
_AT_ONCE = 1 << 15


class Bucket:
    """The waiting records for the keys from `low` up to the next bucket's."""

    __slots__ = ("buffer", "held", "low", "open", "sources")

    def __init__(self, low: int) -> None:
        self.low = low
        self.buffer = Buffer()
        self.sources: list[Source] = []
        self.open = False  # may the last source be appended to?
        self.held = False  # is a merge under way that may split this bucket?

    @property
    def asked(self) -> int:
        return sum(source.asked for source in self.sources) + self.buffer.asked

    @property
    def records(self) -> int:
        return sum(source.records for source in self.sources) + len(self.buffer.keys)


class Shelf:
    """A repository and its buckets, ascending."""

    __slots__ = ("buckets", "repository")

    def __init__(self, repository: Repository | None, buckets: list[Bucket]) -> None:
        self.repository = repository
        self.buckets = buckets


class Planned(MergeRun):
    """A merge that knows the shelf it is for."""

    shelf: Shelf


class DiskSeen(ABC):
    """The common part; a store derives from it and decides what to merge next."""

    def __init__(
        self,
        files: Files,
        lows: Sequence[Sequence[int]],
        memory: int,
        split: int = 0,
        held: FileSet | None = None,
    ) -> None:
        """`held`: the set of files of a store that this one is a part of."""
        self._files = files
        self._memory = memory
        self._split = split
        self._recent = RecentKeys(memory // 2)
        self.batch = max(memory // 4 // RECORD_BYTES, 1024)
        """Records that one merge takes from a bucket at most."""
        self._shelves = [Shelf(None, [Bucket(low) for low in row]) for row in lows]
        self._asked = 0
        self._buffered = 0
        self._garbage: list[str] = []
        self._held = FileSet(files) if held is None else held
        self._planned: Planned | None = None
        self.bytes_read = 0
        self.bytes_written = 0
        self._number(0)
        self._lay_out()

    # -- the contract

    def certain(self, keys: Keys) -> NDArray[np.bool_]:
        return self._recent.certain(keys)

    def offer(self, keys: Keys, payloads: Sequence[bytes]) -> Answer:
        fresh = self._recent.add(keys)
        if not len(fresh):
            return Answer(_NONE, _NONE)
        fresh = fresh.copy()
        self._ask(kernels.OFFER, keys, fresh, payloads)
        return Answer(_NONE, fresh)

    def mark(self, keys: Keys) -> None:
        self._recent.add(keys)
        for bucket, part in self._route(keys, np.arange(len(keys), dtype=np.intp)):
            before = bucket.buffer.nbytes
            bucket.buffer.mark(kernels.MARK, keys[part].tolist())
            self._grown(bucket, before)

    def merge(self) -> list[tuple[int, bytes]]:
        planned = self.plan()
        if planned is None:
            return []
        try:
            planned.run()
        except BaseException:
            self.abandon(planned)
            raise
        return self.apply(planned)

    @property
    def waiting(self) -> int:
        return self._asked

    def __len__(self) -> int:
        return sum(shelf.repository.keys for shelf in self._shelves if shelf.repository)

    @property
    def crawled(self) -> int:
        """How many keys are known to be marked, of those merged."""
        return sum(shelf.repository.crawled for shelf in self._shelves if shelf.repository)

    @property
    def nbytes(self) -> int:
        return self._recent.nbytes + self._buffered + 1000 * len(self._buckets)

    @property
    def disk(self) -> int:
        """Bytes of the repositories."""
        return sum(shelf.repository.size for shelf in self._shelves if shelf.repository)

    @property
    def shelves(self) -> int:
        return len(self._shelves)

    def grant(self, memory: int) -> None:
        """Change the memory that the store may use."""
        self._memory = memory
        self._recent.limit(memory // 2)
        self.batch = max(memory // 4 // RECORD_BYTES, 1024)
        self._lay_out()

    # -- merging

    @property
    @abstractmethod
    def due(self) -> bool: ...

    @abstractmethod
    def _next(self) -> Shelf | None:
        """The shelf to merge next; None if nothing waits anywhere."""

    def plan(self) -> Planned | None:
        if self._planned is not None:
            raise LocalError("a merge of this store is under way: apply or abandon it first")
        shelf = self._next()
        if shelf is None:
            return None
        taken, everything = [], True
        for bucket in shelf.buckets:
            self._flush(bucket)
            bucket.open = False
            count, records = 0, 0
            for source in bucket.sources:
                if count and records + source.records > self.batch:
                    everything = False
                    break
                count, records = count + 1, records + source.records
            taken.append(bucket.sources[:count])
        split = self._split if everything and len(shelf.buckets) == 1 else 0
        garbage, self._garbage = self._garbage, []
        planned = Planned(
            self._files,
            shelf.repository,
            taken,
            self.new_name,
            split=split,
            garbage=garbage,
        )
        planned.shelf = shelf
        if split:
            shelf.buckets[0].held = True
        self._planned = planned
        return planned

    def apply(self, merge: Merge) -> list[tuple[int, bytes]]:
        planned = self._end(merge)
        shelf = planned.shelf
        for bucket, sources in zip(shelf.buckets, planned.buckets, strict=True):
            del bucket.sources[: len(sources)]
            for source in sources:
                self._asked -= source.asked
                self._discard(source.name)
        if planned.old is not None:
            self._discard(planned.old.name)
        for _, part in planned.parts:
            self._held.use(part.name)
        self.bytes_read += planned.bytes_read
        self.bytes_written += planned.bytes_written
        if len(planned.parts) == 1:
            shelf.repository = planned.parts[0][1]
        elif planned.parts:
            self._replace(shelf, planned.parts)
        for bucket in shelf.buckets:
            bucket.held = False
        return planned.new

    def abandon(self, merge: Merge) -> None:
        planned = self._end(merge)
        self._garbage += [part.name for _, part in planned.parts]
        for bucket in planned.shelf.buckets:
            bucket.held = False

    def _end(self, merge: Merge) -> Planned:
        planned = self._planned
        if planned is None or merge is not planned:
            raise LocalError("this merge was not planned by this store, or has ended")
        self._planned = None
        return planned

    def _replace(self, shelf: Shelf, parts: list[tuple[int, Repository]]) -> None:
        """Replace a shelf that was split by its parts, and divide what its buffer has gathered meanwhile."""
        old = shelf.buckets[0]
        lows = [old.low, *(low for low, _ in parts[1:])]
        shelves = [Shelf(part, [Bucket(low)]) for low, (_, part) in zip(lows, parts, strict=True)]
        at = self._shelves.index(shelf)
        self._shelves[at : at + 1] = shelves
        self._lay_out()
        buffer = old.buffer
        payloads = iter(buffer.payloads)
        for key, what in zip(buffer.keys, buffer.whats, strict=True):
            self._give(key, what, payloads)
        self._buffered = sum(bucket.buffer.nbytes for bucket in self._buckets)

    def _give(self, key: int, what: int, payloads: Iterator[bytes]) -> None:
        """Put one record of another buffer into the buffer of its bucket."""
        index = int(np.searchsorted(self._lows, np.uint64(key), side="right")) - 1
        buffer = self._buckets[index].buffer
        kind = what >> KIND_SHIFT
        if kind == kernels.MARK:
            buffer.mark(kind, [key])
        else:
            buffer.ask(kind, [key], [next(payloads)])

    def _discard(self, name: str) -> None:
        if self._held.retire(name):
            self._garbage.append(name)  # removed in the thread of the next merge

    # -- durability

    def freeze(self) -> Iterator[bytes]:
        shelves, buffers = [], []
        sizes: dict[str, int] = {}
        for shelf in self._shelves:
            buckets = []
            for bucket in shelf.buckets:
                buckets.append((bucket.low, list(bucket.sources), bool(bucket.buffer.keys)))
                sizes.update((source.name, source.length) for source in bucket.sources)
                if bucket.buffer.keys:
                    buffers.append(bucket.buffer.encode())
            shelves.append((shelf.repository, buckets))
            if shelf.repository is not None:
                sizes[shelf.repository.name] = 0  # its builder has synced it
        self._held.cut(sizes, _STORE)
        number = next(self._numbers)  # skipped, not peeked at: a merge may be taking names in its thread
        return iter((msgspec.msgpack.encode((number, shelves)), *buffers))

    def files(self) -> list[str]:
        return self._held.names()

    def settle(self) -> None:
        self._held.settle()

    def keep(self, named: Collection[str]) -> list[str]:
        return self._held.keep(named)

    def thaw(self, pieces: Iterable[bytes]) -> None:
        rows = iter(pieces)
        number, shelves = msgspec.msgpack.decode(
            next(rows),
            type=tuple[int, list[tuple[Repository | None, list[tuple[int, list[Source], bool]]]]],
        )
        self._shelves = []
        sizes: dict[str, int] = {}
        for repository, buckets in shelves:
            shelf = Shelf(repository, [])
            self._shelves.append(shelf)
            if repository is not None:
                sizes[repository.name] = 0
            for low, sources, buffered in buckets:
                bucket = Bucket(low)
                bucket.sources = sources
                sizes.update((source.name, source.length) for source in sources)
                if buffered:
                    keys, whats, payloads = waiting.parse(next(rows), "in the snapshot")
                    buffer = bucket.buffer
                    buffer.keys, buffer.whats, buffer.payloads = keys, whats, payloads
                    buffer.asked = sum(what >> KIND_SHIFT != kernels.MARK for what in whats)
                    buffer.nbytes = 150 * len(keys) + sum(map(len, payloads))
                shelf.buckets.append(bucket)
        self._held.thawed(sizes, _STORE)
        self._number(number)
        self._lay_out()
        self._buffered = sum(bucket.buffer.nbytes for bucket in self._buckets)
        self._asked = sum(bucket.asked for bucket in self._buckets)

    def close(self) -> None:
        """Remove files that no snapshot needs. The store holds no file open between calls."""
        for name in self._garbage:
            self._files.remove(name)
        self._garbage = []

    def adopt(self, index: int, repository: Repository) -> None:
        """Take over a sorted file of known keys as the repository of a range that has none yet."""
        if self._shelves[index].repository is not None:
            raise LocalError(f"the range {index} has a repository already")
        self._shelves[index].repository = repository
        self._held.use(repository.name)

    def new_name(self) -> str:
        """A name for a repository, never used before."""
        return f"repo-{next(self._numbers):08d}"

    # -- inside

    def _number(self, least: int) -> None:
        """Continue numbering names from `least`, and after every existing file."""
        there = [int(n[5:]) for n in self._files.list("") if n[:5] in _PREFIXES and n[5:].isdigit()]
        self._numbers = itertools.count(max([least, *(n + 1 for n in there)]))

    def _lay_out(self) -> None:
        self._buckets = [bucket for shelf in self._shelves for bucket in shelf.buckets]
        self._lows: Keys = np.array([bucket.low for bucket in self._buckets], np.uint64)
        # A freeze encodes all buffers at once, on the event loop: 16 MiB of them are some 75,000 records.
        block = min(self._memory // 8, 16 << 20) // len(self._buckets)
        self._block = min(max(block, _SMALLEST_BLOCK), _LARGEST_BLOCK)

    def _ask(self, kind: int, keys: Keys, indices: NDArray[np.intp], payloads: Sequence[bytes]) -> None:
        for bucket, part in self._route(keys, indices):
            before = bucket.buffer.nbytes
            theirs = [payloads[i] for i in part.tolist()]
            bucket.buffer.ask(kind, keys[part].tolist(), theirs)
            self._grown(bucket, before)
        self._asked += len(indices)

    def _route(self, keys: Keys, indices: NDArray[np.intp]) -> Iterator[tuple[Bucket, NDArray[np.intp]]]:
        """The buckets of some keys, each with its indices in order, some thousands at a time."""
        at_once = min(max(self.batch // 4, 64), _AT_ONCE)
        for at in range(0, len(indices), at_once):
            part = indices[at : at + at_once]
            if len(self._buckets) == 1:
                yield self._buckets[0], part
                continue
            which = np.searchsorted(self._lows, keys[part], side="right") - 1
            if (which == which[0]).all():
                yield self._buckets[which[0]], part
                continue
            order = np.argsort(which, kind="stable")
            which, part = which[order], part[order]
            cuts = [0, *(np.flatnonzero(which[1:] != which[:-1]) + 1).tolist(), len(which)]
            for start, end in itertools.pairwise(cuts):
                yield self._buckets[which[start]], part[start:end]

    def _grown(self, bucket: Bucket, before: int) -> None:
        self._buffered += bucket.buffer.nbytes - before
        full = bucket.buffer.nbytes >= self._block or len(bucket.buffer.keys) >= self.batch // 4
        if full and not bucket.held:
            self._flush(bucket)

    def _flush(self, bucket: Bucket) -> None:
        """Write a bucket's buffer to its waiting file."""
        buffer = bucket.buffer
        if not buffer.keys:
            return
        last = bucket.sources[-1] if bucket.open else None
        if last is None or last.records + len(buffer.keys) > self.batch // 2:
            last = Source(f"wait-{next(self._numbers):08d}", 0, 0, 0)
        out = self._files.append(last.name)
        try:
            if out.size != last.length:  # an earlier write failed half-way: leave that file as it is
                out.close()
                last = Source(f"wait-{next(self._numbers):08d}", 0, 0, 0)
                out = self._files.append(last.name)
            out.write(buffer.encode())
            source = Source(last.name, out.size, last.records + len(buffer.keys), last.asked + buffer.asked)
        finally:
            out.close()
        if last.length:
            bucket.sources[-1] = source
        else:
            bucket.sources.append(source)
        bucket.open = True
        bucket.buffer = Buffer()
        self._buffered -= buffer.nbytes
        self.bytes_written += source.length - last.length
        self._held.use(source.name)
