"""The stores of left-behind entries: one contract for both, the packed one against the plain one, its files."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from lycosa.errors import StorageError
from lycosa.files import Appender, Bytes, DiskFiles, Files
from lycosa.frontier.sydney import left_store
from lycosa.frontier.sydney.left_behind import OTHERS, Entry, LeftBehind
from lycosa.frontier.sydney.left_packed import Head, PackedLeftBehind
from lycosa.frontier.sydney.left_plain import PlainLeftBehind
from lycosa.lab.faults import Crash, FaultyFiles

BIG = (1 << 64) - 1
Make = Callable[[], LeftBehind]


@pytest.fixture(params=["plain", "packed", "packed-small"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Stores of one kind, all of one directory."""
    if request.param == "plain":
        return PlainLeftBehind
    if request.param == "packed":
        return lambda: PackedLeftBehind(DiskFiles(tmp_path))
    return lambda: PackedLeftBehind(DiskFiles(tmp_path), tails=3, segment_bytes=300)


def drain(store: LeftBehind, queue: int) -> list[Entry]:
    out = []
    while (entry := store.pop(queue)) is not None:
        out.append(entry)
    return out


def by_queue(store: LeftBehind) -> dict[int, Counter[Entry]]:
    out: dict[int, Counter[Entry]] = defaultdict(Counter)
    for queue, entry in store.entries():
        out[queue][entry] += 1
    return dict(out)


def entries_of(n: int, start: int = 0) -> list[Entry]:
    return [Entry(start + i, i % 5) for i in range(n)]


# -- the contract


def test_fifo_by_queue(make: Make) -> None:
    store = make()
    pushed: dict[int, list[Entry]] = {OTHERS: [], 1: [], BIG: [], 1 << 63: []}
    for n in range(400):
        queue = list(pushed)[n * n % 4]
        entry = Entry(n if n % 7 else (1 << 63) - 1, n if n % 5 else (1 << 32) - 1)
        store.push(queue, entry)
        pushed[queue].append(entry)
    assert len(store) == 400
    assert store.pop(77) is None
    assert store.count(77) == 0
    assert by_queue(store) == {queue: Counter(rows) for queue, rows in pushed.items() if rows}
    for queue, rows in pushed.items():
        assert store.count(queue) == len(rows)
        assert drain(store, queue) == rows
        assert store.count(queue) == 0
        assert store.pop(queue) is None
    assert len(store) == 0
    assert list(store.entries()) == []


def test_pushes_between_pops(make: Make) -> None:
    store = make()
    rng = random.Random(3)
    expected: dict[int, list[Entry]] = defaultdict(list)
    for n in range(1500):
        queue = rng.randrange(4)
        if rng.random() < 0.6:
            store.push(queue, Entry(n, 1))
            expected[queue].append(Entry(n, 1))
        else:
            assert store.pop(queue) == (expected[queue].pop(0) if expected[queue] else None)
    for queue in range(4):
        assert drain(store, queue) == expected[queue]


def test_rounds(make: Make) -> None:
    store = make()
    assert store.next_queue() is None
    store.push(OTHERS, Entry(1, 1))
    assert store.next_queue() is None
    for queue in range(1, 6):
        for entry in entries_of(9):
            store.push(queue, entry)
    for _ in range(3):
        assert sorted(store.next_queue() for _ in range(5)) == [1, 2, 3, 4, 5]  # type: ignore[type-var]
    # One that comes back and one that is new wait for the next round; one that is empty is not named.
    first = store.next_queue()
    assert first is not None
    drain(store, first)
    store.push(first, Entry(5, 5))
    store.push(6, Entry(6, 6))
    gone = next(queue for queue in range(1, 6) if queue != first)
    rest = {1, 2, 3, 4, 5} - {first}
    second = store.next_queue()
    assert second in rest
    rest.discard(second)
    if gone in rest:
        drain(store, gone)
        rest.discard(gone)
        alive = {1, 2, 3, 4, 5, 6} - {gone}
    else:
        alive = {1, 2, 3, 4, 5, 6}
    assert {store.next_queue() for _ in rest} == rest
    assert {store.next_queue() for _ in alive} == alive


def test_a_queue_that_is_popped_and_pushed_does_not_starve_the_others(make: Make) -> None:
    """The usual way: take an entry, offer some of its links, push it again with another cursor."""
    store = make()
    for queue in range(1, 40):
        for entry in entries_of(1 + queue % 3):
            store.push(queue, entry)
    named: Counter[int] = Counter()
    for _ in range(39 * 10):
        queue_or_none = store.next_queue()
        assert queue_or_none is not None
        named[queue_or_none] += 1
        entry_or_none = store.pop(queue_or_none)
        assert entry_or_none is not None
        store.push(queue_or_none, Entry(entry_or_none.position, entry_or_none.cursor + 1))
    assert set(named.values()) == {10}


def test_clear(make: Make) -> None:
    store = make()
    for n in range(50):
        store.push(n % 6, Entry(n, 0))
    store.pop(1)
    store.next_queue()
    store.clear()
    assert len(store) == 0
    assert store.next_queue() is None
    assert store.pop(OTHERS) is None
    store.push(3, Entry(9, 9))
    assert store.next_queue() == 3
    assert drain(store, 3) == [Entry(9, 9)]


def test_snapshot_is_the_cut_at_the_freeze(make: Make) -> None:
    store = make()
    for n in range(300):
        store.push(n % 7, Entry(n, n % 3))
    for _ in range(25):
        store.pop(2)
    named = {store.next_queue() for _ in range(2)}
    before = {queue: store.count(queue) for queue in range(9)}
    frozen = store.freeze()
    pieces = [next(frozen)]
    for n in range(300):
        store.push(n % 9, Entry(1000 + n, 0))
        store.pop(n % 5)
    drain(store, 3)
    pieces += frozen
    store.settle()
    assert max(map(len, pieces)) <= 1 << 18
    again = make()
    again.thaw(pieces)
    assert {queue: again.count(queue) for queue in range(9)} == before
    assert len(again) == 275
    assert {again.next_queue() for _ in range(4)} | named == {1, 2, 3, 4, 5, 6}
    for queue in range(7):
        again.push(queue, Entry(7777, 7))
        skipped = 25 if queue == 2 else 0
        wanted = [Entry(n, n % 3) for n in range(300) if n % 7 == queue][skipped:]
        assert drain(again, queue) == [*wanted, Entry(7777, 7)]


def test_snapshot_of_nothing_and_no_snapshot(make: Make) -> None:
    store = make()
    pieces = list(store.freeze())
    assert store.files() == []
    store.settle()
    for thawed in (pieces, []):
        again = make()
        again.thaw(thawed)
        assert len(again) == 0
        again.push(4, Entry(1, 2))
        assert drain(again, 4) == [Entry(1, 2)]


# -- the packed one: bounds


def test_out_of_range(tmp_path: Path) -> None:
    store = PackedLeftBehind(DiskFiles(tmp_path))
    for entry in (Entry(-1, 0), Entry(1 << 63, 0), Entry(0, -1), Entry(0, 1 << 32)):
        with pytest.raises(ValueError, match="out of range"):
            store.push(1, entry)
    for queue in (-1, 1 << 64):
        with pytest.raises(OverflowError):
            store.push(queue, Entry(0, 0))
    with pytest.raises(ValueError, match="at least 1"):
        PackedLeftBehind(DiskFiles(tmp_path), tails=0)
    assert len(store) == 0


@pytest.mark.parametrize("entries", [50_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_ram_grows_with_the_queues_and_not_with_the_entries(tmp_path: Path, entries: int) -> None:
    store = PackedLeftBehind(DiskFiles(tmp_path), tails=1 << 12)
    rng = random.Random(1)
    queues = [rng.getrandbits(64) for _ in range(1000)]
    for n in range(entries):
        store.push(queues[n % 1000], Entry(n, 1))
    assert store.nbytes < 200_000
    for queue in queues[:300]:
        for n in range(50):
            entry = store.pop(queue)
            assert entry is not None
            assert entry.position // 1000 == n
    assert store.nbytes < 300_000
    assert len(store) == entries - 15_000


def test_ram_of_a_queue_and_giving_it_back(tmp_path: Path) -> None:
    store = PackedLeftBehind(DiskFiles(tmp_path), tails=256)
    fixed = 150_000
    for queue in range(1, 10_001):
        store.push(queue << 48, Entry(queue, 0))  # numbers that differ in their high bits only are as good
    assert store.nbytes < fixed + 10_000 * 58
    for queue in range(1, 10_001):
        assert store.pop(queue << 48) == Entry(queue, 0)
    assert store.nbytes < fixed
    assert store.next_queue() is None


def test_what_is_popped_soon_is_never_written(tmp_path: Path) -> None:
    store = PackedLeftBehind(DiskFiles(tmp_path), tails=10)
    for n in range(1000):
        store.push(n % 9, Entry(n, 0))
        if n >= 9:
            assert store.pop((n - 9) % 9) == Entry(n - 9, 0)
    assert DiskFiles(tmp_path).list("") == []


class Counting:
    """Files that count what is read and written, and can be full."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.reads = 0
        self.written = 0
        self.room: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        self.reads += 1
        return self._files.read_at(name, offset, length)

    def create(self, name: str) -> Appender:
        return cast(Appender, _CountingAppender(self, self._files.create(name)))

    def append(self, name: str) -> Appender:
        return cast(Appender, _CountingAppender(self, self._files.append(name)))


class _CountingAppender:
    def __init__(self, files: Counting, out: Appender) -> None:
        self._counting = files
        self._out = out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)

    def write(self, data: Bytes) -> None:
        if self._counting.room is not None and len(data) > self._counting.room:
            self._out.write(bytes(data)[: self._counting.room])
            raise StorageError("the disk is full")
        self._counting.written += len(data)
        self._out.write(data)


def test_work_is_bounded(tmp_path: Path) -> None:
    """Of a pop, however long the chain; and of an entry, which is written twice at most."""
    files = Counting(DiskFiles(tmp_path))
    store = PackedLeftBehind(files, tails=2)
    pushed = entries_of(1201)
    for entry in pushed:
        store.push(5, entry)
    assert files.reads == 0
    assert files.written == 600 * (32 + 2 * 16)
    most = 0
    for entry in pushed:
        before = files.reads
        assert store.pop(5) == entry
        most = max(most, files.reads - before)
    assert 64 < most <= 64 + 600 // 64 + 1
    assert files.reads < 600 * 2
    assert files.written == 600 * 32 + 1200 * 16 + 1200 * 16


@pytest.mark.parametrize("seed", range(4))
def test_stretches_come_and_go(seed: int) -> None:
    """Chains of many stretches, read while they grow, over several processes."""
    files = FaultyFiles()
    rng = random.Random(seed)
    store = PackedLeftBehind(files, tails=1, segment_bytes=5000)
    expected: dict[int, list[Entry]] = {7: [], 8: []}
    number = 0
    for _ in range(40):
        queue = rng.choice([7, 8])
        if rng.random() < 0.6:
            for _ in range(rng.choice([1, 63, 64, 65, 128, 200])):
                number += 1
                store.push(queue, Entry(number, 0))
                expected[queue].append(Entry(number, 0))
        else:
            for _ in range(rng.choice([1, 63, 64, 65, 128, 200])):
                assert store.pop(queue) == (expected[queue].pop(0) if expected[queue] else None)
        if rng.random() < 0.2:
            pieces = list(store.freeze())
            store = PackedLeftBehind(files, tails=1, segment_bytes=5000)
            store.thaw(pieces)
        assert by_queue(store) == {queue: Counter(rows) for queue, rows in expected.items() if rows}
    for queue, rows in expected.items():
        assert drain(store, queue) == rows


def test_large_tails_are_cut_into_blocks(tmp_path: Path) -> None:
    """So that a stretch, which is copied at once, is at most a mebibyte."""
    store = PackedLeftBehind(DiskFiles(tmp_path), tails=5000)
    pushed = entries_of(12_000)
    for entry in pushed:
        store.push(OTHERS, entry)
    names = DiskFiles(tmp_path).list("")
    heads = -(-5000 // left_store.BLOCK) * 2
    assert sum(DiskFiles(tmp_path).size(name) for name in names) == heads * 32 + 10_000 * 16
    assert drain(store, OTHERS) == pushed


def test_files_that_are_used_up_go(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    store = PackedLeftBehind(files, tails=4, segment_bytes=500)
    for n in range(400):
        store.push(n % 3, Entry(n, 0))
    assert len(files.list("")) > 10
    pieces = list(store.freeze())
    named = store.files()
    assert named == files.list("")
    for n in range(400):
        store.push(n % 3, Entry(400 + n, 0))
    assert len(files.list("")) > len(named) + 10
    for queue in range(3):
        for _ in range(200):
            store.pop(queue)
    # A snapshot needs the files that it names; of the others only few hold what is left.
    assert set(named) <= set(files.list(""))
    list(store.freeze())
    assert not set(named) & set(store.files())
    for queue in range(3):
        drain(store, queue)
    list(store.freeze())
    assert store.files() == []
    assert len(set(files.list("")) - set(named)) < 15  # those of the second freeze, and the one being written
    again = PackedLeftBehind(files)
    again.thaw(pieces)
    assert sorted(again.entries()) == sorted((n % 3, Entry(n, 0)) for n in range(400))


def test_a_file_of_the_past_is_never_appended_to(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    store = PackedLeftBehind(files, tails=2)
    for n in range(9):
        store.push(1, Entry(n, 0))
    pieces = list(store.freeze())
    store.settle()
    for n in range(20):
        store.push(1, Entry(100 + n, 0))  # a future that is lost
    old = {name: files.read(name) for name in files.list("")}
    for start in (200, 300):
        again = PackedLeftBehind(files, tails=2)
        again.thaw(pieces)
        more = entries_of(40, start)
        for entry in more:
            again.push(1, entry)
        assert {name: files.read(name) for name in old} == old
        assert drain(again, 1) == [*(Entry(n, 0) for n in range(9)), *more]


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    files = Counting(DiskFiles(tmp_path))
    store = PackedLeftBehind(files, tails=3, segment_bytes=400)
    rng = random.Random(5)
    expected: dict[int, list[Entry]] = {0: [], 1: [], 2: []}
    failures = 0
    for n in range(2000):
        files.room = rng.choice([None, None, 7])
        queue = rng.randrange(3)
        try:
            if rng.random() < 0.6:
                store.push(queue, Entry(n, 1))
                expected[queue].append(Entry(n, 1))
            else:
                entry = store.pop(queue)
                assert entry == (expected[queue].pop(0) if expected[queue] else None)
        except StorageError:
            failures += 1
        assert len(store) == sum(map(len, expected.values()))
    assert failures > 50
    files.room = None
    pieces = list(store.freeze())
    again = PackedLeftBehind(files)
    again.thaw(pieces)
    for queue, rows in expected.items():
        assert drain(store, queue) == rows
        assert drain(again, queue) == rows


def test_settle_in_a_thread(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    store = PackedLeftBehind(files, tails=5, segment_bytes=2000)
    for n in range(500):
        store.push(n % 11, Entry(n, 0))
    pieces = list(store.freeze())
    thread = threading.Thread(target=store.settle)
    thread.start()
    for n in range(2000):
        store.push(n % 11, Entry(n, 1))
        store.pop(n % 5)
    thread.join()
    again = PackedLeftBehind(files)
    again.thaw(pieces)
    assert sorted(again.entries()) == sorted((n % 11, Entry(n, 0)) for n in range(500))


# -- the packed one: damage


def small(files: Files) -> tuple[PackedLeftBehind, list[bytes]]:
    store = PackedLeftBehind(files, tails=4, segment_bytes=1 << 20)
    for n in range(17):
        store.push(1 + n % 2, Entry(n, 0))
    return store, list(store.freeze())


def empty_out(store: LeftBehind) -> None:
    while (queue := store.next_queue()) is not None:
        store.pop(queue)


def test_every_damaged_byte_is_found_out(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    _, pieces = small(files)
    (name,) = files.list("")
    sound = files.read(name)
    for at in range(len(sound)):
        damaged = bytearray(sound)
        damaged[at] ^= 1 << at % 8
        (tmp_path / name).write_bytes(damaged)
        again = PackedLeftBehind(files)
        again.thaw(pieces)
        with pytest.raises(
            StorageError, match=f"{name} is damaged at byte [0-9]+: .* log is read anew"
        ) as error:
            empty_out(again)
        assert "\n" not in str(error.value)
        if at % 8 == 0:
            again = PackedLeftBehind(files)
            again.thaw(pieces)
            with pytest.raises(StorageError, match="is damaged"):
                list(again.entries())
    (tmp_path / name).write_bytes(sound)
    again = PackedLeftBehind(files)
    again.thaw(pieces)
    empty_out(again)
    assert len(again) == 0


def test_damage_in_a_run(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    store, _ = small(files)
    assert store.pop(1) == Entry(0, 0)
    pieces = list(store.freeze())
    (name,) = files.list("")
    data = bytearray(files.read(name))
    data[-1] ^= 1
    (tmp_path / name).write_bytes(data)
    again = PackedLeftBehind(files)
    again.thaw(pieces)
    for n in range(1, 7):
        assert again.pop(1) == Entry(2 * n, 0)
    for _ in range(2):
        with pytest.raises(StorageError, match="checksum"):
            again.pop(1)
    assert again.count(1) == 2  # what cannot be read is not lost by asking


def test_short_and_missing_files(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    store, pieces = small(files)
    (name,) = files.list("")
    size = files.size(name)
    files.truncate(name, size - 1)
    with pytest.raises(StorageError, match=f"{name} has {size - 1} bytes, but {size} are needed"):
        PackedLeftBehind(files).thaw(pieces)
    with pytest.raises(StorageError, match="are needed"):
        empty_out(store)
    files.remove(name)
    with pytest.raises(StorageError, match=f"{name} is missing, but {size} are needed"):
        PackedLeftBehind(files).thaw(pieces)


def thaw_anything(pieces: list[bytes]) -> None:
    """It may only be refused in words, at the thaw or when it is read."""
    files = FaultyFiles()
    small(files)
    store = PackedLeftBehind(files, tails=4)
    try:
        store.thaw(pieces)
        for _ in range(40):
            queue = store.next_queue()
            if queue is None:
                break
            store.pop(queue)
        list(store.entries())
    except StorageError as error:
        assert "\n" not in str(error)


@given(st.lists(st.binary(max_size=120), max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_pieces(pieces: list[bytes]) -> None:
    thaw_anything(pieces)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_nearly_sound_pieces(data: st.DataObject) -> None:
    _, pieces = small(FaultyFiles())
    number = data.draw(st.integers(0, len(pieces) - 1))
    piece = bytearray(pieces[number])
    at = data.draw(st.integers(0, len(piece) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "drop", "twice"])):
        case "flip":
            piece[at] ^= data.draw(st.integers(1, 255))
            pieces[number] = bytes(piece)
        case "cut":
            pieces[number] = bytes(piece[:at])
        case "drop":
            del pieces[number]
        case _:
            pieces.insert(number, pieces[number])
    thaw_anything(pieces)


def test_another_version(tmp_path: Path) -> None:
    _, pieces = small(DiskFiles(tmp_path))
    head = msgspec.msgpack.decode(pieces[0], type=Head)
    head.version = 9
    with pytest.raises(StorageError, match="version 9, not 1"):
        PackedLeftBehind(DiskFiles(tmp_path)).thaw([msgspec.msgpack.encode(head)])


# -- the packed one against the plain one

QUEUES = [OTHERS, 1, 2, 3, 1 << 40, BIG, BIG - 1, 77, 78, 79]


class Rounds:
    """A store, and what `next_queue` owes."""

    def __init__(self, store: LeftBehind, owed: set[int]) -> None:
        self.store = store
        self.owed = owed

    def alive(self) -> set[int]:
        return {queue for queue in QUEUES if queue != OTHERS and self.store.count(queue)}

    def next(self) -> int | None:
        if not self.owed:
            self.owed = self.alive()
        queue = self.store.next_queue()
        if queue is None:
            assert not self.owed
        else:
            assert queue in self.owed
            self.owed.remove(queue)
        return queue

    def pop(self, queue: int) -> Entry | None:
        entry = self.store.pop(queue)
        if not self.store.count(queue):
            self.owed.discard(queue)
        return entry


class Saved:
    """A sealed snapshot of both stores."""

    def __init__(self, packed: Rounds, plain: Rounds) -> None:
        self.pieces: list[bytes] = []
        self.frozen: Iterator[bytes] = packed.store.freeze()
        self.names = set(packed.store.files())
        self.plain = list(plain.store.freeze())
        self.owed = set(packed.owed), set(plain.owed)


class Machine(RuleBasedStateMachine):
    """The files crash; snapshots are kept, two of them, as `lycosa.crawl.saving` does."""

    def __init__(self) -> None:
        super().__init__()
        self.files = FaultyFiles()
        self.number = 0
        self.kept: list[Saved] = []
        self.begun: Saved | None = None

    @initialize(tails=st.sampled_from([1, 2, 7, 40]), segment_bytes=st.sampled_from([48, 300, 3000]))
    def begin(self, tails: int, segment_bytes: int) -> None:
        self.tails, self.segment_bytes = tails, segment_bytes
        self.thaw()

    def thaw(self) -> None:
        """A new process."""
        self.begun = None
        self.named = {name for saved in self.kept for name in saved.names}
        for name in self.files.list(""):
            if name not in self.named:
                self.files.remove(name)
        packed = PackedLeftBehind(self.files, tails=self.tails, segment_bytes=self.segment_bytes)
        plain = PlainLeftBehind()
        owed: tuple[set[int], set[int]] = set(), set()
        if self.kept:
            packed.thaw(self.kept[-1].pieces)
            plain.thaw(self.kept[-1].plain)
            owed = self.kept[-1].owed
        self.packed, self.plain = Rounds(packed, set(owed[0])), Rounds(plain, set(owed[1]))

    def survive(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Crash:
            self.files = self.files.restart(random.Random(self.number))
            self.thaw()

    @rule(queue=st.sampled_from(QUEUES), times=st.sampled_from([1, 3, 20, 150]))
    def push(self, queue: int, times: int) -> None:
        def act() -> None:
            for _ in range(times):
                self.number += 1
                entry = Entry(self.number, self.number % 9)
                self.packed.store.push(queue, entry)
                self.plain.store.push(queue, entry)

        self.survive(act)

    @rule(times=st.integers(1, 60))
    def push_around(self, times: int) -> None:
        def act() -> None:
            for _ in range(times):
                self.number += 1
                queue = QUEUES[self.number * 7 % len(QUEUES)]
                self.packed.store.push(queue, Entry(self.number, 0))
                self.plain.store.push(queue, Entry(self.number, 0))

        self.survive(act)

    @rule(queue=st.sampled_from(QUEUES), times=st.sampled_from([1, 2, 30, 400]))
    def pop(self, queue: int, times: int) -> None:
        def act() -> None:
            for _ in range(times):
                entry = self.packed.pop(queue)
                assert entry == self.plain.pop(queue)
                if entry is None:
                    break

        self.survive(act)

    @rule(times=st.integers(1, 25), take=st.booleans())
    def go_round(self, times: int, take: bool) -> None:
        def act() -> None:
            for _ in range(times):
                queue = self.packed.next()
                self.plain.next()
                if queue is not None and take:
                    assert self.packed.pop(queue) == self.plain.pop(queue)

        self.survive(act)

    @rule()
    def clear(self) -> None:
        def act() -> None:
            self.packed.store.clear()
            self.packed.owed.clear()
            self.plain.store.clear()
            self.plain.owed.clear()

        self.survive(act)

    @rule()
    def freeze(self) -> None:
        if self.begun is None:
            self.begun = Saved(self.packed, self.plain)
            self.named |= self.begun.names

    @rule(pieces=st.integers(0, 2))
    def take_pieces(self, pieces: int) -> None:
        if self.begun is not None:
            for _, piece in zip(range(pieces), self.begun.frozen, strict=False):
                self.begun.pieces.append(piece)

    @rule()
    def seal(self) -> None:
        self.survive(self.end_snapshot)

    @rule()
    def snapshot(self) -> None:
        self.freeze()
        self.survive(self.end_snapshot)

    def end_snapshot(self) -> None:
        saved = self.begun
        if saved is None:
            return
        saved.pieces += saved.frozen
        assert set(self.packed.store.files()) == saved.names
        self.packed.store.settle()
        self.kept.append(saved)
        self.begun = None
        needed = {name for kept in self.kept[-2:] for name in kept.names}
        for old in self.kept[:-2]:
            for name in old.names - needed:
                self.files.remove(name)
        del self.kept[:-2]

    @rule(seed=st.integers(0, 99), after=st.sampled_from([None, None, 2, 5, 30, 100]))
    def pull_the_plug(self, seed: int, after: int | None) -> None:
        """The next machine may crash by itself, after so many operations on files."""
        self.files = self.files.restart(random.Random(seed), after)
        self.survive(self.thaw)

    @rule()
    def stop(self) -> None:
        """A process ends and loses nothing of its files."""
        self.survive(self.thaw)

    @rule()
    def lose_the_newest(self) -> None:
        """The newest snapshot turns out to be damaged: the one before is used."""
        if len(self.kept) == 2:
            del self.kept[-1]
            self.survive(self.thaw)

    @invariant()
    def are_equal(self) -> None:
        if not hasattr(self, "packed"):
            return
        packed, plain = self.packed.store, self.plain.store
        assert len(packed) == len(plain)
        assert [packed.count(queue) for queue in QUEUES] == [plain.count(queue) for queue in QUEUES]
        if not self.files.crashed:
            assert by_queue(packed) == by_queue(plain)

    @invariant()
    def keeps_no_file_for_nothing(self) -> None:
        """What no snapshot ever named goes when it is used up, all but the file that is written to."""
        if hasattr(self, "packed") and not len(self.packed.store):
            assert len(set(self.files.list("")) - self.named) <= 1


def test_packed_equals_plain() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )


def test_everything_ends_empty(tmp_path: Path) -> None:
    """Many queues that come and go: the table grows and shrinks under them."""
    store = PackedLeftBehind(DiskFiles(tmp_path), tails=50, segment_bytes=5000)
    plain = PlainLeftBehind()
    rng = random.Random(11)
    for phase in range(6):
        for n in range(1200):
            queue = rng.randrange(1, 900) * 0x9E3779B97F4A7C15 & BIG
            if rng.random() < (0.75 if phase % 2 == 0 else 0.25):
                store.push(queue, Entry(phase, n))
                plain.push(queue, Entry(phase, n))
            elif rng.random() < 0.5:
                assert store.pop(queue) == plain.pop(queue)
            elif (named := store.next_queue()) is not None:
                assert store.pop(named) == plain.pop(named)
        assert by_queue(store) == by_queue(plain)
    while (named := store.next_queue()) is not None:
        assert store.pop(named) == plain.pop(named)
    assert len(plain) == 0
    assert len(DiskFiles(tmp_path).list("")) <= 1


def test_the_open_file_stays_though_nothing_in_it_is_wanted(tmp_path: Path) -> None:
    """A snapshot names it, the next two do not, and then more is appended to it."""
    store = PackedLeftBehind(DiskFiles(tmp_path), tails=1)
    named: list[list[str]] = []

    def snapshot() -> None:
        list(store.freeze())
        store.settle()
        named.append(store.files())
        store.keep({name for names in named[-2:] for name in names})

    for n in range(3):
        store.push(5, Entry(n, 0))
    snapshot()
    assert named[0]
    while store.pop(5) is not None:
        pass
    snapshot()
    snapshot()
    for n in range(10, 13):
        store.push(5, Entry(n, 0))
    assert [store.pop(5) for _ in range(3)] == [Entry(n, 0) for n in range(10, 13)]
