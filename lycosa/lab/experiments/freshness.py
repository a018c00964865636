"""How fresh is a refetched collection, under which policy? A web with known rates of change, a virtual month.

**The web.** Pages lie on sites. Rates of change are log-normal, part of the spread between sites and part within
them; importance is Pareto distributed. Every look at a page finds different bytes (a nonce, a counter, a date): of
the byte changes that looks every twelve hours would see, only some 1.3% are changes of content, as in 277,836
changes of real pages. A look generates the HTML of the page as it is at that time (`freshness_pages`), and whether
it has changed is judged by the crawl's own code (`lycosa.content.change`), which has to ignore the churn. A policy
that took bytes for content would see every page change at every look.

**The crawl.** All pages are fetched once, at a random time of the first day, which takes that day's budget. From
then on the production code decides (`lycosa.refresh`): a belief about each page, from the looks at it and from its
site; its due time at the price of a fetch; a periodic survey that learns the priors and sets the price by the
budget. Fetches wait in the order of their due times when more are due than the budget allows. This module itself
decides nothing.

**The truth.** Freshness is the share of time, weighted by importance, during which the copy is expected to be
current. When a page is fetched next does not depend on changes since its last fetch, which nobody has seen; so the
time for which a copy is current before it is replaced has the mean (1 − e^(−λτ)) / λ, and this mean is added up,
not the time that was drawn. (A few pages have much of the importance: with drawn times their luck moves a result by
half a point. `drawn` has it.)

**For comparison** there is the periodic optimum with known rates, as a formula (`optimum`), and the same rule for
each page with known rates, run like the others (`known`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lycosa.content.change import content_digest
from lycosa.lab.experiments.freshness_pages import page
from lycosa.page.fingerprint import digest
from lycosa.refresh.options import Policy
from lycosa.refresh.priors import Priors, survey
from lycosa.refresh.rates import DAY, RATES, Column, Looks, Weights, believed, likelihood
from lycosa.refresh.value import freshness, intervals, price

POLL = DAY / 2
CONTENT_SHARE = 0.013
"""The share of content changes in the byte changes between two looks twelve hours apart."""


class Web(NamedTuple):
    """Pages as columns."""

    rates: Column  # changes per second
    importance: Column
    sites: np.ndarray  # the number of each page's site

    @property
    def pages(self) -> int:
        return len(self.rates)


def make_web(pages: int, sites: int, seed: int) -> Web:
    """A web of which one fetch per page and day keeps some 83% fresh."""
    random = np.random.default_rng(seed)
    of = random.integers(0, sites, pages)
    between, within = 1.4, 1.05  # 1.75 in total
    logs = -1.8 + between * random.standard_normal(sites)[of] + within * random.standard_normal(pages)
    return Web(np.exp(logs) / DAY, random.pareto(1.3, pages) + 1.0, of)


class Row(NamedTuple):
    """One policy at one budget."""

    policy: str
    budget: float  # fetches per page and day
    fresh: float  # weighted by importance, over the measured time, as expected
    fetches: float  # made, per page and day
    error: float  # the live estimate less the truth, averaged over the days
    curve: tuple[float, ...]  # freshness at the end of each day
    misjudged: float = 0.0  # share of the looks: changes missed, and changes reported that were none
    drawn: float = 0.0  # freshness with the changes that happened to be drawn


def periodic_optimum(web: Web, budget: float) -> float:
    """Freshness of the best periodic schedule for known rates, at `budget` fetches per page and day."""
    x = np.logspace(-6, 3, 6000)
    gained = 1 - (1 + x) * np.exp(-x)

    def plan(at: float) -> tuple[Column, Column]:
        wanted = at * web.rates / web.importance
        found = np.interp(wanted, gained, x)
        return np.where(wanted < gained[-1], web.rates / found, 0.0), found

    low, high = 1e-9, 1e15
    for _ in range(200):
        middle = float(np.sqrt(low * high))
        asked = plan(middle)[0].sum()
        low, high = (middle, high) if asked > budget * web.pages / DAY else (low, middle)
    rates, found = plan(high)
    fresh = np.where(rates > 0, -np.expm1(-found) / found, 0.0)
    return float((web.importance * fresh).sum() / web.importance.sum())


class Known:
    """Beliefs for known rates: all mass on the two nearest points of the grid, with the right mean."""

    def __init__(self, web: Web) -> None:
        logs = np.log(np.clip(web.rates, RATES[0], RATES[-1]))
        place = np.interp(logs, np.log(RATES), np.arange(len(RATES)))
        low = np.minimum(place.astype(int), len(RATES) - 2)
        part = (np.clip(web.rates, RATES[0], RATES[-1]) - RATES[low]) / (RATES[low + 1] - RATES[low])
        self.weights: Weights = np.zeros((web.pages, len(RATES)))
        rows = np.arange(web.pages)
        self.weights[rows, low] = 1 - part
        self.weights[rows, low + 1] = part


def run(
    web: Web,
    budget: float,
    policy: Policy,
    *,
    seed: int,
    days: float = 30.0,
    warm: float = 0.0,
    known: bool = False,
    by_bytes: bool = False,
    slice_seconds: float = DAY / 48,
    tell: Callable[[str], None] = lambda _: None,
) -> Row:
    """Crawl a web for `warm` and then `days` days, and measure during the latter.

    `known`: rates need not be learned. `by_bytes`: any change of bytes is taken for a change.
    """
    random = np.random.default_rng(seed)
    count, per_second = web.pages, budget * web.pages / DAY
    start = DAY * (1 + warm)
    end = start + DAY * days
    last = random.random(count) * DAY  # of each page: when it was fetched,
    changes_at = last + random.exponential(1 / web.rates)  # when it changes next,
    still, moved, changes = np.zeros(count), np.zeros(count), np.zeros(count)
    looks_at = _Looking(count, by_bytes)
    churn = np.random.default_rng(seed + 1)
    looked = wrong = 0
    # Bytes change at a rate such that, between two looks, the wanted share of changes is of content.
    content = float(np.mean(-np.expm1(-web.rates * POLL)))
    noise = -np.log1p(-min(content / CONTENT_SHARE, 0.999)) / POLL
    fixed = Known(web).weights if known else None
    priors = Priors()
    at_price = 0.0
    due = np.full(count, np.inf)
    fresh = np.zeros(2)
    weight = web.importance / web.importance.sum()
    truths: list[float] = []
    estimates: list[float] = []
    tokens, made = 0.0, 0
    now, next_survey, next_day = 0.0, 0.0, start + DAY
    sites = web.sites.astype(np.int64)

    def beliefs(of: np.ndarray) -> Weights:
        if fixed is not None:
            return np.asarray(fixed[of])
        likely = likelihood(Looks(still[of], moved[of], changes[of]))
        return believed(likely, priors.of(sites[of]))

    def decide(of: np.ndarray) -> None:
        due[of] = last[of] + intervals(beliefs(of), web.importance[of], at_price, policy)

    def current(of: np.ndarray, until: Column | float) -> tuple[float, float]:
        """How long, within the measured time, copies are current until `until`: as expected, and as drawn."""
        begin = np.maximum(last[of], start)
        stop = np.maximum(np.minimum(until, end), begin)
        before, after = (np.exp(-web.rates[of] * (at - last[of])) for at in (begin, stop))
        mean = (before - after) / web.rates[of]
        lasted = np.maximum(np.minimum(changes_at[of], stop) - begin, 0.0)
        return float((weight[of] * mean).sum()), float((weight[of] * lasted).sum())

    every = np.arange(count)
    while now < end:
        now += slice_seconds
        if now >= DAY:
            tokens = min(tokens + per_second * slice_seconds, max(per_second * DAY, 1.0))
        if now >= next_survey:
            if fixed is None:
                looks = Looks(still, moved, changes)
                priors = survey(sites, looks)
            at_price = price(
                *(beliefs(every), web.importance, per_second, policy), since=now - last, saved=tokens
            )
            decide(every)
            next_survey = now + (DAY / 4 if now < 10 * DAY else DAY)
        ready = np.flatnonzero(due <= now)
        most = int(tokens)
        if len(ready) > most:
            ready = ready[np.argsort(due[ready], kind="stable")[:most]]
        if len(ready):
            at = np.clip(due[ready], np.maximum(last[ready] + 1.0, now - slice_seconds), now)
            fresh += current(ready, at)
            gap = at - last[ready]
            changed = changes_at[ready] <= at
            if known:
                seen = changed
            else:
                churned = churn.random(len(ready)) < -np.expm1(-noise * gap)
                seen = looks_at.again(ready, changed, churned)
                looked += len(ready)
                wrong += int((seen != changed).sum())
            still[ready] += np.where(seen, 0.0, gap)
            moved[ready] += np.where(seen, gap, 0.0)
            changes[ready] += seen
            last[ready] = at
            renewed = at + random.exponential(1 / web.rates[ready])
            changes_at[ready] = np.where(changed, renewed, changes_at[ready])
            decide(ready)
            tokens -= len(ready)
            made += int(((at >= start) & (at < end)).sum())
        if now >= next_day:
            next_day += DAY
            truths.append(float((weight * (changes_at > now)).sum()))
            estimates.append(float((weight * freshness(beliefs(every), now - last)).sum()))
            tell(f"{policy} at {budget}: day {int(now // DAY)}")
    fresh += current(every, end)
    return Row(
        policy="known rates" if known else f"{policy}, by bytes" if by_bytes else str(policy),
        budget=budget,
        fresh=float(fresh[0]) / (end - start),
        fetches=made / count / days,
        error=float(np.mean(estimates) - np.mean(truths)),
        curve=tuple(truths),
        misjudged=wrong / max(looked, 1),
        drawn=float(fresh[1]) / (end - start),
    )


class _Looking:
    """The findings of looks at pages: the digest of each page as of the last look."""

    def __init__(self, pages: int, by_bytes: bool) -> None:
        self._judge = digest if by_bytes else content_digest
        self._versions = [0] * pages
        self._churn = [0] * pages
        self._known = [0] * pages
        for page_ in range(pages):
            self._known[page_] = self._judge(page(page_, 0, 0))

    def again(self, pages: np.ndarray, changed: np.ndarray, churned: np.ndarray) -> np.ndarray:
        """Look at some pages, some with new content and some with other bytes: which seem to have changed."""
        seen = np.zeros(len(pages), np.bool_)
        for row, (at, new, other) in enumerate(
            zip(pages.tolist(), changed.tolist(), churned.tolist(), strict=True)
        ):
            self._versions[at] += new
            self._churn[at] += other
            found = self._judge(page(at, self._versions[at], self._churn[at]))
            seen[row], self._known[at] = found != self._known[at], found
        return seen


class Table(NamedTuple):
    """The results for one budget."""

    budget: float
    optimum: float
    rows: list[Row]


def experiment(
    web: Web,
    budgets: Sequence[float],
    *,
    seed: int,
    days: float = 30.0,
    warm: float = 0.0,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Table]:
    """Every policy at every budget."""
    tables = []
    for budget in budgets:
        rows = [
            run(web, budget, Policy.UNIFORM, seed=seed, days=days, warm=warm, tell=tell),
            run(web, budget, Policy.PROPORTIONAL, seed=seed, days=days, warm=warm, tell=tell),
            run(web, budget, Policy.VALUE, seed=seed, days=days, warm=warm, by_bytes=True, tell=tell),
            run(web, budget, Policy.VALUE, seed=seed, days=days, warm=warm, tell=tell),
            run(web, budget, Policy.VALUE, seed=seed, days=days, warm=warm, known=True, tell=tell),
        ]
        tables.append(Table(budget, periodic_optimum(web, budget), rows))
    return tables
