"""The interface of shared storage: whole objects by name, and little else.

A name has parts, with `/` between them (`demand_name`). No name ends in `.part`: a directory keeps
drafts under such names. A *directory* is the part of a name before its last `/`; it exists as long as objects
are below it.

Nothing needs a compare-and-set, or a put that requires that no object exists: checkpoints carry the epoch of their
holder in their names, and everything else is the same from every writer. That is deliberate. S3 servers
differ in just these points, and some silently ignore a condition that they do not know.

What may go wrong, by who must act:

- `Missing`: there is no such object.
- `Away`: storage did not answer in time, or is temporarily unavailable; it was asked several times, with growing
  waits. Whether a put took effect is not known. Ask again, later, for as long as it takes.
- `ConfigError`: no such bucket, credentials that are refused, a clock that is wrong. The operator must act.
- `DiskFullError`, `StorageError`: there is no room, or what is there is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from lycosa.engine.protocol import Unavailable
from lycosa.errors import StorageError
from lycosa.files import Files

PIECE = 8 << 20
"""Bytes in memory at a time when files are copied."""
DRAFT = ".part"
_LONGEST = 900
"""Maximum bytes of a name: S3 allows 1,024, including the prefix that storage has there."""


class Missing(StorageError):  # noqa: N818
    """There is no such file on shared storage."""


class Away(Unavailable):
    """Shared storage does not answer, or is temporarily unavailable."""


class Storage(Protocol):
    """Objects by name.

    An object exists whole or not at all: a reader during a put, or after the writer was killed, finds the
    previous one or none. When a put has returned, the object is durable and visible to all, in lists too.
    Files are copied in pieces (`PIECE`), whatever their size. Thread-safe; calls block, so they must not be made
    on an event loop's thread.
    """

    def put_file(self, name: str, source: Files, local: str, size: int | None = None) -> None:
        """Copy a local file (its first `size` bytes) here; an existing object is replaced."""
        ...

    def get_file(self, name: str, target: Files, local: str) -> None:
        """Copy an object into a local file, and sync that; its name is durable after the caller's `sync_dir`.

        All its bytes are of one put. After an error the local file may hold a part."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Put a small object; an existing one is replaced."""
        ...

    def get(self, name: str) -> bytes: ...
    def read_at(self, name: str, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; fewer only at the end of the object."""
        ...

    def size(self, name: str) -> int: ...
    def exists(self, name: str) -> bool: ...
    def list(self, directory: str) -> list[str]:
        """Names (not paths) of objects and directories directly in a directory, sorted."""
        ...

    def sizes(self, directory: str) -> dict[str, int]:
        """The objects directly in a directory, and their sizes."""
        ...

    def remove(self, name: str) -> None:
        """Remove an object if it is there."""
        ...

    def remove_all(self, directory: str) -> None:
        """Remove all objects of a directory and of those below it."""
        ...

    def close(self) -> None:
        """Close connections; no call may follow."""
        ...


def demand_name(name: str) -> str:
    """The name, if an object may have it: it comes from a listing or a checkpoint, which others wrote."""
    words = name.split("/")
    wrong = any(not word or not word.strip(".") or "\\" in word or not word.isprintable() for word in words)
    if wrong or name.endswith(DRAFT) or len(name.encode("utf-8", "replace")) > _LONGEST:
        raise StorageError(f"{name[:200]!r} is no name of a file on shared storage")
    return name


def check_name(name: str, source: str, *, parts: int = 0, below: str = "") -> None:
    """Refuse a name in a checkpoint that leads outside of a directory.

    `parts`: the number of its parts; `below`: its prefix.
    """
    try:
        demand_name(name)
        wrong = (parts and name.count("/") != parts - 1) or not name.startswith(below)
    except StorageError:
        wrong = True
    if wrong:
        raise StorageError(
            f"{source} on shared storage names a file {name!r}, which no agent wrote: remove it"
        )


def pieces_of(source: Files, local: str, size: int | None, piece: int = PIECE) -> Iterator[bytes]:
    """The first `size` bytes of a local file; refused if the file is shorter (it may be longer)."""
    left = source.size(local) if size is None else size
    offset = 0
    while left > 0:
        data = source.read_at(local, offset, min(piece, left))
        if not data:
            raise StorageError(f"{source.path(local)} is shorter than it was: it was not copied")
        yield data
        offset += len(data)
        left -= len(data)
