"""Kernels that write the packed frontier to a snapshot and read it back."""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.frontier.packed.host_kernels import is_active, settle_host, touch
from lycosa.frontier.packed.queue_kernels import has_room, new_block, queue_of
from lycosa.frontier.packed.store import (
    BLOCK,
    D_LENGTH,
    D_NAME,
    D_PLACE,
    D_QUEUES,
    D_READY,
    D_TIER,
    FIXED,
    FREE,
    GROUP,
    META,
    NO,
    PER_QUEUE,
    Q_COUNT,
    Q_END_AT,
    Q_END_BLOCK,
    Q_HEAD_AT,
    Q_HEAD_BLOCK,
    Q_LEVEL,
    Q_SKIP,
    TAIL,
    WINDOW,
)
from lycosa.frontier.packed.table_kernels import find_or_add
from lycosa.frontier.packed.view_kernels import (
    arena_of,
    fields_of,
    hosts_of,
    links_of,
    names_of,
    queues_of,
    side_of,
)

UNSOUND, LOADED, NO_ROOM = range(3)
_PLACES = 2.0**53

# The state of `emit`: the next slot to look at, and the one to stop at; the next word of `side`; the
# descriptor of the queue being written (-1: none), queues left of its host, and the cursor in it.
NEXT_SLOT, LAST_SLOT, NEXT_WORD, WRITING, QUEUES_LEFT, AT_BLOCK, AT_BYTE, EMIT_STATES = range(8)

# The state of `load`: the host and the queue being read (-1: none); words and bytes that are done; bytes of URLs
# and of a name for which there must be room.
SLOT, ROW, WORDS, BYTES, NEED_TEXT, NEED_NAME, LOAD_STATES = range(7)


@njit(cache=True, nogil=True)
def emit(c: Any, state: Any, words: Any, out: Any, now: Any) -> Any:
    """Fill `words` and `out` with as much of the cut as fits; returns how many of each, (0, 0) at its end.

    `state` says how far the freeze has come.
    """
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    names = names_of(c)
    arena = arena_of(c)
    links = links_of(c)
    side = side_of(c)
    w = np.int64(0)
    n = np.int64(0)
    while w + 8 <= len(words):
        if state[WRITING] >= 0:  # in the middle of a queue, at the cursor
            word = state[WRITING]
            end_block, end_at = np.int64(side[word + Q_END_BLOCK]), np.int64(side[word + Q_END_AT])
            start = n
            while n + BLOCK <= len(out):
                block, at = state[AT_BLOCK], state[AT_BYTE]
                last = block == end_block
                stop = end_at if last else BLOCK
                for i in range(at, stop):
                    out[n] = arena[block * BLOCK + i]
                    n += 1
                if last:
                    state[WRITING] = -1
                    break
                state[AT_BLOCK] = links[block]
                state[AT_BYTE] = 0
            words[w] = 2
            words[w + 1] = n - start
            w += 2
            if state[WRITING] >= 0:
                break  # `out` is full
        elif state[QUEUES_LEFT] > 0:  # the next queue of the host
            word = state[NEXT_WORD]
            words[w] = 1
            words[w + 1] = side[word + Q_LEVEL]
            words[w + 2] = side[word + Q_COUNT]
            words[w + 3] = side[word + Q_SKIP]
            w += 4
            state[WRITING] = word
            state[AT_BLOCK] = np.int64(side[word + Q_HEAD_BLOCK])
            state[AT_BYTE] = np.int64(side[word + Q_HEAD_AT])
            state[QUEUES_LEFT] -= 1
            state[NEXT_WORD] += PER_QUEUE
        elif state[NEXT_WORD] < f.side_words:  # the next host that has its descriptor
            word = state[NEXT_WORD]
            length = np.int64(side[word + D_LENGTH])
            if n + length > len(out):
                break
            at = np.int64(side[word + D_NAME])
            for i in range(length):
                out[n] = names[at + i]
                n += 1
            words[w] = 0
            words[w + 1] = max(side[word + D_READY] - now, 0.0)
            words[w + 2] = side[word + D_PLACE]
            words[w + 3] = length
            words[w + 4] = side[word + D_TIER]
            w += 5
            state[QUEUES_LEFT] = np.int64(side[word + D_QUEUES])
            state[NEXT_WORD] += FIXED
        else:
            state[NEXT_WORD] = 0
            f.side_words = 0
            while state[NEXT_SLOT] < state[LAST_SLOT]:
                slot = state[NEXT_SLOT]
                state[NEXT_SLOT] += 1
                if hosts[slot].where != FREE:
                    touch(c, slot)
                    if f.side_words:
                        break
            if f.side_words == 0:
                break
    return w, n


@njit(cache=True, nogil=True)
def load(c: Any, words: Any, data: Any, state: Any, now: Any) -> Any:
    """Add what `emit` wrote; returns LOADED, UNSOUND, or NO_ROOM: then make room and call again.

    `state` says how far it has come. Hosts are left NOWHERE, with their old places.
    """
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    queues = queues_of(c)
    arena = arena_of(c)
    links = links_of(c)
    while state[WORDS] < len(words):
        w, n = state[WORDS], state[BYTES]
        kind = words[w]
        if kind == 0 and w + 5 <= len(words):
            length = np.int64(words[w + 3])
            if length < 0 or n + length > len(data) or length > 65535 or not (0 <= words[w + 4] < 256):
                return UNSOUND
            if not (0 <= words[w + 1] < np.inf and -1 <= words[w + 2] < _PLACES):
                return UNSOUND
            for i in range(n, n + length):
                if data[i] > 127:
                    return UNSOUND
            state[NEED_TEXT], state[NEED_NAME] = 0, length
            if not has_room(c, NO, length):
                return NO_ROOM
            slot = find_or_add(c, data, n, n + length)
            if hosts[slot].queue >= 0:
                return UNSOUND  # it was there already
            hosts[slot].ready = now + words[w + 1]
            hosts[slot].place = np.int64(words[w + 2])
            hosts[slot].tier = np.int64(words[w + 4])
            state[SLOT], state[ROW] = slot, -1
            state[WORDS], state[BYTES] = w + 5, n + length
        elif kind == 1 and w + 4 <= len(words):
            if (
                state[SLOT] < 0
                or not (0 <= words[w + 1] < 256)
                or not (1 <= words[w + 2] < 1 << 31)
                or not (0 <= words[w + 3] < GROUP)
            ):
                return UNSOUND
            state[NEED_TEXT], state[NEED_NAME] = 0, 0
            if not has_room(c, NO, NO):
                return NO_ROOM
            q = queue_of(c, state[SLOT], np.int64(words[w + 1]))
            if queues[q].count:
                return UNSOUND  # the host has it already
            queues[q].count = np.int64(words[w + 2])
            queues[q].skip = np.int64(words[w + 3])
            queues[q].tail_count = GROUP  # the next entry starts a group
            if not is_active(c, state[SLOT]):
                f.active += 1
            hosts[state[SLOT]].queued += queues[q].count
            f.queued += np.int64(queues[q].count)
            state[ROW] = q
            state[WORDS] = w + 4
        elif kind == 2 and w + 2 <= len(words):
            length = np.int64(words[w + 1])
            if state[ROW] < 0 or length < 0 or n + length > len(data):
                return UNSOUND
            state[NEED_TEXT], state[NEED_NAME] = length, 0
            if not has_room(c, length, NO):
                return NO_ROOM
            q = state[ROW]
            block, at = np.int64(queues[q].end_block), np.int64(queues[q].end_at)
            for i in range(length):
                if at == BLOCK:
                    fresh = new_block(c)
                    links[block] = fresh
                    block, at = np.int64(fresh), np.int64(0)
                arena[block * BLOCK + at] = data[n + i]
                at += 1
            queues[q].end_block = block
            queues[q].end_at = at
            state[WORDS], state[BYTES] = w + 2, n + length
        else:
            return UNSOUND
    return LOADED if state[BYTES] == len(data) else UNSOUND


@njit(cache=True, nogil=True)
def _number(c: Any, q: Any, block: Any, at: Any) -> Any:
    """As `_get_number`, but checked: -1 if the queue ends before the number does, or if it is too large."""
    queues = queues_of(c)
    arena = arena_of(c)
    links = links_of(c)
    value = np.int64(0)
    for shift in range(0, 63, 7):
        if block == queues[q].end_block and at == queues[q].end_at:
            break
        if at == BLOCK:
            block, at = np.int64(links[block]), np.int64(0)
        byte = np.int64(arena[block * BLOCK + at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, block, at
    return np.int64(-1), block, at


@njit(cache=True, nogil=True)
def _skip(c: Any, q: Any, block: Any, at: Any, n: Any) -> Any:
    """The cursor n bytes on; block -1 if the queue ends before, or if they are not ASCII."""
    queues = queues_of(c)
    links = links_of(c)
    arena = arena_of(c)
    while True:
        last = block == queues[q].end_block
        run = min(n, (np.int64(queues[q].end_at) if last else np.int64(BLOCK)) - at)
        for i in range(block * BLOCK + at, block * BLOCK + at + run):
            if arena[i] > 127:
                return np.int64(-1), at
        at += run
        n -= run
        if n == 0:
            return block, at
        if last:
            return np.int64(-1), at
        block, at = np.int64(links[block]), np.int64(0)


@njit(cache=True, nogil=True)
def is_sound(c: Any, q: Any, lens: Any, limit: Any) -> Any:
    """Whether the bytes of a queue are as many entries as it should have, none too long for the buffers."""
    queues = queues_of(c)
    arena = arena_of(c)
    links = links_of(c)
    block, at = np.int64(queues[q].head_block), np.int64(queues[q].head_at)
    k = np.int64(0)
    total = np.int64(0)
    skip = np.int64(queues[q].skip)
    for entry in range(skip + np.int64(queues[q].count)):
        if block == queues[q].end_block and at == queues[q].end_at:
            return False
        if at == BLOCK:
            block, at = np.int64(links[block]), np.int64(0)
        tag = np.int64(arena[block * BLOCK + at])
        at += 1
        distance = tag & 15
        lcp = lcs = np.int64(0)
        if distance == 0:
            if tag != META:
                return False
            k = total = np.int64(0)
        else:
            if distance > k or k >= GROUP or tag >= 2 * TAIL:
                return False
            lcp, block, at = _number(c, q, block, at)
            if tag & TAIL:
                lcs, block, at = _number(c, q, block, at)
            if lcp < 0 or lcs < 0 or lcp + lcs > lens[k - distance]:
                return False
        if entry == skip and k != skip:
            return False
        n, block, at = _number(c, q, block, at)
        if n < 0 or n > limit:
            return False
        block, at = _skip(c, q, block, at, n)
        if block < 0:
            return False
        if tag & META:
            for _ in range(3):
                n_meta, block, at = _number(c, q, block, at)
                if n_meta < 0:
                    return False
        lens[k] = lcp + n + lcs
        total += lens[k]
        if lens[k] > limit or total > max(np.int64(WINDOW), lens[k]):
            return False
        k += 1
    return block == queues[q].end_block and at == queues[q].end_at


@njit(cache=True, nogil=True)
def settle_all(c: Any, order: Any, now: Any) -> Any:
    """Give the hosts of a thawed frontier their places, in the given order; False if a queue is not sound."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    queues = queues_of(c)
    lens = np.zeros(GROUP, np.int64)
    for i in range(len(order)):
        slot = np.int64(order[i])
        q = np.int64(hosts[slot].queue)
        while q >= 0:
            if not is_sound(c, q, lens, f.longest - np.int64(hosts[slot].length)):
                return False
            q = np.int64(queues[q].next)
    for i in range(len(order)):
        settle_host(c, now, np.int64(order[i]))
    return True
