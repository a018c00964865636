"""One contestant of the crawl benchmark, in a separate process, pinned to one core.

    python benchmarks/crawl_worker.py TASK      (JSON; the result is the last line of standard output, JSON)

Measured are the time and the CPU (user + system, all threads) from opening the crawl to its clean end,
final commit and snapshot included. Before that the process crawls a few pages into another directory, so that
modules are imported and kernels loaded; the time for that is reported separately (`startup`).

    lycosa      the crawl as `lycosa crawl` runs it
    floor       fetch and parse only: the same fetcher and parser over a list of URLs, one request at a time
                per host as in the crawl; no log, archive, seen set, frontier, scope, robots, and links are
                not resolved

`without` removes a part of the crawl: "archive" by its option; "log" by a log that discards: nothing is
encoded, compressed, written or synced, everything else (positions, commits of the archive, deliveries) stays.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

_BEGAN = time.monotonic()


class Task(msgspec.Struct, kw_only=True):
    """The parameters of a run."""

    kind: str  # "lycosa", "floor"
    seeds: list[str] = []
    pages: int = 0
    into: str = ""
    core: int | None = None
    without: str = ""  # "", "log", "archive"
    ca_file: str = ""
    http2: bool = False
    pages_per_visit: int = 1_000_000_000
    urls: str = ""  # for the floor: a file of lines `size URL`; for lycosa: where to write what it fetched
    profile: bool = False
    warm: int = 64
    pending: int = 0  # for crawl_memory: go on until so many URLs are pending
    root: str = ""  # directory that the site serves
    options: dict[str, Any] = {}


class Result(msgspec.Struct, kw_only=True):
    """The results of a run."""

    pages: int
    seconds: float
    user: float
    system: float
    bytes: int
    links: int
    rss_peak: int
    startup: float = 0.0
    statuses: dict[str, int] = {}
    connections: int = 0
    errors: dict[str, int] = {}
    duplicates: int = 0
    end: str = ""
    profile: dict[str, Any] | None = None

    @property
    def rate(self) -> float:
        return self.pages / self.seconds

    @property
    def cpu(self) -> float:
        """Microseconds per page."""
        return (self.user + self.system) / self.pages * 1e6


class Meter:
    """Time and CPU since it was made."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._usage = resource.getrusage(resource.RUSAGE_SELF)

    def read(self) -> dict[str, Any]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return {
            "seconds": time.perf_counter() - self._wall,
            "user": usage.ru_utime - self._usage.ru_utime,
            "system": usage.ru_stime - self._usage.ru_stime,
            "rss_peak": peak,
        }


def crawl_options(task: Task, pages: int) -> dict[str, Any]:
    """The crawl's options: no waits, loopback allowed, robots obeyed; otherwise defaults."""
    return {
        "public": False,
        "allow": ["127.0.0.0/8"],
        "politeness": {
            "wait": 0.0,
            "factor": 0.0,
            "address_wait": 0.0,
            "pages_per_visit": task.pages_per_visit,
        },
        "fetch": {"ca_file": task.ca_file, "http2": task.http2},
        "archive": {"keep": task.without != "archive"},
        "limits": {"pages": pages},
        **task.options,
    }


def forget_log() -> None:
    """Let crawls built from now on keep no log, to measure the log's share of the cost."""
    from lycosa.crawl import agent
    from lycosa.log.log import Batch, Log
    from lycosa.records import Record, Robots

    class Forgetful(Log):
        """Assigns positions and discards records, except robots rules, which are read back."""

        _kept: dict[int, Record]

        def append(self, record: Record) -> int:
            position = self._end
            if isinstance(record, Robots):
                self.__dict__.setdefault("_kept", {})[position] = record
            self._end += 1
            return position

        def cut(self) -> Batch | None:
            if self._end == self.committed:
                return None
            self._batch += 1
            return Batch(self._batch, self._end, [])

        def write(self, batch: Batch) -> None:
            pass

        def read(self, position: int) -> Record:
            return self._kept[position]

    agent.Log = Forgetful  # type: ignore[attr-defined]  # the composition root takes its log by this name


async def crawl(task: Task, into: Path, pages: int) -> Result:
    """One crawl, measured."""
    from lycosa.crawl.api import Crawl

    sampler = None
    meter = Meter()
    crawl = Crawl(task.seeds, into=into, **crawl_options(task, pages))
    await crawl.start()
    if task.profile and pages == task.pages:
        from crawl_sampler import Sampler

        sampler = Sampler()
        sampler.start()
    end = await crawl.wait()
    profile = sampler.stop() if sampler is not None else None
    read = meter.read()
    status = crawl.status()
    return Result(
        pages=status.pages_run,
        bytes=status.bytes,
        links=status.links,
        statuses=status.statuses,
        errors=status.errors,
        duplicates=status.duplicates,
        connections=int(status.meters.get("http.connections", 0)),
        end=str(end),
        profile=profile._asdict() if profile is not None else None,
        **read,
    )


def write_urls(into: Path, out: Path) -> None:
    """What a crawl fetched, in the order of its fetches, as lines `size URL`."""
    from lycosa.ask.reading import CrawlReader
    from lycosa.records import Fetched

    with out.open("w", encoding="ascii") as lines:
        for _, _, record in CrawlReader(into).records(by_time=True):
            if isinstance(record, Fetched):
                lines.write(f"{record.size} {record.url}\n")


def read_urls(path: Path) -> list[tuple[int, str]]:
    """Sizes and URLs from such a file."""
    rows = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return [(int(size), url) for size, url in rows]


async def floor(task: Task, urls: list[str]) -> Result:
    """Fetch and parse the URLs, one at a time per host."""
    from lycosa.clock import SystemClock
    from lycosa.fetch.guard import AddressGuard
    from lycosa.fetch.http import HttpFetcher
    from lycosa.fetch.protocol import FetchOptions, Request, Response
    from lycosa.meters import Meters
    from lycosa.page.registry import read_page
    from lycosa.url.parts import host_of

    by_host: dict[str, deque[str]] = {}
    for url in urls:
        by_host.setdefault(host_of(url), deque()).append(url)
    meters = Meters()
    options = FetchOptions(ca_file=task.ca_file, http2=task.http2)
    totals = {"pages": 0, "bytes": 0, "links": 0}
    statuses: dict[str, int] = {}

    async def one_host(fetcher: HttpFetcher, host: str, queue: deque[str]) -> None:
        for url in queue:
            response = await fetcher.fetch(Request(url, host))
            if not isinstance(response, Response):
                continue
            totals["pages"] += 1
            totals["bytes"] += len(response.body)
            kind = f"{response.status // 100}xx"
            statuses[kind] = statuses.get(kind, 0) + 1
            if response.decoded:
                page = read_page(response.decoded, response.header("content-type"), url)
                totals["links"] += len(page.hrefs)

    meter = Meter()
    fetcher = HttpFetcher(options, SystemClock(), meters, AddressGuard(("127.0.0.0/8",)))
    await asyncio.gather(*(one_host(fetcher, host, queue) for host, queue in by_host.items()))
    await fetcher.close()
    connections = int(meters.read()["http.connections"])
    read: dict[str, Any] = totals | meter.read()
    return Result(statuses=statuses, connections=connections, end="finished", **read)


def main() -> None:
    from crawl_site import pin

    task = msgspec.json.decode(sys.argv[1].encode(), type=Task)
    pin(task.core)
    if task.kind == "floor":
        urls = [url for _, url in read_urls(Path(task.urls))][: task.pages]
        asyncio.run(floor(task, urls[: task.warm]))
        startup = time.monotonic() - _BEGAN
        gc.collect()
        result = asyncio.run(floor(task, urls))
    else:
        if task.without == "log":
            forget_log()
        with tempfile.TemporaryDirectory(dir=Path(task.into).parent) as warm:
            asyncio.run(crawl(task, Path(warm), task.warm))
        startup = time.monotonic() - _BEGAN
        gc.collect()
        result = asyncio.run(crawl(task, Path(task.into), task.pages))
        if task.urls:
            write_urls(Path(task.into), Path(task.urls))
    result.startup = startup
    print(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main()
