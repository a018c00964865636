"""Decision trees: scores of rows of numbers.

A tree of depth d is complete: 2^d - 1 questions ("is column `columns[t, i]` above `limits[t, i]`?", the children
of i are 2i + 1, if not, and 2i + 2), and 2^d leaves, whose values are added up over all trees.

The rows are processed in groups that fit into the first cache, and four rows go through a tree at a time: each
answer determines the next question, so a single row would wait for memory at every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit

_ROWS = 16
_ONE, _TWO = np.uint64(1), np.uint64(2)


@njit(cache=True, nogil=True)
def score(rows: Any, columns: Any, limits: Any, leaves: Any, base: float, out: Any) -> None:
    """The probability that each row is what the trees were fitted to."""
    count = rows.shape[0]
    questions = np.uint64(columns.shape[1])
    levels = 0
    while (1 << levels) <= columns.shape[1]:
        levels += 1
    totals = np.full(count, base, np.float64)
    for first in range(0, count, _ROWS):
        last = min(count, first + _ROWS)
        whole = last - (last - first) % 4
        for tree in range(columns.shape[0]):
            asked, limit, leaf = columns[tree], limits[tree], leaves[tree]
            for n in range(first, whole, 4):
                a = b = c = d = np.uint64(0)  # unsigned: no place is counted from the end
                one, two, three, four = rows[n], rows[n + 1], rows[n + 2], rows[n + 3]
                for _ in range(levels):
                    a = _TWO * a + _ONE + np.uint64(one[asked[a]] > limit[a])
                    b = _TWO * b + _ONE + np.uint64(two[asked[b]] > limit[b])
                    c = _TWO * c + _ONE + np.uint64(three[asked[c]] > limit[c])
                    d = _TWO * d + _ONE + np.uint64(four[asked[d]] > limit[d])
                totals[n] += leaf[a - questions]
                totals[n + 1] += leaf[b - questions]
                totals[n + 2] += leaf[c - questions]
                totals[n + 3] += leaf[d - questions]
            for n in range(whole, last):
                row = rows[n]
                a = np.uint64(0)
                for _ in range(levels):
                    a = _TWO * a + _ONE + np.uint64(row[asked[a]] > limit[a])
                totals[n] += leaf[a - questions]
    for n in range(count):
        out[n] = 1.0 / (1.0 + np.exp(-totals[n]))
