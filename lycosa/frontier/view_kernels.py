"""The arrays of a `Store`, for kernels: made of the addresses in its `c`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, njit, types  # type: ignore[attr-defined]  # numba does not list carray
from numba.core import cgutils
from numba.extending import intrinsic

from lycosa.frontier.store import COUNTERS, HOST, QUEUE

_AT = COUNTERS


class View(NamedTuple):
    """The arrays, in the order of `store.ARRAYS`, and `c` itself."""

    hosts: Any
    queues: Any
    heads: Any
    names: Any
    front: Any
    time: Any
    ready: Any
    idle: Any
    arena: Any
    links: Any
    side: Any
    limbo: Any
    texts: Any
    spans: Any
    c: Any


def _as_pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


_pointer: Any = intrinsic(_as_pointer)


@njit(cache=True, nogil=True)
def view(c: Any) -> Any:
    """All arrays of the store that `c` belongs to."""
    return View(
        carray(_pointer(c[_AT]), (c[_AT + 1],), HOST),
        carray(_pointer(c[_AT + 2]), (c[_AT + 3],), QUEUE),
        carray(_pointer(c[_AT + 4]), (c[_AT + 5],), np.int32),
        carray(_pointer(c[_AT + 6]), (c[_AT + 7],), np.uint8),
        carray(_pointer(c[_AT + 8]), (c[_AT + 9],), np.int32),
        carray(_pointer(c[_AT + 10]), (c[_AT + 11],), np.int32),
        carray(_pointer(c[_AT + 12]), (c[_AT + 13],), np.int32),
        carray(_pointer(c[_AT + 14]), (c[_AT + 15],), np.int32),
        carray(_pointer(c[_AT + 16]), (c[_AT + 17],), np.uint8),
        carray(_pointer(c[_AT + 18]), (c[_AT + 19],), np.int32),
        carray(_pointer(c[_AT + 20]), (c[_AT + 21],), np.float64),
        carray(_pointer(c[_AT + 22]), (c[_AT + 23],), np.int32),
        carray(_pointer(c[_AT + 24]), (c[_AT + 25],), np.uint8),
        carray(_pointer(c[_AT + 26]), (c[_AT + 27],), np.int64),
        c,
    )
