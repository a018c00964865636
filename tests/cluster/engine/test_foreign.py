"""Garbage in every bucket key, stream and subject: passed over and told of, or a clear line; never a traceback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from nats.aio.client import Client

from lycosa.clock import ManualClock
from lycosa.cluster.engine.control import About, Control, Report, Totals
from lycosa.cluster.engine.exchange import MAGIC, Reader, Sender
from lycosa.cluster.engine.foreign import Foreign
from lycosa.cluster.engine.host_turns import HostAsker, HostKeeper
from lycosa.cluster.engine.keys import Bucket
from lycosa.cluster.engine.leases import Leases, Presence, Said
from lycosa.cluster.engine.outcomes import Damaged
from lycosa.cluster.engine.server import Servers
from lycosa.cluster.engine.streams import Names, bucket_config, ends, ensure, exchange_config, log_config
from lycosa.cluster.engine.tail import Tail, pieces
from lycosa.cluster.engine.turn_table import Later
from lycosa.cluster.engine.turns import TurnAsker, TurnKeeper
from lycosa.cluster.operating import Operator
from lycosa.cluster.rations import Rations
from lycosa.cluster.storage import DirectoryStorage
from lycosa.errors import StorageError
from tests.cluster.crawled import until
from tests.cluster.engine.logs import block
from tests.cluster.engine.test_exchange import read_all, reader_of, row
from tests.cluster.engine.test_turns import heard

GARBAGE = (
    b"",
    b"\xff\xfe\x00",
    b"[]",
    b"null",
    b"7",
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
async def bucket(client: Client, names: Names) -> Bucket:
    js = client.jetstream()
    await ensure(js, bucket_config(names, replicas=1))
    return Bucket(client, js, names)


async def test_a_key_that_is_not_utf8_harms_nobody(
    one: Servers, client: Client, names: Names, bucket: Bucket
) -> None:
    presence = Presence(bucket, "me", 10.0, ManualClock(), foreign := Foreign())
    await bucket.put("agent.good", msgspec.json.encode(Said()))
    await raw(one, f"$KV.{names.bucket}.agent.".encode() + b"\xff\xfe", b"x")
    await bucket.put("agent.later", msgspec.json.encode(Said()))
    assert sorted(entry.key for entry in await bucket.all("agent.*")) == [
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
async def test_reports_state_and_quota(client: Client, names: Names, bucket: Bucket, value: bytes) -> None:
    told: list[str] = []
    control = Control(client.jetstream(), names, bucket, Foreign(told.append))
    good = Report(shard=1, agent="a", epoch=1, round=0, end=1, committed=1, received=0, sent=1, idle=True)
    await control.report(good)
    await bucket.put("report.0", value)
    await bucket.put("report.7", msgspec.json.encode(good))  # under a name that is not its own
    assert await control.reports() == {1: good} and await control.reports() == {1: good}
    assert len(told) == 1 and "report.0" in told[0]
    for key, ask in (("state", control.state), ("quota", control.quota)):
        await bucket.put(key, value)
        with pytest.raises(Damaged, match=f"the key {key} of crawl {names.crawl} is damaged"):
            await ask()


async def test_totals_that_are_no_numbers_make_no_report(
    client: Client, names: Names, bucket: Bucket
) -> None:
    control = Control(client.jetstream(), names, bucket)
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
    good = Report(**one, idle=True, totals=Totals(pages=3))
    await bucket.put("report.0", msgspec.json.encode(good).replace(b'"pages":3', b'"pages":"many"'))
    assert await control.reports() == {}


async def test_pages_wait_for_a_quota_that_can_be_read(client: Client, names: Names, bucket: Bucket) -> None:
    control = Control(client.jetstream(), names, bucket)
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


async def test_requests(client: Client, other: Client, names: Names) -> None:
    told: list[str] = []
    foreign, clock = Foreign(told.append), ManualClock()
    turns = TurnKeeper(client, names, clock, expiry=10.0, wait=0.5, foreign=foreign)
    hosts = HostKeeper(client, names, clock, expiry=10.0, wait=0.5, foreign=foreign)
    await turns.keep(0, lambda: True, {})

    class NoHosts:
        def claim(self, host: str, now: float) -> bool:
            return False

        def end(self, host: str, ready: float) -> None: ...

    await hosts.keep(0, NoHosts(), lambda: True)
    assert not isinstance(await heard(TurnAsker(other, names, 1, clock), "192.0.2.1"), Later)
    for value in GARBAGE:
        await other.publish(names.turn_subject(0), value)
        await other.publish(names.host_subject(0), value)
    await until(lambda: foreign.count == 2 * len(GARBAGE))
    assert len(told) == 2
    assert not isinstance(await TurnAsker(other, names, 1, clock).ask("192.0.2.7"), Later)
    await turns.close()
    await hosts.drop(0)

    async def nonsense(message: object) -> None:
        await message.respond(b'{"seconds": "\xff"}')  # type: ignore[attr-defined]

    for subject in (names.turn_subject(0), names.host_subject(0)):
        await client.subscribe(subject, cb=nonsense)
    assert isinstance(await TurnAsker(other, names, 1, clock).ask("192.0.2.7"), Later)
    assert not await HostAsker(other, names, lambda host: 0, clock).claim("a.test")


async def exchange(client: Client, names: Names) -> None:
    await ensure(client.jetstream(), exchange_config(names, 7, replicas=1, max_bytes=64 << 20))


async def test_messages_of_the_exchange_that_are_no_frames(
    one: Servers, client: Client, names: Names
) -> None:
    await exchange(client, names)
    js = client.jetstream()
    sender = Sender(js, names, 1, 7, 1)
    await sender.send(10, [row(3)])
    await js.publish(names.exchange_subject(7, 1), b"hello")
    await raw(one, names.exchange_subject(7, "").encode() + b"\xff", b"\xff")
    await sender.send(20, [row(12)])
    told: list[str] = []
    reader = Reader(client, js, names, 7, after=0, cursors={}, foreign=Foreign(told.append))
    got = await read_all(reader, client, names)
    assert [(a.sequence, a.cursor) for a in got] == [(1, 10), (4, 20)] and reader.received == 4
    assert len(told) == 1 and names.exchange(7) in told[0] and "sequence 2" in told[0]
    await reader.purge(4)
    await reader.close()
    # A sender whose last message is not its own begins anew, and the cursor drops what is known.
    await js.publish(names.exchange_subject(7, 1), b"hello")
    again = Sender(js, names, 1, 7, 2)
    assert await again.resume() == 0
    await again.send(25, [row(3), row(12), row(22)])
    reader = reader_of(client, names, after=4, cursors={1: 20})
    assert [a.rows for a in await read_all(reader, client, names)] == [[row(22)]]
    await reader.close()


async def test_a_damaged_frame_is_never_passed_over(client: Client, names: Names) -> None:
    await exchange(client, names)
    js = client.jetstream()
    huge = MAGIC + b"\x28\xb5\x2f\xfd\xc0" + (1 << 50).to_bytes(8, "little") + b"rest"  # says: a petabyte
    for data in (MAGIC + b"broken", huge):
        await js.publish(names.exchange_subject(7, 1), data)
        _, last = await ends(js, names.exchange(7))
        reader = reader_of(client, names, after=last - 1)
        with pytest.raises(
            StorageError, match=f"message {last} of the stream {names.exchange(7)} .* a damaged frame"
        ):
            await reader.next(60.0)
        await reader.close()
        with pytest.raises(StorageError, match=names.exchange(7)):
            await Sender(js, names, 1, 7, 1).resume()


async def test_a_log_is_never_read_past_what_is_not_log(client: Client, names: Names) -> None:
    js = client.jetstream()
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
        await ensure(js, log_config(names, shard, replicas=1, max_bytes=1 << 20))
        tail = Tail(client, js, names, shard)
        await tail.claim(1)
        await tail.append(0, block(0, 3), 1)
        await js.publish(names.log_subject(shard), data, headers=headers or None)
        wrong = f"message 3 of the stream {names.log(shard)} "
        with pytest.raises(StorageError, match=wrong):
            await Tail(client, js, names, shard).claim(2)
        with pytest.raises(StorageError, match=wrong):
            assert [piece async for piece in pieces(client, js, names, shard)]


async def test_the_status_of_a_crawl_full_of_garbage(
    one: Servers, client: Client, names: Names, tmp_path: Path
) -> None:
    bucket = Bucket(client, client.jetstream(), names)
    control = Control(client.jetstream(), names, bucket)
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
        found = await Operator(client, names).status()
        assert found["state"] == "damaged" and found["shards_held"] == 0 and not found["agents"]
        assert any("report.0" in text for text in found["foreign"])
