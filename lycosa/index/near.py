"""Words with nearly the same spelling.

A vocabulary is stored as columns, so that words near a given one are found by arithmetic on columns: by length, and
by the letters that only one of them has. The few remaining words are compared letter by letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Vocabulary:
    """Words, and a search for those near another."""

    def __init__(self, words: Sequence[str]) -> None:
        self._text = "".join(words)
        self._lengths: Any = np.fromiter(map(len, words), np.int64, len(words))
        self._starts: Any = np.cumsum(self._lengths) - self._lengths
        letters = np.frombuffer(self._text.encode("utf-32-le", "surrogatepass"), np.uint32)
        self._letters: Any = np.zeros(len(words), np.uint64)
        if len(letters):  # words are not empty
            self._letters = np.bitwise_or.reduceat(_bits(letters), self._starts)

    def near(self, word: str, most: int) -> list[str]:
        """The words that become `word` by at most `most` letters added, dropped, changed or swapped."""
        own = np.frombuffer(word.encode("utf-32-le", "surrogatepass"), np.uint32)
        letters = np.bitwise_or.reduce(_bits(own), initial=np.uint64(0))
        of_size = np.flatnonzero(np.abs(self._lengths - len(word)) <= most)
        found = of_size[np.bitwise_count(self._letters[of_size] ^ letters) <= 2 * most]
        words = [self._text[start : start + size] for start, size in self._places(found)]
        return [each for each in words if within(each, word, most)]

    def _places(self, rows: Any) -> Any:
        return zip(self._starts[rows].tolist(), self._lengths[rows].tolist(), strict=True)


def _bits(letters: Any) -> Any:
    """One of 64 bits for each letter; letters may share a bit, which only lets more words through."""
    return np.uint64(1) << (letters & 63).astype(np.uint64)


def within(word: str, other: str, most: int) -> bool:
    """Whether one word becomes the other by at most `most` letters added, dropped, changed or swapped."""
    if abs(len(word) - len(other)) > most:
        return False
    if word == other:
        return True
    start = 0
    while start < min(len(word), len(other)) and word[start] == other[start]:
        start += 1
    a, b = word[start:], other[start:]
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        new = [i]
        for j, target in enumerate(b, 1):
            cost = min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (letter != target))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == target:
                cost = min(cost, before[j - 2] + 1)
            new.append(cost)
        if min(new) > most and (not before or min(row) > most):
            return False
        before, row = row, new
    return row[-1] <= most
