"""The cost of refetching, content seen, traps and learned rules in a crawl: CPU per page, with and without each.

    python benchmarks/content_cost.py                       some minutes; nginx and the packages of crawl.py
    python benchmarks/content_cost.py --quick               a smoke run
    python benchmarks/content_cost.py --write               also writes docs/benchmarks/content-cost.md

One-shot crawls of the site of benchmarks/crawl.py, each in a separate process, in turn:

    bare            without the page table, and without checking whether anything was learned
    page table      with it: needed by histories, `explain` and refetching
    traps           and with traps by yield
    rules           the page table, with learned rules about URLs applied

Refetching (digests of content, due times, hints) is not part of a one-shot crawl except for the page table.

Two measures. *Ratio*: the CPU (user + system, all threads) per page divided by that of the bare crawl of the same
round, the median of the rounds; on a busy machine it is off by several per cent either way. *Inside*: the CPU of
the loop's thread within the functions of that part, by its own clock, less the cost of reading the clock: hardly
disturbed by other load, but blind to the part's costs elsewhere (memory, bytes of the log). Near duplicates are a
follower of the log (`lycosa duplicates`), and are timed separately, after the crawl.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import msgspec
from crawl import HERE, PROJECT, RESULTS, cores
from crawl_site import Site, pin, site
from crawl_worker import Result, Task
from crawl_worker import crawl as run_crawl

OFF: dict[str, Any] = {"traps": {"quarantine": False}, "variants": {"apply": False}}
WAYS: dict[str, dict[str, Any]] = {
    "bare": OFF,
    "page table": OFF,
    "traps": {**OFF, "traps": {"quarantine": True}},
    "rules": {**OFF, "variants": {"apply": True}},
}


class Measured(msgspec.Struct):
    """The result of one run."""

    result: Result
    inside: dict[str, float] = {}
    """Microseconds per page, by function."""
    duplicates: float = 0.0
    """Microseconds per page of the follower."""

    @property
    def within(self) -> float:
        return sum(self.inside.values())


# -- in the process of a contestant


class Insides:
    """CPU time of this thread within some functions."""

    def __init__(self) -> None:
        self.spent: dict[str, int] = {}

    def watch(self, owner: type, name: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)
        label = f"{owner.__name__}.{name}"
        self.spent[label] = 0

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            before = time.thread_time_ns()
            begun = time.thread_time_ns()
            try:
                return function(*args, **kwargs)
            finally:
                # Reading the clock inside takes about as long as the reading just before.
                self.spent[label] += time.thread_time_ns() - begun - (begun - before)

        setattr(owner, name, timed)

    def clear(self) -> None:
        for label in self.spent:
            self.spent[label] = 0

    def read(self, pages: int) -> dict[str, float]:
        """Microseconds per page."""
        return {label: round(max(spent, 0) / 1000 / pages, 2) for label, spent in self.spent.items()}


def work(way: str, task: Task) -> Measured:
    """Crawl, in this process."""
    from lycosa.content.yields import Yields
    from lycosa.crawl.content_seen import ContentSeen
    from lycosa.crawl.shard import Shard

    pin(task.core)
    insides = Insides()
    if way == "bare":
        owner: Any = ContentSeen
        owner.judged = lambda self, shard, crop: crop
        owner.learn = lambda self, shard: None
        owner.holds = lambda self, shard, waiting: None
        owner = Shard
        owner.note_page = lambda self, record, position: True
    else:
        for name in ("judged", "learn", "holds"):
            insides.watch(ContentSeen, name)
        insides.watch(Shard, "note_page")
        insides.watch(Yields, "note_fetch")
    into = Path(task.into)
    with tempfile.TemporaryDirectory(dir=into.parent) as warm:
        asyncio.run(run_crawl(task, Path(warm), task.warm))
    gc.collect()
    insides.clear()
    result = asyncio.run(run_crawl(task, into, task.pages))
    found = Measured(result, insides.read(result.pages))
    if way == "page table":
        found.duplicates = _duplicates(into)
    return found


def _duplicates(into: Path) -> float:
    """The CPU of `lycosa duplicates` per page."""
    from lycosa.ask.clustering import Clustering
    from lycosa.ask.reading import CrawlReader
    from lycosa.content.main_text import main_text
    from lycosa.content.sketches import sketch

    sketch(main_text(b"<p>What a page says, so that kernels are loaded.").text)
    begun = time.process_time()
    with Clustering(CrawlReader(into)) as clustering:
        pages = clustering.round().pages
    return (time.process_time() - begun) / max(pages, 1) * 1e6


# -- the benchmark


def turn(way: str, served: Site, place: Path, core: int | None, args: argparse.Namespace) -> Measured:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        task = Task(
            kind="lycosa",
            seeds=served.seeds("http"),
            pages=args.pages,
            into=f"{folder}/crawl",
            core=core,
            options=WAYS[way],
        )
        given = json.dumps([way, msgspec.to_builtins(task)])
        command = [sys.executable, str(HERE / "content_cost.py"), "--work", given]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise SystemExit(f"{way} failed:\n{done.stderr[-4000:]}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Measured)


def table(rounds: list[dict[str, Measured]]) -> list[str]:
    """Medians, as a table."""
    lines = ["| crawl | CPU a page, µs | ratio to bare | from, to | inside, µs | of the bare crawl |"]
    lines.append("|---|---|---|---|---|---|")
    bare = statistics.median(each["bare"].result.cpu for each in rounds)
    for way in WAYS:
        ratios = sorted(each[way].result.cpu / each["bare"].result.cpu for each in rounds)
        inside = statistics.median(each[way].within for each in rounds)
        cpu = statistics.median(each[way].result.cpu for each in rounds)
        lines.append(
            f"| {way} | {cpu:,.0f} | {statistics.median(ratios):.3f} | {ratios[0]:.3f}, {ratios[-1]:.3f}"
            f" | {inside:.1f} | {inside / bare:.1%} |"
        )
    return lines


def insides(rounds: list[dict[str, Measured]]) -> list[str]:
    """Where the time within goes."""
    lines = ["| crawl | function | µs a page |", "|---|---|---|"]
    for way in WAYS:
        for label in rounds[0][way].inside:
            spent = statistics.median(each[way].inside.get(label, 0.0) for each in rounds)
            lines.append(f"| {way} | `{label}` | {spent:.1f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="these of them, besides bare: traps,rules")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--cache", type=Path, default=PROJECT / ".bench")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        way, given = json.loads(args.work)
        print(msgspec.json.encode(work(way, msgspec.convert(given, Task))).decode())
        return
    if args.quick:
        args.rounds, args.pages = 1, 500
    for way in list(WAYS):
        if args.only and way != "bare" and way not in args.only.split(","):
            del WAYS[way]
    crawler, server = cores()
    rounds: list[dict[str, Measured]] = []
    loads = []
    with site(args.cache, server) as served, tempfile.TemporaryDirectory(prefix="lycosa-bench-") as place:
        for number in range(args.rounds):
            found: dict[str, Measured] = {}
            for way in WAYS:
                found[way] = turn(way, served, Path(place), crawler, args)
                loads.append(os.getloadavg()[0])
                print(
                    f"round {number + 1}  {way:12} {found[way].result.cpu:7,.0f} µs a page,"
                    f" inside {found[way].within:6.1f}  (load {loads[-1]:.1f})",
                    flush=True,
                )
            rounds.append(found)
    apart = [each["page table"].duplicates for each in rounds if "page table" in each]
    lines = [
        f"{args.rounds} rounds of {args.pages:,} pages of {served.server}; two cores, load"
        f" {min(loads):.1f} to {max(loads):.1f}.",
        "",
        *table(rounds),
        "",
        *(
            [
                f"Near duplicates, a follower and no part of the crawl: {statistics.median(apart):,.0f} µs a page.",
                "",
            ]
            if apart
            else []
        ),
        *insides(rounds),
    ]
    print("\n" + "\n".join(lines))
    if args.write:
        head = "# What content seen costs a crawl\n\n`benchmarks/content_cost.py` says what is compared.\n"
        (RESULTS / "content-cost.md").write_text(head + "\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
