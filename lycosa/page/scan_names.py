"""The names that the scanner knows: elements, attributes, and what it does with each.

A name of up to sixteen letters is two 64-bit words, its lower-case bytes from the lowest byte on; no known name is
longer. `TABLE_*` are open-addressing hash tables from those words to ids, so that a name is identified with one
multiplication and, nearly always, one comparison, and never by a hash alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ATTRIBUTES = (
    "href",
    "xlink:href",
    "rel",
    "title",
    "src",
    "srcset",
    "data-src",
    "data-srcset",
    "alt",
    "action",
    "formaction",
    "cite",
    "poster",
    "background",
    "data",
    "content",
    "name",
    "http-equiv",
    "lang",
    "type",
    "as",
)
"""The attributes that are read, by id."""

ELEMENTS: dict[str, str] = {
    # element -> the attributes that are read of it
    "a": "href xlink:href rel title",
    "area": "href rel alt",
    "link": "href rel as type title",
    "base": "href",
    "meta": "content name http-equiv",
    "title": "",
    "frame": "src data-src",
    "iframe": "src data-src",
    "img": "src srcset data-src data-srcset alt",
    "image": "href xlink:href",
    "use": "href xlink:href",
    "feimage": "href xlink:href",
    "source": "src srcset data-srcset",
    "audio": "src poster",
    "video": "src poster",
    "track": "src",
    "script": "src href xlink:href",
    "style": "",
    "embed": "src",
    "object": "data",
    "form": "action rel",
    "input": "formaction src type",
    "button": "formaction",
    "blockquote": "cite",
    "q": "cite",
    "ins": "cite",
    "del": "cite",
    "body": "background",
    "html": "lang",
    # From here on: elements that are not reported but change how the rest is read.
    "textarea": "",
    "xmp": "",
    "noembed": "",
    "plaintext": "",
    "svg": "",
    "math": "",
    "foreignobject": "",
    "desc": "",
    "mi": "",
    "mo": "",
    "mn": "",
    "ms": "",
    "mtext": "",
    "table": "",
    "td": "",
    "th": "",
    "caption": "",
    "tr": "",
}

OUT_OF_FOREIGN = [
    "b",
    "big",
    "blockquote",
    "body",
    "br",
    "center",
    "code",
    "dd",
    "div",
    "dl",
    "dt",
    "em",
    "embed",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "hr",
    "i",
    "img",
    "li",
    "listing",
    "menu",
    "meta",
    "nobr",
    "ol",
    "p",
    "pre",
    "ruby",
    "s",
    "small",
    "span",
    "strong",
    "strike",
    "sub",
    "sup",
    "table",
    "tt",
    "u",
    "ul",
    "var",
]
"""Start tags that end foreign content (HTML §13.2.6.5); `font` with its three attributes is left out."""

TAGS = {name: number for number, name in enumerate(ELEMENTS)}
REPORTED = TAGS["html"] + 1
"""Elements below this id are reported."""


def words_of(name: str) -> tuple[int, int]:
    """The two words of a name."""
    data = name.encode("ascii")
    assert len(data) <= 16
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")


MIX = 0x9E3779B97F4A7C15
BITS = 9


def place_of(low: int, high: int) -> int:
    """Where the search for a name begins."""
    return ((low ^ (high * 3)) * MIX & (1 << 64) - 1) >> (64 - BITS)


def _table(names: Sequence[str]) -> tuple[Any, Any, Any]:
    size = 1 << BITS
    lows, highs = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
    ids = np.full(size, -1, np.int32)
    for number, name in enumerate(names):
        low, high = words_of(name)
        at = place_of(low, high)
        while ids[at] >= 0:
            at = (at + 1) % size
        lows[at], highs[at], ids[at] = low, high, number
    return lows, highs, ids


ALL_TAGS = [*ELEMENTS, *(name for name in OUT_OF_FOREIGN if name not in ELEMENTS)]
TAG_LOWS, TAG_HIGHS, TAG_IDS = _table(ALL_TAGS)
ATTR_LOWS, ATTR_HIGHS, ATTR_IDS = _table(ATTRIBUTES)
WANTED = np.zeros(len(ALL_TAGS), np.uint32)
"""For each element, a bit for each attribute that is read of it."""
ENDS_FOREIGN = np.zeros(len(ALL_TAGS), np.bool_)
for _number, _name in enumerate(ALL_TAGS):
    for _attribute in ELEMENTS.get(_name, "").split():
        WANTED[_number] |= np.uint32(1 << ATTRIBUTES.index(_attribute))
    ENDS_FOREIGN[_number] = _name in OUT_OF_FOREIGN
