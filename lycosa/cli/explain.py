"""`lycosa explain`: everything a crawl knows about one URL; the answer first, then the evidence.

With `--json` the document is `lycosa.ask.explain.Explanation`, with times in ISO 8601 and fetches, skips
and deferrals as `lycosa log` shows them. Exit code 0 if the crawl has met the URL, 1 if it never did.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.cli.amounts import counted, show_duration, show_size, show_time
from lycosa.cli.streams import printable

if TYPE_CHECKING:
    from lycosa.ask.explain import Explanation, RobotsView
    from lycosa.ask.reading import CrawlReader
    from lycosa.records import Fetched

HELP = "explain why a URL was or was not fetched"
EPILOG = """\
examples:
  lycosa explain crawls/example https://example.org/private/page
  lycosa explain crawls/example example.org/about --robots

exit code: 0 the crawl knows the URL, 1 it never met it.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the crawl's directory")
    parser.add_argument("url", metavar="URL", help="with or without its scheme")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--robots", action="store_true", help="also print the robots.txt as it was then")


def run(args: argparse.Namespace) -> int:
    from lycosa.ask.explain import find
    from lycosa.ask.reading import CrawlReader

    crawl = CrawlReader(args.directory)
    found = find(crawl, args.url, _Told())
    body = _robots_body(crawl, found.robots) if args.robots and found.robots is not None else None
    if args.json:
        import msgspec

        from lycosa.ask.explain import as_plain
        from lycosa.ask.json_form import body_field, safe

        document = as_plain(found)
        if body is not None:
            document["robots"] |= body_field(body)
        sys.stdout.buffer.write(safe(msgspec.json.format(msgspec.json.encode(document), indent=1)) + b"\n")
        sys.stdout.buffer.flush()
    else:
        for line in tell(found, time.time()):
            print(printable(line))
        if args.robots:
            _print_robots(found, body)
        sys.stdout.flush()
    return 1 if found.state == "unknown" else 0


class _Told:
    """Shows on a terminal what is being searched for, if it takes long."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def __call__(self, text: str) -> None:
        if time.monotonic() - self._started > 2.0 and sys.stderr.isatty():
            print(f"lycosa explain: {printable(text)}", file=sys.stderr)


# -- text


def tell(found: Explanation, now: float) -> list[str]:
    """The explanation in lines."""
    lines = [f"{found.url}", f"  {found.state}: {found.why.rstrip(': ')}{_due(found, now)}", ""]
    add = lines.append
    if found.first is not None:
        first = found.first
        text = f", with the text {first.text!r}" if first.text else ""
        nofollow = ", nofollow" if first.nofollow else ""
        if first.source == "seed":
            add(f"found      as a seed, {_when(first.at)}")
        else:
            add(f"found      {_when(first.at)} on {first.source} ({first.kind}{nofollow}){text}")
        add(f"           {counted(found.discoveries, 'link')} to it in all; depth {first.depth}")
        if len(found.path) > 1:
            add(
                "path       "
                + "\n           ".join(f"{'-> ' if n else ''}{url}" for n, url in enumerate(found.path))
            )
            add(f"           -> {found.url}")
    add(f"scope      {'inside' if found.inside else 'outside'}: {found.scope}")
    if found.because:
        add(f"due        {_when(found.due)}, because {found.because}")
    lines += _robots_lines(found.robots)
    for fetch in found.fetches:
        lines += _fetch_lines(fetch)
    for skip in found.skips:
        add(f"skipped    {_when(skip.at)}: {skip.why}{f', {skip.detail}' if skip.detail else ''}")
    for _, at, who, what in found.acts:
        add(f"act        {_when(at)}: {what}, by {who}")
    for row in found.learned:
        done = ("released", "quarantined") if row.what == "trap" else ("withdrawn", "applied")
        add(f"learned    {_when(row.at)}: {row.subject} {done[row.holds]}: {row.why}")
        lines += [f"           evidence: {url}" for url in row.examples]
    for deferral in [row for row in found.deferrals if row.why != "refresh"]:
        detail = f", {deferral.detail}" if deferral.detail else ""
        until = f"(attempt {deferral.attempt}), until {_when(deferral.due)}"
        add(f"deferred   {_when(deferral.at)}: {deferral.why}{detail} {until}")
    for number, url in enumerate(found.duplicates):
        add(f"{'same as' if not number else '':<10} {url}")
    lines += _cluster_lines(found)
    add(f"key        {found.key}, shard {found.shard}")
    return [part for line in lines for part in line.split("\n")]


def _cluster_lines(found: Explanation) -> list[str]:
    cluster = found.cluster
    if cluster is None:
        return []
    if cluster.representative == found.url:
        lines = [f"cluster    it stands for {counted(cluster.pages, 'page')} that say nearly the same"]
    else:
        own = next((row for row in cluster.others if row.url == found.url), None)
        how = f" (similarity {own.similarity:.2f}, {own.distance} bits of 64 differ)" if own else ""
        lines = [f"cluster    nearly the same as {cluster.representative}{how},"]
        lines.append(f"           which stands for {counted(cluster.pages, 'page')}")
    others = [row for row in cluster.others if row.url != found.url]
    return lines + [f"           {row.similarity:.2f} {row.url}" for row in others[:5]]


def _due(found: Explanation, now: float) -> str:
    if found.state != "deferred" or not found.due:
        return ""
    left = found.due / 1000 - now
    return f"; due in {show_duration(left)}" if left > 0 else f"; due since {show_duration(-left)}"


def _robots_lines(view: RobotsView | None) -> list[str]:
    if view is None:
        return ["robots     not asked for yet"]
    status = f"status {view.status}" if view.status else "no answer"
    detail = f", {view.detail}" if view.detail and view.detail != status else ""
    verdict = "allowed" if view.allowed else "forbidden"
    rule = f"line {view.line}: {view.rule}" if view.line else "no rule applies"
    until = "valid until"
    if view.unreachable:
        rule, until = "nothing may be fetched while robots.txt is unavailable", "asked for again after"
    return [
        f"robots     {verdict}, {rule}",
        f"           as read {_when(view.at)} ({status}{detail}), {until} {_when(view.expires)};"
        f" record {view.position} of shard {view.shard}",
    ]


def _fetch_lines(fetch: Fetched) -> list[str]:
    title = f", {fetch.title!r}" if fetch.title else ""
    marks = [name for name in ("noindex", "duplicate") if getattr(fetch, name)]
    if fetch.truncated:
        marks.append(f"truncated ({fetch.truncated})")
    if fetch.dropped:
        marks.append(f"{counted(fetch.dropped, 'link')} left out")
    where = f"           archive {fetch.stored.file} at byte {fetch.stored.offset}" if fetch.stored else ""
    lines = [
        f"fetched    {_when(fetch.at)}: status {fetch.status}, {fetch.type or 'no type'},"
        f" {show_size(fetch.size)} in {fetch.timing.total} ms from {fetch.address or 'no address'}{title}",
        f"           {counted(len(fetch.links), 'link')}{''.join(f', {mark}' for mark in marks)}",
    ]
    if (made := fetch.rendered) is not None:
        ended = f", {made.problem}" if made.problem else ""
        whose = (
            "its links are those that the browser showed" if made.length else "its links are those as sent"
        )
        lines.append(
            f"           rendered ({made.why}{ended}) in {made.millis} ms with"
            f" {counted(made.requests, 'request')}; {whose}"
        )
        lines += [f"           refused: {each}" for each in made.refused]
    return [*lines, where] if where else lines


def _robots_body(crawl: CrawlReader, view: RobotsView) -> bytes:
    from lycosa.records import Robots

    record = crawl.logs[view.shard].read(view.position)
    return record.body if isinstance(record, Robots) else b""


def _print_robots(found: Explanation, body: bytes | None) -> None:
    if found.robots is None or body is None:
        print("\nthe site's robots.txt was not asked for")
        return
    print(f"\nrobots.txt as of {_when(found.robots.at)}:")
    for number, line in enumerate(body.decode("utf-8", "replace").splitlines(), 1):
        mark = ">" if number == found.robots.line else " "
        print(f"{mark}{number:>5}  {printable(line)}")


def _when(at: int) -> str:
    return show_time(at / 1000)
