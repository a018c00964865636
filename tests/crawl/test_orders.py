"""Orders in a whole crawl: every order fetches everything; scorers and levels reach links of other shards."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lycosa.clock import ManualClock
from lycosa.crawl.agent import build
from lycosa.crawl.config import read_options
from lycosa.errors import ConfigError
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import ScriptedFetcher, ScriptedFetchers, ScriptedResolver
from lycosa.log.reader import LogReader
from lycosa.records import Fetched, Received
from tests.crawl.scripted import HOSTS, OPTIONS, TABLE, crawl
from tests.crawl.test_admission import fetched, hub, truth


def in_order(files: FaultyFiles) -> list[Fetched]:
    """Pages in the order of their times."""
    rows = [
        record
        for number in range(4)
        for _, record in LogReader(files.within(f"shards/{number:02d}/log")).scan()
        if isinstance(record, Fetched)
    ]
    return sorted(rows, key=lambda row: row.at)


@pytest.fixture
def oracle(tmp_path: Path) -> str:
    """Ranks by which the pages of higher numbers come first."""
    lines = [f"{page} http://{host}/p{page}" for host in HOSTS for page in range(1, 60)]
    path = tmp_path / "ranks"
    path.write_text("\n".join(lines))
    return str(path)


@pytest.mark.parametrize("order", ["depth", "length", "batch", "partial", "optimal", "biased"])
@pytest.mark.parametrize("store", ["auto", "veuniq"])
def test_every_order_fetches_everything_once(order: str, store: str, oracle: str) -> None:
    files = FaultyFiles()
    frontier: dict[str, Any] = {"order": order, "batch": 20, "back_queues": 2, "oracle": oracle}
    run = crawl(files, answer=hub, frontier=frontier, seen={"store": store})
    assert run.end == "finished"
    assert fetched(files) == Counter(truth())
    if order in ("batch", "partial"):
        assert run.agent.meters.read()["rank.calculations"] > 2


@pytest.mark.parametrize("order", ["batch", "partial"])
def test_ranks_are_made_again_after_a_restart(order: str) -> None:
    files = FaultyFiles()
    frontier: dict[str, Any] = {"order": order, "batch": 20}
    first = crawl(files, answer=hub, frontier=frontier, limits={"pages": 100})
    again = crawl(files, first.until, answer=hub, frontier=frontier)
    assert fetched(files) == Counter(truth())
    assert again.agent.meters.read()["rank.calculations"] > 0


def test_an_oracle_puts_the_best_first(oracle: str) -> None:
    files = FaultyFiles()
    crawl(
        files, answer=hub, frontier={"order": "optimal", "oracle": oracle}, politeness={"pages_per_visit": 1}
    )
    numbers = [int(row.url.rpartition("/p")[2] or 0) for row in in_order(files) if "/p" in row.url]
    half = len(numbers) // 2
    assert sum(numbers[:half]) > 1.2 * sum(numbers[half:])


def test_a_scorer_sees_the_text_of_links_between_shards(tmp_path: Path) -> None:
    path = tmp_path / "scorer.py"
    path.write_text("def score(url, depth, text, source):\n    return 1.0 if text.endswith('7') else 0.0\n")
    files = FaultyFiles()
    crawl(files, answer=hub, frontier={"scorer": f"{path}:score"}, politeness={"pages_per_visit": 1})
    rows = [row.url for row in in_order(files)]
    assert Counter(url for url in rows if url in truth()) == Counter(truth())
    places = [place for place, url in enumerate(rows) if url.endswith("7")]
    others = [place for place, url in enumerate(rows) if not url.endswith("7")]
    assert sum(places) / len(places) < 0.6 * sum(others) / len(others)
    hints = [
        hint
        for number in range(4)
        for _, record in LogReader(files.within(f"shards/{number:02d}/log")).scan()
        if isinstance(record, Received)
        for hint in record.hints
    ]
    assert {hint & 0x1FF for hint in hints} == {1, 256}, "levels 0 and 255 were told"


def test_a_scorer_that_raises_does_not_end_the_crawl(tmp_path: Path) -> None:
    path = tmp_path / "scorer.py"
    path.write_text("def score(url, depth, text, source):\n    raise RuntimeError('no taste')\n")
    files = FaultyFiles()
    run = crawl(files, answer=hub, frontier={"scorer": f"{path}:score"})
    assert fetched(files) == Counter(truth())
    assert run.agent.meters.read()["scorer.failed"] > 0


def test_boosts_put_what_matches_later() -> None:
    files = FaultyFiles()
    boosts = [{"pattern": r"/p\d*[05]$", "levels": -100}]
    crawl(files, answer=hub, frontier={"boosts": boosts}, politeness={"pages_per_visit": 1})
    rows = [row.url for row in in_order(files)]
    late = [place for place, url in enumerate(rows) if url.endswith(("0", "5"))]
    early = [place for place, url in enumerate(rows) if "/p" in url and not url.endswith(("0", "5"))]
    assert sum(early) / len(early) < sum(late) / len(late)
    assert fetched(files) == Counter(truth())


def test_a_domain_over_budget_waits_and_is_not_forgotten() -> None:
    files = FaultyFiles()
    frontier: dict[str, Any] = {"host_budget": 10, "domain_budget": 20, "back_queues": 1}
    run = crawl(
        files, answer=hub, frontier=frontier, visits=1, politeness={"pages_per_visit": 1, "wait": 0.0}
    )
    assert run.end == "finished"
    assert fetched(files) == Counter(truth())


@pytest.mark.parametrize(
    ("frontier", "words"),
    [
        ({"order": "best"}, "order"),
        ({"order": "optimal"}, "oracle"),
        ({"admit": "truncated"}, "sample"),
        ({"memory": 10}, "memory"),
        ({"boosts": [{"pattern": "(", "levels": 1}]}, "pattern"),
        ({"scorer": "nowhere.py:score"}, "nowhere.py"),
    ],
)
def test_mistakes_are_told_in_one_line(frontier: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        crawl(FaultyFiles(), answer=hub, frontier=frontier)
    assert "\n" not in str(caught.value)


def test_with_quality_pages_of_low_rank_are_left_behind_first(oracle: str) -> None:
    files = FaultyFiles()
    frontier: dict[str, Any] = {
        "order": "optimal",
        "oracle": oracle,
        "quality": True,
        "admit": "sample",
        "sample": 8,
    }
    run = crawl(files, answer=hub, frontier=frontier)
    assert fetched(files) == Counter(truth())
    assert sum(shard.admission.returns for shard in run.agent.shards) > 0


@pytest.mark.parametrize(
    ("given", "shards", "each"), [(0, 4, 6), (0, 3, 8), (0, 64, 1), (12, 4, 3), (1, 4, 1)]
)
def test_back_queues_are_those_of_the_whole_crawl(given: int, shards: int, each: int) -> None:
    """Three times as many as visits, as in Mercator, over all shards together."""

    async def open_agent() -> list[int]:
        options = read_options({**OPTIONS, "visits": 8, "frontier": {"back_queues": given}})
        fetchers = ScriptedFetchers(ScriptedFetcher(hub, ManualClock()))
        agent = build(
            FaultyFiles(), options, shards=shards, fetchers=fetchers, resolver=ScriptedResolver(TABLE)
        )
        return [shard.frontier._queues.fields.back_queues for shard in agent.shards]

    assert asyncio.run(open_agent()) == [each] * shards
