"""Records and blocks for tests, made by the log itself."""

from __future__ import annotations

import os
from pathlib import Path

from lycosa.files import DiskFiles
from lycosa.log import blocks
from lycosa.log.log import Log
from lycosa.log.reader import SEGMENT_HEAD, segment_name, segments
from lycosa.records import Skipped, Why, encode


def record(number: int, size: int = 20) -> Skipped:
    return Skipped(number, f"http://h{number}.example/", 0, Why.SCOPE, "x" * size)


def block(first: int, count: int, batch: int = 1, size: int = 20) -> bytes:
    """One block of `count` records from position `first` on."""
    return blocks.pack(batch, first, [encode(record(first + n, size)) for n in range(count)])


def noise_block(first: int, size: int) -> bytes:
    """A block of one record that cannot be compressed."""
    return blocks.pack(1, first, [os.urandom(size)])


class WrittenLog:
    """A log on disk that says what each commit wrote, and into which segment."""

    def __init__(self, directory: Path, segment_bytes: int = 64 << 20) -> None:
        self.files = DiskFiles(directory)
        self.log = Log(self.files, segment_bytes)

    def commit(self, count: int, size: int = 20) -> tuple[int, bytes, int]:
        """Commit some records; (first position, their blocks, their segment)."""
        first = self.log.end
        sizes = {n: self.files.size(segment_name(n)) for n in segments(self.files)}
        for number in range(first, first + count):
            self.log.append(record(number, size))
        self.log.commit()
        segment = segments(self.files)[-1]
        start = sizes.get(segment, SEGMENT_HEAD)
        return first, self.files.read(segment_name(segment))[start:], segment
