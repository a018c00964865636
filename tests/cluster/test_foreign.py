"""Garbage in every bucket key, stream and subject: passed over and told of, or a clear line; never a traceback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from nats.aio.client import Client

from lycosa.clock import ManualClock
from lycosa.cluster.control import About, Control, Report
from lycosa.cluster.foreign import Foreign
from lycosa.cluster.leases import Leases, Presence, Said
from lycosa.cluster.links import MAGIC, Reader
from lycosa.cluster.operating import Operator
from lycosa.cluster.outcomes import Damaged
from lycosa.cluster.rations import Rations
from lycosa.cluster.storage import DirectoryStorage
from lycosa.cluster.tail import Tail, pieces
from lycosa.cluster.turn_table import Later
from lycosa.cluster.turns import TurnAsker, TurnHosts, TurnKeeper, of_addresses, of_hosts
from lycosa.crawl.status import ReportTotals
from lycosa.engine.nats.engine import NatsEngine
from lycosa.engine.nats.names import Names
from lycosa.engine.protocol import Bucket, Engine, StreamPlan, got
from lycosa.errors import StorageError
from lycosa.lab.nats_servers import Servers
from tests.cluster.crawled import until
from tests.cluster.logs import block
from tests.cluster.test_links import make, read_all, reader_of, row, sender_of
from tests.cluster.test_turns import NoHosts, heard

GARBAGE = (
    b"",
    b"\xff\xfe\x00",
    b"[]",
    b"null",
    b"7",
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b'{"at": "noon", "shard": {}, "wanted": 3, "limit": []}',
)
ABOUT = About(crawl="ab12", shards=2, hash_seed=7, created=1, storage="/shared", replicas=1)


async def raw(servers: Servers, subject: bytes, data: bytes) -> None:
    """Publish by hand: a subject of any bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", servers.all[0].port)
    await reader.readline()
    writer.write(b'CONNECT {"verbose":false}\r\n')
    writer.write(b"PUB %b %d\r\n%b\r\nPING\r\n" % (subject, len(data), data))
    assert await reader.readline() == b"PONG\r\n"
    writer.close()


@pytest.fixture
async def bucket(engine: Engine) -> Bucket:
    got(await engine.create([], 1))
    return engine.bucket


async def test_a_key_that_is_not_utf8_harms_nobody(
    one: Servers, client: Client, names: Names, nats_engine: NatsEngine
) -> None:
    got(await nats_engine.create([], 1))
    bucket = nats_engine.bucket
    presence = Presence(bucket, "me", 10.0, ManualClock(), foreign := Foreign())
    await bucket.put("agent.good", msgspec.json.encode(Said()))
    await raw(one, f"$KV.{names.bucket}.agent.".encode() + b"\xff\xfe", b"x")
    await bucket.put("agent.later", msgspec.json.encode(Said()))
    assert sorted(entry.key for entry in got(await bucket.all("agent.*"))) == [
        "agent.good",
        "agent.later",
        "agent.��",
    ]
    while len(presence.alive()) < 2:
        await presence.follow(60.0)
    assert presence.alive() == ["good", "later"] and foreign.count == 1
    assert client.stats["reconnects"] == 0
    await presence.close()


@pytest.mark.parametrize("value", GARBAGE)
async def test_what_says_nothing_is_no_agent(bucket: Bucket, value: bytes) -> None:
    told: list[str] = []
    presence = Presence(bucket, "me", 10.0, ManualClock(), Foreign(told.append))
    await bucket.put("agent.odd", value)
    await bucket.put("agent.odd", value)
    await bucket.put("agent.good", msgspec.json.encode(Said()))
    while not presence.alive():
        await presence.follow(60.0)
    assert presence.alive() == ["good"]
    assert told == ["passed over: the key agent.odd does not say what an agent says"], "once"
    await presence.close()


@pytest.mark.parametrize("value", GARBAGE)
async def test_reports_state_and_quota(engine: Engine, bucket: Bucket, value: bytes) -> None:
    told: list[str] = []
    control = Control(engine, ManualClock(), Foreign(told.append))
    good = Report(shard=1, agent="a", epoch=1, round=0, end=1, committed=1, received=0, sent=1, idle=True)
    await control.report(good)
    await bucket.put("report.0", value)
    await bucket.put("report.7", msgspec.json.encode(good))  # under a name that is not its own
    assert await control.reports() == {1: good} and await control.reports() == {1: good}
    assert len(told) == 1 and "report.0" in told[0]
    for key, ask in (("state", control.state), ("quota", control.quota)):
        await bucket.put(key, value)
        with pytest.raises(Damaged, match=f"the key {key} of crawl {engine.crawl} is damaged"):
            await ask()


async def test_totals_that_are_no_numbers_make_no_report(engine: Engine, bucket: Bucket) -> None:
    control = Control(engine, ManualClock())
    one = {
        "shard": 0,
        "agent": "a",
        "epoch": 1,
        "round": 0,
        "end": 1,
        "committed": 1,
        "received": 0,
        "sent": 1,
    }
    good = Report(**one, idle=True, totals=ReportTotals(pages=3))
    await bucket.put("report.0", msgspec.json.encode(good).replace(b'"pages":3', b'"pages":"many"'))
    assert await control.reports() == {}


async def test_pages_wait_for_a_quota_that_can_be_read(engine: Engine, bucket: Bucket) -> None:
    control = Control(engine, ManualClock())
    await control.limit_pages(10)
    rations = Rations(control, 10, ManualClock())
    await rations.begin(0, 1, 0, lambda: True)
    assert not rations.may(0)
    await bucket.put("quota", b"garbage")
    assert not await rations.tend(), "nothing is granted, and nothing ends"
    await bucket.put("quota", b'{"limit":10,"granted":{}}')
    assert await rations.tend() and rations.may(0)


@pytest.mark.parametrize("value", GARBAGE)
async def test_a_lease_overwritten_is_written_anew_by_its_holder(bucket: Bucket, value: bytes) -> None:
    clock = ManualClock()
    mine, theirs = Leases(bucket, "a", 10.0, clock), Leases(bucket, "b", 10.0, clock)
    assert await mine.acquire(0) is not None
    await bucket.put("lease.0", value)
    clock.advance(60.0)
    assert await theirs.acquire(0) is None, "its epoch is not known: nobody may guess"
    assert await mine.renew(0) and mine.held[0].epoch == 1
    await bucket.put("lease.0", value)
    await mine.release(0)
    taken = await theirs.acquire(0)
    if taken is None:  # seen while it was garbage
        await theirs.follow(60.0)
        taken = await theirs.acquire(0)
    assert taken is not None and taken.epoch == 2
    await theirs.close()


async def test_requests(engine: Engine, other: Engine) -> None:
    told: list[str] = []
    foreign, clock = Foreign(told.append), ManualClock()
    turns = TurnKeeper(engine.requests, clock, expiry=10.0, wait=0.5, foreign=foreign)
    await turns.keep(0, NoHosts(), lambda: True, {})
    assert not isinstance(await heard(TurnAsker(other.requests, of_addresses(1), clock), "192.0.2.1"), Later)
    for value in GARBAGE:
        await other.requests.tell("turn.0", value)
        await other.requests.tell("host.0", value)
    await until(lambda: foreign.count == 2 * len(GARBAGE))
    assert len(told) == 2
    assert not isinstance(await TurnAsker(other.requests, of_addresses(1), clock).ask("192.0.2.7"), Later)
    await turns.drop(0)

    for subject in ("turn.0", "host.0"):
        got(await engine.requests.answer(subject, lambda asked: b'{"seconds": "\xff"}'))
    assert isinstance(await TurnAsker(other.requests, of_addresses(1), clock).ask("192.0.2.7"), Later)
    hosts = TurnHosts(TurnAsker(other.requests, of_hosts(lambda host: 0), clock), clock)
    assert not await hosts.claim("a.test")


async def test_messages_of_the_exchange_that_are_no_frames(
    one: Servers, nats_engine: NatsEngine, names: Names
) -> None:
    engine = nats_engine
    await make(engine)
    stream = engine.stream("x.7")
    sender = sender_of(engine, 1)
    await sender.send(10, [row(3)])
    got(await stream.append(b"hello", lane="1"))
    await raw(one, names.subject("x.7.").encode() + b"\xff", b"\xff")
    await sender.send(20, [row(12)])
    told: list[str] = []
    reader = Reader(stream, after=0, cursors={}, foreign=Foreign(told.append))
    found = await read_all(reader, engine)
    assert [(a.sequence, a.cursor) for a in found] == [(1, 10), (4, 20)] and reader.received == 4
    assert len(told) == 1 and stream.name in told[0] and "sequence 2" in told[0]
    await reader.purge(4)
    await reader.close()
    # A sender whose last message is not its own begins anew, and the cursor drops what is known.
    got(await stream.append(b"hello", lane="1"))
    again = sender_of(engine, 1, 2)
    assert await again.resume() == 0
    await again.send(25, [row(3), row(12), row(22)])
    reader = reader_of(engine, after=4, cursors={1: 20})
    assert [a.rows for a in await read_all(reader, engine)] == [[row(22)]]
    await reader.close()


async def test_a_damaged_frame_is_never_passed_over(engine: Engine) -> None:
    await make(engine)
    stream = engine.stream("x.7")
    huge = MAGIC + b"\x28\xb5\x2f\xfd\xc0" + (1 << 50).to_bytes(8, "little") + b"rest"  # says: a petabyte
    for data in (MAGIC + b"broken", huge):
        last = got(await stream.append(data, lane="1"))
        reader = reader_of(engine, after=last - 1)
        with pytest.raises(
            StorageError, match=f"message {last} of the stream {stream.name} .* a damaged frame"
        ):
            await reader.next(60.0)
        await reader.close()
        with pytest.raises(StorageError, match=stream.name):
            await sender_of(engine, 1).resume()


async def test_a_log_is_never_read_past_what_is_not_log(engine: Engine) -> None:
    sound = {"Lycosa-Epoch": "1", "Lycosa-First": "3", "Lycosa-Count": "2", "Lycosa-Segment": "0"}
    broken = bytearray(block(3, 2))
    broken[-1] ^= 1
    for shard, (headers, data) in enumerate(
        [
            ({}, b"what is this?"),
            (sound, b"no blocks"),
            (sound, bytes(broken)),
            (sound, block(3, 1)),  # fewer records than it says
            (sound, block(4, 2)),  # of another position
            ({**sound, "Lycosa-Count": "0"}, b"a claim that says something"),
        ]
    ):
        got(await engine.create([StreamPlan(f"log.{shard}", 1 << 20)], 1))
        stream = engine.stream(f"log.{shard}")
        tail = Tail(stream, ManualClock())
        assert await tail.claim(1) is None
        assert await tail.append(0, block(0, 3), 1) == 3
        got(await stream.append(data, headers=headers))
        wrong = f"message 3 of the stream {stream.name} "
        with pytest.raises(StorageError, match=wrong):
            await Tail(stream, ManualClock()).claim(2)
        with pytest.raises(StorageError, match=wrong):
            assert [piece async for piece in pieces(stream)]


async def test_the_status_of_a_crawl_full_of_garbage(
    one: Servers, nats_engine: NatsEngine, names: Names, tmp_path: Path
) -> None:
    bucket = nats_engine.bucket
    control = Control(nats_engine, ManualClock())
    await control.create(ABOUT, "{}", DirectoryStorage(tmp_path), b"com\n")
    keys = (
        "state",
        "quota",
        "agent.x",
        "report.0",
        "report.x",
        "lease.0",
        "lease.x",
        "gone.x",
        "what.is.this",
    )
    for value in GARBAGE:
        for key in keys:
            await bucket.put(key, value)
        await raw(one, f"$KV.{names.bucket}.gone.".encode() + b"\xfe", value)
        found = await Operator(nats_engine).status()
        assert found["state"] == "damaged" and found["shards_held"] == 0 and not found["agents"]
        assert any("report.0" in text for text in found["foreign"])
