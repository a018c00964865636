"""Links of plain text: none, unless the text is a sitemap.

A text sitemap holds one absolute URL on each line and nothing else (sitemaps.org). A text is taken for one

- if every line that is not blank is an http or https URL without white space, or
- if the last part of its own URL's path has `sitemap` in it and ends in `.txt`; lines that are no URL are
  then skipped.

A sitemap in XML that is sent as plain text, as many static servers do, is read as XML.
"""

from __future__ import annotations

import re

from lycosa.page.collect import Collected
from lycosa.page.encodings import decode
from lycosa.page.protocol import LIMITS, Limits, Page
from lycosa.page.xml import XmlParser
from lycosa.records import LinkKind

_ANCHOR = int(LinkKind.ANCHOR)
_XML_LISTING = re.compile(rb"<(?:[\w.\-]+:)?(?:urlset|sitemapindex|rss|feed|RDF)[\s>]")
_URL_LINE = re.compile(r"https?://[^\s]++$", re.IGNORECASE)
_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]++")  # what `str.splitlines` cuts, one at a time


def named_sitemap(url: str) -> bool:
    """Whether the URL says that it is a text sitemap."""
    name = url.partition("?")[0].rpartition("/")[2].lower()
    return "sitemap" in name and name.removesuffix(".gz").endswith(".txt")


class PlainParser:
    """Reads text/plain."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._xml = XmlParser(limits)

    def parse(self, body: bytes, url: str, media: str, charset: str) -> Page:
        """The URLs of a text sitemap, or no links."""
        limits = self._limits
        head = body[:1024].lstrip(b"\xef\xbb\xbf\t\n\r ")
        if head.startswith(b"<") and _XML_LISTING.search(head) is not None:
            return self._xml.parse(body, url, "text/xml", charset)
        into = Collected(limits, limits.listed)
        named = named_sitemap(url)
        # For nearly every text the first line that counts is not a URL, which decides.
        most = limits.listing if named or _starts_with_url(head) else 0
        text = decode(body[:most], charset)
        for found in _LINE.finditer(text):
            line = found[0].strip()
            if not line:
                continue
            if _URL_LINE.match(line) is not None:
                into.add(line, _ANCHOR)
            elif not named:
                into = Collected(limits, limits.listed)
                break
        return Page(
            type=media,
            charset=charset,
            hrefs=into.hrefs,
            kinds=into.kinds,
            texts=into.texts,
            dropped=into.dropped,
            cut=0 < most < len(body),
        )


def _starts_with_url(head: bytes) -> bool:
    start = head[:16].replace(b"\0", b"").lstrip(b"\xff\xfe").lower()  # UTF-16, seen as bytes
    return start.startswith((b"http://", b"https://"))
