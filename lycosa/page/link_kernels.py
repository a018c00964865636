"""Kernels between the scanner's tape and a record's links: hrefs are looked up and packed in place.

`choose` goes over the tape and makes a row for each link that is given by one attribute of one element:

    row = kind entry text-start text-end text-bits tape

`entry` is the memo's (`lycosa.url.memo_kernels`), pending if the href is new; elements whose links need more than
that (`meta`, a `link` whose kind its rel alone does not determine, `source`, style, elements of SVG) are left to
the handlers in Python, by their places on the tape. An image has a row for each URL of its srcset, too, unless one
of them is not plain: then it is left to its handler as a whole. Texts are finished in place, unless that needs
Python (other encodings than UTF-8, rare references). `pack` writes the columns of `records.Links`: each URL once,
under the kind that is most worth following, with the first text that is not empty; the same rules as
`lycosa.crawl.harvest.pack_links`. It also gives the keys and host hashes of the URLs.
"""

from __future__ import annotations

from html.entities import html5
from typing import Any

import numpy as np

from lycosa.compiled import njit
from lycosa.page.relations import PRELOADS, RELATIONS
from lycosa.page.scan_kernels import (
    AMP,
    BREAK,
    FOLDED,
    FOREIGN,
    HASH,
    HEAD,
    HIGH,
    IN_PAGE,
    NUL,
    TEXT_AMP,
    TEXT_HIGH,
    TEXT_NUL,
    add_text,
)
from lycosa.page.scan_names import ATTRIBUTES, TAGS
from lycosa.records import FIRST_REQUISITE, NOFOLLOW, LinkKind
from lycosa.url.key_kernels import mix
from lycosa.url.memo_kernels import FULL, NONE, find_or_add

COLUMNS = 6
UNREADY = TEXT_AMP | TEXT_HIGH | TEXT_NUL
"""The bits of texts that a kernel cannot finish."""
READY = 1 << 16
"""The text was finished in Python."""
_SIMPLE = {
    "a": ("href", LinkKind.ANCHOR),
    "area": ("href", LinkKind.AREA),
    "iframe": ("src", LinkKind.FRAME),
    "img": ("src", LinkKind.IMAGE),
    "script": ("src", LinkKind.SCRIPT),
    "embed": ("src", LinkKind.OBJECT),
    "object": ("data", LinkKind.OBJECT),
    "form": ("action", LinkKind.FORM),
    "button": ("formaction", LinkKind.FORM),
    "blockquote": ("cite", LinkKind.RELATED),
    "q": ("cite", LinkKind.RELATED),
    "ins": ("cite", LinkKind.RELATED),
    "del": ("cite", LinkKind.RELATED),
    "body": ("background", LinkKind.IMAGE),
    "track": ("src", LinkKind.MEDIA),
}
_FORM_KIND, _ALTERNATE, _RELATED = int(LinkKind.FORM), int(LinkKind.ALTERNATE), int(LinkKind.RELATED)
_KIND = np.full(len(TAGS), -1, np.int32)
_ATTRIBUTE = np.zeros(len(TAGS), np.int32)
for _name, (_attribute, _kind) in _SIMPLE.items():
    _KIND[TAGS[_name]] = int(_kind)
    _ATTRIBUTE[TAGS[_name]] = ATTRIBUTES.index(_attribute)
_A, _IMG, _AREA, _IFRAME, _META, _LINK = (
    TAGS[name] for name in ("a", "img", "area", "iframe", "meta", "link")
)
_ATTRIBUTE[_LINK] = ATTRIBUTES.index("href")
_HREF, _XLINK, _REL, _TITLE, _ALT, _SRCSET, _LAZY, _LAZY_SET, _CONTENT, _NAME, _PRAGMA, _TYPE = (
    ATTRIBUTES.index(name)
    for name in (
        "href",
        "xlink:href",
        "rel",
        "title",
        "alt",
        "srcset",
        "data-src",
        "data-srcset",
        "content",
        "name",
        "http-equiv",
        "type",
    )
)
NOTHING, UNSURE = -1, -2
_WORDS = [*RELATIONS, *PRELOADS]
_WORD_KINDS = np.array(
    [
        UNSURE if name in PRELOADS or kind == LinkKind.CANONICAL else NOTHING if kind is None else kind
        for name, kind in [*RELATIONS.items(), *((name, None) for name in PRELOADS)]
    ],
    np.int32,
)
"""What a word of a rel makes of a link element, in the order in which they decide."""
_WORD_LENGTHS = np.array([len(name) for name in _WORDS], np.int32)
_WORD_BYTES = np.zeros((len(_WORDS), max(map(len, _WORDS))), np.uint8)
for _number, _word in enumerate(_WORDS):
    _WORD_BYTES[_number, : len(_word)] = np.frombuffer(_word.encode(), np.uint8)
_NOFOLLOW = np.frombuffer(b"nofollow", np.uint8).copy()
_ROBOTS = np.frombuffer(b"robots", np.uint8).copy()
_HTTP = np.frombuffer(b"http", np.uint8).copy()
_DATA = np.frombuffer(b"data:", np.uint8).copy()
_AMPERSAND = np.frombuffer(b"amp;", np.uint8).copy()
_NAMED = sorted(
    (int.from_bytes(name[:-1].encode(), "little"), ord(text))
    for name, text in html5.items()
    if name.endswith(";") and len(name) <= 9 and len(text) == 1
)
_NAMED_WORDS = np.array([word for word, _ in _NAMED], np.uint64)
_NAMED_CODES = np.array([code for _, code in _NAMED], np.int64)
ABSOLUTE, ACROSS, ROOTED, NEAR = 0, 1, 2, 3
"""Places of `contexts`: what an href that is absolute, begins with //, with / or otherwise depends on."""


@njit(cache=True, nogil=True)
def _is_word(data: Any, start: int, stop: int, word: Any) -> bool:
    """Whether the bytes begin with a word, case aside."""
    if stop - start < len(word):
        return False
    same = True
    for n in range(len(word)):
        same = same and data[start + n] | 32 == word[n]
    return same


@njit(cache=True, nogil=True)
def _has_token(data: Any, start: int, stop: int, token: Any) -> bool:
    """Whether one of the words of an attribute is that token, case aside."""
    at = start
    while at < stop:
        while at < stop and data[at] <= 32:
            at += 1
        word = at
        while at < stop and data[at] > 32:
            at += 1
        if at - word == len(token) and _is_word(data, word, at, token):
            return True
    return False


@njit(cache=True, nogil=True)
def _is_idle(tape: Any, at: int, data: Any) -> bool:
    """Whether a meta element is surely irrelevant: its content begins with no directive, and it is no pragma."""
    content = -1
    stop = -1
    for place in range(at + HEAD, at + HEAD + 3 * tape[at + 6], 3):
        which = tape[place] & 0xFF
        if which == _CONTENT:
            content, stop = tape[place + 1], tape[place + 2]
            if tape[place] >> 8 & (AMP | HIGH | NUL):
                return False
        elif which == _PRAGMA or (
            which == _NAME and _has_token(data, tape[place + 1], tape[place + 2], _ROBOTS)
        ):
            return False
    if content < 0:
        return True
    while content < stop and (data[content] <= 32 or data[content] == 44):
        content += 1
    word = content
    while content < stop and (data[content] == 45 or data[content] == 95 or 97 <= data[content] | 32 <= 122):
        content += 1
    if content == word:
        return True
    while content < stop and data[content] <= 32:
        content += 1
    return content < stop and data[content] != 44 and data[content] != 58 and data[content] != 59


@njit(cache=True, nogil=True)
def _relation(tape: Any, at: int, data: Any) -> int:
    """The kind of a link element; NOTHING: it has no link, UNSURE: only a handler can tell."""
    href = False
    typed = False
    start = 0
    stop = 0
    for place in range(at + HEAD, at + HEAD + 3 * tape[at + 6], 3):
        which = tape[place] & 0xFF
        if which == _HREF:
            href = tape[place + 2] > tape[place + 1]
        elif which == _TYPE:
            typed = True
        elif which == _REL:
            if tape[place] >> 8 & (AMP | HIGH | NUL):
                return UNSURE
            start, stop = tape[place + 1], tape[place + 2]
    if not href:
        return NOTHING
    if tape[at + 1] & FOREIGN:
        return UNSURE
    found = len(_WORD_KINDS)
    while start < stop:
        while start < stop and FOLDED[data[start]]:
            start += 1
        word = start
        while start < stop and not FOLDED[data[start]]:
            start += 1
        for n in range(found):
            if _WORD_LENGTHS[n] == start - word:
                same = True
                for i in range(start - word):
                    same = same and data[word + i] | 32 == _WORD_BYTES[n, i]
                if same:
                    found = n
                    break
    kind = _RELATED if found == len(_WORD_KINDS) else _WORD_KINDS[found]
    return UNSURE if kind == _ALTERNATE and typed else kind


@njit(cache=True, nogil=True)
def _is_white(code: int) -> bool:
    """Whether a character above ASCII is white space to Python."""
    return code in (0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000) or 0x2000 <= code <= 0x200A


@njit(cache=True, nogil=True)
def _character(texts: Any, at: int, stop: int) -> tuple[Any, int]:
    """The code of the character above ASCII that begins at a place, and its bytes: none if it is not UTF-8."""
    first = np.int64(texts[at])
    if first < 0xC2 or first > 0xF4:
        return 0, 0
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if at + length > stop:
        return 0, 0
    code = first & (0xFF >> (length + 1))
    for n in range(1, length):
        if texts[at + n] & 0xC0 != 0x80:
            return 0, 0
        code = code << 6 | np.int64(texts[at + n]) & 0x3F
    least = 0x80 if length == 2 else 0x800 if length == 3 else 0x10000
    if code < least or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return 0, 0
    return code, length


@njit(cache=True, nogil=True)
def _meant(texts: Any, at: int, stop: int) -> tuple[Any, int]:
    """The character of the reference that begins with the `&` at a place, and its length; 0: a kernel cannot tell.

    Handled are references that end with a semicolon, to `&` and to characters above 0x9F; and an `&` that begins no
    reference.
    """
    end = at + 1
    if end >= stop or not (texts[end] == 35 or 97 <= texts[end] | 32 <= 122):
        return 38, 1
    code: Any = 0
    if texts[end] == 35:
        end += 1
        base = 10
        if end < stop and texts[end] | 32 == 120:
            base = 16
            end += 1
        while end < stop and code <= 0x10FFFF:
            digit: Any = np.int64(texts[end])
            if 48 <= digit <= 57:
                digit -= 48
            elif base == 16 and 97 <= digit | 32 <= 102:
                digit = (digit | 32) - 87
            else:
                break
            code = code * base + digit
            end += 1
    else:
        word = np.uint64(0)
        while end < stop and end - at <= 8 and texts[end] != 59:
            word |= np.uint64(texts[end]) << np.uint64(8 * (end - at - 1))
            end += 1
        low, high = 0, len(_NAMED_WORDS)
        while low < high:
            middle = (low + high) >> 1
            if _NAMED_WORDS[middle] < word:
                low = middle + 1
            else:
                high = middle
        if low < len(_NAMED_WORDS) and _NAMED_WORDS[low] == word:
            code = _NAMED_CODES[low]
    if (
        end >= stop
        or texts[end] != 59
        or not (code == 38 or 0x9F < code <= 0x10FFFF)
        or 0xD800 <= code <= 0xDFFF
    ):
        return 0, 0
    return code, end + 1 - at


@njit(cache=True, nogil=True)
def finish(texts: Any, start: int, stop: int, limit: int, utf8: bool) -> int:
    """Finish a text in place: fold it and cut it to so many characters; returns its end, -1: a kernel cannot.

    It can if bytes above 0x7F are UTF-8, each `&` is one that `_meant` handles, and there is more than white space.
    Otherwise nothing is changed. White space of ASCII is folded already.
    """
    at = start
    white = False
    while at < stop:
        byte = texts[at]
        length = 1
        if byte > 127:
            code, length = _character(texts, at, stop) if utf8 else (0, 0)
            white = white or _is_white(code)
        elif byte == 38:
            _, length = _meant(texts, at, stop)
        elif byte == 0:
            return -1
        if not length:
            return -1
        at += length
    if white and stop - start > 8 * limit:
        return -1  # so long a text is cut before it is folded
    at = start
    out = start
    count = 0
    space = False
    while at < stop and count < limit:
        byte = texts[at]
        code, length = np.int64(byte), 1
        if byte > 127:
            code, length = _character(texts, at, stop)
        elif byte == 38:
            code, length = _meant(texts, at, stop)
        at += length
        if code == 32 or _is_white(code):
            space = out > start
            continue
        if space:
            texts[out] = 32
            out += 1
            count += 1
            space = False
            if count == limit:
                break
        count += 1
        if code < 0x80:
            texts[out] = code
        elif code < 0x800:
            texts[out] = 0xC0 | code >> 6
        elif code < 0x10000:
            texts[out] = 0xE0 | code >> 12
        else:
            texts[out] = 0xF0 | code >> 18
            out += 1
            texts[out] = 0x80 | code >> 12 & 0x3F
        if code >= 0x800:
            out += 1
            texts[out] = 0x80 | code >> 6 & 0x3F
        if code >= 0x80:
            out += 1
            texts[out] = 0x80 | code & 0x3F
        out += 1
    while out > start and texts[out - 1] == 32:
        out -= 1
    return out if out > start else -1


@njit(cache=True, nogil=True)
def _context(data: Any, start: int, stop: int) -> int:
    """Which of the contexts an href depends on; -1: on the whole URL of the page, so that it is not kept.

    The href has no tabs and line breaks.
    """
    first = data[start]
    if first == 47:
        if start + 1 < stop and (data[start + 1] == 47 or data[start + 1] == 92):
            return ACROSS
        return ROOTED
    if first == 63:
        return -1
    if _is_word(data, start, stop, _HTTP):
        at = start + 4
        if at < stop and data[at] | 32 == 115:
            at += 1
        if at < stop and data[at] == 58:
            if at + 2 < stop and data[at + 1] == 47 and data[at + 2] == 47:
                return ABSOLUTE
            return -1
    return NEAR


@njit(cache=True, nogil=True)
def _is_space(byte: int) -> bool:
    return byte in (32, 10, 9, 13, 12)


@njit(cache=True, nogil=True)
def _candidate(data: Any, at: int, stop: int) -> tuple[int, int, int]:
    """The next URL of a srcset from `at` on, as `lycosa.page.html.candidates` finds it, and where to go on; a start
    of -1: there is none."""
    while at < stop and (_is_space(data[at]) or data[at] == 44):
        at += 1
    if at == stop:
        return -1, -1, stop
    start = at
    while at < stop and not _is_space(data[at]):
        at += 1
    end = at
    if data[end - 1] == 44:
        while data[end - 1] == 44:
            end -= 1
        return start, end, at
    while at < stop and data[at] != 44:
        at += 1
    return start, end, min(at + 1, stop)


@njit(cache=True, nogil=True)
def _keeps_ampersands(data: Any, start: int, stop: int) -> bool:
    """Whether a value has no reference but `&amp;`: it is certain where letters and `=` follow an `&`."""
    for at in range(start, stop):
        if data[at] == 38 and not _is_word(data, at + 1, stop, _AMPERSAND):
            end = at + 1
            while end < stop and (48 <= data[end] <= 57 or 97 <= data[end] | 32 <= 122):
                end += 1
            if end == stop or data[end] != 61:
                return False
    return True


@njit(cache=True, nogil=True)
def _is_near(data: Any, start: int, stop: int) -> Any:
    """Whether the URL of an image is one that can be kept, and not of another scheme than HTTP's."""
    if data[start] == 35 or data[start] <= 32:
        return False
    context = _context(data, start, stop)
    if context != NEAR:
        return context >= 0
    for at in range(start, stop):
        if data[at] == 58:
            return False
        if data[at] == 47 or data[at] == 63:
            break
    return True


@njit(cache=True, nogil=True)
def _image(tape: Any, here: int, data: Any, found: Any) -> bool:
    """The values of an image: `found` is [start, end, flags] of its URL and of its srcset, a start of -1 if it has
    none. False: its handler must see it."""
    found[:] = -1
    lazy = -1
    lazy_set = -1
    for place in range(here + HEAD, here + HEAD + 3 * tape[here + 6], 3):
        which = tape[place] & 0xFF
        if which == _LAZY:
            lazy = place
        elif which == _LAZY_SET:
            lazy_set = place
        elif which != _ALT:
            one = 3 if which == _SRCSET else 0
            found[one], found[one + 1], found[one + 2] = tape[place + 1], tape[place + 2], tape[place] >> 8
    start, stop = found[0], found[1]
    for at in range(start, min(start + 5, stop)):
        if data[at] == 38:
            return False
    if start < 0 or _is_word(data, start, stop, _DATA):
        found[:3] = -1
        if lazy >= 0:
            found[0], found[1], found[2] = tape[lazy + 1], tape[lazy + 2], tape[lazy] >> 8
        if found[3] == found[4] and lazy_set >= 0:
            found[3], found[4], found[5] = tape[lazy_set + 1], tape[lazy_set + 2], tape[lazy_set] >> 8
    start, stop = found[0], found[1]
    while start < stop and _is_space(data[start]):
        start += 1
    while stop > start and _is_space(data[stop - 1]):
        stop -= 1
    found[0], found[1] = (start, stop) if start < stop else (-1, -1)
    if found[3] == found[4]:
        return True
    if found[0] >= 0 and (found[2] & (HIGH | NUL | BREAK) or not _is_near(data, start, stop)):
        return False
    at, end, flags = found[3], found[4], found[5]
    if flags & (HIGH | NUL) or (flags & AMP and not _keeps_ampersands(data, at, end)):
        return False
    while at < end:
        start, stop, at = _candidate(data, at, end)
        if start >= 0 and not _is_near(data, start, stop):
            return False
    found[5] = flags & ~BREAK  # they lie between the URLs
    return True


@njit(cache=True, nogil=True)
def enter(
    hrefs: Any,
    kinds: Any,
    said: Any,
    contexts: Any,
    slots: Any,
    hashes: Any,
    memo_contexts: Any,
    places: Any,
    arena: Any,
    used: Any,
    texts: Any,
    text_end: int,
    rows: Any,
) -> tuple[int, int]:
    """Write the first rows: for `hrefs`, which all depend on a context, and their texts `said` (newline-joined).

    Returns how many, FULL if the memo has no room, and where the texts end.
    """
    start = 0
    at = 0
    for count in range(len(kinds)):
        text = text_end
        while at < len(said) and said[at] != 10:
            texts[text_end] = said[at]
            text_end += 1
            at += 1
        at += 1
        end = start
        while end < len(hrefs) and hrefs[end] != 10:
            end += 1
        stop = end
        for n in range(start, end):
            if hrefs[n] == 35:
                if hrefs[n - 1] > 32:
                    stop = n
                break
        context = contexts[_context(hrefs, start, stop)]
        entry = find_or_add(slots, hashes, memo_contexts, places, arena, used, hrefs, start, stop, context)
        if entry == FULL:
            return FULL, text_end
        rows[count, 0] = kinds[count]
        rows[count, 1] = entry
        rows[count, 2] = text
        rows[count, 3] = text_end
        rows[count, 4] = READY
        rows[count, 5] = 0
        start = end + 1
    return len(kinds), text_end


@njit(cache=True, nogil=True)
def sort_out(tape: Any, end: int, data: Any, special: Any, likes: Any, longest: int) -> tuple[int, int]:
    """The places on the tape of the elements that `choose` passes over; returns how many, and the end of `likes`.

    A row of `special` is such a place; where the attributes of a `link` or `meta` begin and end in the page; and
    from where to where `likes` says all else that it is read from: its tag, and of each attribute what it is, and
    where in these bytes it begins and ends. Nothing is said of an element with more than `longest` bytes, nor of
    others. A `link` whose kind is plain has it noted on the tape, plus one, in the place of a text's start: it is
    left to `choose`.
    """
    count = 0
    at = 0
    said = 0
    while at < end and count < len(special):
        attributes = tape[at + 6]
        tag = tape[at]
        passed = _KIND[tag] < 0 and (attributes or tape[at + 1] & IN_PAGE)
        if tag == _META:
            passed = passed and not _is_idle(tape, at, data)
        elif tag == _LINK:
            kind = _relation(tape, at, data)
            passed = kind == UNSURE
            tape[at + 2] = max(kind, NOTHING) + 1
        if passed:
            special[count, 0] = at
            special[count, 1], special[count, 2] = 0, 0
            special[count, 3] = said
            if tag in (_META, _LINK):
                first = tape[at + HEAD + 1] if attributes else 0
                last = tape[at + HEAD + 3 * attributes - 1] if attributes else 0
                if last - first <= longest:
                    likes[said] = tag
                    said += 1
                    for place in range(at + HEAD, at + HEAD + 3 * attributes, 3):
                        likes[said] = tape[place]
                        likes[said + 1] = tape[place + 1] - first
                        likes[said + 2] = tape[place + 2] - first
                        said += 3
                    special[count, 1], special[count, 2] = first, last
            special[count, 4] = said
            count += 1
        at += HEAD + 3 * attributes
    return count, said


@njit(cache=True, nogil=True)
def _worth(kind: int) -> int:
    """Smaller is better followed: plain, then nofollow, then requisites and forms."""
    if kind & 0x7F >= FIRST_REQUISITE or kind & 0x7F == _FORM_KIND:
        return 2
    return 1 if kind & NOFOLLOW else 0


@njit(cache=True, nogil=True)
def choose(
    tape: Any,
    end: int,
    data: Any,
    based: bool,
    longest: int,
    contexts: Any,
    slots: Any,
    hashes: Any,
    memo_contexts: Any,
    places: Any,
    arena: Any,
    used: Any,
    stamps: Any,
    stamp: int,
    texts: Any,
    text_end: int,
    most: int,
    limit: int,
    utf8: bool,
    rows: Any,
    first: int,
    special: Any,
) -> tuple[int, int, int, int, int, int]:
    """The rows of the links on a tape; see the module.

    The rows before `first` are those of `enter`. Returns where the rows end, how many places in `special`, the end
    of the texts, how many links a limit kept out, how many texts are not finished, and whether the memo had no room
    (then nothing else counts).
    `based`: the page has a base element, so that `#x` and an empty href are links to another page. `limit`:
    characters of a text. `utf8`: that is the page's encoding.
    """
    count = first
    left = 0
    dropped = 0
    unready = 0
    state = np.zeros(4, np.int64)
    state[0] = text_end
    image = np.empty(6, np.int64)
    at = 0
    while at < end:
        tag = tape[at]
        here = at
        attributes = tape[at + 6]
        at += HEAD + 3 * attributes
        kind = _KIND[tag] if tag != _LINK else tape[here + 2] - 1
        if kind < 0:
            continue
        wanted = _ATTRIBUTE[tag]
        start = -1
        stop = -1
        flags = 0
        alt = -1
        alt_stop = -1
        odd = tape[here + 1] & FOREIGN and tag != _A
        follow = True
        for place in range(here + HEAD, at, 3):
            which = tape[place] & 0xFF
            if which == wanted or (which == _XLINK and start < 0):
                flags = tape[place] >> 8
                start, stop = tape[place + 1], tape[place + 2]
            elif which == _REL:
                follow = not _has_token(data, tape[place + 1], tape[place + 2], _NOFOLLOW)
            elif which == _ALT or (
                which == _TITLE and (tag == _A or (tag == _LINK and kind in (_RELATED, _ALTERNATE)))
            ):
                alt, alt_stop = tape[place + 1], tape[place + 2]
        rest, rest_stop, rest_flags = -1, -1, 0
        if tag == _IMG:
            if not odd:
                odd = not _image(tape, here, data, image)
                start, stop, flags = image[0], image[1], image[2]
                rest, rest_stop, rest_flags = image[3], image[4], image[5]
        elif tag == _IFRAME:
            # Lazy ones have their target elsewhere.
            odd = (
                odd
                or start < 0
                or stop - start < 1
                or (stop - start > 4 and data[start] | 32 == 100 and data[start + 4] == 58)
            )
        if odd:
            if left < len(special):
                special[left] = here
                left += 1
            continue
        told = False  # an image has one text, however many URLs
        text, text_stop, bits = 0, 0, 0
        first_one = True
        while first_one or rest < rest_stop:
            if not first_one:
                start, stop, rest = _candidate(data, rest, rest_stop)
                flags = rest_flags
            first_one = False
            if start < 0:
                continue
            while start < stop and 0 < data[start] <= 32:
                start += 1
            while stop > start and 0 < data[stop - 1] <= 32:
                stop -= 1
            if stop - start > longest:
                dropped += 1
                continue
            if flags & HASH and not flags & AMP:
                for n in range(start, stop):
                    if data[n] == 35:
                        # A space before the fragment is part of the URL; `#x` alone is a link if there is a base.
                        if (n > start and data[n - 1] > 32) or (n == start and not based):
                            stop = n
                        break
            if start == stop and not based:
                continue
            context = -1
            if start < stop and not flags & BREAK:  # the parser takes those out first
                context = _context(data, start, stop)
            if data[start] == 35 or context < 0 or flags & HIGH or count >= len(rows):
                if count >= len(rows):
                    dropped += 1
                elif left < len(special):
                    special[left] = here
                    left += 1
                continue
            entry = find_or_add(
                slots, hashes, memo_contexts, places, arena, used, data, start, stop, contexts[context]
            )
            if entry == FULL:
                return 0, 0, 0, 0, 0, 1
            if places[entry, 3] == NONE or stamps[entry] == stamp:
                continue  # it has no URL, or was met in this page with all that can be said of it
            if not told:
                told = True
                if tag == _A:
                    text, text_stop = tape[here + 2], tape[here + 3]
                    bits = tape[here + 1] & ~FOREIGN & ~IN_PAGE
                for second in range(2):
                    if second:  # an empty title says nothing: the anchor's first image may
                        alt, alt_stop = (tape[here + 4], tape[here + 5]) if tag == _A else (-1, -1)
                    if text == text_stop and alt >= 0 and (tag in (_A, _IMG, _AREA, _LINK)):
                        state[1], state[2], state[3] = state[0], 0, 0
                        add_text(data, alt, alt_stop, texts, state, most)
                        text, text_stop, bits = state[1], state[0], state[2] | IN_PAGE
                if bits & UNREADY:
                    ready = finish(texts, text, text_stop, limit, utf8)
                    if ready >= 0:
                        text_stop, bits = ready, READY
            if _worth(kind) == 0 and follow and text_stop > text and not bits & UNREADY:
                stamps[entry] = stamp
            if bits & UNREADY:
                unready += 1
            rows[count, 0] = kind if follow else kind | NOFOLLOW
            rows[count, 1] = entry
            rows[count, 2] = text
            rows[count, 3] = text_stop
            rows[count, 4] = bits
            rows[count, 5] = here
            count += 1
    return count, left, state[0], dropped, unready, 0


@njit(cache=True, nogil=True)
def pack(
    rows: Any,
    count: int,
    limit: int,
    places: Any,
    keys: Any,
    hosts: Any,
    arena: Any,
    others: Any,
    other_places: Any,
    other_keys: Any,
    other_hosts: Any,
    texts: Any,
    table: Any,
    stamp: int,
    urls_out: Any,
    kinds_out: Any,
    texts_out: Any,
    keys_out: Any,
    hosts_out: Any,
    kept: Any,
) -> tuple[int, int, int]:
    """The columns of a record; returns the lengths of the URLs, of the kinds and of the texts.

    `entry` below zero is a URL of `others`, number -1 - entry. A first length of -n - 1 says that the
    columns are too short: n bytes are needed for URLs, and the last length for texts.
    `table` is a hash table of rows that `stamp` (another one each time) makes empty.
    """
    mask = np.uint64(len(table) - 1)
    unique = 0
    need = 0
    for row in range(count):
        entry = rows[row, 1]
        if entry >= 0:
            length = places[entry, 3]
            key = keys[entry]
        else:
            length = other_places[-1 - entry, 1]
            key = other_keys[-1 - entry]
        if length < 0:
            continue
        if rows[row, 3] - rows[row, 2] > limit and not rows[row, 4] & READY:
            rows[row, 3] = rows[row, 2] + limit
            while rows[row, 3] > rows[row, 2] and texts[rows[row, 3] - 1] == 32:
                rows[row, 3] -= 1
        slot = np.int64(mix(key) & mask)
        mine = -1
        while table[slot, 0] == stamp:
            other = table[slot, 1]
            which = kept[other]
            held = rows[which, 1]
            if (keys[held] if held >= 0 else other_keys[-1 - held]) == key:
                mine = other
                break
            slot = np.int64((np.uint64(slot) + np.uint64(1)) & mask)
        if mine < 0:
            table[slot, 0], table[slot, 1] = stamp, unique
            kept[unique] = row
            unique += 1
            need += length + 1
            continue
        first = kept[mine]
        kind, old = rows[row, 0], rows[first, 0]
        says = rows[row, 3] > rows[row, 2]
        if kind != old and _worth(kind) < _worth(old):
            rows[first, 0] = kind
            if says:
                rows[first, 2], rows[first, 3] = rows[row, 2], rows[row, 3]
        elif says and rows[first, 3] == rows[first, 2]:
            rows[first, 2], rows[first, 3] = rows[row, 2], rows[row, 3]
    need_text = unique
    for mine in range(unique):
        need_text += rows[kept[mine], 3] - rows[kept[mine], 2]
    if need > len(urls_out) or need_text > len(texts_out):
        return -need - 1, unique, need_text
    at = 0
    text_at = 0
    for mine in range(unique):
        row = kept[mine]
        entry = rows[row, 1]
        if mine:
            urls_out[at] = 10
            at += 1
            texts_out[text_at] = 10
            text_at += 1
        if entry >= 0:
            keys_out[mine], hosts_out[mine] = keys[entry], hosts[entry]
            first = places[entry, 2]
            for n in range(places[entry, 3]):
                urls_out[at + n] = arena[first + n]
            at += places[entry, 3]
        else:
            keys_out[mine], hosts_out[mine] = other_keys[-1 - entry], other_hosts[-1 - entry]
            first = other_places[-1 - entry, 0]
            for n in range(other_places[-1 - entry, 1]):
                urls_out[at + n] = others[first + n]
            at += other_places[-1 - entry, 1]
        kinds_out[mine] = rows[row, 0]
        for n in range(rows[row, 2], rows[row, 3]):
            texts_out[text_at] = texts[n]
            text_at += 1
    return at, unique, text_at
