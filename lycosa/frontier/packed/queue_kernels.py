"""Kernels of the packed queues: URLs front-coded in chains of small blocks.

A queue is a byte stream in a chain of blocks of `BLOCK` bytes (`links[b]` is the block after b), and a cursor
is (block, offset); the offset may be `BLOCK`, meaning "at the start of the next block, if there is one".

    queue = entry*
    entry = tag [lcp [lcs]] length middle [depth hops attempt]
    tag   = one byte: distance (4 bits), META, TAIL

Numbers are varints (seven bits a byte, least first). The *text* of a URL is the URL without its host, which
the host table has. An entry of distance d > 0 repeats the first `lcp` bytes (and, with TAIL, the last `lcs`
bytes) of the text d entries before; `middle` stands between them. Distance 0 starts a *group*: it refers to
nothing. Entries refer within their group, of at most `GROUP` entries and `WINDOW` bytes of text (or one longer
text), so that any of them is decoded by reading at most that many. META says that depth, hops and attempt follow;
else they are those of the entry before.

The best of the group's texts is chosen, not just the last: a page's links to navigation, to articles and to
pictures come mixed, and each is like others of its own kind.

Queues are written at the tail and read at the head only, and a block's bytes never change once written.
Hence a frozen queue is no copy: it is two cursors, and the promise not to reuse its blocks (`frontier.py`).

A group is decoded into `texts`, one text after the other, with `spans` beside it (see `store.SPANS`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.frontier.orders.order import LEVELS
from lycosa.frontier.packed.store import BLOCK, FIXED, GROUP, META, NUMBERS, PER_QUEUE, TAIL, WINDOW
from lycosa.frontier.packed.view_kernels import (
    arena_of,
    fields_of,
    hosts_of,
    limbo_of,
    links_of,
    names_of,
    queues_of,
    side_of,
    spans_of,
    texts_of,
)

DEPTH, HOPS, ATTEMPT = 2 * GROUP, 2 * GROUP + 1, 2 * GROUP + 2
"""Where in `spans` the numbers of the entry decoded last are."""


@njit(cache=True, nogil=True)
def has_room(c: Any, text: Any, name: Any) -> Any:
    """Whether one more URL fits, even on a new host and level (`Store.make_room`)."""
    f = fields_of(c)[0]
    if f.live + 1 > len(hosts_of(c)) or f.name_bytes + name > len(names_of(c)):
        return False
    if f.queues - f.free_queues + 1 > len(queues_of(c)):
        return False
    if f.blocks - f.free_blocks + (text + NUMBERS) // BLOCK + 2 > len(links_of(c)):
        return False
    if not f.frozen:
        return True
    words = PER_QUEUE * min(f.queues, LEVELS) + FIXED
    return f.side_words + words <= len(side_of(c)) and 2 * (f.limbo_pairs + 1) <= len(limbo_of(c))


@njit(cache=True, nogil=True)
def new_block(c: Any) -> Any:
    f = fields_of(c)[0]
    links = links_of(c)
    block = f.free_block
    if block >= 0:
        f.free_block = links[block]
        f.free_blocks -= 1
    else:
        block = f.blocks
        f.blocks += 1
    links[block] = -1
    return block


@njit(cache=True, nogil=True)
def free_chain(c: Any, first: Any, last: Any) -> None:
    """Free the blocks from `first` to `last`, or put them into limbo while a freeze may need them."""
    f = fields_of(c)[0]
    links = links_of(c)
    limbo = limbo_of(c)
    if f.frozen:
        limbo[2 * f.limbo_pairs] = first
        limbo[2 * f.limbo_pairs + 1] = last
        f.limbo_pairs += 1
        return
    n = 1
    block = first
    while block != last:
        block = links[block]
        n += 1
    links[last] = f.free_block
    f.free_block = first
    f.free_blocks += n


@njit(cache=True, nogil=True)
def free_limbo(c: Any) -> None:
    """Free the blocks in limbo: the freeze is over."""
    f = fields_of(c)[0]
    limbo = limbo_of(c)
    f.frozen = 0
    for i in range(f.limbo_pairs):
        free_chain(c, np.int64(limbo[2 * i]), np.int64(limbo[2 * i + 1]))
    f.limbo_pairs = 0


@njit(cache=True, nogil=True)
def _get(c: Any, block: Any, at: Any) -> Any:
    arena = arena_of(c)
    links = links_of(c)
    if at == BLOCK:
        block = np.int64(links[block])
        at = 0
    return np.int64(arena[block * BLOCK + at]), block, at + 1


@njit(cache=True, nogil=True)
def _put(c: Any, block: Any, at: Any, value: Any) -> Any:
    arena = arena_of(c)
    links = links_of(c)
    if at == BLOCK:
        fresh = new_block(c)
        links[block] = fresh
        block = np.int64(fresh)
        at = 0
    arena[block * BLOCK + at] = np.uint8(value)
    return block, at + 1


@njit(cache=True, nogil=True)
def _get_number(c: Any, block: Any, at: Any) -> Any:
    value = np.int64(0)
    shift = 0
    while True:
        byte, block, at = _get(c, block, at)
        value |= (byte & 127) << shift
        if byte < 128:
            return value, block, at
        shift += 7


@njit(cache=True, nogil=True)
def _put_number(c: Any, block: Any, at: Any, value: Any) -> Any:
    while value >= 128:
        block, at = _put(c, block, at, (value & 127) | 128)
        value >>= 7
    return _put(c, block, at, value)


@njit(cache=True, nogil=True)
def decode(c: Any, texts: Any, spans: Any, k: Any, block: Any, at: Any) -> Any:
    """Decode the entry at the cursor as the k-th of its group; returns the cursor after it."""
    arena = arena_of(c)
    links = links_of(c)
    tag, block, at = _get(c, block, at)
    distance = tag & 15
    base = spans[k - 1] + spans[GROUP + k - 1] if k > 0 else np.int64(0)
    n = np.int64(0)
    lcs = np.int64(0)
    ref = np.int64(0)
    if distance:
        ref = spans[k - distance]
        n, block, at = _get_number(c, block, at)
        if tag & TAIL:
            lcs, block, at = _get_number(c, block, at)
        for i in range(n):
            texts[base + i] = texts[ref + i]
    length, block, at = _get_number(c, block, at)
    while length > 0:
        if at == BLOCK:
            block = np.int64(links[block])
            at = 0
        run = min(length, BLOCK - at)
        source = block * BLOCK + at
        for i in range(run):
            texts[base + n + i] = arena[source + i]
        n += run
        at += run
        length -= run
    if lcs:
        source = ref + spans[GROUP + k - distance] - lcs
        for i in range(lcs):
            texts[base + n + i] = texts[source + i]
        n += lcs
    spans[k] = base
    spans[GROUP + k] = n
    if tag & META:
        spans[DEPTH], block, at = _get_number(c, block, at)
        spans[HOPS], block, at = _get_number(c, block, at)
        spans[ATTEMPT], block, at = _get_number(c, block, at)
    return block, at


@njit(cache=True, nogil=True)
def new_text(c: Any, q: Any) -> Any:
    """Where in `texts` the text to be appended goes: behind the decoded last group."""
    queues = queues_of(c)
    spans = spans_of(c)
    k = np.int64(queues[q].tail_count)
    return spans[k - 1] + spans[GROUP + k - 1] if 0 < k < GROUP else np.int64(0)


@njit(cache=True, nogil=True)
def load_tail(c: Any, q: Any) -> None:
    """Decode the last group of a queue, so that `append` can refer to it."""
    queues = queues_of(c)
    texts = texts_of(c)
    spans = spans_of(c)
    row = queues[q]
    if row.tail_count < GROUP:
        block, at = np.int64(row.tail_block), np.int64(row.tail_at)
        for k in range(np.int64(row.tail_count)):
            block, at = decode(c, texts, spans, k, block, at)


@njit(cache=True, nogil=True)
def _likest(c: Any, k: Any, new: Any, n: Any) -> Any:
    """Of the k texts of the group, the one that begins most like the new one: how far back, and how much."""
    texts = texts_of(c)
    spans = spans_of(c)
    distance = np.int64(1)
    lcp = np.int64(-1)
    for j in range(k - 1, -1, -1):
        ref = spans[j]
        most = min(n, spans[GROUP + j])
        # Longer than the best so far only if it goes on like this text where the best one stopped.
        if lcp >= 0 and (lcp >= most or texts[ref + lcp] != texts[new + lcp]):
            continue
        p = np.int64(0)
        while p < most and texts[ref + p] == texts[new + p]:
            p += 1
        if p > lcp:
            lcp, distance = p, np.int64(k - j)
    return distance, lcp


@njit(cache=True, nogil=True)
def append(c: Any, q: Any, n: Any, depth: Any, hops: Any, attempt: Any) -> None:
    """Append the text that lies at `new_text`, with the queue's last group decoded before it."""
    queues = queues_of(c)
    arena = arena_of(c)
    links = links_of(c)
    texts = texts_of(c)
    spans = spans_of(c)
    row = queues[q]
    block, at = np.int64(row.end_block), np.int64(row.end_at)
    new = new_text(c, q)
    k = np.int64(row.tail_count)
    lcp = np.int64(0)
    lcs = np.int64(0)
    if row.count == 0 or k >= GROUP or new + n > WINDOW:
        for i in range(n if new > 0 else 0):
            texts[i] = texts[new + i]
        k = new = np.int64(0)
        block, at = _put(c, block, at, np.int64(META))
        # Not the old `end`: that may be the end of a block which is freed before this group is read.
        queues[q].tail_block = block
        queues[q].tail_at = at - 1
        block, at = _put_number(c, block, at, n)
        meta = True
    else:
        distance, lcp = _likest(c, k, new, n)
        ref = spans[k - distance]
        length = spans[GROUP + k - distance]
        most = min(n, length) - lcp
        while lcs < most and texts[ref + length - 1 - lcs] == texts[new + n - 1 - lcs]:
            lcs += 1
        if lcs < 2:  # a suffix this short is not worth its length byte
            lcs = np.int64(0)
        meta = depth != spans[DEPTH] or hops != spans[HOPS] or attempt != spans[ATTEMPT]
        tag = distance | (META if meta else 0) | (TAIL if lcs else 0)
        block, at = _put(c, block, at, tag)
        block, at = _put_number(c, block, at, lcp)
        if lcs:
            block, at = _put_number(c, block, at, lcs)
        block, at = _put_number(c, block, at, n - lcp - lcs)
    done = lcp
    while done < n - lcs:
        if at == BLOCK:
            fresh = new_block(c)
            links[block] = fresh
            block, at = np.int64(fresh), np.int64(0)
        run = min(n - lcs - done, BLOCK - at)
        target = block * BLOCK + at
        for i in range(run):
            arena[target + i] = texts[new + done + i]
        done += run
        at += run
    if meta:
        block, at = _put_number(c, block, at, depth)
        block, at = _put_number(c, block, at, hops)
        block, at = _put_number(c, block, at, attempt)
    spans[k] = new
    spans[GROUP + k] = n
    spans[DEPTH], spans[HOPS], spans[ATTEMPT] = depth, hops, attempt
    queues[q].tail_count = k + 1
    queues[q].end_block = block
    queues[q].end_at = at
    queues[q].count += 1


@njit(cache=True, nogil=True)
def read_head(c: Any, texts: Any, spans: Any, q: Any) -> Any:
    """Decode the first entry of a non-empty queue; returns its index in `spans`, and the cursor after it."""
    queues = queues_of(c)
    row = queues[q]
    block, at = np.int64(row.head_block), np.int64(row.head_at)
    k = np.int64(row.skip)
    for j in range(k + 1):
        block, at = decode(c, texts, spans, j, block, at)
    return k, block, at


@njit(cache=True, nogil=True)
def drop_head(c: Any, q: Any, block: Any, at: Any) -> None:
    """Remove the first entry, given the cursor after it; blocks that are used up are freed."""
    queues = queues_of(c)
    links = links_of(c)
    queues[q].count -= 1
    head = np.int64(queues[q].head_block)
    if queues[q].count == 0:
        free_chain(c, head, np.int64(queues[q].end_block))
        return
    tag, after, after_at = _get(c, block, at)
    if tag & 15:
        queues[q].skip += 1
        return
    # The next entry starts a group: nothing before it is needed any more.
    queues[q].skip = 0
    queues[q].head_block = after
    queues[q].head_at = after_at - 1
    if head != after:
        last = head
        while links[last] != after:
            last = links[last]
        free_chain(c, head, np.int64(last))


@njit(cache=True, nogil=True)
def queue_of(c: Any, slot: Any, level: Any) -> Any:
    """The host's queue of that level; created if it does not exist."""
    f = fields_of(c)[0]
    hosts = hosts_of(c)
    queues = queues_of(c)
    before = np.int64(-1)
    q = np.int64(hosts[slot].queue)
    while q >= 0 and queues[q].level < level:
        before = q
        q = np.int64(queues[q].next)
    if q >= 0 and queues[q].level == level:
        return q
    fresh = f.free_queue
    if fresh >= 0:
        f.free_queue = queues[fresh].next
        f.free_queues -= 1
    else:
        fresh = f.queues
        f.queues += 1
    block = new_block(c)
    queues[fresh].next = q
    queues[fresh].count = 0
    queues[fresh].head_block = block
    queues[fresh].tail_block = block
    queues[fresh].end_block = block
    queues[fresh].head_at = 0
    queues[fresh].tail_at = 0
    queues[fresh].end_at = 0
    queues[fresh].skip = 0
    queues[fresh].tail_count = 0
    queues[fresh].level = level
    if before >= 0:
        queues[before].next = fresh
    else:
        hosts[slot].queue = fresh
    return fresh


@njit(cache=True, nogil=True)
def free_queue(c: Any, q: Any) -> None:
    """Free the row of a queue that is empty and in no list."""
    f = fields_of(c)[0]
    queues = queues_of(c)
    queues[q].next = f.free_queue
    f.free_queue = q
    f.free_queues += 1
