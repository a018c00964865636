"""Reading a crawl, running or not: its manifest, its records, its archive. Changes nothing.

    crawl = CrawlReader(directory)
    for shard, position, record in crawl.records(): ...

Records come shard by shard in the order of each log, or, with `by_time`, merged by the time they carry; those that
amend others are resolved (see `lycosa.ask.follower`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.ask.alive import process_of
from lycosa.ask.follower import Entry, Follower
from lycosa.crawl import manifest as manifests
from lycosa.crawl.config import Options, decode_options
from lycosa.crawl.splitting import Splitter
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles, Files
from lycosa.log.reader import LogReader
from lycosa.records import Configured

if TYPE_CHECKING:
    from lycosa.url.key import Keyer


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
        self.logs = [
            LogReader(self.files.within(f"{manifests.shard_directory(number)}/log"))
            for number in range(manifest.shards)
        ]
        self.archive_files = self.files.within("archive")

    @cached_property
    def splitter(self) -> Splitter:
        """Which shard a host is in; the crawl's public suffix list is read for it."""
        return Splitter(self.manifest.shards, manifests.domains_of(self.files), self.manifest.splitter)

    @cached_property
    def keyer(self) -> Keyer:
        """The crawl's own keys. Most questions need none, and NumPy would be half of their time."""
        from lycosa.url.key import Keyer

        return Keyer(self.manifest.hash_seed)

    @property
    def crawl(self) -> str:
        """Which crawl it is."""
        return self.manifest.crawl

    def is_running(self) -> bool:
        """Whether a process crawls into the directory."""
        return process_of(self.directory) is not None

    def records(self, by_time: bool = False) -> Iterator[Entry]:
        """(shard, position, record) of the whole crawl, as a follower that has just begun is handed them."""
        return Follower(self).read(by_time=by_time)

    def options(self) -> Options | None:
        """The options that hold; None if the crawl never came so far as to log them."""
        for log in self.logs:
            found = [record for _, record in log.find_kind(Configured)]
            if found:
                return decode_options(found[-1].options)
        return None
