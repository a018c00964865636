"""The log: what is confirmed survives anything; what is torn is cut; damage is named."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.errors import StorageError
from lycosa.files import DiskFiles, Files
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.log import blocks
from lycosa.log.log import Log
from lycosa.log.reader import LogReader
from lycosa.records import Skipped, Why


def record(n: int, size: int = 0) -> Skipped:
    return Skipped(n, f"http://a.test/{n}", 0, Why.ROBOTS, "x" * size)


def numbers(log: LogReader, start: int = 0, stop: int | None = None) -> list[int]:
    rows = list(log.scan(start, stop))
    assert [position for position, _ in rows] == list(range(start, start + len(rows)))
    return [row.at for _, row in rows]


def test_positions_are_ordinals_and_reading_gives_back_what_was_appended(tmp_path: Path) -> None:
    log = Log(DiskFiles(tmp_path), segment_bytes=2000)
    for n in range(500):
        assert log.append(record(n, n % 50)) == n
        if n % 7 == 0:
            log.commit()
    log.commit()
    assert log.committed == log.end == 500
    assert len(list(tmp_path.glob("*.seg"))) > 3, "it rotated"
    assert numbers(log.reader) == list(range(500))
    assert numbers(log.reader, 123, 321) == list(range(123, 321))
    for n in (0, 1, 6, 7, 8, 250, 499):
        assert log.reader.read(n) == record(n, n % 50)
    with pytest.raises(StorageError, match="no record at position 500"):
        log.reader.read(500)


def test_reopening_goes_on_where_it_was(tmp_path: Path) -> None:
    for n in range(20):
        log = Log(DiskFiles(tmp_path), segment_bytes=300)
        assert log.end == n
        log.append(record(n))
        log.commit()
        log.close()
    assert numbers(LogReader(DiskFiles(tmp_path))) == list(range(20))


def test_what_is_not_committed_is_not_read(tmp_path: Path) -> None:
    log = Log(DiskFiles(tmp_path))
    log.append(record(0))
    log.commit()
    log.append(record(1))
    assert numbers(log.reader) == [0]
    batch = log.cut()
    assert batch is not None and log.cut is not None
    log.append(record(2))
    assert [log.read(n).at for n in range(3)] == [0, 1, 2], "the writer itself reads all of it"
    log.write(batch)
    log.confirm(batch)
    assert log.committed == 2 and log.end == 3
    assert numbers(log.reader) == [0, 1]


def test_a_tail_torn_at_any_byte_is_cut_at_a_block(tmp_path: Path) -> None:
    log = Log(DiskFiles(tmp_path))
    for n in range(3):
        log.append(record(n))
        log.commit()
    log.close()
    whole = (tmp_path / "00000000000000000000.seg").read_bytes()
    ends = [16]
    while ends[-1] < len(whole):
        head = blocks.head_of(whole, ends[-1])
        assert head is not None
        ends.append(ends[-1] + head.size)
    for size in range(16, len(whole) + 1):
        place = tmp_path / "cut"
        DiskFiles(place).create("00000000000000000000.seg").close()
        (place / "00000000000000000000.seg").write_bytes(whole[:size])
        cut = Log(DiskFiles(place))
        kept = sum(end <= size for end in ends) - 1
        assert cut.end == kept
        assert numbers(cut.reader) == list(range(kept))
        assert cut.torn == size - ends[kept]
        cut.append(record(kept))
        cut.commit()
        cut.close()
        assert numbers(LogReader(DiskFiles(place))) == list(range(kept + 1))


def test_damage_before_later_commits_is_named_and_nothing_is_cut(tmp_path: Path) -> None:
    log = Log(DiskFiles(tmp_path))
    for n in range(5):
        log.append(record(n))
        log.commit()
    log.close()
    path = tmp_path / "00000000000000000000.seg"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageError, match="damaged at byte 16"):
        Log(DiskFiles(tmp_path))
    assert path.read_bytes() == data
    with pytest.raises(StorageError, match="damaged at byte 16"):
        numbers(LogReader(DiskFiles(tmp_path)))


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    log = Log(DiskFiles(tmp_path), segment_bytes=100)
    for n in range(6):
        log.append(record(n))
        log.commit()
    names = sorted(path.name for path in tmp_path.glob("*.seg"))
    (tmp_path / names[1]).unlink()
    with pytest.raises(StorageError, match="missing or cut short"):
        numbers(log.reader)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_arbitrary_bytes_are_never_taken_for_records(data: bytes, seed: int) -> None:
    files = FaultyFiles()
    log = Log(files)
    log.append(record(0))
    log.commit()
    out = files.append("00000000000000000000.seg")
    out.write(data)
    out.sync()
    assert numbers(Log(files).reader) == [0]


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 60), st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(0, 2**32))
def test_confirmed_records_survive_a_crash_at_every_operation(
    crash_at: int, batches: list[int], seed: int
) -> None:
    """Unsynced writes may vanish, be reordered or be cut; the log comes back as a prefix."""
    random = Random(seed)
    files: FaultyFiles = FaultyFiles(crash_at)
    confirmed = appended = 0
    for _ in range(4):
        try:
            log = Log(_within(files), segment_bytes=150)
            assert confirmed <= log.end <= appended
            assert numbers(log.reader) == list(range(log.end))
            confirmed = appended = log.end
            for count in batches:
                for _ in range(count):
                    log.append(record(appended, random.randint(0, 90)))
                    appended += 1
                log.commit()
                confirmed = appended
        except Crash:
            pass
        files = files.restart(random, crash_at=random.randint(1, 60))
    last = files.restart(random)
    log = Log(_within(last))
    assert confirmed <= log.end <= appended
    assert numbers(log.reader) == list(range(log.end))


def _within(files: FaultyFiles) -> Files:
    return files.within("shards/00/log")


def test_finding_records_by_what_they_hold(tmp_path: Path) -> None:
    log = Log(DiskFiles(tmp_path), segment_bytes=2000)
    for n in range(300):
        log.append(record(n))
        if n % 20 == 0:
            log.commit()
    log.commit()
    found = list(log.reader.find(b"http://a.test/12"))
    assert [position for position, _ in found] == [12, *range(120, 130)]
    assert list(log.reader.find(b"nowhere")) == []


def test_what_a_thread_fetched_is_read_from_memory(tmp_path: Path) -> None:
    log = Log(DiskFiles(tmp_path), segment_bytes=2000)
    for n in range(300):
        log.append(record(n))
        if n % 10 == 9 and n < 290:
            log.commit()
    assert log.holds(295) and not log.holds(5), "what is not committed is in memory, and nothing else"
    log.keep(log.fetch(5))
    assert log.holds(5) and log.holds(0) and not log.holds(15)
    log._reader.block_of = None  # type: ignore[assignment, method-assign]
    assert log.read(5) == record(5)
    for n in (15, 25, 35):
        log.keep(log.fetch(n))
    assert not log.holds(5), "a few blocks, not all"
