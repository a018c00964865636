"""What was on its way between an agent's shards when the last process stopped, and how it is caught up with."""

from __future__ import annotations

import asyncio
import gc
import threading
from math import prod
from typing import Any

import pytest

from lycosa.clock import ManualClock
from lycosa.crawl.admission import ANSWERS
from lycosa.crawl.agent import Agent
from lycosa.crawl.config import encode_options, read_options
from lycosa.crawl.manifest import shard_directory
from lycosa.crawl.replay import LinkPass
from lycosa.fetch.protocol import Failure, Request
from lycosa.files import Files
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply
from lycosa.log.log import Log
from lycosa.log.log_pass import RECORDS
from lycosa.records import Configured, Fetched, Received, Record, Timing
from tests.crawl.made import anchors
from tests.crawl.scripted import OPTIONS, crawl, make_agent, script

PAGES = 5 * RECORDS
ANY: dict[str, Any] = {"scope": {"mode": "any"}}


def page(url: str, *targets: str) -> Fetched:
    return Fetched(1, url, 0, 0, 0, 200, "text/html", "", 1, 1, 0, Timing(), "", anchors(*targets))


def made(cursor: int) -> Files:
    """A crawl whose shard 0 found a link to `other.test` on every page; the others are at `cursor`."""
    files = FaultyFiles()
    agent, _ = make_agent(files, ManualClock(), seeds=[], **ANY)
    home = next(f"h{n}.test" for n in range(99) if agent.shards.splitter.shard_of(f"h{n}.test") == 0)
    for shard in agent.shards:
        shard.log.close()
    configured = Configured(1, encode_options(read_options({**OPTIONS, **ANY})))
    for number in range(4):
        log = Log(files.within(f"{shard_directory(number)}/log"))
        rows: list[Record] = [configured]
        if number == 0:
            rows += (page(f"http://{home}/{n}", f"http://other.test/{n}") for n in range(1, PAGES))
        elif cursor:
            rows.append(Received(1, 0, cursor, anchors(), [], b""))
        for row in rows:
            log.append(row)
        log.commit()
        log.close()
    return files


def opened(files: Files) -> tuple[Agent, int]:
    """The agent, and the shard of `other.test`."""
    agent, _ = make_agent(files, ManualClock(), seeds=[], **ANY)
    return agent, agent.shards.splitter.shard_of("other.test")


def received(agent: Agent, number: int) -> tuple[list[str], list[int]]:
    """The links that a shard has from shard 0, and the cursors that came with them."""
    shard = agent.shards.find(number)
    assert shard is not None
    rows = [row for _, row in shard.log.reader.scan(0) if isinstance(row, Received) and row.sender == 0]
    return [link.url for row in rows for link in row.links], [row.cursor for row in rows]


def test_what_was_on_its_way_arrives_in_slices_that_a_thread_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, other = opened(made(0))
    threads: set[int] = set()
    take = LinkPass.take

    def noted(self: LinkPass, *args: int) -> list[tuple[int, Record]]:
        threads.add(threading.get_ident())
        return take(self, *args)

    monkeypatch.setattr(LinkPass, "take", noted)

    async def go() -> None:
        assert agent.exchange.is_behind and not agent._is_idle(), (
            "a crawl whose links are on their way is not at its end"
        )
        await agent.saver.commit()
        assert not agent.exchange.is_behind
        await agent.saver.commit()

    asyncio.run(go())
    urls, cursors = received(agent, other)
    assert urls == [f"http://other.test/{n}" for n in range(1, PAGES)]
    assert threads and threading.get_ident() not in threads
    assert len(cursors) >= PAGES // RECORDS and cursors == sorted(cursors) and cursors[-1] == PAGES


def test_it_begins_at_the_cursors(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, other = opened(made(PAGES - 10))
    starts: list[int] = []
    begin = LinkPass.__init__

    def noted(self: LinkPass, files: Files, start: int = 0) -> None:
        starts.append(start)
        begin(self, files, start)

    monkeypatch.setattr(LinkPass, "__init__", noted)

    async def go() -> None:
        await agent.saver.commit()
        await agent.saver.commit()

    asyncio.run(go())
    assert PAGES - 10 in starts
    assert received(agent, other)[0] == [f"http://other.test/{n}" for n in range(PAGES - 10, PAGES)]


def test_one_that_was_cut_short_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    files = made(0)
    agent, other = opened(files)
    take, slices = LinkPass.take, 0

    def failing(self: LinkPass, *args: int) -> list[tuple[int, Record]]:
        nonlocal slices
        slices += 1
        if slices == 3:
            raise OSError("the disk is gone for a moment")
        return take(self, *args)

    async def go() -> None:
        monkeypatch.setattr(LinkPass, "take", failing)
        with pytest.raises(OSError, match="gone"):
            await agent.saver.commit()
        monkeypatch.setattr(LinkPass, "take", take)
        for shard in agent.shards:
            shard.log.commit()

    asyncio.run(go())
    before = received(agent, other)
    assert before[1][-1] == 2 * RECORDS
    for shard in agent.shards:
        shard.log.close()
    agent, _ = opened(files)

    async def again() -> None:
        await agent.saver.commit()
        await agent.saver.commit()

    asyncio.run(again())
    assert received(agent, other)[0] == [f"http://other.test/{n}" for n in range(1, PAGES)], "none twice"


def test_what_the_store_answered_is_put_in_slices_also_before_a_snapshot() -> None:
    """A merge may answer for tens of thousands at once, and a snapshot must not find them all still to be put."""
    agent, _ = make_agent(FaultyFiles(), ManualClock(), seeds=[], **ANY)
    shard = agent.shards[0]
    key = shard.keyer.key
    urls = [f"http://h.test/{n}" for n in range(4 * ANSWERS)]
    shard.admission.answered((key(url), f"1 0 1 {url}".encode()) for url in urls)
    put: list[int] = []
    plain = shard.frontier.put

    def noted(items: Any, levels: Any) -> None:
        put.append(len(items))
        plain(items, levels)

    shard.frontier.put = noted  # type: ignore[method-assign]
    asyncio.run(agent.saver.snapshot())
    assert sum(put) == len(urls) == shard.frontier.pending and max(put) <= ANSWERS


def test_collections_are_rare_while_a_crawl_runs_and_as_ever_after_it() -> None:
    before, during = gc.get_threshold(), set[tuple[int, int, int]]()

    def answer(request: Request, asked: int) -> Reply | Failure:
        during.add(gc.get_threshold())
        return script(request, asked)

    crawl(FaultyFiles(), answer=answer)
    (rare,) = during
    assert rare[0] >= 10 * before[0] and prod(rare) >= 10 * prod(before)
    assert gc.get_threshold() == before
