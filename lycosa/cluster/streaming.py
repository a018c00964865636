"""The exchange of an agent: links to and from the shards that it holds, through the receivers' streams.

With several agents **all** links between shards go through the streams, also between two shards of one agent. The
cost: a link to a shard of the same agent travels to the servers and back, some 60 bytes and a share of one message
per batch and commit. The gain: a shard that moves leaves nothing behind that others must catch up with, the
reader's place is one number for all senders, and the end of a crawl is detected in the same way in all cases.

Sending, for each shard that we hold (`Outgoing`). The way to each receiver is in one of three states:

    live        what a commit made durable is taken from the shard's outbox and published
    behind      the outbox keeps nothing for it; what was committed is read back from the log, some records at a
                time, for all receivers that are behind and not blocked
    closing     read up to the commits of a moment ago; what is found from `until` on is in the outbox again

A way begins behind, where our last frame in the receiver's stream ends, or at the cursor that the receiver's holder
published when it opened its shard; until one of the two is there, the way is *unknown*, and waits. A stream that is
full, or does not answer, blocks only its own receiver: that way falls behind, and is retried a little later.

Receiving (`Incoming`). Frames become `Received` records that carry the sequence of their message; seeds become
`Seeded`; answers become `Duplicates`. The stream is purged up to what the committed log holds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from lycosa.clock import Clock, milliseconds
from lycosa.cluster.foreign import Foreign
from lycosa.cluster.frames import AnswersFrame
from lycosa.cluster.links import (
    MESSAGE_BYTES,
    SEEDS,
    Answered,
    Arrival,
    Cursors,
    Reader,
    Sender,
    send_answers,
)
from lycosa.cluster.names import cursors_of, exchange_of
from lycosa.cluster.tasks import end_tasks
from lycosa.crawl.exchange import Heartbeats, Row, every, receiving
from lycosa.crawl.replay import LinkPass, ReadBack, read_back_apart
from lycosa.crawl.shard import Shard
from lycosa.engine.protocol import Engine, Stream, Unavailable
from lycosa.meters import Meters
from lycosa.records import Duplicates, Link, LinkKind, Links, Received, Seeded, Skipped

_BLOCKED = 0.5
"""Seconds after which a receiver whose stream refused is retried."""
_UNKNOWN = 0.2
"""Seconds after which receivers whose place is still unknown are checked."""
_PURGE = 5.0
_WAIT = 1.0
_SEEDS = 5_000


class _Way:
    """The way from a shard to one other."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
        self.read = 0  # behind: the position up to which the log was read
        self.until: int | None = None  # closing: links from this position on are in the outbox
        self.blocked = 0.0  # the time until which it is blocked


class Outgoing:
    """Sends the links of one shard."""

    def __init__(
        self,
        engine: Engine,
        shard: Shard,
        shards: int,
        epoch: int,
        clock: Clock,
        meters: Meters,
        message_bytes: int = MESSAGE_BYTES,
        foreign: Foreign | None = None,
        patience: float = _WAIT,
    ) -> None:
        """`patience`: seconds after which it checks for something to send without being woken."""
        self._patience = patience
        self._told = -1
        self._foreign = foreign or Foreign()
        self._engine = engine
        self._shard = shard
        self._epoch = epoch
        self._clock = clock
        self._links = meters.counter("exchange.links_out")
        self._ways = {
            other: _Way(Sender(engine.stream(exchange_of(other)), shard.number, other, epoch, message_bytes))
            for other in range(shards)
            if other != shard.number
        }
        # By number, so that a commit costs a step for each receiver that has links in it, and none for the others.
        self._unknown = set(self._ways)
        """Receivers for which the place to continue is not known yet."""
        self._behind = set(self._ways)
        self._busy: set[int] = set()
        """Receivers to which a message is being sent."""
        self._asked = shard.log.end
        """From here on the contents fetched are asked about; earlier ones may have been, and are only reported."""
        self._wake = asyncio.Event()
        self._reading: LinkPass | None = None
        self._heartbeats = Heartbeats()
        self._answers: list[AnswersFrame] = []
        self._look_at = 0.0
        shard.outbox.shut(self._ways)
        shard.listen()

    async def resume(self) -> Unavailable | None:
        """Find out where to continue, for every receiver for which that is known yet; for the others later."""
        unknown = sorted(self._unknown)
        for start in range(0, len(unknown), 32):
            for answer in await asyncio.gather(*map(self._resume, unknown[start : start + 32])):
                if answer is not None:
                    return answer
        return None

    async def _resume(self, other: int) -> Unavailable | None:
        way = self._ways[other]
        position = await way.sender.resume()
        if position is None:
            entry = await self._engine.bucket.get(cursors_of(other))
            if entry is None or isinstance(entry, Unavailable):
                return entry
            told = self._foreign.value(entry.value or b"", Cursors, entry.key)
            if told is None:
                return None  # its holder publishes it again
            way.sender.position = told.cursors.get(self._shard.number, 0)
        elif isinstance(position, Unavailable):
            return position
        self._unknown.discard(other)
        self._fall_behind(other)
        return None

    async def _resume_late(self) -> None:
        """Look again for the places to continue that were not known yet."""
        now = self._clock.monotonic()
        if self._unknown and now >= self._look_at:
            self._look_at = now + _UNKNOWN
            await self.resume()

    def committed(self) -> None:
        """A commit has ended: more records may be sent."""
        shard = self._shard
        self._answers += [
            AnswersFrame(shard.number, asker, position, known)
            for position, asker, known in shard.take_replies(shard.log.committed)
        ]
        if shard.log.committed != self._told:  # else nothing more may be sent than before
            self._told = shard.log.committed
            self._wake.set()

    @property
    def sent(self) -> int:
        """The position before which everything in the log has been sent to all receivers."""
        ways, outbox = self._ways, self._shard.outbox
        late = [ways[other].read for other in self._behind]
        waiting = {*outbox.owners(), *self._busy} - self._behind
        return min([self._shard.log.committed, *late, *(ways[other].sender.position for other in waiting)])

    @property
    def quiet(self) -> bool:
        return not (self._behind or self._busy or self._answers or self._shard.replies)

    # -- in tasks of their own

    async def run(self) -> None:
        """Send what may be sent, until cancelled."""
        while True:
            if not await self.step():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), 0.2 if self._behind else self._patience)
            self._wake.clear()

    async def step(self) -> bool:
        """Send what may be sent now; returns whether more of the backlog can be read back at once."""
        await self._resume_late()
        busy = await self._mend()
        await self._send_live()
        await self._send_answers()
        return busy

    def _fall_behind(self, other: int) -> None:
        self._shard.outbox.shut([other])
        way = self._ways[other]
        self._behind.add(other)
        way.until, way.read = None, way.sender.position

    async def _send_live(self) -> None:
        shard = self._shard
        committed = shard.log.committed
        sends: list[Awaitable[bool]] = []
        due = self._heartbeats.is_due(committed)
        for other in self._ways if due else shard.outbox.owners():
            if other in self._behind:
                continue
            rows = shard.outbox.take(other, committed)
            asks = shard.outbox.take_asks(other, committed)
            if rows or asks or committed - self._ways[other].sender.position >= every(len(self._ways)):
                self._busy.add(other)  # already now: the sending task starts a moment later
                sends.append(self._send(other, committed, rows, asks))
        await asyncio.gather(*sends)
        if due:
            live = self._ways.keys() - self._behind
            self._heartbeats.looked([self._ways[other].sender.position for other in live])

    async def _send(self, other: int, end: int, rows: Sequence[Row], asks: Sequence[tuple[int, int]]) -> bool:
        way = self._ways[other]
        self._busy.add(other)
        try:
            refused = await way.sender.send(end, rows, asks, self._asked)
        finally:
            self._busy.discard(other)
        if refused is not None:
            way.blocked = self._clock.monotonic() + _BLOCKED
            self._fall_behind(other)
            return False
        self._links.add(len(rows))
        return True

    async def _send_answers(self) -> None:
        while self._answers:
            frame = self._answers[0]
            stream = self._engine.stream(exchange_of(frame.asker))
            if isinstance(await send_answers(stream, self._epoch, frame), Unavailable):
                return
            # If lost in a full stream, a duplicate stays unmarked, nothing else; waiting for room might never end.
            self._answers.pop(0)

    # -- behind

    async def _mend(self) -> bool:
        """Read back a little of the backlog; False if there is nothing to do now."""
        now = self._clock.monotonic()
        late = [(other, self._ways[other]) for other in sorted(self._behind - self._unknown)]
        open_ways = [(other, way) for other, way in late if way.blocked <= now]
        return bool(open_ways) and await self._step(open_ways)

    async def _step(self, ways: Sequence[tuple[int, _Way]]) -> bool:
        shard = self._shard
        committed = shard.log.committed
        for other, way in ways:
            if way.until is None and way.read >= committed:
                # Links found from here on wait in the outbox; those found since the last commit are still to be
                # read.
                way.until = shard.log.end
                shard.outbox.reopen([other])
            if way.until is not None and way.read >= way.until:
                way.until = None
                self._behind.discard(other)
        late = [(other, way) for other, way in ways if other in self._behind]
        ready = [(other, way) for other, way in late if way.read < committed]
        if not ready:
            return len(late) < len(ways)
        start = min(way.read for _, way in ready)
        closing = [w.until for _, w in ready if w.until is not None and w.until > start]
        stop = min([committed, *closing])
        reading = self._reading_at(start)
        found = await read_back_apart(shard, reading, stop, [other for other, _ in ready])
        await asyncio.gather(*(self._pass_on(other, way, reading.position, found) for other, way in ready))
        return True

    def _reading_at(self, start: int) -> LinkPass:
        """A pass over the log from a position on; usually the one where the last reading ended."""
        if self._reading is None or self._reading.position != start:
            self._reading = LinkPass(self._shard.log.reader.files, start)
        return self._reading

    async def _pass_on(self, other: int, way: _Way, stop: int, found: ReadBack) -> None:
        if stop <= way.read:
            return
        rows = [row for row in found.rows.get(other, ()) if row.at >= way.read]
        asks = [row for row in found.digests.get(other, ()) if row[0] >= way.read]
        if not (rows or asks or stop - way.sender.position >= every(len(self._ways))) or await self._send(
            other, stop, rows, asks
        ):
            way.read = stop


class Incoming:
    """Receives the links for one shard."""

    def __init__(
        self,
        stream: Stream,
        shard: Shard,
        *,
        clock: Clock,
        meters: Meters,
        woken: Callable[[], None],
        refresh: Callable[[], Awaitable[None]],
        foreign: Foreign | None = None,
        patience: float = _WAIT,
    ) -> None:
        """`stream`: the shard's own. `refresh`: reads newer options of the crawl, before seeds are judged.

        `patience`: seconds that a read of the stream waits for messages.
        """
        self._patience = patience
        self._shard = shard
        self._clock = clock
        self._links = meters.counter("exchange.links_in")
        self._woken = woken
        self._refresh = refresh
        self._reader = Reader(stream, after=shard.received, cursors=shard.cursors, foreign=foreign)
        self._taken = shard.received  # everything up to this sequence was appended
        self._kept: list[tuple[int, int]] = []  # position in the log, sequence
        self._safe = shard.received
        self._purged = 0
        self._purge_at = 0.0

    @property
    def received(self) -> int:
        """The sequence up to which everything is in the committed log."""
        shard = self._shard
        if shard.log.committed == shard.log.end:
            return max(self._taken, self._safe)
        return self._safe

    def committed(self) -> None:
        """A commit has ended."""
        committed = self._shard.log.committed
        while self._kept and self._kept[0][0] < committed:
            self._safe = max(self._safe, self._kept.pop(0)[1])

    async def run(self) -> None:
        """Process messages until cancelled."""
        while True:
            if isinstance(await self.step(self._patience), Unavailable):
                await self._clock.sleep(0.2)

    async def step(self, seconds: float, most: int = 64) -> int | Unavailable:
        """Process messages that arrive within so many seconds; returns how many."""
        arrived = await self._reader.next(seconds, most)
        if isinstance(arrived, Unavailable):
            return arrived
        for one in arrived:
            if isinstance(one, Answered):
                self._heed(one.frame)
            elif one.sender == SEEDS:
                await self._sow(one)
            else:
                await self._receive(one)
        self._taken = max(self._taken, self._reader.received)
        if arrived:
            self._woken()
        await self._purge()
        return len(arrived)

    async def _receive(self, one: Arrival) -> None:
        """Append a message, some links at a time: it may have ten thousand. With the last of them it counts as
        received."""
        shard = self._shard
        self._links.add(len(one.rows))
        at = milliseconds(self._clock)
        for _ in receiving(shard, one.sender, one.cursor, one.rows, at, one.asks, sequence=one.sequence):
            await asyncio.sleep(0)
        self._kept.append((shard.log.end - 1, one.sequence))

    async def _sow(self, one: Arrival) -> None:
        """Append seeds: those in scope are logged as such, together with the cursor."""
        await self._refresh()
        shard, now = self._shard, milliseconds(self._clock)
        rows = []
        for row in one.rows:
            verdict = shard.scope.judge(row.url, 0)
            if shard.knows(row.url):
                continue
            if verdict.inside:
                rows.append(Link(row.url, LinkKind.SEED, False, ""))
            else:
                shard.append(Skipped(now, row.url, 0, verdict.why, verdict.rule))
        for start in range(0, len(rows), _SEEDS):
            shard.append(Seeded(now, Links.pack(rows[start : start + _SEEDS])))
        shard.append(Received(now, SEEDS, one.cursor, Links(), [], b"", sequence=one.sequence))
        self._kept.append((shard.log.end - 1, one.sequence))

    def _heed(self, frame: AnswersFrame) -> None:
        shard = self._shard
        if frame.position >= shard.answers.get(frame.owner, 0):
            at = milliseconds(self._clock)
            shard.append(Duplicates(at, frame.owner, frame.position + 1, frame.positions))

    async def _purge(self) -> None:
        """Purge the stream, now and then, of messages that are safe in the log."""
        now, safe = self._clock.monotonic(), self._safe
        if safe > self._purged and now >= self._purge_at:
            self._purge_at = now + _PURGE
            if await self._reader.purge(safe) is None:
                self._purged = safe

    async def close(self) -> None:
        await self._reader.close()


class StreamExchange:
    """The exchange of all shards that an agent holds; implements `lycosa.crawl.delivery.Exchange`."""

    def __init__(self, *, fail: Callable[[Exception], None]) -> None:
        self._fail = fail
        self._out: dict[int, Outgoing] = {}
        self._in: dict[int, Incoming] = {}
        self._tasks: dict[int, list[asyncio.Task[None]]] = {}

    async def deliver(self) -> None:
        for out in self._out.values():
            out.committed()
        for incoming in self._in.values():
            incoming.committed()

    def catch_up(self, running: bool = False) -> None:
        """Nothing to do: each sender finds out by itself where to continue (`Outgoing.resume`)."""

    @property
    def is_behind(self) -> bool:
        return False

    def add(self, number: int, out: Outgoing, incoming: Incoming) -> None:
        """Start the exchange of a shard that we hold; `out` knows where to continue."""
        self._out[number], self._in[number] = out, incoming
        self._tasks[number] = [
            asyncio.create_task(self._watched(out.run())),
            asyncio.create_task(self._watched(incoming.run())),
        ]

    async def _watched(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:
            self._fail(error)

    async def remove(self, number: int) -> None:
        """Stop sending and receiving for a shard."""
        await end_tasks(self._tasks.pop(number, []))
        self._out.pop(number, None)
        incoming = self._in.pop(number, None)
        if incoming is not None:
            await incoming.close()

    def sent(self, number: int) -> int:
        return self._out[number].sent if number in self._out else 0

    def received(self, number: int) -> int:
        return self._in[number].received if number in self._in else 0

    def is_quiet(self, number: int) -> bool:
        return number in self._out and self._out[number].quiet
