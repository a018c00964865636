"""Shards leave and join an agent while it crawls, and nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lycosa.clock import SystemClock
from lycosa.crawl.agent import Agent, End
from lycosa.crawl.hosts import OwnHosts
from lycosa.crawl.moving import _RECORDS
from lycosa.crawl.saving import OwnDisk
from lycosa.crawl.shard import Shard
from lycosa.crawl.underway import Underway
from lycosa.files import DiskFiles
from lycosa.lab import virtual
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.virtual import VirtualClock
from lycosa.log.log import Batch
from lycosa.records import Deferred, Fetched, Lost, Waiting, Why
from lycosa.url.parts import host_of
from tests.crawl.little import records
from tests.crawl.scripted import expected, make_agent
from tests.crawl.test_crash import archived, check_politeness


def run(files: Any, moves: Any) -> tuple[End, Agent, list[tuple[float, float, str]]]:
    async def go(clock: VirtualClock) -> tuple[End, Agent, list[tuple[float, float, str]]]:
        agent, fetcher = make_agent(files, clock)
        beside = asyncio.ensure_future(moves(agent, clock))
        end = await agent.run()
        await beside
        return end, agent, fetcher.requests

    return virtual.run(go, 0.0)


@pytest.mark.parametrize("pause", [0.0, 1.7])
def test_every_shard_goes_and_comes_back(pause: float) -> None:
    files = FaultyFiles()
    away: list[int] = []

    async def moves(agent: Agent, clock: VirtualClock) -> None:
        for number in (2, 0, 3, 1):
            await clock.sleep(0.35)
            await agent.moves.hand_over(number)
            assert [shard.number for shard in agent.shards] == [n for n in range(4) if n != number]
            away.append(number)
            await clock.sleep(pause)
            await agent.moves.adopt(number)

    end, agent, requests = run(files, moves)
    assert end is End.FINISHED
    assert away == [2, 0, 3, 1]
    fetched = [row.url for row in records(files) if isinstance(row, Fetched)]
    assert len(fetched) == len(set(fetched)), "a page was fetched twice"
    assert set(fetched) - {url for url in fetched if "nowhere" in url} == expected()
    assert archived(files).keys() >= expected()
    check_politeness(requests)
    assert agent.totals().fetched == len(fetched)


def test_a_shard_that_left_has_all_of_it_in_its_files(tmp_path: Path) -> None:
    """Handed over, a shard can be opened by anybody: its snapshot is at the end of its log."""
    from lycosa.log import snapshot

    files = DiskFiles(tmp_path)
    ends: dict[int, int] = {}

    async def moves(agent: Agent, clock: VirtualClock) -> None:
        await clock.sleep(1.0)
        shard = agent.shards.find(1)
        assert shard is not None
        await agent.moves.hand_over(1)
        ends[1] = shard.log.end
        assert shard.log.committed == shard.log.end
        assert snapshot.positions(files.within("shards/01/snapshots"))[-1] == shard.log.end
        assert agent.shards.find(1) is None
        await agent.moves.hand_over(1)  # it is gone: nothing happens
        await agent.moves.adopt(1)

    end, agent, _ = run(files, moves)
    assert end is End.FINISHED
    again = agent.shards.find(1)
    assert again is not None and again.log.end >= ends[1]


class Far:
    """Other agents, who grant every turn."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def claim(self, host: str) -> bool:
        return True

    def end(self, host: str, ready: float) -> None:
        self.ended.append(host)


@pytest.mark.parametrize("ours", [False, True], ids=["granted by another agent", "granted here"])
def test_a_turn_ends_though_the_shard_of_its_host_has_come_meanwhile(ours: bool) -> None:
    """The host is left alone as long as it is to be, and nothing is ended that was not begun."""
    rest = (0.0, 0.0, "")

    async def moves(agent: Agent, clock: VirtualClock) -> None:
        nonlocal rest
        far = Far()
        hosts = OwnHosts(agent.shards.of_host, clock, far)
        host = host_of(poison_in(agent, 1))
        had = ours and await hosts.claim(host)
        await clock.sleep(0.35)
        await agent.moves.hand_over(1)
        assert had or await hosts.claim(host)
        await agent.moves.adopt(1)
        now = clock.monotonic()
        rest = now, now + 30.0, host
        hosts.end(host, now + 30.0)
        assert far.ended == ([] if ours else [host])

    end, _, requests = run(FaultyFiles(), moves)
    assert end is End.FINISHED
    at = [start for start, _, url in requests if host_of(url) == rest[2]]
    assert any(start >= rest[1] for start in at)
    assert not any(rest[0] < start < rest[1] for start in at)


def poison_in(agent: Agent, number: int) -> str:
    """A URL of a shard."""
    return next(
        f"http://{host_of(url)}/bad"
        for url in sorted(expected())
        if agent.shards.splitter.shard_of(host_of(url)) == number
    )


def test_what_a_page_did_is_durable_before_its_shard_is_visited(tmp_path: Path) -> None:
    """Else the same page ends this process as well, and is as new to the next."""
    files = DiskFiles(tmp_path)
    found: list[Any] = []

    async def moves(agent: Agent, clock: VirtualClock) -> None:
        await clock.sleep(0.35)
        await agent.moves.hand_over(1)
        Underway(tmp_path / "reading-before").begin(Waiting(poison_in(agent, 1), 7, 1), 10**15)
        await agent.moves.adopt(1)
        shard = agent.shards.find(1)
        assert shard is not None and shard.log.committed == shard.log.end
        found.extend(records(DiskFiles(tmp_path)))
        assert not list(agent.underway.left())

    end, _, _ = run(files, moves)
    assert end is End.FINISHED
    assert [row.url for row in found if isinstance(row, Deferred) and row.why is Why.POISON]


def test_a_shard_whose_ledger_refuses_is_not_taken(tmp_path: Path) -> None:
    class Refusing:
        async def commit(self, shard: Shard, batch: Batch, packed: bytes) -> bool:
            return shard.number != 1

    async def moves(agent: Agent, clock: VirtualClock) -> None:
        await clock.sleep(0.35)
        await agent.moves.hand_over(1)
        Underway(tmp_path / "reading-before").begin(Waiting(poison_in(agent, 1), 7, 1), 10**15)
        agent.saver._ledger = Refusing()
        await agent.moves.adopt(1)
        agent.saver._ledger = OwnDisk()
        assert agent.shards.find(1) is None and list(agent.underway.left()), "whoever has it next must know"
        await agent.moves.adopt(1)

    end, agent, _ = run(DiskFiles(tmp_path), moves)
    assert end is End.FINISHED and not list(agent.underway.left())


class Breaths:
    """Counts how often the loop breathes, and what is done between two breaths."""

    def __init__(self) -> None:
        self._now = 0
        self.done: Counter[int] = Counter()

    async def breathe(self) -> None:
        while True:
            self._now += 1
            await asyncio.sleep(0)

    def note(self) -> None:
        self.done[self._now] += 1


def test_what_grows_with_a_shard_is_not_done_on_the_loop_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its sites are looked at by a thread, and what is logged before it goes on is logged in slices."""
    breaths, threads = Breaths(), list[int]()
    plain_append, plain_hold = Shard.append, Shard.hold_all

    def append(shard: Shard, record: Any, **more: Any) -> int:
        breaths.note()
        return plain_append(shard, record, **more)

    def hold_all(shard: Shard, politeness: Any) -> None:
        threads.append(threading.get_ident())
        plain_hold(shard, politeness)

    async def go() -> int:
        agent, _ = make_agent(DiskFiles(tmp_path), SystemClock())
        await agent.moves.hand_over(1)
        url = poison_in(agent, 1)
        gone = [Lost(1, f"{url}{n}", 0, 0, "x.warc.gz", n + 1, 200, 1, 0, 0, False) for n in range(300)]
        monkeypatch.setattr(Shard, "append", append)
        monkeypatch.setattr(Shard, "hold_all", hold_all)
        breathing = asyncio.ensure_future(breaths.breathe())
        await agent.moves.adopt(1, gone)
        breathing.cancel()
        for shard in agent.shards:
            shard.log.close()
        return threading.get_ident()

    assert asyncio.run(go()) not in threads and len(threads) == 1
    assert sum(breaths.done.values()) >= 300 and max(breaths.done.values()) <= _RECORDS + 1
