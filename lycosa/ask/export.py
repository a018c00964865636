"""Export: pages and links of a crawl as rows, streamed, for JSON lines, CSV and Parquet.

Pages (one row for each page: its current fetch, see `versions`; with `all_fetches` one for each fetch):

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
    archive_file, archive_offset, archive_length, archive_response     null if not kept
    text                        with `text`: the main text; null if there is no body in the archive
    body                        with `body`: the decoded body (base64 in JSON and CSV), null likewise

Links (one row for each link of each page, seed and robots.txt, of pages as above; what was received from other
shards is a copy of these and left out):

    source                      the page; null for a seed; for a sitemap of a robots.txt that file's URL
    target, kind, nofollow, text
    status                      of the source, null for seeds and robots files

Rows come in batches that are bounded by their size in memory, whatever the size of the crawl.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import msgspec

from lycosa.archive.reader import read_exchange
from lycosa.ask.follower import Entry
from lycosa.ask.json_form import digest_text, iso, safe
from lycosa.ask.reading import CrawlReader
from lycosa.ask.versions import Versions
from lycosa.content.documents import text_of
from lycosa.errors import ConfigError
from lycosa.fetch.decode import decode
from lycosa.fetch.protocol import find_header
from lycosa.records import NOFOLLOW, Fetched, LinkKind, Robots, Seeded
from lycosa.url.parts import host_of, site_of

BATCH_ROWS = 20_000
BATCH_BYTES = 16 << 20
"""A batch ends when it has either: a row group of Parquet, or a write of JSON lines."""
DECODED_LIMIT = 64 << 20

Row = dict[str, Any]
Told = Callable[[str, int], None]

_KIND_NAMES = {int(kind): kind.name.lower() for kind in LinkKind}


def body_of(crawl: CrawlReader, record: Fetched) -> bytes | None:
    """The decoded body of a page from the archive; None if it is not there."""
    place = record.body or record.stored  # of a revisit the body lies with an earlier fetch
    if place is None:
        return None
    exchange = read_exchange(crawl.archive_files, place)
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
    told: Told | None = None,
) -> Iterator[Row]:
    """A row for each page, or each fetch, shard by shard."""
    for shard, position, record in _records(crawl, told, all_fetches):
        if not isinstance(record, Fetched):
            continue
        row = page_row(shard, position, record)
        if text or body:
            data = body_of(crawl, record)
            if text:
                row["text"] = None if data is None else text_of(data, record.type, record.charset)
            if body:
                row["body"] = data
        yield row


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
    """A row for each link, shard by shard."""
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
    """JSON lines; times as ISO text, bodies as base64. Returns how many."""
    encode = msgspec.json.Encoder().encode
    count = 0
    for batch in batches(rows):
        out.write(b"".join(safe(encode(_written(row))) + b"\n" for row in batch))
        count += len(batch)
    return count


def write_csv(rows: Iterable[Row], out: BinaryIO, *, columns: Sequence[str]) -> int:
    """CSV (RFC 4180, UTF-8) with a line of names; null is empty, flags are true and false. Returns how many."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    count = 0
    for batch in batches(rows):
        writer.writerows(
            {
                name: str(value).lower() if isinstance(value, bool) else value
                for name, value in _written(row).items()
            }
            for row in batch
        )
        out.write(text.getvalue().encode("utf-8", "replace"))
        text.seek(0)
        text.truncate()
        count += len(batch)
    out.write(text.getvalue().encode())  # of no rows, the names
    return count


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


def write_parquet(
    rows: Iterable[Row], path: str, kind: str, *, text: bool = False, body: bool = False
) -> int:
    """A Parquet file, a row group a batch. Returns how many rows."""
    arrow, parquet = parquet_modules()
    schema = _schema(arrow, kind, text, body)
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches(rows):
            writer.write_table(arrow.Table.from_pylist(batch, schema=schema), row_group_size=len(batch))
            count += len(batch)
    return count


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
    *("archive_file", "archive_offset", "archive_length", "archive_response"),
)


COLUMNS = {"pages": PAGE_COLUMNS, "links": LINK_COLUMNS}


def _schema(arrow: Any, kind: str, text: bool, body: bool) -> Any:
    columns = []
    for name in COLUMNS[kind]:
        if name == "at":
            column = arrow.timestamp("ms", tz="UTC")
        elif name in _NUMBERS:
            column = arrow.int64()
        elif name in _SMALL:
            column = arrow.int32()
        else:
            column = arrow.bool_() if name in _FLAGS else arrow.string()
        columns.append((name, column))
    if text:
        columns.append(("text", arrow.large_string()))
    if body:
        columns.append(("body", arrow.large_binary()))
    return arrow.schema(columns)
