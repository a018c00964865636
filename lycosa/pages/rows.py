"""Summaries as packed rows of 44 bytes, and joining them as columns, thousands at a time.

    row = key:u64 position:u40 status:u8 flags:u8 failures:u8 fetches:u16 changes:u16
          began:u32 content:u32 first:u32 last:u32 changed:u32 still:u32            (little endian)

The low three bits of `status` are the summary's status, the other five its weight.

`join` does to columns what `lycosa.pages.summary.joined` does to two summaries; the tests compare the two. A *run*
of rows is in ascending order of keys and has each key once. Runs are merged in the order of their age, since the
older of two summaries of a page must be the first part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from lycosa.pages.summary import MOST_COUNT, MOST_FAILURES, MOST_SECONDS, Summary

ROW = np.dtype(
    [
        ("key", "<u8"),
        ("position", "<u4"),
        ("high", "u1"),  # of the position
        ("status", "u1"),
        ("flags", "u1"),
        ("failures", "u1"),
        ("fetches", "<u2"),
        ("changes", "<u2"),
        ("began", "<u4"),
        ("content", "<u4"),
        ("first", "<u4"),
        ("last", "<u4"),
        ("changed", "<u4"),
        ("still", "<u4"),
    ]
)
ROW_BYTES = ROW.itemsize
Rows = NDArray[np.void]

NO_ROWS: Rows = np.empty(0, ROW)
_STATUS = 3
_STATUSES = (1 << _STATUS) - 1
"""The mask of the bits of `status` that are the status; the others are the weight."""
_OBSERVED = ("fetches", "changes", "began", "content", "first", "last", "changed", "still")


def pack(items: Iterable[tuple[int, Summary]]) -> Rows:
    """Rows in the order of the items."""
    return np.array(
        [
            (key, s.position & MOST_SECONDS, s.position >> 32, s.status | s.weight << _STATUS, *s[2:-1])
            for key, s in items
        ],
        ROW,
    )


def unpack(row: np.void) -> tuple[int, Summary]:
    """The key and the summary of a row."""
    key, low, high, status, *rest = row.item()
    return key, Summary._make((high << 32 | low, status & _STATUSES, *rest, status >> _STATUS))


def join(a: Rows, b: Rows) -> Rows:
    """Row by row, the summary of the fetches of `a` followed by those of `b`."""
    out = b.copy()
    placed = (b["position"] != 0) | (b["high"] != 0)
    for name in ("position", "high", "flags"):
        out[name] = np.where(placed, b[name], a[name])
    status = np.where(b["status"] & _STATUSES, b["status"], a["status"]) & _STATUSES
    weighed, weighs = a["status"] >> _STATUS, b["status"] >> _STATUS
    first, told = a["fetches"] != 0, b["fetches"] != 0
    # Fetches that compared bodies do not count if others of the page compared main texts.
    second = told & ~(first & (weighed != 0) & (weighs == 0))
    first &= ~(told & (weighs != 0) & (weighed == 0))
    out["status"] = status | np.where(second, weighs, weighed) << _STATUS
    failures = np.minimum(a["failures"].astype(np.uint32) + b["failures"], MOST_FAILURES)
    out["failures"] = np.where(told, b["failures"], failures)
    for name in _OBSERVED:
        out[name] = np.where(second, b[name], a[name])
    both = np.flatnonzero(first & second)
    if not len(both):
        return out
    a, b = a[both], b[both]
    same = a["content"] == b["began"]
    counts = a["fetches"].astype(np.uint32) + b["fetches"]
    changes = a["changes"].astype(np.uint32) + b["changes"] + ~same
    gap = np.where(same, np.maximum(b["first"].astype(np.int64) - a["last"], 0), 0)
    still = a["still"].astype(np.int64) + b["still"] + gap
    out["fetches"][both] = np.minimum(counts, MOST_COUNT)
    out["changes"][both] = np.minimum(changes, MOST_COUNT)
    out["began"][both] = a["began"]
    out["first"][both] = a["first"]
    out["changed"][both] = np.where(same & (b["changes"] == 0), a["changed"], b["changed"])
    out["still"][both] = np.minimum(still, MOST_SECONDS)
    return out


def fold(rows: Rows) -> Rows:
    """A run made from these rows; of rows with the same key, the earlier are the older."""
    rows = rows[np.argsort(rows["key"], kind="stable")]
    while len(rows) > 1:
        starts = np.concatenate(([True], rows["key"][1:] != rows["key"][:-1]))
        if starts.all():
            break
        # Pairs within each key: the first with the second, the third with the fourth ...
        groups = np.flatnonzero(starts)
        turn = np.arange(len(rows)) - np.repeat(groups, np.diff(np.append(groups, len(rows))))
        even = turn % 2 == 0
        left = np.flatnonzero(even[:-1] & ~starts[1:])
        rows[left] = join(rows[left], rows[left + 1])
        rows = rows[even]
    return rows


def merged(older: Iterable[Rows], newer: Iterable[Rows]) -> Iterator[Rows]:
    """Two runs, each in parts, as one run in parts."""
    parts = (iter(older), iter(newer))
    heads = [next(part, NO_ROWS) for part in parts]
    while all(map(len, heads)):
        bound = min(head["key"][-1] for head in heads)
        cuts = [int(np.searchsorted(head["key"], bound, "right")) for head in heads]
        yield fold(np.concatenate([head[:cut] for head, cut in zip(heads, cuts, strict=True)]))
        heads = [
            head[cut:] if cut < len(head) else next(part, NO_ROWS)
            for head, cut, part in zip(heads, cuts, parts, strict=True)
        ]
    for head, part in zip(heads, parts, strict=True):
        if len(head):
            yield head
            yield from part


def find(rows: Rows, key: int) -> Summary | None:
    """The summary of a key in a run."""
    keys = rows["key"]
    at = bisect_left(keys, key)  # not searchsorted, which would copy the keys out of the rows first
    if at == len(keys) or keys[at] != key:
        return None
    return unpack(rows[at])[1]
