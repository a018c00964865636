from __future__ import annotations

import random
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from lycosa.errors import StorageError
from lycosa.files import Appender, DiskFiles
from lycosa.lab.faults import FaultyFiles
from lycosa.lifetimes import FileSet, Lifetimes, remove_unnamed

KEPT = 2


def test_a_file_goes_when_nobody_needs_it() -> None:
    files = Lifetimes()
    files.use("a")
    files.use("b")
    assert files.drop("a") == ["a"]  # no snapshot ever named it
    files.cut(["b"])
    assert files.drop("b") == []  # the freeze under way may become a snapshot
    files.cut([])
    assert files.drop("b") == []  # it failed, and may be on disk all the same
    assert files.keep([]) == ["b"]  # a later one was sealed


def test_a_file_in_use_stays_though_no_snapshot_names_it() -> None:
    """A store's open file can be empty of what is wanted: named once, then not, and then appended to again."""
    files = Lifetimes()
    files.use("open")
    files.cut(["open"])
    assert files.keep(["open"]) == []
    files.cut([])
    assert files.keep(["open"]) == []
    files.cut([])
    assert files.keep([]) == []
    assert files.drop("open") == ["open"]


def test_files_of_the_snapshot_before_go_with_it() -> None:
    """After recovery the fold uses what the newest snapshot names, and never heard of the rest."""
    files = Lifetimes()
    files.use("new")
    files.cut(["new"])
    assert files.keep(["new", "old"]) == []
    files.cut(["new"])
    assert files.keep(["new"]) == ["old"]


def test_stores_that_share_a_directory(tmp_path: Path) -> None:
    disk = DiskFiles(tmp_path)
    files = FileSet(disk)
    for name in ("table", "sorted"):
        disk.create(name).close()
        files.use(name)
    files.cut({"table": 0}, "memory")
    files.cut({"sorted": 0}, "disk")
    assert files.names() == ["sorted", "table"]
    files.drop("table")
    files.cut({}, "memory")
    assert files.names() == ["sorted"]
    assert files.keep(["sorted", "table"]) == []
    assert files.keep(["sorted"]) == ["table"]
    assert disk.list("") == ["sorted"]


class Crashes(RuleBasedStateMachine):
    """A fold of append-only files on a disk that loses what was not synced. Snapshots are values here."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = FaultyFiles()
        self.numbers = 0
        self.sizes: dict[str, int] = {}
        self.sealed: list[dict[str, int]] = []
        self.cut: dict[str, int] | None = None
        self.files = FileSet(self.disk)

    @rule()
    def begin(self) -> None:
        self.numbers += 1
        name = f"{self.numbers:04d}"
        self.disk.create(name).close()
        self.files.use(name)
        self.sizes[name] = 0

    @precondition(lambda self: self.sizes)
    @rule(data=st.data(), n=st.integers(1, 5000))
    def append(self, data: st.DataObject, n: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.sizes)))
        out = self.disk.append(name)
        assert out.size == self.sizes[name], "a file that is used is there, whole"
        out.write(bytes([n % 256]) * n)
        out.close()
        self.sizes[name] += n

    @precondition(lambda self: self.sizes)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.sizes)))
        del self.sizes[name]
        self.files.drop(name)

    @rule()
    def freeze(self) -> None:
        self.cut = {name: size for name, size in self.sizes.items() if size}
        self.files.cut(self.cut)

    @precondition(lambda self: self.cut is not None)
    @rule(told=st.booleans())
    def seal(self, told: bool) -> None:
        """`told`: False if the writer thought that it failed, when it was on disk already."""
        assert self.cut is not None
        self.files.settle()
        self.sealed.append(self.cut)
        if told:
            self.files.keep({name for cut in self.sealed[-KEPT:] for name in cut})
        self.cut = None

    @precondition(lambda self: self.sealed)
    @rule(seed=st.integers(0, 1000), power=st.booleans(), older=st.booleans())
    def crash(self, seed: int, power: bool, older: bool) -> None:
        if power:
            self.disk = self.disk.restart(random.Random(seed))
        kept = self.sealed[-KEPT:]
        if older and len(kept) > 1:
            kept = kept[:-1]  # the newest was damaged
        for cut in kept:
            for name, size in cut.items():
                assert self.disk.exists(name), f"{name} was named and is gone"
                assert self.disk.size(name) >= size, f"{name} was settled and is short"
        names = {name for cut in kept for name in cut}
        remove_unnamed(self.disk, names)
        assert set(self.disk.list("")) == names
        for name, size in kept[-1].items():
            self.disk.truncate(name, size)
        self.files = FileSet(self.disk)
        self.files.thawed(kept[-1])
        self.files.keep(names)
        self.sizes = dict(kept[-1])
        self.sealed, self.cut = kept, None

    @precondition(lambda self: self.cut is None)
    @rule()
    def nothing_is_left_over(self) -> None:
        self.freeze()
        self.seal(True)
        named = {name for cut in self.sealed[-KEPT:] for name in cut}
        assert set(self.disk.list("")) == named | set(self.sizes)


def test_crashes_on_a_disk_that_loses_writes() -> None:
    run_state_machine_as_test(
        Crashes,
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_settle_that_failed_is_done_again(tmp_path: Path) -> None:
    class Flaky(DiskFiles):
        asked: ClassVar[list[str]] = []

        def append(self, name: str) -> Appender:
            self.asked.append(name)
            if len(self.asked) == 1:
                raise StorageError("the disk is away")
            return super().append(name)

    disk = Flaky(tmp_path)
    disk.create("a").close()
    files = FileSet(disk)
    files.use("a")
    files.cut({"a": 1})
    with pytest.raises(StorageError):
        files.settle()
    files.settle()
    files.settle()
    assert disk.asked == ["a", "a"]
