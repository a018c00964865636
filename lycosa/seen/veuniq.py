"""`veuniq`: VEUNIQ, verifier of uniqueness (Henrique, Ziviani and others, SPIRE 2011).

The known keys are organised by server, in N repositories: contiguous ranges of keys, whose top 16
bits come from the host. Most links stay on their server, so what is extracted from the pages of a
range of servers belongs mostly to one repository. A cycle on repository R_id merges, in one
sequential pass over R_id alone,

    L_id     the URLs crawled            marks
    E_id     the URLs extracted          offers
    AUX_id   those of earlier cycles that belonged to R_id while another was in turn

into a new R_id, and returns the new ones. Keys that belong to other repositories are kept in *their*
buffers and waiting files until their turn. A key has the state crawled or uncrawled.

The product differs from the paper where the paper needs a schedule that a crawler bound by
politeness cannot keep:

- the repository merged next is the one with most waiting (`turns=False`), not id = i mod N
  (`turns=True`), as the crawl is not confined to one repository's servers for a cycle;
- N is not fixed: a repository of more than `split` keys is split in halves by its merge, so that
  one great host does not make one great repository, and a small crawl has one. With `repositories`
  given, the ranges are N equal ones for good, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.errors import ConfigError
from lycosa.files import Files
from lycosa.lifetimes import FileSet
from lycosa.seen.disk import DiskSeen, Shelf
from lycosa.seen.drum import equal_ranges
from lycosa.seen.repository import BLOCK_KEYS

DEFAULT_SPLIT = 64 * BLOCK_KEYS


class VeuniqSeen(DiskSeen):
    """The store `veuniq`."""

    def __init__(
        self,
        files: Files,
        *,
        memory: int = 64 << 20,
        split: int = DEFAULT_SPLIT,
        repositories: int = 0,
        turns: bool = False,
        lows: Sequence[int] = (),
        held: FileSet | None = None,
    ) -> None:
        if not 0 <= repositories <= 1 << 16:
            raise ConfigError(f"veuniq takes at most 65536 repositories, not {repositories}")
        if split < 2:
            raise ConfigError(f"a repository can be split at 2 keys or more, not at {split}")
        lows = lows or equal_ranges(repositories or 1)
        super().__init__(files, [[low] for low in lows], memory, 0 if repositories else split, held)
        self._turns = turns
        self._turn = 0

    @property
    def due(self) -> bool:
        return any(bucket.records >= self.batch for bucket in self._buckets)

    def _next(self) -> Shelf | None:
        if self._turns:
            for step in range(len(self._shelves)):
                turn = (self._turn + step) % len(self._shelves)
                shelf = self._shelves[turn]
                if shelf.buckets[0].asked or (not self._asked and shelf.buckets[0].records):
                    self._turn = turn + 1
                    return shelf
            return None
        # Marks need no answer: they count only among equals.
        best = max(self._shelves, key=lambda shelf: (shelf.buckets[0].asked, shelf.buckets[0].records))
        return best if best.buckets[0].records else None
