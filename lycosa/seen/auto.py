"""`auto`, the default store: `memory` while it fits, then `veuniq`, without stopping the crawl.

    MEMORY   everything is in the table, answered at once, until the table has 5/8 of the memory
    MOVING   the table is only read; keys that it does not know wait in `veuniq`. The table's keys are cut
             into ranges of about equal number, which move one by one into sorted repositories
    DISK     the table is gone, and `veuniq` has all of the memory

The ranges are determined at the beginning of the move, by the quantiles of one page of the table (a fair
sample: pages are by mixed key), and `veuniq` starts with those ranges, so that waiting keys are in the
right range from the beginning. Moving a range is a merge like any other (plan, run in a thread, apply)
which answers nothing: a pass over the table, a sort, and one file. No merge of `veuniq` runs before
all ranges have moved.

Moved keys have the state uncrawled, as the table does not hold states; a mark after the move began
sets it.

A snapshot holds the state, which ranges have moved, and the pieces of the stores that are in use:

    head   msgpack [state, moved, number of pieces of `memory`]
    pieces of `memory`, pieces of `veuniq`
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.errors import LocalError
from lycosa.files import Files
from lycosa.lifetimes import FileSet
from lycosa.seen import repository
from lycosa.seen.memory import MemorySeen, Table
from lycosa.seen.protocol import Answer, Keys, Merge
from lycosa.seen.repository import Builder, Repository
from lycosa.seen.veuniq import DEFAULT_SPLIT, VeuniqSeen

MEMORY, MOVING, DISK = "memory", "moving", "disk"
_LARGEST = (1 << 64) - 1


class Move:
    """One range of the table, to be written as a repository."""

    def __init__(self, files: Files, table: Table, index: int, low: int, high: int, name: str) -> None:
        self._files, self._table = files, table
        self._low, self._high, self._name = low, high, name
        self.index = index
        self.made: Repository | None = None

    def run(self) -> None:
        keys = self._table.collect(self._low, self._high)
        if not len(keys):
            return
        builder = Builder(self._files, self._name)
        try:
            for at in range(0, len(keys), repository.BLOCK_KEYS):
                part = keys[at : at + repository.BLOCK_KEYS]
                builder.add(part, np.zeros(len(part), np.uint8))
            self.made = builder.finish()
        finally:
            builder.abandon()


class AutoSeen:
    """The store `auto`."""

    def __init__(self, files: Files, *, memory: int = 512 << 20, split: int = DEFAULT_SPLIT) -> None:
        self._files = files
        self._memory_limit = memory
        self._split = split
        self.state = MEMORY
        self._held = FileSet(files)
        self._memory: MemorySeen | None = MemorySeen(files, held=self._held)
        self._disk: VeuniqSeen | None = None
        self._moved: set[int] = set()
        self._lows: list[int] = []
        self._move: Move | None = None

    # -- the contract

    def certain(self, keys: Keys) -> NDArray[np.bool_]:
        if self._disk is None:
            return self._table_store().certain(keys)
        known = self._disk.certain(keys)
        if self._memory is not None:
            known |= self._memory.certain(keys)
        return known

    def offer(self, keys: Keys, payloads: Sequence[bytes]) -> Answer:
        if self._disk is None:
            memory = self._table_store()
            answer = memory.offer(keys, payloads)
            if memory.nbytes > self._memory_limit // 8 * 5:
                self._begin_move()
            return answer
        if self._memory is None:
            return self._disk.offer(keys, payloads)
        unknown = np.flatnonzero(~self._memory.certain(keys))
        answer = self._disk.offer(keys[unknown], [payloads[i] for i in unknown.tolist()])
        return Answer(unknown[answer.new], unknown[answer.waiting])

    def mark(self, keys: Keys) -> None:
        if self._disk is None:
            self._table_store().mark(keys)
            if self._table_store().nbytes > self._memory_limit // 8 * 5:
                self._begin_move()
        else:
            self._disk.mark(keys)

    def merge(self) -> list[tuple[int, bytes]]:
        while True:
            planned = self.plan()
            if planned is None:
                return []
            moving = isinstance(planned, Move)
            try:
                planned.run()
            except BaseException:
                self.abandon(planned)
                raise
            new = self.apply(planned)
            if not moving or not self.waiting:
                return new

    @property
    def waiting(self) -> int:
        return self._disk.waiting if self._disk is not None else 0

    def __len__(self) -> int:
        if self._memory is not None:
            return len(self._memory)
        return len(self._disk) if self._disk is not None else 0

    @property
    def nbytes(self) -> int:
        stores = (self._memory, self._disk)
        return sum(store.nbytes for store in stores if store is not None)

    # -- merging

    @property
    def due(self) -> bool:
        if self.state == MOVING:
            return True
        return self._disk is not None and self._disk.due

    def plan(self) -> Merge | None:
        if self._disk is None:
            return None
        if self._memory is None:
            return self._disk.plan()
        if self._move is not None:
            raise LocalError("a merge of this store is under way: apply or abandon it first")
        index = next(i for i in range(len(self._lows)) if i not in self._moved)
        high = self._lows[index + 1] - 1 if index + 1 < len(self._lows) else _LARGEST
        table, name = self._memory.table, self._disk.new_name()
        self._move = Move(self._files, table, index, self._lows[index], high, name)
        return self._move

    def apply(self, merge: Merge) -> list[tuple[int, bytes]]:
        assert self._disk is not None
        if not isinstance(merge, Move):
            return self._disk.apply(merge)
        if merge is not self._move:
            raise LocalError("this merge was not planned by this store, or has ended")
        self._move = None
        if merge.made is not None:
            self._disk.adopt(merge.index, merge.made)
        self._moved.add(merge.index)
        if len(self._moved) == len(self._lows):
            self._table_store().retire()
            self._memory = None
            self.state = DISK
            self._disk.grant(self._memory_limit)
        return []

    def abandon(self, merge: Merge) -> None:
        if isinstance(merge, Move):
            self._move = None
        elif self._disk is not None:
            self._disk.abandon(merge)

    # -- durability

    def freeze(self) -> Iterator[bytes]:
        memory = list(self._memory.freeze()) if self._memory is not None else []
        disk = self._disk.freeze() if self._disk is not None else iter(())
        if self._memory is None:
            self._held.cut({}, "memory")
        head = msgspec.msgpack.encode((self.state, sorted(self._moved), self._lows, len(memory)))
        return itertools.chain((head, *memory), disk)

    def files(self) -> list[str]:
        return self._held.names()

    def settle(self) -> None:
        self._held.settle()

    def keep(self, named: Collection[str]) -> list[str]:
        return self._held.keep(named)

    def thaw(self, pieces: Iterable[bytes]) -> None:
        rows = iter(pieces)
        self.state, moved, self._lows, count = msgspec.msgpack.decode(
            next(rows), type=tuple[str, list[int], list[int], int]
        )
        self._moved = set(moved)
        memory = list(itertools.islice(rows, count))
        if memory:
            self._table_store().thaw(memory)
        else:
            self._memory = None
        if self.state != MEMORY:
            share = self._memory_limit if self._memory is None else self._memory_limit // 4
            self._disk = VeuniqSeen(
                self._files, memory=share, split=self._split, lows=self._lows, held=self._held
            )
            self._disk.thaw(rows)

    def close(self) -> None:
        for store in (self._memory, self._disk):
            if store is not None:
                store.close()

    # -- inside

    def _table_store(self) -> MemorySeen:
        assert self._memory is not None
        return self._memory

    def _begin_move(self) -> None:
        """Cut the keys into ranges that one move's share of the memory can sort."""
        table = self._table_store().table
        share = min(max(self._memory_limit // 8 // 24, 1024), self._split)
        ranges = max(1, -(-len(table) // share))
        sample = table.collect(0, _LARGEST, pages=1 if len(table) > 1 << 20 else 64)
        cuts = sample[np.arange(1, ranges) * len(sample) // ranges] if len(sample) else sample
        self._lows = sorted({0, *cuts.tolist()})
        self._disk = VeuniqSeen(
            self._files, memory=self._memory_limit // 4, split=self._split, lows=self._lows, held=self._held
        )
        self._moved = set()
        self.state = MOVING
