"""Work counted, for tests of how it grows: calls and memory do not depend on how busy the machine is."""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, Python's and C's."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def peak(work: Callable[[], object]) -> int:
    """The most bytes of Python's memory that are held at a time, beyond those held before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def growth(work: Callable[[int], object], size: int, tries: int = 7, rounds: int = 10) -> float:
    """How many times longer four times the size takes: 4 where time is linear, 16 where it is quadratic.

    By processor time, and of each the fastest of several tries; of more of them while that does not look linear:
    on a busy machine others take the caches, and a run that was undisturbed has to be waited for.
    """
    best = {size: float("inf"), 4 * size: float("inf")}
    grown = float("inf")
    for _ in range(rounds):
        for amount in best:
            for _ in range(tries):
                start = time.thread_time()
                work(amount)
                best[amount] = min(best[amount], time.thread_time() - start)
        grown = best[4 * size] / max(best[size], 1e-6)
        if grown < 6:
            break
    return grown
