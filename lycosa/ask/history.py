"""The history of a page: its fetches in the order of the log, and the versions that they found.

A **version** is a distinct content of a page: identified by the digest of its main text where the crawl was
continuous, by that of its bytes where it was not (`lycosa.pages.summary.content_of`). A page that returns to
earlier content returns to that version. A fetch that failed found none."""

from __future__ import annotations

from typing import NamedTuple

from lycosa.ask.export import body_of
from lycosa.ask.follower import Stretch
from lycosa.ask.reading import CrawlReader
from lycosa.content.documents import text_of
from lycosa.pages.summary import content_of, is_failure
from lycosa.records import Fetched
from lycosa.url.parts import host_of


class Event(NamedTuple):
    """A fetch of the page."""

    position: int
    record: Fetched
    version: int
    """Counted from 1; 0: it failed."""
    changed: bool
    """It found another version than the fetch before it."""
    shard: int = 0


def events(crawl: CrawlReader, url: str) -> list[Event]:
    """The fetches of a URL that the crawl has, the oldest first; fetches that were taken back left out."""
    found: list[Event] = []
    versions: dict[tuple[bool, int], int] = {}
    last = 0
    shard = crawl.splitter.shard_of(host_of(url))  # all of them are in the log of one shard
    for position, record in Stretch(crawl.logs[shard]).find(url.encode("ascii")):
        if not isinstance(record, Fetched) or record.url != url:
            continue
        if is_failure(record.status):
            found.append(Event(position, record, 0, False, shard))
            continue
        told = (bool(record.weight), content_of(record))
        if record.status == 304 and last:
            version = last
        else:
            version = versions.setdefault(told, len(versions) + 1)
        found.append(Event(position, record, version, bool(last) and version != last, shard))
        last = version
    return found


def current_of(rows: list[Event]) -> Event | None:
    """The current fetch of the page (see `lycosa.ask.versions`); None if there is none."""
    told = (row for row in reversed(rows) if row.version and row.record.status != 304)
    return next(told, rows[-1] if rows else None)


def version_of(rows: list[Event], number: int) -> Fetched | None:
    """The last fetch that brought a version."""
    return next(
        (row.record for row in reversed(rows) if row.version == number and row.record.status != 304), None
    )


def text(crawl: CrawlReader, record: Fetched) -> str | None:
    """The main text of what a fetch found; None if the archive does not have it."""
    body = body_of(crawl, record)
    return None if body is None else text_of(body, record.type, record.charset)
