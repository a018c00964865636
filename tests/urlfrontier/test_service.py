"""The calls of URLFrontier, as a gRPC client makes them: the cases of its public test suite, and kills.

The cases named after it are those of crawler-commons/url-frontier's tests/URLFrontierServiceTest.java, said anew.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")

import grpc.aio

from lycosa.clock import ManualClock
from lycosa.files import DiskFiles
from lycosa.urlfrontier.messages import CALLS, MESSAGES, OK, SERVICE, SKIPPED
from lycosa.urlfrontier.service import Server
from lycosa.urlfrontier.store import Store

M = MESSAGES


class Client:
    """Calls by name."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def _call(self, name: str) -> Any:
        takes, gives = CALLS[name]
        kind = "_".join("stream" if each.startswith("stream ") else "unary" for each in (takes, gives))
        return getattr(self._channel, kind)(
            f"/{SERVICE}/{name}",
            request_serializer=M[takes.removeprefix("stream ")].SerializeToString,
            response_deserializer=M[gives.removeprefix("stream ")].FromString,
        )

    async def ask(self, name: str, **fields: Any) -> Any:
        return await self._call(name)(M[CALLS[name][0]](**fields))

    async def many(self, name: str, **fields: Any) -> list[Any]:
        return [row async for row in self._call(name)(M[CALLS[name][0]](**fields))]

    async def put(self, *items: Any) -> list[int]:
        return [ack.status async for ack in self._call("PutURLs")(iter(items))]

    async def put_batch(self, *infos: Any) -> list[int]:
        batch = M["DiscoveredBatch"](ID="b", items=infos)
        (ack,) = [ack async for ack in self._call("PutDiscovered")(iter([batch]))]
        assert ack.ID == "b"
        return list(ack.statuses)

    async def take(self, **fields: Any) -> list[str]:
        return [row.url for row in await self.many("GetURLs", **fields)]


def info(url: str, key: str = "", crawl: str = "", **metadata: str) -> Any:
    made = M["URLInfo"](url=url, key=key, crawlID=crawl)
    for name, value in metadata.items():
        made.metadata[name].values.append(value)
    return made


def found(url: str, key: str = "", crawl: str = "", **metadata: str) -> Any:
    return M["URLItem"](discovered=M["DiscoveredURLItem"](info=info(url, key, crawl, **metadata)))


def known(url: str, due: int = 0, key: str = "", crawl: str = "") -> Any:
    item = M["KnownURLItem"](info=info(url, key, crawl), refetchable_from_date=due)
    return M["URLItem"](known=item)


@asynccontextmanager
async def serving(directory: Path, clock: ManualClock, **more: Any) -> AsyncIterator[Client]:
    store = Store(DiskFiles(directory), clock, **more)
    server = Server(store, clock.wall)
    port = await server.start("127.0.0.1:0")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Client(channel)
    await server.stop(0)
    store.close()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[tuple[Client, ManualClock]]:
    clock = ManualClock()
    async with serving(tmp_path, clock) as made:
        yield made, clock


Fixture = tuple[Client, ManualClock]
DEFAULT: dict[str, Any] = {"crawlID": "DEFAULT"}


async def test_suite_never_refetched(client: Fixture) -> None:
    asked, _ = client
    assert await asked.put(known("http://key1.com/", key="key1.com")) == [OK]
    assert await asked.take(key="key1.com", max_urls_per_queue=1, delay_requestable=2, **DEFAULT) == []


async def test_suite_right_order(client: Fixture) -> None:
    asked, clock = client
    now = int(clock.wall())
    later = known("http://key1.com/later", now, "key1.com")
    sooner = known("http://key1.com/sooner", now - 10_000, "key1.com")
    assert await asked.put(later, sooner) == [OK, OK]
    taken = await asked.take(key="key1.com", max_urls_per_queue=2, delay_requestable=2, **DEFAULT)
    assert taken == ["http://key1.com/sooner", "http://key1.com/later"]


async def test_suite_updates(client: Fixture) -> None:
    asked, clock = client
    twice = found("http://key1.com/", "key1.com")
    assert await asked.put(twice, twice) == [OK, SKIPPED]
    assert list((await asked.ask("ListQueues")).values) == ["key1.com"]
    wanted: dict[str, Any] = {
        "key": "key1.com",
        "max_urls_per_queue": 1,
        "delay_requestable": 2,
        **DEFAULT,
    }
    assert await asked.take(**wanted) == ["http://key1.com/"]
    stats = await asked.ask("GetStats", key="key1.com")
    assert (stats.numberOfQueues, stats.inProcess, stats.size) == (1, 1, 1)
    assert await asked.take(**wanted) == []
    clock.advance(2.0)
    assert (await asked.ask("GetStats", key="key1.com")).inProcess == 0
    assert (await asked.ask("DeleteQueue", key="key1.com")).value == 1
    assert (await asked.ask("GetStats", key="key1.com")).numberOfQueues == 0


async def test_suite_queue_names(client: Fixture) -> None:
    asked, _ = client
    await asked.put(found("http://gac.icann.org?language_id=9"))
    assert (await asked.ask("GetStats", key="gac.icann.org")).size == 1
    assert (await asked.ask("DeleteQueue", key="gac.icann.org")).value == 1


async def test_suite_crawl_ids(client: Fixture) -> None:
    asked, _ = client
    assert list((await asked.ask("ListCrawls")).values) == []
    for crawl in ("BESPOKE", "", "DEFAULT"):
        await asked.put(found("http://urlfrontier.net/", crawl=crawl))
    for crawl, name in (("", "DEFAULT"), ("BESPOKE", "BESPOKE")):
        stats = await asked.ask("GetStats", crawlID=crawl)
        assert (stats.size, stats.crawlID, stats.numberOfQueues) == (1, name, 1)
    await asked.ask("DeleteCrawl", value="BESPOKE")
    assert (await asked.ask("GetStats", crawlID="BESPOKE")).size == 0
    await asked.ask("DeleteCrawl")
    assert (await asked.ask("GetStats")).size == 0


async def test_politeness_of_queues(client: Fixture) -> None:
    asked, clock = client
    await asked.put(*(found(f"http://{host}.test/{n}") for n in range(3) for host in "ab"))
    one: dict[str, Any] = {"max_urls_per_queue": 1, "delay_requestable": 1}
    assert sorted(await asked.take(**one)) == ["http://a.test/0", "http://b.test/0"]
    assert await asked.take(max_urls_per_queue=9) == [], "the delay of a second"
    await asked.ask("SetDelay", key="a.test", delay_requestable=5)
    clock.advance(1.5)
    assert await asked.take(max_queues=1, **one) == ["http://b.test/0"], (
        "given out again, nobody said it is done"
    )
    clock.advance(4.0)
    await asked.ask("BlockQueueUntil", key="a.test", time=int(clock.wall()) + 10)
    assert [url[7] for url in await asked.take(**one)] == ["b"]
    assert list((await asked.ask("ListQueues")).values) == ["b.test"]
    clock.advance(11.0)
    await asked.ask("SetActive", state=False)
    assert await asked.take(**one) == [] and not (await asked.ask("GetActive")).state
    await asked.ask("SetActive", state=True)
    assert [url[7] for url in await asked.take(key="a.test", **one, **DEFAULT)] == ["a"]
    await asked.ask("SetCrawlLimit", key="b.test", limit=1)
    await asked.put(known("http://b.test/0"))
    clock.advance(11.0)
    assert [url[7] for url in await asked.take(**one)] == ["a"], "b has had its one"


async def test_what_a_url_carries_and_what_is_known_of_it(client: Fixture) -> None:
    asked, clock = client
    made = int(clock.wall())
    assert await asked.put_batch(info("http://a.test/1", depth="3"), info("http://a.test/1")) == [OK, SKIPPED]
    await asked.put(found("http://a.test/Two"))
    (row, _) = await asked.many("GetURLs")
    assert row.key == "a.test" and row.crawlID == "DEFAULT" and list(row.metadata["depth"].values) == ["3"]
    clock.advance(100.0)
    await asked.put(known("http://a.test/1", due=made + 5000))
    status = await asked.ask("GetURLStatus", url="http://a.test/1")
    assert (status.known.refetchable_from_date, status.creation_date) == (made + 5000, made)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await asked.ask("GetURLStatus", url="http://a.test/none")
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    assert [row.known.info.url for row in await asked.many("ListURLs", start=1)] == ["http://a.test/Two"]
    assert (await asked.ask("CountURLs")).value == 2
    assert (await asked.ask("CountURLs", filter="two", ignoreCase=True)).value == 1
    clock.advance(2 * 86_400.0)
    await asked.put(found("http://a.test/new"))
    assert (await asked.ask("PurgeURLs", days=1)).value == 2
    assert [row.known.info.url for row in await asked.many("ListURLs")] == ["http://a.test/new"]


async def test_a_new_process_has_everything_but_what_was_under_way(tmp_path: Path) -> None:
    clock = ManualClock()
    async with serving(tmp_path, clock) as asked:
        await asked.put(
            *(found(f"http://a.test/{n}", depth=str(n)) for n in range(4)), found("http://b.test/")
        )
        await asked.take(max_urls_per_queue=2)
        await asked.put(known("http://a.test/0"))
        await asked.ask("SetDelay", key="b.test", delay_requestable=60)
        await asked.ask("DeleteQueue", key="gone.test")
    clock.advance(0.5)
    async with serving(tmp_path, clock) as asked:
        assert await asked.take() == [], "the delay holds across the restart"
        clock.advance(2.0)
        assert await asked.put(found("http://a.test/0")) == [SKIPPED], "done is done"
        rows = await asked.many("GetURLs")
        assert [row.url for row in rows] == [f"http://a.test/{n}" for n in (1, 2, 3)]
        assert list(rows[1].metadata["depth"].values) == ["2"], "read back from the log"


@pytest.mark.timeout(120)
async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    """The command itself, killed with SIGKILL in the middle of a stream."""

    async def started(use: Callable[[Client], Awaitable[None]]) -> None:
        words = ["-m", "lycosa.cli.main", "frontier", str(tmp_path), "--port", "0", "--delay", "0"]
        process = await asyncio.create_subprocess_exec(sys.executable, *words, stderr=asyncio.subprocess.PIPE)
        assert process.stderr is not None
        address = (await process.stderr.readline()).decode().rpartition(" ")[2].strip()
        async with grpc.aio.insecure_channel(address) as channel:
            await use(Client(channel))
        process.kill()
        await process.wait()

    acked: list[str] = []

    async def put_until_enough(asked: Client) -> None:
        items = (found(f"http://h{n % 7}.test/{n}") for n in range(100_000))
        async for ack in asked._call("PutURLs")(items):
            acked.append(ack.ID)
            if len(acked) >= 300:
                return

    async def compare(asked: Client) -> None:
        rows = await asked.many("ListURLs", size=1_000_000)
        there = [row.known.info.url for row in rows]
        assert len(there) == len(set(there)) and set(acked) <= set(there)
        assert await asked.put(found(acked[0])) == [SKIPPED]

    await started(put_until_enough)
    await started(compare)
