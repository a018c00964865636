"""One crawl of a cluster, driven by the command line as its operator would; and its results, read back.

crawl = ClusterCrawl("storm", urls, place)
crawl.create(options, seeds, shards=8, lease=8.0)      lycosa cluster create, start
crawl.agent_command(directory)                         lycosa agent ...
await crawl.state()                                    from the servers, as agents see it
records = await crawl.gather(place / "result")         all logs: sealed segments and tails
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lycosa.clock import SystemClock
from lycosa.cluster.control import About, Control, State
from lycosa.cluster.lease import decode
from lycosa.cluster.names import log_of, streams_of
from lycosa.cluster.storage import ShardStorage, archives
from lycosa.cluster.storage.opening import open_storage
from lycosa.cluster.tail import pieces
from lycosa.engine.nats.connection import ConnectionOptions
from lycosa.engine.nats.engine import NatsEngine
from lycosa.engine.nats.names import Names
from lycosa.engine.protocol import got
from lycosa.errors import LocalError
from lycosa.files import DiskFiles
from lycosa.lab.webs import Web
from lycosa.log.reader import LogReader
from lycosa.records import Record

LYCOSA = (sys.executable, "-m", "lycosa.cli.main")
_COMMAND = 60.0
"""Seconds that an operator's command may take."""


def options_for(web: Web, resolve: dict[str, str], allow: Sequence[str], **more: Any) -> dict[str, Any]:
    """Options that suit an embedded web: its names, its addresses, and retry times short enough for a test."""
    return {
        "public": False,
        "allow": list(allow),
        "scope": {"mode": "any"},
        "dns": {"resolve": [f"{host}:{address}" for host, address in resolve.items()]},
        "retry": {"first": 0.4, "growth": 1.5, "most": 2.0},
        "robots": {"first_retry": 0.4},
        **more,
    }


def as_toml(given: dict[str, Any]) -> str:
    """Plain values, then tables, as TOML; JSON's scalars and lists are valid TOML."""
    plain = [f"{name} = {json.dumps(value)}" for name, value in given.items() if not isinstance(value, dict)]
    for table, values in given.items():
        if isinstance(values, dict):
            plain.append(f"[{table}]")
            plain += [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    return "\n".join(plain) + "\n"


class ClusterCrawl:
    """A crawl: its name, its servers and a place for its files."""

    def __init__(self, name: str, urls: Sequence[str], place: Path, shared: str = "") -> None:
        """`shared`: where shared storage is; by default below `place`."""
        self.name = name
        self._urls = ",".join(urls)
        self._options = ConnectionOptions(servers=tuple(urls))
        self._place = place
        self._shared = shared or str(place / "shared")
        if not shared:
            (place / "shared").mkdir(parents=True, exist_ok=True)
        self.archive = place / "shared" / name / "archive"
        """The archives, once everything is gathered."""
        self._engine: NatsEngine | None = None

    # -- the operator

    def create(
        self,
        options: dict[str, Any],
        seeds: Sequence[str],
        *,
        shards: int,
        lease: float,
        replicas: int,
        start: bool = True,
    ) -> None:
        """Create it and start it."""
        toml = self._place / "crawl.toml"
        toml.write_text(as_toml({"seeds": list(seeds), **options}), encoding="utf-8")
        numbers = ["--shards", str(shards), "--lease", f"{lease:g}s", "--replicas", str(replicas)]
        where = ["--shared", self._shared, "--config", str(toml)]
        self.operate("create", *where, *numbers)
        if start:
            self.operate("start")

    def operate(self, verb: str, *more: str) -> str:
        """Run `lycosa cluster VERB NAME ...`; returns its output."""
        line = [*LYCOSA, "cluster", verb, self.name, "--cluster", self._urls, *more]
        done = subprocess.run(line, capture_output=True, text=True, timeout=_COMMAND, check=False)
        if done.returncode:
            raise LocalError(f"lycosa cluster {verb} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def status(self) -> dict[str, Any]:
        """The output of `lycosa cluster status`."""
        found = json.loads(self.operate("status", "--json"))
        assert isinstance(found, dict)
        return found

    def agent_command(self, directory: Path, urls: str = "") -> list[str]:
        line = [*LYCOSA, "agent", "--cluster", urls or self._urls, "--crawl", self.name]
        return [*line, "--work", str(directory), "--name", directory.name]

    # -- what the servers know

    async def open(self) -> None:
        """Connect for reading; the connection survives the death of servers."""
        self._engine = await NatsEngine.open(self._options, self.name, f"chaos-{os.getpid()}")

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.close()

    def _control(self) -> Control:
        assert self._engine is not None
        return Control(self._engine, SystemClock())

    async def state(self) -> State:
        """The wanted state and whether the crawl has finished; `Unavailable` while servers are down."""
        return await self._control().state()

    async def about(self) -> About:
        return await self._control().about()

    async def pages(self) -> int:
        """Pages, as last reported by the holders of the shards."""
        reports = await self._control().reports()
        return sum(report.totals.pages for report in reports.values())

    async def holders(self) -> dict[int, str]:
        """The agent that holds each shard, according to the leases."""
        assert self._engine is not None
        found = {}
        for entry in got(await self._engine.bucket.all("lease.*")):
            lease = decode(entry.value or b"")
            if lease is not None and not lease.released:
                found[int(entry.key.partition(".")[2])] = lease.holder
        return found

    def streams(self, shards: int) -> list[str]:
        """The names of its streams: of the keys, the tails, the exchange."""
        names = Names(self.name)
        return [names.bucket_stream, *(names.stream(plan.name) for plan in streams_of(shards))]

    # -- what it left

    async def gather(self, into: Path) -> Iterator[tuple[int, int, Record]]:
        """Assemble every shard's log, as its next holder would; (shard, position, record) of all."""
        assert self._engine is not None
        storage = open_storage(self._shared, self.name, self._options)
        about = await self.about()
        for shard in range(about.shards):
            found = [piece async for piece in pieces(self._engine.stream(log_of(shard)))]
            place = DiskFiles(into / f"shards/{shard:02d}")
            ShardStorage(storage, self.name, shard).restore(place, found)
        self.archive = into / "archive"
        for name in archives(storage, self.name):
            storage.get_file(f"{self.name}/archive/{name}", DiskFiles(self.archive), name)
        storage.close()
        return read_records(into, about.shards)


def read_records(place: Path, shards: int) -> Iterator[tuple[int, int, Record]]:
    """(shard, position, record) of all logs in a directory, those of pages that were taken back included."""
    for shard in range(shards):
        for position, record in LogReader(DiskFiles(place / f"shards/{shard:02d}/log")).scan():
            yield shard, position, record
