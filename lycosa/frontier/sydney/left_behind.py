"""Left behind: records of the log some of whose links have not been offered yet (Sydney's secondary queue).

An entry is (position, cursor): the record at that position of the shard's log, and how many of its links, in
their fixed pseudo-random order, have been offered. Entries wait in FIFO queues by number: `OTHERS` for links to
several hosts, and one queue per host (named by the 64-bit hash of the host, never 0) for links to that host.

Seed 000, §3, empties its secondary queue into the primary one when that runs out, and suggests sequential files for
large crawls. Here each host's entries have a queue of their own, because links stay mostly on their own host: the
crawl can come back to the entries of a host whose visits run out of URLs, without reading past those of hosts
that have enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from lycosa.state import Filed

OTHERS = 0


class Entry(NamedTuple):
    """A record to come back to. The position is below 2**63, the cursor below 2**32."""

    position: int
    cursor: int


class LeftBehind(Filed, Protocol):
    """FIFO queues of entries, by number.

    Guarantees: what was pushed comes out of `pop` of its queue exactly once, oldest first; a snapshot holds
    what was there at its freeze; RAM held is bounded by the number of queues, not of entries. Thawing no pieces
    at all gives an empty store: an older snapshot has none.
    """

    def push(self, queue: int, entry: Entry) -> None: ...

    def pop(self, queue: int) -> Entry | None:
        """The oldest entry of a queue; None if it has none."""
        ...

    def count(self, queue: int) -> int:
        """Entries in a queue."""
        ...

    def next_queue(self) -> int | None:
        """The next host queue with entries, round robin; None if there is none.

        A round names each queue that has had entries ever since the round began, once, in any order, and no
        other: one that became empty and was pushed to again waits for the next round.
        """
        ...

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """Every entry with its queue: for tests and for `explain`. The store must not change meanwhile."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...

    def __len__(self) -> int:
        """Entries in all queues."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of RAM held."""
        ...
