"""Crawling with several agents from Python: `lycosa.Crawl(..., agents=4)`.

With one agent, the default here, everything is as in `lycosa.crawl.api`: the crawl runs in this process and its
pages can be iterated. Several agents run in processes of their own; pages are then only in the log and the archive.
With None, the command's default, a crawl begins with one agent and continues with several when there is work for
them (`growing`), but no more than there are cores and memory for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Unpack

from lycosa.clock import SystemClock, milliseconds
from lycosa.cluster.growing import ENOUGH, Growing, Need
from lycosa.crawl import api, machine
from lycosa.crawl import manifest as manifests
from lycosa.crawl.agent import Agent
from lycosa.crawl.api import Running
from lycosa.crawl.config import Options, canonical_seeds
from lycosa.crawl.keywords import CrawlKeywords, SplitterKeywords
from lycosa.crawl.manifest import Manifest
from lycosa.crawl.splitting import Splitter, SplitterOptions
from lycosa.crawl.status import Status, read_status
from lycosa.errors import ConfigError
from lycosa.files import DirectoryLock, DiskFiles
from lycosa.url.parts import host_of
from lycosa.url.rules import Rules

_AGENT_BYTES = 512 << 20
"""Approximate memory per agent: a process of 200 MB, and its part of the frontier and the seen set."""


class Crawl(api.Crawl):
    """A crawl in a directory of its own, by one agent or several."""

    def __init__(
        self,
        seeds: Iterable[str] | str = (),
        *,
        into: str | Path,
        shards: int | None = None,
        splitter: SplitterOptions | SplitterKeywords | None = None,
        agents: int | None = 1,
        **options: Unpack[CrawlKeywords],
    ) -> None:
        """`agents`: how many; None: begin with one, and use one per core when there is work for them."""
        super().__init__(seeds, into=into, shards=shards, splitter=splitter, **options)
        if agents is not None and agents < 1:
            raise ConfigError(f"a crawl has at least one agent, not {agents}")
        self._agents = agents
        self._need = Need()

    async def start(self, *, pages: bool = False, told: Callable[[str], None] | None = None) -> None:
        if pages and self._agents != 1:
            raise ConfigError("pages can be iterated only with agents=1: several agents keep them in the log")
        await super().start(pages=pages, told=told)

    async def _check(self) -> None:
        await super()._check()
        known = manifests.load(DiskFiles(self._into)) if self._into.is_dir() else None
        shards = known.shards if known is not None else self._shards or manifests.DEFAULT_SHARDS
        if self._agents is not None and self._agents > shards:
            raise ConfigError(
                f"{self._agents} agents are too many for {shards} shards: each has at least one"
            )

    async def _open(self, lock: DirectoryLock, told: Callable[[str], None] | None) -> Running:
        if self._agents == 1:
            return await super()._open(lock, told)
        files = DiskFiles(self._into)
        now = milliseconds(SystemClock())
        manifest = manifests.open_or_create(files, now, self._shards, None, self._splitter)
        seeds = canonical_seeds(self._seeds, Rules.named(self._options.rules))
        if self._agents is not None:
            return await self._open_team(self._agents, manifest, seeds, lock, told)
        split = Splitter(manifest.shards, manifests.domains_of(files), manifest.splitter)
        most = fitting(self._options, seeds, split, affordable())
        if most > 1 and _much_is_left(self._into, self._options):
            return await self._open_team(most, manifest, seeds, lock, told)
        self._agents = 1
        agent = await super()._open(lock, told)
        if most == 1:
            return agent
        assert isinstance(agent, Agent)

        async def grow(before: Status) -> Running:
            if told is not None:
                told(f"there is work for more than one agent: going on with {most}")
            return await self._open_team(most, manifest, seeds, lock, told, before)

        return Growing(agent, grow, self._need)

    async def _open_team(
        self,
        agents: int,
        manifest: Manifest,
        seeds: Sequence[str],
        lock: DirectoryLock,
        told: Callable[[str], None] | None,
        before: Status | None = None,
    ) -> Running:
        from lycosa.cluster.supervisor import Supervisor  # one agent does not need it

        self._agents = agents
        supervisor = Supervisor(
            self._into.absolute(),
            manifest,
            self._options,
            seeds,
            agents=agents,
            lock=lock,
            told=told,
            before=before,
        )
        await supervisor.open()
        return supervisor

    @property
    def agents(self) -> int | None:
        """The present number of agents; None if that is not yet decided."""
        return self._agents


def affordable() -> int:
    """How many agents the machine, or the container, has cores and memory for."""
    return max(min(machine.cores(), machine.memory_limit() // _AGENT_BYTES), 1)


def _much_is_left(directory: Path, options: Options) -> bool:
    """Whether the last run left so many pages that one agent need not be tried first."""
    last = read_status(directory)
    if last is None or last.pending < ENOUGH:
        return False
    return not options.limits.pages or options.limits.pages - last.pages >= ENOUGH


def fitting(options: Options, seeds: Sequence[str], splitter: Splitter, most: int) -> int:
    """How many agents a crawl has work for, up to `most`: no more than there are shards that it can reach."""
    scope = options.scope
    wider = scope.include_hosts or scope.include_domains
    if (
        options.near_files
        or scope.mode == "any"
        or wider
        or (scope.mode == "domain" and splitter.splits_domains)
    ):
        return max(min(most, splitter.shards), 1)
    near = [*seeds, *options.near]
    reached = {splitter.shard_of(host_of(url)) for url in near}
    return max(min(most, len(reached)), 1) if near else max(min(most, splitter.shards), 1)
