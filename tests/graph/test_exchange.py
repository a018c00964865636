"""Exchange: every form read back equals the graph."""

from __future__ import annotations

import io
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.errors import ConfigError
from lycosa.files import DiskFiles
from lycosa.graph.build import build, build_from_edges
from lycosa.graph.bv import BVGraph
from lycosa.graph.bv_format import preset
from lycosa.graph.exchange import (
    copy_graph,
    import_numbers,
    parse_edges,
    to_networkx,
    to_scipy,
    transpose,
    write_edges,
    write_parquet,
)
from lycosa.graph.gather import Options
from lycosa.graph.store import GraphStore
from tests.graph.crawls import crawl, truth
from tests.graph.samples import as_rows, web
from tests.graph.test_bv import Parameters, write


@pytest.fixture
def rows() -> list[list[int]]:
    return web(300, 12)


@pytest.fixture
def graph(tmp_path: Path, rows: list[list[int]]) -> BVGraph:
    write(tmp_path, rows, Parameters())
    return BVGraph.open(DiskFiles(tmp_path), "g")


@pytest.fixture
def store(tmp_path: Path) -> GraphStore:
    build(DiskFiles(tmp_path / "s"), crawl(5))
    return GraphStore.open(DiskFiles(tmp_path / "s"))


def test_edge_lists_of_numbers(tmp_path: Path, graph: BVGraph, rows: list[list[int]]) -> None:
    out = io.BytesIO()
    assert write_edges(graph, out) == graph.arcs
    lines = out.getvalue().splitlines(keepends=True)
    rng = np.random.default_rng(1)
    shuffled = [b"# a comment\n", *(lines[i] for i in rng.permutation(len(lines))), lines[0], b"\n"]
    made = import_numbers(parse_edges(shuffled), DiskFiles(tmp_path), "again", memory=0)
    again = as_rows(BVGraph.open(DiskFiles(tmp_path), "again").csr())
    most = max(max((x for x, row in enumerate(rows) if row)), max(max(row) for row in rows if row))
    assert made.nodes == most + 1
    assert again == rows[: most + 1]


def test_edge_lists_of_urls(tmp_path: Path, store: GraphStore) -> None:
    out = io.BytesIO()
    write_edges(store.graph("out"), out, store.urls.urls)
    arcs = truth(crawl(5))[1]
    assert {tuple(line.split("\t")) for line in out.getvalue().decode().splitlines()} == arcs
    backwards = reversed(out.getvalue().splitlines())
    for memory in (1, 1 << 20):
        files = DiskFiles(tmp_path / f"made{memory}")
        build_from_edges(
            files,
            parse_edges(backwards if memory == 1 else out.getvalue().splitlines()),
            Options(memory=memory),
        )
        again = GraphStore.open(files)
        text = io.BytesIO()
        write_edges(again.graph("out"), text, again.urls.urls)
        assert text.getvalue() == out.getvalue()


def test_parquet(tmp_path: Path, graph: BVGraph, store: GraphStore, rows: list[list[int]]) -> None:
    assert write_parquet(graph, tmp_path / "n.parquet") == graph.arcs
    table = pyarrow.parquet.read_table(tmp_path / "n.parquet").to_pydict()
    expected = [(x, y) for x, row in enumerate(rows) for y in row]
    assert list(zip(table["source"], table["target"], strict=True)) == expected
    write_parquet(store.graph("out"), tmp_path / "u.parquet", store.urls.urls)
    table = pyarrow.parquet.read_table(tmp_path / "u.parquet").to_pydict()
    assert set(zip(table["source"], table["target"], strict=True)) == truth(crawl(5))[1]


def test_scipy_and_networkx(graph: BVGraph, store: GraphStore, rows: list[list[int]]) -> None:
    matrix = to_scipy(graph)
    assert matrix.shape == (len(rows), len(rows))
    assert [
        matrix.indices[matrix.indptr[x] : matrix.indptr[x + 1]].tolist() for x in range(len(rows))
    ] == rows
    plain = to_networkx(graph)
    assert isinstance(plain, nx.DiGraph)
    assert sorted(plain.edges) == [(x, y) for x, row in enumerate(rows) for y in row]
    named = to_networkx(store.graph("out"), store.urls.urls)
    nodes, arcs = truth(crawl(5))
    assert set(named.nodes) == nodes
    assert set(named.edges) == arcs


def test_webgraph_and_transpose(tmp_path: Path, graph: BVGraph, rows: list[list[int]]) -> None:
    files = DiskFiles(tmp_path / "w")
    copy_graph(graph, files, "same")
    assert files.read("same.graph") == (tmp_path / "g.graph").read_bytes()
    copy_graph(graph, files, "fast", preset("fast"))
    assert as_rows(BVGraph.open(files, "fast").csr()) == rows
    transpose(graph, files, "t")
    turned: list[list[int]] = [[] for _ in rows]
    for x, row in enumerate(rows):
        for y in row:
            turned[y].append(x)
    assert as_rows(BVGraph.open(files, "t").csr()) == turned


@given(st.binary(max_size=200))
def test_any_bytes_as_an_edge_list(data: bytes) -> None:
    try:
        pairs = list(parse_edges(data.splitlines(keepends=True)))
    except ConfigError as error:
        assert "line" in str(error)
    else:
        assert all(len(pair) == 2 for pair in pairs)


def test_numbers_have_limits(tmp_path: Path) -> None:
    for line in (b"1 x", b"-1 2", b"2147483647 1", b"99999999999 1", b"1 2 3"):
        with pytest.raises(ConfigError):
            import_numbers(parse_edges([line]), DiskFiles(tmp_path), "g")
