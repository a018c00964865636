"""The set of contents: exact, at its limit of memory, and after any restart."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from lycosa.errors import StorageError
from lycosa.lab.faults import FaultyFiles
from lycosa.lifetimes import remove_unnamed
from lycosa.seen.contents import FENCE, Contents
from lycosa.seen.memory import MemorySeen
from lycosa.seen.protocol import Keys

LIMIT = 200_000
"""Some 15,000 digests; an empty table has 50,000 bytes."""


def digests(count: int, seed: int = 1) -> Keys:
    return np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64, endpoint=False)


def saved(contents: Contents) -> tuple[list[bytes], list[str]]:
    pieces, names = list(contents.freeze()), contents.files()
    contents.settle()
    contents.keep(names)
    return pieces, names


def test_memory_is_bounded_and_nothing_is_forgotten() -> None:
    contents = Contents(FaultyFiles(), memory=LIMIT)
    keys = digests(200_000)
    most = 0
    for at in range(0, len(keys), 10_000):
        contents.mark(keys[at : at + 10_000])
        saved(contents)
        most = max(most, contents.nbytes)
    assert most < 2 * LIMIT, "one table that is growing, one that was full"
    assert contents.nbytes < LIMIT + 8 * len(keys) / FENCE + 100_000
    assert len(contents) == len(keys)
    assert contents.certain(keys[::97]).all()
    assert not contents.certain(digests(2_000, 2)).any()


@pytest.mark.parametrize("seed", range(3))
def test_it_answers_as_a_set_does_whatever_happens_between(seed: int) -> None:
    """Also before a full table is on disk, while files are merged, and after a restart from the last snapshot."""
    random, files = Random(seed), FaultyFiles()
    contents, known = Contents(files, memory=LIMIT), set[int]()
    last: tuple[list[bytes], list[str], set[int]] = [], [], set()
    source = np.random.default_rng(seed)
    for _ in range(40):
        keys = source.integers(0, 60_000, 6_000, np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        expected = list(dict.fromkeys(key for key in keys.tolist() if key not in known))
        assert keys[contents.offer(keys, [b""] * len(keys)).new].tolist() == expected
        known.update(expected)
        assert len(contents) == len(known)
        doing = random.random()
        if doing < 0.4:
            last = (*saved(contents), set(known))
        elif doing < 0.5:
            pieces, names, known = last
            known = set(known)
            remove_unnamed(files, names)
            contents = Contents(files, memory=LIMIT)
            contents.thaw(pieces)
            contents.keep(names)
            assert len(contents) == len(known)
    asked = np.arange(60_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert contents.certain(asked).tolist() == [key in known for key in asked.tolist()]


def test_files_that_were_merged_away_go() -> None:
    files = FaultyFiles()
    contents = Contents(files, memory=LIMIT)
    for seed in range(12):
        contents.mark(digests(16_000, seed))
        saved(contents)
    _, names = saved(contents)
    assert 1 <= len(names) <= 3
    assert sorted(files.list("")) == names


def test_a_snapshot_of_the_store_before_is_read() -> None:
    files, keys = FaultyFiles(), digests(30_000)
    old = MemorySeen(files)
    old.mark(keys)
    pieces = list(old.freeze())
    old.settle()
    contents = Contents(files, memory=LIMIT)
    contents.thaw(pieces)
    assert len(contents) == len(keys) and contents.certain(keys).all()
    _, names = saved(contents)
    saved(contents)
    assert not [name for name in files.list("") if name not in contents.files() and name not in names]


def test_a_file_that_is_damaged_or_cut_is_named() -> None:
    files = FaultyFiles()
    contents = Contents(files, memory=LIMIT)
    contents.mark(digests(30_000))
    saved(contents)
    pieces, names = saved(contents)
    files.truncate(names[0], files.size(names[0]) // 2)
    with pytest.raises(StorageError, match=names[0]):
        Contents(files, memory=LIMIT).thaw(pieces)
    with pytest.raises(StorageError, match=names[0]):
        contents.certain(digests(30_000))
