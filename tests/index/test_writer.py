"""The writer of a shard: one document an id, the place in the same commit, and what a kill leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from lycosa.errors import StorageError
from lycosa.index.reader import Clause, ShardReader
from lycosa.index.writer import ShardWriter
from tests.index.made import page, write


def test_a_document_is_there_once_and_what_is_not_committed_is_not(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, "made")
    assert writer.marker.place == [0, 0, 0] and not writer.dirty
    writer.put(page(2**64 - 1, "first", at=5))
    writer.put(page(2**64 - 1, "second", at=5))
    writer.commit([0, 2, 2])
    found = writer.find(2**64 - 1)
    assert found is not None and found.text == "second"
    writer.put(page(7, "never committed"))
    writer.remove(2**64 - 1)
    assert writer.find(2**64 - 1) is None and writer.find(7) is not None
    writer.close()
    again = ShardWriter(tmp_path, "made")
    assert again.marker.place == [0, 2, 2]
    assert again.find(7) is None and again.find(2**64 - 1) == found
    again.close()


@pytest.mark.parametrize("seed", range(4))
def test_new_pages_need_no_deletion(tmp_path: Path, seed: int) -> None:
    """Whatever is put, removed, put again and committed: each page is there once, as it was put last."""
    draw = Random(seed)
    writer = ShardWriter(tmp_path, "made")
    held: dict[int, str] = {}
    for step in range(1, 150):
        number = draw.randrange(1, 12)
        if draw.random() < 0.3:
            writer.remove(number)
            held.pop(number, None)
        else:
            held[number] = f"text {step}"
            writer.put(page(number, held[number]), new=writer.find(number) is None)
        if draw.random() < 0.1:
            writer.commit([0, step, step])
    writer.commit([0, 999, 999])
    writer.close()
    reader = ShardReader(tmp_path)
    hits, total = reader.newest(reader.everything(), 100)
    assert total == len(held)
    assert {each.id: each.text for each in reader.pages([hit.address for hit in hits])} == held


def test_of_another_crawl(tmp_path: Path) -> None:
    write(tmp_path, [page(1, "text")])
    with pytest.raises(StorageError, match="another crawl"):
        ShardWriter(tmp_path, "other")


def test_a_list_of_deletions_that_a_killed_process_left(tmp_path: Path) -> None:
    write(tmp_path, [page(number, "text") for number in range(5)])
    meta = json.loads((tmp_path / "meta.json").read_bytes())
    segment = meta["segments"][0]["segment_id"].replace("-", "")
    for stamp in range(meta["opstamp"], meta["opstamp"] + 20):
        (tmp_path / f"{segment}.{stamp}.del").write_bytes(b"left")
    write(tmp_path, [page(3, "other")], (0, 9, 9))
    writer = ShardWriter(tmp_path, "made")
    assert writer.marker.place == [0, 9, 9]
    found = writer.find(3)
    assert found is not None and found.text == "other"
    writer.close()


@pytest.mark.parametrize("kind", ["pos", "idx", "term", "store"])
def test_a_damaged_file_is_said_and_not_raised(kind: str, tmp_path: Path) -> None:
    """What is not found when the index is opened is found when it is read."""
    write(tmp_path, [page(number, f"text {number}") for number in range(50)])
    for path in tmp_path.glob(f"*.{kind}"):
        data = path.read_bytes()
        path.write_bytes(bytes(len(data) - 200) + data[-200:])
    with pytest.raises(StorageError, match="--rebuild"):
        reader = ShardReader(tmp_path)
        hits = reader.top(reader.everything(), 50)
        reader.pages([hit.address for hit in hits])
        for word in ("text", "7"):
            clause = Clause("body", (word,))
            reader.top(reader.matching(clause), 50)
            reader.occurrences([clause], hits)
