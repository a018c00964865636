"""Warming: compiles and loads the crawl's kernels before it begins, not in the middle of it.

Numba compiles a kernel at its first call (`lycosa.compiled` says where the result is kept). On a new installation
that takes up to a minute in all; loading kept results takes half a second. An event loop would be blocked
meanwhile, so every kernel that a crawl uses is called once before, on tiny data, in a thread. Some kernels
need files: if no temporary directory can be made, they are left to the crawl, and that is reported.

A crawl needs only the kernels of its own order and store, and those of main text if it is continuous; without
options all kernels are warmed, as after an installation: `python -m lycosa.crawl.warming`.
"""

from __future__ import annotations

import logging

import numpy as np

from lycosa import compiled
from lycosa.clock import SystemClock
from lycosa.content.change import content_digest
from lycosa.content.news import Memory, Said
from lycosa.content.variants import Page
from lycosa.crawl.budgets import Budgets
from lycosa.crawl.config import Options
from lycosa.crawl.ranking import warm_ranking
from lycosa.crawl.site_index import Index
from lycosa.crawl.sites import SiteTable
from lycosa.errors import StorageError
from lycosa.files import DiskFiles, Files, scratch
from lycosa.frontier import BiasedOrder, DepthOrder, Entry, Levels, PackedFrontier, PackedLeftBehind, Ranking
from lycosa.meters import Meters
from lycosa.page.linking import Linker
from lycosa.page.protocol import Limits
from lycosa.page.scan import ScanParser
from lycosa.plugins import entry_points
from lycosa.records import Waiting
from lycosa.seen.cache import CachedSeen, ScatterCache
from lycosa.seen.contents import Contents
from lycosa.seen.memory import MemorySeen
from lycosa.seen.protocol import Seen
from lycosa.url.canonical import NO_RULES
from lycosa.url.hrefs import HrefMemo
from lycosa.url.key import Keyer, Keys
from lycosa.url.memo import LinkMemo

_SEED = 7


def warm(options: Options | None = None) -> None:
    """Compile and load every kernel of a crawl with these options, or with any; and find plugins."""
    entry_points(group="")
    keyer = Keyer(_SEED)
    urls = [f"http://host{n % 3}.test/page/{n}" for n in range(600)]
    keys, hosts = keyer.scan("\n".join(urls).encode("ascii"))
    _frontier([Waiting(url, int(key), n % 4) for n, (url, key) in enumerate(zip(urls, keys, strict=True))])
    _links(keyer)
    if options is None or options.variants.apply:
        Page(urls[0], b"<p>one of host</p>", "utf-8", lambda: ((), ())).read()
    if options is None or options.traps.quarantine:
        Memory().is_news(Said.by_text(b"<p>one of host</p>", "utf-8", urls[0], ()), "http://host.test")
    if options is None or options.frontier.order in ("batch", "partial"):
        warm_ranking()
    if options is None or options.frontier.host_budget or options.frontier.domain_budget:
        _budgets(hosts, "\n".join(urls).encode("ascii"))
    if options is None or options.refresh.continuous:
        content_digest(b"<p>What a page says.")
    try:
        with scratch("lycosa-") as place:
            files = DiskFiles(place)
            _seen(files, keys, "auto" if options is None else options.seen.store)
            _left_behind(files)
            _sites(files)
            if options is None or options.duplicates.alike == "leaf":
                _near(files)
        compiled.keep()
    except StorageError as error:
        logging.getLogger("lycosa").warning(
            "lycosa: %s; the crawl may stand still for seconds while it loads its kernels", error
        )


def _links(keyer: Keyer) -> None:
    limits = Limits()
    linker = Linker(LinkMemo(64, keyer), HrefMemo(64, NO_RULES, Meters()), keyer, NO_RULES, limits, Meters())
    body = b"<title>t</title><a href=/x>y</a><a href='/x y'>&amp;</a><link rel=next href=z>"
    body += b"<style>@import 'w'</style>"
    url = "http://host.test/"
    linker.links(ScanParser(limits, deferred=True).parse(body, url, "text/html", "utf-8"), url)


def _seen(files: Files, keys: Keys, store: str) -> None:
    memory = MemorySeen(files.within("seen"))
    seen = CachedSeen(ScatterCache(1 << 10), memory, Meters())
    _store(seen, keys)
    again = MemorySeen(files.within("seen"))
    pieces = list(seen.freeze())
    seen.settle()
    again.thaw(pieces)
    contents = Contents(files.within("content"))
    _store(contents, keys)
    list(contents.freeze())
    if store == "memory":
        return
    from lycosa.seen.auto import AutoSeen  # the stores on disk share their kernels

    disk = AutoSeen(files.within("disk"), memory=1 << 12)
    _store(disk, keys)  # too much for such a table: it moves to the disk
    _store(disk, keys + np.uint64(1))
    while disk.waiting or disk.due:
        disk.merge()
    pieces = list(disk.freeze())
    disk.settle()
    AutoSeen(files.within("disk"), memory=1 << 12).thaw(pieces)


def _store(seen: Seen, keys: Keys) -> None:
    seen.certain(keys)
    seen.offer(keys, [b""] * len(keys))
    seen.certain(keys[:5])
    seen.mark(np.array([1], np.uint64))
    seen.merge()


def _left_behind(files: Files) -> None:
    left = PackedLeftBehind(files.within("left"), tails=4)
    for n in range(60):
        left.push(1 + n % 3, Entry(n, 0))
    pieces = list(left.freeze())
    left.settle()
    PackedLeftBehind(files.within("left"), tails=4).thaw(pieces)
    while (queue := left.next_queue()) is not None:
        left.count(queue)
        left.pop(queue)


def _sites(files: Files) -> None:
    sites = SiteTable(files.within("sites"), hot=1, seed=_SEED)
    for n in range(6):  # each is evicted by the next, and comes back changed
        sites.get(f"http://host{n % 3}.test:80").pages += 1
    pieces = list(sites.freeze())
    sites.settle()
    SiteTable(files.within("sites"), hot=1, seed=_SEED).thaw(pieces)
    index, words = Index(), np.arange(1, 4, dtype=np.uint64)
    index.put_all(words, words, np.zeros(3, np.uint64))
    index.alive(words, words)


def _near(files: Files) -> None:
    from lycosa.content.alike import AlikeIndex  # these three are slow to import, and few crawls need them
    from lycosa.content.documents import text_of
    from lycosa.content.sketches import sketch

    found = sketch(
        text_of(b"<p>What a page of more than a dozen words says to all who come to read it.", "text/html")
    )
    index = AlikeIndex(files.within("near"))
    index.add(1, found)
    index.find(found)
    index.remove(1)
    index.save()


def _budgets(hosts: Keys, urls: bytes) -> None:
    budgets = Budgets(1, 1, lambda host: host, seed=_SEED)
    for n in range(2_000):  # more than the first table has room for
        budgets.note_fetch(f"host{n}.test")
    budgets.note_links("other.test", hosts, urls)
    budgets.class_of("host1.test")
    budgets.in_links("host1.test")
    Budgets(1, 1, lambda host: host, seed=_SEED).thaw(list(budgets.freeze()))


class _AskedOrder(DepthOrder):
    ranking = Ranking.ASKED


def _frontier(items: list[Waiting]) -> None:
    clock = SystemClock()
    frontier = PackedFrontier(clock, BiasedOrder(4), _SEED, back_queues=2)
    frontier.put(items, [item.depth for item in items])
    frontier.hold_all(0.5)
    frontier.begin(0.0)
    frontier.hold("host1.test", 0.0)
    frontier.claim("host9.test", 1.0)
    frontier.demote("host2.test", 1)
    frontier.queued("host2.test")
    for n in range(100):  # so that names are compacted
        frontier.hold(f"{n:060d}.test", 0.0)
    keys = np.sort(np.array([item.key for item in items[::2]], np.uint64))
    for _ in frontier.relevel(Levels(keys, np.ones(len(keys), np.uint8), -1)):
        pass
    host = frontier.begin(1.0)
    assert host is not None
    for _ in range(3):
        taken = frontier.take(host)
        assert taken is not None
        frontier.done(taken.key)
    pieces = frontier.freeze()
    back = frontier.take(host)
    assert back is not None
    frontier.put_back(back)
    again = frontier.take(host)
    assert again is not None
    frontier.end(host, 2.0)
    list(pieces)
    thawed = PackedFrontier(clock, _AskedOrder(), _SEED)
    thawed.thaw(frontier.freeze())
    for item in (items[0], items[300]):
        thawed.withdraw(item.url, item.key)
    thawed.settle_withdrawn()
    thawed.next_ready()


if __name__ == "__main__":
    warm()
