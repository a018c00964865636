"""Key files: keys appended in checksummed blocks.

    file  = magic block*
    magic = "LYCKEYS1"
    block = count:u32 check:u32 key:u64 x count     (little endian; count > 0)

`check` is the CRC-32C of `count` and the keys. A reader is given the length up to which the file
counts; bytes beyond it were written after the snapshot and are never read. Within that length
every block must be whole and its check must hold, else the file is named in a `StorageError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import google_crc32c
import numpy as np

from lycosa.errors import StorageError
from lycosa.files import Appender, Files
from lycosa.seen.protocol import Keys

MAGIC = b"LYCKEYS1"
BLOCK_KEYS = 8192
_HEAD = struct.Struct("<II")
_READ = 1 << 20


def _check(count: int, data: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.value(count.to_bytes(4, "little")), data))


def block(keys: Keys) -> bytes:
    """The bytes of a block."""
    data = keys.astype("<u8", copy=False).tobytes()
    return _HEAD.pack(len(keys), _check(len(keys), data)) + data


def create(files: Files, name: str) -> Appender:
    """A new key file, open for blocks."""
    out = files.create(name)
    out.write(MAGIC)
    return out


def read(files: Files, name: str, length: int) -> Iterator[Keys]:
    """The keys in the first `length` bytes of a key file, block by block."""
    if not files.exists(name):
        raise StorageError(f"the key file {name} is missing: restore it, or start the crawl anew")
    at, data = 0, b""
    while at + len(data) < length:
        data += files.read_at(name, at + len(data), min(_READ, length - at - len(data)))
        if at == 0:
            if data[: len(MAGIC)] != MAGIC:
                raise _damaged(name, 0, "it does not begin as a key file")
            at, data = len(MAGIC), data[len(MAGIC) :]
        used = 0
        while len(data) - used >= _HEAD.size:
            count, check = _HEAD.unpack_from(data, used)
            end = used + _HEAD.size + 8 * count
            if count == 0 or at + end > length:
                raise _damaged(name, at + used, f"a block of {count} keys cannot be there")
            if len(data) < end:
                break
            keys = data[used + _HEAD.size : end]
            if _check(count, keys) != check:
                raise _damaged(name, at + used, "the block's checksum does not match")
            yield np.frombuffer(keys, "<u8").astype(np.uint64, copy=False)
            used = end
        at, data = at + used, data[used:]
        if at + len(data) < length and files.size(name) <= at + len(data):
            raise _damaged(name, at + len(data), f"it ends there, {length} bytes were expected")
    if data:
        raise _damaged(name, at, "a block is cut")


def _damaged(name: str, at: int, what: str) -> StorageError:
    return StorageError(
        f"the key file {name} is damaged at byte {at}: {what}; restore it or start the crawl anew"
    )
