"""One crawl of a web on a virtual clock, page by page: what the scheduling experiment simulates (Castillo, §6.2).

    r    connections at a time, never two to one site
    w    seconds between two visits of a site
    c    pages per visit
    B    bytes per second of the crawler's link

A visit of a site begins when a connection is free and the site has pages and has waited; among several such sites
the order chooses. After the site's latency the visit takes the best page of the site, which is transferred at the
site's bandwidth; while all connections together would exceed B, all are slowed down by the same factor. Then the
page's links are known. Up to c pages come over one connection, without further latency. Nothing fails, and
computing takes no time.

The orders (§6.3), each with the rank of sites and the rank of a site's pages:

    optimal   PageRank in the whole web, of the best page; the same
    depth     the depth at which the best page was found; the same, then first found
    listed    the number of the site, whatever waits there; depth, then first found. The other reading of Depth:
              the thesis says only how it orders a site's pages
    length    number of pending pages; depth, then first found
    batch     K pages at a time, those of the best PageRank in what is known; it is calculated after each batch,
              and nothing found meanwhile is fetched before. A batch may be stopped when few connections are
              open: the rest of it is fetched along with the next K
    partial   PageRank in what is known, calculated every K pages; a page found since has the sum of the shares
              of the pages that link to it

Ties between sites: ready for longer, then queued for longer. Start pages have the same rank, and are known from the
beginning.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from lycosa.graph.bv import Lists
from lycosa.lab.experiments import scheduling_kernels as kernels
from lycosa.lab.experiments.web import Web

Order = Literal["optimal", "depth", "listed", "length", "batch", "partial"]
KINDS: dict[Order, int] = {
    "optimal": kernels.OPTIMAL,
    "depth": kernels.DEPTH,
    "listed": kernels.LISTED,
    "length": kernels.LENGTH,
    "batch": kernels.BATCH,
    "partial": kernels.PARTIAL,
}


class Setting(NamedTuple):
    """One crawl's parameters; those of the thesis unless said otherwise."""

    order: Order
    r: int = 1
    c: int = 1
    w: float = 15.0
    link: float = 1e12
    between: int = 1
    """K: pages between two calculations of ranks."""
    fill: float = 0.0
    """Share of the link that visits are to fill: none begins while the predicted bandwidths of the open ones reach
    it. The prediction is the site's bandwidth once a page has come from there, and before that the mean of such
    sites (§6.4, after Diligenti and others). 0: r connections are used, whatever they bring."""
    stop: float = 0.0
    """A batch ends when less than this share of the connections is open, and K/10 pages have come (§6.4)."""

    @property
    def halt(self) -> int:
        """The number of open connections below which a batch is stopped."""
        return math.ceil(self.stop * self.r)


class Run(NamedTuple):
    """One crawl: pages in order of arrival, when, and how many connections were open then."""

    pages: npt.NDArray[np.int32]
    times: npt.NDArray[np.float64]
    active: npt.NDArray[np.int32]
    calculated: int


def simulate(
    web: Web,
    setting: Setting,
    oracle: npt.NDArray[np.float64],
    *,
    only: npt.NDArray[np.int64] | None = None,
) -> Run:
    """Crawl the web; or fetch only the pages `only`, whatever they link to."""
    lists = web.lists if only is None else Lists(np.zeros(web.pages + 1, np.int64), np.empty(0, np.int32))
    sources = np.unique(web.start) if only is None else only
    sizes = np.bincount(web.sites, minlength=len(web.homes))
    bases = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    order = np.empty(web.pages, np.int32)
    times = np.empty(web.pages, np.float64)
    active = np.empty(web.pages, np.int32)
    how = (
        KINDS[setting.order],
        setting.r,
        setting.c,
        float(setting.w),
        float(setting.link),
        max(setting.between, 1),
        setting.halt,
        float(setting.fill),
    )
    graph = (lists.starts, lists.nodes, web.sites, bases, sources.astype(np.int64))
    got, calculated = kernels.crawl(
        *graph, web.sizes, web.latency, web.bandwidth, oracle, how, order, times, active
    )
    return Run(order[:got], times[:got], active[:got], int(calculated))
