"""Page tables: one contract for the packed one and the plain one, over snapshots, merges, crashes and damage."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.pages import packed, runs
from lycosa.pages.packed import PackedPages
from lycosa.pages.plain import PlainPages
from lycosa.pages.protocol import PageTable
from lycosa.pages.rows import ROW_BYTES, merged, pack, unpack
from lycosa.pages.runs import BLOCK, BLOCK_ROWS, Run, write
from lycosa.pages.summary import Summary, joined, of_fetch
from tests.pages.fetches import fetched, summaries

Make = Callable[[], PageTable]
SMALL = {"memory": 40 * ROW_BYTES, "recent": 10}


@pytest.fixture(params=["plain", "packed"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes tables: a dictionary, or rows of which 40 fit into RAM."""
    if request.param == "plain":
        return PlainPages
    return lambda: PackedPages(DiskFiles(tmp_path), **SMALL)


def copied(table: PageTable, make: Make) -> PageTable:
    """The table as the next process has it."""
    pieces = list(table.freeze())
    table.settle()
    other = make()
    other.thaw(pieces)
    return other


def seen_at(second: int, digest: int = 1) -> Summary:
    return of_fetch(fetched(second, digest=digest), second)


# -- the contract, both ways


def test_a_page_that_was_not_fetched_is_not_there(make: Make) -> None:
    table = make()
    assert table.find(0) is None and list(table.items()) == []
    table.note(5, seen_at(1))
    assert table.find(0) is None and table.find(4) is None and table.find(6) is None


def test_every_key_is_a_key(make: Make) -> None:
    table = make()
    keys = [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    for second, key in enumerate(keys, 1):
        table.note(key, seen_at(second))
    for _ in range(2):
        assert [table.find(key) for key in keys] == [seen_at(second) for second, _ in enumerate(keys, 1)]
        assert [key for key, _ in table.items()] == sorted(keys)
        table = copied(table, make)


@pytest.mark.parametrize("frozen", [0, 37])
def test_what_was_noted_is_joined_in_its_order(make: Make, frozen: int) -> None:
    again, twin, source = make(), PlainPages(), random.Random(3)
    for second in range(1, 900):
        key, digest = source.randrange(150) << 56, source.randrange(1, 3)
        again.note(key, seen_at(second, digest))
        twin.note(key, seen_at(second, digest))
        if frozen and second % frozen == 0:
            again = copied(again, make)
        if second % 90 == 0:
            assert list(again.items()) == list(twin.items())
    for key in range(150):
        assert again.find(key << 56) == twin.find(key << 56)


def test_a_freeze_is_one_instant(make: Make) -> None:
    table = make()
    for n in range(200):
        table.note(n % 60, seen_at(n + 1, n))
    before = list(table.items())
    pieces = table.freeze()
    first = next(pieces)
    for n in range(200):
        table.note(n % 90, seen_at(n + 500, n + 7))
    rest = list(pieces)
    table.settle()
    other = make()
    other.thaw([first, *rest])
    assert list(other.items()) == before
    assert len(list(table.items())) == 90


# -- files


def filled(table: PageTable, pages: int, rounds: int = 1) -> None:
    second = 0
    for _ in range(rounds):
        for n in range(pages):
            second += 1
            table.note(n * 0x9E3779B97F4A7C15 % (1 << 64), seen_at(second, second % 5))


def test_ram_is_bounded_and_files_are_few(tmp_path: Path) -> None:
    table = PackedPages(DiskFiles(tmp_path), memory=400 * ROW_BYTES, recent=50)
    most = 0
    for _ in range(40):
        filled(table, 1_000)
        most = max(most, table.nbytes - sum(run.nbytes for run in table.runs))
        list(table.freeze())
        table.settle()
        table.keep([])
        assert len(table.runs) <= 3, "1,000 pages, of which some 400 are in RAM"
    assert most <= 500 * 50 + 450 * ROW_BYTES
    assert sum(run.rows for run in table.runs) <= 2_000, (
        "a page that is fetched again takes no more room for long"
    )
    list(table.freeze())
    table.keep([])
    assert {path.name for path in tmp_path.iterdir()} == {run.name for run in table.runs}


def test_a_lookup_reads_one_block_of_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DiskFiles(tmp_path)
    table = PackedPages(files, memory=3_000 * ROW_BYTES, recent=1_000)
    filled(table, 20_000)
    table.find(1)  # the indexes are read now
    reads: list[int] = []
    plain = files.read_at

    def read_at(name: str, offset: int, length: int) -> bytes:
        reads.append(length)
        return plain(name, offset, length)

    monkeypatch.setattr(files, "read_at", read_at)
    key = 777 * 0x9E3779B97F4A7C15 % (1 << 64)
    assert table.find(key) == seen_at(778, 778 % 5)
    assert len(reads) == len(table.runs) > 3 and max(reads) == BLOCK


def test_noting_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DiskFiles(tmp_path)
    monkeypatch.setattr(files, "read_at", None)
    filled(PackedPages(files, **SMALL), 200, rounds=5)


def test_many_files_of_one_size_are_merged_like_a_tournament(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = PackedPages(DiskFiles(tmp_path), memory=63 * ROW_BYTES, recent=64)
    filled(table, 64 * 64)
    assert len(table.runs) == 64
    written: list[int] = []
    plain = packed.write

    def counted(*args: object) -> Run:
        run = plain(*args)  # type: ignore[arg-type]
        written.append(run.rows)
        return run

    monkeypatch.setattr(packed, "write", counted)
    list(table.freeze())
    table.settle()
    assert len(table.runs) == 1 and sum(written) == 6 * 64 * 64, "log2(64) passes"


def test_what_is_noted_while_files_are_merged_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = PackedPages(DiskFiles(tmp_path), memory=30 * ROW_BYTES, recent=10)
    filled(table, 300)
    twin = PlainPages()
    filled(twin, 300)
    entered, go_on = threading.Event(), threading.Event()
    plain = packed.write

    def slow(*args: object) -> Run:
        if threading.current_thread() is not threading.main_thread():
            entered.set()
            go_on.wait(240)
        return plain(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(packed, "write", slow)
    list(table.freeze())
    thread = threading.Thread(target=table.settle)
    thread.start()
    assert entered.wait(240)
    for n in range(300):
        table.note(n, seen_at(n + 1))
        twin.note(n, seen_at(n + 1))
    table.settle()  # a second one finds the first at work, and leaves the merging to it
    go_on.set()
    thread.join(170)
    assert list(table.items()) == list(twin.items())


@pytest.mark.parametrize("rows", [0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 5 * BLOCK_ROWS])
def test_files_of_every_length(tmp_path: Path, rows: int) -> None:
    files = DiskFiles(tmp_path)
    items = [(3 * n + 1, seen_at(n + 1)) for n in range(rows)]
    packed_rows = pack(items)
    run = write(files, "f", [packed_rows[: rows // 3], packed_rows[rows // 3 :]])
    assert run.rows == rows and run.size == files.size("f")
    again = Run(files, "f", rows)
    assert [unpack(row) for part in again.read() for row in part] == items
    for key, summary in items:
        assert again.find(key) == summary
        assert again.find(key - 1) is None and again.find(key + 1) is None


def test_parts_of_two_runs_are_merged_wherever_they_are_cut() -> None:
    source = random.Random(1)
    for _ in range(60):
        older, newer = (
            [(key, seen_at(source.randrange(1, 99), source.randrange(3))) for key in sorted(keys)]
            for keys in (source.sample(range(30), source.randrange(12)) for _ in range(2))
        )
        expected = dict(older)
        for key, summary in newer:
            expected[key] = joined(expected[key], summary) if key in expected else summary
        size = source.randrange(1, 5)

        def parts(items: list[tuple[int, Summary]], size: int = size) -> list[object]:
            return [pack(items[at : at + size]) for at in range(0, len(items), size)]

        found = [unpack(row) for part in merged(parts(older), parts(newer)) for row in part]  # type: ignore[arg-type]
        assert found == sorted(expected.items())


@pytest.mark.parametrize("where", ["first", "middle", "index", "end", "cut"])
def test_damage_is_told(tmp_path: Path, where: str) -> None:
    files = DiskFiles(tmp_path)
    table = PackedPages(files, memory=100 * ROW_BYTES, recent=300)
    filled(table, 300)
    (run,) = table.runs
    pieces = list(table.freeze())
    path = tmp_path / run.name
    data = bytearray(path.read_bytes())
    at = {"first": 6, "middle": BLOCK + 77, "index": len(data) - 20, "end": len(data) - 1, "cut": 0}[where]
    data[at] ^= 1
    path.write_bytes(data[:-1] if where == "cut" else data)
    other = PackedPages(files, memory=100 * ROW_BYTES, recent=300)
    with pytest.raises(StorageError, match=run.name):
        other.thaw(pieces)
        list(other.items())
        other.find(1)


def test_other_versions_and_broken_heads_are_refused(tmp_path: Path) -> None:
    table = PackedPages(DiskFiles(tmp_path))
    with pytest.raises(StorageError, match="version 9"):
        table.thaw([b"\x92\x09\x90"])
    with pytest.raises(StorageError, match="not readable"):
        table.thaw([b"\xc1"])


def test_a_name_is_never_used_twice(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    table = PackedPages(files, **SMALL)
    filled(table, 100)
    pieces = list(table.freeze())
    table.settle()
    names = set(files.list(""))
    other = PackedPages(files, **SMALL)
    other.thaw(pieces)
    filled(other, 200)
    assert names < set(files.list("")) and other.runs[-1].name > max(names)


# -- against the oracle, with crashes


class Machine(RuleBasedStateMachine):
    """A table on a disk that loses what was not synced, beside a dictionary; snapshots as the saver takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.files = FaultyFiles()
        self.random = random.Random(5)
        self.twin = PlainPages()
        self.saved: list[tuple[list[bytes], list[str], list[bytes]]] = []
        self.open()

    def open(self) -> None:
        self.table = PackedPages(self.files, memory=6 * ROW_BYTES, recent=3)

    @rule(key=st.integers(0, 12), summary=summaries)
    def note(self, key: int, summary: Summary) -> None:
        self.table.note(key, summary)
        self.twin.note(key, summary)

    @rule()
    def snapshot(self) -> None:
        pieces = list(self.table.freeze())
        names = self.table.files()
        self.table.settle()
        self.saved = [*self.saved[-1:], (pieces, names, list(self.twin.freeze()))]
        named = {name for _, names, _ in self.saved for name in names}
        self.table.keep(named)

    @rule()
    def crash(self) -> None:
        self.files = self.files.restart(self.random)
        self.twin = PlainPages()
        named = {name for _, names, _ in self.saved for name in names}
        for name in self.files.list(""):
            if name not in named:
                self.files.remove(name)
        self.open()
        if self.saved:
            pieces, _, twin = self.saved[-1]
            self.table.thaw(pieces)
            self.twin.thaw(twin)

    @invariant()
    def same(self) -> None:
        for key in range(13):
            assert self.table.find(key) == self.twin.find(key)

    def teardown(self) -> None:
        assert list(self.table.items()) == list(self.twin.items())


def test_against_a_dictionary() -> None:
    run_state_machine_as_test(
        Machine, settings=settings(max_examples=20, stateful_step_count=40, deadline=None)
    )


def test_a_crash_at_any_step_leaves_the_last_snapshot() -> None:
    def work(files: FaultyFiles) -> list[tuple[list[bytes], list[tuple[int, Summary]]]]:
        saved: list[tuple[list[bytes], list[tuple[int, Summary]]]] = []
        table = PackedPages(files, memory=20 * ROW_BYTES, recent=8)
        try:
            for turn in range(4):
                filled(table, 30 + turn)
                pieces = list(table.freeze())
                rows = list(table.items())
                table.settle()
                saved.append((pieces, rows))
        except Crash:
            pass
        return saved

    files = FaultyFiles()
    work(files)
    for step in range(1, files.steps + 1):
        crashing = FaultyFiles(step)
        saved = work(crashing)
        if saved:
            pieces, rows = saved[-1]
            table = PackedPages(crashing.restart(random.Random(step)), memory=20 * ROW_BYTES, recent=8)
            table.thaw(pieces)
            assert list(table.items()) == rows


def test_the_format_is_as_it_is_written_down() -> None:
    text = (Path(__file__).parents[2] / "docs/formats/pages.md").read_text(encoding="utf-8")
    assert f"{ROW_BYTES} bytes" in text and f"{BLOCK_ROWS} rows" in text
    assert runs.MAGIC[:6].decode() in text
