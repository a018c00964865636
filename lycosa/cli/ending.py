"""The final message of `lycosa crawl`: the numbers, how to continue, and why nothing was fetched, if so."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.cli.amounts import counted, show_duration, show_size
from lycosa.cli.streams import printable
from lycosa.errors import ConfigError, RemoteError

if TYPE_CHECKING:
    from lycosa.ask.follower import Place
    from lycosa.crawl.config import Limits
    from lycosa.crawl.status import Status

_FEW = 3
"""A run with at most so many pages needs an explanation."""


def summary(status: Status, limits: Limits, into: Path, began: Sequence[Place] = ()) -> str:
    """Some lines of text about a run that began at these places of the logs."""
    speed = status.pages_run / status.elapsed if status.elapsed else 0.0
    lines = [
        f"{status.state}: {counted(status.pages_run, 'page')} in {show_duration(status.elapsed)} ({speed:,.1f}/s)"
        f"; {status.pages:,} in all, {show_size(status.bytes)}, {counted(status.links, 'link')}",
    ]
    if status.pending + status.deferred + status.left_behind:
        behind = f", {status.left_behind:,} left behind" if status.left_behind else ""
        lines.append(
            f"left for the next run: {status.pending:,} pending, {status.deferred:,} deferred{behind}"
            f" ({how_to_go_on(status, limits)})"
        )
    if status.skipped:
        lines.append("skipped: " + ", ".join(f"{why} {n:,}" for why, n in status.skipped.items()))
    if failures := scorer_failures(status):
        lines.append(f"note: {failures}")
    if status.pages_run <= _FEW and (found := _left_scope(into, began)) is not None:
        seed, target = (printable(url) for url in found)
        lines.append(f"note: {seed} redirects to {target}, out of scope: crawl that, or widen --scope")
    lines.append(f"look at it: lycosa report {into}    lycosa explain {into} URL")
    return "\n".join(lines)


def how_to_go_on(status: Status, limits: Limits) -> str:
    """What the operator must do: the same command does nothing once a limit over all runs is reached."""
    if limits.pages and status.pages >= limits.pages:
        return "to continue, raise --max-pages"
    if limits.bytes and status.bytes >= limits.bytes:
        return "to continue, raise --max-bytes"
    return "run the same command to resume"


def scorer_failures(status: Status) -> str:
    """How often the operator's scorer failed in this run, if it did."""
    count = int(status.meters.get("scorer.failed", 0))
    return f"scorer failed {counted(count, 'time')}: the order's own level was taken" if count else ""


def judge(status: Status, into: Path) -> int:
    """The exit code: a crawl that has not fetched a single page says why, unless it was asked to stop."""
    from lycosa.records import Why

    if status.pages or status.state == "stopped":
        return 0
    found = _seed_left_out(into)
    if found is None and status.state == "finished":
        raise ConfigError("nothing was fetched, and nothing waits: give a seed, or widen --scope")
    if found is None:
        raise ConfigError("nothing was fetched: the run was too short; raise --max-time")
    url, why, detail = found
    words = f"nothing was fetched: {printable(url)}: {printable(detail) or why}"
    if why in (Why.SCOPE, Why.BLOCKED, Why.SITE_LIMIT, Why.SCHEME):
        raise ConfigError(f"{words} ({why}): change the seeds or the scope")
    if why in (Why.ROBOTS, Why.ADDRESS):
        print(f"lycosa crawl: {words} ({why})", file=sys.stderr)
        return 1
    raise RemoteError(f"{words} ({why})")


def _seed_left_out(into: Path) -> tuple[str, str, str] | None:
    """The first seed that was skipped or deferred: its URL, why, and the details."""
    from lycosa.ask.reading import CrawlReader
    from lycosa.records import Deferred, Skipped

    waits: Deferred | None = None
    for _, _, record in CrawlReader(into).records():
        if isinstance(record, Skipped) and not record.depth:
            return record.url, record.why, record.detail
        if isinstance(record, Deferred) and not record.depth:
            waits = waits or record
    return None if waits is None else (waits.url or waits.site, waits.why, waits.detail)


def _left_scope(into: Path, began: Sequence[Place]) -> tuple[str, str] | None:
    """A redirect that led out of scope, in a run of a few pages: the usual cause."""
    from lycosa.ask.follower import Follower
    from lycosa.ask.reading import CrawlReader
    from lycosa.crawl.near_seeds import scope_of
    from lycosa.records import Fetched, LinkKind

    crawl = CrawlReader(into)
    options = crawl.options()
    if options is None:
        return None
    scope = scope_of(options, crawl.files, crawl.splitter.domains)
    for _, _, record in Follower(crawl, began).read():
        if isinstance(record, Fetched) and record.depth == 0:
            for link in record.links:
                if link.kind is LinkKind.REDIRECT and not scope.inside(link.url, 0):
                    return record.url, link.url
    return None
