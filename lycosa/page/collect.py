"""The columns of links while a page is read, and the hrefs that are left out of them.

An href is kept as the author wrote it, without the white space around it. These are left out early,
because no fetcher could use them and they are common enough to be worth not resolving:

- empty ones, which mean the page itself; `#…` likewise, unless a base element makes it another page (the empty
  href of an anchor is then written `#`);
- those of schemes that hold no page: javascript, data, mailto, tel and their kind;
- those longer than the limit, which count as dropped, as do all beyond the limit on their number.
"""

from __future__ import annotations

import re
from typing import Any

from lycosa.page.protocol import Limits, Page

WHITE = "\t\n\f\r "
"""What HTML calls white space."""

_NO_PAGE = re.compile(
    r"(?:javascript|vbscript|data|mailto|tel|sms|callto|skype|whatsapp|viber|tg|fax|geo|maps|market"
    r"|intent|android-app|ios-app|about|blob|cid|mid|magnet|irc|webcal|bitcoin|chrome|res|void|urn"
    r"|news|xmpp|sip|sips):",
    re.IGNORECASE,
)
_LONGEST = 12  # where the colon of the longest of them stands at the latest


def fold(text: str, limit: int) -> str:
    """White space folded to single spaces, none at the ends, at most `limit` characters."""
    if len(text) > 8 * limit:
        text = text.lstrip()[: 8 * limit]
    return " ".join(text.split())[:limit].rstrip()


class Collected:
    """Three columns that grow together, within limits."""

    __slots__ = (
        "base",
        "canonical",
        "dropped",
        "hrefs",
        "kinds",
        "limits",
        "most",
        "robots",
        "texts",
        "title",
    )

    def __init__(self, limits: Limits, most: int) -> None:
        self.limits = limits
        self.most = most
        self.hrefs: list[str] = []
        self.kinds: list[int] = []
        self.texts: list[str] = []
        self.robots: list[tuple[str, str]] = []
        self.base = ""
        self.canonical = ""
        self.title = ""
        self.dropped = 0

    def wants(self, href: str) -> bool:
        """Whether to keep an href (white space removed); counts it as dropped if a limit excludes it."""
        if not href:
            return False
        if href[0] == "#":
            if not self.base:
                return False
        elif href.find(":", 2, _LONGEST) > 0 and _NO_PAGE.match(href) is not None:
            return False
        if len(href) > self.limits.href or len(self.hrefs) >= self.most:
            self.dropped += 1
            return False
        return True

    def add(self, href: str | None, kind: int, text: str = "") -> None:
        """Add a link, if the href is one to keep; `text` is folded already."""
        if href is None:
            return
        href = href.strip(WHITE)
        if self.wants(href):
            self.hrefs.append(href)
            self.kinds.append(kind)
            self.texts.append(text)

    def page(self, media: str, charset: str, language: str, cut: bool, marks: Any = None) -> Page:
        """The page with these columns."""
        return Page(
            type=media,
            charset=charset,
            title=self.title,
            hrefs=self.hrefs,
            kinds=self.kinds,
            texts=self.texts,
            base=self.base,
            canonical=self.canonical,
            robots=self.robots,
            language=language,
            dropped=self.dropped,
            cut=cut,
            marks=marks,
        )
