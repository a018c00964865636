"""The contract of every uniqueness store.

A store answers *was this URL discovered before?* for 64-bit keys (see `lycosa.url.key`). It may
answer at once or later: a store on disk gathers keys and answers them in a merge. Hence a new key comes
out in one of two ways: as an index in the `Answer` to the offer itself, or, with its payload, from a
later `merge`.

The guarantee, whatever the batching, the order or the restarts:

    every key offered comes out as new exactly once, with the payload of its first offer,
    unless it was marked known before it came out: then it never does.

Keys may repeat within a batch. The key 0 is a key like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lycosa.state import Filed

Keys = NDArray[np.uint64]


class Answer(NamedTuple):
    """The immediate answer to an offer: indices into the batch, ascending."""

    new: NDArray[np.intp]
    """Keys that are definitely new: first met in this offer."""
    waiting: NDArray[np.intp]
    """Keys that a later `merge` will answer (the store has kept their payloads)."""


class Seen(Filed, Protocol):
    """A uniqueness store; the module's docstring is its contract."""

    def certain(self, keys: Keys) -> NDArray[np.bool_]:
        """True where the key is certainly known (or already waiting): offering it would change nothing.

        False means nothing. Cheap, changes no state: lets callers skip the work of making an offer.
        """
        ...

    def offer(self, keys: Keys, payloads: Sequence[bytes]) -> Answer:
        """Offer keys with their payloads. Keys in neither field of the answer are not new."""
        ...

    def mark(self, keys: Keys) -> None:
        """Make keys known so that they never come out; withdraws those that wait."""
        ...

    def merge(self) -> list[tuple[int, bytes]]:
        """Answer some waiting keys (at least one, if any wait); the new ones among them, with payloads."""
        ...

    @property
    def waiting(self) -> int:
        """How many offers wait for an answer."""
        ...

    def __len__(self) -> int:
        """How many keys are known, as far as the store can say without reading its disk."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of RAM held: tables and buffers."""
        ...


class Merge(Protocol):
    """A planned merge. `run` does its reading and writing; it may run in another thread."""

    def run(self) -> None:
        """Do the merge. Does not change the store, which may be used meanwhile."""
        ...


class Merging(Seen, Protocol):
    """A store whose merges can run while it is used. Every store of this package is one.

        merge = store.plan()            on the event loop, short
        merge.run()                     in a thread
        new = store.apply(merge)        on the event loop, short; or store.abandon(merge) if `run` failed

    At most one merge is planned at a time. `merge()` does the three in a row. A snapshot in between holds the
    state before the merge: what was planned waits, and the files that `run` writes are not named.
    """

    @property
    def due(self) -> bool:
        """Whether the store should merge now: more is waiting than it is meant to hold."""
        ...

    def plan(self) -> Merge | None:
        """The next merge; None if there is nothing to merge."""
        ...

    def apply(self, merge: Merge) -> list[tuple[int, bytes]]:
        """Take over the result of a merge; returns the new keys, with payloads, in the order of their offers."""
        ...

    def abandon(self, merge: Merge) -> None:
        """Forget a merge that failed; its records go on waiting."""
        ...
