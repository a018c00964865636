"""Splitting a crawl among nodes (Manning, Raghavan, Schütze, §20.2.1): what each way of splitting costs.

A *splitter* gives every page to a node:

    URL       by hash of the URL
    host      by hash of the host: the chapter's host splitter
    domain    by hash of the registered domain: what Lycosa's shards do
    names     by ranges of reversed host names, cut so that nodes have equal shares of the pages: top-level domains
              stay together
    place     to one of the nodes in the region of the host's name, by hash: the chapter's node in Europe
              for European domains

Geography is simulated: four regions have shares `REGIONS` of the sites, by ranges of names; for a share `STRAY` of
the sites the server is in a region drawn at random, whatever the name says; nodes are placed in the regions in
turn. A request has `NEAR` seconds of network latency within a region, `FAR` to another, added to the site's own
latency.

Counted over the whole graph: links that lead to another node; those of them that a CLOCK cache before the exchange
does not catch (one of 2^16 entries on each node, pages fetched in the order of their numbers); the pages of the
largest node relative to the mean; hosts that more than one node would ask, each with a DNS look-up of its own and
politeness that the others do not know of; and the mean network latency of a page's request in seconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lycosa.lab.experiments.result import Curve, Figure, Line, Result, Told
from lycosa.lab.experiments.web import Web
from lycosa.seen.cache import ScatterCache
from lycosa.url.key import mix_array

PAPER = "Manning, Raghavan, Schütze: Introduction to Information Retrieval (2009), chapter 20"
CLAIM = (
    "Hosts are divided among the nodes of a crawler by a hash, or by where they are; most links stay on their "
    "node, and duplicates are eliminated on one node alone."
)
NODES = (2, 4, 16, 64, 256)
SPLITTERS = ("URL", "host", "domain", "names", "place")
REGIONS = (0.4, 0.3, 0.2, 0.1)
STRAY = 0.2
NEAR, FAR = 0.02, 0.15
CACHE = 1 << 16
_STEP = 1 << 20
Numbers = npt.NDArray[np.int32]


class Cost(NamedTuple):
    """The costs of one splitter with a number of nodes."""

    crossing: float  # share of all links
    sent: float  # of all links, those that cross and are not in the sender's cache
    balance: float  # pages of the largest node, over the mean
    shared: float  # share of hosts that more than one node asks
    lookups: float  # (node, host) pairs per host
    way: float  # network latency of a page's request in seconds


def split(web: Web, splitter: str, nodes: int) -> Numbers:
    """The node of each page."""
    if splitter == "URL":
        return _spread(web.keys, nodes)
    if splitter == "names":
        # A whole site goes to the node in whose range of the pages it begins.
        sizes = np.bincount(web.sites, minlength=len(web.homes))
        begins = np.cumsum(sizes) - sizes
        return np.asarray((begins * nodes // max(web.pages, 1)).astype(np.int32)[web.sites])
    if splitter == "place":
        told, _ = regions(web)
        among = np.maximum((nodes - told + len(REGIONS) - 1) // len(REGIONS), 1)  # nodes in the site's region
        salted = mix_array(np.arange(len(web.homes), dtype=np.uint64) + np.uint64(web.seed << 32))
        turn = (salted % among.astype(np.uint64)).astype(np.int64)
        return np.asarray(((told + turn * len(REGIONS)) % nodes).astype(np.int32)[web.sites])
    of = np.arange(len(web.homes)) if splitter == "host" else web.domains
    salted = mix_array(of.astype(np.uint64) + np.uint64(web.seed << 32))
    return np.asarray(_spread(salted, nodes)[web.sites])


def regions(web: Web) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The region of each site according to its name, and the one in which its server is."""
    count = len(web.homes)
    told = np.searchsorted(np.cumsum(REGIONS) * count, np.arange(count), side="right")
    told = np.minimum(told, len(REGIONS) - 1)
    dice = np.random.default_rng([web.seed, 5])
    return told, np.where(dice.random(count) < STRAY, dice.integers(0, len(REGIONS), count), told)


def _spread(keys: npt.NDArray[np.uint64], nodes: int) -> Numbers:
    return np.asarray((mix_array(keys) % np.uint64(nodes)).astype(np.int32))


def cost(web: Web, splitter: str, nodes: int, *, cached: bool) -> Cost:
    """The costs of a splitter; what passes the caches is computed only if asked for (else 0)."""
    of = split(web, splitter, nodes)
    caches = [ScatterCache(CACHE) for _ in range(nodes)] if cached else []
    crossing, sent = 0, 0
    out = np.diff(web.lists.starts)
    for first in range(0, web.pages, _STEP):
        last = min(first + _STEP, web.pages)
        targets = web.lists.nodes[web.lists.starts[first] : web.lists.starts[last]]
        source = np.repeat(of[first:last], out[first:last])
        away = of[targets] != source
        crossing += int(np.count_nonzero(away))
        for node, cache in enumerate(caches):
            keys = web.keys[targets[away & (source == node)]]
            sent += len(keys) - cache.probe(keys, np.empty(len(keys), np.bool_))
    pairs = np.unique(of.astype(np.int64) * len(web.homes) + web.sites)
    asked = np.bincount(pairs % len(web.homes), minlength=len(web.homes))
    links = max(len(web.lists.nodes), 1)
    pages = np.bincount(of, minlength=nodes)
    near = regions(web)[1][web.sites] == of % len(REGIONS)
    return Cost(
        crossing / links,
        sent / links,
        float(pages.max() / max(pages.mean(), 1e-9)),
        float(np.mean(asked > 1)),
        float(asked.mean()),
        float(np.where(near, NEAR, FAR).mean()),
    )


def run(web: Web, told: Told) -> Result:
    """All splitters for all numbers of nodes."""
    costs: dict[tuple[str, int], Cost] = {}
    for splitter in SPLITTERS:
        for nodes in NODES:
            told(f"splitting by {splitter} among {nodes} nodes")
            costs[splitter, nodes] = cost(web, splitter, nodes, cached=nodes == 4)
    lines = [
        Line("§20.2.1", "no host is asked by two nodes, split by host, domain, names or place",
             not any(costs[s, n].shared for s in SPLITTERS[1:] for n in NODES), True),
        Line("§20.2.1", "URL, 4 nodes: hosts that more than one node asks", costs["URL", 4].shared, None, "share"),
    ]  # fmt: skip
    for splitter in SPLITTERS:
        found = costs[splitter, 4]
        # Broder, Najork, Wiener, §4.1 and §4.2: by host, four machines.
        paper = 0.195 if splitter == "host" else None
        lines += [
            Line("§20.2.1", f"{splitter}, 4 nodes: links that cross", found.crossing, paper, "share"),
            Line(
                "§20.2.1",
                f"{splitter}, 4 nodes: links that are sent behind a cache",
                found.sent,
                None,
                "share",
            ),
            Line("§20.2.1", f"{splitter}, 4 nodes: the largest node over the mean", found.balance),
            Line("§20.2.2", f"{splitter}, 4 nodes: DNS look-ups a host", found.lookups),
            Line("§20.2.1", f"{splitter}, 4 nodes: on the way of a request", found.way, None, "seconds"),
        ]
    lines += [
        Line("§20.2.1", f"{splitter}, 64 nodes: the largest node over the mean", costs[splitter, 64].balance)
        for splitter in SPLITTERS
    ]
    counts = [float(nodes) for nodes in NODES]
    figures = [
        Figure(
            name,
            title,
            "nodes",
            y,
            [Curve(s, counts, [costs[s, nodes][place] for nodes in NODES]) for s in SPLITTERS],
            log_x=True,
        )
        for name, title, y, place in (
            ("Links", "links that lead to another node", "share of all links", 0),
            ("Balance", "pages of the largest node", "mean = 1", 2),
            ("Distance", "on the way of a request", "seconds", 5),
        )
    ]
    definitions = {
        "start set": "none: every page and link of the graph is counted once",
        "node": "the hash of what the splitter names, modulo the number of nodes; names: ranges",
        "cache": f"CLOCK of {CACHE} entries a node, links of pages in the order of their numbers",
        "domains": "a graph of numbers has none: there a domain is a site",
        "geography": f"simulated: regions of {', '.join(f'{share:.0%}' for share in REGIONS)} of the sites, by "
        f"ranges of names; {STRAY:.0%} of the servers stand anywhere; nodes stand in the regions in turn; "
        f"{1000 * NEAR:g} ms within a region, {1000 * FAR:g} ms to another",
        "seed": str(web.seed),
    }
    return Result("distribution", PAPER, CLAIM, web.head(), definitions, lines, figures)
