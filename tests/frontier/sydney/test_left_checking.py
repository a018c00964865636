"""The store of left-behind entries in the checking mode, and what it finds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from lycosa.files import DiskFiles
from lycosa.frontier.checking import BrokenError
from lycosa.frontier.sydney.left_behind import Entry
from lycosa.frontier.sydney.left_packed import PackedLeftBehind


@pytest.fixture
def left(tmp_path: Path) -> PackedLeftBehind:
    """Some queues, entries in files and in tails, places of the pool that are free."""
    left = PackedLeftBehind(DiskFiles(tmp_path), tails=100, segment_bytes=2000)
    draw = random.Random(1)
    for n in range(500):
        left.push(draw.randrange(20), Entry(n, n % 3))
        if n % 3 == 0:
            left.pop(draw.randrange(20))
        left.next_queue()
    for _ in range(40):  # one of OTHERS that is in no file yet, and out again
        left.push(0, Entry(7, 7))
    while left.pop(0) is not None:
        pass
    left.check()
    assert left._s.fields.free >= 0
    assert left._s.fields.pooled
    return left


@pytest.mark.parametrize("number", ["entries", "pooled"])
def test_a_count_that_is_off_by_one_is_found(left: PackedLeftBehind, number: str) -> None:
    setattr(left._s.fields, number, getattr(left._s.fields, number) + 1)
    with pytest.raises(BrokenError, match="number"):
        left.check()


def test_a_cycle_in_a_list_is_found(left: PackedLeftBehind) -> None:
    rows = left._s.rows
    row = int(np.flatnonzero(rows["link"][: left._s.fields.queues] < 0)[1])
    rows["link"][row] = row
    with pytest.raises(BrokenError, match=r"rows: no (element is in two lists|list is a cycle)"):
        left.check()


def test_a_lost_place_is_found(left: PackedLeftBehind) -> None:
    s = left._s
    lost = s.fields.free
    s.fields.free, s.pool["next"][lost] = int(s.pool["next"][lost]), -1
    with pytest.raises(BrokenError, match="pool: no element is lost"):
        left.check()


def test_an_address_in_no_file_is_found(left: PackedLeftBehind) -> None:
    rows = left._s.rows
    rows["chain_top"][int(np.flatnonzero(rows["blocks"])[0])] = 77
    with pytest.raises(BrokenError, match="files: the chain of a row lies in them"):
        left.check()
