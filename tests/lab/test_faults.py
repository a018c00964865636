"""The faulty disk does what its documentation says, no less and no more."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.files import write_whole
from lycosa.lab.faults import Crash, FaultyFiles

SEEDS = range(60)


def after(files: FaultyFiles, seed: int = 0) -> FaultyFiles:
    return files.restart(Random(seed))


def outcomes(make: Callable[[], FaultyFiles], name: str) -> set[bytes | None]:
    """What a file may hold after the plug was pulled, over many draws; None: it is not there."""
    found: set[bytes | None] = set()
    for seed in SEEDS:
        files = after(make(), seed)
        found.add(files.read(name) if files.exists(name) else None)
    return found


def test_what_was_synced_is_there() -> None:
    def make() -> FaultyFiles:
        files = FaultyFiles()
        out = files.create("d/x")
        out.write(b"durable")
        out.sync()
        files.sync_dir("d")
        return files

    assert outcomes(make, "d/x") == {b"durable"}


def test_bytes_without_their_name_may_be_lost_and_a_name_without_bytes_may_be_empty() -> None:
    def named() -> FaultyFiles:
        files = FaultyFiles()
        files.create("d/x").write(b"never flushed")
        files.sync_dir("d")
        return files

    def written() -> FaultyFiles:
        files = FaultyFiles()
        out = files.create("d/x")
        out.write(b"durable")
        out.sync()
        return files

    assert outcomes(named, "d/x") == {b""}, "what was never flushed is nowhere"
    assert outcomes(written, "d/x") == {None, b"durable"}, "the name was not synced"


def test_unsynced_writes_are_dropped_kept_reordered_or_cut() -> None:
    def make() -> FaultyFiles:
        files = FaultyFiles()
        out = files.create("x")
        out.write(b"AAAA")
        out.sync()
        files.sync_dir("")
        for part in (b"BBBB", b"CCCC"):
            out.write(part)
            out.flush()
        return files

    found = outcomes(make, "x")
    assert None not in found
    assert all(data is not None and data.startswith(b"AAAA") for data in found), "the synced part stays"
    assert b"AAAA" in found, "all dropped"
    assert b"AAAABBBBCCCC" in found, "all kept"
    assert b"AAAA\0\0\0\0CCCC" in found, "the later without the earlier: the gap reads as zeros"
    assert any(data is not None and data.endswith(b"C") and not data.endswith(b"CCCC") for data in found), (
        "cut"
    )


def test_names_change_in_order() -> None:
    """Of the changes in a directory a prefix has happened: never the second without the first."""

    def make() -> FaultyFiles:
        files = FaultyFiles()
        files.create("d/first")
        files.create("d/second")
        files.create("e/other")
        return files

    seen = set()
    for seed in SEEDS:
        files = after(make(), seed)
        seen.add((tuple(files.list("d")), tuple(files.list("e"))))
    assert {names for names, _ in seen} == {(), ("first",), ("first", "second")}
    assert {names for _, names in seen} == {(), ("other",)}
    assert ((), ("other",)) in seen and (("first", "second"), ()) in seen, "directories by themselves"


def test_a_rename_happens_or_does_not() -> None:
    """The target is never gone; `write_whole` counts on it."""

    def make() -> FaultyFiles:
        files = FaultyFiles()
        write_whole(files, "d/x", b"old")
        out = files.create("d/x.part")
        out.write(b"new")
        out.sync()
        files.rename("d/x.part", "d/x")
        return files

    assert outcomes(make, "d/x") == {b"old", b"new"}


@pytest.mark.parametrize("target", ["d/new", "e/new"], ids=["in a directory", "between two"])
def test_a_renamed_file_has_one_name(target: str) -> None:
    """Never both names, never neither."""

    def names(seed: int) -> tuple[bool, bool]:
        files = FaultyFiles()
        write_whole(files, "d/old", b"data")
        files.rename("d/old", target)
        files = after(files, seed)
        return files.exists("d/old"), files.exists(target)

    assert {names(seed) for seed in SEEDS} == {(True, False), (False, True)}


def test_removal_may_be_undone_until_its_directory_is_synced() -> None:
    def make(synced: bool) -> FaultyFiles:
        files = FaultyFiles()
        write_whole(files, "d/x", b"data")
        files.remove("d/x")
        if synced:
            files.sync_dir("d")
        return files

    assert outcomes(lambda: make(False), "d/x") == {None, b"data"}
    assert outcomes(lambda: make(True), "d/x") == {None}


def test_a_truncation_is_durable() -> None:
    def make() -> FaultyFiles:
        files = FaultyFiles()
        write_whole(files, "x", b"0123456789")
        files.truncate("x", 3)
        return files

    assert outcomes(make, "x") == {b"012"}


def work(files: FaultyFiles) -> None:
    """One of each operation that can stop."""
    out = files.create("d/a")
    out.write(b"0123456789")
    out.flush()
    out.sync()
    out.close()
    files.rename("d/a", "d/b")
    files.truncate("d/b", 4)
    files.sync_dir("d")
    files.append("d/c").close()
    files.remove("d/b")


STEPS = ["create", "write", "flush", "sync", "rename", "truncate", "sync_dir", "create", "remove"]


def test_every_operation_is_a_step() -> None:
    files = FaultyFiles()
    work(files)
    assert [row.split()[0] for row in files.history] == STEPS
    assert files.steps == len(STEPS)
    assert not files.crashed


@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
def test_the_machine_stops_at_the_step_and_stays_off(number: int) -> None:
    files = FaultyFiles(crash_at=number)
    with pytest.raises(Crash):
        work(files)
    assert files.crashed and files.steps == number
    for call in (
        lambda: files.create("y"),
        lambda: files.read("d/a"),
        lambda: files.sync_dir(""),
        lambda: files.within("d").create("z"),
    ):
        with pytest.raises(Crash):
            call()
    again = after(files)
    assert not again.crashed and again.steps == 0
    again.create("y").close()


def test_a_flush_that_stops_may_have_written_half() -> None:
    def make() -> FaultyFiles:
        files = FaultyFiles(crash_at=4)
        out = files.create("x")
        files.sync_dir("")
        out.write(b"0123456789")
        with pytest.raises(Crash):
            out.flush()
        return files

    found = outcomes(make, "x")
    assert found >= {b"", b"01234"}
    assert all(data is not None and b"01234".startswith(data) for data in found)


def test_restart_pulls_the_plug_of_the_old_files() -> None:
    files = FaultyFiles()
    out = files.create("x")
    again = after(files)
    with pytest.raises(Crash):
        out.write(b"late")
    assert files.crashed and not again.crashed
    out.close()  # a handle of a machine that is off closes without a word


def test_restart_may_be_told_when_to_crash_next() -> None:
    files = FaultyFiles().restart(Random(0), crash_at=2)
    files.create("x")
    with pytest.raises(Crash):
        files.create("y")


def test_the_same_seed_gives_the_same_disk() -> None:
    def make() -> FaultyFiles:
        files = FaultyFiles()
        for name in "abcdef":
            out = files.create(name)
            for part in range(4):
                out.write(bytes([part]) * 5)
                out.flush()
        return files

    def state(seed: int) -> dict[str, bytes]:
        files = after(make(), seed)
        return {name: files.read(name) for name in files.list("")}

    assert state(5) == state(5)
    assert len({str(state(seed)) for seed in range(8)}) > 1


@given(st.lists(st.sampled_from(["write", "flush", "sync"]), max_size=12), st.integers(0, 1 << 30))
def test_never_less_than_was_promised(operations: list[str], seed: int) -> None:
    """After any operations the synced prefix is whole, and nothing comes that was not written."""
    files = FaultyFiles()
    out = files.create("x")
    files.sync_dir("")
    written, synced = b"", b""
    for number, operation in enumerate(operations):
        if operation == "write":
            data = bytes([number + 1]) * 3
            out.write(data)
            written += data
        elif operation == "flush":
            out.flush()
        else:
            out.sync()
            synced = written
        assert out.size == len(written)
    found = after(files, seed).read("x")
    assert found.startswith(synced)
    assert len(found) <= len(written)
    assert all(byte in (0, written[at]) for at, byte in enumerate(found))
