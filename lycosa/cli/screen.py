"""The screen of a running crawl: a live panel in a terminal, plain lines elsewhere, JSON lines if asked.

Nothing here raises when the output is closed: the crawl checks `lost` now and then, and stops cleanly.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from lycosa.ask.json_form import safe
from lycosa.cli.amounts import counted, show_duration, show_size
from lycosa.cli.ending import scorer_failures
from lycosa.cli.streams import OutputClosedError, OutputFailedError, message, outlet, printable
from lycosa.crawl.status import Status

if TYPE_CHECKING:
    from lycosa.cli.panel import Panel

_LINE_SECONDS = 5.0


class Speed:
    """Pages per second over the last ten seconds."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque(maxlen=11)

    def add(self, status: Status) -> float:
        self._points.append((status.elapsed, status.pages))
        (then, before), (now, pages) = self._points[0], self._points[-1]
        return (pages - before) / (now - then) if now > then else 0.0


class Screen:
    """Shows each status it is given; `mode` is "live", "lines", "json" or "quiet"."""

    def __init__(
        self,
        mode: str,
        title: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._mode = mode
        self._title = title
        self._speed = Speed()
        self._live: Panel | None = None
        self._next_line = clock()
        self._lost: Exception | None = None

    @property
    def lost(self) -> Exception | None:
        """What to raise at the end if the progress can no longer be seen anywhere; None while it can."""
        error = outlet(sys.stderr)
        if self._lost is None and error is not None and error.left:
            self._lost = OutputClosedError()
        return self._lost

    def __enter__(self) -> Screen:
        if self._mode == "live":
            from lycosa.cli.panel import Panel

            self._live = Panel(self._title)
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)
            self._live = None

    def note(self, text: str) -> None:
        """One line beside the progress."""
        if self._mode == "json":
            self._json(message(text))
        elif self._live is not None:
            self._live.note(text)
        elif self._mode != "quiet":
            print(printable(text), file=sys.stderr, flush=True)

    def show(self, status: Status) -> None:
        speed = self._speed.add(status)
        if self._live is not None:
            self._live.show(status, speed)
        elif self._mode == "json":
            self._json(status)
        elif self._mode == "lines" and self._clock() >= self._next_line:
            self._next_line = self._clock() + _LINE_SECONDS
            print(_line(status, speed), file=sys.stderr, flush=True)

    def _json(self, row: object) -> None:
        if self._lost is not None:
            return
        try:
            print(safe(msgspec.json.encode(row)).decode(), flush=True)
        except (OutputClosedError, OutputFailedError) as error:
            self._lost = error


def deferred(status: Status) -> str:
    """How many URLs are deferred and, when nothing else is left, for how long."""
    idle = status.deferred and not status.pending and not status.visits
    return f"{status.deferred:,}" + (f" (next in {show_duration(status.next_due)})" if idle else "")


def pairs(counts: dict[str, int]) -> str:
    """Counts with their names, the largest first."""
    return ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items(), key=lambda pair: -pair[1]))


def _line(status: Status, speed: float) -> str:
    parts = [
        show_duration(status.elapsed),
        counted(status.pages, "page"),
        f"{speed:,.1f}/s",
        show_size(status.bytes),
        f"{status.pending:,} pending",
        f"{deferred(status)} deferred",
        counted(status.visits, "visit"),
        f"{show_size(status.rss)} memory",
    ]
    if status.errors:
        parts.append(f"errors: {pairs(status.errors)}")
    if failures := scorer_failures(status):
        parts.append(failures)
    return " · ".join(parts)


def choose_mode(json: bool, quiet: bool, is_terminal: Callable[[], bool] | None = None) -> str:
    """How to show progress; by default this depends on whether standard error is a terminal."""
    if json:
        return "json"
    if quiet:
        return "quiet"
    return "live" if (is_terminal or sys.stderr.isatty)() else "lines"
