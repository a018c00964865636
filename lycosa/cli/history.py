"""`lycosa history`: the versions of a page that a crawl has fetched, how their texts differ, and their bytes."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.cli.amounts import counted, show_size, show_time
from lycosa.cli.streams import printable
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.ask.history import Event
    from lycosa.ask.reading import CrawlReader

HELP = "list the versions of a page: fetch times, differences of texts, bytes"
EPILOG = """\
examples:
  lycosa history crawls/example https://example.org/news
  lycosa history crawls/example example.org/news --diff
  lycosa history crawls/example example.org/news --body 2 > news.html

exit code: 0 the crawl has fetched the page, 1 it has not.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the crawl's directory")
    parser.add_argument("url", metavar="URL", help="with or without its scheme")
    parser.add_argument(
        "--diff", action="store_true", help="show how the text of each version differs from the previous one"
    )
    parser.add_argument(
        "--body", type=int, metavar="N", help="write the archived bytes of version N, decoded"
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines, one per fetch")


def run(args: argparse.Namespace) -> int:
    from lycosa.ask.history import version_of
    from lycosa.ask.reading import CrawlReader

    crawl = CrawlReader(args.directory)
    url, rows = _find(crawl, args.url.strip())
    if not rows:
        print(f"{printable(url)}: this crawl has not fetched it", file=sys.stderr)
        return 1
    if args.body is not None:
        from lycosa.ask.export import body_of

        record = version_of(rows, args.body)
        if record is None:
            raise ConfigError(f"{url} has no version {args.body}: it has {max(row.version for row in rows)}")
        body = body_of(crawl, record)
        if body is None:
            raise ConfigError(f"the archive has no body of version {args.body} of {url}")
        sys.stdout.buffer.write(body)
        return 0
    if args.json:
        _print_json(rows)
    else:
        print(printable(url))
        _print(crawl, rows, args.diff)
    return 0


def _find(crawl: CrawlReader, text: str) -> tuple[str, list[Event]]:
    from lycosa.ask.history import events
    from lycosa.url.canonical import canonicalise

    schemes = [""] if "://" in text or text.startswith("file:") else ["http://", "https://"]
    url = ""
    for scheme in schemes:
        found = canonicalise(scheme + text)
        if found is None:
            raise ConfigError(f"{text!r} is not a URL that a crawl could meet")
        url = found
        if rows := events(crawl, url):
            return url, rows
    return url, []


def _print(crawl: CrawlReader, rows: list[Event], diff: bool) -> None:
    from lycosa.ask.history import text

    versions = max(row.version for row in rows)
    changes = sum(row.changed for row in rows)
    print(
        f"  {counted(len(rows), 'fetch', 'fetches')}, {counted(versions, 'version')}, {counted(changes, 'change')}"
    )
    shown, before = 0, ""
    for row in rows:
        record = row.record
        said = "failed" if not row.version else f"version {row.version}"
        note = "changed" if row.changed else "not modified" if record.status == 304 else ""
        place = f"{record.stored.file} at byte {record.stored.offset}" if record.stored else ""
        print(
            f"  {show_time(record.at / 1000)}  {record.status}  {said:<11} {note:<13}"
            f" {show_size(record.size):>9}  {place}".rstrip()
        )
        if diff and row.version and row.version != shown and record.status != 304:
            new = text(crawl, record)
            if new is None:
                print("    (the archive does not have its body)")
                continue
            if shown:
                for line in difflib.unified_diff(before.splitlines(), new.splitlines(), n=1, lineterm=""):
                    if not line.startswith(("---", "+++")):
                        print(f"    {printable(line)}")
            shown, before = row.version, new


def _print_json(rows: list[Event]) -> None:
    from lycosa.ask.json_form import iso

    for row in rows:
        record = row.record
        print(
            json.dumps(
                {
                    "at": iso(record.at),
                    "position": row.position,
                    "status": record.status,
                    "version": row.version or None,
                    "changed": row.changed,
                    "size": record.size,
                    "digest": f"{record.digest:016x}",
                    "content": f"{record.content:016x}" if record.content else None,
                    "stored": [record.stored.file, record.stored.offset] if record.stored else None,
                }
            )
        )
