"""Salvage: finds what is whole in a log that lost part of itself. Changes nothing.

Every block states its positions and carries a checksum, so blocks are found and placed wherever they are:
behind damaged bytes, behind a missing segment, in a file whose head is gone.

    laid := layout(files)
    laid.gaps       positions without a record between those that have one
    laid.end        the position after the last record
    laid.segments   each file of the log, with the runs of blocks that count in it
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lycosa.files import Files
from lycosa.log import blocks
from lycosa.log.reader import SEGMENT_HEAD, BlockAt, gaps, over_gaps, segment_head, segment_name, segments

Run = list[BlockAt]
"""Blocks of one file whose positions follow each other."""


class Segment(NamedTuple):
    """A file of the log and the blocks in it that count."""

    first: int
    size: int
    runs: list[Run]
    sound: bool
    """It can stay as it is. The last segment may have a torn tail, which opening the log cuts off."""


class Layout(NamedTuple):
    """What a log holds."""

    segments: list[Segment]
    gaps: list[tuple[int, int]]
    end: int


def whole_blocks(data: bytes) -> Iterator[BlockAt]:
    """Every whole block in the bytes of a segment, in order."""
    at = data.find(blocks.MAGIC)
    while at >= 0:
        head = blocks.head_of(data, at)
        if head is not None and blocks.intact(data[at : at + head.size], head):
            yield BlockAt(at, head)
            at += head.size
        else:
            at += 1
        at = data.find(blocks.MAGIC, at)


def layout(files: Files) -> Layout:
    """What is whole in a log; a position that occurs twice counts once."""
    known = gaps(files)
    laid = Layout([], [], 0)
    expected = over_gaps(0, known)
    firsts = segments(files)
    for first in firsts:
        data = files.read(segment_name(first))
        runs: list[Run] = []
        place = SEGMENT_HEAD if data[:SEGMENT_HEAD] == segment_head(first) else -1
        whole = place > 0
        for found in whole_blocks(data):
            if found.head.first < expected:
                continue
            if found.head.first > expected:
                laid.gaps.append((expected, found.head.first))
            if not runs or found.head.first != runs[-1][-1].head.end:
                runs.append([])
            runs[-1].append(found)
            whole = whole and found.offset == place
            place = found.end
            expected = over_gaps(found.head.end, known)
        begins = runs[0][0].head.first if runs else expected
        whole = whole and first == begins and len(runs) < 2 and (place == len(data) or first == firsts[-1])
        laid.segments.append(Segment(first, len(data), runs, whole))
    return laid._replace(end=expected)
