"""The servers' own object store: laid out as other clients lay it out, and nothing is left of what was replaced."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from nats.aio.client import Client

from lycosa.cluster.storage import Away, Missing
from lycosa.cluster.storage.jetstream import CHUNK, JetStreamStorage
from lycosa.engine.nats.connection import ConnectionOptions
from lycosa.errors import ConfigError, DiskFullError, StorageError
from lycosa.lab.nats_servers import Servers

_number = iter(range(1 << 20))


@pytest.fixture
def store(one: Servers) -> Iterator[JetStreamStorage]:
    made = JetStreamStorage(ConnectionOptions(servers=one.urls), f"o{os.getpid()}_{next(_number)}")
    made.create(1)
    made.create(1)
    yield made
    made.close()


async def test_other_clients_read_it_and_write_it(store: JetStreamStorage, client: Client) -> None:
    data = os.urandom(CHUNK * 2 + 7)
    store.put("a/b/å", data)
    theirs = await client.jetstream().object_store(store._bucket)
    assert (await theirs.get("a/b/å")).data == data
    await theirs.put("a/b/theirs", b"x" * 300_000)
    assert store.sizes("a/b") == {"å": len(data), "theirs": 300_000}
    assert store.get("a/b/theirs") == b"x" * 300_000
    await theirs.delete("a/b/theirs")
    assert not store.exists("a/b/theirs") and store.sizes("a/b") == {"å": len(data)}
    with pytest.raises(Missing):
        store.get("a/b/theirs")


async def test_what_was_replaced_or_removed_takes_no_room(store: JetStreamStorage, client: Client) -> None:
    js = client.jetstream()
    for turn in range(3):
        store.put("a/f", bytes([turn]) * (CHUNK + 1))
    store.put("a/g/h", b"1")
    assert (await js.stream_info(store._stream)).state.messages == 2 + 1 + 2
    store.remove_all("a")
    assert (await js.stream_info(store._stream)).state.messages == 0


async def test_a_put_that_fails_takes_no_room(store: JetStreamStorage, client: Client) -> None:
    js = client.jetstream()
    info = await js.stream_info(store._stream)
    await js.update_stream(info.config.evolve(max_bytes=CHUNK * 3))
    store.put("a/f", b"before")
    with pytest.raises(DiskFullError, match="no room"):
        store.put("a/f", b"x" * (CHUNK * 4))
    assert store.get("a/f") == b"before"
    assert (await js.stream_info(store._stream)).state.messages == 2


async def test_damage_is_told(store: JetStreamStorage, client: Client) -> None:
    store.put("a/f", b"x" * (CHUNK + 5))
    js = client.jetstream()
    await js.purge_stream(store._stream, subject=f"$O.{store._bucket}.C.>")
    with pytest.raises(StorageError, match=r"a/f in the object store .* is damaged"):
        store.get("a/f")


def test_a_store_that_is_not_there(one: Servers) -> None:
    made = JetStreamStorage(ConnectionOptions(servers=one.urls), f"o{os.getpid()}_none")
    with pytest.raises(ConfigError, match="the servers have no object store"):
        made.probe()
    with pytest.raises(ConfigError, match="cannot keep 3 copies"):
        made.create(3)
    made.close()
    with pytest.raises(ConfigError, match="there is no NATS server"):
        JetStreamStorage(ConnectionOptions(servers=("nats://127.0.0.1:1",)), "x")


def test_servers_that_are_away(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Servers(tmp_path_factory.mktemp("away")) as servers:
        options = ConnectionOptions(servers=servers.urls)
        first = JetStreamStorage(options, "away")
        first.create(1)
        first.put("a/f", b"1")
        first.close()
        made = JetStreamStorage(options, "away", timeout=0.5, tries=2, first_wait=0.01)
        servers.all[0].kill()
        with pytest.raises(Away, match="does not answer"):
            made.get("a/f")
        with pytest.raises(Away):
            made.put("a/f", b"2")
        servers.all[0].start()
        while True:
            try:
                assert made.get("a/f") == b"1"
                break
            except Away:
                continue
        made.close()
