"""`plain`: a Python set. The reference for every store, and a store for small tools and tests.

It takes some hundred bytes per URL, and its snapshot holds every key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lycosa.errors import LocalError
from lycosa.seen.protocol import Answer, Keys, Merge

_PIECE = 1 << 17


class PlainSeen:
    """The contract in a few lines."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def certain(self, keys: Keys) -> NDArray[np.bool_]:
        return np.array([key in self._known for key in keys.tolist()], np.bool_)

    def offer(self, keys: Keys, payloads: Sequence[bytes]) -> Answer:
        new = []
        for i, key in enumerate(keys.tolist()):
            if key not in self._known:
                self._known.add(key)
                new.append(i)
        return Answer(np.array(new, np.intp), np.empty(0, np.intp))

    def mark(self, keys: Keys) -> None:
        self._known.update(keys.tolist())

    def merge(self) -> list[tuple[int, bytes]]:
        return []

    @property
    def due(self) -> bool:
        return False

    def plan(self) -> Merge | None:
        return None

    def apply(self, merge: Merge) -> list[tuple[int, bytes]]:
        raise LocalError("the store `plain` plans no merges")

    def abandon(self, merge: Merge) -> None:
        raise LocalError("the store `plain` plans no merges")

    @property
    def waiting(self) -> int:
        return 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def nbytes(self) -> int:
        return 120 * len(self._known)

    def freeze(self) -> Iterator[bytes]:
        keys = np.fromiter(self._known, "<u8", len(self._known))
        return (keys[at : at + _PIECE].tobytes() for at in range(0, len(keys), _PIECE))

    def files(self) -> list[str]:
        return []

    def settle(self) -> None:
        pass

    def keep(self, named: Collection[str]) -> list[str]:
        return []

    def thaw(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self._known.update(np.frombuffer(piece, "<u8").tolist())
