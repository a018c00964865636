"""The report as one HTML page: no scripts, nothing loaded from elsewhere, light or dark like the system.

Everything that came from a site (titles, URLs, types, link texts, details) is escaped, and control characters
are shown as marks. Only http and https URLs become links, and those send no referrer. A policy in the page's
head forbids everything but its own style, should anything slip through.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources

from lycosa.ask.html_parts import (
    Cell,
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
from lycosa.ask.report import BrokenLink, Chain, Count, PageRow, Reason, Report, SiteRow
from lycosa.ask.report_time import seconds_of

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render(report: Report) -> str:
    """The page."""
    css = resources.files("lycosa.ask").joinpath("report.css").read_text(encoding="utf-8")
    title = _title(report)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><meta name="robots" content="noindex">'
        f"<title>{text(title)}: crawl report</title><style>{css}</style></head><body>"
        f"<main>{content(report, title)}</main></body></html>\n"
    )


def content(report: Report, title: str) -> str:
    """The body of the page, below a title."""
    sections = [
        ("time", "Over time", _over_time(report)),
        ("fresh", "How fresh it is", _fresh(report)),
        ("answers", "Answers", _answers(report)),
        ("broken", "Broken links", _broken(report)),
        ("trouble", "Errors and skipped URLs", _trouble(report)),
        ("sites", "Sites", _sites(report)),
        ("pages", "Slow and large pages", _pages(report)),
        ("redirects", "Redirects", _redirects(report)),
        ("duplicates", "Duplicates", _duplicates(report)),
        ("clusters", "Near duplicates", _clusters(report)),
        ("traps", "Traps", _traps(report)),
        ("rules", "Rules about URLs", _rules(report)),
        ("robots", "Robots rules", _robots(report)),
        ("acts", "Acts of the operator", _acts(report)),
    ]
    shown = [(name, title, body) for name, title, body in sections if body]
    menu = " ".join(f'<a href="#{name}">{title}</a>' for name, title, _ in shown)
    parts = "".join(f'<section id="{name}"><h2>{title}</h2>{body}</section>' for name, title, body in shown)
    notes = "".join(f"<p>{text(note)}</p>" for note in report.notes)
    return (
        f"<header><h1>{text(title)}</h1>{_about(report)}</header>{_numbers(report)}"
        f'<nav aria-label="Sections">{menu}</nav>{parts}'
        f"<footer>{notes}<p>Crawl {text(report.crawl)} in {text(report.directory)}, "
        f"{report.records:,} records in {report.shards} shards; written {moment(report.generated)}.</p>"
        "</footer>"
    )


# -- sections


def _title(report: Report) -> str:
    return report.seeds[0] if report.seeds else report.directory


def _about(report: Report) -> str:
    more = f", from {plural(report.seed_count, 'seed')}" if report.seed_count > 1 else ""
    state = " The crawl is still running." if report.running else ""
    when = (
        f"Crawled {moment(report.began)} to {moment(report.ended)}" if report.began else "Nothing fetched yet"
    )
    agent = f" as {text(report.user_agent)}" if report.user_agent else ""
    return f'<p class="soft">{when}{agent}{more}.{state}</p>'


def _numbers(report: Report) -> str:
    errors = sum(row.pages for row in report.statuses if row.name >= "400")
    speed = report.fetches / report.seconds if report.seconds else 0.0
    rows = [
        (f"{report.pages:,}", "page" if report.pages == 1 else "pages", False),
        *([(f"{report.fetches:,}", "fetches", False)] if report.fetches != report.pages else []),
        (f"{report.sites:,}", "site" if report.sites == 1 else "sites", False),
        *([(f"{report.silent_sites:,}", "sites without a page", False)] if report.silent_sites else []),
        (size(report.bytes), "transferred", False),
        (f"{report.links:,}", "link found" if report.links == 1 else "links found", False),
        (f"{speed:,.1f}/s" if speed else "–", "pages on average", False),
        (ms(report.median_ms), "median fetch", False),
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
        plots.append(plot("Pages per second", span, stretches, {"": pages}, number))
        plots.append(plot("Bytes per second", span, stretches, {"": sizes}, size))
    if len(moments) > 1:
        rows, active = report.gauges, report.active
        words = f": mean {active.mean:,.1f}"
        if active.limit:
            words += f" of {active.limit:,}, half or more {active.half:.0%} of the time"
        visits = {"": [float(row.visits) for row in rows]}
        plots.append(plot(f"Active visits{words}", span, moments, visits, number, active.limit))
        waiting = {
            "URLs pending": [float(row.pending) for row in rows],
            "records left behind": [float(row.left_behind) for row in rows],
            "URLs deferred": [float(row.deferred) for row in rows],
        }
        plots.append(plot("Waiting", span, moments, waiting, number))
        hosts = {"": [float(row.hosts) for row in rows]}
        plots.append(plot("Hosts with URLs pending", span, moments, hosts, number))
        memory = {"": [float(row.rss) for row in rows]}
        plots.append(plot("Memory of the process", span, moments, memory, size))
    return f'<div class="plots">{"".join(plots)}</div>' if plots else ""


def _fresh(report: Report) -> str:
    if not report.freshness:
        return ""
    lead = (
        "<p>Estimated from how often pages were seen to change: the share of pages that are as they were fetched,"
        " by importance, give or take two standard deviations.</p>"
    )
    rows = [
        [
            ("u", text(row.host or "all")),
            ("n", f"{row.pages:,}"),
            ("n", f"{100 * row.fresh:.1f} ± {100 * row.error:.1f}%"),
            ("n", f"{100 * row.plain:.1f}%"),
            ("n", f"{row.age / 3600:,.1f} h"),
        ]
        for row in report.freshness
    ]
    return lead + table(("Host", "#Pages", "#Fresh", "#Not weighted", "#Out of date, on average"), rows)


def _answers(report: Report) -> str:
    if not report.pages:
        return ""
    shown = (
        bars("By status", _counts(report.statuses), lambda name: f"s{family(name)}"),
        bars("By media type", _counts(report.types)),
        bars("By depth", _counts(report.depths)),
    )
    return f'<div class="bars">{"".join(shown)}</div>'


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
    lead = f"<p>{plural(broken.urls, 'URL')} gave an error or no answer{more}; {links} there.</p>"
    rows = [
        [("u", _broken_cell(row)), ("", tag(row.status)), ("n", f"{row.links:,}")] for row in broken.shown
    ]
    return lead + table(("URL, and the pages that link to it", "Status", "#Pages"), rows)


def _broken_cell(row: BrokenLink) -> str:
    reason = f' <span class="soft">{text(row.why)}</span>' if not row.status else ""
    holders = [
        f"{link(holder.url)}{f' <q>{text(short(holder.text))}</q>' if holder.text.strip() else ''}"
        f"{'' if holder.kind == 'anchor' else f' ({text(holder.kind)})'}"
        for holder in row.holders
    ]
    return _listed(link(row.url) + reason, holders, row.links)


def _trouble(report: Report) -> str:
    parts = []
    if report.errors:
        parts.append("<h3>Failed attempts</h3>" + _reasons("Error", report.errors))
    if report.skipped:
        parts.append("<h3>Skipped, by reason</h3>" + _reasons("Reason", report.skipped))
    if report.deferred:
        rows = [
            [
                ("", text(row.name)),
                ("n", f"{row.times:,}"),
                ("n", f"{row.waiting:,}"),
                ("", moment(row.next_due) if row.next_due else ""),
            ]
            for row in report.deferred
        ]
        parts.append("<h3>Put off</h3>" + table(("Reason", "#Times", "#Still waiting", "Next due"), rows))
    if report.truncated.pages:
        limits = ", ".join(f"{text(name)} {n:,}" for name, n in report.truncated.by_limit.items())
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
    lengths = ", ".join(f"{n:,} of {plural(hops, 'hop')}" for hops, n in sorted(found.lengths.items()))
    parts = [f"<p>{plural(found.pages, 'redirect')}{f'; chains: {lengths}' if lengths else ''}.</p>"]
    if found.loops:
        parts.append(f"<h3>Loops ({found.loop_count:,})</h3>{_chains(found.loops)}")
    if found.chains:
        parts.append(f"<h3>Longest chains</h3>{_chains(found.chains)}")
    return "".join(parts)


def _chains(chains: Iterable[Chain]) -> str:
    rows: list[list[Cell]] = []
    for chain in chains:
        steps = "".join(f"<li>{link(url)}</li>" for url in chain.urls)
        rows.append([("u", f"<ol class=chain>{steps}</ol>"), ("n", f"{chain.hops:,}")])
    return table(("URLs", "#Hops"), rows)


def _duplicates(report: Report) -> str:
    found = report.duplicates
    if not found.largest:
        return ""
    rows: list[list[Cell]] = []
    for group in found.largest:
        title = text(short(group.title)) or '<span class="soft">no title</span>'
        cell = _listed(title, [link(url) for url in group.urls], group.pages)
        rows.append([("u", cell), ("n", f"{group.pages:,}"), ("n", size(group.bytes))])
    groups = plural(found.groups, "group")
    lead = f"<p>{plural(found.pages, 'page')} had the content of another one, in {groups}.</p>"
    return lead + table(("Content", "#Pages", "#Size of one"), rows)


def _clusters(report: Report) -> str:
    found = report.clusters
    if not found.largest:
        return ""
    rows: list[list[Cell]] = []
    for row in found.largest:
        items = "".join(f"<li>{link(near.url)} ({near.similarity:.2f})</li>" for near in row.others)
        if row.pages - 1 > len(row.others):
            items += f"<li>and {row.pages - 1 - len(row.others):,} more</li>"
        cell = f"{link(row.representative)}<ul class=from>{items}</ul>"
        rows.append([("u", cell), ("n", f"{row.pages:,}")])
    lead = (
        f"<p>{plural(found.pages, 'page')} in {plural(found.clusters, 'cluster')} say nearly the same;"
        f" {found.across:,} of them are like a page of another host.</p>"
    )
    return lead + table(("Representative", "#Pages"), rows)


def _traps(report: Report) -> str:
    found = report.traps
    if not found.largest:
        return ""
    rows: list[list[Cell]] = []
    for row in found.largest:
        state = "quarantined" if row.quarantined else "released"
        cell = _listed(text(row.pattern), [link(url) for url in row.examples])
        rows.append([("u", cell), ("", f"{state}: {text(row.why)}"), ("n", f"{row.skipped:,}")])
    lead = (
        f"<p>{plural(found.quarantined, 'pattern')} quarantined, {found.released:,} released;"
        f" {plural(found.urls, 'URL')} skipped for it.</p>"
    )
    return lead + table(("Pattern", "Why", "#Skipped"), rows)


def _rules(report: Report) -> str:
    found = report.rules
    rows: list[list[Cell]] = []
    for row in found.largest:
        items = "".join(f"<li>{link(url)}</li>" for url in row.examples)
        state = "applied" if row.applied else "withdrawn"
        cell = f"{text(row.rule)}<ul class=from>{items}</ul>"
        rows.append([("u", cell), ("", f"{state}: {text(row.why)}"), ("n", f"{row.skipped:,}")])
    for each in found.proposed:
        items = "".join(f"<li>{link(url)}</li>" for url in each.examples)
        why = (
            f"proposed: {each.agreed:,} agreed, {each.disagreed:,} did not, confidence {each.confidence:.2f}"
        )
        rows.append([("u", f"{text(each.rule)}<ul class=from>{items}</ul>"), ("", why), ("n", "")])
    return table(("Rule", "Why", "#Skipped"), rows) if rows else ""


def _acts(report: Report) -> str:
    rows: list[list[Cell]] = [
        [("", text(row.at or "")), ("", text(row.who)), ("u", text(row.what))] for row in report.acts
    ]
    return table(("When", "Who", "What"), rows) if rows else ""


def _robots(report: Report) -> str:
    found = report.robots
    if not found.files:
        return ""
    statuses = ", ".join(f"{text(row.name)}: {row.count:,}" for row in found.statuses)
    files = f"robots.txt was asked for {plural(found.files, 'time')} ({statuses})"
    lead = f"<p>{files}; {plural(found.forbidden_urls, 'URL')} forbidden.</p>"
    rows = [
        [
            ("u", link(row.site)),
            ("", text(short(row.rule))),
            ("n", f"{row.urls:,}"),
            ("u", link(row.example)),
        ]
        for row in found.forbidden
    ]
    return lead + (table(("Site", "Rule", "#URLs", "For example"), rows) if rows else "")


# -- tables


def _listed(head: str, items: Sequence[str], total: int = 0) -> str:
    """The cell's heading, with a list below it; `total`: how many there are, if not all are listed."""
    more = f"<li>and {total - len(items):,} more</li>" if total > len(items) else ""
    rows = "".join(f"<li>{item}</li>" for item in items) + more
    return head + (f"<ul class=from>{rows}</ul>" if rows else "")


def _site_table(rows: Iterable[SiteRow]) -> str:
    return table(
        ("Site", "#Pages", "#Bytes", "#Errors", "#No answer", "#Median", "#Slowest"),
        (
            [
                ("u", link(row.site)),
                ("n", f"{row.pages:,}"),
                ("n", size(row.bytes)),
                ("n", f"{row.errors:,}"),
                ("n", f"{row.failed:,}"),
                ("n", ms(row.median_ms)),
                ("n", ms(row.slowest_ms)),
            ]
            for row in rows
        ),
    )


def _page_table(rows: Iterable[PageRow]) -> str:
    return table(
        ("Page", "Status", "Type", "#Time", "#Sent", "#Decoded"),
        (
            [
                (
                    "u",
                    link(row.url)
                    + (f'<br><span class="soft">{text(short(row.title))}</span>' if row.title else ""),
                ),
                ("", tag(row.status)),
                ("", text(short(row.type, 40))),
                ("n", ms(row.total_ms)),
                ("n", size(row.bytes)),
                ("n", size(row.length)),
            ]
            for row in rows
        ),
    )


def _reasons(name: str, rows: Iterable[Reason]) -> str:
    return table(
        (name, "#Count", "For example"),
        (
            [("", text(row.name)), ("n", f"{row.count:,}"), ("u", "<br>".join(map(link, row.examples)))]
            for row in rows
        ),
    )


def _counts(rows: Sequence[Count]) -> list[tuple[str, int]]:
    return [(row.name, row.pages) for row in rows]
