"""The kernels of `news`: the hashes of each block that counts, and the table of those that were met."""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.content.block_kernels import END, START, WORDS
from lycosa.content.change_kernels import normal

_NONE = np.uint64(0)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MET = np.uint32(1 << 31)


@njit(cache=True, nogil=True)
def hashes(text: Any, blocks: Any, chosen: Any, names: Any, whole: Any, bare: Any, words: Any) -> int:
    """Write for every chosen block the hash of its normal form, whole and without the tokens in `names`, and its
    words (0 if its normal form is empty); returns how many blocks there are."""
    count = 0
    for n in range(blocks.shape[0]):
        if not chosen[n]:
            continue
        start, end, size = blocks[n, START], blocks[n, END], blocks[n, WORDS]
        value, met = normal(text, start, end, size, names, False)
        whole[count] = bare[count] = value
        if met > 0:
            bare[count], met = normal(text, start, end, size, names, True)
        words[count] = size if value != _NONE else 0
        count += 1
    return count


@njit(cache=True, nogil=True)
def meet(table: Any, salt: Any, whole: Any, bare: Any, words: Any) -> Any:
    """How many words there are, and how many of them are in blocks that the table has by neither hash; then all are
    entered. A block that occurs twice within a page is new both times: all are looked up before any is entered."""
    slots = np.uint64(table.size - 1)
    total = fresh = 0
    for n in range(whole.size):
        total += words[n]
        is_new = True
        for value in (whole[n], bare[n]):
            mixed = (value ^ salt) * _MIX
            mark = np.uint32(mixed >> np.uint64(40)) | _MET
            is_new &= value != _NONE and table[mixed >> np.uint64(20) & slots] != mark
        if is_new:
            fresh += words[n]
    for n in range(whole.size):
        for value in (whole[n], bare[n]):
            if value != _NONE:
                mixed = (value ^ salt) * _MIX
                table[mixed >> np.uint64(20) & slots] = np.uint32(mixed >> np.uint64(40)) | _MET
    return total, fresh
