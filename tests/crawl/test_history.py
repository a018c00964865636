"""The history of a crawl: fine at first, bounded for ever."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lycosa.ask.report_time import read_gauges
from lycosa.crawl.history import HISTORY, History, spread

BEGIN = 1_700_000_000.0


def line(at: float) -> bytes:
    return msgspec.json.encode({"at": BEGIN + at, "visits": int(at) % 7, "pid": 1})


def times(directory: Path) -> list[float]:
    rows = (directory / HISTORY).read_bytes().splitlines()
    return [msgspec.json.decode(row)["at"] - BEGIN for row in rows]


def live(directory: Path, begin: int, seconds: int, most: int, dice: random.Random) -> None:
    """A run: the crawl offers a line about every second."""
    history = History(directory, most)
    for at in range(begin, begin + seconds):
        now = at + dice.uniform(-0.02, 0.02)
        history.add(line(now), now)
    history.add(line(begin + seconds), begin + seconds, last=True)


def test_a_line_a_second_at_first(tmp_path: Path) -> None:
    live(tmp_path, 0, 90, 100, random.Random(1))
    assert [round(at) for at in times(tmp_path)] == list(range(91))


def test_it_stays_bounded_and_even(tmp_path: Path) -> None:
    live(tmp_path, 0, 20_000, 100, random.Random(2))
    found = times(tmp_path)
    assert 40 <= len(found) <= 100
    gaps = [two - one for one, two in pairwise(found)]
    assert max(gaps) <= 2.2 * 256 and min(gaps[:-1]) >= 200
    assert abs(found[0]) < 1 and found[-1] == 20_000
    assert [path.name for path in tmp_path.iterdir()] == [HISTORY]


def test_a_later_run_does_not_wipe_out_an_earlier_one(tmp_path: Path) -> None:
    dice = random.Random(3)
    live(tmp_path, 0, 10_000, 100, dice)
    live(tmp_path, 50_000, 10_000, 100, dice)
    live(tmp_path, 90_000, 30, 100, dice)
    found = times(tmp_path)
    assert len(found) <= 100
    first, second = (sum(low <= at <= low + 10_000 for at in found) for low in (0, 50_000))
    assert 15 <= first <= 2 * second + 10 and second <= 2 * first + 10
    assert found[-1] == 90_030


def test_what_cannot_be_read_goes_with_the_rest(tmp_path: Path) -> None:
    (tmp_path / HISTORY).write_bytes(b'\xff{\n{"at": "x"}\n\n' * 60 + b'{"at": 17000')
    live(tmp_path, 0, 500, 100, random.Random(4))
    found = times(tmp_path)
    assert 40 <= len(found) <= 100 and found[-1] == 500
    assert len(read_gauges(tmp_path)) == len(found)


def test_a_clock_that_goes_back(tmp_path: Path) -> None:
    history = History(tmp_path, 50)
    for number in range(400):
        history.add(line(1000.0 * (number % 2)), float(number))
    assert len(times(tmp_path)) <= 50


@given(st.lists(st.floats(0, 1e9)), st.integers(2, 30), st.booleans())
def test_spread(values: list[float], most: int, in_order: bool) -> None:
    if in_order:
        values.sort()
    spacing, kept = spread(values, 1.0, most)
    assert kept == sorted(set(kept))
    assert len(kept) <= max(most, 2)
    if len(values) <= most:
        assert kept == list(range(len(values)))
    else:
        assert kept[0] == 0 and kept[-1] == len(values) - 1
        assert spacing >= 2
        if in_order and spacing < 1e8:
            gaps = [values[two] - values[one] for one, two in pairwise(kept[:-1])]
            assert all(gap >= spacing * 0.9 for gap in gaps)
