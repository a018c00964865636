"""The invariants of a packed frontier between two of its operations; see `lycosa.frontier.checking`.

- hosts: every slot is in the list of its bucket, or free; names lie within `names` and do not overlap;
- heaps: a host is in the heap and at the place that its row says, and is not better than its parent; hosts in
  TIME have a time in the future, those in FRONT and READY do not;
- queues: every row is in the list of its host, by level, or is set aside while it gets new levels, or is free;
- blocks: every block is in the chain of one queue, or in limbo, or free; a chain ends where its queue ends, and its
  bytes are as many entries as the queue says;
- numbers: those of the store are the sums over the rows, and those of a row agree with its lists and the URLs
  outside the queues.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lycosa.frontier.checking import demand, lists
from lycosa.frontier.orders.order import LEVELS
from lycosa.frontier.packed import freeze_kernels
from lycosa.frontier.packed.queues import PackedQueues
from lycosa.frontier.packed.store import BEGUN, FREE, FRONT, GROUP, HEAPS, IDLE, NOWHERE, READY, TIME

_NUMBERS = {FRONT: ("tier", "rank", "place"), READY: ("tier", "rank", "ready", "place")}
"""The fields by which a heap is ordered; the other heaps: (ready, place)."""


def check(queues: PackedQueues, begun: Collection[int]) -> None:
    """Raise `BrokenError` if an invariant does not hold; `begun` are the slots whose visits are under way."""
    hosts = queues.store.rows()
    live = hosts["where"] != FREE
    _table(queues, hosts, live)
    _heaps(queues, hosts, live, begun)
    _queues(queues, hosts, live)
    _blocks(queues)
    _outside(queues, hosts, live)


def _table(queues: PackedQueues, hosts: NDArray[Any], live: NDArray[np.bool_]) -> None:
    f, heads = queues.fields, queues.store.array("heads")[: queues.fields.buckets]
    demand(f.live == live.sum(), "the number of hosts is that of the slots in use")
    found = lists("hosts", [*heads, f.free_host], hosts["chain"])
    size = 1 << (f.buckets - 1).bit_length()
    bucket = hosts["hash"].astype(np.int64) & (size - 1)
    bucket = np.where(bucket < f.buckets, bucket, bucket & ((size >> 1) - 1))
    ends = np.full(f.buckets, -1)
    ends[heads >= 0] = found.last[heads[heads >= 0]]
    demand(ends[bucket[live]] == found.last[live], "hosts: each is in the list of its bucket")
    if f.free_host >= 0:
        demand(not live[found.last == found.last[f.free_host]].any(), "hosts: none that is free is in use")
    names = np.sort(hosts[live], order="name")
    stops = names["name"].astype(np.int64) + names["length"]
    demand(stops <= np.append(names["name"][1:], f.name_bytes), "names of hosts lie apart, within the array")
    demand(
        names["length"].sum() == f.name_bytes - f.garbage, "the bytes of names are those in use and garbage"
    )


def _heaps(
    queues: PackedQueues, hosts: NDArray[Any], live: NDArray[np.bool_], begun: Collection[int]
) -> None:
    f = queues.fields
    sizes = (f.in_front, f.in_time, f.in_ready, f.in_idle)
    for which, (name, size) in enumerate(zip(HEAPS, sizes, strict=True)):
        heap = queues.store.array(name)[:size]
        demand((heap >= 0) & (heap < len(hosts)), f"heap {name}: its slots are hosts")
        demand(size == (hosts["where"] == which).sum(), f"heap {name}: it has as many as say they are in it")
        rows = hosts[heap]
        demand(rows["where"] == which, f"heap {name}: its hosts say that they are in it", heap)
        demand(rows["pos"] == np.arange(size), f"heap {name}: its hosts know their places", heap)
        child, parent = rows[1:], rows[(np.arange(1, size) - 1) >> 1]
        tied = np.ones(max(size - 1, 0), bool)
        for number in _NUMBERS.get(np.int64(which), ("ready", "place")):
            demand(~tied | (parent[number] <= child[number]), f"heap {name}: no host is before its parent")
            tied &= parent[number] == child[number]
    where, waits = hosts["where"], hosts["ready"] > queues.now
    has = (hosts["queued"] > 0) | (hosts["back"] > 0)
    playing = hosts["playing"] > 0
    for heap_of, what in ((FRONT, "front"), (READY, "ready")):
        demand(~waits[where == heap_of], f"heap {what}: the time of its hosts has come")
    demand(waits[where == TIME], "heap time: the time of its hosts has not come")
    demand(has[where <= READY], "a host that waits for a visit has URLs")
    demand(~has[where == IDLE] & (hosts["flying"][where == IDLE] == 0), "heap idle: its hosts have no URLs")
    demand(~playing[where == FRONT], "heap front: its hosts are not in play")
    demand(playing[where == READY], "heap ready: its hosts are in play")
    demand(f.playing == playing[live].sum(), "the number of hosts in play is that of the rows")
    demand(set(np.flatnonzero(where == BEGUN).tolist()) == set(begun), "the hosts begun are those visited")
    nowhere = where == NOWHERE
    demand(hosts["flying"][nowhere] > 0, "a host that is nowhere has URLs in flight", np.flatnonzero(nowhere))
    active = has | (hosts["flying"] > 0)
    demand(f.active == active[live].sum(), "the number of hosts with URLs is that of the rows")


def _queues(queues: PackedQueues, hosts: NDArray[Any], live: NDArray[np.bool_]) -> None:
    f, rows = queues.fields, queues.store.array("queues")[: queues.fields.queues]
    slots = np.flatnonzero(live)
    firsts = hosts["queue"][slots].astype(np.int64)
    found = lists("queues", [*firsts, f.moving_queue, f.free_queue], rows["next"])
    free = np.zeros(len(rows), bool)
    if f.free_queue >= 0:
        free = found.last == found.last[f.free_queue]
    demand(f.free_queues == free.sum(), "queues: as many are free as the number says")
    demand(free | (rows["count"] > 0), "queues: none is empty")
    linked = ~free & (rows["next"] >= 0)
    demand(rows["level"][rows["next"][linked]] > rows["level"][linked], "queues: a host's are by level")
    sums = np.zeros(len(hosts), np.int64)
    for owners, at in ((slots, firsts), (np.array([f.moving]), np.array([f.moving_queue]))):
        for _ in range(LEVELS):
            owners, at = owners[at >= 0], at[at >= 0]
            if not len(at):
                break
            np.add.at(sums, owners, rows["count"][at])
            at = rows["next"][at].astype(np.int64)
    demand(hosts["queued"][live] == sums[live], "a host has as many URLs as its queues", slots)
    demand(f.queued == sums.sum(), "the number of URLs in queues is that of the hosts")


def _blocks(queues: PackedQueues) -> None:
    f = queues.fields
    rows = queues.store.array("queues")[: f.queues]
    used = np.ones(len(rows), bool)
    at = f.free_queue
    while at >= 0:
        used[at] = False
        at = int(rows["next"][at])
    links = queues.store.array("links")[: f.blocks].astype(np.int64)
    limbo = queues.store.array("limbo")[: 2 * f.limbo_pairs].astype(np.int64)
    demand((limbo >= 0) & (limbo < f.blocks), "blocks: those in limbo are within the arrays")
    links[limbo[1::2]] = -1
    found = lists("blocks", [*rows["head_block"][used], f.free_block, *limbo[::2]], links)
    demand(
        found.last[rows["head_block"][used]] == rows["end_block"][used],
        "blocks: a chain ends where its queue does",
        np.flatnonzero(used),
    )
    demand(found.last[limbo[::2]] == limbo[1::2], "blocks: a chain in limbo ends where it should")
    free = 1 + int(found.after[f.free_block]) if f.free_block >= 0 else 0
    demand(f.free_blocks == free, "blocks: as many are free as the number says")
    open_tail = used & (rows["tail_count"] > 0) & (rows["tail_count"] < GROUP)
    demand(
        found.last[rows["tail_block"][open_tail]] == rows["end_block"][open_tail],
        "blocks: the last group of a queue is in its chain",
    )
    lens = np.zeros(GROUP, np.int64)
    for q in np.flatnonzero(used).tolist():
        demand(freeze_kernels.is_sound(queues.c, q, lens, f.longest), "a queue's bytes are its entries", q)


def _outside(queues: PackedQueues, hosts: NDArray[Any], live: NDArray[np.bool_]) -> None:
    outside = queues.outside
    back = np.zeros(len(hosts), np.int64)
    for slot in outside.back:
        demand(live[slot], "URLs put back are of hosts that are known", slot)
        _, back[slot], level = outside.of(slot)
        demand(hosts["back_level"][slot] == level, "a host knows the lowest level of URLs put back", slot)
    demand(hosts["back"][live] == back[live], "a host knows how many of its URLs were put back")
    slots = sorted({flown.slot for flown in outside.rows() if outside.is_flying(flown.slot)})
    demand(live[slots] & (hosts["flying"][slots] > 0), "a host knows that URLs of it are in flight", slots)
