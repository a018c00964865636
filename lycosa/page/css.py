"""Links of style sheets: the URLs in `url(…)` and `@import`.

A sheet holds requisites only: imported sheets, images, fonts. Fonts and images cannot be distinguished cheaply, so
everything that is not imported counts as an image. Links are found by a scan for the two words and not by a CSS
parser: a URL inside a comment is found too, which costs one needless fetch at worst.

The scan is of bytes: CSS knows white space and letters of either case in ASCII only, and a search for plain bytes
is ten times as fast as a pattern that may begin anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lycosa.page.collect import Collected
from lycosa.page.encodings import decode
from lycosa.page.protocol import LIMITS, Limits, Page
from lycosa.records import LinkKind

_IMAGE = int(LinkKind.IMAGE)
_STYLE = int(LinkKind.STYLE)

# Quoted text ends at a newline in CSS, so that a lost quote costs one line and not the sheet.
_STRING = rb"""(?:"([^"\n\r\f]*+)"|'([^'\n\r\f]*+)')"""
_BARE = rb"""(?:[^"'()\s\\]++|\\[0-9a-fA-F]{1,6}+[ \t\n\r\f]?+|\\[^\n\r\f])"""
_LINK = re.compile(
    rb"(@import)\s{0,99}+(?:url\(\s{0,99}+)?+%b|(@import\s{0,99}+)?+url\(\s{0,99}+(?:%b|(%b++))"
    % (_STRING, _STRING, _BARE),
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})[ \t\n\r\f]?|([^\n\r\f]))")


def collect_sheet(text: str, into: Collected) -> None:
    """Add the links of a style sheet, or of a style element."""
    sheet = text.encode("utf-8", "surrogatepass")
    for found in _links(sheet):
        href = next((part for part in found.group(2, 3, 5, 6, 7) if part is not None), b"").decode(
            "utf-8", "surrogatepass"
        )
        if "\\" in href:
            href = _ESCAPE.sub(_unescaped, href)
        imported = found[1] is not None or found[4] is not None
        into.add(href, _STYLE if imported else _IMAGE)


def _links(sheet: bytes) -> Iterator[re.Match[bytes]]:
    """The matches of `_LINK.finditer`, searched for only where one of the two words occurs."""
    lower = sheet.lower()
    url, imported = lower.find(b"url("), lower.find(b"@import")
    while url >= 0 or imported >= 0:
        at = url if imported < 0 or 0 <= url < imported else imported
        found = _LINK.match(sheet, at)
        if found is not None:
            yield found
        after = at + 1 if found is None else found.end()
        if 0 <= url < after:
            url = lower.find(b"url(", after)
        if 0 <= imported < after:
            imported = lower.find(b"@import", after)


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
