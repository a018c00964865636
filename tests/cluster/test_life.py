"""The life of a shard: held, sealed, lost, taken over, gone on with. All parts of the engine together."""

from __future__ import annotations

from pathlib import Path

from lycosa.clock import ManualClock
from lycosa.cluster.leases import Leases
from lycosa.cluster.outcomes import Fenced
from lycosa.cluster.storage import DirectoryStorage, ShardStorage
from lycosa.cluster.tail import Piece, Tail
from lycosa.engine.protocol import Engine, StreamPlan, got
from lycosa.files import DiskFiles
from lycosa.log.log import Log
from lycosa.log.reader import segment_name, segments
from lycosa.log.snapshot import SnapshotWriter
from tests.cluster.logs import WrittenLog, block, record


async def test_a_shard_is_taken_over_byte_for_byte(engine: Engine, other: Engine, tmp_path: Path) -> None:
    got(await engine.create([StreamPlan("log.0", 64 << 20)], 1))
    shared = ShardStorage(DirectoryStorage(tmp_path / "shared"), engine.crawl, 0)
    clocks = ManualClock(), ManualClock()
    a = Leases(engine.bucket, "a", 10.0, clocks[0])
    b = Leases(other.bucket, "b", 10.0, clocks[1])

    # A holds the shard, writes, seals, saves a checkpoint and purges.
    held = await a.acquire(0)
    assert held is not None and await b.acquire(0) is None
    mine = DiskFiles(tmp_path / "a")
    tail = Tail(engine.stream("log.0"), ManualClock())
    await tail.claim(held.epoch)
    written = WrittenLog(tmp_path / "a/log", segment_bytes=200)
    for _ in range(8):
        first, data, segment = written.commit(3)
        assert await tail.append(first, data, held.epoch, segment) == written.log.committed
    SnapshotWriter(mine.within("snapshots"), 20).seal({"files": {}, "store": "memory"})
    for first in segments(written.files)[:-2]:
        shared.put_segment(written.files, first)
    shared.save(mine, 20, held.epoch, {"received": 5})
    assert got(await tail.purge(segments(written.files)[-2])) > 0

    # It stops answering; B takes over after the lease, with the next epoch.
    clocks[1].advance(10.0)
    taken = await b.acquire(0)
    assert taken is not None and taken.epoch == 2
    found: list[Piece] = []
    new_tail = Tail(other.stream("log.0"), ManualClock())
    await new_tail.claim(taken.epoch, found.append)
    theirs = DiskFiles(tmp_path / "b")
    restored = shared.restore(theirs, found)
    assert restored.end == new_tail.committed == 24
    assert restored.checkpoint is not None and restored.checkpoint.about == {"received": 5}
    for first in segments(written.files):
        name = segment_name(first)
        assert theirs.read(f"log/{name}") == written.files.read(name)

    # A wakes up and is refused; what it wrote on its own disk is not log.
    assert isinstance(await tail.append(24, block(24, 1), held.epoch), Fenced)
    assert not await a.renew(0)
    assert shared.save(mine, 20, held.epoch) is not None  # harmless: B has saved nothing yet
    # B goes on.
    log = Log(theirs.within("log"), 200)
    assert log.torn == 0 and log.end == 24
    assert [row for _, row in log.reader.scan()] == [record(n) for n in range(24)]
    log.append(record(24))
    log.commit()
    last = segments(theirs.within("log"))[-1]
    assert await new_tail.append(24, block(24, 1), taken.epoch, last) == 25
    assert await a.acquire(0) is None
    for leases in (a, b):
        await leases.close()


async def test_a_shard_is_handed_over_in_good_order(engine: Engine, other: Engine) -> None:
    got(await engine.create([StreamPlan("log.0", 64 << 20)], 1))
    clock = ManualClock()
    a = Leases(engine.bucket, "a", 10.0, clock)
    b = Leases(other.bucket, "b", 10.0, clock)
    held = await a.acquire(0)
    assert held is not None
    tail = Tail(engine.stream("log.0"), ManualClock())
    await tail.claim(held.epoch)
    await tail.append(0, block(0, 2), held.epoch)
    await a.release(0)
    assert not held.may_fetch(clock.monotonic())
    taken = await b.acquire(0)  # at once: no clock moved
    assert taken is not None and taken.epoch == 2
    new_tail = Tail(other.stream("log.0"), ManualClock())
    await new_tail.claim(taken.epoch)
    assert new_tail.committed == 2
