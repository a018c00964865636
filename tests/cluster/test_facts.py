"""One test for each fact that the cluster is built on (DESIGN §4), each learned from a failing run.

Where a fact has its place in another test file, the test here is its short form, so that this list is whole.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.js import api

import lycosa.cluster
from lycosa.clock import SystemClock
from lycosa.cluster.lease import Holding, Lease
from lycosa.cluster.links import Reader, Sender
from lycosa.cluster.outcomes import Fenced
from lycosa.cluster.storage import DirectoryStorage, ShardStorage
from lycosa.cluster.tail import Tail
from lycosa.crawl.exchange import Row
from lycosa.engine.nats.engine import NatsEngine
from lycosa.engine.nats.names import Names
from lycosa.engine.protocol import Engine, Full, StreamPlan, got
from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.lab.nats_servers import configuration
from lycosa.log.snapshot import SnapshotWriter
from tests.cluster.logs import block, noise_block
from tests.servers import replicate


def tail_of(engine: Engine) -> Tail:
    return Tail(engine.stream("log.0"), SystemClock())


async def test_an_ordered_consumer_from_last_plus_one_misses_nothing(engine: Engine) -> None:
    got(await engine.create([StreamPlan("x.0", 1 << 20, lanes=True)], 1))
    stream = engine.stream("x.0")
    sender = Sender(stream, 1, 0, 1)
    for position in range(5):
        await sender.send(position + 1, [Row(position, f"http://a.test/{position}", 0, 0, 0)])
    # The first reader gets three, stores one of them, and dies.
    first = Reader(stream, after=0, cursors={})
    assert len(got(await first.next(5.0, most=3))) == 3
    second = Reader(stream, after=1, cursors={1: 1})
    read: list[int] = []
    while second.received < 5:
        read += [arrival.sequence for arrival in got(await second.next(5.0))]
    assert read == [2, 3, 4, 5]
    await first.close()
    await second.close()


async def test_a_durable_consumer_with_skip_if_not_newer_would_lose_messages(
    client: Client, names: Names, nats_engine: NatsEngine
) -> None:
    """Why we do not: what a dead reader had not acknowledged comes again behind what is newer."""
    js = client.jetstream()
    got(await nats_engine.create([StreamPlan("x.0", 1 << 20, lanes=True)], 1))
    subject = names.subject("x.0.1")
    for number in range(1, 6):
        got(await nats_engine.stream("x.0").append(b"%d" % number, lane="1"))
    config = api.ConsumerConfig(ack_policy=api.AckPolicy.EXPLICIT, ack_wait=600)
    dead = await js.pull_subscribe(subject, durable="d", stream=names.stream("x.0"), config=config)
    unread = await dead.fetch(3, timeout=170)  # and it dies with them
    assert len(unread) == 3
    alive = await js.pull_subscribe(subject, durable="d", stream=names.stream("x.0"))
    last, taken = 0, []
    for count in (2, 3):
        if count == 3:  # the time to acknowledge is over: as if the server noticed now
            for message in unread:
                await message.nak()
        for message in await alive.fetch(count, timeout=170):
            sequence = message.metadata.sequence.stream
            if sequence > last:  # "skip if <= last"
                last = sequence
                taken.append(sequence)
            await message.ack()
    assert taken == [4, 5]  # 1, 2 and 3 came again, too late


async def test_a_consumer_that_is_gone_is_made_again_where_it_was(
    client: Client, nats_engine: NatsEngine
) -> None:
    js = client.jetstream()
    got(await nats_engine.create([StreamPlan("log.0", 1 << 20)], 1))
    stream = nats_engine.stream("log.0")
    ordered = stream.read()
    got(await stream.append(b"1"))
    assert [message.sequence for message in got(await ordered.next(60.0))] == [1]
    for consumer in await js.consumers_info(stream.name):
        await js.delete_consumer(stream.name, consumer.name)
    got(await stream.append(b"2"))
    assert [message.sequence for message in got(await ordered.next(60.0))] == [2]
    assert ordered.made == 2
    assert await ordered.next(0.05) == []
    await ordered.close()


async def test_many_messages_come_in_order_over_many_pulls(nats_engine: NatsEngine) -> None:
    got(await nats_engine.create([StreamPlan("log.0", 64 << 20)], 1))
    stream = nats_engine.stream("log.0")
    for start in range(0, 600, 100):
        await asyncio.gather(*(stream.append(b"%d" % n) for n in range(start, start + 100)))
    ordered = stream.read()
    read: list[int] = []
    while len(read) < 600:
        read += [message.sequence for message in got(await ordered.next(5.0, most=33))]
    assert read == list(range(1, 601)) and ordered.made == 1
    await ordered.close()


async def test_large_messages_do_not_stop_a_pull(nats_engine: NatsEngine) -> None:
    got(await nats_engine.create([StreamPlan("log.0", 64 << 20)], 1))
    stream = nats_engine.stream("log.0")
    for _ in range(20):  # more bytes than one pull may bring
        got(await stream.append(bytes(500_000)))
    ordered = stream.read()
    read: list[int] = []
    async with asyncio.timeout(60):
        while len(read) < 20:
            read += [message.sequence for message in got(await ordered.next(5.0))]
    assert read == list(range(1, 21))
    await ordered.close()


async def test_every_append_carries_the_expected_last_sequence(engine: Engine) -> None:
    got(await engine.create([StreamPlan("log.0", 1 << 20)], 1))
    stale, holder = tail_of(engine), tail_of(engine)
    assert await stale.claim(1) is None and await holder.claim(2) is None
    assert isinstance(await stale.append(0, block(0, 1), 1), Fenced)
    assert await holder.append(0, block(0, 1), 2) == 1


def test_every_write_is_synced() -> None:
    assert "sync_interval: always" in configuration("n1", 1, 2, "/store", cluster="c", cluster_port=3)


def test_a_holder_stops_fetching_at_eight_tenths_of_its_lease() -> None:
    holding = Holding(Lease("me", 1, 20.0), 1, began=0.0)
    assert holding.may_fetch(15.99) and not holding.may_fetch(16.0)


async def test_a_full_stream_pushes_back_and_drops_nothing(engine3: NatsEngine) -> None:
    """Also where it is replicated, and the limit is judged before the message is proposed."""
    await replicate(engine3, StreamPlan("log.0", 1_000_000))
    tail = tail_of(engine3)
    assert await tail.claim(1) is None
    answers = [await tail.append(position, noise_block(position, 300_000), 1) for position in range(4)]
    assert isinstance(answers[-1], Full)
    assert 1 <= tail.committed <= 3
    found = tail_of(engine3)
    assert await found.claim(2) is None
    assert found.committed == tail.committed


async def test_a_segment_is_purged_only_when_it_is_sealed(engine: Engine) -> None:
    got(await engine.create([StreamPlan("log.0", 1 << 20)], 1))
    tail = tail_of(engine)
    assert await tail.claim(1) is None
    await tail.append(0, block(0, 4), 1, segment=0)
    with pytest.raises(StorageError):
        await tail.purge(4)
    await tail.append(4, block(4, 1), 1, segment=4)
    assert await tail.purge(4) == 1


def test_checkpoints_go_to_shared_storage_and_not_to_the_object_store(tmp_path: Path) -> None:
    local = DiskFiles(tmp_path / "local")
    writer = SnapshotWriter(local.within("snapshots"), 3)
    writer.seal({"files": {}, "store": "memory"})
    saved = ShardStorage(DirectoryStorage(tmp_path / "shared"), "c", 0).save(local, 3, 1)
    assert saved is not None and (tmp_path / "shared" / saved.snapshot).exists()
    for path in Path(lycosa.cluster.__path__[0]).rglob("*.py"):
        assert "object_store" not in path.read_text(), path
