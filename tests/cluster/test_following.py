"""A directory that follows a cluster's crawl: to those who read it, the crawl runs there."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from lycosa.ask.export import body_of
from lycosa.ask.follower import Follower
from lycosa.ask.reading import CrawlReader
from lycosa.ask.standing import Standing
from lycosa.clock import SystemClock
from lycosa.cluster.control import Control, Report, State, Wanted
from lycosa.cluster.following import Following, follow
from lycosa.cluster.leases import Said
from lycosa.cluster.metering import Metered
from lycosa.cluster.operating import Operator
from lycosa.crawl.config import encode_options, read_options
from lycosa.crawl.status import Ahead, ReportTotals, Status
from lycosa.crawl.steering import Steering
from lycosa.engine.nats.engine import NatsEngine
from lycosa.engine.protocol import Engine
from lycosa.errors import ConfigError
from lycosa.files import InUseError, process_of
from lycosa.lab.nats_servers import Servers
from lycosa.records import Fetched
from tests.cluster.test_indexer import Crawl


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - there is no event; what never comes is ended by the test's timeout
        await asyncio.sleep(0.01)


@asynccontextmanager
async def followed(engine: Engine, into: Path) -> AsyncIterator[Following]:
    ready: asyncio.Future[Following] = asyncio.get_running_loop().create_future()
    operator = Operator(engine)
    task = asyncio.create_task(follow(engine, operator, into, lambda _: None, ready.set_result))
    await asyncio.wait([ready, task], return_when=asyncio.FIRST_COMPLETED)
    try:
        if not ready.done():
            await task  # which says why
        yield ready.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, ConfigError):
            await task


async def began(engine: Engine, root: Path) -> Crawl:
    """A crawl that is wanted to run, and of whose shards one has a holder."""
    crawl = Crawl(engine, root)
    await crawl.create()
    options = encode_options(read_options({"public": False})).decode()
    wanted = State(options=options, wanted=Wanted.RUNNING, since=1)
    await Control(engine, SystemClock()).change(lambda _: wanted)
    crawl.made.configure()
    crawl.fetch("h0.test", 1)
    await crawl.publish()
    report = Report(
        shard=0,
        agent="ann",
        epoch=1,
        round=0,
        end=2,
        committed=2,
        received=0,
        sent=0,
        idle=False,
        totals=ReportTotals(at=SystemClock().wall(), pages=1, fetches=1, pending=7, statuses={"2xx": 1}),
    )
    await crawl.held(0, "ann")
    await Control(engine, SystemClock()).report(report)
    return crawl


def stands(into: Path) -> tuple[Standing, Status]:
    standing = Standing(CrawlReader(into))
    assert standing.status is not None
    return standing, standing.status


def pages(reader: CrawlReader) -> list[Fetched]:
    return [row for _, _, row in Follower(reader, settled=True).read() if isinstance(row, Fetched)]


async def test_what_is_committed_is_read_there_with_its_bodies(engine: Engine, tmp_path: Path) -> None:
    crawl, into = await began(engine, tmp_path), tmp_path / "copy"
    async with followed(engine, into) as following:
        reader = CrawlReader(into)
        reader.archive_files = following.archive
        (first,) = pages(reader)
        assert b"h0.test, page 1" in (body_of(reader, first) or b"")
        crawl.fetch("h1.test", 2)
        await crawl.publish()
        await until(lambda: len(pages(reader)) == 2)  # the last commit, too, while the crawl runs
    assert len(pages(reader)) == 2
    async with followed(engine, into):  # it goes on where it was
        assert len(pages(reader)) == 2


async def test_it_says_how_the_crawl_stands(engine: Engine, tmp_path: Path) -> None:
    await began(engine, tmp_path)
    async with followed(engine, tmp_path / "copy"):
        standing, status = stands(tmp_path / "copy")
        assert (standing.state, status.pages, status.pending) == ("running", 1, 7)
        assert [row.agent for row in status.shards] == ["ann", "", ""]
        with pytest.raises(InUseError):
            async with followed(engine, tmp_path / "copy"):
                pass
    alone = Standing(CrawlReader(tmp_path / "copy"))
    assert alone.totals is not None
    assert (alone.state, alone.status, alone.totals.pages) == ("unknown", None, 1)


async def test_the_figures_of_agents_are_those_that_they_answer(engine: Engine, tmp_path: Path) -> None:
    await began(engine, tmp_path)
    at, bucket = SystemClock().wall(), engine.bucket
    for name, queued in (("ann", 5), ("ben", 9), ("old", 0)):
        await bucket.put(f"agent.{name}", msgspec.json.encode(Said(at=at + 1_000, rss=2, pid=3)))
        meters = {"error.dns": float(queued), "frontier.hosts": 2.0, "agent.cpu": 1.26, "frontier.used": 10.0}
        row = Ahead(host=f"{name}.test", queued=queued, wait=0.0, why="ready")
        answer = msgspec.json.encode(Metered(7, meters, [row]))
        if name != "old":
            await engine.requests.answer(f"meters.{name}", lambda _, answer=answer: answer)
    async with followed(engine, tmp_path / "copy"):
        _, status = stands(tmp_path / "copy")
        assert (status.errors, status.hosts, status.meters["frontier.used"]) == ({"dns": 14}, 4, 20.0)
        assert [row.host for row in status.ahead] == ["ben.test", "ann.test"]
        assert sorted((row.agent, row.cpu) for row in status.agents) == [
            ("ann", 1.3),
            ("ben", 1.3),
            ("old", 0.0),
        ]
        await bucket.delete("agent.ben")  # it ends: what it failed at is not forgotten
        await until(lambda: len(stands(tmp_path / "copy")[1].agents) == 2)
        assert stands(tmp_path / "copy")[1].errors == {"dns": 14}


async def test_acts_that_are_left_there_reach_the_cluster(engine: Engine, tmp_path: Path) -> None:
    await began(engine, tmp_path)
    into, control = tmp_path / "copy", Control(engine, SystemClock())
    async with followed(engine, into):
        steering = Steering(into, who="ann@here")
        assert await asyncio.to_thread(steering.set, {"limits.pages": 20}) == "done"
        assert (await control.quota()).limit == 20
        assert await asyncio.to_thread(steering.pause) == "done"
        assert (await control.state()).wanted is Wanted.PAUSED
        assert stands(into)[1].paused
        with pytest.raises(ConfigError, match="cannot be changed"):
            await asyncio.to_thread(steering.set, {"seen.store": "drum"})
    with pytest.raises(ConfigError, match="lycosa cluster control"):
        Steering(into)


async def test_lycosa_serve_shows_a_crawl_of_a_cluster(
    nats_engine: NatsEngine, one: Servers, tmp_path: Path
) -> None:
    await began(nats_engine, tmp_path)
    place, into = f"{','.join(one.urls)}/{nats_engine.crawl}", str(tmp_path / "copy")
    serve = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lycosa.cli.main", "serve", place, "--into", into),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert serve.stdout is not None
        base, token = (await serve.stdout.readline()).decode().strip().split("/?token=")

        def asked(path: str) -> bytes:
            request = urllib.request.Request(base + path, headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, timeout=170) as answer:
                return bytes(answer.read())

        status = json.loads(await asyncio.to_thread(asked, "/api/status"))
        assert (status["state"], status["process"]) == ("running", serve.pid)
        assert b"h0.test, page 1" in await asyncio.to_thread(asked, "/archived?u=http://h0.test/1")
        serve.send_signal(signal.SIGINT)
        _, told = await serve.communicate()
        assert told.splitlines()[1:] == [b"open this link; Ctrl-C ends it"]
        assert process_of(tmp_path / "copy") is None
    finally:
        with suppress(ProcessLookupError):
            serve.kill()


async def test_another_crawl_is_refused(engine: Engine, tmp_path: Path) -> None:
    crawl = await began(engine, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    text = crawl.made.files.read("crawl.json").replace(
        crawl.about.crawl.encode(), b"0" * len(crawl.about.crawl)
    )
    (other / "crawl.json").write_bytes(text)
    with pytest.raises(ConfigError, match="another crawl"):
        async with followed(engine, other):
            pass
    assert process_of(other) is None
