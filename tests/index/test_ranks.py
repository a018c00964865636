"""The file of ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.index.ranks import NAME, RankFile, scaled, write_ranks


def test_ranks_are_found_by_key_and_newer_ones_are_seen(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    ranks = RankFile(files)
    assert ranks([1, 2]) == [0.0, 0.0] and ranks.made == 0 and not ranks.reload()
    write_ranks(files, 7, np.array([2**64 - 1, 5], np.uint64), np.array([0.5, 0.25], np.float32))
    assert ranks.reload() and not ranks.reload()
    assert ranks([5, 6, 2**64 - 1, 0]) == [0.25, 0.0, 0.5, 0.0] and ranks.made == 7
    write_ranks(files, 8, np.array([6], np.uint64), np.array([1.0], np.float32))
    assert ranks.reload() and ranks([5, 6]) == [0.0, 1.0]


def test_a_rank_does_not_depend_on_the_size_of_the_crawl() -> None:
    few, many = scaled(np.array([0.1, 0.9]), 10), scaled(np.array([0.0001, 0.0009]), 10_000)
    assert few.tolist() == pytest.approx(many.tolist())
    assert scaled(np.array([0.9]), 10**9).tolist() == [1.0] and scaled(np.array([0.0]), 5).tolist() == [0.0]


def test_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"LyRNK1\r\n nonsense")
    with pytest.raises(StorageError, match="--rebuild"):
        RankFile(DiskFiles(tmp_path))
