"""Repositories: immutable files of keys in ascending order, with their state.

    file   = magic block*
    magic  = "LYCREPO1"
    block  = count:u32 check:u32 key:u64 x count state:u8 x ceil(count / 8)      (little endian)

Every block but the last has `BLOCK_KEYS` keys, so a block is found by its number. A state is one
bit, the first key's lowest: 1 is *crawled* (marked known), 0 *uncrawled* (only discovered). `check`
is the CRC-32C of `count`, keys and states. 8.125 bytes per key and 8 a block.

A file is written by one builder, synced, and never changed; its name and the number of its keys are
held by the store and its snapshots.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.seen.protocol import Keys

MAGIC = b"LYCREPO1"
BLOCK_KEYS = 1 << 16
_HEAD = struct.Struct("<II")
HEAD_BYTES = _HEAD.size

States = NDArray[np.uint8]


class Repository(NamedTuple):
    """A file and what it holds."""

    name: str
    keys: int
    crawled: int

    @property
    def size(self) -> int:
        """Bytes on disk."""
        full, rest = divmod(self.keys, BLOCK_KEYS)
        return len(MAGIC) + full * _block_size(BLOCK_KEYS) + (_block_size(rest) if rest else 0)


def _block_size(count: int) -> int:
    return _HEAD.size + 8 * count + (count + 7) // 8


def _check(count: int, data: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.value(count.to_bytes(4, "little")), data))


def read(files: Files, repository: Repository) -> Iterator[tuple[Keys, States]]:
    """The blocks of a repository: keys, and a byte of state for each."""
    name, left = repository.name, repository.keys
    if not files.exists(name):
        raise StorageError(f"the repository {name} is missing: restore it, or start the crawl anew")
    if files.read_at(name, 0, len(MAGIC)) != MAGIC:
        raise _damaged(name, 0, "it does not begin as a repository")
    at = len(MAGIC)
    while left:
        expected = min(left, BLOCK_KEYS)
        data = files.read_at(name, at, _block_size(expected))
        if len(data) < _block_size(expected):
            raise _damaged(name, at, "it ends too early")
        count, check = _HEAD.unpack_from(data)
        body = memoryview(data)[_HEAD.size :]
        if count != expected or _check(count, bytes(body)) != check:
            raise _damaged(name, at, "the block's checksum does not match")
        keys = np.frombuffer(body[: 8 * count], "<u8")
        states = np.unpackbits(np.frombuffer(body[8 * count :], np.uint8), count=count, bitorder="little")
        yield keys, states
        at += len(data)
        left -= count


def _damaged(name: str, at: int, what: str) -> StorageError:
    return StorageError(
        f"the repository {name} is damaged at byte {at}: {what}; restore it or start the crawl anew"
    )


class Builder:
    """Writes one repository: keys come in ascending order, a block at a time."""

    def __init__(self, files: Files, name: str) -> None:
        self._out = files.create(name)
        self._out.write(MAGIC)
        self._name = name
        self._count = 0
        self._crawled = 0

    def add(self, keys: Keys, states: States) -> None:
        """Add a block; only the last may have fewer than `BLOCK_KEYS` keys."""
        count = len(keys)
        body = keys.astype("<u8", copy=False).tobytes() + np.packbits(states, bitorder="little").tobytes()
        self._out.write(_HEAD.pack(count, _check(count, body)))
        self._out.write(body)
        self._count += count
        self._crawled += int(states.sum())

    def finish(self) -> Repository:
        """Make it durable."""
        self._out.sync()
        self._out.close()
        return Repository(self._name, self._count, self._crawled)

    def abandon(self) -> None:
        self._out.close()
