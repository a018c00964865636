"""Robots directives of a page: X-Robots-Tag headers and robots meta elements. Pure functions on strings.

    value     = item *("," item)
    item      = directive / name ":" argument / agent ":" item
    directive = all | index | follow | none | noindex | nofollow | noarchive | nocache | nosnippet
              | noimageindex | notranslate | ...            (unknown ones are ignored)
    name      = unavailable_after | max-snippet | max-image-preview | max-video-preview

- An `agent:` prefix counts for what follows it in the value, up to the next prefix (a proxy may have joined
  several headers into one). Items before any prefix are for everybody. Agents are compared by product
  token (`robots.product_token`), in any case; "*" and "robots" mean everybody.
- The date of unavailable_after may hold commas ("Friday, 25-Jun-10 15:00:00 GMT"): a day of the week on its
  own is joined to the next item. RFC 822, RFC 850 and ISO 8601 dates are read; a date that is none
  of these is ignored. Without a zone it is UTC.
- `none` is noindex and nofollow; `nocache` is noarchive. Merging keeps every restriction: of general
  and special directives, of header and meta, the most restrictive combination holds.

Any string may be passed in; nothing raises. Only the first 64 KiB of all values together and their first 32 dates
count, so time is linear in the input, and bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from lycosa.fetch.robots import product_token

LIMIT = 65_536
"""Characters that count, of all values together."""
_DATES = 32

_DAY = re.compile(r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\Z", re.I)
_WITH_ARGUMENT = {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
_EVERYBODY = {"*", "robots"}
_FLAGS = {
    "noindex": ("noindex",),
    "nofollow": ("nofollow",),
    "none": ("noindex", "nofollow"),
    "noarchive": ("noarchive",),
    "nocache": ("noarchive",),
    "nosnippet": ("nosnippet",),
    "noimageindex": ("noimageindex",),
    "notranslate": ("notranslate",),
}


class Directives(NamedTuple):
    """The restrictions that a page asks for; the default is none."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False
    nosnippet: bool = False
    noimageindex: bool = False
    notranslate: bool = False
    unavailable_after: int | None = None  # milliseconds since the epoch

    def at(self, now: int) -> Directives:
        """The directives at a given time: after unavailable_after, a page is not to be indexed."""
        if self.unavailable_after is not None and now >= self.unavailable_after:
            return self._replace(noindex=True)
        return self


NONE = Directives()


def merge(first: Directives, second: Directives) -> Directives:
    """All restrictions of both; of two dates, the earlier."""
    if first == NONE:
        return second
    if second == NONE:
        return first
    dates = [d.unavailable_after for d in (first, second) if d.unavailable_after is not None]
    return Directives(
        first.noindex or second.noindex,
        first.nofollow or second.nofollow,
        first.noarchive or second.noarchive,
        first.nosnippet or second.nosnippet,
        first.noimageindex or second.noimageindex,
        first.notranslate or second.notranslate,
        min(dates, default=None),
    )


def directives(contents: Iterable[str], agent: str) -> Directives:
    """What X-Robots-Tag values (one string a header) ask of `agent`."""
    token = product_token(agent)
    merged = NONE
    left = LIMIT
    for content in contents:
        if left <= 0:
            break
        merged = merge(merged, _parse(content[:left], token))
        left -= len(content) + 1
    return merged


def meta_directives(named: Iterable[tuple[str, str]], agent: str) -> Directives:
    """What meta elements, as (name, content), ask of `agent`: those named "robots" or by its token."""
    token = product_token(agent)
    meant = _EVERYBODY | {token}
    return directives((content for name, content in named if name.strip().lower() in meant), agent)


def _parse(content: str, token: str) -> Directives:
    flags: dict[str, bool] = {}
    dates: list[int] = []
    ours = True
    items = content.split(",")
    i = 0
    while i < len(items):
        item = items[i].strip()
        i += 1
        words = [word.strip().lower() for word in item.split(":")]
        # Up to the directive: "agent: unavailable_after: date" has two colons before its argument.
        place = next((n for n, word in enumerate(words) if word in _WITH_ARGUMENT), len(words) - 1)
        if place:
            agent = words[place - 1]
            ours = agent in _EVERYBODY or product_token(agent) == token
        name = words[place]
        if name == "unavailable_after" and place < len(words) - 1:
            rest = item.split(":", place + 1)[-1].strip()
            if _DAY.match(rest) and i < len(items):
                rest = f"{rest}, {items[i].strip()}"
                i += 1
            if ours and len(dates) < _DATES and (date := _date(rest)) is not None:
                dates.append(date)
        elif ours:
            for flag in _FLAGS.get(name, ()):
                flags[flag] = True
    if not flags and not dates:
        return NONE
    return Directives(**flags, unavailable_after=min(dates, default=None))


def _date(text: str) -> int | None:
    """Milliseconds since the epoch; None if it is not a date."""
    if len(text) > 64:
        return None
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            when = read(text)
            if when.tzinfo is None:
                when = when.replace(tzinfo=UTC)
            return int(when.timestamp() * 1000)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None
