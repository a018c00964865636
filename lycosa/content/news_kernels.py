"""The kernels of `news`: the hashes of each block that counts, and the table of those that were met."""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.content.block_kernels import END, START, WORDS
from lycosa.content.change_kernels import NO_NAMES, normal
from lycosa.content.sketch_kernels import mixed

_NONE = np.uint64(0)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FNV = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_BLANK = np.uint64(32)
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


@njit(cache=True, nogil=True)
def said(text: Any, blocks: Any, chosen: Any, ids: Any, least: int) -> Any:
    """The digest of the content (`change_kernels.digest`); the sum of the hashes of all chosen blocks word by word,
    and how many words they have: runs of letters and figures, whatever their case, without those of `least` bytes
    or more whose hash (`fnv`) is in `ids`."""
    content = total = np.uint64(0)
    words = 0
    for n in range(blocks.shape[0]):
        if not chosen[n]:
            continue
        at, end = blocks[n, START], blocks[n, END]
        content += normal(text, at, end, blocks[n, WORDS], NO_NAMES, False)[0]
        block = _FNV
        before = words
        word, length = _FNV, 0
        while at <= end:
            byte = text[at] if at < end else np.uint8(32)
            if 65 <= byte <= 90:
                byte += np.uint8(32)
            at += 1
            if 97 <= byte <= 122 or 48 <= byte <= 57 or byte >= 0x80:
                word = (word ^ np.uint64(byte)) * _PRIME
                length += 1
            elif length:
                is_id = False
                if length >= least:
                    for value in ids:
                        is_id |= value == word
                if not is_id:
                    block = ((block ^ word) * _PRIME ^ _BLANK) * _PRIME
                    words += 1
                word, length = _FNV, 0
        if words > before:
            total += mixed(block)
    return content, total, words
