"""A real site's history, replayed commit by commit: freshness over time, ours and uniform with equal fetches.

    git clone --bare https://github.com/apache/kafka-site .bench/kafka-site
    python benchmarks/refresh_history.py .bench/kafka-site [--since 2016-01-01] [--per-page 0.01]

The site is its repository as it was at each moment (commits of the main line, at their committer's time), shown as
by its server: server-side includes are inserted, and Handlebars templates, which hold the text of its manuals, are
unwrapped, as its readers see them. (Javadoc is left out: 19,000 pages, published once for good.) A
page has an ETag, and a request that names it is answered 304, which makes years of fetches affordable.

The crawl is the agent itself (`lycosa.crawl.agent`) on a virtual clock, its fetches answered by the replay;
this module decides nothing for it. It begins with the home page, discovers the rest as fast as politeness
allows, and has so many fetches per day for each known page on average. Measured are the pages that the site
has at a moment and that any of the runs ever found; a page is fresh if the last copy has the same content as the
page at that time, by the digest of main text. Freshness is integrated over time, exactly.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lycosa.content.change import content_digest
from lycosa.crawl import refreshing, scheduling, visit
from lycosa.crawl.agent import build
from lycosa.crawl.config import read_options
from lycosa.fetch.protocol import Request
from lycosa.lab import virtual
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply, ScriptedFetcher, ScriptedFetchers, ScriptedResolver
from lycosa.lab.virtual import VirtualClock
from lycosa.log.reader import LogReader
from lycosa.page.fingerprint import digest
from lycosa.records import Fetched
from lycosa.url.parts import path_of

DAY = 86_400.0
HOST = "kafka.test"
_LEFT_OUT = re.compile(r"(^|/)(javadoc|api-docs|scaladoc)/")
_INCLUDE = re.compile(rb'<!--#include\s+virtual="([^"]+)"\s*-->')
_TEMPLATE = re.compile(rb"(?is)<script[^>]*x-handlebars-template[^>]*>(.*?)</script>")
_DEEPEST = 6


class Commit(NamedTuple):
    """The time, and the blobs of the files changed; "" for one that is gone."""

    at: float
    files: dict[str, str]


def commits(repository: Path, moved: float) -> list[Commit]:
    """The main line, the oldest first, at times `moved` seconds later."""
    words = ["log", "--first-parent", "-m", "--reverse", "--raw", "--no-abbrev", "--no-renames"]
    command = ["git", "-C", str(repository), *words, "--format=commit %ct", "HEAD", "--", "*.html", "*.htm"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: list[Commit] = []
    for line in text.splitlines():
        if line.startswith("commit "):
            at = float(line.split()[1]) + moved
            found.append(Commit(max(at, found[-1].at + 1) if found else at, {}))
        elif line.startswith(":"):
            head, _, path = line.partition("\t")
            if not _LEFT_OUT.search(path):
                found[-1].files[path] = head.split()[3].strip("0") and head.split()[3]
    return found


class Blobs:
    """The contents of a repository."""

    def __init__(self, repository: Path) -> None:
        self._process = subprocess.Popen(
            ["git", "-C", str(repository), "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._known: dict[str, bytes] = {}

    def read(self, blob: str) -> bytes:
        """A blob, by its name."""
        if blob not in self._known:
            ask, answer = self._process.stdin, self._process.stdout
            assert ask is not None and answer is not None
            ask.write(blob.encode() + b"\n")
            ask.flush()
            size = int(answer.readline().split()[2])
            self._known[blob] = answer.read(size + 1)[:-1]
        return self._known[blob]


class Site:
    """The site at a moment; moments only move forward."""

    def __init__(self, history: list[Commit], blobs: Blobs) -> None:
        self._history, self._blobs = history, blobs
        self._next = 0
        self._files: dict[str, str] = {}
        self._pages: dict[str, tuple[bytes | None, set[str]]] = {}
        self._users: dict[str, set[str]] = defaultdict(set)

    def move(self, at: float) -> set[str]:
        """Move to a moment; returns the paths whose pages may have changed."""
        touched: set[str] = set()
        while self._next < len(self._history) and self._history[self._next].at <= at:
            for path, blob in self._history[self._next].files.items():
                self._files.pop(path, None) if not blob else self._files.update({path: blob})
                touched |= self._users.pop(path, set())
            self._next += 1
        for path in touched:
            self._pages.pop(path, None)
        return touched

    def page(self, path: str) -> bytes | None:
        """The page at the path of a URL; None if there is none."""
        if path not in self._pages:
            used: set[str] = set()
            name = path.lstrip("/")
            body = None
            for found in (name, f"{name}.html", posixpath.join(name, "index.html")):
                used.add(found)
                if found in self._files and found.endswith(".html"):
                    body = _TEMPLATE.sub(rb"<div>\1</div>", self._read(found, used, 0))
                    break
            self._pages[path] = body, used
            for name in used:
                self._users[name].add(path)
        return self._pages[path][0]

    def _read(self, name: str, used: set[str], depth: int) -> bytes:
        used.add(name)
        if name not in self._files or depth > _DEEPEST:
            return b""

        def put(match: re.Match[bytes]) -> bytes:
            place = posixpath.join("/", posixpath.dirname(name), match[1].decode("utf-8", "replace"))
            return self._read(posixpath.normpath(place).lstrip("/"), used, depth + 1)

        return _INCLUDE.sub(put, self._blobs.read(self._files[name]))


def said(body: bytes) -> int:
    """The digest that the crawl compares: see `lycosa.pages.summary.content_of`."""
    return content_digest(body) or digest(body)


class Fetch(NamedTuple):
    """A fetch of the crawl: when, of which path, and the digest found; 0: nothing."""

    at: float
    path: str
    said: int


def crawl(repository: Path, moved: float, seconds: float, **refresh: Any) -> list[Fetch]:
    """All fetches of a continuous crawl of `seconds` seconds, of a history shifted by `moved` seconds."""
    # A virtual day need not take ten thousand iterations of the loop.
    scheduling.IDLE, refreshing._AGAIN, visit._FULL = DAY / 8, DAY, DAY / 24
    history, blobs = commits(repository, moved), Blobs(repository)
    site = Site(history, blobs)

    def answer(request: Request, before: int) -> Reply:
        site.move(clocks[0].wall())
        path = path_of(request.url).partition("?")[0]
        body = site.page(path)
        if body is None:
            return Reply(b"not here", 404)
        tag = f'"{digest(body):x}"'
        if request.etag == tag:
            return Reply(b"", 304, (("ETag", tag),))
        return Reply(body, 200, (("Content-Type", "text/html; charset=utf-8"), ("ETag", tag)))

    options = read_options(
        {
            "public": False,
            "allow": ["127.0.0.0/8"],
            "archive": {"keep": False},
            "politeness": {"wait": 1.0, "address_wait": 0.05},
            "limits": {"seconds": seconds},
            "commit_seconds": DAY / 4,
            "snapshot": {"records": 1 << 40, "seconds": 1e12},
            "refresh": {"continuous": True, "importance": "equal", **refresh},
        }
    )
    files = FaultyFiles()
    clocks: list[VirtualClock] = []

    async def go(clock: VirtualClock) -> None:
        clocks.append(clock)
        agent = build(
            *(files, options, [f"http://{HOST}/"]),
            shards=1,
            hash_seed=7,
            clock=clock,
            fetchers=ScriptedFetchers(ScriptedFetcher(answer, clock)),
            resolver=ScriptedResolver({HOST: "127.0.0.1"}),
        )
        await agent.run()

    virtual.run(go)
    return [
        Fetch(
            row.at / 1000,
            path_of(row.url).partition("?")[0],
            (row.content or row.digest) if row.status in (200, 304) else 0,
        )
        for _, row in LogReader(files.within("shards/00/log")).scan()
        if isinstance(row, Fetched)
    ]


class Truth(NamedTuple):
    """For each path, its digests and the times from which they hold; 0: nothing."""

    times: dict[str, list[float]]
    saying: dict[str, list[int]]


def truth(history: list[Commit], blobs: Blobs, paths: set[str], since: float, until: float) -> Truth:
    """The true content of the site over time."""
    site = Site(history, blobs)
    site.move(since)
    times: dict[str, list[float]] = defaultdict(list)
    saying: dict[str, list[int]] = defaultdict(list)

    def look(path: str, at: float) -> None:
        body = site.page(path)
        now = said(body) if body is not None else 0
        if not saying[path] or saying[path][-1] != now:
            times[path].append(at)
            saying[path].append(now)

    for path in paths:
        look(path, since)
    for commit in history:
        if since < commit.at <= until:
            for path in site.move(commit.at) & paths:
                look(path, commit.at)
    return Truth(times, saying)


def fresh_over_time(
    known: Truth, rows: list[Fetch], edges: list[float]
) -> Iterator[tuple[float, float, int]]:
    """For each interval between edges: mean share of existing pages that were fresh, the pages, the fetches."""
    changes = [
        (at, 0, path, value)
        for path, ats in known.times.items()
        for at, value in zip(ats, known.saying[path], strict=True)
    ]
    fetched = [(row.at, 1, row.path, row.said) for row in rows]
    there: dict[str, int] = {}
    have: dict[str, int] = {}
    present = fresh = made = 0
    whole = current = 0.0
    last, edge = edges[0], 1
    for at, kind, path, value in [*sorted(changes + fetched), (edges[-1], 2, "", 0)]:
        while edge < len(edges) and at >= edges[edge]:
            whole += (edges[edge] - last) * present
            current += (edges[edge] - last) * fresh
            yield current / whole if whole else 0.0, present, made
            last, edge, whole, current, made = edges[edge], edge + 1, 0.0, 0.0, 0
        if kind == 2:
            return
        whole += max(at - last, 0.0) * present
        current += max(at - last, 0.0) * fresh
        last = max(at, last)
        made += kind == 1
        if kind == 1 and path not in known.times:
            continue
        before = there.get(path, 0)
        present -= before != 0
        fresh -= before != 0 and have.get(path) == before
        (there if kind == 0 else have)[path] = value
        now = there.get(path, 0)
        present += now != 0
        fresh += now != 0 and have.get(path) == now


def main() -> int:
    """Replay, crawl, measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repository", type=Path)
    parser.add_argument("--since", default="2016-01-01")
    parser.add_argument("--until", default="2024-10-01")
    parser.add_argument("--parts", type=int, default=9, help="rows of the table")
    parser.add_argument("--per-page", type=float, default=0.01, help="fetches a day and known page")
    args = parser.parse_args()
    begin, end = (
        datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() for day in (args.since, args.until)
    )
    # The virtual clock starts at its own time: the history is shifted to it.
    start = VirtualClock(virtual.VirtualLoop()).wall()
    stop = start + end - begin
    with ProcessPoolExecutor(2) as pool:
        given = (args.repository, start - begin, end - begin)
        futures = {
            policy: pool.submit(crawl, *given, policy=policy, per_page=args.per_page)
            for policy in ("uniform", "value")
        }
        runs = {policy: future.result() for policy, future in futures.items()}
    paths = {row.path for rows in runs.values() for row in rows if row.said}
    known = truth(commits(args.repository, start - begin), Blobs(args.repository), paths, start, stop)
    edges = [start + n * (stop - start) / args.parts for n in range(args.parts + 1)]
    columns = {policy: list(fresh_over_time(known, rows, edges)) for policy, rows in runs.items()}
    changes = sum(len(ats) - 1 for ats in known.times.values())
    print(
        f"{args.per_page:g} fetches a page and day; {len(paths):,} pages, {changes:,} changes of what they say"
    )
    print("from        pages   uniform: fresh  fetches    value: fresh  fetches")
    for n, edge in enumerate(edges[:-1]):
        day = datetime.fromtimestamp(edge - start + begin, UTC).date()
        cells = [f"{100 * row[n][0]:14.1f} {row[n][2]:8,}" for row in columns.values()]
        print(f"{day}  {columns['value'][n][1]:5,}  {'  '.join(cells)}")
    for policy, rows in columns.items():
        mean = sum(row[0] for row in rows) / len(rows)
        print(f"{policy}: {100 * mean:.1f}% fresh, {sum(row[2] for row in rows):,} fetches")
    return 0


if __name__ == "__main__":
    sys.exit(main())
