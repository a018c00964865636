"""WACZ: a crawl as one file that ReplayWeb.page and other players open, by version 1.1.1 of the specification.

    archive/*.warc.gz          the archive's files, each up to the last exchange that the log knows
    indexes/index.cdx.gz       the CDXJ index, in gzip members of `_LINES` lines each
    indexes/index.idx          the first line of each member, and where it is
    pages/pages.jsonl          a line of format, then {"id", "url", "ts", "title"[, "text"]} for each page of HTML
    datapackage.json           every file with its size and SHA-256
    datapackage-digest.json    the SHA-256 of that

Members that are already compressed are stored in the zip without compression, so players can read single records.
A member has ZIP64 fields in its own header exactly if it has them in the zip's directory: ReplayWeb.page (wabac.js
2.27) takes the directory's word for both. So the size of each is known before it is written.
"""

from __future__ import annotations

import gzip
import hashlib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from lycosa.archive.cdxj import entries_of, write_index
from lycosa.ask.export import body_of
from lycosa.ask.json_form import iso, safe
from lycosa.ask.reading import CrawlReader
from lycosa.ask.versions import Versions
from lycosa.content.documents import text_of
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles
from lycosa.records import Fetched, Robots
from lycosa.version import VERSION

_LINES = 3000
_PIECE = 1 << 20
_HTML = ("text/html", "application/xhtml+xml")

Told = Callable[[str, int], None]


def write_wacz(
    crawl: CrawlReader, to: Path, scratch: Path, *, title: str = "", text: bool = False, told: Told
) -> int:
    """Write a crawl into one file; returns how many pages it lists. `text`: include the pages' main text."""
    ends: dict[str, int] = {}
    index = DiskFiles(scratch)
    count = write_index(index, "index.cdxj", _lines(crawl, ends, told))
    if not count:
        raise ConfigError(f"{crawl.directory} has nothing to write: nothing fetched, or no archive kept")
    with zipfile.ZipFile(to, "w", allowZip64=True) as out:
        package = _Package(out)
        for name, end in sorted(ends.items()):
            package.add(f"archive/{name}", _pieces(crawl, name, end), end)
        members = scratch / "index.cdx.gz"
        idx = _write_members(scratch / "index.cdxj", members)
        package.add("indexes/index.cdx.gz", _file_pieces(members), members.stat().st_size)
        package.add("indexes/index.idx", [idx], len(idx))
        pages, listed = _Pages(crawl, text, told), scratch / "pages.jsonl"
        with listed.open("wb") as file:
            file.writelines(pages)
        package.add("pages/pages.jsonl", _file_pieces(listed), listed.stat().st_size, packed=True)
        package.close(title or f"{crawl.directory.name}")
    return pages.count


class _Package:
    """The files of a WACZ, with their entries in the package description."""

    def __init__(self, out: zipfile.ZipFile) -> None:
        self._out = out
        self._resources: list[dict[str, Any]] = []

    def add(self, path: str, pieces: Iterable[bytes], size: int, *, packed: bool = False) -> None:
        entry = zipfile.ZipInfo(path, datetime.now(UTC).timetuple()[:6])
        entry.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
        entry.external_attr = 0o644 << 16
        digest = hashlib.sha256()
        with self._out.open(entry, "w", force_zip64=size > zipfile.ZIP64_LIMIT) as file:
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
        name = path.rpartition("/")[2]
        self._resources.append(
            {"name": name, "path": path, "hash": f"sha256:{digest.hexdigest()}", "bytes": size}
        )

    def close(self, title: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        package = {
            "profile": "data-package",
            "title": title,
            "created": now,
            "wacz_version": "1.1.1",
            "software": f"lycosa/{VERSION}",
            "resources": self._resources,
        }
        data = msgspec.json.format(msgspec.json.encode(package))
        digest = {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(data).hexdigest()}"}
        for path, content in (
            ("datapackage.json", data),
            ("datapackage-digest.json", msgspec.json.format(msgspec.json.encode(digest))),
        ):
            self._out.writestr(zipfile.ZipInfo(path, datetime.now(UTC).timetuple()[:6]), content)


def _lines(crawl: CrawlReader, ends: dict[str, int], told: Told) -> Iterator[bytes]:
    """The lines of the index; `ends`: how far each file of the archive is covered by the log."""
    for number, (_, _, record) in enumerate(crawl.records(), 1):
        if isinstance(record, Fetched | Robots) and record.stored is not None:
            place = record.stored
            ends[place.file] = max(ends.get(place.file, 0), place.offset + place.length)
            for found in entries_of(crawl.archive_files, record):
                yield found.line()
        if not number & 0x3FF:
            told("indexing", number)


def _pieces(crawl: CrawlReader, name: str, end: int) -> Iterator[bytes]:
    for at in range(0, end, _PIECE):
        yield crawl.archive_files.read_at(name, at, min(_PIECE, end - at))


def _file_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _write_members(lines: Path, to: Path) -> bytes:
    """Write the index in members of many lines; returns the lines that say where each is."""
    rows = [b'!meta 0 {"format":"cdxj-gzip-1.0","filename":"index.cdx.gz"}\n']
    with lines.open("rb") as source, to.open("wb") as out:
        offset = 0
        while part := [line for _, line in zip(range(_LINES), source, strict=False)]:
            member = gzip.compress(b"".join(part), mtime=0)
            out.write(member)
            where = {
                "offset": offset,
                "length": len(member),
                "digest": f"sha256:{hashlib.sha256(member).hexdigest()}",
                "filename": "index.cdx.gz",
            }
            surt, stamp, _ = part[0].split(b" ", 2)
            rows.append(b"%s %s %s\n" % (surt, stamp, msgspec.json.encode(where)))
            offset += len(member)
    return b"".join(rows)


class _Pages:
    """The lines of pages.jsonl; counts them."""

    def __init__(self, crawl: CrawlReader, text: bool, told: Told) -> None:
        self._crawl = crawl
        self._text = text
        self._told = told
        self.count = 0

    def __iter__(self) -> Iterator[bytes]:
        yield b'{"format":"json-pages-1.0","id":"pages","title":"All Pages"}\n'
        versions = Versions(self._crawl)
        for shard, position, record in self._crawl.records():
            if (
                not isinstance(record, Fetched)
                or record.status != 200
                or record.type not in _HTML
                or record.stored is None
                or not versions.is_current(shard, position)
            ):
                continue
            row = {
                "id": f"{shard}-{position}",
                "url": record.url,
                "ts": iso(record.at - record.timing.total),
                "title": record.title or record.url,
            }
            if self._text and (body := body_of(self._crawl, record)) is not None:
                row["text"] = text_of(body, record.type, record.charset)
            self.count += 1
            if not self.count & 0x3FF:
                self._told("listing pages", self.count)
            yield safe(msgspec.json.encode(row)) + b"\n"
