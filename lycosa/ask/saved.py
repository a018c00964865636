"""A crawl saved in a directory, for programs that read it: `lycosa.open(DIR)`. Changes nothing.

    crawl = lycosa.open("crawls/example")
    for page in crawl.pages(host="example.org", type="text/html"):
        print(page.url, page.title, len(page.links), page.text, [row.text for row in page.tree.select("h2")])
    page = crawl.page("https://example.org/")              by URL, with its history
    crawl.arrow(text=True).read_all()                      as Arrow batches, which pandas, Polars and DuckDB take

Each page comes once, as its current fetch (see `versions`); with `all_fetches` every fetch comes. They come shard
by shard in the order of each log, or with `by_time` by the time of their answer. The crawl may be running; what it
has committed is read. Bodies are read from the archive on demand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from lycosa.archive.reader import Exchange, read_exchange
from lycosa.ask import export
from lycosa.ask.follower import Follower
from lycosa.ask.history import current_of, events
from lycosa.ask.reading import CrawlReader
from lycosa.ask.versions import Versions
from lycosa.content.documents import text_of
from lycosa.crawl.config import Options
from lycosa.errors import ConfigError
from lycosa.fetch.protocol import find_header
from lycosa.files import DiskFiles
from lycosa.records import Fetched, Link, Record
from lycosa.url.canonical import canonicalise
from lycosa.url.parts import host_of
from lycosa.url.rules import NO_RULES, Rules

if TYPE_CHECKING:
    from turbohtml import Document

    from lycosa.index.search import Answer, Search


class SavedPage:
    """A page as the log and the archive have it."""

    def __init__(self, crawl: CrawlReader, shard: int, position: int, record: Fetched) -> None:
        self._crawl = crawl
        self.shard = shard
        self.position = position
        """The position of its record in the log of its shard."""
        self.record = record
        self.url = record.url
        self.at = record.at
        """When the answer came, in milliseconds since the epoch."""
        self.status = record.status
        self.depth = record.depth
        self.type = record.type
        self.title = record.title
        self.duplicate = record.duplicate
        """Whether the crawl had fetched the same content elsewhere."""

    @property
    def links(self) -> list[Link]:
        """Its links, canonical, each URL once."""
        return list(self.record.links)

    @cached_property
    def body(self) -> bytes | None:
        """The body, decoded; None if the archive does not have it."""
        return export.body_of(self._crawl, self.record)

    @property
    def text(self) -> str | None:
        """The main text; None without a body."""
        if self.body is None:
            return None
        return text_of(self.body, self.type, self.record.charset)

    @property
    def tree(self) -> Document:
        """The page as a tree (built when asked for): `page.tree.select("h1 a")`; see `lycosa.page.tree`."""
        from lycosa.page.tree import tree_of

        return tree_of(self.body or b"", self.record.charset)

    @property
    def head(self) -> bytes | None:
        """Status line and headers as sent; None if the archive does not have them."""
        return None if self._exchange is None else self._exchange.head

    def header(self, name: str) -> str | None:
        """A header of the answer; None if it has none of that name, or the archive does not have it."""
        return None if self.head is None else find_header(self.head, name)

    @property
    def history(self) -> list[SavedFetch]:
        """Every fetch of this page that the crawl has, the oldest first."""
        return _history(self._crawl, self.url)

    @cached_property
    def _exchange(self) -> Exchange | None:
        stored = self.record.stored
        return None if stored is None else read_exchange(self._crawl.archive_files, stored)

    def __repr__(self) -> str:
        return f"<{self.status} {self.url}>"


class SavedFetch(SavedPage):
    """One of the fetches of a page."""

    version = 0
    """Which distinct content of the page it found, from 1 on; 0: it failed."""
    changed = False
    """Whether it found another version than the fetch before it."""


class Filters(TypedDict, total=False):
    """Which pages are wanted; all conditions given must hold."""

    host: str | Collection[str]
    status: int | Collection[int]
    """A number, or several: `range(200, 300)`."""
    type: str | Collection[str]
    matching: str
    """A regular expression to be found in the URL."""
    since: datetime | int
    """Answers from this time on; a time with its zone, or milliseconds since the epoch."""
    until: datetime | int
    """Answers before this time."""
    where: Callable[[SavedPage], object]
    """A function that is called last, for pages that meet the other conditions."""


class SavedCrawl:
    """A crawl's directory, for reading; `ConfigError` if it has no crawl."""

    def __init__(self, directory: str | Path) -> None:
        self._reader = CrawlReader(directory)

    @property
    def directory(self) -> Path:
        return self._reader.directory

    @property
    def options(self) -> Options | None:
        """The options in force; None if the crawl ended before it logged them."""
        return self._reader.options()

    def pages(
        self, *, by_time: bool = False, all_fetches: bool = False, **filters: Unpack[Filters]
    ) -> Iterator[SavedPage]:
        """Every page that was fetched, as it is now; with `all_fetches` every fetch. `Filters` select some."""
        wanted = _Wanted(**filters)
        return self._pages(wanted, by_time, all_fetches)

    def _pages(self, wanted: _Wanted, by_time: bool, all_fetches: bool) -> Iterator[SavedPage]:
        versions = Versions(self._reader)
        for shard, position, record in self._reader.records(by_time):
            if not isinstance(record, Fetched) or not wanted.takes(record):
                continue
            if all_fetches or versions.is_current(shard, position):
                page = SavedPage(self._reader, shard, position, record)
                if wanted.where is None or wanted.where(page):
                    yield page

    def __iter__(self) -> Iterator[SavedPage]:
        return self.pages()

    def page(self, url: str) -> SavedPage | None:
        """The page of a URL, as it is now; None if the crawl has not fetched it. Reads the log of one shard."""
        canonical = self._canonical(url)
        found = None if canonical is None else current_of(events(self._reader, canonical))
        return None if found is None else SavedPage(self._reader, found.shard, found.position, found.record)

    def history(self, url: str) -> list[SavedFetch]:
        """Every fetch of a URL that the crawl has, the oldest first, with the version that it found."""
        canonical = self._canonical(url)
        return [] if canonical is None else _history(self._reader, canonical)

    def arrow(
        self,
        what: str = "pages",
        *,
        text: bool = False,
        body: bool = False,
        by_time: bool = False,
        all_fetches: bool = False,
        **filters: Unpack[Filters],
    ) -> Any:
        """Pages or links as a `pyarrow.RecordBatchReader`, with the columns of `lycosa export`.

        Batches are made as they are read, 16 MB or 20,000 rows each. Needs `lycosa[parquet]`.
        """
        export.parquet_modules()
        if what == "links":
            if filters or text or body or by_time:
                raise ConfigError("links have no filters, text or body: those belong to pages")
            rows = export.links(self._reader, all_fetches=all_fetches)
        elif what == "pages":
            found = self._pages(_Wanted(**filters), by_time, all_fetches)
            rows = (_row(page, text, body) for page in found)
        else:
            raise ConfigError(f"{what!r}: there are pages and links")
        columns = export.page_columns(None, text=text, body=body) if what == "pages" else None
        return export.arrow_reader(rows, what, columns)

    def records(self, *, by_time: bool = False) -> Iterator[tuple[int, int, Record]]:
        """(shard, position, record) of everything that happened; `lycosa.records` has the kinds."""
        return self._reader.records(by_time)

    def follow(self, place: str | Path) -> Follower:
        """A reader that can be resumed: `read` hands out what is new, `save` keeps its place in that file.

        For its guarantees see `lycosa.ask.follower`.
        """
        path = Path(place)
        return Follower.kept(self._reader, DiskFiles(path.parent), path.name)

    def search(self, query: str, **asked: Any) -> Answer:
        """Search its index (made by `lycosa index`); for the parameters see `lycosa.index.search.Asked`.

        for result in lycosa.open("crawls/example").search("wolf spider", count=20).results: ...
        """
        from lycosa.index.search import Asked

        return self._search.search(query, Asked(**asked))

    @cached_property
    def _search(self) -> Search:
        from lycosa.ask.searching import opened

        return opened(self._reader)

    def _canonical(self, url: str) -> str | None:
        options = self.options
        return canonicalise(url, rules=NO_RULES if options is None else Rules.named(options.rules))

    def __repr__(self) -> str:
        return f"<crawl in {self.directory}>"


class _Wanted:
    """`Filters`, prepared for evaluation."""

    def __init__(
        self,
        host: str | Collection[str] | None = None,
        status: int | Collection[int] | None = None,
        type: str | Collection[str] | None = None,  # noqa: A002 - as the page calls it
        matching: str | None = None,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        where: Callable[[SavedPage], object] | None = None,
    ) -> None:
        self._hosts = (host,) if isinstance(host, str) else host
        self._statuses = (status,) if isinstance(status, int) else status
        self._types = (type,) if isinstance(type, str) else type
        try:
            self._matching = None if matching is None else re.compile(matching)
        except re.error as error:
            raise ConfigError(f"matching={matching!r} is not a regular expression: {error}") from None
        self._since = _milliseconds("since", since)
        self._until = _milliseconds("until", until)
        self.where = where

    def takes(self, record: Fetched) -> bool:
        return (
            (self._statuses is None or record.status in self._statuses)
            and (self._types is None or record.type in self._types)
            and (self._since is None or record.at >= self._since)
            and (self._until is None or record.at < self._until)
            and (self._hosts is None or host_of(record.url) in self._hosts)
            and (self._matching is None or self._matching.search(record.url) is not None)
        )


def _milliseconds(name: str, when: datetime | int | None) -> int | None:
    if not isinstance(when, datetime):
        return when
    if when.tzinfo is None:
        raise ConfigError(f"{name}={when}: give a time with its zone, as datetime.now(UTC)")
    return round(when.timestamp() * 1000)


def _row(page: SavedPage, text: bool, body: bool) -> export.Row:
    row = export.page_row(page.shard, page.position, page.record)
    if text:
        row["text"] = page.text
    if body:
        row["body"] = page.body
    return row


def _history(crawl: CrawlReader, url: str) -> list[SavedFetch]:
    found = []
    for event in events(crawl, url):
        fetch = SavedFetch(crawl, event.shard, event.position, event.record)
        fetch.version, fetch.changed = event.version, event.changed
        found.append(fetch)
    return found
