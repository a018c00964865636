"""Kernels of the digest of content: which blocks count, and their normal form. See `change`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.content.block_kernels import (
    ABOVE,
    CHARS,
    ELEMENT,
    END,
    INLINE_MARKS,
    LINKED,
    OWN,
    START,
    WORDS,
)
from lycosa.content.fnv import fnv
from lycosa.content.name_kernels import MARKS
from lycosa.content.sketch_kernels import mixed

_TIMES = (
    "january february march april may june july august september october november december jan feb mar apr jun "
    "jul aug "
    "sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur "
    "thurs fri "
    "sat sun am pm gmt utc cet cest est edt pst pdt st nd rd th ago today yesterday tonight noon midnight "
    "januar februar märz mai juni juli oktober dezember montag dienstag mittwoch donnerstag freitag samstag "
    "sonntag uhr "
    "heute gestern janvier février mars avril juin juillet août septembre octobre novembre décembre lundi mardi "
    "mercredi jeudi vendredi samedi dimanche hier enero febrero marzo abril mayo junio julio agosto septiembre "
    "octubre "
    "noviembre diciembre lunes martes miércoles jueves viernes sábado domingo hoy ayer"
)
"""Words of dates and times of day: they never count."""

_UNITS = (
    "second seconds sec secs minute minutes min mins hour hours hr hrs day days week weeks month months year years "
    "views view visits visitors visitor hits users user guests guest members member online followers follower "
    "likes "
    "like shares comments comment replies reply votes vote points point downloads download subscribers reads times "
    "reactions retweets posts results items sold left available total page ms queries rating ratings reviews stars "
    "stunden minuten sekunden tage aufrufe kommentare mal vues commentaires heures jours minutos horas visitas"
)
"""Words beside which a number is a counter or a span of time; after a number they are ignored as well."""


def _set(words: str) -> Any:
    keys = np.zeros(1024, np.uint64)
    for word in dict.fromkeys(words.split()):
        key = fnv(word.encode())
        at = key & 1023
        while keys[at]:
            at = (at + 1) & 1023
        keys[at] = key
    return keys


_TIME_KEYS, _UNIT_KEYS = _set(_TIMES), _set(_UNITS)
NO_NAMES = np.zeros(0, np.uint64)
_FNV = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


def _mask(names: str) -> Any:
    return np.int64(sum(1 << MARKS.index(name) for name in names.split()))


_OUT = _mask(
    "nav footer aside form button navigation foot share advert overlay account letter pages unseen filters"
)
_SIDE = _mask("side related labels")
_HEADER = _mask("header head")
_MAIN = _mask("main article")
_SOFT = _mask("form unseen filters")
_DATED = _mask("dated")

FEW = 8
"""A block of fewer words is a label rather than prose: numbers in it are counters, dates, positions."""
LONG = 12
"""So many letters and digits mixed, or more, are a nonce or an id."""

_NOTHING, _WORD, _NUMBER, _TIME, _UNIT, _KEPT = range(6)


@njit(cache=True, nogil=True)
def _has(keys: Any, value: Any) -> bool:
    at = np.int64(value) & 1023
    while keys[at] != np.uint64(0):
        if keys[at] == value:
            return True
        at = (at + 1) & 1023
    return False


@njit(cache=True, nogil=True)
def choose(blocks: Any, elements: Any, chosen: Any) -> int:
    """Mark the blocks that count; returns how many words they have.

    First blocks outside of the parts that are on every page of a site, if they are mostly not links; if they have
    next to no words, links too (a page that is a list), then sidebars; if there is still nothing, every block.
    Sidebars come late, since on a page of a few words ("there are no events") their rotating content would count.
    """
    for level in range(4):
        words = 0
        for n in range(blocks.shape[0]):
            row = blocks[n]
            marks = elements[row[ELEMENT], ABOVE]
            out = _OUT if level == 0 else _OUT & ~_SOFT
            if marks & _MAIN == 0:
                out |= _HEADER
            if level <= 1:
                out |= _SIDE
            near = elements[row[ELEMENT], OWN] | row[INLINE_MARKS]
            use = marks & out == 0 and (near & _DATED == 0 or row[WORDS] >= FEW)
            if level == 0 and 2 * row[LINKED] > row[CHARS]:
                use = False
            if level == 3:
                use = True
            chosen[n] = use
            if use:
                words += row[WORDS]
        if words >= (12 if level == 1 else 20):
            return words
    return words


@njit(cache=True, nogil=True)
def _token(text: Any, at: int, end: int) -> Any:
    """The hash of the next token, counts of its kinds of characters, and where it ends; without letters and
    figures there is no token."""
    value = _FNV
    letters = figures = points = seps = signs = 0
    while at < end:
        byte = text[at]
        if 65 <= byte <= 90:
            byte += 32
        if 97 <= byte <= 122:
            letters += 1
        elif 48 <= byte <= 57:
            figures += 1
        elif byte == 36:  # $
            signs += 1
        elif byte >= 0x80:
            if byte == 0xE2 and at + 2 < end and text[at + 1] == 0x80:
                at += 2
                break
            if (
                byte == 0xC2
                and at + 1 < end
                and text[at + 1] not in (0xA2, 0xA3, 0xA5, 0xAA, 0xB2, 0xB3, 0xB9, 0xBA)
            ):
                at += 1
                break
            letters += 1
        elif figures > 0 and letters == 0 and at + 1 < end and 48 <= text[at + 1] <= 57:
            if byte == 46:
                points += 1
            elif byte == 44:
                at += 1
                continue
            elif byte == 58 or byte == 47 or byte == 45:
                seps += 1
            else:
                break
        elif figures > 0 and byte == 37:  # %
            signs += 1
        elif byte == 39 and letters > 0:
            at += 1  # don't is one word, however its apostrophe is written
            continue
        elif byte == 38:  # a character reference
            n = at + 1
            while n < end and n < at + 10 and text[n] != 59 and text[n] != 32:
                n += 1
            if n < end and text[n] == 59:
                at = n
            break
        else:
            break
        value = (value ^ np.uint64(byte)) * _PRIME
        at += 1
    return value, letters, figures, points, seps, signs, at + 1


@njit(cache=True, nogil=True)
def tokens(text: Any, table: Any) -> int:
    """Enter the tokens of a short text in a table, which is never more than half full; returns how many."""
    slots = np.uint64(table.size - 1)
    count = 0
    at = 0
    while at < text.size and 2 * count < table.size:
        value, letters, figures, _points, _seps, _signs, at = _token(text, at, text.size)
        if letters + figures == 0:
            continue
        place = value & slots
        while table[place] != np.uint64(0) and table[place] != value:
            place = (place + np.uint64(1)) & slots
        count += table[place] == np.uint64(0)
        table[place] = value
    return count


@njit(cache=True, nogil=True)
def normal(text: Any, start: int, end: int, words: int, names: Any, without: bool) -> Any:
    """The hash of a block's normal form, 0 if it is empty; and how many of its tokens are in the table `names`,
    which are left out if `without`. The table may be empty."""
    total = _FNV
    left = met = 0
    prose = words >= FEW
    slots = np.uint64(max(names.size, 1) - 1)
    number = np.uint64(0)  # one that waits for the word after it
    after_number = after_unit = False
    at = start
    while at <= end:
        value, letters, figures, points, seps, signs, at = _token(text, at, end)
        if names.size > 0 and letters + figures > 0:
            place = value & slots
            while names[place] != np.uint64(0) and names[place] != value:
                place = (place + np.uint64(1)) & slots
            if names[place] == value:
                met += 1
                if without:
                    letters = figures = 0
        # -- what it is
        kind = _NOTHING
        if figures > 0:
            if letters > 0:
                kind = _KEPT if letters + figures < LONG else _NOTHING
                if kind == _NOTHING:
                    continue
            elif signs > 0 or (points == 1 and seps == 0):
                kind = _KEPT
            elif seps > 0 or (points > 1 and figures >= 6):
                kind = _TIME
            else:
                kind = _NUMBER if prose else _TIME
        elif letters > 0:
            if _has(_TIME_KEYS, value):
                kind = _TIME
            elif _has(_UNIT_KEYS, value):
                kind = _UNIT
            else:
                kind = _WORD
        elif at <= end:
            continue
        # -- the number before it
        if number != np.uint64(0) and (kind != _NOTHING or at > end):
            if kind != _UNIT and kind != _TIME:
                total = (total ^ number) * _PRIME
                left += 1
            number = np.uint64(0)
        if kind in (_WORD, _KEPT):
            total = (total ^ value) * _PRIME
            left += 1
        elif kind == _UNIT:
            if not after_number:
                total = (total ^ value) * _PRIME
                left += 1
        elif kind == _NUMBER and not after_unit:
            number = value
        after_unit = kind in (_UNIT, _TIME)
        after_number = kind in (_NUMBER, _TIME)
    if left == 0:
        return np.uint64(0), met
    return mixed(total), met


@njit(cache=True, nogil=True)
def digest(text: Any, blocks: Any, chosen: Any) -> Any:
    """The sum of the hashes of all chosen blocks; 0 if there is nothing."""
    total = np.uint64(0)
    for n in range(blocks.shape[0]):
        if chosen[n]:
            total += normal(text, blocks[n, START], blocks[n, END], blocks[n, WORDS], NO_NAMES, False)[0]
    return total
