"""A new site for a running cluster with long logs: is a lease lost, and how long is an agent's loop blocked?

    python benchmarks/seed_in_the_middle.py                     four agents, 2,000,000 records: an hour
    python benchmarks/seed_in_the_middle.py --records 200000    some minutes
    python benchmarks/seed_in_the_middle.py --quick             a smoke run; its numbers mean nothing

A NATS server, and agents in separate processes, started as by `lycosa agent`; the crawl is paused, so that nothing
is fetched. An agent takes all shards and hands them over, so that the logs have their usual beginning; then
records are appended to them through the tails (`lycosa.cluster.keeping`), without the folds: pages with links, a
tenth of them to a site that is out of scope. All agents take their shards. Then that site is given as a seed, as
by `lycosa cluster seed`: every agent reads all its logs again (`lycosa.crawl.rescoping`) and sends what came into
scope to the one shard that has the site. It is over when no log has grown for a while.

    leases      the epochs of all shards, before and after: a lease that was lost has another one
    holds       a tick comes every millisecond on an agent's loop; the longest time between two, by the wall clock
                and in CPU of the loop's thread (`holds.py`): while shards are taken, and after the seed
    where       the stack of the loop when it had worked for more than 20 ms
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from holds import AIM, Holds

from lycosa.clock import SystemClock
from lycosa.cluster.control import About, Control
from lycosa.cluster.keeping import ShardKeeper
from lycosa.cluster.lease import decode
from lycosa.cluster.leases import Leases
from lycosa.cluster.machine import OwnMachine
from lycosa.cluster.member import Member
from lycosa.cluster.names import log_of
from lycosa.cluster.operating import Operator
from lycosa.cluster.shared_keeping import SharedHome
from lycosa.cluster.storage import ShardStorage
from lycosa.cluster.storage.opening import open_storage
from lycosa.crawl.config import read_options
from lycosa.crawl.manifest import shard_directory
from lycosa.crawl.warming import warm
from lycosa.engine.nats.connection import ConnectionOptions
from lycosa.engine.nats.engine import NatsEngine
from lycosa.engine.protocol import got
from lycosa.files import DiskFiles
from lycosa.lab.chaos_agents import AgentProcess
from lycosa.lab.nats_servers import Servers
from lycosa.log.log import Log, pack
from lycosa.records import Fetched, Link, LinkKind, Links, Timing

CRAWL = "middle"
SITE = "http://new.test/"
HOSTS = 64
_BATCH = 2_000
_QUIET = 20.0
"""Seconds without a change after which the pass is over."""


# -- an agent, in a process of its own


class Told(msgspec.Struct):
    """An agent's observations of its loop so far."""

    longest: float = 0.0
    cpu: float = 0.0
    ticks: int = 0
    places: dict[str, int] = {}
    worst: dict[str, int] = {}


async def agent(urls: tuple[str, ...], work: Path) -> None:
    """Run an agent, and write down how long the loop is blocked; restarts when that file is removed."""
    options = ConnectionOptions(servers=urls)
    machine = OwnMachine(work)
    member = Member(
        lambda name: NatsEngine.open(options, CRAWL, name),
        machine,
        SharedHome(),
        name=work.name,
        scorer="",
        told=lambda text: print(text, flush=True),
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, member.leave)
    telling = asyncio.create_task(_tell(member, work.parent / f"{work.name}.holds"))
    try:
        await member.run()
    finally:
        telling.cancel()


async def _tell(member: Member, file: Path) -> None:
    while member.agent is None:  # noqa: ASYNC110 - it is being built, and holds nothing that others wait for
        await asyncio.sleep(0.01)
    while True:
        holds = Holds()
        watcher = threading.Thread(target=holds.look, daemon=True)
        watcher.start()
        ticker = asyncio.create_task(holds.tick())
        await asyncio.to_thread(_put, file, Told())
        try:
            while await asyncio.to_thread(file.exists):
                told = Told(holds.longest, holds.cpu, holds.ticks, dict(holds.places), dict(holds.worst))
                await asyncio.to_thread(_put, file, told)
                await asyncio.sleep(1.0)
        finally:
            ticker.cancel()
            holds.stop()


def _put(file: Path, told: Told) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(told))
    new.rename(file)


# -- the logs


def pages(random: Random, host: str, links: int) -> Any:
    """Pages of a host, with links to others that are crawled, and one in ten to the new site."""
    number = 0
    while True:
        urls = [
            f"http://d{random.randrange(HOSTS)}.test/{random.randrange(1_000_000)}"
            for _ in range(links - links // 10)
        ]
        urls += [f"{SITE}{random.randrange(200_000)}" for _ in range(links // 10)]
        packed = Links.pack(Link(url, LinkKind.ANCHOR, False, "") for url in dict.fromkeys(urls))
        url = f"http://{host}/page/{number}"
        yield Fetched(1, url, 1, 0, 0, 200, "text/html", "", 1, 1, 0, Timing(), "127.0.0.1", packed)
        number += 1


async def make_log(
    engine: NatsEngine, about: About, shard: int, records: int, links: int, work: Path
) -> None:
    """Append to a shard's log as its holder does, without folds."""
    clock = SystemClock()
    leases = Leases(engine.bucket, "maker", about.lease, clock)
    while (holding := await leases.acquire(shard)) is None:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    files = DiskFiles(work / shard_directory(shard))
    keeper = ShardKeeper(
        stream=engine.stream(log_of(shard)),
        storage=ShardStorage(open_storage(about.storage, CRAWL), CRAWL, shard),
        files=files,
        holding=holding,
        clock=clock,
        segment_bytes=about.segment_bytes,
    )
    opened = await keeper.open()
    if isinstance(opened, Exception):
        raise opened
    log = Log(files.within("log"), about.segment_bytes)
    made = pages(Random(shard), f"d{shard}.test", links)
    renewed = clock.monotonic()
    while log.end < records:
        for page in islice(made, min(_BATCH, records - log.end)):
            log.append(page)
        batch = log.cut()
        assert batch is not None
        data = await asyncio.to_thread(pack, batch)
        refused = await keeper.commit(batch, data)
        if refused is not None:
            raise SystemExit(f"shard {shard}: {refused}")
        await asyncio.to_thread(log.put, batch, data)
        log.confirm(batch)
        if clock.monotonic() - renewed > about.lease / 4:
            renewed = clock.monotonic()
            await keeper.tidy()
            await leases.renew(shard)
    await keeper.tidy()
    log.close()
    await leases.release(shard, {})


# -- the run


class Cluster:
    """A crawl on one server, and its agents."""

    def __init__(self, place: Path, urls: tuple[str, ...], engine: NatsEngine, shards: int) -> None:
        self.place = place
        self.engine = engine
        self.control = Control(engine, SystemClock())
        self.shards = shards
        self._urls = urls
        self.agents: list[AgentProcess] = []

    def start(self, count: int) -> None:
        for number in range(count):
            work = self.place / f"agent{number}"
            words = self.place / f"agent{number}.out"
            made = AgentProcess(f"agent{number}", work, words, self._command)
            made.start()
            self.agents.append(made)

    def _command(self, work: Path) -> list[str]:
        return [sys.executable, __file__, "--agent", str(work), "--servers", ",".join(self._urls)]

    async def leave(self) -> None:
        for each in self.agents:
            each.leave()
        while any(each.alive for each in self.agents):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        self.agents.clear()

    async def epochs(self) -> dict[int, tuple[int, str]]:
        """For every shard: the epoch of its lease, and its holder."""
        found = {}
        for entry in got(await self.engine.bucket.all("lease.*")):
            lease = decode(entry.value or b"")
            if lease is not None and not lease.released:
                found[int(entry.key.partition(".")[2])] = (lease.epoch, lease.holder)
        return found

    async def until_held(self) -> None:
        """Wait until all shards are held, and every agent holds some."""
        while True:
            self._check()
            reports, epochs = await self.control.reports(), await self.epochs()
            ready = [n for n, row in reports.items() if epochs.get(n, (0, ""))[0] == row.epoch]
            holders = {holder for _, holder in epochs.values()}
            if len(ready) == self.shards and len(holders) >= min(len(self.agents), self.shards):
                return
            await asyncio.sleep(0.5)

    async def until_quiet(self) -> float:
        """Wait until no log grows any more; returns when that began."""
        before, since = None, time.monotonic()
        while time.monotonic() - since < _QUIET:
            self._check()
            reports = await self.control.reports()
            now = {n: (row.end, row.committed, row.sent, row.received) for n, row in reports.items()}
            if now != before or any(row.sent < row.committed for row in reports.values()):
                before, since = now, time.monotonic()
            await asyncio.sleep(0.5)
        return since

    def _check(self) -> None:
        for each in self.agents:
            if each.died:
                raise SystemExit(f"{each.name} ended: {each.said()}")

    async def holds(self) -> list[Told]:
        """What every agent reports about its loop since it was last asked."""
        found = []
        for each in self.agents:
            file = self.place / f"{each.name}.holds"
            found.append(msgspec.json.decode(file.read_bytes(), type=Told))
            file.unlink()
        while not all((self.place / f"{each.name}.holds").exists() for each in self.agents):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        return found


def show(name: str, told: list[Told], seconds: float) -> None:
    longest, cpu = max(each.longest for each in told), max(each.cpu for each in told)
    places: Counter[str] = Counter()
    for each in told:
        places.update(each.places)
    met = "met" if cpu <= AIM else "NOT met"
    print(
        f"{name}: {seconds:,.1f} s; longest hold {longest * 1000:,.0f} ms by the clock, {cpu * 1000:,.0f} ms of CPU"
        f" (aim {AIM * 1000:.0f} ms: {met}); {sum(each.ticks for each in told):,} ticks"
    )
    print(f"    the longest: {max(told, key=lambda each: each.cpu).worst}")
    for place, count in places.most_common(6):
        print(f"    {count:5,} looks  {place}")


async def measure(args: argparse.Namespace, place: Path, urls: tuple[str, ...]) -> int:
    engine = await NatsEngine.open(ConnectionOptions(servers=urls), CRAWL)
    operator = Operator(engine)
    options = read_options({"public": False, "archive": {"keep": False}})
    seeds = [f"http://d{number}.test/" for number in range(HOSTS)]
    shared = place / "shared"
    shared.mkdir()
    refused = await operator.create(
        options, seeds, shared=shared, shards=args.shards, replicas=1, lease=args.lease
    )
    assert not refused
    await operator.start()
    await operator.pause()
    cluster = Cluster(place, urls, engine, args.shards)
    cluster.start(1)
    await cluster.until_held()
    await cluster.leave()

    began = time.perf_counter()
    about = await cluster.control.about()
    each = args.records // args.shards
    for shard in range(args.shards):
        await make_log(engine, about, shard, each, args.links, place / "maker")
    shutil.rmtree(place / "maker")
    print(f"{args.shards} logs of {each:,} records: {time.perf_counter() - began:,.0f} s", flush=True)

    began = time.perf_counter()
    cluster.start(args.agents)
    await cluster.until_held()
    await cluster.until_quiet()
    epochs = await cluster.epochs()
    show("taken", await cluster.holds(), time.perf_counter() - began)

    began = time.monotonic()
    await operator.seed([SITE])
    await asyncio.sleep(5.0)
    ended = await cluster.until_quiet()
    after = await cluster.epochs()
    show("seeded", await cluster.holds(), ended - began)
    reports = await cluster.control.reports()
    print(f"records then: {sum(row.end for row in reports.values()):,}")
    lost = [shard for shard in epochs if after.get(shard) != epochs[shard]]
    print(f"leases lost: {len(lost)} of {len(epochs)} {lost or ''}")
    await cluster.leave()
    await operator.close()
    return 1 if lost else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--records", type=int, default=2_000_000, help="of all shards together")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--links", type=int, default=20)
    parser.add_argument("--lease", type=float, default=30.0)
    parser.add_argument("--agent", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--servers", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.agent is not None:
        asyncio.run(agent(tuple(args.servers.split(",")), args.agent))
        return 0
    if args.quick:
        args.records, args.shards, args.agents = 8_000, 4, 2
    if os.getloadavg()[0] > 0.5:
        print(
            f"the machine is not quiet (load {os.getloadavg()[0]:.1f}): holds by the clock count for little"
        )
    warm()
    with (
        tempfile.TemporaryDirectory(prefix="lycosa-middle-") as place,
        Servers(Path(place, "nats")) as servers,
    ):
        return asyncio.run(measure(args, Path(place), servers.urls))


if __name__ == "__main__":
    sys.exit(main())
