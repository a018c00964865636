"""Fingerprints of content: an exact digest and a sketch for near duplicates.

Digest. 64 bits of XXH3 over the decoded body. Two pages with one digest are the same page; it is never zero
for a body that is not empty, since zero says "empty" in the log. It has no seed: digests of different crawls can be
compared. XXH3 is no cryptographic hash: a site can craft two bodies of one digest. All that it gains is that one of
its pages counts as a duplicate of the other. A duplicate is read and its links are followed as those of any page.

Sketch. A 64-bit simhash (Charikar, STOC 2002; for web pages Manku, Jain and Das Sarma, WWW 2007): every
shingle of three words is hashed, each hash votes on all 64 bits, and the majority of each bit is the
sketch. Sketches of texts that share most shingles differ in few bits: with the shingle counts at angle θ,
in 64·θ/π bits on average. One word changed in a text of n words changes 3 of its n shingles, hence about
64·√(6/n)/π bits: 2.9 for 300 words, 1.6 for 1,000 (measured: 2.9 and 1.6, seldom more than twice that).
Unrelated texts differ in 32 bits, give or take 4. Manku et al. call pages at distance 3 or less near
duplicates, among 8 billion of them; that is `NEAR`. In a smaller crawl, or for short texts, up to 10 is safe.

Words are runs of letters and digits, in lower case, so that markup, spacing and punctuation do not count.
Scripts without spaces have few and long words: where the mean word is longer than 12 characters, every
character is a word. A text of fewer than three words is one shingle. Shingles count as often as they occur.
A text without words has sketch 0.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

SHINGLE: Final = 3
NEAR: Final = 3
"""The distance up to which two sketches are taken for near duplicates."""

MOST_WORDS: Final = 100_000
"""Words of a text that count; what follows changes nothing about which pages are alike."""

_WORD = re.compile(r"[^\W_]+")
_ODD_1 = np.uint64(0x9E3779B97F4A7C15)
_ODD_2 = np.uint64(0xBF58476D1CE4E5B9)
_ODD_3 = np.uint64(0x94D049BB133111EB)


def digest(body: bytes) -> int:
    """64-bit digest of a body: 0 if it is empty, and only then."""
    if not body:
        return 0
    return int(xxh3_64_intdigest(body)) or 1


def words_of(text: str) -> list[str]:
    """The words that a sketch sees."""
    words: list[str] = _WORD.findall(text.lower())
    if words and sum(map(len, words)) > 12 * len(words):
        words = list("".join(words))
    return words[:MOST_WORDS]


def sketch(text: str) -> int:
    """64-bit simhash of a text's shingles; 0 if it has no words."""
    words = words_of(text)
    if not words:
        return 0
    known = {word: xxh3_64_intdigest(word.encode("utf-8", "replace")) for word in set(words)}
    hashes: NDArray[np.uint64] = np.array(list(map(known.__getitem__, words)), dtype=np.uint64)
    # A shingle's hash depends on the order of its words: each place has a factor of its own.
    count = max(1, len(words) - SHINGLE + 1)
    shingles = np.zeros(count, dtype=np.uint64)
    for place in range(min(SHINGLE, len(words))):
        shingles = (shingles + hashes[place : place + count]) * _ODD_1
    shingles ^= shingles >> np.uint64(30)
    shingles *= _ODD_2
    shingles ^= shingles >> np.uint64(27)
    shingles *= _ODD_3
    shingles ^= shingles >> np.uint64(31)
    bits = np.unpackbits(shingles.astype("<u8").view(np.uint8).reshape(count, 8), axis=1, bitorder="little")
    # A product with ones is the fastest sum over columns, and exact: MOST_WORDS is far below 2^24.
    votes = np.ones(count, dtype=np.float32) @ bits.astype(np.float32)
    majority = np.packbits(votes * 2 > count, bitorder="little")
    return int.from_bytes(majority.tobytes(), "little")


def distance(a: int, b: int) -> int:
    """In how many bits two sketches differ."""
    return (a ^ b).bit_count()
