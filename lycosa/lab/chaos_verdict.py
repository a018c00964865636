"""Whether a crawl was right, judged by its logs, its archive, the servers' own view of it, and the truth.

A crawl that was disturbed must not differ from one that was not, except in its times:

    log         every URL has a valid `Fetched`, or one final `Skipped`, and not both; a URL has a second fetch only
                if its record knows that there was a page, or, if archive bytes were lost (`Lost`), that it was one
    truth       the URLs with their final statuses are those that a correct crawler fetches
    archive     every record of every file can be read, by warcio too, with its digests; every valid `Fetched` has
                its bytes there, of its own URL
    politeness  `webs.accesses`, from the times at which the web's servers saw requests and connections

This module does not know what was done to the crawl, with one exception. A stopped process (SIGSTOP) cannot close
its connections. So a second connection to a host is no violation if the first was one that a stopped process held
at that time (`Pause.peers`: its sockets, read from the kernel while it was stopped), if the servers had answered
all requests on it, if nothing was asked over it from then on, and if it was closed soon after the process woke. A
killed process has no such excuse: the kernel closes its connections at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lycosa.archive.reader import read_exchange, scan
from lycosa.errors import StorageError
from lycosa.files import DiskFiles, Files
from lycosa.lab.webs.accesses import AccessLog, Connection, Politeness, Violation, violations
from lycosa.lab.webs.truth import Truth
from lycosa.records import Before, Fetched, Lost, Record, Skipped, Why

WAKING = 2.0
"""Seconds within which a process that was woken must have closed its excused connections: a machine with
more processes than cores wakes it slowly."""


class Pause(NamedTuple):
    """A process was stopped from `began` to `ended` (the machine's monotonic clock) and held these sockets."""

    began: float
    ended: float
    peers: frozenset[str]
    """`address:port`, as seen by the server at the other end."""


class Outcome(NamedTuple):
    """What the log says about a crawl."""

    statuses: dict[str, int]
    """URL to final status; 0 for those that gave no answer."""
    pages: list[Fetched]
    """The last valid fetch of each."""
    lost: int
    """Fetches that were taken back because their archive bytes were lost."""
    faults: list[str]


class Verdict(NamedTuple):
    """The findings; the crawl was right if there are no faults."""

    pages: int
    lost: int
    archives: int
    requests: int
    repeated: int
    """Requests for pages that had been answered before: the first fetch was not committed, or was lost."""
    excused: int
    """Connections that a stopped process kept open while another process was at their host."""
    faults: list[str]

    @property
    def right(self) -> bool:
        return not self.faults


def judge(
    records: Iterable[tuple[int, int, Record]],
    archive: Path,
    accesses: AccessLog,
    truth: Truth,
    rules: Politeness,
    pauses: Sequence[Pause] = (),
) -> Verdict:
    """The whole verdict. `records`: (shard, position, record) of all shards, each in order."""
    outcome = read_log(records)
    faults = [*outcome.faults, *truth.compare(outcome.statuses)]
    faults += asked_wrongly(accesses, truth)
    faults += archive_faults(archive, outcome.pages)
    rude, excused = impolite(accesses, rules, pauses)
    faults += [f"{row.rule} at {row.where}, {row.at:.3f}: {row.detail}" for row in rude]
    return Verdict(
        pages=len(outcome.pages),
        lost=outcome.lost,
        archives=len(list(archive.glob("*.warc.gz"))),
        requests=len(accesses.accesses),
        repeated=sum(count - 1 for count in accesses.repeated().values()),
        excused=excused,
        faults=faults,
    )


# -- the log


def read_log(records: Iterable[tuple[int, int, Record]]) -> Outcome:
    """The outcome for every URL."""
    pages: dict[str, list[tuple[int, int, Fetched]]] = {}
    taken_back: set[str] = set()
    skipped: dict[str, Skipped] = {}
    faults: list[str] = []
    lost = 0
    for shard, position, record in records:
        where = f"at {position} of shard {shard}"
        if isinstance(record, Fetched):
            had = pages.setdefault(record.url, [])
            before = Before.PAGE if had else Before.LOST if record.url in taken_back else Before.NEVER
            if had and record.before is not before:
                faults.append(f"committed twice: {record.url} (again {where})")
            elif record.before is not before:
                faults.append(
                    f"{record.url} is said to be {record.before.name} and was {before.name} ({where})"
                )
            had.append((shard, position, record))
        elif isinstance(record, Lost):
            had = pages.get(record.url, [])
            lost += 1
            taken_back.add(record.url)
            left = [row for row in had if row[:2] != (shard, record.position)]
            if len(left) == len(had):
                faults.append(f"taken back though it was not there: {record.url} ({where})")
                left = []
            elif record.remains != bool(left):
                faults.append(f"taken back, and what remains is not what it says: {record.url} ({where})")
            pages[record.url] = left
        elif isinstance(record, Skipped):
            if record.url in skipped:
                faults.append(f"skipped twice: {record.url} (again {where})")
            skipped[record.url] = record
    current = {url: rows[-1][2] for url, rows in pages.items() if rows}
    faults += [f"fetched and skipped: {url}" for url in sorted(current.keys() & skipped.keys())]
    statuses = {url: page.status for url, page in current.items()}
    failed = {url: 0 for url, row in skipped.items() if row.why is Why.FAILED}
    return Outcome({**failed, **statuses}, list(current.values()), lost, faults)


# -- the archive


def archive_faults(directory: Path, pages: Sequence[Fetched]) -> Iterator[str]:
    """Faults of the archive of these pages."""
    files: Files = DiskFiles(directory)
    for path in sorted(directory.glob("*.warc.gz")):
        try:
            for _ in scan(files, path.name):
                pass
        except StorageError as error:
            yield f"the archive is damaged: {error}"
        yield from warcio_faults(path)
    places: Counter[tuple[str, int]] = Counter()
    for page in pages:
        if page.stored is None:
            yield f"not archived: {page.url}"
            continue
        places[page.stored.file, page.stored.offset] += 1
        try:
            found = read_exchange(files, page.stored)
        except StorageError as error:
            yield f"its bytes are not in the archive: {page.url} ({error})"
            continue
        if found.url != page.url:
            yield f"the archive has {found.url} where {page.url} should be"
    for (name, offset), count in places.items():
        if count > 1:
            yield f"{count} pages have the place {offset} of {name}"


def warcio_faults(path: Path) -> Iterator[str]:
    """Faults that an independent reader finds in a file."""
    try:
        from warcio.archiveiterator import ArchiveIterator
    except ImportError:
        yield "warcio is not here to read the archive: pip install warcio"
        return
    try:
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                record.raw_stream.read()  # not content_stream: warcio cannot undo brotli by our library
    except Exception as error:  # of damaged bytes warcio raises any kind of exception
        yield f"warcio cannot read {path.name}: {error}"


# -- the servers' view


def asked_wrongly(accesses: AccessLog, truth: Truth) -> Iterator[str]:
    """Requests that must never be made, whatever the log says."""
    schemes = {seed.partition("://")[0] for seed in truth.seeds}
    port = truth.seeds[0].partition("://")[2].partition("/")[0].partition(":")[2]
    ending = f":{port}" if port else ""
    for host, path in sorted(accesses.counts()):
        for scheme in schemes:
            url = f"{scheme}://{host}{ending}{path}"
            if path != "/robots.txt" and url in truth.must_not:
                yield f"the server saw a request that must never be made: {url}"


def impolite(
    accesses: AccessLog, rules: Politeness, pauses: Sequence[Pause] = ()
) -> tuple[list[Violation], int]:
    """Violated rules by time, and how many second connections were excused."""
    found = violations(accesses, rules._replace(connections=False))
    asked: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    hosts: defaultdict[str, set[int]] = defaultdict(set)
    for access in accesses.accesses:
        asked[access.connection].append((access.start, access.end))
        hosts[access.host].add(access.connection)
    excused = 0
    for host, numbers in hosts.items():
        known = [accesses.connections[number] for number in numbers if number in accesses.connections]
        for older, newer in _overlapping(sorted(known, key=lambda row: row.opened), rules.tolerance):
            if any(_excuses(pause, older, newer, asked[older.number]) for pause in pauses):
                excused += 1
            else:
                after = f"{older.closed - newer.opened:.3f} s later" if older.closed else "never"
                detail = (
                    f"connection {newer.number} from {newer.peer} while {older.number} from {older.peer}"
                    f" was open; that was closed {after}"
                )
                found.append(Violation("connections", host, newer.opened, detail))
    return sorted(found, key=lambda row: row.at), excused


def _overlapping(known: list[Connection], slack: float) -> Iterator[tuple[Connection, Connection]]:
    """Pairs of connections that were open at once, the one opened earlier first."""
    opened: list[Connection] = []
    for connection in known:
        opened = [row for row in opened if not row.closed or row.closed - slack > connection.opened]
        for older in opened:
            yield older, connection
        opened.append(connection)


def _excuses(pause: Pause, older: Connection, newer: Connection, asked: list[tuple[float, float]]) -> bool:
    """Whether the older connection was held by a stopped process that could not close it."""
    return (
        older.peer in pause.peers
        and older.opened <= pause.began <= newer.opened <= pause.ended + WAKING
        and 0.0 < older.closed <= pause.ended + WAKING
        and all(end <= newer.opened for _, end in asked)
    )
