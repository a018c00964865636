"""The scheduling experiment: the kernel, its plain twin and a production frontier fetch the same pages in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.clock import ManualClock
from lycosa.frontier.orders.order import LengthOrder, Order, Ranking, Sighting
from lycosa.frontier.packed.frontier import PackedFrontier
from lycosa.frontier.plain import PlainFrontier
from lycosa.frontier.protocol import Frontier
from lycosa.graph.bv import Lists
from lycosa.graph.pagerank import pagerank
from lycosa.lab.experiments import scheduling_kernels as kernels
from lycosa.lab.experiments import scheduling_plain as plain
from lycosa.lab.experiments.scheduling import run
from lycosa.lab.experiments.scheduling_bandwidths import predicted_bandwidths
from lycosa.lab.experiments.scheduling_frontier import FrontierScheduler
from lycosa.lab.experiments.scheduling_sim import KINDS, Setting, simulate
from lycosa.lab.experiments.web import Web, from_synthetic
from lycosa.records import Waiting


def quiet(_: str) -> None:
    """Nobody listens."""


def web_of(seed: int, pages: int = 150) -> Web:
    return from_synthetic(pages, seed, quiet)


def links_of(web: Web) -> list[list[int]]:
    return [web.lists[page].tolist() for page in range(web.pages)]


def oracle_of(web: Web) -> np.ndarray:
    return pagerank(web.lists).values


class Ranks:
    """What the kernel calculates, going on where it ended, as a dictionary."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._fetched = self._known = 0
        self._values, self._left = np.zeros(web.pages), np.zeros(web.pages)
        self._giving, self._line = np.zeros(web.pages, np.int8), np.zeros(web.pages, np.int32)

    def __call__(self, fetched: list[int], known: list[int]) -> dict[int, float]:
        kernels.rank_known(
            self._web.lists.starts, self._web.lists.nodes,
            np.array(fetched, np.int32), self._fetched, len(fetched),
            np.array(known, np.int32), self._known, len(known),
            self._values, self._left, self._giving, self._line,
        )  # fmt: skip
        self._fetched, self._known = len(fetched), len(known)
        return {page: float(self._values[page]) for page in known}


def as_plain(web: Web, setting: Setting, scheduler: plain.Scheduler) -> list[tuple[int, float, int]]:
    return plain.crawl(
        links_of(web),
        np.unique(web.start).tolist(),
        web.sizes.tolist(),
        web.latency.tolist(),
        web.bandwidth.tolist(),
        setting,
        scheduler,
    )


SETTINGS = st.builds(
    Setting,
    order=st.sampled_from(list(KINDS)),
    r=st.sampled_from([1, 2, 7, 64]),
    c=st.sampled_from([1, 3]),
    w=st.sampled_from([0.5, 15.0]),
    link=st.sampled_from([2_000.0, 60_000.0, 1e12]),
    between=st.sampled_from([10, 40]),
    stop=st.sampled_from([0.0, 0.25, 1.0]),
    fill=st.sampled_from([0.0, 0.5, 2.0]),
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 30), SETTINGS)
def test_kernel_and_plain_twin_are_one(seed: int, setting: Setting) -> None:
    web = web_of(seed)
    oracle = oracle_of(web)
    made = simulate(web, setting, oracle)
    scheduler = plain.PlainScheduler(setting, links_of(web), web.sites.tolist(), oracle.tolist(), Ranks(web))
    rows = as_plain(web, setting, scheduler)
    assert sorted(made.pages.tolist()) == list(range(web.pages)), "a page was lost, or came twice"
    assert made.pages.tolist() == [page for page, _, _ in rows]
    assert made.times == pytest.approx([when for _, when, _ in rows])
    assert made.active.tolist() == [count for _, _, count in rows]


def page_of(item: Waiting) -> int:
    return int(item.url.rpartition("/")[2])


class LevelOrder:
    """Levels that are given, and sites by their lowest: how the thesis orders two levels by one measure."""

    ranking = Ranking.LEVEL
    bias = 0
    sighted = False

    def __init__(self, of: Sequence[int]) -> None:
        self._of = of

    def levels(self, items: Sequence[Waiting], sighting: Sighting | None) -> list[int]:
        return [self._of[page_of(item)] if self._of else min(item.depth, 255) for item in items]

    def rank(self, host: str, queued: int, level: int) -> float:
        return float(level)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["length", "depth", "optimal"])
@pytest.mark.parametrize("setting", [Setting("length"), Setting("length", r=9, c=2, link=50_000.0)])
def test_a_production_frontier_fetches_the_same_pages(setting: Setting, name: str, packed: bool) -> None:
    setting = setting._replace(order=name)  # type: ignore[arg-type]
    for seed in range(4):
        web = web_of(seed)
        # A level for each rank: so there are no more pages than levels, and no two alike.
        oracle = oracle_of(web)
        oracle = oracle + np.arange(web.pages) * 1e-12
        places = np.argsort(np.argsort(-oracle)).tolist()
        order: Order = LengthOrder() if name == "length" else LevelOrder(places if name == "optimal" else [])
        clock = ManualClock()
        frontier: Frontier = PackedFrontier(clock, order) if packed else PlainFrontier(clock, order)
        rows = as_plain(web, setting, FrontierScheduler(frontier, order, web))
        made = simulate(web, setting, oracle)
        assert made.pages.tolist() == [page for page, _, _ in rows]
        assert made.times == pytest.approx([when for _, when, _ in rows])


def test_a_site_is_left_alone_and_the_link_is_not_overrun() -> None:
    web = web_of(3, 2_000)
    setting = Setting("length", r=64, link=300_000.0)
    made = simulate(web, setting, oracle_of(web))
    assert made.times[-1] >= web.sizes.sum() / setting.link, "faster than the link"
    for site in range(len(web.homes)):
        times = made.times[web.sites[made.pages] == site]
        assert (np.diff(times) > setting.w).all()
    assert made.active.max() <= 64


def test_pages_of_a_batch_are_fetched_and_nothing_else() -> None:
    web = web_of(4, 1_000)
    only = np.arange(0, 1_000, 7)
    made = simulate(web, Setting("depth", r=8, c=100), oracle_of(web), only=only)
    assert sorted(made.pages.tolist()) == only.tolist()


def test_ranks_that_grow_with_the_crawl_are_pagerank() -> None:
    web = web_of(5, 500)
    ranks, pages = Ranks(web), list(range(web.pages))
    for end in (1, 3, 200, 450):  # all pages are known, and ever more of them fetched
        ranks(pages[:end], pages)
        values = np.array(list(ranks(pages[:end], pages).values()))
        cut = web.lists.starts.copy()
        cut[end:] = cut[end]
        exact = pagerank(Lists(cut, web.lists.nodes[: cut[-1]]), tolerance=1e-9).values
        assert np.abs(values / values.sum() - exact).sum() < 0.01


def test_a_run_has_every_table_and_figure() -> None:
    web = web_of(6, 1_500)
    result = run(web, quiet)
    names = [figure.name for figure in result.figures]
    assert names == [f"Figure 6.{n}" for n in (3, 5, 6, 7, 8, 9, 10, 11, 12)]
    table = [line for line in result.lines if line.where == "Table 6.1"]
    assert len(table) == 18 and table[0].ours == 1.0
    # A link that carries less than one connection takes is no faster with more of them.
    slow = [line.ours for line in table if "at 200 B/s" in line.what]
    assert max(slow) < 1.1 * min(slow) and all(
        "carry" in line.why for line in table if "200 B/s, r=256" in line.what
    )
    by_name = {line.what: line for line in result.lines}
    assert by_name["time of a batch with c=1 over c=100, 20 kB/s"].ours > 0
    assert by_name["pages"].ours == web.pages and by_name["successful downloads"].verdict == "close"
    busy = [by_name[f"connections in use over a batch, {speed} kB/s"].ours for speed in (2, 20)]
    assert by_name["most connections are idle most of the time"].ours == all(share < 0.5 for share in busy)
    assert by_name["start pages have a low PageRank on average: below that of all pages"].ours is False
    apart = by_name["r=1: over the last fifth of the pages all but Length differ at most by"].ours
    assert 0 < apart < 0.2
    for figure in result.figures[1:3]:
        assert all(curve.ys[-1] == pytest.approx(1.0) for curve in figure.curves)
    assert [line.ours for line in run(web, quiet).lines] == [line.ours for line in result.lines]


def test_a_recorded_crawl_stands_beside_its_simulation() -> None:
    web = web_of(7, 600)
    made = simulate(web, Setting("length", r=64), oracle_of(web))
    for order, apart in ((made.pages, 0.0), (made.pages[::-1], 0.1)):
        own = {"order": "depth", "r": 3, "c": 2, "w": 0.5}
        recorded = replace(web, recorded=order.astype(np.int64), speeds=np.full(len(order), 9.0), own=own)
        result = run(recorded, quiet)
        line, other = (line for line in result.lines if line.where == "Fig. 6.13")
        assert other.ours > 0.01 and "as it was crawled" in other.what
        assert line.ours == pytest.approx(0.0, abs=1e-9) if not apart else line.ours > apart
        assert result.figures[-1].name == "Figure 6.13"


def test_bandwidths_of_sites_are_predicted_from_what_they_were() -> None:
    steady = predicted_bandwidths([0, 1, 0, 1, 0, 1], [10.0, 80.0, 10.0, 80.0, 10.0, 80.0])
    assert steady["the site's last page"] == steady["the mean of all the site's"] == pytest.approx(1.0)
    assert steady["the median of all sites' last hundred"] > 2
    jumpy = predicted_bandwidths([0] * 8, [10.0, 40.0] * 4)
    assert jumpy["the site's last page"] == pytest.approx(4.0)
    assert jumpy["the mean of all the site's"] < 4
    assert predicted_bandwidths([0, 0, 1], [5.0, 0.0, 7.0]) == {}, "nothing came before"


def test_a_batch_that_is_stopped_does_not_wait_for_its_last_site() -> None:
    web = web_of(3, 2_000)
    whole = Setting("batch", r=64, between=100)
    slow, quick = (simulate(web, whole._replace(stop=stop), oracle_of(web)) for stop in (0.0, 0.25))
    assert sorted(quick.pages.tolist()) == sorted(slow.pages.tolist())
    assert quick.times[1_000] < slow.times[1_000] and quick.calculated >= slow.calculated


def test_connections_are_adjusted_to_what_their_sites_bring() -> None:
    web = web_of(3, 2_000)
    every = Setting("length", r=64, w=0.5, link=200_000.0)
    all_, few = (simulate(web, every._replace(fill=fill), oracle_of(web)) for fill in (0.0, 2.0))
    assert sorted(few.pages.tolist()) == sorted(all_.pages.tolist())
    assert few.active.mean() < 0.6 * all_.active.mean(), "the link was full before"
    assert few.times[1_000] < 1.2 * all_.times[1_000], "and is as full with fewer"
