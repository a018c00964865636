"""Determining the effective media type of a body, by its header and its bytes.

The part of WHATWG MIME Sniffing that decides what a crawler does with a body:

    no type, or an unknown one   §7.1, from the bytes: markup, PDF, images, sound, archives, text or binary
    text/plain                   §7.2: binary, if it holds a byte that text does not
    text/html                    §7.3: RSS or Atom, if that is what it is
    an XML type                  as said
    any other                    as said

Deliberate differences:

- any text/plain is tested for binary bytes, not only the four spellings of one old server: a binary file
  that is read as text costs the crawl more than it would a browser;
- text/html that starts with the signature of a binary format is that format, for the same reason;
- the resource header is the first 1,445 bytes, as in the standard, whatever has been received.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

HEADER = 1445

HTML = "text/html"
XHTML = "application/xhtml+xml"
PLAIN = "text/plain"
BINARY = "application/octet-stream"
GZIP = "application/x-gzip"
RSS = "application/rss+xml"
ATOM = "application/atom+xml"


class Declared(NamedTuple):
    """A parsed Content-Type header. Parts that it does not have are empty strings."""

    type: str
    charset: str


_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_TYPE = re.compile(rf"[\t\n\r ]*({_TOKEN}/{_TOKEN})[\t\n\r ]*(?:;|,|$)")
_PARAMETER = re.compile(rf';[\t\n\r ]*({_TOKEN})=(?:"((?:[^"\\]|\\.)*+)"?|([^;]*))', re.DOTALL)
_TEXTS = frozenset({"application/javascript", "application/ecmascript", "application/json"})
_UNKNOWN = frozenset({"", "unknown/unknown", "application/unknown", "*/*"})


@lru_cache(maxsize=1024)
def declared(content_type: str | None) -> Declared:
    """The media type and charset label of a Content-Type header (MIME Sniffing §4.4)."""
    if not content_type or len(content_type) > 1000:
        return Declared("", "")
    found = _TYPE.match(content_type)
    if found is None:
        return Declared("", "")
    for parameter in _PARAMETER.finditer(content_type, found.end(1)):
        if parameter[1].lower() == "charset":
            value = parameter[3] if parameter[2] is None else parameter[2]
            # Single quotes do not quote in the standard, but servers use them.
            return Declared(found[1].lower(), value.strip("\t\n\r '\"").lower())
    return Declared(found[1].lower(), "")


@lru_cache(maxsize=1024)
def is_xml(media: str) -> bool:
    """Whether that is an XML type (MIME Sniffing §4.6)."""
    return media.endswith("+xml") or media in ("text/xml", "application/xml")


@lru_cache(maxsize=1024)
def is_text(media: str) -> bool:
    """Whether bodies of that type are text, so that they are in some encoding."""
    return media.startswith("text/") or is_xml(media) or media in _TEXTS


def sniff(body: bytes, media: str) -> str:
    """The effective media type of a body that came as `media` (empty: it came without)."""
    if media == HTML:
        start = body[:1]
        if start in _SIGNED:
            return _signature(body) or HTML
        # Nearly every page starts with a doctype or its root element, and no feed does.
        if _PLAINLY_HTML.match(body) is not None:
            return HTML
        return _feed_or_html(body[:HEADER])
    if media in _UNKNOWN:
        return _unknown(body[:HEADER])
    if media == PLAIN:
        return _text_or_binary(body[:HEADER])
    return media


_PLAINLY_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?[\t\n\f\r ]*+(?:<\?[^?>]*+\?>[\t\n\f\r ]*+)?<(?:!doctype html|html)", re.IGNORECASE
)

_MARKUP = re.compile(
    rb"[\t\n\f\r ]*+<(?:(?:!DOCTYPE HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|B|BODY"
    rb"|BR|P)[ >]|!--)",
    re.IGNORECASE,
)
_XML = re.compile(rb"[\t\n\f\r ]*+<\?xml")
_BINARY_BYTE = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")

_SIGNATURES: list[tuple[bytes, str]] = [
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"\x00\x00\x02\x00", "image/x-icon"),
    (b"ID3", "audio/mpeg"),
    (b"OggS\x00", "application/ogg"),
    (b"MThd\x00\x00\x00\x06", "audio/midi"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"OTTO", "font/otf"),
    (b"\x1f\x8b\x08", GZIP),
    (b"PK\x03\x04", "application/zip"),
    (b"Rar!\x1a\x07\x00", "application/x-rar-compressed"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"(\xb5/\xfd", "application/zstd"),
]
_CONTAINERS: list[tuple[bytes, bytes, str]] = [
    (b"RIFF", b"WEBPVP", "image/webp"),
    (b"RIFF", b"AVI ", "video/avi"),
    (b"RIFF", b"WAVE", "audio/wave"),
    (b"FORM", b"AIFF", "audio/aiff"),
]
_SIGNED = frozenset([s[:1] for s, _ in _SIGNATURES] + [s[:1] for s, _, _ in _CONTAINERS] + [b"B", b"\x00"])


def _signature(head: bytes) -> str | None:
    """The binary format whose signature the bytes start with."""
    for signature, media in _SIGNATURES:
        if head.startswith(signature):
            return media
    for outer, inner, media in _CONTAINERS:
        if head.startswith(outer) and head[8 : 8 + len(inner)] == inner:
            return media
    if head[4:8] == b"ftyp":
        return "video/mp4"
    if head[:2] == b"BM" and _BINARY_BYTE.search(head[2:64]):
        # The two letters "BM" alone would turn many ordinary texts into bitmaps.
        return "image/bmp"
    return None


def _unknown(head: bytes) -> str:
    if _MARKUP.match(head):
        return HTML
    if _XML.match(head):
        return "text/xml"
    found = _signature(head)
    if found is not None:
        return found
    return _text_or_binary(head)


def _text_or_binary(head: bytes) -> str:
    if head[:2] in (b"\xfe\xff", b"\xff\xfe") or head[:3] == b"\xef\xbb\xbf":
        return PLAIN
    if _BINARY_BYTE.search(head) is None:
        return PLAIN
    return _signature(head) or BINARY


def _feed_or_html(head: bytes) -> str:
    """RSS, Atom or HTML, by the first element (§7.3)."""
    at = 3 if head[:3] == b"\xef\xbb\xbf" else 0
    while True:
        while head[at : at + 1] in (b"\t", b"\n", b"\f", b"\r", b" "):
            at += 1
        if head[at : at + 1] != b"<":
            return HTML
        at += 1
        if head.startswith(b"!--", at):
            end, skip = head.find(b"-->", at + 3), 3
        elif head.startswith(b"!", at):
            end, skip = head.find(b">", at + 1), 1
        elif head.startswith(b"?", at):
            end, skip = head.find(b"?>", at + 1), 2
        elif head.startswith(b"rss", at):
            return RSS
        elif head.startswith(b"feed", at):
            return ATOM
        elif head.startswith(b"rdf:RDF", at):
            rdf = b"http://www.w3.org/1999/02/22-rdf-syntax-ns#" in head
            return RSS if rdf and b"http://purl.org/rss/1.0/" in head else HTML
        else:
            return HTML
        if end < 0:
            return HTML
        at = end + skip
