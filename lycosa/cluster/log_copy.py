"""A copy of a shard's log that is kept current: for programs that follow a shard without holding it.

    copy = LogCopy(engine.stream(log_of(3)), ShardStorage(storage, crawl, 3), files)
    await copy.step()           copies everything that is committed now into `files`, as segments; returns its end

Sealed segments come from shared storage, the rest from the tail (`lycosa.cluster.tail`), which is read on from
where the last step ended. If the tail was purged beyond that, nothing is lost: its content is on storage by then,
and the copy begins anew, keeping its segments. The files are byte for byte those of the shard's holder.

What is copied is committed, so a follower of the copy need not wait for another commit. After a kill the next
process removes everything but whole sealed segments, and reads the rest from the tail again.
"""

from __future__ import annotations

import asyncio

from lycosa.clock import Clock
from lycosa.cluster.storage import SegmentWriter, ShardStorage, TailAhead, look_again
from lycosa.cluster.tail import Assembler, pieces_to
from lycosa.engine.protocol import Reading, Stream, got
from lycosa.files import Files


class LogCopy:
    """The log of one shard, in `files`."""

    def __init__(self, stream: Stream, storage: ShardStorage, files: Files, clock: Clock) -> None:
        self._stream = stream
        self._storage = storage
        self._files = files
        self._clock = clock
        self._reading: Reading | None = None
        self._assembler = Assembler(stream.name)
        self._writer = SegmentWriter(files, 0)

    @property
    def end(self) -> int:
        """The position after the last record that was copied."""
        return self._writer.end

    async def step(self) -> int:
        """Copy what is committed by now; returns its end. `Unavailable` is raised, and nothing is lost by it."""
        last = got(await self._stream.ends()).last
        return await look_again(lambda: self._follow(last), self._clock)

    async def close(self) -> None:
        self._writer.close()
        if self._reading is not None:
            reading, self._reading = self._reading, None
            await reading.close()

    async def _follow(self, last: int) -> int:
        try:
            reading = self._reading or await self._begin()
            async for piece in pieces_to(reading, last, self._assembler):
                self._writer.write(piece)
        except TailAhead:
            await self.close()
            raise
        self._writer.flush()
        return self.end

    async def _begin(self) -> Reading:
        end, _ = await asyncio.to_thread(self._storage.restore_segments, self._files)
        self._writer = SegmentWriter(self._files, end)
        self._assembler = Assembler(self._stream.name)
        self._reading = reading = self._stream.read()
        return reading
