"""Searching a crawl: its shards' indexes as one. What `lycosa search` and `lycosa.open(DIR).search` ask."""

from __future__ import annotations

from lycosa.ask.indexing import ANCHORS, DIRECTORY, indexed, shard_path
from lycosa.ask.reading import CrawlReader
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles
from lycosa.index.anchors import Anchors
from lycosa.index.reader import ShardReader
from lycosa.index.search import Search


def opened(crawl: CrawlReader) -> Search:
    """The crawl's index, for searching; shards without one are named in every answer."""
    shards = crawl.manifest.shards
    there = list(indexed(crawl.directory, shards))
    if not there:
        raise ConfigError(f"{crawl.directory} has no index: run `lycosa index {crawl.directory}` first")
    readers = [ShardReader(shard_path(crawl.directory, shard)) for shard in there]
    language = next((reader.marker.language for reader in readers if reader.marker is not None), "en")
    anchors = Anchors(DiskFiles(crawl.directory / DIRECTORY / ANCHORS), crawl.crawl)
    return Search(
        readers, ranks=anchors.ranks, language=language, missing=[n for n in range(shards) if n not in there]
    )
