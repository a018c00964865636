"""Links of style sheets: what `url(…)` and `@import` name.

A sheet holds requisites only: imported sheets, images, fonts. Fonts and images are told apart by nothing
that is cheap to see, so all that is not imported counts as an image. Found by a scan for the two words and
not by a CSS parser: a URL inside a comment is found too, which costs one needless fetch at worst.
"""

from __future__ import annotations

import re

from lycosa.page.collect import Collected
from lycosa.page.encodings import decode
from lycosa.page.protocol import LIMITS, Limits, Page
from lycosa.records import LinkKind

_IMAGE = int(LinkKind.IMAGE)
_STYLE = int(LinkKind.STYLE)

# Quoted text ends at a newline in CSS, so that a lost quote costs one line and not the sheet.
_STRING = r"""(?:"([^"\n\r\f]*+)"|'([^'\n\r\f]*+)')"""
_BARE = r"""(?:\\[0-9a-fA-F]{1,6}+[ \t\n\r\f]?+|\\[^\n\r\f]|[^"'()\s\\])"""
_LINK = re.compile(
    rf"(@import)\s{{0,99}}+(?:url\(\s{{0,99}}+)?+{_STRING}"
    rf"|(@import\s{{0,99}}+)?+url\(\s{{0,99}}+(?:{_STRING}|({_BARE}++))",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})[ \t\n\r\f]?|([^\n\r\f]))")


def collect_sheet(text: str, into: Collected) -> None:
    """Add the links of a style sheet, or of a style element."""
    lower = text.lower()
    if "url(" not in lower and "@import" not in lower:
        return
    for found in _LINK.finditer(text):
        href = next((part for part in found.group(2, 3, 5, 6, 7) if part is not None), "")
        if "\\" in href:
            href = _ESCAPE.sub(_unescaped, href)
        imported = found[1] is not None or found[4] is not None
        into.add(href, _STYLE if imported else _IMAGE)


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[2]
    code = int(escape[1], 16)
    if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return chr(code)


class CssParser:
    """Reads text/css."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits

    def parse(self, body: bytes, url: str, media: str, charset: str) -> Page:
        """The requisites of a style sheet."""
        limits = self._limits
        into = Collected(limits, limits.links)
        collect_sheet(decode(body[: limits.body], charset), into)
        return Page(
            type=media,
            charset=charset,
            hrefs=into.hrefs,
            kinds=into.kinds,
            texts=into.texts,
            dropped=into.dropped,
            cut=len(body) > limits.body,
        )
