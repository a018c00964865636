"""`lycosa repair`: make a crawl usable that lost part of its data on disk; without --yes, only inspect it."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from lycosa.cli.amounts import counted
from lycosa.cli.streams import Progress
from lycosa.errors import ConfigError

HELP = "show what a damaged crawl has lost, and make it usable again"
EPILOG = """\
examples:
  lycosa repair crawls/example          look: says what is gone and what would be done; changes nothing
  lycosa repair crawls/example --yes    do it

First try to restore the missing files from a backup: the whole directory, as it was at one moment.
Nothing is deleted: what leaves its place goes to DIR/set-aside. Exit code 1: something is to be repaired.
"""

_SHOWN = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the crawl's directory")
    parser.add_argument("--yes", action="store_true", help="make the changes (default: only show them)")


def run(args: argparse.Namespace) -> int:
    from lycosa.crawl.manifest import NAME
    from lycosa.crawl.repair import Look, look, mend
    from lycosa.files import DirectoryLock, DiskFiles

    if not (args.directory / NAME).exists():
        raise ConfigError(f"{args.directory} is not the directory of a crawl (see lycosa crawl --into)")
    files = DiskFiles(args.directory)
    lock = DirectoryLock(args.directory)
    try:
        with Progress("repair") as told:
            found: Look = look(files, told)
        if not found.broken:
            print(f"{args.directory} is whole: {counted(found.pages, 'page')} in its logs, nothing to repair")
            return 0
        print("\n".join(found.lines()))
        print(f"the logs hold {counted(found.pages, 'page')}")
        if found.urls:
            print(f"{len(found.urls):,} more are in the archive and in no log; they are fetched again:")
            print("\n".join(f"  {url}" for url in found.urls[:_SHOWN]))
            if len(found.urls) > _SHOWN:
                print(f"  ... and {len(found.urls) - _SHOWN:,} more")
        if not args.yes:
            print(
                "what is gone would be noted as gone, and snapshots set aside: the next run rebuilds all state from"
                " the logs\n"
                f"nothing was changed; to do it: lycosa repair {args.directory} --yes"
            )
            return 1
        aside = mend(files, found, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
        print(
            f"repaired; everything that left its place is in {args.directory / aside}, with lists of what is gone\n"
            f"go on: run the lycosa crawl command again, with its seeds (--into {args.directory})"
        )
        return 0
    finally:
        lock.release()
