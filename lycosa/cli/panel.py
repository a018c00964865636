"""The live panel of a running crawl. (Uses `rich`, which a crawl without a terminal does not load.)"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lycosa.cli.amounts import counted, show_count, show_duration, show_size
from lycosa.cli.ending import scorer_failures
from lycosa.cli.screen import deferred, pairs
from lycosa.cli.streams import printable
from lycosa.crawl.status import Status


class Panel:
    """A few rows at the bottom of a terminal; other lines scroll above them."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self._title = title
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Panel:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def note(self, text: str) -> None:
        self._console.print(printable(text), highlight=False, markup=False)

    def show(self, status: Status, speed: float) -> None:
        self._live.update(self.made(status, speed))

    def made(self, status: Status, speed: float) -> Group:
        """The panel's content for a status."""
        width = self._console.width
        cells = [
            _cell("pages", show_count(status.pages)),
            _cell("pages/s", f"{speed:,.1f}"),
            _cell("bytes", show_size(status.bytes)),
            _cell("elapsed", show_duration(status.elapsed)),
            _cell("pending", show_count(status.pending)),
            _cell("left behind", show_count(status.left_behind)),
            _cell("deferred", deferred(status)),
            _cell("visits", f"{status.visits} at {counted(status.hosts, 'host')}"),
            *(_cell(kind, show_count(status.statuses.get(kind, 0))) for kind in ("2xx", "3xx", "4xx", "5xx")),
        ]
        title = Text(self._title, style="bold", no_wrap=True, overflow="ellipsis")
        rows: list[Table | Text] = [title, _grid(cells, width)]
        trouble = pairs(status.errors)
        skipped = pairs(status.skipped)
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
    """The cells in as many columns as there is room for, so that no number is cut off."""
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


def _cell(name: str, value: str) -> Text:
    return Text.assemble((f"{name} ", "dim"), (value, "bold cyan"))
