"""The scheduling experiment with one of the crawler's frontiers, under a user's own order.

    policy = order_of(load_named("mine.py:Mine", "--policy"), "mine.py:Mine")
    result = run_policy(web, policy, "Mine", told)

The crawl is that of `scheduling_plain`, on a virtual clock; `lycosa.frontier.PackedFrontier` chooses, and the
policy ranks URLs and hosts: an order (`lycosa.frontier.Order`: a class, most easily derived from `DepthOrder`), or
a scorer (`score(url, depth, text, source)`, as `frontier.scorer` names one). It is compared with the orders of the
thesis. A graph has no anchor texts: `text` is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lycosa.clock import ManualClock
from lycosa.errors import ConfigError
from lycosa.frontier import DepthOrder, Frontier, Order, PackedFrontier, ScoredOrder, Sighting, scored
from lycosa.lab.experiments import scheduling_plain as plain
from lycosa.lab.experiments.result import Curve, Figure, Line, Result, Told, thinned
from lycosa.lab.experiments.scheduling import PAPER, Bench, Floats
from lycosa.lab.experiments.scheduling_sim import KINDS, Run, Setting
from lycosa.lab.experiments.web import Web
from lycosa.records import Waiting
from lycosa.url.key import Keyer
from lycosa.url.parts import host_of

CONNECTIONS = (1, 64)
_PART = 70
_KEYER = Keyer(0)


class FrontierScheduler:
    """A frontier as a `scheduling_plain.Scheduler`: pages and sites are numbers outside, URLs and hosts inside."""

    def __init__(self, frontier: Frontier, order: Order, web: Web) -> None:
        self._frontier, self._order, self._web = frontier, order, web
        self._depth: dict[int, int] = {}
        self._page: dict[int, int] = {}  # by key
        self._site: dict[str, int] = {}
        self._host: dict[int, str] = {}

    def put(self, pages: Sequence[int], source: int | None, now: float) -> None:
        new = list(dict.fromkeys(page for page in pages if page not in self._depth))
        if not new:
            return
        self._depth |= dict.fromkeys(new, 0 if source is None else self._depth[source] + 1)
        items = []
        for page in new:
            url, site = self._web.url(page), int(self._web.sites[page])
            key = _KEYER.key(url)
            self._page[key] = page
            if site not in self._host:
                self._host[site] = host_of(url)
                self._site[self._host[site]] = site
            items.append(Waiting(url, key, self._depth[page]))
        sighting = None
        if self._order.sighted and source is not None:
            url = self._web.url(source)
            sighting = Sighting(url, _KEYER.key(url), len(pages), [""] * len(items))
        self._frontier.put(items, self._order.levels(items, sighting))

    def begin(self, now: float) -> int | None:
        host = self._frontier.begin(now)
        return None if host is None else self._site[host]

    def take(self, site: int) -> int | None:
        waiting = self._frontier.take(self._host[site])
        if waiting is None:
            return None
        self._frontier.done(waiting.key)
        return self._page.pop(waiting.key)

    def end(self, site: int, now: float, ready: float) -> None:
        self._frontier.end(self._host[site], ready)

    def next_ready(self) -> float | None:
        return self._frontier.next_ready()

    def fetched(self, page: int, visits: int, now: float) -> None:
        """Does nothing: a frontier need not be told."""


def order_of(policy: Any, name: str) -> Callable[[], Order]:
    """A factory for the policy's order: the order's class itself, or a scorer over breadth-first."""
    if not isinstance(policy, type):
        return lambda: scored(DepthOrder(), policy, ())
    try:
        made = policy()
    except Exception as error:
        raise ConfigError(f"--policy: {name}() cannot be made: {type(error).__name__}: {error}") from None
    missing = [part for part in ("ranking", "bias", "sighted", "levels", "rank") if not hasattr(made, part)]
    if missing:
        raise ConfigError(
            f"--policy: {name} is not an order: it lacks {missing[0]!r}; derive it from lycosa.frontier.DepthOrder"
        )
    return policy


def crawl(web: Web, order: Order, setting: Setting) -> Run:
    """One crawl of the web: a frontier under this order chooses the site to visit and the page to take."""
    frontier = PackedFrontier(ManualClock(), order)
    said: list[str] = []
    if isinstance(order, ScoredOrder):
        order.told = said.append
    rows = plain.crawl(
        [web.lists[page].tolist() for page in range(web.pages)],
        np.unique(web.start).tolist(),
        web.sizes.tolist(),
        web.latency.tolist(),
        web.bandwidth.tolist(),
        setting,
        FrontierScheduler(frontier, order, web),
    )
    if isinstance(order, ScoredOrder) and order.failed:
        raise ConfigError(f"--policy: {said[0]}; {order.failed:,} times in all")
    return Run(
        np.array([page for page, _, _ in rows], np.int32),
        np.array([when for _, when, _ in rows]),
        np.array([open_ for _, _, open_ in rows], np.int32),
        0,
    )


def run_policy(web: Web, policy: Any, name: str, told: Told) -> Result:
    """Compares a user's own order with those of the thesis: when does it find what?"""
    make = order_of(policy, name)
    name = f"{name} (yours)" if name.lower() in KINDS else name
    bench = Bench(web, told)
    between = max(bench.reached // _PART, 1)
    lines: list[Line] = []
    figures: list[Figure] = []
    for r in CONNECTIONS:
        runs = {
            f"{kind.capitalize()}": bench.run(Setting(kind, r=r, between=between))
            for kind in ("optimal", "depth", "length", "batch", "partial")
        }
        told(f"crawling: {name}, r={r}")
        runs = {name: crawl(web, make(), Setting("depth", r=r)), **runs}
        found: dict[str, Floats] = {who: np.cumsum(bench.ranks[run.pages]) for who, run in runs.items()}
        for who, run in runs.items():
            half = max(len(run.pages) // 2 - 1, 0)
            lines += [
                Line(
                    f"r={r}",
                    f"{who}: mean PageRank fetched over the crawl",
                    float(found[who].mean()),
                    None,
                    "share",
                ),
                Line(
                    f"r={r}",
                    f"{who}: PageRank of the first half of the pages",
                    float(found[who][half]),
                    None,
                    "share",
                ),
                Line(f"r={r}", f"{who}: days", float(run.times[-1]) / 86_400),
            ]
        curves = [Curve(who, *thinned(ys)) for who, ys in found.items()]
        title = "PageRank fetched, " + ("one connection" if r == 1 else f"{r} connections")
        figures.append(Figure(f"r={r}", title, "share of the pages fetched", "PageRank fetched", curves))
    definitions = {
        "policy": f"{name}, asked by the crawler's frontier; the others by their twins, as in the experiment",
        "start set": f"{len(np.unique(web.start)):,} start pages, known from the beginning",
        "parameters": f"w = 15 s, c = 1, a link without limit; Batch and Partial with K = N/{_PART}",
        "ranks": "PageRank, damping 0.85, of the whole web",
        "times": web.come_by["times"],
        "seed": str(web.seed),
    }
    claim = f"{name}, beside the orders of the thesis."
    return Result(f"scheduling-{name}", PAPER, claim, web.head(), definitions, lines, figures)
