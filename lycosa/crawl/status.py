"""Status: the state of a running crawl, for the screen and for other processes.

status.json     the latest status of the process, replaced every second; not durable, may be stale. On a full disk
it
                is written over the previous one, in its blocks
meters.jsonl    the same, line by line: the history of the crawl, for plots (see `lycosa.crawl.history`)
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lycosa.crawl.history import History
from lycosa.crawl.machine import memory_limit
from lycosa.errors import DiskFullError, StorageError

if TYPE_CHECKING:
    from lycosa.crawl.config import Options
    from lycosa.crawl.shard import Shard

STATUS = "status.json"
_ERROR = "error."


class Ahead(msgspec.Struct, kw_only=True):
    """A host with URLs pending."""

    host: str
    queued: int
    wait: float  # seconds until it may be visited
    why: str


class ShardLine(msgspec.Struct, kw_only=True):
    """One shard of a running crawl."""

    shard: int
    agent: str
    pages: int
    pending: int
    left_behind: int
    deferred: int
    visits: int


class AgentLine(msgspec.Struct, kw_only=True):
    """One process of a running crawl."""

    agent: str
    pid: int
    rss: int
    visits: int
    cpu: float  # seconds of a core in this run


class Status(msgspec.Struct, kw_only=True):
    """The state of a crawl at one moment."""

    at: float  # wall time
    pid: int
    state: str  # "running", or why it ended
    elapsed: float  # seconds of this run
    pages: int  # URLs that were fetched, in all runs
    pages_run: int
    bytes: int
    links: int
    duplicates: int
    statuses: dict[str, int]
    skipped: dict[str, int]
    errors: dict[str, int]
    pending: int
    left_behind: int
    deferred: int
    visits: int
    hosts: int
    rss: int
    memory_limit: int
    page_limit: int
    meters: dict[str, float]
    next_due: float = 0.0  # seconds until the first deferred URL is due
    reason: str = ""  # why a run failed
    paused: bool = False  # by an act of the operator
    shards: list[ShardLine] = []
    agents: list[AgentLine] = []
    ahead: list[Ahead] = []  # hosts with the most URLs pending, of a few seconds ago
    fetches: int = 0  # of all runs; more than the pages if some were fetched again


class ReportTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals and the present state of a shard, in numbers."""

    at: float = 0.0  # when it was made, in seconds of the holder's clock
    pages: int = 0
    bytes: int = 0
    links: int = 0
    duplicates: int = 0
    lost: int = 0
    statuses: dict[str, int] = {}
    skipped: dict[str, int] = {}
    pending: int = 0
    left_behind: int = 0
    deferred: int = 0
    visits: int = 0
    rate: float = 0.0  # recent pages per second
    fetches: int = 0  # more than the pages if some were fetched again


def resident() -> int:
    """Bytes of RAM that this process has."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - read every second
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        # macOS has no /proc: only the peak is available.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


class StatusFiles:
    """Writes the status of a crawl for other processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._history = History(directory)

    def write(self, status: Status) -> None:
        _replace(self._directory / STATUS, msgspec.json.encode(status))
        data = msgspec.json.encode(msgspec.structs.replace(status, shards=[], agents=[], ahead=[]))
        self._history.add(data, time.monotonic(), last=status.state != "running")


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        with path.open("r+b") as file:  # a full disk: there is still room where the previous status is
            file.write(data.ljust(os.fstat(file.fileno()).st_size))


def reason_of(error: BaseException) -> str:
    """Why a run failed, for people."""
    if isinstance(error, DiskFullError):
        return "the disk was full"
    return str(error).partition("\n")[0] or type(error).__name__


def note_failure(directory: Path, error: BaseException) -> None:
    """Record that a run failed before it had a status: in place of the status of the run before."""
    status = read_status(directory)
    if status is not None and isinstance(error, StorageError):
        status.state, status.reason, status.at = "failed", reason_of(error), time.time()
        with suppress(OSError):
            _replace(directory / STATUS, msgspec.json.encode(status))


def totals_of(shard: Shard, visits: int, at: float, rate: float = 0.0) -> ReportTotals:
    """The totals of a shard at a time, with so many visits under way."""
    totals = shard.totals
    return ReportTotals(
        at=at,
        pages=totals.pages,
        fetches=totals.fetched,
        bytes=totals.size,
        links=totals.links,
        duplicates=totals.duplicates,
        lost=totals.lost,
        statuses={f"{kind}xx": n for kind, n in sorted(totals.statuses.items()) if n},
        skipped=dict(sorted(totals.skipped.items())),
        pending=shard.frontier.pending,
        left_behind=len(shard.left),
        deferred=len(shard.calendar),
        visits=visits,
        rate=rate,
    )


def added(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts by name, summed up."""
    found: dict[str, int] = {}
    for table in tables:
        for word, count in table.items():
            found[word] = found.get(word, 0) + count
    return dict(sorted(found.items()))


def errors_of(meters: Mapping[str, float]) -> dict[str, int]:
    """Failed attempts by kind."""
    return {name.removeprefix(_ERROR): int(n) for name, n in meters.items() if name.startswith(_ERROR)}


class Reporter:
    """Makes the status of a run from the totals of its shards."""

    def __init__(self, pages: int, before: Status | None = None) -> None:
        """`pages`: present when the run begins; `before`: the status that others left earlier in this same run."""
        self._before = before
        self.began = time.monotonic() - (before.elapsed if before else 0.0)
        self.pages_before = before.pages - before.pages_run if before else pages
        self._limit = memory_limit()

    def status(
        self,
        state: str,
        shards: Mapping[int, tuple[str, ReportTotals]],
        meters: dict[str, float],
        options: Options,
        ahead: list[Ahead],
        agents: Sequence[AgentLine] = (),
    ) -> Status:
        """The present status. `shards`: the agent of each, and its totals."""
        rows = [totals for _, totals in shards.values()]
        pages = sum(row.pages for row in rows)
        return Status(
            at=time.time(),
            pid=os.getpid(),
            state=state,
            elapsed=time.monotonic() - self.began,
            pages=pages,
            pages_run=max(pages - self.pages_before, 0),
            fetches=sum(row.fetches for row in rows),
            bytes=sum(row.bytes for row in rows),
            links=sum(row.links for row in rows),
            duplicates=sum(row.duplicates for row in rows),
            statuses=added(row.statuses for row in rows),
            skipped=added(row.skipped for row in rows),
            errors=added([self._before.errors if self._before else {}, errors_of(meters)]),
            pending=sum(row.pending for row in rows),
            left_behind=sum(row.left_behind for row in rows),
            deferred=sum(row.deferred for row in rows),
            next_due=meters.get("frontier.next_due", 0.0),
            visits=int(meters.get("visits.active", 0)),
            hosts=int(meters.get("frontier.hosts", 0)),
            rss=resident() + sum(agent.rss for agent in agents),
            memory_limit=self._limit,
            page_limit=options.limits.pages,
            paused=options.steered.paused,
            shards=[
                ShardLine(
                    shard=number,
                    agent=agent,
                    pages=row.pages,
                    pending=row.pending,
                    left_behind=row.left_behind,
                    deferred=row.deferred,
                    visits=row.visits,
                )
                for number, (agent, row) in sorted(shards.items())
            ],
            agents=list(agents),
            ahead=ahead,
            meters=meters,
        )


def read_status(directory: Path) -> Status | None:
    """The latest status of the process that crawls, or crawled, into a directory."""
    try:
        return _decode_status((directory / STATUS).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


# Made at import: msgspec crashes where two threads are the first to decode a struct, as when shards recover.
_decode_status = msgspec.json.Decoder(Status).decode
