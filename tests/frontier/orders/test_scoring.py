from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.errors import ConfigError
from lycosa.frontier.options import Boost
from lycosa.frontier.orders.order import DepthOrder, LengthOrder, Order, Ranking, Sighting
from lycosa.frontier.orders.ranked import WORST, BatchOrder, OptimalOrder, RankedOrder
from lycosa.frontier.orders.scoring import (
    ScoredOrder,
    ScoredRankedOrder,
    Scorer,
    load_scorer,
    newest,
    overlaid,
    scored,
)
from lycosa.frontier.protocol import Levels
from tests.frontier.orders.test_ranked import KEYER, level, page, ranks_of

NEWS = Boost(pattern="/news", levels=30)


def test_without_an_opinion_the_order_is_itself() -> None:
    order = DepthOrder()
    assert scored(order, None, ()) is order
    assert scored(order, None, [Boost(pattern="x", levels=0)]) is order
    plain = ScoredOrder(order)
    assert plain.levels([page("x", 3), page("y", 300)], None) == [3, 255]
    assert (plain.ranking, plain.rank("a.test", 1, 9)) == (Ranking.TIME, 0.0)


def test_a_score_is_a_level() -> None:
    asked: list[tuple[object, ...]] = []

    def score(url: str, depth: int, text: str, source: str) -> float | None:
        asked.append((url, depth, text, source))
        return {"a": 1.0, "b": 0.5, "c": 0.0, "d": -3, "e": math.inf, "f": Fraction(1, 5)}.get(url[-1])

    order = scored(DepthOrder(), score, ())
    assert order.sighted
    items = [page(name, 7) for name in "abcdefg"]
    found = Sighting("http://s.test/", 1, 9, [f"text {n}" for n in range(7)])
    assert order.levels(items, found) == [0, 128, 255, 255, 0, 204, 7]
    assert asked[1] == ("http://a.test/b", 7, "text 1", "http://s.test/")
    asked.clear()
    assert level(order, items[0]) == 0
    assert asked == [("http://a.test/a", 7, "", "")]


def test_scores_act_between_hosts_that_would_be_alike() -> None:
    def score(url: str, depth: int, text: str, source: str) -> float | None:
        return None

    order = scored(DepthOrder(), score, ())
    assert (order.ranking, order.rank("a.test", 5, 9)) == (Ranking.LEVEL, 9.0)
    order = scored(LengthOrder(), score, ())
    assert (order.ranking, order.rank("a.test", 5, 9)) == (Ranking.LENGTH, -5.0)
    order = scored(DepthOrder(), None, [NEWS])
    assert (order.ranking, order.sighted) == (Ranking.TIME, False)


def test_boosts_add_up_and_stay_within_the_levels() -> None:
    boosts = [NEWS, Boost(pattern=r"\.pdf$", levels=-100), Boost(pattern="news", levels=5)]
    order = scored(DepthOrder(), None, boosts)
    items = [page("news", 50), page("x.pdf", 50), page("news.pdf", 50), page("x", 50), page("news", 2)]
    assert order.levels(items, None) == [15, 150, 115, 50, 0]
    assert level(order, page("x.pdf", 250)) == 255
    half = scored(DepthOrder(), lambda url, depth, text, source: 0.5, [NEWS])
    assert half.levels([page("news"), page("x")], None) == [98, 128]


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def test_a_scorer_that_fails_does_not_end_the_crawl() -> None:
    def score(url: str, depth: int, text: str, source: str) -> float | None:
        match url[-1]:
            case "a":
                raise KeyError("no\nsuch word")
            case "b":
                return "0.5"  # type: ignore[return-value]
            case "c":
                return math.nan
            case "d":
                return 1j  # type: ignore[return-value]
            case "e":
                raise UnspeakableError
            case "f":
                return 10**400
        return 1.0

    order = scored(DepthOrder(), score, [NEWS])
    assert isinstance(order, ScoredOrder)
    told: list[str] = []
    order.told = told.append
    assert order.levels([page(name, 4) for name in "abcdefg"], None) == [4] * 6 + [0]
    assert order.failed == 6
    assert level(order, page("news/a", 40)) == 10  # boosts still count
    assert told == ["the scorer failed: KeyError: 'no\\nsuch word' (http://a.test/a)"], "the first one"


def test_a_stop_is_not_a_failure() -> None:
    def score(url: str, depth: int, text: str, source: str) -> float | None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        level(scored(DepthOrder(), score, ()), page("x"))


@given(
    st.one_of(
        st.none(), st.floats(), st.integers(), st.booleans(), st.text(), st.binary(), st.complex_numbers()
    )
)
def test_whatever_a_scorer_gives_the_level_is_a_level(given: object) -> None:
    order = scored(DepthOrder(), lambda *_: given, [NEWS])  # type: ignore[arg-type, return-value]
    assert 0 <= level(order, page("news", 255)) <= 255


# -- around orders by rank


def table(levels: Levels) -> dict[int, int]:
    assert (np.diff(levels.keys.astype(object)) > 0).all()
    return dict(zip(levels.keys.tolist(), levels.levels.tolist(), strict=True))


def test_opinions_survive_a_calculation() -> None:
    def score(url: str, depth: int, text: str, source: str) -> float | None:
        return 0.2 if url.endswith("liked") else None

    order = scored(BatchOrder(2, KEYER), score, [NEWS])
    assert isinstance(order, ScoredRankedOrder)
    assert isinstance(order, RankedOrder)
    assert (order.ranking, order.batch) == (Ranking.LEVEL, 2)
    good, poor, news, liked, done = (
        page(name, 200) for name in ("good", "poor", "news", "liked", "news-done")
    )
    assert order.levels([good, news, liked, done], None) == [200, 170, 204, 170]
    plan = order.planner()(ranks_of({good: 5.0, done: 4.0, news: 3.0, poor: 2.0, liked: 1.0}, done=[done]))
    late = page("news-late", 200)
    assert level(order, late) == 170  # found while the calculation runs
    levels = order.adopt(plan)
    assert levels.other == WORST
    assert table(levels) == {good.key: 0, done.key: 63, news.key: 63 - 30, poor.key: 127, liked.key: 204}
    # The next one: rows of done URLs are gone, the one found meanwhile is there, though it has no rank.
    levels = order.adopt(order.planner()(ranks_of({good: 5.0, poor: 9.0})))
    assert table(levels) == {good.key: 63, poor.key: 0, news.key: 225, liked.key: 204, late.key: 225}
    assert len(order._rows) == 3
    assert order.rank_of(good.key) == 5.0
    assert order.is_low(good.key)


def test_a_plan_that_is_not_adopted_changes_nothing() -> None:
    order = ScoredRankedOrder(BatchOrder(2, KEYER), None, [NEWS])
    news = page("news")
    level(order, news)
    dropped = order.planner()
    again = order.planner()(ranks_of({news: 1.0}))
    dropped(ranks_of({}, done=[news]))
    assert table(order.adopt(again)) == {news.key: 0}


def test_opinions_are_bounded() -> None:
    order = ScoredRankedOrder(BatchOrder(2, KEYER), None, [NEWS], most=3)
    order.levels([page(f"news{n}", 40) for n in range(5)], None)
    assert order.forgotten == 2
    assert len(order.adopt(order.planner()(ranks_of({}))).keys) == 3


def test_rows_over_levels_by_hand() -> None:
    rows = np.array([(5, 7), (2, 1010), (5, 9), (8, 990), (9, 3)], [("key", np.uint64), ("value", np.int16)])
    kept = newest(rows, np.array([1, 9], np.uint64))
    assert kept.tolist() == [(2, 1010), (5, 9), (8, 990)]
    keys, levels = np.array([2, 3, 5, 7], np.uint64), np.array([250, 1, 2, 3], np.uint8)
    over = overlaid(keys, levels, kept)
    assert table(over) == {2: 255, 3: 1, 5: 9, 7: 3, 8: 245}
    assert levels.tolist() == [250, 1, 2, 3]


def test_around_an_oracle() -> None:
    order = scored(OptimalOrder.parse([b"1 http://a.test/x"], KEYER), None, [NEWS])
    assert not isinstance(order, RankedOrder)
    assert isinstance(order, ScoredOrder)
    assert order.rank_of(page("x").key) == 1.0
    assert not order.is_low(page("x").key)
    assert order.levels([page("x"), page("news")], None) == [0, 225]
    plain = ScoredOrder(DepthOrder(), None, [NEWS])
    assert plain.rank_of(1) is None
    assert not plain.is_low(1)


def _orders() -> list[Order]:  # for mypy: all of them are orders
    return [ScoredOrder(DepthOrder()), ScoredRankedOrder(BatchOrder(1, KEYER)), BatchOrder(1, KEYER)]


# -- loading


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my scorer.py"
    path.write_text(
        "def score(url, depth, text, source):\n    return 0.25\nnumber = 3\ndef short(url): return 1\n"
        "class Scorer:\n    def __call__(self, url, depth=0, *rest): return 0.75\nready = Scorer()\n"
    )
    return path


def test_load_from_a_file_and_from_a_module(file: Path) -> None:
    def ask(scorer: Scorer) -> float | None:
        return scorer("http://a.test/", 0, "", "")

    assert ask(load_scorer(f"{file}:score")) == 0.25
    assert ask(load_scorer(f"{file}:ready")) == 0.75
    assert load_scorer("operator:methodcaller")
    with pytest.raises(ConfigError, match="must take url, depth, text, source"):
        load_scorer("os.path:basename")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("score", "'score' is not of the form module:function or file.py:function"),
        (":score", "is not of the form"),
        ("my.py:", "is not of the form"),
        ("/nowhere/my.py:score", "there is no file /nowhere/my.py"),
        ("no_such_module_here:score", "there is no module no_such_module_here; for a file give its path"),
        ("lycosa.no_such:score", "there is no module lycosa.no_such"),
        ("{file}:missing", "has no function 'missing'"),
        ("{file}:number", "number in .* is not a function"),
        ("{file}:short", "short in .* must take url, depth, text, source"),
        ("..relative:score", "cannot be imported: TypeError"),
    ],
)
def test_mistakes_get_one_line(text: str, complaint: str, file: Path) -> None:
    with pytest.raises(ConfigError, match=f"^frontier.scorer: .*{complaint}") as raised:
        load_scorer(text.replace("{file}", str(file)))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("def score(:\n", r"SyntaxError: .* \(line 1\)"),
        ("import no_such_module_here\n", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("1/0\n", "ZeroDivisionError: division by zero"),
        ("\0", "(Syntax|Value)Error: "),
    ],
)
def test_a_file_that_cannot_be_loaded(source: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(source)
    with pytest.raises(ConfigError, match=rf"bad\.py cannot be loaded: {complaint}"):
        load_scorer(f"{path}:score")
