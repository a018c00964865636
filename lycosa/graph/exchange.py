"""Import and export: edge lists, Parquet, WebGraph, SciPy, NetworkX.

Edge lists are lines of a source and a target, separated by a tab or blanks; a line that begins with `#` is a
comment. Two kinds: numbers (as in the collections of SNAP and LAW), which make a BV graph, and URLs, which
make a whole graph directory with its table of URLs. A line that is neither raises a `ConfigError` that names
the line.

BV graphs are taken in by decoding and encoding anew, which checks every list on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from lycosa.errors import ConfigError
from lycosa.files import Files
from lycosa.graph.bv import BVGraph
from lycosa.graph.bv_format import MOST_NODES, Parameters, Properties
from lycosa.graph.bv_writer import BVWriter
from lycosa.graph.pagerank import pieces
from lycosa.graph.sorting import ArcSorter, pack, write_graph

if TYPE_CHECKING:
    import networkx
    import scipy.sparse

_AT_ONCE = 1 << 18


def _edges(graph: BVGraph) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Sources and targets, some hundred thousand at a time."""
    for first, lists in pieces(graph):
        sources = np.repeat(np.arange(first, first + lists.count), np.diff(lists.starts))
        for i in range(0, len(sources), _AT_ONCE):
            yield sources[i : i + _AT_ONCE], lists.nodes[i : i + _AT_ONCE].astype(np.int64)


class Labels(Protocol):
    """What names the numbers of nodes: `UrlTable.urls`, `Names.names`."""

    def __call__(self, numbers: npt.ArrayLike) -> list[str]: ...


def write_edges(graph: BVGraph, out: BinaryIO, labels: Labels | None = None) -> int:
    """Write `source TAB target` lines, of numbers or of labels; returns how many."""
    total = 0
    for sources, targets in _edges(graph):
        if labels is None:
            left: Iterable[Any] = sources.tolist()
            right: Iterable[Any] = targets.tolist()
        else:
            left, right = _named(labels, sources), _named(labels, targets)
        out.write(
            "".join(f"{a}\t{b}\n" for a, b in zip(left, right, strict=True)).encode(
                "utf-8", "surrogateescape"
            )
        )
        total += len(sources)
    return total


def _named(labels: Labels, numbers: npt.NDArray[np.int64]) -> list[str]:
    """Labels of numbers that repeat."""
    different, back = np.unique(numbers, return_inverse=True)
    names = labels(different)
    return [names[i] for i in back.tolist()]


def write_parquet(graph: BVGraph, path: Path, labels: Labels | None = None) -> int:
    """Write columns `source` and `target`, of numbers or labels; returns the number of rows."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError("Parquet needs pyarrow: pip install 'lycosa[parquet]'") from None
    kind = pyarrow.int32() if labels is None else pyarrow.string()
    schema = pyarrow.schema([("source", kind), ("target", kind)])
    total = 0
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for sources, targets in _edges(graph):
            columns = (
                [sources.astype(np.int32), targets.astype(np.int32)]
                if labels is None
                else [_named(labels, sources), _named(labels, targets)]
            )
            writer.write_table(
                pyarrow.table(dict(zip(("source", "target"), columns, strict=True)), schema=schema)
            )
            total += len(sources)
    return total


def to_scipy(graph: BVGraph) -> scipy.sparse.csr_array:
    """The adjacency matrix, a one for each link."""
    try:
        import scipy.sparse
    except ImportError:
        raise ConfigError("this needs SciPy: pip install scipy") from None
    lists = graph.csr()
    ones = np.ones(len(lists.nodes), dtype=np.int8)
    return scipy.sparse.csr_array((ones, lists.nodes, lists.starts), shape=(graph.nodes, graph.nodes))


def to_networkx(graph: BVGraph, labels: Labels | None = None) -> networkx.DiGraph:
    """A NetworkX graph, its nodes numbers or labels; some hundred bytes per link."""
    try:
        import networkx
    except ImportError:
        raise ConfigError("this needs NetworkX: pip install networkx") from None
    out = networkx.DiGraph()
    names: list[Any] = labels(np.arange(graph.nodes)) if labels is not None else list(range(graph.nodes))
    out.add_nodes_from(names)
    for sources, targets in _edges(graph):
        out.add_edges_from(
            (names[a], names[b]) for a, b in zip(sources.tolist(), targets.tolist(), strict=True)
        )
    return out


def copy_graph(graph: BVGraph, files: Files, name: str, parameters: Parameters | None = None) -> Properties:
    """Write the graph under another name, by other parameters if given."""
    writer = BVWriter(files, name, parameters or graph.parameters)
    for _, lists in graph.scan():
        writer.append(lists.starts, lists.nodes)
    return writer.close(graph.nodes)[0]


def transpose(
    graph: BVGraph, files: Files, name: str, parameters: Parameters | None = None, memory: int = 256 << 20
) -> Properties:
    """Write the graph with every link turned round."""
    scratch = files.within("scratch")
    sorter = ArcSorter(scratch, f"{Path(name).name}-arcs", memory)
    for sources, targets in _edges(graph):
        sorter.add(pack(targets, sources))
    writer = BVWriter(files, name, parameters or graph.parameters)
    write_graph(writer, sorter.sorted(), graph.nodes)
    return writer.close(graph.nodes)[0]


def parse_edges(lines: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The pairs of an edge list; `ConfigError` for an invalid line."""
    for number, line in enumerate(lines, 1):
        if line.startswith(b"#"):
            continue
        words = line.split()
        if not words:
            continue
        if len(words) != 2:
            shown = line.strip()[:60].decode("utf-8", "replace")
            raise ConfigError(f"line {number} is not a source and a target: {shown!r}")
        yield words[0], words[1]


def _numbers(edges: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[list[int], list[int]]]:
    sources: list[int] = []
    targets: list[int] = []
    for source, target in edges:
        if not (source.isdigit() and target.isdigit() and max(len(source), len(target)) <= 10):
            shown = f"{source.decode('utf-8', 'replace')[:40]} {target.decode('utf-8', 'replace')[:40]}"
            raise ConfigError(f"not two node numbers: {shown!r}")
        sources.append(int(source))
        targets.append(int(target))
        if len(sources) == _AT_ONCE:
            yield sources, targets
            sources, targets = [], []
    yield sources, targets


def import_numbers(
    edges: Iterable[tuple[bytes, bytes]],
    files: Files,
    name: str,
    parameters: Parameters | None = None,
    memory: int = 256 << 20,
) -> Properties:
    """A BV graph from pairs of node numbers, in any order, with repeats."""
    sorter = ArcSorter(files.within("scratch"), f"{Path(name).name}-arcs", memory)
    most = -1
    for sources, targets in _numbers(edges):
        if sources:
            most = max(most, max(sources), max(targets))
            if most >= MOST_NODES:
                raise ConfigError(f"node {most} is too large: a graph has at most {MOST_NODES} nodes")
            sorter.add(pack(np.array(sources, dtype=np.uint64), np.array(targets, dtype=np.uint64)))
    writer = BVWriter(files, name, parameters)
    write_graph(writer, sorter.sorted(), most + 1)
    return writer.close(most + 1)[0]
