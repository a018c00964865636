"""The URL cache (Broder, Najork, Wiener: Efficient URL caching for world wide web crawling, 2003).

A cache of k = 2^r keys in front of a store or of an exchange: `probe` requests keys in turn, tells which were
in it, and inserts the others, evicting by its policy:

    CLOCK    requested entries are marked; the handle clears marks until it finds none, and evicts there
    RANDOM   evicts any entry
    LRU      evicts the entry that was not requested for the longest time
    STATIC   evicts nothing: the k keys it was given stay

For the lab there are, over a whole trace, `min_hits` (clairvoyant) and `infinite_hits`.

CLOCK and RANDOM come in the two structures of section 6, `ScatterCache` (l + 2 and l + 1 bits per entry) and
`ChainedCache`; see `cache_kernels` for the bits. `nbytes` is what the arrays hold, so bits per entry can be
measured. The paper recommends 100 to 500 entries for each concurrent visit, CLOCK or RANDOM, in a scatter
table.

`CachedSeen` is the form that crawls use. A key in a cache must be known or waiting in the store behind it,
otherwise a URL would be lost: keys enter just before they are offered, and if the offer fails the cache is emptied.

Caches start cold; a snapshot never holds one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lycosa.errors import ConfigError
from lycosa.meters import Meters
from lycosa.seen import cache_kernels as kernels
from lycosa.seen.protocol import Answer, Keys, Merge, Merging

DEFAULT_ENTRIES = 1 << 16
_NONE: NDArray[np.intp] = np.empty(0, np.intp)
Flags = NDArray[np.bool_]


class Cache(Protocol):
    """A bounded set of recently requested keys."""

    def probe(self, keys: Keys, hits: Flags) -> int:
        """Request keys in turn; sets `hits` for those that were in the cache, and returns how many."""
        ...

    def touch(self, keys: Keys, hits: Flags) -> int:
        """As `probe`, but missing keys are not inserted."""
        ...

    def clear(self) -> None: ...

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


def _order(entries: int) -> int:
    """r, for 2^r entries."""
    if entries < 1 or entries & (entries - 1) or entries > 1 << 28:
        raise ConfigError(f"a cache has a power of two of entries, at most 2^28, not {entries}")
    return entries.bit_length() - 1


class ScatterCache:
    """CLOCK or RANDOM in a scatter table with circular lists."""

    def __init__(self, entries: int = DEFAULT_ENTRIES, *, clock: bool = True, seed: int = 1) -> None:
        self._r = _order(entries)
        self._clock = clock
        self._seed = seed
        self._words = np.empty(entries, np.uint64)
        self._firsts = np.empty(-(-entries // 8), np.uint8)
        self._marks = np.empty(-(-entries // 8) if clock else 0, np.uint8)
        self._state = np.empty(3, np.int64)
        self.clear()

    def probe(self, keys: Keys, hits: Flags) -> int:
        return int(
            kernels.scatter_probe(
                self._words, self._firsts, self._marks, self._state, self._r, self._clock, keys, hits
            )
        )

    def touch(self, keys: Keys, hits: Flags) -> int:
        return int(
            kernels.scatter_touch(self._words, self._firsts, self._marks, self._r, self._clock, keys, hits)
        )

    def clear(self) -> None:
        self._state[:] = 0, 0, _dice(self._seed)
        kernels.scatter_clear(self._words, self._firsts, self._marks)

    def __len__(self) -> int:
        return int(self._state[kernels.FILLED])

    @property
    def nbytes(self) -> int:
        return self._words.nbytes + self._firsts.nbytes + self._marks.nbytes


class ChainedCache:
    """CLOCK or RANDOM with direct circular chaining; lists have 2^x entries on average."""

    def __init__(
        self, entries: int = DEFAULT_ENTRIES, *, clock: bool = True, x: int = 2, seed: int = 1
    ) -> None:
        self._r = _order(entries)
        if x < 0:
            raise ConfigError(f"the lists of a chained cache have 2^x entries with x >= 0, not {x}")
        self._x = min(x, self._r)
        self._clock = clock
        self._seed = seed
        self._words = np.empty(entries, np.uint64)
        self._extra = _packed(entries, self._x)
        self._heads = _packed(entries >> self._x, self._r)
        self._lasts = np.empty(-(-entries // 8), np.uint8)
        self._marks = np.empty(-(-entries // 8) if clock else 0, np.uint8)
        self._state = np.empty(3, np.int64)
        self.clear()

    def probe(self, keys: Keys, hits: Flags) -> int:
        return int(
            kernels.chain_probe(
                self._words, self._extra, self._lasts, self._heads, self._marks, self._state,
                self._r, self._x, self._clock, keys, hits,
            )
        )  # fmt: skip

    def touch(self, keys: Keys, hits: Flags) -> int:
        return int(
            kernels.chain_touch(
                self._words, self._extra, self._lasts, self._heads, self._marks, self._state,
                self._r, self._x, self._clock, keys, hits,
            )
        )  # fmt: skip

    def clear(self) -> None:
        self._state[:] = 0, 0, _dice(self._seed)
        for array in (self._words, self._extra, self._heads, self._lasts, self._marks):
            array[:] = 0

    def __len__(self) -> int:
        return int(self._state[kernels.FILLED])

    @property
    def nbytes(self) -> int:
        arrays = (self._words, self._extra, self._heads, self._lasts, self._marks)
        return sum(array.nbytes for array in arrays)


class LruCache:
    """LRU, with sixteen bytes of links beside each key (which CLOCK does not need)."""

    def __init__(self, entries: int = DEFAULT_ENTRIES) -> None:
        self._r = _order(entries)
        self._keys = np.empty(entries, np.uint64)
        self._chain, self._heads, self._newer, self._older = (np.empty(entries, np.int32) for _ in range(4))
        self._state = np.empty(3, np.int64)
        self.clear()

    def probe(self, keys: Keys, hits: Flags) -> int:
        return int(
            kernels.lru_probe(
                self._keys, self._chain, self._heads, self._newer, self._older, self._state,
                64 - self._r, keys, hits,
            )
        )  # fmt: skip

    def clear(self) -> None:
        self._heads[:] = -1
        self._state[:] = -1, 0, -1

    def __len__(self) -> int:
        return int(self._state[kernels.FILLED])

    @property
    def nbytes(self) -> int:
        links = (self._chain, self._heads, self._newer, self._older)
        return self._keys.nbytes + sum(array.nbytes for array in links)


class StaticCache:
    """STATIC: a fixed set of keys, for instance the most popular of an earlier crawl. Evicts nothing."""

    def __init__(self, keys: Keys) -> None:
        distinct = np.unique(keys)
        entries = 1 << max(len(distinct) - 1, 0).bit_length()
        self._cache = ScatterCache(entries, clock=False)
        self._cache.probe(distinct, np.empty(len(distinct), np.bool_))

    def probe(self, keys: Keys, hits: Flags) -> int:
        return self._cache.touch(keys, hits)

    def __len__(self) -> int:
        return len(self._cache)

    @property
    def nbytes(self) -> int:
        return self._cache.nbytes


def min_hits(trace: Keys, size: int) -> int:
    """The hits of a clairvoyant cache (section 5.1): no cache of that size has more."""
    _, ids = np.unique(trace, return_inverse=True)
    never = len(trace)
    following = np.full(len(trace), never, np.int64)
    order = np.argsort(ids, kind="stable")
    same = ids[order[1:]] == ids[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    distinct = int(ids.max()) + 1 if len(ids) else 0
    return int(kernels.min_hits(ids.astype(np.int64), following, distinct, size, np.empty(0, np.bool_)))


def infinite_hits(trace: Keys) -> int:
    """The hits of a cache without limit."""
    return len(trace) - len(np.unique(trace))


def _dice(seed: int) -> int:
    return seed * 0x5851F42D4C957F2D % (1 << 62) or 1


def _packed(count: int, width: int) -> NDArray[np.uint64]:
    return np.zeros(-(-count * width // 64), np.uint64)


class CachedSeen:
    """A store behind a cache: the contract of `Seen` with fewer calls of the store.

    `seen.probes` and `seen.hits` count the lookups in the cache. Keys that were looked up by `certain` and
    are offered right after count once.
    """

    def __init__(self, cache: Cache, store: Merging, meters: Meters) -> None:
        self._cache = cache
        self._store = store
        self._probes = meters.counter("seen.probes")
        self._hits = meters.counter("seen.hits")
        self._counted = 0
        self._flags = np.empty(256, np.bool_)

    def certain(self, keys: Keys) -> Flags:
        known = np.empty(len(keys), np.bool_)
        found = self._cache.touch(keys, known)
        self._probes.value += len(keys)
        self._hits.value += found
        self._counted = len(keys) - found
        if self._counted:
            missing = (~known).nonzero()[0]
            asked = keys.take(missing)
            there = self._store.certain(asked)
            enter = asked[there]
            if len(enter):
                # Requested and certainly known keys enter, as if they had been offered.
                known[missing] = there
                self._cache.probe(enter, np.empty(len(enter), np.bool_))
        return known

    def offer(self, keys: Keys, payloads: Sequence[bytes]) -> Answer:
        count = len(keys)
        if count > len(self._flags):
            self._flags = np.empty(count, np.bool_)
        hits = self._flags[:count]
        found = self._cache.probe(keys, hits)
        self._probes.value += max(count - self._counted, 0)
        self._counted = 0
        self._hits.value += found
        if found == count:
            return Answer(_NONE, _NONE)
        try:
            if not found:
                return self._store.offer(keys, payloads)
            missing = (~hits).nonzero()[0]
            answer = self._store.offer(keys[missing], [payloads[i] for i in missing.tolist()])
        except BaseException:
            self._cache.clear()
            raise
        return Answer(missing[answer.new], missing[answer.waiting])

    def mark(self, keys: Keys) -> None:
        self._store.mark(keys)

    def merge(self) -> list[tuple[int, bytes]]:
        return self._store.merge()

    @property
    def waiting(self) -> int:
        return self._store.waiting

    def __len__(self) -> int:
        return len(self._store)

    @property
    def nbytes(self) -> int:
        return self._cache.nbytes + self._store.nbytes + self._flags.nbytes

    @property
    def due(self) -> bool:
        return self._store.due

    def plan(self) -> Merge | None:
        return self._store.plan()

    def apply(self, merge: Merge) -> list[tuple[int, bytes]]:
        return self._store.apply(merge)

    def abandon(self, merge: Merge) -> None:
        self._store.abandon(merge)

    def freeze(self) -> Iterator[bytes]:
        return self._store.freeze()

    def files(self) -> list[str]:
        return self._store.files()

    def settle(self) -> None:
        self._store.settle()

    def keep(self, named: Collection[str]) -> list[str]:
        return self._store.keep(named)

    def thaw(self, pieces: Iterable[bytes]) -> None:
        self._cache.clear()
        self._store.thaw(pieces)
