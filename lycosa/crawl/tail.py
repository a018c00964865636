"""The tail of a crawl's logs: what was committed since last asked, for `log --follow`.

`LogReader.scan` finds a position from the start of its segment; asked twice a second on many shards that
would read every segment again. A tail remembers the last block it read, and reads only what follows it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.log import blocks
from lycosa.log.reader import BlockAt, segments, walk
from lycosa.records import Record, decode


class Tail:
    """The records of one shard's log from a position on, as they come."""

    def __init__(self, files: Files, start: int = 0) -> None:
        self._files = files
        self._next = start
        self._segment = -1
        self._after: BlockAt | None = None

    @property
    def position(self) -> int:
        """The position of the next record."""
        return self._next

    def more(self) -> Iterator[tuple[int, Record]]:
        """What has been committed since; each record once."""
        firsts = segments(self._files)
        for first in firsts[max(bisect.bisect_right(firsts, self._next) - 1, 0) :]:
            if first != self._segment:
                self._segment, self._after = first, None
            for at, body in walk(self._files, first, self._next, self._after):
                rows = blocks.unpack(body, at.head)
                if rows is None:
                    raise StorageError(f"the log is damaged at position {at.head.first}")
                for position, row in enumerate(rows, at.head.first):
                    if position >= self._next:
                        self._next = position + 1
                        yield position, decode(row)
                self._after = at  # not before: whoever stops in the middle of a block comes back to it
