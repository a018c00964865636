"""`lycosa status`: how a crawl is going, or how it ended, and how to continue.

For its sources and the document of `--json` see `lycosa.ask.standing`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.ask.reading import CrawlReader
from lycosa.ask.standing import Standing
from lycosa.cli.amounts import counted, show_count, show_duration, show_size, show_time
from lycosa.cli.ending import how_to_go_on, scorer_failures
from lycosa.cli.streams import Progress, printable

if TYPE_CHECKING:
    from lycosa.crawl.status import Status
    from lycosa.crawl.totals import Totals

HELP = "show the state of a crawl, running or ended"
EPILOG = """\
examples:
  lycosa status crawls/example
  lycosa status crawls/example --watch
  lycosa status crawls/example --json | jq .status.pages
"""

_STALE = 10.0
"""Seconds after which a living process that has reported nothing is stuck, or its disk is."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the crawl's directory")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document (with --watch: one per second)"
    )
    parser.add_argument("--watch", action="store_true", help="update the status until the crawl ends")


def run(args: argparse.Namespace) -> int:
    crawl = CrawlReader(args.directory)
    if args.watch:
        _watch(crawl, args.json)
    with Progress("status") as told:
        found = View(crawl, told)
    if args.json:
        import msgspec

        from lycosa.ask.json_form import safe

        document = safe(msgspec.json.encode(found.as_plain()))
        sys.stdout.buffer.write((document if args.watch else msgspec.json.format(document)) + b"\n")
    else:
        print("\n".join(printable(line) for line in found.lines(time.time())))
    sys.stdout.flush()
    return 0


def _watch(crawl: CrawlReader, as_json: bool) -> None:
    """Show the crawl while it runs."""
    import msgspec

    from lycosa.ask.alive import process_of
    from lycosa.ask.json_form import safe
    from lycosa.cli.screen import Screen, choose_mode
    from lycosa.crawl.status import read_status

    if process_of(crawl.directory) is None:
        return
    with Screen("quiet" if as_json else choose_mode(False, False), f"lycosa · {crawl.directory}") as screen:
        while process_of(crawl.directory) is not None and screen.lost is None:
            if as_json:
                sys.stdout.buffer.write(safe(msgspec.json.encode(Standing(crawl).as_plain())) + b"\n")
                sys.stdout.flush()
            elif (status := read_status(crawl.directory)) is not None:
                screen.show(status)
            time.sleep(1.0)


class View(Standing):
    """The state of a crawl as text."""

    def lines(self, now: float) -> list[str]:
        lines = [f"{self.crawl.directory}: {self._headline(now)}"]
        if self.status is not None:
            lines += self._status_lines(self.status)
        elif self.totals is not None:
            lines += _total_lines(self.totals)
        if self.last_commit:
            ago = show_duration(now - self.last_commit)
            lines.append(f"last commit  {show_time(self.last_commit)} ({ago} ago)")
        lines.append(self._advice())
        return lines

    def _headline(self, now: float) -> str:
        status = self.status
        age = now - status.at if status is not None else 0.0
        if self.state == "running":
            if status is None or status.pid != self.process:
                return f"running (process {self.process}), recovering or just begun"
            stale = f"; silent for {show_duration(age)}" if age > _STALE else ""
            return f"running for {show_duration(status.elapsed)} (process {self.process}){stale}"
        if self.state == "killed":
            when = f" after {show_time(status.at)}" if status is not None else ""
            return f"killed{when}: nothing that was committed is lost"
        if status is None and self.copy:
            return "a copy of a cluster's crawl"
        if status is None:
            return "not running; it left no status"
        why = f": {status.reason}" if status.reason else ""
        state = "stopped" if status.reason == "the disk was full" else self.state
        return f"{state}{why}, {show_time(status.at)} ({show_duration(age)} ago)"

    def _status_lines(self, status: Status) -> list[str]:
        speed = status.pages_run / status.elapsed if status.elapsed else 0.0
        kinds = ", ".join(f"{name} {n:,}" for name, n in status.statuses.items())
        kinds = f" ({kinds})" if kinds else ""
        lines = [
            f"pages        {show_count(status.pages)}{kinds}, {speed:,.1f}/s in {self._run}",
            *([f"fetches      {show_count(status.fetches)}"] if status.fetches > status.pages else []),
            f"bytes        {show_size(status.bytes)}, {counted(status.links, 'link')},"
            f" {counted(status.duplicates, 'duplicate')}",
            f"waiting      {show_count(status.pending)} pending, {show_count(status.left_behind)} left"
            f" behind, {show_count(status.deferred)} deferred",
        ]
        if pages := (meters := status.meters).get("refresh.pages"):
            fresh, error = meters["refresh.fresh"] / pages, meters["refresh.variance"] ** 0.5 / pages
            lines.append(
                f"fresh        {100 * fresh:.1f} ± {100 * error:.1f}% by importance,"
                f" {100 * meters['refresh.plain'] / pages:.1f}% of the pages;"
                f" {show_duration(meters['refresh.age'] / pages)} out of date on average (estimated)"
            )
            lines.append(
                f"revisits     {counted(int(meters['refresh.waiting']), 'page')},"
                f" {86_400 * meters['refresh.asked']:,.1f} fetches per day"
            )
        if self.state == "running":
            lines.append(f"visits       {status.visits:,} at a time, {counted(status.hosts, 'host')} known")
        if status.page_limit:
            lines.append(f"limit        {status.pages:,} of {counted(status.page_limit, 'page')}")
        if failures := scorer_failures(status):
            lines.append(f"{'scorer':<12} {failures.removeprefix('scorer ')}")
        for name, counts in (("skipped", status.skipped), ("errors", status.errors)):
            if counts:
                lines.append(f"{name:<12} {_pairs(counts)}")
        limit = f" of {show_size(status.memory_limit)}" if status.memory_limit else ""
        lines.append(f"memory       {show_size(status.rss)}{limit}")
        caches = self.caches()
        if caches:
            told = (f"{name} {100 * row['rate']:.1f}% of {row['asked']:,.0f}" for name, row in caches.items())
            lines.append(f"cache hits   {', '.join(told)}")
        return lines

    @property
    def _run(self) -> str:
        return "this run" if self.state == "running" else "the last run"

    def _advice(self) -> str:
        where = self.crawl.directory
        if self.state == "running":
            return f"look closer: lycosa status {where} --watch    lycosa report {where}"
        if self.copy:
            return f"look at it: lycosa report {where}    update it: lycosa cluster fetch ... --into {where}"
        left = self.status is None or self.status.pending + self.status.left_behind + self.status.deferred
        if self.state == "finished" and not left:
            return f"nothing is left to do; look at it: lycosa report {where}"
        if (
            self.state == "limit"
            and self.status is not None
            and (options := self.crawl.options()) is not None
        ):
            return f"{how_to_go_on(self.status, options.limits)} (lycosa crawl ... --into {where})"
        return f"run the same command to resume (lycosa crawl ... --into {where})"


def _total_lines(totals: Totals) -> list[str]:
    kinds = ", ".join(f"{kind}xx {n:,}" for kind, n in sorted(totals.statuses.items()))
    lines = [
        f"pages        {show_count(totals.pages)}{f' ({kinds})' if kinds else ''}",
        *([f"fetches      {show_count(totals.fetched)}"] if totals.again else []),
        f"bytes        {show_size(totals.size)}, {counted(totals.links, 'link')},"
        f" {counted(totals.duplicates, 'duplicate')}",
    ]
    if totals.skipped:
        lines.append(f"skipped      {_pairs(totals.skipped)}")
    return lines


def _pairs(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items(), key=lambda pair: -pair[1]))
