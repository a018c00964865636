"""The index of sketches against a list of them: what is found, what is removed, what a new start finds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lycosa.content.alike import _COST, AlikeIndex
from lycosa.content.sketches import Sketch, sketch
from lycosa.files import DiskFiles


def page(seed: int, changed: int = 0) -> Sketch:
    """One of many texts of 300 words; some of its words changed."""
    source = random.Random(seed)
    words = [f"w{source.randrange(9000)}" for _ in range(300)]
    for n in range(changed):
        words[(n * 97) % 300] = f"x{seed}-{n}"
    return sketch(" ".join(words))


@pytest.mark.parametrize("room", [1 << 20, 20 * _COST], ids=["in memory", "on disk"])
def test_it_finds_what_a_list_finds(tmp_path: Path, room: int) -> None:
    index = AlikeIndex(DiskFiles(tmp_path), memory=room)
    pages = {seed * 10 + changed: page(seed, changed) for seed in range(60) for changed in (0, 2, 12)}
    for key, each in pages.items():
        index.add(key, each)
    assert len(index) == len(pages)
    for seed in range(60):
        asked = page(seed, 5)
        wanted = {key for key, each in pages.items() if asked.like(each) >= 0.6}
        found = index.find(asked, least=0.6)
        assert {one.key for one in found} == wanted >= {seed * 10, seed * 10 + 2}
        assert found[0].similarity == max(asked.like(each) for each in pages.values())
        assert [one.distance for one in found] == [asked.distance(pages[one.key]) for one in found]
    assert index.find(page(1000), least=0.3) == []
    assert index.find(sketch(""), least=0.0) == []


@pytest.mark.parametrize("room", [1 << 20, 20 * _COST], ids=["in memory", "on disk"])
def test_a_page_that_changes_is_found_as_it_is_now(tmp_path: Path, room: int) -> None:
    index = AlikeIndex(DiskFiles(tmp_path), memory=room)
    for key in range(100):
        index.add(key, page(key))
    for key in range(100):
        index.add(key, page(key + 500))
    assert len(index) == 100
    for key in range(100):
        assert index.find(page(key)) == []
        assert [one.key for one in index.find(page(key + 500))] == [key]
    assert index.remove(7)
    assert not index.remove(7)
    assert index.find(page(507)) == []


def test_runs_are_merged_and_what_was_removed_goes(tmp_path: Path) -> None:
    index = AlikeIndex(DiskFiles(tmp_path), memory=20 * _COST)
    for key in range(2000):
        index.add(key % 100, page(key % 100))
    assert len(index._runs) < 16, "100 runs were made"
    assert sum(run.count for run in index._runs) < 2000 * 43 / 2, "old entries went in merges"
    assert len(index) == 100


def test_what_was_saved_is_there_after_a_new_start(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    index = AlikeIndex(files, memory=30 * _COST)
    for key in range(100):
        index.add(key, page(key))
    index.save()
    for key in range(100, 200):
        index.add(key, page(key))
    index.remove(3)
    again = AlikeIndex(files, memory=30 * _COST)  # the first one was killed
    assert len(again) == 100
    assert [one.key for one in again.find(page(3))] == [3]
    assert again.find(page(150)) == []
    again.add(150, page(150))
    again.save()
    assert [one.key for one in AlikeIndex(files).find(page(150))] == [150]
    assert {path.name for path in tmp_path.iterdir()} >= {"manifest.json", "rows"}


def test_memory_is_bounded(tmp_path: Path) -> None:
    index = AlikeIndex(DiskFiles(tmp_path), memory=1 << 20)
    one = page(1)
    for key in range(4000):
        index.add(key, Sketch(key, one.least, random.Random(key).randbytes(42 * 4)))
    assert index.nbytes < 2 << 20
