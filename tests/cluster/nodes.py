"""Agents whose records are made up, with a real exchange between them; nothing is fetched and no time passes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from lycosa.clock import ManualClock
from lycosa.cluster.exchange import FileExchange
from lycosa.cluster.quotas import Ration
from lycosa.cluster.sending import Way
from lycosa.crawl import manifest as manifests
from lycosa.crawl.agent import Agent, Team, build
from lycosa.crawl.config import read_options
from lycosa.crawl.shard import Shard
from lycosa.crawl.splitting import Splitter
from lycosa.files import Files
from lycosa.frontier import AddressTable
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply, ScriptedFetcher, ScriptedFetchers, ScriptedResolver
from lycosa.meters import Meters
from lycosa.records import Fetched, Link, LinkKind, Links, Timing
from lycosa.url.parts import host_of

SHARDS = 4
AGENTS = 2
HOLDERS = {number: number % AGENTS for number in range(SHARDS)}
OPTIONS: dict[str, Any] = {"public": False, "scope": {"mode": "any"}, "archive": {"keep": False}}


class NoHosts:
    async def claim(self, host: str) -> bool:
        return False

    def end(self, host: str, ready: float) -> None:
        raise AssertionError("nothing was claimed")


class Nodes:
    """Two agents in one directory."""

    def __init__(
        self, files: Files, *, segment_bytes: int = 2_000, room: int = 1 << 20, frame_bytes: int = 256 << 10
    ) -> None:
        self.files = files
        self.segment_bytes = segment_bytes
        self.room = room
        self.frame_bytes = frame_bytes
        manifest = manifests.open_or_create(files, 1, SHARDS, 7)
        self.splitter = Splitter(manifest.shards, manifests.domains_of(files))
        self.hosts: dict[int, list[str]] = {number: [] for number in range(SHARDS)}
        for number in range(64):
            self.hosts[self.splitter.shard_of(f"h{number}.test")].append(f"h{number}.test")
        self.gaps: list[tuple[int, int, int]] = []
        self.agents: dict[int, Agent] = {}
        self.exchanges: dict[int, FileExchange] = {}

    def open(self, number: int, options: Mapping[str, Any] = OPTIONS) -> Agent:
        """(Re)start an agent: what it had not committed is gone."""
        clock, meters = ManualClock(), Meters()
        exchange = FileExchange(
            self.files.within("exchange"),
            agent=number,
            holders=HOLDERS,
            clock=clock,
            meters=meters,
            on_gap=lambda *gap: self.gaps.append(gap),
            woken=lambda: None,
            segment_bytes=self.segment_bytes,
            room=self.room,
            frame_bytes=self.frame_bytes,
        )
        team = Team(
            name=f"a{number}",
            owned=[shard for shard, holder in HOLDERS.items() if holder == number],
            size=AGENTS,
            exchange=exchange,
            addresses=AddressTable(0.1),
            hosts=NoHosts(),
            quota=Ration(False, lambda: None),
        )
        fetchers = ScriptedFetchers(ScriptedFetcher(lambda request, before: Reply(b""), clock))
        agent = build(
            self.files,
            read_options(dict(options)),
            clock=clock,
            fetchers=fetchers,
            resolver=ScriptedResolver({}),
            meters=meters,
            team=team,
        )
        self.agents[number], self.exchanges[number] = agent, exchange
        return agent

    def begin(self, number: int, unclean: bool = False) -> None:
        cursors: dict[int, dict[int, int]] = {}
        for agent in self.agents.values():
            for shard in agent.saver.shards:
                for sender, at in shard.cursors.items():
                    cursors.setdefault(sender, {})[shard.number] = at
        self.exchanges[number].begin(self.agents[number].saver, cursors)
        self.agents[number].begin([], {}, unclean=unclean)

    def start(self) -> None:
        for number in range(AGENTS):
            self.open(number)
        for number in range(AGENTS):
            self.begin(number)

    def shard(self, number: int) -> Shard:
        found = self.agents[HOLDERS[number]].saver.find(number)
        assert found is not None
        return found

    def fetch(self, number: int, urls: Iterable[str], digest: int = 0, page: int = 0) -> int:
        """A page of a shard's first host, with links."""
        links = Links.pack(Link(url, LinkKind.ANCHOR, False, "") for url in urls)
        url = f"http://{self.hosts[number][0]}/page{page}"
        record = Fetched(1, url, 0, 0, 0, 200, "text/html", "", 1, 1, digest, Timing(), "", links)
        return self.shard(number).append(record)

    def owner(self, url: str) -> int:
        return self.splitter.shard_of(host_of(url))

    def commit(self, number: int) -> None:
        asyncio.run(_commit(self.agents[number]))

    def mend(self, number: int) -> None:
        for way in self.exchanges[number]._ways.values():
            while asyncio.run(_mend(way)):
                pass

    def read(self, number: int, most: int = 1 << 30) -> int:
        """Have an agent read what has come; how many frames."""
        count = 0
        exchange = self.exchanges[number]
        for incoming in exchange._incoming.values():
            empty = 0
            while empty < 25 and count < most:  # the end of a segment is an empty answer, too
                frames = incoming.more()
                for frame in frames:
                    exchange._apply(frame)
                count += len(frames)
                empty = 0 if frames else empty + 1
        return count

    def settle(self) -> None:
        """Everything arrives everywhere: until three rounds in a row bring nothing."""
        still = 0
        for _ in range(200):
            before = [self.shard(number).log.end for number in range(SHARDS)]
            count = 0
            for number in range(AGENTS):
                self.commit(number)
                self.mend(number)
            for number in range(AGENTS):
                count += self.read(number)
            quiet = all(exchange.quiet for exchange in self.exchanges.values())
            moved = before != [self.shard(number).log.end for number in range(SHARDS)]
            still = still + 1 if quiet and not count and not moved else 0
            if still == 3:
                return
        raise AssertionError("it does not come to rest")

    def power_cut(self, random: Random) -> None:
        """The machine stops, and starts with what its disk kept. As the supervisor does, whatever was on its way is
        removed before any agent starts: it was never synced, and the logs have it."""
        assert isinstance(self.files, FaultyFiles)
        self.files = self.files.restart(random)
        exchange = self.files.within("exchange")
        for way in exchange.list(""):
            for name in exchange.list(way):
                exchange.remove(f"{way}/{name}")

    def segments(self, sender: int, receiver: int) -> list[str]:
        return self.files.within("exchange").list(f"{sender}-{receiver}")


async def _mend(way: Way) -> bool:
    return await way.mend()


async def _commit(agent: Agent) -> None:
    # A lock of asyncio belongs to one loop, and each test step runs its own.
    agent.saver._committing = asyncio.Lock()
    await agent.saver.commit()
