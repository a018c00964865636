"""The tail of a shard's log: the records that sealed segments on shared storage do not hold yet.

A message of the stream consists of the log's own blocks (see `lycosa.log.blocks`), as in the segment
files; so any reader of the stream can write files that are byte for byte those of the holder who wrote it.

    message := headers blocks
    headers := Lycosa-Epoch: n        of the lease under which it was written
               Lycosa-First: n        position of its first record
               Lycosa-Count: n        its records; 0 in a claim
               Lycosa-Segment: n      first position of the log segment that it belongs to
               Lycosa-Part: i/n       if one block is larger than a message may be: its parts in order

Committed means acknowledged. Rules:

- *Claim.* A new holder reads the stream to its end and appends an empty message of its epoch there. If another
  message was appended in between, the claim is refused; the holder reads on, and tries again. Once the claim is
  accepted, every earlier holder expects an outdated last sequence and is refused for ever (`Fenced`); what came
  before the claim is the log.
- *Append.* Every message carries the expected last sequence. If there is no answer, the writer sends the very same
  message again: the server accepts at most one of them. "Wrong last sequence" may then mean that the first copy
  was accepted, so the message at that place is read. If it is ours (same epoch, position and bytes), the append is
  done; if it is another's, we are fenced; if there is none (its leader died with it), it is sent again.
- *Parts.* A block of more than 512 KB is sent in parts and counts only when its last part is there. Parts without
  a last one, followed by another epoch, were left by a dead holder: they are not in the log.
- *Sealing.* A segment is sealed when the first message of a later segment has been acknowledged. That makes the
  segment's bytes a fact that no holder can change, so anyone who has a sealed segment may copy it to shared
  storage, and the tail may be purged up to its end by anyone, including a holder who does not know yet that its
  lease is over. `purge` refuses a position at which no sealed segment ends.

Positions continue from storage to the tail: segments up to the end of the last one, then this.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from lycosa.clock import Clock
from lycosa.cluster.outcomes import Fenced
from lycosa.engine.protocol import Conflict, Full, Message, Reading, Stream, Unavailable, got
from lycosa.errors import StorageError
from lycosa.log import blocks

MESSAGE_BYTES = 512 << 10
_EPOCH, _FIRST, _COUNT = "Lycosa-Epoch", "Lycosa-First", "Lycosa-Count"
_SEGMENT, _PART = "Lycosa-Segment", "Lycosa-Part"
_ACK = 2.0
_WAIT = 5.0
AT_ONCE = 8
"""Messages that are checked before the event loop runs again: four megabytes, some milliseconds."""
_PATIENCE = 30.0


class Piece(NamedTuple):
    """Whole blocks of the log, from one message or a few parts."""

    sequence: int  # of its last message
    epoch: int
    first: int
    records: int
    segment: int
    data: bytes

    @property
    def end(self) -> int:
        return self.first + self.records


def split(data: bytes, most: int = MESSAGE_BYTES) -> list[tuple[int, int, list[bytes]]]:
    """Split blocks into messages of at most `most` bytes: (first, count, parts). No block is in two entries."""
    out: list[tuple[int, int, list[bytes]]] = []
    at = start = 0
    first, count = -1, 0
    while at < len(data):
        head = blocks.head_of(data, at)
        if head is None or at + head.size > len(data):
            raise StorageError(f"not blocks of a log, at byte {at}: nothing was appended")
        if count and at + head.size - start > most:
            out.append((first, count, [data[start:at]]))
            start, first, count = at, -1, 0
        if first < 0:
            first = head.first
        count += head.records
        at += head.size
        if at - start > most:
            out.append((first, count, [data[n : min(n + most, at)] for n in range(start, at, most)]))
            start, first, count = at, -1, 0
    if count:
        out.append((first, count, [data[start:at]]))
    return out


class Assembler:
    """Assembles messages into whole pieces."""

    def __init__(self, stream: str = "the log") -> None:
        self.stream = stream
        self._parts: list[bytes] = []
        self._head = (0, 0)
        self.epoch = 0
        """The highest epoch seen."""

    def take(self, message: Message) -> Piece | None:
        """The piece that a message completes; None for a claim, or a part that is not the last."""
        headers = message.headers
        try:
            epoch, first = int(headers[_EPOCH]), int(headers[_FIRST])
            count, segment = int(headers[_COUNT]), int(headers[_SEGMENT])
            part, parts = map(int, headers.get(_PART, "1/1").split("/"))
        except (KeyError, ValueError):
            raise self._wrong(message, "is not of a log: somebody else writes there") from None
        if epoch < self.epoch:
            raise self._wrong(message, "is of an older epoch than what is before it")
        self.epoch = epoch
        if part == 1:
            self._parts, self._head = [], (epoch, first)
        if (epoch, first) != self._head or part != len(self._parts) + 1:
            raise self._wrong(message, "is a part out of order")
        self._parts.append(message.data)
        if part < parts:
            return None
        data, self._parts = b"".join(self._parts), []
        if not _are_blocks(data, first, count):
            raise self._wrong(message, f"does not hold the {count} records from position {first} on")
        return Piece(message.sequence, epoch, first, count, segment, data) if count else None

    def _wrong(self, message: Message, what: str) -> StorageError:
        return StorageError(
            f"message {message.sequence} of the stream {self.stream} {what}; nothing behind it can be read"
        )


def _are_blocks(data: bytes, first: int, count: int) -> bool:
    """Whether the bytes are whole blocks of exactly these records."""
    at, end, view = 0, first, memoryview(data)
    while at < len(data):
        head = blocks.head_of(view, at)
        if head is None or head.first != end or not blocks.intact(view[at : at + head.size], head):
            return False
        at, end = at + head.size, head.end
    return end == first + count


class Tail:
    """The tail of one shard's log, for the holder of its lease."""

    def __init__(
        self,
        stream: Stream,
        clock: Clock,
        *,
        patience: float = _PATIENCE,
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_go_on`: asked between tries; if it returns False (the lease is over), an append gives up."""
        self._stream = stream
        self._clock = clock
        self._patience = patience
        self._may_go_on = may_go_on
        self._last = 0
        self._epoch = 0
        self._held: list[tuple[int, int, int]] = []  # content of the stream: sequence, end position, segment
        self.claimed = False
        self.committed = 0
        """The position after the last record that is or was in the stream."""

    @property
    def sealed(self) -> int:
        """The position up to which segments are sealed, as far as the stream shows."""
        return self._held[-1][2] if self._held else 0

    async def claim(
        self, epoch: int, take: Callable[[Piece], None] = lambda piece: None
    ) -> Fenced | Full | Unavailable | None:
        """Read the stream, pass every piece to `take`, and claim it: None on success."""
        reading = self._stream.read()
        try:
            return await self._claim(reading, epoch, take)
        except Unavailable as away:
            return away
        finally:
            await reading.close()

    async def _claim(
        self, reading: Reading, epoch: int, take: Callable[[Piece], None]
    ) -> Fenced | Full | Unavailable | None:
        assembler = Assembler(self._stream.name)
        while True:
            last = got(await self._stream.ends()).last
            async for piece in pieces_to(reading, last, assembler, self._patience):
                self._note(piece)
                take(piece)
            if assembler.epoch > epoch:
                return Fenced(f"{self._stream.name} belongs to epoch {assembler.epoch}, not {epoch}")
            self._last, self._epoch = reading.last, epoch
            refused = await self._send(self.committed, 0, self.sealed, "1/1", b"")
            if isinstance(refused, Fenced):
                continue  # a message was appended while we read
            self.claimed = refused is None
            return refused

    async def append(
        self, first: int, data: bytes, epoch: int, segment: int = 0
    ) -> int | Fenced | Full | Unavailable:
        """Append blocks that begin at position `first`; returns the position after them, now committed."""
        if not self.claimed or epoch != self._epoch:
            return Fenced(f"{self._stream.name} was not claimed for epoch {epoch}")
        for start, count, parts in split(data):
            if start + count <= self.committed:
                continue  # accepted before the stream was full, and sent again now with the rest
            for number, part in enumerate(parts, 1):
                refused = await self._send(start, count, segment, f"{number}/{len(parts)}", part)
                if refused is not None:
                    return refused
            self._note(Piece(self._last, epoch, start, count, segment, b""))
        return self.committed

    def _note(self, piece: Piece) -> None:
        if self._held and piece.first < self.committed:
            raise StorageError(f"{self._stream.name} goes on at position {piece.first}, not {self.committed}")
        if piece.first > self.committed:
            # The holder before us is alive and has purged what we read, and more that we had not read yet: it is
            # on shared storage, where whoever restores the log looks for it.
            self._held.clear()
        self._held.append((piece.sequence, piece.end, piece.segment))
        self.committed = piece.end

    async def _send(
        self, first: int, count: int, segment: int, part: str, data: bytes
    ) -> Fenced | Full | Unavailable | None:
        """Send one message at the next place; see the module for how unknown outcomes are resolved."""
        headers = {_EPOCH: str(self._epoch), _FIRST: str(first), _COUNT: str(count), _SEGMENT: str(segment)}
        if part != "1/1":
            headers[_PART] = part
        name = self._stream.name
        end = self._clock.monotonic() + self._patience
        while True:
            answer = await self._stream.append(data, headers=headers, expected=self._last, seconds=_ACK)
            if isinstance(answer, int):
                self._last = answer
                return None
            if isinstance(answer, Full):
                return answer
            why = str(answer)
            if isinstance(answer, Conflict):
                there = await self._is_there(headers, data)
                if there is True:
                    self._last += 1
                    return None
                if isinstance(there, Fenced):
                    self.claimed = False
                    return there
                why = str(there or f"{name} has another last sequence")
            if not self._may_go_on():
                self.claimed = False
                return Unavailable(f"the lease ended before an append to {name} was confirmed: {why}")
            if self._clock.monotonic() > end:
                self.claimed = False  # the next holder will read whether it was accepted
                return Unavailable(f"no confirmation from {name}: {why}")
            await self._clock.sleep(0.1)

    async def _is_there(self, headers: dict[str, str], data: bytes) -> bool | Fenced | Unavailable:
        """Whether the next place holds our message; `Fenced` if it holds another."""
        found = await self._stream.at(self._last + 1)
        if isinstance(found, Unavailable):
            return found
        if found is None:
            ends = await self._stream.ends()
            if isinstance(ends, Unavailable):
                return ends
            if ends.first > self._last + 1:
                return Fenced(f"{self._stream.name} was taken over and purged")
            return False
        same = all(found.headers.get(name) == value for name, value in headers.items())
        if same and found.data == data:
            return True
        return Fenced(f"{self._stream.name} has another holder, of epoch {found.headers.get(_EPOCH, '?')}")

    async def purge(self, position: int) -> int | Unavailable:
        """Purge what lies before `position`, which must be the end of a sealed segment on shared storage.

        Returns how many pieces were purged.
        """
        if position > self.sealed:
            raise StorageError(
                f"{self._stream.name} is sealed up to position {self.sealed}: "
                f"it cannot be purged up to {position}"
            )
        keep = next((n for n, (_, end, _) in enumerate(self._held) if end > position), len(self._held))
        if keep == 0:
            return 0
        away = await self._stream.purge(self._held[keep - 1][0] + 1)
        if away is not None:
            return away
        del self._held[:keep]
        return keep


async def pieces(stream: Stream) -> AsyncIterator[Piece]:
    """The present content of a tail, without claiming it: for status, `log` and tests. `Unavailable` is raised."""
    reading = stream.read()
    try:
        last = got(await stream.ends()).last
        async for piece in pieces_to(reading, last, Assembler(stream.name)):
            yield piece
    finally:
        await reading.close()


async def pieces_to(
    reading: Reading, last: int, assembler: Assembler, wait: float = _WAIT
) -> AsyncIterator[Piece]:
    """The pieces of a tail up to a sequence, read on from `reading`. `Unavailable` is raised."""
    while reading.last < last:
        messages = got(await reading.next(wait, AT_ONCE))
        if not messages:
            raise Unavailable(f"{assembler.stream} does not give what it has")
        for message in messages:
            if (piece := assembler.take(message)) is not None:
                yield piece
        await asyncio.sleep(0)
