from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.frontier.waits import calendar as module
from lycosa.frontier.waits.calendar import Calendar, frame, unframe
from lycosa.records import Deferred, Why

T0 = 1_700_000_000_000
HOUR = 3_600_000


def deferred(n: int, due: int, url: str | None = None) -> Deferred:
    return Deferred(T0, f"http://h/{n}" if url is None else url, "http://h", 1, 0, 1, Why.RETRY, due)


def all_due(calendar: Calendar, now: int) -> list[Deferred]:
    out: list[Deferred] = []
    while True:
        out += (got := calendar.due(now))
        following = calendar.next_due()
        if following is None or following > now:
            return out
        assert got or following <= now


def ids(rows: list[Deferred]) -> list[int]:
    return sorted(int(row.url.rpartition("/")[2]) for row in rows)


def test_soonest_first_and_each_once(tmp_path: Path) -> None:
    calendar = Calendar(DiskFiles(tmp_path), bucket=60.0, buffer=200)
    calendar.due(T0)
    dues = [T0 + ms for ms in (5000, 1, 90_000, 10 * HOUR, 40 * 24 * HOUR, 400 * 24 * HOUR, 5000)]
    for n, due in enumerate(dues):
        calendar.add(deferred(n, due))
    assert len(calendar) == 7
    assert calendar.next_due() == T0 + 1
    assert calendar.due(T0) == []
    assert ids(calendar.due(T0 + 1)) == [1]
    assert [row.due for row in calendar.due(T0 + 100_000)] == [T0 + 5000, T0 + 5000, T0 + 90_000]
    assert calendar.due(T0 + 10 * HOUR - 1) == []
    assert ids(calendar.due(T0 + 10 * HOUR)) == [3]
    assert ids(all_due(calendar, T0 + 1000 * 24 * HOUR)) == [4, 5]
    assert len(calendar) == 0
    assert calendar.next_due() is None


def test_past_due_and_clock_back(tmp_path: Path) -> None:
    calendar = Calendar(DiskFiles(tmp_path))
    calendar.add(deferred(1, 5))
    assert ids(calendar.due(T0)) == [1]
    calendar.add(deferred(2, T0 - HOUR))
    calendar.add(deferred(3, T0 + HOUR))
    assert calendar.due(T0 - 2 * HOUR) == []
    assert ids(calendar.due(T0)) == [2]
    assert ids(calendar.due(T0 + HOUR)) == [3]


def test_ram_is_bounded_by_the_current_bucket(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    calendar = Calendar(files, bucket=60.0, buffer=10_000)
    calendar.due(T0)
    for n in range(5000):
        calendar.add(deferred(n, T0 + 120_000 + n * 1000))
    assert calendar.nbytes < 100_000
    assert len(files.list("")) > 60
    out = []
    for minute in range(100):
        out += all_due(calendar, T0 + minute * 60_000)
        assert calendar.nbytes < 100_000
    assert ids(out) == list(range(5000))
    assert files.list("") == []  # no snapshot ever named one of them


def test_work_and_answer_of_a_call_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 1000)
    calendar = Calendar(DiskFiles(tmp_path), bucket=60.0, buffer=100)
    calendar.due(T0)
    due = T0 + 120_000
    for n in range(500):
        calendar.add(deferred(n, due))
    first = calendar.due(due)
    assert 0 < len(first) < 100
    following = calendar.next_due()
    assert following is not None and following <= due
    out = first + all_due(calendar, due)
    assert ids(out) == list(range(500))
    for n in range(50):
        calendar.add(deferred(n, T0))
    assert len(calendar.due(due, at_most=7)) == 7


def test_files_stay_until_no_snapshot_names_them(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    calendar = Calendar(files, buffer=0)
    calendar.due(T0)
    calendar.add(deferred(1, T0 + HOUR))
    pieces = list(calendar.freeze())
    named = calendar.files()
    assert named == files.list("")
    calendar.settle()
    assert ids(calendar.due(T0 + HOUR)) == [1]
    assert calendar.keep([]) == []  # the last freeze still names it
    list(calendar.freeze())
    assert calendar.keep(named) == []  # an older snapshot does
    again = Calendar(files)
    again.thaw(pieces)
    assert ids(again.due(T0 + HOUR)) == [1]
    assert calendar.keep([]) == named
    assert files.list("") == []


def test_withdraw_acts_on_what_was_added_before(tmp_path: Path) -> None:
    calendar = Calendar(DiskFiles(tmp_path), buffer=0)
    calendar.due(T0)
    for n in range(4):
        calendar.add(deferred(n, T0 + HOUR))
    calendar.add(deferred(4, T0 + 1000))
    calendar.withdraw("http://h/1")
    calendar.withdraw("http://h/4")
    calendar.withdraw("http://h/99")
    calendar.add(deferred(1, T0 + 2 * HOUR))
    calendar.settle_withdrawn()
    assert len(calendar) == 4
    assert calendar.due(T0 + 2000) == []
    assert ids(calendar.due(T0 + HOUR)) == [0, 2, 3]
    assert ids(calendar.due(T0 + 2 * HOUR)) == [1]
    assert len(calendar) == 0


def test_withdraw_a_site(tmp_path: Path) -> None:
    calendar = Calendar(DiskFiles(tmp_path))
    calendar.add(deferred(0, T0, url=""))
    calendar.withdraw("http://h")
    assert calendar.due(T0) == []
    assert len(calendar) == 0


def test_missing_short_and_damaged_files_are_told(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    calendar = Calendar(files, buffer=0)
    calendar.due(T0)
    calendar.add(deferred(1, T0 + HOUR))
    pieces = list(calendar.freeze())
    (name,) = calendar.files()
    whole = files.read(name)
    (tmp_path / name).write_bytes(whole[:-1])
    with pytest.raises(StorageError, match=name):
        Calendar(files).thaw(pieces)
    (tmp_path / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 0xFF]))
    damaged = Calendar(files)
    damaged.thaw(pieces)
    with pytest.raises(StorageError, match=name):
        damaged.due(T0 + HOUR)
    for bad in ([], [b"\xc1"], [pieces[0], b"torn"]):
        (tmp_path / name).write_bytes(whole)
        with pytest.raises(StorageError):
            Calendar(files).thaw(bad)


@given(st.binary(max_size=300))
def test_unframe_takes_any_bytes(data: bytes) -> None:
    rows, used = unframe(data)
    assert used <= len(data)
    assert b"".join(row[2] for row in rows) == data[:used]


@given(st.integers(0, 400), st.integers(0, 2**64 - 1))
def test_unframe_stops_at_a_torn_tail(cut: int, seq: int) -> None:
    frames = [frame(seq, deferred(n, n)) for n in range(3)]
    data = b"".join(frames)
    rows, used = unframe(data[:cut])
    whole = [n for n in range(4) if sum(map(len, frames[:n])) <= cut][-1]
    assert len(rows) == whole
    assert used == sum(map(len, frames[:whole]))


STEP = st.one_of(
    st.tuples(st.just("add"), st.integers(-1000, 10**9)),
    st.tuples(st.just("add"), st.integers(0, 10**11)),
    st.tuples(st.just("pass"), st.sampled_from([0, 1, 500, 60_000, 3_000_000, 10**9])),
    st.tuples(st.just("withdraw"), st.integers(0, 30)),
    st.tuples(st.just("freeze"), st.just(0)),
)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEP, max_size=60), torn=st.integers(0, 10**6), tiny=st.booleans())
def test_recovery_finds_what_was_there_at_the_freeze(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], torn: int, tiny: bool
) -> None:
    """Any history, a freeze somewhere in it, and a crash that leaves any prefix of the later bytes."""
    root = tmp_path_factory.mktemp("calendar")
    files = DiskFiles(root)
    calendar = Calendar(files, bucket=1.0, buffer=0 if tiny else 300)
    now, count = T0, 0
    held: dict[int, Deferred] = {}
    cut: tuple[list[bytes], dict[int, Deferred], int, list[str], dict[str, int]] | None = None
    for what, number in steps:
        if what == "add":
            calendar.add(held.setdefault(count, deferred(count, now + number)))
            count += 1
        elif what == "pass":
            now += number
            for row in all_due(calendar, now):
                assert row.due <= now
                assert held.pop(int(row.url.rpartition("/")[2])) == row
            assert all(row.due > now for row in held.values())
        elif what == "withdraw":
            calendar.withdraw(f"http://h/{number}")
            held.pop(number, None)
            calendar.settle_withdrawn()
        else:
            pieces = list(calendar.freeze())
            sizes = {name: files.size(name) for name in calendar.files()}
            calendar.settle()
            cut = (pieces, dict(held), now, calendar.files(), sizes)
            calendar.keep(cut[3])
        assert len(calendar) == len(held)
    if cut is None:
        assert ids(all_due(calendar, now + 10**12)) == sorted(held)
        return
    pieces, held, now, named, sizes = cut
    for name in files.list(""):
        if name not in named:
            files.remove(name)
            continue
        size = files.size(name)
        kept = sizes[name] + torn % (size - sizes[name] + 1)
        (root / name).write_bytes(files.read(name)[:kept] + (b"\xff" * 5 if torn % 2 else b""))
    recovered = Calendar(files, bucket=1.0, buffer=0 if tiny else 300)
    recovered.thaw(pieces)
    assert len(recovered) == len(held)
    recovered.add(held.setdefault(10**6, deferred(10**6, now + 777)))
    rng = random.Random(torn)
    while held:
        now += rng.choice([100, 10**6, 10**9, 10**10])
        for row in all_due(recovered, now):
            assert row.due <= now
            assert held.pop(int(row.url.rpartition("/")[2])) == row
        assert all(row.due > now for row in held.values())
    assert len(recovered) == 0
