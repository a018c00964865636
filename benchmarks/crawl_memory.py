"""The memory of a crawl with a million pending URLs, and the cost of recovery and of snapshots.

    python benchmarks/crawl_memory.py               some three minutes
    python benchmarks/crawl_memory.py --quick       a tenth of everything, to see that it works
    python benchmarks/crawl_memory.py --write       also writes docs/benchmarks/crawl-memory.md

    crawled     pages of 1,000 links each are crawled from nginx on 16 hosts until a million URLs are pending;
                then the process's memory is read (/proc), and once more at its peak while the crawl stops
                (last commit and snapshot). The URLs are those of the documentation, under other prefixes, in
                runs of ten neighbours: packed queues profit from neighbours, and real pages link to them
    random      the same in random order: the worst case
    mixed       as `crawled`, with pages of the documentation among them, some of them of megabytes
    hosts       the same number of URLs on 20,000 hosts, given as seeds: the host tables' share
    recovery    a crawl of the documentation, without a snapshot, ends by SIGKILL; another process opens it.
                The time to open it is given per million pages.

Targets: in total under 250 MB and at most 64 bytes per pending URL; a snapshot adds at most 10% of the
memory; recovery takes at most 30 s per million pages since the last snapshot. Two figures are given for the
bytes per pending URL: the frontier's own count, and by how much the process, seen set and all, is
larger than one that has crawled a few pages and has little pending.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from crawl_site import Site, SiteError, pin, site
from crawl_worker import Task, crawl, crawl_options

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
RESULTS = PROJECT / "docs" / "benchmarks" / "crawl-memory.md"
LINKS = 1000
RUN = 10
HOSTS = 16
NEVER = {"records": 1 << 60, "seconds": 1e9}


# -- what is measured, each in a process of its own


def memory() -> dict[str, int]:
    """This process's resident bytes now and at their peak."""
    rows = dict(
        line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line
    )
    return {"now": int(rows["VmRSS"].split()[0]) * 1024, "peak": int(rows["VmHWM"].split()[0]) * 1024}


def forget_peak() -> None:
    """Reset the peak to the current value."""
    Path("/proc/self/clear_refs").write_text("5")


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition by polling: meters announce nothing."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def _gauges(agent: Any) -> dict[str, float]:
    read: dict[str, float] = agent.meters.read()
    return read


async def crawled(task: Task) -> dict[str, Any]:
    """Crawl so many pages, then stop; the memory before and during that stop's snapshot."""
    from lycosa.crawl.agent import build
    from lycosa.crawl.config import read_options
    from lycosa.files import DiskFiles

    into = Path(task.into)
    options = crawl_options(task, 0)
    options["politeness"]["pages_per_visit"] = 4  # so that a pause takes effect soon
    options["snapshot"] = NEVER
    agent = build(DiskFiles(into / "crawl"), read_options(options), task.seeds)
    run = asyncio.create_task(agent.run())
    await until(lambda: run.done() or _enough(agent, task))
    agent.pause()
    await until(lambda: run.done() or not _gauges(agent)["visits.active"])
    return await _stopped(agent, run, into)


def _enough(agent: Any, task: Task) -> bool:
    gauges = _gauges(agent)
    return gauges.get("fetch.pages", 0) >= task.pages and gauges["frontier.pending"] >= task.pending


async def many_hosts(task: Task) -> dict[str, Any]:
    """The same number of URLs on many hosts, given as seeds."""
    from lycosa.clock import SystemClock, milliseconds
    from lycosa.crawl.agent import build
    from lycosa.crawl.config import read_options
    from lycosa.crawl.manifest import domains_of
    from lycosa.crawl.splitting import Splitter
    from lycosa.files import DiskFiles
    from lycosa.records import LinkKind, Links, Seeded

    into = Path(task.into)
    options = crawl_options(task, 0) | {"scope": {"mode": "any"}, "snapshot": NEVER}
    files = DiskFiles(into / "crawl")
    agent = build(files, read_options(options), ["http://seed.example/"])
    splitter = Splitter(len(agent.shards), domains_of(files))
    per_host = 50
    urls = paths(task.root, 100_000)
    now = milliseconds(SystemClock())
    for number in range(task.pages // per_host):
        host = f"www.site-{number}.example"
        start = number * per_host % len(urls)
        here = urls[start : start + per_host]
        data = "\n".join(f"http://{host}{path}" for path in here).encode("ascii")
        shard = agent.shards[splitter.shard_of(host)]
        shard.append(Seeded(now, Links(data, bytes([LinkKind.SEED]) * per_host)))
        if number % 500 == 499:
            for each in agent.shards:
                each.log.commit()
    agent.pause()
    run = asyncio.create_task(agent.run())
    return await _stopped(agent, run, into)


async def _stopped(agent: Any, run: asyncio.Task[Any], into: Path) -> dict[str, Any]:
    """The memory of a paused crawl, and at its peak while it stops, which writes a snapshot."""
    await asyncio.sleep(1.0)  # a commit
    gc.collect()
    found = _measured(agent)
    forget_peak()
    agent.stop()
    await run
    found["rss_snapshot"] = memory()["peak"]
    found["snapshot_bytes"] = _size_of(into, "crawl/shards/*/snapshots/*")
    return found


def _size_of(place: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in place.glob(pattern))


def _measured(agent: Any) -> dict[str, Any]:
    gauges = _gauges(agent)
    now = memory()
    return {
        "pending": int(gauges["frontier.pending"]),
        "hosts": int(gauges["frontier.hosts"]),
        "frontier_bytes": int(gauges["frontier.bytes"]),
        "seen_urls": int(gauges["seen.urls"]),
        "seen_bytes": int(gauges["seen.bytes"]),
        "rss": now["now"],
        "rss_peak": now["peak"],
    }


async def to_be_killed(task: Task) -> dict[str, Any]:
    """Crawl, take no snapshot, and end as in a power cut."""
    from lycosa.crawl.agent import build
    from lycosa.crawl.config import read_options
    from lycosa.files import DiskFiles

    options = crawl_options(task, 0) | {"snapshot": NEVER}
    agent = build(DiskFiles(Path(task.into) / "crawl"), read_options(options), task.seeds)
    run = asyncio.create_task(agent.run())
    await until(lambda: run.done() or _gauges(agent).get("fetch.pages", 0) >= task.pages)
    if run.done():
        raise SystemExit("the site has fewer pages than were asked for")
    await asyncio.sleep(1.0)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


async def recovery(task: Task) -> dict[str, Any]:
    """Open a crawl that was killed."""
    from lycosa.crawl.agent import build
    from lycosa.crawl.config import read_options
    from lycosa.files import DiskFiles

    into = Path(task.into)
    await crawl(task, into / "warm", 64)  # modules and kernels do not count as recovery
    options = crawl_options(task, 0) | {"snapshot": NEVER}
    cpu, began = time.process_time(), time.perf_counter()
    agent = build(DiskFiles(into / "crawl"), read_options(options), task.seeds)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    totals = agent.totals()
    return _measured(agent) | {
        "seconds": seconds,
        "cpu": cpu,
        "pages": totals.fetched,
        "links": totals.links,
        "records": int(_gauges(agent)["log.records"]),
    }


MEASURES = {
    "baseline": crawled,
    "crawled": crawled,
    "random": crawled,
    "mixed": crawled,
    "hosts": many_hosts,
    "kill": to_be_killed,
    "recovery": recovery,
}


# -- the site's further pages


def paths(root: str, count: int, neighbours: int = RUN) -> list[str]:
    """`count` paths of the documentation, in shuffled runs; where it has too few, under other prefixes."""
    found = sorted(path.relative_to(root).as_posix() for path in Path(root, "java").rglob("*.html"))
    in_order = [f"/edition-{n // len(found)}/{found[n % len(found)]}" for n in range(count)]
    runs = [in_order[at : at + neighbours] for at in range(0, count, neighbours)]
    random.Random(1).shuffle(runs)
    return [path for run in runs for path in run]


def hubs(root: Path, links: int, pending: int, neighbours: int) -> Iterator[tuple[str, bytes]]:
    """Pages with many links, the same for every host."""
    count = 1 + pending // (links * HOSTS)
    all_paths = paths(str(root), count * links, neighbours)
    names = [f"{number:04d}.html" for number in range(count)]
    yield "index.html", "".join(f'<a href="{name}">{name}</a>\n' for name in names).encode()
    for number, name in enumerate(names):
        rows = all_paths[number * links : (number + 1) * links]
        yield name, "".join(f'<a href="{row}">x</a>\n' for row in rows).encode()


# -- the whole


def run(measure: str, task: dict[str, Any]) -> dict[str, Any]:
    """One measure in a process of its own."""
    command = [sys.executable, __file__, "--measure", measure, json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if measure == "kill" and done.returncode == -signal.SIGKILL:
        return {}
    if done.returncode or not done.stdout.strip():
        raise SystemExit(f"{measure} failed:\n{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(found: dict[str, dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Rows of: measure, value, target."""

    def judged(value: float, most: float, target: str) -> str:
        return f"{target}: {'met' if value <= most else 'NOT met'}"

    few = found["baseline"]
    rows = [("nothing much pending: memory", f"{few['rss'] / 1e6:,.0f} MB, {few['pending']:,} pending", "")]
    kinds = {
        "crawled": "16 hosts",
        "random": "random order",
        "mixed": "with real pages",
        "hosts": "many hosts",
    }
    for name, about in kinds.items():
        got = found[name]
        pending = got["pending"]
        grown = (got["rss"] - found["baseline"]["rss"]) / (pending - found["baseline"]["pending"])
        own = got["frontier_bytes"] / pending
        snapshot = got["rss_snapshot"] / got["rss"] - 1
        rows += [
            (f"{about}: URLs pending", f"{pending:,} on {got['hosts']:,} hosts", ""),
            (
                f"{about}: memory in total",
                f"{got['rss'] / 1e6:,.0f} MB",
                judged(got["rss"], 2.5e8, "under 250 MB"),
            ),
            (f"{about}: its peak so far", f"{got['rss_peak'] / 1e6:,.0f} MB", ""),
            (f"{about}: the frontier's own count, a URL", f"{own:.1f} bytes", judged(own, 64, "at most 64")),
            (f"{about}: growth of the process, a URL", f"{grown:.1f} bytes", judged(grown, 64, "at most 64")),
            (f"{about}: the seen set, a URL", f"{got['seen_bytes'] / got['seen_urls']:.1f} bytes", ""),
            (f"{about}: a snapshot adds", f"{snapshot:.1%}", judged(snapshot, 0.10, "at most 10%")),
            (f"{about}: the snapshot's size", f"{got['snapshot_bytes'] / 1e6:,.1f} MB", ""),
        ]
    got = found["recovery"]
    per_million = got["seconds"] / got["pages"] * 1e6
    return [
        *rows,
        ("recovery: pages, links in the log", f"{got['pages']:,}, {got['links']:,}", ""),
        ("recovery: time", f"{got['seconds']:.2f} s ({got['cpu']:.2f} s of CPU)", ""),
        ("recovery: per million pages", f"{per_million:.1f} s", judged(per_million, 30, "at most 30 s")),
        ("recovery: memory after", f"{got['rss'] / 1e6:,.0f} MB, {got['pending']:,} pending", ""),
    ]


def measure_all(args: argparse.Namespace, served: Site, place: Path) -> dict[str, dict[str, Any]]:
    assert served.root is not None
    folders = (("few", 10, 1000, RUN), ("hubs", LINKS, args.pending, RUN), ("random", LINKS, args.pending, 1))
    for folder, links, pending, neighbours in folders:
        (served.root / folder).mkdir()
        for name, data in hubs(served.root, links, pending, neighbours):
            (served.root / folder / name).write_bytes(data)
    core = min(os.sched_getaffinity(0))
    common: dict[str, Any] = {"kind": "lycosa", "seeds": served.seeds("http"), "core": core}
    few = [f"{seed}few/index.html" for seed in common["seeds"]]
    shuffled = [f"{seed}random/index.html" for seed in common["seeds"]]
    many = [f"{seed}hubs/index.html" for seed in common["seeds"]]
    found = {}
    tasks: tuple[tuple[str, dict[str, Any]], ...] = (
        ("baseline", {"pages": 64, "into": str(place / "compiling")}),  # compiles kernels if need be
        ("baseline", {"pages": 64, "into": str(place / "baseline"), "seeds": few}),
        ("crawled", {"pending": args.pending, "into": str(place / "crawled"), "seeds": many}),
        ("random", {"pending": args.pending, "into": str(place / "random"), "seeds": shuffled}),
        ("mixed", {"pending": args.pending, "into": str(place / "mixed"), "seeds": many + common["seeds"]}),
        (
            "hosts",
            {"pages": args.pending, "into": str(place / "hosts"), "root": str(served.root)},
        ),
        ("kill", {"pages": args.recover, "into": str(place / "killed")}),
        ("recovery", {"pages": args.recover, "into": str(place / "killed")}),
    )
    for name, task in tasks:
        print(f"{name} ...", flush=True)
        found[name] = run(name, common | task)
    return found


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        import msgspec

        task = msgspec.json.decode(sys.argv[3].encode(), type=Task)
        pin(task.core)
        print(json.dumps(asyncio.run(MEASURES[sys.argv[2]](task))))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--recover", type=int, default=40_000, help="pages that recovery replays (40000)")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/crawl-memory.md")
    parser.add_argument("--cache", type=Path, default=PROJECT / ".bench")
    args = parser.parse_args()
    if args.quick:
        args.pending, args.recover = args.pending // 10, args.recover // 10
    if not Path("/proc/self/clear_refs").exists():
        raise SystemExit("this benchmark reads /proc: it runs on Linux only")
    args.cache.mkdir(parents=True, exist_ok=True)
    try:
        with (
            site(args.cache, max(os.sched_getaffinity(0)), demand=True) as served,
            tempfile.TemporaryDirectory(prefix="run-", dir=args.cache) as place,
        ):
            found = measure_all(args, served, Path(place))
    except SiteError as missing:
        raise SystemExit(f"{missing}: benchmarks/README.md says how to set it up") from None
    rows = table(found)
    width = max(len(row[0]) for row in rows)
    for row in rows:
        print(f"{row[0]:{width}}  {row[1]:>32}  {row[2]}")
    if args.write:
        body = "".join("| " + " | ".join(row) + " |\n" for row in rows)
        about = f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {platform.system()}"
        how = "[how to run it](../../benchmarks/README.md)"
        intro = f"Written by `benchmarks/crawl_memory.py --write`; {how}."
        smoke = ", A SMOKE RUN" if args.quick else ""
        head = f"# The crawl's memory and recovery\n\n{intro}\n\n{about}{smoke}\n\n"
        RESULTS.write_text(f"{head}| | measured | target |\n|---|---:|---|\n{body}", encoding="utf-8")
        print(f"written: {RESULTS.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
