"""`lycosa export`: pages and links of a crawl as JSON lines, CSV or Parquet; the index of its archive as CDXJ.

The columns are listed in `lycosa.ask.export`. A running crawl is exported up to its last commit. The file appears
when it is complete; its name determines the format, and a name without one is refused. JSON lines and CSV
whose names also end in .gz or .zst are compressed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from lycosa.cli.amounts import counted
from lycosa.cli.streams import Progress, replacing
from lycosa.errors import ConfigError
from lycosa.files import said

if TYPE_CHECKING:
    from lycosa.ask.reading import CrawlReader

HELP = "write pages or links as JSON lines, CSV or Parquet; the archive's index, WACZ, or bodies as files"
EPILOG = """\
examples:
  lycosa export crawls/example pages | jq .url
  lycosa export crawls/example pages --text --to pages.jsonl.zst
  lycosa export crawls/example pages --to pages.csv
  lycosa export crawls/example links --to links.parquet
  lycosa export crawls/example pages --incremental --to pages.parquet
  lycosa export crawls/example pages --columns url,status,headers,language,text --to pages.parquet
  lycosa export crawls/example pages --partition day --incremental --to pages.parquet
  lycosa export crawls/example cdxj
  lycosa export crawls/example wacz --to example.wacz
  lycosa export crawls/example files --to mirror/

Pages: one row for each page, as it is now; with --all-fetches one for each fetch of it.
--columns also has text (of HTML, PDF, office documents), language, headers and body. With --partition the output
is a directory, site=.../part-00000.parquet or the like, which DuckDB, Spark, Polars and pyarrow read as one table.
Links: source, target, kind, nofollow, text, status of the source.
wacz is one file with the archive, its index and a list of pages, which ReplayWeb.page opens; --text adds texts.
files has the bodies in directories by host and path, as wget --mirror leaves them, and index.jsonl.
cdxj goes to DIR/archive/index.cdxj unless --to says otherwise; pywb replays the archive with it.
"""

PARTITIONS = ("site", "day", "shard")
_INDEX = "index.cdxj"
_LEFT = ".unlogged.jsonl"
_FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="the crawl's directory")
    add("what", choices=("pages", "links", "cdxj", "wacz", "files"), help="what to export")
    add(
        "--format",
        choices=("jsonl", "csv", "parquet"),
        help="default: by the name of the file, otherwise jsonl",
    )
    add("--to", metavar="FILE", help="output file (default: standard output)")
    add("--text", action="store_true", help="pages: include the main text, from the archive")
    add("--body", action="store_true", help="pages: include the decoded body, from the archive")
    add("--columns", metavar="NAME,...", help="pages: only these columns, in this order")
    add("--partition", choices=PARTITIONS, help="pages: write one directory of files per value")
    add(
        "--incremental",
        action="store_true",
        help="pages: add a row for each fetch since the last time; Parquet and CSV as a directory of parts",
    )
    add("--all-fetches", action="store_true", help="every fetch of a page, not only its current one")


def run(args: argparse.Namespace) -> int:
    from lycosa.ask.reading import CrawlReader

    crawl = CrawlReader(args.directory)
    if (args.text and args.what not in ("pages", "wacz")) or (args.body and args.what != "pages"):
        raise ConfigError("--text and --body belong to pages: lycosa export DIR pages --text")
    if args.incremental and args.what != "pages":
        raise ConfigError(
            "--incremental belongs to pages: lycosa export DIR pages --incremental --to pages.parquet"
        )
    if (args.columns or args.partition) and args.what != "pages":
        raise ConfigError(
            "--columns and --partition belong to pages: lycosa export DIR pages --partition day"
        )
    if args.what in ("wacz", "files"):
        return _copy(crawl, args)
    if args.what == "cdxj":
        if args.all_fetches:
            raise ConfigError("cdxj has every fetch as it is: leave --all-fetches out")
        if args.format is not None:
            raise ConfigError("cdxj is a format of its own: leave --format out")
        return _cdxj(crawl, args)
    if args.incremental:
        return _incremental(crawl, args)
    return _rows(crawl, args)


def _incremental(crawl: CrawlReader, args: argparse.Namespace) -> int:
    """Export what was fetched since the last time; its place is stored beside the output, like an extraction's."""
    from lycosa.ask.export import PageRows, RowMaker, parquet_schema
    from lycosa.ask.extraction import Extraction

    if args.to in (None, "-"):
        raise ConfigError(
            "--incremental adds pages to a file: lycosa export DIR pages --incremental --to pages.parquet"
        )
    to = Path(args.to)
    form = {".parquet": "parquet", ".csv": "csv"}.get(to.suffix, "jsonl")
    if args.format not in (None, form):
        raise ConfigError(
            "--incremental writes what the name says, .jsonl, .csv or .parquet: leave --format out"
        )
    if args.partition and form == "jsonl":
        raise ConfigError("--partition writes Parquet or CSV: let --to end in .parquet or .csv")
    columns = _page_columns(args)
    rows = PageRows(RowMaker(crawl, columns, args.partition or ""), written=form == "jsonl")
    schema = parquet_schema("pages", columns) if form == "parquet" else None
    named = "export:pages" + "+text" * args.text + "+body" * args.body
    if args.columns or args.partition:
        named = f"export:pages {','.join(columns)} by {args.partition or 'nothing'}"
    with (
        Progress("export") as told,
        Extraction(crawl, named, to, caller=rows, schema=schema, columns=columns, told=told) as extraction,
    ):
        done = extraction.round()
        print(
            f"added {counted(done.rows, 'fetch', 'fetches')} to {to} ({extraction.made:,} in all)",
            file=sys.stderr,
        )
    return 0


def _rows(crawl: CrawlReader, args: argparse.Namespace) -> int:
    from lycosa.ask import export

    to = None if args.to in (None, "-") else Path(args.to)
    form = args.format or ("jsonl" if to is None else _format_of(to))
    if form == "parquet":
        export.parquet_modules()
        if to is None:
            raise ConfigError("Parquet is written to a file: add --to pages.parquet")
    columns = export.LINK_COLUMNS if args.what == "links" else _page_columns(args)
    if args.partition:
        return _partitioned(crawl, args, form, columns)
    write = export.write_jsonl if form == "jsonl" else partial(export.write_csv, columns=columns)
    with Progress("export") as told:
        if args.what == "pages":
            rows = export.pages(crawl, columns=columns, all_fetches=args.all_fetches, told=told)
        else:
            rows = export.links(crawl, told, all_fetches=args.all_fetches)
        if to is None:
            count = write(rows, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        elif form != "parquet":
            with _compressed(to) as out:
                count = write(rows, out)
        else:
            with replacing(to) as draft:
                count = export.write_parquet(rows, str(draft), args.what, columns=columns)
    if to is not None:
        print(f"wrote {counted(count, args.what.removesuffix('s'))} to {to}", file=sys.stderr)
    return 0


def _page_columns(args: argparse.Namespace) -> tuple[str, ...]:
    """The columns that the command names."""
    from lycosa.ask.export import page_columns

    names = [name.strip() for name in args.columns.split(",")] if args.columns else None
    return page_columns(names, text=args.text, body=args.body, partition=args.partition or "")


def _partitioned(crawl: CrawlReader, args: argparse.Namespace, form: str, columns: Sequence[str]) -> int:
    """Current pages in a directory of partitions, which appears when it is complete."""
    from lycosa.ask import export
    from lycosa.ask.extract_rows import sink_for

    if args.to in (None, "-") or form == "jsonl":
        raise ConfigError("--partition writes Parquet or CSV into a directory: add --to pages.parquet")
    to = Path(args.to)
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ConfigError(f"{to} is there: choose another name, or remove it")
    draft = to.with_name(f".{to.name}.{os.getpid()}.{form}")
    schema = export.parquet_schema("pages", columns) if form == "parquet" else None
    sink = sink_for(draft, schema, columns if form == "csv" else ())
    count = 0
    try:
        sink.restore(0)
        with Progress("export") as told:
            for row in export.pages(
                crawl,
                columns=columns,
                partition=args.partition,
                all_fetches=args.all_fetches,
                told=told,
            ):
                sink.add([row])
                count += 1
                if sink.held > export.BATCH_BYTES:
                    sink.commit()
            sink.commit()
        with said("write", to):
            draft.replace(to)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    print(f"wrote {counted(count, 'page')} to {to}", file=sys.stderr)
    return 0


def _copy(crawl: CrawlReader, args: argparse.Namespace) -> int:
    """The archive as one file, or bodies as files."""
    from lycosa.ask.mirror import write_files
    from lycosa.ask.wacz import write_wacz
    from lycosa.files import scratch

    if args.all_fetches or args.format is not None:
        raise ConfigError(f"{args.what} has a form of its own: leave --format and --all-fetches out")
    if args.to in (None, "-"):
        raise ConfigError(f"give a target: --to {'crawl.wacz' if args.what == 'wacz' else 'DIRECTORY'}")
    to = Path(args.to)
    with Progress("export") as told:
        if args.what == "wacz":
            with scratch("lycosa-wacz-") as place, replacing(to) as draft:
                count = write_wacz(crawl, draft, place, title=crawl.directory.name, text=args.text, told=told)
        else:
            if to.exists() and not to.is_dir():
                raise ConfigError(f"cannot write into {to}: it is not a directory")
            if to.is_dir() and any(to.iterdir()) and not (to / "index.jsonl").exists():
                raise ConfigError(f"{to} holds something else: choose a new or empty directory")
            count = write_files(crawl, to, told)
    print(f"wrote {counted(count, 'page')} to {to}", file=sys.stderr)
    return 0


def _format_of(path: Path) -> str:
    """The format that the name of a file indicates."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in (".gz", ".zst")
    last = suffixes[-2:-1] if packed else suffixes[-1:]
    form = _FORMATS.get(last[0]) if last else "jsonl"
    if form is None or (packed and form == "parquet"):
        raise ConfigError(
            f"{path.name} names no format: let it end in .jsonl, .csv (either may be followed by .gz or .zst) or"
            f" .parquet, or add --format"
        )
    return form


@contextmanager
def _compressed(path: Path) -> Iterator[BinaryIO]:
    """A file to write to; compressed if its name says so."""
    with replacing(path) as draft, draft.open("wb") as file:
        if path.suffix == ".gz":
            import gzip

            with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as out:
                yield cast(BinaryIO, out)
        elif path.suffix == ".zst":
            import zstandard

            with zstandard.ZstdCompressor(level=6).stream_writer(file, closefd=False) as packed:
                yield cast(BinaryIO, packed)
        else:
            yield file


# -- the index


def _cdxj(crawl: CrawlReader, args: argparse.Namespace) -> int:
    from lycosa.archive.cdxj import write_index
    from lycosa.ask.alive import process_of
    from lycosa.files import DiskFiles

    if args.to == "-":
        raise ConfigError("the index is sorted in files: give --to a file")
    to = crawl.directory / "archive" / _INDEX if args.to is None else Path(args.to)
    if to.is_dir():
        raise ConfigError(f"cannot write {to}: it is a directory")
    with Progress("export") as told:
        spans: dict[str, array[int]] = {}
        lines = _lines(crawl, told, spans)
        first = next(lines, None)
        if first is None:
            raise ConfigError(f"{crawl.directory} has nothing to index: nothing fetched, or no archive kept")
        if not os.access(to.parent, os.W_OK):
            raise ConfigError(f"cannot write {to}: there is no directory {to.parent} that may be written to")
        count = write_index(DiskFiles(to.parent), to.name, chain((first,), lines))
        twice = 0 if process_of(crawl.directory) else _write_leftovers(crawl, to.with_suffix(_LEFT), spans)
    print(f"wrote {counted(count, 'capture')} to {to}", file=sys.stderr)
    if twice:
        print(
            f"wrote {counted(twice, 'record')} to pass over, left by kills or a full disk,"
            f" to {to.with_suffix(_LEFT)}",
            file=sys.stderr,
        )
    return 0


def _write_leftovers(crawl: CrawlReader, to: Path, spans: dict[str, array[int]]) -> int:
    """List the parts of the archive that no record refers to; no file if there are none."""
    import msgspec

    from lycosa.archive.reader import leftovers

    rows = [
        msgspec.json.encode(
            {
                "filename": name,
                "offset": row.offset,
                "length": row.length,
                "type": row.record.kind,
                "url": row.record.url,
            }
        )
        for name in sorted(spans)
        for row in leftovers(crawl.archive_files, name, zip(spans[name][::2], spans[name][1::2], strict=True))
    ]
    if rows:
        to.write_bytes(b"\n".join(rows) + b"\n")
    else:
        to.unlink(missing_ok=True)
    return len(rows)


def _lines(crawl: CrawlReader, told: Progress, spans: dict[str, array[int]]) -> Iterator[bytes]:
    """A line per exchange in the log: what is not committed does not count. `spans`: their places."""
    from lycosa.archive.cdxj import entries_of
    from lycosa.records import Fetched, Robots

    for number, (_, _, record) in enumerate(crawl.records(), 1):
        if isinstance(record, Fetched | Robots) and record.stored is not None:
            place = record.stored
            start = place.offset
            if (
                isinstance(record, Fetched)
                and record.rendered is not None
                and record.rendered.stored is not None
            ):
                start = record.rendered.stored.offset  # what its scripts requested is stored right before it
            spans.setdefault(place.file, array("q")).extend((start, place.offset + place.length))
            for found in entries_of(crawl.archive_files, record):
                yield found.line()
        if not number & 0x3FF:
            told("indexing", number)
