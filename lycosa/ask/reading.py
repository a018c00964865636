"""Reading a crawl, running or not: its manifest, its records, its archive. Changes nothing.

    crawl = CrawlReader(directory)
    for shard, position, record in crawl.records(): ...

Records come shard by shard in the order of each log, or, with `by_time`, merged by the time they carry. Pages that
a cluster's log takes back (`Lost`) are left out: they were fetched again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path

import msgspec

from lycosa.crawl import manifest as manifests
from lycosa.crawl.config import Options, decode_options
from lycosa.crawl.splitting import Splitter
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles, Files
from lycosa.log.reader import LogReader
from lycosa.records import Configured, Duplicates, Fetched, Lost, Record
from lycosa.url.key import Keyer


def with_word(record: Record, late: bool) -> Record:
    """The record as if the late word that its content was known had come in time."""
    if late and isinstance(record, Fetched):
        return msgspec.structs.replace(record, duplicate=True)
    return record


class CrawlReader:
    """A crawl's directory, for reading."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise ConfigError(f"{directory} is not a directory: give that of a crawl")
        self.files: Files = DiskFiles(self.directory)
        manifest = manifests.load(self.files)
        if manifest is None:
            raise ConfigError(f"{directory} holds no crawl: it has no {manifests.NAME}")
        self.manifest = manifest
        self.keyer = Keyer(manifest.hash_seed)
        self.splitter = Splitter(manifest.shards, manifests.domains_of(self.files), manifest.splitter)
        self.logs = [
            LogReader(self.files.within(f"{manifests.shard_directory(number)}/log"))
            for number in range(manifest.shards)
        ]
        self.archive_files = self.files.within("archive")
        self._lost: dict[int, frozenset[int]] = {}

    def records(self, by_time: bool = False) -> Iterator[tuple[int, int, Record]]:
        """(shard, position, record) of the whole crawl."""
        streams = (self._shard(number) for number in range(len(self.logs)))
        if by_time:
            yield from heapq.merge(*streams, key=lambda row: row[2].at)
            return
        for stream in streams:
            yield from stream

    def _shard(self, number: int) -> Iterator[tuple[int, int, Record]]:
        lost = self.lost(number)
        for position, record in self.logs[number].scan():
            if position not in lost:
                yield number, position, record

    def lost(self, shard: int) -> frozenset[int]:
        """Positions of pages in a shard's log that were taken back, their bytes being gone."""
        if not self.manifest.cluster:
            return frozenset()
        if shard not in self._lost:
            found = self.logs[shard].find_kind(Lost)
            self._lost[shard] = frozenset(record.position for _, record in found)
        return self._lost[shard]

    def late_duplicates(self, shard: int) -> frozenset[int]:
        """Positions of pages in a shard's log of which another agent said later that their content was known."""
        found = self.logs[shard].find_kind(Duplicates)
        return frozenset(position for _, record in found for position in record.positions)

    def options(self) -> Options | None:
        """The options that hold; None if the crawl never came so far as to log them."""
        for log in self.logs:
            found = [record for _, record in log.find_kind(Configured)]
            if found:
                return decode_options(found[-1].options)
        return None


def records(directory: Path | str) -> Iterator[tuple[int, int, Record]]:
    """(shard, position, record) of the crawl in a directory."""
    return CrawlReader(directory).records()
