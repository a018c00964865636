"""The report's plots over time: from the log (exact, all runs) and from the meters (what no log can know).

Both are bounded: a timeline's stretches double in width when there are too many, gauges are thinned out.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from lycosa.crawl.json_form import iso
from lycosa.crawl.report import Gauge, Moment

KEPT = 4_000
SHOWN = 240
_FINEST = 250  # milliseconds
_WIDTHS = (250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000)
_HOUR = 3_600_000
_LATEST = 2.5e11  # seconds: beyond it no calendar goes


class Timeline:
    """Pages and bytes by stretches of time, in any order of arrival."""

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
        """At most `SHOWN` stretches without gaps, their width a round one if possible."""
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
    """A width that people count in, not below `least`; and not below the data's own."""
    least = max(least, unit)
    for width in _WIDTHS:
        if width >= least:
            return width
    return -(-least // _HOUR) * _HOUR


class _Line(msgspec.Struct, kw_only=True):
    """What is read of a line of meters.jsonl; lines of other versions may lack some of it."""

    at: float
    visits: int = 0
    pending: int = 0
    left_behind: int = 0
    deferred: int = 0
    hosts: int = 0
    rss: int = 0


def read_gauges(directory: Path) -> list[Gauge]:
    """The history that the crawl's processes left; lines that cannot be read are passed over."""
    from lycosa.crawl.status import HISTORY

    decoder = msgspec.json.Decoder(_Line)
    kept: list[_Line] = []
    step = number = 0
    try:
        with (directory / HISTORY).open("rb") as file:
            while data := file.readline(1 << 20):
                number += 1
                if step and number % (1 << step):
                    continue
                try:
                    kept.append(decoder.decode(data))
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue
                if len(kept) >= 2 * SHOWN:
                    kept, step = kept[1::2], step + 1
    except OSError:
        return []
    return [
        Gauge(
            at=iso(int(line.at * 1000)) or "",
            visits=line.visits,
            pending=line.pending,
            left_behind=line.left_behind,
            deferred=line.deferred,
            hosts=line.hosts,
            rss=line.rss,
        )
        for line in kept
        if 0 < line.at < _LATEST
    ]
