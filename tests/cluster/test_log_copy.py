"""A copy of a shard's log is the holder's, byte for byte, whatever of it went to storage meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lycosa.clock import ManualClock, SystemClock
from lycosa.cluster.log_copy import LogCopy
from lycosa.cluster.storage import DirectoryStorage, ShardStorage
from lycosa.cluster.tail import AT_ONCE, Assembler, Piece, Tail, pieces
from lycosa.engine.protocol import Engine, Message, StreamPlan, got
from lycosa.files import DiskFiles
from lycosa.log.reader import LogReader, segment_name, segments
from tests.cluster.logs import WrittenLog, record

CLAIM = {"Lycosa-Epoch": "1", "Lycosa-First": "0", "Lycosa-Count": "0", "Lycosa-Segment": "0"}


class Shard:
    """A shard's holder, its tail and its storage, and who copies it."""

    def __init__(self, engine: Engine, root: Path) -> None:
        self.written = WrittenLog(root / "holder", segment_bytes=200)
        self.tail = Tail(engine.stream("log.0"), ManualClock())
        self.shared = ShardStorage(DirectoryStorage(root / "shared"), engine.crawl, 0)
        self.files = DiskFiles(root / "copy")
        self._engine = engine
        self.copy = self.begun()

    def begun(self) -> LogCopy:
        return LogCopy(self._engine.stream("log.0"), self.shared, self.files, SystemClock())

    async def write(self, commits: int) -> None:
        for _ in range(commits):
            first, data, segment = self.written.commit(3)
            assert await self.tail.append(first, data, 1, segment) == self.written.log.committed

    async def seal(self) -> None:
        """What is sealed goes to storage, and leaves the tail."""
        last = segments(self.written.files)[-1]
        for first in segments(self.written.files)[:-1]:
            self.shared.put_segment(self.written.files, first)
        assert got(await self.tail.purge(last)) > 0

    def same(self) -> bool:
        names = [segment_name(first) for first in segments(self.written.files)]
        assert [segment_name(first) for first in segments(self.files)] == names
        return all(self.files.read(name) == self.written.files.read(name) for name in names)


async def test_a_copy_keeps_up_and_finds_on_storage_what_left_the_tail(
    engine: Engine, tmp_path: Path
) -> None:
    got(await engine.create([StreamPlan("log.0", 64 << 20)], 1))
    shard = Shard(engine, tmp_path)
    await shard.tail.claim(1)
    assert await shard.copy.step() == 0
    await shard.write(4)
    assert await shard.copy.step() == 12 and shard.same()
    await shard.write(2)
    await shard.seal()  # up to here it had been read, or not: both are met
    await shard.write(3)
    assert await shard.copy.step() == 27 and shard.same()
    assert [row for _, row in LogReader(shard.files).scan()] == [record(n) for n in range(27)]
    await shard.copy.close()

    # A process that was killed left a piece of a segment: the next one has it again.
    last = segment_name(segments(shard.files)[-1])
    shard.files.truncate(last, shard.files.size(last) - 5)
    await shard.write(1)
    again = shard.begun()
    assert await again.step() == 30 and shard.same()
    # One that was away while all went to storage begins there.
    await shard.write(9)
    await shard.seal()
    assert await again.step() == 57 and shard.same()
    await again.close()


async def test_messages_are_checked_a_few_at_a_time(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may have half a megabyte, and a tail hundreds of them."""
    got(await engine.create([StreamPlan("log.0", 64 << 20)], 1))
    stream = engine.stream("log.0")
    for _ in range(4 * AT_ONCE):
        got(await stream.append(b"", headers=CLAIM))
    taken: list[int] = []
    plain = Assembler.take

    def take(assembler: Assembler, message: Message) -> Piece | None:
        taken[-1] += 1
        return plain(assembler, message)

    async def breathe() -> None:
        while True:
            taken.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(Assembler, "take", take)
    breathing = asyncio.ensure_future(breathe())
    await asyncio.sleep(0)
    assert [piece async for piece in pieces(stream)] == []
    breathing.cancel()
    assert sum(taken) == 4 * AT_ONCE and max(taken) <= AT_ONCE
