"""Hints: signals about a page between two fetches of it, and what they are worth, by site.

A hint indicates that a page has changed since it was fetched, or, by its absence, that it has not:

    lastmod     the sitemap gives a date of change that is later than the fetch
    linked      a page (a hub, a feed) that was fetched again links it, and did not before
    lifetime    the time for which the answer said that it would hold (Cache-Control, Expires) is over

Hints may be wrong: dates of sitemaps are all equal, or those of the last build, or years old; lifetimes are server
defaults. So a hint is weighted by its past accuracy. Each fetch of a known page shows whether the page had changed,
how likely that was by its rate and the time passed, and which kinds of hint of its site were present. If pages
with a hint have changed r times as often as expected (in odds), the hint multiplies the odds by r; likewise for
pages without it. (The share of right hints alone would mislead: the longer ago a page was fetched, the likelier are
both a change and a hint.) The difference is reduced by two standard errors, and `STRENGTH` fetches that went as
expected are added, so without evidence a hint has no effect. A hint that is always there, never there, or there by
chance has no effect either. Counts fade (they are halved at `FADE`), so that a site whose hints become wrong is
noticed.

Odds are converted to time: a page believed to be fresh with probability p is judged as if it had been fetched so
long ago that its rate alone would give p (`effective`). This is the form in which noisy signals of change enter the
value of a fetch (Busa-Fekete et al., arXiv 2502.02430): a signal is worth some time.

**Hubs.** A page that brings links to new pages, or right hints, is worth fetching for these: its importance grows
by what a fetch of it brings (`Hubs`). New links count by the share of the site's new URLs that were pages with a
content of their own, so neither session ids nor calendars make a hub; hints by the share that was right.

All of it is in memory and bounded: a restarted crawl learns anew what hints are worth.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import IntEnum
from typing import Any

import numpy as np

from lycosa.refresh.rates import RATES, Weights
from lycosa.refresh.value import MOST, TIMES, freshness

STRENGTH = 4.0
FADE = 400.0
MOST_RATIO = 50.0
MOST_SITES, MOST_PAGES = 10_000, 200_000
_LONGEST_LIFETIME = 365 * 86_400.0
_DIGITS = re.compile(r"[0-9]{1,11}")
_SURE = 1.5
"""A hint is acted upon if it multiplies the odds of a change by at least this."""


class Kind(IntEnum):
    """The kinds of hints; bits of the hints present for a page."""

    LASTMOD = 1
    LINKED = 2
    LIFETIME = 4

    @property
    def words(self) -> str:
        return {1: "its sitemap says so", 2: "it was linked anew", 4: "its lifetime is over"}[self]


class Tally:
    """Counts of fetches of pages with a hint, or of pages without it."""

    __slots__ = ("changed", "expected", "fetches")

    def __init__(self) -> None:
        self.fetches = self.changed = self.expected = 0.0

    def add(self, changed: bool, expected: float) -> None:
        """Count a fetch; `expected`: the probability that the page had changed, without the hint."""
        if self.fetches >= FADE:
            self.fetches, self.changed, self.expected = self.fetches / 2, self.changed / 2, self.expected / 2
        self.fetches += 1
        self.changed += changed
        self.expected += expected

    @property
    def ratio(self) -> float:
        """The factor by which the odds of a change are multiplied."""
        if not self.fetches:
            return 1.0
        mean = min(max(self.expected / self.fetches, 0.01), 0.99)
        more = self.changed - self.expected
        sure = max(abs(more) - 2 * math.sqrt(self.fetches * mean * (1 - mean)), 0.0)
        found = (self.expected + math.copysign(sure, more) + STRENGTH * mean) / (self.fetches + STRENGTH)
        found = min(max(found, 1e-3), 0.999)
        return found * (1 - mean) / ((1 - found) * mean)


class Hints:
    """The hints of one agent. Sites are names or numbers, pages are keys, times are seconds since the epoch."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[object, Kind], tuple[Tally, Tally]] = {}  # silent, spoken
        self._said: dict[int, int] = {}
        self._until: dict[int, float] = {}

    def say(self, site: object, page: int, kind: Kind) -> None:
        """Note a hint that a page has changed since it was fetched."""
        self._site(site, kind)
        _make_room(self._said, MOST_PAGES)
        self._said[page] = self._said.get(page, 0) | kind

    def lives(self, site: object, page: int, until: float) -> None:
        """Note that the lifetime of a page that was just fetched ends at `until`."""
        self._site(site, Kind.LIFETIME)
        _make_room(self._until, MOST_PAGES)
        self._until[page] = until

    def found(self, site: object, page: int, changed: bool, expected: float, at: float) -> None:
        """Judge the hints about a known page that was fetched, and forget them.

        `expected`: the probability that it had changed, by all that is known except hints."""
        for kind in Kind:
            if (tallies := self._heard(site, page, kind)) is not None:
                tallies[self._speaks(page, kind, at)].add(changed, expected)
        self._said.pop(page, None)
        self._until.pop(page, None)

    def ratio(self, site: object, page: int, at: float) -> tuple[float, str]:
        """The factor by which a page's hints multiply the odds of a change; and the reason, if the odds grow."""
        ratio, best, why = 1.0, 1.0, ""
        for kind in Kind:
            if (tallies := self._heard(site, page, kind)) is None:
                continue
            spoken = self._speaks(page, kind, at)
            one = tallies[spoken].ratio
            ratio *= one
            if spoken and one > best:
                best, why = one, kind.words
        return min(max(ratio, 1 / MOST_RATIO), MOST_RATIO), why

    def expires(self, site: object, page: int, at: float) -> float | None:
        """When a page's lifetime ends, if it has not ended and if lifetimes are worth something on its site."""
        until = self._until.get(page, 0.0)
        return until if until > at and self.trust(site, Kind.LIFETIME) else None

    def trust(self, site: object, kind: Kind) -> float:
        """The share of pages with this hint that had changed; 0 if that is hardly more than expected."""
        tallies = self._tallies.get((site, kind))
        if tallies is None or tallies[1].ratio < _SURE:
            return 0.0
        return tallies[1].changed / tallies[1].fetches

    def _heard(self, site: object, page: int, kind: Kind) -> tuple[Tally, Tally] | None:
        """The tallies of a kind of hint, if that kind could be present for the page."""
        return None if kind is Kind.LIFETIME and page not in self._until else self._tallies.get((site, kind))

    def _speaks(self, page: int, kind: Kind, at: float) -> bool:
        if kind is Kind.LIFETIME:
            return at >= self._until[page]
        return bool(self._said.get(page, 0) & kind)

    def _site(self, site: object, kind: Kind) -> None:
        if (site, kind) not in self._tallies:
            _make_room(self._tallies, MOST_SITES)
            self._tallies[site, kind] = Tally(), Tally()


def effective(belief: Weights, since: float, ratio: float) -> float:
    """Seconds since the fetch of a page, corrected for its hints: see the module's docstring."""
    fresh = float(freshness(belief, np.array([since]))[0])
    left = fresh / (fresh + (1 - fresh) * ratio) if fresh < 1 else 1.0
    if ratio == 1.0 or fresh >= 1:
        return since
    curve = (np.atleast_2d(belief) @ _FRESH)[0]
    return float(np.interp(-left, -curve, TIMES, left=0.0, right=MOST))


_FRESH: Weights = np.exp(-RATES[:, None] * TIMES)


class Hubs:
    """What a fetch of a page brings besides its own content: good new pages, and right hints."""

    def __init__(self) -> None:
        self._brings: dict[int, float] = {}
        self._sites: dict[object, list[float]] = {}

    def note_new(self, site: object, good: bool) -> None:
        """Count a fetch of a new URL of a site; `good`: it was a page with a content of its own."""
        _make_room(self._sites, MOST_SITES)
        counts = self._sites.setdefault(site, [1.0, 2.0])
        counts[0] += good
        counts[1] += 1
        if counts[1] > FADE:
            counts[:] = [count / 2 for count in counts]

    def brought(self, site: object, page: int, new: int, right: float = 0.0) -> None:
        """Count what a fetch of a known page brought: links to unknown pages, and right hints (expected)."""
        if new or right or page in self._brings:
            _make_room(self._brings, MOST_PAGES)
            good, tried = self._sites.get(site, (1.0, 2.0))
            before = self._brings.get(page, 0.0)
            self._brings[page] = before + (min(new * (good / tried) ** 2 + right, 20.0) - before) / 4

    def factor(self, page: int) -> float:
        """The factor by which what a page brings raises the value of fetching it: 1 to 8."""
        brings = self._brings.get(page, 0.0)
        return 1.0 if brings < 0.1 else min(1.0 + brings, 8.0)


def _make_room(table: dict[Any, Any], most: int) -> None:
    """Remove the oldest entry of a table that is full."""
    if len(table) >= most:
        del table[next(iter(table))]


def date_of(text: str) -> float | None:
    """A sitemap's date (ISO 8601; a day counts to its end) in seconds since the epoch; None if it is not a date."""
    text = text.strip()
    if not 10 <= len(text) <= 35 or not text[:4].isdigit():
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if len(text) == 10:
        found += timedelta(days=1, seconds=-1)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def lifetime(cache_control: str, expires: str, date: str) -> float:
    """Seconds for which an answer says that it is valid; 0 if it says nothing useful."""
    for word in cache_control.lower().split(","):
        name, _, value = word.strip().partition("=")
        if name in ("no-store", "no-cache"):
            return 0.0
        if name == "max-age":
            value = value.strip('" ')
            return min(float(value), _LONGEST_LIFETIME) if _DIGITS.fullmatch(value) else 0.0
    try:
        held = parsedate_to_datetime(expires) - parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    return min(max(held.total_seconds(), 0.0), _LONGEST_LIFETIME)
