"""The page table as a dictionary: the reference for the packed one, and a table for tests and small tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from lycosa.pages.rows import Rows, pack
from lycosa.pages.summary import Summary, joined

_SLICE = 1_000


class PlainPages:
    """The contract in a few lines."""

    def __init__(self) -> None:
        self._rows: dict[int, Summary] = {}

    def note(self, key: int, summary: Summary) -> None:
        before = self._rows.get(key)
        self._rows[key] = summary if before is None else joined(before, summary)

    def find(self, key: int) -> Summary | None:
        return self._rows.get(key)

    def items(self) -> Iterator[tuple[int, Summary]]:
        return iter(sorted(self._rows.items()))

    def rows(self) -> Iterator[Rows]:
        return iter([pack(self.items())])

    @property
    def nbytes(self) -> int:
        return 500 * len(self._rows)

    # -- Durable

    def freeze(self) -> Iterator[bytes]:
        rows = list(self._rows.items())
        return iter(
            [msgspec.msgpack.encode(rows[at : at + _SLICE]) for at in range(0, len(rows), _SLICE)]
            or [b"\x90"]
        )

    def files(self) -> list[str]:
        return []

    def settle(self) -> None:
        """Nothing to do: there are no files."""

    def thaw(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self._rows.update(msgspec.msgpack.decode(piece, type=list[tuple[int, Summary]]))

    def keep(self, named: Collection[str]) -> list[str]:
        return []
