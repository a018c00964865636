"""WARC files and CDX lines of other programs: wget, Heritrix, Nutch, Browsertrix, Common Crawl.

    for record in records(path): ...        lycosa.archive.reader.Record, in the order of the file
    for row in captures(path): ...          what each line of a CDX or CDXJ file says

A WARC file may be compressed record by record, as a whole, or not at all. A record whose actual length differs from
its stated one ends the reading (`StorageError` names the file and the byte) after the records before it.

A CDX file has a first line that names its columns (` CDX N b a m s k ...`), of which `a` (the URL), `b` (the time),
`m` (the type) and `s` (the status) are read; a CDXJ file has `surt timestamp {json}` lines, as pywb and Common
Crawl's index have them; lines of `{json}` alone (the index server's answers) are read, too. Both may be compressed.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import msgspec

from lycosa.archive.reader import RECORD_LIMIT, Record
from lycosa.errors import ConfigError, StorageError

_HEADER_LIMIT = 1 << 20
_BEGIN = "00000101000000"
"""Completes a time that is less precise than a second: to the beginning of its month, day, hour."""


class Capture(NamedTuple):
    """One line of an index."""

    url: str
    at: int
    """Milliseconds since the epoch; 0: not given."""
    status: int
    """0: not given, as for a revisit."""
    type: str


def records(path: Path) -> Iterator[Record]:
    """The records of a WARC file."""
    with _opened(path) as file:
        at = 0
        while True:
            try:
                found = _record(file)
            except (ValueError, EOFError, OSError, zlib.error) as error:
                raise StorageError(
                    f"{path}: the record at byte {at} (decompressed) cannot be read: {error}"
                ) from None
            if found is None:
                return
            record, size = found
            at += size
            yield record


def _opened(path: Path) -> BinaryIO:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        return cast(BinaryIO, gzip.open(path, "rb")) if packed else path.open("rb")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None


def _record(file: BinaryIO) -> tuple[Record, int] | None:
    """The next record, and how many bytes it occupies; None at the end."""
    size = 0
    while True:  # some writers leave more than two empty lines
        line = file.readline(_HEADER_LIMIT)
        size += len(line)
        if not line:
            return None
        if line.strip():
            break
    if not line.startswith(b"WARC/"):
        raise ValueError("it does not begin with WARC/")
    lines: list[list[str]] = []  # each with its continuation lines
    most = size + _HEADER_LIMIT
    while True:
        line = file.readline(_HEADER_LIMIT)
        size += len(line)
        if not line:
            raise ValueError("its header has no end")
        if size > most:
            raise ValueError(f"its header is larger than {_HEADER_LIMIT} bytes")
        if not line.strip():
            break
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if text[:1] in (" ", "\t") and lines:
            lines[-1].append(text.strip())
        else:
            lines.append([text])
    fields: dict[str, str] = {}
    for parts in lines:
        name, _, value = " ".join(parts).partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    told = fields.get("content-length", "")
    if not (told.isascii() and told.isdigit()) or int(told) > RECORD_LIMIT:
        raise ValueError(f"its Content-Length is {told[:40]!r}")
    block = file.read(int(told))
    if len(block) != int(told):
        raise ValueError("its end is missing")
    return Record(fields.get("warc-type", ""), fields, block), size + len(block)


def captures(path: Path) -> Iterator[Capture]:
    """The captures that the lines of an index describe; other lines are skipped."""
    columns: list[str] = []
    with _opened(path) as file:
        try:
            for line in _lines(file):
                text = line.decode("utf-8", "replace").strip()
                if text.startswith("CDX "):
                    columns = text.split()[1:]
                    continue
                found = _json_line(text) if text.endswith("}") else _cdx_line(text, columns)
                if found is not None:
                    yield found
        except (EOFError, OSError, zlib.error) as error:
            raise StorageError(f"{path} cannot be read to its end: {error}") from None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, except those longer than any index line can be."""
    whole = True
    while line := file.readline(_HEADER_LIMIT):
        ends = line.endswith(b"\n") or len(line) < _HEADER_LIMIT
        if whole and ends:
            yield line
        whole = ends


def _json_line(text: str) -> Capture | None:
    head, _, rest = text.partition("{")
    try:
        row = msgspec.json.decode("{" + rest, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError):
        return None
    words = head.split()
    stamp = str(row.get("timestamp") or (words[1] if len(words) > 1 else ""))
    return _capture(str(row.get("url", "")), stamp, str(row.get("status", "")), str(row.get("mime", "")))


def _cdx_line(text: str, columns: list[str]) -> Capture | None:
    cells = text.split(" ")
    if len(cells) != len(columns):
        return None
    row = dict(zip(columns, cells, strict=True))
    return _capture(row.get("a", ""), row.get("b", ""), row.get("s", ""), row.get("m", ""))


def _capture(url: str, stamp: str, status: str, media: str) -> Capture | None:
    if "://" not in url:
        return None
    code = int(status) if status.isascii() and status.isdigit() and len(status) == 3 else 0
    return Capture(url, _time(stamp), code, "" if media in ("-", "unk", "warc/revisit") else media)


def _time(stamp: str) -> int:
    try:
        when = datetime.strptime(stamp[:14] + _BEGIN[len(stamp) :], "%Y%m%d%H%M%S")
    except ValueError:
        return 0
    return int(when.replace(tzinfo=UTC).timestamp()) * 1000
