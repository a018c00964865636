"""What the Sydney experiment crawls: a BV graph of mere numbers, or the link graph of a crawl, with its URLs.

With URLs the start pages are the crawl's seeds, keys are keys of URLs, a page's depth is that of its directory, and
home pages are counted. Without them the start is the page that reaches most (`best_start`), and the distance
from it replaces a page's depth: the paper's idea of directories (§5.2) cannot be tried on numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lycosa.errors import ConfigError
from lycosa.frontier.sydney.room import directories_of
from lycosa.graph.bv import BVGraph, Lists
from lycosa.graph.pagerank import pagerank
from lycosa.graph.store import GraphStore
from lycosa.lab.experiments.sydney import Subject, best_start, number_keys, reach
from lycosa.url.key import Keyer

_TOLERANCE = 1e-8
Told = Callable[[str], None]


def from_numbers(graph: BVGraph, start: Sequence[int], seed: int, told: Told) -> Subject:
    """A graph whose pages are only numbers."""
    told("reading the graph")
    lists = graph.csr()
    if start:
        sources = _checked(start, lists.count)
    else:
        told("looking for a start")
        sources = np.array([best_start(lists)], np.int64)
    depths = reach(lists, sources)
    ranks, worth = _worth(lists, told)
    return Subject(lists, sources, number_keys(lists.count, seed), depths, ranks, worth)


def from_store(store: GraphStore, start: Sequence[int], seed: int, told: Told) -> Subject:
    """The link graph of a crawl."""
    told("reading the graph")
    lists = store.graph("out").csr()
    sources = _checked(start or store.facts.seeds.tolist(), lists.count)
    urls = store.urls.urls(np.arange(lists.count))
    depths = np.fromiter((directories_of(url) for url in urls), np.int32)
    keys, _ = Keyer(seed).scan("\n".join(urls).encode("utf-8", "surrogateescape"))
    ranks, worth = _worth(lists, told)
    homes = (url.count("/") == 3 and url.endswith("/") for url in urls)
    worth["home pages"] = np.fromiter(homes, np.float64)
    return Subject(lists, sources, keys, depths, ranks, worth)


def _worth(lists: Lists, told: Told) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    told("ranking the pages")
    ranks = pagerank(lists, tolerance=_TOLERANCE).values
    into = np.bincount(lists.nodes, minlength=lists.count).astype(np.float64)
    return ranks, {"PageRank": ranks, "in-degree": into}


def _checked(start: Sequence[int], count: int) -> NDArray[np.int64]:
    for node in start:
        if not 0 <= node < count:
            raise ConfigError(f"no node {node} to start from: nodes are numbered 0 to {count - 1}")
    if not len(start):
        raise ConfigError("the graph has no seeds: say where to start with --start")
    return np.array(start, np.int64)
