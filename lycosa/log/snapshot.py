"""Snapshots: the folds' state at one log position, so that recovery replays only the tail.

    snapshots/00000000000000001234.snap       the position it was taken at
    snapshot := "LySNP1\\r\\n" section* end
    section  := name:"N" text piece*
    piece    := "P" bytes
    end      := "E" json                      {"position": n, "files": {...}, ...}: see docs/formats/snapshot.md
    each of  := kind:1s length:u32le crc:u32le data     the sum of kind and data; a piece's data is zstd

A snapshot is written under a draft name, synced, renamed, and its directory synced: it is there whole or
not at all. `end` comes last, so that a truncated file is never taken for a snapshot. The two newest are kept; if
the newest is damaged, the one before it is used; if both are, the log is replayed from its start, if that is
still there.

Taking one never stops the crawl: `SnapshotWriter` is stepped, a piece at a time, between other work.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import google_crc32c
import msgspec
import zstandard

from lycosa.errors import StorageError
from lycosa.files import Appender, Files

MAGIC = b"LySNP1\r\n"
_FRAME = struct.Struct("<cII")
_SUFFIX = ".snap"
_DRAFT = "draft.part"
KEPT = 2


class Snapshot(NamedTuple):
    """A snapshot read back."""

    position: int
    about: dict[str, Any]
    """What its writer recorded about it: files it names, agent state, whether the stop was clean."""
    pieces: dict[str, list[bytes]]


def _frame(kind: bytes, data: bytes) -> bytes:
    return _FRAME.pack(kind, len(data), google_crc32c.value(kind + data)) + data


class SnapshotWriter:
    """Writes one snapshot; `add` for each piece, then `seal` (which syncs: run it in a thread)."""

    def __init__(self, files: Files, position: int) -> None:
        self._files = files
        self._position = position
        self._out: Appender | None = files.create(_DRAFT)
        self._out.write(MAGIC)
        self._name = ""

    def add(self, name: str, piece: bytes) -> None:
        """Append a piece to the section `name`; sections come one after the other."""
        assert self._out is not None
        if name != self._name:
            self._out.write(_frame(b"N", name.encode()))
            self._name = name
        packed = zstandard.ZstdCompressor(level=1).compress(piece)
        self._out.write(_frame(b"P", packed))

    def seal(self, about: dict[str, Any]) -> None:
        """Make the snapshot durable, and remove all but the two newest."""
        assert self._out is not None
        self._out.write(_frame(b"E", msgspec.json.encode({**about, "position": self._position})))
        self._out.sync()
        self._out.close()
        self._out = None
        self._files.rename(_DRAFT, _name_of(self._position))
        self._files.sync_dir("")
        for position in positions(self._files)[:-KEPT]:
            self._files.remove(_name_of(position))

    def abandon(self) -> None:
        """Give it up and remove the draft, also if a full disk refuses its last bytes."""
        if self._out is not None:
            out, self._out = self._out, None
            with suppress(StorageError):
                out.close()
            with suppress(StorageError):
                self._files.remove(_DRAFT)


def _name_of(position: int) -> str:
    return f"{position:020d}{_SUFFIX}"


def positions(files: Files) -> list[int]:
    """The positions of the snapshots in a directory, ascending."""
    stems = (name[: -len(_SUFFIX)] for name in files.list("") if name.endswith(_SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def remove_all(files: Files) -> None:
    """Remove every snapshot: the next recovery reads the log from its beginning."""
    for position in positions(files):
        files.remove(_name_of(position))
    files.sync_dir("")


def newest(files: Files) -> Snapshot | None:
    """The newest snapshot that is whole."""
    for position in reversed(positions(files)):
        found = read(files, position)
        if found is not None:
            return found
    return None


def about(files: Files, position: int) -> dict[str, Any] | None:
    """What the writer recorded about the snapshot at a position, without reading the rest; None if it is
    truncated."""
    return _walked(files, position, "")[1]


def section(files: Files, position: int, name: str) -> list[bytes] | None:
    """The pieces of one section of the snapshot at a position, without reading the others; None if it is
    truncated."""
    pieces, said = _walked(files, position, name)
    return None if said is None or said.get("position") != position else pieces


def _walked(files: Files, position: int, wanted: str) -> tuple[list[bytes], dict[str, Any] | None]:
    """The pieces of a section, and what the end says; None for the latter if it or a piece is not whole."""
    file, at = _name_of(position), len(MAGIC)
    size = files.size(file)
    pieces: list[bytes] = []
    inside = False
    while at + _FRAME.size <= size:
        kind, length, crc = _FRAME.unpack(files.read_at(file, at, _FRAME.size))
        at += _FRAME.size
        if kind != b"P" or inside:
            body = files.read_at(file, at, length)
            if google_crc32c.value(kind + body) != crc:
                break
            if kind == b"E":
                return pieces, _end(body)
            if kind == b"N":
                inside = body == wanted.encode()
            else:
                pieces.append(zstandard.ZstdDecompressor().decompress(body))
        at += int(length)
    return [], None


def _end(body: bytes | memoryview) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        return None


def read(files: Files, position: int) -> Snapshot | None:
    """The snapshot taken at a position, or None if it is not whole."""
    data = memoryview(files.read(_name_of(position)))
    if bytes(data[: len(MAGIC)]) != MAGIC:
        return None
    pieces: dict[str, list[bytes]] = {}
    section: list[bytes] = []
    for kind, body in _frames(data[len(MAGIC) :]):
        if kind == b"N":
            section = pieces.setdefault(bytes(body).decode("utf-8", "replace"), [])
        elif kind == b"P":
            try:
                section.append(zstandard.ZstdDecompressor().decompress(body))
            except zstandard.ZstdError:
                return None
        elif kind == b"E":
            said = _end(body)
            return Snapshot(position, said, pieces) if said and said.get("position") == position else None
    return None


def _frames(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    at = 0
    while at + _FRAME.size <= len(data):
        kind, length, crc = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + length]
        if len(body) < length or google_crc32c.value(kind + bytes(body)) != crc:
            return
        yield kind, body
        at += _FRAME.size + length
