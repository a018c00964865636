"""Faulty files: a file system in memory that crashes on demand and keeps only what was synced.

`FaultyFiles` implements the `Files` port. Every operation that could fail half-way (create, write, flush, sync,
rename, remove, truncate, sync of a directory) counts as one step; at step `crash_at` the call raises `Crash`,
possibly after doing part of its work, and so does every call after it: the machine is off.

`restart(random)` gives the file system as the next start finds it. What was synced is there. Of the rest:

- each write since the last sync of its file is kept or dropped independently, so later bytes may be there without
  earlier ones (the gap reads as zeros), and the last kept one may be cut at any byte;
- of the changes of names in a directory (created, renamed, removed) since its last sync, a random prefix
  has happened.

That is harsher than SIGKILL, which loses nothing that reached the page cache, and as harsh as POSIX allows.
"""

from __future__ import annotations

import threading
from random import Random

from lycosa.errors import StorageError
from lycosa.files import Appender, Bytes


class Crash(Exception):  # noqa: N818 - not an error of the program: the power is gone
    """The machine stopped at this operation."""


class _Inode:
    def __init__(self, data: bytes = b"") -> None:
        self.durable = bytearray(data)
        self.data = bytearray(data)
        self.writes: list[tuple[int, bytes]] = []  # since the last sync: offset and bytes


class _Disk:
    """The state shared by all views of one file system."""

    def __init__(self, names: dict[str, _Inode], crash_at: int | None) -> None:
        self.names = dict(names)
        self.durable_names = dict(names)
        self.changes: list[
            tuple[str, dict[str, _Inode | None]]
        ] = []  # directory; names to inodes (None: gone)
        self.crash_at = crash_at
        self.steps = 0
        self.history: list[str] = []
        self.off = False
        self.lock = threading.RLock()

    def step(self, what: str) -> bool:
        """Count an operation; True if the machine stops in it."""
        if self.off:
            raise Crash("the machine is off")
        self.steps += 1
        self.history.append(what)
        if self.crash_at is not None and self.steps >= self.crash_at:
            self.off = True
            return True
        return False

    def change(self, names: dict[str, _Inode | None]) -> None:
        """One atomic change of a directory: it happens as a whole, or not at all."""
        self.changes.append((next(iter(names)).rpartition("/")[0], names))
        _apply(self.names, names)


def _apply(to: dict[str, _Inode], names: dict[str, _Inode | None]) -> None:
    for name, inode in names.items():
        if inode is None:
            to.pop(name, None)
        else:
            to[name] = inode


class _FaultyAppender:
    def __init__(self, disk: _Disk, name: str, inode: _Inode) -> None:
        self._disk = disk
        self._name = name
        self._inode = inode
        self._buffer = b""

    @property
    def size(self) -> int:
        return len(self._inode.data) + len(self._buffer)

    def write(self, data: Bytes) -> None:
        with self._disk.lock:
            if self._disk.step(f"write {self._name}"):
                raise Crash(self._name)
            self._buffer += bytes(data)

    def flush(self) -> None:
        with self._disk.lock:
            if not self._buffer:
                return
            stops = self._disk.step(f"flush {self._name}")
            data = self._buffer[: len(self._buffer) // 2] if stops else self._buffer
            self._inode.writes.append((len(self._inode.data), data))
            self._inode.data += data
            self._buffer = b""
            if stops:
                raise Crash(self._name)

    def sync(self) -> None:
        with self._disk.lock:
            self.flush()
            if self._disk.step(f"sync {self._name}"):
                raise Crash(self._name)
            self._inode.durable[:] = self._inode.data
            self._inode.writes.clear()

    def close(self) -> None:
        with self._disk.lock:
            if not self._disk.off:
                self.flush()


class FaultyFiles:
    """A `Files` on a disk that fails; see the module's text."""

    def __init__(self, crash_at: int | None = None, *, _disk: _Disk | None = None, _root: str = "") -> None:
        self._disk = _disk or _Disk({}, crash_at)
        self._root = _root

    @property
    def steps(self) -> int:
        """The number of operations so far."""
        return self._disk.steps

    @property
    def crashed(self) -> bool:
        return self._disk.off

    @property
    def history(self) -> list[str]:
        """The operation of each step."""
        return self._disk.history

    def restart(self, random: Random, crash_at: int | None = None) -> FaultyFiles:
        """The file system after the crash (or after a power cut now)."""
        disk = self._disk
        with disk.lock:
            disk.off = True
            names = dict(disk.durable_names)
            for directory in dict.fromkeys(change[0] for change in disk.changes):
                changes = [change for change in disk.changes if change[0] == directory]
                for _, changed in changes[: random.randint(0, len(changes))]:
                    _apply(names, changed)
            survivors = {name: _Inode(_survives(inode, random)) for name, inode in names.items()}
            return FaultyFiles(_disk=_Disk(survivors, crash_at), _root=self._root)

    def killed(self) -> FaultyFiles:
        """The file system after the process was killed: all that was flushed is there, synced or not."""
        disk = self._disk
        with disk.lock:
            disk.off = True
            names = {name: _Inode(bytes(inode.data)) for name, inode in disk.names.items()}
            return FaultyFiles(_disk=_Disk(names, None), _root=self._root)

    def create(self, name: str) -> Appender:
        with self._disk.lock:
            full = self._full(name)
            if self._disk.step(f"create {full}"):
                raise Crash(full)
            inode = _Inode()
            self._disk.change({full: inode})
            return _FaultyAppender(self._disk, full, inode)

    def append(self, name: str) -> Appender:
        with self._disk.lock:
            full = self._full(name)
            if full not in self._disk.names:
                return self.create(name)
            return _FaultyAppender(self._disk, full, self._disk.names[full])

    def read(self, name: str) -> bytes:
        return bytes(self._inode(name).data)

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        return bytes(self._inode(name).data[offset : offset + length])

    def size(self, name: str) -> int:
        return len(self._inode(name).data)

    def exists(self, name: str) -> bool:
        full = self._full(name)
        return full in self._disk.names or any(n.startswith(full + "/") for n in self._disk.names)

    def list(self, directory: str) -> list[str]:
        prefix = self._full(directory)
        prefix = prefix + "/" if prefix else ""
        below = (name[len(prefix) :] for name in self._disk.names if name.startswith(prefix))
        return sorted({rest.partition("/")[0] for rest in below})

    def rename(self, old: str, new: str) -> None:
        with self._disk.lock:
            inode = self._inode(old)
            if self._disk.step(f"rename {self._full(old)}"):
                raise Crash(old)
            # One change of the new name's directory: never both names, never neither.
            gone = {self._full(old): None} if old != new else {}
            self._disk.change({self._full(new): inode, **gone})

    def remove(self, name: str) -> None:
        with self._disk.lock:
            full = self._full(name)
            if full in self._disk.names:
                if self._disk.step(f"remove {full}"):
                    raise Crash(full)
                self._disk.change({full: None})

    def truncate(self, name: str, size: int) -> None:
        with self._disk.lock:
            inode = self._inode(name)
            if self._disk.step(f"truncate {self._full(name)}"):
                raise Crash(name)
            del inode.data[size:]
            inode.durable[:] = inode.data
            inode.writes.clear()

    def sync_dir(self, directory: str) -> None:
        with self._disk.lock:
            full = self._full(directory)
            if self._disk.step(f"sync_dir {full}"):
                raise Crash(full)
            disk = self._disk
            for _, changed in [change for change in disk.changes if change[0] == full]:
                _apply(disk.durable_names, changed)
            disk.changes = [change for change in disk.changes if change[0] != full]

    def within(self, directory: str) -> FaultyFiles:
        return FaultyFiles(_disk=self._disk, _root=self._full(directory))

    def path(self, name: str) -> str:
        return self._full(name)

    def _full(self, name: str) -> str:
        return "/".join(part for part in (self._root, name) if part)

    def _inode(self, name: str) -> _Inode:
        if self._disk.off:
            raise Crash("the machine is off")
        found = self._disk.names.get(self._full(name))
        if found is None:
            raise StorageError(f"cannot read {self._full(name)}: no such file")
        return found


def _survives(inode: _Inode, random: Random) -> bytes:
    """The bytes of a file after the crash."""
    data = bytearray(inode.durable)
    kept = [write for write in inode.writes if random.random() < 0.6]
    for number, (offset, written) in enumerate(kept):
        if number == len(kept) - 1:
            written = written[: random.randint(0, len(written))]
        if offset > len(data):
            data += bytes(offset - len(data))
        data[offset : offset + len(written)] = written
    return bytes(data)
