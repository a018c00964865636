"""Requests of a Scrapy run: none lost, none doubled, items once, wherever a kill comes; memory bounded."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from lycosa.clock import ManualClock
from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.scrapy.kept import ITEMS, Store, Taken

HOSTS = 7


def opened(
    directory: Path, clock: ManualClock | None = None, *, wait: float | None = None, most: int = 50
) -> Store:
    return Store(DiskFiles(directory), clock or ManualClock(), wait=wait, most=most)


def add(store: Store, number: int, **more: int) -> bool:
    return store.add(number, f"http://h{number % HOSTS}.test/{number}", str(number).encode(), **more)  # type: ignore[arg-type]


def number_of(taken: Taken) -> int:
    return int(taken.body)


def test_each_comes_out_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert [add(store, n) for n in (1, 2, 1)] == [True, True, False]
    assert add(store, 1, anyway=True)
    assert store.pending == 3 and store.known == 2
    found = [store.take() for _ in range(4)]
    assert sorted(number_of(row) for row in found if row is not None) == [1, 1, 2] and found[3] is None
    assert (store.pending, store.ready) == (0, 0)


def test_levels_and_order_within_a_host(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for n, level in ((7, 128), (14, 100), (21, 128), (28, 255)):
        add(store, n, level=level)
    found = []
    while (taken := store.take()) is not None:
        found.append(number_of(taken))
    assert found == [14, 7, 21, 28]


def test_a_host_is_asked_once_at_a_time_and_then_rests(tmp_path: Path) -> None:
    clock = ManualClock()
    store = opened(tmp_path, clock, wait=2.0)
    for n in (0, HOSTS, 1):
        add(store, n)
    first, second = store.take(), store.take()
    assert first is not None and second is not None and {first.host, second.host} == {"h0.test", "h1.test"}
    assert store.take() is None, "both hosts are being asked"
    store.done(first)
    store.done(second)
    assert store.take() is None and store.next_ready() == pytest.approx(2.0)
    clock.advance(2.0)
    third = store.take()
    assert third is not None and number_of(third) == HOSTS


def test_whatever_is_killed_wherever(tmp_path: Path) -> None:
    """A tree of requests; every process is dropped without a close after some steps, with or without a commit."""
    dice = Random(1)
    total, made, kills = 150, dict[int, int](), 0
    while True:
        store = opened(tmp_path, most=40)
        if not store.known:
            add(store, 1)
            store.commit()
        steps = dice.randrange(1, 50)
        under_way: list[Taken] = []
        while steps and (store.pending or under_way):
            steps -= 1
            taken = store.take() if len(under_way) < 5 else None
            if taken is not None:
                under_way.append(taken)
                continue
            if not under_way:
                break
            page = under_way.pop(dice.randrange(len(under_way)))
            number = number_of(page)
            made[number] = made.get(number, 0) + 1
            for child in (2 * number, 2 * number + 1):
                if child < total:
                    add(store, child)
            add(store, max(number // 2, 1))
            store.done(page, [b"%d" % number, b"%d again" % number])
            if not dice.randrange(4):
                store.commit()
        if not store.pending and not under_way and steps:
            store.close()
            break
        kills += 1
    assert kills > 5
    assert made.keys() == set(range(1, total)), "nothing is lost"
    lines = (tmp_path / ITEMS).read_bytes().splitlines()
    assert sorted(int(line) for line in lines if line.isdigit()) == list(range(1, total)), "items are once"
    again = opened(tmp_path)
    assert again.take() is None and again.pending == 0 and not add(again, 5)


def test_memory_does_not_grow_with_what_waits(tmp_path: Path) -> None:
    few, many = opened(tmp_path / "few", most=100), opened(tmp_path / "many", most=100)
    for n in range(100):
        add(few, n)
    for n in range(4_000):
        add(many, n)
    assert many.pending == 4_000 and many.ready == 100
    assert many.nbytes - few.nbytes < 4_000 * 20, "the seen set, and no more"
    found = set()
    while (taken := many.take()) is not None:
        found.add(number_of(taken))
        many.done(taken)
    assert found == set(range(4_000)) and many.pending == 0


def test_items_that_are_gone_are_told(tmp_path: Path) -> None:
    store = opened(tmp_path)
    add(store, 1)
    taken = store.take()
    assert taken is not None
    store.done(taken, [b"{}"])
    store.close()
    (tmp_path / ITEMS).write_bytes(b"")
    with pytest.raises(StorageError, match="restore it"):
        opened(tmp_path)


def test_urls_of_any_kind(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number, url in enumerate(
        ("data:,x", "s3://Bucket/key", "http://[::1]:80/", "http://[broken", "ftp://ü/")
    ):
        assert store.add(number, url, b"%d" % number)
    found = []
    while (taken := store.take()) is not None:
        found.append(number_of(taken))
    assert sorted(found) == list(range(5))
