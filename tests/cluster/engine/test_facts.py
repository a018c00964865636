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
from lycosa.cluster.engine.exchange import Reader, Sender
from lycosa.cluster.engine.ordered import Ordered
from lycosa.cluster.engine.outcomes import Fenced, Full
from lycosa.cluster.engine.publish import publish
from lycosa.cluster.engine.server import Servers, configuration
from lycosa.cluster.engine.streams import Names, ensure, exchange_config, log_config
from lycosa.cluster.engine.tail import Tail
from lycosa.cluster.lease import Holding, Lease
from lycosa.cluster.storage import DirectoryStorage, ShardStorage
from lycosa.crawl.exchange import Row
from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.log.snapshot import SnapshotWriter
from tests.cluster.engine.logs import block, noise_block


async def test_an_ordered_consumer_from_last_plus_one_misses_nothing(client: Client, names: Names) -> None:
    js = client.jetstream()
    await ensure(js, exchange_config(names, 0, replicas=1, max_bytes=1 << 20))
    sender = Sender(js, names, 1, 0, 1)
    for position in range(5):
        await sender.send(position + 1, [Row(position, f"http://a.test/{position}", 0, 0, 0)])
    # The first reader gets three, stores one of them, and dies.
    first = Reader(client, js, names, 0, after=0, cursors={})
    assert len(await first.next(5.0, most=3)) == 3
    second = Reader(client, js, names, 0, after=1, cursors={1: 1})
    got = []
    while second.received < 5:
        got += [arrival.sequence for arrival in await second.next(5.0)]
    assert got == [2, 3, 4, 5]
    await first.close()
    await second.close()


async def test_a_durable_consumer_with_skip_if_not_newer_would_lose_messages(
    client: Client, names: Names
) -> None:
    """Why we do not: what a dead reader had not acknowledged comes again behind what is newer."""
    js = client.jetstream()
    await ensure(js, exchange_config(names, 0, replicas=1, max_bytes=1 << 20))
    subject = names.exchange_subject(0, 1)
    for number in range(1, 6):
        await publish(js, subject, b"%d" % number)
    config = api.ConsumerConfig(ack_policy=api.AckPolicy.EXPLICIT, ack_wait=600)
    dead = await js.pull_subscribe(subject, durable="d", stream=names.exchange(0), config=config)
    unread = await dead.fetch(3, timeout=60)  # and it dies with them
    assert len(unread) == 3
    alive = await js.pull_subscribe(subject, durable="d", stream=names.exchange(0))
    last, taken = 0, []
    for count in (2, 3):
        if count == 3:  # the time to acknowledge is over: as if the server noticed now
            for message in unread:
                await message.nak()
        for message in await alive.fetch(count, timeout=60):
            sequence = message.metadata.sequence.stream
            if sequence > last:  # "skip if <= last"
                last = sequence
                taken.append(sequence)
            await message.ack()
    assert taken == [4, 5]  # 1, 2 and 3 came again, too late


async def test_a_consumer_that_is_gone_is_made_again_where_it_was(client: Client, names: Names) -> None:
    js = client.jetstream()
    await ensure(js, log_config(names, 0, replicas=1, max_bytes=1 << 20))
    ordered = Ordered(client, js, names.log(0))
    await publish(js, names.log_subject(0), b"1")
    assert [message.sequence for message in await ordered.next(5.0)] == [1]
    for consumer in await js.consumers_info(names.log(0)):
        await js.delete_consumer(names.log(0), consumer.name)
    await publish(js, names.log_subject(0), b"2")
    assert [message.sequence for message in await ordered.next(5.0)] == [2]
    assert ordered.made == 2
    assert await ordered.next(0.05) == []
    await ordered.close()


async def test_many_messages_come_in_order_over_many_pulls(client: Client, names: Names) -> None:
    js = client.jetstream()
    await ensure(js, log_config(names, 0, replicas=1, max_bytes=64 << 20))
    for start in range(0, 600, 100):
        await asyncio.gather(
            *(publish(js, names.log_subject(0), b"%d" % n) for n in range(start, start + 100))
        )
    ordered = Ordered(client, js, names.log(0))
    got: list[int] = []
    while len(got) < 600:
        got += [message.sequence for message in await ordered.next(5.0, most=33)]
    assert got == list(range(1, 601)) and ordered.made == 1
    await ordered.close()


async def test_large_messages_do_not_stop_a_pull(client: Client, names: Names) -> None:
    js = client.jetstream()
    await ensure(js, log_config(names, 0, replicas=1, max_bytes=64 << 20))
    for _ in range(20):  # more bytes than one pull may bring
        await publish(js, names.log_subject(0), bytes(500_000))
    ordered = Ordered(client, js, names.log(0))
    got: list[int] = []
    async with asyncio.timeout(60):
        while len(got) < 20:
            got += [message.sequence for message in await ordered.next(5.0)]
    assert got == list(range(1, 21))
    await ordered.close()


async def test_every_append_carries_the_expected_last_sequence(client: Client, names: Names) -> None:
    js = client.jetstream()
    await ensure(js, log_config(names, 0, replicas=1, max_bytes=1 << 20))
    stale, holder = Tail(client, js, names, 0), Tail(client, js, names, 0)
    await stale.claim(1)
    await holder.claim(2)
    with pytest.raises(Fenced):
        await stale.append(0, block(0, 1), 1)
    assert await holder.append(0, block(0, 1), 2) == 1


def test_every_write_is_synced() -> None:
    assert "sync_interval: always" in configuration("n1", 1, 2, "/store", cluster="c", cluster_port=3)


def test_a_holder_stops_fetching_at_eight_tenths_of_its_lease() -> None:
    holding = Holding(Lease("me", 1, 20.0), 1, began=0.0)
    assert holding.may_fetch(15.99) and not holding.may_fetch(16.0)


async def test_a_full_stream_pushes_back_and_drops_nothing(
    three: Servers, client3: Client, names: Names
) -> None:
    """Also where it is replicated, and the limit is judged before the message is proposed."""
    js = client3.jetstream()
    await ensure(js, log_config(names, 0, replicas=3, max_bytes=1_000_000))
    tail = Tail(client3, js, names, 0)
    await tail.claim(1)
    with pytest.raises(Full):
        for position in range(10):
            await tail.append(position, noise_block(position, 300_000), 1)
    assert 1 <= tail.committed <= 3
    found = Tail(client3, js, names, 0)
    await found.claim(2)
    assert found.committed == tail.committed


async def test_a_segment_is_purged_only_when_it_is_sealed(client: Client, names: Names) -> None:
    js = client.jetstream()
    await ensure(js, log_config(names, 0, replicas=1, max_bytes=1 << 20))
    tail = Tail(client, js, names, 0)
    await tail.claim(1)
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
