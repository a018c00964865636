"""The caching experiment: the trace is its plain form's, rates are the production caches', regions are found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.lab.experiments import caching_curves, caching_plain
from lycosa.lab.experiments.caching import run
from lycosa.lab.experiments.caching_curves import Curves, cross, machine_of, per_visit, region, trace
from lycosa.lab.experiments.web import Web, from_synthetic
from lycosa.seen.cache import ChainedCache, infinite_hits, min_hits
from lycosa.seen.cache_plain import PlainLru


def quiet(_: str) -> None:
    """Nobody listens."""


@pytest.fixture(scope="module")
def web() -> Web:
    return from_synthetic(1_000, 3, quiet)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 50), st.sampled_from([1, 2, 7, 40]), st.booleans(), st.sampled_from([1, 2, 4]))
def test_the_trace_is_that_of_its_plain_form(seed: int, visits: int, lifo: bool, machines: int) -> None:
    web = from_synthetic(120, seed, quiet)
    links = [web.lists[page].tolist() for page in range(web.pages)]
    made = trace(web, visits, machines=machines, repeats=0.0, lifo=lifo)
    machine = machine_of(web, machines)
    plain = caching_plain.trace(
        links,
        web.sites.tolist(),
        web.start.tolist(),
        visits,
        lifo,
        lambda _, targets: [[] for _ in targets],
        machine.tolist(),
        machines,
    )
    assert list(zip(made.links.tolist(), made.visits.tolist(), strict=True)) == plain
    own = np.flatnonzero(machine[web.sites] == 0)
    assert made.fetched == len(own) and len(made.links) == sum(len(links[page]) for page in own)
    assert (machine[made.origins] == 0).all()


def test_repeats_are_links_of_the_same_page_and_as_many_as_asked_for(web: Web) -> None:
    once, again = trace(web, 20, repeats=0.0), trace(web, 20)
    assert set(once.links.tolist()) == set(again.links.tolist())
    assert len(again.links) * (1 - caching_curves.REPEATS) == pytest.approx(len(once.links), rel=0.03)
    assert np.array_equal(trace(web, 20).links, again.links), "the same seed, another trace"


def test_what_crosses_leads_to_another_machine(web: Web) -> None:
    made = trace(web, 20, machines=caching_curves.PROCESSES)
    flags = cross(web, made)
    remote = web.sites[made.links] != made.origins
    assert flags.any() and not (flags & ~remote).any()
    # Of links to other sites three of four lead to another of four machines, sites being alike.
    assert remote.sum() == made.remote


@pytest.mark.parametrize("order", [0, 3, 6, 9])
def test_rates_are_those_of_caches_told_apart_before(web: Web, order: int) -> None:
    made = trace(web, 20)
    curves = Curves(web, made.links)
    keys = curves.keys
    assert curves.distinct == len(np.unique(keys))
    assert 1 - curves.infinite == pytest.approx(infinite_hits(keys) / len(keys))
    assert 1 - curves.rate("MIN", order) == pytest.approx(min_hits(keys, 1 << order) / len(keys))
    plain = PlainLru(1 << order)
    hits = sum(plain.request(key) for key in keys.tolist())
    assert 1 - curves.rate("LRU", order) == pytest.approx(hits / len(keys))
    rival = ChainedCache(1 << order).probe(keys, np.empty(len(keys), np.bool_))
    assert 1 - curves.rate("CLOCK", order) == pytest.approx(rival / len(keys), abs=0.02)
    assert curves.rate("MIN", order) <= min(curves.rate(name, order) for name in ("LRU", "CLOCK", "RANDOM"))


def test_time_is_cut_into_equal_parts(web: Web) -> None:
    curves = Curves(web, trace(web, 20).links)
    for policy in ("CLOCK", "INFINITE", "STATIC", "MIN"):
        parts = curves.over_time(policy, 6, points=10)
        whole = curves.infinite if policy == "INFINITE" else curves.rate(policy, 6)
        assert len(parts) == 10 and float(np.mean(parts)) == pytest.approx(whole, abs=0.01)
    assert curves.over_time("INFINITE", 6)[0] > curves.over_time("INFINITE", 6)[-1]


def test_one_visit_has_the_whole_cache(web: Web) -> None:
    made = trace(web, 1)
    assert made.in_use == 1
    assert per_visit(web, made, 1, 64) == pytest.approx(Curves(web, made.links).rate("CLOCK", 6))


def test_the_region_is_where_the_curve_falls() -> None:
    # The paper's Figure 2, as its text tells it.
    told = [0.95, 0.9, 0.85, 0.8, 0.75, *[0.7] * 10, 0.55, 0.4, 0.28, 0.2, *[0.19] * 7]
    assert region(told)[:2] == (14, 18)
    assert region(told).knee == 17


def test_a_run_says_all_there_is(web: Web) -> None:
    result = run(web, quiet)
    assert [figure.name for figure in result.figures] == [f"Figure {n}" for n in range(2, 12)]
    over_time = [{curve.name: curve.ys for curve in figure.curves} for figure in result.figures[-2:]]
    assert all(
        np.mean(made["INFINITE"]) <= np.mean(made["MIN"]) <= np.mean(made["LRU"]) for made in over_time
    )
    assert all(len(curve.xs) == len(curve.ys) > 0 for figure in result.figures for curve in figure.curves)
    assert {"start set", "ties", "seed", "hit"} <= result.definitions.keys()
    by_name = {line.what: line for line in result.lines}
    assert by_name["STATIC overtakes MIN in large caches (its loading is not charged)"].verdict == "holds"
    speed = by_name.pop("references a second, CLOCK at 2^16")
    assert speed.ours > 0 and speed.paper is None
    again = {line.what: line for line in run(web, quiet).lines}
    assert all(again[what].ours == line.ours for what, line in by_name.items()), (
        "not the same from the same seed"
    )
