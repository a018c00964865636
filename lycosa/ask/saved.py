"""A crawl that is saved in a directory, for programs that read it: `lycosa.open(DIR)`. Changes nothing.

    for page in lycosa.open("crawls/example").pages():
        print(page.url, page.title, len(page.links), page.text)

Each page comes once, as its current fetch has it (see `versions`); with `all_fetches` every fetch comes. They come
shard by shard in the order of each log, or with `by_time` by the time of their answer. The crawl may be running;
what it committed before is read. Bodies are read from the archive when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.ask.export import body_of
from lycosa.ask.follower import Follower
from lycosa.ask.reading import CrawlReader
from lycosa.ask.versions import Versions
from lycosa.content.documents import text_of
from lycosa.crawl.config import Options
from lycosa.files import DiskFiles
from lycosa.records import Fetched, Link, Record

if TYPE_CHECKING:
    from lycosa.index.search import Answer, Search


class SavedPage:
    """A page as the log and the archive have it."""

    def __init__(self, crawl: CrawlReader, shard: int, position: int, record: Fetched) -> None:
        self._crawl = crawl
        self.shard = shard
        self.position = position
        """Where its record is in the log of its shard."""
        self.record = record
        self.url = record.url
        self.at = record.at
        """When the answer came, in milliseconds since the epoch."""
        self.status = record.status
        self.depth = record.depth
        self.type = record.type
        self.title = record.title
        self.duplicate = record.duplicate
        """Whether the crawl had the same content from elsewhere."""

    @property
    def links(self) -> list[Link]:
        """Its links, canonical, each URL once."""
        return list(self.record.links)

    @cached_property
    def body(self) -> bytes | None:
        """The body, decoded; None if the archive does not have it."""
        return body_of(self._crawl, self.record)

    @property
    def text(self) -> str | None:
        """The main text; None without a body."""
        if self.body is None:
            return None
        return text_of(self.body, self.type, self.record.charset)

    def __repr__(self) -> str:
        return f"<{self.status} {self.url}>"


class SavedCrawl:
    """A crawl's directory, for reading; `ConfigError` if it has no crawl."""

    def __init__(self, directory: str | Path) -> None:
        self._reader = CrawlReader(directory)

    @property
    def directory(self) -> Path:
        return self._reader.directory

    @property
    def options(self) -> Options | None:
        """The options that hold; None if the crawl never came so far as to log them."""
        return self._reader.options()

    def pages(self, *, by_time: bool = False, all_fetches: bool = False) -> Iterator[SavedPage]:
        """Every page that was fetched, as it is now; with `all_fetches` every fetch of it."""
        versions = Versions(self._reader)
        for shard, position, record in self._reader.records(by_time):
            if isinstance(record, Fetched) and (all_fetches or versions.is_current(shard, position)):
                yield SavedPage(self._reader, shard, position, record)

    def records(self, *, by_time: bool = False) -> Iterator[tuple[int, int, Record]]:
        """(shard, position, record) of everything that happened; `lycosa.records` has the kinds."""
        return self._reader.records(by_time)

    def follow(self, place: str | Path) -> Follower:
        """A reader that goes on where it was: `read` hands out what is new, `save` keeps its place in that file.

        See `lycosa.ask.follower` for what is promised.
        """
        path = Path(place)
        return Follower.kept(self._reader, DiskFiles(path.parent), path.name)

    def search(self, query: str, **asked: Any) -> Answer:
        """Search its index (made by `lycosa index`); `lycosa.index.search.Asked` has what may be asked for.

        for result in lycosa.open("crawls/example").search("wolf spider", count=20).results: ...
        """
        from lycosa.index.search import Asked

        return self._search.search(query, Asked(**asked))

    @cached_property
    def _search(self) -> Search:
        from lycosa.ask.searching import opened

        return opened(self._reader)

    def __repr__(self) -> str:
        return f"<crawl in {self.directory}>"
