"""Status: what a running crawl says of itself, to the screen and to other processes.

status.json     the last word of the process, replaced every second; not durable, may be stale. On a full disk it is
                written over the one before, whose blocks it has
meters.jsonl    the same, line by line: the history of the crawl, for plots (see `lycosa.crawl.history`)
"""

from __future__ import annotations

import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lycosa.crawl.history import History
from lycosa.crawl.machine import memory_limit
from lycosa.errors import DiskFullError, StorageError

if TYPE_CHECKING:
    from lycosa.crawl.agent import Agent

STATUS = "status.json"


class Status(msgspec.Struct, kw_only=True):
    """One moment of a crawl."""

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
    next_due: float = 0.0  # seconds until the first of what is deferred
    reason: str = ""  # of a run that failed: why
    fetches: int = 0  # of all runs; more than the pages if some were fetched again


def resident() -> int:
    """Bytes of RAM that this process has."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - read every second
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        # macOS has no /proc: the peak is what can be had.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


class StatusFiles:
    """Leaves what a crawl says of itself for other processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._history = History(directory)

    def write(self, status: Status) -> None:
        data = msgspec.json.encode(status)
        _replace(self._directory / STATUS, data)
        self._history.add(data, time.monotonic(), last=status.state != "running")


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        with path.open("r+b") as file:  # a full disk: there is room where the last word stands
            file.write(data.ljust(os.fstat(file.fileno()).st_size))


def reason_of(error: BaseException) -> str:
    """Why a run failed, for people."""
    if isinstance(error, DiskFullError):
        return "the disk was full"
    return str(error).partition("\n")[0] or type(error).__name__


def note_failure(directory: Path, error: BaseException) -> None:
    """A run failed before it could say anything of itself: the last word of the run before says so."""
    status = read_status(directory)
    if status is not None and isinstance(error, StorageError):
        status.state, status.reason, status.at = "failed", reason_of(error), time.time()
        with suppress(OSError):
            _replace(directory / STATUS, msgspec.json.encode(status))


class Reporter:
    """Says how a crawl goes."""

    def __init__(self, agent: Agent, directory: Path) -> None:
        self._agent = agent
        self._files = StatusFiles(directory)
        self._started = time.monotonic()
        self._pages_before = agent.totals().pages
        self._limit = memory_limit()

    def status(self, state: str = "running") -> Status:
        """How it goes now."""
        meters = self._agent.meters.read()
        totals = self._agent.totals()
        return Status(
            at=time.time(),
            pid=os.getpid(),
            state=state,
            elapsed=time.monotonic() - self._started,
            pages=totals.pages,
            pages_run=totals.pages - self._pages_before,
            fetches=totals.fetched,
            bytes=totals.size,
            links=totals.links,
            duplicates=totals.duplicates,
            statuses={f"{kind}xx": n for kind, n in sorted(totals.statuses.items())},
            skipped=dict(sorted(totals.skipped.items())),
            errors={
                name.removeprefix("error."): int(n) for name, n in meters.items() if name.startswith("error.")
            },
            pending=int(meters["frontier.pending"]),
            left_behind=int(meters.get("frontier.left_behind", 0)),
            deferred=int(meters["frontier.deferred"]),
            next_due=meters["frontier.next_due"],
            visits=int(meters["visits.active"]),
            hosts=int(meters["frontier.hosts"]),
            rss=resident(),
            memory_limit=self._limit,
            page_limit=self._agent.options.limits.pages,
            meters=meters,
        )

    def write(self, status: Status) -> None:
        """Leave it for other processes."""
        self._files.write(status)


def read_status(directory: Path) -> Status | None:
    """The last word of the process that crawls, or crawled, into a directory."""
    try:
        return msgspec.json.decode((directory / STATUS).read_bytes(), type=Status)
    except (OSError, msgspec.MsgspecError):
        return None
