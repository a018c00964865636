"""Pages that are being parsed, marked in a mapped file: so a page that kills or stalls its reader is known later.

    file := "LyRDG1\\r\\n" slot × SLOTS
    slot := length:u16le at:i64le depth:u32le hops:u32le tries:u32le url pad        `_SLOT` bytes; length 0: free

A mark is set before a body is parsed and removed when its links are known. It costs a copy of the URL into memory
that belongs to the file: there is no system call, and the mark outlives the process, however it ends. (A power cut
may lose it, but no page causes power cuts.) `at` is the time of the answer, in milliseconds.

At the next start `verdict` makes a record of each remaining mark. The first time the page is deferred and tried
once more, at once, since its site did nothing wrong; the second time without a fetch between it is skipped. Marks
are removed when those records are durable. A mark that is older than a record of its URL is obsolete.

Every agent has a file of its own in the crawl's directory and reads those of all: the agent that now has the shard
of a marked URL handles it. A page is marked only while there is a free slot; there are far more slots than readers.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from lycosa.files import said
from lycosa.records import Deferred, Fetched, Record, Skipped, Waiting, Why
from lycosa.url.canonical import MAX_URL
from lycosa.url.parts import site_of

NAME = "reading"
SLOTS = 16
_MAGIC = b"LyRDG1\r\n"
_HEAD = struct.Struct("<HqIII")
_SLOT = _HEAD.size + MAX_URL
_FREE = bytes(2)


class Mark(NamedTuple):
    """A page that a process was parsing when it ended."""

    file: Path
    slot: int
    at: int
    waiting: Waiting


class PageReading(NamedTuple):
    """A page that this process is parsing."""

    url: str
    at: int  # the time of its answer
    thread: int


class Underway:
    """The marks of one agent."""

    def __init__(self, file: Path | None) -> None:
        """Without a file nothing is marked; the pages being parsed now are known nevertheless."""
        self._file = file
        self._map = None if file is None else _mapped(file)
        self._free = [slot for slot in range(SLOTS) if self._map is None or not _is_set(self._map, slot)]
        self._now: dict[int, tuple[str, int, int]] = {}  # from these `PageReading`s are made on demand

    def begin(self, waiting: Waiting, at: int) -> int:
        """Mark a page; returns the argument for `end`. Thread-safe."""
        try:
            slot = self._free.pop()
        except IndexError:
            return -1
        if self._map is not None:
            url = waiting.url.encode("ascii")
            start = len(_MAGIC) + slot * _SLOT
            data = _HEAD.pack(len(url), at, waiting.depth, waiting.hops, waiting.tries) + url
            self._map[start : start + len(data)] = data
        self._now[slot] = (waiting.url, at, threading.get_ident())
        return slot

    def end(self, slot: int) -> None:
        """The page is parsed, or its parser gave up: either way its reader is alive."""
        if slot < 0:
            return
        if self._map is not None:
            start = len(_MAGIC) + slot * _SLOT
            self._map[start : start + 2] = _FREE
        del self._now[slot]
        self._free.append(slot)

    def close(self) -> None:
        """Close the file; marks of stuck readers stay in it."""
        mapped, self._map = self._map, None
        if mapped is not None:
            mapped.close()

    def now(self) -> list[PageReading]:
        """The pages being parsed, the longest-running first."""
        return sorted(
            (PageReading(*row) for row in self._now.copy().values()), key=lambda reading: reading.at
        )

    def left(self) -> Iterator[Mark]:
        """The marks of all agents: of processes that have ended, and of those that are running now."""
        if self._file is None:
            return
        for file in sorted(self._file.parent.glob(f"{NAME}*")):
            data = file.read_bytes()
            if data.startswith(_MAGIC) and len(data) == len(_MAGIC) + SLOTS * _SLOT:
                for slot in range(SLOTS):
                    mark = _read(data, slot, file)
                    if mark is not None and not (file == self._file and slot in self._now):
                        yield mark

    def forget(self, mark: Mark) -> None:
        """Remove a mark that `left` returned."""
        if mark.file == self._file and self._map is not None:
            start = len(_MAGIC) + mark.slot * _SLOT
            self._map[start : start + 2] = _FREE
            self._free.append(mark.slot)
            return
        with mark.file.open("r+b") as out:
            out.seek(len(_MAGIC) + mark.slot * _SLOT)
            out.write(_FREE)


def verdict(mark: Mark, records: Iterable[Record], now: int) -> Deferred | Skipped | None:
    """The record for a marked page, depending on its URL's records in the log; None: it has its record already."""
    url, _, depth, hops, attempt, had = mark.waiting
    before = 0
    for record in records:
        if isinstance(record, Fetched | Skipped | Deferred) and record.url == url:
            if record.at >= mark.at:
                return None
            before = 0 if isinstance(record, Fetched) else before
            before += isinstance(record, Deferred) and record.why is Why.POISON
    if before:
        return Skipped(now, url, depth, Why.POISON, "its reader was killed or stood still, twice")
    detail = "its reader was killed or stood still: once more"
    return Deferred(now, url, site_of(url), depth, hops, attempt + 1, Why.POISON, now, detail, had)


def _is_set(data: mmap.mmap | bytes, slot: int) -> bool:
    start = len(_MAGIC) + slot * _SLOT
    return data[start : start + 2] != _FREE


def _read(data: bytes, slot: int, file: Path) -> Mark | None:
    if not _is_set(data, slot):
        return None
    start = len(_MAGIC) + slot * _SLOT
    length, at, depth, hops, tries = _HEAD.unpack_from(data, start)
    url = data[start + _HEAD.size : start + _HEAD.size + length]
    if b"\0" in url or b"://" not in url or not url.isascii():
        return None  # the process ended while it wrote the mark
    return Mark(file, slot, at, Waiting.of_tries(url.decode("ascii"), 0, depth, hops, tries))


def _mapped(file: Path) -> mmap.mmap:
    size = len(_MAGIC) + SLOTS * _SLOT
    with said("write", file):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size != size or os.pread(descriptor, len(_MAGIC), 0) != _MAGIC:
                # Filled with bytes, not left sparse: a write to a mapped page ends the process if the disk is full.
                os.ftruncate(descriptor, 0)
                if os.pwrite(descriptor, _MAGIC.ljust(size, b"\0"), 0) < size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
