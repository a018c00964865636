"""Character references of XML and HTML text: `&amp;`, `&#38;`, `&#x26;`.

`html.unescape` reads them as the HTML standard does, but for one thing: it makes a number of the digits, and Python
refuses to make one of more than 4,300. The standard knows no such limit: leading zeros count for nothing, and a
number beyond the last character is U+FFFD. So long numbers are made short first.
"""

from __future__ import annotations

import html
import re

LONGEST = 12
"""Characters that stand for one at most, leading zeros aside: `&#1114111;`, and a few for good measure."""

_LONG_NUMBER = re.compile(r"&#(?:([0-9]{8,}+)|[xX]([0-9a-fA-F]{8,}+));?")


def unescape(text: str) -> str:
    """The text with its references replaced; never raises."""
    if "&" not in text:
        return text
    return html.unescape(_LONG_NUMBER.sub(_shorter, text) if "&#" in text else text)


def _shorter(found: re.Match[str]) -> str:
    digits = (found[1] or found[2]).lstrip("0") or "0"
    if len(digits) > 7:
        return "\ufffd"
    return f"&#{digits};" if found[1] else f"&#x{digits};"
