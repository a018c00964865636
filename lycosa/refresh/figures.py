"""Estimates of how fresh a collection is, and how many fetches its pages ask for.

The share of pages that are still as they were fetched is the mean of their posterior e^(−λτ), weighted by
importance. A page is either fresh or not, independently of others given its rate, so the variance of the sum is
that of independent coin tosses: the error is two of its standard deviations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lycosa.refresh.importance import importance_of
from lycosa.refresh.options import Policy, RefreshOptions
from lycosa.refresh.priors import Priors, survey
from lycosa.refresh.rates import Column, Looks, Weights, believed, likelihood
from lycosa.refresh.value import age, freshness, intervals, price

GONE = 4
"""The status, in hundreds, of pages that do not exist."""


class Figures(NamedTuple):
    """The figures of a collection, or of a site."""

    at: int  # milliseconds since the epoch
    pages: int
    fresh: float  # the share of pages that are as they were fetched, weighted by importance
    error: float  # of `fresh`, plus or minus
    plain: float  # the share, not weighted
    age: float  # seconds for which pages have been out of date, averaged over all pages
    price: float = 0.0
    asked: float = 0.0  # fetches per second that this price asks for in the long run


class Pages(NamedTuple):
    """Pages that were fetched, as columns of a page table."""

    sites: NDArray[np.int64]
    looks: Looks
    weights: Column
    statuses: NDArray[np.int64]  # in hundreds
    last: Column  # seconds since the epoch


def columns(rows: NDArray[np.void]) -> Pages:
    """The columns of packed rows, whose keys begin with 16 bits of the host."""
    still = rows["still"].astype(np.float64)
    moved = np.maximum(rows["last"].astype(np.float64) - rows["first"] - still, 0.0)
    return Pages(
        (rows["key"] >> np.uint64(48)).astype(np.int64),
        Looks(still, moved, rows["changes"].astype(np.float64)),
        importance_of(rows["status"] >> 3),
        (rows["status"] & 7).astype(np.int64),
        rows["last"].astype(np.float64),
    )


def figures(belief: Weights, weights: Column, last: Column, now: int, pages: int = 0) -> Figures:
    """The figures of pages with these beliefs, or of `pages` pages of which these are a sample."""
    since = np.maximum(now / 1000 - last, 0.0)
    fresh, whole = freshness(belief, since), weights.sum()
    return Figures(
        at=now,
        pages=pages or len(last),
        fresh=float((weights * fresh).sum() / whole),
        error=float(2 * np.sqrt((weights**2 * fresh * (1 - fresh)).sum()) / whole),
        plain=float(fresh.mean()),
        age=float((weights * age(belief, since)).sum() / whole),
    )


def judged(
    given: Pages, pages: int, fetches: float, now: int, options: RefreshOptions, saved: float = 0.0
) -> tuple[Priors, Weights, Figures]:
    """Priors, beliefs, figures and price of a collection of so many pages; the given pages are all, or a sample.

    `fetches` can be made per second, and `saved` ones besides."""
    priors = survey(given.sites, given.looks)
    belief = believed(likelihood(given.looks), priors.of(given.sites))
    there = given.statuses != GONE
    share = len(given.last) / max(pages, 1)
    policy = Policy(options.policy)
    since = np.maximum(now / 1000 - given.last[there], 0.0)
    at = price(
        *(belief[there], given.weights[there], fetches * share, policy), since=since, saved=saved * share
    )
    wait = intervals(belief[there], given.weights[there], at, policy)
    wait = np.clip(wait, options.shortest, options.longest)
    found = figures(belief, given.weights, given.last, now, pages)
    asked = float((1 / wait).sum() / share) if len(wait) else 0.0
    return priors, belief, found._replace(price=at, asked=asked)
