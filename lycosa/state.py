"""State: how a fold takes part in a snapshot.

A snapshot is a consistent cut through all folds of a shard at one log position. A fold's state may be
large, so it is handed over in pieces while the crawl continues:

- `freeze()` fixes the cut *at the time of the call* and returns an iterator of byte strings. The fold may be
  changed between two pieces; it must preserve what the remaining pieces need (copy on write). A piece takes at
  most a few milliseconds to make and is at most about 1 MiB. At most one freeze is under way at a time; one that
  is abandoned is ended by closing the iterator.
- `files()` names the files (relative to the fold's own `Files`) that the frozen pieces refer to, as of the
  last `freeze`. They stay until a later snapshot no longer names them.
- `settle()` makes those files durable; it runs in a thread, after the pieces were taken.
- `thaw(pieces)` rebuilds the state of the cut in a fresh fold. The fold does not touch files that the snapshot
  does not name; recovery deletes them beforehand.

The fold chooses the content of a piece; the snapshot guards it with a checksum and keeps pieces in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Protocol, TypeGuard, runtime_checkable


class Durable(Protocol):
    """A fold whose state a snapshot can hold."""

    def freeze(self) -> Iterator[bytes]: ...
    def thaw(self, pieces: Iterable[bytes]) -> None: ...


@runtime_checkable
class Filed(Durable, Protocol):
    """A fold that keeps files; `lycosa.lifetimes` says when they are removed."""

    def files(self) -> list[str]: ...
    def settle(self) -> None: ...
    def keep(self, named: Collection[str]) -> list[str]:
        """The kept snapshots name these files. Removes files needed neither by them nor by the fold; returns their
        names."""
        ...


@runtime_checkable
class Versioned(Durable, Protocol):
    """A fold whose pieces had another format in an earlier version."""

    def reads(self, first: bytes) -> bool:
        """Whether a snapshot that begins with this piece can be thawed; if not, the log is replayed from its
        start."""
        ...


def keeps_files(part: Durable) -> TypeGuard[Filed]:
    """Whether a fold keeps files."""
    return _kind_keeps_files(type(part))


@cache
def _kind_keeps_files(kind: type[Durable]) -> bool:
    """Cached per class: a protocol check takes 10 µs, and snapshots make one for each part of each shard."""
    return issubclass(kind, Filed)
