"""The value types of a web: requests, answers, expectations.

`Request` is all that an answer may depend on, so that an answer is a pure function of it. `Answer`
says what to send *and how*: a page cut short or a connection reset is an answer too. `Expected` is
the correct result for one URL; `lycosa.lab.webs.truth` judges these under a policy.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from lycosa.lab.webs.dice import shorts
from lycosa.lab.webs.words import words_of


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request, after its host has been found."""

    path: str
    """With the query, as in the request line."""
    at: float = 0.0
    """Wall time."""
    attempt: int = 0
    """How often this URL was asked for before; kept by the server, and only where it matters."""
    accept: str = ""
    """Accept-Encoding."""
    etag: str = ""
    """If-None-Match."""
    since: str = ""
    """If-Modified-Since."""


class Sending(StrEnum):
    """How an answer is sent."""

    WHOLE = "whole"  # with Content-Length
    CHUNKED = "chunked"
    CLOSE = "close"  # no length; closing the connection ends it, as in HTTP/1.0
    DRIBBLE = "dribble"  # whole, but in pieces with pauses between
    CUT = "cut"  # the length is that of the whole, half is sent, then the connection is closed
    CUT_CHUNKED = "cut-chunked"  # chunked, and no last chunk
    SPILL = "spill"  # more bytes than the length said, then the connection ends
    HANG_UP = "hang-up"  # the connection ends before a byte was sent
    RESET = "reset"  # the same, by a TCP reset
    GARBAGE = "garbage"  # bytes that are not HTTP


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What the server sends. Headers without length, connection and date: these are added when sending."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    sending: Sending = Sending.WHOLE
    delay: float = 0.0
    """Seconds before the first byte."""
    wait: float = 0.0
    """Seconds that the answer tells the client to stay away (Retry-After)."""
    lasting: bool = False
    """Whether the answer depends on nothing but host, path and Accept-Encoding, hence may be cached."""


Maker = Callable[[Request], Answer]
"""Makes the answers for a given path."""


class Only(StrEnum):
    """Which crawlers ask for a URL: all, or only those that do or ignore something."""

    ALL = ""
    ROBOTS = "robots"  # only those that ignore robots.txt
    ROBOTS_OTHERS = "robots-others"  # forbidden to other agents, allowed to us
    ROBOTS_UNREACHABLE = "robots-unreachable"  # only those that fetch without knowing the rules
    NOFOLLOW = "nofollow"  # only those that ignore nofollow
    NOFOLLOW_OURS = "nofollow-ours"  # ... or are not called lycosa
    SITEMAPS = "sitemaps"  # only those that read the sitemaps which robots.txt names
    REQUISITES = "requisites"  # only those that fetch what a page embeds
    RENDERED = "rendered"  # only those that run a page's scripts
    NOT_A_LINK = "not-a-link"  # nobody should: it only looks like a link
    OUTSIDE = "outside"  # not of this web
    EITHER_WAY = "either-way"  # both are right
    TRAP = "trap"  # part of something endless


class Expected(msgspec.Struct, frozen=True, gc=False):
    """The result of a correct crawler for one URL."""

    url: str
    only: Only = Only.ALL
    statuses: tuple[int, ...] = (200,)
    """Final statuses that are right; 0 stands for no answer at all."""
    location: str = ""
    """Where it redirects to, canonical."""
    hops: int = 0
    """The least number of successive redirects on the way here."""
    fails: int = 0
    """How many attempts fail first, here or on the only way here."""
    via: str = ""
    """The site without which it would not be found, if that is not its own."""
    whole_site: Only = Only.ALL
    """A further condition, which holds for every URL of the site."""
    truncated: bool = False
    """Whether the received body is shorter than announced."""


def html(body: str | bytes, *headers: tuple[str, str], status: int = 200) -> Answer:
    """An HTML page in UTF-8."""
    data = body.encode() if isinstance(body, str) else body
    return Answer(status, (("Content-Type", "text/html; charset=utf-8"), *headers), data, lasting=True)


def leaf(title: str, *links: str, head: str = "", text: str = "") -> str:
    """A small document. Links are written as they are given, so a caller may spell them oddly."""
    rows = "".join(f'<li><a href="{link}">{title} {n}</a></li>' for n, link in enumerate(links, 1))
    if not text:
        text = f"A page about {title}. {_own_words(title)}"
    return (
        f"<!DOCTYPE html><html><head><title>{title}</title>{head}</head><body>"
        f"<h1>{title}</h1><p>{text}</p><ul>{rows}</ul>"
        f'<p><a href="/">home</a></p></body></html>'
    )


def _own_words(title: str) -> str:
    """A sentence that no page of another title has."""
    words = words_of(0).words
    return " ".join(words[number & 511] for number in shorts(14, 0, "leaf", title)) + "."
