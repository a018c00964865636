"""What shared storage is asked for: whole objects by name, and little else.

A name has parts, with `/` between them (`demand_name`). What ends in `.part` is nobody's name: a directory keeps
drafts under such names. A *directory* is the part of names before their last `/`; it is there as long as objects
are below it.

Nothing needs a compare-and-set, or that an object is put only where none is: checkpoints carry the epoch of their
holder in their names, and everything else is the same whoever puts it. That is deliberate. Servers that speak S3
differ in just these points, and some take a condition that they do not know without a word.

What may go wrong, by who must act:

- `Missing`: there is no such object.
- `Away`: storage did not answer in time, or said that it cannot now; it was asked several times, with growing
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
"""Bytes that are in memory at a time, when files are copied."""
DRAFT = ".part"
_LONGEST = 900
"""Bytes of a name: S3 takes 1,024, with the prefix that storage has there."""


class Missing(StorageError):  # noqa: N818
    """There is no such file on shared storage."""


class Away(Unavailable):
    """Shared storage does not answer, or cannot now."""


class Storage(Protocol):
    """Objects by name.

    An object is there whole or not at all: whoever reads while it is put, or after its writer was killed, finds the
    one before or none. What a put returned from is durable, and from then on seen by everybody, in lists too.
    Files are copied in pieces (`PIECE`), whatever their size. May be used from several threads at once, and waits:
    not for an event loop's thread.
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
        """End connections; nothing may be asked afterwards."""
        ...


def demand_name(name: str) -> str:
    """The name, if it can be one of an object: it comes from a listing or a checkpoint, which others wrote."""
    words = name.split("/")
    wrong = any(not word or not word.strip(".") or "\\" in word or not word.isprintable() for word in words)
    if wrong or name.endswith(DRAFT) or len(name.encode("utf-8", "replace")) > _LONGEST:
        raise StorageError(f"{name[:200]!r} is no name of a file on shared storage")
    return name


def check_name(name: str, source: str, *, parts: int = 0, below: str = "") -> None:
    """Refuse a name in a checkpoint that leads elsewhere than to a file below a directory.

    `parts`: so many; `below`: it begins so.
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
    """The first `size` bytes of a local file; it has grown since, or it is refused."""
    left = source.size(local) if size is None else size
    offset = 0
    while left > 0:
        data = source.read_at(local, offset, min(piece, left))
        if not data:
            raise StorageError(f"{source.path(local)} is shorter than it was: it was not copied")
        yield data
        offset += len(data)
        left -= len(data)
