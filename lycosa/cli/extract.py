"""`lycosa extract`: calls your function for each page of a crawl, once, and writes its rows to a file."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.cli.amounts import counted, duration
from lycosa.cli.streams import Progress, printable
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.ask.extraction import Extraction
    from lycosa.ask.reading import CrawlReader

HELP = "call your own function on each page of a crawl and store its rows"
EPILOG = """\
examples:
  lycosa extract crawls/example quotes.py:quotes --url https://example.org/      try it on one page
  lycosa extract crawls/example quotes.py:quotes --to quotes.jsonl               everything since the last time
  lycosa extract crawls/example quotes.py:quotes --to quotes.parquet --follow    keep up with a running crawl

The function takes a page (url, status, title, text, links, body, header(name), tree.select("css")) and returns
None, a dict, or several of them. Rows of a page are in the file once, also after a kill: run the same command
again. Pages at which it fails or takes too long are in TO.extract/failed.jsonl; if it failed at every page, the
exit code is 1.
"""

_PAUSE = 1.0
"""Seconds between rounds of --follow."""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="the crawl's directory")
    add("function", metavar="FILE.py:FUNCTION", help="or module:function")
    add("--to", type=Path, metavar="FILE", help="rows.jsonl, or rows.parquet, which is a directory of parts")
    add("--url", metavar="URL", help="call the function on this page only, and print the rows")
    add("--follow", action="store_true", help="wait for a crawl to begin, and continue as long as it runs")
    add("--timeout", type=duration, default=30.0, metavar="TIME", help="time limit per page (30s)")
    add("--anew", action="store_true", help="start again, and replace the existing rows")


def run(args: argparse.Namespace) -> int:
    from lycosa.ask.reading import CrawlReader

    if args.timeout <= 0:
        raise ConfigError("--timeout must be above zero")
    if args.url is not None:
        return _try(args)
    if args.to is None:
        raise ConfigError(
            "give a place for the rows: --to rows.jsonl or --to rows.parquet; or try one page with --url"
        )
    return _extract(CrawlReader.beginning(args.directory, time.sleep, follow=args.follow), args)


def _extract(crawl: CrawlReader, args: argparse.Namespace) -> int:
    from lycosa.ask.extraction import SUFFIX

    pages = rows = failed = 0
    with Progress("extract") as told, _opened(crawl, args, told) as extraction:
        while True:
            last = not args.follow or not crawl.is_running()
            done = extraction.round(last=last)
            pages, rows, failed = pages + done.pages, rows + done.rows, failed + done.failed
            if last:
                break
            time.sleep(_PAUSE)
        line = (
            f"extracted {counted(rows, 'row')} from {counted(pages, 'page')} to {args.to}"
            f" ({counted(extraction.made, 'row')} in all)"
        )
    if failed:
        line += f"; it failed at {counted(failed, 'page')}: {args.to}{SUFFIX}/failed.jsonl"
    print(printable(line))
    return 1 if failed and failed >= pages and not rows else 0


def _opened(crawl: CrawlReader, args: argparse.Namespace, told: Progress) -> Extraction:
    """The extraction. With --follow, waits for one that a killed crawl may have left running."""
    from lycosa.ask.extraction import Extraction
    from lycosa.files import InUseError

    while True:
        try:
            return Extraction(crawl, args.function, args.to, seconds=args.timeout, anew=args.anew, told=told)
        except InUseError:
            if not args.follow:
                raise
        time.sleep(_PAUSE)


def _try(args: argparse.Namespace) -> int:
    """Extract from one page, in a process as for all of them; errors are shown with their trace."""
    import msgspec

    from lycosa.ask.extraction import Caller
    from lycosa.ask.json_form import safe
    from lycosa.ask.saved import SavedCrawl

    page = SavedCrawl(args.directory).page(args.url)
    if page is None:
        raise ConfigError(
            f"{args.url!r} is not a page of the crawl: lycosa explain {args.directory} URL says why"
        )
    caller = Caller(args.directory, args.function, args.timeout)
    try:
        caller.start()
        kind, *rest = caller.ask(page.shard, page.position, page.record)
    finally:
        caller.close()
    if kind != "rows":
        for line in (rest[1] if kind == "error" else f"{kind}: {rest[0]}").splitlines():
            print(printable(line), file=sys.stderr)
        return 1
    for row in rest[0]:
        sys.stdout.buffer.write(safe(msgspec.json.encode(row)) + b"\n")
    sys.stdout.buffer.flush()
    return 0


class Beside:
    """An extraction in a separate process, beside the crawl that this process runs."""

    def __init__(self, directory: Path, function: str, to: Path | None) -> None:
        """Errors that can be detected now are reported before the crawl begins."""
        from lycosa.ask.extract_rows import sink_for

        self._to = directory / "extract" / "rows.jsonl" if to is None else to
        sink_for(self._to)
        place, colon, name = function.rpartition(":")
        if not colon or not place or not name:
            raise ConfigError(f"--extract {function}: write it as FILE.py:FUNCTION or module:function")
        if place.endswith(".py") and not Path(place).is_file():
            raise ConfigError(f"--extract {function}: there is no file {place}")
        self._words = [sys.executable, "-m", "lycosa.cli.main", "extract", str(directory), function]
        self._words += ["--to", str(self._to), "--follow"]

    def start(self) -> None:
        """Start the process; the crawl already runs."""
        import os
        import subprocess

        self._to.parent.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join(each for each in sys.path if each)
        self._process = subprocess.Popen(
            self._words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the crawl: extraction then runs to its end
        )

    def wait(self) -> tuple[int, str]:
        """Wait for it to finish: its exit code, and its output."""
        out, _ = self._process.communicate()
        return self._process.returncode, out.decode("utf-8", "replace").strip()
