"""The results of the crawl benchmark as text: contestants, ratios against their targets, the profile.

Ratios are taken between contestants of the same round, which ran under the same load; the median of
the rounds counts, and the extremes are shown. A single time is never given without what it is to be compared
with.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from crawl_worker import Result

Results = dict[str, list[Result]]


class Setting(NamedTuple):
    """The environment of the measurements."""

    machine: str
    python: str
    server: str
    packages: tuple[str, ...]
    hosts: int
    pinned: bool
    date: str
    rounds: int
    load: float
    quick: bool


class Ratio(NamedTuple):
    """A comparison with its target."""

    name: str
    values: list[float]
    target: str
    met: bool | None  # None: there is no target
    form: str

    @property
    def shown(self) -> str:
        middle = statistics.median(self.values)
        shown = format(middle, self.form)
        if len(self.values) > 1:
            shown += f" ({format(min(self.values), self.form)} to {format(max(self.values), self.form)})"
        return shown

    @property
    def verdict(self) -> str:
        return self.target if self.met is None else f"{self.target}: {'met' if self.met else 'NOT met'}"


def ratios(results: Results) -> list[Ratio]:
    """The comparisons that the issue asks for."""
    found: list[Ratio] = []

    def compare(
        name: str,
        other: str,
        of: Callable[[Result, Result], float],
        target: str,
        limit: float,
        form: str,
        least: bool,
    ) -> None:
        if other not in results:
            return
        values = [of(mine, theirs) for mine, theirs in zip(results["lycosa"], results[other], strict=True)]
        middle = statistics.median(values)
        met = None if not target else (middle >= limit if least else middle <= limit)
        found.append(Ratio(name, values, target, met, form))

    compare(
        "pages/s, lycosa : scrapy", "scrapy", lambda a, b: a.rate / b.rate, "at least 20", 20, ".1f", True
    )
    compare("CPU a page, scrapy : lycosa", "scrapy", lambda a, b: b.cpu / a.cpu, "", 0, ".1f", True)
    for peer in ("wget2", "spider"):
        compare(f"CPU a page, {peer} : lycosa", peer, lambda a, b: b.cpu / a.cpu, "", 0, ".2f", True)
    compare("pages/s, floor : lycosa", "floor", lambda a, b: b.rate / a.rate, "at most 3", 3, ".2f", False)
    compare("CPU a page, lycosa : floor", "floor", lambda a, b: a.cpu / b.cpu, "at most 3", 3, ".2f", False)
    compare(
        "the log's share of the CPU",
        "no log",
        lambda a, b: (a.cpu - b.cpu) / a.cpu,
        "at most 10%",
        0.10,
        ".1%",
        False,
    )
    compare(
        "the archive's share of the CPU",
        "no archive",
        lambda a, b: (a.cpu - b.cpu) / a.cpu,
        "",
        0,
        ".1%",
        False,
    )
    compare("the archive, µs a page", "no archive", lambda a, b: a.cpu - b.cpu, "", 0, ".0f", False)
    for name in results:
        if name.startswith("tls"):
            compare(f"pages/s, {name} : plain", name, lambda a, b: b.rate / a.rate, "", 0, ".2f", False)
    return found


COLUMNS = (
    "contestant",
    "pages/s",
    "CPU µs/page",
    "user",
    "system",
    "KB/page",
    "links/page",
    "connections",
    "peak MB",
    "pages",
)


def rows(results: Results) -> list[tuple[str, ...]]:
    """One row per contestant: medians of the rounds."""
    found: list[tuple[str, ...]] = []
    for name, runs in results.items():

        def middle(of: Callable[[Result], float], runs: Sequence[Result] = runs) -> float:
            return statistics.median(of(run) for run in runs)

        found.append(
            (
                name,
                f"{middle(lambda run: run.rate):,.0f}",
                f"{middle(lambda run: run.cpu):,.0f}",
                f"{middle(lambda run: run.user / run.pages * 1e6):,.0f}",
                f"{middle(lambda run: run.system / run.pages * 1e6):,.0f}",
                f"{middle(lambda run: run.bytes / run.pages / 1000):.1f}",
                f"{middle(lambda run: run.links / run.pages):.0f}",
                f"{middle(lambda run: run.connections):,.0f}" if runs[0].connections else "",
                f"{middle(lambda run: run.rss_peak) / 1e6:,.0f}",
                f"{runs[0].pages:,}",
            )
        )
    return found


def profile_rows(run: Result, functions: int = 25) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Rooms, then functions: name, share, microseconds per page."""
    profile = run.profile or {}
    total = profile.get("total") or 1.0

    def shown(name: str, seconds: float) -> tuple[str, ...]:
        return name, f"{seconds / total:.1%}", f"{seconds / run.pages * 1e6:,.1f}"

    rooms = [shown(name, spent) for name, spent in profile.get("rooms", {}).items()]
    rooms.append(shown("garbage collector", profile.get("collecting", 0.0)))
    return rooms, [shown(*item) for item in list(profile.get("functions", {}).items())[:functions]]


NOTES = """\
- Contestants take turns within a round; ratios are taken within a round, and the median of {rounds} rounds is
  given, with the extremes in brackets. Times run from opening the crawl to its clean end (final commit and
  snapshot included); imports and the loading of compiled kernels come before.
- CPU is user plus system time of the contestant's process, all its threads, which share one core; what the
  kernel does for it elsewhere (writing back pages, its journal) is in the rate but not in the CPU.
- `floor` fetches and parses the very pages that `lycosa` fetched; it counts links as often as they occur,
  `lycosa` each URL of a page once. `scrapy` fetches a sample of them with the same mean size and queues
  all links it finds there.
- Pages are served uncompressed. Links lead to the page's own host but for few: what it costs to pass links
  between shards is hardly in these numbers.
- The profile charges CPU time to the innermost function of ours on the stack; the libraries that it calls
  (libcurl, the HTML parser, compression) are in it. One run under the sampler."""


def _heading(about: Setting) -> list[str]:
    lines = [
        f"{about.machine}; {about.python}; server: {about.server}, {about.hosts} hosts",
        f"{about.date}, {about.rounds} rounds; "
        + ("one core for each" if about.pinned else "cores not pinned"),
    ]
    if about.packages:
        lines.append("pages of: " + ", ".join(about.packages))
    if about.quick:
        lines.append("A SMOKE RUN: these numbers count for nothing")
    elif about.load > 0.5:
        lines.append(f"the machine was not quiet (load {about.load:.1f}): these numbers do not count")
    return lines


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[n]) for row in table) for n in range(len(table[0]))]
    return [
        "  ".join(
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    ]


def text(about: Setting, results: Results, profiled: Result) -> str:
    """For the terminal."""
    rooms, functions = profile_rows(profiled)
    compared = [(ratio.name, ratio.shown, ratio.verdict) for ratio in ratios(results)]
    parts = [
        *_heading(about),
        "",
        *_aligned([COLUMNS, *rows(results)]),
        "",
        *_aligned(compared),
        "",
        "CPU by room:",
        *_aligned([("room", "share", "µs/page"), *rooms]),
        "",
        "by function:",
        *_aligned([("function", "share", "µs/page"), *functions]),
    ]
    return "\n".join(parts)


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in body]


def markdown(about: Setting, results: Results, profiled: Result) -> str:
    """For docs/benchmarks/crawl.md."""
    rooms, functions = profile_rows(profiled)
    compared = [(ratio.name, ratio.shown, ratio.verdict) for ratio in ratios(results)]
    parts = [
        "# The crawl's speed",
        "",
        "Written by `benchmarks/crawl.py --write`; [how to run it](../../benchmarks/README.md).",
        "",
        *(f"{line}  " for line in _heading(about)),
        "",
        "## Contestants",
        "",
        *_table(COLUMNS, rows(results)),
        "",
        "## Ratios and targets",
        "",
        *_table(("", "median (least to most)", "target"), compared),
        "",
        "## Where the CPU goes",
        "",
        *_table(("room", "share", "µs/page"), rooms),
        "",
        *_table(("function", "share", "µs/page"), functions),
        "",
        "## Notes",
        "",
        NOTES.format(rounds=about.rounds),
        "",
    ]
    return "\n".join(parts)
