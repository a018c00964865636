"""History: the status of a crawl's processes over time, in a file that stays small.

`meters.jsonl` gets a line (the JSON of `lycosa.crawl.status.Status`) per second at first. When it has more than
`MOST` lines, the least time between two of them is doubled, repeatedly if necessary, and lines that are too close
to the one before them are removed. So a crawl of an hour has a line per second, one of a week a line every few
minutes, and the file never has more than some megabytes; the lines are evenly spread, whatever runs the crawl had.

A new run begins with a line per second again: `History` reads nothing until the file is full, and then determines
the spacing anew. The first line and the last are always kept. Unreadable lines (from a process that was killed
while writing one) are removed together with others. Nothing here is durable, and readers always see a complete
file: it is replaced as a whole when lines are removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

HISTORY = "meters.jsonl"
MOST = 3_600
"""Maximum number of lines, each of some 1,200 bytes."""
LEAST_SECONDS = 1.0
_SLACK = 0.05
"""A line may come this much early, as a share of the spacing: the caller's seconds are not exact."""
_LONGEST = 1 << 20
_LONGEST_SPACING = 1e9  # seconds: longer than any crawl


class _Line(msgspec.Struct):
    at: float


class History:
    """The history of a crawl, for its one writer."""

    def __init__(self, directory: Path, most: int = MOST) -> None:
        self._path = directory / HISTORY
        self._most = most
        self._spacing = LEAST_SECONDS
        self._last = float("-inf")
        self._count = -1  # lines in the file; not yet known

    def add(self, data: bytes, now: float, *, last: bool = False) -> None:
        """Add a line (without its newline) if it is time for one, or if it is the last; `now` is monotonic."""
        if now - self._last < self._spacing * (1 - _SLACK) and not last:
            return
        self._last = now
        if self._count < 0:
            self._count = sum(1 for _ in self._lines())
        with self._path.open("ab") as file:
            file.write(data + b"\n")
        self._count += 1
        if self._count > self._most:
            self._thin()

    def _lines(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb") as file:
                while line := file.readline(_LONGEST):
                    yield line
        except FileNotFoundError:
            return

    def _thin(self) -> None:
        """Remove lines: usually every other one."""
        decoder = msgspec.json.Decoder(_Line)
        numbers: list[int] = []
        times: list[float] = []
        for number, line in enumerate(self._lines()):
            try:
                times.append(decoder.decode(line).at)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            numbers.append(number)
        # Not half: every other line of a full file, its first and its last are a little more than half of it.
        self._spacing, kept = spread(times, self._spacing, self._most * 2 // 3)
        wanted = {numbers[index] for index in kept}
        draft = self._path.with_suffix(".part")
        with draft.open("wb") as file:
            file.writelines(line for number, line in enumerate(self._lines()) if number in wanted)
        draft.replace(self._path)
        self._count = len(wanted)


def spread(times: Sequence[float], spacing: float, most: int) -> tuple[float, list[int]]:
    """Choose from these times, in order, so that at most `most` (2 at least) are left; returns the spacing and
    indexes.

    The spacing is doubled until few enough are left. A time before its predecessor (the clock was set back)
    is kept, and the following ones are measured from it; if that keeps too many, every n-th is taken instead.
    """
    most = max(most, 2)
    if len(times) <= most:
        return spacing, list(range(len(times)))
    wider = spacing
    while wider < _LONGEST_SPACING:
        wider *= 2
        kept = _apart(times, wider * (1 - _SLACK))
        if len(kept) <= most:
            return wider, kept
    step = -(-len(times) // (most - 1))
    return spacing * 2, sorted({*range(0, len(times), step), len(times) - 1})


def _apart(times: Sequence[float], least: float) -> list[int]:
    kept: list[int] = []
    before = float("-inf")
    for index, at in enumerate(times):
        if at - before >= least or at < before or index == len(times) - 1:
            kept.append(index)
            before = at
    return kept
