"""PageRank, centrality and statistics, against NetworkX and SciPy."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.errors import ConfigError
from lycosa.files import DiskFiles
from lycosa.graph.bv import BVGraph, Lists
from lycosa.graph.pagerank import harmonic, pagerank, top
from lycosa.graph.stats import measure, reach, weak_components
from tests.graph.samples import as_lists, web
from tests.graph.test_bv import Parameters, write


def digraph(rows: list[list[int]]) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(rows)))
    graph.add_edges_from((x, y) for x, row in enumerate(rows) for y in row)
    return graph


def compressed(path: Path, rows: list[list[int]]) -> BVGraph:
    write(path, rows, Parameters())
    return BVGraph.open(DiskFiles(path), "g")


@pytest.mark.parametrize("seed", range(4))
def test_pagerank_is_that_of_networkx(tmp_path: Path, seed: int) -> None:
    rows = web(150, seed)
    graph = compressed(tmp_path, rows)
    expected = nx.pagerank(digraph(rows), alpha=0.85, tol=1e-15, max_iter=1000)
    for form in (graph, graph.csr()):
        ranks = pagerank(form, tolerance=1e-13, iterations=1000)
        assert ranks.converged
        assert max(abs(ranks.values[x] - value) for x, value in expected.items()) < 1e-9
        assert ranks.values.sum() == pytest.approx(1, abs=1e-12)
    # It converges as it must: each step's change is at most the damping times the one before.
    for a, b in zip(ranks.history, ranks.history[1:], strict=False):
        assert b <= 0.85 * a + 1e-15


def test_pagerank_personal_and_dangling(tmp_path: Path) -> None:
    rows = web(120, 9)
    assert any(not row for row in rows)
    graph, theirs = compressed(tmp_path, rows), digraph(rows)
    weights = np.zeros(120)
    weights[[3, 50]] = [2.0, 1.0]
    person = {x: weights[x] for x in (3, 50)}
    expected = nx.pagerank(theirs, personalization=person, tol=1e-15, max_iter=1000)
    got = pagerank(graph, personal=weights, tolerance=1e-13, iterations=1000).values
    assert max(abs(got[x] - value) for x, value in expected.items()) < 1e-9
    everywhere = dict.fromkeys(range(120), 1.0)
    expected = nx.pagerank(theirs, personalization=person, dangling=everywhere, tol=1e-15, max_iter=1000)
    got = pagerank(graph, personal=weights, dangling="uniform", tolerance=1e-13, iterations=1000).values
    assert max(abs(got[x] - value) for x, value in expected.items()) < 1e-9


def test_pagerank_against_a_linear_solver(tmp_path: Path) -> None:
    rows = web(80, 2)
    n = len(rows)
    step = np.full((n, n), 1 / n)
    for x, row in enumerate(rows):
        if row:
            step[x] = 0
            step[x, row] = 1 / len(row)
    exact = np.linalg.solve(np.eye(n) - 0.85 * step.T, np.full(n, 0.15 / n))
    assert np.abs(pagerank(as_lists(rows), tolerance=1e-13, iterations=1000).values - exact).max() < 1e-9


def test_pagerank_limits() -> None:
    lists = as_lists([[1], [0]])
    assert pagerank(as_lists([])).values.tolist() == []
    assert not pagerank(as_lists([[1], [], [0]]), iterations=1).converged
    for wrong in (
        {"damping": 1.0},
        {"damping": -0.1},
        {"personal": [1]},
        {"personal": [0, 0]},
        {"personal": [-1, 2]},
    ):
        with pytest.raises(ConfigError):
            pagerank(lists, **wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_harmonic_centrality_is_that_of_networkx() -> None:
    rows = web(90, 5)
    expected = nx.harmonic_centrality(digraph(rows))
    got = harmonic(as_lists(rows))
    assert got.sampled == 90
    assert max(abs(got.values[x] - value) for x, value in expected.items()) < 1e-9
    sampled = harmonic(as_lists(rows), work=1, rng=np.random.default_rng(1))
    assert sampled.sampled == 16
    assert np.corrcoef(sampled.values, got.values)[0, 1] > 0.8


@given(st.lists(st.floats(0, 1), max_size=30), st.integers(0, 35))
def test_top_is_the_head_of_a_sort(values: list[float], count: int) -> None:
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))[:count]
    assert top(np.array(values), count).tolist() == expected


@given(st.integers(0, 1 << 30), st.integers(1, 60))
@settings(max_examples=30, deadline=None)
def test_statistics_are_those_of_scipy(
    tmp_path_factory: pytest.TempPathFactory, seed: int, nodes: int
) -> None:
    rows = web(nodes, seed)
    graph = compressed(tmp_path_factory.mktemp("s"), rows)
    lists: Lists = graph.csr()
    matrix = scipy.sparse.csr_matrix(
        (np.ones(len(lists.nodes)), lists.nodes, lists.starts), shape=(nodes, nodes)
    )
    hosts = np.array([0, nodes // 3, nodes])
    stats = measure(graph, seeds=[0, nodes // 2], host_starts=hosts)
    weak, labels = scipy.sparse.csgraph.connected_components(matrix, connection="weak")
    assert stats.weak.count == weak
    assert stats.weak.largest == np.bincount(labels).max()
    ours = weak_components(graph)
    assert len(set(zip(ours.tolist(), labels.tolist(), strict=True))) == weak
    strong, labels = scipy.sparse.csgraph.connected_components(matrix, connection="strong")
    assert stats.strong is not None
    assert (stats.strong.count, stats.strong.largest) == (strong, np.bincount(labels).max())
    assert stats.out.most == max(map(len, rows))
    assert stats.in_.none == int((np.bincount(lists.nodes, minlength=nodes) == 0).sum())
    assert stats.loops == sum(x in row for x, row in enumerate(rows))
    same = sum((x >= nodes // 3) == (y >= nodes // 3) for x, row in enumerate(rows) for y in row)
    assert stats.same_host == pytest.approx(same / max(1, graph.arcs))
    lengths = nx.multi_source_dijkstra_path_length(digraph(rows), {0, nodes // 2})
    found = reach(lists, [0, nodes // 2])
    assert found.nodes == len(lengths)
    assert found.farthest == max(lengths.values())
    assert stats.reach == found
    assert stats.bits_per_link == pytest.approx(graph.bits / max(1, graph.arcs))
