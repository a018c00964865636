from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.errors import ConfigError
from lycosa.frontier.orders.order import Order, Ranking, Sighting
from lycosa.frontier.orders.ranked import (
    WORST,
    BatchOrder,
    Judging,
    Noted,
    OptimalOrder,
    PartialOrder,
    RankedOrder,
    Ranks,
    find,
    host_name,
    is_home,
    plan_levels,
)
from lycosa.frontier.orders.rows import Rows
from lycosa.frontier.orders.shares import PlainShares, Shares
from lycosa.records import Waiting
from lycosa.url.key import Keyer, Keys
from lycosa.url.parts import host_of

KEYER = Keyer(7)


def page(name: str, depth: int = 1, host: str = "a.test") -> Waiting:
    url = f"http://{host}/{name}"
    return Waiting(url, KEYER.key(url), depth)


def keys_of(*items: Waiting) -> Keys:
    return np.array([item.key for item in items], np.uint64)


def ranks_of(ranks: dict[Waiting, float], done: list[Waiting] | None = None) -> Ranks:
    items = sorted(ranks, key=lambda item: item.key)
    values = np.array([ranks[item] for item in items], np.float32)
    return Ranks(keys_of(*items), values, np.sort(keys_of(*(done or []))))


def host_ranks_of(ranks: dict[str, float]) -> Ranks:
    names = {name_of(host): rank for host, rank in ranks.items()}
    keys = sorted(names)
    values = np.array([names[key] for key in keys], np.float32)
    return Ranks(np.array(keys, np.uint64), values, np.empty(0, np.uint64), by_host=True)


def name_of(host: str) -> int:
    return int(host_name(np.array([KEYER.host_hash(host)], np.uint64))[0])


def noted(source: Waiting, *links: Waiting, start: bool = False) -> Noted:
    hosts = np.array([name_of(host_of(link.url)) for link in links], np.uint64)
    return Noted(source.key, name_of(host_of(source.url)), keys_of(*links), hosts, start)


def sighting(source: Waiting, links: int, found: int = 1) -> Sighting:
    return Sighting(source.url, source.key, links, [""] * found)


def level(order: Order, item: Waiting, seen_on: Sighting | None = None) -> int:
    (found,) = order.levels([item], seen_on)
    return found


# -- ranks become levels


def test_the_best_k_that_are_not_done_share_the_first_levels() -> None:
    pages = [page(f"{n}") for n in range(10)]
    ranks = {item: float(10 - n) for n, item in enumerate(pages)}  # 10, 9 … 1
    plan = plan_levels(ranks_of(ranks, done=[pages[0], pages[2]]), batch=4)
    levels = dict(zip(plan.ranks.keys.tolist(), plan.levels.tolist(), strict=True))
    of = [levels[item.key] for item in pages]
    # The batch is pages 1, 3, 4, 5: four parts of the levels 0 … 126. The rest, 6 to 9, four of 127 … 254.
    assert [of[n] for n in (1, 3, 4, 5)] == [0, 31, 63, 95]
    assert [of[n] for n in (6, 7, 8, 9)] == [127, 159, 191, 223]
    assert plan.batch == 4
    assert plan.middle == 5.5


def test_equal_ranks_have_equal_levels_and_better_ones_never_later() -> None:
    rng = random.Random(1)
    for size in (1, 2, 50, 126, 127, 128, 1000):
        pages = [page(f"{n}") for n in range(size)]
        ranks = {item: rng.choice([1.0, 2.0, 3.0, rng.random()]) for item in pages}
        plan = plan_levels(ranks_of(ranks), batch=rng.randint(1, 2 * size))
        order = np.argsort(-plan.ranks.values, kind="stable")
        assert (np.diff(plan.levels[order].astype(int)) >= 0).all()
        assert plan.levels[order][0] == 0
        assert plan.levels.max() <= 254
        for value in np.unique(plan.ranks.values):
            assert len(set(plan.levels[plan.ranks.values == value].tolist())) == 1


def test_levels_use_the_whole_range() -> None:
    pages = [page(f"{n}") for n in range(2550)]
    plan = plan_levels(ranks_of({item: float(n) for n, item in enumerate(pages)}), batch=1270)
    counts = np.bincount(plan.levels, minlength=256)
    assert counts[:127].tolist() == [10] * 127
    assert counts[127:255].tolist() == [10] * 128
    assert counts[255] == 0


def test_plans_of_nothing_and_of_pages_that_are_all_done() -> None:
    empty = plan_levels(ranks_of({}), 10)
    assert empty.batch == 0
    item = page("x")
    done = plan_levels(ranks_of({item: 1.0}, done=[item]), 10)
    assert (done.batch, done.levels.tolist()) == (0, [254])


def test_find() -> None:
    table = np.array([3, 5, 9], np.uint64)
    found, at = find(table, np.array([9, 4, 3, 10, 0], np.uint64))
    assert found.tolist() == [True, False, True, False, False]
    assert at[found].tolist() == [2, 0]
    assert find(table[:0], table)[0].tolist() == [False] * 3


def test_home_pages() -> None:
    assert is_home("http://a.test/")
    assert not is_home("http://a.test/x/")
    assert not is_home("http://a.test/x")
    assert not is_home("http://a.test/?q=/")


# -- batch (§6.3)


def test_batch_is_an_order_that_wants_ranks() -> None:
    for order in (BatchOrder(10, KEYER), PartialOrder(10, KEYER, 16)):
        assert isinstance(order, RankedOrder)
        assert order.ranking is Ranking.LEVEL
        assert order.rank("a.test", 5, 17) == 17.0


def test_batch_before_the_first_ranks_is_breadth_first_with_home_pages_in_front() -> None:
    order = BatchOrder(10, KEYER)
    items = [page("seed", 0), page("x", 1), page("y", 7), page("deep", 1000), page("", 3, "b.test")]
    assert order.levels(items, None) == [0, 1, 7, 254, 0]


def test_batch_what_is_found_between_calculations_is_last() -> None:
    order = BatchOrder(2, KEYER)
    good, fair, poor, new = page("good"), page("fair"), page("poor"), page("new", 0)
    levels = order.adopt(order.planner()(ranks_of({good: 3.0, fair: 2.0, poor: 1.0})))
    assert levels.other == WORST
    assert dict(zip(levels.keys.tolist(), levels.levels.tolist(), strict=True)) == {
        good.key: 0,
        fair.key: 63,
        poor.key: 127,
    }
    order.note(noted(good, new))  # a link from the best page changes nothing before the next calculation
    assert level(order, new, sighting(good, 1)) == WORST
    # What had a rank and comes in only now (it was left behind, or deferred) has its level.
    assert order.levels([new, fair, poor], None) == [WORST, 63, 127]
    order.adopt(order.planner()(ranks_of({good: 1.0, new: 9.0})))
    assert order.levels([new, good, fair], None) == [0, 63, WORST]


def test_a_crawl_that_goes_on_puts_nothing_before_what_was_ranked() -> None:
    for order in (BatchOrder(2, KEYER), PartialOrder(2, KEYER, 16)):
        order.resume()
        assert order.levels([page("x", 1), page("", 1)], None) == [WORST, WORST]


def test_ranks_and_the_lower_half() -> None:
    order = BatchOrder(2, KEYER)
    pages = [page(f"{n}") for n in range(4)]
    assert order.rank_of(pages[0].key) is None
    assert not order.is_low(pages[0].key)
    order.adopt(order.planner()(ranks_of({item: float(n + 1) for n, item in enumerate(pages)})))
    assert [order.rank_of(item.key) for item in pages] == [1.0, 2.0, 3.0, 4.0]
    assert [order.is_low(item.key) for item in pages] == [True, True, False, False]
    assert order.rank_of(page("unknown").key) is None
    assert not order.is_low(page("unknown").key)


# -- partial (§6.3)


def test_partial_before_the_first_ranks_shares_what_home_pages_start_with() -> None:
    order = PartialOrder(100, KEYER, 1 << 10)
    seed, other = page("", 0), page("", 0, "b.test")
    one, both = page("one"), page("both")
    order.note(noted(seed, one, both, start=True))  # half of 1 each
    order.note(noted(other, both, start=True))  # 1 more
    assert level(order, seed) == 0
    assert level(order, one) == 8  # one halving
    assert level(order, both) == 0  # 1.5
    # A page without a rank of its own hands on its temporary one.
    child = page("child", 2)
    order.note(noted(one, child, page("sibling", 2)))
    assert level(order, child) == 16


def test_partial_gives_new_pages_the_sum_of_the_shares_of_those_that_point_to_them() -> None:
    order = PartialOrder(50, KEYER, 1 << 10)
    known = [page(f"{n}") for n in range(100)]
    ranks = {item: (100 - n) / 5050 for n, item in enumerate(known)}
    levels = order.adopt(order.planner()(ranks_of(ranks)))
    assert levels.other == -1
    new = page("new")
    order.note(noted(known[20], new, page("other")))  # 80/5050, in two: as good as rank 40
    assert level(order, new) == level(order, known[60])
    order.note(noted(known[60], new))  # and 40 more: as good as rank 80
    assert level(order, new) == level(order, known[20])
    # A page found now from a page without a rank: through its temporary one (80/5050, in four).
    child = page("child", 3)
    order.note(noted(new, child, page("i"), page("j"), page("k")))
    assert level(order, child) == level(order, known[80])
    # What has a rank keeps it, whoever points to it.
    before = level(order, known[99])
    order.note(noted(known[0], known[99]))
    assert level(order, known[99]) == before


def test_partial_knows_only_the_sighting_if_the_page_was_not_noted() -> None:
    order = PartialOrder(50, KEYER, 1 << 10)
    known = [page(f"{n}") for n in range(100)]
    order.adopt(order.planner()(ranks_of({item: (100 - n) / 5050 for n, item in enumerate(known)})))
    new = page("new")
    assert level(order, new, sighting(known[20], 2)) == level(order, known[60])
    assert level(order, new) == WORST  # nothing was remembered: levels may be asked for twice
    # A page that nobody knows anything of has the least rank there is.
    assert level(order, new, sighting(page("unknown"), 1)) == level(order, known[99])


def test_partial_temporary_ranks_end_with_the_calculation() -> None:
    order = PartialOrder(50, KEYER, 1 << 10)
    source, new = page("source"), page("new")
    order.adopt(order.planner()(ranks_of({source: 1.0})))
    order.note(noted(source, new))
    assert level(order, new) == 0
    order.adopt(order.planner()(ranks_of({source: 1.0})))
    assert level(order, new) == WORST
    seed = page("seed", 0)  # a seed given later starts with the mean
    assert level(order, seed) == 0


# -- ranks of hosts


def test_ranks_by_host_level_urls_by_their_host() -> None:
    for order in (BatchOrder(1, KEYER), PartialOrder(1, KEYER, 1 << 10)):
        ranks = host_ranks_of({"a.test": 0.1, "b.test": 0.7, "c.test": 0.2, "d.test": 0.05})
        levels = order.adopt(order.planner()(ranks))
        assert (len(levels.keys), levels.other, levels.by_host) == (4, order.other, True)
        items = [
            page("1", 1, "a.test"),
            page("2", 1, "b.test"),
            page("3", 1, "c.test"),
            page("4", 1, "d.test"),
        ]
        first, second, third, fourth = (level(order, items[n]) for n in (1, 2, 0, 3))
        assert 0 == first < second < 127 <= third < fourth < WORST
        assert level(order, page("x", 1, "new.test")) == WORST
        assert [order.is_low(item.key) for item in items] == [True, False, False, True]
        assert not order.is_low(page("x", 1, "new.test").key)
        assert order.rank_of(items[0].key) is None


def test_partial_by_host_gives_new_hosts_a_share() -> None:
    order = PartialOrder(1, KEYER, 1 << 10)
    order.adopt(order.planner()(host_ranks_of({"a.test": 0.6, "b.test": 0.3, "c.test": 0.1})))
    source, link = page("s", 1, "a.test"), page("t", 1, "new.test")
    order.note(noted(source, link, page("u", 1, "b.test")))
    assert level(order, link) == level(order, page("any", 1, "b.test"))
    late = page("t", 1, "late.test")
    assert level(order, late, sighting(source, 6)) == level(order, page("any", 1, "c.test"))


# -- tables


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 40), max_size=12), st.floats(1e-9, 1.0)), max_size=30),
    st.lists(st.integers(0, 40), max_size=5),
)
def test_shares_equal_the_plain_form(adds: list[tuple[list[int], float]], ranked: list[int]) -> None:
    packed, plain = Shares(32), PlainShares(32)
    table = np.unique(np.array(ranked, np.uint64))
    for keys, share in adds:
        for shares in (packed, plain):
            shares.add(np.array(keys, np.uint64), share, table)
        assert len(packed) == len(plain)
    everything = np.arange(50, dtype=np.uint64)
    assert np.allclose(packed.read(everything), plain.read(everything))
    assert packed.refused == plain.refused
    packed.clear()
    assert not len(packed)
    assert not packed.read(everything).any()


def test_shares_are_bounded() -> None:
    shares = Shares(1 << 8)
    before = shares.nbytes
    shares.add(np.arange(1000, dtype=np.uint64), 0.5, np.empty(0, np.uint64))
    assert (len(shares), shares.refused, shares.nbytes) == (192, 808, before)
    with pytest.raises(ValueError, match="power of two"):
        Shares(100)


@given(
    st.lists(
        st.one_of(
            st.lists(st.integers(0, 99), max_size=20),  # append
            st.integers(0, 99),  # one row
            st.just("cut"),
            st.just("replace"),
        ),
        max_size=40,
    )
)
def test_rows_are_a_list_whose_cuts_never_change(steps: list[list[int] | int | str]) -> None:
    rows, plain = Rows(np.uint64, 8), list[int]()
    cut: tuple[list[np.ndarray], list[int]] = ([], [])
    for step in steps:
        if step == "cut":
            cut = rows.cut(), list(plain)
        elif step == "replace":
            count = len(cut[1])
            rows.replace(count, np.array(sorted(set(cut[1])), np.uint64))
            plain[:count] = sorted(set(cut[1]))
            cut = [], []
        elif isinstance(step, int):
            rows.add(step)
            plain.append(step)
        elif isinstance(step, list):
            assert rows.nbytes + rows.cost(len(step)) >= 8 * (len(plain) + len(step))
            expected = rows.nbytes + rows.cost(len(step))
            rows.append(np.array(step, np.uint64))
            assert rows.nbytes == expected
            plain += step
        assert rows.whole().tolist() == plain
        assert len(rows) == len(plain)
        assert [row for chunk in cut[0] for row in chunk.tolist()] == cut[1]


# -- optimal (§6.3)

ORACLE = b"""# ranks of an earlier crawl
0.5 http://a.test/best
0.25\thttp://A.test:80/good#part

  1e-3   http://a.test/poor
-4 http://a.test/worst
0.1 http://a.test/good
"""


def test_optimal_goes_by_the_oracle(tmp_path: Path) -> None:
    path = tmp_path / "ranks.txt"
    path.write_bytes(ORACLE)
    order = OptimalOrder.load(path, KEYER)
    assert isinstance(order, Judging)
    assert not isinstance(order, RankedOrder)
    assert order.ranking is Ranking.LEVEL
    best, good, poor, worst = (page(name) for name in ("best", "good", "poor", "worst"))
    levels = order.levels([best, good, poor, worst, page("unknown", 0)], None)
    assert levels[0] == 0
    assert levels == sorted(levels)
    assert len(set(levels)) == 5
    assert levels[-1] == WORST
    assert order.rank("a.test", 1, 3) == 3.0
    assert order.rank_of(good.key) == 0.25  # the higher of two
    assert [order.is_low(item.key) for item in (best, good, poor, worst)] == [False, False, True, True]
    assert order.rank_of(page("unknown").key) is None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"http://a.test/", "a rank and a URL"),
        (b"0.5 http://a.test/ more", "a rank and a URL"),
        (b"high http://a.test/", "'high' is not a number"),
        (b"nan http://a.test/", "'nan' is not a rank"),
        (b"1e300 http://a.test/", "'1e300' is not a rank"),
        (b"0.5 not-a-url", "'not-a-url' is not a URL"),
        (b"\xff\x00 \xfe", "is not a number"),
    ],
)
def test_optimal_names_the_line_that_is_wrong(line: bytes, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"^oracle line 3: .*{complaint}"):
        OptimalOrder.parse([b"# ranks\n", b"1 http://a.test/x\n", line + b"\n"], KEYER)


def test_optimal_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"frontier\.oracle: cannot read .*none\.txt: No such file"):
        OptimalOrder.load(tmp_path / "none.txt", KEYER)
    assert OptimalOrder.parse([], KEYER).levels([page("x")], None) == [WORST]


@given(st.lists(st.binary(max_size=40) | st.sampled_from(ORACLE.splitlines()), max_size=6))
def test_optimal_takes_any_bytes(lines: list[bytes]) -> None:
    try:
        order = OptimalOrder.parse(lines, KEYER)
    except ConfigError as error:
        assert "\n" not in str(error)
    else:
        assert 0 <= level(order, page("best")) <= WORST
