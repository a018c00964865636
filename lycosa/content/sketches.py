"""Sketches of texts: estimating the similarity of two pages from a few bytes of each.

A text is its set of *shingles*: three words in a row. Words are runs of letters and digits in lower case; a
character of a script without spaces is a word. A text of one or two words is one shingle. Two sketches come out
of one pass:

SimHash (Charikar, STOC 2002; for web pages Manku, Jain and Das Sarma, WWW 2007). 64 bits: every shingle, as
often as it occurs, votes on every bit. Texts that share most shingles differ in few bits; unrelated ones in 32,
give or take 4.

MinHash (Broder 1997; one permutation, Li, Owen and Zhang 2012, empty bins filled as by Shrivastava 2017). 128
bins: a shingle's hash says which bin it belongs to and its value there; a bin keeps the least. The share of bins
in which two texts agree estimates the Jaccard similarity of their sets of shingles, with a standard deviation of
√(J(1-J)/128), at most .045. Of each value one byte is kept: 128 bytes per page; what agrees by chance (1 of 256)
is taken off the estimate.

`plain_sketch` is the same in plain Python; the kernel is tested against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import numpy as np

from lycosa.content import sketch_kernels as kernels
from lycosa.content.fnv import fnv
from lycosa.content.sketch_kernels import BANDS, BINS, MOST_WORDS, ROWS, SHINGLE

NEAR: Final = 3
"""The distance up to which simhashes alone indicate near duplicates, in a crawl of billions of pages."""


class Sketch(msgspec.Struct, frozen=True, gc=False):
    """The sketch of a text."""

    simhash: int
    least: bytes
    """A byte for each bin; empty for a text without words."""
    bands: bytes = b""
    """For an index: 32 bits (little-endian) for each of 42 groups of three bins. Texts of similarity s share one
    with probability 1 - (1 - s³)^42: .996 at .5, .68 at .3."""

    def like(self, other: Sketch) -> float:
        """The estimated Jaccard similarity of the shingles of two texts, 0 to 1."""
        return similarity(self.least, other.least)

    def distance(self, other: Sketch) -> int:
        """In how many bits the simhashes differ."""
        return (self.simhash ^ other.simhash).bit_count()


def similarity(a: bytes, b: bytes) -> float:
    """The estimated Jaccard similarity of two texts by the bytes of their bins."""
    if not a or not b:
        return float(a == b)
    agree = sum(map(int.__eq__, a, b)) / BINS
    return max(0.0, (agree - 1 / 256) / (1 - 1 / 256))


def similarities(least: bytes, others: Any) -> Any:
    """The same against many, which are rows of bytes."""
    agree = (others == np.frombuffer(least, np.uint8)).sum(axis=1) / BINS
    return np.maximum(0.0, (agree - 1 / 256) / (1 - 1 / 256))


def sketch(text: str) -> Sketch:
    """Both sketches of a text."""
    data = np.frombuffer(text.encode("utf-8", "replace").lower(), np.uint8)
    votes = np.zeros(64, np.int32)
    least = np.full(BINS, 0xFFFFFFFFFFFFFFFF, np.uint64)
    simhash, shingles = kernels.sketch(data, votes, least)
    if not shingles:
        return Sketch(0, b"")
    kernels.fill(least)
    octets, bands = np.empty(BINS, np.uint8), np.empty(BANDS, "<u4")
    kernels.finish(least, octets, bands)
    return Sketch(int(simhash), octets.tobytes(), bands.tobytes())


# -- the same in plain Python

_ALL = (1 << 64) - 1
_WORD = re.compile(
    "[\u3040-\ud7ff]|(?:[a-z0-9\u00aa\u00b5\u00ba\u00c0-\u1fff\u2080-\u2fff\ue000-\uefff\uf000-\ufeff\uff40-\uffff]"
    "|[\U00010000-\U0010ffff])+"
)


def words_of(text: str) -> list[str]:
    """The words that a sketch sees."""
    return _WORD.findall(text.encode("utf-8", "replace").lower().decode())[:MOST_WORDS]


def _mixed(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _ALL
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _ALL
    return value ^ value >> 31


def shingles_of(text: str) -> list[int]:
    """The hashes of a text's shingles, in order."""
    hashes = [fnv(word.encode("utf-8", "replace")) for word in words_of(text)]
    factor = 0x9E3779B97F4A7C15
    if not hashes:
        return []
    if len(hashes) < SHINGLE:
        first, second = [0, *hashes][-2:]
        return [_mixed((first * factor + second) * factor & _ALL)]
    return [
        _mixed(((a * factor + b) * factor + c) * factor & _ALL)
        for a, b, c in zip(hashes, hashes[1:], hashes[2:], strict=False)
    ]


def jaccard(a: Iterable[int], b: Iterable[int]) -> float:
    """The exact Jaccard similarity of two sets of shingles."""
    one, two = set(a), set(b)
    return len(one & two) / len(one | two) if one or two else 1.0


def plain_sketch(text: str) -> Sketch:
    """Both sketches, by their definition."""
    shingles = shingles_of(text)
    if not shingles:
        return Sketch(0, b"")
    simhash = 0
    for bit in range(64):
        if 2 * sum(shingle >> bit & 1 for shingle in shingles) > len(shingles):
            simhash |= 1 << bit
    least = [_ALL] * BINS
    for shingle in shingles:
        place = shingle >> 57
        least[place] = min(least[place], _mixed(shingle ^ 0x9E3779B97F4A7C15))
    filled = list(least)
    for place in range(BINS):
        step = 1
        while filled[place] == _ALL:
            other = _mixed(place * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 & _ALL) >> 57
            if least[other] != _ALL:
                filled[place] = _mixed(least[other] + place & _ALL)
            step += 1
    bands = b""
    for band in range(BANDS):
        value = 0
        for each in filled[band * ROWS : (band + 1) * ROWS]:
            value = (value + each) * 0x9E3779B97F4A7C15 & _ALL
        bands += (value >> 32).to_bytes(4, "little")
    return Sketch(simhash, bytes(each & 0xFF for each in filled), bands)
