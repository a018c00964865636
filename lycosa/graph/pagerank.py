"""PageRank and harmonic centrality.

PageRank is the stationary distribution of a surfer who at each step follows one of the page's links with
probability d (the damping), and else, or on a page without links, jumps to a page drawn from the *teleport*
vector v:

    r' = d (Aᵀ D⁻¹ r + δ(r) w) + (1 − d) v        δ(r): the rank of dangling nodes

v is uniform unless `personal` says otherwise; w, where dangling nodes' rank goes, is v (*strongly
preferential*, as in NetworkX), or uniform with `dangling="uniform"`. Iteration stops when ‖r' − r‖₁ falls
below `tolerance`; since the error shrinks by d each step, r is then within tolerance · d/(1−d) of the truth.
Every step's ‖r' − r‖₁ is in `history`.

It runs on the compressed graph, decoded piece by piece in each iteration (memory: two vectors), or on CSR
arrays.

Harmonic centrality of x is Σ 1/distance(y, x) over all y ≠ x that reach x (Boldi and Vigna, "Axioms for
centrality", 2014). Exact by a breadth-first walk from every node; above a given amount of work from a random
sample of k nodes, whose sums are scaled by n/k.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from lycosa.errors import ConfigError
from lycosa.graph import walk_kernels
from lycosa.graph.bv import BVGraph, Lists, Piece

Vector = npt.NDArray[np.float64]


class Ranks(NamedTuple):
    """The ranks, which add up to 1, and how they were reached."""

    values: Vector
    history: list[float]  # ‖r' − r‖₁ after each step
    converged: bool


class Centrality(NamedTuple):
    values: Vector
    sampled: int  # nodes walked from; all of them if it is exact


def pieces(graph: BVGraph | Lists) -> Iterator[Piece]:
    """All lists of a graph in order."""
    if isinstance(graph, BVGraph):
        yield from graph.scan()
    else:
        yield Piece(0, graph)


def size_of(graph: BVGraph | Lists) -> int:
    """How many nodes."""
    return graph.nodes if isinstance(graph, BVGraph) else graph.count


def pagerank(
    graph: BVGraph | Lists,
    *,
    damping: float = 0.85,
    tolerance: float = 1e-10,
    iterations: int = 200,
    personal: npt.ArrayLike | None = None,
    dangling: Literal["personal", "uniform"] = "personal",
) -> Ranks:
    """The PageRank of every node; `personal` holds a weight a node."""
    n = size_of(graph)
    if not 0 <= damping < 1:
        raise ConfigError(f"damping is {damping}: choose 0 or more and below 1")
    if n == 0:
        return Ranks(np.empty(0), [], True)
    uniform = np.full(n, 1.0 / n)
    teleport = uniform
    if personal is not None:
        teleport = np.array(personal, dtype=np.float64)
        if teleport.shape != (n,) or not np.all(teleport >= 0) or not 0 < teleport.sum() < np.inf:
            raise ConfigError(f"personal weights must be {n} numbers, none negative and not all zero")
        teleport /= teleport.sum()
    jump = uniform if dangling == "uniform" else teleport
    rank, history = teleport.copy(), []
    for _ in range(iterations):
        after = np.zeros(n)
        lost = 0.0
        for first, lists in pieces(graph):
            lost += walk_kernels.push(first, lists.starts, lists.nodes, rank, after)
        after += lost * jump
        after *= damping
        after += (1 - damping) * teleport
        history.append(float(np.abs(after - rank).sum()))
        rank = after
        if history[-1] < tolerance:
            return Ranks(rank / rank.sum(), history, True)
    return Ranks(rank / rank.sum(), history, False)


def harmonic(
    graph: BVGraph | Lists, *, work: int = 2_000_000_000, rng: np.random.Generator | None = None
) -> Centrality:
    """Harmonic centrality of every node; from a sample if all walks would look at more than `work` arcs."""
    lists = graph.csr() if isinstance(graph, BVGraph) else graph
    n = lists.count
    out = np.zeros(n)
    if n == 0:
        return Centrality(out, 0)
    sources = np.arange(n)
    most = max(16, work // max(1, len(lists.nodes) + n))
    if most < n:
        sources = (rng or np.random.default_rng(0)).choice(n, size=most, replace=False)
    walk_kernels.harmonic(lists.starts, lists.nodes, sources, n / len(sources), out)
    return Centrality(out, len(sources))


def top(values: Vector, count: int) -> npt.NDArray[np.int64]:
    """The nodes of the largest values, largest first; ties by number."""
    count = min(count, len(values))
    if count <= 0:
        return np.empty(0, dtype=np.int64)
    if count < len(values):
        edge = np.partition(values, len(values) - count)[len(values) - count]
        chosen = np.flatnonzero(values >= edge)
    else:
        chosen = np.arange(len(values))
    order = np.lexsort((chosen, -values[chosen]))
    return chosen[order][:count].astype(np.int64)
