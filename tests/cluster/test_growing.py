"""A crawl whose number of agents is left to the program: one, and several when there is work for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lycosa.cluster import api
from lycosa.cluster.growing import ENOUGH, Need
from lycosa.crawl import machine
from lycosa.crawl.agent import End
from lycosa.lab.webs import serving
from tests.cluster.crawled import SMALL, WAITS, crawl, until
from tests.cluster.test_supervisor import check


def looks(need: Need, *rows: tuple[float, float, int, int]) -> list[bool]:
    return [need.judge(*row) for row in rows]


def test_a_core_that_is_busy_long_enough_with_much_to_do() -> None:
    busy = [(float(second), 0.9 * second, 20_000, 16) for second in range(8)]
    assert looks(Need(), *busy) == [False] * 5 + [True] * 3


@pytest.mark.parametrize(
    ("share", "pending", "shards"),
    [
        (0.5, 20_000, 16),  # it waits for sites, or for the disk
        (0.9, 500, 16),  # it is soon done
        (0.9, 20_000, 1),  # only one agent could have it
    ],
)
def test_there_is_no_work_for_more(share: float, pending: int, shards: int) -> None:
    rows = [(float(second), share * second, pending, shards) for second in range(20)]
    assert not any(looks(Need(), *rows))


def test_a_moment_without_work_begins_the_count_anew() -> None:
    rows = [(float(second), float(second), 20_000 if second != 4 else 10, 16) for second in range(12)]
    assert looks(Need(), *rows).index(True) == 10


def test_what_an_agent_does_at_its_start_is_soon_forgotten() -> None:
    """Seconds of compiling are no reason for more agents when the crawl then waits for its sites."""
    rows = [(float(second), min(second, 3.0) + 0.1 * second, 20_000, 16) for second in range(20)]
    assert not any(looks(Need(), *rows))


def test_cores_and_memory_bound_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, gigabytes, wanted in ((8, 64, 8), (8, 2, 4), (1, 64, 1), (4, 0, 1)):
        monkeypatch.setattr(machine, "cores", lambda cores=cores: cores)
        monkeypatch.setattr(machine, "memory_limit", lambda gigabytes=gigabytes: gigabytes << 30)
        assert api.affordable() == wanted


def test_one_agent_goes_on_as_two_and_nothing_is_lost_or_asked_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "affordable", lambda: 2)
    monkeypatch.setattr(api, "Need", lambda: Need(enough=60, share=0.0, seconds=0.0))
    notes: list[str] = []
    agents: list[int | None] = []
    pages: list[int] = []

    async def watch(made: Any) -> None:
        agents.append(made.agents)
        await until(lambda: made.agents == 2)
        before = made.status()
        assert before.pages_run == before.pages > 0 and before.elapsed > 0
        while True:
            pages.append(made.status().pages)
            await asyncio.sleep(0.02)

    politeness = {**WAITS, "wait": 0.2, "pages_per_visit": 3}
    with serving(SMALL) as served:
        ran = crawl(served.web, tmp_path, None, watch, notes.append, politeness=politeness)
    assert ran.end is End.FINISHED
    assert agents == [1]
    assert pages == sorted(pages) and pages[0] > 0, "no page that was counted is forgotten on the way"
    assert notes.count("there is work for more than one agent: going on with 2") == 1
    found = check(served, tmp_path)
    assert ran.status.pages == ran.status.pages_run == sum(1 for status in found.values() if status)
    assert not (tmp_path / "running").exists()


def test_a_small_crawl_stays_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "affordable", lambda: 2)
    notes: list[str] = []
    with serving(SMALL) as served:
        ran = crawl(served.web, tmp_path, None, None, notes.append)
    assert ran.end is End.FINISHED and not (tmp_path / "exchange").exists()
    check(served, tmp_path)
    assert ran.status.pages < ENOUGH
