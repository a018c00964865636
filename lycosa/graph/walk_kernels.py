"""Walks over graphs, compiled: ranks, distances, components. Graphs come as `Lists`, or in pieces."""

from __future__ import annotations

import numpy as np

from lycosa.compiled import njit


@njit(cache=True, nogil=True)
def push(first, starts, nodes, rank, out):  # type: ignore[no-untyped-def]
    """The nodes from `first` on pass their rank to their successors in equal parts; returns the dangling rank."""
    kept = 0.0
    for i in range(len(starts) - 1):
        a, b = starts[i], starts[i + 1]
        if a == b:
            kept += rank[first + i]
            continue
        share = rank[first + i] / (b - a)
        for j in range(a, b):
            out[nodes[j]] += share
    return kept


@njit(cache=True, nogil=True)
def distances(starts, nodes, sources, out, queue):  # type: ignore[no-untyped-def]
    """Steps from the nearest source to each node, −1 where none leads; returns how many were reached."""
    out[:] = -1
    head = 0
    tail = 0
    for s in sources:
        if out[s] < 0:
            out[s] = 0
            queue[tail] = s
            tail += 1
    while head < tail:
        x = queue[head]
        head += 1
        for j in range(starts[x], starts[x + 1]):
            y = nodes[j]
            if out[y] < 0:
                out[y] = out[x] + 1
                queue[tail] = y
                tail += 1
    return tail


@njit(cache=True, nogil=True)
def harmonic(starts, nodes, sources, scale, out):  # type: ignore[no-untyped-def]
    """Add, for each source, scale / distance to every other node that it reaches."""
    n = len(starts) - 1
    seen = np.full(n, -1, dtype=np.int32)
    queue = np.empty(n, dtype=np.int32)
    for round_ in range(len(sources)):
        source = sources[round_]
        seen[source] = round_
        queue[0] = source
        head = 0
        tail = 1
        level = 1.0
        while head < tail:
            stop = tail
            gain = scale / level
            while head < stop:
                x = queue[head]
                head += 1
                for j in range(starts[x], starts[x + 1]):
                    y = nodes[j]
                    if seen[y] != round_:
                        seen[y] = round_
                        out[y] += gain
                        queue[tail] = y
                        tail += 1
            level += 1.0


@njit(cache=True, nogil=True)
def _root(parent, x):  # type: ignore[no-untyped-def]
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


@njit(cache=True, nogil=True)
def unite(first, starts, nodes, parent):  # type: ignore[no-untyped-def]
    """Join each node with its successors; a set's root is its smallest node."""
    for i in range(len(starts) - 1):
        a = _root(parent, first + i)
        for j in range(starts[i], starts[i + 1]):
            b = _root(parent, nodes[j])
            if a < b:
                parent[b] = a
            elif b < a:
                parent[a] = b
                a = b


@njit(cache=True, nogil=True)
def roots(parent):  # type: ignore[no-untyped-def]
    """Point every node to its root."""
    for x in range(len(parent)):
        parent[x] = _root(parent, x)


@njit(cache=True, nogil=True)
def strong(starts, nodes, component):  # type: ignore[no-untyped-def]
    """Number the strongly connected components (Tarjan 1972, without recursion); returns their count."""
    n = len(starts) - 1
    low = np.zeros(n, dtype=np.int32)
    index = np.zeros(n, dtype=np.int32)  # 0: not met yet
    stack = np.empty(n, dtype=np.int32)
    path = np.empty(n, dtype=np.int32)
    at = starts[:-1].copy()  # the next arc to look at
    component[:] = -1
    met = 0
    held = 0
    found = 0
    for root in range(n):
        if index[root] != 0:
            continue
        path[0] = root
        depth = 1
        while depth > 0:
            x = path[depth - 1]
            if index[x] == 0:
                met += 1
                index[x] = met
                low[x] = met
                stack[held] = x
                held += 1
            if at[x] < starts[x + 1]:
                y = nodes[at[x]]
                at[x] += 1
                if index[y] == 0:
                    path[depth] = y
                    depth += 1
                elif component[y] < 0 and index[y] < low[x]:
                    low[x] = index[y]
                continue
            depth -= 1
            if depth > 0 and low[x] < low[path[depth - 1]]:
                low[path[depth - 1]] = low[x]
            if low[x] == index[x]:
                while True:
                    held -= 1
                    y = stack[held]
                    component[y] = found
                    if y == x:
                        break
                found += 1
    return found


@njit(cache=True, nogil=True)
def gaps(first, starts, nodes, spans, logs):  # type: ignore[no-untyped-def]
    """Gather spans[⌊log₂(|target − source| + 1)⌋], and the sum and count of log₂ of gaps within lists."""
    for i in range(len(starts) - 1):
        x = first + i
        for j in range(starts[i], starts[i + 1]):
            span = np.abs(np.int64(nodes[j]) - x) + 1
            b = 0
            while span > 1:
                span >>= 1
                b += 1
            spans[b] += 1
            if j > starts[i]:
                logs[0] += np.log2(np.float64(nodes[j] - nodes[j - 1]))
                logs[1] += 1
            else:
                logs[0] += np.log2(np.float64(np.abs(np.int64(nodes[j]) - x) + 1))
                logs[1] += 1
