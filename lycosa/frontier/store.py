"""The memory of the packed frontier: flat arrays, which kernels read and change in place.

    hosts   a row per host                       queues  a row per host and level
    heads   the table of hosts, by bucket        names   the names of hosts
    heap    hosts that have URLs, by time        idle    hosts that have only a time; either may have all
    arena   blocks of packed URLs                links   the block after each block
    side    descriptors of hosts, for a freeze   limbo   blocks to be freed when it is over
    texts   the texts of one group, decoded, and of the URL being appended; `lens` are their lengths
    slots   the host of each URL of the last `put`

Arrays grow in place (`ndarray.resize` is a `realloc`, which moves pages and not bytes), by an eighth, at most
16 MiB at once: neither time nor memory jumps. Whoever holds a view of one would hold freed memory then, so
nobody does: everything goes through the `Store`, and `reserve` is called before the kernels, never by them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lycosa.frontier.orders import LEVELS

BATCH = 256
"""URLs that one call of the `put` kernel takes at most."""
BLOCK = 128
GROUP = 16
META = 16
TAIL = 32

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
        ("skip", np.uint8),  # entries of the first group that were taken
        ("tail_count", np.uint8),  # entries of the last group
        ("level", np.uint8),
    ],
    align=True,
)

# Counters, by index into one array of int64: kernels change them in place.
(
    BLOCKS,  # blocks ever used
    FREE_BLOCK,  # head of the chain of free ones, -1 if none
    FREE_BLOCKS,
    QUEUES,  # rows ever used
    FREE_QUEUE,
    HOSTS,  # slots ever used
    FREE_HOST,
    LIVE,  # slots in use
    ACTIVE,  # hosts with URLs, those in flight included
    QUEUED,  # URLs in queues
    BUCKETS,  # of the host table
    HEAP,
    IDLE,
    PLACES,
    NAMES,  # bytes of names
    GARBAGE,  # bytes of names of hosts that are gone
    EPOCH,  # number of the freeze under way or last done
    FROZEN,  # 1 while one is under way
    SIDE,  # words of descriptors written
    LIMBO,  # pairs of blocks that are free when the freeze is over
    DEPTH,  # of the entry decoded last
    HOPS,
    ATTEMPT,
    STRIDE,  # bytes kept for a text in `texts`
    COUNTERS,
) = range(25)

NOWHERE, IN_HEAP, IS_IDLE, BEGUN, RANKED, FREE = range(6)

HOST = np.dtype(
    [
        ("ready", np.float64),
        ("place", np.int64),
        ("name", np.uint32),  # where in `names` its name starts
        ("hash", np.uint32),
        ("chain", np.int32),  # the next host of the bucket; or the next free slot
        ("queue", np.int32),  # its queue of the lowest level, -1 if it has none
        ("queued", np.int32),
        ("pos", np.int32),  # its index in `heap` or `idle`
        ("epoch", np.uint32),  # the last freeze that has its descriptor
        ("length", np.uint16),  # of its name
        ("front", np.uint16),  # whether URLs put back wait outside the queues
        ("flying", np.uint8),  # whether URLs are in flight
        ("where", np.uint8),
    ],
    align=True,
)

FIXED = 5
PER_QUEUE = 7
"""Words of a descriptor: ready, place, name, length, number of queues; then for each of these level, count,
skip, and the cursors of its head and its end."""


class Store(NamedTuple):
    """All arrays; the module's docstring says what each is. As a tuple, kernels can be given it."""

    hosts: NDArray[Any]
    queues: NDArray[Any]
    heads: NDArray[np.int32]
    names: NDArray[np.uint8]
    heap: NDArray[np.int32]
    idle: NDArray[np.int32]
    arena: NDArray[np.uint8]
    links: NDArray[np.int32]
    side: NDArray[np.float64]
    limbo: NDArray[np.int32]
    texts: NDArray[np.uint8]
    lens: NDArray[np.int64]
    slots: NDArray[np.int64]
    seed: NDArray[np.uint64]
    c: NDArray[np.int64]


def new_store(seed: int) -> Store:
    """An empty store; `seed` keys the hashes."""
    c = np.zeros(COUNTERS, np.int64)
    c[[FREE_BLOCK, FREE_QUEUE, FREE_HOST]] = -1
    c[BUCKETS] = 1
    heads = np.full(1, -1, np.int32)
    return Store(
        hosts=np.zeros(0, HOST),
        queues=np.zeros(0, QUEUE),
        heads=heads,
        names=np.zeros(0, np.uint8),
        heap=np.zeros(0, np.int32),
        idle=np.zeros(0, np.int32),
        arena=np.zeros(0, np.uint8),
        links=np.zeros(0, np.int32),
        side=np.zeros(0, np.float64),
        limbo=np.zeros(0, np.int32),
        texts=np.zeros(0, np.uint8),
        lens=np.zeros(GROUP, np.int64),
        slots=np.zeros(BATCH, np.int64),
        seed=np.array([seed & (1 << 64) - 1], np.uint64),
        c=c,
    )


def grow(array: NDArray[Any], need: int) -> None:
    """Make room for `need` elements at least."""
    have = len(array)
    if need > have:
        step = min(max(have // 8, 64), (16 << 20) // array.itemsize)
        array.resize(max(need, have + step), refcheck=False)


def reserve(s: Store, urls: int, size: int, longest: int) -> None:
    """Room for `urls` more URLs of `size` bytes in all, each on a host and level of its own at worst."""
    c = s.c
    if longest > c[STRIDE]:
        c[STRIDE] = longest
        grow(s.texts, (GROUP + 1) * longest)
    # At worst 20 bytes of numbers around the text of each, and a block that is just begun.
    blocks = (size + 20 * urls) // BLOCK + 2 * urls + 1 - int(c[FREE_BLOCKS])
    if blocks > 0:
        grow(s.links, int(c[BLOCKS]) + blocks)
        grow(s.arena, (int(c[BLOCKS]) + blocks) * BLOCK)
    hosts = int(c[HOSTS]) + urls
    grow(s.hosts, hosts)
    grow(s.heap, hosts)
    grow(s.idle, hosts)
    grow(s.heads, int(c[BUCKETS]) + urls)
    grow(s.names, int(c[NAMES]) + size)
    grow(s.queues, int(c[QUEUES]) + urls)
    if c[FROZEN]:
        reserve_freeze(s, urls)


def reserve_freeze(s: Store, hosts: int) -> None:
    """Room for what a freeze needs when so many hosts are touched."""
    grow(s.side, int(s.c[SIDE]) + hosts * (FIXED + PER_QUEUE * LEVELS))
    grow(s.limbo, 2 * (int(s.c[LIMBO]) + LEVELS))
