"""Statistics of a graph: size, degrees, components, locality, reach.

`measure` scans the compressed graph; strongly connected components and reach need random access to all
lists, for which the graph is decoded (4 bytes per arc, 12 per node) unless `deep` is off.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from lycosa.graph import walk_kernels
from lycosa.graph.bv import BVGraph, Lists
from lycosa.graph.bv_format import Counts


class Degrees(msgspec.Struct, frozen=True):
    mean: float
    median: float
    most: int
    most_at: int  # the node that has it
    none: int  # nodes without


class Components(msgspec.Struct, frozen=True):
    count: int
    largest: int  # nodes in the largest


class Reach(msgspec.Struct, frozen=True):
    """How much can be reached from the seeds by links."""

    seeds: int
    nodes: int
    mean_distance: float
    farthest: int
    by_distance: list[int]


class Stats(msgspec.Struct, frozen=True, omit_defaults=False):
    nodes: int
    arcs: int
    bits: int
    bits_per_link: float
    bits_by_part: dict[str, int]
    arcs_by_part: dict[str, int]
    memory: int
    out: Degrees
    in_: Degrees = msgspec.field(name="in")
    weak: Components
    strong: Components | None
    loops: int  # nodes that link to themselves
    mean_log_gap: float  # mean log₂ of the gaps within lists: what locality leaves to code
    near: float  # share of arcs whose ends are at most 1,023 numbers apart
    same_host: float | None  # share of arcs within a host
    reach: Reach | None


def _degrees(values: npt.NDArray[np.int64]) -> Degrees:
    if not len(values):
        return Degrees(0.0, 0.0, 0, -1, 0)
    return Degrees(
        float(values.mean()),
        float(np.median(values)),
        int(values.max()),
        int(values.argmax()),
        int((values == 0).sum()),
    )


def _components(labels: npt.NDArray[np.int32], count: int) -> Components:
    return Components(count, int(np.bincount(labels).max()) if len(labels) else 0)


def weak_components(graph: BVGraph) -> npt.NDArray[np.int32]:
    """The smallest node of each node's weakly connected component."""
    parent = np.arange(graph.nodes, dtype=np.int32)
    for first, lists in graph.scan():
        walk_kernels.unite(first, lists.starts, lists.nodes, parent)
    walk_kernels.roots(parent)
    return parent


def strong_components(lists: Lists) -> tuple[npt.NDArray[np.int32], int]:
    """Each node's strongly connected component, and how many there are."""
    component = np.empty(lists.count, dtype=np.int32)
    return component, int(walk_kernels.strong(lists.starts, lists.nodes, component))


def reach(lists: Lists, seeds: npt.ArrayLike) -> Reach:
    """How far, and how much, the seeds' links lead."""
    sources = np.asarray(seeds, dtype=np.int64)
    out = np.empty(lists.count, dtype=np.int32)
    queue = np.empty(lists.count, dtype=np.int32)
    reached = int(walk_kernels.distances(lists.starts, lists.nodes, sources, out, queue))
    by_distance = np.bincount(out[out >= 0]) if reached else np.zeros(0, dtype=np.int64)
    mean = float((by_distance * np.arange(len(by_distance))).sum() / reached) if reached else 0.0
    return Reach(len(sources), reached, mean, max(0, len(by_distance) - 1), by_distance.tolist())


def measure(
    graph: BVGraph,
    *,
    seeds: npt.ArrayLike | None = None,
    host_starts: npt.NDArray[np.int64] | None = None,
    deep: bool = True,
) -> Stats:
    """All statistics; `host_starts` is where each host's nodes begin (`UrlTable.host_starts`)."""
    counts = Counts()
    outdegrees = np.zeros(graph.nodes, dtype=np.int64)
    indegrees = np.zeros(graph.nodes, dtype=np.int64)
    parent = np.arange(graph.nodes, dtype=np.int32)
    spans = np.zeros(64, dtype=np.int64)
    logs = np.zeros(2, dtype=np.float64)
    loops = same = 0
    for first, lists in graph.scan(0, counts):
        degrees = np.diff(lists.starts)
        outdegrees[first : first + lists.count] = degrees
        indegrees += np.bincount(lists.nodes, minlength=graph.nodes)
        walk_kernels.unite(first, lists.starts, lists.nodes, parent)
        walk_kernels.gaps(first, lists.starts, lists.nodes, spans, logs)
        sources = np.repeat(np.arange(first, first + lists.count), degrees)
        loops += int((sources == lists.nodes).sum())
        if host_starts is not None:
            hosts = np.searchsorted(host_starts, sources, "right")
            same += int((hosts == np.searchsorted(host_starts, lists.nodes, "right")).sum())
    walk_kernels.roots(parent)
    weak = _components(parent, len(np.unique(parent)))
    strong = reached = None
    if deep:
        csr = graph.csr()
        strong = _components(*strong_components(csr))
        reached = reach(csr, seeds) if seeds is not None else None
    arcs = max(1, graph.arcs)
    return Stats(
        nodes=graph.nodes,
        arcs=graph.arcs,
        bits=graph.bits,
        bits_per_link=graph.bits / arcs,
        bits_by_part={
            name: getattr(counts, name)
            for name in ("outdegrees", "references", "blocks", "intervals", "residuals")
        },
        arcs_by_part={
            "copied": counts.copied_arcs,
            "intervals": counts.interval_arcs,
            "residuals": counts.residual_arcs,
        },
        memory=graph.nbytes,
        out=_degrees(outdegrees),
        in_=_degrees(indegrees),
        weak=weak,
        strong=strong,
        loops=loops,
        mean_log_gap=float(logs[0] / logs[1]) if logs[1] else 0.0,
        near=float(spans[:10].sum() / arcs),
        same_host=same / arcs if host_starts is not None else None,
        reach=reached,
    )
