"""Blocks: the unit in which records reach the disk. Values in, values out; no I/O.

    block   := head packed
    head    := magic:4s="LyB1" batch:u32 first:u64 count:u32 plain:u32 packed:u32 crc:u32   (little endian)
    packed  := zstd(lengths record*)          `packed` bytes, `plain` when unpacked
    lengths := u32 * count                    the length of each record

`first` is the position (ordinal in the log) of the block's first record. `batch` numbers the commits of a
log from 1: all blocks of one commit share it, and a commit is written and synced before the next is begun.
That tells a torn tail from damage: what follows an unreadable block may be unreadable or belong to
the same commit, but a readable block of a *later* commit proves that the unreadable one was once
durable. `crc` is the CRC-32C of the preceding part of the head and of the packed bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c
import zstandard

MAGIC = b"LyB1"
_HEAD = struct.Struct("<4sIQIII")
_CRC = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CRC.size

MAX_PACKED = 1 << 30
"""No writer makes a block this large: bytes that claim so are not a head."""


class Head(NamedTuple):
    """A block's head, checked only for plausibility; `unpack` verifies the checksum."""

    batch: int
    first: int
    records: int
    plain: int
    packed: int
    crc: int

    @property
    def size(self) -> int:
        """Bytes of the whole block."""
        return HEAD_BYTES + self.packed

    @property
    def end(self) -> int:
        """The position after the block's last record."""
        return self.first + self.records


def pack(batch: int, first: int, records: Sequence[bytes]) -> bytes:
    """The block of those encoded records."""
    import numpy as np  # not needed for reading heads only

    lengths = np.fromiter(map(len, records), dtype="<u4", count=len(records)).tobytes()
    plain = b"".join((lengths, *records))
    # A compressor must not be shared between threads; making one costs 2 µs, packing a block hundreds.
    packed = zstandard.ZstdCompressor(level=1).compress(plain)
    head = _HEAD.pack(MAGIC, batch, first, len(records), len(plain), len(packed))
    crc = google_crc32c.extend(google_crc32c.value(head), packed)
    return b"".join((head, _CRC.pack(crc), packed))


def head_of(data: bytes | memoryview, offset: int = 0) -> Head | None:
    """The head at `offset`, or None if there is none there."""
    if len(data) - offset < HEAD_BYTES:
        return None
    magic, batch, first, count, plain, packed = _HEAD.unpack_from(data, offset)
    if magic != MAGIC or count == 0 or packed > MAX_PACKED or plain > MAX_PACKED or plain < 4 * count:
        return None
    (crc,) = _CRC.unpack_from(data, offset + _HEAD.size)
    return Head(batch, first, count, plain, packed, crc)


def intact(block: bytes | memoryview, head: Head) -> bool:
    """Whether the bytes of a block (from its head on) are those that were written."""
    if len(block) < head.size:
        return False
    crc = google_crc32c.value(bytes(block[: _HEAD.size]))
    return bool(google_crc32c.extend(crc, bytes(block[HEAD_BYTES : head.size])) == head.crc)


def unpack(block: bytes | memoryview, head: Head) -> list[memoryview] | None:
    """The encoded records of a block, or None if its bytes are damaged."""
    import numpy as np

    if not intact(block, head):
        return None
    try:
        plain = zstandard.ZstdDecompressor().decompress(
            block[HEAD_BYTES : head.size], max_output_size=head.plain
        )
    except zstandard.ZstdError:
        return None
    if len(plain) != head.plain:
        return None
    lengths = np.frombuffer(plain, dtype="<u4", count=head.records)
    ends = np.cumsum(lengths, dtype=np.int64) + 4 * head.records
    if int(ends[-1]) != len(plain):
        return None
    view = memoryview(plain)
    starts = [4 * head.records, *ends[:-1].tolist()]
    return [view[a:b] for a, b in zip(starts, ends.tolist(), strict=True)]
