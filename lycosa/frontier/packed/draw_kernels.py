"""Kernels of ranks and of random choices: the formulas of `orders/order.py`, computed in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.frontier.orders.order import Ranking
from lycosa.frontier.packed.view_kernels import fields_of, hosts_of, names_of, queues_of
from lycosa.url.key_kernels import mix, xxh64

_LENGTH, _LEVEL, _BIASED = int(Ranking.LENGTH), int(Ranking.LEVEL), int(Ranking.BIASED)
_ONE = 2.0**-53


@njit(cache=True, nogil=True)
def name_hash(c: Any, slot: Any) -> Any:
    """The XXH64 of a host's name, without a seed: draws are the same in every crawl."""
    hosts = hosts_of(c)
    names = names_of(c)
    at: Any = np.int64(hosts[slot].name)
    return xxh64(names, at, at + np.int64(hosts[slot].length), np.uint64(0))


@njit(cache=True, nogil=True)
def draw(host: Any, number: Any, level: Any) -> Any:
    """`order.draw`, for the hash of a host's name."""
    mixed = mix(host ^ np.uint64(number << 8 | level))
    u = np.float64(np.int64(mixed >> np.uint64(11)) + 1) * _ONE
    return -math.log(u) * np.float64((level + 1) ** 2)


@njit(cache=True, nogil=True)
def lowest_level(c: Any, slot: Any) -> Any:
    """The lowest level at which a host has URLs, in queues or put back; -1 if none."""
    hosts = hosts_of(c)
    queues = queues_of(c)
    level = np.int64(-1)
    if hosts[slot].back > 0:
        level = np.int64(hosts[slot].back_level)
    q = np.int64(hosts[slot].queue)
    if q >= 0 and (level < 0 or np.int64(queues[q].level) < level):
        level = np.int64(queues[q].level)
    return level


@njit(cache=True, nogil=True)
def rank_again(c: Any, slot: Any) -> Any:
    """Update the rank of a host, unless the order must be asked for it; returns whether it has changed."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    ranking = f.ranking
    before = hosts[slot].rank
    queued = np.int64(hosts[slot].queued) + np.int64(hosts[slot].back)
    if ranking == _LENGTH:
        hosts[slot].rank = -np.float64(queued)
    elif ranking == _LEVEL:
        hosts[slot].rank = np.float64(lowest_level(c, slot))
    elif ranking == _BIASED:
        hosts[slot].rank = draw(name_hash(c, slot), queued, lowest_level(c, slot))
    return hosts[slot].rank != before


@njit(cache=True, nogil=True)
def biased_queue(c: Any, slot: Any, number: Any) -> Any:
    """The queue that wins the race of a host's levels, and the host's queue before it; -1 if there is none."""
    hosts = hosts_of(c)
    queues = queues_of(c)
    host = name_hash(c, slot)
    best = best_before = before = np.int64(-1)
    least = np.inf
    q = np.int64(hosts[slot].queue)
    while q >= 0:
        time = draw(host, number, np.int64(queues[q].level))
        if time < least:
            best, best_before, least = q, before, time
        before = q
        q = np.int64(queues[q].next)
    return best, best_before
