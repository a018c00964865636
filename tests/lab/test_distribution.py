"""Splitters: hosts stay whole, what crosses is counted, shares are fair."""

from __future__ import annotations

import numpy as np
import pytest

from lycosa.lab.experiments.distribution import (
    FAR,
    NEAR,
    REGIONS,
    SPLITTERS,
    STRAY,
    cost,
    regions,
    run,
    split,
)
from lycosa.lab.experiments.web import Web, from_synthetic


def quiet(_: str) -> None:
    """Nobody listens."""


@pytest.fixture(scope="module")
def web() -> Web:
    return from_synthetic(20_000, 3, quiet)


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_costs_are_those_of_a_count_one_by_one(web: Web, splitter: str) -> None:
    of = split(web, splitter, 4).tolist()
    links = [(page, int(to)) for page in range(web.pages) for to in web.lists[page]]
    found = cost(web, splitter, 4, cached=True)
    assert found.crossing == pytest.approx(sum(of[a] != of[b] for a, b in links) / len(links))
    asked: dict[int, set[int]] = {}
    for page, node in enumerate(of):
        asked.setdefault(int(web.sites[page]), set()).add(node)
    assert found.lookups == pytest.approx(np.mean([len(nodes) for nodes in asked.values()]))
    assert found.shared == pytest.approx(np.mean([len(nodes) > 1 for nodes in asked.values()]))
    assert 0 < found.sent < found.crossing
    # The caches hold every page here, so each node sends each link to another once.
    assert found.sent == pytest.approx(len({(of[a], b) for a, b in links if of[a] != of[b]}) / len(links))
    assert set(of) == {0, 1, 2, 3}
    stands = regions(web)[1][web.sites].tolist()
    ways = [NEAR if node == place else FAR for node, place in zip(of, stands, strict=True)]
    assert found.way == pytest.approx(np.mean(ways))


def test_hosts_and_domains_stay_whole(web: Web) -> None:
    for splitter in ("host", "domain", "names", "place"):
        of = split(web, splitter, 16)
        assert all(len(np.unique(of[web.sites == site])) == 1 for site in range(0, len(web.homes), 7))
    by_domain = split(web, "domain", 16)
    domains = web.domains[web.sites]
    assert all(len(np.unique(by_domain[domains == one])) == 1 for one in np.unique(domains)[:20])


@pytest.mark.parametrize("nodes", [1, 2, 4, 6, 16])
def test_a_site_goes_to_a_node_of_the_region_of_its_name(web: Web, nodes: int) -> None:
    told, stands = regions(web)
    shares = np.bincount(told) / len(told)
    assert shares == pytest.approx(REGIONS, abs=0.01)
    assert np.mean(told != stands) == pytest.approx(STRAY * 3 / 4, abs=0.05)
    of = split(web, "place", nodes)
    assert of.max() < nodes and (of % len(REGIONS) == told[web.sites] % nodes % len(REGIONS)).all()
    assert len(np.unique(of)) == nodes, "a node has nothing to do"


def test_a_run_compares_them(web: Web) -> None:
    result = run(web, quiet)
    by_name = {line.what: line.ours for line in result.lines}
    assert by_name["URL, 4 nodes: links that cross"] == pytest.approx(0.75, abs=0.02)
    assert by_name["host, 4 nodes: links that cross"] < 0.25
    assert by_name["domain, 4 nodes: links that cross"] <= by_name["host, 4 nodes: links that cross"] + 0.02
    assert by_name["no host is asked by two nodes, split by host, domain, names or place"] is True
    # What it is for, and what it costs.
    assert (
        by_name["place, 4 nodes: on the way of a request"] < by_name["host, 4 nodes: on the way of a request"]
    )
    assert by_name["place, 4 nodes: the largest node over the mean"] > 1.3
    assert len(result.figures) == 3
