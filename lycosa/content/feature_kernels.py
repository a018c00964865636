"""The features of blocks, for the scorer of the main text: one row of numbers for each block.

Columns, in order:

    own          its words, characters, links, punctuation, figures, capitals, how it ends
    neighbours   words and share of links of the two blocks before and the two after it
    containers   of the `LEVELS` smallest parts of the page around it, each larger than the one within: words,
                 share of links, share of the page's words, blocks, words per block, how often an element of that
                 path repeats
    shape        all blocks whose elements have the same path of tags and classes: how many, words per block,
                 share of links
    place        where in the page, how deep, how far after the first h1 and after the last heading
    core         how much of the page lies in the smallest part that holds it and the h1, and it and the middle
                 of the prose; whether it lies in the smallest part that holds 35, 50 or 70% of the prose
    page         what kind of page it is: words, links, blocks, articles, share of words in p, li, td
    marks        for each mark: 2 if it is set on the block or the two elements around it, 1 if further up, 0 if not

The second scorer also sees (`widen`) the first one's scores of the block, its neighbours, its containers, its
shape and the page. Time is linear in blocks and elements: containers are searched for at most `CLIMB` elements up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.content.block_kernels import (
    ABOVE,
    BARS,
    BREAKS,
    CAPITALS,
    CHARS,
    COMMAS,
    DEPTH,
    DIGITS,
    ELEMENT,
    END,
    INLINE_MARKS,
    LINKED,
    LINKS,
    OWN,
    PARENT,
    SHAPE,
    START,
    STOPS,
    WORDS,
)
from lycosa.content.name_kernels import MARKS

LEVELS = 4
CLIMB = 24
OF_LEVEL = 6
OF_OWN, OF_NEAR, OF_SHAPE, OF_PLACE, OF_CORE, OF_PAGE = 14, 10, 3, 8, 7, 14
FIRST_MARK = OF_OWN + OF_NEAR + LEVELS * OF_LEVEL + OF_SHAPE + OF_PLACE + OF_CORE + OF_PAGE
FEATURES = FIRST_MARK + len(MARKS)
WIDER = 8 + LEVELS + 3
"""Columns that only the second scorer sees."""
_MARKS = len(MARKS)
_H1, _H2, _H3 = (np.int64(1 << MARKS.index(name)) for name in ("h1", "h2", "h3"))
_P, _LI, _TD, _MAIN, _ARTICLE = (
    np.int64(1 << MARKS.index(name)) for name in ("p", "li", "td", "main", "article")
)
_HEADING = _H1 | _H2 | _H3
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def _group(shapes: Any, groups: Any) -> int:
    """Number equal shapes alike; gives how many there are."""
    size = 16
    while size < 2 * shapes.size:
        size *= 2
    slots = np.full(size, -1, np.int64)
    used = 0
    for n in range(shapes.size):
        at = np.int64((np.uint64(shapes[n]) * _PRIME) >> np.uint64(33)) & (size - 1)
        while slots[at] >= 0 and shapes[slots[at]] != shapes[n]:
            at = (at + 1) & (size - 1)
        if slots[at] < 0:
            slots[at] = n
            groups[n] = used
            used += 1
        else:
            groups[n] = groups[slots[at]]
    return used


@njit(cache=True, nogil=True)
def _within(elements: Any, row: int, chain: Any) -> int:
    """The lowest element above a row (or that row) that is marked in a chain."""
    while row > 0 and not chain[row]:
        row = elements[row, PARENT]
    return row


@njit(cache=True, nogil=True)
def describe(text: Any, blocks: Any, elements: Any, out: Any, levels: Any, groups: Any) -> Any:
    """Fill the rows of `out`, the containers of each block in `levels`, and the number of its shape in `groups`.

    Gives how many shapes there are.
    """
    count, rows = blocks.shape[0], elements.shape[0]
    # -- sums over all that is within an element
    words = np.zeros(rows, np.int64)
    chars = np.zeros(rows, np.int64)
    linked = np.zeros(rows, np.int64)
    held = np.zeros(rows, np.int64)
    prose = np.zeros(rows, np.float64)
    for n in range(count):
        row = blocks[n]
        at = row[ELEMENT]
        words[at] += row[WORDS]
        chars[at] += row[CHARS]
        linked[at] += row[LINKED]
        held[at] += 1
        if row[WORDS] >= 5:
            prose[at] += row[WORDS] * (1.0 - row[LINKED] / row[CHARS])
    for at in range(rows - 1, 0, -1):
        above = elements[at, PARENT]
        words[above] += words[at]
        chars[above] += chars[at]
        linked[above] += linked[at]
        held[above] += held[at]
        prose[above] += prose[at]
    # -- shapes
    of_element = np.empty(rows, np.int64)
    kinds = _group(elements[:, SHAPE].copy(), of_element)
    repeats = np.zeros(kinds, np.int64)
    for at in range(rows):
        if held[at] > 0:
            repeats[of_element[at]] += 1
    shape_blocks = np.zeros(kinds, np.int64)
    shape_words = np.zeros(kinds, np.int64)
    shape_chars = np.zeros(kinds, np.int64)
    shape_linked = np.zeros(kinds, np.int64)
    # -- the page
    first_h1 = -1
    articles = mains = h1s = in_p = in_li = in_td = longest = 0
    for at in range(rows):
        if held[at] > 0:
            if elements[at, OWN] & _ARTICLE and not elements[elements[at, PARENT], ABOVE] & _ARTICLE:
                articles += 1
            if elements[at, OWN] & _MAIN:
                mains += 1
    for n in range(count):
        row = blocks[n]
        at = row[ELEMENT]
        groups[n] = kind = of_element[at]
        shape_blocks[kind] += 1
        shape_words[kind] += row[WORDS]
        shape_chars[kind] += row[CHARS]
        shape_linked[kind] += row[LINKED]
        marks = elements[at, ABOVE]
        if elements[at, OWN] & _H1:
            h1s += 1
            if first_h1 < 0:
                first_h1 = n
        if elements[at, OWN] & _P:
            in_p += row[WORDS]
        if marks & _LI:
            in_li += row[WORDS]
        if marks & _TD:
            in_td += row[WORDS]
        longest = max(longest, row[WORDS])
    total = max(1, words[0])
    # -- the parts that hold much of the prose
    cores = np.zeros(3, np.int64)
    inside = np.zeros((3, rows), np.bool_)
    for n in range(3):
        wanted = prose[0] * (0.35 if n == 0 else 0.5 if n == 1 else 0.7)
        for at in range(1, rows):  # rows are in document order: down, as long as a part holds enough
            if elements[at, PARENT] == cores[n] and prose[at] >= wanted and wanted > 0:
                cores[n] = at
        for at in range(rows):
            inside[n, at] = at == cores[n] or (at > 0 and inside[n, elements[at, PARENT]])
    chain_core = np.zeros(rows, np.bool_)
    chain_h1 = np.zeros(rows, np.bool_)
    middle = cores[1]
    while middle >= 0:
        chain_core[middle] = True
        middle = elements[middle, PARENT]
    if first_h1 >= 0:
        middle = blocks[first_h1, ELEMENT]
        while middle >= 0:
            chain_h1[middle] = True
            middle = elements[middle, PARENT]
    before = 0
    heading, heading_level = -1, 0
    for n in range(count):
        row = blocks[n]
        at = row[ELEMENT]
        f = out[n]
        c = 0
        # -- own
        chs, wds = float(row[CHARS]), float(row[WORDS])
        last = text[row[END] - 1]
        first = text[row[START]]
        f[0], f[1] = np.log1p(wds), np.log1p(chs)
        f[2] = row[LINKED] / chs
        f[3] = chs / max(1.0, wds)
        f[4], f[5] = row[STOPS] / max(1.0, wds), row[COMMAS] / max(1.0, wds)
        f[6], f[7] = row[DIGITS] / chs, row[CAPITALS] / chs
        f[8], f[9], f[10] = row[BARS], row[LINKS], row[BREAKS]
        f[11] = 2.0 if last in (46, 33, 63) else 1.0 if last == 58 else 0.0
        f[12] = 1.0 if 65 <= first <= 90 else 2.0 if 97 <= first <= 122 else 3.0 if 48 <= first <= 57 else 0.0
        f[13] = np.log1p(row[STOPS])
        c = OF_OWN
        # -- neighbours
        for k in range(4):
            other = n + (-2 if k == 0 else -1 if k == 1 else 1 if k == 2 else 2)
            if 0 <= other < count:
                f[c] = np.log1p(float(blocks[other, WORDS]))
                f[c + 1] = blocks[other, LINKED] / float(blocks[other, CHARS])
            else:
                f[c] = f[c + 1] = -1.0
            c += 2
        f[c] = 1.0 if n > 0 and groups[n - 1] == groups[n] else 0.0
        f[c + 1] = 1.0 if n + 1 < count and groups[n + 1] == groups[n] else 0.0
        c += 2
        # -- containers
        up = at
        climbed = 0
        size = -1
        for level in range(LEVELS):
            while up > 0 and held[up] <= size and climbed < CLIMB:
                up = elements[up, PARENT]
                climbed += 1
            size = held[up]
            levels[n, level] = up
            f[c] = np.log1p(float(words[up]))
            f[c + 1] = linked[up] / max(1.0, float(chars[up]))
            f[c + 2] = words[up] / float(total)
            f[c + 3] = np.log1p(float(held[up]))
            f[c + 4] = words[up] / max(1.0, float(held[up]))
            f[c + 5] = np.log1p(float(repeats[of_element[up]]))
            c += OF_LEVEL
        # -- shape
        kind = groups[n]
        f[c] = np.log1p(float(shape_blocks[kind]))
        f[c + 1] = shape_words[kind] / float(shape_blocks[kind])
        f[c + 2] = shape_linked[kind] / max(1.0, float(shape_chars[kind]))
        c += OF_SHAPE
        # -- place
        own = elements[at, OWN]
        f[c] = n / float(count)
        f[c + 1] = before / float(total)
        f[c + 2] = float(n)
        f[c + 3] = float(elements[at, DEPTH])
        f[c + 4] = -1.0 if first_h1 < 0 else np.sign(n - first_h1) * np.log1p(float(abs(n - first_h1)))
        f[c + 5] = -1.0 if heading < 0 else np.log1p(float(n - heading))
        f[c + 6] = float(heading_level)
        f[c + 7] = float(count - n)
        c += OF_PLACE
        before += row[WORDS]
        if own & _HEADING:
            heading = n
            heading_level = 1 if own & _H1 else 2 if own & _H2 else 3
        # -- core
        f[c] = -1.0
        f[c + 1] = -1.0
        if first_h1 >= 0:
            common = _within(elements, at, chain_h1)
            f[c] = words[common] / float(total)
            f[c + 1] = linked[common] / max(1.0, float(chars[common]))
        common = _within(elements, at, chain_core)
        f[c + 2] = prose[common] / max(1.0, prose[0])
        f[c + 3] = float(elements[common, DEPTH])
        for k in range(3):
            f[c + 4 + k] = 1.0 if inside[k, at] else 0.0
        c += OF_CORE
        # -- page
        f[c] = np.log1p(float(total))
        f[c + 1] = linked[0] / max(1.0, float(chars[0]))
        f[c + 2] = np.log1p(float(count))
        f[c + 3], f[c + 4], f[c + 5] = float(mains), np.log1p(float(articles)), float(h1s)
        f[c + 6], f[c + 7], f[c + 8] = in_p / float(total), in_li / float(total), in_td / float(total)
        f[c + 9] = np.log1p(float(longest))
        f[c + 10] = prose[0] / float(total)
        f[c + 11] = total / float(count)
        f[c + 12] = np.log1p(float(rows))
        f[c + 13] = np.log1p(float(in_p))
        c += OF_PAGE
        # -- marks
        near = own | row[INLINE_MARKS]
        if at > 0:
            near |= elements[elements[at, PARENT], OWN]
        far = elements[at, ABOVE]
        for mark in range(_MARKS):
            bit = np.int64(1) << mark
            f[c + mark] = 2.0 if near & bit else 1.0 if far & bit else 0.0
    return kinds


@njit(cache=True, nogil=True)
def widen(blocks: Any, kinds: int, levels: Any, groups: Any, elements: Any, said: Any, out: Any) -> None:
    """Write the first scorer's scores around each block into the columns from `FEATURES` on."""
    count, rows = blocks.shape[0], elements.shape[0]
    weights = np.zeros(rows, np.float64)
    sums = np.zeros(rows, np.float64)
    shape_weights = np.zeros(kinds, np.float64)
    shape_sums = np.zeros(kinds, np.float64)
    for n in range(count):
        weight = np.sqrt(float(blocks[n, WORDS]))
        at = blocks[n, ELEMENT]
        weights[at] += weight
        sums[at] += weight * said[n]
        shape_weights[groups[n]] += weight
        shape_sums[groups[n]] += weight * said[n]
    for at in range(rows - 1, 0, -1):
        weights[elements[at, PARENT]] += weights[at]
        sums[elements[at, PARENT]] += sums[at]
    top = 0.0
    for n in range(count):
        top = max(top, said[n])
    first, last = count, -1
    for n in range(count):
        if said[n] > 0.5:
            first = min(first, n)
            last = n
    run = 0.0
    for n in range(count):
        f = out[n]
        c = FEATURES
        f[c] = said[n]
        for k in range(6):
            other = n + (-3 if k == 0 else -2 if k == 1 else -1 if k == 2 else k - 2)
            f[c + 1 + k] = said[other] if 0 <= other < count else -1.0
        run = 0.7 * run + 0.3 * said[n]
        f[c + 7] = run
        c += 8
        for level in range(LEVELS):
            up = levels[n, level]
            f[c + level] = sums[up] / max(1e-9, weights[up])
        c += LEVELS
        f[c] = shape_sums[groups[n]] / max(1e-9, shape_weights[groups[n]])
        f[c + 1] = sums[0] / max(1e-9, weights[0])
        f[c + 2] = 0.0 if last < 0 else (n - first) / max(1.0, float(last - first))
