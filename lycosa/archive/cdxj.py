"""CDXJ: a sorted index of the captures in the archive, in the form that pywb reads.

    file  = *line, sorted by bytes, each once
    line  = surt SP timestamp SP json LF
    surt  = `lycosa.url.parts.surt(url)`: com,example)/path?query
    timestamp = YYYYMMDDhhmmss, UTC
    json  = {"url", "mime", "status", "digest", "length", "offset", "filename"}, every value a string

There is one line for each response, revisit (mime "warc/revisit", no status) and resource record; offset and length
are those of that record's gzip member, not of the request before it. `mime` is what the site said, without
parameters ("unk" if nothing); `digest` is the WARC-Payload-Digest without its "sha1:".

`write_index` sorts any number of lines in bounded memory: runs of `memory` bytes are sorted and written
next to the target, then merged (at most `FAN` at a time) into a draft that replaces the target. `Index` finds
lines by binary search in the file, with a few reads of a few KB each; the file is never loaded.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from lycosa.archive.reader import Located, Record, read_head, scan
from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.records import Fetched, Robots, Stored
from lycosa.url.parts import surt as surt_of

FAN = 64
"""Runs merged at a time."""
_BLOCK = 1 << 16
_PROBE = 1 << 12
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? +(\d{3})")
_TYPE = re.compile(rb"^content-type[ \t]*:[ \t]*([^\s;,]+)", re.I | re.M)


class Entry(NamedTuple):
    """One capture."""

    surt: str
    timestamp: str
    url: str
    mime: str
    status: str  # "" for a revisit
    digest: str
    length: int
    offset: int
    filename: str

    def line(self) -> bytes:
        """The capture as a line of the index, with its newline."""
        values = {
            "url": self.url,
            "mime": self.mime,
            "status": self.status,
            "digest": self.digest,
            "length": str(self.length),
            "offset": str(self.offset),
            "filename": self.filename,
        }
        fields = msgspec.json.encode({name: value for name, value in values.items() if value})
        return b"%s %s %s\n" % (self.surt.encode("utf-8", "replace"), self.timestamp.encode("ascii"), fields)

    @staticmethod
    def of_line(line: bytes) -> Entry:
        """The capture of a line; `StorageError` if the line is not one."""
        try:
            surt, timestamp, rest = line.decode("utf-8").rstrip("\n").split(" ", 2)
            fields = msgspec.json.decode(rest, type=dict[str, str])
            return Entry(
                surt,
                timestamp,
                fields["url"],
                fields.get("mime", ""),
                fields.get("status", ""),
                fields.get("digest", ""),
                int(fields.get("length", "0")),
                int(fields["offset"]),
                fields["filename"],
            )
        except (ValueError, KeyError, msgspec.MsgspecError):
            raise StorageError(f"not a line of a CDXJ index: {line[:80]!r}") from None


def entry(record: Record, filename: str, offset: int, length: int) -> Entry | None:
    """The capture of a record; None if it is not one. The block may be cut after its head."""
    fields = record.fields
    url = fields.get("warc-target-uri", "").strip("<>")
    if record.kind not in ("response", "revisit", "resource") or not url:
        return None
    mime, status = "unk", ""
    if record.kind == "resource":
        mime, status = fields.get("content-type", "").partition(";")[0].strip() or "unk", "200"
    elif record.kind == "revisit":
        mime = "warc/revisit"
    else:
        head = record.http[0]
        if found := _STATUS.match(head):
            status = found.group(1).decode("ascii")
        if found := _TYPE.search(head):
            mime = found.group(1).decode("ascii", "replace").lower()
    stamp = re.sub(r"\D", "", fields.get("warc-date", ""))[:14]
    payload = fields.get("warc-payload-digest", "").removeprefix("sha1:")
    return Entry(
        surt_of(record.url).replace(" ", "%20"), stamp, url, mime, status, payload, length, offset, filename
    )


def entries(files: Files, name: str) -> Iterator[Entry]:
    """The captures of one WARC file, in its order; reads all of it."""
    for located in scan(files, name):
        if (found := _located(located)) is not None:
            yield found


def _located(at: Located) -> Entry | None:
    return entry(at.record, at.file, at.offset, at.length)


def entry_at(files: Files, stored: Stored) -> Entry | None:
    """The capture at a place that the log names; reads only its head."""
    offset = stored.offset + stored.response
    length = stored.length - stored.response
    return entry(read_head(files, stored.file, offset, length), stored.file, offset, length)


def entries_of(files: Files, record: Fetched | Robots) -> Iterator[Entry]:
    """The captures that a record points at: its own, and those of requests by the scripts of a rendered page."""
    if record.stored is None:
        return
    own = entry_at(files, record.stored)
    if own is not None:
        yield own
    place = record.rendered.stored if isinstance(record, Fetched) and record.rendered is not None else None
    if place is not None:
        for located in scan(files, place.file, place.offset, place.offset + place.length):
            if located.record.kind == "response" and (found := _located(located)) is not None:
                yield found


# -- writing ----------------------------------------------------------------------------------------------


def write_index(files: Files, name: str, lines: Iterable[bytes], memory: int = 64 << 20) -> int:
    """Write the lines, sorted and without duplicates, as file `name`, replacing it; returns how many."""
    runs: list[str] = []
    made = 0

    def next_run() -> str:
        nonlocal made
        made += 1
        return f"{name}.run{made:06d}.part"

    try:
        batch: list[bytes] = []
        held = 0
        for line in lines:
            batch.append(line)
            held += len(line) + 64  # the overhead of a Python object
            if held >= memory:
                batch.sort()
                runs.append(next_run())
                _write(files, runs[-1], iter(batch))
                batch, held = [], 0
        batch.sort()
        while len(runs) > FAN:
            group = runs[:FAN]
            runs.append(next_run())
            _write(files, runs[-1], heapq.merge(*(_lines(files, run) for run in group)))
            del runs[:FAN]
            for run in group:
                files.remove(run)
        draft = name + ".part"
        count = _write(files, draft, heapq.merge(batch, *(_lines(files, run) for run in runs)), durable=True)
        files.rename(draft, name)
        files.sync_dir(name.rpartition("/")[0])
        return count
    finally:
        for run in runs:
            files.remove(run)


def _write(files: Files, name: str, lines: Iterator[bytes], durable: bool = False) -> int:
    """Write sorted lines without duplicates; returns how many."""
    out = files.create(name)
    count = 0
    try:
        parts: list[bytes] = []
        held = 0
        last = b""
        for line in lines:
            if line == last:
                continue
            last = line
            count += 1
            parts.append(line)
            held += len(line)
            if held > _BLOCK:
                out.write(b"".join(parts))
                parts, held = [], 0
        out.write(b"".join(parts))
        if durable:
            out.sync()
    finally:
        out.close()
    return count


def _lines(files: Files, name: str, offset: int = 0, first: int | None = None) -> Iterator[bytes]:
    """The lines of a file from `offset` on, where a line must start; `first` is the size of the first read."""
    rest = b""
    while True:
        block = files.read_at(name, offset, first or _BLOCK)
        first = None
        if not block:
            if rest:
                yield rest
            return
        offset += len(block)
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line + b"\n"


# -- reading ----------------------------------------------------------------------------------------------


class Index:
    """A sorted CDXJ file."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._name = name
        self._size = files.size(name)

    def __iter__(self) -> Iterator[Entry]:
        return map(Entry.of_line, _lines(self._files, self._name))

    def lookup(self, url: str, surt: Callable[[str], str] = surt_of) -> list[Entry]:
        """The captures of a URL (and of those with the same surt), oldest first."""
        return list(self.prefix(surt(url) + " "))

    def prefix(self, surt: str) -> Iterator[Entry]:
        """The captures whose lines start with this, in order: all of a host, of a directory ..."""
        wanted = surt.encode("utf-8", "replace")
        for line in _lines(self._files, self._name, self._first(wanted), first=_PROBE):
            if not line.startswith(wanted):
                return
            yield Entry.of_line(line)

    def _first(self, wanted: bytes) -> int:
        """The offset of the first line that is not below `wanted`."""
        # Lines start at or after `low`; the first line that starts after `high` is not below.
        low, high = 0, self._size
        while high - low > _PROBE:
            middle = (low + high) // 2
            start = self._line_after(middle)
            if start < high and self._line_at(start) < wanted:
                low = start
            else:
                high = middle
        for line in _lines(self._files, self._name, low, first=2 * _PROBE):
            if line >= wanted:
                break
            low += len(line)
        return low

    def _line_after(self, offset: int) -> int:
        """The offset of the first line that starts after the byte at `offset`."""
        while True:
            block = self._files.read_at(self._name, offset, _PROBE)
            if not block:
                return self._size
            end = block.find(b"\n")
            if end >= 0:
                return offset + end + 1
            offset += len(block)

    def _line_at(self, offset: int) -> bytes:
        return next(_lines(self._files, self._name, offset, first=_PROBE), b"\xff")
