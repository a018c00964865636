"""Kernels of ranks: lists of links as node numbers, and sums of shares by key.

The plain forms are `lycosa.crawl.rank_fold.lists_plain` and `lycosa.frontier.orders.shares.PlainShares`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.url.key_kernels import mix


@njit(cache=True, nogil=True)
def place_of(keys: Any, key: Any) -> int:
    """The first place of ascending `keys` whose key is not below `key`."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def fill_lists(keys: Any, targets: Any, counts: Any, places: Any, nodes: Any, group: int, done: int) -> Any:
    """Write the node numbers of a chunk of targets to their lists' places in `nodes`.

    List g has counts[g] targets and begins at places[g]; -1: it is not wanted. The chunk begins with target
    `done` of list `group`; returns these two numbers for the next chunk.
    """
    for target in targets:
        while done == counts[group]:
            group += 1
            done = 0
        if places[group] >= 0:
            nodes[places[group] + done] = place_of(keys, target)
        done += 1
    return group, done


@njit(cache=True, nogil=True)
def count_runs(ordered: Any, source: Any, rows: Any) -> int:
    """Write a row (source, name, length) for each run of equal names; returns how many."""
    found = 0
    for i in range(len(ordered)):
        if i == 0 or ordered[i] != ordered[i - 1]:
            rows[found]["from"] = source
            rows[found]["to"] = ordered[i]
            rows[found]["times"] = 1
            found += 1
        else:
            rows[found - 1]["times"] += 1
    return found


@njit(cache=True, nogil=True)
def repeat(nodes: Any, times: Any, out: Any) -> None:
    """As `numpy.repeat`, which would not release the interpreter's lock."""
    at = 0
    for i in range(len(nodes)):
        for _ in range(times[i]):
            out[at] = nodes[i]
            at += 1


@njit(cache=True, nogil=True)
def _slot(slot_keys: Any, sums: Any, key: Any) -> Any:
    """Where the key is, or where it would be. A sum of 0 marks a free slot: shares are above 0."""
    mask = len(slot_keys) - 1
    slot = np.int64(mix(key)) & mask
    while sums[slot] > 0 and slot_keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True)
def add_share(slot_keys: Any, sums: Any, ranked: Any, keys: Any, share: float, held: int, most: int) -> Any:
    """Add `share` to each key that is not in `ranked`; at most `most` keys are held.

    Returns how many keys are held now, and how many were refused.
    """
    refused = 0
    for key in keys:
        at = place_of(ranked, key)
        if at < len(ranked) and ranked[at] == key:
            continue
        slot = _slot(slot_keys, sums, key)
        if sums[slot] == 0:
            if held >= most:
                refused += 1
                continue
            slot_keys[slot] = key
            held += 1
        sums[slot] += share
    return held, refused


@njit(cache=True, nogil=True)
def read_sums(slot_keys: Any, sums: Any, keys: Any, out: Any) -> None:
    """The sum of each key, 0 for one that is not held."""
    for i in range(len(keys)):
        out[i] = sums[_slot(slot_keys, sums, keys[i])]
