"""The exchange between the agents of one machine: append-only files, one way for each (from, to).

Sending is a fold over committed logs (`sending`); reading appends `Received` to the logs of this agent's shards,
with the sender's position as the cursor, and skips what lies before the cursor: so every link is applied once,
whatever dies. A segment is removed when all of it was read and a commit came after.

Contents. A digest whose partition another agent keeps travels with the links; the owner's `Received` holds it, and
once that is committed the owner answers which were known. The asker logs the answer as `Duplicates`, unless
its cursor says that it has it. An answer that is lost in a crash only leaves a duplicate unmarked.

What cannot be read (damaged, too long, of another version) ends the run: passed over, its links would be lost.

A frame that begins past the cursor would mean that something before it was lost. It is not applied; its sender is
asked, through whoever watches over the agents, to go back to the cursor (`on_gap`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from lycosa.clock import Clock, milliseconds
from lycosa.cluster.frames import (
    SEGMENT_HEAD,
    AnswersFrame,
    Frame,
    LinksFrame,
    check_head,
    directory_of,
    segment_name,
    serial_of,
    unpack,
)
from lycosa.cluster.sending import FRAME_BYTES, ROOM, SEGMENT_BYTES, Segments, Way
from lycosa.crawl.exchange import receive
from lycosa.crawl.saving import Saver
from lycosa.crawl.shard import Shard
from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.meters import Meters
from lycosa.records import Duplicates

T = TypeVar("T")

_POLL = 0.05
_PIECE = 1 << 20
_SELDOM = 20


class Incoming:
    """The segments from one other agent, read as they grow."""

    def __init__(self, files: Files, sender: int, receiver: int) -> None:
        self._files = files.within(directory_of(sender, receiver))
        self._ends = (sender, receiver)
        self._serial = -1
        self._offset = 0
        self._looked = 0
        self._finished: list[int] = []
        self._ripe: list[int] = []
        self.more()

    @property
    def position(self) -> tuple[int, int]:
        """Serial of the segment that is read, and how far."""
        return self._serial, self._offset

    def _later(self) -> int | None:
        """The next segment, if there is one. A missing one is passed over, but not looked for all the time."""
        if self._serial >= 0 and self._files.exists(segment_name(self._serial + 1)):
            return self._serial + 1
        self._looked += 1
        if self._serial >= 0 and self._looked % _SELDOM:
            return None
        serials = [serial for name in self._files.list("") if (serial := serial_of(name)) is not None]
        return min((serial for serial in serials if serial > self._serial), default=None)

    def more(self) -> list[Frame]:
        """Frames that have come since; empty if there are none now."""
        frames = self._read()
        if frames or (later := self._later()) is None:
            return frames
        # Nothing whole was left here, and a later segment is there: nothing more can come, since its writer made it
        # after its last word in this one. (What is torn was never whole: the writer died at it.)
        if self._serial >= 0:
            if frames := self._read():
                return frames
            self._finished.append(self._serial)
        self._serial, self._offset = later, SEGMENT_HEAD
        return []

    def _read(self) -> list[Frame]:
        name = segment_name(self._serial)
        if self._serial < 0 or not self._files.exists(name) or self._files.size(name) <= self._offset:
            return []
        try:
            if self._offset == SEGMENT_HEAD:
                check_head(self._files.read_at(name, 0, SEGMENT_HEAD), *self._ends)
            data = self._files.read_at(name, self._offset, _PIECE)
            frames, used = unpack(data)
            if not frames and len(data) == _PIECE:
                data = self._files.read_at(name, self._offset, self._files.size(name) - self._offset)
                frames, used = unpack(data)
        except StorageError as error:
            raise StorageError(
                f"{self._files.path(name)} cannot be read at byte {self._offset}: {error}; run the same command"
                f" again: the links are sent once more from the logs"
            ) from None
        self._offset += used
        return frames

    def committed(self) -> None:
        """A commit has ended: what was read before it began can go. Whatever ended since waits for the next."""
        for serial in self._ripe:
            self._files.remove(segment_name(serial))
        self._ripe, self._finished = self._finished, []


class FileExchange:
    """Carries links between the shards of this agent and those of others."""

    def __init__(
        self,
        files: Files,
        *,
        agent: int,
        holders: Mapping[int, int],
        clock: Clock,
        meters: Meters,
        on_gap: Callable[[int, int, int], None],
        woken: Callable[[], None],
        segment_bytes: int = SEGMENT_BYTES,
        room: int = ROOM,
        frame_bytes: int = FRAME_BYTES,
    ) -> None:
        """`holders` says which agent has each shard of the crawl."""
        self._clock = clock
        self._on_gap = on_gap
        self._woken = woken
        self._holders = dict(holders)
        self._saver: Saver | None = None
        others = sorted(set(holders.values()) - {agent})
        self._ways = {
            other: Way(
                Segments(files, agent, other, segment_bytes),
                [shard for shard, holder in sorted(holders.items()) if holder == other],
                self._find,
                meters,
                room,
                frame_bytes,
            )
            for other in others
        }
        self._incoming = {other: Incoming(files, other, agent) for other in others}
        self._received = meters.counter("exchange.links_in")
        self._cpu = 0.0
        meters.gauge("exchange.cpu", lambda: self._cpu)
        self._gaps: set[tuple[int, int, int]] = set()

    def begin(self, saver: Saver, cursors: Mapping[int, Mapping[int, int]]) -> None:
        """The shards have recovered. `cursors`: of this agent's shards, by sender and receiver."""
        self._saver = saver
        for shard in saver.shards:
            shard.replies = []
            for way in self._ways.values():
                way.begin(shard, cursors.get(shard.number, {}))

    def _find(self, number: int) -> Shard | None:
        return None if self._saver is None else self._saver.find(number)

    # -- the agent's port

    def deliver(self) -> None:
        assert self._saver is not None
        began = time.thread_time()
        for way in self._ways.values():
            way.deliver(self._saver.shards)
        for shard in self._saver.shards:
            self._answer(shard)
        for incoming in self._incoming.values():
            incoming.committed()
        self._cpu += time.thread_time() - began

    def rewind(self) -> None:
        if self._saver is not None:
            for way in self._ways.values():
                way.rewind(self._saver.shards)

    @property
    def quiet(self) -> bool:
        replies = any(shard.replies for shard in self._saver.shards) if self._saver else False
        return not replies and all(way.quiet for way in self._ways.values())

    def _answer(self, shard: Shard) -> None:
        """Answers to what is committed: a question that a crash undoes is asked again, and answered then."""
        if not shard.replies:
            return
        ready = [row for row in shard.replies if row[0] < shard.log.committed]
        shard.replies = [row for row in shard.replies if row[0] >= shard.log.committed]
        for position, asker, positions in ready:
            way = self._ways.get(self._holders[asker])
            if way is not None:
                way.answer(shard.number, asker, position, positions)
                way.flush()

    # -- asked from outside

    def go_back(self, sender: int, receiver: int, cursor: int) -> None:
        """A receiver of another agent missed something of a shard here."""
        shard, way = self._find(sender), self._ways.get(self._holders.get(receiver, -1))
        if shard is not None and way is not None:
            way.go_back(shard, receiver, cursor)

    def ends(self) -> dict[int, tuple[int, int]]:
        """For each other agent: how far was written to it."""
        return {other: way.end for other, way in self._ways.items()}

    def reads(self) -> dict[int, tuple[int, int]]:
        """For each other agent: how far was read from it."""
        return {other: incoming.position for other, incoming in self._incoming.items()}

    # -- beside the crawl

    async def run(self) -> None:
        """Read what comes and mend what is behind, until cancelled."""
        while True:
            busy = False
            for incoming in self._incoming.values():
                for frame in self._timed(incoming.more):
                    self._timed(partial(self._apply, frame))
                    busy = True
                    await asyncio.sleep(0)
            if busy:
                self._woken()
            for way in self._ways.values():
                busy |= await way.mend()
            await asyncio.sleep(0 if busy else _POLL)

    def _timed(self, step: Callable[[], T]) -> T:
        began = time.thread_time()
        try:
            return step()
        finally:
            self._cpu += time.thread_time() - began

    def _apply(self, frame: Frame) -> None:
        if isinstance(frame, LinksFrame):
            self._receive(frame)
        else:
            self._heed(frame)

    def _receive(self, frame: LinksFrame) -> None:
        shard = self._find(frame.receiver)
        if shard is None:
            return
        cursor = shard.cursors.get(frame.sender, 0)
        if frame.start > cursor:
            gap = (frame.sender, frame.receiver, cursor)
            if gap not in self._gaps:
                self._gaps.add(gap)
                self._on_gap(*gap)
            return
        rows = [row for row in frame.rows() if row[0] >= cursor]
        asks = [row for row in frame.asks() if row[0] >= cursor]
        if rows or asks or frame.end > cursor:
            self._received.add(len(rows))
            end = max(cursor, frame.end)
            receive(shard, frame.sender, end, rows, milliseconds(self._clock), asks)

    def _heed(self, frame: AnswersFrame) -> None:
        shard = self._find(frame.asker)
        if shard is not None and frame.position >= shard.answers.get(frame.owner, 0):
            at = milliseconds(self._clock)
            shard.append(Duplicates(at, frame.owner, frame.position + 1, frame.positions))

    def close(self) -> None:
        for way in self._ways.values():
            way.close()
