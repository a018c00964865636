"""`lycosa duplicates`: find the pages of a crawl with nearly the same content, or update the result."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.cli.amounts import counted
from lycosa.cli.streams import Progress, printable

if TYPE_CHECKING:
    from lycosa.ask.clusters import Cluster

HELP = "find clusters of pages with nearly the same text"
EPILOG = """\
examples:
  lycosa duplicates crawls/example                   everything that was fetched since the last time
  lycosa duplicates crawls/example --follow          keep up with a running crawl; ends when the crawl does
  lycosa duplicates crawls/example --json            all clusters, one a line

What is found is in DIR/clusters; explain, report and export know it from then on. It may be interrupted or killed
at any time: the same command goes on.
"""

_PAUSE = 5.0
"""Seconds between rounds of --follow."""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="the crawl's directory")
    add("--follow", action="store_true", help="wait for a crawl to begin, and continue as long as it runs")
    add("--rebuild", action="store_true", help="discard the clusters and start again")
    add("--most", type=int, default=10, metavar="N", help="clusters to show, the largest first (10)")
    add("--json", action="store_true", help="print all clusters as JSON lines")


def run(args: argparse.Namespace) -> int:
    from lycosa.ask.clustering import Clustering
    from lycosa.ask.clusters import ClusterReader
    from lycosa.ask.reading import CrawlReader

    crawl = CrawlReader.beginning(args.directory, time.sleep, follow=args.follow)
    pages, begun = 0, time.monotonic()
    with Progress("duplicates") as told, Clustering(crawl, rebuild=args.rebuild, told=told) as clustering:
        while True:
            running = crawl.is_running()
            done = clustering.round()
            pages += done.pages
            if not args.follow or not running:
                break
            if done.pages or done.removed:
                print(f"lycosa duplicates: {counted(pages, 'page')} so far", file=sys.stderr, flush=True)
            time.sleep(_PAUSE)
    found = ClusterReader.of(crawl)
    if found is None:
        print("the crawl has no pages yet")
        return 0
    if args.json:
        import msgspec

        from lycosa.ask.json_form import safe

        for row in found.all(shown=1_000):
            sys.stdout.buffer.write(safe(msgspec.json.encode(row)) + b"\n")
        sys.stdout.buffer.flush()
        return 0
    clusters, members, across = found.counts()
    print(f"looked at {counted(pages, 'page')} in {time.monotonic() - begun:.1f} s")
    print(
        f"{counted(members, 'page')} in {counted(clusters, 'cluster')}, {across:,} like a page of another host"
    )
    for row in found.largest(args.most):
        _show(row)
    if found.proposals:
        print(
            "\nwhich URLs lead to the same page (lycosa crawl --url-rules apply learns and applies such rules):"
        )
    for each in found.proposals[: args.most]:
        evidence = f"{each.agreed:,} agreed, {each.disagreed:,} did not, confidence {each.confidence:.2f}"
        print(printable(f"  {each.rule}  ({evidence})"))
    return 0


def _show(row: Cluster) -> None:
    print()
    print(printable(f"{row.representative}  ({counted(row.pages, 'page')})"))
    for near in row.others:
        print(printable(f"  {near.similarity:.2f}  {near.url}"))
    if row.pages - 1 > len(row.others):
        print(f"        and {row.pages - 1 - len(row.others):,} more")
