"""The memory of the packed frontier: flat arrays, which kernels read and change in place.

    hosts   a row per host                       queues  a row per host and level
    heads   the table of hosts, by bucket        names   the names of hosts
    front, time, ready, idle                     heaps of hosts (`heap_kernels.py`)
    arena   blocks of packed URLs                links   the block after each block
    side    descriptors of hosts, for a freeze   limbo   blocks to be freed when it is over
    texts   the texts of one group, decoded, and behind them the one being appended; `spans` says where

Kernels are passed one array of int64, `c`, whose fields have names (`StoreFields`, `FIELDS`): numbers, and for each
array its address and its length. (Passing all the arrays costs ten times as much as a typical kernel, and passing
them on to another kernel costs as much as decoding a URL.) `view_kernels.py` turns addresses into arrays again.
`checking.py` states and checks the invariants.

Arrays grow in place (`ndarray.resize` is a `realloc`, which moves pages and not bytes), by a sixteenth, at most
16 MiB at once: neither time nor memory jumps. Only `Store` resizes them, and it updates `c`; a view of a resized
array would be freed memory, so none may be kept. Room is made before a kernel needs it: either in advance
(`Store.reserve_hosts`), or the kernel stops where there is none and is called again (`Store.make_room`).

Each heap has room for every host, so a host changes heaps without needing more room.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lycosa.frontier.fields import Fields
from lycosa.frontier.orders.order import LEVELS

BLOCK = 64
GROUP = 16
META = 16
TAIL = 32
WINDOW = 2048
"""The most bytes that the texts of a group have together, unless it is a single text."""

QUEUE = np.dtype(
    [
        ("next", np.int32),  # the host's queue of the next higher level; or the next free row
        ("count", np.int32),
        ("head_block", np.int32),  # where the group of the first entry starts
        ("tail_block", np.int32),  # where the group of the last entry starts
        ("end_block", np.int32),  # where the next entry goes
        ("head_at", np.uint8),
        ("tail_at", np.uint8),
        ("end_at", np.uint8),
        ("skip", np.uint8),  # entries of the first group that were taken already
        ("tail_count", np.uint8),  # entries of the last group; GROUP: the next one starts another
        ("level", np.uint8),
    ],
    align=True,
)

HOST = np.dtype(
    [
        ("ready", np.float64),
        ("place", np.int64),
        ("rank", np.float64),  # from the order; up to date for every host that waits
        ("name", np.uint32),  # where in `names` its name starts
        ("hash", np.uint32),
        ("chain", np.int32),  # the next host of the bucket; or the next free slot
        ("queue", np.int32),  # its queue of the lowest level, -1 if it has none
        ("queued", np.int32),
        ("pos", np.int32),  # its index in its heap
        ("epoch", np.uint32),  # the last freeze that has its descriptor
        ("back", np.int32),  # URLs put back: they wait outside the queues
        ("length", np.uint16),  # of its name
        ("back_level", np.uint8),  # the lowest level of the URLs put back
        ("flying", np.uint8),  # whether URLs are in flight
        ("where", np.uint8),
        ("tier", np.uint8),  # its class
        ("playing", np.uint8),  # whether it is in play
    ],
    align=True,
)

# Where a host is: in one of four heaps, or ... (Numba compiles a kernel anew for every literal it is called with;
# for numbers of NumPy it does not.)
FRONT, TIME, READY, IDLE = np.int64(0), np.int64(1), np.int64(2), np.int64(3)
NOWHERE, BEGUN, FREE = 4, 5, 6
NO, YES = np.int64(0), np.int64(1)


class StoreFields(Fields):
    """The numbers of a store, in their order in `c`."""

    in_front: int  # hosts in each heap; kernels have the four as `heaps`, by the number of the heap
    in_time: int
    in_ready: int
    in_idle: int
    blocks: int  # blocks ever used
    free_block: int  # head of the chain of free ones, -1 if none
    free_blocks: int
    queues: int  # rows ever used
    free_queue: int
    free_queues: int
    slots: int  # slots of hosts ever used
    free_host: int
    live: int  # slots in use
    active: int  # hosts with URLs, those in flight included
    playing: int  # hosts in play
    back_queues: int  # 0: every host with URLs is in play
    ranking: int  # how hosts rank
    queued: int  # URLs in queues
    buckets: int  # of the host table
    places: int
    name_bytes: int
    garbage: int  # bytes of names of hosts that are gone
    epoch: int  # number of the freeze under way or last done
    frozen: int  # 1 while one is under way
    side_words: int  # words of descriptors written
    limbo_pairs: int  # pairs of blocks that are free when the freeze is over
    longest: int  # bytes of the longest URL so far
    moving: int  # the host whose URLs are being given levels anew, -1 if none
    moving_queue: int  # its first queue that is not done
    seed: int  # of the hashes


ARRAYS: list[tuple[str, Any, int]] = [  # name, type, elements by which it grows at least
    ("hosts", HOST, 8),
    ("queues", QUEUE, 16),
    ("heads", np.int32, 8),
    ("names", np.uint8, 256),
    ("front", np.int32, 8),
    ("time", np.int32, 8),
    ("ready", np.int32, 8),
    ("idle", np.int32, 8),
    ("arena", np.uint8, 16 * BLOCK),
    ("links", np.int32, 16),
    ("side", np.float64, 64),
    ("limbo", np.int32, 32),
    ("texts", np.uint8, 1),
    ("spans", np.int64, 1),
]
HEAPS = ("front", "time", "ready", "idle")
FIELDS = np.dtype(
    [("heaps", np.int64, len(HEAPS))]
    + [(name, np.int64) for name in StoreFields.NAMES[len(HEAPS) :]]
    + [(f"{name}_{what}", np.int64) for name, _, _ in ARRAYS for what in ("at", "length")]
)
"""The fields of `c`: the numbers, then the address and the length of each array."""
SPANS = 2 * GROUP + 3
"""Elements of `spans`: where each text of the group starts, how long it is, and depth, hops and attempt of
the entry decoded last."""

# Words of a descriptor: of the host, then of each of its queues.
D_READY, D_PLACE, D_NAME, D_LENGTH, D_TIER, D_QUEUES, FIXED = range(7)
Q_LEVEL, Q_COUNT, Q_SKIP, Q_HEAD_BLOCK, Q_HEAD_AT, Q_END_BLOCK, Q_END_AT, PER_QUEUE = range(8)

NUMBERS = 40
"""The most bytes that an entry has besides its text."""
_AT_ONCE = 16 << 20
_PER_HOST = HOST.itemsize + 4 * (1 + len(HEAPS))


class Store:
    """The arrays, and `c`, through which kernels reach them."""

    def __init__(self, seed: int, ranking: int, back_queues: int) -> None:
        """`seed`: that of the hashes."""
        self.c = np.zeros(FIELDS.itemsize // 8, np.int64)
        self.fields = StoreFields(self.c)
        self._arrays: dict[str, NDArray[Any]] = {name: np.zeros(0, kind) for name, kind, _ in ARRAYS}
        self._number = {name: len(StoreFields.NAMES) + 2 * n for n, (name, _, _) in enumerate(ARRAYS)}
        self._step = {name: step for name, _, step in ARRAYS}
        f = self.fields
        f.free_block = f.free_queue = f.free_host = f.moving = f.moving_queue = -1
        f.buckets, f.ranking, f.back_queues = 1, ranking, back_queues
        f.seed = int(np.uint64(seed & (1 << 64) - 1).astype(np.int64))
        for name in self._number:
            self.resize(name, 0)
        self.resize("heads", 1)
        self._arrays["heads"][0] = -1
        self.resize("texts", WINDOW)
        self.resize("spans", SPANS)

    @property
    def hosts(self) -> NDArray[Any]:
        """The rows of hosts. The view must not be kept: see the module's docstring."""
        return self._arrays["hosts"]

    @property
    def longest(self) -> int:
        """Bytes of the longest URL so far."""
        return self.fields.longest

    def array(self, name: str) -> NDArray[Any]:
        """An array, by its name in `ARRAYS`. The view must not be kept."""
        return self._arrays[name]

    def rows(self) -> NDArray[Any]:
        """The rows of hosts up to the last that was ever used."""
        return self.hosts[: self.fields.slots]

    def name(self, slot: int) -> NDArray[np.uint8]:
        """The name of a host. The view must not be kept."""
        row = self.hosts[slot]
        at = int(row["name"])
        return self._arrays["names"][at : at + int(row["length"])]

    def length(self, name: str) -> int:
        """Elements that an array has."""
        return int(self.c[self._number[name] + 1])

    def resize(self, name: str, elements: int) -> None:
        """Give an array that many elements."""
        array = self._arrays[name]
        array.resize(elements, refcheck=False)
        self.c[self._number[name]] = array.ctypes.data
        self.c[self._number[name] + 1] = elements

    def grow(self, name: str, need: int) -> None:
        """Make room for `need` elements at least."""
        have = self.length(name)
        if need > have:
            step = min(max(have >> 4, self._step[name]), _AT_ONCE // self._arrays[name].itemsize)
            self.resize(name, max(need, have + step))

    def make_ready(self, size: int) -> None:
        """Make the buffers long enough to decode URLs of that length."""
        if size > self.fields.longest:
            self.fields.longest = size
            self.resize("texts", max(WINDOW, size) + size)

    def make_room(self, text: int, name: int) -> None:
        """Make room for one more URL of that length, even on a new host and level.

        `queue_kernels.has_room` checks the same numbers.
        """
        f = self.fields
        self.reserve_hosts(1, name)
        self.grow("queues", f.queues - f.free_queues + 1)
        blocks = f.blocks - f.free_blocks + (text + NUMBERS) // BLOCK + 2
        if blocks > self.length("links"):
            self.grow("arena", blocks * BLOCK)
            self.resize("links", self.length("arena") // BLOCK)
        if f.frozen:
            self.reserve_freeze(2)  # twice the worst case, so that the kernel does not stop at every host

    def reserve_hosts(self, hosts: int, names: int) -> None:
        """Make room for so many more hosts, with so many bytes of names."""
        f = self.fields
        if f.live + hosts > self.length("hosts"):
            self.grow("hosts", f.live + hosts)
            for heap in HEAPS:
                self.resize(heap, self.length("hosts"))
            self.resize("heads", self.length("hosts") + 1)  # one bucket per host, and the first one
        self.grow("names", f.name_bytes + names)

    def reserve_freeze(self, hosts: int) -> None:
        """Make room for a freeze when so many hosts with queues, and ten without, are touched."""
        f = self.fields
        queues = min(f.queues, LEVELS)
        self.grow("side", f.side_words + hosts * PER_QUEUE * queues + (hosts + 10) * FIXED)
        self.grow("limbo", 2 * (f.limbo_pairs + queues + 1))

    def end_freeze(self) -> None:
        """Free the memory that a freeze needed."""
        self.resize("side", 0)
        self.resize("limbo", 0)

    def replace_names(self, fresh: NDArray[np.uint8]) -> None:
        """Replace the array of names."""
        self._arrays["names"] = fresh
        self.resize("names", len(fresh))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values()) + self.c.nbytes

    @property
    def used(self) -> int:
        """Bytes in use: rows, blocks and names that are not free, and the fixed part."""
        f = self.fields
        used = f.live * _PER_HOST + f.name_bytes - f.garbage + (f.queues - f.free_queues) * QUEUE.itemsize
        used += (f.blocks - f.free_blocks) * (BLOCK + 4) + 8 * (f.side_words + f.limbo_pairs)
        return used + self.length("texts") + 8 * (SPANS + len(self.c))
