"""The calculator: limits bind as they should, costs can be set and are measured, and a made crawl is calculated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.errors import ConfigError
from lycosa.lab.costs import Costs, Measured, given, measured, memory_of
from lycosa.lab.plan import Plan, agents_for, check, outlook

Capture = pytest.CaptureFixture[str]
BIG = Plan(pages=10**9, agents=50)


def test_each_limit_can_bind() -> None:
    costs = Costs()
    slow = given(["page_cpu=10"], costs)
    assert outlook(BIG, slow).binding == "processor"
    assert outlook(BIG, slow).days == pytest.approx(10**9 * 10 * 1.07 / 50 / 86_400, rel=0.01)
    assert outlook(replace(BIG, link=1000.0), costs).binding == "bandwidth"
    assert outlook(replace(BIG, visits=1), costs).binding == "visits"
    few = outlook(replace(BIG, hosts=10, largest=10), costs)
    # Eight pages of a second each, then ten times the last: 8 / 18 of a page a second and host.
    assert few.binding == "politeness" and few.days == pytest.approx(10**9 / (10 * 8 / 18) / 86_400)
    one = outlook(replace(BIG, largest=10**8), costs)
    assert one.binding == "largest host" and one.days == pytest.approx(10**8 / (8 / 18) / 86_400)
    assert one.breaks_first[0] == ("largest host", 1.0)


def test_what_grows_and_what_is_bounded() -> None:
    small, large = outlook(BIG, Costs()), outlook(replace(BIG, pages=10**11), Costs())
    assert large.disk == pytest.approx(100 * small.disk, rel=0.01)
    fences = 10**11 / BIG.agents / 64
    assert sum(large.held.values()) - fences < 1.1e9, "all has limits, but for places in files of contents"
    assert large.held["contents"] == pytest.approx((8 << 20) + fences)
    assert large.memory == pytest.approx(sum(large.held.values()))
    assert large.used["disk of a machine"] > 1
    alone = outlook(replace(BIG, agents=1), Costs())
    assert alone.servers == 0 and small.servers == 3 and alone.messages == 0


def test_agents_for_a_time_are_the_fewest() -> None:
    agents = agents_for(BIG, Costs(), 10)
    assert outlook(replace(BIG, agents=agents), Costs()).days <= 10
    assert outlook(replace(BIG, agents=agents - 1), Costs()).days > 10
    with pytest.raises(ConfigError, match="politeness alone"):
        agents_for(replace(BIG, hosts=10, largest=10), Costs(), 10)


def crawled(place: Path, pages: int, rss: int = 150_000_000) -> Path:
    """What a crawl of so many pages leaves of its numbers: as much of each for every page."""
    (place / "shards/0/log").mkdir(parents=True)
    (place / "archive").mkdir()
    (place / "shards/0/log/0.log").write_bytes(bytes(pages * (100 + 10 * 5)))
    (place / "archive/a.warc.gz").write_bytes(bytes(pages * 300))
    meters = {"agent.cpu": pages * 0.001, "seen.urls": pages * 2, "seen.bytes": pages * 20, "sites.known": 4}
    row = {
        "elapsed": 9.0,
        "pages": pages,
        "pages_run": pages,
        "bytes": pages * 2000,
        "links": pages * 10,
        "rss": rss,
    }
    (place / "status.json").write_text(json.dumps({**row, "meters": meters}))
    (place / "meters.jsonl").write_text(
        json.dumps({**row, "meters": {"frontier.pending": pages // 2, "visits.active": 2}}) + "\n"
    )
    return place


def test_costs_of_a_crawl_calculate_a_larger_one(tmp_path: Path) -> None:
    costs, small = measured(crawled(tmp_path / "small", 1_000), Costs())
    assert costs.page_cpu == pytest.approx(0.001) and costs.page_archive == 300 and costs.link_log == 5
    assert costs.origins["page_cpu"].startswith("measured")
    rows = {row.what: row for row in check(small, costs)}
    assert all(abs(row.error) < 0.01 for row in rows.values()), "it is the crawl that they were measured on"
    large = Measured.of(crawled(tmp_path / "large", 5_000, rss=300_000_000))
    rows = {row.what: row for row in check(large, costs)}
    assert rows["CPU"].calculated == pytest.approx(5.0) and abs(rows["log"].error) < 0.01
    assert rows["memory"].error == pytest.approx(-0.498, abs=0.02), "nothing said that it takes twice as much"


def test_memory_is_what_grows_with_a_crawl(tmp_path: Path) -> None:
    """What a small crawl held beside all that grows is its process; a large one is that and what grows."""
    costs, small = measured(crawled(tmp_path / "small", 1_000), Costs())
    assert small.visits == 2 and sum(memory_of(costs, **small.size).values()) == pytest.approx(150e6)
    few, many = (
        memory_of(costs, pages=pages, pending=pages, met=2 * pages, hosts=64, visits=256)
        for pages in (1_000, 10_000_000)
    )
    assert few["process"] == many["process"] < 150e6
    assert few["visits"] == many["visits"] == 64 * costs.visit_memory, "one at a time of each host"
    assert many["memos of links"] == (1 << 17) * costs.memo_memory and many["page table"] == 16 << 20
    assert many["seen set"] == pytest.approx(20e6 * costs.seen_memory)
    assert many["contents"] < 9 << 20 and many["frontier"] == 256 << 20


def test_the_command(tmp_path: Path, capsys: Capture) -> None:
    assert main(["lab", "plan", "--pages", "10G", "--agents", "200", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["machines"] == 50 and made["plan"]["pages"] == 10**10 and made["days"] > 1
    assert {row["name"] for row in made["costs"]} == {name for name, *_ in Costs().rows()}
    assert main(["lab", "plan", "--pages", "1G", "--within", "30"]) == 0
    shown = capsys.readouterr().out
    assert "scarcest resource first" in shown and "docs/benchmarks/crawl.md" in shown
    place = crawled(tmp_path / "small", 1_000)
    assert main(["lab", "plan", "--measure", str(place), "--check", str(place)]) == 0
    assert "CPU" in capsys.readouterr().out
    for more, says in (
        ([], "give the number of pages"),
        (["--pages", "1k"], "give one of --agents N and --within DAYS"),
        (["--pages", "1k", "--agents", "1", "--cost", "page_cpu"], "write it like page_cpu="),
        (["--pages", "1k", "--agents", "1", "--measure", str(tmp_path)], "has no status.json"),
    ):
        assert main(["lab", "plan", *more]) == 2
        assert says in capsys.readouterr().err


def test_where_costs_were_measured_is_there() -> None:
    root = Path(__file__).parents[2]
    for name, value, unit, what, where in Costs().rows():
        assert unit and what and value > 0, name
        if where.startswith("docs/"):
            assert (root / where.partition(":")[0]).is_file()
