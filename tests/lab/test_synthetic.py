"""The synthetic web: the same from the same seed, every page within reach, and of the shape that it says."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from lycosa.errors import ConfigError
from lycosa.graph.bv import BVGraph
from lycosa.graph.bv_writer import BVWriter
from lycosa.lab.experiments import synthetic
from lycosa.lab.experiments.sydney import reach
from lycosa.lab.experiments.synthetic_fit import distance, fitted
from lycosa.lab.experiments.web import from_synthetic, guessed_sites
from lycosa.lab.faults import FaultyFiles


def quiet(_: str) -> None:
    """Nobody listens."""


def test_it_follows_from_the_seed() -> None:
    one, same, other = (synthetic.draw(3_000, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.lists.nodes, same.lists.nodes)
    assert np.array_equal(one.lists.starts, same.lists.starts)
    assert not np.array_equal(one.lists.nodes[:500], other.lists.nodes[:500])


@pytest.mark.parametrize("pages", [100, 171, 5_000])
def test_lists_are_in_order_and_every_page_is_reached_from_its_home(pages: int) -> None:
    drawn = synthetic.draw(pages, 5)
    lists, bounds = drawn.lists, drawn.bounds
    assert bounds[0] == 0 and bounds[-1] == pages == lists.count and (np.diff(bounds) > 0).all()
    for page in range(pages):
        targets = lists[page]
        assert (np.diff(targets) > 0).all() and page not in targets
        assert not len(targets) or (targets[0] >= 0 and targets[-1] < pages)
    for first, last in pairwise(bounds):
        assert (reach(lists, np.array([first]))[first:last] >= 0).all()


def test_the_shape_is_that_of_the_web() -> None:
    web = from_synthetic(100_000, 1, quiet)
    fit = synthetic.fit(web.lists, web.sites)
    assert fit["links that stay on their site"] == pytest.approx(0.81, abs=0.02)
    assert 8 < fit["links a page"] < 14
    assert 0.4 < fit["pages of more than 8 links"] < 0.65
    assert 2 < fit["exponent of in-degrees"] < 3 and 2 < fit["exponent of out-degrees"] < 3.5
    assert fit["neighbours that share a link"] > 0.5, "no neighbourhood is copied"
    assert web.head()["pages"] == 100_000


def test_neighbours_share_a_link_if_their_lists_meet() -> None:
    lists = synthetic.draw(1_000, 4).lists
    meet = [len(np.intersect1d(lists[page], lists[page - 1])) > 0 for page in range(1, 1_000)]
    found = synthetic.fit(lists, np.zeros(1_000, np.int32))["neighbours that share a link"]
    assert found == round(sum(meet) / 999, 3) and 0 < sum(meet) < 999


def test_a_web_is_fitted_to_another() -> None:
    other = replace(synthetic.Shape(), knee=30.0, remote=0.05, copy=0.85, none=0.2, per_site=30.0)
    drawn = synthetic.draw(3_000, 7, other)
    sites = synthetic.sites_of(drawn)
    wanted = synthetic.fit(drawn.lists, sites)
    shape = fitted(drawn.lists, sites, 1, quiet, sample=1_000)
    assert shape.none == wanted["pages without links"] and shape.per_site == pytest.approx(30, rel=0.1)
    assert distance(shape, 1, wanted, 1_000) < 0.3 * distance(synthetic.Shape(), 1, wanted, 1_000)
    again = synthetic.draw(3_000, 8, shape)
    found = synthetic.fit(again.lists, synthetic.sites_of(again))
    for measure in ("links a page", "links that stay on their site", "bits a link"):
        assert found[measure] == pytest.approx(wanted[measure], rel=0.25), measure


def test_bits_of_a_link_are_those_of_the_graph_as_it_is_written() -> None:
    lists = synthetic.draw(2_000, 3).lists
    files = FaultyFiles()
    writer = BVWriter(files, "g")
    writer.append(lists.starts, lists.nodes)
    writer.close()
    whole = BVGraph.open(files, "g").bits / len(lists.nodes)
    assert synthetic.bits_a_link(lists) == pytest.approx(whole)


def test_an_exponent_is_found_again() -> None:
    u = np.random.default_rng(1).random(200_000)
    values = (10 * (1 - u) ** (-1 / 1.1)).astype(np.int64)
    assert synthetic.tail_exponent(values) == pytest.approx(2.1, abs=0.1)


def test_sites_are_guessed_where_links_end() -> None:
    drawn = synthetic.draw(2_000, 5, synthetic.Shape(remote=0.0))
    cuts = np.flatnonzero(np.diff(guessed_sites(drawn.lists))) + 1
    # Sites of one page still link abroad, and such links may pass over others' ends.
    found = set(cuts.tolist()) & set(drawn.bounds[1:-1].tolist())
    assert len(found) > 0.9 * len(cuts), "sites are cut apart"


def test_too_small_a_web_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 100"):
        from_synthetic(99, 1, quiet)
