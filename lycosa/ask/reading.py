"""Reading a crawl, running or not: its manifest, its records, its archive. Changes nothing.

    crawl = CrawlReader(directory)
    for shard, position, record in crawl.records(): ...

Records come shard by shard in the order of each log, or, with `by_time`, merged by their times; records that amend
others are resolved (see `lycosa.ask.follower`).

Small queries (`options`, `totals`, `end`) are answered from the newest snapshots and the log records after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lycosa.ask.alive import process_of
from lycosa.ask.follower import Entry, Follower, Place, Stretch
from lycosa.crawl import manifest as manifests
from lycosa.crawl.config import Options, decode_options
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.totals import Totals, summed
from lycosa.errors import ConfigError, StorageError
from lycosa.files import DiskFiles, Files
from lycosa.log import snapshot
from lycosa.log.reader import LogReader
from lycosa.records import Configured

if TYPE_CHECKING:
    from lycosa.url.key import Keyer

_PATIENCE, _GLANCE = 30.0, 0.2
"""Seconds that a follower waits for a crawl to begin, and between its looks at the directory."""


class CrawlReader:
    """A crawl's directory, for reading."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise ConfigError(f"{directory} is not a directory: give the directory of a crawl")
        self.files: Files = DiskFiles(self.directory)
        manifest = manifests.load(self.files)
        if manifest is None:
            raise ConfigError(f"{directory} is not the directory of a crawl: it has no {manifests.NAME}")
        self.manifest = manifest
        self.logs = [
            LogReader(self.files.within(f"{manifests.shard_directory(number)}/log"))
            for number in range(manifest.shards)
        ]
        self.archive_files: Files = self.files.within("archive")

    @classmethod
    def beginning(
        cls, directory: Path, pause: Callable[[float], object], *, follow: bool = False
    ) -> CrawlReader:
        """Opens a crawl that may only just have been started: pauses until the manifest is there.

        `follow`: also waits (`_PATIENCE`) while no crawl runs there: one started a moment ago may not run yet.
        """
        most = round(_PATIENCE / _GLANCE) if follow else 0
        while True:
            running = process_of(directory) is not None
            try:
                return cls(directory)
            except ConfigError:
                if not running and most <= 0:
                    raise
                most -= not running
            pause(_GLANCE)

    @cached_property
    def splitter(self) -> Splitter:
        """Maps a host to its shard; reads the crawl's public suffix list."""
        return Splitter(self.manifest.shards, manifests.domains_of(self.files), self.manifest.splitter)

    @cached_property
    def keyer(self) -> Keyer:
        """The crawl's own keys. Made on demand: most questions need none, and NumPy would be half their time."""
        from lycosa.url.key import Keyer

        return Keyer(self.manifest.hash_seed)

    @property
    def crawl(self) -> str:
        """The crawl's id."""
        return self.manifest.crawl

    def is_running(self) -> bool:
        """Whether a process crawls into the directory, so that its last commit may not be durable.

        For a cluster's crawl the directory holds copies of committed data only, even while it is kept current.
        """
        return not self.manifest.cluster and process_of(self.directory) is not None

    def records(self, by_time: bool = False) -> Iterator[Entry]:
        """(shard, position, record) of the whole crawl, as a new follower would hand them out."""
        return Follower(self).read(by_time=by_time)

    def options(self) -> Options | None:
        """The options in force; None if the crawl ended before it logged them."""
        for shard, log in enumerate(self.logs):
            position, pieces = self._snapshot(shard, "shard")
            held = b"".join(_decode_part(piece).options for piece in pieces)
            for _, record in log.find_kind(Configured, position):
                held = record.options
            if held:
                return decode_options(held)
        return None

    def totals(self, told: Callable[[str, int], None] = lambda _what, _count: None) -> Totals:
        """The crawl in numbers: what the snapshots say, and what was logged since."""
        parts = []
        read = 0
        for shard, log in enumerate(self.logs):
            position, pieces = self._snapshot(shard, "totals")
            totals = Totals()
            totals.thaw(pieces)
            # Unresolved: the totals count a page that was taken back by its own record, and not by its `Lost`.
            for _, record in log.scan(position):
                totals.apply(record)
                read += 1
                if not read & 0xFFF:
                    told("adding up the log", read)
            parts.append(totals)
        return summed(parts)

    def end(self) -> list[Place]:
        """Where the logs end now: a follower that starts here is handed what comes later."""
        starts = (self._snapshot(shard, "shard")[0] for shard in range(len(self.logs)))
        return [Place.at(Stretch(log, start).end) for log, start in zip(self.logs, starts, strict=True)]

    def _snapshot(self, shard: int, section: str) -> tuple[int, list[bytes]]:
        """The position of a shard's newest snapshot, and the content of one section; 0 if there is none."""
        files = self.files.within(f"{manifests.shard_directory(shard)}/snapshots")
        for position in reversed(snapshot.positions(files)):
            try:
                pieces = snapshot.section(files, position, section)
            except StorageError:
                continue  # the running crawl has removed it: the log holds the same
            if pieces is not None:
                return position, pieces
        return 0, []


class _ShardPart(msgspec.Struct, array_like=True):
    """The fields that are read of the section `shard` of a snapshot: see docs/formats/snapshot.md."""

    cursors: msgspec.Raw
    archive_ends: msgspec.Raw
    options: bytes


# Made at import: msgspec crashes where two threads are the first to decode a struct, as when shards recover.
_decode_part = msgspec.msgpack.Decoder(_ShardPart).decode
