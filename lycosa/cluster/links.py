"""The exchange of a cluster: links that one shard found for hosts of another, sent through the receiver's stream.

    message := "LyX1" zstd(msgpack [epoch, frame])             frames as in `lycosa.cluster.frames`
    lane    := SENDER                                          links; SENDER is a shard, or `seeds`
               aOWNER                                          answers about contents

A frame of links holds all that the sender's log has for the receiver at positions from `start` up to `end`, except
links that the sender's URL cache held back: these were sent in an earlier frame of the same sender.

Sending. The sender is a fold over its own **committed** log. It sends its frames one after the other, each only
after the one before was acknowledged, and repeats those that were not: so frames of one sender follow each other
in the stream without gaps, at most with repetitions. A new holder of the sending shard continues where the last
frame in the stream ends (the last message of a sender is never purged for that reason); if there is none, at the
cursor that the receiver's holder had when it opened its shard (`cursors.N`).

Receiving. The receiver keeps, for every sender, a *cursor*: links at earlier positions have been received. It
reads in order from its stored sequence + 1, takes from a frame the rows at positions >= cursor, moves the cursor
to `end`, and logs the links with the cursor (`Received`). A frame that begins before the cursor is partly known;
one that begins after it means that something is missing: `Gap`, and nothing is skipped silently. A message
without our magic bytes is skipped and reported (`foreign`); one that has them and cannot be read ends
the reader, since its content is unknown.

Nothing is dropped by its epoch. A frame from a holder that has lost its lease looks stale and is not: it holds
only what is committed, hence what the new holder's log holds too; and the new holder, when it looked for the end of
the stream, may have found this very frame and continued after it. If it were dropped, nobody would send its links.
If the new holder looked before the stale frame came, the two overlap, and the cursor removes the overlap. The epoch
serves only for diagnosis.

Seeds given while the crawl runs come from the pseudo-sender `SEEDS`. Several people may give seeds at once, and
they have no log, so the position of seeds is the sequence of the message itself.

A record with more links than fit into a message is cut: the parts before the last end *at* its position, not
after it. A receiver that crashes between them may then log some of those links twice, which its seen set drops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
import zstandard

from lycosa.clock import Clock
from lycosa.cluster import names
from lycosa.cluster.foreign import Foreign
from lycosa.cluster.frames import AnswersFrame, Frame, LinksFrame, Part, cut, links_frame
from lycosa.crawl.exchange import Row
from lycosa.crawl.splitting import Splitter
from lycosa.engine.protocol import Conflict, Engine, Full, Stream, Unavailable, got
from lycosa.errors import StorageError
from lycosa.records import LinkKind
from lycosa.url.parts import host_of

MAGIC = b"LyX1"
SEEDS = 1 << 31
"""The pseudo-sender of seeds: no shard has that number."""
MESSAGE_BYTES = 400 << 10
_LARGEST = 64 << 20
_MANY = 1_000
"""Number of links that are packed or unpacked on the event loop; more take milliseconds, and run in a thread."""
T = TypeVar("T")
_ACK = 3.0
_FULL = 0.1

Ask = tuple[int, int]
"""A content sent to the receiver's partition, with or without a question: position in the sender's log, digest."""


class Gap(StorageError):  # noqa: N818
    """Frames are missing from the stream."""


class Framed(msgspec.Struct, frozen=True, array_like=True):
    """The content of a message."""

    epoch: int
    frame: Frame


class Cursors(msgspec.Struct, frozen=True):
    """The value of `cursors.N`: for each sender, how far its links had come when shard N was opened."""

    cursors: dict[int, int] = {}


def encode(epoch: int, frame: Frame) -> bytes:
    return MAGIC + zstandard.ZstdCompressor(level=1).compress(msgspec.msgpack.encode(Framed(epoch, frame)))


def decode(data: bytes) -> Framed | None:
    """The content of a message; None if it is foreign."""
    if data[:4] != MAGIC:
        return None
    try:
        if zstandard.frame_content_size(data[4:]) > _LARGEST:
            return None  # for a frame that declares its size, the limit below has no effect
        plain = zstandard.ZstdDecompressor().decompress(data[4:], max_output_size=_LARGEST)
        message = _decode_framed(plain)
    except (zstandard.ZstdError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    frame = message.frame
    if not frame.sound or (isinstance(frame, LinksFrame) and frame.start > frame.end):
        return None
    return message


class Arrival(NamedTuple):
    """What a receiver logs: links and contents, and the new cursor of their sender."""

    sequence: int
    sender: int
    cursor: int
    rows: list[Row]
    asks: list[tuple[int, int, int]]


class Answered(NamedTuple):
    """An answer about contents; the asking shard knows whether it has it already."""

    sequence: int
    frame: AnswersFrame


class Inbox:
    """The receiver's cursors, which decide what part of a frame is new. No I/O."""

    def __init__(self, cursors: Mapping[int, int]) -> None:
        self.cursors = dict(cursors)

    def take(self, frame: LinksFrame, sequence: int) -> Arrival | None:
        """The part of a frame that is to be logged; None if there is none."""
        cursor = self.cursors.get(frame.sender, 0)
        if frame.sender == SEEDS:
            if sequence <= cursor:
                return None
            self.cursors[SEEDS] = sequence
            return Arrival(sequence, SEEDS, sequence, frame.rows(), [])
        if frame.start > cursor:
            raise Gap(
                f"links of shard {frame.sender} from positions {cursor} to {frame.start} are missing from the "
                f"exchange: was its stream purged or removed by hand?"
            )
        rows = [row for row in frame.rows() if row.at >= cursor]
        asks = [row for row in frame.asks() if row[0] >= cursor]
        if not rows and not asks and frame.end <= cursor:
            return None
        cursor = self.cursors[frame.sender] = max(cursor, frame.end)
        return Arrival(sequence, frame.sender, cursor, rows, asks)


class Sender:
    """Sends from one shard to one other. Used by the holder of the sending shard."""

    def __init__(
        self, stream: Stream, sender: int, receiver: int, epoch: int, most: int = MESSAGE_BYTES
    ) -> None:
        """`stream`: the receiver's. `most`: bytes of links in a message, before compression."""
        self._most = most
        self._stream = stream
        self._sender = sender
        self._receiver = receiver
        self._epoch = epoch
        self.position = 0
        """Everything that the log holds before this has been sent."""

    async def resume(self) -> int | Unavailable | None:
        """Find out where to continue: after the last frame in the stream, whoever sent it; None: there is none."""
        found = await self._stream.newest(str(self._sender))
        if found is None or isinstance(found, Unavailable):
            return found
        if found.data[:4] != MAGIC:
            self.position = 0  # foreign: send everything again, and the receiver's cursor skips what it has
            return 0
        message = decode(found.data)
        if message is None or not isinstance(message.frame, LinksFrame):
            raise StorageError(
                f"message {found.sequence} of the stream {self._stream.name} ({found.lane}) is no frame of links"
            )
        self.position = message.frame.end
        return self.position

    async def send(
        self, end: int, rows: Sequence[Row], asks: Sequence[Ask] = (), asked: int = 0
    ) -> Full | Unavailable | None:
        """Send the links and contents at positions from `position` up to `end`, all of them committed.

        Contents from position `asked` on wait for an answer. After a failure `position` tells how far it
        came; send again from there.
        """
        start = self.position

        def parts() -> list[Part]:
            wanted = [row for row in rows if start <= row.at < end]
            return cut(start, end, wanted, [ask for ask in asks if start <= ask[0] < end], most=self._most)

        for part in await _apart(len(rows), parts):
            refused = await self._post(part.start, part.end, part.rows, part.asks, asked)
            if refused is not None:
                return refused
            self.position = part.end
        return None

    async def _post(
        self, start: int, end: int, rows: Sequence[Row], asks: Sequence[Ask], asked: int
    ) -> Full | Unavailable | None:
        def packed() -> bytes:
            frame = links_frame(self._sender, self._receiver, start, end, rows, asks, asked)
            return encode(self._epoch, frame)

        return await _post(self._stream, str(self._sender), await _apart(len(rows), packed))


async def _apart(links: int, work: Callable[[], T]) -> T:
    """Run work on `links` links: in a thread if there are many."""
    return work() if links <= _MANY else await asyncio.to_thread(work)


async def _post(stream: Stream, lane: str, data: bytes) -> Full | Unavailable | None:
    answer = await stream.append(data, lane=lane, seconds=_ACK)
    assert not isinstance(answer, Conflict), "nothing was expected"
    return None if isinstance(answer, int) else answer


async def send_answers(stream: Stream, epoch: int, frame: AnswersFrame) -> Full | Unavailable | None:
    """Tell which contents were known. If lost in a crash, a duplicate stays unmarked, nothing else."""
    return await _post(stream, f"a{frame.owner}", encode(epoch, frame))


async def send_seeds(stream: Stream, receiver: int, urls: Sequence[str]) -> Full | Unavailable | None:
    """Give seeds to the shard that owns them. After a refusal they may be given again: known ones are dropped."""
    rows = [Row(0, url, int(LinkKind.SEED), 0, 0) for url in urls]
    for part in cut(0, 0, rows, most=MESSAGE_BYTES):
        frame = links_frame(SEEDS, receiver, 0, 0, part.rows)
        refused = await _post(stream, names.SEEDS, encode(0, frame))
        if refused is not None:
            return refused
    return None


async def sow(engine: Engine, splitter: Splitter, urls: Iterable[str], clock: Clock | None = None) -> None:
    """Give seeds to the shards that own them, which drop those they know.

    `Unavailable` is raised, and so is `Full`, unless there is a `clock`: then this waits for the reader to make
    room.
    """
    owned: dict[int, list[str]] = {}
    for url in urls:
        owned.setdefault(splitter.shard_of(host_of(url)), []).append(url)
    for shard, given in owned.items():
        stream = engine.stream(names.exchange_of(shard))
        while isinstance(refused := await send_seeds(stream, shard, given), Full) and clock is not None:
            await clock.sleep(_FULL)
        got(refused)


class Reader:
    """Reads the messages for one shard. Used by the holder of the receiving shard."""

    def __init__(
        self, stream: Stream, *, after: int, cursors: Mapping[int, int], foreign: Foreign | None = None
    ) -> None:
        """`after`: the last sequence whose links our committed log holds (an earlier one does no harm)."""
        self._stream = stream
        self._reading = stream.read(after)
        self._inbox = Inbox(cursors)
        self._foreign = foreign or Foreign()
        self._last: dict[str, int] = {}
        self._purged: dict[str, int] = {}
        self.received = after
        """The last sequence that was read."""

    async def next(self, seconds: float, most: int = 64) -> list[Arrival | Answered] | Unavailable:
        """The messages that arrived, in order; to be logged before the next call."""
        messages = await self._reading.next(seconds, most)
        if isinstance(messages, Unavailable):
            return messages
        arrivals: list[Arrival | Answered] = []
        links = 0  # since the event loop last ran
        for each in messages:
            if each.data[:4] != MAGIC:
                what = f"has a message that is no frame (sequence {each.sequence}, {each.lane})"
                self._foreign.note(f"the stream {self._stream.name}", what)
                self.received = each.sequence
                continue
            message = decode(each.data)
            if message is None:
                raise StorageError(
                    f"message {each.sequence} of the stream {self._stream.name} ({each.lane}) is a damaged "
                    "frame: the links in it are lost"
                )
            frame = message.frame
            if isinstance(frame, AnswersFrame):
                arrivals.append(Answered(each.sequence, frame))
            else:
                take = partial(self._inbox.take, frame, each.sequence)
                arrival = await _apart(len(frame.kinds), take)
                if arrival is not None:
                    arrivals.append(arrival)
                links += len(frame.kinds)
                if links > _MANY:
                    links = await asyncio.sleep(0, 0)
            self.received = each.sequence
            self._last[each.lane] = each.sequence
        return arrivals

    async def purge(self, sequence: int) -> Unavailable | None:
        """Purge messages up to `sequence`, all of whose links are in our committed log.

        The last message of every sender stays: it tells where the sender continues.
        """
        before = {lane: min(sequence + 1, last) for lane, last in self._last.items()}
        due = [(lane, end) for lane, end in before.items() if end > self._purged.get(lane, 0)]
        for (lane, end), away in zip(
            due, await asyncio.gather(*(self._stream.purge(end, lane) for lane, end in due)), strict=True
        ):
            if away is not None:
                return away
            self._purged[lane] = end
        return None

    async def close(self) -> None:
        await self._reading.close()


# Made at import: msgspec crashes where two threads are the first to decode a struct that holds others.
_decode_framed = msgspec.msgpack.Decoder(Framed).decode
