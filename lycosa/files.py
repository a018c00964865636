"""Files as a port: every durable byte of a crawl goes through a `Files`.

A `Files` is rooted in one directory; names are relative to it, with `/` between parts. Durability is
promised as far as POSIX promises it:

- bytes written are visible to other readers after `flush`, and survive a power cut only after `sync`;
- a file's *name* (creation, renaming, removal) survives only after `sync_dir` of its directory;
- `rename` replaces its target atomically.

Directories are made for their owner alone (0700), since a crawl's directories hold passwords and cookies; existing
ones keep their mode.

`DiskFiles` is the machine's file system. `lycosa.lab.faults` has one that crashes on demand and then
keeps only what was promised.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from lycosa.errors import ConfigError, DiskFullError, StorageError

Bytes = bytes | bytearray | memoryview


class Appender(Protocol):
    """A file open for appending."""

    @property
    def size(self) -> int:
        """Where the next byte goes: everything written so far, flushed or not."""
        ...

    def write(self, data: Bytes) -> None: ...
    def flush(self) -> None: ...
    def sync(self) -> None:
        """Make every byte written so far durable. May be called from another thread than `write`."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """A directory of files."""

    def create(self, name: str) -> Appender:
        """A new, empty file, replacing any existing one; its directory is made if needed."""
        ...

    def append(self, name: str) -> Appender:
        """The file, open at its end; made if needed."""
        ...

    def read(self, name: str) -> bytes: ...
    def read_at(self, name: str, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; fewer only at the end of the file."""
        ...

    def size(self, name: str) -> int: ...
    def exists(self, name: str) -> bool: ...
    def list(self, directory: str) -> list[str]:
        """Names (not paths) in the directory, sorted; empty if there is no such directory."""
        ...

    def rename(self, old: str, new: str) -> None: ...
    def remove(self, name: str) -> None:
        """Remove the file if it is there."""
        ...

    def truncate(self, name: str, size: int) -> None:
        """Cut the file to `size` bytes, durably."""
        ...

    def sync_dir(self, directory: str) -> None: ...
    def within(self, directory: str) -> Files:
        """The same port, rooted in a directory below."""
        ...

    def path(self, name: str) -> str:
        """The path of the file, for messages."""
        ...


_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def said(what: str, path: Path) -> Iterator[None]:
    """Turn the operating system's errors into one line for the operator."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFullError(
                f"cannot {what} {path}: the disk is full: free some room, then run the same command again"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint = "no permission: choose another directory or change its owner"
        else:
            hint = error.strerror or str(error)
        raise StorageError(f"cannot {what} {path}: {hint}") from error


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents, accessible to their owner only."""
    try:
        path.mkdir(mode=0o700)
    except FileNotFoundError:
        make_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A temporary directory, where the operating system keeps such directories."""
    try:
        path = Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise StorageError(
            f"no temporary directory can be made ({error.strerror}): set TMPDIR to one that can be written"
        ) from None
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class _DiskAppender:
    def __init__(self, path: Path, flags: int) -> None:
        self._path = path
        with said("open", path):
            make_directory(path.parent)
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | flags, 0o644)
            self._size = os.fstat(self._fd).st_size
        self._buffer: list[Bytes] = []
        self._buffered = 0
        self._lock = threading.Lock()  # the commit's thread syncs while the loop goes on writing

    @property
    def size(self) -> int:
        return self._size

    def write(self, data: Bytes) -> None:
        with self._lock:
            self._buffer.append(data)
            self._size += len(data)
            self._buffered += len(data)
        if self._buffered > 1 << 18:
            self.flush()

    def flush(self) -> None:
        with self._lock:
            data = memoryview(b"".join(self._buffer))
            self._buffer, self._buffered = [], 0
            with said("write", self._path):
                while data:
                    data = data[os.write(self._fd, data) :]

    def sync(self) -> None:
        self.flush()
        with said("sync", self._path):
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            try:
                self.flush()
            finally:
                os.close(self._fd)
                self._fd = -1


class DiskFiles:
    """The machine's file system below `root`."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def create(self, name: str) -> Appender:
        return _DiskAppender(self.root / name, os.O_TRUNC)

    def append(self, name: str) -> Appender:
        return _DiskAppender(self.root / name, 0)

    def read(self, name: str) -> bytes:
        with said("read", self.root / name):
            return (self.root / name).read_bytes()

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        path = self.root / name
        with said("read", path):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                parts = []
                while length > 0:
                    part = os.pread(fd, length, offset)
                    if not part:
                        break
                    parts.append(part)
                    offset += len(part)
                    length -= len(part)
                return parts[0] if len(parts) == 1 else b"".join(parts)
            finally:
                os.close(fd)

    def size(self, name: str) -> int:
        with said("read", self.root / name):
            return (self.root / name).stat().st_size

    def exists(self, name: str) -> bool:
        return (self.root / name).exists()

    def list(self, directory: str) -> list[str]:
        with said("list", self.root / directory):
            try:
                return sorted(path.name for path in (self.root / directory).iterdir())
            except FileNotFoundError:
                return []

    def rename(self, old: str, new: str) -> None:
        with said("rename", self.root / old):
            (self.root / old).replace(self.root / new)

    def remove(self, name: str) -> None:
        with said("remove", self.root / name):
            (self.root / name).unlink(missing_ok=True)

    def truncate(self, name: str, size: int) -> None:
        with said("truncate", self.root / name):
            fd = os.open(self.root / name, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.ftruncate(fd, size)
                os.fsync(fd)
            finally:
                os.close(fd)

    def sync_dir(self, directory: str) -> None:
        path = self.root / directory
        with said("sync", path):
            make_directory(path)
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def within(self, directory: str) -> DiskFiles:
        return DiskFiles(self.root / directory)

    def path(self, name: str) -> str:
        return str(self.root / name)


def write_whole(files: Files, name: str, data: Bytes) -> None:
    """Replace a small file so that a reader, or a restart, sees the old bytes or the new, never a mix."""
    draft = name + ".part"
    out = files.create(draft)
    try:
        out.write(data)
        out.sync()
    finally:
        out.close()
    files.rename(draft, name)
    files.sync_dir(name.rpartition("/")[0])


def lives(pid: int) -> bool:
    """Whether a process with this number exists."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


class InUseError(ConfigError):
    """Another process writes to the directory. `ending`: that process has ended, and the ones it started will
    soon."""

    def __init__(self, text: str, ending: bool) -> None:
        super().__init__(text)
        self.ending = ending


class DirectoryLock:
    """A lock held by the one process that writes to a crawl; the system releases it when that process ends.

    A child process that was given the lock's file (`fileno`) holds it too. So a crawl whose main process was killed
    stays locked until the last of its agents has ended, which takes a moment: `waited` waits for that.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / "lock"
        if directory.exists() and not directory.is_dir():
            raise ConfigError(f"{directory} is not a directory: choose another one")
        with said("lock", path):
            make_directory(directory)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if not self._try():
                holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
                raise InUseError(
                    f"{directory} is in use by process {holder}: stop it first, or choose another directory",
                    holder.isdigit() and not lives(int(holder)),
                )
            with said("lock", path):
                # In this order (write, then truncate): on a full disk there is still room where the old number was.
                os.ftruncate(self._fd, os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0))
        except BaseException:
            self.release()
            raise

    @classmethod
    async def waited(cls, directory: Path, patience: float = 10.0) -> DirectoryLock:
        """The lock; if only agents of a process that has ended hold it, waits until they have ended, too."""
        until = time.monotonic() + patience
        while True:
            try:
                return cls(directory)
            except InUseError as error:
                if not error.ending or time.monotonic() >= until:
                    raise
            await asyncio.sleep(0.05)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def fileno(self) -> int:
        return self._fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def process_of(directory: Path) -> int | None:
    """The id of the process that crawls into a directory; None if there is none."""
    try:
        fd = os.open(directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.pread(fd, 32, 0).strip()
        if not text.isdigit() or not lives(int(text)):
            return None
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(text)
    except OSError:
        return None
    finally:
        os.close(fd)
    return None
