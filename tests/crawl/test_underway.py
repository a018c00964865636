"""Marks of pages that are being read."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.crawl.underway import SLOTS, Mark, PageReading, Underway, verdict
from lycosa.crawl.watchdog import Looks
from lycosa.errors import StorageError
from lycosa.records import NO_LINKS, Deferred, Fetched, Record, Skipped, Timing, Waiting, Why
from lycosa.url.canonical import MAX_URL

URL = "http://h.test/bad"
ONCE = "its reader was killed or stood still: once more"
PAGE = Waiting(URL, 7, 3, 1, 2)


def left(underway: Underway) -> list[tuple[str, int]]:
    return sorted((mark.waiting.url, mark.at) for mark in underway.left())


def test_marks_outlive_their_process_and_are_removed_one_by_one(tmp_path: Path) -> None:
    old = Underway(tmp_path / "reading")
    old.end(old.begin(PAGE, 1))
    longest = "http://h.test/" + "x" * (MAX_URL - 14)
    for row, url in enumerate((URL, longest)):
        assert old.begin(PAGE._replace(url=url), 10 + row) >= 0
    assert not list(old.left()), "its own, which are alive"
    new = Underway(tmp_path / "reading")
    assert left(new) == [(URL, 10), (longest, 11)]
    mark = next(mark for mark in new.left() if mark.at == 10)
    assert mark.waiting == PAGE._replace(key=0)
    slots = [new.begin(PAGE, 99) for _ in range(SLOTS)]
    assert slots.count(-1) == 2, "marked slots are not used again"
    for slot in slots:
        new.end(slot)
    assert left(new) == [(URL, 10), (longest, 11)]
    new.forget(mark)
    assert left(new) == [(longest, 11)]
    assert -1 not in [new.begin(PAGE, 99) for _ in range(SLOTS - 1)]


def test_agents_see_the_marks_of_others(tmp_path: Path) -> None:
    Underway(tmp_path / "reading-a0").begin(PAGE, 10)
    other = Underway(tmp_path / "reading")
    (mark,) = other.left()
    other.forget(mark)
    assert not list(other.left())


def test_a_torn_mark_and_another_file_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "reading"
    slot = Underway(file).begin(PAGE, 10)
    data = file.read_bytes()
    at = data.index(URL.encode())
    file.write_bytes(data[: at + 4] + b"\0" + data[at + 5 :])
    (tmp_path / "reading-list").write_text("of books")
    assert slot >= 0 and not list(Underway(file).left())
    with pytest.raises(StorageError, match="cannot write"):
        Underway(tmp_path / "reading-list" / "reading")


def fetched(at: int) -> Fetched:
    return Fetched(at, URL, 0, 0, 0, 200, "", "", 0, 0, 0, Timing(), "", NO_LINKS)


def deferred(at: int, why: Why) -> Deferred:
    return Deferred(at, URL, "http://h.test", 0, 0, 1, why, at)


@pytest.mark.parametrize(
    ("log", "wanted"),
    [
        ([], Deferred(99, URL, "http://h.test", 3, 1, 3, Why.POISON, 99, ONCE)),
        ([deferred(5, Why.RETRY)], Deferred),
        ([deferred(5, Why.POISON)], Skipped),
        ([deferred(5, Why.POISON), deferred(6, Why.RETRY)], Skipped),
        ([deferred(11, Why.POISON)], None),
        ([fetched(10)], None),
        ([fetched(9)], Deferred),
    ],
)  # fmt: skip
def test_verdict(log: list[Record], wanted: object) -> None:
    found = verdict(Mark(Path(), 0, 10, PAGE), log, 99)
    assert found == wanted or (isinstance(wanted, type) and type(found) is wanted)
    if isinstance(found, Skipped):
        assert (found.why, found.url, found.depth) == (Why.POISON, URL, 3)


def test_the_watch_counts_its_own_looks() -> None:
    watch = Looks(notice=3, limit=5)
    one, two = PageReading("http://h/1", 1, 1), PageReading("http://h/2", 2, 2)
    assert [watch.look(1, [])[0] for _ in range(6)] == [False, False, False, True, False, False]
    assert watch.look(2, [one]) == (False, None) and watch.still == 0
    rows = [watch.look(beat, [one, two] if beat < 6 else [two]) for beat in range(3, 12)]
    assert [stuck for _, stuck in rows] == [None] * 5 + [two] * 4
