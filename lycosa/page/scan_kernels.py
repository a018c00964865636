"""The scanner's kernel: one pass over the bytes of a page that follows the tokenizer of the HTML standard
(§13.2.5).

It gives no tokens and builds no tree. It writes a *tape* of integers about the elements that can hold a link
or say something of the page, in the order of their start tags:

    element   = tag bits text-start text-end alt-start alt-end count attribute{count}
    attribute = (id | flags << 8) start end

    tag       an id of `scan_names.ELEMENTS`
    bits      FOREIGN: the element is in SVG or MathML; IN_PAGE: its text lies in the page and not in the text
              buffer; TEXT_*: what its text holds
    text      of `a`: what follows until its end, tags and comments left out, white space folded, in the text
              buffer; of `title` and `style`: their content, as it stands in the page; else nothing (0, 0)
    alt       of `a`: the value of `alt` of the first img within it (-1: there is no img, or it has none)
    flags     AMP: the value holds `&` and may need decoding; HIGH: it holds bytes above 0x7F; NUL: it holds zeroes;
              BREAK: it holds tabs or line breaks; HASH: it holds `#`

What the tokenizer needs to know of the tree is kept in a small stack: whether we are in SVG or MathML (there
CDATA sections exist, and script, style and title hold markup like any other element) or in HTML again within
it.

Bounds: the page is read once, from front to back; no byte is looked at more often than a small constant
number of times (a raw text element that is never closed is searched for its end once, and then is the end of
the page). The tape and the text are as large as the caller made them: a full tape ends the reports, and is
told.

Left out on purpose, tested in `tests/page/test_scan.py`: formatting elements that the tree builder would open
again (an anchor that is not closed before its paragraph ends is one link here and two in the tree); start
tags that the tree builder ignores where they stand (frames outside framesets, forms within forms) are
reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.page.scan_names import (
    ALL_TAGS,
    ATTR_HIGHS,
    ATTR_IDS,
    ATTR_LOWS,
    ATTRIBUTES,
    BITS,
    ENDS_FOREIGN,
    MIX,
    REPORTED,
    TAG_HIGHS,
    TAG_IDS,
    TAG_LOWS,
    TAGS,
    WANTED,
)

FOREIGN, IN_PAGE, TEXT_AMP, TEXT_HIGH, TEXT_NUL, TEXT_LONG = 1, 2, 4, 8, 16, 32
AMP, HIGH, NUL, BREAK, HASH = 1, 2, 4, 8, 16
_FLAGS = np.zeros(256, np.int64)
_FLAGS[38], _FLAGS[128:], _FLAGS[0], _FLAGS[[9, 10, 13]], _FLAGS[35] = AMP, HIGH, NUL, BREAK, HASH
HEAD = 7
"""Integers of an element before its attributes."""
LONGEST = HEAD + 3 * 8
"""Integers of an element at most: none has more than eight attributes that are read."""
SHORTEST = 3
"""Bytes of the shortest tag, `<a>`: no page needs a longer tape than `HEAD` integers for so many bytes. An
attribute has at least as many bytes as it takes integers."""

_MIX = np.uint64(MIX)
_SHIFT = np.uint64(64 - BITS)
_SLOTS = np.int64((1 << BITS) - 1)
_THREE = np.uint64(3)
_A, _IMG, _IMAGE, _TITLE, _STYLE, _SCRIPT = (
    TAGS[name] for name in ("a", "img", "image", "title", "style", "script")
)
_TEXTAREA, _XMP, _NOEMBED, _IFRAME, _PLAINTEXT = (
    TAGS[name] for name in ("textarea", "xmp", "noembed", "iframe", "plaintext")
)
_SVG, _MATH, _FOREIGN_OBJECT, _DESC = (TAGS[name] for name in ("svg", "math", "foreignobject", "desc"))
_MI, _MTEXT = TAGS["mi"], TAGS["mtext"]
_TABLE, _TD, _TR = TAGS["table"], TAGS["td"], TAGS["tr"]
_P, _BR = ALL_TAGS.index("p"), ALL_TAGS.index("br")
_ALT = ATTRIBUTES.index("alt")
DEEP = 512
"""Elements that the stack of SVG and MathML holds."""
_SPACE = np.zeros(256, np.bool_)
"""What HTML calls white space."""
_SPACE[[9, 10, 12, 13, 32]] = True
FOLDED = np.zeros(256, np.bool_)
"""What a text is split at: Python's white space of ASCII."""
FOLDED[[9, 10, 11, 12, 13, 28, 29, 30, 31, 32]] = True
_ENDS_NAME = _SPACE.copy()
_ENDS_NAME[[47, 62]] = True  # / >
_ENDS_ATTRIBUTE = _ENDS_NAME.copy()
_ENDS_ATTRIBUTE[61] = True  # =
_LOWER = np.arange(256).astype(np.uint8)
_LOWER[65:91] += 32
_LOWER[0] = 255  # a name with a zero in it is none of ours
_USUAL = {"lt": 60, "gt": 62, "quot": 34, "apos": 39, "nbsp": 160}
_USUAL_WORDS = np.array([int.from_bytes(name.encode(), "little") for name in _USUAL], np.uint64)
_USUAL_CODES = np.array(list(_USUAL.values()), np.int64)
_LETTER = np.zeros(256, np.bool_)
_LETTER[65:91] = True
_LETTER[97:123] = True


@njit(cache=True, nogil=True, inline="always")
def _find(lows: Any, highs: Any, ids: Any, low: Any, high: Any) -> Any:
    """The id of a name by its words; -1: none of ours."""
    at = np.int64(((low ^ (high * _THREE)) * _MIX) >> _SHIFT)
    while ids[at] >= 0:
        if lows[at] == low and highs[at] == high:
            return ids[at]
        at = (at + 1) & _SLOTS
    return -1


@njit(cache=True, nogil=True)
def _is_end_tag(data: Any, at: int, stop: int, low: Any, length: int) -> Any:
    """Whether `</name` and what ends a name stands at a place; the name has at most eight letters."""
    if at + 2 + length >= stop or data[at + 1] != 47:
        return False
    word = np.uint64(0)
    for n in range(length):
        word |= np.uint64(_LOWER[data[at + 2 + n]]) << np.uint64(8 * n)
    return word == low and _ENDS_NAME[data[at + 2 + length]]


@njit(cache=True, nogil=True)
def _raw_end(data: Any, at: int, stop: int, low: Any, length: int) -> int:
    """Where the end tag of a raw text element begins; the end of the page if there is none."""
    while at < stop:
        if data[at] == 60 and _is_end_tag(data, at, stop, low, length):
            return at
        at += 1
    return stop


@njit(cache=True, nogil=True)
def _script_end(data: Any, at: int, stop: int, low: Any) -> int:
    """Where the end tag of a script begins (§13.2.5.4 and what follows it: comments within scripts)."""
    escaped = 0  # 1: after <!--, 2: after <script within that
    dashes = 0
    while at < stop:
        byte = data[at]
        if byte == 45:
            dashes += 1
            at += 1
            continue
        if byte == 62 and escaped and dashes >= 2:
            escaped = 0
        elif byte == 60:
            if escaped == 0:
                if _is_end_tag(data, at, stop, low, 6):
                    return at
                if at + 3 < stop and data[at + 1] == 33 and data[at + 2] == 45 and data[at + 3] == 45:
                    escaped = 1
                    dashes = 2
                    at += 4
                    continue
            elif escaped == 1:
                if _is_end_tag(data, at, stop, low, 6):
                    return at
                if at + 7 < stop and _ENDS_NAME[data[at + 7]]:
                    word = np.uint64(0)
                    for n in range(6):
                        word |= np.uint64(_LOWER[data[at + 1 + n]]) << np.uint64(8 * n)
                    if word == low:
                        escaped = 2
                        dashes = 0
                        at += 8  # what ends the name is consumed with it
                        continue
            elif _is_end_tag(data, at, stop, low, 6):
                escaped = 1
                dashes = 0
                at += 9
                continue
        dashes = 0
        at += 1
    return stop


@njit(cache=True, nogil=True)
def _comment_end(data: Any, at: int, stop: int) -> int:
    """Behind the comment whose `<!--` ends at `at` (§13.2.5.43 ff.)."""
    if at < stop and data[at] == 62:
        return at + 1
    if at + 1 < stop and data[at] == 45 and data[at + 1] == 62:
        return at + 2
    while at < stop:
        if data[at] == 45 and at + 1 < stop and data[at + 1] == 45:
            after = at + 2
            while after < stop and data[after] == 45:
                after += 1
            if after < stop and data[after] == 62:
                return after + 1
            if after + 1 < stop and data[after] == 33 and data[after + 1] == 62:
                return after + 2
            at = after
            continue
        at += 1
    return stop


@njit(cache=True, nogil=True)
def _reference(data: Any, at: int, stop: int) -> tuple[int, int]:
    """The character that the reference at `&` stands for, and its length, if it is a usual one."""
    word = np.uint64(0)
    end = at + 1
    while end < stop and end - at <= 7 and data[end] != 59:
        word |= np.uint64(data[end]) << np.uint64(8 * (end - at - 1))
        end += 1
    if end >= stop or data[end] != 59:
        return 0, 0
    length = end + 1 - at
    if data[at + 1] == 35:
        base, first = (16, at + 3) if data[at + 2] | 32 == 120 else (10, at + 2)
        code = 0
        if first == end:
            return 0, 0
        for n in range(first, end):
            digit = data[n]
            if 48 <= digit <= 57:
                digit -= 48
            elif base == 16 and 97 <= digit | 32 <= 102:
                digit = (digit | 32) - 87
            else:
                return 0, 0
            code = code * base + digit
        if (32 <= code < 127 and code != 38) or code == 160:
            return code, length
        return 0, 0
    for n in range(len(_USUAL_WORDS)):
        if word == _USUAL_WORDS[n]:
            return _USUAL_CODES[n], length
    return 0, 0


@njit(cache=True, nogil=True)
def add_text(data: Any, start: int, stop: int, texts: Any, state: Any, most: int) -> None:
    """Add a run of text to that of the open anchor, folded; `state` is [end, begin, bits, pending space].

    References to ASCII characters but `&` itself are decoded; others are left for whoever reads the text.
    """
    end, begin = state[0], state[1]
    bits, space = state[2], state[3]
    at = start
    while at < stop:
        byte = data[at]
        length = 1
        if byte == 38:
            code, length = _reference(data, at, stop)
            if length:
                byte = code
            else:
                bits |= TEXT_AMP
                length = 1
        at += length
        if byte == 160 and length > 1:
            space = 1
            continue
        if FOLDED[byte]:
            space = 1
            continue
        if end - begin >= most:
            bits |= TEXT_LONG
            break
        if byte > 127:
            bits |= TEXT_HIGH
        elif byte == 0:
            bits |= TEXT_NUL
        if space:
            if end > begin:
                texts[end] = 32
                end += 1
            space = 0
        texts[end] = byte
        end += 1
    state[0], state[2], state[3] = end, bits, space


@njit(cache=True, nogil=True)
def scan(
    data: Any, stop: int, xml: bool, most: int, tape: Any, texts: Any, stack: Any
) -> tuple[int, int, int]:
    """Scan `data[:stop]`; returns the tape's length, that of the text buffer, and whether the tape was full.

    `most` bytes of an anchor's text are kept; `xml`: an empty-element tag has no content, whatever the element.
    `texts` must be as long as the page, and `stack` have `DEEP` places.
    """
    end = 0
    full = 0
    state = np.zeros(4, np.int64)
    anchor = -1  # where the open anchor stands on the tape
    anchor_table = 0
    sheet = -1  # an open style of SVG
    tables = 0
    depth = 0  # of the stack: SVG, MathML and what is HTML within them, by the tag that opened it
    foreign = False
    opened_tags = np.zeros(
        len(ENDS_FOREIGN), np.int32
    )  # start tags without an end tag yet, of those that end SVG
    at = 0
    while at < stop:
        # Text, up to the next tag.
        start = at
        while at < stop and data[at] != 60:
            at += 1
        if anchor >= 0 and at > start:
            add_text(data, start, at, texts, state, most)
        if at + 1 >= stop or (at + 2 == stop and data[at + 1] == 47):
            if anchor >= 0:
                add_text(data, at, stop, texts, state, most)
            break
        byte = data[at + 1]
        opened = at
        ending = False
        if byte == 47:
            if not _LETTER[data[at + 2]]:
                if data[at + 2] == 62:
                    at += 3
                    continue
                at += 2
                while at < stop and data[at] != 62:
                    at += 1
                at += 1
                continue
            ending = True
            at += 2
        elif byte == 33:
            if at + 3 < stop and data[at + 2] == 45 and data[at + 3] == 45:
                at = _comment_end(data, at + 4, stop)
                continue
            if foreign and at + 8 < stop and data[at + 2] == 91:
                cdata = (
                    data[at + 3] == 67
                    and data[at + 4] == 68
                    and data[at + 5] == 65
                    and data[at + 6] == 84
                    and data[at + 7] == 65
                    and data[at + 8] == 91
                )
                if cdata:
                    at += 9
                    start = at
                    while at + 2 < stop and not (
                        data[at] == 93 and data[at + 1] == 93 and data[at + 2] == 62
                    ):
                        at += 1
                    if at + 2 >= stop:
                        at = stop
                    if anchor >= 0:
                        add_text(data, start, at, texts, state, most)
                    at += 3
                    continue
            at += 2
            while at < stop and data[at] != 62:
                at += 1
            at += 1
            continue
        elif byte == 63:
            at += 2
            while at < stop and data[at] != 62:
                at += 1
            at += 1
            continue
        elif not _LETTER[byte]:
            if anchor >= 0:
                add_text(data, at, at + 1, texts, state, most)
            at += 1
            continue
        else:
            at += 1
        # A tag: its name.
        low, high = np.uint64(0), np.uint64(0)
        length = 0
        while at < stop and not _ENDS_NAME[data[at]]:
            if length < 8:
                low |= np.uint64(_LOWER[data[at]]) << np.uint64(8 * length)
            elif length < 16:
                high |= np.uint64(_LOWER[data[at]]) << np.uint64(8 * (length - 8))
            length += 1
            at += 1
        tag = _find(TAG_LOWS, TAG_HIGHS, TAG_IDS, low, high) if length <= 16 else -1
        if tag == _IMAGE and not foreign:
            tag = _IMG
        reported = not ending and 0 <= tag < REPORTED
        if reported and end + LONGEST > len(tape):
            full = 1
            reported = False
        wanted = WANTED[tag] if reported else np.uint32(0)
        # Its attributes.
        count = 0
        place = end + HEAD
        slash = False
        alt = -1
        alt_end = -1
        closed = False
        while at < stop:
            byte = data[at]
            if byte == 62:
                closed = True
                at += 1
                break
            if _SPACE[byte]:
                slash = False
                at += 1
                continue
            if byte == 47:
                slash = True
                at += 1
                continue
            slash = False
            name_low, name_high = np.uint64(_LOWER[byte]), np.uint64(0)
            name_length = 1  # the first byte belongs to the name even if it is =
            at += 1
            while at < stop and not _ENDS_ATTRIBUTE[data[at]]:
                if name_length < 8:
                    name_low |= np.uint64(_LOWER[data[at]]) << np.uint64(8 * name_length)
                elif name_length < 16:
                    name_high |= np.uint64(_LOWER[data[at]]) << np.uint64(8 * (name_length - 8))
                name_length += 1
                at += 1
            while at < stop and _SPACE[data[at]]:
                at += 1
            attribute = -1
            if wanted and name_length <= 16:
                attribute = _find(ATTR_LOWS, ATTR_HIGHS, ATTR_IDS, name_low, name_high)
                if attribute >= 0 and not (wanted >> np.uint32(attribute)) & np.uint32(1):
                    attribute = -1
            flags = 0
            value, value_end = at, at
            if at < stop and data[at] == 61:
                at += 1
                while at < stop and _SPACE[data[at]]:
                    at += 1
                if at >= stop:
                    break
                quote = data[at]
                if quote == 34 or quote == 39:
                    at += 1
                    value = at
                    if attribute < 0:
                        while at < stop and data[at] != quote:
                            at += 1
                    else:
                        while at < stop and data[at] != quote:
                            flags |= _FLAGS[data[at]]
                            at += 1
                    value_end = at
                    if at >= stop:
                        break
                    at += 1
                elif quote == 62:
                    value, value_end = at, at
                else:
                    value = at
                    while at < stop and not _SPACE[data[at]] and data[at] != 62:
                        flags |= _FLAGS[data[at]]
                        at += 1
                    value_end = at
            if attribute < 0:
                continue
            wanted &= ~(np.uint32(1) << np.uint32(attribute))  # the first of a name counts
            tape[place] = attribute | flags << 8
            tape[place + 1] = value
            tape[place + 2] = value_end
            place += 3
            count += 1
            if attribute == _ALT:
                alt, alt_end = value, value_end
        if not closed:
            break  # the page ends within a tag: there is no tag
        if tag < 0:
            continue
        # What the tag means for what follows.
        if ending:
            if tag == _A:
                if anchor >= 0:
                    tape[anchor + 1] |= state[2]
                    tape[anchor + 3] = state[0]
                    anchor = -1
            elif tag == _STYLE and sheet >= 0:
                tape[sheet + 3] = opened
                sheet = -1
            elif _TABLE <= tag <= _TR:
                if anchor >= 0 and anchor_table == tables and tables > 0:
                    tape[anchor + 1] |= state[2]
                    tape[anchor + 3] = state[0]
                    anchor = -1
                if tag == _TABLE and tables > 0:
                    tables -= 1
            is_open = tag in (_P, _BR) or opened_tags[tag] > 0
            if opened_tags[tag] > 0:
                opened_tags[tag] -= 1
            if depth:
                top = stack[depth - 1]
                if top == tag:
                    depth -= 1
                elif foreign and is_open and ENDS_FOREIGN[tag]:
                    while depth and (stack[depth - 1] == _SVG or stack[depth - 1] == _MATH):
                        depth -= 1
                foreign = depth > 0 and (stack[depth - 1] == _SVG or stack[depth - 1] == _MATH)
            continue
        if ENDS_FOREIGN[tag]:
            opened_tags[tag] += 1
        if foreign:
            if ENDS_FOREIGN[tag]:
                while depth and (stack[depth - 1] == _SVG or stack[depth - 1] == _MATH):
                    depth -= 1
                foreign = False
            elif not slash and depth < DEEP:
                inner = tag in (_SVG, _MATH)
                if stack[depth - 1] == _SVG:
                    inner = inner or tag in (_FOREIGN_OBJECT, _DESC, _TITLE)
                else:
                    inner = inner or _MI <= tag <= _MTEXT
                if inner:
                    stack[depth] = tag
                    depth += 1
        elif (tag in (_SVG, _MATH)) and not slash and depth < DEEP:
            stack[depth] = tag
            depth += 1
        in_foreign = foreign
        foreign = depth > 0 and (stack[depth - 1] == _SVG or stack[depth - 1] == _MATH)
        if _TABLE <= tag <= _TR:
            if tag == _TABLE:
                tables += 1
            elif anchor >= 0 and anchor_table == tables and tables > 0:
                tape[anchor + 1] |= state[2]
                tape[anchor + 3] = state[0]
                anchor = -1
        if tag == _A and anchor >= 0 and not in_foreign:
            tape[anchor + 1] |= state[2]
            tape[anchor + 3] = state[0]
            anchor = -1
        if tag == _IMG and anchor >= 0 and tape[anchor + 4] == -2:
            tape[anchor + 4], tape[anchor + 5] = alt, alt_end
        written = -1
        if reported:
            written = end
            tape[end] = tag
            tape[end + 1] = FOREIGN if in_foreign else 0
            tape[end + 2] = tape[end + 3] = 0
            tape[end + 4] = tape[end + 5] = -1
            tape[end + 6] = count
            end = place
            if tag == _A and not (slash and (xml or in_foreign)):
                if anchor >= 0:  # an anchor of SVG within another
                    tape[anchor + 1] |= state[2]
                    tape[anchor + 3] = state[0]
                anchor = written
                anchor_table = tables
                tape[anchor + 4] = -2
                state[1], state[2], state[3] = state[0], 0, 0
                tape[anchor + 2] = tape[anchor + 3] = state[0]
        if in_foreign:
            if tag == _STYLE and written >= 0 and not slash:
                sheet = written
                tape[sheet + 1] |= IN_PAGE
                tape[sheet + 2] = tape[sheet + 3] = at
            continue
        if xml and slash:
            continue
        if tag == _SCRIPT:
            start = at
            at = _script_end(data, at, stop, low)
            if anchor >= 0:
                add_text(data, start, at, texts, state, most)
        elif tag in (_TITLE, _STYLE, _IFRAME, _XMP, _NOEMBED, _TEXTAREA):
            start = at
            at = _raw_end(data, at, stop, low, length)
            if written >= 0 and (tag in (_TITLE, _STYLE)):
                tape[written + 1] |= IN_PAGE
                tape[written + 2], tape[written + 3] = start, at
            if anchor >= 0:
                add_text(data, start, at, texts, state, most)
        elif tag == _PLAINTEXT:
            if anchor >= 0:
                add_text(data, at, stop, texts, state, most)
            break
    if anchor >= 0:
        tape[anchor + 1] |= state[2]
        tape[anchor + 3] = state[0]
    return end, state[0], full
