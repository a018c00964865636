"""The exchange: batches, cursors, and a model of stale senders, crashes and repetitions."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.cluster.frames import AnswersFrame, LinksFrame, cut, links_frame
from lycosa.cluster.links import (
    SEEDS,
    Answered,
    Arrival,
    Ask,
    Framed,
    Gap,
    Inbox,
    Reader,
    Sender,
    decode,
    encode,
    send_answers,
    send_seeds,
)
from lycosa.crawl.exchange import Row
from lycosa.engine.protocol import Engine, Full, StreamPlan, Unavailable
from lycosa.engine.protocol import got as answered
from tests.cluster.test_tail import Odd


def row(position: int, number: int = 0) -> Row:
    return Row(position, f"http://h{position}.example/{number}", 0, 2, 1, number)


async def make(engine: Engine, max_bytes: int = 64 << 20) -> None:
    answered(await engine.create([StreamPlan("x.7", max_bytes, lanes=True)], 1))


def sender_of(engine: Engine, sender: int, epoch: int = 1) -> Sender:
    return Sender(engine.stream("x.7"), sender, 7, epoch)


def reader_of(engine: Engine, after: int = 0, cursors: dict[int, int] | None = None) -> Reader:
    return Reader(engine.stream("x.7"), after=after, cursors=cursors or {})


async def read_all(reader: Reader, engine: Engine) -> list[Arrival]:
    _, last = answered(await engine.stream("x.7").ends())
    got: list[Arrival] = []
    while reader.received < last:
        got += [arrival for arrival in answered(await reader.next(5.0)) if isinstance(arrival, Arrival)]
    return got


async def test_links_arrive_once_with_their_cursor(engine: Engine) -> None:
    await make(engine)
    one = sender_of(engine, 1, 1)
    two = sender_of(engine, 2, 1)
    assert await one.resume() is None, "nothing was sent yet"
    await one.send(10, [row(3), row(3, 1), row(9)])
    await two.send(4, [row(0)])
    await one.send(1010, [])  # nothing found: the cursor moves all the same
    reader = reader_of(engine)
    got = await read_all(reader, engine)
    assert [(a.sequence, a.sender, a.cursor) for a in got] == [(1, 1, 10), (2, 2, 4), (3, 1, 1010)]
    assert got[0].rows == [row(3), row(3, 1), row(9)]
    await reader.close()


async def test_many_small_frames_do_not_hold_the_loop_together(engine: Engine) -> None:
    """Each takes a millisecond at most; sixty-four of them may be read at once."""
    await make(engine)
    sender = sender_of(engine, 1, 1)
    for at in range(20):
        await sender.send(at + 1, [row(at, number) for number in range(600)])
    reading = engine.stream("x.7").read(0)
    messages: list[Any] = []
    while len(messages) < 20:
        messages += answered(await reading.next(5.0, 64))
    await reading.close()

    async def at_once(seconds: float, most: int) -> list[Any]:
        return messages

    stream: Any = SimpleNamespace(name="x.7", read=lambda after: SimpleNamespace(next=at_once))
    reader = Reader(stream, after=0, cursors={})
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    arrivals = answered(await reader.next(5.0))
    counting.cancel()
    assert len(arrivals) == 20 and turns >= 10


async def test_a_reader_begins_behind_its_stored_sequence(engine: Engine) -> None:
    await make(engine)
    sender = sender_of(engine, 1, 1)
    for position in range(5):
        await sender.send(position + 1, [row(position)])
    reader = reader_of(engine, after=3, cursors={1: 3})
    got = await read_all(reader, engine)
    assert [a.sequence for a in got] == [4, 5]
    await reader.close()
    # An earlier sequence than the cursors say does no harm: what is known drops out.
    reader = reader_of(engine, after=1, cursors={1: 3})
    assert [a.sequence for a in await read_all(reader, engine)] == [4, 5]
    await reader.close()


async def test_a_new_holder_goes_on_where_the_stream_ends_also_after_a_purge(engine: Engine) -> None:
    await make(engine)
    old = sender_of(engine, 1, 1)
    await old.send(10, [row(4)])
    await old.send(20, [row(14)])
    await sender_of(engine, 2, 1).send(5, [row(1)])
    reader = reader_of(engine)
    await read_all(reader, engine)
    await reader.purge(reader.received)
    first, last = answered(await engine.stream("x.7").ends())
    assert (first, last) == (2, 3)  # the last of every sender stays
    new = sender_of(engine, 1, 2)
    assert await new.resume() == 20
    await new.send(30, [row(25)])
    assert [a.rows for a in await read_all(reader, engine)] == [[row(25)]]
    await reader.close()


async def test_only_senders_of_whom_there_is_something_to_purge_are_purged(engine: Engine) -> None:
    await make(engine)
    one, two = sender_of(engine, 1, 1), sender_of(engine, 2, 1)
    for end in (10, 20):
        await one.send(end, [row(end - 1)])
        await two.send(end, [row(end - 1)])
    reader = reader_of(engine)
    await read_all(reader, engine)
    purged: list[str | None] = []
    purge = reader._stream.purge

    async def counted(before: int, lane: str | None = None) -> Unavailable | None:
        purged.append(lane)
        return await purge(before, lane)

    reader._stream.purge = counted  # type: ignore[method-assign]
    await reader.purge(reader.received)
    assert sorted(map(str, purged)) == ["1", "2"]
    await reader.purge(reader.received)
    assert len(purged) == 2, "nothing has come since"
    await two.send(30, [row(25)])
    await read_all(reader, engine)
    await reader.purge(reader.received)
    assert purged[2:] == ["2"]
    assert answered(await engine.stream("x.7").ends()).first == 3, "the last of every sender stays"
    await reader.close()


async def test_a_stale_senders_batch_is_not_dropped(engine: Engine) -> None:
    """The new holder found it in the stream and went on behind it: nobody else would send it."""
    await make(engine)
    stale, new = sender_of(engine, 1, 1), sender_of(engine, 1, 2)
    await stale.send(10, [row(4)])
    early = await new.resume()
    await stale.send(20, [row(14)])
    await new.send(15, [row(12), row(14)])  # overlaps: it asked before the stale batch came
    late = sender_of(engine, 1, 3)
    assert (early, await late.resume()) == (10, 15)
    await late.send(25, [row(17), row(22)])
    reader = reader_of(engine)
    got = await read_all(reader, engine)
    assert [r for a in got for r in a.rows] == [row(4), row(14), row(22)]
    assert got[-1].cursor == 25
    await reader.close()


async def test_a_full_exchange_pushes_back(engine: Engine) -> None:
    await make(engine, max_bytes=40_000)
    sender = sender_of(engine, 1, 1)
    rows = [
        Row(n, f"http://{n * 7919 % 99991:x}.example/{n * 104729 % 999983:x}", 0, 1, 0) for n in range(9_000)
    ]
    reader = reader_of(engine)
    got: list[Arrival] = []
    refused = 0
    while sender.position < 9_000:
        if isinstance(await sender.send(min(sender.position + 500, 9_000), rows), Full):
            refused += 1
            got += await read_all(reader, engine)
            await reader.purge(reader.received)
    got += await read_all(reader, engine)
    assert refused > 1
    assert [r for a in got for r in a.rows] == rows
    await reader.close()


async def test_a_lost_acknowledgement_repeats_a_batch_and_the_cursor_drops_it(engine: Engine) -> None:
    await make(engine)
    stream, calls = engine.stream("x.7"), list[object]()

    async def deaf(*given: Any, **more: Any) -> object:
        calls.append(await stream.append(*given, **more))
        return Unavailable("lost") if len(calls) == 1 else calls[-1]

    sender = Sender(Odd(stream, deaf), 1, 7, 1)
    assert isinstance(await sender.send(10, [row(4)]), Unavailable)
    await sender.send(10, [row(4)])
    reader = reader_of(engine)
    assert [a.rows for a in await read_all(reader, engine)] == [[row(4)]]
    await reader.close()


async def test_seeds_come_at_any_time(engine: Engine) -> None:
    await make(engine)
    await send_seeds(engine.stream("x.7"), 7, ["http://a.example/"])
    await sender_of(engine, 1, 1).send(3, [row(1)])
    await send_seeds(engine.stream("x.7"), 7, ["http://b.example/", "http://c.example/"])
    reader = reader_of(engine, cursors={SEEDS: 1})
    got = await read_all(reader, engine)
    assert [(a.sender, a.cursor, len(a.rows)) for a in got] == [(1, 3, 1), (SEEDS, 3, 2)]
    await reader.close()


async def test_a_foreign_message_is_told(engine: Engine) -> None:
    await make(engine)
    answered(await engine.stream("x.7").append(b"LyX1 nonsense", lane="1"))
    reader = reader_of(engine)
    with pytest.raises(Exception, match="damaged frame: the links in it are lost"):
        await reader.next(5.0)
    await reader.close()


def test_a_gap_is_never_skipped() -> None:
    inbox = Inbox({1: 10})
    with pytest.raises(Gap, match="positions 10 to 12"):
        inbox.take(links_frame(1, 7, 12, 15, [row(13)]), 5)


_rows = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=40).map(
    lambda pairs: [row(p, n) for p, n in pairs]
)


_asks = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2**64 - 1)), max_size=10).map(sorted)


@given(_rows, _asks, st.integers(40, 300))
def test_parts_follow_each_other_and_hold_everything(rows: list[Row], asks: list[Ask], most: int) -> None:
    parts = cut(0, 30, rows, asks, most=most)
    assert parts[0].start == 0 and parts[-1].end == 30
    assert all(a.end == b.start for a, b in pairwise(parts))
    inbox = Inbox({})
    got = [
        inbox.take(links_frame(1, 7, *part, 11), number)  # contents from position 11 on want an answer
        for number, part in enumerate(parts, 1)
    ]
    assert [r for a in got if a for r in a.rows] == sorted(rows, key=lambda r: r.at)
    told = [ask for a in got if a for ask in a.asks]
    assert told == [(at, digest, at if at >= 11 else -1) for at, digest in asks]
    assert inbox.cursors[1] == 30


@given(_rows, _asks)
def test_messages_are_read_as_written(rows: list[Row], asks: list[Ask]) -> None:
    frame = links_frame(3, 7, 0, 21, rows, asks, 5)
    assert decode(encode(9, frame)) == Framed(9, frame) and frame.rows() == rows


@given(st.binary(max_size=80), st.booleans())
def test_any_bytes_are_a_message_or_none(data: bytes, packed: bool) -> None:
    payload = b"LyX1" + (zstandard.compress(data) if packed else data)
    for each in (data, payload):
        decoded = decode(each)
        assert decoded is None or isinstance(decoded, Framed)


async def test_contents_are_asked_about_and_answered(engine: Engine) -> None:
    await make(engine)
    sender = sender_of(engine, 1, 1)
    await sender.send(10, [], [(3, 0xABC), (8, 0xDEF)], asked=5)
    await send_answers(engine.stream("x.7"), 1, AnswersFrame(1, 7, 2, [4, 5]))
    reader = reader_of(engine)
    got = []
    while reader.received < 2:
        got += answered(await reader.next(5.0))
    assert isinstance(got[0], Arrival) and got[0].asks == [(3, 0xABC, -1), (8, 0xDEF, 8)]
    assert got[1] == Answered(2, AnswersFrame(1, 7, 2, [4, 5]))
    await reader.purge(2)
    assert await sender.resume() == 10  # answers do not hide where links go on
    await reader.close()


class _Holder:
    """A holder of the sending shard in the model: alive, or stale without knowing."""

    def __init__(self, epoch: int, knows: int, position: int) -> None:
        self.epoch = epoch
        self.knows = knows  # it knows the committed log up to here
        self.position = position
        self.unconfirmed: tuple[int, int] | None = None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_link_is_lost_and_none_is_logged_twice(data: st.DataObject) -> None:
    """Holders come and go (the old ones keep sending), acknowledgements get lost, the receiver crashes."""
    log: list[int] = []  # committed records of the sender: how many links each has for us
    stream: list[LinksFrame] = []
    holders = [_Holder(1, 0, 0)]
    committed_log: list[Row] = []  # the receiver's durable log, its cursor and its sequence
    durable = (0, 0)
    inbox, read, pending = Inbox({}), 0, list[Row]()
    asked: _Holder | None = None

    def rows_of(start: int, end: int) -> list[Row]:
        return [row(p, n) for p in range(start, end) for n in range(log[p])]

    for _ in range(data.draw(st.integers(1, 30))):
        act = data.draw(st.sampled_from(["commit", "send", "ask", "take over", "read", "save", "crash"]))
        if act == "commit":
            log += data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3))
            holders[-1].knows = len(log)
        elif act == "send":
            holder = data.draw(st.sampled_from(holders))
            start, end = holder.unconfirmed or (
                holder.position,
                data.draw(st.integers(holder.position, max(holder.knows, holder.position))),
            )
            landed, heard = data.draw(st.booleans()), data.draw(st.booleans())
            if landed:
                stream.append(links_frame(1, 7, start, end, rows_of(start, end)))
            if landed and heard:
                holder.position, holder.unconfirmed = end, None
            else:
                holder.unconfirmed = (start, end)  # sent again before anything else
        elif act == "ask":  # a new holder asks where the stream ends; stale ones may send before it does
            asked = _Holder(len(holders) + 1, len(log), stream[-1].end if stream else 0)
        elif act == "take over" and asked is not None:
            asked.knows, asked.epoch = len(log), len(holders) + 1
            holders.append(asked)
            asked = None
        elif act == "read" and read < len(stream):
            arrival = inbox.take(stream[read], read + 1)
            read += 1
            pending += arrival.rows if arrival else []
        elif act == "save":
            committed_log += pending
            pending = []
            durable = (inbox.cursors.get(1, 0), read)
        elif act == "crash":
            pending = []
            # The stored sequence may be older than the cursor: it is in the snapshot, the cursor in the log.
            inbox, read = Inbox({1: durable[0]}), data.draw(st.integers(0, durable[1]))
    last = _Holder(99, len(log), stream[-1].end if stream else 0)
    stream.append(links_frame(1, 7, last.position, len(log), rows_of(last.position, len(log))))
    for number in range(read, len(stream)):
        arrival = inbox.take(stream[number], number + 1)
        pending += arrival.rows if arrival else []
    assert committed_log + pending == rows_of(0, len(log))
