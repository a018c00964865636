"""`lycosa log`: the records of a crawl as JSON lines, filtered.

The configuration of a run is the same in every shard: it is shown once, with only the options that differ from
the defaults; `--full` shows each record as a whole.

One object per line, in the form of `lycosa.ask.json_form`: "record" (the kind), "shard", "position", "at",
and the record's fields. Shard by shard, in the order of each log; with `--by-time`, merged by the records'
times. `--follow` continues with what is committed, and ends when the crawl does.

`--url TEXT` and `--host HOST` select by a record's own URL (or site); for records that have none but hold
links (seeded, received) by those. Blocks of the log that do not hold the text are not even decoded, and a
host's records are all in one shard, so both are much faster than reading everything.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.cli.amounts import duration
from lycosa.cli.streams import outlet
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.ask.reading import CrawlReader
    from lycosa.records import Record

HELP = "print the records of a crawl as JSON lines"
EPILOG = """\
kinds: configured, seeded, received, fetched, skipped, deferred, robots, duplicates, lost,
  reread, learned
times: 2026-05-01, 2026-05-01T12:30 (local, unless they end in Z or +02:00), or 15m, 2h, 3d (ago)

examples:
  lycosa log crawls/example --kind skipped,deferred --since 1h
  lycosa log crawls/example --url /private/ --kind fetched --links list
  lycosa log crawls/example --host www.example.org --follow
"""

_POLL = 0.5

Row = tuple[int, int, "Record"]


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="the crawl's directory")
    add("--kind", metavar="A,B", help="only records of these kinds")
    add("--url", metavar="TEXT", help="only records of URLs that contain this text")
    add("--host", metavar="HOST", help="only records of this host")
    add("--since", metavar="TIME", help="only records from this time on")
    add("--until", metavar="TIME", help="only records before this time")
    add("--shard", type=int, metavar="N", help="only this shard")
    add(
        "--from",
        dest="start",
        type=int,
        default=0,
        metavar="POSITION",
        help="start at this position of a shard",
    )
    add("--links", choices=("count", "list", "none"), default="count", help="how to show links (count)")
    add("--by-time", action="store_true", help="merge the shards by time")
    add(
        "--follow",
        action="store_true",
        help="wait for a crawl to begin, and show what it commits until it ends",
    )
    add("--full", action="store_true", help="show configuration records completely, one per shard")
    add("--limit", type=int, metavar="N", help="stop after N records")


def run(args: argparse.Namespace) -> int:
    import msgspec

    from lycosa.ask.json_form import Shown, plain, safe
    from lycosa.ask.reading import CrawlReader
    from lycosa.records import Configured

    wanted, needle = _filter(args)
    if args.start < 0 or (args.limit is not None and args.limit < 0):
        raise ConfigError("--from and --limit take a number: 0 or more")
    crawl = CrawlReader.beginning(args.directory, time.sleep, follow=args.follow)
    shards = _shards(args, crawl)
    rows = _follow(crawl, shards, args) if args.follow else _all(crawl, shards, args, needle)
    encode = msgspec.json.Encoder().encode
    links = Shown(args.links)
    short = Shortened()
    out = sys.stdout.buffer
    left = args.limit
    for shard, position, record in rows:
        if left == 0:
            break
        if wanted(record):
            row = plain(shard, position, record, links)
            if isinstance(record, Configured) and not args.full and not short.shorten(row):
                continue
            out.write(safe(encode(row)) + b"\n")
            if args.follow:
                out.flush()
            left = None if left is None else left - 1
            if left == 0:
                break
    out.flush()
    return 0


class Shortened:
    """Shows configurations without default values, and only once if several shards have the same."""

    def __init__(self) -> None:
        from lycosa.ask.json_form import shown_options
        from lycosa.crawl.config import Options, encode_options

        self._defaults = shown_options(encode_options(Options()))
        self._counts: dict[int, int] = {}
        self._shown: set[tuple[int, str]] = set()

    def shorten(self, row: dict[str, Any]) -> bool:
        """Remove default values; False if the same configuration of another shard was already shown."""
        number = self._counts[row["shard"]] = self._counts.get(row["shard"], 0) + 1
        row["options"] = _differing(row["options"], self._defaults)
        key = number, repr(row["options"])
        fresh = key not in self._shown
        self._shown.add(key)
        return fresh


def _differing(given: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in given.items():
        usual = defaults.get(name)
        if isinstance(value, dict) and isinstance(usual, dict):
            if differing := _differing(value, usual):
                found[name] = differing
        elif value != usual:
            found[name] = value
    return found


def _shards(args: argparse.Namespace, crawl: CrawlReader) -> list[int]:
    count = len(crawl.logs)
    if args.shard is not None:
        if not 0 <= args.shard < count:
            raise ConfigError(f"--shard {args.shard}: this crawl has shards 0 to {count - 1}")
        return [args.shard]
    if args.host:
        return [crawl.splitter.shard_of(args.host.lower())]
    return list(range(count))


def _all(crawl: CrawlReader, shards: list[int], args: argparse.Namespace, needle: bytes) -> Iterator[Row]:
    def one(shard: int) -> Iterator[Row]:
        log = crawl.logs[shard]
        for position, record in log.find(needle) if needle and not args.start else log.scan(args.start):
            yield shard, position, record

    yield from _merged([one(shard) for shard in shards], args.by_time)


def _merged(streams: list[Iterator[Row]], by_time: bool) -> Iterator[Row]:
    if by_time:
        return heapq.merge(*streams, key=lambda row: row[2].at)
    return chain.from_iterable(streams)


def _follow(crawl: CrawlReader, shards: list[int], args: argparse.Namespace) -> Iterator[Row]:
    """Show everything, and then new records until the crawl ends."""
    following = dict.fromkeys(shards, args.start)

    def fresh(shard: int) -> Iterator[Row]:
        for position, record in crawl.logs[shard].scan(following[shard]):
            yield shard, position, record

    while True:
        running = crawl.is_running()  # asked first: its last records come before its end
        for row in _merged([fresh(shard) for shard in shards], args.by_time):
            following[row[0]] = row[1] + 1
            yield row
        if not running:
            return
        if (out := outlet(sys.stdout)) is not None and out.deserted():
            return  # the reader is gone: do not wait for the next record to notice
        time.sleep(_POLL)


def _filter(args: argparse.Namespace) -> tuple[Callable[[Record], bool], bytes]:
    """Which records are wanted, and bytes that each of them contains."""
    from lycosa.ask.json_form import KINDS
    from lycosa.url.parts import host_of

    tests: list[Callable[[Record], bool]] = []
    needle = ""
    if args.kind:
        kinds = []
        for name in args.kind.split(","):
            if name.strip() not in KINDS:
                raise ConfigError(f"--kind {name.strip()!r}: known are {', '.join(KINDS)}")
            kinds.append(KINDS[name.strip()])
        some = tuple(kinds)
        tests.append(lambda record: isinstance(record, some))
    if args.since:
        since = read_time(args.since, "--since")
        tests.append(lambda record: record.at >= since)
    if args.until:
        until = read_time(args.until, "--until")
        tests.append(lambda record: record.at < until)
    if args.host:
        host = needle = args.host.lower()
        tests.append(lambda record: any(host_of(url) == host for url in _urls(record)))
    if args.url:
        text = needle = args.url
        tests.append(lambda record: any(text in url for url in _urls(record)))
    return lambda record: all(test(record) for test in tests), needle.encode("utf-8", "surrogateescape")


def _urls(record: Record) -> Iterator[str]:
    """The URL of a record; for a site, its root; for links without a page, all of them."""
    from lycosa.records import Received, Seeded

    url = getattr(record, "url", "")
    site = getattr(record, "site", "")
    if url:
        yield url
    elif site:
        yield f"{site}/"
    elif isinstance(record, Seeded | Received):
        yield from record.links.urls.decode("ascii").split("\n")


def read_time(text: str, where: str) -> int:
    """A time in milliseconds since the epoch, from a date, a date and time, or a duration before now."""
    try:
        return int((time.time() - duration(text)) * 1000) if text[:1].isdigit() else _fail(text, where)
    except argparse.ArgumentTypeError:
        pass
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return _fail(text, where)


def _fail(text: str, where: str) -> int:
    raise ConfigError(f"{where} {text!r} is no time: write 2026-05-01, 2026-05-01T12:30 or 2h (ago)")
