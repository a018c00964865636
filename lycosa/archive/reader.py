"""Reading WARC files: one exchange by its place, or a whole file record by record.

Any input is accepted; damage is a `StorageError` that names the file and the place. A record is checked by the
CRC-32 of its gzip member, and by its block digest if it has one, whenever it is read. Records of other programs are
read too, if each is a gzip member of its own.

A member is decompressed up to `RECORD_LIMIT` bytes, so that a damaged or hostile file cannot fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from isal import isal_zlib

from lycosa.archive.warc import digest
from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.records import Stored

RECORD_LIMIT = 1 << 30
"""The largest size of a decompressed record, in bytes."""
_BROKEN: Any = isal_zlib.error  # a class, though its type stub declares an instance
_CHUNK = 1 << 20
_FEED = 1 << 14


_EXACT = "x-lycosa-url"


class Record(NamedTuple):
    """One record: its fields by lower-case name, and its block."""

    kind: str
    fields: dict[str, str]
    block: bytes

    @property
    def http(self) -> tuple[bytes, bytes]:
        """Head and body of a block that is HTTP; the head includes its final empty line."""
        end = self.block.find(b"\r\n\r\n")
        if end < 0:
            return self.block, b""
        return self.block[: end + 4], self.block[end + 4 :]

    @property
    def url(self) -> str:
        """The exact URL; "" if it has none. (WARC-Target-URI percent-encodes what RFC 3986 does not allow.)"""
        return self.fields.get(_EXACT) or self.fields.get("warc-target-uri", "").strip("<>")

    @property
    def at(self) -> int:
        """WARC-Date in milliseconds; 0 if it has none."""
        return _milliseconds(self.fields.get("warc-date", ""))


class Located(NamedTuple):
    """A record and the place of its gzip member."""

    record: Record
    file: str
    offset: int
    length: int


class Exchange(NamedTuple):
    """A request and its answer. For a file URL there are no heads; a revisit has no body of its own."""

    url: str
    at: int
    request_head: bytes
    head: bytes
    body: bytes
    kind: str  # kind of the answer's record: response, revisit, resource
    fields: dict[str, str]


class _DamageError(Exception):
    """The bytes are not a record; the caller knows their place."""


def _milliseconds(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0


def parse(data: bytes) -> Record:
    """The record in the bytes of a decompressed member; `StorageError` if they are not a record."""
    try:
        return _parse(data)
    except _DamageError as error:
        raise StorageError(f"not a WARC record: {error}") from None


def _fields(data: bytes) -> tuple[dict[str, str], int]:
    end = data.find(b"\r\n\r\n")
    if not data.startswith(b"WARC/1.") or end < 0:
        raise _DamageError("it has no WARC header")
    lines = data[:end].decode("utf-8", "replace").split("\r\n")[1:]
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    return fields, end + 4


def _parse(data: bytes) -> Record:
    fields, start = _fields(data)
    text = fields.get("content-length", "")
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise _DamageError("its Content-Length is not a number")
    end = start + int(text)
    if data[end:] != b"\r\n\r\n":
        raise _DamageError("its length is not what it says")
    block = data[start:end]
    told = fields.get("warc-block-digest", "")
    if told.startswith("sha1:") and told != digest(block):
        raise _DamageError("its bytes are not those of its digest")
    return Record(fields.get("warc-type", ""), fields, block)


def _inflate(data: bytes) -> tuple[bytes, int]:
    """The first gzip member of the bytes, decompressed, and how many bytes it occupies."""
    stream = isal_zlib.decompressobj(wbits=31)
    try:
        plain: bytes = stream.decompress(data, RECORD_LIMIT + 1)
    except _BROKEN:
        raise _DamageError("it does not decompress") from None
    if len(plain) > RECORD_LIMIT:
        raise _DamageError(f"it is larger than {RECORD_LIMIT} bytes")
    if not stream.eof:
        raise _DamageError("its end is missing")
    return plain, len(data) - len(stream.unused_data)


def read_exchange(files: Files, stored: Stored, *, asked: bool = True) -> Exchange:
    """The exchange at a place that the log names; without `asked`, only the answer is read."""
    first = 0 if asked else max(stored.response, 0)
    data = files.read_at(stored.file, stored.offset + first, max(stored.length - first, 0))
    try:
        if len(data) != stored.length - first or not 0 <= stored.response < max(stored.length, 1):
            raise _DamageError("the file is shorter than the log says")
        request_head = b""
        if stored.response and asked:
            plain, used = _inflate(data[: stored.response])
            question = _parse(plain)
            if question.kind != "request" or used != stored.response:
                raise _DamageError("there is no request record where the log says")
            request_head = question.http[0]
        plain, used = _inflate(data[stored.response - first :] if stored.response > first else data)
        answer = _parse(plain)
        if answer.kind not in ("response", "revisit", "resource") or used != stored.length - stored.response:
            raise _DamageError("there is no response record where the log says")
    except _DamageError as error:
        raise StorageError(
            f"damaged archive {stored.file}, exchange at byte {stored.offset}: {error}; restore the file"
        ) from None
    head, body = (b"", answer.block) if answer.kind == "resource" else answer.http
    fields = answer.fields
    return Exchange(answer.url, answer.at, request_head, head, body, answer.kind, fields)


def read_rendered(files: Files, stored: Stored) -> bytes:
    """The rendered document at a place that the log names (`records.Rendered.stored`)."""
    size = stored.length - stored.response
    data = files.read_at(stored.file, stored.offset + stored.response, size)
    try:
        if len(data) != size or not size:
            raise _DamageError("the file is shorter than the log says")
        found = _parse(_inflate(data)[0])
        if found.kind != "conversion":
            raise _DamageError("there is no conversion record where the log says")
    except _DamageError as error:
        raise StorageError(
            f"damaged archive {stored.file}, rendered page at byte {stored.offset}: {error}; restore the file"
        ) from None
    return found.block


def read_head(files: Files, file: str, offset: int, length: int, most: int = 1 << 16) -> Record:
    """A record whose block is cut after at most `most` bytes, header included: enough for an index."""
    try:
        data = files.read_at(file, offset, min(length, most))
        try:
            plain: bytes = isal_zlib.decompressobj(wbits=31).decompress(data, most)
        except _BROKEN:
            raise _DamageError("it does not decompress") from None
        fields, start = _fields(plain)
    except _DamageError as error:
        raise StorageError(
            f"damaged archive {file}, record at byte {offset}: {error}; restore the file"
        ) from None
    return Record(fields.get("warc-type", ""), fields, plain[start:])


def leftovers(files: Files, file: str, spans: Iterable[tuple[int, int]]) -> Iterator[Located]:
    """Records of a file outside of `spans` (start, end) and before the end of the last span, except warcinfo.

    With the places that a crawl's records name as spans, these are exchanges that were stored but never committed.
    """
    at = 0
    for start, end in sorted(spans):
        if start > at:
            yield from (row for row in scan(files, file, at, start) if row.record.kind != "warcinfo")
        at = max(at, end)


def scan(files: Files, file: str, start: int = 0, end: int | None = None) -> Iterator[Located]:
    """Every record of a file (from `start` to `end`), in order; `StorageError` at the first that is damaged."""
    size = files.size(file) if end is None else end
    data = memoryview(b"")
    base = start  # where in the file `data` starts
    at = 0  # where in `data` the next byte is
    while base + at < size:
        offset = base + at
        stream = isal_zlib.decompressobj(wbits=31)
        parts: list[bytes] = []
        total = 0
        try:
            while not stream.eof:
                if at == len(data):
                    base += at
                    at = 0
                    data = memoryview(files.read_at(file, base, _CHUNK))
                    if not data:
                        raise _DamageError("its end is missing")
                # Small pieces: bytes after the member's end would be copied in vain.
                piece = data[at : at + _FEED]
                at += len(piece)
                try:
                    parts.append(stream.decompress(piece, RECORD_LIMIT + 1 - total))
                except _BROKEN:
                    raise _DamageError("it does not decompress") from None
                total += len(parts[-1])
                if total > RECORD_LIMIT:
                    raise _DamageError(f"it is larger than {RECORD_LIMIT} bytes")
            at -= len(stream.unused_data)
            record = _parse(b"".join(parts))
        except _DamageError as error:
            raise StorageError(
                f"damaged archive {file}, record at byte {offset}: {error}; restore the file"
            ) from None
        yield Located(record, file, offset, base + at - offset)
