"""The cost of several agents compared with one: CPU per page, links between them, and the exchange by itself.

    python benchmarks/agents.py             some minutes on two quiet cores
    python benchmarks/agents.py --quick     a smoke run; its numbers mean nothing
    python benchmarks/agents.py --write     also writes docs/benchmarks/agents.md

The embedded web (no oddities, most links to other hosts) is crawled completely with 1, 2 and 4 agents in turn, for
some rounds, in two sizes. The result is the CPU (user and system, all threads) of all processes of a crawl, from
the start of the interpreter to its end: the cores of this machine also run the server, whose CPU is given too, so
wall-clock times mean little. Two sizes tell apart what an agent costs in any case (imports, kernels read from the
cache, empty memos, shards opened and saved) and what a page costs:

    per page    (CPU of the large crawl - CPU of the small one) / (pages of the large one - pages of the small one)
    fixed       CPU of the large crawl - its pages at that cost

Every crawl must fetch the same pages.

    transfers       followed links whose host another shard owns, counted in the logs, and how many of them were
                    sent: the URL cache comes before the exchange (Broder, Najork and Wiener's cross sub-trace)
    frames          links per second that one core packs and unpacks, without the folds that process them
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import xxhash

from lycosa.ask.reading import CrawlReader
from lycosa.cluster.frames import LinksFrame, links_frame
from lycosa.cluster.links import decode, encode
from lycosa.crawl.admission import found_in
from lycosa.crawl.exchange import Row
from lycosa.crawl.shard import followed_kinds
from lycosa.lab.webs import Web, WebOptions, serving
from lycosa.records import Fetched, Received
from lycosa.version import VERSION

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = PROJECT / "docs" / "benchmarks" / "agents.md"
AIM = 1.10
"""CPU per page with several agents, as a multiple of that with one: at most this."""
_SMALL = 4
"""The small crawl has so many times fewer pages."""
_CAN_TICK = os.sysconf("SC_CLK_TCK")


class Result(msgspec.Struct, kw_only=True):
    """One crawl."""

    agents: int
    pages: int
    seconds: float
    server: float
    cpu: float = 0.0  # of all processes, from start to end
    links_out: int
    crossing: int = 0
    urls: int = 0  # a hash of what was fetched


def web_options(args: argparse.Namespace, pages: int) -> WebOptions:
    return WebOptions(
        hosts=args.hosts,
        pages=pages,
        page_bytes=args.page_bytes,
        links=args.links,
        local_share=0.6,
        kinds=(),
        change_share=0.0,
    )


def crawl_options(web: Web) -> dict[str, Any]:
    return {
        "public": False,
        "allow": ["127.0.0.0/8"],
        "scope": {"mode": "any"},
        "dns": {"resolve": [f"{host}:{address}" for host, address in web.resolve().items()]},
        "politeness": {"wait": 0.0, "factor": 0.0, "address_wait": 0.0, "pages_per_visit": 1_000_000},
        "visits": 64,
    }


def cpu_of(pid: int) -> float:
    """User and system seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _CAN_TICK


def used() -> float:
    """User and system seconds of all ended processes that were started here, and by these."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def worker(task: dict[str, Any]) -> None:
    """One crawl in a process of its own: with one agent, that process is the agent."""
    import lycosa
    from lycosa.crawl.warming import warm

    async def go() -> Result:
        crawl = lycosa.Crawl(task["seeds"], into=task["into"], agents=task["agents"], **task["options"])
        server = cpu_of(task["server"])
        await crawl.start()
        began = time.perf_counter()
        await crawl.wait()
        status = crawl.status()
        meters = status.meters
        return Result(
            agents=task["agents"],
            pages=status.pages,
            seconds=time.perf_counter() - began,
            server=cpu_of(task["server"]) - server,
            links_out=int(meters.get("exchange.links_out", 0)),
        )

    warm()
    print(msgspec.json.encode(asyncio.run(go())).decode())


def run(agents: int, web: Web, server: int, place: Path) -> Result:
    into = Path(tempfile.mkdtemp(dir=place)) / "crawl"
    task = {
        "seeds": web.seeds(),
        "into": str(into),
        "agents": agents,
        "options": crawl_options(web),
        "server": server,
    }
    file = into.parent / "task.json"
    file.write_bytes(msgspec.json.encode(task))
    try:
        before = used()
        done = subprocess.run(
            [sys.executable, __file__, "--worker", str(file)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{agents} agents failed:\n{done.stderr[-4000:]}")
        result = msgspec.json.decode(done.stdout.splitlines()[-1], type=Result)
        result.cpu = used() - before
        look_at(result, into)
        return result
    finally:
        shutil.rmtree(into.parent, ignore_errors=True)


def look_at(result: Result, into: Path) -> None:
    """Reads what was fetched, and how many followed links crossed between agents."""
    reader = CrawlReader(into)
    options = reader.options()
    assert options is not None
    follow = followed_kinds(options.follow)
    urls = 0
    for shard, _, record in reader.records():
        if isinstance(record, Fetched):
            urls ^= xxhash.xxh64_intdigest(f"{record.status} {record.url}".encode())
        found = None if isinstance(record, Received) else found_in(record)
        if found is None or not found.links.kinds:
            continue
        links = found.links
        _, hosts = reader.keyer.scan(links.urls)
        rows = zip(links.urls.decode("ascii").split("\n"), links.kinds, hosts.tolist(), strict=True)
        for url, kind, host in rows:
            if follow[kind] and reader.splitter.shard_of_url(host, url) != shard:
                result.crossing += 1
    result.urls = urls


def frames_a_second(seconds: float) -> tuple[float, float]:
    """Links per second, packed and unpacked to rows again, and bytes per link."""
    urls = [f"http://host{n % 37}.example/some/path/page-{n}.html" for n in range(500)]
    rows = [Row(n // 20, url, 0, n % 9, 0) for n, url in enumerate(urls)]
    count, size = 0, 0
    began = time.process_time()
    while time.process_time() - began < seconds:
        data = encode(1, links_frame(3, 4, 0, 25, rows))
        message = decode(data)
        assert message is not None and isinstance(message.frame, LinksFrame)
        count += len(message.frame.rows())
        size += len(data)
    return count / (time.process_time() - began), size / count


class Cost(NamedTuple):
    """One round with so many agents, in microseconds per page and seconds."""

    page: float
    fixed: float
    whole: float  # of the large crawl, per page


def cost(small: Result, large: Result) -> Cost:
    page = (large.cpu - small.cpu) / (large.pages - small.pages)
    return Cost(page * 1e6, large.cpu - page * large.pages, large.cpu / large.pages * 1e6)


def report(
    results: dict[int, list[tuple[Result, Result]]], frames: tuple[float, float], args: argparse.Namespace
) -> str:
    costs = {agents: [cost(*row) for row in rows] for agents, rows in results.items()}
    lines = [
        "| agents | CPU µs per page | times that of one | fixed, CPU s | large crawl in all, µs per page"
        " | server's µs per page | wall-clock s |",
        "|---|---|---|---|---|---|---|",
    ]
    for agents, rows in costs.items():
        ratios = [row.page / base.page for row, base in zip(rows, costs[1], strict=True)]
        ratio = statistics.median(ratios)
        extremes = f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if agents > 1 else "1"
        large = [row for _, row in results[agents]]
        server = statistics.median(row.server / row.pages * 1e6 for row in large)
        wall = statistics.median(row.seconds for row in large)
        page, fixed, whole = (statistics.median(column) for column in zip(*rows, strict=True))
        lines.append(
            f"| {agents} | {page:,.0f} | {extremes} | {fixed:.1f} | {whole:,.0f} | {server:,.0f} | {wall:.1f} |"
        )
    lines.append("")
    for agents, rows in costs.items():
        if agents > 1:
            row = results[agents][-1][1]
            saved = 1 - row.links_out / row.crossing if row.crossing else 0.0
            lines.append(
                f"- {agents} agents: {row.crossing:,} followed links crossed from shard to shard,"
                f" {row.links_out:,} of them were sent ({saved:.1%} saved by the URL cache and the seen set)."
            )
            ratio = statistics.median(
                each.page / base.page for each, base in zip(rows, costs[1], strict=True)
            )
            verdict = "met" if ratio <= AIM else "NOT met"
            lines.append(
                f"  Aim, per page at most {AIM} times the CPU of one agent: {verdict} ({ratio:.2f})."
            )
    rate, size = frames
    lines.append(
        f"- frames: {rate:,.0f} links a second and core, packed and unpacked; {size:.0f} bytes a link."
    )
    for which, name in enumerate(("small", "large")):
        told = [row[which] for rows in results.values() for row in rows]
        same = len({(row.pages, row.urls) for row in told}) == 1
        lines.append(
            f"- every {name} crawl fetched the same {told[0].pages:,} pages: {'yes' if same else 'NO'}."
        )
    lines.append(
        f"\n{args.hosts} hosts, pages of about {args.page_bytes:,} bytes with {args.links} links,"
        f" {args.rounds} rounds;"
        f" lycosa {VERSION}, Python {platform.python_version()}, {os.cpu_count()} cores."
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--pages", type=int, default=8_000)
    parser.add_argument("--page-bytes", type=int, default=15_000)
    parser.add_argument("--links", type=int, default=40)
    parser.add_argument("--agents", type=int, nargs="+", default=[1, 2, 4])
    args = parser.parse_args()
    if args.worker:
        worker(msgspec.json.decode(Path(args.worker).read_bytes()))
        return
    if args.quick:
        args.rounds, args.pages, args.hosts = 1, 800, 40
    if 1 not in args.agents:
        parser.error("one agent is what the others are measured by")
    busy = os.getloadavg()[0]
    if busy > 0.5:
        print(f"the machine is not quiet (load {busy:.1f}): the numbers count for little")
    results: dict[int, list[tuple[Result, Result]]] = {agents: [] for agents in sorted(args.agents)}
    with (
        tempfile.TemporaryDirectory(prefix="lycosa-agents-") as place,
        serving(web_options(args, args.pages // _SMALL)) as small,
        serving(web_options(args, args.pages)) as large,
    ):
        for served in (small, large):  # warms up the server's pages and the disks
            run(1, served.web, served.pid, Path(place))
        for number in range(args.rounds):
            for agents, rows in results.items():
                first, second = (run(agents, each.web, each.pid, Path(place)) for each in (small, large))
                rows.append((first, second))
                found = cost(first, second)
                print(
                    f"round {number + 1}, {agents} agents: {found.page:,.0f} µs per page and {found.fixed:.1f} s",
                    flush=True,
                )
    text = report(results, frames_a_second(0.5 if args.quick else 3.0), args)
    print(text)
    if args.write:
        RESULTS.write_text(
            f"# Several agents\n\n```\npython benchmarks/agents.py --write\n```\n\n{text}\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
