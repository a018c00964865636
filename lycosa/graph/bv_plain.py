"""The BV format in plain Python: the reference that the kernels are tested against.

Slow (some microseconds a bit) and simple. `encode` follows WebGraph's choices exactly, so that our streams
have the length of its own: for each r from 0 to the window the list is tried as a copy of that of node x −
r, except where that list is empty or its chain is at the limit; the strictly cheapest wins, so ties go to
the smaller r.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lycosa.graph.bits import BitReader, BitsError, BitWriter, int2nat, nat2int
from lycosa.graph.bv_format import UNLIMITED, Counts, Parameters


def decode_node(
    reader: BitReader, x: int, nodes: int, p: Parameters, before: Sequence[Sequence[int]]
) -> list[int]:
    """The successors of x; `before[r-1]` is the list of node x − r. `BitsError` if the bits are no list."""
    degree = reader.read(p.outdegrees)
    if degree > nodes:
        raise BitsError(f"node {x} has more successors than there are nodes")
    if degree == 0:
        return []
    r = reader.read(p.references) if p.window else 0
    copied: list[int] = []
    if r:
        if r > min(p.window, len(before)):
            raise BitsError(f"node {x} refers outside the window")
        prototype = before[r - 1]
        at, copying = 0, True
        for i in range(count := reader.read(p.block_count)):
            size = reader.read(p.blocks) + (1 if i else 0)
            if at + size > len(prototype):
                raise BitsError(f"node {x} copies more than there is")
            if copying:
                copied += prototype[at : at + size]
            at, copying = at + size, not copying
        if count % 2 == 0:
            copied += prototype[at:]
    missing = degree - len(copied)
    runs: list[int] = []
    if missing > 0 and p.interval:
        end = 0
        count = reader.gamma()
        if count * p.interval > missing:
            raise BitsError(f"node {x} has more intervals than successors")
        for i in range(count):
            gap = reader.gamma()
            left = x + nat2int(gap) if i == 0 else end + 1 + gap
            size = reader.gamma() + p.interval
            end = left + size
            missing -= size
            if left < 0 or end > nodes or missing < 0:
                raise BitsError(f"node {x} has an interval outside the graph")
            runs += range(left, end)
    residuals: list[int] = []
    for i in range(missing):
        gap = reader.read(p.residuals, p.k)
        successor = x + nat2int(gap) if i == 0 else residuals[-1] + 1 + gap
        if not 0 <= successor < nodes:
            raise BitsError(f"node {x} has a successor outside the graph")
        residuals.append(successor)
    successors = sorted(copied + runs + residuals)
    if missing < 0 or any(a == b for a, b in pairwise(successors)):
        raise BitsError(f"node {x} has a successor twice")
    return successors


def decode(data: bytes, nodes: int, p: Parameters) -> list[list[int]]:
    """All lists of a stream."""
    reader = BitReader(data)
    lists: list[list[int]] = []
    for x in range(nodes):
        lists.append(decode_node(reader, x, nodes, p, lists[: -p.window - 1 : -1]))
    return lists


def _blocks(current: Sequence[int], prototype: Sequence[int]) -> tuple[list[int], list[int]]:
    """The blocks that copy what `current` shares with `prototype`, and what is left of `current`."""
    shared = set(current) & set(prototype)
    blocks: list[int] = []
    copying, run = True, 0
    last = max((i for i, node in enumerate(prototype) if node in shared), default=-1)
    for node in prototype[: last + 1]:
        if (node in shared) != copying:
            blocks.append(run)
            copying, run = not copying, 0
        run += 1
    if last + 1 < len(prototype):  # skip the rest: an odd count does
        if not copying:
            raise AssertionError("a copied node is last")
        blocks.append(run)
    return blocks, [node for node in current if node not in shared]


def _encode_node(
    out: BitWriter, x: int, current: Sequence[int], r: int, prototype: Sequence[int], p: Parameters, n: Counts
) -> None:
    mark = len(out)

    def spent() -> int:
        nonlocal mark
        before, mark = mark, len(out)
        return mark - before

    out.write(p.outdegrees, len(current))
    n.outdegrees += spent()
    if not current:
        return
    if p.window:
        out.write(p.references, r)
        n.references += spent()
    extras = list(current)
    if r:
        blocks, extras = _blocks(current, prototype)
        out.write(p.block_count, len(blocks))
        for i, size in enumerate(blocks):
            out.write(p.blocks, size - (1 if i else 0))
        n.blocks += spent()
        n.copied_arcs += len(current) - len(extras)
        n.references_used += 1
        n.reference_total += r
    residuals = extras
    if p.interval and extras:
        runs: list[list[int]] = []  # left, length
        for node in extras:
            if runs and node == sum(runs[-1]):
                runs[-1][1] += 1
            else:
                runs.append([node, 1])
        residuals = [node for left, size in runs if size < p.interval for node in range(left, left + size)]
        runs = [run for run in runs if run[1] >= p.interval]
        out.gamma(len(runs))
        end = 0
        for i, (left, size) in enumerate(runs):
            out.gamma(left - end - 1 if i else int2nat(left - x))
            out.gamma(size - p.interval)
            end = left + size
        n.intervals += spent()
        n.interval_arcs += len(extras) - len(residuals)
    for i, node in enumerate(residuals):
        out.write(p.residuals, node - residuals[i - 1] - 1 if i else int2nat(node - x), p.k)
    n.residuals += spent()
    n.residual_arcs += len(residuals)


def encode(lists: Sequence[Sequence[int]], p: Parameters) -> tuple[BitWriter, list[int], Counts]:
    """The stream, the bit position of each list and of the end, and what the bits were spent on."""
    out, offsets, counts = BitWriter(), [0], Counts()
    chains: list[int] = []
    for x, current in enumerate(lists):
        best, cost = 0, -1
        for r in range(min(x, p.window) + 1):
            if r and (not lists[x - r] or (p.chain != UNLIMITED and chains[x - r] >= p.chain)):
                continue
            trial = BitWriter()
            _encode_node(trial, x, current, r, lists[x - r] if r else (), p, Counts())
            if cost < 0 or len(trial) < cost:
                best, cost = r, len(trial)
        best = best if current else 0
        _encode_node(out, x, current, best, lists[x - best] if best else (), p, counts)
        chains.append(chains[x - best] + 1 if best else 0)
        counts.chain_total += chains[-1]
        offsets.append(len(out))
    return out, offsets, counts
