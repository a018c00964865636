"""One pass over the bytes of a page that cuts its text into blocks, and notes the properties of each.

A *block* is a run of text that no block-level element interrupts: a paragraph, a heading, a list item's own text, a
cell. The kernel follows the tokenizer of the HTML standard (tags, attributes, comments, raw text); of the tree it
keeps what matters here: a stack of open block-level elements, with the ends that HTML implies for p, li, dt, dd,
tr, td, th. Two line breaks in a row end a block as well.

    text       the text of all blocks, one after the other, UTF-8, white space folded (in `pre` line ends stay),
               character references as they stand, a line end for each `br`
    blocks     a row of integers for each block, columns `START` and following
    elements   a row for each block-level element, in the order of start tags: `PARENT` and following. Row 0 is
               the page.

Bounds: the page is read once. Elements deeper than `DEEP` are not pushed; when the caller's rows are used up,
further elements get no rows and text is added to the last block. The search for an open element looks at
`REACH` of them. A missing end tag of an element that is left out is searched for once per name. So time
is linear in the page.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.content.name_kernels import (
    IS_INLINE,
    IS_LEFT_OUT,
    IS_RAW,
    IS_VOID,
    MARKS,
    TAG_BITS,
    TAG_IDS,
    TAG_KEYS,
    TAG_MARKS,
    TAGS,
    UNSEEN,
    WORD_BITS,
    WORD_KEYS,
    WORD_MARKS,
)

(
    START,
    END,
    CHARS,
    WORDS,
    LINKED,
    LINKS,
    DIGITS,
    CAPITALS,
    STOPS,
    COMMAS,
    BARS,
    ELEMENT,
    INLINE_MARKS,
    BREAKS,
) = range(14)
COLUMNS = 14
"""Of a block: its place in the text, characters, words, characters within links, links, digits, capitals, full
stops and other ends of sentences, commas, bars and bullets, the row of its element, marks of inline elements in
it, line breaks."""

PARENT, TAG, OWN, ABOVE, SHAPE, DEPTH = range(6)
ROW = 6
"""Of an element: the row of its parent, its tag, its own marks, those of it and all above it, a hash of its tag
and its classes, its depth."""

TITLE_START, TITLE_END, LANG_START, LANG_END, FULL = range(5)
"""Of a page: where its title and the language of its root element stand, whether rows were lacking."""

_ALL = len(TAGS)
DEEP = 256
REACH = 64

_TAG_SLOTS = np.int64((1 << TAG_BITS) - 1)
_WORD_SLOTS = np.int64((1 << WORD_BITS) - 1)
_FNV = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_SPACE = np.zeros(256, np.bool_)
_SPACE[[9, 10, 12, 13, 32]] = True
_ENDS_NAME = _SPACE.copy()
_ENDS_NAME[[47, 62]] = True
_LOWER = np.arange(256).astype(np.uint8)
_LOWER[65:91] += 32
_LETTER = np.zeros(256, np.bool_)
_LETTER[65:91] = True
_LETTER[97:123] = True
_A, _BR, _HR, _TITLE, _HTML, _PRE, _P, _BODY, _HEAD, _SVG = (
    TAGS[name] for name in ("a", "br", "hr", "title", "html", "pre", "p", "body", "head", "svg")
)
_LI, _DT, _DD, _TR, _TD, _TH, _OPTION = (
    TAGS[name] for name in ("li", "dt", "dd", "tr", "td", "th", "option")
)
_UL, _OL, _DL, _TABLE, _MENU = (TAGS[name] for name in ("ul", "ol", "dl", "table", "menu"))
_TBODY, _THEAD, _TFOOT, _BUTTON = (TAGS[name] for name in ("tbody", "thead", "tfoot", "button"))
_UNSEEN = np.int64(1 << MARKS.index(UNSEEN))
_KEEPS_P = np.zeros(len(TAGS), np.bool_)
"""Elements that do not end an open paragraph: inline ones, and those that are not known."""
_KEEPS_P[0] = True
_KEEPS_P |= IS_INLINE
for _name in ("button", "br"):
    _KEEPS_P[TAGS[_name]] = True

_CLASS, _ID, _ROLE, _HIDDEN, _ARIA, _STYLE, _HREF, _LANG = (1, 2, 3, 4, 5, 6, 7, 8)


def _words(name: str) -> Any:
    return np.frombuffer(name.encode(), np.uint8)


_N_CLASS, _N_ID, _N_ROLE, _N_HIDDEN = (_words(name) for name in ("class", "id", "role", "hidden"))
_N_ARIA, _N_STYLE, _N_HREF, _N_LANG = (_words(name) for name in ("aria-hidden", "style", "href", "lang"))
_V_NONE = _words("display:none")
_NBSP = _words("&nbsp;")


@njit(cache=True, nogil=True)
def _is(data: Any, start: int, end: int, name: Any) -> bool:
    if end - start != name.size:
        return False
    for n in range(name.size):  # noqa: SIM110 (a kernel has no generators)
        if _LOWER[data[start + n]] != name[n]:
            return False
    return True


@njit(cache=True, nogil=True)
def _attribute(data: Any, start: int, end: int) -> int:
    """Which of the attributes that count this name is."""
    if end <= start:
        return 0
    first = _LOWER[data[start]]
    if first == 99:
        return _CLASS if _is(data, start, end, _N_CLASS) else 0
    if first == 105:
        return _ID if _is(data, start, end, _N_ID) else 0
    if first == 114:
        return _ROLE if _is(data, start, end, _N_ROLE) else 0
    if first == 104:
        if _is(data, start, end, _N_HREF):
            return _HREF
        return _HIDDEN if _is(data, start, end, _N_HIDDEN) else 0
    if first == 97:
        return _ARIA if _is(data, start, end, _N_ARIA) else 0
    if first == 115:
        return _STYLE if _is(data, start, end, _N_STYLE) else 0
    if first == 108:
        return _LANG if _is(data, start, end, _N_LANG) else 0
    return 0


@njit(cache=True, nogil=True)
def _word_mark(value: Any) -> Any:
    at = np.int64(value) & _WORD_SLOTS
    while WORD_KEYS[at] != np.uint64(0):
        if WORD_KEYS[at] == value:
            return WORD_MARKS[at]
        at = (at + 1) & _WORD_SLOTS
    return np.int64(0)


@njit(cache=True, nogil=True)
def _marks_of(data: Any, start: int, end: int) -> Any:
    """The marks of the words of an attribute's value."""
    marks = np.int64(0)
    value = _FNV
    length = 0
    small = False
    for at in range(start, min(end, start + 400)):
        byte = data[at]
        if not _LETTER[byte]:
            if length > 0:
                marks |= _word_mark(value)
            value, length, small = _FNV, 0, False
            continue
        if byte < 97 and small:
            marks |= _word_mark(value)
            value, length = _FNV, 0
        small = byte >= 97
        value = (value ^ np.uint64(_LOWER[byte])) * _PRIME
        length += 1
    if length > 0:
        marks |= _word_mark(value)
    return marks


@njit(cache=True, nogil=True)
def _hides(data: Any, start: int, end: int) -> bool:
    """Whether a style says display:none."""
    matched = 0
    for at in range(start, min(end, start + 400)):
        byte = _LOWER[data[at]]
        if _SPACE[byte]:
            continue
        if byte == _V_NONE[matched]:
            matched += 1
            if matched == _V_NONE.size:
                return True
        else:
            matched = 1 if byte == _V_NONE[0] else 0
    return False


@njit(cache=True, nogil=True)
def _closing(data: Any, at: int, stop: int, start: int, end: int) -> int:
    """Where the end tag begins whose name stands at start:end; -1 without one."""
    length = end - start
    while at + 2 + length < stop:
        if data[at] == 60 and data[at + 1] == 47:
            same = _ENDS_NAME[data[at + 2 + length]]
            n = 0
            while same and n < length:
                same = _LOWER[data[at + 2 + n]] == _LOWER[data[start + n]]
                n += 1
            if same:
                return at
            at += 2
        else:
            at += 1
    return -1


@njit(cache=True, nogil=True)
def cut(data: Any, text: Any, blocks: Any, elements: Any, page: Any) -> Any:
    """Cut a page into blocks; gives how many blocks and elements, and how long the text is."""
    stop = data.size
    stack = np.zeros(DEEP, np.int64)
    top = 0  # the place of the innermost element; stack[0] is the page
    elements[0, PARENT] = -1
    elements[0, TAG] = 0
    elements[0, OWN] = elements[0, ABOVE] = elements[0, SHAPE] = elements[0, DEPTH] = 0
    rows = 1
    count = 0  # blocks that are complete
    length = 0
    missing = np.zeros(_ALL, np.bool_)  # raw elements of that tag that have no end from here on
    for n in range(5):
        page[n] = -1
    page[FULL] = 0
    # the block at hand
    start = chars = words = linked = links = digits = capitals = stops = commas = bars = breaks = 0
    inline_marks = np.int64(0)
    gap = False  # white space was met
    line = False  # a br was met
    lines = 0  # br in a row
    link = False
    fresh_link = False
    pre = 0
    at = 0
    # The sentinel round at the end closes the last block.
    while at <= stop:
        ends = at == stop
        is_tag = False
        if not ends and data[at] == 60 and at + 1 < stop:
            following = data[at + 1]
            is_tag = _LETTER[following] or following == 47 or following == 33 or following == 63
        if not ends and not is_tag:
            # -- text
            byte = data[at]
            width = 1
            space = _SPACE[byte]
            if byte == 0xC2 and at + 1 < stop and data[at + 1] == 0xA0:
                space, width = True, 2
            elif byte == 38 and at + 5 < stop and data[at + 1] == 110 and _is(data, at, at + 6, _NBSP):
                space, width = True, 6
            if space:
                gap = True
                if pre > 0 and byte == 10:
                    line = True
                at += width
                continue
            if byte < 32 or byte == 127:
                at += 1
                continue
            if chars == 0:
                start = length
            elif line:
                text[length] = 10
                length += 1
                breaks += 1
            elif gap:
                text[length] = 32
                length += 1
            if chars == 0 or line or gap:
                words += 1
            gap = line = False
            lines = 0
            text[length] = byte
            length += 1
            at += 1
            if byte & 0xC0 != 0x80:
                chars += 1
                if link:
                    linked += 1
                    if fresh_link:
                        links += 1
                        fresh_link = False
                if 48 <= byte <= 57:
                    digits += 1
                elif 65 <= byte <= 90:
                    capitals += 1
                elif byte == 46 or byte == 33 or byte == 63:
                    stops += 1
                elif byte == 44 or byte == 59:
                    commas += 1
                elif byte == 124 or byte == 62:
                    bars += 1
                elif 0xE3 <= byte <= 0xED:
                    # Scripts without spaces: two characters count as a word.
                    if chars & 1:
                        words += 1
                    if at + 1 < stop and byte == 0xE3 and data[at] == 0x80:
                        if data[at + 1] == 0x82:
                            stops += 1
                        elif data[at + 1] == 0x81:
                            commas += 1
            continue
        # -- a tag, a comment, or the end
        boundary = ends
        opened = False
        closed = False
        tag = 0
        name_start = name_end = at
        own = np.int64(0)
        shape = _FNV
        if not ends:
            following = data[at + 1]
            if following == 33 or following == 63:
                if following == 33 and at + 3 < stop and data[at + 2] == 45 and data[at + 3] == 45:
                    at += 4
                    if at < stop and data[at] == 62:  # <!-->
                        at += 1
                        continue
                    while at < stop and not (data[at] == 62 and data[at - 1] == 45 and data[at - 2] == 45):
                        at += 1
                else:
                    while at < stop and data[at] != 62:
                        at += 1
                at += 1
                if at > stop:
                    at = stop
                continue
            closed = following == 47
            at += 2 if closed else 1
            if closed and (at >= stop or not _LETTER[data[at]]):
                while at < stop and data[at] != 62:
                    at += 1
                at += 1
                if at > stop:
                    at = stop
                continue
            name_start = at
            value = _FNV
            while at < stop and not _ENDS_NAME[data[at]]:
                value = (value ^ np.uint64(_LOWER[data[at]])) * _PRIME
                at += 1
            name_end = at
            slot = np.int64(value) & _TAG_SLOTS
            while TAG_KEYS[slot] != np.uint64(0):
                if TAG_KEYS[slot] == value:
                    tag = TAG_IDS[slot]
                    break
                slot = (slot + 1) & _TAG_SLOTS
            shape = value
            has_href = False
            # attributes
            while at < stop and data[at] != 62:
                if _SPACE[data[at]] or data[at] == 47:
                    at += 1
                    continue
                first = at
                at += 1
                while at < stop and not _ENDS_NAME[data[at]] and data[at] != 61:
                    at += 1
                last = at
                while at < stop and _SPACE[data[at]]:
                    at += 1
                value_start = value_end = at
                if at < stop and data[at] == 61:
                    at += 1
                    while at < stop and _SPACE[data[at]]:
                        at += 1
                    if at < stop and (data[at] == 34 or data[at] == 39):
                        quote = data[at]
                        at += 1
                        value_start = at
                        while at < stop and data[at] != quote:
                            at += 1
                        value_end = at
                        at += 1
                    else:
                        value_start = at
                        while at < stop and not _SPACE[data[at]] and data[at] != 62:
                            at += 1
                        value_end = at
                if closed:
                    continue
                which = _attribute(data, first, last)
                if which == 0:
                    continue
                if which <= _ROLE:
                    own |= _marks_of(data, value_start, value_end)
                    if which == _CLASS:
                        for n in range(value_start, min(value_end, value_start + 200)):
                            if not 48 <= data[n] <= 57:
                                shape = (shape ^ np.uint64(data[n])) * _PRIME
                elif which == _HIDDEN:
                    own |= _UNSEEN
                elif which == _ARIA:
                    if value_end - value_start == 4:
                        own |= _UNSEEN
                elif which == _STYLE:
                    if _hides(data, value_start, value_end):
                        own |= _UNSEEN
                elif which == _HREF:
                    has_href = True
                elif which == _LANG and tag == _HTML and page[LANG_START] < 0:
                    page[LANG_START], page[LANG_END] = value_start, value_end
            at += 1
            if at > stop:
                at = stop
            if tag == _A:
                link = has_href and not closed
                fresh_link = link
            if not closed and (IS_RAW[tag] or IS_LEFT_OUT[tag]):
                end = -1 if missing[tag] else _closing(data, at, stop, name_start, name_end)
                if end >= 0:
                    if tag == _TITLE and page[TITLE_START] < 0:
                        page[TITLE_START], page[TITLE_END] = at, end
                    at = end
                    boundary = tag != _SVG
                elif IS_RAW[tag] and tag != _TITLE:
                    at = stop  # as in the standard
                else:
                    missing[tag] = True
                if not boundary:
                    gap = True
                    continue
            elif tag == _BR:
                line = True
                lines += 1
                if lines < 2:
                    continue
                boundary = True
            elif IS_INLINE[tag]:
                if not closed:
                    inline_marks |= own
                continue
            elif IS_RAW[tag] or IS_LEFT_OUT[tag]:
                continue  # an end tag
            else:
                boundary = True
                opened = not closed and not IS_VOID[tag]
        if boundary:
            if chars > 0:
                if count < blocks.shape[0]:
                    row = blocks[count]
                    row[START], row[END], row[CHARS], row[WORDS] = start, length, chars, words
                    row[LINKED], row[LINKS], row[DIGITS], row[CAPITALS] = linked, links, digits, capitals
                    row[STOPS], row[COMMAS], row[BARS], row[BREAKS] = stops, commas, bars, breaks
                    row[ELEMENT], row[INLINE_MARKS] = stack[top], inline_marks
                    count += 1
                else:
                    page[FULL] = 1
                    blocks[count - 1, END] = length
                chars = words = linked = links = digits = capitals = stops = commas = bars = breaks = 0
            inline_marks = np.int64(0)
            gap = line = False
            lines = 0
            fresh_link = link
        if ends:
            break
        if opened:
            if top > 0 and not _KEEPS_P[tag] and elements[stack[top], TAG] == _P:
                top -= 1
            low = max(0, top - REACH)
            place = top
            if tag == _LI:
                while place > low:
                    other = elements[stack[place], TAG]
                    if other == _LI:
                        top = place - 1
                        break
                    if other in (_UL, _OL, _MENU):
                        break
                    place -= 1
            elif tag in (_DT, _DD):
                while place > low:
                    other = elements[stack[place], TAG]
                    if other in (_DT, _DD):
                        top = place - 1
                        break
                    if other == _DL:
                        break
                    place -= 1
            elif tag in (_TR, _TD, _TH, _TBODY):
                while place > low:
                    other = elements[stack[place], TAG]
                    if other == _TABLE:
                        break
                    if (
                        (other == _TR and (tag in (_TR, _TBODY)))
                        or ((other in (_TD, _TH)) and tag != _TBODY)
                        or ((other in (_TBODY, _THEAD)) and tag == _TBODY)
                    ):
                        top = place - 1
                    place -= 1
            if tag in (_HTML, _BODY, _HEAD):
                own = np.int64(0)  # words about the whole page say nothing of a part of it
            if top + 1 < DEEP:
                if rows < elements.shape[0]:
                    row = elements[rows]
                    above = stack[top]
                    row[PARENT], row[TAG] = above, tag
                    row[OWN] = own | TAG_MARKS[tag]
                    row[ABOVE] = row[OWN] | elements[above, ABOVE]
                    row[SHAPE] = np.int64(shape ^ (np.uint64(elements[above, SHAPE]) * _PRIME))
                    row[DEPTH] = elements[above, DEPTH] + 1
                    top += 1
                    stack[top] = rows
                    rows += 1
                    if tag == _PRE:
                        pre = rows  # any number above zero, until it is closed
                else:
                    page[FULL] = 1
        elif closed:
            place = top
            low = max(0, top - REACH)
            while place > low and elements[stack[place], TAG] != tag:
                other = elements[stack[place], TAG]
                if (other in (_TD, _TH, _TABLE)) and tag not in (_TABLE, _TR, _TBODY, _THEAD, _TFOOT):
                    place = low
                    break
                place -= 1
            if place > low:
                top = place - 1
            if tag == _PRE:
                pre = 0
    return count, rows, length
