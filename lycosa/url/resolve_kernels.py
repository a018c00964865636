"""Resolving plain hrefs in place: the pending entries of a memo get their canonical URLs without a parser.

`resolve` handles an href if each of its bytes stands for itself in the canonical form (`lycosa.url.canonical`), so
that it need only be joined with the base, and `.` and `..` removed (URL living standard, "path state"):

    href    = [ "http://" name | "https://" name ] "/" path [ "?" query ]     absolute
            | "/" path [ "?" query ]                                           below the site of the base
            | path [ "?" query ]                                               below its directory
    name    = labels of lower-case letters, digits, "-" and "_", the last one of letters; none begins with "xn--"
    path    = letters, digits and -._~!$()*+,;=:@/%&
    query   = the same, and "?"

with these exceptions, which need the parser: a colon in the first segment of a relative path (a scheme), `%2e` in a
path (a dot), every character reference but `&amp;`, and a URL of more than `LONGEST` bytes. Other hrefs stay
pending.

`canonicalise` is the plain path; the tests check that the two give the same results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.url.key_kernels import HIGH_16, LOW_48, xxh64
from lycosa.url.memo_kernels import PENDING

LONGEST = 2_000
"""The most bytes of a URL made here; a page may hold thousands of longer ones, which the parser limits."""

_AMP, _SLASH, _COLON, _QUESTION, _DOT, _PERCENT = 38, 47, 58, 63, 46, 37
_PLAIN = np.zeros(256, np.bool_)
for _byte in b"-._~!$()*+,;=:@/%&?":
    _PLAIN[_byte] = True
_NAME = np.zeros(256, np.bool_)
for _byte in b"-_.":
    _NAME[_byte] = True
for _first, _last in (b"09", b"az", b"AZ"):
    _PLAIN[_first : _last + 1] = True
    if _first != b"A"[0]:
        _NAME[_first : _last + 1] = True
_HTTP = np.frombuffer(b"http", np.uint8).copy()
_REFERENCE = np.frombuffer(b"amp;", np.uint8).copy()


@njit(cache=True, nogil=True)
def _is_at(data: Any, at: int, stop: int, word: Any) -> bool:
    if stop - at < len(word):
        return False
    same = True
    for n in range(len(word)):
        same = same and data[at + n] == word[n]
    return same


@njit(cache=True, nogil=True)
def _name_end(data: Any, start: int, stop: int) -> int:
    """Where a plain host name ends, which must be before a slash; -1 if it is not plain."""
    label = start
    letters = True
    at = start
    while at < stop and data[at] != _SLASH:
        byte = data[at]
        if not _NAME[byte]:
            return -1
        if byte == _DOT:
            if at == label:
                return -1
            label = at + 1
            letters = True
        else:
            letters = letters and byte >= 97
            if at == label + 3 and byte == 45 and data[label] == 120 and data[label + 1] == 110:
                return -1  # "xn--", or near enough
        at += 1
    if at in (stop, label) or not letters:
        return -1
    return at


@njit(cache=True, nogil=True)
def _join(data: Any, start: int, stop: int, out: Any, at: int, root: int) -> int:
    """Write a path and query behind `out[:at]`, which ends with a slash; returns where they end, or -1.

    `root` is the place after the first slash of the path: no `..` leads above it.
    """
    while start < stop and data[start] != _QUESTION:
        segment = at
        odd = False
        while start < stop and data[start] != _SLASH and data[start] != _QUESTION:
            byte = data[start]
            if byte == _AMP:
                if not _is_at(data, start + 1, stop, _REFERENCE):
                    return -1
                start += len(_REFERENCE)
            elif byte == _PERCENT:
                odd = odd or (start + 2 < stop and data[start + 1] == 50 and data[start + 2] | 32 == 101)
            out[at] = byte
            at += 1
            start += 1
        if odd:
            return -1
        size = at - segment
        if size == 1 and out[segment] == _DOT:
            at = segment
        elif size == 2 and out[segment] == _DOT and out[segment + 1] == _DOT:
            at = segment
            if at > root:
                at -= 1
                while out[at - 1] != _SLASH:
                    at -= 1
        elif start < stop and data[start] == _SLASH:
            out[at] = _SLASH
            at += 1
        if start < stop and data[start] == _SLASH:
            start += 1
    while start < stop:
        byte = data[start]
        if byte == _AMP:
            if not _is_at(data, start + 1, stop, _REFERENCE):
                return -1
            start += len(_REFERENCE)
        out[at] = byte
        at += 1
        start += 1
    return at


@njit(cache=True, nogil=True)
def resolve(
    places: Any,
    keys: Any,
    hosts: Any,
    arena: Any,
    used: Any,
    first: int,
    base: Any,
    host: int,
    host_end: int,
    site_end: int,
    seed: Any,
) -> int:
    """Resolve the plain hrefs among the entries from `first` on; returns how many are left.

    `base` is the directory of the page's canonical URL by http or https, up to and with the last slash of its path;
    its host is `base[host:host_end]`, and its site ends at `site_end`.
    """
    left = 0
    directory_end = len(base)
    base_host = xxh64(base, host, host_end, seed)
    for entry in range(first, used[0]):
        if places[entry, 3] != PENDING:
            continue
        start = places[entry, 0]
        stop = start + places[entry, 1]
        plain = stop - start + directory_end <= LONGEST and used[1] + LONGEST <= len(arena)
        colon = -1
        for at in range(start, stop):
            plain = plain and _PLAIN[arena[at]]
            if colon < 0 and arena[at] == _COLON:
                colon = at
        if not plain:
            left += 1
            continue
        out = used[1]
        at = -1
        its_host = base_host
        if arena[start] == _SLASH:
            if stop - start == 1 or arena[start + 1] != _SLASH:
                for n in range(site_end + 1):
                    arena[out + n] = base[n]
                at = out + site_end + 1
                at = _join(arena, start + 1, stop, arena, at, at)
        elif (
            colon >= 0
            and _is_at(arena, start, stop, _HTTP)
            and (colon == start + 4 or (colon == start + 5 and arena[start + 4] == 115))
            and colon + 3 < stop
            and arena[colon + 1] == _SLASH
            and arena[colon + 2] == _SLASH
        ):
            end = _name_end(arena, colon + 3, stop)
            if end >= 0:
                for n in range(end + 1 - start):
                    arena[out + n] = arena[start + n]
                at = out + end + 1 - start
                at = _join(arena, end + 1, stop, arena, at, at)
                its_host = xxh64(arena, colon + 3, end, seed)
        else:
            segment = start
            while segment < stop and arena[segment] != _SLASH and arena[segment] != _QUESTION:
                segment += 1
            if (colon < 0 or colon > segment) and segment > start:
                for n in range(directory_end):
                    arena[out + n] = base[n]
                at = _join(arena, start, stop, arena, out + directory_end, out + site_end + 1)
        if at < 0:
            left += 1
            continue
        places[entry, 2] = out
        places[entry, 3] = at - out
        hosts[entry] = its_host
        keys[entry] = (its_host & HIGH_16) | (xxh64(arena, out, at, seed) & LOW_48)
        used[1] = at
    return left
