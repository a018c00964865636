"""Searching a crawl: its shards' indexes as one. For `lycosa search`, `lycosa.open(DIR).search` and the page."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from lycosa.ask.clusters import Leaders
from lycosa.ask.indexing import DIRECTORY, indexed, shard_path
from lycosa.ask.json_form import iso
from lycosa.ask.reading import CrawlReader
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles
from lycosa.index.ranks import RankFile
from lycosa.index.reader import ShardReader
from lycosa.index.schema import Page
from lycosa.index.search import Answer, Asked, Result, Search
from lycosa.url.canonical import canonicalise

T = TypeVar("T")


class AbsentError(ConfigError):
    """There is no index, or it has no such page."""


def opened(crawl: CrawlReader) -> Search:
    """The crawl's index, for searching; shards without one are listed in every answer."""
    shards = crawl.manifest.shards
    there = list(indexed(crawl.directory, shards))
    if not there:
        raise AbsentError(f"{crawl.directory} has no index: run `lycosa index {crawl.directory}` first")
    first, *beside = [shard_path(crawl.directory, shard) for shard in there]
    reader = ShardReader(first, there[0], beside)
    return Search(
        [reader],
        ranks=RankFile(DiskFiles(crawl.directory / DIRECTORY)),
        clusters=Leaders(crawl),
        language=reader.marker.language if reader.marker is not None else "en",
        missing=[n for n in range(shards) if n not in there],
    )


def page_of(search: Search, url: str) -> Page:
    """The index's entry for a URL, which may lack its scheme; `AbsentError` if it has no such page."""
    text = url.strip()
    for name in (text,) if "://" in text else (f"http://{text}", f"https://{text}"):
        canonical = canonicalise(name)
        if canonical is not None and (found := search.page(canonical)) is not None:
            return found
    raise AbsentError(f"{url} is no page of the index")


def like(search: Search, url: str, asked: Asked) -> Answer:
    """Pages similar to that of a URL; for a copy, to its original."""
    page = page_of(search, url)
    found = search.like(page, asked)
    if found is None:
        raise AbsentError(f"{url} has no text in the index")
    return found


class Searching:
    """The crawl's index for a server: any thread may ask, one at a time; an index that is made later, or rebuilt,
    is picked up."""

    def __init__(self, crawl: CrawlReader) -> None:
        self._crawl = crawl
        self._lock = threading.Lock()
        self._opened: tuple[object, Search] | None = None

    def ask(self, question: Callable[[Search], T]) -> T:
        """The question's result; `ConfigError` if there is no index."""
        with self._lock:
            now = self._shards()
            if self._opened is None or self._opened[0] != now:
                self._opened = None
                self._opened = now, opened(self._crawl)
            return question(self._opened[1])

    def _shards(self) -> object:
        """Identifies the shards that have an index, and the index directory."""
        directory = self._crawl.directory
        found = indexed(directory, self._crawl.manifest.shards)
        return [(shard, shard_path(directory, shard).stat().st_ino) for shard in found]


# -- as JSON


def answer_plain(answer: Answer) -> dict[str, Any]:
    """An answer without its results."""
    return {
        "query": answer.query,
        "total": answer.total,
        "pages": answer.pages,
        "milliseconds": round(answer.milliseconds, 3),
        "ranked": iso(answer.ranked),
        "suggestion": answer.suggestion,
        "notes": answer.notes,
        "missing": answer.missing,
    }


def result_plain(result: Result) -> dict[str, Any]:
    """A result of an answer."""
    row: dict[str, Any] = msgspec.to_builtins(result)
    return row | {"date": iso(result.date), "at": iso(result.at), "id": f"{result.id:016x}"}


def page_plain(page: Page) -> dict[str, Any]:
    """The index's entry for a page."""
    return {
        "url": page.url,
        "title": page.title,
        "headings": [line for line in page.headings.split("\n") if line],
        "text": page.text,
        "anchors": page.anchors,
        "language": page.language,
        "type": page.type,
        "date": iso(page.date),
        "at": iso(page.at),
        "depth": page.depth,
        "digest": f"{page.digest:016x}" if page.digest else None,
        "copy": page.copy,
        "id": f"{page.id:016x}",
    }
