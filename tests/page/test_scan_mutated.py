"""Mutated pages through the scanner's kernel: no index leaves its array, and plain Python agrees.

Every page is scanned by the kernel of the product, by the same functions compiled with checks of every index, and
by them as plain Python: ten million pages take some twelve minutes of CPU, nearly all of it Python's. Arrays are
exactly as long as the page needs at most, and lie between bytes that differ from one way to the next: what is read
there makes the answers differ, and what is written there is found. Pages come from one seed, so a failure names the
page by its number; `LYCOSA_MUTATED_FROM` chooses another seed.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
import pytest

from lycosa.compiled import Kernel
from lycosa.page import scan_kernels
from lycosa.page.scan_kernels import DEEP, HEAD, LONGEST, SHORTEST
from tests.page.test_scan import _PIECES

SIZE = 160
"""Bytes of a page at most; half of them on average."""
BATCH = 20_000
TEXT = 40
"""Bytes of an anchor's text that are kept: few, so that the limit is met."""


@numba.njit(cache=False)
def mutated(seed: int, pieces: Any, offsets: Any, bodies: Any, sizes: Any) -> None:
    """Fill `bodies` with pages: pieces of markup one after the other, then bytes changed, cut out, doubled."""
    np.random.seed(seed)
    most = bodies.shape[1]
    for page in range(len(sizes)):
        body = bodies[page]
        size = 0
        want = np.random.randint(0, most + 1)
        while size < want:
            piece = np.random.randint(0, len(offsets) - 1)
            for at in range(offsets[piece], offsets[piece + 1]):
                if size < most:
                    body[size] = pieces[at]
                    size += 1
        for _ in range(np.random.randint(0, 6)):
            if size == 0:
                break
            at, what = np.random.randint(0, size), np.random.randint(0, 5)
            if what == 0:
                body[at] = np.random.randint(0, 256)
            elif what == 1:
                body[at] ^= np.uint8(1 << np.random.randint(0, 8))
            elif what == 2:  # a stretch is cut out
                length = min(np.random.randint(1, 9), size - at)
                for to in range(at, size - length):
                    body[to] = body[to + length]
                size -= length
            elif what == 3:  # a stretch comes again elsewhere, over what is there
                length = min(np.random.randint(1, 17), size - at)
                to = np.random.randint(0, size - length + 1)
                for step in range(length):
                    body[to + step] = body[at + step]
            else:
                size = at  # the end of the file anywhere
        sizes[page] = size


def checked(kernel: Kernel, made: dict[str, Any]) -> Any:
    """The kernel compiled anew, and all that it calls, with every index checked."""
    if kernel.__name__ not in made:
        seen = dict(kernel.py_func.__globals__)
        for name in kernel.__code__.co_names:
            if isinstance(value := seen.get(name), Kernel):
                seen[name] = checked(value, made)
        copy = types.FunctionType(kernel.__code__, seen, kernel.__name__)
        made[kernel.__name__] = numba.njit(boundscheck=True, error_model="python")(copy)
    return made[kernel.__name__]


def plain(kernel: Kernel) -> Callable[..., Any]:
    """The kernel, and all that it calls, as plain Python."""
    seen = dict(kernel.py_func.__globals__)
    for name in kernel.__code__.co_names:
        if isinstance(value := seen.get(name), Kernel):
            seen[name] = plain(value)
    return types.FunctionType(kernel.__code__, seen, kernel.__name__)


def batches(count: int, seed: int) -> Iterator[tuple[int, Any, Any]]:
    """Numbers of first pages, their bytes, their sizes."""
    pieces = np.frombuffer(b"".join(_PIECES), np.uint8)
    offsets = np.cumsum([0, *map(len, _PIECES)])
    for first in range(0, count, BATCH):
        bodies = np.zeros((min(BATCH, count - first), SIZE), np.uint8)
        sizes = np.zeros(len(bodies), np.int64)
        mutated(seed + first, pieces, offsets, bodies, sizes)
        yield first, bodies, sizes


EDGE = 16
"""Bytes, or integers, on either side of an array."""


class Way:
    """One of the ways to scan, with buffers of its own; `edge` is what lies around them."""

    def __init__(self, scan: Any, edge: bytes) -> None:
        self._scan = scan
        self._edge = edge[0]
        self._data, self._texts = np.full((2, SIZE + 2 * EDGE), self._edge, np.uint8)
        self._tape = np.full(HEAD * SIZE // SHORTEST + LONGEST + 2 * EDGE, self._edge, np.int32)
        self._stack = np.full(DEEP + 2 * EDGE, self._edge, np.int32)

    def tape(self, page: Any, xml: bool, small: bool) -> tuple[Any, bytes, bytes]:
        """What the kernel writes; with a `small` tape only what has room there."""
        size = len(page)
        longest = 2 * LONGEST if small else HEAD * size // SHORTEST + LONGEST
        texts, tape = self._texts[EDGE : EDGE + size], self._tape[EDGE : EDGE + longest]
        data = self._data[EDGE : EDGE + size]
        data[:] = page
        end, text_end, full = self._scan(data, size, xml, TEXT, tape, texts, self._stack[EDGE:-EDGE])
        assert small or not full
        found = full, tape[:end].tobytes(), texts[:text_end].tobytes()
        assert bytes(data) == bytes(page)
        data[:] = texts[:] = tape[:] = self._edge
        return found

    def is_whole(self) -> bool:
        """Whether nothing was written around the arrays; `stack` may hold anything within."""
        self._stack[EDGE:-EDGE] = self._edge
        arrays = (self._data, self._texts, self._tape, self._stack)
        return all(bool((array == self._edge).all()) for array in arrays)


def compared(count: int, seed: int) -> int:
    """Scan so many pages in all three ways; how many held a link."""
    ours = Way(scan_kernels.scan, b">")
    others = Way(checked(scan_kernels.scan, {}), b"<"), Way(plain(scan_kernels.scan), b'"')
    held = 0
    for first, bodies, sizes in batches(count, seed):
        for number, size in enumerate(sizes.tolist()):
            page, xml, small = bodies[number, :size], number % 4 == 0, number % 8 == 1
            found = ours.tape(page, xml, small)
            held += len(found[1]) > 0
            for other in others:
                assert other.tape(page, xml, small) == found, (first + number, page.tobytes())
        assert ours.is_whole() and others[0].is_whole() and others[1].is_whole(), first
    return held


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.filterwarnings("ignore:overflow encountered")  # plain Python says what the kernel means
def test_ten_million_mutated_pages() -> None:
    seed = int(os.environ.get("LYCOSA_MUTATED_FROM", "20261116"))
    assert compared(10_000_000, seed) > 4_000_000
