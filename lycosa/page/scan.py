"""HTML without a tree: reading a page from the scanner's tape (see `scan_kernels`).

The table of elements, attributes and kinds is that of `lycosa.page.html`: an element of the tape has the interface
of an element of the tree, and the same handlers read it. Values are cut out of the page and decoded only when they
are needed, and only those with references or bytes above 0x7F cost more than a slice.

Encodings in which a byte below 0x80 may be part of another character (UTF-16, ISO-2022-JP, replacement) are
decoded first; all others agree with ASCII on every byte that the scanner looks at, also within multi-byte
characters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from turbohtml import Namespace

from lycosa.page import references
from lycosa.page.collect import WHITE, Collected, fold
from lycosa.page.css import collect_sheet
from lycosa.page.encodings import UTF_8, decode
from lycosa.page.html import HANDLERS, add_link, add_meta, link_of, meta_of
from lycosa.page.link_kernels import sort_out
from lycosa.page.protocol import LIMITS, Limits, Page
from lycosa.page.scan_kernels import (
    AMP,
    DEEP,
    FOREIGN,
    HEAD,
    HIGH,
    IN_PAGE,
    LONGEST,
    NUL,
    SHORTEST,
    TEXT_AMP,
    TEXT_NUL,
    scan,
)
from lycosa.page.scan_names import ATTRIBUTES, TAGS
from lycosa.page.sniff import XHTML
from lycosa.records import NOFOLLOW, LinkKind

_ANCHOR = int(LinkKind.ANCHOR)
_TITLE = TAGS["title"]
_NAMES = [name if name != "feimage" else "feImage" for name in TAGS]
_IDS = {name: number for number, name in enumerate(ATTRIBUTES)}
_NOT_ASCII = frozenset({"utf-16le", "utf-16be", "iso-2022-jp", "replacement"})
_TAPE = 1 << 19
TEXT_BYTES = 16
"""Bytes of a page that are read per character of a text, so that references do not shorten it."""
_KEPT = 1 << 20
"""Bytes of a text buffer that is kept for the next page."""
_HEADS = 4096
"""Elements of heads that are remembered; the heads of a site's pages differ in few."""
_HEAD_BYTES = 512
"""Bytes of an element's attributes up to which it is remembered."""


Heads = dict[tuple[bytes, bytes, str], tuple[Callable[[Any, Collected], None], Any]]
"""A cache of the contents of head elements with the functions that add them, by the bytes they are read from."""


class _Buffers(threading.local):
    """The buffers of a scan; one set per thread, since a parser serves several."""

    def __init__(self) -> None:
        self.tape = np.empty(_TAPE, np.int32)
        self.stack = np.empty(DEEP, np.int32)
        self.texts = np.empty(_KEPT, np.uint8)
        self.others = np.empty((_TAPE // HEAD, 5), np.int32)
        self.likes = np.empty(_TAPE, np.int32)
        self.heads: Heads = {}


class Marks:
    """A page that was scanned: its bytes, and what the kernel wrote about them."""

    __slots__ = ("body", "charset", "cut", "data", "tape", "text_data", "text_end")

    def __init__(
        self, body: bytes, data: Any, charset: str, tape: Any, text_data: Any, text_end: int, cut: bool
    ) -> None:
        self.body = body
        self.data = data
        self.charset = charset
        """The encoding of values: the page's, or UTF-8 if the page had to be decoded first."""
        self.tape = tape
        self.text_data = text_data
        self.text_end = text_end
        self.cut = cut

    def places(self) -> Iterator[int]:
        """Where elements begin."""
        at, end = 0, len(self.tape)
        while at < end:
            yield at
            at += HEAD + 3 * int(self.tape[at + 6])

    def value(self, word: int, start: int, stop: int) -> str:
        """The value of an attribute, from its words on the tape."""
        raw, flags = self.body[start:stop], word >> 8 & (AMP | HIGH | NUL)
        if not flags:
            return raw.decode("ascii")
        text = self._decoded(raw) if flags & HIGH else raw.decode("ascii")
        if flags & NUL:
            text = text.replace("\0", "\ufffd")
        return references.in_value(text) if flags & AMP else text

    def text(self, tag: int, bits: int, start: int, stop: int) -> str:
        """The text of an anchor, a title or a style, from its words on the tape."""
        if bits & IN_PAGE:
            text = self._decoded(self.body[start:stop])
            return references.in_text(text) if tag == _TITLE or bits & FOREIGN else text
        text = self._decoded(self.text_data[start:stop].tobytes())
        if bits & TEXT_NUL:
            text = text.replace("\0", "")
        return references.in_text(text) if bits & TEXT_AMP else text

    def _decoded(self, raw: bytes) -> str:
        return raw.decode("utf-8", "replace") if self.charset == UTF_8 else decode(raw, self.charset)


class Scanned:
    """One element of the tape, with the interface that the handlers of `lycosa.page.html` need."""

    __slots__ = ("_marks", "_words", "namespace", "tag")

    def __init__(self, marks: Marks, at: int) -> None:
        self._marks = marks
        self._words: list[int] = marks.tape[at : at + LONGEST].tolist()
        self.tag = _NAMES[self._words[0]]
        self.namespace = Namespace.SVG if self._words[1] & FOREIGN else Namespace.HTML

    def attr(self, name: str) -> str | None:
        """The value of an attribute, if the element has it."""
        words = self._words
        wanted = _IDS[name]
        for at in range(HEAD, HEAD + 3 * words[6], 3):
            if words[at] & 0xFF == wanted:
                return self._marks.value(words[at], words[at + 1], words[at + 2])
        return None

    @property
    def text(self) -> str:
        """The content of a title or style, the text of an anchor."""
        return self._marks.text(*self._words[:4])

    def link_text(self, limit: int) -> str:
        """The text of an anchor; without any, its title, or the alternative text of its first image."""
        text = fold(self.text, limit)
        if not text:
            text = fold(self.attr("title") or "", limit)
        if not text and self._words[4] >= 0:
            text = fold(self._marks.value((AMP | HIGH | NUL) << 8, self._words[4], self._words[5]), limit)
        return text


def collect(marks: Marks, places: Iterable[int], into: Collected) -> str:
    """Read the elements at some places with the handlers; returns the language that the root element gives."""
    language = ""
    for at in places:
        element = Scanned(marks, at)
        tag = element.tag
        if tag == "a":
            _anchor(element, into)
        elif tag == "style":
            collect_sheet(element.text, into)
        elif tag != "html":
            HANDLERS[tag](element, into)  # type: ignore[arg-type]
        elif not language:
            language = (element.attr("lang") or "").strip(WHITE)[:35]
    return language


def _collect_sorted(marks: Marks, rows: list[list[int]], likes: bytes, into: Collected, heads: Heads) -> str:
    """The same for the rows of `sort_out`; `heads` caches the contents of `link` and `meta` from page to page."""
    language = ""
    body, charset = marks.body, marks.charset
    for at, first, last, start, stop in rows:
        if start == stop:
            found = collect(marks, (at,), into)
            language = language or found
            continue
        likeness = (likes[4 * start : 4 * stop], body[first:last], charset)
        known = heads.get(likeness)
        if known is None:
            if len(heads) >= _HEADS:
                heads.clear()
            element: Any = Scanned(marks, at)
            known = (add_link, link_of(element)) if element.tag == "link" else (add_meta, meta_of(element))
            heads[likeness] = known
        add, said = known
        if said is not None:
            add(said, into)
    return language


def _anchor(element: Scanned, into: Collected) -> None:
    href = element.attr("href")
    if href is None:
        href = element.attr("xlink:href")
        if href is None:
            return
    href = href.strip(WHITE)
    if not href and into.base:
        href = "#"  # the base itself
    if into.wants(href):
        rel = element.attr("rel")
        into.hrefs.append(href)
        into.kinds.append(NOFOLLOW if rel is not None and "nofollow" in rel.lower().split() else _ANCHOR)
        into.texts.append(element.link_text(into.limits.text))


class ScanParser:
    """Reads text/html and application/xhtml+xml.

    With `deferred`, links given by a single attribute are left on the tape (`Page.marks`), for a `Linker` to pack;
    the columns then hold only the links that handlers made from the other elements.
    """

    def __init__(self, limits: Limits = LIMITS, deferred: bool = False) -> None:
        self._limits = limits
        self._deferred = deferred
        self._buffers = _Buffers()

    def parse(self, body: bytes, url: str, media: str, charset: str) -> Page:
        """What the page says."""
        marks = self.scan(body, media, charset)
        into = Collected(self._limits, self._limits.links)
        if self._deferred:
            buffers, tape = self._buffers, marks.tape
            others = buffers.others
            likes = buffers.likes if len(tape) <= _TAPE else np.empty(len(tape), np.int32)
            count, end = sort_out(tape, len(tape), marks.data, others, likes, _HEAD_BYTES)
            rows, said = others[:count].tolist(), likes[:end].tobytes()
            language = _collect_sorted(marks, rows, said, into, buffers.heads)
        else:
            language = collect(marks, marks.places(), into)
        return into.page(media, charset, language, marks.cut, marks if self._deferred else None)

    def scan(self, body: bytes, media: str, charset: str) -> Marks:
        """The tape of a page."""
        limits = self._limits
        cut = len(body) > limits.body
        if cut:
            body = body[: limits.body]
        read_as = charset or UTF_8
        if read_as in _NOT_ASCII:
            body, read_as = decode(body, charset).encode("utf-8"), UTF_8
        buffers = self._buffers
        texts = buffers.texts if len(body) <= _KEPT else np.empty(len(body), np.uint8)
        data = np.frombuffer(body, np.uint8)
        xml, most = media == XHTML, TEXT_BYTES * limits.text
        tape = buffers.tape
        end, text_end, full = scan(data, len(data), xml, most, tape, texts, buffers.stack)
        if full:  # some 50,000 elements; memory that is not written to costs nothing
            tape = np.empty(len(body) * HEAD // SHORTEST + LONGEST, np.int32)
            end, text_end, _ = scan(data, len(data), xml, most, tape, texts, buffers.stack)
        # Behind the texts there is room for attribute values: an image's alt is also the text of its anchor.
        kept = np.empty(text_end + 2 * len(body) + 8 if self._deferred else text_end, np.uint8)
        kept[:text_end] = texts[:text_end]
        return Marks(body, data, read_as, tape[:end].copy(), kept, text_end, cut)
