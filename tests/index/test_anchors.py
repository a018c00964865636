"""Anchor texts over runs and merges."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.index import anchors as module
from lycosa.index.anchors import Anchors


def add(anchors: Anchors, key: int, shard: int, *texts: str, counts: bool = True) -> None:
    anchors.add([key] * len(texts), texts, lambda _: shard, counts)


def test_texts(tmp_path: Path) -> None:
    anchors = Anchors(DiskFiles(tmp_path), "made")
    assert anchors.texts(5) == () and anchors.last == 0
    add(anchors, 5, 1, "home", "start", "home", "")
    add(anchors, 2**64 - 1, 0, "far\n away", "far  away ", " ")
    anchors.save([[0, 3, 3]])
    add(anchors, 5, 1, "start", counts=False)
    add(anchors, 5, 1, "start")
    anchors.save([[0, 5, 5]])
    again = Anchors(DiskFiles(tmp_path), "made")
    assert again.texts(5) == ("start", "home")
    assert again.texts(2**64 - 1) == ("far away",)
    assert again.manifest.places == [[0, 5, 5]] and again.last == 2
    assert list(again.changed(1, 0)) == [5, 5] and list(again.changed(0, 1)) == []
    with pytest.raises(StorageError, match="another crawl"):
        Anchors(DiskFiles(tmp_path), "other")


def test_runs_are_merged(tmp_path: Path) -> None:
    anchors = Anchors(DiskFiles(tmp_path), "made")
    for number in range(module.MOST_RUNS + 3):
        add(anchors, number % 3, 0, f"text {number}")
        add(anchors, 7, 0, "seven")
        anchors.save([[0, number, number]])
    assert len(anchors.manifest.runs) == 3 and anchors.last == module.MOST_RUNS + 3
    assert len(list(tmp_path.glob("*.run"))) == 3 and not list(tmp_path.glob("*.texts"))
    assert set(anchors.texts(1)) == {f"text {number}" for number in range(1, module.MOST_RUNS + 3, 3)}
    assert anchors.texts(7) == ("seven",)
    assert list(anchors.changed(0, anchors.last)) == []


def test_a_damaged_run(tmp_path: Path) -> None:
    anchors = Anchors(DiskFiles(tmp_path), "made")
    add(anchors, 1, 0, "x")
    anchors.save([])
    next(tmp_path.glob("*.run")).write_bytes(b"nonsense nonsense nonsense")
    with pytest.raises(StorageError, match="--rebuild"):
        Anchors(DiskFiles(tmp_path), "made")
