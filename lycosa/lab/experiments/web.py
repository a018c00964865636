"""What experiments run on: pages, links, sites, and how fast each site answers.

Three sources, and for each what is known and what is substituted:

| | a BV graph | a crawl | synthetic |
|---|---|---|---|
| pages, links | the graph's | of its link graph | drawn (`synthetic`) |
| sites | guessed from the numbers | the URLs' hosts | drawn |
| home pages | most linked to within the site | the shortest URL of a host | the first page of a site |
| start | the home pages | its seeds | the home pages |
| domains | the sites | registered domains | drawn: some ten sites each |
| sizes, latencies, bandwidths | drawn | of its log, where it has fetched; else drawn | drawn |

**Guessed sites.** In a graph in the order of URLs the pages of a site are adjacent. A site ends between two
neighbours that no link spanning at most 1,000 numbers passes over. This is an approximation: it finds directories
of large sites as well, and joins small sites.

**Drawn times.** Page sizes are log-normal with a mean of 24 kB (57 GB in 2.4M pages, Castillo's Table 6.2) and a
median of 11.6. A site's bandwidth is log-normal with a median of 20 kB/s, its latency with a median of 0.5 s, so
that latency is some quarter of a request's time, as Castillo quotes (§6.1). The distributions that the thesis
used are not in the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lycosa.errors import ConfigError
from lycosa.graph.bv import BVGraph, Lists
from lycosa.graph.store import GraphStore
from lycosa.lab.experiments import synthetic
from lycosa.lab.experiments.result import Told
from lycosa.lab.experiments.synthetic_fit import fitted
from lycosa.url.key import Keyer, Keys, mix, mix_array

SPAN = 1_000
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Measured = Mapping[str, tuple[int, float, float, int]]
"""From a crawl's log, by URL: bytes, seconds to the first byte and in total, and when it was first fetched."""


@dataclass(frozen=True, slots=True, eq=False)
class Web:
    """A web to experiment on; all arrays are by page or by site."""

    name: str
    lists: Lists
    keys: Keys
    sites: npt.NDArray[np.int32]  # of each page
    homes: Ints  # of each site
    domains: npt.NDArray[np.int32]  # of each site
    start: Ints
    sizes: Floats  # bytes of each page
    latency: Floats  # of each site, seconds
    bandwidth: Floats  # of each site, bytes per second
    seed: int
    come_by: Mapping[str, str]
    """The origin of what the source does not tell."""
    recorded: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """For a crawl, its pages in the order in which it fetched them."""
    speeds: Floats = field(default_factory=lambda: np.empty(0))
    """For each of them the bytes per second of its transfer; 0: it came at once."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """For a crawl, its own parameters: order, r, c, w and between of `scheduling_sim.Setting`."""
    urls: Sequence[str] = ()
    """For a crawl, the URLs of its pages."""

    @property
    def pages(self) -> int:
        return self.lists.count

    def url(self, page: int) -> str:
        """The URL of a page; made up if it has none."""
        return self.urls[page] if self.urls else f"http://s{self.sites[page]}.test/{page}"

    def head(self) -> dict[str, Any]:
        """The description of the web in a result."""
        return {
            "name": self.name,
            "pages": self.pages,
            "links": len(self.lists.nodes),
            "sites": len(self.homes),
            "start pages": len(self.start),
            "seed": self.seed,
            **self.come_by,
            **synthetic.fit(self.lists, self.sites),
        }


def from_graph(graph: BVGraph, name: str, seed: int, told: Told) -> Web:
    """A BV graph whose pages are only numbers."""
    told("reading the graph")
    lists = graph.csr()
    if not lists.count:
        raise ConfigError("the graph has no nodes")
    sites = guessed_sites(lists)
    homes = _most_linked_to(lists, sites)
    known = {
        "sites from": f"numbers: a site ends where no link of at most {SPAN} passes over",
        "home pages": "the page most linked to from within its site",
        "times": "drawn",
    }
    return _finished(name, lists, number_keys(lists.count, seed), sites, homes, None, homes, seed, known)


def from_synthetic(
    pages: int, seed: int, told: Told, like: Web | None = None, shape: synthetic.Shape | None = None
) -> Web:
    """A web drawn from a seed; with the shape of another one, or of the given shape."""
    if pages < 100:
        raise ConfigError("a synthetic web has at least 100 pages")
    if like is not None:
        shape = fitted(like.lists, like.sites, seed, told)
    told(f"drawing a web of {pages:,} pages")
    drawn = synthetic.draw(pages, seed, shape)
    bounds, sites = drawn.bounds, synthetic.sites_of(drawn)
    known = {"sites from": "drawn", "home pages": "the first page of a site", "times": "drawn"}
    homes = bounds[:-1].copy()
    dice = np.random.default_rng([seed, 4])
    domains = np.cumsum(dice.random(len(homes)) < 0.1).astype(np.int32)
    keys = number_keys(pages, seed)
    name = f"synthetic-{pages}"
    if like is not None:
        name = f"{name}-like-{like.name}"
        measures = ", ".join(
            f"{what} {value}" for what, value in synthetic.fit(like.lists, like.sites).items()
        )
        known["fitted to"] = f"{like.name} ({like.pages} pages: {measures})"
    return _finished(name, drawn.lists, keys, sites, homes, domains, homes, seed, known)


def from_store(
    store: GraphStore, name: str, seed: int, told: Told, measured: Measured, own: Mapping[str, Any]
) -> Web:
    """The link graph of a crawl, with what its log has measured; `own`: see `Web`."""
    told("reading the graph")
    lists = store.graph("out").csr()
    if not lists.count:
        raise ConfigError("the crawl's link graph has no pages")
    bounds = store.urls.host_starts()
    sites = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))
    urls = store.urls.urls(np.arange(lists.count))
    lengths = np.array([len(url) for url in urls])
    homes = np.lexsort((lengths, sites))[bounds[:-1]]
    keys, _ = Keyer(seed).scan("\n".join(urls).encode("utf-8", "surrogateescape"))
    seeds = store.facts.seeds.astype(np.int64)
    known = {
        "sites from": "hosts of URLs",
        "home pages": "the shortest URL of a host",
        "times": f"measured of {len(measured):,} pages; of others drawn",
    }
    start = seeds if len(seeds) else homes
    web = _finished(name, lists, keys, sites, homes, store.facts.domains, start, seed, known)
    recorded, speeds = _note(web, urls, measured)
    return replace(web, recorded=recorded, speeds=speeds, urls=urls, own=own)


def _note(web: Web, urls: list[str], measured: Measured) -> tuple[Ints, Floats]:
    """Replace drawn values by measured ones; returns the pages in fetch order, and their speeds."""
    fetched: list[tuple[int, int, float]] = []
    waits: dict[int, list[float]] = {}
    speeds: dict[int, list[float]] = {}
    for page, url in enumerate(urls):
        found = measured.get(url)
        if found is None:
            continue
        size, first, total, at = found
        fetched.append((at, page, size / (total - first) if total > first else 0.0))
        web.sizes[page] = max(size, 1)
        site = int(web.sites[page])
        waits.setdefault(site, []).append(first)
        if total > first and size:
            speeds.setdefault(site, []).append(size / (total - first))
    for site, values in waits.items():
        web.latency[site] = float(np.median(values))
    for site, values in speeds.items():
        web.bandwidth[site] = float(np.median(values))
    fetched.sort()
    return np.array([page for _, page, _ in fetched], np.int64), np.array([speed for _, _, speed in fetched])


def number_keys(count: int, seed: int) -> Keys:
    """Keys of pages that are only numbers."""
    return mix_array(np.arange(count, dtype=np.uint64) ^ np.uint64(mix(seed + 1)))


def _finished(
    name: str,
    lists: Lists,
    keys: Keys,
    sites: npt.NDArray[np.int32],
    homes: Ints,
    domains: npt.NDArray[np.int32] | None,
    start: Ints,
    seed: int,
    known: Mapping[str, str],
) -> Web:
    dice = np.random.default_rng([seed, 2])
    count = len(homes)
    return Web(
        name=name,
        lists=lists,
        keys=keys,
        sites=sites,
        homes=homes,
        domains=np.arange(count, dtype=np.int32) if domains is None else domains,
        start=start,
        sizes=np.maximum(np.exp(np.log(11_600) + 1.2 * dice.standard_normal(lists.count)), 1.0),
        latency=np.exp(np.log(0.5) + 0.6 * dice.standard_normal(count)),
        bandwidth=np.exp(np.log(20_000) + 0.8 * dice.standard_normal(count)),
        seed=seed,
        come_by=known,
    )


def guessed_sites(lists: Lists) -> npt.NDArray[np.int32]:
    """Sites of a graph in the order of URLs; see above."""
    over = np.zeros(lists.count + 1, np.int64)
    source = np.repeat(np.arange(lists.count, dtype=np.int32), np.diff(lists.starts))
    low, high = np.minimum(source, lists.nodes), np.maximum(source, lists.nodes)
    short = high - low <= SPAN
    over[: lists.count] += np.bincount(low[short], minlength=lists.count)
    over[: lists.count] -= np.bincount(high[short], minlength=lists.count)
    passing = np.cumsum(over)[: lists.count]  # links over the gap after each page
    return np.concatenate([[0], np.cumsum(passing[:-1] == 0)]).astype(np.int32)


def _most_linked_to(lists: Lists, sites: npt.NDArray[np.int32]) -> Ints:
    source = np.repeat(sites, np.diff(lists.starts))
    inside = lists.nodes[source == sites[lists.nodes]]
    into = np.bincount(inside, minlength=lists.count)
    order = np.lexsort((np.arange(lists.count), -into, sites))
    return order[np.searchsorted(sites[order], np.arange(int(sites[-1]) + 1))].astype(np.int64)
