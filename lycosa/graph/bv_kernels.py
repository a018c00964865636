"""Reading BV graphs, compiled: a scan of consecutive lists, and lists in any order.

Both are tested equal to `bv_plain`. Nothing read from the bits is trusted: degrees, references, blocks,
intervals and residuals are checked against the graph before they are used as an index, so that a hostile
file ends in a status (`bv.StorageError`), never in a write outside an array.

Codes and parameters travel in one tuple, `how`:

    0 outdegrees  1 blocks  2 residuals  3 references  4 block count  5 k  6 window  7 shortest interval
    8 chain

A list is put together in place. What is copied is written to the front of its room; then copied successors,
intervals and residuals are merged from the largest down. The merge can stop as soon as intervals and
residuals are used up, since what is still to come then lies where it belongs.

Inner kernels take addresses, not arrays (see `bits_kernels`).
"""

from __future__ import annotations

import numpy as np

from lycosa.compiled import njit
from lycosa.graph.bits_kernels import (
    leading_zeros,
    load_int,
    load_node,
    ones,
    peek,
    read_any,
    read_code,
    read_gamma,
    store_node,
)

GOOD, FULL, CORRUPT = 0, 1, 2
_UNARY = 5
_SAMPLE = 6  # log₂ of the positions between two samples of `offset_of`


@njit(cache=True, nogil=True)
def _read_reference(base, position, end, code):  # type: ignore[no-untyped-def]
    if code == _UNARY:
        zeros = np.int64(leading_zeros(peek(base, position)))
        if zeros < 57 and position + zeros < end:
            return zeros, position + zeros + 1
    return read_any(base, position, end, code, 0)


@njit(cache=True, nogil=True)
def _copy(source, at, target, to, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        store_node(target, to + i, load_node(source, at + i))


@njit(cache=True, nogil=True)
def _merge(out, at, copied, degree, room, intervals, missing, nodes):  # type: ignore[no-untyped-def]
    """Merge the copied front of out[at:at+degree] with the rest; False if any node comes twice."""
    front = at + copied - 1  # the largest that was copied
    j = 2 * intervals + missing - 1
    i = intervals - 1
    run = load_node(room, 2 * i + 1) - 1 if i >= 0 else np.int64(-1)
    rest = load_node(room, j) if missing > 0 else np.int64(-1)
    last = load_node(out, front) if front >= at else np.int64(-1)
    to = at + degree - 1
    while run >= 0 or rest >= 0:
        extra = max(run, rest)
        while last > extra:
            store_node(out, to, last)
            to -= 1
            front -= 1
            last = load_node(out, front) if front >= at else np.int64(-1)
        if last == extra or run == rest:
            return False
        if run > rest:
            # As much of the run as lies above everything else.
            floor = load_node(room, 2 * i)
            low = max(floor, rest + 1, last + 1)
            while run >= low:
                store_node(out, to, run)
                to -= 1
                run -= 1
            if low == floor:
                i -= 1
                run = load_node(room, 2 * i + 1) - 1 if i >= 0 else np.int64(-1)
        else:
            store_node(out, to, rest)
            to -= 1
            j -= 1
            rest = load_node(room, j) if j >= 2 * intervals else np.int64(-1)
    return True


@njit(cache=True, nogil=True)
def _read_list(  # type: ignore[no-untyped-def]
    base, position, end, nodes, x, degree, how, prototype, first, last, out, at, room
):
    """Read the list of x, whose degree and reference are known, into out[at:at+degree].

    Its prototype is prototype[first:last]; without a reference `first` is −1. `room` has at least 2·degree
    places. Returns the position after the list or −1, the positions after the blocks and after the
    intervals, and how many nodes came from each.
    """
    bad = (np.int64(-1), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    copied = np.int64(0)
    if first >= 0:
        count, position = read_code(base, position, end, how[4], 0)
        if count < 0 or count > last - first + 1:
            return bad
        source = first
        for i in range(count):
            size, position = read_code(base, position, end, how[1], 0)
            if size < 0:
                return bad
            if i > 0:
                size += 1
            if size > last - source:
                return bad
            if i & 1 == 0:
                if copied + size > degree:
                    return bad
                _copy(prototype, source, out, at + copied, size)
                copied += size
            source += size
        if count & 1 == 0:
            size = last - source
            if copied + size > degree:
                return bad
            _copy(prototype, source, out, at + copied, size)
            copied += size
    blocks_end = position
    missing = degree - copied
    if missing == 0:
        return position, blocks_end, position, copied, np.int64(0)
    # Intervals: their lefts and (exclusive) ends in room[0 : 2·count].
    intervals = np.int64(0)
    if how[7] > 0:
        intervals, position = read_gamma(base, position, end)
        if intervals < 0 or intervals * how[7] > missing:
            return bad
        stop = np.int64(0)
        for i in range(intervals):
            gap, position = read_gamma(base, position, end)
            if gap < 0:
                return bad
            left = x + ((gap >> 1) ^ -(gap & 1)) if i == 0 else stop + 1 + gap
            size, position = read_gamma(base, position, end)
            if size < 0:
                return bad
            size += how[7]
            stop = left + size
            missing -= size
            if left < 0 or stop > nodes or missing < 0:
                return bad
            store_node(room, 2 * i, left)
            store_node(room, 2 * i + 1, stop)
    intervals_end = position
    run_arcs = degree - copied - missing
    # Residuals: straight into their places if there is nothing to merge with, else behind the intervals.
    if missing > 0:
        gap, position = read_code(base, position, end, how[2], how[5])
        node = x + ((gap >> 1) ^ -(gap & 1))
        if gap < 0 or node < 0 or node >= nodes:
            return bad
        alone = copied == 0 and intervals == 0
        target = out if alone else room
        to = at if alone else 2 * intervals
        store_node(target, to, node)
        for i in range(1, missing):
            gap, position = read_code(base, position, end, how[2], how[5])
            node += 1 + gap
            if gap < 0 or node >= nodes:
                return bad
            store_node(target, to + i, node)
        if alone:
            return position, blocks_end, intervals_end, copied, run_arcs
    if not _merge(out, at, copied, degree, room, intervals, missing, nodes):
        return bad
    return position, blocks_end, intervals_end, copied, run_arcs


@njit(cache=True, nogil=True)
def scan(  # type: ignore[no-untyped-def]
    data, position, end, nodes, x, stop, how, lists, starts, j, positions, spent
):
    """Read the lists of x … stop−1, one after the other.

    The list of x goes to lists[starts[j]:starts[j+1]] and so on; those of the nodes before x are in the
    entries before j, at least `window` of them or as many as there are. If `positions` has places,
    positions[i] is told where the i-th list starts. Ends early, with FULL, when `lists` has no room for the
    next one. Returns the node after the last one read, the position, the status and, if FULL, the degree to
    make room for. `spent` gathers the counts, in the order of `bv_format.Counts`.
    """
    base = np.int64(data.ctypes.data)
    out = np.int64(lists.ctypes.data)
    space = np.empty(2048, dtype=np.int32)
    room = np.int64(space.ctypes.data)
    x0 = x
    while x < stop:
        begun = position
        if len(positions):
            positions[x - x0] = begun
        degree, position = read_code(base, position, end, how[0], 0)
        if degree < 0 or degree > nodes:
            return x, begun, CORRUPT, np.int64(0)
        at = starts[j]
        if at + degree > len(lists):
            return x, begun, FULL, degree
        if 2 * degree > len(space):
            space = np.empty(4 * degree, dtype=np.int32)
            room = np.int64(space.ctypes.data)
        spent[0] += position - begun
        if degree > 0:
            first = np.int64(-1)
            last = np.int64(-1)
            if how[6] > 0:
                mark = position
                r, position = _read_reference(base, position, end, how[3])
                if r < 0 or r > how[6] or r > x or r > j:
                    return x, begun, CORRUPT, np.int64(0)
                spent[1] += position - mark
                if r > 0:
                    first = starts[j - r]
                    last = starts[j - r + 1]
                    spent[8] += 1
                    spent[9] += r
            mark = position
            position, blocks_end, intervals_end, copied, run_arcs = _read_list(
                base, position, end, nodes, x, degree, how, out, first, last, out, at, room
            )
            if position < 0:
                return x, begun, CORRUPT, np.int64(0)
            spent[2] += blocks_end - mark
            spent[3] += intervals_end - blocks_end
            spent[4] += position - intervals_end
            spent[5] += copied
            spent[6] += run_arcs
            spent[7] += degree - copied - run_arcs
        j += 1
        starts[j] = at + degree
        x += 1
    return x, position, GOOD, np.int64(len(space))


@njit(cache=True, nogil=True)
def fill_offsets(values, i, low, width, high):  # type: ignore[no-untyped-def]
    """Put the ascending `values` in at index i … of an Elias-Fano sequence (see `offsets`)."""
    for value in values:
        bit = (value >> width) + i
        high[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
        if width > 0:
            at = i * width
            part = np.uint64(value) & ((np.uint64(1) << np.uint64(width)) - np.uint64(1))
            low[at >> 6] |= part << np.uint64(at & 63)
            if (at & 63) + width > 64:
                low[(at >> 6) + 1] |= part >> np.uint64(64 - (at & 63))
        i += 1


@njit(cache=True, nogil=True)
def sample_offsets(high, samples):  # type: ignore[no-untyped-def]
    """samples[s] is the bit of `high` that is its one number s·2^_SAMPLE."""
    seen = np.int64(0)
    for w in range(len(high)):
        word = high[w]
        here = np.int64(ones(word))
        if here == 0:
            continue
        wanted = ((seen + (1 << _SAMPLE) - 1) >> _SAMPLE) << _SAMPLE
        if wanted < seen + here:
            bit = seen
            for b in range(64):
                if word & (np.uint64(1) << np.uint64(b)):
                    if bit == wanted:
                        samples[wanted >> _SAMPLE] = w * 64 + b
                        break
                    bit += 1
        seen += here


@njit(cache=True, nogil=True)
def offset_of(i, low, width, high, samples):  # type: ignore[no-untyped-def]
    """The i-th value of an Elias-Fano sequence, whose three arrays are given by their addresses."""
    start = load_int(samples, i >> _SAMPLE)
    left = np.int64(i & ((1 << _SAMPLE) - 1))
    w = start >> 6
    word = np.uint64(load_int(high, w)) & (np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(start & 63))
    here = np.int64(ones(word))
    while here <= left:
        left -= here
        w += 1
        word = np.uint64(load_int(high, w))
        here = np.int64(ones(word))
    # The bit of rank `left` in the word: halve the word six times.
    bit = np.int64(0)
    half = np.int64(32)
    while half > 0:
        lower = word & ((np.uint64(1) << np.uint64(half)) - np.uint64(1))
        count = np.int64(ones(lower))
        if left >= count:
            left -= count
            word >>= np.uint64(half)
            bit += half
        else:
            word = lower
        half >>= 1
    upper = (w << 6) + bit - i
    if width == 0:
        return upper
    at = i * width
    shift = np.uint64(at & 63)
    part = (np.uint64(load_int(low, at >> 6)) >> shift) | (
        (np.uint64(load_int(low, (at >> 6) + 1)) << np.uint64(1)) << (np.uint64(63) - shift)
    )
    return (upper << width) | np.int64(part & ((np.uint64(1) << np.uint64(width)) - np.uint64(1)))


@njit(cache=True, nogil=True)
def offsets_of(wanted, low, width, high, samples, out):  # type: ignore[no-untyped-def]
    """Many values of an Elias-Fano sequence."""
    a = np.int64(low.ctypes.data)
    b = np.int64(high.ctypes.data)
    c = np.int64(samples.ctypes.data)
    for q in range(len(wanted)):
        out[q] = offset_of(np.int64(wanted[q]), a, width, b, c)


@njit(cache=True, nogil=True)
def degrees_of(  # type: ignore[no-untyped-def]
    data, end, nodes, how, low, width, high, samples, wanted, degrees, positions
):
    """The degrees of the wanted nodes, and the positions after them. Returns the first bad one, or −1."""
    base = np.int64(data.ctypes.data)
    a = np.int64(low.ctypes.data)
    b = np.int64(high.ctypes.data)
    c = np.int64(samples.ctypes.data)
    for q in range(len(wanted)):
        position = offset_of(np.int64(wanted[q]), a, width, b, c)
        degree, position = read_code(base, position, end, how[0], 0)
        if degree < 0 or degree > nodes:
            return q
        degrees[q] = degree
        positions[q] = position
    return -1


@njit(cache=True, nogil=True)
def lists_of(  # type: ignore[no-untyped-def]
    data, end, nodes, how, low, width, high, samples, wanted, positions, starts, lists
):
    """The lists of the wanted nodes into `lists`, at `starts`, after `degrees_of`. Returns the first bad
    one, or −1.

    A chain of references is first followed down, then the lists are put together on the way back up.
    """
    base = np.int64(data.ctypes.data)
    a = np.int64(low.ctypes.data)
    b = np.int64(high.ctypes.data)
    c = np.int64(samples.ctypes.data)
    out = np.int64(lists.ctypes.data)
    size = np.int64(1024)
    space = np.empty(4 * size, dtype=np.int32)  # room for a merge, and two lists
    room = np.int64(space.ctypes.data)
    chain = np.empty((16, 3), dtype=np.int64)  # node, degree, position after the reference
    for q in range(len(wanted)):
        degree = starts[q + 1] - starts[q]
        if degree == 0:
            continue
        x = np.int64(wanted[q])
        position = positions[q]
        depth = 0
        largest = np.int64(0)
        while True:
            r = np.int64(0)
            if how[6] > 0 and degree > 0:
                r, position = _read_reference(base, position, end, how[3])
                if r < 0 or r > how[6] or r > x:
                    return q
            if depth == len(chain):
                longer = np.empty((2 * depth, 3), dtype=np.int64)
                longer[:depth] = chain
                chain = longer
            chain[depth, 0] = x
            chain[depth, 1] = degree
            chain[depth, 2] = position
            depth += 1
            largest = max(largest, degree)
            if r == 0:
                break
            if how[8] >= 0 and depth > how[8]:
                return q
            x -= r
            position = offset_of(x, a, width, b, c)
            degree, position = read_code(base, position, end, how[0], 0)
            if degree < 0 or degree > nodes:
                return q
        if largest > size:
            size = 2 * largest
            space = np.empty(4 * size, dtype=np.int32)
            room = np.int64(space.ctypes.data)
        here = 2 * size  # where in `space` the next list goes, and its prototype lies
        there = 3 * size
        before = np.int64(-1)  # the degree of the prototype; −1: none
        for step in range(depth - 1, -1, -1):
            degree = chain[step, 1]
            if degree > 0:
                first = there if before >= 0 else np.int64(-1)
                target = out if step == 0 else room
                to = starts[q] if step == 0 else here
                position, _, _, _, _ = _read_list(
                    base,
                    chain[step, 2],
                    end,
                    nodes,
                    chain[step, 0],
                    degree,
                    how,
                    room,
                    first,
                    there + before,
                    target,
                    to,
                    room,
                )
                if position < 0:
                    return q
                here, there = there, here
            before = degree
    return -1 if len(space) else -2  # (the array must live as long as its address is used)
