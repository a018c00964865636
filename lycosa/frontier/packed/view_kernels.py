"""The fields and the arrays of a `Store`, for kernels: made from the words of its `c`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import Later, njit
from lycosa.frontier.field_kernels import pointer, start
from lycosa.frontier.packed.store import FIELDS, HOST, QUEUE

carray: Any = Later("numba", "carray")


@njit(cache=True, nogil=True, forceinline=True)
def fields_of(c: Any) -> Any:
    """The named fields: `fields_of(c)[0]` is their record."""
    return carray(start(c), (1,), FIELDS)


@njit(cache=True, nogil=True, forceinline=True)
def hosts_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.hosts_at), (f.hosts_length,), HOST)


@njit(cache=True, nogil=True, forceinline=True)
def queues_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.queues_at), (f.queues_length,), QUEUE)


@njit(cache=True, nogil=True, forceinline=True)
def heads_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.heads_at), (f.heads_length,), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def names_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.names_at), (f.names_length,), np.uint8)


@njit(cache=True, nogil=True, forceinline=True)
def front_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.front_at), (f.front_length,), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def time_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.time_at), (f.time_length,), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def ready_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.ready_at), (f.ready_length,), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def idle_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.idle_at), (f.idle_length,), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def arena_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.arena_at), (f.arena_length,), np.uint8)


@njit(cache=True, nogil=True, forceinline=True)
def links_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.links_at), (f.links_length,), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def side_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.side_at), (f.side_length,), np.float64)


@njit(cache=True, nogil=True, forceinline=True)
def limbo_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.limbo_at), (f.limbo_length,), np.int32)


@njit(cache=True, nogil=True, forceinline=True)
def texts_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.texts_at), (f.texts_length,), np.uint8)


@njit(cache=True, nogil=True, forceinline=True)
def spans_of(c: Any) -> Any:
    f = fields_of(c)[0]
    return carray(pointer(f.spans_at), (f.spans_length,), np.int64)
