"""A survey of a crawl's directory before agents begin: what its shards' logs know of each other and of the archive.

Each agent recovers its own shards, and no agent sees them all. What only all logs together can tell is found out
here, from the newest snapshots and the tails of the logs after them, while nobody writes:

- whether the logs are whole (`lycosa.crawl.wholeness`): if not, the crawl is refused;
- the end of each archive file according to the logs: `cut_files` cuts it there;
- the options of earlier runs, whose seeds the scope is relative to;
- the last sequence of the exchange that any log names: the run's streams begin after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from lycosa.crawl.manifest import shard_directory
from lycosa.crawl.snapshots import missing_files, snapshot_claims
from lycosa.crawl.wholeness import cursor_claims, highest, missing, refuse
from lycosa.files import Files
from lycosa.log import snapshot
from lycosa.log.reader import LogReader
from lycosa.records import Configured, Duplicates, Fetched, Received, Robots

K = TypeVar("K")


class Surveyed(msgspec.Struct, array_like=True):
    """Facts from one shard's log; laid out like the start of the section `shard` (docs/formats/snapshot.md)."""

    cursors: dict[int, int] = {}
    archive_ends: dict[str, int] = {}
    options: bytes = b""
    changes: msgspec.Raw = msgspec.Raw(b"\x90")
    answers: dict[int, int] = {}
    received: int = 0


def survey(files: Files, shards: Iterable[int]) -> dict[int, Surveyed]:
    """Survey some shards of the crawl in `files`. Nobody may be writing them."""
    return {number: _look(files.within(shard_directory(number))) for number in shards}


def _look(files: Files) -> Surveyed:
    found, position = Surveyed(), 0
    places = files.within("snapshots")
    for at in reversed(snapshot.positions(places)):
        if pieces := snapshot.section(places, at, "shard"):
            found, position = msgspec.msgpack.decode(pieces[0], type=Surveyed), at
            break
    for _, record in LogReader(files.within("log")).scan(position):
        if isinstance(record, Fetched | Robots):
            if record.stored is not None:
                _raise(found.archive_ends, record.stored.file, record.stored.offset + record.stored.length)
        elif isinstance(record, Received):
            _raise(found.cursors, record.sender, record.cursor)
            found.received = max(found.received, record.sequence)
        elif isinstance(record, Duplicates):
            _raise(found.answers, record.owner, record.cursor)
        elif isinstance(record, Configured):
            found.options = record.options
    return found


def _raise(table: dict[K, int], key: K, value: int) -> None:
    table[key] = max(value, table.get(key, 0))


def demand_whole(files: Files, found: Mapping[int, Surveyed]) -> None:
    """Refuse a crawl whose logs lack records that another part of it knows of."""
    places = {number: files.within(shard_directory(number)) for number in found}
    ends = {number: LogReader(place.within("log")).end() for number, place in places.items()}
    claims = [claim for number, place in places.items() for claim in snapshot_claims(place, number)]
    troubles = [trouble for number, place in places.items() for trouble in missing_files(place, number)]
    for number, row in found.items():
        claims += cursor_claims(number, row.cursors, row.answers)
    refuse(files.path(""), [*missing(ends, claims), *troubles])


def archive_ends(found: Mapping[int, Surveyed]) -> dict[str, int]:
    """The end of each archive file as the logs know it."""
    return highest(row.archive_ends for row in found.values())
