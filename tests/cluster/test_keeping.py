"""Keeping a shard: the order of tail, disk and storage, and what a successor finds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from lycosa.clock import ManualClock
from lycosa.cluster.keeping import ShardKeeper, segment_for
from lycosa.cluster.lease import Holding, Lease
from lycosa.cluster.outcomes import Fenced
from lycosa.cluster.storage import Away, DirectoryStorage, Restored, ShardStorage
from lycosa.engine.protocol import Engine, StreamPlan, got
from lycosa.files import DiskFiles
from lycosa.log.log import Log, pack
from lycosa.log.reader import SEGMENT_HEAD, segment_name, segments
from lycosa.log.snapshot import SnapshotWriter
from lycosa.records import Record, Skipped, Why
from tests.cluster.logs import record

SEGMENT = 40_000


class Held:
    """A shard with an agent: its keeper and its log."""

    def __init__(self, engine: Engine, shared: Path, local: Path, epoch: int) -> None:
        self.clock = ManualClock()
        self.files = DiskFiles(local)
        self.holding = Holding(Lease(f"agent-{epoch}", epoch, 10.0), 1, began=0.0)
        self.keeper = ShardKeeper(
            stream=engine.stream("log.0"),
            storage=ShardStorage(DirectoryStorage(shared), engine.crawl, 0),
            files=self.files,
            holding=self.holding,
            clock=self.clock,
            segment_bytes=SEGMENT,
        )

    async def open(self) -> None:
        restored = await self.keeper.open()
        assert isinstance(restored, Restored)
        self.log = Log(self.files.within("log"), SEGMENT)
        assert self.log.torn == 0 and self.log.end == restored.end

    async def commit(self, *records: Record) -> None:
        for one in records:
            self.log.append(one)
        batch = self.log.cut()
        assert batch is not None
        assert await self.keeper.commit(batch) is None
        self.log.write(batch)
        self.log.confirm(batch)
        assert self.log.committed == self.keeper.committed


def noise(number: int, size: int) -> Record:
    """A record that does not compress well."""
    text = "".join(random.Random(number).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=size))
    return Skipped(number, f"http://h{number}.example/", 0, Why.SCOPE, text)


def test_blocks_and_segments_are_those_of_the_log(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    log = Log(files, SEGMENT)
    for number in range(30):
        sizes = random.Random(number).choices([10, 2_000, 150_000, 300_000], [8, 4, 1, 1], k=6)
        for size in sizes:
            log.append(noise(number, size))
        batch = log.cut()
        assert batch is not None
        segment = segment_for(files, batch, SEGMENT)
        before = files.size(segment_name(segment)) if files.exists(segment_name(segment)) else SEGMENT_HEAD
        log.write(batch)
        log.confirm(batch)
        assert segments(files)[-1] == segment
        assert files.read(segment_name(segment))[before:] == pack(batch)


async def test_a_shard_lives_on_many_agents_one_after_the_other(engine: Engine, tmp_path: Path) -> None:
    """Small segments, a small tail that fills again and again, and a new holder now and then."""
    log_bytes = 4 * SEGMENT
    got(await engine.create([StreamPlan("log.0", log_bytes)], 1))
    dice = random.Random(3)
    wanted: list[Record] = []
    held: Held | None = None
    for epoch in range(1, 6):
        before = held
        # Every other agent comes back to the disk of the one before, the rest have empty ones.
        local = tmp_path / f"disk-{epoch // 2}"
        held = Held(engine, tmp_path / "shared", local, epoch)
        await held.open()
        assert [row for _, row in held.log.reader.scan()] == wanted
        for _ in range(dice.randrange(5, 20)):
            rows = [noise(len(wanted) + n, dice.randrange(3_000)) for n in range(dice.randrange(1, 12))]
            await held.commit(*rows)
            wanted += rows
            if dice.random() < 0.2:
                await held.keeper.tidy()
        SnapshotWriter(held.files.within("snapshots"), held.log.end).seal({"files": {}, "store": "memory"})
        await held.keeper.save(held.log.end)
        if before is not None:
            before.log.append(record(0))
            batch = before.log.cut()
            assert batch is not None
            assert isinstance(await before.keeper.commit(batch), Fenced)
            assert isinstance(await before.keeper.save(0), Fenced)
    assert held is not None and len(segments(held.files.within("log"))) > 5
    first, last = got(await engine.stream("log.0").ends())
    assert 1 < first < last  # it was purged on the way


async def test_nothing_is_committed_after_the_lease(engine: Engine, tmp_path: Path) -> None:
    got(await engine.create([StreamPlan("log.0", 4 * SEGMENT)], 1))
    held = Held(engine, tmp_path / "shared", tmp_path / "local", 1)
    await held.open()
    await held.commit(record(0))
    held.clock.advance(10.0)
    held.log.append(record(1))
    batch = held.log.cut()
    assert batch is not None
    for answer in (await held.keeper.commit(batch), await held.keeper.save(1)):
        assert isinstance(answer, Fenced) and "lease" in str(answer)
    held.holding.renewed(2, 10.0)
    with pytest.raises(ValueError, match="knows more"):
        await held.keeper.save(2)


async def test_a_full_tail_waits_for_storage_that_is_away(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is on storage may leave the tail; a commit that needs the room waits, and the shard is kept."""
    got(await engine.create([StreamPlan("log.0", 4 * SEGMENT)], 1))
    held = Held(engine, tmp_path / "shared", tmp_path / "local", 1)
    await held.open()
    put, away, waits = DirectoryStorage.put_file, [3], list[float]()

    def flaky(self: DirectoryStorage, *args: Any) -> None:
        if away[0]:
            away[0] -= 1
            raise Away("it does not answer")
        put(self, *args)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(DirectoryStorage, "put_file", flaky)
    monkeypatch.setattr(held.clock, "sleep", sleep)
    wanted = [noise(number, 20_000) for number in range(20)]
    for row in wanted:
        await held.commit(row)
    assert away == [0] and len(waits) >= 3
    assert [row for _, row in held.log.reader.scan()] == wanted
