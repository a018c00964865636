"""The contract of a frontier: which URL next, from which host, and not before when.

Two levels, as in Mercator (Manning et al. §20.2.3) and in Castillo's thesis (ch. 6): hosts in a heap of
earliest times, the URLs of a host in FIFO queues by level. A *visit* is one stay at a host:

    host = frontier.begin(now)      the host leaves the heap; nobody else can visit it
    waiting = frontier.take(host)   the next URL; it is now in flight
    frontier.done(waiting.key)      ... and gone, or
    frontier.put_back(waiting)      ... and first in its queue again
    frontier.end(host, ready)       the visit is over; the host may be asked again from `ready` on

Guarantees:

- a URL that was put comes out of `take` exactly once, unless it was withdrawn;
- between `begin` and `end` a host is nobody else's, and never begins before its `ready` time;
- within a host, lower levels first, then in the order they were put;
- URLs in flight count as pending, and a snapshot holds them as if they had never been taken: what a crash
  interrupts is taken again.

All times are of the monotonic clock; a snapshot keeps *waits from now*, and `thaw` starts them anew, so
that politeness survives a restart. Politeness itself (how long to wait) is decided by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lycosa.records import Waiting
from lycosa.state import Durable


class Frontier(Durable, Protocol):
    """A frontier; the module's docstring is its contract."""

    def put(self, items: Sequence[Waiting], levels: Sequence[int]) -> None:
        """Add URLs, each at its level (0 first). The host is the URL's own."""
        ...

    def begin(self, now: float) -> str | None:
        """A host that has URLs and is ready at `now`, best first by the order; None if there is none."""
        ...

    def claim(self, host: str, now: float) -> bool:
        """Begin this very host, with or without URLs; False if it is begun already or not ready.

        For a request that another host's visit must make (a robots.txt that redirects there).
        """
        ...

    def take(self, host: str) -> Waiting | None:
        """The next URL of a host that has begun; None if it has no more."""
        ...

    def done(self, key: int) -> None:
        """A taken URL has its record in the log (Fetched, Skipped or Deferred)."""
        ...

    def put_back(self, waiting: Waiting) -> None:
        """A taken URL was not asked for after all: it is first in its queue again."""
        ...

    def end(self, host: str, ready: float) -> None:
        """The visit is over; the host is not to begin before `ready`."""
        ...

    def hold(self, host: str, ready: float) -> None:
        """Do not begin the host before `ready`, whether or not it is there or begun (never earlier)."""
        ...

    def hold_all(self, ready: float) -> None:
        """Begin no host at all before `ready`: after an unclean stop nobody knows who was asked last."""
        ...

    def withdraw(self, url: str, key: int) -> None:
        """Replay found this URL done: if it is pending it never comes out. May be settled lazily."""
        ...

    def settle_withdrawn(self) -> None:
        """The end of replay: forget withdrawals of URLs that are not here."""
        ...

    def next_ready(self) -> float | None:
        """The earliest time at which `begin` will give a host, as things stand; None if never."""
        ...

    @property
    def pending(self) -> int:
        """URLs in the frontier, those in flight included."""
        ...

    @property
    def in_flight(self) -> int: ...

    @property
    def hosts(self) -> int:
        """Hosts with pending URLs."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of RAM held, overheads included."""
        ...
