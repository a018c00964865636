"""`mercator`: a buffer, and one sorted file of all keys (Broder, Najork, Wiener, section 4.1;
Mercator-B in the VEUNIQ slides).

Offers gather in the buffer until it is full, then all of it is merged with the
whole file in one sequential pass. Simple, and quadratic in the length of the crawl: every fill of
the buffer reads and writes every key. Mercator held 8-byte checksums; so does the file here, with a
bit of state each.

Deliberate difference: the buffer's payloads are in a file, and its size is counted in records.
"""

from __future__ import annotations

from lycosa.files import Files
from lycosa.seen.disk import DiskSeen, Shelf


class MercatorSeen(DiskSeen):
    """The store `mercator`."""

    def __init__(self, files: Files, *, memory: int = 64 << 20) -> None:
        super().__init__(files, [[0]], memory)

    @property
    def due(self) -> bool:
        return self._shelves[0].buckets[0].records >= self.batch

    def _next(self) -> Shelf | None:
        shelf = self._shelves[0]
        return shelf if shelf.buckets[0].records else None
