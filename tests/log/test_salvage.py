"""What is whole in a log that lost part of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.log.log import Log
from lycosa.log.reader import Gap, LogReader, segment_name, segments, write_gap
from lycosa.log.salvage import layout
from lycosa.records import Configured


def written(path: Path, count: int = 20) -> DiskFiles:
    """A log of small segments, several blocks in each."""
    files = DiskFiles(path)
    log = Log(files, segment_bytes=200)
    for number in range(count):
        log.append(Configured(number, b"x" * 10))
        log.commit()
    log.close()
    assert len(segments(files)) > 3
    return files


def times(files: DiskFiles, start: int = 0) -> list[int]:
    return [record.at for _, record in LogReader(files).scan(start)]


def test_a_whole_log_has_no_gaps(tmp_path: Path) -> None:
    laid = layout(written(tmp_path))
    assert laid.gaps == [] and laid.end == 20
    assert all(segment.sound for segment in laid.segments)


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_missing_segment_is_a_gap_or_the_end(tmp_path: Path, which: int) -> None:
    files = written(tmp_path)
    firsts = [*segments(files), 20]
    at = range(len(firsts) - 1)[which]
    files.remove(segment_name(firsts[at]))
    laid = layout(files)
    if at == len(firsts) - 2:
        assert laid.gaps == [] and laid.end == firsts[at]
    else:
        assert laid.gaps == [(firsts[at], firsts[at + 1])] and laid.end == 20
    assert all(segment.sound for segment in laid.segments)


def test_blocks_behind_damage_are_found(tmp_path: Path) -> None:
    files = written(tmp_path)
    path = tmp_path / segment_name(0)
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    laid = layout(files)
    assert laid.gaps == [(0, 1)] or laid.gaps == [(1, 2)]
    assert not laid.segments[0].sound and laid.end == 20


def test_a_log_goes_on_behind_a_gap_at_its_end(tmp_path: Path) -> None:
    files = written(tmp_path)
    files.remove(segment_name(segments(files)[-1]))
    end = layout(files).end
    write_gap(files, Gap(end, 30, 30))
    log = Log(files, segment_bytes=200)
    assert log.end == 30 == LogReader(files).end()
    assert log.append(Configured(99, b"")) == 30
    log.commit()
    assert times(files) == [*range(end), 99]
    assert times(files, end) == times(files, 25) == [99]
    assert log.reader.read(30).at == 99
    with pytest.raises(StorageError, match="no record at position"):
        log.reader.read(end)
    log.close()
    assert Log(files).end == 31


def test_a_log_that_is_nothing_but_a_gap(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    write_gap(files, Gap(0, 7, 7))
    log = Log(files)
    assert log.append(Configured(1, b"")) == 7
    log.commit()
    assert times(files) == [1]


def test_a_gap_in_the_middle_is_passed_over(tmp_path: Path) -> None:
    files = written(tmp_path)
    firsts = segments(files)
    files.remove(segment_name(firsts[1]))
    with pytest.raises(StorageError, match="lycosa repair"):
        times(files)
    write_gap(files, Gap(firsts[1], firsts[2], 20))
    kept = [at for at in range(20) if not firsts[1] <= at < firsts[2]]
    assert times(files) == kept
    log = Log(files)
    assert log.end == 20
    assert not log.is_doubtful(firsts[1] - 1) and log.is_doubtful(firsts[2]) and not log.is_doubtful(20)


def test_a_log_without_its_first_segment_is_refused(tmp_path: Path) -> None:
    files = written(tmp_path)
    files.remove(segment_name(0))
    with pytest.raises(StorageError, match="missing or cut short"):
        times(files)
