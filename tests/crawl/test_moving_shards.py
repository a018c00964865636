"""Shards leave and join an agent while it crawls, and nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lycosa.crawl.agent import Agent, End
from lycosa.files import DiskFiles
from lycosa.lab import virtual
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.virtual import VirtualClock
from lycosa.records import Fetched
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


@pytest.mark.parametrize("unclean", [False, True])
@pytest.mark.parametrize("pause", [0.0, 1.7])
def test_every_shard_goes_and_comes_back(pause: float, unclean: bool) -> None:
    files = FaultyFiles()
    away: list[int] = []

    async def moves(agent: Agent, clock: VirtualClock) -> None:
        for number in (2, 0, 3, 1):
            await clock.sleep(0.35)
            await agent.hand_over(number)
            assert [shard.number for shard in agent.shards] == [n for n in range(4) if n != number]
            away.append(number)
            await clock.sleep(pause)
            await agent.adopt(number, unclean=unclean)

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
        shard = agent.saver.find(1)
        assert shard is not None
        await agent.hand_over(1)
        ends[1] = shard.log.end
        assert shard.log.committed == shard.log.end
        assert snapshot.positions(files.within("shards/01/snapshots"))[-1] == shard.log.end
        assert agent.saver.find(1) is None
        await agent.hand_over(1)  # it is gone: nothing happens
        await agent.adopt(1, unclean=False)

    end, agent, _ = run(files, moves)
    assert end is End.FINISHED
    again = agent.saver.find(1)
    assert again is not None and again.log.end >= ends[1]
