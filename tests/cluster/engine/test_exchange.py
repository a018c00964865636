"""The exchange: batches, cursors, and a model of stale senders, crashes and repetitions."""

from __future__ import annotations

from itertools import pairwise

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from nats.aio.client import Client

from lycosa.cluster.engine import exchange as exchange_module
from lycosa.cluster.engine.exchange import (
    SEEDS,
    Answered,
    Arrival,
    Ask,
    Gap,
    Inbox,
    Message,
    Reader,
    Sender,
    decode,
    encode,
    send_answers,
    send_seeds,
)
from lycosa.cluster.engine.outcomes import Full, Unavailable
from lycosa.cluster.engine.streams import Names, ends, ensure, exchange_config
from lycosa.cluster.frames import AnswersFrame, LinksFrame, cut, links_frame
from lycosa.crawl.exchange import Row


def row(position: int, number: int = 0) -> Row:
    return Row(position, f"http://h{position}.example/{number}", 0, 2, 1, number)


async def make(client: Client, names: Names, max_bytes: int = 64 << 20) -> None:
    await ensure(client.jetstream(), exchange_config(names, 7, replicas=1, max_bytes=max_bytes))


def reader_of(client: Client, names: Names, after: int = 0, cursors: dict[int, int] | None = None) -> Reader:
    return Reader(client, client.jetstream(), names, 7, after=after, cursors=cursors or {})


async def read_all(reader: Reader, client: Client, names: Names) -> list[Arrival]:
    _, last = await ends(client.jetstream(), names.exchange(7))
    got: list[Arrival] = []
    while reader.received < last:
        got += [arrival for arrival in await reader.next(5.0) if isinstance(arrival, Arrival)]
    return got


async def test_links_arrive_once_with_their_cursor(client: Client, names: Names) -> None:
    await make(client, names)
    one = Sender(client.jetstream(), names, 1, 7, 1)
    two = Sender(client.jetstream(), names, 2, 7, 1)
    assert await one.resume() == 0
    await one.send(10, [row(3), row(3, 1), row(9)])
    await two.send(4, [row(0)])
    await one.send(1010, [])  # nothing found: the cursor moves all the same
    reader = reader_of(client, names)
    got = await read_all(reader, client, names)
    assert [(a.sequence, a.sender, a.cursor) for a in got] == [(1, 1, 10), (2, 2, 4), (3, 1, 1010)]
    assert got[0].rows == [row(3), row(3, 1), row(9)]
    await reader.close()


async def test_a_reader_begins_behind_its_stored_sequence(client: Client, names: Names) -> None:
    await make(client, names)
    sender = Sender(client.jetstream(), names, 1, 7, 1)
    for position in range(5):
        await sender.send(position + 1, [row(position)])
    reader = reader_of(client, names, after=3, cursors={1: 3})
    got = await read_all(reader, client, names)
    assert [a.sequence for a in got] == [4, 5]
    await reader.close()
    # An earlier sequence than the cursors say does no harm: what is known drops out.
    reader = reader_of(client, names, after=1, cursors={1: 3})
    assert [a.sequence for a in await read_all(reader, client, names)] == [4, 5]
    await reader.close()


async def test_a_new_holder_goes_on_where_the_stream_ends_also_after_a_purge(
    client: Client, names: Names
) -> None:
    await make(client, names)
    js = client.jetstream()
    old = Sender(js, names, 1, 7, 1)
    await old.send(10, [row(4)])
    await old.send(20, [row(14)])
    await Sender(js, names, 2, 7, 1).send(5, [row(1)])
    reader = reader_of(client, names)
    await read_all(reader, client, names)
    await reader.purge(reader.received)
    first, last = await ends(js, names.exchange(7))
    assert (first, last) == (2, 3)  # the last of every sender stays
    new = Sender(js, names, 1, 7, 2)
    assert await new.resume() == 20
    await new.send(30, [row(25)])
    assert [a.rows for a in await read_all(reader, client, names)] == [[row(25)]]
    await reader.close()


async def test_a_stale_senders_batch_is_not_dropped(client: Client, names: Names) -> None:
    """The new holder found it in the stream and went on behind it: nobody else would send it."""
    await make(client, names)
    js = client.jetstream()
    stale, new = Sender(js, names, 1, 7, 1), Sender(js, names, 1, 7, 2)
    await stale.send(10, [row(4)])
    early = await new.resume()
    await stale.send(20, [row(14)])
    await new.send(15, [row(12), row(14)])  # overlaps: it asked before the stale batch came
    late = Sender(js, names, 1, 7, 3)
    assert (early, await late.resume()) == (10, 15)
    await late.send(25, [row(17), row(22)])
    reader = reader_of(client, names)
    got = await read_all(reader, client, names)
    assert [r for a in got for r in a.rows] == [row(4), row(14), row(22)]
    assert got[-1].cursor == 25
    await reader.close()


async def test_a_full_exchange_pushes_back(client: Client, names: Names) -> None:
    await make(client, names, max_bytes=40_000)
    js = client.jetstream()
    sender = Sender(js, names, 1, 7, 1)
    rows = [
        Row(n, f"http://{n * 7919 % 99991:x}.example/{n * 104729 % 999983:x}", 0, 1, 0) for n in range(9_000)
    ]
    reader = reader_of(client, names)
    got: list[Arrival] = []
    refused = 0
    while sender.position < 9_000:
        try:
            await sender.send(min(sender.position + 500, 9_000), rows)
        except Full:
            refused += 1
            got += await read_all(reader, client, names)
            await reader.purge(reader.received)
    got += await read_all(reader, client, names)
    assert refused > 1
    assert [r for a in got for r in a.rows] == rows
    await reader.close()


async def test_a_lost_acknowledgement_repeats_a_batch_and_the_cursor_drops_it(
    client: Client, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(client, names)
    sender = Sender(client.jetstream(), names, 1, 7, 1)
    publish, calls = exchange_module.publish, []

    async def deaf(*given: object, **more: object) -> object:
        calls.append(await publish(*given, **more))  # type: ignore[arg-type]
        if len(calls) == 1:
            raise Unavailable("lost")
        return calls[-1]

    monkeypatch.setattr(exchange_module, "publish", deaf)
    with pytest.raises(Unavailable):
        await sender.send(10, [row(4)])
    await sender.send(10, [row(4)])
    reader = reader_of(client, names)
    assert [a.rows for a in await read_all(reader, client, names)] == [[row(4)]]
    await reader.close()


async def test_seeds_come_at_any_time(client: Client, names: Names) -> None:
    await make(client, names)
    js = client.jetstream()
    await send_seeds(js, names, 7, ["http://a.example/"])
    await Sender(js, names, 1, 7, 1).send(3, [row(1)])
    await send_seeds(js, names, 7, ["http://b.example/", "http://c.example/"])
    reader = reader_of(client, names, cursors={SEEDS: 1})
    got = await read_all(reader, client, names)
    assert [(a.sender, a.cursor, len(a.rows)) for a in got] == [(1, 3, 1), (SEEDS, 3, 2)]
    await reader.close()


async def test_a_foreign_message_is_told(client: Client, names: Names) -> None:
    await make(client, names)
    await client.jetstream().publish(names.exchange_subject(7, 1), b"LyX1 nonsense")
    reader = reader_of(client, names)
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
    assert [r for a in got if a for r in a.rows] == sorted(rows, key=lambda r: r[0])
    told = [ask for a in got if a for ask in a.asks]
    assert told == [(at, digest, at if at >= 11 else -1) for at, digest in asks]
    assert inbox.cursors[1] == 30


@given(_rows, _asks)
def test_messages_are_read_as_written(rows: list[Row], asks: list[Ask]) -> None:
    frame = links_frame(3, 7, 0, 21, rows, asks, 5)
    assert decode(encode(9, frame)) == Message(9, frame) and frame.rows() == rows


@given(st.binary(max_size=80), st.booleans())
def test_any_bytes_are_a_message_or_none(data: bytes, packed: bool) -> None:
    payload = b"LyX1" + (zstandard.compress(data) if packed else data)
    for each in (data, payload):
        decoded = decode(each)
        assert decoded is None or isinstance(decoded, Message)


async def test_links_offered_again_leave_the_cursor(client: Client, names: Names) -> None:
    await make(client, names)
    sender = Sender(client.jetstream(), names, 1, 7, 1)
    await sender.send(10, [row(4)])
    await sender.offer_again([row(12, 1), row(12, 2)])  # the scope changes at 12, which is not passed yet
    await sender.send(20, [row(12, 3)])
    assert await Sender(client.jetstream(), names, 1, 7, 2).resume() == 20
    reader = reader_of(client, names)
    got = await read_all(reader, client, names)
    assert [a.cursor for a in got] == [10, 10, 20]
    assert [r for a in got for r in a.rows] == [row(4), row(12, 1), row(12, 2), row(12, 3)]
    await reader.close()


async def test_contents_are_asked_about_and_answered(client: Client, names: Names) -> None:
    await make(client, names)
    js = client.jetstream()
    sender = Sender(js, names, 1, 7, 1)
    await sender.send(10, [], [(3, 0xABC), (8, 0xDEF)], asked=5)
    await send_answers(js, names, 1, AnswersFrame(1, 7, 2, [4, 5]))
    reader = reader_of(client, names)
    got = []
    while reader.received < 2:
        got += await reader.next(5.0)
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
