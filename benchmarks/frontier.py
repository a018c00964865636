"""The frontier, measured: how fast, how independent of size, how small.

    python benchmarks/frontier.py            to 10 million URLs on a million hosts: 10 minutes, 1 GB of RAM
    python benchmarks/frontier.py --quick    small sizes, a minute
    python benchmarks/frontier.py --write    also writes docs/benchmarks/frontier.{md,png,json}

Each size has a separate process. Times are CPU seconds of that process, on one core. What is measured:

- offers: `put` of the new links of pages, 10 per page, four in five on the page's own host, the others on any;
- takes: visits of up to 8 pages: `begin`, 8 times `take` and `done`, `end`; per URL, all of that included;
- with as many URLs pending as the size says, ten per host, after they were put in that same way;
- bytes: `nbytes` of the frontier, which counts every array whole; real URLs are the trees of documentation that
  `benchmarks/crawl_site.py` unpacks to .bench/, in the order in which a breadth-first crawl finds them.
"""

from __future__ import annotations

import argparse
import json
import platform
import posixpath
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lycosa.clock import ManualClock
from lycosa.crawl.warming import warm as compile_kernels
from lycosa.frontier import BiasedOrder, DepthOrder, LengthOrder, Levels, Order, PackedFrontier
from lycosa.frontier.packed.store import BLOCK, QUEUE
from lycosa.records import Waiting
from lycosa.url.key import Keyer

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from crawl_site import SiteError, unpack  # noqa: E402

SIZES = [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000]
PER_HOST = 10
LINKS = 10
VISIT = 8
WORDS = ["about", "news", "article", "category", "blog", "post", "archive", "docs", "guide", "forum"]
ORDERS: dict[str, tuple[Callable[[], Order], int]] = {  # and how many back queues
    "depth": (DepthOrder, 0),
    "depth, 300 back queues": (DepthOrder, 300),
    "length": (LengthOrder, 0),
    "length, 300 back queues": (LengthOrder, 300),
    "biased, 300 back queues": (lambda: BiasedOrder(16), 300),
}


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def pages(hosts: int, rng: random.Random) -> Iterator[list[Waiting]]:
    """New links of an endless sequence of pages: hosts with sections, titles and numbers."""
    n = 0
    while True:
        own, depth, n = n % hosts, rng.randrange(3), n + 1
        links = []
        for _ in range(LINKS):
            host = own if rng.random() < 0.8 else rng.randrange(hosts)
            section = WORDS[(host + rng.randrange(3)) % 10]
            title = f"{rng.choice(WORDS)}-{rng.choice(WORDS)}-{rng.randrange(10**6)}"
            links.append(Waiting(f"https://www.site-{host:07d}.org/{section}/{title}.html", 0, depth))
        yield links


class Timer:
    """CPU seconds inside, and the longest single interval in milliseconds of wall-clock time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.longest = 0.0

    def __enter__(self) -> None:
        self._clock, self._cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.process_time() - self._cpu
        self.longest = max(self.longest, (time.perf_counter() - self._clock) * 1000)


def offer(frontier: PackedFrontier, links: Iterator[list[Waiting]], number: int) -> Timer:
    timer = Timer()
    for _ in range(0, number, 1000):
        batch = [next(links) for _ in range(1000 // LINKS)]
        levels = [[link.depth for link in page] for page in batch]
        with timer:
            for page, level in zip(batch, levels, strict=True):
                frontier.put(page, level)
    return timer


def take(frontier: PackedFrontier, number: int) -> tuple[Timer, int]:
    timer = Timer()
    taken = visits = 0
    while taken < number:
        with timer:
            for _ in range(100):
                now = visits / 100
                host = frontier.begin(now)
                if host is None:
                    break
                visits += 1
                for _ in range(VISIT):
                    item = frontier.take(host)
                    if item is None:
                        break
                    frontier.done(item.key)
                    taken += 1
                frontier.end(host, now + 60.0)
        if host is None and taken < number:
            raise SystemExit("no host was ready: the size is too small")
    return timer, taken


def speed(size: int, order: str) -> dict[str, Any]:
    """One size, one order."""
    make, back_queues = ORDERS[order]
    frontier = PackedFrontier(ManualClock(), make(), 1, back_queues=back_queues)
    load()
    links = pages(size // PER_HOST, random.Random(size))
    filled = offer(frontier, links, size)
    number = min(max(size // 4, 5_000), 200_000)
    offered = offer(frontier, links, number)
    held, used = frontier.nbytes, frontier.used
    bytes_per_url = held / frontier.pending
    taken, count = take(frontier, number)
    return {
        "size": size,
        "order": order,
        "hosts": frontier.hosts,
        "offers": number / offered.seconds,
        "takes": count / taken.seconds,
        "fill": size / filled.seconds,
        "longest_100_puts": max(filled.longest, offered.longest),
        "bytes": bytes_per_url,
        "used": used / held,
        "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def load() -> None:
    """Load the kernels."""
    frontier = PackedFrontier(ManualClock(), BiasedOrder(4), 1, back_queues=2)
    offer(frontier, pages(10, random.Random(0)), 1000)
    take(frontier, 50)
    for _ in frontier.relevel(Levels(np.zeros(0, np.uint64), np.zeros(0, np.uint8), 1)):
        pass


def relevel(size: int) -> dict[str, Any]:
    """New levels for every URL."""
    frontier = PackedFrontier(ManualClock(), None, 1)
    load()
    keyer, keys = Keyer(1), []
    links = pages(max(size // 100, 1), random.Random(size))
    while frontier.pending < size:
        page = next(links)
        frontier.put(page, [link.depth for link in page])
        keys += [keyer.key(link.url) for link in page]
    table = np.unique(np.array(keys, np.uint64))
    levels = np.random.default_rng(1).integers(0, 16, len(table)).astype(np.uint8)
    timer = Timer()
    steps = frontier.relevel(Levels(table, levels, -1))
    moved = 0
    while True:
        with timer:
            step = next(steps, None)
        if step is None:
            break
        moved += step
    return {"size": moved, "seconds": timer.seconds, "longest": timer.longest}


def host_bytes(hosts: int) -> dict[str, Any]:
    """Bytes of a host apart from its URLs: its row, its places in heaps and table, a name of 20 bytes."""
    frontier = PackedFrontier(ManualClock(), None, 1, back_queues=300)
    for at in range(0, hosts, 1000):
        items = [Waiting(f"http://www.site-{n:07d}.org/", 0, 0) for n in range(at, at + 1000)]
        frontier.put(items, [0] * len(items))
    store = frontier._queues.store
    queues = store.length("queues") * QUEUE.itemsize + store.length("links") * (BLOCK + 4)
    return {"hosts": hosts, "host": (frontier.nbytes - queues) / hosts, "queue": queues / hosts}


def documentation(root: Path, first: str, most: int) -> Iterator[tuple[int, list[str]]]:
    """The new links of each page of a tree, by path, breadth-first, and their depth."""
    queue = [(first, 0)]
    seen = {first}
    for path, depth in queue:
        if not path.endswith((".html", ".htm")):
            continue
        text = (root / path).read_text("utf-8", "replace")
        new = []
        for href in re.findall(r'(?:href|src)="([^"#?:]+)', text):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), href))
            if target not in seen and target.isascii() and (root / target).is_file():
                seen.add(target)
                new.append(target)
        queue += [(target, depth + 1) for target in new]
        yield depth + 1, new
        if len(queue) > most:
            return


def real_bytes(place: Path, most: int) -> list[dict[str, Any]]:
    """Bytes of real URLs: a tree as one host, and cut into hosts of 100 URLs each."""
    rows = []
    try:
        trees = unpack(place)
    except SiteError as missing:
        say(f"no real URLs: {missing}")
        return []
    for package, root in trees.items():
        links = list(documentation(root, package.root, most))
        number = sum(len(new) for _, new in links)
        if number < 500:
            continue
        length = sum(len(path) for _, new in links for path in new) / number
        row: dict[str, Any] = {"tree": package.debian, "urls": number, "length": length + 28}
        for name, per_host in (("whole", number), ("hundreds", 100)):
            frontier = PackedFrontier(ManualClock(), None, 1)
            count = 0
            for depth, new in links:
                urls = [
                    f"https://docs{(count + n) // per_host:05d}.example.org/{p}" for n, p in enumerate(new)
                ]
                count += len(new)
                frontier.put([Waiting(url, 0, depth) for url in urls], [min(depth, 255)] * len(urls))
            store = frontier._queues.store
            queues = store.length("queues") * QUEUE.itemsize + store.length("links") * (BLOCK + 4)
            row[name] = queues / frontier.pending
            row[f"{name}_all"] = frontier.nbytes / frontier.pending
        rows.append(row)
    return rows


def apart(*arguments: str) -> Any:
    """Run a part in a separate process."""
    command = [sys.executable, str(HERE / "frontier.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def report(result: dict[str, Any]) -> str:
    """The tables as Markdown."""
    lines = [
        "# The frontier: measurements",
        "",
        "Made by `python benchmarks/frontier.py --write`, which states what is measured. Times are CPU seconds of",
        "one core.",
        f"Machine: {result['machine']}. Time: {result['when']}.",
        "",
        "## Speed",
        "",
        "| pending | hosts | order | offers/s | takes/s | µs per offer | µs per take | bytes/URL, hosts included |",
        "|--:|--:|:--|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row['size']:,} | {row['hosts']:,} | {row['order']} | {row['offers']:,.0f} | {row['takes']:,.0f} "
        f"| {1e6 / row['offers']:.2f} | {1e6 / row['takes']:.2f} | {row['bytes']:.1f} |"
        for row in result["speed"]
    ]
    moved, host = result["relevel"], result["host"]
    lines += [
        "",
        "![cost by size](frontier.png)",
        "",
        "## New levels for all URLs",
        "",
        f"{moved['size']:,} URLs in {moved['seconds']:.2f} s, the longest step {moved['longest']:.1f} ms.",
        "",
        "## Bytes",
        "",
        f"A host: {host['host']:.1f} bytes ({host['hosts']:,} hosts, names of 20 bytes), and {host['queue']:.1f} "
        "for the queue of a single URL.",
        "",
        "Waiting URLs of real trees, bytes per URL: their queues alone; and everything (hosts, buffers, spare).",
        "",
        "| tree | URLs | length | one host | everything | 100 a host | everything |",
        "|:--|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row['tree']} | {row['urls']:,} | {row['length']:.0f} | {row['whole']:.1f} | {row['whole_all']:.1f} "
        f"| {row['hundreds']:.1f} | {row['hundreds_all']:.1f} |"
        for row in result["real"]
    ]
    lines.append("")
    return "\n".join(lines)


def plot(rows: list[dict[str, Any]], out: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4))
    axes = figure.add_subplot()
    points = [row for row in rows if row["order"] == "depth"]
    for name, label in (("offers", "offer"), ("takes", "take, with its share of a visit")):
        axes.plot(
            [row["size"] for row in points], [1e6 / row[name] for row in points], marker="o", label=label
        )
    axes.set(xlabel="URLs pending (ten a host)", ylabel="CPU microseconds", xscale="log", ylim=(0, None))
    axes.legend()
    axes.grid(alpha=0.3)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "frontier.png", dpi=120, bbox_inches="tight")


def machine() -> str:
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{name}, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--write", action="store_true", help="write the results to --out")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "benchmarks")
    parser.add_argument("--docs", type=Path, default=HERE.parent / ".bench", help="trees of documentation")
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        name, *rest = args.part
        parts: dict[str, Callable[..., Any]] = {"speed": speed, "relevel": relevel, "host": host_bytes}
        print(json.dumps(parts[name](int(rest[0]), *rest[1:])))
        return
    compile_kernels()
    sizes = SIZES[:3] if args.quick else SIZES
    result: dict[str, Any] = {"machine": machine(), "when": time.strftime("%Y-%m-%d"), "speed": []}
    for size in sizes:
        result["speed"].append(apart("--part", "speed", str(size), "depth"))
        say(str(result["speed"][-1]))
    for order in list(ORDERS)[1:]:
        result["speed"].append(apart("--part", "speed", str(sizes[-1] if args.quick else 1_000_000), order))
        say(str(result["speed"][-1]))
    result["relevel"] = apart("--part", "relevel", str(100_000 if args.quick else 1_000_000))
    result["host"] = apart("--part", "host", str(20_000 if args.quick else 1_000_000))
    result["real"] = real_bytes(args.docs, 5_000 if args.quick else 10**6)
    text = report(result)
    print(text)
    if args.write:
        plot(result["speed"], args.out)
        (args.out / "frontier.md").write_text(text, encoding="utf-8")
        (args.out / "frontier.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
        say(f"written: {args.out / 'frontier.md'}")


if __name__ == "__main__":
    main()
