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
- between `begin` and `end` a host is given to nobody else, and a visit never begins before the host's `ready` time;
- within a host, lower levels first (or at random, if the order is biased), then in the order they were put;
- URLs in flight count as pending, and a snapshot holds them as if they had never been taken: what a crash
  interrupts is taken again.

Hosts in play. Of all hosts with URLs only some are *in play*: as many as there are back queues (Manning et al.
§20.2.3), each with one; a host whose visit is under way is one of them. The others wait *in front*, best first
by (class, rank, place). `begin(now)`

1. finds the hosts *ready* whose time has come by `now`, in play and in front;
2. brings ready hosts from the front into play while there are back queues left (one that has to wait would only
   keep a back queue idle);
3. if none in play is ready, brings the best from the front into play beyond the number of back queues: visits
   are never idle while a host could be asked (the short-term scheduling of Castillo, §6.4);
4. gives the best of the ready in play by (class, rank, ready time, place).

A host leaves play when it has no more URLs, or at the end of a visit: when a ready host in front is better by
(class, rank), or when there are more hosts in play than back queues. The *class* of a host is 0 unless `demote`
said otherwise: how many budgets it has used up. The *place* is a number that grows, given when a host starts
to wait.

Time never runs back: of two times given to `begin` or `claim` the later one holds.

All times are of the monotonic clock; a snapshot keeps *waits from now*, and `thaw` starts them anew, so
that politeness survives a restart. Politeness itself (how long to wait) is decided by the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lycosa.records import Waiting
from lycosa.state import Durable

STEP = 1_000
"""URLs that a step of `relevel` moves, about."""


class Levels(NamedTuple):
    """New levels of URLs, by key."""

    keys: NDArray[np.uint64]  # ascending
    levels: NDArray[np.uint8]
    other: int  # the level of URLs whose key is not there; -1: the one they have
    by_host: bool = False
    """Keys are of hosts: the top 16 and the low 32 bits of the host's hash. All URLs of a host get its level."""


class HostLine(NamedTuple):
    """A host as it is shown to people."""

    host: str
    queued: int
    ready: float
    begun: bool
    tier: int


class Frontier(Durable, Protocol):
    """A frontier; the module's docstring is its contract."""

    def put(self, items: Sequence[Waiting], levels: Sequence[int]) -> None:
        """Add URLs, each at its level (0 first). The host is the URL's own."""
        ...

    def begin(self, now: float) -> str | None:
        """A host that has URLs and is ready at `now`, best first by the order; None if there is none."""
        ...

    def claim(self, host: str, now: float) -> bool:
        """Begin a visit of this host, with or without URLs; False if it is begun already or not ready.

        For a request that another host's visit must make (a robots.txt that redirects there).
        """
        ...

    def take(self, host: str) -> Waiting | None:
        """The next URL of a host that has begun; None if it has no more."""
        ...

    def done(self, key: int) -> None:
        """Remove a taken URL: its record is in the log (Fetched, Skipped or Deferred)."""
        ...

    def put_back(self, waiting: Waiting) -> None:
        """Put a taken URL that was not asked for first in its queue again."""
        ...

    def end(self, host: str, ready: float) -> None:
        """End the visit; the next one does not begin before `ready`."""
        ...

    def hold(self, host: str, ready: float) -> None:
        """Do not begin the host before `ready`, whether or not it is there or begun (never earlier)."""
        ...

    def hold_all(self, ready: float) -> None:
        """Begin no host at all before `ready`: after an unclean stop nobody knows who was asked last."""
        ...

    def withdraw(self, url: str, key: int) -> None:
        """Drop a URL that replay found done: if it is pending it never comes out. May be settled lazily."""
        ...

    def settle_withdrawn(self) -> None:
        """End the replay: forget withdrawals of URLs that are not here."""
        ...

    def queued(self, host: str) -> int:
        """URLs of a host in its queues, those put back included, those in flight not; 0 if it is not known."""
        ...

    def longest(self, most: int) -> list[HostLine]:
        """The hosts with the most URLs in their queues, those put back included; for people to look at."""
        ...

    def demote(self, host: str, to: int) -> bool:
        """Give a host its class, 0 (best) to 255; no effect if the host is not known. Forgotten with the host: when
        it has no URLs, no visit and no wait. True if the class is higher than it was."""
        ...

    def relevel(self, levels: Levels) -> Iterator[int]:
        """Give every pending URL a new level. Each step moves some 1,000 URLs and yields how many; other calls
        may come between steps (but not `freeze` or a second `relevel`; nor may a relevelling begin while
        a freeze is under way). Within a level, URLs that were in it before keep their order. URLs that are put
        before their host's turn get new levels with the others. A relevelling that is dropped half way
        leaves every URL pending."""
        ...

    def next_ready(self) -> float | None:
        """The earliest time at which `begin` will give a host, as things stand; None if never. If that is now,
        it may be any time up to now."""
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

    @property
    def used(self) -> int:
        """Of these, the bytes in use, without what is free for further URLs. Cheap to call."""
        ...
