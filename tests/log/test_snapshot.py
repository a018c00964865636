"""Snapshots: whole or not there; the two newest are kept; a damaged one is passed over."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.errors import DiskFullError
from lycosa.files import Appender, DiskFiles, Files
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.log import snapshot
from lycosa.log.snapshot import SnapshotWriter


def take(files: Files, position: int) -> None:
    writer = SnapshotWriter(files, position)
    writer.add("seen", b"a" * position)
    writer.add("seen", b"b")
    writer.add("frontier", b"c")
    writer.seal({"files": ["x"], "clean": False})


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    assert snapshot.newest(files) is None
    take(files, 7)
    found = snapshot.newest(files)
    assert found is not None
    assert found.position == 7
    assert found.pieces == {"seen": [b"a" * 7, b"b"], "frontier": [b"c"]}
    assert found.about["files"] == ["x"]


def test_two_are_kept_and_a_damaged_one_is_passed_over(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    for position in (1, 20, 300):
        take(files, position)
    assert snapshot.positions(files) == [20, 300]
    path = tmp_path / "00000000000000000300.snap"
    whole = path.read_bytes()
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 0x55
        path.write_bytes(data)
        found = snapshot.newest(files)
        assert found is not None and found.position == 20, f"byte {at} changed unseen"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        found = snapshot.newest(files)
        assert found is not None and found.position == 20


def test_an_abandoned_one_leaves_nothing(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    writer = SnapshotWriter(files, 3)
    writer.add("seen", b"x")
    writer.abandon()
    assert files.list("") == []


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32))
def test_a_sealed_snapshot_survives_a_crash_at_every_operation(crash_at: int, seed: int) -> None:
    files = FaultyFiles(crash_at)
    sealed = 0
    try:
        for position in (1, 2, 3):
            take(files, position)
            sealed = position
    except Crash:
        pass
    found = snapshot.newest(files.restart(Random(seed)))
    assert (found.position if found else 0) in (sealed, sealed + 1)
    if found:
        assert found.pieces["seen"] == [b"a" * found.position, b"b"]


class RefusingFiles(DiskFiles):
    """A disk that is full when a file is closed."""

    def create(self, name: str) -> Appender:
        out = super().create(name)
        close = out.close

        def refused() -> None:
            close()
            raise DiskFullError("no room")

        out.close = refused  # type: ignore[method-assign]
        return out


def test_a_draft_that_a_full_disk_cuts_short_goes(tmp_path: Path) -> None:
    SnapshotWriter(RefusingFiles(tmp_path), 7).abandon()
    assert not list(tmp_path.iterdir())
