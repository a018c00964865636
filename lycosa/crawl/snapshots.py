"""The snapshots of an agent's shards: which are kept, which files they name, and what they know of the logs.

A file of a part is removed once neither of the last two snapshots of its shard names it. At recovery the newest
whole snapshot is thawed, and files that no kept snapshot names are deleted.

    about := {"files": {part: [name]}, "store", "segments": [[first, bytes]], "logs": {shard: committed}}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lycosa.crawl.manifest import shard_directory
from lycosa.crawl.shard import Shard
from lycosa.crawl.wholeness import Known
from lycosa.files import Files
from lycosa.lifetimes import remove_unnamed
from lycosa.log import snapshot
from lycosa.log.reader import segment_name, segments
from lycosa.log.snapshot import SnapshotWriter
from lycosa.records import Fetched, Lost
from lycosa.state import Versioned

Named = dict[str, list[str]]
"""By part: the names of its files."""


class Frozen(NamedTuple):
    """The state of a shard at one instant, to be written to a snapshot."""

    shard: Shard
    position: int
    parts: dict[str, Iterator[bytes]]
    named: Named


class Snapshots:
    """Manages the snapshots of one agent; see the module."""

    def __init__(self, files: Files, store: str) -> None:
        """`store`: the kind of uniqueness store that shards use now."""
        self._files = files
        self._store = store
        self._kept: dict[int, list[tuple[int, Named]]] = {}
        """For each shard, its kept snapshots: position and the files they name."""

    def place(self, number: int) -> Files:
        return self._files.within(shard_directory(number))

    def covered(self, number: int) -> int:
        """The position of a shard's last snapshot; 0: it has none."""
        kept = self._kept.get(number)
        return kept[-1][0] if kept else 0

    def forget(self, number: int) -> None:
        """The shard is closed."""
        self._kept.pop(number, None)

    # -- writing

    def freeze(self, shard: Shard) -> Frozen | None:
        """The shard as it is now; None if it has not moved since its last snapshot."""
        if self._kept.get(shard.number) and self.covered(shard.number) == shard.log.end:
            return None
        parts = {name: part.freeze() for name, part in shard.parts.items()}
        named = {name: part.files() for name, part in shard.filed.items()}
        return Frozen(shard, shard.log.end, parts, named)

    def writer(self, frozen: Frozen) -> SnapshotWriter:
        return SnapshotWriter(self.place(frozen.shard.number).within("snapshots"), frozen.position)

    def seal(self, writer: SnapshotWriter, frozen: Frozen, logs: dict[int, int]) -> None:
        """Seal a snapshot whose pieces are written and whose log is committed. `logs`: the ends of all logs here.
        In a thread."""
        for part in frozen.shard.filed.values():
            part.settle()
        log = self.place(frozen.shard.number).within("log")
        sealed = [(first, log.size(segment_name(first))) for first in segments(log)[:-1]]
        writer.seal({"files": frozen.named, "store": self._store, "segments": sealed, "logs": logs})

    def keep(self, frozen: Frozen) -> None:
        """A snapshot is sealed: remove files that neither of the last two snapshots names."""
        kept = self._kept.setdefault(frozen.shard.number, [])
        kept.append((frozen.position, frozen.named))
        del kept[: -snapshot.KEPT]
        for name, part in frozen.shard.filed.items():
            part.keep(_names_in(kept, name))

    # -- reading

    def thaw(self, shard: Shard) -> int:
        """Bring a shard to the state of its newest snapshot; returns that snapshot's position."""
        files = self.place(shard.number)
        places = files.within("snapshots")
        found = snapshot.newest(places)
        if found is not None and (found.about.get("store") != self._store or not _is_readable(shard, found)):
            # Another uniqueness store, or another version: the log is replayed from its start.
            snapshot.remove_all(places)
            found = None
        kept: list[tuple[int, Named]] = []
        for position in snapshot.positions(places):
            read = snapshot.read(places, position) if found and position != found.position else found
            if read is not None and found is not None and position <= found.position:
                kept.append((position, read.about.get("files", {})))
        for name in shard.filed:
            remove_unnamed(files.within(name), _names_in(kept, name))
        self._kept[shard.number] = kept
        if found is None:
            return 0
        for name, part_state in shard.parts.items():
            if name in found.pieces or name != "revisits":  # which older snapshots do not have
                part_state.thaw(found.pieces.get(name, []))
        if "pages" not in found.pieces:  # it is older than the page table
            for at, record in shard.log.reader.scan(0, found.position):
                if isinstance(record, Fetched | Lost):
                    shard.note_page(record, at)
        for name, part in shard.filed.items():
            part.keep(_names_in(kept, name))
        return found.position


def _is_readable(shard: Shard, found: snapshot.Snapshot) -> bool:
    """Whether this version can thaw what another one may have written."""
    firsts = (
        (part, found.pieces.get(name)) for name, part in shard.parts.items() if isinstance(part, Versioned)
    )
    return all(part.reads(pieces[0]) for part, pieces in firsts if pieces)


def _names_in(snapshots: Sequence[tuple[int, Named]], part: str) -> set[str]:
    """The files of a part that some snapshots name."""
    return {name for _, names in snapshots for name in names.get(part, [])}


def snapshot_claims(files: Files, number: int) -> list[Known]:
    """The ends of logs according to the snapshots of a shard."""
    places = files.within("snapshots")
    claims = [Known(number, position, "its snapshot") for position in snapshot.positions(places)]
    for position in snapshot.positions(places):
        said = snapshot.about(places, position) or {}
        by = f"the snapshot of shard {number:02d}"
        claims += [
            Known(int(shard), end, by) for shard, end in said.get("logs", {}).items() if int(shard) != number
        ]
    return claims


def missing_files(files: Files, number: int) -> list[str]:
    """What the newest snapshot of a shard names but is missing: sealed segments, files of the parts."""
    places = files.within("snapshots")
    positions = snapshot.positions(places)
    said = snapshot.about(places, positions[-1]) if positions else None
    if said is None:
        return []  # a damaged snapshot is ignored: everything is in the log
    troubles = []
    log = files.within("log")
    for first, size in said.get("segments", []):
        there = log.size(segment_name(first)) if log.exists(segment_name(first)) else 0
        if there < size:
            what = "is missing" if not there else f"is cut to {there:,} of {size:,} bytes"
            troubles.append(f"the segment {segment_name(first)} of shard {number:02d} {what}")
    for part, names in said.get("files", {}).items():
        gone = set(names) - set(files.list(part))
        if gone:
            troubles.append(f"{part}/{min(gone)} of shard {number:02d} is missing")
    return troubles
