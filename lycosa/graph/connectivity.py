"""The connectivity server: the links from a URL and to a URL.

    server = Connectivity.open(files)                 the last build
    server = Connectivity.open(files, tail=records)   and what was logged since

    server.out(url), server.into(url)                 URLs, or None for a URL that is not known
    server.ask(urls, "out" | "in")                    many at once, as numbers in arrays
    server.path(a, b)                                 a shortest way along links
    server.common(urls, "in" | "out")                 what links to all of them; what all of them link to

Numbers are those of the build's URL table; URLs of the tail that it does not have are numbered behind.

**The tail** overrides the build: for a page in the tail the tail's links count, and its old links are removed from
the pages that it linked to; redirects of the tail are followed. The next build will give the same answers, except
for links that the build has already resolved: those resolved through a redirect still lead to its old target, even
if it has become something else since, or is now part of a circle, until the next build. (With canonical links
resolved, a page's row also holds the links of pages that name it as canonical; if the page is in the tail, those
are hidden too, until the next build.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from lycosa.errors import ConfigError
from lycosa.files import Files
from lycosa.graph.bv import Lists
from lycosa.graph.gather import REDIRECTED, Options, Reader
from lycosa.graph.store import GraphStore
from lycosa.records import Record, Seeded

Direction = Literal["out", "in"]
Numbers = npt.NDArray[np.int64]


class Answers(NamedTuple):
    """`numbers[i]` is that of the i-th URL asked for, or −1; `lists[i]` its neighbours."""

    numbers: Numbers
    lists: Lists


class _Tail:
    """Links logged since the build, by number."""

    def __init__(self, store: GraphStore, records: Iterable[Record]) -> None:
        manifest = store.manifest
        options = Options(
            canonical=manifest.canonical, requisites=manifest.requisites, nofollow=manifest.nofollow
        )
        reader = Reader(options)
        answers = {}
        urls: dict[bytes, int] = {}
        for record in records:
            answer = reader.answer(record)
            if answer is not None:
                answers[answer.url] = answer
                urls.update(dict.fromkeys([answer.url, *answer.targets], -1))
                if answer.alias is not None:
                    urls[answer.alias] = -1
            elif isinstance(record, Seeded) and record.links.urls:
                urls.update(dict.fromkeys(record.links.urls.split(b"\n"), -1))
        self.base = manifest.nodes
        texts = [url.decode("utf-8", "surrogateescape") for url in urls]
        self.new: list[str] = []
        for url, text, found in zip(urls, texts, store.urls.numbers(texts).tolist(), strict=True):
            if found < 0:
                found = self.base + len(self.new)
                self.new.append(text)
            urls[url] = found
        self.numbers = {text: self.base + i for i, text in enumerate(self.new)}
        self.alias: dict[int, int] = {}
        self.before: dict[int, int] = {}  # aliases of the build
        if answers:
            rows = store.facts.aliases
            used = rows if manifest.canonical else rows[rows[:, 2] == REDIRECTED]
            self.before = dict(zip(used[:, 0].tolist(), used[:, 1].tolist(), strict=True))
        pages: dict[int, list[int]] = {}
        for answer in answers.values():
            page = urls[answer.url]
            pages[page] = [urls[target] for target in answer.targets]
            if answer.alias is not None and (answer.kind == REDIRECTED or manifest.canonical):
                self.alias[page] = urls[answer.alias]
        # Every page of the tail has an entry, even an empty one: it hides the build's links.
        self.out: dict[int, set[int]] = {page: set() for page in pages}
        self.moved: dict[int, set[int]] = {}  # links that aliases of the tail hand to their ends
        self.into: dict[int, set[int]] = {}
        self.led: dict[int, list[int]] = {}  # an end of aliases of the tail -> those aliases
        for page, targets in pages.items():
            end = self.end(page)
            ends = {self.end(target) for target in targets}
            if page in self.alias:
                self.out[page] = {end if end != page else self.alias[page]}
                if end != page:
                    self.led.setdefault(end, []).append(page)
                    self.moved.setdefault(end, set()).update(ends)
                else:
                    self.out[page] |= ends
            else:
                self.out[page] |= ends
        for links in (self.out, self.moved):
            for page, found_ends in links.items():
                for target in found_ends:
                    self.into.setdefault(target, set()).add(page)

    def end(self, node: int) -> int:
        """Where the aliases from a node end; the node itself if they run in a circle."""
        at, met = node, {node}
        while True:
            further = self.alias.get(at)
            if further is None:
                further = self.before.get(at) if at not in self.out else None
            if further is None:
                return at
            at = further
            if at in met:
                return node
            met.add(at)

    def successors(self, node: int, built: Sequence[int]) -> list[int]:
        """The links of a node, of which the build has `built`."""
        links = self.out.get(node)
        if links is None:
            links = {self.end(target) for target in built} if self.alias else set(built)
        return sorted(links | self.moved.get(node, set()))

    def predecessors(self, node: int, built: Sequence[Sequence[int]]) -> list[int]:
        """Who links to a node; `built` is what the build has for it and for aliases that now lead to it."""
        if self.end(node) != node:
            return []
        found = {source for sources in built for source in sources if source not in self.out}
        return sorted(found | self.into.get(node, set()))


class Connectivity:
    """Answers from a built graph, and from the log's tail."""

    def __init__(self, store: GraphStore, tail: Iterable[Record] = ()) -> None:
        self.store = store
        laid = _Tail(store, tail)
        self._tail = laid if laid.out or laid.new else None
        self.nodes = store.manifest.nodes + len(laid.new)

    @classmethod
    def open(cls, files: Files, tail: Iterable[Record] = ()) -> Connectivity:
        """The graph in a directory, with what was logged since."""
        return cls(GraphStore.open(files), tail)

    def numbers(self, urls: Sequence[str]) -> Numbers:
        """The number of each URL, −1 for one that is not known."""
        found = self.store.urls.numbers(urls)
        if self._tail and self._tail.new:
            for i in np.flatnonzero(found < 0).tolist():
                found[i] = self._tail.numbers.get(urls[i], -1)
        return found

    def urls(self, numbers: npt.ArrayLike) -> list[str]:
        """The URLs of these numbers."""
        wanted = np.asarray(numbers, dtype=np.int64)
        base = self.store.manifest.nodes
        if self._tail is None or not len(wanted) or wanted.max() < base:
            return self.store.urls.urls(wanted)
        old = iter(self.store.urls.urls(wanted[wanted < base]))
        return [next(old) if i < base else self._tail.new[i - base] for i in wanted.tolist()]

    def lists(self, numbers: npt.ArrayLike, direction: Direction) -> Lists:
        """The neighbours of each of these numbers."""
        wanted = np.asarray(numbers, dtype=np.int64)
        graph = self.store.graph(direction)
        tail = self._tail
        if tail is None:
            return graph.lists(wanted)
        base = self.store.manifest.nodes
        rows: list[list[int]] = []
        if direction == "out":
            old = wanted < base
            built = iter(_rows(graph.lists(wanted[old])))
            for node, known in zip(wanted.tolist(), old.tolist(), strict=True):
                rows.append(tail.successors(node, next(built) if known else ()))
        else:
            for node in wanted.tolist():
                asked = [x for x in (node, *tail.led.get(node, ())) if x < base]
                rows.append(tail.predecessors(node, _rows(graph.lists(asked))))
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        return Lists(starts, np.array([node for row in rows for node in row], dtype=np.int32))

    def ask(self, urls: Sequence[str], direction: Direction = "out") -> Answers:
        """The neighbours of many URLs at once; a URL that is not known has none."""
        numbers = self.numbers(urls)
        known = numbers >= 0
        if known.all():
            return Answers(numbers, self.lists(numbers, direction))
        found = self.lists(numbers[known], direction)
        degrees = np.zeros(len(numbers), dtype=np.int64)
        degrees[known] = np.diff(found.starts)
        return Answers(numbers, Lists(np.concatenate([[0], np.cumsum(degrees)]), found.nodes))

    def _neighbours(self, url: str, direction: Direction) -> list[str] | None:
        answers = self.ask([url], direction)
        return None if answers.numbers[0] < 0 else self.urls(answers.lists.nodes)

    def out(self, url: str) -> list[str] | None:
        """Where this URL links; None if it is not known."""
        return self._neighbours(url, "out")

    def into(self, url: str) -> list[str] | None:
        """Which URLs link to this one; None if it is not known."""
        return self._neighbours(url, "in")

    def common(self, urls: Sequence[str], direction: Direction = "in") -> list[str]:
        """The URLs that link to all of these (`in`), or that all of these link to (`out`)."""
        numbers = self._known(urls)
        lists = self.lists(numbers, direction)
        shared = lists[0]
        for i in range(1, lists.count):
            shared = np.intersect1d(shared, lists[i], assume_unique=True)
        return self.urls(shared)

    def _known(self, urls: Sequence[str]) -> Numbers:
        if not urls:
            raise ConfigError("no URL was given")
        numbers = self.numbers(urls)
        for url, number in zip(urls, numbers.tolist(), strict=True):
            if number < 0:
                raise ConfigError(f"{url} is not in the graph")
        return numbers

    def path(self, source: str, target: str) -> list[str] | None:
        """A shortest path along links, both ends included; None if there is none."""
        a, b = self._known([source, target]).tolist()
        found = self._path(a, b)
        return None if found is None else self.urls(found)

    def _path(self, a: int, b: int) -> list[int] | None:
        """Breadth first from both ends, a whole level at a time, on the side with fewer nodes to open."""
        if a == b:
            return [a]
        sides: list[_Side] = [_Side(self, a, "out"), _Side(self, b, "in")]
        while sides[0].edge.size and sides[1].edge.size:
            here = 0 if sides[0].edge.size <= sides[1].edge.size else 1
            side, other = sides[here], sides[1 - here]
            side.open()
            met = side.edge[other.depth[side.edge] >= 0]
            if met.size:
                middle = int(met[np.argmin(other.depth[met])])
                return sides[0].way(middle)[::-1] + sides[1].way(middle)[1:]
        return None


class _Side:
    """One side of a search for a path: nodes met, by depth and by predecessor."""

    def __init__(self, server: Connectivity, start: int, direction: Direction) -> None:
        self._server, self._direction = server, direction
        self.depth = np.full(server.nodes, -1, dtype=np.int32)
        self._from = np.full(server.nodes, -1, dtype=np.int32)
        self.depth[start] = 0
        self.edge = np.array([start], dtype=np.int64)

    def open(self) -> None:
        """Go one level further."""
        lists = self._server.lists(self.edge, self._direction)
        origins = np.repeat(self.edge, np.diff(lists.starts))
        level = int(self.depth[self.edge[0]]) + 1
        fresh = self.depth[lists.nodes] < 0
        nodes = lists.nodes[fresh]
        self._from[nodes] = origins[fresh]
        self.depth[nodes] = level
        self.edge = np.unique(nodes).astype(np.int64)

    def way(self, node: int) -> list[int]:
        """The path from a node back to where this side began."""
        way = [node]
        while self._from[way[-1]] >= 0:
            way.append(int(self._from[way[-1]]))
        return way


def _rows(lists: Lists) -> list[list[int]]:
    nodes, starts = lists.nodes.tolist(), lists.starts.tolist()
    return [nodes[a:b] for a, b in pairwise(starts)]
