"""The report over time: from the log (exact, all runs) and from the meters (what is not in a log).

Both are bounded: a timeline's intervals double in width when there are too many, gauges are thinned out.

`activity` sums up the visits under way, the question of §6.4 of seed 001: are there enough hosts to keep all
allowed visits busy, or does most of the crawl wait for a few of them? `strips` shows the same as rows of block
characters, for terminals.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from lycosa.ask.json_form import iso
from lycosa.ask.report import Active, Gauge, Moment, Report
from lycosa.crawl.history import HISTORY

KEPT = 4_000
SHOWN = 240
_FINEST = 250  # milliseconds
_WIDTHS = (250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000)
_HOUR = 3_600_000
_LATEST = 2.5e11  # seconds: the calendar's end


class Timeline:
    """Pages and bytes by time interval, in any order of arrival."""

    def __init__(self) -> None:
        self._width = _FINEST
        self._pages: dict[int, int] = {}
        self._bytes: dict[int, int] = {}

    def add(self, at: int, size: int) -> None:
        slot = at // self._width
        self._pages[slot] = self._pages.get(slot, 0) + 1
        self._bytes[slot] = self._bytes.get(slot, 0) + size
        if len(self._pages) > KEPT:
            self._pages, self._bytes = _halved(self._pages), _halved(self._bytes)
            self._width *= 2

    def moments(self) -> list[Moment]:
        """At most `SHOWN` intervals without gaps, their width a round one if possible."""
        if not self._pages:
            return []
        first, last = min(self._pages) * self._width, max(self._pages) * self._width
        width = _round_width((last - first) // SHOWN + 1, self._width)
        rows: dict[int, list[int]] = {}
        for slot, pages in self._pages.items():
            row = rows.setdefault(slot * self._width // width, [0, 0])
            row[0] += pages
            row[1] += self._bytes[slot]
        return [
            Moment(
                at=iso(slot * width) or "",
                seconds=width / 1000,
                pages=rows.get(slot, (0, 0))[0],
                bytes=rows.get(slot, (0, 0))[1],
            )
            for slot in range(min(rows), max(rows) + 1)
        ]


def _halved(counts: dict[int, int]) -> dict[int, int]:
    merged: dict[int, int] = {}
    for slot, count in counts.items():
        merged[slot // 2] = merged.get(slot // 2, 0) + count
    return merged


def _round_width(least: int, unit: int) -> int:
    """A round width, at least `least` and at least the data's own."""
    least = max(least, unit)
    for width in _WIDTHS:
        if width >= least:
            return width
    return -(-least // _HOUR) * _HOUR


class _Line(msgspec.Struct, kw_only=True):
    """The fields read from a line of meters.jsonl; lines of other versions may lack some."""

    at: float
    state: str = "running"
    visits: int = 0
    pending: int = 0
    left_behind: int = 0
    deferred: int = 0
    hosts: int = 0
    rss: int = 0
    pages: int = 0
    bytes: int = 0
    errors: dict[str, int] = {}


def read_gauges(directory: Path, since: float = 0.0) -> list[Gauge]:
    """The meters of the crawl's processes, from a time on; lines that cannot be read are skipped."""
    decoder = msgspec.json.Decoder(_Line)
    kept: list[_Line] = []
    last: _Line | None = None
    step = number = 0
    try:
        with (directory / HISTORY).open("rb") as file:
            while data := file.readline(1 << 20):
                number += 1
                try:
                    last = decoder.decode(data)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue
                if last.at < since:
                    last = None
                    continue
                if step and number % (1 << step) and last.state == "running":
                    continue
                kept.append(last)
                if len(kept) >= 2 * SHOWN:
                    # The last line of a run stays: without it a pause would look like a slow crawl.
                    kept = [row for n, row in enumerate(kept) if n % 2 or row.state != "running"]
                    step += 1
    except OSError:
        return []
    if last is not None and (not kept or kept[-1] is not last):
        kept.append(last)
    return [
        Gauge(
            at=iso(int(line.at * 1000)) or "",
            visits=line.visits,
            pending=line.pending,
            left_behind=line.left_behind,
            deferred=line.deferred,
            hosts=line.hosts,
            rss=line.rss,
            running=line.state == "running",
            pages=line.pages,
            bytes=line.bytes,
            errors=sum(line.errors.values()),
        )
        for line in kept
        if 0 < line.at < _LATEST
    ]


# -- active visits

_PAUSE = 4
"""A gap this many times the usual one is a pause of the crawl (its process was killed), and counts as that much."""


def seconds_of(at: str) -> float:
    """A time of the report as seconds."""
    return datetime.fromisoformat(at).timestamp()


def activity(gauges: Sequence[Gauge], limit: int) -> Active:
    """How many visits were under way, weighted by time."""
    found = Active(limit=limit, most=max((row.visits for row in gauges), default=0))
    times = [seconds_of(row.at) for row in gauges]
    gaps = [max(two - one, 0.0) for one, two in pairwise(times)]
    longest = _PAUSE * statistics.median(gaps) if gaps else 0.0
    total = visits = half = 0.0
    for row, gap in zip(gauges, gaps, strict=False):  # no gap follows the last
        weight = min(gap, longest) if row.running else 0.0
        total += weight
        visits += weight * row.visits
        half += weight * (2 * row.visits >= limit)
    if total:
        found.mean, found.half = visits / total, half / total if limit else 0.0
    return found


# -- for terminals

_COLUMNS = 40
_BLOCKS = " ▁▂▃▄▅▆▇█"


class Strip(NamedTuple):
    """A row of block characters over the time of the crawl, and its summary in words."""

    name: str
    blocks: str
    words: str


def strips(report: Report, size: Callable[[float], str]) -> list[Strip]:
    """The crawl over time; `size` formats bytes."""
    times = [seconds_of(row.at) for row in report.gauges]
    times += [seconds_of(row.at) for row in report.timeline]
    if not times or max(times) <= min(times):
        return []
    low, high = min(times), max(times)

    def column(at: str) -> int:
        return min(int(_COLUMNS * (seconds_of(at) - low) / (high - low)), _COLUMNS - 1)

    found: list[Strip] = []
    if report.timeline:
        pages = [0] * _COLUMNS
        for moment in report.timeline:
            pages[column(moment.at)] += moment.pages
        speeds = [count * _COLUMNS / (high - low) for count in pages]
        fastest = max(row.pages / row.seconds for row in report.timeline)
        found.append(Strip("pages/s", _blocks(speeds, max(speeds)), f"at most {fastest:,.0f}"))
    if len(report.gauges) < 2:
        return found
    columns = [column(row.at) for row in report.gauges]

    def add(name: str, values: Sequence[float], most: float, words: str) -> None:
        if most:
            found.append(Strip(name, _blocks(_spread(columns, values), most), words))

    active = report.active
    words = f"mean {active.mean:,.1f}"
    if active.limit:
        words += f" of {active.limit:,}; half or more {active.half:.0%} of time"
    add("active visits", [row.visits for row in report.gauges], max(active.limit, active.most), words)
    for name, field in (
        ("hosts", "hosts"),
        ("pending", "pending"),
        ("left behind", "left_behind"),
        ("deferred", "deferred"),
    ):
        values = [getattr(row, field) for row in report.gauges]
        add(name, values, max(values), f"at most {max(values):,}")
    memory = [row.rss for row in report.gauges]
    add("memory", memory, max(memory), f"at most {size(max(memory))}")
    return found


def _spread(columns: Sequence[int], values: Sequence[float]) -> list[float]:
    """The mean of each column; one without values repeats the one before it."""
    sums, counts = [0.0] * _COLUMNS, [0] * _COLUMNS
    for column, value in zip(columns, values, strict=True):
        sums[column] += value
        counts[column] += 1
    found: list[float] = []
    for total, count in zip(sums, counts, strict=True):
        found.append(total / count if count else found[-1] if found else 0.0)
    return found


def _blocks(values: Sequence[float], most: float) -> str:
    """Values as block characters; any value above zero is at least the lowest block."""
    top = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[max(1, min(round(top * value / most), top))] if value > 0 and most > 0 else " "
        for value in values
    )
