"""Politeness: how long a host and an address are left alone. Decisions only, no I/O.

Two units are guarded, and they are not the same:

- The **host**: one connection at a time, up to *c* pages over it (a *visit*), then a wait. The frontier sees
  to "one at a time"; `wait_after` says how long the wait is, `pages_per_visit` how many the pages are.
- The **address** it resolved to: one connection at a time, whichever host it is for, and a short wait of its
  own. The host's wait would starve shared hosting, where thousands of hosts have one address.

The wait after a visit is the largest of four:

    wait                            what the operator asks for at least
    Crawl-delay                     what robots.txt asks for, up to `max_crawl_delay`
    Retry-After                     what a 429 or 503 asked for, up to `max_retry_after`
    factor x the last fetch         a slow answer says "I am busy" (Manning et al. §20.2.3: ten times)
                                    up to `max_wait`

A Crawl-delay is a wait between *pages*, so with one a visit has one page. A site that asks for more than
`max_crawl_delay` gets that delay; set it higher to obey in full. `max_wait` bounds only the last rule, lest one
fetch of a minute cause a wait of ten.

Times are seconds of the monotonic clock.
"""

from __future__ import annotations

import heapq
import math

import msgspec


class PolitenessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a crawl treats hosts and addresses. Times in seconds."""

    wait: float = 1.0
    """The least wait between two visits of a host."""
    factor: float = 10.0
    """The wait is at least this many times the last fetch."""
    max_wait: float = 60.0
    """The longest wait that `factor` alone causes."""
    pages_per_visit: int = 8
    """*c*: pages asked over one connection, one after the other, before the wait."""
    max_crawl_delay: float = 300.0
    """The longest Crawl-delay that is obeyed in full; a longer one counts as this long."""
    max_retry_after: float = 86_400.0
    """The longest Retry-After that is obeyed in full."""
    address_wait: float = 0.5
    """The least wait between two connections to an address."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            least = 1 if name == "pages_per_visit" else 0
            if not (value >= least and math.isfinite(value)):
                raise ValueError(f"{name} must be at least {least} and finite, not {value}")


OWN_SITE: dict[str, float] = {"wait": 0.0, "factor": 0.0, "address_wait": 0.0, "pages_per_visit": 1000}
"""What `--own-site` sets: still one connection at a time, and what the site itself asks for is still obeyed."""


def _asked(seconds: float | None, most: float) -> float:
    """A wait that a site asked for, within [0, most]; 0 if it is not a number."""
    if seconds is None or math.isnan(seconds):
        return 0.0
    return min(max(seconds, 0.0), most)


def wait_after(
    options: PolitenessOptions,
    crawl_delay: float | None,
    retry_after: float | None,
    last_fetch_seconds: float,
) -> float:
    """How long a host is left alone after its last page."""
    return max(
        options.wait,
        _asked(crawl_delay, options.max_crawl_delay),
        _asked(retry_after, options.max_retry_after),
        _asked(last_fetch_seconds * options.factor, options.max_wait),
    )


def pages_per_visit(options: PolitenessOptions, crawl_delay: float | None) -> int:
    """How many pages a visit of the host has."""
    return 1 if _asked(crawl_delay, options.max_crawl_delay) > 0 else options.pages_per_visit


class AddressTable:
    """One connection at a time to each address, and a wait after it.

    `try_begin` grants a connection (0.0) or gives the time from which to try again. While a connection is
    open nobody knows when it ends, so the answer is a guess, `patience` from now; callers may also try
    again at any `end`. Addresses whose wait is over are forgotten, so the table holds at most the open
    connections and those of the last `wait` seconds.
    """

    def __init__(self, wait: float, patience: float = 0.05) -> None:
        if not (wait >= 0 and patience > 0):
            raise ValueError("an address waits zero seconds or more, and patience is above zero")
        self._wait = wait
        self._patience = patience
        self._open: set[str] = set()
        self._until: dict[str, float] = {}  # address -> end of its wait
        self._ends: list[tuple[float, str]] = []  # the same, as a heap

    def try_begin(self, address: str, now: float) -> float:
        """0.0 if the connection may be opened (it then counts as open); else the time to try again."""
        self._forget(now)
        if address in self._open:
            return now + self._patience
        until = self._until.get(address)
        if until is not None:
            return until
        self._open.add(address)
        return 0.0

    async def begin(self, address: str, now: float) -> float:
        """As `try_begin`, where the answer may have to come from another table."""
        return self.try_begin(address, now)

    def end(self, address: str, now: float) -> None:
        """Note that the connection granted last for this address is closed."""
        self._open.discard(address)
        self._forget(now)
        if self._wait:
            self.hold(address, now + self._wait)

    def hold(self, address: str, until: float) -> None:
        """Grant nothing for this address before `until` (never earlier than already decided)."""
        if until > self._until.get(address, -math.inf):
            self._until[address] = until
            heapq.heappush(self._ends, (until, address))

    def __len__(self) -> int:
        """Addresses remembered."""
        return len(self._open | self._until.keys())

    def _forget(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            until, address = heapq.heappop(self._ends)
            if self._until.get(address) == until:
                del self._until[address]
