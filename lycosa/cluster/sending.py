"""Sending links to the shards of another agent: a fold over the committed logs of this agent's shards.

For each of this agent's shards the way to another agent is in one of three states:

    live        what a commit made durable is taken from the shard's outbox and written
    behind      the outbox keeps nothing for that agent; what was committed is read back from the log, some
                records at a time, in a thread
    closing     read up to the commits of a moment ago; what is found from `until` on is in the outbox again

It begins behind, from the receivers' cursors, since nobody knows what the last process had sent; and it falls
behind again when more than `room` bytes wait unread, so that an agent that stands still costs its senders no
memory. After a change of scope the shard's pass logs which earlier records it judged again (`Reread`): their links
are read back with that record.

What is sent twice does no harm: the receiver's cursor says which rows it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lycosa.cluster.frames import (
    SEGMENT_HEAD,
    AnswersFrame,
    LinksFrame,
    cut,
    directory_of,
    links_frame,
    pack,
    segment_head,
    segment_name,
    serial_of,
)
from lycosa.crawl.exchange import Heartbeats, Row, every
from lycosa.crawl.replay import LinkPass, read_back_apart
from lycosa.crawl.shard import Shard
from lycosa.files import Appender, Files
from lycosa.meters import Meters

SEGMENT_BYTES = 4 << 20
ROOM = 64 << 20
FRAME_BYTES = 256 << 10
_ROWS = 2_000
"""Links in one frame: a receiver takes it in a few milliseconds."""


class Segments:
    """The segments from this agent to another, of which the last is written."""

    def __init__(self, files: Files, sender: int, receiver: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._files = files.within(directory_of(sender, receiver))
        self._ends = (sender, receiver)
        self._segment_bytes = segment_bytes
        serials = [serial for name in self._files.list("") if (serial := serial_of(name)) is not None]
        self._serial = max(serials, default=-1)
        self._out: Appender = self._begin()

    def _begin(self) -> Appender:
        """A segment of its own for each process: the tail of the last may be torn."""
        self._serial += 1
        out = self._files.create(segment_name(self._serial))
        out.write(segment_head(*self._ends, self._serial))
        out.flush()
        return out

    def write(self, data: bytes) -> None:
        if self._out.size > SEGMENT_HEAD and self._out.size + len(data) > self._segment_bytes:
            self._out.close()
            self._out = self._begin()
        self._out.write(data)

    def flush(self) -> None:
        """Let the reader have it. Nothing is synced: the logs have it too."""
        self._out.flush()

    @property
    def end(self) -> tuple[int, int]:
        """Serial and size of the last segment."""
        return self._serial, self._out.size

    def unread(self) -> int:
        """Bytes, about, in segments that the reader has not yet removed. The last counts for nothing: it stays."""
        count = sum(1 for name in self._files.list("") if serial_of(name) is not None)
        return max(count - 1, 0) * self._segment_bytes

    def close(self) -> None:
        self._out.close()


class _Behind:
    """Where the reading back of one shard's log is."""

    def __init__(self, shard: Shard, start: int) -> None:
        self.until: int | None = None
        self.reading = LinkPass(shard.log.reader.files, start)

    @property
    def next(self) -> int:
        return self.reading.position


class Way:
    """From this agent's shards to those of one other agent."""

    def __init__(
        self,
        segments: Segments,
        receivers: Sequence[int],
        find: Callable[[int], Shard | None],
        meters: Meters,
        room: int = ROOM,
        frame_bytes: int = FRAME_BYTES,
    ) -> None:
        self._segments = segments
        self._receivers = tuple(receivers)
        self._find = find
        self._room = room
        self._frame_bytes = frame_bytes
        self._sent: dict[tuple[int, int], int] = {}
        """For (sender, receiver): what was found before this position has been written."""
        self._behind: dict[int, _Behind] = {}
        self._heartbeats: dict[int, Heartbeats] = {}
        self._asked: dict[int, int] = {}
        """For each sender: contents fetched from here on are asked about; earlier ones only told. (They may have
        been asked before, or marked when both shards were one agent's: the answer would be yes, and wrong.)"""
        self._waiting = False
        self._links = meters.counter("exchange.links_out")
        self._bytes = meters.counter("exchange.bytes_out")

    # -- what to send

    def begin(self, shard: Shard, cursors: Mapping[int, int]) -> None:
        """Send what the shard's log has from the receivers' cursors on."""
        self._asked.setdefault(shard.number, shard.log.end)
        for receiver in self._receivers:
            self._sent[shard.number, receiver] = cursors.get(receiver, 0)
        self._fall_behind(shard)

    def go_back(self, shard: Shard, receiver: int, cursor: int) -> None:
        """A receiver missed something: send from its cursor on."""
        before = self._sent.get((shard.number, receiver), 0)
        if cursor < before:
            self._sent[shard.number, receiver] = cursor
            self._fall_behind(shard)

    def rewind(self, shards: Sequence[Shard]) -> None:
        """The outboxes are cleared: read back what was not yet sent."""
        for shard in shards:
            if (shard.number, self._receivers[0]) in self._sent:
                self._fall_behind(shard)

    def forget(self, number: int) -> None:
        """The shard is no longer this agent's."""
        self._behind.pop(number, None)
        self._heartbeats.pop(number, None)
        for receiver in self._receivers:
            self._sent.pop((number, receiver), None)

    def _fall_behind(self, shard: Shard) -> None:
        shard.outbox.shut(self._receivers)
        self._heartbeats.pop(shard.number, None)
        start = min(self._sent[shard.number, receiver] for receiver in self._receivers)
        self._behind[shard.number] = _Behind(shard, start)

    @property
    def quiet(self) -> bool:
        """Nothing waits in a log to be sent."""
        return not self._behind

    @property
    def end(self) -> tuple[int, int]:
        return self._segments.end

    # -- live

    def deliver(self, shards: Sequence[Shard]) -> None:
        """After a commit."""
        if not self._has_room():
            for shard in shards:
                if shard.number not in self._behind and (shard.number, self._receivers[0]) in self._sent:
                    self._fall_behind(shard)
            return
        for shard in shards:
            if shard.number in self._behind:
                continue
            committed, number = shard.log.committed, shard.number
            for receiver in shard.outbox.owners():
                if (number, receiver) in self._sent:
                    rows = shard.outbox.take(receiver, committed)
                    asks = shard.outbox.take_asks(receiver, committed)
                    if rows or asks:
                        self._write(number, receiver, committed, rows, asks)
            heartbeats = self._heartbeats.setdefault(number, Heartbeats())
            if (number, self._receivers[0]) in self._sent and heartbeats.is_due(committed):
                for receiver in self._receivers:
                    if committed - self._sent[number, receiver] >= every(len(self._receivers)):
                        self._write(number, receiver, committed, [], [])
                heartbeats.looked([self._sent[number, receiver] for receiver in self._receivers])
        self._segments.flush()

    def answer(self, owner: int, asker: int, position: int, positions: list[int]) -> None:
        """Say which contents were known; lost if it does not arrive, so written whatever the room."""
        data = pack(AnswersFrame(owner, asker, position, positions))
        self._segments.write(data)
        self._bytes.add(len(data))

    def flush(self) -> None:
        self._segments.flush()

    def _write(
        self, sender: int, receiver: int, end: int, rows: Sequence[Row], asks: Sequence[tuple[int, int]]
    ) -> None:
        """Write rows up to `end` of the sender's log in frames of bounded size."""
        start, asked = self._sent[sender, receiver], self._asked[sender]
        for part in cut(start, end, rows, asks, most=self._frame_bytes, count=_ROWS):
            self._put(links_frame(sender, receiver, *part, asked))
        self._sent[sender, receiver] = end

    def _put(self, frame: LinksFrame) -> None:
        data = pack(frame)
        self._segments.write(data)
        self._links.add(len(frame.kinds))
        self._bytes.add(len(data))

    def _has_room(self) -> bool:
        unread = self._segments.unread()
        if self._waiting:
            self._waiting = unread > self._room // 2
        else:
            self._waiting = unread > self._room
        return not self._waiting

    # -- behind

    async def mend(self) -> bool:
        """Read back a little of what was not sent; False if there is nothing to do now."""
        if not self._behind or not self._has_room():
            return False
        busy = False
        for number in list(self._behind):
            shard = self._find(number)
            if shard is None:
                self.forget(number)
            else:
                busy |= await self._step(shard, self._behind[number])
        self._segments.flush()
        return busy

    async def _step(self, shard: Shard, behind: _Behind) -> bool:
        committed = shard.log.committed
        if behind.until is None and behind.next >= committed:
            # What is found from here on waits in the outbox; what was found since the last commit is read yet.
            behind.until = shard.log.end
            shard.outbox.reopen(self._receivers)
        if behind.until is not None and behind.next >= behind.until:
            del self._behind[shard.number]
            return True
        stop = committed if behind.until is None else min(committed, behind.until)
        if stop <= behind.next:
            return False
        found = await read_back_apart(shard, behind.reading, stop, self._receivers)
        if self._behind.get(shard.number) is not behind:
            return True  # it went back meanwhile: that is read again
        stop = behind.next
        for receiver in self._receivers:
            start = self._sent[shard.number, receiver]
            if stop <= start:
                continue
            rows = [row for row in found.rows.get(receiver, ()) if row[0] >= start]
            asks = [row for row in found.digests.get(receiver, ()) if row[0] >= start]
            if rows or asks or stop - start >= every(len(self._receivers)):
                self._write(shard.number, receiver, stop, rows, asks)
        return True

    def close(self) -> None:
        self._segments.close()
