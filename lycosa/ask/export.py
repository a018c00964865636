"""Export: pages and links of a crawl as rows, streamed, for JSON lines, CSV and Parquet.

Pages (one row per page: its current fetch, see `versions`; with `all_fetches` one per fetch):

    shard, position             where its record is
    at                          time of the answer
    url, site, host
    depth, hops, attempt, status, type, charset
    size, length                bytes of the body as sent, and decoded
    digest                      16 hexadecimal digits, null for an empty body
    dns_ms, connect_ms, first_byte_ms, total_ms
    address
    links                       how many
    title, etag, modified, truncated, noindex, duplicate
    cluster                     the page that represents all pages of nearly the same content (may be the page
                                itself); null if it is alone, or if `lycosa duplicates` has not run
    archive_file, archive_offset, archive_length, archive_response     null if not kept

and, on request, from the archive (null if it has no such exchange):

    text                        the main text, of HTML, PDF, office documents and others (`content.documents`)
    language                    the code of the text's language; null if it is not certain
    headers                     those of the answer, in order: a list of {name, value} (JSON text in CSV)
    body                        the decoded body (base64 in JSON and CSV)

Links (one row per link of each page, seed and robots.txt, of pages as above; records received from other shards are
copies of these and left out):

    source                      the page; null for a seed; for a sitemap named by a robots.txt, that file's URL
    target, kind, nofollow, text
    status                      of the source, null for seeds and robots files

Rows come in batches bounded by their size in memory, whatever the size of the crawl.

Partitions: files in directories `site=...`, `day=...` (of the fetch, in UTC) or `shard=...`, named as Hive does and
read by DuckDB, Spark, Polars and pyarrow; the partition column is in the path and not in the files.
"""

from __future__ import annotations

import base64
import csv
import difflib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO
from urllib.parse import quote

import msgspec

from lycosa.archive.reader import read_exchange, read_rendered
from lycosa.ask.follower import Entry
from lycosa.ask.json_form import digest_text, iso, safe
from lycosa.ask.reading import CrawlReader
from lycosa.ask.versions import Versions
from lycosa.content import documents
from lycosa.content.language import language
from lycosa.errors import ConfigError
from lycosa.fetch.decode import decode
from lycosa.fetch.protocol import find_header
from lycosa.records import NOFOLLOW, Fetched, LinkKind, Robots, Seeded
from lycosa.url.parts import host_of, site_of

BATCH_ROWS = 20_000
BATCH_BYTES = 16 << 20
"""A batch ends when it reaches either limit: one row group of Parquet, or one write of JSON lines."""
DECODED_LIMIT = 64 << 20

Row = dict[str, Any]
Told = Callable[[str, int], None]

_KIND_NAMES = {int(kind): kind.name.lower() for kind in LinkKind}


def body_of(crawl: CrawlReader, record: Fetched) -> bytes | None:
    """The decoded body of a page from the archive, rendered if a browser rendered it; None if it is not there."""
    if record.rendered is not None and record.rendered.length and record.rendered.stored is not None:
        return read_rendered(crawl.archive_files, record.rendered.stored)
    place = record.body or record.stored  # the body of a revisit lies with an earlier fetch
    if place is None:
        return None
    exchange = read_exchange(crawl.archive_files, place, asked=False)
    if exchange.kind == "revisit":
        return None
    encoding = find_header(exchange.head, "content-encoding") or ""
    return decode(exchange.body, encoding, DECODED_LIMIT).data


def pages(
    crawl: CrawlReader,
    *,
    text: bool = False,
    body: bool = False,
    all_fetches: bool = False,
    columns: Sequence[str] | None = None,
    partition: str = "",
    told: Told | None = None,
) -> Iterator[Row]:
    """A row per page, or per fetch, shard by shard; with all columns, or those named."""
    maker = RowMaker(crawl, page_columns(columns, text=text, body=body, partition=partition), partition)
    for shard, position, record in _records(crawl, told, all_fetches):
        if isinstance(record, Fetched):
            yield maker.row(shard, position, record)


class RowMaker:
    """Makes rows from fetches, with the columns that are wanted."""

    def __init__(self, crawl: CrawlReader, columns: Sequence[str], partition: str = "") -> None:
        """`partition`: each row names, under `PART`, the directory that it belongs to."""
        from lycosa.ask.clusters import ClusterReader

        self._crawl = crawl
        self._columns = columns
        self._wanted = frozenset(columns)
        self._partition = partition
        self._clusters = ClusterReader.of(crawl) if "cluster" in self._wanted else None

    def row(self, shard: int, position: int, record: Fetched) -> Row:
        row, wanted = page_row(shard, position, record), self._wanted
        part = _part(self._partition, row) if self._partition else ""
        found = self._clusters
        row["cluster"] = None if found is None else found.representative_of(record.url)
        if "headers" in wanted:
            row["headers"] = headers_of(self._crawl, record)
        if wanted & _OF_BODY:
            data = body_of(self._crawl, record)
            read = None
            if data is not None and wanted & _OF_TEXT:
                read = documents.read(data, record.type, record.charset)
            if "text" in wanted:
                row["text"] = None if read is None else read.text
            if "language" in wanted:
                row["language"] = None if read is None else language(read.text, read.language) or None
            if "body" in wanted:
                row["body"] = data
        row = {name: row[name] for name in self._columns}
        if part:
            row[PART] = part
        return row


def headers_of(crawl: CrawlReader, record: Fetched) -> list[dict[str, str]] | None:
    """The headers of an answer, in order; None if it is not in the archive."""
    if record.stored is None:
        return None
    head = read_exchange(crawl.archive_files, record.stored).head
    lines = [line.decode("latin-1").partition(":") for line in head.split(b"\r\n")[1:] if b":" in line]
    return [{"name": name.strip(), "value": value.strip()} for name, _, value in lines]


def page_columns(
    columns: Sequence[str] | None, *, text: bool = False, body: bool = False, partition: str = ""
) -> tuple[str, ...]:
    """The columns of the files: those named, or the default ones; without the partition column."""
    known = (*PAGE_COLUMNS, *FROM_ARCHIVE)
    for name in columns or ():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise ConfigError(f"pages have no column {name!r}: {hint}")
    chosen = dict.fromkeys(columns or PAGE_COLUMNS)
    chosen.update(dict.fromkeys(name for name, wanted in (("text", text), ("body", body)) if wanted))
    return tuple(name for name in chosen if name != partition)


def _part(partition: str, row: Row) -> str:
    """The directory that a row belongs to."""
    if partition == "day":
        return f"day={datetime.fromtimestamp(row['at'] / 1000, UTC):%Y-%m-%d}"
    return f"{partition}={quote(str(row[partition]), safe='')}"


def page_row(shard: int, position: int, record: Fetched) -> Row:
    """A Fetched record, flat."""
    timing, stored = record.timing, record.stored
    return {
        "shard": shard,
        "position": position,
        "at": record.at,
        "url": record.url,
        "site": site_of(record.url),
        "host": host_of(record.url),
        "depth": record.depth,
        "hops": record.hops,
        "attempt": record.attempt,
        "status": record.status,
        "type": record.type,
        "charset": record.charset,
        "size": record.size,
        "length": record.length,
        "digest": digest_text(record.digest),
        "dns_ms": timing.dns,
        "connect_ms": timing.connect,
        "first_byte_ms": timing.first_byte,
        "total_ms": timing.total,
        "address": record.address,
        "links": len(record.links),
        "title": record.title,
        "etag": record.etag,
        "modified": record.modified,
        "truncated": record.truncated,
        "noindex": record.noindex,
        "duplicate": record.duplicate,
        "archive_file": stored.file if stored else None,
        "archive_offset": stored.offset if stored else None,
        "archive_length": stored.length if stored else None,
        "archive_response": stored.response if stored else None,
    }


def links(crawl: CrawlReader, told: Told | None = None, *, all_fetches: bool = False) -> Iterator[Row]:
    """A row per link, shard by shard."""
    for _, _, record in _records(crawl, told, all_fetches):
        if not isinstance(record, Fetched | Seeded | Robots) or not record.links.kinds:
            continue
        source: str | None = None
        status: int | None = None
        if isinstance(record, Fetched):
            source, status = record.url, record.status
        elif isinstance(record, Robots):
            source = f"{record.site}/robots.txt"
        packed = record.links
        urls = packed.urls.decode("ascii").split("\n")
        texts = packed.texts.decode("utf-8", "replace").split("\n") if packed.texts else [""] * len(urls)
        for target, kind, text in zip(urls, packed.kinds, texts, strict=True):
            yield {
                "source": source,
                "target": target,
                "kind": _KIND_NAMES.get(kind & 0x7F, "unknown"),
                "nofollow": kind >= NOFOLLOW,
                "text": text,
                "status": status,
            }


def _records(crawl: CrawlReader, told: Told | None, all_fetches: bool) -> Iterator[Entry]:
    versions = Versions(crawl)
    for number, row in enumerate(crawl.records(), 1):
        if all_fetches or not isinstance(row[2], Fetched) or versions.is_current(*row[:2]):
            yield row
        if told is not None and not number & 0x3FF:
            told("exporting", number)


def batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows in lists of bounded size."""
    batch: list[Row] = []
    held = 0
    for row in rows:
        batch.append(row)
        held += 200 + sum(len(value) for value in row.values() if isinstance(value, str | bytes))
        if len(batch) >= BATCH_ROWS or held >= BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


# -- writing


def write_jsonl(rows: Iterable[Row], out: BinaryIO) -> int:
    """JSON lines; times as ISO text, bodies as base64. Returns how many rows."""
    encode = msgspec.json.Encoder().encode
    count = 0
    for batch in batches(rows):
        out.write(b"".join(safe(encode(_written(row))) + b"\n" for row in batch))
        count += len(batch)
    return count


def write_csv(rows: Iterable[Row], out: BinaryIO, *, columns: Sequence[str]) -> int:
    """CSV (RFC 4180, UTF-8) with a header line; null is empty, flags are true and false. Returns how many rows."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    writer.writeheader()
    count = 0
    for batch in batches(rows):
        writer.writerows({name: _cell(value) for name, value in _written(row).items()} for row in batch)
        out.write(text.getvalue().encode("utf-8", "replace"))
        text.seek(0)
        text.truncate()
        count += len(batch)
    out.write(text.getvalue().encode())  # without rows: the header alone
    return count


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return msgspec.json.encode(value).decode() if isinstance(value, list) else value


def _written(row: Row) -> Row:
    """A row in which everything is text, a number, a flag or null."""
    if "at" in row:
        row["at"] = iso(row["at"])
    if isinstance(row.get("body"), bytes):
        row["body"] = base64.b64encode(row["body"]).decode("ascii")
    return row


def parquet_modules() -> tuple[Any, Any]:
    """pyarrow and its parquet module; one line for the operator if it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError(
            "Parquet needs pyarrow: pip install 'lycosa[parquet]', or export with --format jsonl"
        ) from None
    return pyarrow, pyarrow.parquet


def write_parquet(rows: Iterable[Row], path: str, kind: str, *, columns: Sequence[str] | None = None) -> int:
    """A Parquet file, one row group per batch. Returns how many rows."""
    _, parquet = parquet_modules()
    count = 0
    reader = arrow_reader(rows, kind, columns)
    with parquet.ParquetWriter(path, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch, row_group_size=len(batch))
            count += len(batch)
    return count


def arrow_reader(rows: Iterable[Row], kind: str, columns: Sequence[str] | None = None) -> Any:
    """Rows as a pyarrow.RecordBatchReader: batches are made as they are requested."""
    arrow, _ = parquet_modules()
    schema = parquet_schema(kind, columns)
    made = (arrow.RecordBatch.from_pylist(batch, schema=schema) for batch in batches(rows))
    return arrow.RecordBatchReader.from_batches(schema, made)


_NUMBERS = frozenset(("position", "size", "length", "archive_offset", "archive_length", "archive_response"))
_SMALL = frozenset(
    (
        *("shard", "depth", "hops", "attempt", "status", "links"),
        *("dns_ms", "connect_ms", "first_byte_ms", "total_ms"),
    )
)
_FLAGS = frozenset(("nofollow", "noindex", "duplicate"))
LINK_COLUMNS = ("source", "target", "kind", "nofollow", "text", "status")
PAGE_COLUMNS = (
    *(
        "shard",
        "position",
        "at",
        "url",
        "site",
        "host",
        "depth",
        "hops",
        "attempt",
        "status",
        "type",
        "charset",
    ),
    *("size", "length", "digest", "dns_ms", "connect_ms", "first_byte_ms", "total_ms", "address", "links"),
    *("title", "etag", "modified", "truncated", "noindex", "duplicate"),
    *("archive_file", "archive_offset", "archive_length", "archive_response", "cluster"),
)


FROM_ARCHIVE = ("text", "language", "headers", "body")
"""Further columns of pages, read from the archive."""
_OF_BODY = frozenset(("text", "language", "body"))
_OF_TEXT = frozenset(("text", "language"))
COLUMNS = {"pages": PAGE_COLUMNS, "links": LINK_COLUMNS}
PART = "="
"""The key under which a row names its directory."""


class PageRows:
    """Rows of fetches one by one, for an export that can be resumed (`lycosa.ask.extraction.Calling`)."""

    def __init__(self, maker: RowMaker, *, written: bool) -> None:
        """`written`: whether the rows are made for JSON lines."""
        self._maker = maker
        self._as_text = written

    def start(self) -> None:
        """Does nothing: there is nothing to load."""

    def ask(self, shard: int, position: int, record: Fetched) -> list[Any]:
        row = self._maker.row(shard, position, record)
        return ["rows", [_written(row) if self._as_text else row]]

    def close(self) -> None:
        """Does nothing: there is nothing to end."""


def parquet_schema(kind: str, names: Sequence[str] | None = None) -> Any:
    """The columns of pages or links: all, or those named."""
    arrow, _ = parquet_modules()
    columns = []
    for name in names or COLUMNS[kind]:
        if name == "headers":
            column = arrow.list_(arrow.struct([("name", arrow.string()), ("value", arrow.string())]))
        elif name == "body":
            column = arrow.large_binary()
        elif name == "text" and kind == "pages":
            column = arrow.large_string()
        elif name == "at":
            column = arrow.timestamp("ms", tz="UTC")
        elif name in _NUMBERS:
            column = arrow.int64()
        elif name in _SMALL:
            column = arrow.int32()
        else:
            column = arrow.bool_() if name in _FLAGS else arrow.string()
        columns.append((name, column))
    return arrow.schema(columns)
