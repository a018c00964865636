"""Policies of a user's own: the examples of the lab's page run, and say what they should."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from lycosa.cli.main import main
from lycosa.errors import ConfigError
from lycosa.frontier import LengthOrder
from lycosa.lab.experiments import caching_policy, scheduling_frontier
from lycosa.lab.experiments.scheduling_sim import Setting, simulate
from lycosa.lab.experiments.web import from_synthetic
from lycosa.seen.cache import LruCache
from lycosa.seen.cache_plain import PlainLru

PAGE = Path(__file__).parents[2] / "docs" / "lab.md"
Capture = pytest.CaptureFixture[str]


def quiet(_: str) -> None:
    """Nobody listens."""


def written(place: Path, name: str) -> None:
    """The example of that name, as the page has it."""
    section = PAGE.read_text("utf-8").partition("### A policy of your own")[2].partition("\n## ")[0]
    found = [
        code for code in re.findall(r"```python\n(.*?)```", section, re.S) if code.startswith(f"# {name}\n")
    ]
    (code,) = found
    assert sum(bool(line.strip()) for line in code.splitlines()[1:]) <= 12, "that is more than some ten lines"
    (place / name).write_text(code, encoding="utf-8")


def told(args: list[str], capsys: Capture) -> dict[str, float]:
    assert main(["lab", "run", *args, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    return {f"{line['where']} {line['what']}": line["ours"] for line in result["lines"]}


def test_the_order_of_the_page(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "mine.py")
    numbers = told(["scheduling", "--policy", "mine.py:SmallFirst", "--synthetic", "250"], capsys)
    area = "mean PageRank fetched over the crawl"
    assert numbers[f"r=1 Optimal: {area}"] > numbers[f"r=1 SmallFirst: {area}"] > 0
    assert numbers["r=1 SmallFirst: days"] > numbers["r=64 SmallFirst: days"] > 0


def test_the_cache_of_the_page(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "cache.py")
    numbers = told(["caching", "--policy", "cache.py:Fifo", "--synthetic", "300"], capsys)
    assert numbers["2^0 Fifo: misses"] == numbers["2^0 LRU: misses"], "one entry: there is nothing to choose"
    for size in ("2^4", "2^6", "2^8"):
        assert numbers[f"{size} MIN: misses"] < numbers[f"{size} Fifo: misses"] < 1


def test_an_order_that_there_is_crawls_as_its_twin() -> None:
    web = from_synthetic(200, 2, quiet)
    made = scheduling_frontier.crawl(web, LengthOrder(), Setting("length", r=9))
    twin = simulate(web, Setting("length", r=9), np.zeros(web.pages))
    assert made.pages.tolist() == twin.pages.tolist() and made.times == pytest.approx(twin.times)


def test_a_scorer_is_a_policy_too() -> None:
    web = from_synthetic(200, 2, quiet)

    def odd_last(url: str, depth: int, text: str, source: str) -> float:
        assert source.startswith("http://") or not depth
        return float(int(url.rpartition("/")[2]) % 2 == 0)

    made = scheduling_frontier.crawl(
        web, scheduling_frontier.order_of(odd_last, "odd_last")(), Setting("depth")
    )
    assert sorted(made.pages.tolist()) == list(range(200))
    first, last = made.pages[:50] % 2, made.pages[-50:] % 2
    assert first.mean() < 0.5 < last.mean()


def test_caches_asked_one_by_one_and_all_at_once_are_alike() -> None:
    web = from_synthetic(300, 1, quiet)
    plain = caching_policy.run_policy(web, PlainLru, "Mine", quiet)
    quick = caching_policy.run_policy(web, LruCache, "Mine", quiet)
    assert [line.ours for line in plain.lines] == [line.ours for line in quick.lines]
    rates = {line.what: line.ours for line in plain.lines if line.where == "2^4"}
    assert rates["Mine: misses"] == rates["LRU: misses"]


def test_policies_of_others_are_rivals(capsys: Capture) -> None:
    pytest.importorskip("libcachesim", reason="pip install libcachesim")
    numbers = told(["caching", "--policy", "libcachesim:LRU", "--synthetic", "600"], capsys)
    web = from_synthetic(600, 0, quiet)
    ours = caching_policy.run_policy(web, PlainLru, "Mine", quiet)
    for line in ours.lines:
        if line.where in ("2^6", "2^8") and line.what.startswith("Mine"):
            assert numbers[f"{line.where} {line.what.replace('Mine', 'LRU (yours)')}"] == pytest.approx(
                line.ours, abs=1e-6
            )


@pytest.mark.parametrize(
    ("code", "args", "says"),
    [
        ("class Mine: pass", ["scheduling"], "is not an order: it lacks 'ranking'"),
        ("class Mine:\n  def __init__(self, n): pass", ["caching"], "is not a cache"),
        ("class Mine: pass", ["caching"], "cannot be made: TypeError"),
        ("def Mine(url, depth, text, source): return 1 / 0", ["scheduling"], "ZeroDivisionError"),
        (
            "from lycosa.frontier import DepthOrder, Ranking\nclass Mine(DepthOrder):\n  ranking = Ranking.ASKED\n"
            "  def rank(self, *a):\n    return [][0]\n",
            ["scheduling"],
            "mine.py, line 5: IndexError",
        ),
        ("Mine = 3", ["caching"], "--policy: Mine in mine.py is not a function"),
        ("class Mine: pass", ["distribution"], "distribution takes no policy"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    code: str, args: list[str], says: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(code)
    assert main(["lab", "run", *args, "--policy", "mine.py:Mine", "--synthetic", "200"]) == 2
    error = capsys.readouterr().err
    assert says in error and error.strip().count("\n") == 0, error


def test_a_policy_that_cannot_be_made_says_so() -> None:
    with pytest.raises(ConfigError, match="lives nowhere"):

        class Mine:
            def __init__(self) -> None:
                raise ValueError("lives nowhere")

        scheduling_frontier.order_of(Mine, "Mine")
