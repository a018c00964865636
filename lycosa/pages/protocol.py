"""The contract of a page table.

    for every key, `find` gives the summaries noted for it, joined in the order in which they were noted

whatever was noted between them and however often the table was frozen and thawed. The key 0 is a key like any
other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from lycosa.pages.rows import Rows
from lycosa.pages.summary import Summary
from lycosa.state import Filed


class PageTable(Filed, Protocol):
    """The summaries of a shard's pages, by the keys of their URLs."""

    def note(self, key: int, summary: Summary) -> None:
        """Add the summary of a fetch, or of a loss of the page's bytes. Reads nothing from disk."""
        ...

    def find(self, key: int) -> Summary | None:
        """The summary of all fetches of a page; None if it has not been fetched."""
        ...

    def items(self) -> Iterator[tuple[int, Summary]]:
        """Every page in the order of keys, as of the call. Reads the whole table."""
        ...

    def rows(self) -> Iterator[Rows]:
        """The same as packed rows, in parts; the parts may be read in a thread."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of RAM held, about."""
        ...
