"""Is the cost of a page independent of the number of known URLs, and that of a large page proportional to its size?

    python benchmarks/flat.py                    some minutes, 1 GB of memory at ten million URLs
    python benchmarks/flat.py --known 1000,100000
    python benchmarks/flat.py --write            also writes docs/benchmarks/flat.md

**Known**: a shard's seen set is filled with so many keys (1 thousand to 10 million). Then pages are appended to its
log, each with 43 links, of which six are new, eight lead out of the scope and the others are known: the log, the
page table, the caches, the seen set and the frontier process each as in a crawl. Nothing is fetched, and
nothing is synced. Reported is the CPU of the loop's thread per page, the median of five parts of the pages.

**Large**: pages with many links, with much text, with tags that are never closed, with one endless attribute; each
is read with its links resolved and packed, as in a crawl. Reported is the CPU per page and per byte.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
from holds import open_agent

from lycosa.meters import Meters
from lycosa.page.linking import Linker, undeferred
from lycosa.page.protocol import Limits
from lycosa.page.scan import ScanParser
from lycosa.records import Fetched, Link, LinkKind, Links, Timing
from lycosa.url.hrefs import HrefMemo
from lycosa.url.key import Keyer
from lycosa.url.memo import LinkMemo
from lycosa.url.rules import NO_RULES

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = PROJECT / "docs" / "benchmarks" / "flat.md"
KNOWN = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SIZES = (1_000, 10_000, 100_000)
_PARTS = 5


def pages(count: int, seed: int) -> Iterator[Fetched]:
    """Pages as described in the module's text."""
    random = Random(seed)
    hosts = [f"h{n}.test" for n in range(400)]
    known: list[str] = [f"http://{host}/" for host in hosts]
    outside = [f"http://far{n}.example/" for n in range(200)]
    for number in range(count):
        host = random.choice(hosts)
        new = [f"http://{host}/s{seed}/p{number}/{n}" for n in range(6)]
        rest = random.choices(known[-20_000:], k=29)
        urls = dict.fromkeys([*rest, *random.choices(outside, k=8), *new])
        known += new
        links = Links.pack(Link(url, LinkKind.ANCHOR, False, "a text") for url in urls)
        url = f"http://{host}/s{seed}/page/{number}"
        yield Fetched(1, url, 1, 0, 0, 200, "text/html", "", 1, 1, number + 1, Timing(), "127.0.0.1", links)


def with_known(count: int, appended: int) -> float:
    """Microseconds of CPU per page, with so many URLs known."""
    with tempfile.TemporaryDirectory() as folder:
        agent = open_agent(Path(folder), 1, {"mode": "domain", "include_domains": ["test"]})
        shard = agent.shards[0]
        random = np.random.default_rng(1)
        for start in range(0, count, 1_000_000):
            shard.links.received.mark(random.integers(0, 1 << 63, min(count - start, 1_000_000), np.uint64))
        for record in pages(500, 1):
            shard.append(record)
        took = []
        for part in range(_PARTS):
            rows = list(pages(appended // _PARTS, 2 + part))
            began = time.thread_time()
            for record in rows:
                shard.append(record)
            took.append((time.thread_time() - began) / len(rows) * 1e6)
        return statistics.median(took)


def _links(size: int) -> bytes:
    return b"<title>many links</title>" + b"".join(
        b'<a href="/p/%d">link %d</a>\n' % (n, n) for n in range(size)
    )


def _text(size: int) -> bytes:
    return b"<title>much text</title><p>" + b"words of a text that has no end " * (size * 100 // 32)


def _unclosed(size: int) -> bytes:
    return b"<title>unclosed</title>" + b"<div>" * (size * 10)


def _attribute(size: int) -> bytes:
    return b'<title>an attribute</title><a href="' + b"x" * (size * 100)


SHAPES: dict[str, Callable[[int], bytes]] = {
    "links": _links,
    "100 bytes of text": _text,
    "ten unclosed tags": _unclosed,
    "100 bytes of one attribute": _attribute,
}


def read_cost(harvest: Callable[[bytes], object], body: bytes) -> float:
    """Microseconds of CPU to read a page: the least of three runs."""
    took = []
    for _ in range(3):
        began = time.thread_time()
        harvest(body)
        took.append((time.thread_time() - began) * 1e6)
    return min(took)


def reader() -> Callable[[bytes], object]:
    """A function that reads a page as a crawl does, links included."""
    limits = Limits(body=64 << 20, links=200_000)
    parser, keyer = ScanParser(limits, deferred=True), Keyer(7)
    linker = Linker(
        LinkMemo(1 << 20, keyer), HrefMemo(1 << 16, NO_RULES, Meters()), keyer, NO_RULES, limits, Meters()
    )

    def read(body: bytes) -> object:
        page = parser.parse(body, "http://h.test/", "text/html", "utf-8")
        links = linker.links(page, "http://h.test/")
        return links if links is not None else undeferred(page, limits)

    return read


def report(known: dict[int, float], large: dict[str, list[tuple[int, int, float]]]) -> str:
    """Both tables, in Markdown."""
    lines = ["# Is the cost flat?", "", "```", "python benchmarks/flat.py --write", "```", ""]
    lines += ["## Known URLs", "", "| known | CPU µs per page | times that of the first |", "|---|---|---|"]
    first = next(iter(known.values()))
    lines += [f"| {count:,} | {cost:,.0f} | {cost / first:.2f} |" for count, cost in known.items()]
    lines += [
        "",
        "## Large pages",
        "",
        "| of | how many | bytes | CPU ms per page | ns per byte |",
        "|---|---|---|---|---|",
    ]
    for name, rows in large.items():
        lines += [
            f"| {name} | {size:,} | {length:,} | {cost / 1000:,.1f} | {cost * 1000 / length:.1f} |"
            for size, length, cost in rows
        ]
    load = os.getloadavg()[0]
    about = f"Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}, load {load:.0f}."
    return "\n".join([*lines, "", about, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--known", default=",".join(map(str, KNOWN)), help="how many URLs are known, with commas"
    )
    parser.add_argument("--pages", type=int, default=5_000, help="appended with each")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/flat.md")
    args = parser.parse_args()
    known = {}
    for count in map(int, args.known.split(",")):
        known[count] = with_known(count, args.pages)
        print(f"{count:>12,} URLs known: {known[count]:6.0f} µs per page", flush=True)
    read = reader()
    read(_links(10))
    large: dict[str, list[tuple[int, int, float]]] = {}
    for name, shape in SHAPES.items():
        for size in SIZES:
            body = shape(size)
            cost = read_cost(read, body)
            large.setdefault(name, []).append((size, len(body), cost))
            print(
                f"{name:28} {size:>8,}: {cost / 1000:8.1f} ms, {cost * 1000 / len(body):6.1f} ns per byte",
                flush=True,
            )
    if args.write:
        RESULTS.write_text(report(known, large), encoding="utf-8")
        print(f"written: {RESULTS.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
