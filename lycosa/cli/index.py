"""`lycosa index`: make a crawl searchable, or update its index."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from lycosa.cli.amounts import counted
from lycosa.cli.streams import Progress, printable
from lycosa.errors import ConfigError

HELP = "make the pages of a crawl searchable, or update the index"
EPILOG = """\
examples:
  lycosa index crawls/example                 everything that was fetched since the last time
  lycosa index crawls/example --follow        keep up with a running crawl; ends when the crawl does
  lycosa index crawls/example --rebuild       from the beginning

The index is in DIR/index. It may be interrupted or killed at any time: the same command goes on.
"""

_PAUSE = 5.0
"""Seconds between rounds of --follow."""
_GROWN = 0.25
"""Beside a running crawl, ranks are recomputed when its log has grown by this share since the last time."""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="the crawl's directory")
    add("--follow", action="store_true", help="wait for a crawl to begin, and continue as long as it runs")
    add("--rebuild", action="store_true", help="discard the index and build it again")
    add("--language", default="en", metavar="CODE", help="language of pages that declare none (en)")


def run(args: argparse.Namespace) -> int:
    from lycosa.ask.indexing import Indexing
    from lycosa.ask.reading import CrawlReader
    from lycosa.index.words import STEMMED

    if args.language not in STEMMED:
        raise ConfigError(f"--language {args.language}: there is a stemmer for {', '.join(sorted(STEMMED))}")
    crawl = CrawlReader.beginning(args.directory, time.sleep, follow=args.follow)
    pages = bodiless = copies = removed = ranked = 0
    begun = time.monotonic()
    with (
        Progress("index") as told,
        Indexing(crawl, language=args.language, rebuild=args.rebuild, told=told) as indexing,
    ):
        while True:
            running = crawl.is_running()
            done = indexing.round()
            pages, copies, removed = pages + done.pages, copies + done.copies, removed + done.removed
            bodiless += done.bodiless
            last = not args.follow or not running
            ranked = indexing.rank(time.time_ns() // 1_000_000, 0.0 if last else _GROWN) or ranked
            if last:
                break
            if done.pages or done.removed:
                print(f"lycosa index: {counted(pages, 'page')} so far", file=sys.stderr, flush=True)
            time.sleep(_PAUSE)
    seconds = time.monotonic() - begun
    outcome = (
        f"indexed {counted(pages, 'page')} in {seconds:.1f} s"
        + (f", {counted(copies, 'copy', 'copies')}" if copies else "")
        + (f", took {counted(removed, 'page')} out" if removed else "")
        + (f", ranked {counted(ranked, 'URL')}" if ranked else "")
        + f"; try: lycosa search {args.directory} WORDS"
    )
    print(printable(outcome))
    if bodiless:
        print(
            f"lycosa index: the archive does not have the bodies of {counted(bodiless, 'page')}: they are found by"
            " title and address alone",
            file=sys.stderr,
        )
    return 0
