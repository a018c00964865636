"""The same crawl in production code: a real shard with log, seen set, admission, frontier, left-behind files.

It does what `sydney_kernels` computes: every page of the graph is a page on a host of its own, and its links come
as a `Fetched` record. The tests compare the two, page by page; on a whole graph it takes some hundred times as
long as the kernel.

One thing differs from production: how full the memory is. The frontier counts its bytes, and the shard reports them
after each record; here every pending URL counts alike, at the time of the question, so that the kernel can compute
it too. And whether a page's rank is low is known from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lycosa.clock import ManualClock
from lycosa.crawl.admission import Shared
from lycosa.crawl.budgets import Budgets
from lycosa.crawl.config import Options, encode_options
from lycosa.crawl.link_store import LinkStore
from lycosa.crawl.shard import ContentIndex, Shard
from lycosa.crawl.sites import SiteTable
from lycosa.crawl.splitting import Splitter
from lycosa.files import Files
from lycosa.frontier import Calendar, DepthOrder, Entry, PackedFrontier, PackedLeftBehind, Room, Sampler
from lycosa.frontier.sydney.room import PER_URL
from lycosa.lab.experiments.sydney import Rule, Subject, options_of, room_for
from lycosa.log.log import Log
from lycosa.meters import Meters
from lycosa.records import Configured, Fetched, Link, LinkKind, Links, Seeded, Timing, Waiting
from lycosa.seen.cache import ScatterCache
from lycosa.seen.memory import MemorySeen
from lycosa.url.domains import Domains
from lycosa.url.key import Keyer, Keys
from lycosa.url.scope import Scope, ScopeOptions

_COMMIT = 1_000
"""Records between two commits of the log."""


def url_of(node: int, directories: int = 0) -> str:
    """The address of a page: each has its own host, so that hosts come in the order of their discovery."""
    return f"http://n{node}.test/{'d/' * max(directories, 0)}"


def keys_of(depths: NDArray[np.int32], seed: int) -> Keys:
    """The keys of all pages, for the kernel."""
    urls = "\n".join(url_of(v, depth) for v, depth in enumerate(depths.tolist()))
    return Keyer(seed).scan(urls.encode("ascii"))[0]


class Through(NamedTuple):
    """A crawl with the production code."""

    order: list[int]
    peak: int
    peak_p: int
    peak_s: int
    returns: int
    dropped: int
    base: int  # the position of the first page's record


class _Watch:
    """Records the maximum length of the queues."""

    def __init__(self) -> None:
        self.peak = self.peak_p = self.peak_s = 0
        self.pending: Callable[[], int] = lambda: 0
        self.left: Callable[[], int] = lambda: 0

    def note(self) -> None:
        p, s = self.pending(), self.left()
        self.peak, self.peak_p, self.peak_s = max(self.peak, p + s), max(self.peak_p, p), max(self.peak_s, s)


class _WatchedFrontier(PackedFrontier):
    watch: _Watch

    def put(self, items: Sequence[Waiting], levels: Sequence[int]) -> None:
        super().put(items, levels)
        self.watch.note()


class _WatchedLeft(PackedLeftBehind):
    watch: _Watch

    def push(self, queue: int, entry: Entry) -> None:
        super().push(queue, entry)
        self.watch.note()


class _CountedRoom(Room):
    """A room in which every pending URL takes the same space, counted when asked for."""

    def __init__(self, limit: int, watch: _Watch) -> None:
        self._watch = watch
        super().__init__(limit)

    @property
    def used(self) -> int:
        return self._watch.pending() * PER_URL

    @used.setter
    def used(self, used: int) -> None:
        """Does nothing: URLs are counted when asked for."""

    def may_grow(self, shard: int) -> bool:
        """Always: URLs are bounded here, not bytes."""
        return True


def _shard(
    files: Files, options: Options, room: Room, seed: int, low_rank: Callable[[int], bool], watch: _Watch
) -> Shard:
    """A shard as `lycosa.crawl.agent` builds it, except for the watch and its arguments."""
    clock = ManualClock()
    keyer = Keyer(seed)
    order = DepthOrder()
    frontier = _WatchedFrontier(clock, order, keyer.seed)
    left = _WatchedLeft(files.within("left"))
    frontier.watch = left.watch = watch
    watch.pending, watch.left = lambda: frontier.pending, left.__len__
    store = MemorySeen(files.within("seen"))
    content = MemorySeen(files.within("content"))
    domains = Domains(b"test")
    return Shard(
        0,
        log=Log(files.within("log")),
        links=LinkStore(store, ScatterCache(1 << 12), Meters()),
        frontier=frontier,
        calendar=Calendar(files.within("calendar")),
        revisits=Calendar(files.within("revisits")),
        content=ContentIndex([content]),
        content_store=content,
        left=left,
        sites=SiteTable(files.within("sites"), seed=keyer.seed),
        budgets=Budgets(0, 0, domains.domain),
        shared=Shared(
            order=order,
            keyer=keyer,
            splitter=Splitter(1, domains),
            sampler=Sampler(options.frontier),
            room=room,
            clock=clock,
            scope_of=lambda options: Scope(options.scope, options.near, domains),
            low_rank=low_rank,
        ),
    )


def crawl_through(
    files: Files,
    subject: Subject,
    rule: Rule,
    explored: int,
    seed: int = 0,
    told: Callable[[int], None] | None = None,
) -> Through:
    """Crawl the graph under one of the frontier's modes; `files` is an empty place for the shard's files."""
    scope = ScopeOptions(mode="any", max_path_depth=None, max_repeats=None)
    options = Options(public=False, scope=scope, frontier=options_of(rule))
    starts, nodes, depths = subject.lists.starts, subject.lists.nodes.tolist(), subject.depths.tolist()
    low = set(keys_of(subject.depths, seed)[subject.is_low()].tolist()) if rule.quality else set()
    watch = _Watch()
    room = _CountedRoom(room_for(rule, explored).limit, watch)
    shard = _shard(files, options, room, seed, low.__contains__, watch)
    shard.append(Configured(0, encode_options(options)))
    for v in dict.fromkeys(subject.sources.tolist()):
        shard.append(Seeded(0, Links.pack([Link(url_of(v, depths[v]), LinkKind.SEED, False, "")])))
    base = shard.log.end
    fetched: list[int] = []
    while True:
        while shard.admission.replenish() or shard.admission.coming is not None:
            if shard.admission.coming is not None:
                shard.log.keep(shard.log.fetch(shard.admission.coming[1].position))
        host = shard.frontier.begin(0.0)
        if host is None:
            break
        while (waiting := shard.frontier.take(host)) is not None:
            v = int(host.removeprefix("n").removesuffix(".test"))
            fetched.append(v)
            shard.append(_record(waiting, [url_of(w, depths[w]) for w in nodes[starts[v] : starts[v + 1]]]))
        shard.frontier.end(host, 0.0)
        if len(fetched) % _COMMIT == 0:
            shard.log.commit()
            if told is not None:
                told(len(fetched))
    shard.log.close()
    admission = shard.admission
    return Through(
        fetched, watch.peak, watch.peak_p, watch.peak_s, admission.returns, admission.dropped, base
    )


def _record(waiting: Waiting, links: Sequence[str]) -> Fetched:
    return Fetched(
        at=0,
        url=waiting.url,
        depth=waiting.depth,
        hops=waiting.hops,
        attempt=waiting.attempt,
        status=200,
        type="text/html",
        charset="utf-8",
        size=0,
        length=0,
        digest=0,
        timing=Timing(),
        address="",
        links=Links("\n".join(links).encode("ascii"), bytes([LinkKind.ANCHOR]) * len(links)),
    )
