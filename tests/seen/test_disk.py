"""The stores on disk under the contract, and what is promised of each alone."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from lycosa.errors import ConfigError, LocalError, StorageError
from lycosa.files import DiskFiles
from lycosa.meters import Meters
from lycosa.seen import merge_kernels as kernels
from lycosa.seen import waiting
from lycosa.seen.auto import AutoSeen
from lycosa.seen.cache import CachedSeen, ScatterCache
from lycosa.seen.disk import DiskSeen
from lycosa.seen.drum import DrumSeen
from lycosa.seen.mercator import MercatorSeen
from lycosa.seen.recent import RecentKeys
from lycosa.seen.stores import NAMES, open_store
from lycosa.seen.veuniq import VeuniqSeen
from tests.seen import references
from tests.seen.contract import Bench, Contract

SMALL = 64 << 10


class TestMercator(Contract):
    factory = staticmethod(lambda files: MercatorSeen(files, memory=SMALL))
    examples = 60


class TestDrum(Contract):
    factory = staticmethod(lambda files: DrumSeen(files, memory=SMALL, buckets=8, bucket_bytes=1 << 14))
    examples = 60


class TestVeuniq(Contract):
    factory = staticmethod(lambda files: VeuniqSeen(files, memory=SMALL, split=700))
    examples = 100


class TestVeuniqByTurns(Contract):
    factory = staticmethod(lambda files: VeuniqSeen(files, memory=SMALL, repositories=5, turns=True))
    examples = 60


class TestAuto(Contract):
    factory = staticmethod(lambda files: AutoSeen(files, memory=SMALL, split=500))
    examples = 100


class TestAutoMoving(Contract):
    """Small enough to begin the move at the first offers."""

    factory = staticmethod(lambda files: AutoSeen(files, memory=1 << 10, split=64))
    examples = 100


# -- kernels against their plain references


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from([0, 1, 5, 9, 2**64 - 1]), st.integers(0, 2)), max_size=40))
def test_group_equals_its_reference(records: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in records], np.uint64)
    kinds = np.array([kind for _, kind in records], np.uint8)
    n = len(records)
    unique, marked = np.empty(n, np.uint64), np.empty(n, np.uint8)
    offer, first = np.empty(n, np.int64), np.empty(n, np.int64)
    order = np.argsort(keys, kind="stable")
    count = kernels.group(keys, order, kinds, unique, marked, offer, first)
    rows = [
        (int(unique[i]), bool(marked[i]), None if offer[i] == kernels.NONE else int(offer[i]), int(first[i]))
        for i in range(count)
    ]
    assert rows == references.group(keys.tolist(), kinds.tolist())


sorted_states = st.dictionaries(
    st.integers(0, 60) | st.integers(0, 2**64 - 1), st.integers(0, 1), max_size=40
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(sorted_states, sorted_states, st.integers(1, 7), st.integers(1, 9))
def test_merge_equals_its_reference_in_any_pieces(old: dict, new: dict, block: int, room: int) -> None:
    old_keys = np.array(sorted(old), np.uint64)
    old_states = np.array([old[k] for k in sorted(old)], np.uint8)
    keys = np.array(sorted(new), np.uint64)
    states = np.array([new[k] for k in sorted(new)], np.uint8)
    known = np.zeros(len(keys), np.bool_)
    out, out_states = np.empty(room, np.uint64), np.empty(room, np.uint8)
    got, j = [], 0
    starts = list(range(0, len(old_keys), block)) or [0]
    for start in starts:
        i, part, part_states = 0, old_keys[start : start + block], old_states[start : start + block]
        while True:
            more = start != starts[-1]
            i, j, n = kernels.merge(
                part, part_states, i, more, keys, states, j, False, out, out_states, 0, known
            )
            got += zip(out[:n].tolist(), out_states[:n].tolist(), strict=True)
            if n < room:
                break
    assert (got, known.tolist()) == references.merge(old, new)


def test_recent_keys_never_claim_what_they_were_not_given() -> None:
    recent = RecentKeys(1 << 10)
    dice = random.Random(1)
    given_keys: set[int] = set()
    for _ in range(300):
        batch = [dice.choice([0, dice.getrandbits(14), dice.getrandbits(64)]) for _ in range(200)]
        keys = np.array(batch, np.uint64)
        for key, here in zip(batch, recent.certain(keys).tolist(), strict=True):
            assert not here or key in given_keys
        fresh = recent.add(keys).tolist()
        for i, key in enumerate(batch):
            assert i in fresh or key in given_keys
            given_keys.add(key)
        assert recent.certain(keys[fresh]).all()
        assert recent.nbytes < 150_000


# -- merging beside use


def keys_of(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def names_of(values: np.ndarray) -> list[bytes]:
    return [b"p%d" % value for value in values.tolist()]


@pytest.mark.parametrize("store", ["veuniq", "drum", "mercator"])
def test_use_goes_on_while_a_merge_runs(tmp_path, store: str) -> None:
    files = DiskFiles(tmp_path)
    seen = {
        "veuniq": lambda: VeuniqSeen(files, memory=1 << 20, split=3000),
        "drum": lambda: DrumSeen(files, memory=1 << 20, buckets=4),
        "mercator": lambda: MercatorSeen(files, memory=1 << 20),
    }[store]()
    dice = np.random.default_rng(3)
    met: dict[int, bytes] = {}
    out: list[tuple[int, bytes]] = []
    with ThreadPoolExecutor(1) as pool:
        for _ in range(12):
            merge = None
            running = None
            for _ in range(20):
                keys = dice.integers(0, 40_000, 100).astype(np.uint64) << np.uint64(48)
                payloads = names_of(keys)
                seen.offer(keys, payloads)
                for key, payload in zip(keys.tolist(), payloads, strict=True):
                    met.setdefault(key, payload)
                if merge is None:
                    merge = seen.plan()
                    assert merge is not None
                    with pytest.raises(LocalError):
                        seen.plan()
                    running = pool.submit(merge.run)
            running.result()
            out += seen.apply(merge)
            with pytest.raises(LocalError):
                seen.apply(merge)
    while seen.waiting:
        out += seen.merge()
    assert len(out) == len(met) and dict(out) == met
    assert len(seen) == len(met)


def test_a_crash_between_a_merge_and_the_snapshot(tmp_path) -> None:
    """The merge's files are not named: recovery goes back, and every key still comes out once."""
    bench = Bench(lambda files: VeuniqSeen(files, memory=SMALL, split=500), tmp_path / "s")
    bench.offer(list(range(0, 4000, 2)))
    bench.freeze()
    waiting = dict(bench.pending)
    bench.merge()
    assert bench.came_out > 0
    for tails in ("cut", "keep", "garble"):
        bench.crash(tails)
        assert bench.pending == waiting
        bench.merge()
    bench.finish()


def test_a_merge_that_fails_loses_nothing(tmp_path) -> None:
    class Full(DiskFiles):
        def create(self, name: str):
            raise StorageError("the disk is full")

    good, full = DiskFiles(tmp_path), Full(tmp_path)
    seen = VeuniqSeen(good, memory=SMALL)
    seen.offer(keys_of(1, 2, 3), [b"a", b"b", b"c"])
    seen._files = full
    with pytest.raises(StorageError):
        seen.merge()
    seen.offer(keys_of(3, 4), [b"x", b"d"])
    seen._files = good
    assert sorted(seen.merge() + seen.merge()) == [(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")]


def test_a_write_that_failed_half_way_is_stepped_over(tmp_path) -> None:
    files = DiskFiles(tmp_path)
    seen = VeuniqSeen(files, memory=SMALL)
    payload = [b"x" * 9000]
    seen.offer(keys_of(1), payload)
    (name,) = (n for n in files.list("") if n.startswith("wait-"))
    with (tmp_path / name).open("ab") as out:
        out.write(b"half a block")
    seen.offer(keys_of(2), payload)
    assert len([n for n in files.list("") if n.startswith("wait-")]) == 2
    assert sorted(key for key, _ in seen.merge()) == [1, 2]


# -- what is promised


def test_repositories_split_and_stay_small(tmp_path) -> None:
    seen = VeuniqSeen(DiskFiles(tmp_path), memory=1 << 20, split=1000)
    host = 7 << 48
    for at in range(0, 30_000, 500):
        keys = np.arange(at, at + 500, dtype=np.uint64) * np.uint64(977) + np.uint64(host)
        seen.offer(keys, [b""] * 500)
        seen.merge()
    while seen.waiting:
        seen.merge()
    assert len(seen) == 30_000
    counts = [shelf.repository.keys for shelf in seen._shelves]
    assert seen.shelves >= 30 and max(counts) <= 1500
    lows = seen._lows.tolist()
    assert lows == sorted(set(lows))


def test_nine_bytes_a_url_on_disk(tmp_path) -> None:
    files = DiskFiles(tmp_path)
    seen = VeuniqSeen(files, memory=8 << 20)
    keys = np.random.default_rng(1).integers(0, 2**63, 200_000).astype(np.uint64)
    seen.offer(keys, [b"payload"] * len(keys))
    while seen.waiting:
        seen.merge()
    seen.close()
    on_disk = sum(files.size(name) for name in files.list(""))
    assert on_disk == seen.disk
    assert on_disk / len(seen) <= 9


def test_crawled_and_uncrawled(tmp_path) -> None:
    seen = VeuniqSeen(DiskFiles(tmp_path), memory=SMALL)
    seen.offer(np.arange(100, dtype=np.uint64), [b""] * 100)
    seen.merge()
    assert (len(seen), seen.crawled) == (100, 0)
    seen.mark(np.arange(90, 130, dtype=np.uint64))
    seen.merge()
    assert (len(seen), seen.crawled) == (130, 40)


def test_turns_are_round_robin_and_the_default_takes_the_fullest(tmp_path) -> None:
    def order(turns: bool, place: Path) -> list[int]:
        seen = VeuniqSeen(DiskFiles(place), memory=SMALL, repositories=4, turns=turns)
        for quarter, count in ((0, 5), (1, 2), (2, 9), (3, 3)):
            keys = np.arange(count, dtype=np.uint64) + np.uint64(quarter << 62)
            seen.offer(keys, [b""] * count)
        return [seen.merge()[0][0] >> 62 for _ in range(4)]

    assert order(True, tmp_path / "a") == [0, 1, 2, 3]
    assert order(False, tmp_path / "b") == [2, 0, 3, 1]


def test_drum_checks_and_updates(tmp_path) -> None:
    seen = DrumSeen(DiskFiles(tmp_path), memory=SMALL, buckets=4)
    seen.update(keys_of(10, 2**63))
    seen.merge()
    seen.check(keys_of(10, 11), [b"ten", b"eleven"])
    seen.offer(keys_of(12), [b"twelve"])
    seen.check(keys_of(12, 2**63), [b"again", b"far"])
    assert seen.merge() + seen.merge() == [(12, b"twelve")]
    assert not seen.waiting
    checked = sorted(seen.take_checked())
    assert checked == [
        (10, b"ten", True),
        (11, b"eleven", False),
        (12, b"again", True),
        (2**63, b"far", True),
    ]
    assert seen.take_checked() == []
    seen.check(keys_of(11), [b"still not"])
    seen.merge()
    assert seen.take_checked() == [(11, b"still not", False)]
    assert len(seen) == 3


@pytest.mark.parametrize("kind", [DrumSeen, MercatorSeen, VeuniqSeen])
def test_a_merge_gives_out_no_more_than_its_share(tmp_path, kind: type[DiskSeen]) -> None:
    """However much waits: what comes out of a merge is in RAM at once."""
    seen = kind(DiskFiles(tmp_path), memory=SMALL)
    keys = np.random.default_rng(1).integers(0, 2**64, 30_000, np.uint64)
    for start in range(0, len(keys), 500):
        part = keys[start : start + 500]
        seen.offer(part, [b"u"] * len(part))
    assert seen.waiting > 20 * seen.batch
    out = []
    while seen.waiting:
        new = seen.merge()
        assert len(new) <= seen.batch
        out += [key for key, _ in new]
    assert sorted(out) == sorted(keys.tolist())


def test_a_pass_of_drum_ends(tmp_path) -> None:
    """Once one bucket is full all are merged, one after the other; then it waits for the next."""
    seen = DrumSeen(DiskFiles(tmp_path), memory=SMALL, buckets=8)
    keys = np.random.default_rng(2).integers(0, 2**64, 3_000, np.uint64)
    seen.offer(keys, [b"u"] * len(keys))
    assert not seen.due
    full = np.arange(seen.batch, dtype=np.uint64)
    seen.offer(full, [b"u"] * len(full))
    merges = 0
    while seen.due:
        seen.merge()
        merges += 1
    assert not seen.waiting
    assert 8 <= merges <= 10


def test_needless_files_go_and_needed_ones_stay(tmp_path) -> None:
    files = DiskFiles(tmp_path)
    seen = VeuniqSeen(files, memory=SMALL)
    for at in range(20):
        seen.offer(np.arange(at * 100, at * 100 + 100, dtype=np.uint64), [b""] * 100)
        seen.merge()
    seen.close()
    assert len(files.list("")) == 1
    list(seen.freeze())
    (named,) = seen.files()
    seen.offer(keys_of(10**6), [b""])
    seen.merge()
    seen.close()
    assert named in files.list("") and len(files.list("")) == 2


@pytest.mark.parametrize("memory", [1 << 20, 4 << 20])
def test_memory_is_held(tmp_path, memory: int) -> None:
    """Whatever waits, and though nobody merges."""
    seen = VeuniqSeen(DiskFiles(tmp_path), memory=memory)
    dice = np.random.default_rng(2)
    for _ in range(60):
        keys = dice.integers(0, 2**63, 5000).astype(np.uint64)
        seen.offer(keys, [b"http://www.example.org/some/page"] * 5000)
        assert seen.nbytes <= memory
    assert seen.due
    merge = seen.plan()
    assert sum(source.records for source in merge.buckets[0]) <= seen.batch


def test_auto_moves_without_forgetting_and_holds_its_memory(tmp_path) -> None:
    memory = 2 << 20
    files = DiskFiles(tmp_path)
    seen = AutoSeen(files, memory=memory)
    dice = np.random.default_rng(5)
    states, came_out, met = [seen.state], 0, set()
    for _ in range(120):
        keys = dice.integers(0, 1 << 20, 5000).astype(np.uint64) << np.uint64(40)
        met.update(keys.tolist())
        came_out += len(seen.offer(keys, [b""] * 5000).new)
        if seen.due:
            merge = seen.plan()
            merge.run()
            came_out += len(seen.apply(merge))
        if seen.state != states[-1]:
            states.append(seen.state)
        assert seen.nbytes <= memory
    while seen.waiting:
        came_out += len(seen.merge())
    assert states == ["memory", "moving", "disk"]
    assert came_out == len(met) == len(seen)
    assert not [name for name in files.list("") if name.startswith("keys-")]


# -- damage is named


def damaged_store(place: Path) -> tuple[list[bytes], list[str]]:
    files = DiskFiles(place)
    seen = VeuniqSeen(files, memory=SMALL)
    seen.offer(np.arange(1000, dtype=np.uint64), [b"payload"] * 1000)
    seen.merge()
    seen.offer(np.arange(500, 2500, dtype=np.uint64), [b"payload"] * 2000)
    seen.close()
    pieces = list(seen.freeze())
    seen.settle()
    return pieces, seen.files()


@pytest.mark.parametrize("kind", ["repo-", "wait-"])
@pytest.mark.parametrize("how", ["flip first", "flip middle", "flip last", "cut", "empty", "gone"])
def test_damage_is_named(tmp_path, kind: str, how: str) -> None:
    pieces, names = damaged_store(tmp_path)
    name = next(n for n in names if n.startswith(kind))
    path = tmp_path / name
    data = bytearray(path.read_bytes())
    if how.startswith("flip"):
        data[{"first": 0, "middle": len(data) // 2, "last": -1}[how[5:]]] ^= 0x40
    elif how == "cut":
        del data[len(data) * 2 // 3 :]
    else:
        data.clear()
    path.write_bytes(data)
    if how == "gone":
        path.unlink()
    seen = VeuniqSeen(DiskFiles(tmp_path), memory=SMALL)
    seen.thaw(pieces)
    with pytest.raises(StorageError, match=name):
        while seen.waiting:
            seen.merge()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.binary(max_size=200))
def test_any_bytes_as_a_waiting_block_are_refused_or_read(data: bytes) -> None:
    with pytest.raises(StorageError):
        waiting.parse(data, "here")


def test_odd_options_are_refused(tmp_path) -> None:
    files = DiskFiles(tmp_path)
    with pytest.raises(ConfigError):
        VeuniqSeen(files, repositories=1 << 17)
    with pytest.raises(ConfigError):
        VeuniqSeen(files, split=1)
    with pytest.raises(ConfigError):
        DrumSeen(files, buckets=0)
    with pytest.raises(ConfigError):
        open_store("bloom", files, 1 << 20)


@pytest.mark.parametrize("name", NAMES)
def test_stores_by_name(tmp_path, name: str) -> None:
    seen = CachedSeen(ScatterCache(1 << 10), open_store(name, DiskFiles(tmp_path), 1 << 20), Meters())
    seen.offer(keys_of(1, 2, 1), [b"a", b"b", b"c"])
    while seen.waiting:
        seen.merge()
    assert len(seen) == 2
