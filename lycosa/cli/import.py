"""`lycosa import`: turns what other programs fetched into a crawl, or part of one, so it is not fetched again."""

# ruff: noqa: N999 - a verb is called as its module is
from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lycosa.cli.amounts import counted
from lycosa.cli.streams import Progress, printable
from lycosa.errors import ConfigError

HELP = "add pages that other programs fetched (WARC, CDX, lists of URLs) to a crawl"
EPILOG = """\
examples:
  lycosa import crawls/example --warc site.warc.gz more.warc      of wget, Heritrix, Nutch, Common Crawl ...
  lycosa import crawls/example --cdx index.cdxj                   known as fetched; bodies and links are not there
  lycosa import crawls/example --urls urls.txt                    to be fetched
  lycosa crawl https://example.org/ --into crawls/example ...     then go on: nothing of it is fetched again

The crawl must not be running. Pages that it has already are passed over: the same command goes on after a kill.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="the crawl's directory; created if missing")
    add("--warc", type=Path, nargs="+", action="extend", metavar="FILE", help="pages with bodies and links")
    add(
        "--cdx",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="CDX or CDXJ index: URLs to mark as fetched",
    )
    add(
        "--urls",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="files of URLs to fetch, one per line; - for standard input",
    )
    add(
        "--shards",
        type=int,
        metavar="N",
        help="number of shards of a new crawl; cannot be changed later (16)",
    )


def run(args: argparse.Namespace) -> int:
    from lycosa.cli.crawl_flags import read_seeds
    from lycosa.clock import SystemClock
    from lycosa.crawl.api import demand_room
    from lycosa.crawl.importing import Importer
    from lycosa.files import DirectoryLock, DiskFiles, scratch

    if not (args.warc or args.cdx or args.urls):
        raise ConfigError("give what to import: --warc FILE, --cdx FILE or --urls FILE")
    for path in [*(args.warc or ()), *(args.cdx or ())]:
        if not path.is_file():
            raise ConfigError(f"there is no file {path}")
    lists = [read_seeds(name) for name in args.urls or ()]
    demand_room(args.directory)
    lock = DirectoryLock(args.directory)
    try:
        with (
            Progress("import") as told,
            scratch("lycosa-import-") as place,
            Importer(
                DiskFiles(args.directory), SystemClock(), DiskFiles(place), shards=args.shards, told=told
            ) as importer,
        ):
            for path in args.warc or ():
                importer.warc(path)
            for path in args.cdx or ():
                importer.cdx(path)
            for rows in lists:
                importer.urls(rows)
    finally:
        lock.release()
    done = importer.done
    line = (
        f"imported {counted(done.pages, 'page')}"
        + (f", {counted(done.known, 'page')} without a body" if done.known else "")
        + (f", {counted(done.urls, 'URL')} to fetch" if done.urls else "")
        + (f"; passed over {counted(done.passed, 'page')} that the crawl has" if done.passed else "")
        + (f"; {counted(done.refused, 'line')} no URL" if done.refused else "")
        + f"; go on: lycosa crawl {'' if done.urls else 'SEED ... '}--into {args.directory}"
    )
    if not (done.pages or done.known or done.urls or done.passed):
        names = ", ".join(map(str, [*(args.warc or ()), *(args.cdx or ()), *(args.urls or ())]))
        print(printable(f"nothing to import was found in {names}"), file=sys.stderr)
        return 1
    print(printable(line))
    return 0
