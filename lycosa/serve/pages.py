"""The pages: from answers to HTML. No I/O; text that came from a site passes through `lycosa.ask.html_parts.text`.

Every page works without scripts. With them the numbers that have a `data-value` are updated live (`/events`), and
the parts that have a `data-part` are requested again now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import quote, urlencode

from lycosa.ask.explain import Explanation
from lycosa.ask.html_parts import (
    bars,
    clock,
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
from lycosa.crawl.status import Ahead
from lycosa.records import Robots
from lycosa.serve.sites import COLUMNS, PER_PAGE, SLOT, SiteRow

MENU = (
    ("/", "Now"),
    ("/sites", "Sites"),
    ("/url", "A URL"),
    ("/search", "Search"),
    ("/graph", "Graph"),
    ("/report", "Report"),
    ("/lab", "Lab"),
    ("/control", "Control"),
)
_LINKS = 50
_AT_ONCE = 2_000
"""Milliseconds: events within such a time are not worth a picture."""
_STRETCHES = 200
"""Most points of a curve."""
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
        '<script src="/static/page.js" defer></script>'
        + ('<noscript><meta http-equiv="refresh" content="2"></noscript>' if " data-waits" in body else "")
        + "</head><body>"
        f'<a class="skip" href="#content">To the content</a>'
        f'<header class="top"><b>lycosa</b><nav aria-label="Pages">{menu}</nav>'
        f'<span class="crawl">{text(short(crawl, 60))}</span></header>'
        f'<main id="content">{body}</main></body></html>\n'
    )


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
                ("w", moment(iso(row.last)) if row.last else ""),
            ]
            for row in rows
        ],
    )
    last = max((count - 1) // PER_PAGE, 0)
    steps = [
        f'<a href="{text(address(page=page - 1))}" rel="prev">← before</a>' if page > 0 else "",
        f"{page * PER_PAGE + 1:,} to {page * PER_PAGE + len(rows):,} of {plural(count, 'site')}"
        if rows
        else "",
        f'<a href="{text(address(page=page + 1))}" rel="next">after →</a>' if page < last else "",
    ]
    note = '<p class="soft" data-waits>The log is still being read: numbers grow.</p>' if behind else ""
    if not rows:
        body = f'<div class="empty">{"No site has this in its name." if search else "No sites yet."}</div>'
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


class SiteView(Protocol):
    """What is shown about a site: `lycosa.serve.app.Site`."""

    @property
    def row(self) -> SiteRow: ...
    @property
    def reasons(self) -> list[tuple[str, int]]: ...
    @property
    def robots(self) -> Robots | None: ...
    @property
    def rules(self) -> list[tuple[str, int]]: ...
    @property
    def waits(self) -> list[tuple[str, int]]: ...
    @property
    def statuses(self) -> list[tuple[str, int]]: ...
    @property
    def slots(self) -> list[tuple[int, int, int]]: ...
    @property
    def ahead(self) -> Ahead | None: ...


def site(found: SiteView, bar: str = "") -> str:
    """One site; `bar`: the available actions."""
    row = found.row
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
    queue = ""
    if found.ahead is not None:
        wait = f" It may be asked in {found.ahead.wait:,.1f} s." if found.ahead.wait else ""
        queue = (
            f"<p>{plural(found.ahead.queued, 'URL')} of its host pending: {text(found.ahead.why)}.{wait}</p>"
        )
    groups = (
        ("Answers by status", found.statuses, lambda name: f"s{family(name)}"),
        ("Skipped, by reason", found.reasons, None),
        ("Deferred, by reason", found.waits, None),
    )
    counted = "".join(bars(title, rows, colour) for title, rows, colour in groups if rows)
    return (
        f"<h1>{link(row.site)}</h1>{when}{queue}"
        f'<div class="numbers six">{numbers}</div><div class="plots">{_over_time(found.slots)}{counted}</div>'
        f"{bar}<h2>robots.txt</h2>{_hits(found.rules)}{_robots(found.robots, found.rules)}"
        f'<p><a href="{text(url_address(row.site + "/"))}">What happened to its first page</a></p>'
    )


def _over_time(slots: Sequence[tuple[int, int, int]]) -> str:
    """Fetches over time, including intervals without any."""
    if not slots:
        return ""
    counts = {at: (fetches, errors) for at, fetches, errors in slots}
    first, last = slots[0][0], slots[-1][0]  # their beginnings
    width = SLOT * max(-(-(last - first) // (_STRETCHES * SLOT)), 1)
    sums: dict[int, list[int]] = {at: [0, 0] for at in range(first, last + 1, width)}
    for at, (fetches, errors) in counts.items():
        row = sums[first + (at - first) // width * width]
        row[0] += fetches
        row[1] += errors
    minutes = width // 60_000
    # An interval has the same height from its beginning to its end.
    curves = {
        name: [float(row[column]) for row in sums.values() for _ in range(2)]
        for column, name in enumerate(("fetches", "errors"))
    }
    times = [edge / 1000 for at in sums for edge in (at, at + width)]
    title = f"Fetches in each stretch of {plural(minutes, 'minute')}"
    return plot(title, (times[0], times[-1]), times, curves, number)


def _hits(rules: Sequence[tuple[str, int]]) -> str:
    """The rules that forbade URLs."""
    if not rules:
        return ""
    return f'<div class="bars">{bars("URLs that were not fetched, by the rule that forbade", rules)}</div>'


def _robots(robots: Robots | None, rules: Sequence[tuple[str, int]]) -> str:
    if robots is None:
        return '<p class="soft">It was not asked for yet.</p>'
    told = f"status {robots.status}" if robots.status else "no answer"
    detail = f", {robots.detail}" if robots.detail and robots.detail != told else ""
    delay = f"; Crawl-delay {robots.delay:g} s" if robots.delay else ""
    lines = robots.body.decode("utf-8", "replace").splitlines()
    hits: dict[int, int] = {}
    for rule, count in rules:  # "line 3: Disallow: /private"
        line = rule.partition(":")[0].removeprefix("line ")
        if line.isascii() and line.isdigit() and len(line) < 8:
            hits[int(line)] = hits.get(int(line), 0) + count
    rows = "".join(
        f'<li class="hit">{text(line[:500])} <small>forbade {plural(hits[at], "URL")}</small></li>'
        if at in hits
        else f"<li>{text(line[:500])}</li>"
        for at, line in enumerate(lines[:1000], 1)
    )
    more = f"<p class=soft>and {plural(len(lines) - 1000, 'line')} more</p>" if len(lines) > 1000 else ""
    file = f'<ol class="file" tabindex="0" aria-label="robots.txt">{rows}</ol>{more}' if lines else ""
    until = "asked for again after" if robots.unreachable else "valid until"
    return (
        f"<p>Read {moment(iso(robots.at))} ({text(told + detail)}), {until}"
        f" {moment(iso(robots.expires))}{delay}.</p>{file}"
    )


# -- a URL


def ask_url(problem: str = "") -> str:
    """The form that asks for a URL."""
    told = f'<p class="bad" role="alert">{text(problem)}</p>' if problem else ""
    return f"<h1>What happened to a URL?</h1>{_url_form('')}{told}"


def _url_form(url: str) -> str:
    return (
        '<form class="ask" action="/url"><label for="u">A URL</label>'
        f'<input id="u" name="u" type="search" value="{text(url)}" placeholder="https://example.org/page">'
        "<button>Explain</button></form>"
    )


class LinksView(Protocol):
    """The pages that link to a URL, and those it links to: `lycosa.serve.graph.Neighbours`."""

    @property
    def count_in(self) -> int: ...
    @property
    def count_out(self) -> int: ...
    @property
    def into(self) -> list[str]: ...
    @property
    def out(self) -> list[str]: ...


def explanation(found: Explanation, links: LinksView | None = None, bar: str = "") -> str:
    """All that is known about a URL: the answer, the path from a seed, each decision with its evidence, its links.

    `bar`: the available actions.
    """
    parts = [
        f"<h1>{text(short(found.url))}</h1>{_url_form(found.url)}",
        f'<p class="answer"><span class="state {found.state.split()[0]}">{found.state}</span>'
        f" {text(found.why)}</p>{bar}",
    ]
    if found.first is not None:
        steps = "".join(f"<li>{_step(url)}</li>" for url in (*found.path, found.url))
        first = found.first
        words = f" with the text <q>{text(short(first.text, 80))}</q>" if first.text else ""
        nofollow = ", nofollow" if first.nofollow else ""
        parts.append(
            f'<h2>How it was found</h2><ol class="path">{steps}</ol>'
            f"<p>First {moment(iso(first.at))}, as {text(first.kind)}{nofollow}{words}, at depth {first.depth};"
            f" {'at least ' if found.more_discoveries else ''}{plural(found.discoveries, 'link')} to it.</p>"
        )
    parts.append(
        f"<h2>May it be fetched?</h2><ul><li>Scope: {'inside' if found.inside else 'outside'},"
        f" {text(found.scope)}.</li>{_rule(found)}</ul>"
    )
    parts.append(_timeline(found))
    parts.append(_events(found))
    parts.append(_links(found, links))
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


def _timeline(found: Explanation) -> str:
    """The history of the URL as a picture: a dot for each event, in three rows."""
    first = found.first.at if found.first is not None else 0
    dots = [
        (fetch.at, 0, f"s{family(str(fetch.status))}", f"fetched: {fetch.status}") for fetch in found.fetches
    ]
    dots += [(wait.at, 1, "s3", f"deferred: {wait.why}") for wait in found.deferrals]
    dots += [(skip.at, 2, "s5", f"skipped: {skip.why}") for skip in found.skips]
    moments = [at for at, *_ in dots] + ([first] if first else [])
    if len(moments) < 2 or max(moments) - min(moments) < _AT_ONCE:
        return ""
    low, high = min(moments), max(max(moments), min(moments) + 1)

    def x(at: int) -> float:
        return 84 + 420 * (at - low) / (high - low)

    rows = "".join(
        f'<line class="grid" x1="78" x2="510" y1="{24 + 26 * row}" y2="{24 + 26 * row}"/>'
        f'<text x="70" y="{28 + 26 * row}" text-anchor="end">{name}</text>'
        for row, name in enumerate(("fetched", "deferred", "skipped"))
    )
    start = f'<line class="limit" x1="{x(first):.1f}" x2="{x(first):.1f}" y1="12" y2="88"/>' if first else ""
    marks = "".join(
        f'<circle class="event {kind}" cx="{x(at):.1f}" cy="{24 + 26 * row}" r="5">'
        f"<title>{text(words)}, {moment(iso(at))}</title></circle>"
        for at, row, kind, words in dots
    )
    ends = "".join(
        f'<text x="{x(at):.1f}" y="106" text-anchor="{anchor}">{clock(at / 1000, (high - low) / 1000)}</text>'
        for at, anchor in ((low, "start"), (high, "end"))
    )
    title = "Over time; the dashed line is when it was found"
    return (
        f'<div class="plots one"><figure><figcaption>{title}</figcaption><svg viewBox="0 0 520 112" role="img"'
        f' aria-label="{title}">{rows}{start}{marks}{ends}</svg></figure></div>'
    )


def _links(found: Explanation, links: LinksView | None) -> str:
    """The links to and from the URL; without a graph, the links that its last fetch found."""
    groups: list[tuple[str, int, list[str]]]
    if links is not None:
        groups = [
            (f"{plural(links.count_in, 'page')} with links to it", links.count_in, links.into),
            (f"{plural(links.count_out, 'link')} of it", links.count_out, links.out),
        ]
    elif found.fetches and len(found.fetches[-1].links):
        own = [link.url for link in found.fetches[-1].links]
        groups = [(f"{plural(len(own), 'link')} of it, as last fetched", len(own), own[:_LINKS])]
    else:
        return ""
    parts = []
    for title, count, urls in groups:
        rows = "".join(f"<li>{_step(url)}</li>" for url in urls)
        more = f'<p class="soft">and {count - len(urls):,} more</p>' if count > len(urls) else ""
        is_open = " open" if count <= 10 else ""
        parts.append(
            f'<details class="links"{is_open}><summary>{title}</summary><ul>{rows}</ul>{more}</details>'
        )
    return f"<h2>Links</h2>{''.join(parts)}"


def _step(url: str) -> str:
    """A URL, as a link to its page here; or a word where there is no URL."""
    return f'<a href="{text(url_address(url))}">{text(short(url))}</a>' if "://" in url else text(url)


def _rule(found: Explanation) -> str:
    view = found.robots
    if view is None:
        return "<li>robots.txt: not asked for yet.</li>"
    if view.unreachable:
        return (
            "<li>robots.txt could not be fetched, so that nothing may be fetched; it is asked for again after"
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
    rows += [
        (at, [("", "act"), ("", text(short(who, 40))), ("u", text(what))]) for _, at, who, what in found.acts
    ]
    if not rows:
        return ""
    rows.sort(key=lambda row: row[0])
    lines = [[("w", moment(iso(at))), *cells] for at, cells in rows]
    return "<h2>What happened</h2>" + table(("When", "What", "Outcome", "Details"), lines)


def lab(names: Sequence[str], crawl: str) -> str:
    """The page of experiments."""
    if not names:
        how = f"lycosa lab run NAME --crawl {crawl} --keep {crawl}/lab"
        return (
            '<h1>Lab</h1><div class="empty"><p>No results are kept with this crawl yet. <code>lycosa lab list'
            "</code> names experiments: other orders, caches, memory limits, tried on what this crawl has found."
            f' This runs one and keeps its result here:</p><pre class="command">{text(how)}</pre></div>'
        )
    return (
        f"<h1>Lab</h1><p>Results of {text(', '.join(dict.fromkeys(names)))}."
        ' <a href="/lab/page">On a page of its own</a>.</p>'
        '<iframe class="report" sandbox="" src="/lab/page" title="Results"></iframe>'
    )


def awaited(title: str, what: str, words: str) -> str:
    """A page for a result that is being made; `words`: its progress. The browser asks again by itself."""
    told = f" {text(words[:1].upper() + words[1:])}." if words else ""
    return f'<h1>{text(title)}</h1><div class="empty" role="status" data-waits>{text(what)}{told}</div>'


def problem(title: str, words: str) -> str:
    """A page for an error."""
    return f"<h1>{text(title)}</h1><p>{text(words)}</p>"
