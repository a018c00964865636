"""PageRank of a crawl's pages for its search index: from the log to `DIR/index/ranks`.

The link graph from which ranks are computed is kept in `DIR/index/graph` and grows with the log
(`lycosa.graph.build`). It differs from that of `lycosa graph build`: links that pages ask not to follow do not
count here, and a page's canonical link counts as a redirect, so that the rank of a page's addresses is combined.

Recomputing ranks takes a pass over the whole graph for each step of the iteration, so it is not done in every round
of the index: only when the log has grown by a share that the caller names since the last time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from lycosa.ask.follower import Entry, Follower, Place
from lycosa.ask.reading import CrawlReader
from lycosa.files import DiskFiles
from lycosa.graph.build import build
from lycosa.graph.gather import Options
from lycosa.graph.pagerank import pagerank
from lycosa.graph.store import GraphStore, read_manifest
from lycosa.graph.urls import url_of
from lycosa.index.ranks import scaled, write_ranks

GRAPH = "graph"
_TOLERANCE = 1e-6
_AT_ONCE = 100_000


def refresh(
    crawl: CrawlReader,
    files: DiskFiles,
    at: int,
    grown: float = 0.0,
    told: Callable[[str, int], None] = lambda *_: None,
) -> int:
    """Recompute the ranks if the log has grown by more than the share `grown`; returns how many there are, or 0.

    `at`: the time, in milliseconds.
    """
    graph_files = files.within(GRAPH)
    before = read_manifest(graph_files)
    places = [
        Place.at(before.positions.get(str(shard), 0) if before else 0)
        for shard in range(crawl.manifest.shards)
    ]
    ends = [place.next for place in crawl.end()]
    new = sum(ends) - sum(place.next for place in places)
    if new <= 0 or new <= grown * sum(ends):
        return 0
    follower = Follower(crawl, places, settled=True)

    def counted() -> Iterator[Entry]:
        for number, entry in enumerate(follower.read(), 1):
            yield entry
            if not number & 0x3FF:
                told("reading links for ranks", number)

    made = build(
        graph_files,
        counted(),
        Options(canonical=True, nofollow=False),
        crawl.splitter.domains.domain,
        lambda: follower.positions,
    )
    told("ranking", made.nodes)
    store = GraphStore(graph_files, made)
    ranks = scaled(pagerank(store.graph("out"), tolerance=_TOLERANCE).values, made.nodes)
    fetched = np.flatnonzero(store.facts.fetched)
    table = store.urls
    keys = [
        crawl.keyer.scan(b"\n".join(map(url_of, table.keys(fetched[first : first + _AT_ONCE]))))[0]
        for first in range(0, len(fetched), _AT_ONCE)
    ]
    write_ranks(files, at, np.concatenate([np.zeros(0, np.uint64), *keys]), ranks[fetched])
    return len(fetched)
