"""Parsers by content type, and the function that reads any body.

`Parsers.read` determines the type of a body (`sniff`) and its encoding (`charset`), and passes it to the parser
of its type. It never raises: if a parser fails, as a plug-in's may, the result is a page without links, and
`failed` counts it.

A type is looked up exactly, then as XML if it ends in `+xml`. Types without a parser yield a page that has
a type and nothing else.

Gzip. Content codings are undone before a body gets here; a body that is still gzip is a file, and matters only
if it is a sitemap (`sitemap.xml.gz`). Its first bytes are unpacked, and only if they are XML or a text
sitemap is the rest, up to the limit on listings. The page then has the type of the content.

Plug-ins are entry points of the group `lycosa.parsers`: the name is a media type, the object a callable that
is given `Limits` and returns a `Parser`. They come before the built-in parsers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from lycosa.errors import ConfigError
from lycosa.page.charset import charset_of
from lycosa.page.css import CssParser
from lycosa.page.encodings import encoding_of
from lycosa.page.html import HtmlParser
from lycosa.page.plain import PlainParser, named_sitemap
from lycosa.page.protocol import LIMITS, Limits, Page, Parser
from lycosa.page.sniff import GZIP, HTML, PLAIN, XHTML, declared, is_text, is_xml, sniff
from lycosa.page.xml import XmlParser
from lycosa.plugins import entry_points

GROUP = "lycosa.parsers"

_GZIPS = frozenset({GZIP, "application/gzip", "application/gzip-compressed", "application/x-gzipped"})
_HTMLS = frozenset({HTML, XHTML})
_MAGIC = b"\x1f\x8b"
_SLICE = 1024
"""Bytes of a gzip file that are unpacked at a time."""
_MEMBERS = 8192
"""The most members of a gzip file that are read: even an empty one has a cost."""


class Parsers:
    """The parsers of one crawl."""

    def __init__(self, limits: Limits = LIMITS, html: Parser | None = None) -> None:
        self.limits = limits
        self.failed = 0
        html, xml = html or HtmlParser(limits), XmlParser(limits)
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
    def load(limits: Limits = LIMITS, html: Parser | None = None) -> Parsers:
        """The built-in parsers and those that installed packages offer; `html` reads HTML in the tree's place."""
        parsers = Parsers(limits, html)
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
        """Use `parser` for bodies of that media type from now on."""
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
    unpacked = bytearray()
    at = 0
    for _ in range(_MEMBERS):
        if body[at : at + 2] != _MAGIC or len(unpacked) >= most:
            break
        inflater = zlib.decompressobj(wbits=31)
        while at < len(body) and not inflater.eof and len(unpacked) < most:
            # In small slices: what the library does not use of one it copies, and an error costs one slice.
            data = body[at : at + _SLICE]
            try:
                unpacked += inflater.decompress(data, most - len(unpacked))
            except zlib.error:
                return bytes(unpacked)
            at += len(data) - len(inflater.unused_data)
        if not inflater.eof:
            break
    return bytes(unpacked)


_BUILT_IN = Parsers()


def read_page(body: bytes, content_type: str | None, url: str) -> Page:
    """The page that `body` is, by the built-in parsers and default limits; never raises."""
    return _BUILT_IN.read(body, content_type, url)
