"""The first page: the current state of the crawl, its history, and what will happen next. No I/O.

Numbers with a `data-value` are updated by events; the rest (`now_part`) is requested again every few seconds.
Charts are SVG made here, so that they work without scripts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from lycosa.ask.html_parts import Cell, bars, family, moment, number, plot, plural, size, table, text
from lycosa.ask.json_form import iso
from lycosa.ask.report import Gauge
from lycosa.ask.report_time import seconds_of
from lycosa.ask.standing import Standing
from lycosa.crawl.status import Status

HOUR = 3_600.0
_LATELY = 120.0
"""Seconds over which the current rate is averaged, if the history has lines that close."""
_SHOWN = (
    ("pages", "pages"),
    ("rate", "pages fetched, lately"),
    ("flow", "transferred, lately"),
    ("bytes", "transferred"),
    ("pending", "URLs pending"),
    ("left_behind", "records left behind"),
    ("deferred", "URLs deferred"),
    ("visits", "visits under way"),
    ("hosts", "hosts with URLs pending"),
    ("failures", "failed attempts, this run"),
    ("duplicates", "duplicates"),
    ("memory", "memory used"),
)


_ENDS = {
    "finished": "it has fetched all there was",
    "limit": "it came to one of its limits",
    "stopped": "it was stopped",
    "failed": "it failed",
}
_OF_A_RUN = ("rate", "flow", "visits", "memory")
"""The parts of `_SHOWN` that are meaningless for a crawl that does not run."""


class Lately(NamedTuple):
    """What the crawl did per second in the last minutes."""

    pages: float = 0.0
    bytes: float = 0.0


def lately(gauges: Sequence[Gauge]) -> Lately:
    """From the history of the current run."""
    if not gauges or not gauges[-1].running:
        return Lately()
    end = seconds_of(gauges[-1].at)
    first = gauges[-1]
    for row in reversed(gauges):
        if not row.running or row.pages > first.pages:
            break
        first = row
        if end - seconds_of(row.at) >= _LATELY:
            break
    span = end - seconds_of(first.at)
    if span <= 0:
        return Lately()
    last = gauges[-1]
    return Lately((last.pages - first.pages) / span, max(last.bytes - first.bytes, 0) / span)


def shown(standing: Standing, pace: Lately) -> dict[str, str]:
    """The numbers of the first page, formatted."""
    status = standing.status
    words = {"state": state_of(standing), "headline": headline(standing, pace)}
    if status is None:
        totals = standing.totals
        if totals is None:
            return words
        return words | {
            "pages": f"{totals.pages:,}",
            "bytes": size(totals.size),
            "duplicates": f"{totals.duplicates:,}",
        }
    running = standing.state == "running"
    done = f"{status.pages:,} of at most {status.page_limit:,} pages" if status.page_limit else ""
    return words | {
        "done": done,
        "pages": f"{status.pages:,}",
        "rate": f"{pace.pages if running else 0:,.1f}/s",
        "flow": f"{size(round(pace.bytes if running else 0))}/s",
        "bytes": size(status.bytes),
        "pending": f"{status.pending:,}",
        "left_behind": f"{status.left_behind:,}",
        "deferred": f"{status.deferred:,}",
        "visits": f"{status.visits:,}" if running else "0",
        "hosts": f"{status.hosts:,}",
        "failures": f"{sum(status.errors.values()):,}",
        "duplicates": f"{status.duplicates:,}",
        "memory": size(status.rss),
    }


def state_of(standing: Standing) -> str:
    """The state in one word; a running crawl may be paused."""
    paused = standing.state == "running" and standing.status is not None and standing.status.paused
    return "paused" if paused else standing.state


def headline(standing: Standing, pace: Lately) -> str:
    """The crawl in one or two sentences."""
    status, state = standing.status, standing.state
    if state == "running":
        if status is None or status.pid != standing.process:
            return "The crawl begins: it recovers, or has only just been started."
        if status.paused:
            return "The crawl is paused by its operator: no visits begin until it goes on."
        return f"The crawl has been running for {duration(status.elapsed)}.{outlook(status, pace)}"
    if state == "killed":
        return "The crawl's process was killed. Nothing that was committed is lost: the same command goes on."
    if status is None:
        return "The crawl is not running."
    when = moment(iso(int(status.at * 1000)))
    why = f" ({status.reason})" if status.reason else ""
    return f"The crawl is not running: {_ENDS.get(state, state)}{why}, {when}."


def outlook(status: Status, pace: Lately) -> str:
    """When the crawl will end at this rate."""
    rate = pace.pages
    if status.elapsed <= 10:
        return ""
    if not rate:
        due = (
            f" The next of what is deferred is due in {duration(status.next_due)}." if status.next_due else ""
        )
        return due if not status.pending else ""
    limit = max(status.page_limit - status.pages, 0) / rate if status.page_limit else None
    left = status.pending / rate
    if limit is not None and (limit <= left or status.left_behind):
        return f" At this rate its limit of {status.page_limit:,} pages is reached in {duration(limit)}."
    if not status.pending:
        return ""
    more = "; records left behind hold more" if status.left_behind else ", unless more links are found"
    return f" At this rate what is pending is done in {duration(left)}{more}."


def now(standing: Standing, whole: Sequence[Gauge], hour: Sequence[Gauge], bar: str = "") -> str:
    """The first page; `bar`: its buttons."""
    words = shown(standing, lately(hour or whole))
    cells = "".join(
        f'<div class="number"><b data-value="{name}">{text(words[name])}</b><span>{label}</span></div>'
        for name, label in _SHOWN
        if name in words and (standing.state == "running" or name not in _OF_A_RUN)
    )
    state = words["state"]
    return (
        f'<h1>Now <span class="state {state}" data-value="state">{state}</span></h1>'
        f'<p data-value="headline" aria-live="polite">{text(words["headline"])}</p>'
        '<p class="bad" role="status" data-gone hidden>lycosa serve does not answer: these numbers are old.</p>'
        f'{bar}{_progress(standing)}<div class="numbers">{cells}</div>'
        f'<div data-part="/part/now">{now_part(standing, whole, hour)}</div>'
    )


def _progress(standing: Standing) -> str:
    """The progress towards its limit of pages."""
    status = standing.status
    if status is None or not status.page_limit:
        return ""
    words = shown(standing, Lately())["done"]
    return (
        f'<div class="done"><label for="done" data-value="done">{words}</label>'
        f'<progress id="done" max="{status.page_limit}" value="{min(status.pages, status.page_limit)}">'
        "</progress></div>"
    )


def now_part(standing: Standing, whole: Sequence[Gauge], hour: Sequence[Gauge]) -> str:
    """The part of the first page that is requested repeatedly: charts and tables."""
    charts = _charts("The whole crawl", whole)
    if len(whole) > 1 and seconds_of(whole[-1].at) - seconds_of(whole[0].at) > 1.2 * HOUR:
        charts = _charts("The last hour", hour) + charts
    return charts + _answers(standing) + _ahead(standing) + _memory(standing) + _parts(standing)


def rates(gauges: Sequence[Gauge], values: Sequence[int]) -> list[float]:
    """How fast a count grew, at each moment; none where a run begins or ends, or a count restarts."""
    found = [0.0]
    for before, row, first, last in zip(gauges, gauges[1:], values, values[1:], strict=False):
        span = seconds_of(row.at) - seconds_of(before.at)
        found.append(max(last - first, 0) / span if span > 0 and before.running and row.running else 0.0)
    return found


def _charts(title: str, gauges: Sequence[Gauge]) -> str:
    if len(gauges) < 2:
        return ""
    times = [seconds_of(row.at) for row in gauges]
    span = times[0], times[-1]
    waiting = {
        "URLs pending": [float(row.pending) for row in gauges],
        "records left behind": [float(row.left_behind) for row in gauges],
        "URLs deferred": [float(row.deferred) for row in gauges],
    }
    visits = {
        "visits": [float(row.visits) for row in gauges],
        "hosts with URLs": [float(row.hosts) for row in gauges],
    }
    errors = {"": rates(gauges, [row.errors for row in gauges])}
    plots = [
        plot("Pages per second", span, times, {"": rates(gauges, [row.pages for row in gauges])}, number),
        plot("Bytes per second", span, times, {"": rates(gauges, [row.bytes for row in gauges])}, size),
        plot("Waiting", span, times, waiting, number),
        plot("Under way", span, times, visits, number),
        plot("Failed attempts per second", span, times, errors, number),
        plot("Memory", span, times, {"": [float(row.rss) for row in gauges]}, size),
    ]
    return f'<h2>{title}</h2><div class="plots">{"".join(plots)}</div>'


def _answers(standing: Standing) -> str:
    if standing.status is None:
        return ""
    groups = (
        ("Answers by status", standing.status.statuses, True),
        ("Skipped, by reason", standing.status.skipped, False),
        ("Failed attempts", standing.status.errors, False),
    )
    found = [
        bars(
            title,
            _sorted(counts),
            (lambda name: f"s{family(name.replace('xx', '00'))}") if coloured else None,
        )
        for title, counts, coloured in groups
        if counts
    ]
    return f'<h2>Answers</h2><div class="bars">{"".join(found)}</div>' if found else ""


def _sorted(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _ahead(standing: Standing) -> str:
    if standing.status is None or standing.state != "running" or not standing.status.ahead:
        return ""
    rows: list[list[Cell]] = [
        [
            ("u", f'<a href="/sites?q={quote(row.host, safe="")}">{text(row.host or "files")}</a>'),
            ("n", f"{row.queued:,}"),
            ("n", f"in {row.wait:,.1f} s" if row.wait else "now" if row.why == "ready" else "–"),
            ("w", text(row.why)),
        ]
        for row in standing.status.ahead
    ]
    return "<h2>What comes next</h2>" + table(("Host", "#URLs pending", "#May be asked", "Why"), rows)


def _memory(standing: Standing) -> str:
    status = standing.status
    if status is None or standing.state != "running":
        return ""
    meters = status.meters
    rows = [
        (name, used, limit)
        for name, used, limit in (
            ("All of it", float(status.rss), float(status.memory_limit)),
            ("Frontier", meters.get("frontier.used", 0.0), meters.get("frontier.limit", 0.0)),
            ("Seen URLs", meters.get("seen.bytes", 0.0), meters.get("seen.limit", 0.0)),
        )
        if limit
    ]
    lines = "".join(
        f'<div class="bar"><span class="name">{name}</span>'
        '<svg class="track" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{"s5" if used > 0.9 * limit else ""}" width="{min(100 * used / limit, 100):.1f}" height="1"'
        "/>"
        f'</svg><span class="count">{size(round(used))} <small>of {size(round(limit))}</small></span></div>'
        for name, used, limit in rows
    )
    return (
        f'<h2>Memory</h2><figure class="memory"><figcaption>Used, of what may be</figcaption>{lines}</figure>'
        if rows
        else ""
    )


def _parts(standing: Standing) -> str:
    status = standing.status
    if status is None or standing.state != "running":
        return ""
    found = ""
    if status.agents:
        rows: list[list[Cell]] = [
            [
                ("", text(row.agent)),
                ("n", f"{row.pid}"),
                ("n", f"{row.visits:,}"),
                ("n", size(row.rss)),
                ("n", duration(row.cpu) if row.cpu else "–"),
            ]
            for row in status.agents
        ]
        found += "<h2>Agents</h2>" + table(
            ("Agent", "#Process", "#Visits", "#Memory", "#Time of a core"), rows
        )
    if len(status.shards) > 1:
        lines: list[list[Cell]] = [
            [
                ("n", f"{row.shard}"),
                *([("", text(row.agent))] if status.agents else []),
                ("n", f"{row.pages:,}"),
                ("n", f"{row.pending:,}"),
                ("n", f"{row.left_behind:,}"),
                ("n", f"{row.deferred:,}"),
                ("n", f"{row.visits:,}"),
            ]
            for row in status.shards
        ]
        heads = (
            "#Shard",
            *(["Agent"] if status.agents else []),
            "#Pages",
            "#Pending",
            "#Left behind",
            "#Deferred",
        )
        folded = table((*heads, "#Visits"), lines)
        found += f"<h2>Shards</h2><details><summary>{plural(len(lines), 'shard')}</summary>{folded}</details>"
    return found


def duration(seconds: float) -> str:
    """A time in its two largest units."""
    left = round(max(seconds, 0.0))
    words: list[str] = []
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if left >= unit or (unit == 1 and not words):
            words.append(plural(left // unit, name))
            left %= unit
        elif words:
            break
        if len(words) == 2:
            break
    return " ".join(words)
