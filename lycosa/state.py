"""State: how a fold takes part in a snapshot.

A snapshot is a consistent cut through all folds of a shard at one log position. A fold's state may be
large, so it is handed over in pieces while the crawl goes on:

- `freeze()` fixes the cut *at the call* and returns an iterator of byte strings. Between two pieces the
  fold may be changed; what it still owes to the cut it must keep apart (copy on touch). A piece takes at
  most a few milliseconds to make and is at most about 1 MiB. At most one freeze is under way at a time; an
  abandoned one is ended by closing the iterator.
- `files()` names the files (relative to the fold's own `Files`) that the frozen pieces refer to, as of the
  last `freeze`. They stay until a later snapshot no longer names them.
- `settle()` makes those files durable; it runs in a thread, after the pieces were taken.
- `thaw(pieces)` rebuilds the state of the cut in a fresh fold. Files that the snapshot does not name are
  not touched by the fold; whoever runs recovery deletes them before.

A piece is whatever the fold likes; the snapshot guards it with a checksum and keeps pieces in order.
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
    """A fold that keeps files; `lycosa.lifetimes` says when they go."""

    def files(self) -> list[str]: ...
    def settle(self) -> None: ...
    def keep(self, named: Collection[str]) -> list[str]:
        """The kept snapshots name these files: what neither they nor the fold need is removed; its names."""
        ...


@runtime_checkable
class Versioned(Durable, Protocol):
    """A fold whose pieces were others in an earlier version."""

    def reads(self, first: bytes) -> bool:
        """Whether a snapshot that begins with this piece can be thawed; if not, the log is read anew."""
        ...


def keeps_files(part: Durable) -> TypeGuard[Filed]:
    """Whether a fold keeps files."""
    return _kind_keeps_files(type(part))


@cache
def _kind_keeps_files(kind: type[Durable]) -> bool:
    """Asked once a kind: a protocol takes 10 µs to answer, and snapshots ask for each part of each shard."""
    return issubclass(kind, Filed)
