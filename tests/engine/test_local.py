"""The engine of one machine: clients that die, a server that ends, and what the next one begins with."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from lycosa.engine.kept import KeptCrawl
from lycosa.engine.local.client import LocalEngine
from lycosa.engine.local.server import LocalServer
from lycosa.engine.protocol import Ends, Entry, StreamPlan, Unavailable, got

PATIENCE = 170.0


@pytest.fixture
def server() -> Iterator[LocalServer]:
    made = LocalServer()
    yield made
    made.close()


CLIENT = """
import asyncio, socket, sys
from lycosa.engine.local.client import LocalEngine
from lycosa.engine.protocol import got

async def main():
    engine = await LocalEngine.open(socket.socket(fileno=int(sys.argv[1])), "c")
    got(await engine.stream("s").append(b"from afar"))
    got(await engine.requests.answer("silent", lambda data: None))
    got(await engine.requests.answer("who", lambda data: b"I: " + data))
    got(await engine.bucket.put("there", b"1"))
    await asyncio.sleep(60)

asyncio.run(main())
"""


def started(server: LocalServer) -> subprocess.Popen[bytes]:
    with server.connect() as side:
        return subprocess.Popen([sys.executable, "-c", CLIENT, str(side.fileno())], pass_fds=(side.fileno(),))


async def test_a_client_in_another_process_and_its_death(server: LocalServer) -> None:
    engine = await LocalEngine.open(server.connect(), "c")
    got(await engine.create([StreamPlan("s", 1 << 20)], 1))
    process = started(server)
    try:
        watch = engine.bucket.watch("there")
        while not got(await watch.next(PATIENCE)):
            pass
        assert await engine.requests.ask("who", b"you?", PATIENCE) == b"I: you?"
        asked = asyncio.create_task(engine.requests.ask("silent", b"?", PATIENCE))
        await asyncio.sleep(0)
        os.kill(process.pid, signal.SIGKILL)
        began = time.monotonic()
        assert isinstance(await asked, Unavailable)
        assert time.monotonic() - began < PATIENCE / 2, "who waits for a dead client hears of it at once"
        assert isinstance(await engine.requests.ask("who", b"you?", PATIENCE), Unavailable)
    finally:
        process.kill()
        process.wait()
    assert [each.data for each in got(await engine.stream("s").read().next(PATIENCE))] == [b"from afar"]
    await engine.close()


async def test_when_the_server_ends_everybody_knows(server: LocalServer) -> None:
    engine = await LocalEngine.open(server.connect(), "c")
    got(await engine.create([StreamPlan("s", 1 << 20)], 1))
    reading = asyncio.create_task(engine.stream("s").read().next(PATIENCE))
    await asyncio.sleep(0)
    server.close()
    assert isinstance(await reading, Unavailable)
    await engine.gone.wait()
    assert isinstance(await engine.bucket.get("a"), Unavailable)
    assert isinstance(await engine.requests.ask("who", b"", PATIENCE), Unavailable)
    server.close()


async def test_the_next_server_begins_empty_and_behind_what_was_used() -> None:
    server = LocalServer(after=41)
    engine = await LocalEngine.open(server.connect(), "c")
    got(await engine.create([StreamPlan("s", 1 << 20)], 1))
    stream = engine.stream("s")
    assert await stream.ends() == Ends(42, 41)
    assert await stream.append(b"x", expected=41) == 42
    await engine.close()
    server.close()


async def test_a_reader_gets_all_that_came_at_once(server: LocalServer) -> None:
    """A commit of many shards is heard in one piece: it costs its readers one answer each, not one a message."""
    engine, other = [await LocalEngine.open(server.connect(), "c") for _ in range(2)]
    got(await engine.create([StreamPlan("s", 1 << 20)], 1))
    reading = asyncio.create_task(other.stream("s").read().next(PATIENCE))
    got(await other.bucket.put("reading", b""))  # heard after the reading
    await asyncio.gather(*(engine.stream("s").append(b"%d" % n) for n in range(30)))
    assert [each.data for each in got(await reading)] == [b"%d" % n for n in range(30)]
    for each in (engine, other):
        await each.close()


async def test_who_watches_other_keys_is_not_looked_after(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    watch = KeptCrawl.watch

    def counted(self: KeptCrawl, pattern: str, revision: int) -> list[Entry]:
        looked.append(pattern)
        return watch(self, pattern, revision)

    monkeypatch.setattr(KeptCrawl, "watch", counted)
    one, other = [await LocalEngine.open(server.connect(), "c") for _ in range(2)]
    got(await one.create([], 1))
    reports, leases = (asyncio.ensure_future(one.bucket.watch(p).next(60.0)) for p in ("report.*", "lease.*"))
    got(await one.bucket.get("state"))  # both are waiting by now
    looked.clear()
    got(await other.bucket.put("report.1", b"a"))
    assert [entry.key for entry in got(await reports)] == ["report.1"]
    assert looked == ["report.*"] and not leases.done()
    got(await other.bucket.put("lease.0", b"b"))
    assert [entry.key for entry in got(await leases)] == ["lease.0"]
    for each in (one, other):
        await each.close()


async def test_a_piece_that_comes_in_pieces(server: LocalServer) -> None:
    engine = await LocalEngine.open(server.connect(), "c")
    got(await engine.create([StreamPlan("s", 1 << 26)], 1))
    large = os.urandom(3 << 20)
    assert await engine.stream("s").append(large) == 1
    found = got(await engine.stream("s").at(1))
    assert found is not None and found.data == large
    await engine.close()


async def test_a_client_that_is_closed_holds_up_nobody(server: LocalServer) -> None:
    """Somebody who watches as long as the engine is there ends with it, whatever he was at."""
    engine = await LocalEngine.open(server.connect(), "c")
    got(await engine.create([], 1))
    turns = 0

    async def follow() -> None:
        nonlocal turns
        watch = engine.bucket.watch("a")
        while not engine.gone.is_set():
            await watch.next(PATIENCE)
            turns += 1
        while turns < 100:
            assert isinstance(await watch.next(PATIENCE), Unavailable)
            turns += 1

    async def close() -> None:
        await engine.close()

    following, closing = asyncio.create_task(follow()), asyncio.create_task(close())
    await asyncio.wait_for(asyncio.gather(following, closing), PATIENCE)
    assert engine.gone.is_set()
