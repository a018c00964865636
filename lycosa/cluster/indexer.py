"""The search index of a cluster's crawl: the holder of a shard keeps its index, and answers searches in it.

    indexer = Indexer(engine=engine, storage=storage, about=about, work=work, me="b_1f", clock=SystemClock())
    indexer.hold([0, 3])                the shards that our agent holds now
    await indexer.run()                 until it is cancelled

It runs in a process of its own beside the agent (`lycosa agent --index`, `lycosa.cli.index_process`), so that
crawling, politeness and leases are independent of it. It keeps, in WORK/search, a crawl's directory: a copy of all
shards' logs (`log_copy`; anchor texts are in the logs of the linking shards, and ranks are made of all links), and
the index of its own shards. Bodies are read where they are: in our agent's archive, or on shared storage.

**Which shards** (`decide`). Those that our agent holds. For one that it has lost we continue to answer, with an
unchanged index, until the new holder has made its own from the log, and answers: then ours is removed. While nobody
holds a shard (the crawl is over or stopped), the agent with its index keeps it up to date; if no agent has one,
because the holder died, the first agent that notices takes it, after a silence. If two do so at the same time, they
are replicas until each sees the other; the one whose name comes first stays.

**Readiness.** We answer for a shard once all of its log that was committed when we took it is in the index.
Before that, searchers are told the progress: "shard 3 is being indexed by agent b: 12,000 of 40,000 records".

**Ranks** are made by the indexer of shard 0, put on shared storage (`CRAWL/index/ranks`), and fetched by the
others.

A body that is neither here nor on storage was lost with its agent's disk; the shard's next holder logs its page as
lost; then the page leaves the index, and is fetched again.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from lycosa.ask.indexing import DIRECTORY, Best, Indexing, indexed, shard_path
from lycosa.ask.reading import CrawlReader
from lycosa.clock import Clock, milliseconds
from lycosa.cluster import lease as leases
from lycosa.cluster.control import About, Control
from lycosa.cluster.log_copy import LogCopy
from lycosa.cluster.names import log_of
from lycosa.cluster.operating import manifest_of
from lycosa.cluster.searching import Ready, answer, ask_best, ask_ready, progress
from lycosa.cluster.storage import ArchiveFiles, Missing, ShardStorage, Storage
from lycosa.crawl import manifest as manifests
from lycosa.engine.protocol import Answering, Engine, Unavailable, got
from lycosa.errors import StorageError
from lycosa.files import DiskFiles, write_whole
from lycosa.index.ranks import NAME as RANKS
from lycosa.index.ranks import RankFile
from lycosa.index.reader import ShardReader

SEARCH = "search"
"""The directory in an agent's work directory."""
_PAUSE = 5.0
"""Seconds between rounds."""
_SILENCE = 3.0
"""Minimum time, in seconds, after which an index for which nobody answers is made by another agent."""
_COPIES = 600.0
"""Seconds after which every copy is checked again: its original, in another shard, may be gone."""
_GROWN = 0.25
"""While the crawl runs, ranks are recomputed when its log has grown by this share since."""
_ASK = 2.0
_HEAD = 16


class Choice(NamedTuple):
    """Decisions about the indexes of shards."""

    keep: frozenset[int]
    """Indexes to be brought up to date."""
    drop: frozenset[int]
    """Indexes to be removed: others have these shards now."""


def decide(
    me: str,
    held: Collection[int],
    kept: Collection[int],
    free: Collection[int],
    others: Mapping[int, Ready],
    silent: Collection[int],
) -> Choice:
    """`held`: by our agent. `kept`: shards of which we have an index. `free`: nobody holds. `others`: who else
    answers for a shard. `silent`: shards for which nobody has answered for so long that their index must be made
    anew."""
    drop = {
        shard
        for shard in kept
        if shard not in held
        and (other := others.get(shard)) is not None
        and (other.holds or (shard in free and other.name < me))
    }
    alone = {shard for shard in free if shard in kept or shard in silent}
    return Choice(frozenset({*held, *alone} - drop), frozenset(drop))


class Indexer:
    """Keeps indexes, and answers searches; see the module."""

    def __init__(
        self,
        *,
        engine: Engine,
        storage: Storage,
        about: About,
        work: Path,
        me: str,
        clock: Clock,
        told: Callable[[str], None] = lambda _: None,
        pause: float = _PAUSE,
    ) -> None:
        """`work`: the agent's work directory. `me`: its name."""
        self._engine = engine
        self._storage = storage
        self._about = about
        self._me = me
        self._clock = clock
        self._told = told
        self._pause = pause
        self._directory = directory = work / SEARCH
        files = DiskFiles(directory)
        there = manifests.load(files)
        if there is None or there.crawl != about.crawl:
            shutil.rmtree(directory, ignore_errors=True)
            write_whole(files, manifests.SUFFIXES, storage.get(f"{engine.crawl}/public_suffix.dat"))
            write_whole(files, manifests.NAME, msgspec.json.encode(manifest_of(about)))
        self._crawl = CrawlReader(directory)
        self._crawl.archive_files = ArchiveFiles(work / "archive", storage, engine.crawl)
        self._copies = [
            LogCopy(
                engine.stream(log_of(number)),
                ShardStorage(storage, engine.crawl, number),
                files.within(f"{manifests.shard_directory(number)}/log"),
                clock,
            )
            for number in range(about.shards)
        ]
        self._held: frozenset[int] = frozenset()
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._index: frozenset[int] = frozenset()
        self._whole: dict[int, Answering] = {}
        self._making: dict[int, Answering] = {}
        self._heard: dict[int, float] = {}
        self._ranked = 0
        self._working: asyncio.Future[None] | None = None
        self._looked = clock.monotonic()
        self._indexing = Indexing(self._crawl, shards=(), elsewhere=self._elsewhere)
        self._ranks = RankFile(DiskFiles(directory / DIRECTORY))

    def hold(self, shards: Collection[int]) -> None:
        """Set the shards that our agent holds."""
        if self._held != (held := frozenset(shards)):
            self._held = held
            self._woken.set()

    @property
    def answering(self) -> list[int]:
        """The shards for which we answer."""
        return sorted(self._whole)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                self._woken.clear()
                try:
                    await self.step()
                except Unavailable as away:
                    self._told(f"index: {away}; trying again")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), self._pause)
        finally:
            await self.close()

    async def close(self) -> None:
        if self._working is not None:
            await asyncio.wait([self._working])  # a round is under way in its thread
        for answering in (*self._whole.values(), *self._making.values()):
            await answering.stop()
        self._whole, self._making = {}, {}
        for copy in self._copies:
            await copy.close()
        await asyncio.to_thread(self._indexing.__exit__)

    async def step(self) -> None:
        """Decide which shards are ours, and bring their indexes up to date."""
        await self._choose()
        for copy in self._copies:
            await copy.step()
        if self._clock.monotonic() - self._looked > _COPIES:
            self._looked = self._clock.monotonic()
            self._indexing.doubt_copies()
        index = self._index
        self._working = asyncio.ensure_future(asyncio.to_thread(self._round, index))
        await asyncio.shield(self._working)
        for shard in sorted(index - set(self._whole)):
            await self._answer(shard)
        await self._rank(index)

    # -- which shards

    async def _choose(self) -> None:
        kept = set(indexed(self._directory, self._about.shards))
        held = self._held
        asked = [shard for shard in range(self._about.shards) if shard not in held]
        found = await asyncio.gather(*map(self._look, asked))
        others = {shard: ready for shard, (ready, _) in zip(asked, found, strict=True) if ready is not None}
        free = {shard for shard, (_, is_free) in zip(asked, found, strict=True) if is_free}
        now = self._clock.monotonic()
        patience = max(_SILENCE, self._about.lease)
        silent = {shard for shard in asked if now - self._heard.setdefault(shard, now) >= patience}
        choice = decide(self._me, held, kept, free, others, silent)
        for shard in choice.drop:
            await self._drop(shard)
        self._index = choice.keep
        for shard in sorted(choice.keep - set(self._whole) - set(self._making)):
            said = partial(self._said, shard)
            self._making[shard] = got(await self._engine.requests.answer(progress(shard), said))
        for shard in sorted(set(self._making) - choice.keep):
            await self._making.pop(shard).stop()

    async def _look(self, shard: int) -> tuple[Ready | None, bool]:
        """Who else answers for a shard, and whether nobody holds it."""
        requests = self._engine.requests
        ready = await ask_ready(requests, shard, self._me)
        if ready is not None:
            self._heard[shard] = self._clock.monotonic()
        elif shard not in self._making and not isinstance(
            await requests.ask(progress(shard), b"", 0.5), Unavailable
        ):
            self._heard[shard] = self._clock.monotonic()  # another agent is making it
        entry = got(await self._engine.bucket.get(f"lease.{shard}"))
        lease = leases.decode(entry.value or b"") if entry is not None else None
        return ready, lease is None or lease.released

    async def _drop(self, shard: int) -> None:
        if (answering := self._whole.pop(shard, None)) is not None:
            await answering.stop()
        self._indexing.keep([each for each in self._index if each != shard])
        await asyncio.to_thread(shutil.rmtree, shard_path(self._directory, shard), ignore_errors=True)
        self._told(f"index: shard {shard} is answered for by another")

    def _said(self, shard: int, _: bytes) -> bytes:
        done, end = self._indexing.position(shard), self._copies[shard].end
        return f"shard {shard} is being indexed by agent {self._me}: {done:,} of {end:,} records".encode()

    # -- indexing

    def _round(self, shards: frozenset[int]) -> None:
        while True:
            try:
                self._indexing.keep(shards)
                break
            except StorageError as error:  # of another version, or damaged: it can be rebuilt from the log
                bad = next((n for n in sorted(shards) if not self._indexing.keeps(n)), None)
                if bad is None or not (path := shard_path(self._directory, bad)).exists():
                    raise
                self._told(f"index: {error}; that is done now")
                shutil.rmtree(path, ignore_errors=True)
        self._indexing.round()

    def _elsewhere(self, digests: Sequence[int]) -> dict[int, Best] | None:
        """What the shards of other agents have of some contents. Runs in the indexing thread."""
        asking = self._ask_best(list(digests), self._index)
        return asyncio.run_coroutine_threadsafe(asking, self._loop).result()

    async def _ask_best(self, digests: list[int], own: frozenset[int]) -> dict[int, Best] | None:
        found: dict[int, Best] = {}
        for shard in range(self._about.shards):
            if shard not in own:
                part = await ask_best(self._engine.requests, shard, self._me, digests, _ASK)
                if part is None:
                    return None
                for digest, best in part.items():
                    found[digest] = min(best, found.get(digest, best))
        return found

    async def _answer(self, shard: int) -> None:
        reader = await asyncio.to_thread(ShardReader, shard_path(self._directory, shard), shard)
        self._whole[shard] = await answer(
            self._engine.requests, reader, self._me, self._ranks, lambda: shard in self._held
        )
        if (making := self._making.pop(shard, None)) is not None:
            await making.stop()
        self._told(f"index: answering for shard {shard}, {self._copies[shard].end:,} records")

    # -- ranks

    async def _rank(self, index: frozenset[int]) -> None:
        """Provide the ranks of pages: computed here if we index shard 0, else fetched from its indexer."""
        name = f"{self._engine.crawl}/index/{RANKS}"
        files = DiskFiles(self._directory / DIRECTORY)
        if 0 in index:
            end = sum(copy.end for copy in self._copies)
            if end == self._ranked:
                return
            finished = (await Control(self._engine, self._clock).state()).finished
            if not finished and end - self._ranked <= _GROWN * end:
                return
            await asyncio.to_thread(self._indexing.rank, milliseconds(self._clock))
            if files.exists(RANKS):
                await asyncio.to_thread(self._storage.put_file, name, files, RANKS)
            self._ranked = end
            return
        with contextlib.suppress(Missing):
            head = await asyncio.to_thread(self._storage.read_at, name, 0, _HEAD)
            if not files.exists(RANKS) or files.read_at(RANKS, 0, _HEAD) != head:
                new = f"{RANKS}.new"  # processes that have the old file mapped keep it
                await asyncio.to_thread(self._storage.get_file, name, files, new)
                files.rename(new, RANKS)
