"""Links of XML: sitemaps, sitemap indexes, RSS, RDF and Atom feeds.

    root            link                                    kind
    urlset          url/loc                                 ANCHOR, with the url's lastmod, as given, as its text
                    url/xhtml:link rel=alternate            ALTERNATE
                    loc of other vocabularies (image:loc)   none
    sitemapindex    sitemap/loc                             SITEMAP
    rss, RDF        channel/link, item/link                 ANCHOR, with the item's title as its text
                    item/guid that is a permalink           ANCHOR, if the item has no link
                    enclosure url                           MEDIA
                    atom:link                               as in Atom
    feed            link rel=alternate, or without rel      ANCHOR, with the entry's title as its text
                    rel=self, next, previous, first, last   FEED
                    rel=enclosure                           MEDIA
                    rel=related, via, replies               RELATED
                    rel=hub, edit, …                        none
    html            read as HTML
    anything else   none

Broken XML is common, and none of these formats needs more than its tags and their text; so this is a
lenient scan over tags and no XML parser. That makes it safe as well: a document type declaration is
skipped unread, so no entity is ever defined, expanded or fetched; the five named entities and character
references are all that is replaced. Every regular expression here is possessive and stops at the next `<`,
so that the time is linear in the text.

Prefixes are compared as written: a sitemap's own elements bear the prefix of its root, which keeps the
`image:loc` of an extension apart without resolving namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO

from lycosa.page.collect import Collected, fold
from lycosa.page.encodings import decode
from lycosa.page.html import HtmlParser
from lycosa.page.protocol import LIMITS, Limits, Page
from lycosa.page.references import LONGEST, in_text
from lycosa.page.sniff import XHTML
from lycosa.records import LinkKind

_ANCHOR = int(LinkKind.ANCHOR)
_ALTERNATE = int(LinkKind.ALTERNATE)
_SITEMAP = int(LinkKind.SITEMAP)
_FEED = int(LinkKind.FEED)
_RELATED = int(LinkKind.RELATED)
_MEDIA = int(LinkKind.MEDIA)

_NAME = r"[A-Za-z_][\w.\-]*+"
_ATTRIBUTES = r"""(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+"""
_ROOT = re.compile(rf"<({_NAME}:)?({_NAME})({_ATTRIBUTES})>")
# Most tags of a feed are not read here, and are skipped without a match for each.
_FEED_TAG = re.compile(
    rf"<(/?)((?:{_NAME}:)?(?:item|entry|title|link|guid|enclosure)(?![\w.\-:]))({_ATTRIBUTES})>([^<]*+)"
)
# A name without a value is matched too: skipped letter by letter, a long one would be read once for each.
_ATTRIBUTE = re.compile(rf"""({_NAME}(?::{_NAME})?+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'))?""")
_SITEMAP_TAG = re.compile(
    rf"<((?:{_NAME}:)?(?:loc|lastmod))(?:\s[^<>]*+)?>([^<]*+)|<((?:{_NAME}:)?link)\s({_ATTRIBUTES})>"
)

_DATE = 35
"""Characters of a date."""
_MOST_ATTRIBUTES = 100
"""Attributes of one tag that are read: none of these formats has a dozen."""
_LONG_VALUE = LONGEST * LIMITS.href
"""Characters from which on a value is too long for anything that is read here, references or not."""

_ATOM_RELATIONS: dict[str, int] = {
    "": _ANCHOR,
    "alternate": _ANCHOR,
    "self": _FEED,
    "next": _FEED,
    "prev": _FEED,
    "previous": _FEED,
    "first": _FEED,
    "last": _FEED,
    "next-archive": _FEED,
    "prev-archive": _FEED,
    "current": _FEED,
    "enclosure": _MEDIA,
    "related": _RELATED,
    "via": _RELATED,
    "replies": _RELATED,
}


def plain(text: str) -> str:
    """The text without comments and document type, CDATA sections written as escaped text.

    One pass each, and none at all for what does not occur. What is opened and never closed ends the text.
    """
    if "<!--" in text:
        text = _without(text, "<!--", "-->", lambda _: "")
    if "<![CDATA[" in text:
        text = _without(text, "<![CDATA[", "]]>", _escaped)
    doctype = text.find("<!DOCTYPE", 0, 4096)
    if doctype >= 0:
        bracket = text.find("[", doctype)
        end = text.find(">", doctype)
        if 0 <= bracket < end:
            end = text.find("]>", bracket) + 1 or len(text)
        text = text[:doctype] + (text[end + 1 :] if end >= 0 else "")
    return text


def _without(text: str, opening: str, closing: str, write: Callable[[str], str]) -> str:
    """The text with each section that the two marks enclose replaced by what `write` makes of it."""
    written = StringIO()  # a list of the pieces would take sixty bytes for each
    at = 0
    while (start := text.find(opening, at)) >= 0:
        written.write(text[at:start])
        start += len(opening)
        end = text.find(closing, start)
        at = end + len(closing) if end >= 0 else len(text)
        written.write(write(text[start : end if end >= 0 else at]))
    written.write(text[at:])
    return written.getvalue()


def _escaped(data: str) -> str:
    return data.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def root_of(text: str) -> re.Match[str] | None:
    """The first tag: groups prefix, name, attributes."""
    return _ROOT.search(text, 0, 64 << 10)


def attributes(text: str) -> dict[str, str]:
    """A tag's attributes."""
    found: dict[str, str] = {}
    for one in _ATTRIBUTE.finditer(text):
        if one.end() > one.end(1):
            found.setdefault(one[1], one[2] or one[3] or "")
            if len(found) == _MOST_ATTRIBUTES:
                break
    return {name: in_text(value) if len(value) <= _LONG_VALUE else value for name, value in found.items()}


def _sitemap(text: str, prefix: str, kind: int, into: Collected) -> None:
    loc, lastmod = f"{prefix}loc", f"{prefix}lastmod"
    dated = 0  # a date belongs to the last loc, if that was kept
    for tag in _SITEMAP_TAG.finditer(text):
        if tag[1] == loc:
            before = len(into.hrefs)
            into.add(_plain_href(tag[2], into), kind)
            dated = len(into.hrefs) if len(into.hrefs) > before else 0
        elif tag[1] == lastmod:
            if dated:
                into.texts[dated - 1] = tag[2].strip()[:_DATE]
        elif tag[3] and tag[3] != "link":
            its = attributes(tag[4])
            if "alternate" in its.get("rel", "").lower().split():
                into.add(its.get("href"), _ALTERNATE, its.get("hreflang", "")[:20])


def _plain_href(text: str, into: Collected) -> str:
    """The href in an element's text; one that is too long even after decoding references stays as it is."""
    text = text.strip()
    return in_text(text) if "&" in text and len(text) <= LONGEST * into.limits.href else text


class _Feed:
    """The state of the scan of a feed: one entry at a time."""

    def __init__(self, into: Collected) -> None:
        self._into = into
        self._inside = ""  # the entry's tag, empty between entries
        self._first = 0  # the entry's first link
        self._title = ""
        self._guid = ""
        self._base = ""

    def scan(self, text: str) -> None:
        for tag in _FEED_TAG.finditer(text):
            _FEED_TAGS[tag[2].rpartition(":")[2]](self, *tag.groups())
        self._leave()

    def entry(self, closing: str, name: str, given: str, after: str) -> None:
        if not closing:
            self._leave()
            self._inside = name
            self._first = len(self._into.hrefs)
        elif name == self._inside:
            self._leave()

    def _leave(self) -> None:
        into = self._into
        if self._inside:
            if self._guid and not any(kind == _ANCHOR for kind in into.kinds[self._first :]):
                into.add(self._guid, _ANCHOR)
            if self._title:
                for i in range(self._first, len(into.hrefs)):
                    into.texts[i] = into.texts[i] or self._title
        self._inside = self._title = self._guid = ""

    def title(self, closing: str, name: str, given: str, after: str) -> None:
        if closing or ":" in name:  # media:title and the like do not describe the entry
            return
        most = self._into.limits.title
        # Twice escaped, as feeds are, a letter may be a reference of references: "&amp;#60;".
        text = fold(in_text(in_text(after.lstrip()[: 8 * LONGEST * most])), most)
        if not self._inside:
            self._into.title = self._into.title or text
        elif not self._title:
            self._title = text[: self._into.limits.text].rstrip()

    def link(self, closing: str, name: str, given: str, after: str) -> None:
        if closing:
            return
        its = attributes(given) if "=" in given else {}
        if "href" in its:
            rel = its.get("rel", "").strip().lower()
            if rel in ("self", "alternate", "") or rel in _ATOM_RELATIONS:
                text = fold(its.get("title", ""), self._into.limits.text)
                self._into.add(its["href"], _ATOM_RELATIONS[rel], text)
        elif ":" not in name and not given.endswith("/"):
            self._into.add(_plain_href(after, self._into), _ANCHOR)

    def guid(self, closing: str, name: str, given: str, after: str) -> None:
        if not closing and "false" not in given.lower():
            guid = _plain_href(after, self._into).strip()
            if guid.startswith(("http://", "https://")):
                self._guid = guid

    def enclosure(self, closing: str, name: str, given: str, after: str) -> None:
        if not closing:
            self._into.add(attributes(given).get("url"), _MEDIA)


_FEED_TAGS = {
    "item": _Feed.entry,
    "entry": _Feed.entry,
    "title": _Feed.title,
    "link": _Feed.link,
    "guid": _Feed.guid,
    "enclosure": _Feed.enclosure,
}


class XmlParser:
    """Reads XML types: sitemaps and feeds, XHTML by its root; nothing in any other XML."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._html = HtmlParser(limits)

    def parse(self, body: bytes, url: str, media: str, charset: str) -> Page:
        """The links of the document."""
        limits = self._limits
        cut = len(body) > limits.listing
        text = plain(decode(body[: limits.listing] if cut else body, charset))
        root = root_of(text)
        name = root[2] if root is not None else ""
        if name.lower() == "html":
            return self._html.parse(body, url, XHTML, charset)
        into = Collected(limits, limits.listed)
        base = language = ""
        if root is not None:
            given = attributes(root[3])
            base = given.get("xml:base", "").strip()
            language = given.get("xml:lang", "").strip()
            if name == "urlset":
                _sitemap(text, root[1] or "", _ANCHOR, into)
            elif name == "sitemapindex":
                _sitemap(text, root[1] or "", _SITEMAP, into)
            elif name in ("rss", "RDF", "feed"):
                _Feed(into).scan(text)
        return Page(
            type=media,
            charset=charset,
            title=into.title,
            hrefs=into.hrefs,
            kinds=into.kinds,
            texts=into.texts,
            base=base[: limits.href],
            language=language[:35],
            dropped=into.dropped,
            cut=cut,
        )
