"""The requests that the server saw, and whether they were polite.

Politeness is a promise to servers, so it is checked on their side: by the times at which
requests arrived and their last byte was sent, on the server's monotonic clock. A crawler's own
records cannot prove it.

`violations` checks these rules:

    overlap         a host was asked while it was still answering
    visit           more than `pages` pages in one visit; a visit ends with a pause of at least the wait
    connection      within the wait, the host was asked over another connection: not the same visit
    retry-after     the host was asked before the end of its Retry-After
    connections     two connections to one host were open at once
    address         two hosts of one address were asked without the address's own wait between,
                    or at the same time

robots.txt does not count as a page of a visit, but the other rules hold for it. Where a host has a Crawl-delay,
that is its wait if it is longer, and a visit is one page. `tolerance` allows for clocks and scheduling:
a server reads a little later than a client wrote, with a varying delay.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec


class Access(NamedTuple):
    """One request. Times are in seconds on the server's monotonic clock."""

    start: float
    end: float
    host: str
    path: str
    status: int
    """0 where nothing, or no HTTP, was sent."""
    connection: int
    peer: str
    local: str
    wait: float = 0.0
    """Seconds that the answer told the client to stay away (Retry-After)."""
    agent: str = ""
    broken_off: bool = False
    """The client broke it off, and whoever asked next could not know how long it had lasted: `factor` of its
    duration is not demanded."""


class Connection(NamedTuple):
    """One connection. `closed` is 0 while it is open."""

    number: int
    opened: float
    closed: float
    peer: str
    local: str


class AccessLog:
    """Requests and connections in the order they ended and opened, up to a limit."""

    def __init__(self, limit: int = 2_000_000) -> None:
        self.limit = limit
        self.accesses: list[Access] = []
        self.connections: dict[int, Connection] = {}
        self.dropped = 0

    def add(self, access: Access) -> None:
        if len(self.accesses) < self.limit:
            self.accesses.append(access)
        else:
            self.dropped += 1

    def open(self, connection: Connection) -> None:
        if len(self.connections) < self.limit:
            self.connections[connection.number] = connection

    def close(self, number: int, at: float) -> None:
        if found := self.connections.get(number):
            self.connections[number] = found._replace(closed=at)

    def counts(self) -> Counter[tuple[str, str]]:
        """How often each (host, path) was asked for."""
        return Counter((access.host, access.path) for access in self.accesses)

    def repeated(self) -> dict[tuple[str, str], int]:
        """What was asked for more than once, although an earlier request was answered.

        Attempts that end with no answer, 429 or 5xx do not count as answered.
        """
        answered: Counter[tuple[str, str]] = Counter()
        again: dict[tuple[str, str], int] = {}
        for access in self.accesses:
            key = access.host, access.path
            if answered[key]:
                again[key] = again.get(key, 1) + 1
            if access.status and access.status != 429 and access.status < 500:
                answered[key] += 1
        return again

    def lines(self) -> Iterator[bytes]:
        """As JSON lines; `read` parses them."""
        encode = msgspec.json.Encoder().encode
        for connection in self.connections.values():
            yield encode(["connection", *connection]) + b"\n"
        for access in self.accesses:
            yield encode(["access", *access]) + b"\n"

    @staticmethod
    def read(lines: Iterable[bytes]) -> AccessLog:
        """The log parsed from those lines."""
        log = AccessLog()
        for line in lines:
            kind, *fields = msgspec.json.decode(line)
            if kind == "access":
                log.add(Access(*fields))
            else:
                log.open(Connection(*fields))
        return log


class Politeness(NamedTuple):
    """The rules that the crawler promised to keep."""

    wait: float
    """Seconds between visits to a host."""
    pages: int = 1
    """Pages in a visit."""
    address_wait: float = 0.0
    factor: float = 0.0
    """The wait is at least this many times the last answer's duration, as the server measured it."""
    max_wait: float = 60.0
    """... but never longer than this for that reason."""
    delays: dict[str, float] = {}  # noqa: RUF012 - read only
    """Hosts with a Crawl-delay (see `Web.delays`)."""
    same_connection: bool = True
    """Whether a visit must keep to one connection."""
    connections: bool = True
    """Whether to check that a host has one open connection at a time."""
    tolerance: float = 0.02


class Violation(NamedTuple):
    """One broken rule."""

    rule: str
    where: str
    """Host or address."""
    at: float
    detail: str


def violations(log: AccessLog, politeness: Politeness) -> list[Violation]:
    """Every broken rule, by time."""
    hosts: defaultdict[str, list[Access]] = defaultdict(list)
    addresses: defaultdict[str, list[Access]] = defaultdict(list)
    for access in sorted(log.accesses):
        hosts[access.host].append(access)
        addresses[access.local].append(access)
    found: list[Violation] = []
    for host, accesses in hosts.items():
        found += _host(host, accesses, politeness)
        if politeness.connections:
            found += _connections(host, accesses, log, politeness)
    for address, accesses in addresses.items():
        found += _address(address, accesses, politeness)
    return sorted(found, key=lambda violation: violation.at)


def _host(host: str, accesses: list[Access], politeness: Politeness) -> Iterator[Violation]:
    wait, most = politeness.wait, politeness.pages
    if host in politeness.delays:
        wait, most = max(wait, politeness.delays[host]), 1
    slack = politeness.tolerance
    before = None
    end = 0.0
    until = 0.0
    pages = 0
    for access in accesses:
        page = access.path != "/robots.txt"
        if before is None:
            pages = int(page)
        else:
            gap = access.start - end
            said = f"{access.path} {gap:.3f} s after {before.path}"
            if gap < -slack:
                yield Violation("overlap", host, access.start, said)
            if access.start < until - slack:
                yield Violation("retry-after", host, access.start, said)
            lasted = 0.0 if before.broken_off else before.end - before.start
            slow = min(politeness.max_wait, politeness.factor * lasted)
            if gap >= max(wait, slow) - slack:
                pages = int(page)
            else:
                pages += page
                if pages > most:
                    yield Violation("visit", host, access.start, f"page {pages} of a visit: {said}")
                    pages = 1
                elif politeness.same_connection and access.connection != before.connection:
                    yield Violation("connection", host, access.start, said)
        before = access
        end = max(end, access.end)
        if access.wait:
            until = max(until, access.end + access.wait)


def _connections(
    host: str, accesses: list[Access], log: AccessLog, politeness: Politeness
) -> Iterator[Violation]:
    numbers = sorted({access.connection for access in accesses})
    known = sorted(
        (log.connections[number] for number in numbers if number in log.connections),
        key=lambda connection: connection.opened,
    )
    last = None
    for connection in known:
        if last is not None:
            over = not last.closed or connection.opened < last.closed - politeness.tolerance
            if over:
                detail = f"connection {connection.number} while {last.number} was open"
                yield Violation("connections", host, connection.opened, detail)
        if last is None or not connection.closed or (last.closed and connection.closed > last.closed):
            last = connection


def _address(address: str, accesses: list[Access], politeness: Politeness) -> Iterator[Violation]:
    before = None
    end = 0.0
    for access in accesses:
        if before is not None and access.host != before.host:
            gap = access.start - end
            if gap < politeness.address_wait - politeness.tolerance:
                detail = f"{access.host} {gap:.3f} s after {before.host}"
                yield Violation("address", address, access.start, detail)
        before = access
        end = max(end, access.end)
