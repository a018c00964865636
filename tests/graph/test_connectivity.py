"""Asking: equal to the arcs as sets, with and without a tail; paths against NetworkX."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from lycosa.errors import ConfigError
from lycosa.files import DiskFiles
from lycosa.graph.build import build
from lycosa.graph.connectivity import Connectivity, _Tail
from lycosa.graph.gather import REDIRECTED, Options
from lycosa.graph.store import GraphStore
from lycosa.graph.urls import key_of
from lycosa.records import Fetched
from tests.graph.crawls import crawl, page, redirect, truth


def check(server: Connectivity, nodes: set[str], arcs: set[tuple[str, str]]) -> None:
    asked = [*sorted(nodes), "http://nowhere.org/"]
    for direction in ("out", "in"):
        answers = server.ask(asked, direction)  # type: ignore[arg-type]  # a literal
        for i, url in enumerate(asked):
            if url not in nodes:
                assert answers.numbers[i] == -1
                assert len(answers.lists[i]) == 0
                continue
            got = server.urls(answers.lists[i])
            expected = (
                {b for a, b in arcs if a == url} if direction == "out" else {a for a, b in arcs if b == url}
            )
            assert set(got) == expected, (direction, url)
            assert len(got) == len(expected)


@given(st.integers(0, 1 << 30), st.booleans())
@settings(max_examples=20, deadline=None)
def test_answers_are_the_arcs(tmp_path_factory: pytest.TempPathFactory, seed: int, canonical: bool) -> None:
    files = DiskFiles(tmp_path_factory.mktemp("c"))
    entries = crawl(seed)
    build(files, entries, Options(canonical=canonical))
    check(Connectivity.open(files), *truth(entries, canonical))


@given(st.integers(0, 1 << 30), st.integers(0, 40))
@example(1336, 14)
@settings(max_examples=50, deadline=None)
def test_a_tail_answers_as_the_next_build(
    tmp_path_factory: pytest.TempPathFactory, seed: int, cut: int
) -> None:
    files = DiskFiles(tmp_path_factory.mktemp("c"))
    entries = crawl(seed, pages=50)
    build(files, entries[:cut])
    # What the build took for an alias stays one: the one case that must wait for the next build.
    store = GraphStore.open(files)
    built = _Tail(store, [redirect("http://unheard.org/", "http://of.org/")])
    rows = store.facts.aliases
    aliased = set(store.urls.urls(rows[rows[:, 2] == REDIRECTED, 0]))
    tail = [e for e in entries[cut:] if not (isinstance(e[2], Fetched) and e[2].url in aliased)]
    server = Connectivity.open(files, (record for _, _, record in tail))
    # So must a circle that the tail closes with redirects of the build.
    laid = server._tail
    assume(laid is None or all(laid.end(u) != u or built.end(u) == u for u in laid.before))
    nodes, arcs = truth(entries[:cut] + tail)
    check(server, nodes, arcs)


@given(st.integers(0, 1 << 30))
@settings(max_examples=20, deadline=None)
def test_a_tail_on_nothing_resolves_canonical_links(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    files = DiskFiles(tmp_path_factory.mktemp("c"))
    build(files, [], Options(canonical=True))
    entries = crawl(seed)
    check(Connectivity.open(files, [record for _, _, record in entries]), *truth(entries, True))


@given(st.integers(0, 1 << 30), st.integers(0, 40))
@settings(max_examples=20, deadline=None)
def test_paths_are_shortest(tmp_path_factory: pytest.TempPathFactory, seed: int, cut: int) -> None:
    files = DiskFiles(tmp_path_factory.mktemp("c"))
    entries = [e for e in crawl(seed) if not isinstance(e[2], Fetched) or e[2].status == 200]
    build(files, entries[:cut])
    server = Connectivity.open(files, [record for _, _, record in entries[cut:]])
    nodes, arcs = truth(entries)
    graph = nx.DiGraph(list(arcs))
    graph.add_nodes_from(nodes)
    order = sorted(nodes)
    for a in order[:5]:
        lengths = nx.single_source_shortest_path_length(graph, a)
        for b in order:
            path = server.path(a, b)
            if b not in lengths:
                assert path is None
                continue
            assert path is not None
            assert (path[0], path[-1], len(path)) == (a, b, lengths[b] + 1)
            assert all(step in arcs for step in pairwise(path))


def test_common(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    a, b, c, d, e = (f"http://x.org/{name}" for name in "abcde")
    build(files, [(0, i, r) for i, r in enumerate([page(a, c, d), page(b, c, d, e), page(e, d)])])
    server = Connectivity.open(files)
    assert server.common([c, d]) == [a, b]
    assert server.common([a, b], "out") == [c, d]
    assert server.common([d]) == [a, b, e]
    assert server.out(c) == []
    assert server.into(d) == [a, b, e]
    assert server.out("http://x.org/unknown") is None
    with pytest.raises(ConfigError, match="unknown is not in the graph"):
        server.path(a, "http://x.org/unknown")
    with pytest.raises(ConfigError, match="no URL"):
        server.common([])
    # A tail makes b redirect to a: who linked to both is no matter, b's links are gone.
    later = Connectivity.open(files, [redirect(b, a), page("http://y.org/", b)])
    assert later.common([c, d]) == [a]
    assert later.into(a) == [b, "http://y.org/"]
    assert later.into(b) == []
    assert later.urls(later.numbers([b, "http://y.org/"])) == [b, "http://y.org/"]


def test_numbers_are_places_in_the_order_of_keys(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    entries = crawl(3)
    build(files, entries)
    server = Connectivity.open(files)
    nodes = sorted(truth(entries)[0], key=lambda url: key_of(url.encode()))
    assert server.numbers(nodes).tolist() == list(range(len(nodes)))
    assert server.urls(np.arange(len(nodes))) == nodes
