"""The arrays of a `Store`, for kernels: made of the addresses and lengths in its `c`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import Later, intrinsic, njit
from lycosa.frontier.packed.store import (
    ARENA,
    FRONT_HEAP,
    HEADS,
    HOST,
    HOST_ROWS,
    IDLE_HEAP,
    LIMBO_PAIRS,
    LINKS,
    NAME_BYTES,
    QUEUE,
    QUEUE_ROWS,
    READY_HEAP,
    SIDE_WORDS,
    SPANS_AT,
    TEXTS,
    TIME_HEAP,
)

carray: Any = Later("numba", "carray")
types: Any = Later("numba", "types")
cgutils: Any = Later("numba.core.cgutils")


def _as_pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


_pointer: Any = intrinsic(_as_pointer)


@njit(cache=True, nogil=True, forceinline=True)
def hosts_of(c: Any) -> Any:
    return carray(_pointer(c[HOST_ROWS]), (c[HOST_ROWS + 1],), HOST)


@njit(cache=True, nogil=True, forceinline=True)
def queues_of(c: Any) -> Any:
    return carray(_pointer(c[QUEUE_ROWS]), (c[QUEUE_ROWS + 1],), QUEUE)


@njit(cache=True, nogil=True, forceinline=True)
def heads_of(c: Any) -> Any:
    return carray(_pointer(c[HEADS]), (c[HEADS + 1],), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def names_of(c: Any) -> Any:
    return carray(_pointer(c[NAME_BYTES]), (c[NAME_BYTES + 1],), np.uint8)


@njit(cache=True, nogil=True, forceinline=True)
def front_of(c: Any) -> Any:
    return carray(_pointer(c[FRONT_HEAP]), (c[FRONT_HEAP + 1],), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def time_of(c: Any) -> Any:
    return carray(_pointer(c[TIME_HEAP]), (c[TIME_HEAP + 1],), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def ready_of(c: Any) -> Any:
    return carray(_pointer(c[READY_HEAP]), (c[READY_HEAP + 1],), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def idle_of(c: Any) -> Any:
    return carray(_pointer(c[IDLE_HEAP]), (c[IDLE_HEAP + 1],), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def arena_of(c: Any) -> Any:
    return carray(_pointer(c[ARENA]), (c[ARENA + 1],), np.uint8)


@njit(cache=True, nogil=True, forceinline=True)
def links_of(c: Any) -> Any:
    return carray(_pointer(c[LINKS]), (c[LINKS + 1],), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def side_of(c: Any) -> Any:
    return carray(_pointer(c[SIDE_WORDS]), (c[SIDE_WORDS + 1],), np.float64)


@njit(cache=True, nogil=True, forceinline=True)
def limbo_of(c: Any) -> Any:
    return carray(_pointer(c[LIMBO_PAIRS]), (c[LIMBO_PAIRS + 1],), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def texts_of(c: Any) -> Any:
    return carray(_pointer(c[TEXTS]), (c[TEXTS + 1],), np.uint8)


@njit(cache=True, nogil=True, forceinline=True)
def spans_of(c: Any) -> Any:
    return carray(_pointer(c[SPANS_AT]), (c[SPANS_AT + 1],), np.int64)
