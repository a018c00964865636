"""The result of reading a page, and the interface of the parsers of content types.

A `Page` is the content of one body, before any URL is resolved: links are the hrefs as the author wrote them
(white space around them removed), in document order, repeats kept (but see `Limits.repeats`). The crawl resolves
them, because some 80% of raw hrefs repeat and a cache in front of the URL parser answers those; a parser that
resolved would resolve each of them again.

The three columns `hrefs`, `kinds`, `texts` are parallel: entry *i* of each belongs to link *i*.

    hrefs   never empty, at most `Limits.href` characters, no newline after resolving
    kinds   a code of `records.LinkKind`, plus `records.NOFOLLOW` when the link's own rel says nofollow;
            what the page says about all its links (meta robots) is in `robots` and is not applied here
    texts   white space folded to single spaces, no newline, at most `Limits.text` characters

Limits are part of the contract: no page, however hostile, yields more than `Limits.links` links or costs
more than a time linear in `Limits.body`. `dropped` and `cut` tell what was lost to a limit.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """How much of a body is read, and how much of it kept."""

    body: int = 8 << 20
    """Bytes of an HTML or plain text body that are parsed; the rest is ignored."""

    listing: int = 50 << 20
    """Bytes, after decompression, of a sitemap or feed: the sitemaps protocol's own limit."""

    links: int = 20_000
    """Links kept of a page."""

    listed: int = 50_000
    """Links kept of a sitemap or feed: the sitemaps protocol's own limit."""

    href: int = 8_192
    """Characters of an href; longer ones are dropped, since cutting would make another URL. Equals the
    longest URL that has a canonical form (`lycosa.url.canonical.MAX_URL`)."""

    text: int = 100
    """Characters of a link's text; longer ones are cut."""

    repeats: bool = True
    """False: of several anchors to one page (fragments aside) only the first that has a text and is followed.
    A crawl logs each target once, and pages of reference manuals hold each of theirs several times."""

    title: int = 300
    """Characters of the title; a longer one is cut."""


LIMITS = Limits()


class Page(msgspec.Struct, frozen=True, gc=False):
    """The content of one body. See the module's docstring for the meaning of the columns."""

    type: str
    """The effective media type, lower case, without parameters; sniffed if the site gave none or a wrong one."""

    charset: str = ""
    """The WHATWG name of the encoding in lower case; empty for what is not text."""

    title: str = ""

    hrefs: list[str] = []
    kinds: list[int] = []
    texts: list[str] = []

    base: str = ""
    """The href of the first base element that has one, as given; hrefs resolve against it."""

    canonical: str = ""
    """The href of the first rel=canonical, as given; it is among the links too."""

    robots: list[tuple[str, str]] = []
    """Every meta element that speaks to robots: name (`robots`, or an agent's) in lower case, and content."""

    language: str = ""
    """The root element's language, as given."""

    dropped: int = 0
    """Links that a limit kept out."""

    cut: bool = False
    """The body was longer than the limit, and its end was not read."""

    marks: Any = None
    """What a scanner left for a `lycosa.page.linking.Linker`: links that are not in the columns."""


class Parser(Protocol):
    """Reads bodies of some content types.

    Guarantee: takes arbitrary bytes, never raises, keeps to its limits, and leaves no state behind, so
    that one parser serves a whole crawl and several threads.
    """

    def parse(self, body: bytes, url: str, media: str, charset: str) -> Page:
        """The page that `body` is.

        `media` is the effective media type and `charset` the effective encoding (a WHATWG name in lower
        case, empty if the type is no text). `url` is where the body came from; it is a hint about what
        the body may be (`sitemap.xml.gz`), not a base to resolve against.
        """
        ...
