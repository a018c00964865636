"""The exchange of a cluster: links that one shard found for hosts of another, through the receiver's stream.

    message := "LyX1" zstd(msgpack [sender, epoch, start, end, positions, urls, kinds, depths, hops])

A batch holds all links for the receiver that the sender's log has at positions from `start` up to `end` (its
rows are columns: urls joined by newlines, one position, depth, kind and hop count each). What the sender's URL
cache held back was sent before, in an earlier batch of the same sender.

Sending. The sender is a fold over its own **committed** log. It sends its batches one after the other, each only
after the one before was acknowledged, and sends again what was not: so batches of one sender follow each other
in the stream without gaps, with repetitions at most. A new holder of the sending shard goes on where the last
batch in the stream ends (the last message of a sender is never purged for that reason).

Receiving. The receiver keeps, for every sender, a *cursor*: links at earlier positions have been received. It
reads in order from its stored sequence + 1, takes of a batch the rows at positions >= cursor, moves the cursor
to `end`, and logs the links with the cursor (`Received`). A batch that begins behind the cursor is partly known;
one that begins after it means that something is missing: `Gap`, and nothing is skipped silently.

Nothing is dropped by its epoch. A batch from a holder that has lost its lease looks stale and is not: it holds
only what is committed, hence what the new holder's log holds too; and the new holder, when it asked where the
stream ends, may have found this very batch and gone on behind it. Dropped, its links would be sent by nobody.
If the new holder asked before the stale batch came, the two overlap, and the cursor sorts that out. The epoch is
there for people who look.

Seeds given while the crawl runs come from the pseudo-sender `SEEDS`. Many people may give seeds at once and they
have no log, so their position is the sequence of the message itself.

A record with more links than fit into a message is cut: the parts before the last end *at* its position, not
behind it. A receiver that crashes between them may then log some of those links twice, which its seen set drops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import nats.errors
import nats.js.errors
import zstandard
from nats.aio.client import Client
from nats.js import JetStreamContext

from lycosa.cluster.engine import streams
from lycosa.cluster.engine.ordered import Ordered
from lycosa.cluster.engine.outcomes import Unavailable
from lycosa.cluster.engine.publish import publish
from lycosa.cluster.engine.streams import Names
from lycosa.errors import StorageError
from lycosa.records import LinkKind

MAGIC = b"LyX1"
SEEDS = -1
"""The sender of seeds."""
MESSAGE_BYTES = 400 << 10
_LARGEST = 64 << 20
_ACK = 3.0

Row = tuple[int, str, int, int, int]
"""Position in the sender's log, URL, kind, depth, hops: as in `lycosa.crawl.exchange`."""


class Gap(StorageError):  # noqa: N818
    """Batches are missing from the stream."""


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The links for one receiver from a stretch of a sender's log."""

    sender: int
    epoch: int
    start: int
    end: int
    positions: list[int]
    urls: bytes
    kinds: bytes
    depths: list[int]
    hops: bytes

    @staticmethod
    def of(sender: int, epoch: int, start: int, end: int, rows: Sequence[Row]) -> Batch:
        return Batch(
            sender,
            epoch,
            start,
            end,
            [row[0] for row in rows],
            "\n".join(row[1] for row in rows).encode("ascii"),
            bytes(row[2] for row in rows),
            [row[3] for row in rows],
            bytes(min(row[4], 255) for row in rows),
        )

    def rows(self) -> list[Row]:
        urls = self.urls.decode("ascii").split("\n") if self.kinds else []
        return list(zip(self.positions, urls, self.kinds, self.depths, self.hops, strict=True))


def encode(batch: Batch) -> bytes:
    return MAGIC + zstandard.ZstdCompressor(level=1).compress(msgspec.msgpack.encode(batch))


def decode(data: bytes) -> Batch | None:
    """The batch of a message; None if it is none."""
    if data[:4] != MAGIC:
        return None
    try:
        plain = zstandard.ZstdDecompressor().decompress(data[4:], max_output_size=_LARGEST)
        batch = msgspec.msgpack.decode(plain, type=Batch)
        batch.rows()
    except (zstandard.ZstdError, msgspec.MsgspecError, ValueError):
        return None
    return batch if 0 <= batch.start <= batch.end else None


def cut(
    start: int, end: int, rows: Sequence[Row], most: int = MESSAGE_BYTES
) -> list[tuple[int, int, list[Row]]]:
    """Rows in order of their positions, in batches of bounded size that follow each other: (start, end, rows)."""
    out: list[tuple[int, int, list[Row]]] = []
    part: list[Row] = []
    size = 0
    for row in sorted(rows, key=lambda row: row[0]):
        if part and size + len(row[1]) + 16 > most:
            out.append((start, part[-1][0], part))
            start, part, size = part[-1][0], [], 0
        part.append(row)
        size += len(row[1]) + 16
    out.append((start, end, part))
    return out


class Arrival(NamedTuple):
    """What a receiver logs: links, and how far it has come with their sender."""

    sequence: int
    sender: int
    cursor: int
    rows: list[Row]


class Inbox:
    """The receiver's cursors: what of a batch is new. No I/O."""

    def __init__(self, cursors: Mapping[int, int]) -> None:
        self.cursors = dict(cursors)

    def take(self, batch: Batch, sequence: int) -> Arrival | None:
        """What is to be logged of a batch; None if nothing is."""
        cursor = self.cursors.get(batch.sender, 0)
        if batch.sender == SEEDS:
            if sequence <= cursor:
                return None
            self.cursors[SEEDS] = sequence
            return Arrival(sequence, SEEDS, sequence, batch.rows())
        if batch.start > cursor:
            raise Gap(
                f"links of shard {batch.sender} from positions {cursor} to {batch.start} are missing from the "
                f"exchange: was its stream purged or removed by hand?"
            )
        rows = [row for row in batch.rows() if row[0] >= cursor]
        if not rows and batch.end <= cursor:
            return None
        cursor = self.cursors[batch.sender] = max(cursor, batch.end)
        return Arrival(sequence, batch.sender, cursor, rows)


class Sender:
    """From one shard to one other. Used by the holder of the sending shard."""

    def __init__(
        self,
        js: JetStreamContext,
        names: Names,
        sender: int,
        receiver: int,
        epoch: int,
        *,
        timeout: float = _ACK,
    ) -> None:
        self._js = js
        self._stream = names.exchange(receiver)
        self._subject = names.exchange_subject(receiver, sender)
        self._sender = sender
        self._epoch = epoch
        self._timeout = timeout
        self.position = 0
        """Everything that the log holds before this has been sent."""

    async def resume(self) -> int:
        """Find out where to go on: behind the last batch in the stream, whoever sent it."""
        try:
            found = await self._js.get_msg(self._stream, subject=self._subject)
        except nats.js.errors.NotFoundError as error:
            if error.err_code == 10059:
                raise Unavailable(f"there is no stream {self._stream}") from None
            self.position = 0
            return 0
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise Unavailable(f"cannot read {self._stream}: {error or error.__class__.__name__}") from None
        batch = decode(found.data or b"")
        if batch is None:
            raise StorageError(f"message {found.seq} on {self._subject} is no batch of links")
        self.position = batch.end
        return self.position

    async def send(self, end: int, rows: Sequence[Row]) -> None:
        """Send the links at positions from `position` up to `end`, all of them committed.

        `Full` or `Unavailable`: `position` says how far it came; send again from there.
        """
        rows = [row for row in rows if self.position <= row[0] < end]
        for start, stop, part in cut(self.position, end, rows):
            payload = encode(Batch.of(self._sender, self._epoch, start, stop, part))
            await publish(self._js, self._subject, payload, timeout=self._timeout)
            self.position = stop


async def send_seeds(js: JetStreamContext, names: Names, receiver: int, urls: Sequence[str]) -> None:
    """Give seeds to the shard that owns them. After `Unavailable` they may be given again: known ones drop out."""
    rows = [(0, url, int(LinkKind.SEED), 0, 0) for url in urls]
    for _, _, part in cut(0, 0, rows):
        payload = encode(Batch.of(SEEDS, 0, 0, 0, part))
        await publish(js, names.exchange_subject(receiver, streams.SEEDS), payload, timeout=_ACK)


class Reader:
    """What came for one shard. Used by the holder of the receiving shard."""

    def __init__(
        self,
        client: Client,
        js: JetStreamContext,
        names: Names,
        receiver: int,
        *,
        after: int,
        cursors: Mapping[int, int],
    ) -> None:
        """`after`: the last sequence whose links our committed log holds (an earlier one does no harm)."""
        self._js = js
        self._stream = names.exchange(receiver)
        self._ordered = Ordered(client, js, self._stream, after=after)
        self._inbox = Inbox(cursors)
        self._last: dict[str, int] = {}
        self.received = after
        """The last sequence that was read."""

    async def next(self, seconds: float, most: int = 64) -> list[Arrival]:
        """What arrived, in order; to be logged before more is asked for."""
        arrivals = []
        for message in await self._ordered.next(seconds, most):
            batch = decode(message.data)
            if batch is None:
                raise StorageError(f"message {message.sequence} on {message.subject} is no batch of links")
            arrival = self._inbox.take(batch, message.sequence)
            if arrival is not None:
                arrivals.append(arrival)
            self.received = message.sequence
            self._last[message.subject] = message.sequence
        return arrivals

    async def purge(self, sequence: int) -> None:
        """Forget messages up to `sequence`, all of whose links are in our committed log.

        The last message of every sender stays: it says where the sender goes on.
        """
        for subject, last in self._last.items():
            try:
                await self._js.purge_stream(self._stream, subject=subject, seq=min(sequence + 1, last))
            except (nats.errors.Error, TimeoutError, OSError) as error:
                raise Unavailable(f"cannot purge {self._stream}: {error}") from None

    async def close(self) -> None:
        await self._ordered.close()
