"""Waiting files: the offers, marks and checks of a store on disk that are not merged yet.

    file     = block*
    block    = head key:u64 x count what:u32 x count payloads
    head     = magic:u32 count:u32 bytes:u32 check:u32 payloads-check:u32      (little endian)
    what     = kind << 30 | size     kind: 0 an offer, 1 a mark, 2 a check; size: the payload's
    payloads = the payloads, one after the other, `bytes` in all

`check` is the CRC-32C of `count`, `bytes`, keys and whats, so that the columns can be read and
trusted without the payloads, which only new keys need. The order of records is the order of the
calls.

A file is appended to until a merge takes it; a reader is given the length that counts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from lycosa.errors import LocalError, StorageError
from lycosa.files import Files
from lycosa.seen.protocol import Keys

_MAGIC = 0x5941574C
_HEAD = struct.Struct("<IIIII")
KIND_SHIFT = 30
LARGEST = (1 << KIND_SHIFT) - 1
Whats = NDArray[np.uint32]


class Source(NamedTuple):
    """A waiting file up to a length: its records, and the offers and checks among them."""

    name: str
    length: int
    records: int
    asked: int


class Buffer:
    """Records that are not yet in a waiting file."""

    __slots__ = ("asked", "keys", "nbytes", "payloads", "whats")

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.whats: list[int] = []
        self.payloads: list[bytes] = []
        self.asked = 0
        self.nbytes = 0

    def ask(self, kind: int, keys: list[int], payloads: list[bytes]) -> None:
        """Add offers or checks."""
        sizes = list(map(len, payloads))
        total = sum(sizes)
        if total > LARGEST:
            raise LocalError(f"payloads of {total} bytes in one call are too large for a store")
        self.keys += keys
        self.whats += [kind << KIND_SHIFT | size for size in sizes] if kind else sizes
        self.payloads += payloads
        self.asked += len(keys)
        self.nbytes += 150 * len(keys) + total  # 150: ints, the object, list slots

    def mark(self, kind: int, keys: list[int]) -> None:
        self.keys += keys
        self.whats += [kind << KIND_SHIFT] * len(keys)
        self.nbytes += 90 * len(keys)

    def encode(self) -> bytes:
        """The block of these records."""
        return encode(np.array(self.keys, "<u8"), np.array(self.whats, "<u4"), b"".join(self.payloads))


def encode(keys: Keys, whats: Whats, payloads: bytes) -> bytes:
    """A block."""
    columns = keys.tobytes() + whats.tobytes()
    sizes = struct.pack("<II", len(keys), len(payloads))
    check = google_crc32c.extend(google_crc32c.value(sizes), columns)
    return b"".join(
        (
            struct.pack("<I", _MAGIC) + sizes,
            struct.pack("<II", check, google_crc32c.value(payloads)),
            columns,
            payloads,
        )
    )


class Columns(NamedTuple):
    """The columns of some waiting files, joined, and where their payloads lie."""

    keys: Keys
    whats: Whats
    blocks: list[tuple[str, int, int, int]]
    """For each block: file, offset of its payloads, their bytes, their check."""
    starts: NDArray[np.int64]
    """For each block: the number of its first record; then the number of records."""


def read_columns(files: Files, sources: Iterable[Source]) -> Columns:
    """Read everything but the payloads."""
    keys, whats, blocks, starts = [], [], [], [0]
    for name, length, records, _asked in sources:
        if not files.exists(name):
            raise StorageError(f"the waiting file {name} is missing: restore it or start the crawl anew")
        at, seen = 0, 0
        while at < length:
            head = files.read_at(name, at, _HEAD.size)
            if len(head) < _HEAD.size:
                raise _damaged(name, at, "it ends too early")
            magic, count, size, check, payloads_check = _HEAD.unpack(head)
            end = at + _HEAD.size + 12 * count + size
            if magic != _MAGIC or end > length:
                raise _damaged(name, at, "there is no block")
            columns = files.read_at(name, at + _HEAD.size, 12 * count)
            found = google_crc32c.extend(google_crc32c.value(head[4:12]), columns)
            if len(columns) < 12 * count or found != check:
                raise _damaged(name, at, "the block's checksum does not match")
            keys.append(np.frombuffer(columns, "<u8", count))
            whats.append(np.frombuffer(columns, "<u4", count, 8 * count))
            blocks.append((name, end - size, size, payloads_check))
            starts.append(starts[-1] + count)
            at, seen = end, seen + count
        if seen != records:
            raise _damaged(name, at, f"it holds {seen} records, not {records}")
    return Columns(
        np.concatenate(keys) if keys else np.empty(0, np.uint64),
        np.concatenate(whats) if whats else np.empty(0, np.uint32),
        blocks,
        np.array(starts, np.int64),
    )


def read_payloads(files: Files, columns: Columns, records: NDArray[np.int64]) -> list[bytes]:
    """The payloads of some records, given in ascending order."""
    payloads: list[bytes] = []
    cuts = np.searchsorted(records, columns.starts)
    for block, (name, offset, size, check) in enumerate(columns.blocks):
        wanted = records[cuts[block] : cuts[block + 1]]
        if not len(wanted):
            continue
        data = files.read_at(name, offset, size)
        if google_crc32c.value(data) != check or len(data) < size:
            raise _damaged(name, offset, "the payloads' checksum does not match")
        start, end = columns.starts[block], columns.starts[block + 1]
        sizes = columns.whats[start:end] & LARGEST
        ends = np.cumsum(sizes, dtype=np.int64)
        to = ends[wanted - start]
        since = to - sizes[wanted - start]
        payloads += [data[a:b] for a, b in zip(since.tolist(), to.tolist(), strict=True)]
    return payloads


def parse(data: bytes, where: str) -> tuple[list[int], list[int], list[bytes]]:
    """Parse the records of one block."""
    magic, count, size, check, payloads_check = (
        _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (0, 0, 0, 0, 0)
    )
    columns, payloads = data[_HEAD.size : _HEAD.size + 12 * count], data[_HEAD.size + 12 * count :]
    if (
        magic != _MAGIC
        or len(payloads) != size
        or google_crc32c.extend(google_crc32c.value(data[4:12]), columns) != check
        or google_crc32c.value(payloads) != payloads_check
    ):
        raise _damaged(where, 0, "the block's checksum does not match")
    keys = np.frombuffer(columns, "<u8", count).tolist()
    whats = np.frombuffer(columns, "<u4", count, 8 * count).tolist()
    parts, at = [], 0
    for what in whats:
        if what >> KIND_SHIFT != 1:
            parts.append(payloads[at : at + (what & LARGEST)])
            at += what & LARGEST
    return keys, whats, parts


def _damaged(name: str, at: int, what: str) -> StorageError:
    return StorageError(
        f"the waiting file {name} is damaged at byte {at}: {what}; restore it or start the crawl anew"
    )
