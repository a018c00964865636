"""The report as one HTML page: no scripts, nothing loaded from elsewhere, light or dark as the system is.

Everything that came from a site (titles, URLs, types, link texts, details) is escaped, and control characters
are shown as marks. Only http and https URLs become links, and those send no referrer. A policy in the page's
head forbids everything but its own style, should anything slip through.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources

from lycosa.ask.report import BrokenLink, Chain, Count, PageRow, Reason, Report, SiteRow
from lycosa.ask.report_time import seconds_of

_LONGEST = 160
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_BARS = 12

Cell = tuple[str, str]  # class, HTML


def render(report: Report) -> str:
    """The page."""
    css = resources.files("lycosa.ask").joinpath("report.css").read_text(encoding="utf-8")
    sections = [
        ("time", "Over time", _over_time(report)),
        ("answers", "Answers", _answers(report)),
        ("broken", "Broken links", _broken(report)),
        ("trouble", "Errors and skipped URLs", _trouble(report)),
        ("sites", "Sites", _sites(report)),
        ("pages", "Slow and large pages", _pages(report)),
        ("redirects", "Redirects", _redirects(report)),
        ("duplicates", "Duplicates", _duplicates(report)),
        ("robots", "Robots rules", _robots(report)),
    ]
    shown = [(name, title, body) for name, title, body in sections if body]
    menu = " ".join(f'<a href="#{name}">{title}</a>' for name, title, _ in shown)
    parts = "".join(f'<section id="{name}"><h2>{title}</h2>{body}</section>' for name, title, body in shown)
    notes = "".join(f"<p>{_text(note)}</p>" for note in report.notes)
    title = _title(report)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><meta name="robots" content="noindex">'
        f"<title>{_text(title)}: crawl report</title><style>{css}</style></head><body><main>"
        f"<header><h1>{_text(title)}</h1>{_about(report)}</header>{_numbers(report)}<nav>{menu}</nav>{parts}"
        f"<footer>{notes}<p>Crawl {_text(report.crawl)} in {_text(report.directory)}, "
        f"{report.records:,} records in {report.shards} shards; written {_moment(report.generated)}.</p>"
        "</footer></main></body></html>\n"
    )


# -- sections


def _title(report: Report) -> str:
    return report.seeds[0] if report.seeds else report.directory


def _about(report: Report) -> str:
    more = f", from {_plural(report.seed_count, 'seed')}" if report.seed_count > 1 else ""
    state = " The crawl is still running." if report.running else ""
    when = (
        f"Crawled {_moment(report.began)} to {_moment(report.ended)}"
        if report.began
        else "Nothing fetched yet"
    )
    agent = f" as {_text(report.user_agent)}" if report.user_agent else ""
    return f'<p class="soft">{when}{agent}{more}.{state}</p>'


def _numbers(report: Report) -> str:
    errors = sum(row.pages for row in report.statuses if row.name >= "400")
    speed = report.fetches / report.seconds if report.seconds else 0.0
    rows = [
        (f"{report.pages:,}", "page" if report.pages == 1 else "pages", False),
        *([(f"{report.fetches:,}", "fetches", False)] if report.fetches != report.pages else []),
        (f"{report.sites:,}", "site" if report.sites == 1 else "sites", False),
        *([(f"{report.silent_sites:,}", "sites without a page", False)] if report.silent_sites else []),
        (_size(report.bytes), "transferred", False),
        (f"{report.links:,}", "link found" if report.links == 1 else "links found", False),
        (f"{speed:,.1f}/s" if speed else "–", "pages on average", False),
        (_ms(report.median_ms), "median fetch", False),
        (f"{errors:,}", "answer with an error" if errors == 1 else "answers with errors", errors > 0),
        (
            f"{report.broken.urls:,}",
            "broken URL" if report.broken.urls == 1 else "broken URLs",
            report.broken.urls > 0,
        ),
    ]
    cells = (
        f'<div class="number{" bad" if bad else ""}"><b>{value}</b><span>{name}</span></div>'
        for value, name, bad in rows
    )
    return f'<div class="numbers">{"".join(cells)}</div>'


def _over_time(report: Report) -> str:
    stretches = [seconds_of(row.at) for row in report.timeline]
    moments = [seconds_of(row.at) for row in report.gauges]
    span = min((*stretches, *moments), default=0.0), max((*stretches, *moments), default=0.0)
    plots = []
    if len(stretches) > 1:
        pages = [row.pages / row.seconds for row in report.timeline]
        sizes = [row.bytes / row.seconds for row in report.timeline]
        plots.append(_plot("Pages per second", span, stretches, {"": pages}, _number))
        plots.append(_plot("Bytes per second", span, stretches, {"": sizes}, _size))
    if len(moments) > 1:
        rows, active = report.gauges, report.active
        words = f": mean {active.mean:,.1f}"
        if active.limit:
            words += f" of {active.limit:,}, half or more {active.half:.0%} of the time"
        visits = {"": [float(row.visits) for row in rows]}
        plots.append(_plot(f"Active visits{words}", span, moments, visits, _number, active.limit))
        waiting = {
            "URLs pending": [float(row.pending) for row in rows],
            "records left behind": [float(row.left_behind) for row in rows],
            "URLs deferred": [float(row.deferred) for row in rows],
        }
        plots.append(_plot("Waiting", span, moments, waiting, _number))
        hosts = {"": [float(row.hosts) for row in rows]}
        plots.append(_plot("Hosts with URLs pending", span, moments, hosts, _number))
        memory = {"": [float(row.rss) for row in rows]}
        plots.append(_plot("Memory of the process", span, moments, memory, _size))
    return f'<div class="plots">{"".join(plots)}</div>' if plots else ""


def _answers(report: Report) -> str:
    if not report.pages:
        return ""
    bars = (
        _bars("By status", report.statuses, lambda name: f"s{_family(name)}"),
        _bars("By media type", report.types),
        _bars("By depth", report.depths),
    )
    return f'<div class="bars">{"".join(bars)}</div>'


def _broken(report: Report) -> str:
    broken = report.broken
    if not broken.urls:
        return '<p class="soft">None: every link that was followed led somewhere.</p>' if report.pages else ""
    more = (
        f", of which the {len(broken.shown):,} most linked are listed"
        if broken.urls > len(broken.shown)
        else ""
    )
    links = "1 link leads" if broken.links == 1 else f"{broken.links:,} links lead"
    lead = f"<p>{_plural(broken.urls, 'URL')} gave an error or no answer{more}; {links} there.</p>"
    rows = [
        [("u", _broken_cell(row)), ("", _tag(row.status)), ("n", f"{row.links:,}")] for row in broken.shown
    ]
    return lead + _table(("URL, and the pages that link to it", "Status", "#Pages"), rows)


def _broken_cell(row: BrokenLink) -> str:
    reason = f' <span class="soft">{_text(row.why)}</span>' if not row.status else ""
    items = "".join(
        f"<li>{_link(holder.url)}{f' <q>{_text(_short(holder.text))}</q>' if holder.text.strip() else ''}"
        f"{'' if holder.kind == 'anchor' else f' ({_text(holder.kind)})'}</li>"
        for holder in row.holders
    )
    if row.links > len(row.holders):
        items += f"<li>and {row.links - len(row.holders):,} more</li>"
    return f"{_link(row.url)}{reason}{f'<ul class=from>{items}</ul>' if items else ''}"


def _trouble(report: Report) -> str:
    parts = []
    if report.errors:
        parts.append("<h3>Failed attempts</h3>" + _reasons("Error", report.errors))
    if report.skipped:
        parts.append("<h3>Skipped, by reason</h3>" + _reasons("Reason", report.skipped))
    if report.deferred:
        rows = [
            [
                ("", _text(row.name)),
                ("n", f"{row.times:,}"),
                ("n", f"{row.waiting:,}"),
                ("", _moment(row.next_due) if row.next_due else ""),
            ]
            for row in report.deferred
        ]
        parts.append("<h3>Put off</h3>" + _table(("Reason", "#Times", "#Still waiting", "Next due"), rows))
    if report.truncated.pages:
        limits = ", ".join(f"{_text(name)} {n:,}" for name, n in report.truncated.by_limit.items())
        parts.append(f"<h3>Bodies cut short ({limits})</h3>" + _page_table(report.truncated.largest))
    return "".join(parts)


def _sites(report: Report) -> str:
    if not report.largest_sites and not report.troubled_sites:
        return ""
    parts = ["<h3>Largest</h3>", _site_table(report.largest_sites)]
    if report.troubled_sites:
        parts += ["<h3>Most errors</h3>", _site_table(report.troubled_sites)]
    if report.slowest_sites and report.sites > 1:
        parts += ["<h3>Slowest, by median</h3>", _site_table(report.slowest_sites)]
    return "".join(parts)


def _pages(report: Report) -> str:
    if not report.slowest:
        return ""
    return f"<h3>Slowest</h3>{_page_table(report.slowest)}<h3>Largest</h3>{_page_table(report.largest)}"


def _redirects(report: Report) -> str:
    found = report.redirects
    if not found.pages:
        return ""
    lengths = ", ".join(f"{n:,} of {_plural(hops, 'hop')}" for hops, n in sorted(found.lengths.items()))
    parts = [f"<p>{_plural(found.pages, 'redirect')}{f'; chains: {lengths}' if lengths else ''}.</p>"]
    if found.loops:
        parts.append(f"<h3>Loops ({found.loop_count:,})</h3>{_chains(found.loops)}")
    if found.chains:
        parts.append(f"<h3>Longest chains</h3>{_chains(found.chains)}")
    return "".join(parts)


def _chains(chains: Iterable[Chain]) -> str:
    rows: list[list[Cell]] = []
    for chain in chains:
        steps = "".join(f"<li>{_link(url)}</li>" for url in chain.urls)
        rows.append([("u", f"<ol class=chain>{steps}</ol>"), ("n", f"{chain.hops:,}")])
    return _table(("URLs", "#Hops"), rows)


def _duplicates(report: Report) -> str:
    found = report.duplicates
    if not found.largest:
        return ""
    rows: list[list[Cell]] = []
    for group in found.largest:
        items = "".join(f"<li>{_link(url)}</li>" for url in group.urls)
        if group.pages > len(group.urls):
            items += f"<li>and {group.pages - len(group.urls):,} more</li>"
        title = _text(_short(group.title)) or '<span class="soft">no title</span>'
        cell = f"{title}<ul class=from>{items}</ul>"
        rows.append([("u", cell), ("n", f"{group.pages:,}"), ("n", _size(group.bytes))])
    groups = _plural(found.groups, "group")
    lead = f"<p>{_plural(found.pages, 'page')} had the content of another one, in {groups}.</p>"
    return lead + _table(("Content", "#Pages", "#Size of one"), rows)


def _robots(report: Report) -> str:
    found = report.robots
    if not found.files:
        return ""
    statuses = ", ".join(f"{_text(row.name)}: {row.count:,}" for row in found.statuses)
    files = f"robots.txt was asked for {_plural(found.files, 'time')} ({statuses})"
    lead = f"<p>{files}; {_plural(found.forbidden_urls, 'URL')} forbidden.</p>"
    rows = [
        [
            ("u", _link(row.site)),
            ("", _text(_short(row.rule))),
            ("n", f"{row.urls:,}"),
            ("u", _link(row.example)),
        ]
        for row in found.forbidden
    ]
    return lead + (_table(("Site", "Rule", "#URLs", "For example"), rows) if rows else "")


# -- tables and bars


def _table(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table; heads that begin with # are of numbers."""
    head = "".join(f'<th class="n">{h[1:]}</th>' if h.startswith("#") else f"<th>{h}</th>" for h in heads)
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{kind}">{html}</td>' if kind else f"<td>{html}</td>" for kind, html in row)
        + "</tr>"
        for row in rows
    )
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _site_table(rows: Iterable[SiteRow]) -> str:
    return _table(
        ("Site", "#Pages", "#Bytes", "#Errors", "#No answer", "#Median", "#Slowest"),
        (
            [
                ("u", _link(row.site)),
                ("n", f"{row.pages:,}"),
                ("n", _size(row.bytes)),
                ("n", f"{row.errors:,}"),
                ("n", f"{row.failed:,}"),
                ("n", _ms(row.median_ms)),
                ("n", _ms(row.slowest_ms)),
            ]
            for row in rows
        ),
    )


def _page_table(rows: Iterable[PageRow]) -> str:
    return _table(
        ("Page", "Status", "Type", "#Time", "#Sent", "#Decoded"),
        (
            [
                (
                    "u",
                    _link(row.url)
                    + (f'<br><span class="soft">{_text(_short(row.title))}</span>' if row.title else ""),
                ),
                ("", _tag(row.status)),
                ("", _text(_short(row.type, 40))),
                ("n", _ms(row.total_ms)),
                ("n", _size(row.bytes)),
                ("n", _size(row.length)),
            ]
            for row in rows
        ),
    )


def _reasons(name: str, rows: Iterable[Reason]) -> str:
    return _table(
        (name, "#Count", "For example"),
        (
            [("", _text(row.name)), ("n", f"{row.count:,}"), ("u", "<br>".join(map(_link, row.examples)))]
            for row in rows
        ),
    )


def _bars(title: str, rows: Sequence[Count], colour: Callable[[str], str] | None = None) -> str:
    total = sum(row.pages for row in rows) or 1
    most = max((row.pages for row in rows), default=1) or 1
    shown, rest = rows[:_BARS], rows[_BARS:]
    if rest:
        others = Count(name=f"{len(rest)} more", pages=sum(row.pages for row in rest))
        shown, most = [*shown, others], max(most, others.pages)
    lines = "".join(
        f'<div class="bar"><span class="name" title="{_text(row.name)}">{_text(_short(row.name, 60))}</span>'
        f'<span class="track"><i class="{colour(row.name) if colour else ""}"'
        f' style="width:{100 * row.pages / most:.1f}%"></i></span>'
        f'<span class="count">{row.pages:,} <small>{100 * row.pages / total:.1f}%</small></span></div>'
        for row in shown
    )
    narrow = ' class="narrow"' if all(len(row.name) <= 6 for row in shown) else ""
    return f"<figure{narrow}><figcaption>{title}</figcaption>{lines}</figure>"


# -- plots

_W, _H, _LEFT, _RIGHT, _TOP, _BOTTOM = 520, 190, 56, 10, 10, 24


def _plot(
    title: str,
    span: tuple[float, float],
    times: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    show: Callable[[float], str],
    limit: float = 0.0,
) -> str:
    """Curves over time by name, as SVG: the first one filled, others only if they are anything; and a limit."""
    low, high = span[0], max(span[1], span[0] + 1e-3)
    shown = {name: curve for n, (name, curve) in enumerate(curves.items()) if not n or any(curve)}
    most = _round_up(max((max(curve) for curve in shown.values()), default=0.0))
    most = max(most, _round_up(limit) if limit else 0.0)
    width, height = _W - _LEFT - _RIGHT, _H - _TOP - _BOTTOM

    def x(at: float) -> float:
        return _LEFT + width * (at - low) / (high - low)

    def y(value: float) -> float:
        return _TOP + height * (1 - value / most)

    parts = []
    for step in range(5):
        value = most * step / 4
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_W - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        )
        if step % 2 == 0:
            parts.append(
                f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{_text(show(value))}</text>'
            )
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        at = low + (high - low) * share
        parts.append(
            f'<text x="{x(at):.1f}" y="{_H - 6}" text-anchor="{anchor}">{_clock(at, high - low)}</text>'
        )
    for number, curve in enumerate(shown.values()):
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in zip(times, curve, strict=True))
        if number == 0:
            base = f"{_TOP + height:.1f}"
            parts.append(
                f'<polygon class="area" points="{x(times[0]):.1f},{base} {points} {x(times[-1]):.1f},{base}"/>'
            )
        parts.append(f'<polyline class="curve c{number}" points="{points}"/>')
    if limit:
        end = _W - _RIGHT
        parts.append(f'<line class="limit" x1="{_LEFT}" x2="{end}" y1="{y(limit):.1f}" y2="{y(limit):.1f}"/>')
        words = f"{_text(show(limit))} allowed"
        parts.append(f'<text x="{end - 4}" y="{y(limit) + 13:.1f}" text-anchor="end">{words}</text>')
    drawing = f'<svg viewBox="0 0 {_W} {_H}" role="img" aria-label="{title}">{"".join(parts)}</svg>'
    keys = "".join(f'<span class="key c{n}">{name}</span>' for n, name in enumerate(shown) if name)
    return f"<figure><figcaption>{title}{keys}</figcaption>{drawing}</figure>"


def _round_up(value: float) -> float:
    """The next number that is 1, 2, 4 or 8 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** len(str(int(value)))
    while power / 10 >= value:
        power /= 10
    return next((power * part for part in (0.1, 0.2, 0.4, 0.8, 1.0) if power * part >= value), power)


def _clock(at: float, span: float) -> str:
    when = datetime.fromtimestamp(at, UTC)
    if span < 600:
        return when.strftime("%H:%M:%SZ")
    return when.strftime("%H:%MZ" if span < 86_400 else "%b %d %H:%MZ")


# -- texts


def _text(text: str) -> str:
    """Escaped; what has no shape (control and direction characters) becomes a mark."""
    if not text.isprintable():
        text = "".join(
            "\ufffd" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn") else char
            for char in text
        )
    return escape(text, quote=True)


def _short(text: str, most: int = _LONGEST) -> str:
    """Long texts without their middle."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[-most // 4 :]}"


def _link(url: str) -> str:
    shown = _text(_short(url))
    if not url.startswith(("http://", "https://")):
        return shown
    return f'<a href="{_text(url)}" rel="noreferrer nofollow noopener">{shown}</a>'


def _family(status: str) -> str:
    return status[0] if status[:1] in ("2", "3", "4", "5") and len(status) == 3 else "0"


def _tag(status: int) -> str:
    return f'<span class="tag t{_family(str(status))}">{status or "no answer"}</span>'


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _moment(at: str | None) -> str:
    return datetime.fromisoformat(at).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC") if at else "never"


def _ms(value: int) -> str:
    return f"{value:,} ms" if value < 10_000 else f"{value / 1000:,.1f} s"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count == int(count) else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
