"""Repair: makes a crawl that lost part of its files continue with what its logs still hold.

`look` reads everything and changes nothing; `mend` does what `look` proposed. Afterwards:

- what a log lost is a *gap* in it (see `lycosa.log.reader`), up to the last position known anywhere: no
  position is used twice, so what other shards know of it stays true. If a log continues after a gap, its
  cursors are those before it: links from others are sent again, since an unknown part of them lies in the gap;
- no shard has a snapshot: the next run reads all logs from their beginning;
- archive files that records point into and that are missing or truncated are noted in `archive/missing.json`; a
  truncated one ends with its last whole exchange, and nothing is added to it.

A page whose record is lost is fetched again, as long as a link to it is known; if the linking page is lost too, it
is fetched again first, and so on up to the seeds. Seeds whose record is lost must be given again.

Nothing is deleted: files that are replaced go to `set-aside/TIME/`, under the same name. The order of steps is such
that an interrupted repair can be repeated: snapshots, which know what is missing, go last.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from lycosa.archive.reader import leftovers
from lycosa.archive.writer import MISSING, archive_names, missing_marks
from lycosa.crawl import manifest as manifests
from lycosa.crawl.manifest import shard_directory
from lycosa.crawl.snapshots import missing_files, snapshot_claims
from lycosa.crawl.wholeness import Known, cursor_claims, missing
from lycosa.errors import ConfigError, StorageError
from lycosa.files import Files, write_whole
from lycosa.log import blocks
from lycosa.log.reader import Gap, segment_head, segment_name, write_gap
from lycosa.log.salvage import Layout, layout
from lycosa.records import (
    Before,
    Configured,
    Duplicates,
    Fetched,
    Received,
    Record,
    Robots,
    Stored,
    decode,
    encode,
)

ASIDE = "set-aside"
_STATE = ("snapshots", "seen", "content", "calendar", "revisits", "left", "sites", "pages")
_CHUNK = 1 << 20


class ShardLook(NamedTuple):
    """One shard's log, and what is known of it."""

    number: int
    laid: Layout
    known: int
    by: str
    troubles: list[str]

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Lost positions."""
        tail = [(self.laid.end, self.known)] if self.known > self.laid.end else []
        return [*self.laid.gaps, *tail]

    @property
    def broken(self) -> bool:
        return bool(self.gaps or self.troubles or not all(segment.sound for segment in self.laid.segments))

    def lines(self) -> Iterator[str]:
        """Its problems, for people."""
        name = f"shard {self.number:02d}"
        for first, end in self.laid.gaps:
            yield f"{name}: records {first:,} to {end - 1:,} are gone ({end - first:,})"
        if self.known > self.laid.end:
            yield (
                f"{name}: the log ends at record {self.laid.end:,} and {self.by} knows {self.known:,}:"
                f" {self.known - self.laid.end:,} records are gone"
            )
        yield from (f"{name}: {trouble}" for trouble in self.troubles)
        for segment in self.laid.segments:
            if not segment.sound and not self.laid.gaps:
                yield f"{name}: segment {segment_name(segment.first)} has bytes that are no records"


class ArchiveLook(NamedTuple):
    """An archive file that is not as the logs say."""

    name: str
    size: int | None
    """None: it is missing."""
    known: int
    kept: int
    """Bytes up to the end of the last whole exchange."""
    exchanges: int
    """Number of lost exchanges."""

    def __str__(self) -> str:
        state = "is missing" if self.size is None else f"has {self.size:,} of {self.known:,} bytes"
        return f"archive/{self.name} {state}: {self.exchanges:,} exchanges are gone"


class Look(NamedTuple):
    """What a crawl's directory holds, and what is missing."""

    shards: list[ShardLook]
    archive: list[ArchiveLook]
    beyond: dict[str, int]
    """Archive files with bytes after the last one that a record points at: where those bytes begin."""
    pages: int
    urls: list[str]
    """URLs in the archive without a record in any log: these are certainly missing from the logs."""
    options: bytes
    """The options in the first Configured record of any log."""

    @property
    def broken(self) -> bool:
        return any(shard.broken for shard in self.shards) or bool(self.archive)

    def lines(self) -> list[str]:
        """All problems, for people."""
        return [*(line for shard in self.shards for line in shard.lines()), *map(str, self.archive)]


class _Reading:
    """What all records together say."""

    def __init__(self) -> None:
        self.claims: list[Known] = []
        self.places: dict[str, array[int]] = {}  # offset and length of each exchange, alternating
        self.pages = 0
        self.options: tuple[int, bytes] | None = None

    def add(self, record: Record, cursors: dict[int, int], answers: dict[int, int]) -> None:
        if isinstance(record, Received):
            cursors[record.sender] = max(cursors.get(record.sender, 0), record.cursor)
        elif isinstance(record, Duplicates):
            answers[record.owner] = max(answers.get(record.owner, 0), record.cursor)
        elif isinstance(record, Configured) and (self.options is None or record.at < self.options[0]):
            self.options = (record.at, record.options)
        elif isinstance(record, Fetched | Robots):
            self.pages += isinstance(record, Fetched) and record.before is not Before.PAGE
            self._place(record.stored)
            if isinstance(record, Fetched) and record.rendered is not None:
                self._place(record.rendered.stored)

    def _place(self, stored: Stored | None) -> None:
        if stored is not None:
            self.places.setdefault(stored.file, array("q")).extend((stored.offset, stored.length))

    def spans(self, name: str) -> list[tuple[int, int]]:
        """The places of exchanges in a file, in order."""
        flat = self.places.get(name, array("q"))
        return sorted((flat[at], flat[at] + flat[at + 1]) for at in range(0, len(flat), 2))


def look(files: Files, told: Callable[[str, int], None] | None = None) -> Look:
    """Read a crawl's directory. Changes nothing."""
    manifest = manifests.load(files)
    if manifest is None:
        raise ConfigError(f"{files.path('')} is not the directory of a crawl: it has no {manifests.NAME}")
    if manifest.cluster:
        raise ConfigError(
            f"{files.path('')} is a copy of a cluster's crawl: fetch it again into a new directory"
            f" (lycosa cluster fetch)"
        )
    read, laid, count = _Reading(), list[Layout](), 0
    for number in range(manifest.shards):
        place = files.within(shard_directory(number))
        laid.append(layout(place.within("log")))
        cursors: dict[int, int] = {}
        answers: dict[int, int] = {}
        for record in _records(place.within("log"), laid[-1]):
            read.add(record, cursors, answers)
            count += 1
            if told is not None and not count & 0xFFF:
                told("reading the logs", count)
        read.claims += cursor_claims(number, cursors, answers)
        read.claims += snapshot_claims(place, number)
    ends = {number: each.end for number, each in enumerate(laid)}
    behind = {row.shard: row for row in missing(ends, read.claims)}
    shards = []
    for number, each in enumerate(laid):
        row = behind.get(number)
        place = files.within(shard_directory(number))
        # A missing segment is reported as its gap.
        troubles = [text for text in missing_files(place, number) if not text.startswith("the segment")]
        shards.append(
            ShardLook(number, each, row.known if row else each.end, row.by if row else "", troubles)
        )
    found = Look(shards, [], {}, read.pages, [], read.options[1] if read.options else b"")
    found = _with_archive(files.within("archive"), found, read)
    if any(shard.gaps for shard in shards):
        found = found._replace(urls=_unlogged(files, found, read))
    return found


def _records(log: Files, laid: Layout) -> Iterator[Record]:
    for segment in laid.segments:
        name = segment_name(segment.first)
        for run in segment.runs:
            for at in run:
                rows = blocks.unpack(log.read_at(name, at.offset, at.head.size), at.head)
                try:
                    yield from map(decode, rows or ())
                except msgspec.MsgspecError as error:
                    raise StorageError(
                        f"{log.path(name)} has a record that cannot be read ({error}): use the version that made it"
                    ) from None


def _with_archive(archive: Files, found: Look, read: _Reading) -> Look:
    marked = missing_marks(archive)
    there = archive_names(archive)
    for name in sorted(read.places):
        spans = read.spans(name)
        known = spans[-1][1]
        size = archive.size(name) if name in there else None
        if size is None or size < known:
            kept = max((end for _, end in spans if end <= (size or 0)), default=0)
            gone = sum(1 for _, end in spans if end > (size or 0))
            if name not in marked or marked[name] != kept or (size or 0) > kept:
                found.archive.append(ArchiveLook(name, size, known, kept, gone))
        elif size > known:
            found.beyond[name] = known
    found.beyond.update({name: 0 for name in there if name not in read.places})
    return found


def _unlogged(files: Files, found: Look, read: _Reading) -> list[str]:
    """URLs whose responses are in the archive where no record points, and which no log has fetched."""
    archive = files.within("archive")
    counts: Counter[str] = Counter()
    for name in archive_names(archive):
        size = archive.size(name)
        spans = [span for span in read.spans(name) if span[1] <= size]
        try:
            for row in leftovers(archive, name, [*spans, (size, size)]):
                if row.record.kind in ("response", "resource"):
                    counts[row.record.url] += 1
        except StorageError:
            continue  # its end is torn
    if not counts:
        return []
    for shard in found.shards:
        for record in _records(files.within(shard_directory(shard.number) + "/log"), shard.laid):
            if isinstance(record, Fetched):
                counts.pop(record.url, None)
    return sorted(url for url in counts if not url.endswith("/robots.txt"))


# -- mending


def mend(files: Files, found: Look, stamp: str) -> str:
    """Make the crawl consistent again; `stamp` names this repair. Returns the directory of the replaced files."""
    aside = f"{ASIDE}/{stamp}"
    write_whole(files, f"{aside}/lost.txt", "".join(f"{line}\n" for line in found.lines()).encode())
    if found.urls:
        write_whole(files, f"{aside}/urls.txt", "".join(f"{url}\n" for url in found.urls).encode())
    for shard in found.shards:
        _mend_log(files, shard, aside, found.options)
    _mend_archive(files, found, aside)
    for shard in found.shards:
        place = shard_directory(shard.number)
        # What a snapshot got from the folds of other shards cannot be separated: all of them are rebuilt.
        for part in _STATE:
            for name in files.list(f"{place}/{part}"):
                _move(files, f"{place}/{part}/{name}", aside)
    return aside


def _mend_log(files: Files, shard: ShardLook, aside: str, options: bytes) -> None:
    place = f"{shard_directory(shard.number)}/log"
    log = files.within(place)
    until = max(shard.laid.end, shard.known)
    lost = shard.gaps
    for segment in shard.laid.segments:
        name = segment_name(segment.first)
        if segment.sound and (segment.runs or not lost):
            continue
        _copy(files, f"{place}/{name}", 0, aside)
        whole = log.read(name)
        names = {segment_name(run[0].head.first): run for run in segment.runs}
        for new in sorted(names, key=lambda each: each == name):  # the one that replaces it comes last
            run = names[new]
            data = [whole[at.offset : at.end] for at in run]
            write_whole(log, new, b"".join([segment_head(run[0].head.first), *data]))
        if name not in names:
            log.remove(name)
            log.sync_dir("")
    if lost and lost[0][0] == 0 and lost[0][1] < until and options:
        # Every record of a log is judged by the options before it.
        first = blocks.pack(1, 0, [encode(Configured(0, options))])
        write_whole(log, segment_name(0), segment_head(0) + first)
        lost = [(1, lost[0][1]), *lost[1:]] if lost[0][1] > 1 else lost[1:]
    for first_gone, end in lost:
        write_gap(log, Gap(first_gone, end, until))


def _mend_archive(files: Files, found: Look, aside: str) -> None:
    archive = files.within("archive")
    for row in found.archive:
        if row.size is not None and row.size > row.kept:
            _copy(files, f"archive/{row.name}", row.kept, aside)
            archive.truncate(row.name, row.kept)
    if found.archive:
        marks = {**missing_marks(archive), **{row.name: row.kept for row in found.archive}}
        write_whole(archive, MISSING, msgspec.json.format(msgspec.json.encode(marks)))
    for name, known in found.beyond.items():
        # The next start would cut these bytes off: exchanges whose records are lost, or never existed.
        if known:
            _copy(files, f"archive/{name}", known, aside)
            archive.truncate(name, known)
        else:
            _move(files, f"archive/{name}", aside)


def _move(files: Files, name: str, aside: str) -> None:
    files.sync_dir(f"{aside}/{name}".rpartition("/")[0])
    files.rename(name, f"{aside}/{name}")
    files.sync_dir(name.rpartition("/")[0])
    files.sync_dir(f"{aside}/{name}".rpartition("/")[0])


def _copy(files: Files, name: str, start: int, aside: str) -> None:
    """Copy the part of a file from an offset on."""
    out = files.create(f"{aside}/{name}")
    try:
        while data := files.read_at(name, start, _CHUNK):
            out.write(data)
            start += len(data)
        out.sync()
    finally:
        out.close()
    files.sync_dir(f"{aside}/{name}".rpartition("/")[0])
