"""Politeness per address across the agents of one machine: one table, mapped into the memory of all.

    file := "LyADR1\\r\\n" slots:u32le wait:f64le pad slot × slots      the head has 32 bytes
    slot := key:u64le owner:u32le pad:u32le until:f64le

The interface of `lycosa.frontier.AddressTable`, and the same promise: one connection at a time to each
address, and a wait after it. `key` is a hash of the address, 0 for none; `owner` the agent that has a connection
open, plus one, 0 for none; `until` the end of the wait, on the monotonic clock, which the processes of a machine
have in common.

An address has its slot among the `_PROBES` that follow its hash; a slot that nobody owns and whose wait is over
is free, so nothing is ever deleted. If all of them are taken the address is refused for a moment: nothing is
forgotten early, and no connection too many is granted. (Two addresses of one hash would take turns with each
other: polite.)

The file's blocks are allocated when it is made: a disk that fills up later must not end a process that writes to
its memory (SIGBUS).

Each operation holds a lock of the file for some microseconds. The system drops the lock of a process that dies, and
whoever watches over the agents calls `release` for it: what it had open begins its wait then.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import xxhash

from lycosa.errors import StorageError
from lycosa.files import make_directory, said

MAGIC = b"LyADR1\r\n"
_HEAD = struct.Struct("<8sId")
_START = 32
_SLOT = struct.Struct("<QIId")
_PROBES = 32
SLOTS = 1 << 14
"""Far more than connections open or just closed: a quarter of them would be four thousand visits at a time."""


def create(path: Path, wait: float, slots: int = SLOTS) -> None:
    """A new, empty table; whoever has the old one open keeps the old one."""
    draft = path.with_suffix(".part")
    data = _HEAD.pack(MAGIC, slots, wait).ljust(_START, b"\0") + bytes(_SLOT.size * slots)
    with said("write", path):
        make_directory(draft.parent)
        with draft.open("wb") as out:
            if hasattr(os, "posix_fallocate"):  # a file system may keep zeros as a hole
                os.posix_fallocate(out.fileno(), 0, len(data))
            out.write(data)
        draft.replace(path)


class SharedAddressTable:
    """The table, as one agent sees it."""

    def __init__(self, path: Path, agent: int, patience: float = 0.05) -> None:
        self._owner = agent + 1
        self._patience = patience
        no_table = StorageError(f"{path} is no table of addresses: run the same command again")
        with said("open", path):
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            if os.fstat(self._fd).st_size < _START:
                raise no_table
            self._map = mmap.mmap(self._fd, 0)
        magic, self._slots, self._wait = _HEAD.unpack_from(self._map)
        if magic != MAGIC or len(self._map) != _START + _SLOT.size * self._slots:
            raise no_table

    async def begin(self, address: str, now: float) -> float:
        """`try_begin`."""
        return self.try_begin(address, now)

    def try_begin(self, address: str, now: float) -> float:
        """0.0: the connection may be opened, and is counted as open. Else: when to try again."""
        key = _key(address)
        with self._locked():
            at, free = self._find(key, now)
            if at < 0:
                if free < 0:
                    return now + self._patience
                _SLOT.pack_into(self._map, free, key, self._owner, 0, 0.0)
                return 0.0
            _, owner, _, until = _SLOT.unpack_from(self._map, at)
            if owner:
                return now + self._patience
            if until > now:
                return float(until)
            _SLOT.pack_into(self._map, at, key, self._owner, 0, 0.0)
            return 0.0

    def end(self, address: str, now: float) -> None:
        """The connection granted last for this address is closed."""
        key = _key(address)
        with self._locked():
            at, _ = self._find(key, now)
            if at >= 0:
                _, owner, _, until = _SLOT.unpack_from(self._map, at)
                if owner == self._owner:
                    _SLOT.pack_into(self._map, at, key, 0, 0, max(until, now + self._wait))

    def hold(self, address: str, until: float) -> None:
        """Grant nothing for this address before `until` (never earlier than already decided)."""
        key = _key(address)
        with self._locked():
            at, free = self._find(key, -math.inf)
            if at >= 0:
                _, owner, _, before = _SLOT.unpack_from(self._map, at)
                _SLOT.pack_into(self._map, at, key, owner, 0, max(until, before))
            elif free >= 0:
                _SLOT.pack_into(self._map, free, key, 0, 0, until)

    def release(self, agent: int, now: float) -> int:
        """An agent died: what it had open begins its wait now. How many that were."""
        count = 0
        with self._locked():
            for at in range(_START, len(self._map), _SLOT.size):
                key, owner, _, until = _SLOT.unpack_from(self._map, at)
                if owner == agent + 1:
                    _SLOT.pack_into(self._map, at, key, 0, 0, max(until, now + self._wait))
                    count += 1
        return count

    def remembered(self, now: float) -> int:
        """Addresses that are open or wait."""
        with self._locked():
            rows = (_SLOT.unpack_from(self._map, at) for at in range(_START, len(self._map), _SLOT.size))
            return sum(1 for _, owner, _, until in rows if owner or until > now)

    def close(self) -> None:
        if self._fd >= 0:
            self._map.close()
            os.close(self._fd)
            self._fd = -1

    def _find(self, key: int, now: float) -> tuple[int, int]:
        """Where the address is (or -1), and the first free slot among those it may have (or -1)."""
        home, free = key % self._slots, -1
        for step in range(min(_PROBES, self._slots)):
            at = _START + _SLOT.size * ((home + step) % self._slots)
            found, owner, _, until = _SLOT.unpack_from(self._map, at)
            if found == key:
                return at, free
            if free < 0 and (not found or (not owner and until <= now)):
                free = at
        return -1, free

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)


def _key(address: str) -> int:
    return xxhash.xxh64_intdigest(address.encode()) or 1
