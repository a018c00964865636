"""The blocks of a page: the arrays of `block_kernels.cut`, made from bytes or text.

The arrays have as many rows as a page of its size can need, up to `MOST`: 200,000 elements and as many blocks.
Larger pages keep their text, but the rest of it counts as one block.
"""

from __future__ import annotations

import html
import re
from typing import Any, Final

import numpy as np
import turbohtml.detect  # noqa: F401 (registers the codecs whatwg-*)

from lycosa.content import block_kernels as kernels
from lycosa.content.block_kernels import COLUMNS, END, ROW, START

MOST: Final = 200_000
BODY: Final = 10 << 20
"""Bytes of a page that are read."""
_LONG_NUMBER = re.compile(r"&#([0-9]{30,}+)")


def decode(data: bytes, charset: str) -> str:
    """The text of some bytes; never raises. Charsets are those of the web, as are their decoders; others are
    UTF-8."""
    name = charset.strip().lower()
    if name not in ("utf-8", ""):
        try:
            return data.decode(f"whatwg-{name}", "replace").removeprefix("\ufeff")
        except LookupError:
            pass
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


def octets(page: str | bytes, charset: str = "utf-8") -> bytes:
    """A page as UTF-8, the encoding that the kernels read."""
    if isinstance(page, bytes):
        if charset.strip().lower() in ("utf-8", "us-ascii", ""):
            return page[:BODY].removeprefix(b"\xef\xbb\xbf")
        page = decode(page[:BODY], charset)
    return page.encode("utf-8", "replace")[:BODY]


class Blocks:
    """A page, cut into blocks."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        source = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
        rows = min(MOST, data.count(b"<") + 2)
        self._text: Any = np.empty(len(data) + 8, np.uint8)
        blocks = np.empty((rows, COLUMNS), np.int64)
        elements = np.empty((rows, ROW), np.int64)
        self.page: Any = np.empty(5, np.int64)
        count, used, length = kernels.cut(source, self._text, blocks, elements, self.page)
        self.rows: Any = blocks[:count]
        self.elements: Any = elements[:used]
        self.octets: Any = self._text[:length]

    def __len__(self) -> int:
        return len(self.rows)

    def text(self, number: int) -> str:
        """The text of a block."""
        row = self.rows[number]
        return decoded(self.octets[row[START] : row[END]].tobytes())

    @property
    def title(self) -> str:
        start, end = int(self.page[kernels.TITLE_START]), int(self.page[kernels.TITLE_END])
        return " ".join(decoded(self.data[start:end]).split()) if start >= 0 else ""

    @property
    def language(self) -> str:
        """The language of the root element, as given."""
        start, end = int(self.page[kernels.LANG_START]), int(self.page[kernels.LANG_END])
        return decoded(self.data[start : min(end, start + 64)]).strip() if start >= 0 else ""


def decoded(data: bytes) -> str:
    """Text with its character references replaced."""
    text = data.decode("utf-8", "replace")
    return unescaped(text) if "&" in text else text


def unescaped(text: str) -> str:
    """Text with its character references replaced: `html.unescape`, which raises at numbers of 4,300 digits."""
    return html.unescape(_LONG_NUMBER.sub(_shortened, text))


def _shortened(found: re.Match[str]) -> str:
    return "&#0" + found[1].lstrip("0")[:8]  # eight digits are no character, as more are none
