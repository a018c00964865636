"""What other options would have achieved in a recorded crawl: each tried alone by `predict`, then the best
combined.

    tuned = tune(web, wanted, told)

The web is what the crawl has fetched (`predict_web.from_records`). The *baseline* is the crawl's own options,
predicted; every trial changes one of them: the order, the number of visits, pages per visit, the frontier's
memory. *Rank* is the share of PageRank fetched, averaged over the time of the crawl: 1 if all came at once, 0 if
it came with the last page. The cache is tried on the links of the log, in the order in which the crawl met them.

What is proposed:

    visits             the fewest within 2% of the shortest time
    pages per visit    the same, at most four times the crawl's: more is less polite
    order              the one that finds rank earliest, if it takes at most 2% longer
    cache              the fewest entries within one point of the best hit rate

and these are predicted together. The wait of a host is never shortened: that is not for us to propose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lycosa.frontier.options import FrontierOptions
from lycosa.frontier.waits.politeness import PolitenessOptions
from lycosa.graph.bv import Lists
from lycosa.graph.pagerank import pagerank
from lycosa.lab.costs import Costs
from lycosa.lab.experiments.result import Told
from lycosa.lab.predict import Predicted, Wanted, predict
from lycosa.lab.predict_web import PredictedWeb
from lycosa.seen.cache import ScatterCache
from lycosa.seen.stores import SeenOptions

SPARE = 0.02
_VISITS = 256
_LEAST_MEMORY = 1 << 16
ORDERS = ("depth", "length", "partial")
CACHES = tuple(range(6, 19, 2))


@dataclass(frozen=True, slots=True)
class Trial:
    """One set of options, with its prediction."""

    what: str
    value: Any
    wanted: Wanted
    predicted: Predicted
    rank: float
    """See the module's text."""

    @property
    def seconds(self) -> float:
        return self.predicted.seconds


@dataclass(frozen=True, slots=True)
class Tuned:
    """The baseline, all trials, hit rates by entries of the cache, and the proposal."""

    baseline: Trial
    trials: list[Trial]
    hits: dict[int, float]
    proposed: Trial
    cache: int
    """The proposed number of entries; 0: nothing is known."""

    @property
    def options(self) -> dict[str, Any]:
        """The proposal as options of a crawl; only those that differ from the crawl's."""
        made: dict[str, Any] = {}
        before, after = settings_of(self.baseline.wanted), settings_of(self.proposed.wanted)
        for name, value in after.items():
            if value != before[name]:
                _put(made, name, value)
        if self.cache and self.cache != before["seen.cache"]:
            _put(made, "seen.cache", self.cache)
        return made


def _put(table: dict[str, Any], name: str, value: Any) -> None:
    room, dot, last = name.rpartition(".")
    (table.setdefault(room, {}) if dot else table)[last] = value


def settings_of(wanted: Wanted) -> dict[str, Any]:
    """The current values of the options that are tried."""
    table = wanted.table()
    frontier, politeness = table.get("frontier", {}), table.get("politeness", {})
    return {
        "visits": table.get("visits", _VISITS),
        "politeness.pages_per_visit": politeness.get("pages_per_visit", PolitenessOptions().pages_per_visit),
        "frontier.order": frontier.get("order", FrontierOptions().order),
        "frontier.batch": frontier.get("batch", FrontierOptions().batch),
        "frontier.memory": frontier.get("memory", FrontierOptions().memory),
        "seen.cache": table.get("seen", {}).get("cache", SeenOptions().cache),
    }


class _Trials:
    def __init__(self, web: PredictedWeb, costs: Costs, told: Told) -> None:
        self._web, self._costs, self._told = web, costs, told
        urls = {url: number for number, url in enumerate(web.pages)}
        rows = [[urls[to] for to in page.links if to in urls] for page in web.pages.values()]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        nodes = np.array([to for row in rows for to in row], np.int32)
        self._rank = dict(zip(web.pages, pagerank(Lists(starts, nodes)).values.tolist(), strict=True))

    def run(self, what: str, value: Any, wanted: Wanted) -> Trial:
        self._told(f"crawling: {what} {value}".rstrip())
        made = predict(self._web, wanted, self._costs)
        return Trial(what, value, wanted, made, self._early(made))

    def _early(self, made: Predicted) -> float:
        """Mean, over the time of the crawl, of the share of PageRank that has been fetched."""
        ranks = np.array([self._rank[url] for url in made.order])
        left = 1 - np.array(made.times) / max(made.seconds, 1e-9)
        return float((ranks * left).sum() / max(ranks.sum(), 1e-12))


def tune(web: PredictedWeb, wanted: Wanted, told: Told, costs: Costs | None = None) -> Tuned:
    """Try the options, and propose the best."""
    trials = _Trials(web, costs or Costs(), told)
    base = trials.run("as it was", "", wanted)
    held = settings_of(wanted)
    visits, pages = held["visits"], held["politeness.pages_per_visit"]
    plans: list[tuple[str, Any, Wanted]] = [
        ("visits", count, replace(wanted, visits=count))
        for count in sorted({max(visits // 4, 1), visits * 4} - {visits})
    ]
    plans += [
        ("pages_per_visit", count, replace(wanted, pages_per_visit=count))
        for count in sorted({1, max(pages // 2, 1), pages * 2, pages * 4} - {pages})
    ]
    plans += [
        ("order", order, _ordered(wanted, order, len(web.pages)))
        for order in ORDERS
        if order != held["frontier.order"]
    ]
    peak = int(base.predicted.most_waiting * (costs or Costs()).pending_memory)
    room = max(peak // 4, _LEAST_MEMORY)
    if room < min(peak, held["frontier.memory"]):
        plans.append(("memory", room, _roomed(wanted, room)))
    made = [trials.run(*plan) for plan in plans]
    proposed = wanted
    for what in ("visits", "pages_per_visit"):
        rows = [base, *(trial for trial in made if trial.what == what)]
        now = visits if what == "visits" else pages
        best = min(trial.seconds for trial in rows)
        enough = [trial for trial in rows if trial.seconds <= best * (1 + SPARE)]
        fewest = min(int(trial.value or now) for trial in enough)
        changed: dict[str, Any] = {what: fewest}
        proposed = replace(proposed, **changed) if fewest != now else proposed
    quick = [base, *(t for t in made if t.what == "order" and t.seconds <= base.seconds * (1 + SPARE))]
    first = max(quick, key=lambda trial: trial.rank)
    if first is not base:
        proposed = _ordered(proposed, first.value, len(web.pages))
    last = base if proposed == wanted else trials.run("proposed", "", proposed)
    hits = hit_rates(web)
    return Tuned(base, made, hits, last, _enough(hits))


def _ordered(wanted: Wanted, order: str, pages: int) -> Wanted:
    options = {**(wanted.options or {})}
    frontier = {**options.get("frontier", {}), "order": order}
    if order == "partial":
        frontier["batch"] = max(pages // 70, 10)
    return replace(wanted, order=order, options={**options, "frontier": frontier})


def _roomed(wanted: Wanted, memory: int) -> Wanted:
    options = {**(wanted.options or {})}
    return replace(wanted, options={**options, "frontier": {**options.get("frontier", {}), "memory": memory}})


def hit_rates(web: PredictedWeb, orders: Sequence[int] = CACHES) -> dict[int, float]:
    """Hits of CLOCK by entries, over the links that the crawl met."""
    if not len(web.met):
        return {}
    flags = np.empty(len(web.met), np.bool_)
    return {1 << order: ScatterCache(1 << order).probe(web.met, flags) / len(web.met) for order in orders}


def _enough(hits: dict[int, float]) -> int:
    best = max(hits.values(), default=0.0)
    return min((entries for entries, share in hits.items() if share >= best - 0.01), default=0)
