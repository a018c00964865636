"""Crawling with several agents from Python: `lycosa.Crawl(..., agents=4)`.

With one agent, the default here, everything is as in `lycosa.crawl.api`: the crawl runs in this process and its
pages can be iterated. Several agents run in processes of their own; then pages are in the log and the archive
only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Unpack

from lycosa.clock import SystemClock, milliseconds
from lycosa.cluster.supervisor import Supervisor, TeamReporter
from lycosa.crawl import api
from lycosa.crawl import manifest as manifests
from lycosa.crawl.api import Reporting, Running
from lycosa.crawl.config import Options, canonical_seeds
from lycosa.crawl.keywords import CrawlKeywords, SplitterKeywords
from lycosa.crawl.splitting import Splitter, SplitterOptions
from lycosa.errors import ConfigError
from lycosa.files import DirectoryLock, DiskFiles
from lycosa.url.parts import host_of
from lycosa.url.rules import Rules


class Crawl(api.Crawl):
    """A crawl in a directory of its own, of one agent or several."""

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
        """`agents`: how many; None: one for each core, but no more than the seeds' scope has work for."""
        super().__init__(seeds, into=into, shards=shards, splitter=splitter, **options)
        if agents is not None and agents < 1:
            raise ConfigError(f"a crawl has at least one agent, not {agents}")
        self._agents = agents

    async def start(self, *, pages: bool = False, told: Callable[[str], None] | None = None) -> None:
        if pages and self._agents != 1:
            raise ConfigError("pages can be iterated only with agents=1: several agents keep them in the log")
        await super().start(pages=pages, told=told)

    async def _open(
        self, lock: DirectoryLock, told: Callable[[str], None] | None
    ) -> tuple[Running, Reporting]:
        if self._agents == 1:
            return await super()._open(lock, told)
        files = DiskFiles(self._into)
        now = milliseconds(SystemClock())
        manifest = manifests.open_or_create(files, now, self._shards, None, self._splitter)
        seeds = canonical_seeds(self._seeds, Rules.named(self._options.rules))
        agents = self._agents
        if agents is None:
            split = Splitter(manifest.shards, manifests.domains_of(files), manifest.splitter)
            agents = fitting(self._options, seeds, split, cores())
        if agents > manifest.shards:
            raise ConfigError(
                f"{agents} agents are too many for {manifest.shards} shards: each has at least one"
            )
        self._agents = agents
        if agents == 1:
            return await super()._open(lock, told)
        supervisor = Supervisor(
            self._into.absolute(), manifest, self._options, seeds, agents=agents, lock=lock, told=told
        )
        await supervisor.open()
        return supervisor, TeamReporter(supervisor, self._into)

    @property
    def agents(self) -> int | None:
        """How many agents crawl; None if that is not yet decided."""
        return self._agents


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fitting(options: Options, seeds: Sequence[str], splitter: Splitter, most: int) -> int:
    """How many agents a crawl has work for, up to `most`: no more than the shards that it can reach."""
    scope = options.scope
    wider = scope.include_hosts or scope.include_domains
    if scope.mode == "any" or wider or (scope.mode == "domain" and splitter.splits_domains):
        return max(min(most, splitter.shards), 1)
    near = [*seeds, *options.near]
    reached = {splitter.shard_of(host_of(url)) for url in near}
    return max(min(most, len(reached)), 1) if near else max(min(most, splitter.shards), 1)
