"""The checking mode: a store of packed arrays looks after its operations whether all that must hold does hold.

    LYCOSA_CHECK=1      in the environment, when the program (or a run of its tests) starts

What must hold is said where it is looked at, in the `check` of each store; one that does not hold raises
`BrokenError`, which names it. A check reads everything, so a store is checked after one operation in `EVERY`, and
one of many elements after one in `size / SHARE`: the mode costs a bounded time per operation. The tests run in it.

Lists. Arrays of `next` numbers hold many lists at once: rows of a bucket, blocks of a queue, what is free. `lists`
looks whether every element is in exactly one of them: each is pointed at once, by a head or by another, and from
each one comes to an end (by doubling: after n rounds one has gone 2^n on).
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
"""Elements for which a check after every operation is not too dear; and"""
EVERY = 50
"""operations from one check to the next at least: after each one, crawls in tests took twice as long."""

Numbers = NDArray[np.int64]


class BrokenError(LocalError):
    """Something that must hold of a store does not."""


def demand(holds: Any, what: str, where: Any = None) -> None:
    """Raise `BrokenError` unless it holds, for all elements if it is an array (then with the first where not)."""
    if isinstance(holds, np.ndarray):
        if holds.all():
            return
        at = int(np.flatnonzero(~holds)[0])
        where = f"at {at if where is None else where[at]}"
    elif holds:
        return
    raise BrokenError(f"broken: {what}" + (f" ({where})" if where is not None else ""))


class Lists(NamedTuple):
    """Of each element: the last of its list, and how many come after it."""

    last: Numbers
    after: Numbers


def lists(what: str, heads: Any, links: Any) -> Lists:
    """Every element is in exactly one list; `heads` and `links` have -1 for none."""
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
    """Of a class with a method `check`: have it called after these operations, in the checking mode."""

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
