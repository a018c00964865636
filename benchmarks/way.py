"""The cost of a page in a crawl without network and disk: CPU, and calls, which do not depend on other load.

    python benchmarks/way.py                          the packages of `crawl.py`, 3,000 pages
    python benchmarks/way.py --against ../other       compared with another checkout, in turn
    python benchmarks/way.py --calls                  calls of Python and of C per page, by function
    python benchmarks/way.py --profile                CPU by room and function

An agent crawls the documentation packages of `crawl.py`, laid out on 16 hosts as there, answered from memory in
the same task; the log discards, and nothing is archived. So this is the path of a page and its links alone: visit,
robots, scanner, memo, keys, scope, seen, admission, frontier. CPU is that of the loop's thread, the least of the
rounds: other load on the machine only adds to it. Calls are counted by the interpreter's own hook in a separate
crawl.
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
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from crawl_site import LAYOUT, unpack
from crawl_worker import forget_log

from lycosa.clock import SystemClock
from lycosa.crawl.agent import Agent, build
from lycosa.crawl.config import read_options
from lycosa.crawl.warming import warm
from lycosa.fetch.protocol import Request, Response
from lycosa.files import DiskFiles
from lycosa.lab.network import ScriptedFetchers, ScriptedResolver
from lycosa.records import Timing

PROJECT = Path(__file__).resolve().parent.parent
_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: nginx\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: 1\r\n\r\n"
)
_NO = b"HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\n\r\n"
_ROBOTS = b"User-agent: *\nDisallow: /private/\nAllow: /\n"
_OTHER = {
    ".css": b"text/css",
    ".js": b"text/javascript",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".txt": b"text/plain",
    ".xml": b"application/xml",
}


class Served:
    """A fetcher that has everything in memory, or reads it once."""

    schemes = frozenset(("http",))
    needs_address = True

    def __init__(self, cache: Path) -> None:
        self._roots = {package.name: directory for package, directory in unpack(cache).items()}
        rows = [names for count, names in LAYOUT for _ in range(count)]
        self.hosts = [f"h{n}.s{n}.test" for n in range(len(rows))]
        self._index = {
            host: b"<!doctype html><title>index</title><h1>Documentation</h1>"
            + b"".join(
                b'<p><a href="/%s/%s">%s</a>' % (p.name.encode(), p.root.encode(), p.name.encode())
                for p in unpack(cache)
                if p.name in names
            )
            for host, names in zip(self.hosts, rows, strict=True)
        }
        self._kept: dict[str, tuple[int, bytes, bytes]] = {}

    async def fetch(self, request: Request) -> Response:
        status, head, body = self._answer(request.url)
        return Response(request.url, status, "1.1", b"", head, body, body, _TIMING, "127.0.0.1")

    def _answer(self, url: str) -> tuple[int, bytes, bytes]:
        _, _, host, path = url.split("/", 3)
        if not path:
            return 200, _HEAD, self._index[host]
        if path == "robots.txt":
            return 200, _HEAD.replace(b"text/html", b"text/plain"), _ROBOTS
        found = self._kept.get(path)
        if found is None:
            found = self._kept[path] = self._read(path.partition("?")[0])
        return found

    def _read(self, path: str) -> tuple[int, bytes, bytes]:
        name, _, inside = path.partition("/")
        place = self._roots.get(name, Path("/nowhere")) / inside
        if place.is_dir():
            place /= "index.html"
        if not place.is_file():
            return 404, _NO, b""
        kind = _OTHER.get(
            place.suffix, b"text/html" if "htm" in place.suffix else b"application/octet-stream"
        )
        return 200, _HEAD.replace(b"text/html", kind), place.read_bytes()

    async def close(self) -> None:
        pass

    def let_go(self, host: str) -> None:
        pass


_TIMING = Timing()


def open_crawl(into: Path, served: Served, pages: int) -> Agent:
    options = {
        "public": False,
        "allow": ["127.0.0.0/8"],
        "archive": {"keep": False},
        "politeness": {"wait": 0.0, "factor": 0.0, "address_wait": 0.0, "pages_per_visit": 1_000_000_000},
        "limits": {"pages": pages},
        "snapshot": {"records": 1 << 40, "seconds": 1e9},
    }
    addresses = {host: f"127.0.0.{n + 1}" for n, host in enumerate(served.hosts)}
    return build(
        DiskFiles(into),
        read_options(options),
        [f"http://{host}/" for host in served.hosts],
        shards=1,
        hash_seed=7,
        clock=SystemClock(),
        fetchers=ScriptedFetchers(served),
        resolver=ScriptedResolver(addresses),
    )


class Calls:
    """Counts calls in this thread."""

    def __init__(self) -> None:
        self.python: Counter[Any] = Counter()
        self.c: Counter[str] = Counter()

    def note(self, frame: FrameType, event: str, what: Any) -> None:
        if event == "call":
            self.python[frame.f_code] += 1
        elif event == "c_call":
            code = frame.f_code
            self.c[
                f"{Path(code.co_filename).name}:{code.co_name} > {getattr(what, '__qualname__', what)}"
            ] += 1


def crawl(served: Served, pages: int, how: str = "") -> dict[str, Any]:
    """One crawl: CPU microseconds per page, and the additional data that `how` asks for."""
    with tempfile.TemporaryDirectory() as folder:
        agent = open_crawl(Path(folder), served, pages)
        calls, sampler = Calls(), None
        gc.collect()
        if how == "profile":
            from crawl_sampler import Sampler

            sampler = Sampler()
            sampler.start()
        if how == "calls":
            sys.setprofile(calls.note)
        began = time.thread_time()
        asyncio.run(agent.run())
        took = time.thread_time() - began
        sys.setprofile(None)
        found = sampler.stop() if sampler is not None else None
        said: dict[str, Any] = {"cpu": took / pages * 1e6, "links": agent.shards[0].totals.links}
        if how == "calls":
            said["python"] = {
                f"{Path(code.co_filename).name}:{code.co_qualname}": count
                for code, count in calls.python.items()
            }
            said["c"] = dict(calls.c)
        if found is not None:
            said["rooms"], said["functions"] = found.rooms, found.functions
            said["lines"] = found.lines
        return said


def one(cache: Path, pages: int, rounds: int, how: str) -> None:
    """In a separate process: the last line is the result, in JSON."""
    forget_log()
    warm()
    served = Served(cache)
    crawl(served, pages)
    found = [crawl(served, pages) for _ in range(rounds)]
    said = min(found, key=lambda each: each["cpu"])
    if how:
        said = crawl(served, pages, how) | {"cpu": said["cpu"]}
    print(json.dumps(said))


def run(root: Path, args: argparse.Namespace, how: str) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).resolve()), "--one", how or "cpu"]
    command += ["--pages", str(args.pages), "--cache", str(args.cache), "--within", str(args.within)]
    path = f"{root}:{PROJECT / 'benchmarks'}"
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, check=True)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def _most(counts: dict[str, float], pages: int, most: int, unit: str) -> None:
    rows = sorted(counts.items(), key=lambda row: -row[1])[:most]
    for name, count in rows:
        print(f"{count / pages:9.2f} {unit}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=5, help="processes of each contestant, in turns")
    parser.add_argument("--within", type=int, default=3, help="crawls in each of them")
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--cache", type=Path, default=PROJECT / ".bench")
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--most", type=int, default=60, help="lines of a list")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args.cache, args.pages, args.within, "" if args.one == "cpu" else args.one)
        return
    if args.calls or args.profile:
        said = run(PROJECT, args, "calls" if args.calls else "profile")
        if args.calls:
            python, c = sum(said["python"].values()), sum(said["c"].values())
            print(f"{python / args.pages:.1f} calls of Python and {c / args.pages:.1f} of C a page")
            _most(said["python"], args.pages, args.most, "Python")
            _most(said["c"], args.pages, args.most, "C     ")
        else:
            _most({name: took * 1e6 for name, took in said["rooms"].items()}, args.pages, 99, "µs")
            _most({name: took * 1e6 for name, took in said["functions"].items()}, args.pages, args.most, "µs")
        print(f"{said['cpu']:.0f} µs a page, {said['links'] / args.pages:.1f} links")
        return
    roots = {"this": PROJECT} | ({"other": args.against.resolve()} if args.against else {})
    took: dict[str, list[float]] = {name: [] for name in roots}
    for _ in range(args.rounds):
        for name, root in roots.items():
            took[name].append(run(root, args, "")["cpu"])
        print("  ".join(f"{name} {rows[-1]:.0f}" for name, rows in took.items()), flush=True)
    for name, rows in took.items():
        print(f"{name}: {min(rows):.0f} µs a page at least, {statistics.median(rows):.0f} in the median")
    if args.against:
        pairs = [a / b for a, b in zip(*took.values(), strict=True)]
        print(f"this : other = {statistics.median(pairs):.3f} ({min(pairs):.3f} to {max(pairs):.3f})")


if __name__ == "__main__":
    main()
