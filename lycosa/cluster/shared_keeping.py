"""Keeping shards in a cluster: their tails are streams, and everything else is on shared storage.

`SharedHome` opens the storage that the crawl names and prepares the work directory for the crawl; `SharedKeeping`
keeps the shards of one agent: a `ShardKeeper` for each, and the `Courier` for the archive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from lycosa.archive.writer import Archive
from lycosa.clock import milliseconds
from lycosa.cluster.control import About
from lycosa.cluster.courier import Courier
from lycosa.cluster.foreign import decoded
from lycosa.cluster.held import HeldShards
from lycosa.cluster.keeping import Home, Keeping, ShardKeeper
from lycosa.cluster.lease import Holding
from lycosa.cluster.losses import lost_pages, since_checkpoint, valid_ends
from lycosa.cluster.machine import Machine
from lycosa.cluster.names import log_of
from lycosa.cluster.operating import manifest_of
from lycosa.cluster.storage import Missing, ShardStorage, Storage
from lycosa.cluster.storage.opening import OpenStorage, open_storage
from lycosa.crawl import manifest as manifests
from lycosa.crawl.manifest import shard_directory
from lycosa.crawl.shard import Shard
from lycosa.crawl.wholeness import highest
from lycosa.engine.protocol import Engine
from lycosa.errors import ConfigError
from lycosa.files import Files, write_whole
from lycosa.log.reader import LogReader
from lycosa.records import Lost


class SharedKeeping(Keeping):
    """Keeps the shards of an agent of a cluster."""

    def __init__(
        self,
        *,
        engine: Engine,
        about: About,
        storage: Storage,
        machine: Machine,
        archive: Archive | None,
        held: HeldShards,
    ) -> None:
        self._engine = engine
        self._about = about
        self._storage = storage
        self._machine = machine
        self._files = machine.files
        self._held = held
        super().__init__(self._files.within("archive"))
        self._courier = Courier(archive, self._archive, storage, engine.crawl, self._valid_ends)

    async def begin(self) -> dict[str, int]:
        await self._courier.doubt_all()  # what an earlier process left here
        return {}

    def keeper(self, number: int, holding: Holding) -> ShardKeeper:
        return ShardKeeper(
            stream=self._engine.stream(log_of(number)),
            storage=ShardStorage(self._storage, self._engine.crawl, number),
            files=self._files.within(shard_directory(number)),
            holding=holding,
            clock=self._machine.clock,
            segment_bytes=self._about.segment_bytes,
        )

    def lost(self, number: int, start: int) -> list[Lost]:
        log = LogReader(self._files.within(f"{shard_directory(number)}/log"))
        return lost_pages(log.scan(start), self._courier.had, milliseconds(self._machine.clock))

    def waiting(self) -> int:
        return self._courier.waiting()

    async def bring(self, commit: Callable[[], Awaitable[None]] | None = None) -> None:
        await self._courier.bring(commit)

    async def doubt(self) -> None:
        await self._courier.doubt_all()

    def saved(self, shard: Shard) -> None:
        shard.forget_archive_ends()  # those files are all on shared storage

    def drop(self, number: int) -> None:
        self._machine.remove(shard_directory(number))

    async def _valid_ends(self) -> Mapping[str, int]:
        """For every archive file that a log points into after its checkpoint: the end of its valid part."""
        found: list[dict[str, int]] = []
        for number in range(self._about.shards):
            storage = ShardStorage(self._storage, self._engine.crawl, number)
            held = self._held.get(number)
            if held is not None and held.shard is not None and not held.refused:
                reader = LogReader(held.shard.log.reader.files)
                rows = await asyncio.to_thread(list, reader.scan(held.saved))
            else:
                rows = await since_checkpoint(self._engine.stream(log_of(number)), storage)
            found.append(valid_ends(rows))
        return highest(found)


class SharedHome(Home):
    """The home of an agent of a cluster."""

    def __init__(self, storage: OpenStorage = open_storage, shared: str = "") -> None:
        """`storage`: opens shared storage; `shared`: its place, if elsewhere than the crawl says."""
        self._open = storage
        self._shared = shared
        self._storage: Storage | None = None
        self._crawl = ""
        self._about: About | None = None

    def open(self, crawl: str, about: About) -> None:
        self._crawl, self._about = crawl, about
        place = self._shared or about.storage
        if self._storage is None:
            self._storage = self._open(place, crawl)
        _demand_own(self._storage, place, crawl, about)

    def prepare(self, files: Files) -> None:
        assert self._storage is not None and self._about is not None
        manifest = manifest_of(self._about)
        there = manifests.load(files)
        if there is not None and there.crawl != manifest.crawl:
            raise ConfigError(f"{files.path('')} holds another crawl: give each its own --work directory")
        if there is None:
            write_whole(files, manifests.SUFFIXES, self._storage.get(f"{self._crawl}/public_suffix.dat"))
            write_whole(files, manifests.NAME, msgspec.json.format(msgspec.json.encode(manifest)))

    def close(self) -> None:
        if self._storage is not None:
            self._storage.close()

    def keeping(
        self, *, engine: Engine, about: About, machine: Machine, archive: Archive | None, held: HeldShards
    ) -> SharedKeeping:
        assert self._storage is not None
        return SharedKeeping(
            engine=engine, about=about, storage=self._storage, machine=machine, archive=archive, held=held
        )


def _demand_own(storage: Storage, place: str, crawl: str, about: About) -> None:
    """Refuse shared storage that holds nothing of the crawl, or another crawl of the same name."""
    try:
        found = decoded(storage.get(f"{crawl}/crawl.json"), About)
    except Missing:
        found = None
    if found is None or found.crawl != about.crawl:
        raise ConfigError(
            f"{place} is not the shared storage of {crawl}: mount it, or say where it is (--shared)"
        )
