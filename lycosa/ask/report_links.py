"""The report's second pass: which pages link to broken URLs, which share content; and chains of redirects.

Broken URLs are identified by their keys, sorted. One kernel call computes the keys of all links of a record, and a
binary search among the broken keys finds the hits: no URL becomes a Python string unless it is shown. For each
broken URL the number of pages that link to it and the places of the first `HOLDERS` are kept; their URLs and link
texts are read at the end, for those that are shown.

A redirect leads from one key to another, so all redirects form a graph in which every node has at most one
successor. Following it with doubled strides gives every node's distance to its end in a few vector operations;
nodes that never reach an end lead into loops, and the nodes reached after more jumps than there are nodes lie on
the loops.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from lycosa.ask.json_form import digest_text
from lycosa.ask.reading import CrawlReader
from lycosa.ask.report import (
    Broken,
    BrokenLink,
    Chain,
    DuplicateGroup,
    Duplicates,
    Holder,
    Redirects,
    Report,
)
from lycosa.ask.report_fold import FirstPass
from lycosa.records import Fetched, LinkKind, Links, Record, Robots, Seeded, Skipped

HOLDERS = 5
"""Pages shown for each broken URL."""
_GROUP_URLS = 5
_CHAIN = 50

Ints = NDArray[np.int64]


class SecondPass:
    """Finds the holders of broken links and the members of groups of duplicates."""

    def __init__(self, crawl: CrawlReader, first: FirstPass, top: int, shown: int) -> None:
        self._crawl = crawl
        self._first = first
        self._top = top
        self._shown = shown
        keys = np.frombuffer(first.broken.keys, np.uint64) if first.broken.keys else np.empty(0, np.uint64)
        self._broken, self._place = np.unique(keys, return_index=True)
        n = len(self._broken)
        self._links = np.zeros(n, np.int64)
        self._holder_shards = np.zeros((n, HOLDERS), np.uint16)
        self._holder_positions = np.full((n, HOLDERS), -1, np.int64)
        self._groups: dict[int, DuplicateGroup] = {}
        self._group_count = 0
        if first.digests:
            found, counts = np.unique(np.frombuffer(first.digests, np.uint64), return_counts=True)
            self._group_count = len(found)
            for row in np.argsort(-counts, kind="stable")[:top].tolist():
                digest = int(found[row])
                self._groups[digest] = DuplicateGroup(
                    digest=digest_text(digest) or "", pages=0, bytes=0, title="", urls=[]
                )

    @property
    def needed(self) -> bool:
        """Whether there is anything to look for."""
        return bool(len(self._broken) or self._groups)

    def apply(self, shard: int, position: int, record: Record) -> None:
        if isinstance(record, Fetched):
            group = self._groups.get(record.digest) if self._groups else None
            if group is not None and 200 <= record.status < 300:
                _join(group, record)
        if len(self._broken) and isinstance(record, Fetched | Seeded | Robots) and record.links.kinds:
            self._search(shard, position, record, record.links)

    def _search(self, shard: int, position: int, record: Record, links: Links) -> None:
        keys, _ = self._crawl.keyer.scan(links.urls)
        rows = np.searchsorted(self._broken, keys)
        rows[rows == len(self._broken)] = 0
        hits = rows[self._broken[rows] == keys]
        if not len(hits):
            return
        own = self._crawl.keyer.key(record.url) if isinstance(record, Fetched) else -1
        for row in dict.fromkeys(hits.tolist()):
            if int(self._broken[row]) == own:
                continue
            n = int(self._links[row])
            self._links[row] = n + 1
            if n < HOLDERS:
                self._holder_shards[row, n] = shard
                self._holder_positions[row, n] = position

    # -- what was found

    def write(self, report: Report) -> None:
        report.broken = self._broken_links()
        groups = sorted(self._groups.values(), key=lambda group: -group.pages)
        report.duplicates = Duplicates(
            pages=len(self._first.digests) + self._first.digests_lost,
            groups=self._group_count,
            largest=[group for group in groups if group.pages > 1],
            answers=self._first.duplicates,
        )
        report.redirects = self._redirects()

    def _broken_links(self) -> Broken:
        order = np.argsort(-self._links, kind="stable")[: self._shown].tolist()
        places = self._first.broken
        wanted: set[tuple[int, int]] = set()
        for row in order:
            at = int(self._place[row])
            wanted.add((places.shards[at], places.positions[at]))
            wanted.update(self._holders_of(row))
        records = self._read(wanted)
        shown = []
        for row in order:
            at = int(self._place[row])
            record = records[places.shards[at], places.positions[at]]
            if not isinstance(record, Fetched | Skipped):
                continue
            if isinstance(record, Fetched):
                status, why = record.status, f"status {record.status}"
            else:
                status, why = 0, f"{record.why}: {record.detail}"
            holders = [_holder(records[place], record.url) for place in self._holders_of(row)]
            shown.append(
                BrokenLink(
                    url=record.url,
                    status=status,
                    why=why,
                    links=int(self._links[row]),
                    holders=[holder for holder in holders if holder is not None],
                )
            )
        shown.sort(key=lambda row: (-row.links, row.url))
        urls = len(self._broken) + places.lost
        return Broken(urls=urls, links=int(self._links.sum()), shown=shown)

    def _holders_of(self, row: int) -> list[tuple[int, int]]:
        n = min(int(self._links[row]), HOLDERS)
        return [(int(self._holder_shards[row, i]), int(self._holder_positions[row, i])) for i in range(n)]

    def _read(self, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Record]:
        """The records at those places; read in order, so that a block is unpacked once."""
        return {place: self._crawl.logs[place[0]].read(place[1]) for place in sorted(places)}

    # -- redirects

    def _redirects(self) -> Redirects:
        places = self._first.redirects
        if not places.keys:
            return Redirects(pages=places.lost)
        keys = np.frombuffer(places.keys, np.uint64)
        # Of a URL that was fetched twice the last answer counts.
        nodes, last = np.unique(keys[::-1], return_index=True)
        place = len(keys) - 1 - last
        targets = np.frombuffer(self._first.targets, np.uint64)[place]
        following = np.searchsorted(nodes, targets)
        following[following == len(nodes)] = 0
        following = np.where(nodes[following] == targets, following, -1)
        hops, loops = distances(following)
        heads = np.ones(len(nodes), np.bool_)
        heads[following[following >= 0]] = False
        lengths = hops[heads & (hops > 0)]
        values, counts = np.unique(lengths, return_counts=True)
        longest = [
            row
            for row in np.argsort(-np.where(heads, hops, 0), kind="stable")[: self._top].tolist()
            if heads[row] and hops[row] > 1
        ]
        members = _loops(following, loops, self._top)
        wanted = [*(_walk(following, row) for row in longest), *members]
        where = {
            row: (places.shards[place[row]], places.positions[place[row]]) for path in wanted for row in path
        }
        records = self._read(set(where.values()))

        def told(path: list[int], whole: bool) -> list[str]:
            found = [records[where[row]] for row in path]
            pages = [record for record in found if isinstance(record, Fetched)]
            urls = [record.url for record in pages]
            if whole and pages:
                urls.append(pages[-1].links.urls.partition(b"\n")[0].decode("ascii"))
            return urls

        return Redirects(
            pages=len(keys) + places.lost,
            lengths={int(v): int(c) for v, c in zip(values, counts, strict=True)},
            chains=[Chain(urls=told(_walk(following, row), True), hops=int(hops[row])) for row in longest],
            loops=[Chain(urls=told(path, False), hops=len(path)) for path in members],
            loop_count=_loop_count(following, loops),
        )


def distances(following: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """For each node the number of steps until the graph is left (0: never), and whether it is on a loop.

    Node i leads to node `following[i]`, or out of the graph if that is -1.
    """
    n = len(following)
    end = n  # one more node, to which all ends lead and which leads to itself
    jump = np.append(np.where(following >= 0, following, end), end)
    steps = np.append(np.ones(n, np.int64), 0)
    for _ in range(max(n, 1).bit_length() + 1):
        steps = steps + steps[jump]
        jump = jump[jump]
    never = jump[:n] != end
    on_loop = np.zeros(n, np.bool_)
    on_loop[jump[:n][never]] = True
    return np.where(never, 0, steps[:n]), on_loop


def _walk(following: Ints, row: int) -> list[int]:
    path: list[int] = []
    while row >= 0 and len(path) < _CHAIN and row not in path:
        path.append(row)
        row = int(following[row])
    return path


def _loops(following: Ints, on_loop: NDArray[np.bool_], most: int) -> list[list[int]]:
    """The members of the first few loops."""
    done: set[int] = set()
    found: list[list[int]] = []
    for row in np.flatnonzero(on_loop).tolist():
        if len(found) >= most:
            break
        if row in done:
            continue
        path = _walk(following, row)
        done.update(path)
        found.append(path)
    return found


def _loop_count(following: Ints, on_loop: NDArray[np.bool_]) -> int:
    """The number of loops: nodes on loops, less those that are not the least of their loop."""
    rows = np.flatnonzero(on_loop)
    if not len(rows):
        return 0
    least = np.arange(len(following))
    jump = np.where(on_loop, following, np.arange(len(following)))
    for _ in range(len(rows).bit_length() + 1):
        least = np.minimum(least, least[jump])
        jump = jump[jump]
    return int(np.count_nonzero(least[rows] == rows))


def _join(group: DuplicateGroup, record: Fetched) -> None:
    if not group.pages:
        group.bytes, group.title = record.length, record.title
    group.pages += 1
    if len(group.urls) < _GROUP_URLS:
        group.urls.append(record.url)


def _holder(record: Record, url: str) -> Holder | None:
    """How a record holds a link to a URL."""
    if isinstance(record, Fetched):
        source = record.url
    elif isinstance(record, Robots):
        source = f"{record.site}/robots.txt"
    elif isinstance(record, Seeded):
        source = "seed"
    else:
        return None
    sought = url.encode("ascii")
    urls = record.links.urls.split(b"\n")
    if sought not in urls:
        return None
    row = urls.index(sought)
    texts = record.links.texts.split(b"\n")
    text = texts[row].decode("utf-8", "replace") if row < len(texts) else ""
    return Holder(url=source, text=text, kind=LinkKind(record.links.kinds[row] & 0x7F).name.lower())
