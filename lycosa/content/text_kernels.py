"""The kernel that copies the text of chosen blocks, cleaned: see `main_text`.

Blocks with rare character references, or with white space or control characters beyond ASCII, are *odd*: they are
few, are only listed here, and are left to plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.content.block_kernels import END, START

SEPARATOR = 31
"""Between blocks. No text has it: `block_kernels.cut` leaves control characters out."""
_NAMES = np.array([[*name.ljust(5)] for name in (b"amp;", b"lt;", b"gt;", b"quot;", b"#39;")], np.uint8)
_SIZES = np.array([4, 3, 3, 5, 4])
_SIGNS = np.frombuffer(b"&<>\"'", np.uint8)
_LITERAL = np.zeros(256, np.bool_)
_LITERAL[[9, 10, 12, 32, 60, 38, 59]] = True
"""After a `&` that begins no reference."""


@njit(cache=True, nogil=True)
def _named(text: Any, at: int, stop: int) -> int:
    """Which of the common references is named here; -1 if none is."""
    for which in range(_SIZES.size):
        size = _SIZES[which]
        if at + size > stop:
            continue
        n = 0
        while n < size and text[at + n] == _NAMES[which, n]:
            n += 1
        if n == size:
            return which
    return -1


@njit(cache=True, nogil=True)
def _number(text: Any, at: int, stop: int) -> Any:
    """The character of a decimal reference whose digits begin here, and where it ends; 0 if it is odd."""
    value = 0
    first = at
    while at < stop and at - first < 6 and 48 <= text[at] <= 57:
        value = 10 * value + (text[at] - 48)
        at += 1
    if at in (first, stop) or text[at] != 59:
        return 0, at
    plain = 0x21 <= value <= 0x7E or 0xA1 <= value < 0x1680 or 0x2010 <= value <= 0x2027
    plain = plain or 0x2030 <= value <= 0x205E or 0x2070 <= value < 0x3000 or 0x3001 <= value < 0xD800
    return value if plain else 0, at + 1


@njit(cache=True, nogil=True)
def gather(text: Any, blocks: Any, numbers: Any, out: Any, odd: Any) -> Any:
    """Copy the texts of some blocks with a separator between; gives the length, and how many are odd or empty.

    `odd` says which blocks; `out` has room for the whole text and a separator for each block.
    """
    length = 0
    strange = 0
    for number in range(numbers.size):
        if number > 0:
            out[length] = SEPARATOR
            length += 1
        begun = length
        at, stop = blocks[numbers[number], START], blocks[numbers[number], END]
        is_odd = False
        while at < stop:
            byte = text[at]
            if byte == 38:
                if at + 1 < stop and not _LITERAL[text[at + 1]]:
                    which = _named(text, at + 1, stop)
                    found = which >= 0
                    if found:
                        byte = _SIGNS[which]
                        at += _SIZES[which]
                    elif text[at + 1] == 35:
                        value, after = _number(text, at + 2, stop)
                        if value >= 0x80:
                            if value < 0x800:
                                out[length] = 0xC0 | value >> 6
                            else:
                                out[length] = 0xE0 | value >> 12
                                out[length + 1] = 0x80 | (value >> 6 & 0x3F)
                                length += 1
                            length += 1
                            byte = np.uint8(0x80 | (value & 0x3F))
                            at = after - 1
                            found = True
                        elif value > 0:
                            byte = np.uint8(value)
                            at = after - 1
                            found = True
                    is_odd |= not found
            elif byte >= 0xC2:
                if byte == 0xC2:
                    is_odd |= at + 1 < stop and text[at + 1] < 0xA0
                elif byte == 0xE2:
                    if at + 2 < stop:
                        low = text[at + 2]
                        if text[at + 1] == 0x80:
                            is_odd |= low <= 0x8A or 0xA8 <= low <= 0xA9 or low == 0xAF
                        else:
                            is_odd |= text[at + 1] == 0x81 and low == 0x9F
                elif byte == 0xE1:
                    is_odd |= at + 2 < stop and text[at + 1] == 0x9A and text[at + 2] == 0x80
                elif byte == 0xE3:
                    is_odd |= at + 2 < stop and text[at + 1] == 0x80 and text[at + 2] == 0x80
                elif byte == 0xEF:
                    is_odd |= at + 2 < stop and text[at + 1] == 0xBF and text[at + 2] >= 0xBE
            out[length] = byte
            length += 1
            at += 1
        # The sign that documentation puts after headings to link to them.
        if length >= begun + 2 and out[length - 2] == 0xC2 and out[length - 1] == 0xB6:
            length -= 2
            while length > begun and (out[length - 1] == 32 or out[length - 1] == 10):
                length -= 1
        odd[number] = is_odd
        strange += is_odd or length == begun
    return length, strange
