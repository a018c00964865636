"""The state of a crawl: what can be known of it from outside, at one moment.

A running crawl writes a status.json every second; whether its process lives is asked of the lock. Where there is no
status.json (it is not durable) the totals come from the snapshots and the log. In a copy of a cluster's crawl the
process is the one that keeps it current (`lycosa serve nats://...`) and writes the state to status.json.

`as_plain` is the document of `lycosa status --json` and of the page's API:

    directory, crawl, shards    which crawl
    state                       "running", "finished", "limit", "stopped", "failed", "killed" or "unknown"
    process                     the id of the running process, or null
    age                         seconds since status.json was written, or null
    last_commit                 time of the last write to a log, or null
    status                      the fields of `lycosa.crawl.status.Status`, or null
    totals                      without a status: the fields of `lycosa.crawl.totals.Totals`
    caches                      by name: asked, hits, rate
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from lycosa.ask.alive import process_of
from lycosa.ask.json_form import iso
from lycosa.ask.reading import CrawlReader
from lycosa.crawl.status import Status, read_status
from lycosa.crawl.totals import Totals

_CACHES = {
    "hrefs": ("url.hrefs", "url.href_hits"),
    "seen": ("seen.probes", "seen.hits"),
}


class Standing:
    """The state of a crawl, running or not, at one moment."""

    def __init__(
        self, crawl: CrawlReader, told: Callable[[str, int], None] = lambda _what, _count: None
    ) -> None:
        self.crawl = crawl
        self.process = process_of(crawl.directory)
        self.status: Status | None = read_status(crawl.directory)
        self.copy = crawl.manifest.cluster
        """Whether it is a copy of a crawl of a cluster: a process keeps it current, whether or not that runs."""
        if self.copy and self.process is None and self.status is not None and self.status.state == "running":
            self.status = None  # of a process that kept the copy current: the crawl may go on without it
        self.totals: Totals | None = None if self.status is not None else crawl.totals(told)
        self.last_commit = _last_commit(crawl)

    @property
    def state(self) -> str:
        """The state in one word."""
        if self.copy:
            return self.status.state if self.status is not None else "unknown"
        if self.process is not None:
            return "running"
        unclean = self.crawl.files.exists("running")
        if self.status is None:
            return "killed" if unclean else "unknown"
        if self.status.state == "running":
            return "killed"
        return self.status.state

    def caches(self) -> dict[str, dict[str, float]]:
        """How often each cache was asked and had the answer."""
        meters = self.status.meters if self.status is not None else {}
        found = {}
        for name, (asked, hits) in _CACHES.items():
            if meters.get(asked):
                rate = meters.get(hits, 0) / meters[asked]
                found[name] = {"asked": meters[asked], "hits": meters.get(hits, 0), "rate": round(rate, 4)}
        return found

    def as_plain(self) -> dict[str, Any]:
        return {
            "directory": str(self.crawl.directory),
            "crawl": self.crawl.manifest.crawl,
            "shards": self.crawl.manifest.shards,
            "state": self.state,
            "process": self.process,
            "age": None if self.status is None else round(max(time.time() - self.status.at, 0.0), 3),
            "last_commit": iso(int(self.last_commit * 1000)),
            "status": None if self.status is None else msgspec.to_builtins(self.status),
            "totals": None if self.totals is None else msgspec.structs.asdict(self.totals),
            "caches": self.caches(),
        }


def _last_commit(crawl: CrawlReader) -> float:
    """When a log was last written to; 0 if never."""
    segments = (crawl.directory / "shards").glob("*/log/*.seg")
    last = 0.0
    for path in segments:
        try:
            last = max(last, path.stat().st_mtime)
        except OSError:
            continue  # a segment may be removed meanwhile
    return last
