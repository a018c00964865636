"""Parsers by content type, and the one way from bytes to a page.

`Parsers.read` finds out what a body is (`sniff`), in which encoding (`charset`), and hands it to the parser
of its type. It never raises: a parser that fails, which a plug-in may, yields a page without links, and
`failed` counts it.

A type is looked up exactly, then as XML if it ends in `+xml`. Types without a parser yield a page that has
a type and nothing else.

Gzip. Transfer encodings are undone before a body gets here; what still is gzip is a file, and matters only
if it is a sitemap (`sitemap.xml.gz`). Its first bytes are unpacked, and only if they are XML or a text
sitemap is the rest, up to the limit on listings. The page then bears the type of what was inside.

Plug-ins are entry points of the group `lycosa.parsers`: the name is a media type, the object a callable that
is given `Limits` and returns a `Parser`. They come before the built-in parsers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib.metadata import entry_points

from lycosa.errors import ConfigError
from lycosa.page.charset import charset_of
from lycosa.page.css import CssParser
from lycosa.page.encodings import encoding_of
from lycosa.page.html import HtmlParser
from lycosa.page.plain import PlainParser, named_sitemap
from lycosa.page.protocol import LIMITS, Limits, Page, Parser
from lycosa.page.sniff import GZIP, HTML, PLAIN, XHTML, declared, is_text, is_xml, sniff
from lycosa.page.xml import XmlParser

GROUP = "lycosa.parsers"

_GZIPS = frozenset({GZIP, "application/gzip", "application/gzip-compressed", "application/x-gzipped"})
_HTMLS = frozenset({HTML, XHTML})
_MAGIC = b"\x1f\x8b"


class Parsers:
    """The parsers of one crawl."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.limits = limits
        self.failed = 0
        html, xml = HtmlParser(limits), XmlParser(limits)
        self._xml: Parser = xml
        self._by_type: dict[str, Parser] = {
            HTML: html,
            XHTML: html,
            "text/xml": xml,
            "application/xml": xml,
            PLAIN: PlainParser(limits),
            "text/css": CssParser(limits),
        }

    @staticmethod
    def load(limits: Limits = LIMITS) -> Parsers:
        """The built-in parsers and those that installed packages offer."""
        parsers = Parsers(limits)
        for point in entry_points(group=GROUP):
            try:
                make: Callable[[Limits], Parser] = point.load()
                parser = make(limits)
            except Exception as error:
                raise ConfigError(
                    f"the parser {point.value!r} for {point.name!r} cannot be loaded ({error});"
                    f" repair or uninstall the package that offers it"
                ) from error
            parsers.register(point.name, parser)
        return parsers

    def register(self, media: str, parser: Parser) -> None:
        """Have `parser` read bodies of that media type from now on."""
        self._by_type[media.lower()] = parser

    def find(self, media: str) -> Parser | None:
        """The parser of that media type."""
        found = self._by_type.get(media)
        if found is None and is_xml(media):
            return self._xml
        return found

    def read(self, body: bytes, content_type: str | None, url: str) -> Page:
        """The page that `body` is, as sent with the header `content_type` from `url`."""
        said = declared(content_type)
        if body[:2] == _MAGIC:
            inside = self._unpacked(body, url)
            if inside is not None:
                body, said = inside, declared(None)
        media = sniff(body, said.type)
        parser = self.find(media)
        if parser is None:
            return Page(type=media, charset=encoding_of(said.charset) or "" if is_text(media) else "")
        charset = charset_of(body, said.charset, html=media in _HTMLS, xml=is_xml(media))
        try:
            return parser.parse(body, url, media, charset)
        except Exception:
            self.failed += 1
            return Page(type=media, charset=charset)

    def _unpacked(self, body: bytes, url: str) -> bytes | None:
        """What is in a gzip file if that is a listing; None if it is not."""
        head = unpack(body, 1024)
        kind = sniff(head, "")
        if kind == "text/xml" or (kind == PLAIN and (head.lstrip()[:1] == b"<" or _is_list(url, head))):
            return unpack(body, self.limits.listing + 1)
        return None


def _is_list(url: str, head: bytes) -> bool:
    return named_sitemap(url) or head.lstrip()[:4].lower() == b"http"


def unpack(body: bytes, most: int) -> bytes:
    """At most `most` bytes of what is in a gzip file; damaged ones give what they still hold."""
    parts: list[bytes] = []
    size = 0
    rest = body
    while rest[:2] == _MAGIC and size < most:
        inflater = zlib.decompressobj(wbits=31)
        try:
            part = inflater.decompress(rest, most - size)
        except zlib.error:
            part = _salvaged(rest, most - size)
            parts.append(part)
            break
        parts.append(part)
        size += len(part)
        if not inflater.eof:
            break
        rest = inflater.unused_data
    return b"".join(parts)


def _salvaged(member: bytes, most: int) -> bytes:
    """What comes out of a damaged member before the damage, in steps of 1 KiB of input."""
    inflater = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    size = 0
    for at in range(0, len(member), 1024):
        try:
            part = inflater.decompress(member[at : at + 1024], most - size)
        except zlib.error:
            break
        parts.append(part)
        size += len(part)
        if size >= most:
            break
    return b"".join(parts)


_BUILT_IN = Parsers()


def read_page(body: bytes, content_type: str | None, url: str) -> Page:
    """The page that `body` is, by the built-in parsers and default limits; never raises."""
    return _BUILT_IN.read(body, content_type, url)
