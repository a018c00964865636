"""The fold from which ranks are calculated: which page links to which, from the records of all shards of an agent.

Of every `Fetched` it keeps the page's key and the keys of its links that are followed, packed:

    sources     (key, number of links)*     in the order of the records
    targets     key*                        the links of the first source, of the second ...
    known       key*                        of seeds and sitemaps: known, without a page that links to them
    settled     key*                        of URLs that were skipped: not pending
    hosts       (from, to, times)*          the same by host, summed up per page: see below

and calculates PageRank over all of them (Castillo, §6.3: the pages known are those fetched and those they point
to). A page that was fetched again counts with its last links.

Memory. The rows are bounded by `memory` bytes. When they would exceed it the fold changes, permanently, to ranking
hosts (`by_host`): the first four tables are dropped, `hosts` continues. A host is named by 48 bits of its hash
(`lycosa.frontier.orders.ranked.host_name`). A host that links to another n times counts as 1 + ⌊log₂ n⌋ links: a
footer on every page is worth little more than one. Links within a host do not count. Rows of the same two hosts are
summed up whenever ranks are calculated, in the thread; if they then still take more than half of the memory, the
rarest links are dropped, and links that find no room before that are not added: both are counted in `dropped`.
During a calculation it uses more: 17 bytes per link, or 4 per link and 56 per known page if that is more.

Threads. `cut` returns a `Calculation`: views of rows that never change again. `Calculation.run` may run in a
thread (NumPy and kernels without the interpreter's lock), and `settle` adopts what it summed up.

There is no snapshot: after a restart the fold is rebuilt from the logs (`Ranker.rebuild`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lycosa.frontier import Noted, Ranks
from lycosa.frontier.orders import rank_kernels
from lycosa.frontier.orders.ranked import HOST_BITS, host_name, is_home
from lycosa.frontier.orders.rows import Rows, joined
from lycosa.graph.bv import Lists
from lycosa.graph.pagerank import pagerank
from lycosa.records import Before, Fetched, Links, Record, Robots, Seeded, Skipped
from lycosa.url.key import Keyer, Keys
from lycosa.url.parts import host_of

SOURCE = np.dtype([("key", np.uint64), ("links", np.uint32)])
HOSTS = np.dtype([("from", np.uint64), ("to", np.uint64), ("times", np.uint32)])
_KEY = np.dtype(np.uint64)
_TOLERANCE = 1e-6
_STEPS = 100
"""Sufficient: the error shrinks by 0.85 each, and levels are 1/255 apart."""
_MOST_TIMES = (1 << 32) - 1

RankFunction = Callable[[Lists], NDArray[np.float64]]


def rank_lists(lists: Lists) -> NDArray[np.float64]:
    """PageRank with the parameters of this fold."""
    return pagerank(lists, tolerance=_TOLERANCE, iterations=_STEPS).values


class RankFold:
    """The links of all records so far."""

    def __init__(
        self, keyer: Keyer, memory: int, follow: NDArray[np.bool_], rank: RankFunction = rank_lists
    ) -> None:
        self._keyer = keyer
        self._memory = memory
        self._rank = rank
        self.follow = follow
        """For each value of a byte of `Links.kinds`, whether such links are followed; may be changed."""
        self.by_host = False
        self.pages = 0
        """Pages fetched, according to the records added."""
        self.dropped = 0
        """Links between hosts that found no room, or that were too rare to keep."""
        chunk = max(1 << 8, min(1 << 16, memory // (16 * _KEY.itemsize * 4)))
        self._sources = Rows(SOURCE, chunk)
        self._targets = Rows(_KEY, chunk)
        self._known = Rows(_KEY, chunk)
        self._settled = Rows(_KEY, chunk)
        self._hosts = Rows(HOSTS, chunk)
        self._summed = 0  # number of rows of hosts that are summed up

    @property
    def mode(self) -> str:
        """What is ranked: "pages" or "hosts"."""
        return "hosts" if self.by_host else "pages"

    @property
    def links(self) -> int:
        """Number of links held; by host, of rows."""
        return len(self._hosts) if self.by_host else len(self._targets)

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows in (*self._pages, self._hosts))

    @property
    def crowded(self) -> bool:
        """Whether summing up is due, or links of hosts will soon find no room."""
        return self.by_host and self.nbytes > self._memory // 4 * 3

    @property
    def _pages(self) -> tuple[Rows, Rows, Rows, Rows]:
        return self._sources, self._targets, self._known, self._settled

    # -- input

    def add(self, record: Record) -> Noted | None:
        """Add a record. For a page, returns it with its links that count."""
        if isinstance(record, Fetched):
            return self._add_page(record)
        if isinstance(record, Skipped):
            if self._fits(self._settled.cost(1)):
                self._settled.add(self._keyer.key(record.url))
        elif isinstance(record, Seeded | Robots) and record.links.kinds:
            keys, hosts = self._followed(record.links)
            names = np.unique(host_name(hosts))
            rows = np.empty(len(names), HOSTS)
            rows["from"], rows["to"], rows["times"] = names, names, 1  # known, without a linking page
            self._add_hosts(rows)
            if self._fits(self._known.cost(len(keys))):
                self._known.append(keys)
        return None

    def _add_page(self, record: Fetched) -> Noted:
        self.pages += record.before is not Before.PAGE
        source = self._keyer.key(record.url)
        own = self._keyer.host_hash(host_of(record.url)) & HOST_BITS
        keys, hosts = self._followed(record.links)
        names = host_name(hosts)
        self._add_hosts(rows_of_hosts(own, names))
        if self._fits(self._sources.cost(1) + self._targets.cost(len(keys))):
            self._sources.add((source, len(keys)))
            self._targets.append(keys)
        return Noted(source, own, keys, names, record.depth == 0 or is_home(record.url))

    def _followed(self, links: Links) -> tuple[Keys, Keys]:
        keys, hosts = self._keyer.scan(links.urls)
        if not links.kinds:
            return keys, hosts
        wanted = self.follow[np.frombuffer(links.kinds, np.uint8)]
        return (keys, hosts) if wanted.all() else (keys[wanted], hosts[wanted])

    def _add_hosts(self, rows: NDArray[Any]) -> None:
        cost = self._hosts.cost(len(rows))
        if not self.by_host:
            self._fits(cost)  # if not, pages make room
        if cost and self.nbytes + cost > self._memory:
            self.dropped += len(rows)
            return
        self._hosts.append(rows)

    def _fits(self, cost: int) -> bool:
        """Whether rows of pages may take so many bytes more; if not, all rows of pages are dropped."""
        if self.by_host:
            return False
        if cost and self.nbytes + cost > self._memory:
            self.by_host = True
            for rows in self._pages:
                rows.clear()
            return False
        return True

    # -- output

    def cut(self) -> Calculation:
        """The present state, for a calculation; cheap."""
        return Calculation(
            pages=None if self.by_host else [rows.cut() for rows in self._pages],
            hosts=self._hosts.cut() if self.by_host or len(self._hosts) > 2 * self._summed else None,
            limit=self._memory // 2,
            rank=self._rank,
        )

    def settle(self, calculation: Calculation) -> None:
        """Adopt what a finished calculation summed up."""
        summed = calculation.summed
        if summed is not None:
            self._hosts.replace(calculation.rows, summed)
            self._summed = len(summed)
            self.dropped += calculation.dropped


def rows_of_hosts(own: int, names: Keys) -> NDArray[Any]:
    """The rows of a page of host `own` with links to these hosts."""
    # A page without links counts as linked to itself, so that its host is known.
    ordered = np.sort(names) if len(names) else np.array([own], np.uint64)
    rows = np.empty(len(ordered), HOSTS)
    return rows[: rank_kernels.count_runs(ordered, np.uint64(own), rows)]


# -- the calculation, in a thread


class Calculation:
    """A calculation of ranks from the state at a cut."""

    def __init__(
        self,
        *,
        pages: list[list[NDArray[Any]]] | None,
        hosts: list[NDArray[Any]] | None,
        limit: int,
        rank: RankFunction,
    ) -> None:
        self._pages = pages
        self._hosts = hosts
        self._limit = limit
        self._rank = rank
        self.rows = sum(map(len, hosts)) if hosts is not None else 0
        """Number of rows of hosts that it sums up."""
        self.summed: NDArray[Any] | None = None
        self.dropped = 0

    def run(self) -> Ranks:
        """The ranks."""
        self.sum_up()
        if self._pages is None:
            assert self.summed is not None, "by host, rows are always summed up"
            return host_ranks(self.summed, self._rank)
        sources, targets, known, settled = self._pages
        return page_ranks(sources, targets, known, settled, self._rank)

    def sum_up(self) -> None:
        """Sum up the rows of hosts."""
        if self._hosts is not None:
            self.summed, self.dropped = summed_up(joined(self._hosts, HOSTS), self._limit)


def page_ranks(
    sources: list[NDArray[Any]],
    targets: list[NDArray[Any]],
    known: list[NDArray[Any]],
    settled: list[NDArray[Any]],
    rank: RankFunction,
) -> Ranks:
    """PageRank of pages."""
    groups = joined(sources, SOURCE)
    pages = groups["key"]
    keys = _distinct([*targets, pages, *known])
    lists = lists_of(keys, groups, targets)
    values = rank(lists).astype(np.float32)
    return Ranks(keys, values, _distinct([pages, *settled]))


def lists_of(keys: Keys, groups: NDArray[Any], targets: list[NDArray[Any]]) -> Lists:
    """The lists of successors, by index in `keys`; of a page that occurs twice the last one."""
    node = np.searchsorted(keys, groups["key"])
    counts = groups["links"].astype(np.int64)
    last = np.full(len(keys), -1, np.int64)
    last[node] = np.arange(len(groups))  # the last write wins
    chosen = last[last >= 0]
    starts = np.zeros(len(keys) + 1, np.int64)
    starts[1:][node[chosen]] = counts[chosen]
    np.cumsum(starts, out=starts)
    places = np.full(len(groups), -1, np.int64)
    places[chosen] = starts[node[chosen]]
    nodes = np.empty(int(starts[-1]), np.int32)
    group, done = 0, 0
    for chunk in targets:
        group, done = rank_kernels.fill_lists(keys, chunk, counts, places, nodes, group, done)
    return Lists(starts, nodes)


def lists_plain(keys: Keys, groups: NDArray[Any], targets: Keys) -> Lists:
    """What `lists_of` gives, list by list."""
    node = {key: place for place, key in enumerate(keys.tolist())}
    of: list[list[int]] = [[] for _ in node]
    at = 0
    for key, links in groups.tolist():
        of[node[key]] = [node[target] for target in targets[at : at + links].tolist()]
        at += links
    starts = np.cumsum([0, *map(len, of)])
    return Lists(starts.astype(np.int64), np.array([n for row in of for n in row], np.int32))


def summed_up(rows: NDArray[Any], limit: int) -> tuple[NDArray[Any], int]:
    """Rows of hosts sorted, each pair once, within `limit` bytes; and how many were dropped for that."""
    if not len(rows):
        return rows, 0
    order = np.lexsort((rows["to"], rows["from"]))
    source, to, times = rows["from"][order], rows["to"][order], rows["times"][order].astype(np.uint64)
    new = np.ones(len(rows), np.bool_)
    new[1:] = (source[1:] != source[:-1]) | (to[1:] != to[:-1])
    firsts = np.flatnonzero(new)
    sums = np.minimum(np.add.reduceat(times, firsts), _MOST_TIMES)
    most = max(limit // HOSTS.itemsize, 1)
    dropped = max(len(firsts) - most, 0)
    if dropped:
        kept = np.sort(np.argsort(sums, kind="stable")[dropped:])
        firsts, sums = firsts[kept], sums[kept]
    out = np.empty(len(firsts), HOSTS)
    out["from"], out["to"], out["times"] = source[firsts], to[firsts], sums
    return out, dropped


def host_ranks(rows: NDArray[Any], rank: RankFunction) -> Ranks:
    """PageRank of hosts, from rows that are summed up."""
    keys = _distinct([rows["from"], rows["to"]])
    between = rows["from"] != rows["to"]
    source = np.searchsorted(keys, rows["from"][between])
    to = np.searchsorted(keys, rows["to"][between])
    weight = 1 + np.floor(np.log2(np.maximum(rows["times"][between], 1))).astype(np.int64)
    # Rows are sorted by the host that links: its list begins where the rows before it end.
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(weight)])
    starts = before[np.searchsorted(source, np.arange(len(keys) + 1))]
    nodes = np.empty(int(starts[-1]), np.int32)
    rank_kernels.repeat(to, weight, nodes)
    values = rank(Lists(starts, nodes)).astype(np.float32)
    return Ranks(keys, values, np.empty(0, np.uint64), by_host=True)


def _distinct(chunks: list[NDArray[Any]]) -> Keys:
    """All keys of some chunks, ascending, each once."""
    keys = joined(chunks, np.uint64)
    if not len(keys):
        return keys
    keys.sort()
    new = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys[new]
