"""The screen of a running crawl: a live panel in a terminal, plain lines elsewhere, JSON lines if asked."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lycosa.cli.amounts import show_count, show_duration, show_size
from lycosa.cli.streams import printable
from lycosa.crawl.json_form import safe
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

    def __init__(self, mode: str, title: str) -> None:
        self._mode = mode
        self._title = title
        self._speed = Speed()
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._last_line = -_LINE_SECONDS

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
            print(safe(msgspec.json.encode({"note": text})).decode(), flush=True)
        elif self._mode != "quiet":
            self._console.print(printable(text), highlight=False, markup=False)

    def show(self, status: Status) -> None:
        speed = self._speed.add(status)
        if self._live is not None:
            self._live.update(self._panel(status, speed))
        elif self._mode == "json":
            print(safe(msgspec.json.encode(status)).decode(), flush=True)
        elif self._mode == "lines" and status.elapsed - self._last_line >= _LINE_SECONDS:
            self._last_line = status.elapsed
            print(_line(status, speed), file=sys.stderr, flush=True)

    def _panel(self, status: Status, speed: float) -> Group:
        grid = Table.grid(padding=(0, 3))
        for _ in range(4):
            grid.add_column(no_wrap=True)
        cell = _cell
        grid.add_row(
            cell("pages", show_count(status.pages)),
            cell("pages/s", f"{speed:,.1f}"),
            cell("bytes", show_size(status.bytes)),
            cell("elapsed", show_duration(status.elapsed)),
        )
        grid.add_row(
            cell("pending", show_count(status.pending)),
            cell("left behind", show_count(status.left_behind)),
            cell("deferred", _deferred(status)),
            cell("visits", f"{status.visits} at {show_count(status.hosts)} hosts"),
        )
        grid.add_row(
            cell("2xx", show_count(status.statuses.get("2xx", 0))),
            cell("3xx", show_count(status.statuses.get("3xx", 0))),
            cell("4xx", show_count(status.statuses.get("4xx", 0))),
            cell("5xx", show_count(status.statuses.get("5xx", 0))),
        )
        rows: list[Table | Text | ProgressBar] = [Text(self._title, style="bold"), grid]
        trouble = _pairs(status.errors)
        skipped = _pairs(status.skipped)
        memory = f"{show_size(status.rss)} of {show_size(status.memory_limit)}"
        rows.append(Text.assemble(("memory ", "dim"), memory, ("   skipped ", "dim"), skipped or "none"))
        rows.append(Text.assemble(("errors ", "dim"), (trouble or "none", "yellow" if trouble else "")))
        if status.page_limit:
            left = (status.page_limit - status.pages) / speed if speed else 0.0
            rows.append(ProgressBar(total=status.page_limit, completed=status.pages, width=60))
            when = f"about {show_duration(left)} left" if speed else "..."
            rows.append(Text(f"{status.pages:,} of {status.page_limit:,} pages, {when}", style="dim"))
        return Group(*rows)


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
        f"{status.pages:,} pages",
        f"{speed:,.1f}/s",
        show_size(status.bytes),
        f"{status.pending:,} pending",
        f"{_deferred(status)} deferred",
        f"{status.visits} visits",
        f"{show_size(status.rss)} memory",
    ]
    if status.errors:
        parts.append(f"errors: {_pairs(status.errors)}")
    return " · ".join(parts)


def choose_mode(json: bool, quiet: bool, is_terminal: Callable[[], bool] | None = None) -> str:
    """How to show progress here; by default, whether standard error is a terminal now decides."""
    if json:
        return "json"
    if quiet:
        return "quiet"
    return "live" if (is_terminal or sys.stderr.isatty)() else "lines"
