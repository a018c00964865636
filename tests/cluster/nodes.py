"""Agents whose records are made up, with a real exchange between them; nothing is fetched and no time passes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from random import Random
from typing import Any, TypeVar

import msgspec

from lycosa.clock import ManualClock, SystemClock
from lycosa.cluster.control import Control
from lycosa.cluster.links import Cursors
from lycosa.cluster.names import cursors_of, exchange_of
from lycosa.cluster.rations import Rations
from lycosa.cluster.streaming import Incoming, Outgoing, StreamExchange
from lycosa.cluster.survey import survey
from lycosa.crawl import manifest as manifests
from lycosa.crawl.agent import Agent, Team, build
from lycosa.crawl.config import read_options
from lycosa.crawl.saving import OwnDisk
from lycosa.crawl.shard import Shard
from lycosa.crawl.splitting import Splitter
from lycosa.engine.kept import KeptCrawl
from lycosa.engine.memory import MemoryEngine, MemoryServers
from lycosa.engine.protocol import StreamPlan, got
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
T = TypeVar("T")
_loop = asyncio.new_event_loop()


def run(work: Coroutine[Any, Any, T]) -> T:
    return _loop.run_until_complete(work)


class NoHosts:
    async def claim(self, host: str) -> bool:
        return False

    def end(self, host: str, ready: float) -> None:
        raise AssertionError("nothing was claimed")


class _Servers(MemoryServers):
    """Whose streams begin behind a sequence."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._crawls["nodes"] = KeptCrawl(after)


class Nodes:
    """Two agents in one directory."""

    def __init__(self, files: Files, *, room: int = 1 << 20) -> None:
        """`room`: of each stream."""
        self.files = files
        self.clock = ManualClock()
        self._room = room
        manifest = manifests.open_or_create(files, 1, SHARDS, 7)
        self.splitter = Splitter(manifest.shards, manifests.domains_of(files))
        self.hosts: dict[int, list[str]] = {number: [] for number in range(SHARDS)}
        for number in range(64):
            self.hosts[self.splitter.shard_of(f"h{number}.test")].append(f"h{number}.test")
        self.agents: dict[int, Agent] = {}
        self.out: dict[int, Outgoing] = {}
        self.incoming: dict[int, Incoming] = {}
        self.engine = self._begun()

    def _begun(self) -> MemoryEngine:
        """An engine as a supervisor begins it: empty, behind what the logs know."""
        last = max((row.received for row in survey(self.files, range(SHARDS)).values()), default=0)
        engine = MemoryEngine(_Servers(last), "nodes", SystemClock())
        plans = [StreamPlan(exchange_of(number), self._room, lanes=True) for number in range(SHARDS)]
        got(run(engine.create(plans, 1)))
        return engine

    def open(self, number: int, options: Mapping[str, Any] = OPTIONS) -> Agent:
        """(Re)start an agent: what it had not committed is gone."""
        meters = Meters()
        team = Team(
            name=f"a{number}",
            size=AGENTS,
            exchange=StreamExchange(fail=self._fail),
            addresses=AddressTable(0.1),
            hosts=NoHosts(),
            quota=Rations(Control(self.engine, self.clock), 0, self.clock),
            ledger=OwnDisk(),
        )
        fetchers = ScriptedFetchers(ScriptedFetcher(lambda request, before: Reply(b""), self.clock))
        agent = build(
            self.files,
            read_options(dict(options)),
            clock=self.clock,
            fetchers=fetchers,
            resolver=ScriptedResolver({}),
            meters=meters,
            team=team,
        )
        self.agents[number] = agent
        for shard in (agent.moves.opened(n) for n, holder in HOLDERS.items() if holder == number):
            agent.shards.add(shard)
            self.out.pop(shard.number, None)
            self.incoming.pop(shard.number, None)
        return agent

    def _fail(self, error: Exception) -> None:
        raise error

    def begin(self, number: int, unclean: bool = False) -> None:
        agent = self.agents[number]
        agent.begin([], {}, unclean=unclean)
        for shard in agent.shards:
            told = msgspec.json.encode(Cursors(shard.cursors))
            got(run(self.engine.bucket.put(cursors_of(shard.number), told)))
        for shard in agent.shards:
            out = Outgoing(self.engine, shard, SHARDS, 1, self.clock, agent.meters, self._room // 32)
            assert run(out.resume()) is None
            self.out[shard.number] = out
            self.incoming[shard.number] = Incoming(
                self.engine.stream(exchange_of(shard.number)),
                shard,
                clock=self.clock,
                meters=agent.meters,
                woken=lambda: None,
                refresh=self._nothing,
            )

    async def _nothing(self) -> None:
        """There are no newer options."""

    def start(self) -> None:
        for number in range(AGENTS):
            self.open(number)
        for number in range(AGENTS):
            self.begin(number)

    def shard(self, number: int) -> Shard:
        found = self.agents[HOLDERS[number]].shards.find(number)
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
        run(self.agents[number].saver.commit())
        for shard in self.agents[number].shards:
            if shard.number in self.out:
                self.out[shard.number].committed()
                self.incoming[shard.number].committed()

    def mend(self, number: int) -> None:
        """Have an agent send all that may travel."""
        self.clock.advance(1.0)
        for shard in self.agents[number].shards:
            while run(self.out[shard.number].step()):
                pass

    def read(self, number: int, most: int = 1 << 30) -> int:
        """Have an agent read what has come; how many frames."""
        count = 0
        for shard in self.agents[number].shards:
            while count < most and (more := got(run(self.incoming[shard.number].step(0.0, 1)))):
                count += more
        return count

    @property
    def quiet(self) -> bool:
        return all(out.quiet for out in self.out.values())

    def settle(self) -> None:
        """Everything arrives everywhere: until three rounds in a row bring nothing."""
        still = 0
        for _ in range(200):
            before = [self.shard(number).log.end for number in range(SHARDS)]
            count = 0
            self.clock.advance(6.0)
            for number in range(AGENTS):
                self.commit(number)
                self.mend(number)
            for number in range(AGENTS):
                count += self.read(number)
            moved = before != [self.shard(number).log.end for number in range(SHARDS)]
            still = still + 1 if self.quiet and not count and not moved else 0
            if still == 3:
                return
        raise AssertionError("it does not come to rest")

    def power_cut(self, random: Random) -> None:
        """The machine stops, and starts with what its disk kept. Whatever was on its way is gone, as with the
        supervisor: the logs have it."""
        assert isinstance(self.files, FaultyFiles)
        self.files = self.files.restart(random)
        self.out.clear()
        self.incoming.clear()
        self.engine = self._begun()
