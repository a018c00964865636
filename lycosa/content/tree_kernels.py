"""Decision trees: scores of rows of numbers.

A tree of depth d is complete: 2^d - 1 questions ("is column `columns[t, i]` above `limits[t, i]`?", the children
of i are 2i + 1, if not, and 2i + 2), and 2^d leaves, whose values are added up over all trees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit


@njit(cache=True, nogil=True)
def score(rows: Any, columns: Any, limits: Any, leaves: Any, base: float, out: Any) -> None:
    """The probability that each row is what the trees were fitted to."""
    questions = columns.shape[1]
    for n in range(rows.shape[0]):
        row = rows[n]
        total = base
        for tree in range(columns.shape[0]):
            at = 0
            while at < questions:
                at = 2 * at + (2 if row[columns[tree, at]] > limits[tree, at] else 1)
            total += leaves[tree, at - questions]
        out[n] = 1.0 / (1.0 + np.exp(-total))
