"""A pass over a log: every record once, in order, in slices of a bounded size, whatever is appended meanwhile."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.log.log import Log
from lycosa.log.log_pass import LogPass
from lycosa.log.reader import Gap, segment_name, segments, write_gap
from lycosa.records import decode
from tests.log.test_log import record


def made(path: Path, count: int, commits: int = 7) -> Log:
    log = Log(DiskFiles(path), segment_bytes=800)
    for n in range(count):
        log.append(record(n, n % 50))
        if n % commits == 0:
            log.commit()
    log.commit()
    return log


def taken(reading: LogPass, stop: int, **bounds: int) -> list[int]:
    rows = reading.take(stop, **bounds)
    assert [position for position, _ in rows] == [decode(row).at for _, row in rows]
    return [position for position, _ in rows]


@pytest.mark.parametrize("seed", range(4))
def test_slices_join_to_the_whole_from_any_start(tmp_path: Path, seed: int) -> None:
    log = made(tmp_path, 300)
    assert len(segments(DiskFiles(tmp_path))) > 3
    random = Random(seed)
    start = random.randrange(300)
    reading, found = LogPass(DiskFiles(tmp_path), start), list[int]()
    while rows := taken(reading, 300, records=random.randint(1, 40)):
        found += rows
        assert reading.position == found[-1] + 1
    assert found == list(range(start, 300))
    log.close()


def test_a_slice_is_bounded_by_records_and_by_bytes(tmp_path: Path) -> None:
    made(tmp_path, 100).close()
    reading = LogPass(DiskFiles(tmp_path))
    assert taken(reading, 100, records=10) == list(range(10))
    assert taken(reading, 100, nbytes=1) == [10], "at least one"
    assert taken(reading, 12) == [11]
    assert taken(reading, 12) == [] and reading.position == 12


def test_what_is_committed_later_is_read_from_there(tmp_path: Path) -> None:
    log = made(tmp_path, 3)
    reading = LogPass(DiskFiles(tmp_path))
    found = []
    for n in range(3, 200):
        found += taken(reading, log.committed, records=2)
        log.append(record(n, n % 50))
        log.commit()
    while rows := taken(reading, log.committed):
        found += rows
    assert found == list(range(200))
    log.close()


def test_a_gap_is_passed_over_and_a_missing_record_is_not(tmp_path: Path) -> None:
    made(tmp_path, 200).close()
    files = DiskFiles(tmp_path)
    firsts = segments(files)
    files.remove(segment_name(firsts[2]))
    with pytest.raises(StorageError, match=f"no record at position {firsts[2]}"):
        taken(LogPass(files), 200, records=1000)
    write_gap(files, Gap(firsts[2], firsts[3], 200))
    whole = [*range(firsts[2]), *range(firsts[3], 200)]
    assert taken(LogPass(files), 200, records=1000) == whole
    assert taken(LogPass(files, firsts[2] + 1), 200, records=1) == [firsts[3]]
    reading = LogPass(files)
    assert taken(reading, firsts[2] + 1, records=1000) == list(range(firsts[2])), "it may end in a gap"
    assert taken(reading, 200, records=1000) == list(range(firsts[3], 200)), "and go on from there"


def test_a_log_that_ends_before_what_was_committed_is_refused(tmp_path: Path) -> None:
    made(tmp_path, 20).close()
    with pytest.raises(StorageError, match="no record at position 20"):
        taken(LogPass(DiskFiles(tmp_path)), 21)
