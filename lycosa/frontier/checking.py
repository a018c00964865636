"""The checking mode: stores of packed arrays check their invariants after their operations.

    LYCOSA_CHECK=1      in the environment, when the program (or a run of its tests) starts

The invariants are stated in the `check` of each store; a violated one raises `BrokenError`, which names it. A check
reads everything, so a store is checked after one operation in `EVERY`, and a large one after one in `size / SHARE`:
the mode costs a bounded time per operation. The tests run in it.

Lists. Arrays of `next` numbers hold many lists at once: rows of a bucket, blocks of a queue, free elements. `lists`
checks that every element is in exactly one of them: each is pointed at once, by a head or by another element, and
following the links from each comes to an end (by doubling: after n rounds one has followed 2^n links).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lycosa.errors import LocalError

CHECKING = os.environ.get("LYCOSA_CHECK", "0") not in ("", "0")
SHARE = 32
"""Elements per operation between two checks: a store of n elements is checked after n / SHARE operations, or"""
EVERY = 50
"""after this many, if that is more: with a check after each operation, crawls in tests took twice as long."""

Numbers = NDArray[np.int64]


class BrokenError(LocalError):
    """An invariant of a store does not hold."""


def demand(holds: Any, what: str, where: Any = None) -> None:
    """Raise `BrokenError` unless `holds`; an array must hold for all elements (the error names the first that does
    not)."""
    if isinstance(holds, np.ndarray):
        if holds.all():
            return
        at = int(np.flatnonzero(~holds)[0])
        where = f"at {at if where is None else where[at]}"
    elif holds:
        return
    raise BrokenError(f"broken: {what}" + (f" ({where})" if where is not None else ""))


class Lists(NamedTuple):
    """For each element: the last of its list, and how many come after it."""

    last: Numbers
    after: Numbers


def lists(what: str, heads: Any, links: Any) -> Lists:
    """Check that every element is in exactly one list; `heads` and `links` have -1 for none."""
    n = len(links)
    heads = np.asarray(heads, np.int64)
    links = np.asarray(links, np.int64)
    for pointers in (heads, links):
        demand((pointers >= -1) & (pointers < n), f"{what}: every pointer is within the arrays")
    pointed = np.bincount(heads[heads >= 0], minlength=n) + np.bincount(links[links >= 0], minlength=n)
    demand(pointed <= 1, f"{what}: no element is in two lists, or twice in one")
    demand(pointed >= 1, f"{what}: no element is lost")
    ends = links < 0
    last = np.where(ends, np.arange(n), links)  # a last one points at itself
    after = np.where(ends, 0, 1)
    for _ in range(n.bit_length()):
        after += after[last]
        last = last[last]
    demand(ends[last], f"{what}: no list is a cycle")
    return Lists(last, after)


def checked(size: Callable[[Any], int], *operations: str) -> Callable[[type], type]:
    """A class decorator: in the checking mode, call the class's `check` after these operations."""

    def decorate(cls: type) -> type:
        if CHECKING:
            for name in operations:
                setattr(cls, name, _followed(getattr(cls, name), size))
        return cls

    return decorate


def _followed(operation: Callable[..., Any], size: Callable[[Any], int]) -> Callable[..., Any]:
    @wraps(operation)
    def followed(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = operation(self, *args, **kwargs)
        self.unchecked = getattr(self, "unchecked", 0) + 1
        if self.unchecked >= EVERY and self.unchecked * SHARE >= size(self):
            self.unchecked = 0
            self.check()
        return answer

    return followed
