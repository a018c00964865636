"""A pass over a log: its committed records, read in slices of a bounded size by a thread.

    reading = LogPass(files, start)
    rows = reading.take(stop)       in a thread: the next encoded records before `stop`, a bounded number of them
    reading.position                where the next slice begins

The caller keeps its place as a position: a pass that is interrupted is continued by a new `LogPass` from there.
`stop` is at most the log's committed end; appends and commits may go on meanwhile, since a segment is only ever
appended to. Segments must not be removed until `take` has returned.

Every record from `start` on comes out, in order. A missing record (outside of any gap) is a `StorageError`:
skipping it would lose its links silently. One `take` at a time.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.log import blocks
from lycosa.log.reader import BlockAt, decoded, gaps, over_gaps, segment_name, segments, walk
from lycosa.records import Record

RECORDS = 400
NBYTES = 1 << 20
"""A slice has at most `RECORDS` records, and ends with the one that reaches this many bytes."""


class LogPass:
    """The records of a log from a position on, in slices."""

    def __init__(self, files: Files, start: int = 0) -> None:
        self._files = files
        self._next = start
        self._segment = -1
        self._after: BlockAt | None = None
        self._blocks: Iterator[tuple[BlockAt, bytes]] = iter(())
        self._rows: list[memoryview] = []  # of the block that is being read
        self._first = start  # the position of the first of them

    @property
    def position(self) -> int:
        """The position of the next record."""
        return self._next

    def take(self, stop: int, records: int = RECORDS, nbytes: int = NBYTES) -> list[tuple[int, memoryview]]:
        """The next records before `stop`, encoded; empty only if the pass has reached `stop`."""
        taken: list[tuple[int, memoryview]] = []
        size = 0
        while self._next < stop and len(taken) < records and size < nbytes:
            at = self._next - self._first
            if 0 <= at < len(self._rows):
                row = self._rows[at]
                taken.append((self._next, row))
                size += len(row)
                self._next += 1
            elif at < 0:
                self._over_gap(min(self._first, stop))
            elif not self._open():
                self._over_gap(stop)
        return taken

    def take_records(self, stop: int, records: int = RECORDS) -> list[tuple[int, Record]]:
        """The same, decoded."""
        return [(position, decoded(position, row)) for position, row in self.take(stop, records)]

    def _open(self) -> bool:
        """Go on to the next block; False if there is none."""
        found = next(self._blocks, None)
        if found is None:  # all blocks seen at the last look are read: look again
            self._blocks = self._walk()
            found = next(self._blocks, None)
        if found is None:
            return False
        at, body = found
        rows = blocks.unpack(body, at.head)
        if rows is None:
            name = self._files.path(segment_name(self._segment))
            raise StorageError(f"log segment {name} is damaged at byte {at.offset}: restore it from a copy")
        self._rows, self._first = rows, at.head.first
        return True

    def _over_gap(self, to: int) -> None:
        """Skip to a position before which there are no more records: a gap must cover them."""
        known = gaps(self._files)
        end = next((gap.end for gap in known.values() if gap.first <= self._next < gap.end), self._next)
        end = over_gaps(end, known)
        if end < to:
            raise StorageError(
                f"the log in {self._files.path('')} has no record at position {end}: restore its segments from a"
                f" copy, or see what lycosa repair can do; nothing was changed"
            )
        self._next = to

    def _walk(self) -> Iterator[tuple[BlockAt, bytes]]:
        firsts = segments(self._files)
        for first in firsts[max(bisect.bisect_right(firsts, self._next) - 1, 0) :]:
            after = self._after if first == self._segment else None
            for at, body in walk(self._files, first, self._next, after):
                self._segment, self._after = first, at
                yield at, body
