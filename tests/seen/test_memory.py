"""`plain` and `memory` under the contract, and what is promised of `memory` alone."""

from __future__ import annotations

import numpy as np
import pytest

from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.seen import key_file
from lycosa.seen import memory_kernels as kernels
from lycosa.seen.memory import MemorySeen, Table
from lycosa.seen.plain import PlainSeen
from lycosa.url.key import unmix
from tests.seen.contract import Contract


class TestPlain(Contract):
    factory = staticmethod(lambda files: PlainSeen())


class TestMemory(Contract):
    factory = staticmethod(lambda files: MemorySeen(files))


class TestMemoryInSmallBlocks(Contract):
    """Blocks of 50 keys: most of what is known lies in the key file."""

    factory = staticmethod(lambda files: MemorySeen(files, block_keys=50))


def _insert(table: Table, keys: np.ndarray) -> int:
    return table.insert(keys, 0, np.empty(len(keys), np.intp), 0, np.empty(len(keys), np.uint64), 0)[1]


def _rests(table: Table, page: int) -> list[int]:
    row = table._pages[page]
    array = table._arrays[page]
    if array is None:
        return []
    slots = int(row[kernels.SLOTS])
    high = array[: 4 * slots].view(np.uint32).astype(np.uint64)
    low = array[4 * slots :].reshape(slots, 3).astype(np.uint64)
    rests = (high << np.uint64(24)) | low[:, 0] | (low[:, 1] << np.uint64(8)) | (low[:, 2] << np.uint64(16))
    return [rest for rest in rests.tolist() if rest != 2**56 - 1]


def test_the_table_stays_ordered_and_loses_nothing() -> None:
    table = Table()
    dice = np.random.default_rng(4)
    keys = dice.integers(0, 2**64 - 1, 60_000, dtype=np.uint64)
    for at in range(0, len(keys), 1000):
        _insert(table, keys[at : at + 1000])
    held = []
    for page in range(kernels.PAGES):
        rests = _rests(table, page)
        assert rests == sorted(rests)
        held += [unmix(page << 56 | rest) for rest in rests]
    assert sorted(held) == sorted(set(keys.tolist()))


def test_the_rest_of_all_ones_is_a_key_like_any_other() -> None:
    table = Table()
    ones = unmix(2**64 - 1)
    flags = np.empty(1, np.bool_)
    assert table.certain(np.array([ones], np.uint64), flags) == 0
    assert _insert(table, np.array([ones, ones], np.uint64)) == 1
    assert table.certain(np.array([ones], np.uint64), flags) == 1
    assert len(table) == 1


def test_keys_that_crowd_at_the_end_of_a_page() -> None:
    """A site cannot choose mixes, but if it could: the table grows, and loses nothing."""
    mixes = [(7 << 56) | (2**56 - 2 - n) for n in range(3000)]
    keys = np.array([unmix(m) for m in mixes], np.uint64)
    table = Table()
    assert _insert(table, keys[:40]) == 40
    assert _insert(table, keys[:40]) == 0
    flags = np.empty(40, np.bool_)
    assert table.certain(keys[:40], flags) == 40


@pytest.mark.parametrize("count", [50_000, 1_000_000])
def test_bytes_per_key(count: int) -> None:
    table = Table()
    dice = np.random.default_rng(1)
    worst = 0.0
    for at in range(0, count, 10_000):
        _insert(table, dice.integers(0, 2**64 - 1, 10_000, dtype=np.uint64))
        if at >= 40_000:
            worst = max(worst, table.nbytes / len(table))
    assert worst <= 12
    if count == 1_000_000:
        assert table.nbytes / len(table) <= 8.1


def test_a_snapshot_is_small_whatever_the_table(tmp_path) -> None:
    store = MemorySeen(DiskFiles(tmp_path))
    store.offer(np.arange(300_000, dtype=np.uint64), ())
    assert sum(map(len, store.freeze())) < 70_000
    assert len(store.files()) == 1


@pytest.mark.parametrize("at", [0, 9, 20, 5000, 70_000])
def test_damage_is_named(tmp_path, at: int) -> None:
    store = MemorySeen(DiskFiles(tmp_path))
    store.offer(np.arange(20_000, dtype=np.uint64), ())
    pieces = list(store.freeze())
    store.settle()
    name = store.files()[0]
    data = bytearray((tmp_path / name).read_bytes())
    data[at] ^= 0x10
    (tmp_path / name).write_bytes(data)
    with pytest.raises(StorageError, match=name):
        MemorySeen(DiskFiles(tmp_path)).thaw(pieces)


@pytest.mark.parametrize("size", [0, 4, 8, 12, 30_000, 65_544])
def test_a_short_or_missing_key_file_is_named(tmp_path, size: int) -> None:
    store = MemorySeen(DiskFiles(tmp_path))
    store.offer(np.arange(20_000, dtype=np.uint64), ())
    pieces = list(store.freeze())
    store.settle()
    name = store.files()[0]
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:size])
    with pytest.raises(StorageError, match=name):
        MemorySeen(DiskFiles(tmp_path)).thaw(pieces)
    (tmp_path / name).unlink()
    with pytest.raises(StorageError, match=name):
        MemorySeen(DiskFiles(tmp_path)).thaw(pieces)


def test_key_files_give_back_their_blocks(tmp_path) -> None:
    files = DiskFiles(tmp_path)
    out = key_file.create(files, "k")
    blocks = [np.arange(n, n + n, dtype=np.uint64) for n in (1, 8192, 300_000, 5)]
    for keys in blocks:
        out.write(key_file.block(keys))
    out.close()
    read = list(key_file.read(files, "k", out.size))
    assert [r.tolist() for r in read] == [b.tolist() for b in blocks]
