"""Kernels that write the packed frontier to a snapshot and read it back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lycosa.frontier.host_kernels import find_or_add, is_active, settle_host, touch
from lycosa.frontier.queue_kernels import new_block
from lycosa.frontier.store import ACTIVE, BLOCK, FIXED, FREE, GROUP, PER_QUEUE, QUEUED, SIDE
from lycosa.frontier.visit_kernels import queue_of


@njit(cache=True, nogil=True)
def emit(s: Any, state: Any, words: Any, out: Any, now: Any) -> Any:
    """Fill `words` and `out` with as much of the cut as fits; how many of each, (0, 0) at its end.

    `state` says how far the freeze has come: [0] the next slot to look at, [1] slots at the cut, [2] the
    next word of `side`, [3] the descriptor of the queue being written (-1: none), [4] queues left of its
    host, [5] block, [6] offset.
    """
    w = np.int64(0)
    n = np.int64(0)
    while w + 8 <= len(words):
        if state[3] >= 0:  # in the middle of a queue, at the cursor
            word = state[3]
            end_block, end_at = np.int64(s.side[word + 5]), np.int64(s.side[word + 6])
            start = n
            while n + BLOCK <= len(out):
                block, at = state[5], state[6]
                last = block == end_block
                stop = end_at if last else BLOCK
                for i in range(at, stop):
                    out[n] = s.arena[block * BLOCK + i]
                    n += 1
                if last:
                    state[3] = -1
                    break
                state[5] = s.links[block]
                state[6] = 0
            words[w] = 2
            words[w + 1] = n - start
            w += 2
            if state[3] >= 0:
                break  # `out` is full
        elif state[4] > 0:  # the next queue of the host
            word = state[2]
            words[w] = 1
            words[w + 1] = s.side[word]
            words[w + 2] = s.side[word + 1]
            words[w + 3] = s.side[word + 2]
            w += 4
            state[3] = word
            state[5] = np.int64(s.side[word + 3])
            state[6] = np.int64(s.side[word + 4])
            state[4] -= 1
            state[2] += PER_QUEUE
        elif state[2] < s.c[SIDE]:  # the next host that has its descriptor
            word = state[2]
            length = np.int64(s.side[word + 3])
            if n + length > len(out):
                break
            at = np.int64(s.side[word + 2])
            for i in range(length):
                out[n] = s.names[at + i]
                n += 1
            words[w] = 0
            words[w + 1] = max(s.side[word] - now, 0.0)
            words[w + 2] = s.side[word + 1]
            words[w + 3] = length
            w += 4
            state[4] = np.int64(s.side[word + 4])
            state[2] += FIXED
        else:
            state[2] = 0
            s.c[SIDE] = 0
            while state[0] < state[1]:
                slot = state[0]
                state[0] += 1
                if s.hosts[slot].where != FREE:
                    touch(s, slot)
                    if s.c[SIDE]:
                        break
            if s.c[SIDE] == 0:
                break
    return w, n


@njit(cache=True, nogil=True)
def load(s: Any, words: Any, data: Any, state: Any, now: Any) -> Any:
    """Add what `emit` wrote. `state`: [0] the host, [1] the queue being read. 0 if it is not sound.

    Hosts are left NOWHERE with their old places.
    """
    w = np.int64(0)
    n = np.int64(0)
    while w < len(words):
        kind = words[w]
        if kind == 0 and w + 4 <= len(words):
            length = np.int64(words[w + 3])
            if length < 0 or n + length > len(data) or length > 65535:
                return 0
            slot = find_or_add(s, data, n, n + length)
            s.hosts[slot].ready = now + words[w + 1]
            s.hosts[slot].place = np.int64(words[w + 2])
            n += length
            state[0], state[1] = slot, -1
            w += 4
        elif kind == 1 and w + 4 <= len(words):
            if (
                state[0] < 0
                or not (0 <= words[w + 1] < 256)
                or words[w + 2] < 1
                or not (0 <= words[w + 3] < GROUP)
            ):
                return 0
            q = queue_of(s, state[0], np.int64(words[w + 1]))
            s.queues[q].count = np.int64(words[w + 2])
            s.queues[q].skip = np.int64(words[w + 3])
            s.queues[q].tail_count = GROUP  # the next entry starts a group
            if not is_active(s, state[0]):
                s.c[ACTIVE] += 1
            s.hosts[state[0]].queued += s.queues[q].count
            s.c[QUEUED] += np.int64(s.queues[q].count)
            state[1] = q
            w += 4
        elif kind == 2 and w + 2 <= len(words):
            length = np.int64(words[w + 1])
            if state[1] < 0 or length < 0 or n + length > len(data):
                return 0
            q = state[1]
            block, at = np.int64(s.queues[q].end_block), np.int64(s.queues[q].end_at)
            for i in range(length):
                if at == BLOCK:
                    fresh = new_block(s)
                    s.links[block] = fresh
                    block, at = np.int64(fresh), np.int64(0)
                s.arena[block * BLOCK + at] = data[n + i]
                at += 1
            s.queues[q].end_block = block
            s.queues[q].end_at = at
            n += length
            w += 2
        else:
            return 0
    return 1 if n == len(data) else 0


@njit(cache=True, nogil=True)
def settle_all(s: Any, order: Any, now: Any) -> None:
    """Give the hosts of a thawed frontier their places, in that order."""
    for i in range(len(order)):
        settle_host(s, now, np.int64(order[i]))
