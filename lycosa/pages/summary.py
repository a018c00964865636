"""Summaries of the fetches of a page: immutable values that are joined.

A **fetch** is an event, a **page** is a URL that has been fetched, a **version** is a distinct content of a page. A
`Summary` covers any number of successive fetches of one page in the log. One fetch has a summary (`of_fetch`), and
the summary of a longer stretch is that of its first part joined with that of its second (`joined`), wherever the
stretch is cut: joining is associative. So a table need not look up a page to count a fetch of it: it keeps
summaries as they come, and joins those of one page later.

What a fetch tells:

    200 to 299          the page has this content: 32 bits of the digest of its main text, or of its body
    304, page known     the page has the content that the record's digest names; no bytes came
    300 to 399          it leads to this target
    400 to 499          it is not there for us: the status is its content, whatever the body says
    408, 425, 429, 5xx  nothing: a *failure* of the site; the page may be as it was

If two fetches in a row tell the same, there was no change between them; otherwise the page has changed at least
once. How often a page changes is estimated (`lycosa.refresh`) from `fetches`, `changes`, the time observed
(`last - first`) and the part of it in which nothing changed (`still`).

Main texts are compared in a continuous crawl, whose fetches have a weight (`Fetched.weight`), bodies in any
other. The two digests cannot be compared with each other, so if a page has fetches of both kinds, those of bodies
do not count as observed.

The record itself (its ETag, its links, where its bytes are) is in the log at `position`.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from lycosa.records import Before, Fetched, LinkKind, Lost

ETAG, MODIFIED, DUPLICATE = 1, 2, 4
"""Flags: the record at `position` has an ETag, a Last-Modified; its content was found at another URL before."""
MOST_COUNT = (1 << 16) - 1
MOST_FAILURES = (1 << 8) - 1
MOST_SECONDS = (1 << 32) - 1

_LOW = MOST_SECONDS
_FAILURES = frozenset((408, 425, 429))
_REDIRECT = int(LinkKind.REDIRECT)


class Summary(NamedTuple):
    """The summary of successive fetches of one page. Times are whole seconds since the epoch."""

    position: int
    """Of the last Fetched that has a content (no 304, no failure), or of the Lost that took it back; 0: none."""
    status: int
    """Of the last fetch, in hundreds: 2 to 5."""
    flags: int
    """Of the record at `position`."""
    failures: int
    """Fetches that failed since the last that told something, 255 at most."""
    fetches: int
    """Those that told something, 65,535 at most: the numbers below are of these."""
    changes: int
    """How many of them told something else than the one before, 65,535 at most."""
    began: int
    """What the first told: 32 bits of it."""
    content: int
    """What the last told."""
    first: int
    """When the first was."""
    last: int
    """When the last was."""
    changed: int
    """When the content that the last told was first told."""
    still: int
    """The sum of the seconds between successive fetches that told the same."""
    weight: int = 0
    """How important the page is, 1 to 31, if main texts were compared; 0: bodies were."""


def is_failure(status: int) -> bool:
    """Whether an answer of that status tells nothing of its page."""
    return status >= 500 or status in _FAILURES


def content_of(record: Fetched) -> int:
    """32 bits that identify what a fetch found at its URL."""
    status = record.status
    if status < 300 or status == 304:
        digest = (record.content if record.weight else 0) or record.digest
        return (digest ^ digest >> 32) & _LOW
    if status < 400 and record.links.kinds[:1] == bytes([_REDIRECT]):
        return zlib.crc32(record.links.urls.partition(b"\n")[0])
    return status


def of_fetch(record: Fetched, position: int) -> Summary:
    """The summary of one fetch."""
    status, second = record.status, min(max(record.at // 1000, 0), MOST_SECONDS)
    if is_failure(status):
        return Summary(0, status // 100, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)
    content = content_of(record)
    if status == 304 and record.before is Before.PAGE:
        position = flags = 0
    else:
        flags = (
            (ETAG if record.etag else 0)
            | (MODIFIED if record.modified else 0)
            | (DUPLICATE if record.duplicate else 0)
        )
    return Summary(
        position, status // 100, flags, 0, 1, 0, content, content, second, second, second, 0, record.weight
    )


def of_loss(record: Lost, position: int) -> Summary:
    """The summary of a loss: the bytes of the page's last content are gone; what it told is still known."""
    return Summary(position, 0, DUPLICATE if record.duplicate else 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def joined(a: Summary, b: Summary) -> Summary:
    """The summary of the fetches of `a` followed by those of `b`."""
    position, flags = (b.position, b.flags) if b.position else (a.position, a.flags)
    status = b.status or a.status
    if not b.fetches:
        failures = min(a.failures + b.failures, MOST_FAILURES)
        return Summary(position, status, flags, failures, *a[4:])
    if not a.fetches or (b.weight and not a.weight):
        return Summary(position, status, flags, *b[3:])
    if a.weight and not b.weight:
        return Summary(position, status, flags, b.failures, *a[4:])
    same = a.content == b.began
    gap = max(b.first - a.last, 0) if same else 0
    return Summary(
        position,
        status,
        flags,
        b.failures,
        min(a.fetches + b.fetches, MOST_COUNT),
        min(a.changes + b.changes + (not same), MOST_COUNT),
        a.began,
        b.content,
        a.first,
        b.last,
        a.changed if same and not b.changes else b.changed,
        min(a.still + b.still + gap, MOST_SECONDS),
        b.weight,
    )
