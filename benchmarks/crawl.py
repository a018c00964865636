"""The speed of a crawl compared with Scrapy and a bare floor; the cost of log, archive and TLS; a CPU profile.

    python benchmarks/crawl.py              some four minutes on two quiet cores (`make bench`)
    python benchmarks/crawl.py --quick      a smoke run of less than a minute; its numbers mean nothing
    python benchmarks/crawl.py --write      also writes docs/benchmarks/crawl.md
    python benchmarks/crawl.py --saved DIR  with saved web pages (heavy ones: docs/benchmarks/crawl-saved.md)

A loopback nginx serves real documentation (see `crawl_site`), on one core; each contestant runs in a separate
process on the other (see `crawl_worker`, `crawl_scrapy`). Contestants take turns, A B C A B C ..., for
some rounds; ratios are taken within a round and the median of the rounds is reported, with the extremes.

    lycosa          the crawl: durable log, WARC, robots obeyed, no waits
    scrapy          its fastest broad-crawl settings, storing nothing, on a sample of the same pages
    wget2, spider   compiled crawlers, if their programs are available (see `crawl_peers`)
    floor           fetching and parsing the same pages with the same libraries, nothing else
    no log          the crawl with a log that discards: nothing encoded, written or synced
    no archive      the crawl without WARC
    tls ...         the crawl over TLS: connections kept (HTTP/1.1 and 2), and a new one for every page
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from crawl_peers import peers
from crawl_peers import run as run_peer
from crawl_report import Setting, markdown, text
from crawl_site import Site, site
from crawl_worker import Result, read_urls

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
RESULTS = PROJECT / "docs" / "benchmarks"
TLS = {"tls kept": "tls", "tls kept, http/2": "h2", "tls not kept": "closing"}


def scrapy_python(cache: Path) -> Path | None:
    """The Python of Scrapy's own environment, made if need be."""
    home = cache / "scrapy"
    python = home / "bin" / "python"
    if not (home / ".installed").exists():
        print("installing Scrapy into an environment of its own ...", flush=True)
        venv.create(home, with_pip=True, clear=True)
        command = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "scrapy",
            "uvloop",
        ]
        if subprocess.run(command, check=False).returncode:
            print("Scrapy cannot be installed: it is left out, and so is the ratio to it")
            return None
        (home / ".installed").touch()
    return python


class Bench:
    """Runs contestants and keeps their results."""

    def __init__(self, args: argparse.Namespace, served: Site, place: Path, core: int | None) -> None:
        self._args = args
        self._site = served
        self._place = place
        self._core = core
        self._urls = place / "urls"
        self._sample = place / "sample"
        self._scrapy = None if args.no_scrapy else scrapy_python(args.cache)
        self._peers = {} if args.no_peers else {peer.name: peer for peer in peers(args.cache)}
        self.results: dict[str, list[Result]] = {}

    def contestants(self) -> list[str]:
        names = ["lycosa", "scrapy", *self._peers, "floor", "no log", "no archive"]
        names += [name for name, way in TLS.items() if way in self._site.ports]
        return [name for name in names if name != "scrapy" or self._scrapy is not None]

    def run(self, name: str, **more: Any) -> Result:
        """One turn of one contestant."""
        into = Path(tempfile.mkdtemp(dir=self._place))
        way = TLS.get(name, "http")
        if name in self._peers:
            try:
                return run_peer(self._peers[name], self._site.seeds(way), self._args.pages, into, self._core)
            finally:
                shutil.rmtree(into, ignore_errors=True)
        task: dict[str, Any] = {
            "kind": "floor" if name == "floor" else "lycosa",
            "seeds": self._site.seeds(way),
            "pages": self._args.pages,
            "into": str(into / "crawl"),
            "core": self._core,
            **more,
        }
        command = [sys.executable, str(HERE / "crawl_worker.py")]
        if name == "scrapy":
            command = [str(self._scrapy), str(HERE / "crawl_scrapy.py")]
            task["urls"] = str(self._sample)
        elif name in ("lycosa", "floor"):
            task["urls"] = str(self._urls)
        elif name in ("no log", "no archive"):
            task["without"] = name.removeprefix("no ")
        elif name in TLS:
            task |= {"ca_file": self._site.ca_file, "http2": way == "h2"}
            if way == "closing":
                task["pages_per_visit"] = 1
        try:
            done = subprocess.run([*command, json.dumps(task)], capture_output=True, text=True, check=False)
        finally:
            shutil.rmtree(into, ignore_errors=True)
        if done.returncode or not done.stdout.strip():
            raise SystemExit(f"{name} failed:\n{done.stderr[-4000:]}")
        result = msgspec.json.decode(done.stdout.splitlines()[-1], type=Result)
        if name == "lycosa" and not self._sample.exists():
            self._draw_sample()
        return result

    def _draw_sample(self) -> None:
        """Of every k pages, by size, choose the one nearest to their mean: a sample with the mean of all."""
        pages = sorted(read_urls(self._urls))
        count = min(self._args.scrapy_pages, len(pages))
        edges = [len(pages) * n // count for n in range(count + 1)]
        chosen = []
        for start, end in pairwise(edges):
            group = pages[start:end]
            mean = sum(size for size, _ in group) / len(group)
            chosen.append(min(group, key=lambda page: abs(page[0] - mean))[1])
        random.Random(1).shuffle(chosen)
        self._sample.write_text("\n".join(chosen), encoding="ascii")

    def rounds(self) -> None:
        for number in range(self._args.rounds):
            for name in self.contestants():
                result = self.run(name)
                self.results.setdefault(name, []).append(result)
                print(
                    f"round {number + 1}  {name:18} {result.rate:8,.0f} pages/s {result.cpu:9,.0f} µs/page",
                    flush=True,
                )


def setting(served: Site, core: int | None, args: argparse.Namespace) -> Setting:
    """The environment of the measurements."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = named[0].partition(":")[2].strip() if named else cpu
    return Setting(
        machine=f"{cpu}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        python=f"Python {platform.python_version()}",
        server=served.server,
        packages=served.packages,
        hosts=len(served.hosts),
        pinned=core is not None,
        date=time.strftime("%Y-%m-%d"),
        rounds=args.rounds,
        load=os.getloadavg()[0],
        quick=args.quick,
    )


def cores() -> tuple[int | None, int | None]:
    """The contestants' core and the server's."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    mine = sorted(os.sched_getaffinity(0))
    return mine[0], mine[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pages", type=int, default=6000, help="of every contestant but Scrapy (6000)")
    parser.add_argument("--scrapy-pages", type=int, default=600, help="of these, for Scrapy (600)")
    parser.add_argument("--no-scrapy", action="store_true")
    parser.add_argument("--no-peers", action="store_true", help="without wget2 and spider")
    parser.add_argument("--quick", action="store_true", help="one round of few pages, to see that it works")
    parser.add_argument("--write", action="store_true", help="write the results into docs/benchmarks")
    parser.add_argument(
        "--cache", type=Path, default=PROJECT / ".bench", help="packages, Scrapy, crawls (.bench)"
    )
    parser.add_argument("--saved", type=Path, metavar="DIR", help="of saved pages: .html or .html.gz")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.pages, args.scrapy_pages = 1, 1000, 100
    args.cache.mkdir(parents=True, exist_ok=True)
    crawler, server = cores()
    if crawler is not None and crawler == server:
        print("one core only: server and contestants share it, and all numbers are lower for it")
    with (
        site(args.cache, server, saved=args.saved) as served,
        tempfile.TemporaryDirectory(prefix="run-", dir=args.cache) as place,
    ):
        about = setting(served, crawler, args)
        print(f"{about.server}; {about.machine}; load {about.load:.1f}")
        if about.load > 0.5:
            print("this machine is not quiet: the numbers do not count")
        bench = Bench(args, served, Path(place), crawler)
        bench.rounds()
        profiled = bench.run("lycosa", profile=True)
    print()
    print(text(about, bench.results, profiled))
    if args.write:
        results = RESULTS / ("crawl.md" if args.saved is None else "crawl-saved.md")
        results.write_text(markdown(about, bench.results, profiled), encoding="utf-8")
        print(f"written: {results.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
