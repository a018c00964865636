"""History: what the processes of a crawl said of themselves over time, in a file that stays small.

`meters.jsonl` gets a line (the JSON of `lycosa.crawl.status.Status`) a second at first. When it has more than
`MOST` lines, the least time between two of them is doubled, as often as it takes, and lines that are too close to
the one before them go. So a crawl of an hour has a line a second, one of a week a line every few minutes, and the
file never has more than some megabytes; the lines are evenly spread, whatever runs the crawl had.

A new run begins with a line a second again: `History` reads nothing until the file is full, and then finds the
spacing anew. The first line and the last are always kept. Lines that cannot be read (of a process that was killed
in the middle of one) go when lines go. Nothing here is durable, and readers take the file as they find it: it is
replaced as a whole when lines go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

HISTORY = "meters.jsonl"
MOST = 3_600
"""Lines at most; of some 1,200 bytes each."""
LEAST_SECONDS = 1.0
_SLACK = 0.05
"""A line comes so much early, as a share of the spacing: the caller's own second is not exact."""
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
        """Drop lines: as a rule every other one."""
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
    """Which of these times, in order, to keep so that at most `most` (2 at least) are left, and how far apart.

    The spacing is doubled until few enough are left. A time before its predecessor (somebody set the clock back)
    is kept, and what follows it measured from there; where that keeps too many, each n-th is taken instead.
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
