"""Character references in text and in attribute values (HTML §13.2.5.72 and what follows it).

In a value a named reference without its semicolon is left as it is where `=` or a letter or digit follows, so that
`?a=1&copy=2` keeps its parameter. Numbers may have any number of digits: leading zeros count for nothing, and a
number beyond the last character is U+FFFD.
"""

from __future__ import annotations

import re
from html.entities import html5

LONGEST = 12
"""The most characters of a reference, leading zeros aside: `&#1114111;`, with some margin."""

_LONGEST_NAME = max(map(len, html5))
_REFERENCE = re.compile(r"&(?:#(?:[xX]([0-9a-fA-F]++)|([0-9]++));?|([a-zA-Z][a-zA-Z0-9]{1,31}+;?))")
_C1 = dict(zip(range(0x80, 0xA0), bytes(range(0x80, 0xA0)).decode("cp1252", "replace"), strict=True))
_C1 = {code: (chr(code) if text == "\ufffd" else text) for code, text in _C1.items()}


def _number(digits: str, base: int) -> str:
    digits = digits.lstrip("0")
    if len(digits) > 7:
        return "\ufffd"
    code = int(digits or "0", base)
    if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return _C1.get(code) or chr(code)


def _decoded(found: re.Match[str], in_value: bool) -> str:
    if found[1] is not None:
        return _number(found[1], 16)
    if found[2] is not None:
        return _number(found[2], 10)
    name = found[3]
    if name in html5:
        if in_value and not name.endswith(";"):
            after = found.string[found.end() : found.end() + 1]
            if after == "=" or (after.isascii() and after.isalnum()):
                return found[0]
        return html5[name]
    # The longest name that the letters begin with; only names without a semicolon can be that.
    for length in range(min(len(name) - 1, _LONGEST_NAME), 1, -1):
        if (text := html5.get(name[:length])) is not None:
            return found[0] if in_value else text + name[length:]
    return found[0]


def in_text(text: str) -> str:
    """Text with its character references decoded; never raises."""
    return text if "&" not in text else _REFERENCE.sub(lambda found: _decoded(found, False), text)


def in_value(text: str) -> str:
    """An attribute's value with its character references decoded."""
    return _REFERENCE.sub(lambda found: _decoded(found, True), text)
