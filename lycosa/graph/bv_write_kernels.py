"""Writing BV graphs, compiled; the choices are those of `bv_plain.encode`, tested equal bit by bit.

For each list the cost of every admissible reference is computed without writing, in one merge of the list
with its candidate prototype; a candidate is given up as soon as it costs more than the best so far. `how` is
that of `bv_kernels`.
"""

from __future__ import annotations

import numpy as np

from lycosa.compiled import njit
from lycosa.graph.bits_kernels import code_length, top_bit, write_code

_GAMMA = 2


@njit(cache=True, nogil=True)
def _nat(x):  # type: ignore[no-untyped-def]
    return 2 * x if x >= 0 else -2 * x - 1


@njit(cache=True, nogil=True)
def split_list(lists, a, a_end, b, b_end, blocks, extras):  # type: ignore[no-untyped-def]
    """Express lists[a:a_end] by the prototype lists[b:b_end]: how many blocks, and how many extras."""
    block = 0
    extra = 0
    copying = True
    run = np.int64(0)
    while a < a_end and b < b_end:
        x = lists[a]
        y = lists[b]
        if x < y:
            extras[extra] = x
            extra += 1
            a += 1
        elif copying:
            if x == y:
                run += 1
                a += 1
                b += 1
            else:
                blocks[block] = run
                block += 1
                copying = False
                run = np.int64(0)
        elif x == y:
            blocks[block] = run
            block += 1
            copying = True
            run = np.int64(0)
        else:
            run += 1
            b += 1
    if copying and b < b_end:
        blocks[block] = run
        block += 1
    while a < a_end:
        extras[extra] = lists[a]
        extra += 1
        a += 1
    return block, extra


@njit(cache=True, nogil=True)
def list_cost(x, r, how, blocks, block, extras, extra, best):  # type: ignore[no-untyped-def]
    """Bits of the list apart from its degree; gives up above `best`."""
    total = np.int64(0)
    if how[6] > 0:
        total += code_length(r, how[3], 0)
    if r > 0:
        total += code_length(block, how[4], 0)
        for i in range(block):
            total += code_length(blocks[i] - (1 if i > 0 else 0), how[1], 0)
    if extra == 0 or total > best:
        return total
    least = how[7]
    intervals = 0
    stop = np.int64(0)
    last = np.int64(-1)
    i = 0
    while i < extra:
        j = i + 1
        if least > 0:
            while j < extra and extras[j] == extras[j - 1] + 1:
                j += 1
            if j - i >= least:
                left = np.int64(extras[i])
                gap = left - stop - 1 if intervals > 0 else _nat(left - x)
                total += 2 * top_bit(gap + 1) + 1 + 2 * top_bit(j - i - least + 1) + 1
                stop = left + j - i
                intervals += 1
                i = j
                continue
        while i < j:
            node = np.int64(extras[i])
            gap = node - last - 1 if last >= 0 else _nat(node - x)
            total += code_length(gap, how[2], how[5])
            last = node
            i += 1
        if total > best:
            return total
    if least > 0:
        total += 2 * top_bit(intervals + 1) + 1
    return total


@njit(cache=True, nogil=True)
def _write(words, position, x, r, how, blocks, block, extras, extra, spent):  # type: ignore[no-untyped-def]
    """Write the list behind its degree."""
    mark = position
    if how[6] > 0:
        position = write_code(words, position, r, how[3], 0)
        spent[1] += position - mark
        mark = position
    if r > 0:
        position = write_code(words, position, block, how[4], 0)
        for i in range(block):
            position = write_code(words, position, blocks[i] - (1 if i > 0 else 0), how[1], 0)
        spent[2] += position - mark
        mark = position
        spent[8] += 1
        spent[9] += r
    if extra == 0:
        return position
    least = how[7]
    if least > 0:
        intervals = 0
        i = 0
        while i < extra:
            j = i + 1
            while j < extra and extras[j] == extras[j - 1] + 1:
                j += 1
            if j - i >= least:
                intervals += 1
            i = j
        position = write_code(words, position, intervals, _GAMMA, 0)
        first = True
        stop = np.int64(0)
        i = 0
        while i < extra:
            j = i + 1
            while j < extra and extras[j] == extras[j - 1] + 1:
                j += 1
            if j - i >= least:
                left = np.int64(extras[i])
                gap = _nat(left - x) if first else left - stop - 1
                position = write_code(words, position, gap, _GAMMA, 0)
                position = write_code(words, position, j - i - least, _GAMMA, 0)
                stop = left + j - i
                first = False
                spent[6] += j - i
            i = j
        spent[3] += position - mark
        mark = position
    last = np.int64(-1)
    i = 0
    while i < extra:
        j = i + 1
        if least > 0:
            while j < extra and extras[j] == extras[j - 1] + 1:
                j += 1
            if j - i >= least:
                i = j
                continue
        while i < j:
            node = np.int64(extras[i])
            gap = node - last - 1 if last >= 0 else _nat(node - x)
            position = write_code(words, position, gap, how[2], how[5])
            spent[7] += 1
            last = node
            i += 1
    spent[4] += position - mark
    return position


@njit(cache=True, nogil=True)
def compress(  # type: ignore[no-untyped-def]
    lists, starts, j, count, x, how, chains, chosen, words, position, positions, spent
):
    """Write the lists j … count−1 of `starts`, the first being that of node x.

    If `chosen` has places, chosen[i] is the reference of list i; else the best is found list by list.

    Entries before j are the lists of the nodes before x, which may be referred to; chains[i] is the length
    of the chain below list i. `words` must be zero from `position` on. positions[i] is told where list j+i
    ends. Stops when `words` might not hold the next list. Returns the index of the next list, and the
    position.
    """
    longest = np.int64(0)
    for i in range(count):
        longest = max(longest, starts[i + 1] - starts[i])
    blocks = np.empty(2 * longest + 4, dtype=np.int64)
    extras = np.empty(longest + 1, dtype=np.int32)
    best_blocks = np.empty(2 * longest + 4, dtype=np.int64)
    best_extras = np.empty(longest + 1, dtype=np.int32)
    room = np.int64(64) * (len(words) - 4)
    first = j
    while j < count:
        a = starts[j]
        degree = starts[j + 1] - a
        begun = position
        head = code_length(degree, how[0], 0)
        if position + head > room:
            return j, position
        chains[j] = 0
        if degree == 0:
            position = write_code(words, position, 0, how[0], 0)
            spent[0] += position - begun
        else:
            best = np.int64(1) << 62
            best_r = 0
            best_block = 0
            best_extra = 0
            for r in range(min(how[6], j) + 1):
                if len(chosen) and r != chosen[j]:
                    continue
                if r > 0 and (
                    starts[j - r] == starts[j - r + 1] or (how[8] >= 0 and chains[j - r] >= how[8])
                ):
                    continue
                if r == 0:
                    block = 0
                    extra = degree
                    for i in range(degree):
                        extras[i] = lists[a + i]
                else:
                    block, extra = split_list(
                        lists, a, a + degree, starts[j - r], starts[j - r + 1], blocks, extras
                    )
                total = list_cost(x, r, how, blocks, block, extras, extra, best)
                if total < best:
                    best = total
                    best_r = r
                    best_block = block
                    best_extra = extra
                    blocks, best_blocks = best_blocks, blocks
                    extras, best_extras = best_extras, extras
            if position + head + best > room:
                return j, position
            position = write_code(words, position, degree, how[0], 0)
            spent[0] += position - begun
            position = _write(
                words, position, x, best_r, how, best_blocks, best_block, best_extras, best_extra, spent
            )
            spent[5] += degree - best_extra
            if best_r > 0:
                chains[j] = chains[j - best_r] + 1
            spent[10] += chains[j]
        positions[j - first] = position
        j += 1
        x += 1
    return j, position
