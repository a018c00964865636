"""Graphs for the tests: a small web with copied neighbourhoods, and in-memory files."""

from __future__ import annotations

import numpy as np

from lycosa.graph.bv import Lists


def as_lists(rows: list[list[int]]) -> Lists:
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=starts[1:])
    return Lists(starts, np.array([node for row in rows for node in row], dtype=np.int32))


def as_rows(lists: Lists) -> list[list[int]]:
    return [lists[i].tolist() for i in range(lists.count)]


def web(nodes: int, seed: int = 1) -> list[list[int]]:
    """Rows as on the Web: most of a row is copied from a page near by, with runs and a few far links."""
    rng = np.random.default_rng(seed)
    rows: list[list[int]] = []
    for x in range(nodes):
        kind = rng.random()
        row: set[int] = set()
        if kind < 0.15:
            rows.append([])
            continue
        if rows and kind < 0.8:
            near = rows[-1 - int(rng.integers(0, min(12, len(rows))))]
            row |= {node for node in near if rng.random() < 0.9}
        if rng.random() < 0.4:
            left = int(rng.integers(max(0, x - 50), max(1, min(nodes, x + 50))))
            row |= set(range(left, min(nodes, left + int(rng.integers(2, 12)))))
        count = int(min(nodes, rng.geometric(0.3)))
        near_by = (x + rng.integers(-20, 20, size=count)).clip(0, nodes - 1)
        row |= {int(node) for node in near_by}
        if rng.random() < 0.3:
            row.add(int(rng.integers(0, nodes)))
        rows.append(sorted(row))
    return rows
