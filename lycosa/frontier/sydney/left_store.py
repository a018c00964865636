"""The memory of the store of left-behind entries: flat arrays, which kernels read and change in place.

    rows    a row per queue that has entries, dense      heads   the table of queues, by bucket
    pool    entries that are in no file yet              c       numbers, with names

A queue is a row (`ROW`, 46 bytes; 4 more in the table). Its entries are, oldest first:

    run     `left` entries that lie one after the other in a file, from the address `run` on
    chain   `blocks` blocks in files; `chain` is the address of the newest, and each points at the one before
    tail    entries in RAM: a circular list in `pool`; `tail` is the last, and its next is the first

`left_packed.py` has the format of the files. Addresses have 48 bits, in two fields each. In the pool only the last
entry of a tail has a `size` above 0, that of the tail, and holds its row.

Arrays grow in place, by an eighth, and `rows` and `heads` shrink in place when queues have gone; `make_room` and
`trim` are called between kernels, never by them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lycosa.frontier.fields import Fields

ROW = np.dtype(
    [
        ("queue", "<u8"),
        ("chain", "<u4"),
        ("anchor", "<u4"),  # the last block of the stretch before that of `chain`
        ("run", "<u4"),
        ("link", "<i4"),  # the next row of the bucket
        ("tail", "<i4"),  # -1: none
        ("left", "<u4"),
        ("count", "<u4"),  # entries of run, chain and tail
        ("blocks", "<u4"),
        ("chain_top", "<u2"),
        ("anchor_top", "<u2"),
        ("run_top", "<u2"),
    ]
)
WAITING = np.dtype(
    [
        ("position", "<i8"),
        ("cursor", "<u4"),
        ("next", "<i4"),
        ("row", "<i4"),
        ("size", "<i4"),
    ]
)
SAVED = np.dtype(
    [
        ("queue", "<u8"),
        ("chain", "<u8"),
        ("anchor", "<u8"),
        ("run", "<u8"),
        ("left", "<u4"),
        ("count", "<u4"),  # entries of run and chain
        ("blocks", "<u4"),
    ]
)
"""A row as a snapshot has it."""
TAIL = np.dtype([("queue", "<u8"), ("position", "<i8"), ("cursor", "<u4")])
"""An entry of a tail as a snapshot has it."""


class LeftFields(Fields):
    """The numbers of a store, in their order in `c`."""

    queues: int  # rows
    next_row: int  # the row that the round names next
    buckets: int
    entries: int  # in all queues
    tails: int  # entries the pool may have
    pooled: int  # entries in the pool
    top: int  # places of the pool used since the last spill
    free: int  # head of the list of free places below `top`, -1 if there is none


FIELDS = np.dtype([(name, np.int64) for name in LeftFields.NAMES])
"""The fields of `c`."""

HEAD_WORDS = 8
ENTRY_WORDS = 4
BLOCK = 1024
"""Entries of a block at most."""
STRETCH = 64
"""Blocks of a stretch. With BLOCK it bounds what is copied at once: 65,536 entries, 1 MiB."""


class Store(NamedTuple):
    """All arrays; the module's docstring says what each is."""

    rows: NDArray[Any]
    heads: NDArray[np.int32]
    pool: NDArray[Any]
    c: NDArray[np.int64]

    @property
    def fields(self) -> LeftFields:
        return LeftFields(self.c)


def grow(array: NDArray[Any], need: int) -> None:
    """Make room for `need` elements at least, by an eighth, at most 16 MiB at once."""
    have = len(array)
    if need > have:
        step = min(max(have // 8, 64), (16 << 20) // array.itemsize)
        array.resize(max(need, have + step), refcheck=False)


def new_store(tails: int) -> Store:
    """An empty store whose pool has room for `tails` entries."""
    c = np.zeros(len(LeftFields.NAMES), np.int64)
    f = LeftFields(c)
    f.queues = f.next_row = f.buckets = 1
    f.tails = tails
    f.free = -1
    rows = np.zeros(1, ROW)
    rows["tail"] = -1
    return Store(rows, np.full(1, -1, np.int32), np.zeros(0, WAITING), c)


def make_room(s: Store, queues: int = 1) -> None:
    """Make room for so many more queues, and for one more entry."""
    grow(s.rows, s.fields.queues + queues)
    grow(s.heads, s.fields.buckets + queues)
    grow(s.pool, s.fields.top + 1)


def trim(s: Store) -> None:
    """Free the memory that was needed for queues that are gone."""
    n = s.fields.queues
    s.rows.resize(n + n // 8 + 64, refcheck=False)
    s.heads.resize(max(s.fields.buckets, n + n // 8 + 64), refcheck=False)
