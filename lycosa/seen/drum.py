"""`drum`: Disk Repository with Update Management (Lee, Leonard, Wang, Loguinov: IRLbot, 2008),
as the VEUNIQ slides describe it.

One central repository of all keys in order, and k buckets for k equal ranges of keys. A bucket has
an array in memory for pairs of key and value and one for what belongs to them (the *auxiliary*,
here the payload), and files on disk to which the arrays are spilled. When one bucket's files reach
`bucket_bytes`, all k buckets are merged with the central repository in one synchronised pass:
bucket after bucket is read, sorted, and merged with its range of the repository, and then the
auxiliaries of the keys that came out are fetched.

The repository is k files, one for each bucket's range, so that a pass is k merges in a row. Each returns
its new keys before the next is begun: a pass needs the memory of one bucket, however much it merges.

The operations of the paper:

    check(keys, payloads)     is the key known? answered by `take_checked` after the merge; nothing changes
    update(keys)              the key becomes known, with the value *crawled*
    check+update              `offer`: the key becomes known, and comes out of the merge if it was not

Deliberate differences: a value is one bit (crawled); keys and auxiliaries of a bucket share a file,
in which their columns lie apart; checks read the repository in a pass of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lycosa.errors import ConfigError
from lycosa.files import Files
from lycosa.seen import merge_kernels as kernels
from lycosa.seen.disk import DiskSeen, Shelf
from lycosa.seen.merging import Checked
from lycosa.seen.protocol import Keys, Merge


def equal_ranges(n: int) -> list[int]:
    """The lowest keys of n equal ranges of the 64-bit integers."""
    return [i * (1 << 64) // n for i in range(n)]


class DrumSeen(DiskSeen):
    """The store `drum`."""

    def __init__(
        self,
        files: Files,
        *,
        memory: int = 64 << 20,
        buckets: int = 64,
        bucket_bytes: int = 64 << 20,
    ) -> None:
        if not 1 <= buckets <= 1 << 16:
            raise ConfigError(f"drum takes 1 to 65536 buckets, not {buckets}")
        super().__init__(files, [[low] for low in equal_ranges(buckets)], memory)
        self._turn = 0
        self._passing = False  # whether a pass is under way; it goes on with the next bucket
        self._bucket_bytes = bucket_bytes
        self._checked: list[Checked] = []

    def check(self, keys: Keys, payloads: Sequence[bytes]) -> None:
        """Ask whether keys are known, without making them so."""
        self._ask(kernels.CHECK, keys, np.arange(len(keys), dtype=np.intp), payloads)

    def update(self, keys: Keys) -> None:
        """Make keys known and crawled."""
        self.mark(keys)

    def take_checked(self) -> list[Checked]:
        """The answers to checks since the last call."""
        checked, self._checked = self._checked, []
        return checked

    @property
    def due(self) -> bool:
        return (self._passing and any(bucket.asked for bucket in self._buckets[self._turn :])) or any(
            sum(source.length for source in bucket.sources) >= self._bucket_bytes
            or bucket.records >= self.batch
            for bucket in self._buckets
        )

    def _next(self) -> Shelf | None:
        """The next shelf of the pass that has something waiting; after the last one the first."""
        count = len(self._shelves)
        for step in range(count):
            turn = (self._turn + step) % count
            shelf = self._shelves[turn]
            records = sum(
                bucket.records for bucket in shelf.buckets
            )  # one, but for stores of earlier versions
            asked = any(bucket.asked for bucket in shelf.buckets)
            if asked or (not self._asked and records):  # marks alone answer nobody
                self._turn = turn if records > self.batch else (turn + 1) % count
                self._passing = self._turn > 0 or turn == 0
                return shelf
        return None

    def apply(self, merge: Merge) -> list[tuple[int, bytes]]:
        new = super().apply(merge)
        self._checked += merge.checked  # type: ignore[attr-defined]  # `apply` took only what it planned
        return new
