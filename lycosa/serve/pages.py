"""The pages: from answers to HTML. No I/O; what came from a site passes `lycosa.ask.html_parts.text`.

Every page works without scripts. With them the numbers that have a `data-value` follow the crawl (`/events`), and
the parts that have a `data-part` are asked for anew now and then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from lycosa.ask.explain import Explanation
from lycosa.ask.html_parts import (
    bars,
    family,
    link,
    moment,
    ms,
    number,
    plot,
    plural,
    short,
    size,
    table,
    tag,
    text,
)
from lycosa.ask.json_form import iso
from lycosa.ask.report import Gauge
from lycosa.ask.report_time import seconds_of
from lycosa.ask.standing import Standing
from lycosa.crawl.status import Status
from lycosa.records import Robots
from lycosa.serve.sites import COLUMNS, PER_PAGE, SiteRow

MENU = (("/", "Now"), ("/sites", "Sites"), ("/url", "A URL"), ("/search", "Search"), ("/report", "Report"))
_HEADS = {
    "site": "Site",
    "pages": "#Pages",
    "fetches": "#Fetches",
    "bytes": "#Bytes",
    "errors": "#Errors",
    "skipped": "#Skipped",
    "mean_ms": "#Mean time",
    "last": "Last fetch",
}
_SHOWN = (
    ("pages", "pages"),
    ("rate", "pages per second, this run"),
    ("bytes", "transferred"),
    ("pending", "URLs pending"),
    ("left_behind", "records left behind"),
    ("deferred", "URLs deferred"),
    ("visits", "visits under way"),
    ("hosts", "hosts with URLs pending"),
    ("duplicates", "duplicates"),
    ("memory", "of memory"),
)


def frame(title: str, body: str, *, here: str, crawl: str) -> str:
    """A whole page."""
    menu = "".join(
        f'<a href="{path}"{" aria-current=page" if path == here else ""}>{name}</a>' for path, name in MENU
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="robots" content="noindex">'
        f"<title>{text(title)} · lycosa</title>"
        '<link rel="stylesheet" href="/static/style.css"><link rel="icon" href="data:,">'
        '<script src="/static/page.js" defer></script></head><body>'
        f'<a class="skip" href="#content">To the content</a>'
        f'<div class="top"><b>lycosa</b><nav aria-label="Pages">{menu}</nav>'
        f'<span class="crawl">{text(short(crawl, 60))}</span></div>'
        f'<main id="content">{body}</main></body></html>\n'
    )


# -- now


def shown(standing: Standing) -> dict[str, str]:
    """The numbers of the first page, as they are shown."""
    status = standing.status
    words = {"state": standing.state, "headline": headline(standing)}
    if status is None:
        totals = standing.totals
        if totals is None:
            return words
        return words | {
            "pages": f"{totals.pages:,}",
            "bytes": size(totals.size),
            "duplicates": f"{totals.duplicates:,}",
        }
    rate = status.pages_run / status.elapsed if status.elapsed else 0.0
    return words | {
        "pages": f"{status.pages:,}",
        "rate": f"{rate:,.1f}",
        "bytes": size(status.bytes),
        "pending": f"{status.pending:,}",
        "left_behind": f"{status.left_behind:,}",
        "deferred": f"{status.deferred:,}",
        "visits": f"{status.visits:,}" if standing.state == "running" else "0",
        "hosts": f"{status.hosts:,}",
        "duplicates": f"{status.duplicates:,}",
        "memory": f"{size(status.rss)} of {size(status.memory_limit)}"
        if status.memory_limit
        else size(status.rss),
    }


def headline(standing: Standing) -> str:
    """The crawl in one sentence."""
    status, state = standing.status, standing.state
    if state == "running":
        if status is None or status.pid != standing.process:
            return "The crawl begins: it recovers, or has only just been started."
        return f"The crawl has been running for {duration(status.elapsed)}.{_outlook(status)}"
    if state == "killed":
        return "The crawl's process was killed. Nothing that was committed is lost: the same command goes on."
    if status is None:
        return "The crawl is not running."
    when = moment(iso(int(status.at * 1000)))
    why = f" ({status.reason})" if status.reason else ""
    return f"The crawl is not running: {state}{why}, {when}."


def _outlook(status: Status) -> str:
    rate = status.pages_run / status.elapsed if status.elapsed > 10 else 0.0
    if status.page_limit and rate:
        left = max(status.page_limit - status.pages, 0) / rate
        return f" At this rate its limit of {status.page_limit:,} pages is reached in {duration(left)}."
    if status.pending and rate:
        return f" What is pending now would take {duration(status.pending / rate)} at this rate."
    return ""


def now(standing: Standing, gauges: Sequence[Gauge]) -> str:
    """The first page."""
    words = shown(standing)
    cells = "".join(
        f'<div class="number"><b data-value="{name}">{text(words[name])}</b><span>{label}</span></div>'
        for name, label in _SHOWN
        if name in words
    )
    state = words["state"]
    return (
        f'<h1>Now <span class="state {state}" data-value="state">{state}</span></h1>'
        f'<p data-value="headline" aria-live="polite">{text(words["headline"])}</p>'
        f'<div class="numbers">{cells}</div>'
        f'<div data-part="/part/now">{now_part(standing, gauges)}</div>'
    )


def now_part(standing: Standing, gauges: Sequence[Gauge]) -> str:
    """What of the first page is asked for anew: charts and tables."""
    return _charts(gauges) + _answers(standing)


def _charts(gauges: Sequence[Gauge]) -> str:
    if len(gauges) < 2:
        return ""
    times = [seconds_of(row.at) for row in gauges]
    span = times[0], times[-1]
    waiting = {
        "URLs pending": [float(row.pending) for row in gauges],
        "records left behind": [float(row.left_behind) for row in gauges],
        "URLs deferred": [float(row.deferred) for row in gauges],
    }
    plots = [
        plot("Active visits", span, times, {"": [float(row.visits) for row in gauges]}, number),
        plot("Waiting", span, times, waiting, number),
        plot("Hosts with URLs pending", span, times, {"": [float(row.hosts) for row in gauges]}, number),
        plot("Memory of the process", span, times, {"": [float(row.rss) for row in gauges]}, size),
    ]
    return f'<h2>Over time</h2><div class="plots">{"".join(plots)}</div>'


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


# -- sites


def sites(
    rows: Sequence[SiteRow], *, count: int, search: str, sort: str, up: bool, page: int, behind: bool
) -> str:
    """The table of sites."""

    def address(**changed: object) -> str:
        values = {"q": search, "sort": sort, "up": int(up), "page": page} | changed
        return "/sites?" + urlencode({name: str(value) for name, value in values.items() if value})

    heads = []
    for column in COLUMNS:
        title = _HEADS[column].lstrip("#")
        mark = (" ↑" if up else " ↓") if column == sort else ""
        turned = int(not up) if column == sort else int(column == "site")
        html = f'<a href="{text(address(sort=column, up=turned, page=0))}">{title}{mark}</a>'
        heads.append(("#" if _HEADS[column].startswith("#") else "") + html)
    body = table(
        heads,
        [
            [
                ("u", f'<a href="{text(site_address(row.site))}">{text(short(row.site))}</a>'),
                ("n", f"{row.pages:,}"),
                ("n", f"{row.fetches:,}"),
                ("n", size(row.bytes)),
                ("n", f"{row.errors:,}"),
                ("n", f"{row.skipped:,}"),
                ("n", ms(row.mean_ms)),
                ("", moment(iso(row.last)) if row.last else ""),
            ]
            for row in rows
        ],
    )
    last = max((count - 1) // PER_PAGE, 0)
    steps = [
        f'<a href="{text(address(page=page - 1))}" rel="prev">← before</a>' if page > 0 else "",
        f"{min(page * PER_PAGE + 1, count):,} to {min((page + 1) * PER_PAGE, count):,} of {plural(count, 'site')}",
        f'<a href="{text(address(page=page + 1))}" rel="next">after →</a>' if page < last else "",
    ]
    note = '<p class="soft">The log is still being read: numbers grow.</p>' if behind else ""
    return (
        "<h1>Sites</h1>"
        f'<form class="ask" action="/sites"><label for="q">Find a site</label>'
        f'<input id="q" name="q" type="search" value="{text(search)}" placeholder="part of its name">'
        f'<input type="hidden" name="sort" value="{text(sort)}"><button>Find</button></form>'
        f"{note}{body}<p class=steps>{' '.join(step for step in steps if step)}</p>"
    )


def site_address(site: str) -> str:
    return f"/site?s={quote(site, safe='')}"


def url_address(url: str) -> str:
    return f"/url?u={quote(url, safe='')}"


def site(row: SiteRow, reasons: Sequence[tuple[str, int]], robots: Robots | None) -> str:
    """One site."""
    cells = (
        (f"{row.pages:,}", "pages"),
        (f"{row.fetches:,}", "fetches"),
        (size(row.bytes), "transferred"),
        (f"{row.errors:,}", "answers with errors"),
        (f"{row.skipped:,}", "URLs skipped"),
        (ms(row.mean_ms), "mean time of a fetch"),
    )
    numbers = "".join(
        f'<div class="number"><b>{value}</b><span>{label}</span></div>' for value, label in cells
    )
    when = f"<p>Fetched from {moment(iso(row.first))} to {moment(iso(row.last))}.</p>" if row.last else ""
    why = f'<div class="bars">{bars("Skipped, by reason", reasons)}</div>' if reasons else ""
    return (
        f"<h1>{link(row.site)}</h1>{when}"
        f'<div class="numbers">{numbers}</div>{why}<h2>robots.txt</h2>{_robots(robots)}'
        f'<p><a href="{text(url_address(row.site + "/"))}">What happened to its first page</a></p>'
    )


def _robots(robots: Robots | None) -> str:
    if robots is None:
        return '<p class="soft">It was not asked for yet.</p>'
    told = f"status {robots.status}" if robots.status else "no answer"
    detail = f", {robots.detail}" if robots.detail and robots.detail != told else ""
    delay = f"; Crawl-delay {robots.delay:g} s" if robots.delay else ""
    lines = robots.body.decode("utf-8", "replace").splitlines()
    rows = "".join(f"<li>{text(line[:500])}</li>" for line in lines[:1000])
    more = f"<p class=soft>and {plural(len(lines) - 1000, 'line')} more</p>" if len(lines) > 1000 else ""
    file = f'<ol class="file">{rows}</ol>{more}' if lines else ""
    until = "asked for again after" if robots.unreachable else "valid until"
    return (
        f"<p>Read {moment(iso(robots.at))} ({text(told + detail)}), {until}"
        f" {moment(iso(robots.expires))}{delay}.</p>{file}"
    )


# -- a URL


def ask_url(problem: str = "") -> str:
    """The form that asks for one."""
    told = f'<p class="bad" role="alert">{text(problem)}</p>' if problem else ""
    return f"<h1>What happened to a URL?</h1>{_url_form('')}{told}"


def _url_form(url: str) -> str:
    return (
        '<form class="ask" action="/url"><label for="u">A URL</label>'
        f'<input id="u" name="u" type="search" value="{text(url)}" placeholder="https://example.org/page">'
        "<button>Explain</button></form>"
    )


def explanation(found: Explanation) -> str:
    """All that is known of a URL: the answer, the path from a seed, each decision with its evidence."""
    parts = [
        f"<h1>{text(short(found.url))}</h1>{_url_form(found.url)}",
        f'<p class="answer"><span class="state {found.state.split()[0]}">{found.state}</span>'
        f" {text(found.why)}</p>",
    ]
    if found.first is not None:
        steps = "".join(f"<li>{_step(url)}</li>" for url in (*found.path, found.url))
        first = found.first
        words = f" with the text <q>{text(short(first.text, 80))}</q>" if first.text else ""
        nofollow = ", nofollow" if first.nofollow else ""
        parts.append(
            f'<h2>How it was found</h2><ol class="path">{steps}</ol>'
            f"<p>First {moment(iso(first.at))}, as {text(first.kind)}{nofollow}{words}, at depth {first.depth};"
            f" {plural(found.discoveries, 'link')} to it in all.</p>"
        )
    parts.append(
        f"<h2>May it be fetched?</h2><ul><li>Scope: {'inside' if found.inside else 'outside'},"
        f" {text(found.scope)}.</li>{_rule(found)}</ul>"
    )
    parts.append(_events(found))
    if found.duplicates:
        same = "".join(f"<li>{_step(url)}</li>" for url in found.duplicates)
        parts.append(f"<h2>The same content</h2><ul>{same}</ul>")
    if any(fetch.stored is not None for fetch in found.fetches):
        address = text(f"/archived?u={quote(found.url, safe='')}")
        parts.append(
            "<h2>The page in the archive</h2>"
            '<p class="soft">As it was sent. It runs no script and loads nothing: images and styles of its own'
            " files are missing.</p>"
            f'<iframe sandbox="" src="{address}" title="The archived page" loading="lazy"></iframe>'
        )
    parts.append(f'<p class="soft">Key {found.key}, shard {found.shard}.</p>')
    return "".join(parts)


def _step(url: str) -> str:
    """A URL, as a link to what is known of it; or a word that stands for none."""
    return f'<a href="{text(url_address(url))}">{text(short(url))}</a>' if "://" in url else text(url)


def _rule(found: Explanation) -> str:
    view = found.robots
    if view is None:
        return "<li>robots.txt: not asked for yet.</li>"
    if view.unreachable:
        return (
            "<li>robots.txt could not be had, so that nothing may be fetched; it is asked for again after"
            f" {moment(iso(view.expires))}.</li>"
        )
    rule = f"line {view.line}, <code>{text(view.rule)}</code>" if view.line else "no rule applies"
    verdict = "allowed" if view.allowed else "forbidden"
    return f"<li>robots.txt, as read {moment(iso(view.at))}: {verdict}, {rule}.</li>"


def _events(found: Explanation) -> str:
    rows: list[tuple[int, list[tuple[str, str]]]] = []
    for fetch in found.fetches:
        marks = [name for name in ("noindex", "duplicate") if getattr(fetch, name)]
        title = f"<br><span class=soft>{text(short(fetch.title))}</span>" if fetch.title else ""
        detail = f"{text(fetch.type or 'no type')}, {size(fetch.size)} in {ms(fetch.timing.total)}" + "".join(
            f", {mark}" for mark in marks
        )
        rows.append((fetch.at, [("", "fetched"), ("", tag(fetch.status)), ("u", detail + title)]))
    rows += [
        (skip.at, [("", "skipped"), ("", text(skip.why)), ("u", text(skip.detail))]) for skip in found.skips
    ]
    for wait in found.deferrals:
        until = f"attempt {wait.attempt}, until {moment(iso(wait.due))}"
        detail = f"{text(wait.detail)}; {until}" if wait.detail else until
        rows.append((wait.at, [("", "deferred"), ("", text(wait.why)), ("u", detail)]))
    if not rows:
        return ""
    rows.sort(key=lambda row: row[0])
    lines = [[("", moment(iso(at))), *cells] for at, cells in rows]
    return "<h2>What happened</h2>" + table(("When", "What", "Outcome", "Details"), lines)


# -- texts


def duration(seconds: float) -> str:
    """A time in the two largest units that it has."""
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


def problem(title: str, words: str) -> str:
    """A page for what did not work."""
    return f"<h1>{text(title)}</h1><p>{text(words)}</p>"
