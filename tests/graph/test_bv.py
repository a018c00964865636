"""The BV format: kernels equal to the reference, files both ways, the book's exercises, hostile files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.errors import ConfigError, LocalError, StorageError
from lycosa.files import DiskFiles
from lycosa.graph import bv_plain
from lycosa.graph.bits import Code
from lycosa.graph.bv import BVGraph
from lycosa.graph.bv_format import (
    PRESETS,
    UNLIMITED,
    Counts,
    Parameters,
    Properties,
    parse_properties,
    preset,
)
from lycosa.graph.bv_writer import BVWriter
from tests.graph.samples import as_lists, as_rows, web


def write(
    path: Path, rows: list[list[int]], parameters: Parameters, name: str = "g", piece: int = 0
) -> Counts:
    writer = BVWriter(DiskFiles(path), name, parameters)
    step = piece or max(1, len(rows))
    for i in range(0, len(rows), step):
        lists = as_lists(rows[i : i + step])
        writer.append(lists.starts, lists.nodes)
    return writer.close(len(rows))[1]


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    n = draw(st.integers(1, 25))
    if draw(st.booleans()):
        return web(n, draw(st.integers(0, 1 << 30)))
    rows = draw(st.lists(st.sets(st.integers(0, n - 1), max_size=n), min_size=n, max_size=n))
    return [sorted(row) for row in rows]


parameters = st.builds(
    Parameters,
    window=st.integers(0, 9),
    chain=st.one_of(st.just(UNLIMITED), st.integers(0, 4)),
    interval=st.integers(0, 5),
    k=st.integers(1, 7),
    outdegrees=st.sampled_from([Code.GAMMA, Code.DELTA]),
    blocks=st.sampled_from([Code.GAMMA, Code.DELTA]),
    residuals=st.sampled_from([Code.GAMMA, Code.DELTA, Code.ZETA, Code.GOLOMB, Code.NIBBLE]),
    references=st.sampled_from([Code.GAMMA, Code.DELTA, Code.UNARY]),
    block_count=st.sampled_from([Code.GAMMA, Code.DELTA, Code.UNARY]),
    offsets=st.sampled_from([Code.GAMMA, Code.DELTA]),
)


@given(graphs(), st.one_of(st.just(Parameters()), parameters), st.integers(0, 7))
@settings(max_examples=150, deadline=None)
def test_kernels_equal_the_plain_reference(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]], p: Parameters, piece: int
) -> None:
    path = tmp_path_factory.mktemp("g")
    stream, offsets, expected = bv_plain.encode(rows, p)
    assert bv_plain.decode(stream.getvalue(), len(rows), p) == rows
    counts = write(path, rows, p, piece=piece)
    assert (path / "g.graph").read_bytes() == stream.getvalue()
    assert counts == expected
    graph = BVGraph.open(DiskFiles(path), "g")
    assert graph.parameters == p
    assert graph.bits == len(stream)
    assert [graph.offsets[i] for i in range(len(rows) + 1)] == offsets
    assert as_rows(graph.csr()) == rows
    order = np.random.default_rng(1).permutation(len(rows))
    assert as_rows(graph.lists(order)) == [rows[i] for i in order]
    counted = graph.count()
    expected.chain_total = 0
    assert counted == expected
    # Without its offsets the graph is found by a scan; from the middle it reads the same.
    (path / "g.offsets").unlink()
    again = BVGraph.open(DiskFiles(path), "g")
    assert as_rows(again.lists(order)) == [rows[i] for i in order]
    middle = len(rows) // 2
    late = [row for piece_ in again.scan(middle) for row in as_rows(piece_.lists)]
    assert late == rows[middle:]


def test_pieces_and_buffers_do_not_show(tmp_path: Path) -> None:
    rows = web(3000)
    rows[1500] = list(range(3000))  # longer than any buffer has seen
    write(tmp_path, rows, Parameters(), "whole")
    write(tmp_path, rows, Parameters(), "pieces", piece=7)
    for ending in (".graph", ".offsets", ".properties"):
        assert (tmp_path / f"whole{ending}").read_bytes() == (tmp_path / f"pieces{ending}").read_bytes()
    graph = BVGraph.open(DiskFiles(tmp_path), "whole")
    assert as_rows(graph.csr()) == rows
    assert np.array_equal(graph.successors(1500), np.arange(3000))
    assert graph.degrees([0, 1500]).tolist() == [len(rows[0]), 3000]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_round_trip_and_order_by_size(tmp_path: Path, name: str) -> None:
    rows = web(2000, 5)
    bits = write(tmp_path, rows, preset(name)).bits
    assert as_rows(BVGraph.open(DiskFiles(tmp_path), "g").csr()) == rows
    plain = write(tmp_path, rows, Parameters()).bits
    assert (bits > plain) if name == "fast" else (bits <= plain)


@pytest.mark.parametrize("limit", [0, 1, 3, 8])
def test_references_chosen_together_keep_the_limit(tmp_path: Path, limit: int) -> None:
    for seed in range(6):
        rows = web(400, seed)
        chosen = Parameters(window=20, chain=limit, thorough=True)
        counts = write(tmp_path, rows, chosen, piece=150 if seed % 2 else 0)
        graph = BVGraph.open(DiskFiles(tmp_path), "g")
        assert as_rows(graph.csr()) == rows
        assert as_rows(graph.lists(np.arange(400)[::-1])) == rows[::-1]
        assert chain_of(graph) <= limit
        assert counts.bits == graph.bits


def test_choosing_together_saves_bits(tmp_path: Path) -> None:
    rows = web(3000, 2)
    for limit in (2, 3, 8):
        one_by_one = write(tmp_path, rows, Parameters(window=20, chain=limit)).bits
        together = write(tmp_path, rows, Parameters(window=20, chain=limit, thorough=True)).bits
        assert together < one_by_one


def chain_of(graph: BVGraph) -> int:
    """The longest chain of references, read from the stream itself."""
    from lycosa.graph.bits import BitReader

    chains: list[int] = []
    data = bytes(graph._data)
    for x in range(graph.nodes):
        reader = BitReader(data, graph.offsets[x])
        degree = reader.read(graph.parameters.outdegrees)
        r = reader.read(graph.parameters.references) if degree and graph.parameters.window else 0
        chains.append(chains[x - r] + 1 if r else 0)
    return max(chains)


def test_a_chain_that_grows_linearly_is_bounded_by_the_limit(tmp_path: Path) -> None:
    """Exercise 20.5: each row is its predecessor's and one link more, so that each is best told by it."""
    far = [17 * i for i in range(1, 160)]
    rows: list[list[int]] = [far[: i + 20] for i in range(130)]
    rows += [[] for _ in range(max(far) + 1 - len(rows))]
    write(tmp_path, rows, Parameters(chain=UNLIMITED, window=1))
    unbounded = BVGraph.open(DiskFiles(tmp_path), "g")
    assert chain_of(unbounded) == 129
    assert as_rows(unbounded.lists([129, 3])) == [rows[129], rows[3]]
    for limit in (0, 1, 3):
        write(tmp_path, rows, Parameters(chain=limit, window=1))
        bounded = BVGraph.open(DiskFiles(tmp_path), "g")
        assert chain_of(bounded) == limit
        assert as_rows(bounded.csr()) == rows


def test_seven_and_not_eight_rows(tmp_path: Path) -> None:
    """Exercise 20.4: "none" is an answer too, so that three bits can tell of seven rows, not of eight."""
    prototype = list(range(0, 300, 7))

    def rows(distance: int) -> list[list[int]]:
        between = [[301 + 3 * i, 320 + i] for i in range(distance - 1)]
        tail: list[list[int]] = [[] for _ in range(400)]
        return [prototype, *between, prototype, *tail]

    assert len({*range(Parameters().window + 1)}) == 1 << 3
    used = {d: write(tmp_path, rows(d), Parameters()).references_used for d in (1, 7, 8)}
    assert used == {1: 1, 7: 1, 8: 0}
    assert write(tmp_path, rows(8), Parameters(window=8)).references_used == 1


def test_figure_20_6_is_told_by_the_row_two_above(tmp_path: Path) -> None:
    rows = [
        [],
        [1, 2, 4, 8, 16, 32, 64],
        [1, 4, 9, 16, 25, 36, 49, 64],
        [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144],
        [1, 4, 8, 16, 25, 36, 49, 64],
    ]
    empty: list[list[int]] = [[] for _ in range(141)]
    before = write(tmp_path, rows[:4] + empty, Parameters())
    after = write(tmp_path, rows + empty[1:], Parameters())
    assert after.references_used == before.references_used + 1
    assert after.reference_total == before.reference_total + 2
    assert after.copied_arcs == before.copied_arcs + 7  # all but the 8


def test_an_empty_graph_and_one_without_arcs(tmp_path: Path) -> None:
    for rows in ([], [[], [], []]):
        write(tmp_path, rows, Parameters())
        graph = BVGraph.open(DiskFiles(tmp_path), "g")
        assert (graph.nodes, graph.arcs) == (len(rows), 0)
        assert as_rows(graph.csr()) == rows


def test_the_writer_refuses_what_is_no_list(tmp_path: Path) -> None:
    writer = BVWriter(DiskFiles(tmp_path), "g")
    for starts, nodes in [([0, 2], [1, 1]), ([0, 2], [2, 1]), ([0, 1], [-1]), ([0, 3], [1]), ([1, 1], [])]:
        with pytest.raises(LocalError):
            writer.append(starts, nodes)
    writer.append([0, 1], [9])
    with pytest.raises(LocalError, match=r"of 9 nodes"):
        writer.close(9)
    assert not (tmp_path / "g.properties").exists()


@given(st.data())
@settings(max_examples=250, deadline=None)
def test_damaged_files_end_in_a_storage_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Bytes changed, cut or made up: either it reads as the plain reference does, or it says which file."""
    from lycosa.graph.bits import BitsError

    p = data.draw(
        st.sampled_from([Parameters(), Parameters(chain=UNLIMITED, residuals=Code.DELTA, window=3)])
    )
    nodes = 60
    rows = web(nodes, 3)
    stream, _, _ = bv_plain.encode(rows, p)
    spoilt = bytearray(stream.getvalue())
    if data.draw(st.booleans()):
        for _ in range(data.draw(st.integers(1, 4))):
            spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    else:
        spoilt = bytearray(data.draw(st.binary(min_size=8, max_size=200)))
    cut = bytes(spoilt[: data.draw(st.integers(8, len(spoilt)))])
    try:
        expected = bv_plain.decode(cut, nodes, p)
    except BitsError:
        expected = None
    arcs = sum(len(row) for row in expected) if expected else sum(len(row) for row in rows)
    try:
        graph = BVGraph(cut, Properties(nodes, arcs, p), None, "g")
        got = as_rows(graph.csr())
        assert got == expected
        assert as_rows(graph.lists(np.arange(nodes))) == got
    except StorageError as error:
        assert "g.graph" in str(error)
        assert expected is None


@given(st.binary(max_size=80), st.binary(max_size=80))
@settings(max_examples=150, deadline=None)
def test_made_up_offsets_never_read_outside(graph: bytes, offsets: bytes) -> None:
    try:
        g = BVGraph(graph, Properties(6, 20), offsets, "g")
        g.lists(np.arange(6))
        g.csr()
    except StorageError as error:
        assert "g.graph" in str(error) or "g.offsets" in str(error)


@given(st.binary(max_size=300))
def test_any_bytes_as_properties(data: bytes) -> None:
    for text in (data, b"graphclass=it.unimi.dsi.webgraph.BVGraph\nnodes=5\narcs=3\n" + data):
        try:
            parse_properties(text, "x.properties")
        except StorageError as error:
            assert "x.properties" in str(error)


def test_limits_of_the_properties() -> None:
    good = "graphclass=it.unimi.dsi.webgraph.BVGraph\nnodes=5\narcs=3\n"
    assert parse_properties(good.encode(), "x").parameters == Parameters()
    flags = "compressionflags=RESIDUALS_DELTA | REFERENCES_GAMMA\nmaxrefcount=2147483647\n"
    read = parse_properties((good + flags).encode(), "x").parameters
    assert (read.residuals, read.references, read.chain) == (Code.DELTA, Code.GAMMA, UNLIMITED)
    assert read.flags() == "RESIDUALS_DELTA | REFERENCES_GAMMA"
    for line in (
        "nodes=2147483648",
        "nodes=-1",
        "arcs=26",
        "windowsize=65537",
        "zetak=8",
        "zetak=0",
        "version=1",
        "compressionflags=RESIDUALS_SKEWED_GOLOMB",
        "compressionflags=NONSENSE",
        "minintervallength=x",
        "graphclass=it.unimi.dsi.webgraph.EFGraph",
    ):
        with pytest.raises(StorageError, match=r"x\.properties"):
            parse_properties((good + line + "\n").encode(), "x.properties")
    with pytest.raises(ConfigError):
        Parameters(window=-1)
    with pytest.raises(ConfigError):
        Parameters(outdegrees=Code.NIBBLE)
    with pytest.raises(ConfigError):
        preset("tiny")


def test_more_lists_than_bits_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(StorageError, match="cannot hold"):
        BVGraph(b"\x80" * 10, Properties(2_000_000_000, 0), None, "g")


def test_arcs_that_the_properties_deny(tmp_path: Path) -> None:
    rows = web(50)
    write(tmp_path, rows, Parameters())
    text = (tmp_path / "g.properties").read_text()
    arcs = sum(len(row) for row in rows)
    for wrong in (arcs - 1, arcs + 1):
        (tmp_path / "g.properties").write_text(text.replace(f"arcs={arcs}\n", f"arcs={wrong}\n", 1))
        with pytest.raises(StorageError, match=r"g\.graph is damaged"):
            BVGraph.open(DiskFiles(tmp_path), "g").csr()


def test_cnr_2000(tmp_path: Path) -> None:
    """The real graph, where LYCOSA_CNR names its directory; else a generated one, to the same end."""
    where = os.environ.get("LYCOSA_CNR")
    if where is None:
        write(tmp_path, web(5000, 8), Parameters(), "cnr-2000")
        where = str(tmp_path)
    source = DiskFiles(where)
    graph = BVGraph.open(source, "cnr-2000")
    counts = graph.count()
    for name, value in graph.properties.counts.items():
        assert getattr(counts, name) == value, name
    writer = BVWriter(DiskFiles(tmp_path / "again"), "g", graph.parameters)
    for piece in graph.scan():
        writer.append(piece.lists.starts, piece.lists.nodes)
    writer.close(graph.nodes)
    again = (tmp_path / "again" / "g.graph").read_bytes()
    theirs = source.read("cnr-2000.graph")
    assert writer.bits == graph.bits
    assert theirs.startswith(again) and not any(theirs[len(again) :])
