"""The index of the site table: for the hash of a name, the places of frames that may be the name's.

A map from 64 bits to 64 bits, which forgets nothing, in 256 pages by the top 8 bits of the hash (see
`site_kernels`). A page is at least 15/16 x 16/17 full once it has some hundred sites, so a site costs 17 to 19
bytes. Pages grow by a sixteenth, each by itself: the longest pause is the copying of one page, 1/256 of all
(some 3 ms at 100 million sites), and at most one page exists twice.

A hash may have several places: the caller must look at each for the name. Place 0 means none.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lycosa.crawl import site_kernels as kernels

Words = NDArray[np.uint64]

_PAGES = 256
_SMALLEST = 8
_MAPPED = 1 << 14
"""From this size on a page has a memory mapping of its own, which is returned to the system with the page."""


class Index:
    """Places by hash."""

    def __init__(self) -> None:
        nowhere = np.empty((1, 2), np.uint64)
        kernels.clear(nowhere)
        self._pages: list[Words] = [nowhere] * _PAGES
        self._capacities = [0] * _PAGES
        self._counts = [0] * _PAGES
        self._len = 0

    def __len__(self) -> int:
        return self._len

    @property
    def nbytes(self) -> int:
        return sum(page.nbytes + 128 for page in self._pages)  # 128: overhead of an array object

    def places(self, hashed: int) -> Iterator[int]:
        """The places of a hash; usually none or one."""
        page = hashed >> 56
        table, capacity, word = self._pages[page], self._capacities[page], np.uint64(hashed)
        n = 0
        while place := int(kernels.nth(table, capacity, word, n)):
            yield place
            n += 1

    def add(self, hashed: int, place: int) -> None:
        page = hashed >> 56
        word, value = np.uint64(hashed), np.uint64(place)
        while self._full(page) or not kernels.insert(self._pages[page], self._capacities[page], word, value):
            self._grow(page)
        self._counts[page] += 1
        self._len += 1

    def move(self, hashed: int, old: int, new: int) -> bool:
        """Replace a place by another; False if there is no such entry."""
        page = hashed >> 56
        return bool(
            kernels.replace(
                self._pages[page], self._capacities[page], np.uint64(hashed), np.uint64(old), np.uint64(new)
            )
        )

    # -- in bulk

    def put_all(self, hashes: Words, places: Words, replaced: Words) -> None:
        """Apply frames in the order they were written: each takes the entry of the one it replaces, or a new
        one."""
        for page, rows in _by_page(hashes):
            at = 0
            while True:
                room = self._capacities[page] * 15 // 16 - self._counts[page]
                at, added = kernels.put_all(
                    self._pages[page], self._capacities[page], room, hashes, places, replaced, rows, at
                )
                self._counts[page] += added
                self._len += added
                if at == len(rows):
                    break
                self._grow(page)

    def alive(self, hashes: Words, places: Words) -> NDArray[np.bool_]:
        """Which pairs of a hash and a place are entries."""
        out = np.empty(len(hashes), np.bool_)
        for page, rows in _by_page(hashes):
            kernels.alive(self._pages[page], self._capacities[page], hashes, places, rows, out)
        return out

    # -- inside

    def _full(self, page: int) -> bool:
        return self._counts[page] * 16 >= self._capacities[page] * 15

    def _grow(self, page: int) -> None:
        old, capacity = self._pages[page], self._capacities[page]
        while True:
            capacity += max(_SMALLEST, capacity // 16)
            new = _room(capacity + capacity // 128 + 8)
            if kernels.copy(old, new, capacity):
                break
        self._pages[page], self._capacities[page] = new, capacity


def _room(slots: int) -> Words:
    if slots * 16 < _MAPPED:
        return np.empty((slots, 2), np.uint64)
    mapping = mmap.mmap(-1, slots * 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(mapping, np.uint64).reshape(slots, 2)


def _by_page(hashes: Words) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """The rows of each page that has any, in their order."""
    if not len(hashes):
        return
    pages = (hashes >> np.uint64(56)).astype(np.uint8)
    order = np.argsort(pages, kind="stable")
    found, starts = np.unique(pages[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, starts[1:]), strict=True)
