"""The longest time for which an agent's event loop is blocked while its logs are large: see also `agents.py`.

    python benchmarks/holds.py                          ten million records: making them takes hours, once
    python benchmarks/holds.py --records 300000         some minutes
    python benchmarks/holds.py --quick                  a smoke run; its numbers mean nothing
    python benchmarks/holds.py --into DIR               keep the logs, and use them again

One agent, nothing is fetched. Its shards' logs are generated: pages with links, half of them to hosts that the
scope excludes at first. Then, while the agent runs:

    widened     the scope becomes wide: every record is read again (`lycosa.crawl.rescoping`), links are delivered
    snapshot    all parts of all shards are written
    commit      with many shards (`--many`), each of which found links for all others

A tick comes every millisecond on the loop. A hold is the time between two ticks: by the wall clock, and in CPU of
the loop's own thread. On a busy machine the first includes waiting for a core, and for the interpreter's lock
while a thread has it; the second is the loop's own work. A separate thread notes the stack of holds of more than
20 ms of CPU (`lycosa.crawl.watchdog`). The target is 50 ms at ten million records per shard.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from lycosa.clock import SystemClock
from lycosa.crawl.agent import Agent, build
from lycosa.crawl.config import read_options
from lycosa.crawl.warming import warm
from lycosa.crawl.watchdog import _place
from lycosa.files import DiskFiles
from lycosa.lab.network import Reply, ScriptedFetcher, ScriptedFetchers, ScriptedResolver
from lycosa.records import Fetched, Link, LinkKind, Links, Timing
from lycosa.version import VERSION

AIM = 0.050
_TICK = 0.001
_LONG = 0.020
NARROW: dict[str, Any] = {"mode": "any", "exclude_domains": ["far.test"]}
WIDE: dict[str, Any] = {"mode": "any"}


class Holds:
    """The holds of the loop."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.cpu = 0.0
        self.ticks = 0
        self.places: Counter[str] = Counter()
        self.worst: Counter[str] = Counter()
        """Where the longest hold was seen, by CPU."""
        self._now: Counter[str] = Counter()
        self._looked = 0.0
        self._at = time.perf_counter()
        self._used = time.thread_time()
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._stopped = threading.Event()

    async def tick(self) -> None:
        while True:
            self._at, self._used = time.perf_counter(), time.thread_time()
            await asyncio.sleep(_TICK)
            self.longest = max(self.longest, time.perf_counter() - self._at - _TICK)
            used, seen = time.thread_time() - self._used, self._now
            self._now = Counter()
            self.places.update(seen)
            if used > self.cpu:
                self.cpu, self.worst = used, seen
            self.ticks += 1

    def look(self) -> None:
        """In a thread: note the stacks of long holds."""
        while not self._stopped.wait(_LONG / 4):
            used = time.clock_gettime(self._clock)
            # It works now, and is not waiting for a core or for the interpreter's lock.
            if used - self._used > _LONG and used - self._looked > _LONG / 20:
                self._now[_place(self._thread)] += 1
            self._looked = used

    def stop(self) -> None:
        self._stopped.set()


async def held(work: Awaitable[object]) -> Holds:
    """The longest hold of the loop during some work."""
    holds = Holds()
    watcher = threading.Thread(target=holds.look, daemon=True)
    ticker = asyncio.create_task(holds.tick())
    watcher.start()
    try:
        await work
    finally:
        ticker.cancel()
        holds.stop()
        watcher.join()
    return holds


def open_agent(into: Path, shards: int, scope: dict[str, Any]) -> Agent:
    clock = SystemClock()
    options = {
        "public": False,
        "scope": scope,
        "archive": {"keep": False},
        "snapshot": {"records": 1 << 40, "seconds": 1e9},
    }
    fetchers = ScriptedFetchers(ScriptedFetcher(lambda request, before: Reply(b""), clock))
    return build(
        DiskFiles(into),
        read_options(options),
        shards=shards,
        hash_seed=7,
        clock=clock,
        fetchers=fetchers,
        resolver=ScriptedResolver({}),
    )


def pages(random: Random, host: str, links: int) -> Iterator[Fetched]:
    """Pages of a host: half of the links to its own and other hosts that are inside, half to excluded ones."""
    number = 0
    while True:
        urls = [
            f"http://h{random.randrange(2_000)}.test/{random.randrange(100_000)}" for _ in range(links // 2)
        ]
        urls += [
            f"http://x{random.randrange(2_000)}.far.test/{random.randrange(100_000)}"
            for _ in range(links // 2)
        ]
        packed = Links.pack(Link(url, LinkKind.ANCHOR, False, "") for url in dict.fromkeys(urls))
        url = f"http://{host}/page/{number}"
        yield Fetched(1, url, 1, 0, 0, 200, "text/html", "", 1, 1, 0, Timing(), "127.0.0.1", packed)
        number += 1


def make_logs(into: Path, shards: int, records: int, links: int) -> None:
    """Logs with so many records per shard, written without the folds: opening the crawl replays them."""
    agent = open_agent(into, shards, NARROW)
    for shard in agent.shards:
        host = next(
            name for n in range(9_999) if shard.splitter.shard_of(name := f"p{n}.test") == shard.number
        )
        made = pages(Random(shard.number), host, links)
        while shard.log.end < records:
            for _ in range(min(2_000, records - shard.log.end)):
                shard.log.append(next(made))
            shard.log.commit()
        shard.log.close()


async def while_running(agent: Agent, work: Callable[[], Awaitable[object]]) -> Holds:
    """Do something while the agent runs, which makes no visits."""
    agent.pause()
    running = asyncio.create_task(agent.run())
    await asyncio.sleep(0.5)
    holds = await held(work())
    agent.stop()
    await running
    return holds


async def widen(agent: Agent) -> None:
    wide = read_options({"public": False, "scope": WIDE}).scope
    agent.reconfigure(msgspec.structs.replace(agent.options, scope=wide))
    while any(  # noqa: ASYNC110
        shard.rescoping is not None or len(shard.outbox) for shard in agent.shards
    ):
        await asyncio.sleep(0.1)


async def commits(agent: Agent, count: int) -> None:
    """Each shard finds a link for each other shard, between two commits."""
    shards = agent.shards
    hosts = {}
    for n in range(100_000):
        hosts.setdefault(shards[0].splitter.shard_of(f"m{n}.test"), f"m{n}.test")
        if len(hosts) == len(shards):
            break
    for number in range(count):
        for shard in shards:
            urls = (f"http://{host}/{shard.number}/{number}" for host in hosts.values())
            links = Links.pack(Link(url, LinkKind.ANCHOR, False, "") for url in urls)
            url = f"http://{hosts[shard.number]}/page/{number}"
            shard.append(
                Fetched(1, url, 1, 0, 0, 200, "text/html", "", 1, 1, 0, Timing(), "127.0.0.1", links)
            )
            await asyncio.sleep(0)
        await agent.saver.commit()


def row(name: str, holds: Holds, seconds: float) -> str:
    where = ", ".join(place for place, _ in holds.places.most_common(2)) or "-"
    verdict = "met" if holds.cpu <= AIM else "NOT met"
    return (
        f"| {name} | {seconds:,.1f} | {holds.longest * 1000:,.0f} | {holds.cpu * 1000:,.0f} | {verdict} |"
        f" {holds.ticks:,} | {where} |"
    )


@contextmanager
def directory(given: str | None) -> Iterator[Path]:
    if given is not None:
        yield Path(given)
        return
    place = tempfile.mkdtemp(prefix="lycosa-holds-")
    try:
        yield Path(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--records", type=int, default=10_000_000, help="of each shard")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--links", type=int, default=20)
    parser.add_argument("--many", type=int, default=256, help="shards, for commits")
    parser.add_argument("--into")
    args = parser.parse_args()
    if args.quick:
        args.records, args.many = 2_000, 16
    if os.getloadavg()[0] > 0.5:
        print(
            f"the machine is not quiet (load {os.getloadavg()[0]:.1f}): holds by the clock count for little"
        )
    warm()
    rows = []
    with directory(args.into) as place:
        logs = place / f"logs-{args.records}-{args.links}-{args.shards}"
        if not logs.exists():
            began = time.perf_counter()
            make_logs(logs, args.shards, args.records, args.links)
            print(
                f"made {args.shards} logs of {args.records:,} records in {time.perf_counter() - began:,.0f} s"
            )
        crawl = place / "crawl"
        shutil.copytree(logs, crawl)
        try:
            began = time.perf_counter()
            agent = open_agent(crawl, args.shards, NARROW)
            print(f"opened in {time.perf_counter() - began:,.0f} s")

            async def widened() -> None:
                for name, work in (("widened", lambda: widen(agent)), ("snapshot", agent.saver.snapshot)):
                    began = time.perf_counter()
                    holds = await held(work())
                    rows.append(row(name, holds, time.perf_counter() - began))
                    print(rows[-1])

            async def run() -> None:
                await while_running(agent, widened)

            asyncio.run(run())
            many = open_agent(place / "many", args.many, WIDE)
            began = time.perf_counter()
            holds = asyncio.run(while_running(many, lambda: commits(many, 5)))
            rows.append(row(f"commit, {args.many} shards", holds, time.perf_counter() - began))
        finally:
            shutil.rmtree(crawl, ignore_errors=True)
            shutil.rmtree(place / "many", ignore_errors=True)
    print(
        f"\n{args.shards} shards of {args.records:,} records with {args.links} links; lycosa {VERSION},"
        f" Python {platform.python_version()}, {os.cpu_count()} cores.\n"
    )
    print(
        "| while | seconds | longest hold, ms | of CPU, ms | aim of 50 ms | ticks | where the longest stood |"
    )
    print("|---|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
