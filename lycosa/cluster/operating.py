"""What an operator does with a crawl of a cluster: create, start, seed, observe, fetch it.

Everything here is done through the crawl's keys and streams; agents are not contacted. Agents follow the keys, so
what is wanted applies to agents that start later, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from lycosa.ask.reading import CrawlReader
from lycosa.clock import Clock, SystemClock, milliseconds
from lycosa.cluster import lease as leases
from lycosa.cluster.control import About, Control, Report, State, Wanted, options_of
from lycosa.cluster.foreign import Foreign, decoded
from lycosa.cluster.leases import Gone, Said
from lycosa.cluster.links import sow
from lycosa.cluster.losses import lost_pages
from lycosa.cluster.names import exchange_of, log_of, streams_of
from lycosa.cluster.outcomes import Damaged
from lycosa.cluster.storage import Restored, ShardStorage, Storage, archives, look_again
from lycosa.cluster.storage.opening import OpenStorage, normal, open_storage
from lycosa.cluster.tail import Piece, pieces
from lycosa.crawl import manifest as manifests
from lycosa.crawl.acts import Act, outside, seeds_of
from lycosa.crawl.config import Options, canonical_seeds, encode_options, with_seeds
from lycosa.crawl.manifest import Manifest
from lycosa.crawl.splitting import Splitter, SplitterOptions
from lycosa.crawl.status import ReportTotals, added
from lycosa.crawl.steering import new_act
from lycosa.engine.protocol import Answering, Engine, got
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles, write_whole
from lycosa.log.reader import LogReader
from lycosa.url.domains import Domains
from lycosa.url.rules import Rules
from lycosa.url.scope import Scope

if TYPE_CHECKING:
    from lycosa.index.search import Search

_SUMMED = ("pages", "fetches", "bytes", "links", "duplicates", "lost", "pending", "left_behind", "deferred")
_LISTED = ("state", "pages", "rate", "pending", "shards_total", "shards_held", "replicas", "shared")
_REMEMBERED = 3_600.0
"""Seconds for which the status mentions an agent that fell silent."""
_FRESH = 15.0
"""Seconds for which a report counts as current: it is written every ten, whether or not anything changed."""
_LEAST_LEASE = 1.0


class Brought(NamedTuple):
    """What `fetch` copied."""

    shards: int
    records: int
    archives: int
    bytes: int
    missing: int
    """Pages whose archive bytes no agent has saved (yet)."""
    running: bool
    """Agents held shards: there will be more data."""


T = TypeVar("T")
_NEW_SHARDS = 5.0
"""Seconds between two looks for indexes of further shards."""


def manifest_of(about: About) -> Manifest:
    """The manifest of a crawl's directory, on any machine."""
    return Manifest(
        crawl=about.crawl,
        hash_seed=about.hash_seed,
        shards=about.shards,
        created=about.created,
        version=about.version,
        splitter=about.splitter,
        cluster=True,
    )


class Operator:
    """One crawl, as its operator sees it."""

    def __init__(
        self, engine: Engine, storage: OpenStorage = open_storage, *, clock: Clock | None = None
    ) -> None:
        """`storage`: opens the shared storage of a crawl."""
        self._engine = engine
        self._open_storage = storage
        self._opened: list[Storage] = []
        self._bucket = engine.bucket
        self._clock = clock or SystemClock()
        self._foreign = Foreign()
        self._control = Control(engine, self._clock, self._foreign)

    @property
    def denied(self) -> str:
        """What the servers refused this user; empty if nothing."""
        return self._engine.denied

    async def storage(self, place: str, replicas: int = 0) -> Storage:
        """Shared storage; it is closed together with this operator."""
        opened = await asyncio.to_thread(self._open_storage, place, self._engine.crawl, replicas=replicas)
        self._opened.append(opened)
        return opened

    async def close(self) -> None:
        for storage in self._opened:
            await asyncio.to_thread(storage.close)
        await self._engine.close()

    # -- searching

    async def answer_searches(
        self, directory: Path, replica: str, answered: Callable[[list[int]], None]
    ) -> None:
        """Answer for the shards whose index is in a directory of the crawl (`fetch`, then `lycosa index`),
        including shards that are indexed later, until cancelled."""
        from lycosa.ask.indexing import DIRECTORY, indexed, shard_path
        from lycosa.cluster.searching import answer
        from lycosa.index.ranks import RankFile
        from lycosa.index.reader import ShardReader

        about = await self._control.about()
        crawl = CrawlReader(directory)
        if crawl.crawl != about.crawl:
            raise ConfigError(
                f"{directory} is not of the crawl {self._engine.crawl}: `lycosa cluster fetch` makes it"
            )
        answering: dict[int, Answering] = {}
        ranks = RankFile(DiskFiles(directory / DIRECTORY))
        try:
            while True:
                new = [shard for shard in indexed(directory, about.shards) if shard not in answering]
                for shard in new:
                    reader = await asyncio.to_thread(ShardReader, shard_path(directory, shard), shard)
                    answering[shard] = await answer(self._engine.requests, reader, replica, ranks)
                if new:
                    answered(sorted(answering))
                await self._clock.sleep(_NEW_SHARDS)
        finally:
            for each in answering.values():
                await each.stop()

    async def search(self, seconds: float, question: Callable[[Search], T]) -> T:
        """Ask a question of the shards for which anybody answers, on any machine; runs in a thread."""
        from lycosa.cluster.searching import remote

        about = await self._control.about()
        loop = asyncio.get_running_loop()
        search = remote(self._engine.requests, loop, range(about.shards), seconds=seconds)
        return await asyncio.to_thread(question, search)

    # -- creating, and more seeds

    async def create(
        self,
        options: Options,
        seeds: Sequence[str],
        *,
        shared: Path | str,
        shards: int | None = None,
        splitter: SplitterOptions | None = None,
        replicas: int | None = None,
        **more: Any,
    ) -> list[tuple[str, str]]:
        """Create a crawl; returns the seeds that its scope refuses, and why. `shared`: see `storage.opening`."""
        place = normal(str(shared))
        manifests.demand_shards(shards, splitter)
        if more.get("lease", _LEAST_LEASE) < _LEAST_LEASE:
            raise ConfigError(f"a lease lasts at least {_LEAST_LEASE:.0f} second")
        for name, least in (("log_bytes", 8 << 20), ("exchange_bytes", 4 << 20)):
            if more.get(name, least) < least:  # many messages must fit
                raise ConfigError(f"--{name.replace('_', '-')} must be at least {least >> 20}MiB")
        if await self._control.exists():
            raise ConfigError(
                f"there is a crawl {self._engine.crawl} on these servers already: choose another name"
            )
        urls = canonical_seeds(seeds, Rules.named(options.rules))
        options = with_seeds(options, None, urls)
        suffixes = Domains.bundled_list()
        about = About(
            crawl=secrets.token_hex(6),
            shards=manifests.DEFAULT_SHARDS if shards is None else shards,
            hash_seed=secrets.randbits(63),
            created=milliseconds(self._clock),
            storage=place,
            replicas=replicas or 3,
            splitter=splitter or SplitterOptions(),
            **more,
        )
        encoded = encode_options(options).decode()
        try:
            storage = await self.storage(place, about.replicas)
            await self._control.create(about, encoded, storage, suffixes)
        except ConfigError:
            if replicas is not None:
                raise
            # Three copies are only the default, and there are not three servers.
            about = msgspec.structs.replace(about, replicas=1)
            storage = await self.storage(place, about.replicas)
            await self._control.create(about, encoded, storage, suffixes)
        await self._control.limit_pages(options.limits.pages)
        domains = Domains(suffixes)
        await sow(self._engine, Splitter(about.shards, domains, about.splitter), urls)
        return outside(Scope(options.scope, options.near, domains), urls)

    async def seed(self, seeds: Sequence[str]) -> list[tuple[str, str]]:
        """Give more seeds, now; a finished crawl continues. Returns those that are refused, and why."""
        return await self.act(new_act("seed", tuple(seeds)))

    # -- commands

    async def act(self, act: Act) -> list[tuple[str, str]]:
        """Carry out an operator's act (`lycosa.crawl.acts`): agents see it in the crawl's keys, and log it.

        Returns the seeds of it that are refused, and why.
        """
        about, now = await self._control.about(), milliseconds(self._clock)
        # First the scope that seeds belong to: a receiver of seeds reads the options once more.
        state = await self._control.steer(act)
        options = options_of(state)
        wanted = {"pause": Wanted.PAUSED, "go-on": Wanted.RUNNING, "stop": Wanted.STOPPED}.get(act.what)
        if wanted is not None:
            await self._control.want(wanted, now)
        if not (urls := seeds_of(options, act)):
            return []
        storage = await self.storage(about.storage)
        domains = Domains(await asyncio.to_thread(storage.get, f"{self._engine.crawl}/public_suffix.dat"))
        await sow(self._engine, Splitter(about.shards, domains, about.splitter), urls)
        if state.finished:
            await self._control.want(Wanted.RUNNING, now)
        return outside(Scope(options.scope, options.near, domains), urls)

    async def start(self) -> None:
        await self._control.about()
        await self._control.want(Wanted.RUNNING, milliseconds(self._clock))

    async def pause(self) -> None:
        await self._control.about()
        await self._control.want(Wanted.PAUSED)

    async def stop(self) -> None:
        await self._control.about()
        await self._control.want(Wanted.STOPPED)

    @staticmethod
    async def crawls(engines: Sequence[Engine]) -> list[dict[str, Any]]:
        """Several crawls, each with name, state, pages, agents ..."""
        found = []
        for engine in engines:
            row: dict[str, Any] = {"crawl": engine.crawl, "state": "damaged"}
            with contextlib.suppress(Damaged, ConfigError):
                status = await Operator(engine).status()
                row |= {key: status[key] for key in _LISTED}
                row["agents"] = len(status["agents"])
            found.append(row)
        return found

    async def remove(self) -> str:
        """Remove the crawl from the servers; returns the place of its shared storage, which is left."""
        about = await self._control.about()
        got(await self._engine.remove([plan.name for plan in streams_of(about.shards)]))
        return about.storage

    # -- status

    async def status(self) -> dict[str, Any]:
        """The crawl as a document; see `lycosa.cli.cluster`."""
        about = await self._control.about()
        try:
            state = await self._control.state()
            word, limit = _state_word(state), options_of(state).limits.pages
        except (Damaged, ConfigError):
            state, word, limit = State(), "damaged", 0
        reports = {n: row for n, row in (await self._control.reports()).items() if n < about.shards}
        held = {
            entry.key: leases.decode(entry.value or b"") for entry in got(await self._bucket.all("lease.*"))
        }
        backlog = await asyncio.gather(*(self._newest(shard) for shard in range(about.shards)))
        now = self._clock.wall()
        shards = [
            _shard_row(shard, held.get(f"lease.{shard}"), reports.get(shard), backlog[shard], now)
            for shard in range(about.shards)
        ]
        agents, silent = await self._agents(shards, about.lease, now)
        totals = [report.totals for report in reports.values()]
        return {
            "crawl": self._engine.crawl,
            "id": about.crawl,
            "state": word,
            "shared": about.storage,
            "replicas": about.replicas,
            "shards_total": about.shards,
            "shards_held": sum(1 for row in shards if row["holder"]),
            **{name: sum(getattr(each, name) for each in totals) for name in _SUMMED},
            "visits": sum(row["visits"] for row in shards),
            "rate": round(sum(row["rate"] for row in shards), 3),
            "statuses": added(row.statuses for row in totals),
            "skipped": added(row.skipped for row in totals),
            "backlog": sum(row["backlog"] for row in shards),
            "page_limit": limit,
            "round": state.round,
            "agents": agents,
            "silent": silent,
            "foreign": [f"{place} {what}" for place, what in sorted(self._foreign.places.items())],
            "shards": shards,
        }

    async def _agents(
        self, shards: Sequence[dict[str, Any]], lease: float, now: float
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The agents that are alive, and those that fell silent without announcing their end."""
        agents, silent = [], []
        for entry in got(await self._bucket.all("agent.*")):
            said = decoded(entry.value or b"", Said)
            if said is None:
                self._foreign.note(f"the key {entry.key}", "does not say what an agent says")
                continue
            name, age = entry.key.partition(".")[2], round(now - said.at, 3)
            mine = [row["shard"] for row in shards if row["holder"] == name]
            if age < lease:
                agents.append({"id": name, "age": age, "shards": mine, "about": msgspec.to_builtins(said)})
            elif mine or age < _REMEMBERED:
                silent.append({"id": name, "age": age, "shards": mine, "said": ""})
        for entry in got(await self._bucket.all("gone.*")):
            gone = decoded(entry.value or b"", Gone)
            if gone is not None and (age := round(now - gone.at + gone.silent, 3)) < _REMEMBERED:
                name = entry.key.partition(".")[2]
                silent.append({"id": name, "age": age, "shards": [], "said": gone.said()})
        return agents, sorted(silent, key=lambda row: str(row["id"]))

    async def _newest(self, shard: int) -> int:
        return got(await self._engine.stream(exchange_of(shard)).ends()).newest

    # -- fetching

    async def fetch(self, into: Path, told: Callable[[str], None] = lambda _: None) -> Brought:
        """Copy logs and archives into a crawl's directory.

        For a running crawl: what every shard has committed when it is read, and the archives on shared storage.
        Repeated calls add to the same directory.
        """
        about = await self._control.about()
        running = bool((await self.status())["shards_held"])
        storage = await self.storage(about.storage)
        files = DiskFiles(into)
        there = manifests.load(files)
        if there is not None and there.crawl != about.crawl:
            raise ConfigError(f"{into} holds another crawl: choose another directory")
        suffixes = await asyncio.to_thread(storage.get, f"{self._engine.crawl}/public_suffix.dat")
        write_whole(files, manifests.SUFFIXES, suffixes)
        kept = await asyncio.to_thread(archives, storage, self._engine.crawl)
        records = missing = 0
        for shard in range(about.shards):
            end, gone = await self._bring_shard(
                files, ShardStorage(storage, self._engine.crawl, shard), shard, kept
            )
            records, missing = records + end, missing + gone
            told(f"shard {shard}: {end:,} records")
        target = files.within("archive")
        for name, length in kept.items():
            if not target.exists(name) or target.size(name) != length:
                await asyncio.to_thread(
                    storage.get_file, f"{self._engine.crawl}/archive/{name}", target, name
                )
        write_whole(files, manifests.NAME, msgspec.json.format(msgspec.json.encode(manifest_of(about))))
        return Brought(about.shards, records, len(kept), sum(kept.values()), missing, running)

    async def _bring_shard(
        self, files: DiskFiles, storage: ShardStorage, shard: int, kept: dict[str, int]
    ) -> tuple[int, int]:
        place = files.within(manifests.shard_directory(shard))

        async def look() -> Restored:
            tail: list[Piece] = [piece async for piece in pieces(self._engine.stream(log_of(shard)))]
            return await asyncio.to_thread(storage.restore, place, tail)

        def gone() -> int:
            records = LogReader(place.within("log")).scan(start)
            return len(lost_pages(records, lambda name: kept.get(name, 0), 0))

        restored = await look_again(look, self._clock)
        start = restored.checkpoint.position if restored.checkpoint is not None else 0
        return restored.end, await asyncio.to_thread(gone)


def _state_word(state: State) -> str:
    if state.finished:
        return state.end or "finished"
    if state.wanted is Wanted.STOPPED and not state.since:
        return "created"
    return str(state.wanted)


def _shard_row(
    shard: int, lease: leases.Lease | None, report: Report | None, last: int, now: float
) -> dict[str, Any]:
    totals = report.totals if report is not None else ReportTotals()
    holder = lease.holder if lease is not None and not lease.released else ""
    age = max(now - totals.at, 0.0)
    # Only the holder can tell what is under way at present.
    fresh = bool(report and lease and holder == report.agent and age < max(lease.seconds, _FRESH))
    received = report.received if report is not None else 0
    return {
        "shard": shard,
        "holder": holder,
        "epoch": lease.epoch if lease is not None else 0,
        "idle": report.idle if report is not None else False,
        **{name: getattr(totals, name) for name in ("pages", "pending", "left_behind", "deferred")},
        "visits": totals.visits if fresh else 0,
        "rate": totals.rate if fresh else 0.0,
        "end": report.end if report is not None else 0,
        "committed": report.committed if report is not None else 0,
        "sent": report.sent if report is not None else 0,
        "received": received,
        "backlog": max(last - received, 0),
        "age": round(age, 3) if report is not None else None,
    }
