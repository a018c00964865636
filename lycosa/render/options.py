"""Options for rendering, and the decision which pages are rendered.

`when` is one of

    never     no page is rendered
    auto      pages with next to no text and links without their scripts
    always    every HTML page
    a pattern every HTML page in whose URL it is found (a regular expression)
"""

from __future__ import annotations

import math
import re

import msgspec

WORDS = ("never", "auto", "always")
LEAST_TEXT = 200
"""Characters of text with which a page counts as having text."""
LEAST_LINKS = 3
"""Links to other pages with which a page counts as having links."""


def check_when(when: str) -> None:
    """Refuse a value that is neither one of the words nor a regular expression."""
    if when in WORDS:
        return
    try:
        re.compile(when)
    except re.error as error:
        raise ValueError(f"{when!r} is none of {', '.join(WORDS)} and no pattern: {error}") from None
    if not when or when.isalpha():
        raise ValueError(f"{when!r} is none of {', '.join(WORDS)}; a pattern has more than letters")


class RenderOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pages a browser renders, and its limits per page. Times in seconds, sizes in bytes."""

    when: str = "never"  # never, auto, always, or a regular expression that is looked for in URLs
    browser: str = ""  # the program; "": chromium, chromium-browser or google-chrome, whichever is found
    sandbox: bool = True  # False: Chromium without its own sandbox, where the system does not allow it one
    tabs: int = 2  # pages rendered at a time, by one agent
    seconds: float = 20.0  # of the browser's work for one page; waiting for sites does not count
    most_seconds: float = 300.0  # for one page, waiting included
    page_seconds: float = 5.0  # how far a page's own clock runs: timers up to there fire
    requests: int = 200  # for one page
    bytes: int = 32 << 20  # for one page, decoded
    images: bool = False  # also fetch images, media and fonts, which hold neither text nor links
    turn_seconds: float = 30.0  # how long a page waits for the turn of another host than its own
    cache: int = 32 << 20  # what pages asked for a moment ago is kept, up to so much
    cache_seconds: float = 300.0
    pages_per_browser: int = 500  # after so many the browser is replaced
    memory: int = 2 << 30  # of the browser's processes together; beyond it is replaced

    def __post_init__(self) -> None:
        check_when(self.when)
        for name, least in (
            *(("tabs", 1), ("seconds", 0.1), ("most_seconds", 1), ("page_seconds", 0), ("requests", 0)),
            *(("bytes", 0), ("turn_seconds", 0), ("cache", 0), ("cache_seconds", 0)),
            *(("pages_per_browser", 1), ("memory", 64 << 20)),
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= least):
                raise ValueError(f"{name} must be at least {least}, not {value}")


def wanted(when: str, url: str, scripts: bool, links: int, text: int) -> bool:
    """Whether to render an HTML page that has `scripts`, and without them `links` links and `text` characters."""
    if when == "never" or not scripts:
        return False
    if when == "always":
        return True
    if when == "auto":
        return links < LEAST_LINKS and text < LEAST_TEXT
    return re.search(when, url) is not None
