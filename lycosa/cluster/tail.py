"""The tail of a shard's log: the records that sealed segments on shared storage do not hold yet.

A message of the stream is some of the log's own blocks (see `lycosa.log.blocks`), as they lie in the segment
files; so whoever reads the stream can write files that are byte for byte those of the holder who wrote it.

    message := headers blocks
    headers := Lycosa-Epoch: n        of the lease under which it was written
               Lycosa-First: n        position of its first record
               Lycosa-Count: n        its records; 0 in a claim
               Lycosa-Segment: n      first position of the log segment that it belongs to
               Lycosa-Part: i/n       if one block is larger than a message may be: its parts in order

Committed is what was acknowledged. Rules:

- *Claim.* A new holder reads the stream to its end and appends an empty message of its epoch there. If somebody
  appended in between, it is refused, reads on, and tries again. Once the claim is taken, every earlier holder
  expects another last sequence than there is and is refused for ever (`Fenced`); what came before the claim is
  the log.
- *Append.* Every message carries the expected last sequence. After a silence the writer sends the very same
  message again: the server takes one of them at most. "Wrong last sequence" then may mean that the first copy
  was taken, so the message at that place is read: ours (same epoch, position and bytes), and the append is
  done; another's, and we are fenced; none (its leader died with it), and it is sent again.
- *Parts.* A block of more than 512 KB goes in parts and counts only when its last part is there. Parts without
  a last one, behind which comes another epoch, are what a dead holder left: they are not log.
- *Sealing.* A segment is sealed when the first message of a later segment has been acknowledged. That makes the
  segment's bytes a fact that no holder can change, so a sealed segment may be copied to shared storage by
  whoever has it, and the tail be purged up to its end by anybody, also by a holder who does not know yet that
  he is one no more. `purge` refuses a position at which no sealed segment ends.

Positions span both: segments on storage up to the end of the last one, then this.
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
"""Messages that are checked between two breaths of the loop: four megabytes, some milliseconds."""
_PATIENCE = 30.0


class Piece(NamedTuple):
    """Whole blocks of the log, as one message or a few parts brought them."""

    sequence: int  # of the last message of it
    epoch: int
    first: int
    records: int
    segment: int
    data: bytes

    @property
    def end(self) -> int:
        return self.first + self.records


def split(data: bytes, most: int = MESSAGE_BYTES) -> list[tuple[int, int, list[bytes]]]:
    """Blocks in messages of at most `most` bytes: (first, count, parts). One block is never in two entries."""
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
    """Messages in, whole pieces out."""

    def __init__(self, stream: str = "the log") -> None:
        self.stream = stream
        self._parts: list[bytes] = []
        self._head = (0, 0)
        self.epoch = 0
        """The highest epoch met."""

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
        """`may_go_on`: asked between tries; when it says no (the lease is over), an append gives up."""
        self._stream = stream
        self._clock = clock
        self._patience = patience
        self._may_go_on = may_go_on
        self._last = 0
        self._epoch = 0
        self._held: list[tuple[int, int, int]] = []  # sequence, end position, segment: what the stream holds
        self.claimed = False
        self.committed = 0
        """The position after the last record that is in the stream, or was."""

    @property
    def sealed(self) -> int:
        """The position up to which segments are sealed, as far as the stream shows."""
        return self._held[-1][2] if self._held else 0

    async def claim(
        self, epoch: int, take: Callable[[Piece], None] = lambda piece: None
    ) -> Fenced | Full | Unavailable | None:
        """Read the stream, hand every piece to `take`, and make it ours: then None."""
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
                continue  # somebody appended while we read
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
                continue  # taken before the stream was full, and now comes again with the rest
            for number, part in enumerate(parts, 1):
                refused = await self._send(start, count, segment, f"{number}/{len(parts)}", part)
                if refused is not None:
                    return refused
            self._note(Piece(self._last, epoch, start, count, segment, b""))
        return self.committed

    def _note(self, piece: Piece) -> None:
        if self._held and piece.first != self.committed:
            raise StorageError(f"{self._stream.name} goes on at position {piece.first}, not {self.committed}")
        self._held.append((piece.sequence, piece.end, piece.segment))
        self.committed = piece.end

    async def _send(
        self, first: int, count: int, segment: int, part: str, data: bytes
    ) -> Fenced | Full | Unavailable | None:
        """One message at the next place; see the module for how doubts are settled."""
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
                self.claimed = False  # what became of it is for the next holder to read
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
        """Forget what lies before `position`, which must be the end of a sealed segment on shared storage.

        Returns how many pieces went.
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
    """What a tail holds now, without claiming it: for status, `log` and tests. `Unavailable` is raised."""
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
    """What a tail has up to a sequence, read on. `Unavailable` is raised."""
    while reading.last < last:
        messages = got(await reading.next(wait, AT_ONCE))
        if not messages:
            raise Unavailable(f"{assembler.stream} does not give what it has")
        for message in messages:
            if (piece := assembler.take(message)) is not None:
                yield piece
        await asyncio.sleep(0)
