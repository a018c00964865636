"""Gathering the links of a log in bounded memory: runs of sorted URLs and numbered links.

Records come in the order of the log. What counts:

- a `Fetched` page with status 2xx: its links replace those of any earlier fetch of it. Links are those of the
  wanted kinds; requisites (images, scripts …) are not wanted unless asked for, a canonical link is never an
  arc but is kept as an alias;
- a `Fetched` redirect (3xx with a redirect link): the URL is an alias of its target, and has no links itself;
- a `Fetched` 404 or 410: the page is gone, and its links with it;
- any other answer says nothing about links: what was known stays;
- `Seeded`: its URLs are nodes, and remembered as seeds. Other records say nothing new (what is received from
  another shard is a link of a page that the other shard fetched).

URLs are numbered as they come, in a dictionary; when the memory is full, the run is *sealed*: its URLs are
sorted by key and written, and its links are written with the URLs' ranks. No fingerprints are involved: two
URLs are the same if and only if their bytes are.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from lycosa.files import Files
from lycosa.graph.urls import key_of
from lycosa.records import FIRST_REQUISITE, NOFOLLOW, Fetched, LinkKind, Record, Seeded

Ints = npt.NDArray[np.int32]

REDIRECTED, CANONICAL = 1, 2
"""Kinds of aliases."""

_NO_ARC = {int(LinkKind.REDIRECT), int(LinkKind.CANONICAL), int(LinkKind.SEED)}
_PER_URL = 160  # bytes of memory for a URL beside its own bytes: objects, dictionary, sorting
_PER_TARGET = 12
_PER_PAGE = 120


class Options(msgspec.Struct, frozen=True):
    """How a graph is built."""

    memory: int = 256 << 20  # bytes for gathering and sorting, about; in addition some 20 bytes per URL
    preset: str = "default"
    canonical: bool = False  # resolve canonical links like redirects
    requisites: bool = False  # count images, scripts, styles … as links
    nofollow: bool = True  # count links that pages ask not to follow


class Run(NamedTuple):
    """What a sealed run holds; pages by the ranks of their URLs in the run."""

    pages: Ints  # rank of each page
    counts: Ints  # how many targets each has
    targets: Ints  # side by side
    aliases: Ints  # rank and target's rank and kind, in threes
    seeds: Ints  # ranks


class Answer(NamedTuple):
    """What a record says about a page's links."""

    url: bytes
    targets: list[bytes]
    alias: bytes | None = None
    kind: int = 0  # of the alias


class Reader:
    """Reads answers from records, by the rules above."""

    def __init__(self, options: Options) -> None:
        wanted = [
            kind
            for kind in map(int, LinkKind)
            if kind not in _NO_ARC and (options.requisites or kind < FIRST_REQUISITE)
        ]
        flags = (0, NOFOLLOW) if options.nofollow else (0,)
        self._wanted = bytes(kind | flag for kind in wanted for flag in flags)

    def answer(self, record: Record) -> Answer | None:
        """The answer of a record, if it is one."""
        if not isinstance(record, Fetched) or record.status == 304:
            return None
        links, url = record.links, record.url.encode()
        if record.status in (404, 410):
            return Answer(url, [])
        urls = links.urls.split(b"\n") if links.kinds else []
        if 200 <= record.status < 300:
            alias = _first(links.kinds, urls, int(LinkKind.CANONICAL))
            if links.kinds.translate(None, self._wanted):
                urls = [u for u, kind in zip(urls, links.kinds, strict=True) if kind in self._wanted]
            return Answer(url, urls, alias if alias != url else None, CANONICAL)
        target = _first(links.kinds, urls, int(LinkKind.REDIRECT))
        if 300 <= record.status < 400 and target is not None:
            return Answer(url, [], target if target != url else None, REDIRECTED)
        return None


def _first(kinds: bytes, urls: list[bytes], kind: int) -> bytes | None:
    """The first link of that kind."""
    for byte in (kind, kind | NOFOLLOW):
        at = kinds.find(byte)
        if at >= 0:
            return urls[at]
    return None


class Gatherer:
    """Takes records, makes runs."""

    def __init__(self, files: Files, options: Options, *, replace: bool = True) -> None:
        """Without `replace`, all answers of a page count, not only the last."""
        self._files, self._memory, self._replace = files, options.memory, replace
        self._reader = Reader(options)
        self.runs = 0
        self._reset()

    def _reset(self) -> None:
        self._ids: defaultdict[bytes, int] = defaultdict(count().__next__)
        self._pages = array("i")
        self._starts = array("q")
        self._targets = array("i")
        self._latest: dict[int, int] = {}  # page -> index of its last answer
        self._aliases: dict[int, tuple[int, int, int]] = {}  # index of an answer -> id, target, kind
        self._seeds: set[int] = set()
        self._bytes = 0

    def _id(self, url: bytes) -> int:
        if url not in self._ids:
            self._bytes += len(url)
        return self._ids[url]

    def add(self, record: Record) -> None:
        """The next record of the log."""
        if isinstance(record, Seeded):
            if record.links.urls:
                self._seeds.update(map(self._id, record.links.urls.split(b"\n")))
            return
        answer = self._reader.answer(record)
        if answer is not None:
            self.add_answer(answer)

    def add_answer(self, answer: Answer) -> None:
        """The next answer."""
        page, index = self._id(answer.url), len(self._pages)
        self._latest[page] = index
        self._pages.append(page)
        self._starts.append(len(self._targets))
        if answer.alias is not None:
            self._aliases[index] = (page, self._id(answer.alias), answer.kind)
        ids, targets = self._ids, answer.targets
        before = len(ids)
        self._targets.extend(map(ids.__getitem__, targets))  # new URLs are numbered on the way
        if len(ids) > before:
            self._bytes += (len(ids) - before) * sum(map(len, targets)) // len(targets)
        if len(ids) * _PER_URL + self._bytes + self.held > self._memory:
            self.seal()

    @property
    def held(self) -> int:
        """Bytes held for links, about."""
        return _PER_TARGET * len(self._targets) + _PER_PAGE * len(self._pages)

    def seal(self) -> None:
        """Write what is held as a run, if there is anything."""
        if not self._ids:
            return
        urls = list(self._ids)
        keys = list(map(key_of, urls))
        self._ids.clear()
        order = sorted(range(len(keys)), key=keys.__getitem__)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        out = self._files.create(f"run-{self.runs}.keys")
        for i in range(0, len(order), 1 << 14):
            out.write(b"".join(keys[j] + b"\n" for j in order[i : i + (1 << 14)]))
        out.close()
        pages = np.array(self._pages, dtype=np.int32)
        starts = np.array([*self._starts, len(self._targets)], dtype=np.int64)
        targets = rank[np.array(self._targets, dtype=np.int32)]
        last = np.full(len(pages), not self._replace)
        last[list(self._latest.values())] = True
        kept = [value for index, value in self._aliases.items() if last[index]]
        aliases = np.array(kept, dtype=np.int32).reshape(-1, 3)
        aliases[:, :2] = rank[aliases[:, :2]]
        counts = np.diff(starts)
        targets = targets[np.repeat(last, counts)]
        parts = [
            rank[pages[last]],
            counts[last].astype(np.int32),
            targets,
            aliases.ravel(),
            rank[np.array(sorted(self._seeds), dtype=np.int32)],
        ]
        out = self._files.create(f"run-{self.runs}.links")
        out.write(np.array([len(part) for part in parts], dtype=np.int64).tobytes())
        for part in parts:
            out.write(part.astype(np.int32).tobytes())
        out.close()
        self.runs += 1
        self._reset()


def read_run(files: Files, number: int) -> Run:
    """The links of a sealed run."""
    data = files.read(f"run-{number}.links")
    sizes = np.frombuffer(data, dtype=np.int64, count=5)
    parts, at = [], 40
    for size in sizes.tolist():
        parts.append(np.frombuffer(data, dtype=np.int32, count=size, offset=at))
        at += 4 * size
    return Run(*parts)


def read_keys(files: Files, number: int) -> Iterator[bytes]:
    """The keys of a sealed run, ascending; a megabyte in memory at a time."""
    name, at, rest = f"run-{number}.keys", 0, b""
    while data := files.read_at(name, at, 1 << 20):
        at += len(data)
        *keys, rest = (rest + data).split(b"\n")
        yield from keys
