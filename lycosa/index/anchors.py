"""Anchor texts: the texts of links to each page, and their number, kept beside the index for all shards together.

A link is found on one page and describes another, which may be in another shard, and may have been indexed long
before. So texts are gathered separately, in *runs*: sorted files, each with the texts of an interval of the logs.

    anchors.json := {"crawl": id, "runs": [[first, last]*], "places": [[start, next, end]*]}     replaced atomically
    FIRST-LAST.run := "LyANC1\\r\\n" count:u64 keys:u64×count shards:u16×count links:u32×count ends:u64×count texts
        keys     of the targets, ascending
        links    how many links lead there
        ends     where each target's texts end, in bytes from the beginning of `texts`
        texts    of a target: lines of "COUNT TAB TEXT", the most frequent first, `MOST_TEXTS` at most

Runs are numbered; a merged one has the numbers of all its parts. An index records up to which run its documents
have their texts (`Marker.anchors`); pages named in later runs must be written again.

Texts of links that a page has lost stay until the index is rebuilt.
"""

from __future__ import annotations

import heapq
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import numpy as np

from lycosa.errors import StorageError
from lycosa.files import DiskFiles, write_whole

MOST_TEXTS = 20
"""Most distinct texts of a target."""
MOST_HELD = 200_000
"""Texts in RAM before a run is written."""
MOST_RUNS = 8
_AT_ONCE = 1_000
"""Targets whose texts are written at a time."""
_NAME = "anchors.json"
_MAGIC = b"LyANC1\r\n"


class Manifest(msgspec.Struct):
    """The existing runs, and how far the logs were read for them."""

    crawl: str
    runs: list[tuple[int, int]] = []
    places: list[list[int]] = []


class Target(NamedTuple):
    """The links to a page."""

    key: int
    shard: int
    links: int
    texts: dict[str, int]


class Run:
    """A sorted file of targets, mapped."""

    def __init__(self, path: str) -> None:
        data: Any = np.memmap(path, np.uint8, "r")
        (count,) = struct.unpack("<Q", bytes(data[8:16])) if len(data) >= 16 else (0,)
        if bytes(data[:8]) != _MAGIC or len(data) < 16 + 22 * count:
            raise StorageError(f"{path} is damaged: build the index anew with --rebuild")
        at = 16
        columns = []
        for kind in ("<u8", "<u2", "<u4", "<u8"):
            size = np.dtype(kind).itemsize * count
            columns.append(np.frombuffer(data[at : at + size], kind))
            at += size
        self.keys, self._shards, self.links, self._ends = columns
        self._texts = data[at:]

    def target(self, at: int) -> Target:
        start = int(self._ends[at - 1]) if at else 0
        lines = bytes(self._texts[start : int(self._ends[at])]).decode().split("\n")
        texts = {}
        for line in filter(None, lines):
            count, _, text = line.partition("\t")
            texts[text] = int(count)
        return Target(int(self.keys[at]), int(self._shards[at]), int(self.links[at]), texts)

    def find(self, key: int) -> int:
        """The index of a target; -1 if the run does not have it."""
        at = int(np.searchsorted(self.keys, np.uint64(key)))
        return at if at < len(self.keys) and int(self.keys[at]) == key else -1

    def of_shard(self, shard: int) -> list[int]:
        """The targets of a shard, by their keys."""
        return [int(key) for key in self.keys[self._shards == shard]]

    def __iter__(self) -> Iterator[Target]:
        return map(self.target, range(len(self.keys)))


def _joined(parts: Iterable[Target]) -> Target:
    rows = list(parts)
    first = rows[0]
    texts = first.texts
    if len(rows) > 1:
        texts = Counter(texts)
        for row in rows[1:]:
            texts.update(row.texts)
    if len(texts) > 1:
        texts = dict(sorted(texts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_TEXTS])
    return Target(first.key, first.shard, sum(row.links for row in rows), texts)


class Anchors:
    """The anchor texts of a crawl's pages."""

    def __init__(self, files: DiskFiles, crawl: str) -> None:
        self._files = files
        self._crawl = crawl
        self._shards: dict[int, int] = {}
        """The shard of each target held."""
        self._links: Counter[int] = Counter()
        self._texts: Counter[tuple[int, str]] = Counter()
        self._seen = b""
        self.manifest = Manifest(crawl)
        self._runs: list[Run] = []
        self.reload()

    def reload(self) -> None:
        """Load what another process has written since."""
        data = self._files.read(_NAME) if self._files.exists(_NAME) else b""
        if not data or data == self._seen:
            return
        try:
            found = msgspec.json.decode(data, type=Manifest)
        except msgspec.MsgspecError as error:
            raise StorageError(
                f"{self._files.path(_NAME)} is damaged ({error}): build it anew with --rebuild"
            ) from None
        if found.crawl != self._crawl:
            raise StorageError(f"{self._files.path(_NAME)} is of another crawl: build it anew with --rebuild")
        self._runs = [Run(self._files.path(_file(run))) for run in found.runs]
        self.manifest, self._seen = found, data

    @property
    def last(self) -> int:
        """The number of the last run."""
        return self.manifest.runs[-1][1] if self.manifest.runs else 0

    # -- reading

    def texts(self, key: int) -> tuple[str, ...]:
        """The texts of links to a page, the most frequent first."""
        found = [run.target(at) for run in self._runs if (at := run.find(key)) >= 0]
        return tuple(_joined(found).texts) if found else ()

    def changed(self, shard: int, after: int) -> Iterator[int]:
        """Pages of a shard named in runs after the given one."""
        for (_, last), run in zip(self.manifest.runs, self._runs, strict=True):
            if last > after:
                yield from run.of_shard(shard)

    # -- writing

    def add(
        self, keys: Sequence[int], texts: Sequence[str], shard_of: Callable[[int], int], counts: bool
    ) -> None:
        """Add a page's links. `shard_of`: the shard of the n-th; `counts`: they were not logged before."""
        places = dict(zip(keys, range(len(keys)), strict=True))
        for key in set(keys).difference(self._shards):
            self._shards[key] = shard_of(places[key])
        self._texts.update(zip(keys, texts, strict=True))
        if counts:
            self._links.update(keys)

    @property
    def due(self) -> bool:
        """Whether enough is held to write a run."""
        return len(self._texts) + len(self._shards) >= MOST_HELD

    def _targets(self) -> Iterator[Target]:
        """The targets held, by key."""
        held: dict[int, dict[str, int]] = {key: {} for key in sorted(self._shards)}
        for (key, text), count in self._texts.items():
            if text and (text := " ".join(text.split())):
                texts = held[key]
                texts[text] = texts.get(text, 0) + count
        for key, texts in held.items():
            target = Target(key, self._shards[key], self._links[key], texts)
            yield _joined([target]) if len(texts) > 1 else target

    def save(self, places: list[list[int]]) -> None:
        """Write what is held as a run, and store how far the logs were read."""
        runs = list(self.manifest.runs)
        if self._shards:
            number = self.last + 1
            self._write((number, number), self._targets())
            runs.append((number, number))
            self._shards.clear()
            self._links.clear()
            self._texts.clear()
        old: list[tuple[int, int]] = []
        if len(runs) > MOST_RUNS:
            merged = runs[0][0], runs[-1][1]
            opened = [Run(self._files.path(_file(run))) for run in runs]
            rows = groupby(heapq.merge(*opened, key=lambda row: row.key), key=lambda row: row.key)
            self._write(merged, (_joined(group) for _, group in rows))
            old, runs = runs, [merged]
        data = msgspec.json.encode(Manifest(self._crawl, runs, places))
        if data != self._seen:
            write_whole(self._files, _NAME, data)
        for run in old:
            self._files.remove(_file(run))
        self.reload()

    def _write(self, run: tuple[int, int], rows: Iterable[Target]) -> None:
        keys, shards, links, ends = array("Q"), array("H"), array("L"), array("Q")
        name = _file(run)
        texts = self._files.create(f"{name}.texts")
        size = 0
        held: list[bytes] = []
        for row in rows:
            lines = "\n".join([f"{count}\t{text}" for text, count in row.texts.items()])
            held.append(lines.encode("utf-8", "replace"))
            size += len(held[-1])
            if len(held) >= _AT_ONCE:
                texts.write(b"".join(held))
                held.clear()
            keys.append(row.key)
            shards.append(row.shard)
            links.append(min(row.links, 0xFFFFFFFF))
            ends.append(size)
        texts.write(b"".join(held))
        texts.flush()
        texts.close()
        out = self._files.create(name)
        out.write(_MAGIC + struct.pack("<Q", len(keys)))
        for values, kind in ((keys, "<u8"), (shards, "<u2"), (links, "<u4"), (ends, "<u8")):
            out.write(np.array(values, kind).tobytes())
        at = 0
        while piece := self._files.read_at(f"{name}.texts", at, 1 << 20):
            out.write(piece)
            at += len(piece)
        out.sync()
        out.close()
        self._files.remove(f"{name}.texts")


def _file(run: tuple[int, int]) -> str:
    return f"{run[0]:08d}-{run[1]:08d}.run"
