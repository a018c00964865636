"""The kernel of `news`: the hash of each block that counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.content.block_kernels import END, START, WORDS
from lycosa.content.change_kernels import normal


@njit(cache=True, nogil=True)
def hashes(text: Any, blocks: Any, chosen: Any, found: Any, words: Any) -> int:
    """The hash of the normal form of every chosen block, and its words; how many there are. A block of which
    nothing is left has neither."""
    count = 0
    for n in range(blocks.shape[0]):
        if not chosen[n]:
            continue
        value = normal(text, blocks[n, START], blocks[n, END], blocks[n, WORDS])
        found[count] = value
        words[count] = blocks[n, WORDS] if value != np.uint64(0) else 0
        count += 1
    return count
