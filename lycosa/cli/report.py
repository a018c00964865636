"""`lycosa report`: what happened in a crawl, as text, as JSON, or as one HTML page.

The fields of the JSON document are those of `lycosa.ask.report.Report`.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.cli.amounts import counted, show_count, show_duration, show_size, show_time
from lycosa.cli.ending import scorer_failures
from lycosa.cli.streams import Progress, printable, replacing
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from lycosa.ask.report import PageRow, Report, SiteRow

HELP = "summarize a crawl: statuses, sites, errors, broken links"
EPILOG = """\
examples:
  lycosa report crawls/example
  lycosa report crawls/example --html report.html
  lycosa report crawls/example --json | jq '.broken.shown[] | {url, holders}'

Works on a running crawl, too.
"""

_WIDTH = 100


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the crawl's directory")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write one self-contained page instead (-: to standard output)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="rows of each table (20)")
    parser.add_argument(
        "--broken", type=int, default=500, metavar="N", help="broken links in --html and --json (500)"
    )


def run(args: argparse.Namespace) -> int:
    import time

    from lycosa.ask.reading import CrawlReader
    from lycosa.ask.report import make_report
    from lycosa.crawl.status import read_status

    if args.top < 0 or args.broken < 0:
        raise ConfigError("--top and --broken take a number of rows: 0 or more")
    crawl = CrawlReader(args.directory)
    plain = not args.json and args.html is None
    with Progress("report") as progress:
        report = make_report(
            crawl,
            at=int(time.time() * 1000),
            top=args.top,
            broken=args.top if plain else args.broken,
            told=progress,
        )
    if (status := read_status(args.directory)) is not None and (failures := scorer_failures(status)):
        report.notes.append(f"in the last run the {failures}")
    if args.html is not None:
        from lycosa.ask.report_html import render

        if args.html == Path("-"):
            sys.stdout.buffer.write(render(report).encode())
            sys.stdout.buffer.flush()
        else:
            with replacing(args.html) as draft:
                draft.write_text(render(report), encoding="utf-8")
            print(f"wrote {args.html}", file=sys.stderr)
    if args.json:
        import msgspec

        from lycosa.ask.json_form import safe

        document = msgspec.json.format(msgspec.json.encode(report), indent=1)
        sys.stdout.buffer.write(safe(document) + b"\n")
        sys.stdout.buffer.flush()
    if plain:
        from rich.console import Console

        if sys.stdout.isatty():
            show(report, Console(highlight=False, markup=False))
        else:
            console = Console(file=io.StringIO(), width=_WIDTH, highlight=False, markup=False)
            with console.capture() as captured:
                show(report, console)
            sys.stdout.writelines(line.rstrip() + "\n" for line in captured.get().splitlines())
        sys.stdout.flush()
    return 0


# -- text


def show(report: Report, console: Console) -> None:
    """The report for a terminal."""
    _headline(report, console)
    fresh = [
        (
            row.host or "all",
            f"{row.pages:,}",
            f"{100 * row.fresh:.1f} ± {100 * row.error:.1f}%",
            show_duration(row.age),
        )
        for row in report.freshness
    ]
    _table(console, "Fresh, estimated", ("host", "#pages", "#fresh", "#out of date for"), fresh)
    _over_time(report, console)
    if report.pages:
        rows = [(row.name, f"{row.pages:,}", show_size(row.bytes)) for row in report.statuses]
        _table(console, "Status", ("status", "#pages", "#bytes"), rows)
        rows = [(row.name, f"{row.pages:,}", show_size(row.bytes)) for row in report.types[:20]]
        _table(console, "Media type", ("type", "#pages", "#bytes"), rows)
        rows = [(row.name, f"{row.pages:,}", _bar(row.pages, report.pages)) for row in report.depths[:20]]
        _table(console, "Depth", ("depth", "#pages", ""), rows)
    for title, reasons in (("Failed attempts", report.errors), ("Skipped", report.skipped)):
        rows = [(row.name, f"{row.count:,}", (row.examples or [""])[0]) for row in reasons]
        _table(console, title, ("why", "#count", "for example"), rows)
    rows3 = [(r.name, f"{r.times:,}", f"{r.waiting:,}", _when(r.next_due)) for r in report.deferred]
    _table(console, "Deferred", ("why", "#times", "#waiting", "next due"), rows3)
    _sites(console, "Largest sites", report.largest_sites)
    if report.sites > 1:
        _sites(console, "Sites with most errors", report.troubled_sites)
        _sites(console, "Slowest sites, by median", report.slowest_sites)
    _pages(console, "Slowest pages", report.slowest)
    _pages(console, "Largest pages", report.largest)
    if report.truncated.pages:
        limits = ", ".join(f"{name} {n:,}" for name, n in report.truncated.by_limit.items())
        _pages(console, f"Bodies cut short ({limits})", report.truncated.largest)
    _redirects(report, console)
    _duplicates(report, console)
    _clusters(report, console)
    _traps(report, console)
    _rules(report, console)
    rows = [(row.at or "", row.who, row.what) for row in report.acts]
    _table(console, "Acts of the operator", ("when", "who", "what"), rows)
    _robots(report, console)
    _broken(report, console)
    for note in report.notes:
        console.print(f"note: {printable(note)}", style="yellow")


def _headline(report: Report, console: Console) -> None:
    seeds = f"{report.seeds[0]}" if report.seeds else "no seeds yet"
    if report.seed_count > 1:
        seeds += f" and {report.seed_count - 1:,} more"
    console.print(f"{report.directory}: {printable(seeds)}", style="bold", soft_wrap=True)
    state = "running" if report.running else "not running"
    if not report.pages:
        console.print(f"{state}; nothing fetched yet ({counted(report.records, 'record')})")
        return
    speed = report.fetches / report.seconds if report.seconds else 0.0
    errors = sum(row.pages for row in report.statuses if row.name >= "400")
    fetches = f" ({counted(report.fetches, 'fetch', 'fetches')})" if report.fetches != report.pages else ""
    console.print(
        f"{counted(report.pages, 'page')}{fetches} of {counted(report.sites, 'site')}, {show_size(report.bytes)}"
        f" ({show_size(report.decoded)} decoded), {counted(report.links, 'link')}"
    )
    if report.silent_sites:
        were = "was" if report.silent_sites == 1 else "were"
        console.print(f"{counted(report.silent_sites, 'other site')} {were} tried and gave no page")
    console.print(
        f"{_when(report.began)} to {_when(report.ended)} ({show_duration(report.seconds)}, "
        f"{speed:,.1f} pages/s); {state}; median fetch {report.median_ms} ms"
    )
    console.print(f"answers with errors: {show_count(errors)}; broken URLs: {show_count(report.broken.urls)}")


def _over_time(report: Report, console: Console) -> None:
    """Rows of block characters over the duration of the crawl."""
    from lycosa.ask.report_time import strips

    rows = strips(report, lambda count: show_size(int(count)))
    _table(console, "Over time", ("", "", ""), [(row.name, row.blocks, row.words) for row in rows])


def _table(console: Console, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; heads that begin with # mark numbers, the first column and links take the remaining width."""
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    if not rows:
        return
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for head in heads:
        number = head.startswith("#")
        table.add_column(
            head.lstrip("#"),
            justify="right" if number else "left",
            no_wrap=number,
            overflow="fold",
            header_style="dim",
        )
    for row in rows:
        table.add_row(*(Text(printable(cell), overflow="fold") for cell in row))
    console.print()
    console.print(table)


def _sites(console: Console, title: str, rows: Sequence[SiteRow]) -> None:
    _table(
        console,
        title,
        ("site", "#pages", "#bytes", "#errors", "#failed", "#median ms"),
        [
            (r.site, f"{r.pages:,}", show_size(r.bytes), f"{r.errors:,}", f"{r.failed:,}", f"{r.median_ms:,}")
            for r in rows
        ],
    )


def _pages(console: Console, title: str, rows: Sequence[PageRow]) -> None:
    _table(
        console,
        title,
        ("#ms", "#sent", "#decoded", "status", "page"),
        [(f"{r.total_ms:,}", show_size(r.bytes), show_size(r.length), str(r.status), r.url) for r in rows],
    )


def _redirects(report: Report, console: Console) -> None:
    found = report.redirects
    if not found.pages:
        return
    lengths = ", ".join(f"{n:,} of {hops}" for hops, n in sorted(found.lengths.items()))
    console.print()
    chains = f", chains by hops: {lengths}" if lengths else ""
    console.print(f"Redirects: {found.pages:,}{chains}, loops: {found.loop_count:,}", style="bold")
    for name, rows in (("loop", found.loops), ("chain", found.chains)):
        for chain in rows:
            console.print(f"  {name}: " + printable(" -> ".join(chain.urls)), soft_wrap=True)


def _duplicates(report: Report, console: Console) -> None:
    found = report.duplicates
    rows = [(f"{g.pages:,}", show_size(g.bytes), g.urls[0], g.title) for g in found.largest]
    title = f"Duplicates: {counted(found.pages, 'page')} in {counted(found.groups, 'group')}"
    _table(console, title, ("#pages", "#size", "first of them", "title"), rows)


def _clusters(report: Report, console: Console) -> None:
    found = report.clusters
    title = (
        f"Near duplicates: {counted(found.pages, 'page')} in {counted(found.clusters, 'cluster')},"
        f" {found.across:,} of them like a page of another host"
    )
    rows = [
        (f"{row.pages:,}", row.representative, row.others[0].url if row.others else "")
        for row in found.largest
    ]
    _table(console, title, ("#pages", "representative", "another of them"), rows)


def _traps(report: Report, console: Console) -> None:
    found = report.traps
    title = (
        f"Traps: {counted(found.quarantined, 'pattern')} quarantined, {found.released:,} released;"
        f" {counted(found.urls, 'URL')} skipped (lycosa crawl --release PATTERN lets them be fetched)"
    )
    rows = [
        (r.pattern, "quarantined" if r.quarantined else "released", f"{r.skipped:,}", r.why)
        for r in found.largest
    ]
    _table(console, title, ("pattern", "is", "#skipped", "why"), rows)


def _rules(report: Report, console: Console) -> None:
    found = report.rules
    title = (
        f"Rules about URLs: {found.applied:,} applied, {found.withdrawn:,} withdrawn;"
        f" {counted(found.urls, 'URL')} skipped"
    )
    rows = [(r.rule, "applied" if r.applied else "withdrawn", f"{r.skipped:,}", r.why) for r in found.largest]
    _table(console, title, ("rule", "is", "#skipped", "why"), rows)
    title = "Proposed rules about URLs (lycosa crawl --url-rules apply learns and applies them)"
    more = [(r.rule, f"{r.agreed:,}", f"{r.disagreed:,}", f"{r.confidence:.2f}") for r in found.proposed]
    _table(console, title, ("rule", "#agreed", "#disagreed", "#confidence"), more)


def _robots(report: Report, console: Console) -> None:
    found = report.robots
    if not found.files:
        return
    console.print()
    statuses = ", ".join(f"{row.name} {row.count:,}" for row in found.statuses)
    console.print(
        f"robots.txt: asked for {counted(found.files, 'time')} ({statuses}),"
        f" {counted(found.forbidden_urls, 'URL')} forbidden"
    )
    rows = [(row.site, row.rule, f"{row.urls:,}") for row in found.forbidden]
    _table(console, "Forbidden by robots rules", ("site", "rule", "#URLs"), rows)


def _broken(report: Report, console: Console) -> None:
    found = report.broken
    if not found.urls:
        return
    console.print()
    console.print(
        f"Broken links: {counted(found.urls, 'URL')}, {counted(found.links, 'link')} to them", style="bold"
    )
    for row in found.shown:
        console.print(f"{printable(row.url)}", soft_wrap=True)
        pages = "1 page links" if row.links == 1 else f"{row.links:,} pages link"
        console.print(f"    {printable(row.why)}; {pages} to it", style="yellow", soft_wrap=True)
        for holder in row.holders:
            text = f"  {holder.text!r}" if holder.text.strip() else ""
            console.print(f"    from {printable(holder.url)}{text}", style="dim", soft_wrap=True)
    if found.urls > len(found.shown):
        rest = found.urls - len(found.shown)
        console.print(f"... and {rest:,} more: see --html, --json or a larger --top")


def _bar(count: int, total: int) -> str:
    return "█" * round(40 * count / max(total, 1)) or "▏"


def _when(at: str | None) -> str:
    from datetime import datetime

    return show_time(datetime.fromisoformat(at).timestamp()) if at else ""
