"""A page's importance as a weight of five bits, in records and in the page table.

    importance = 2^((weight − 16) / 2)          weight 1 to 31: from 1/181 to 181, in steps of 1.41

Weight 0 means that no importance was determined; it counts as importance 1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from lycosa.refresh.rates import Column

LEAST, ONE, MOST = 1, 16, 31


def weight_of(importance: float) -> int:
    """The weight nearest to an importance."""
    if not importance > 0:
        return LEAST
    return int(min(max(round(2 * math.log2(importance)) + ONE, LEAST), MOST))


def importance_of(weights: ArrayLike) -> Column:
    """The importances that weights stand for."""
    given = np.asarray(weights, np.float64)
    return np.asarray(np.where(given > 0, np.exp2((given - ONE) / 2), 1.0))


def by_depth(depth: int) -> int:
    """The weight of a page so many links from a seed: each link halves the importance, to 1/16 at least."""
    return ONE - 2 * min(max(depth, 0), 4)
