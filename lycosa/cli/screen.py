"""The screen of a running crawl: a live panel in a terminal, plain lines elsewhere, JSON lines if asked.

Nothing here raises when the output goes away: whoever crawls asks `lost` now and then, and stops cleanly.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lycosa.ask.json_form import safe
from lycosa.cli.amounts import counted, show_count, show_duration, show_size
from lycosa.cli.ending import scorer_failures
from lycosa.cli.streams import OutputClosedError, OutputFailedError, outlet, printable
from lycosa.crawl.status import Status

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
        console: Console | None = None,
    ) -> None:
        self._clock = clock
        self._mode = mode
        self._title = title
        self._speed = Speed()
        self._console = console or Console(stderr=True)
        self._live: Live | None = None
        self._next_line = clock()
        self._lost: Exception | None = None

    @property
    def lost(self) -> Exception | None:
        """What to raise in the end if nobody can see any more how the crawl goes; None while somebody can."""
        error = outlet(sys.stderr)
        if self._lost is None and error is not None and error.left:
            self._lost = OutputClosedError()
        return self._lost

    def __enter__(self) -> Screen:
        if self._mode == "live":
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)
            self._live = None

    def note(self, text: str) -> None:
        """One line beside the progress."""
        if self._mode == "json":
            self._json({"note": text})
        elif self._mode != "quiet":
            self._console.print(printable(text), highlight=False, markup=False)

    def show(self, status: Status) -> None:
        speed = self._speed.add(status)
        if self._live is not None:
            self._live.update(self._panel(status, speed))
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

    def _panel(self, status: Status, speed: float) -> Group:
        width = self._console.width
        cells = [
            _cell("pages", show_count(status.pages)),
            _cell("pages/s", f"{speed:,.1f}"),
            _cell("bytes", show_size(status.bytes)),
            _cell("elapsed", show_duration(status.elapsed)),
            _cell("pending", show_count(status.pending)),
            _cell("left behind", show_count(status.left_behind)),
            _cell("deferred", _deferred(status)),
            _cell("visits", f"{status.visits} at {counted(status.hosts, 'host')}"),
            *(_cell(kind, show_count(status.statuses.get(kind, 0))) for kind in ("2xx", "3xx", "4xx", "5xx")),
        ]
        title = Text(self._title, style="bold", no_wrap=True, overflow="ellipsis")
        rows: list[Table | Text] = [title, _grid(cells, width)]
        trouble = _pairs(status.errors)
        skipped = _pairs(status.skipped)
        memory = f"{show_size(status.rss)} of {show_size(status.memory_limit)}"
        rows.append(Text.assemble(("memory ", "dim"), memory, ("   skipped ", "dim"), skipped or "none"))
        rows.append(Text.assemble(("errors ", "dim"), (trouble or "none", "yellow" if trouble else "")))
        if failures := scorer_failures(status):
            rows.append(Text(failures, style="yellow"))
        if status.page_limit:
            left = (status.page_limit - status.pages) / speed if speed else 0.0
            when = f"about {show_duration(left)} left" if speed else "..."
            bar = Table.grid()
            bar.add_row(
                ProgressBar(total=status.page_limit, completed=status.pages, width=min(60, width - 1))
            )
            bar.add_row(
                Text(f"{status.pages:,} of {counted(status.page_limit, 'page')}, {when}", style="dim")
            )
            rows.append(bar)
        return Group(*rows)


def _grid(cells: Sequence[Text], width: int) -> Table:
    """The cells in as many columns as there is room for: no number is ever cut off."""
    gap = 3
    for columns in (4, 2, 1):
        widths = [max(cell.cell_len for cell in cells[n::columns]) for n in range(columns)]
        if sum(widths) + gap * (columns - 1) <= width:
            break
    grid = Table.grid(padding=(0, gap, 0, 0), pad_edge=False)
    for _ in range(columns):
        grid.add_column(no_wrap=columns > 1)
    for first in range(0, len(cells), columns):
        grid.add_row(*cells[first : first + columns])
    return grid


def _deferred(status: Status) -> str:
    """How many wait for a time and, when nothing else is left, for how long."""
    idle = status.deferred and not status.pending and not status.visits
    return f"{status.deferred:,}" + (f" (next in {show_duration(status.next_due)})" if idle else "")


def _cell(name: str, value: str) -> Text:
    return Text.assemble((f"{name} ", "dim"), (value, "bold cyan"))


def _pairs(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items(), key=lambda pair: -pair[1]))


def _line(status: Status, speed: float) -> str:
    parts = [
        show_duration(status.elapsed),
        counted(status.pages, "page"),
        f"{speed:,.1f}/s",
        show_size(status.bytes),
        f"{status.pending:,} pending",
        f"{_deferred(status)} deferred",
        counted(status.visits, "visit"),
        f"{show_size(status.rss)} memory",
    ]
    if status.errors:
        parts.append(f"errors: {_pairs(status.errors)}")
    if failures := scorer_failures(status):
        parts.append(failures)
    return " · ".join(parts)


def choose_mode(json: bool, quiet: bool, is_terminal: Callable[[], bool] | None = None) -> str:
    """How to show progress here; by default, whether standard error is a terminal now decides."""
    if json:
        return "json"
    if quiet:
        return "quiet"
    return "live" if (is_terminal or sys.stderr.isatty)() else "lines"
