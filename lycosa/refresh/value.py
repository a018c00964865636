"""What a fetch is worth, and when a page is due: each page by itself, without a central solver.

A page of importance w that changes at rate λ and was fetched τ ago is worth fetching by

    V(τ) = w ∫₀^τ s λ e^(−λs) ds = w (1 − (1 + λτ) e^(−λτ)) / λ

the freshness that fetching at τ gains over never fetching again, less the cost of having fetched so late. Fetching
every page whenever its V reaches the same number µ, the *price* of a fetch, is the periodic schedule of greatest
freshness at its number of fetches (Cho and Garcia-Molina, "Effective page refresh policies": µ is the Lagrange
multiplier; as a rule for each page alone: Azar et al., PNAS 2018, and Busa-Fekete et al., arXiv 2502.02430).
Where λ is not known, V is its mean over the posterior of λ (`lycosa.refresh.rates`); it grows with τ for every
posterior, so a page has one due time. A page that changes far more often than it can be fetched is worth little: V
never exceeds w/λ.

So a page is due when its V reaches µ, and µ is adjusted to the fetches that can be made: `price` finds the µ at
which the pages, or a sample of them, ask for so many fetches in the time ahead, a day or as long as `AHEAD` fetches
take. Counted are the times at which they are due, given when they were fetched last: after all pages were fetched
for the first time hardly any would be due at the µ of the long run, and those fetches would be lost. In the long
run both are the same.

There are two other policies, for comparison: `uniform` fetches every page after the same time, `proportional` as
often as the page changes. Their prices are that time, and the changes expected between two fetches."""

from __future__ import annotations

import numpy as np

from lycosa.refresh.options import Policy
from lycosa.refresh.rates import DAY, RATES, Column, Weights, rate

LEAST, MOST = 1.0, 730 * DAY
"""The shortest and the longest interval, in seconds."""
TIMES: Column = np.logspace(np.log10(LEAST), np.log10(MOST), 161)
_LOG_TIMES: Column = np.log(TIMES)
_STEPS = 60
AHEAD = 100.0
"""Fetches that a price looks ahead, at least: the times of a few would move it too much."""


def _gained(times: Column) -> Weights:
    """V for w = 1: a row per time, a column per rate."""
    x = times[:, None] * RATES
    # The difference below loses precision for small x, where the series x²/2 − x³/3 is used.
    exact = -np.expm1(-x) - x * np.exp(-x)
    return np.asarray(np.where(x < 1e-4, x * x * (0.5 - x / 3), exact) / RATES)


_TABLE: Weights = np.ascontiguousarray(_gained(TIMES).T)


def worth(weights: Weights, importance: Column, since: Column) -> Column:
    """V of pages fetched so many seconds ago."""
    x = np.asarray(since, np.float64)[:, None] * RATES
    exact = -np.expm1(-x) - x * np.exp(-x)
    gained = np.where(x < 1e-4, x * x * (0.5 - x / 3), exact) / RATES
    return np.asarray(importance * (weights * gained).sum(axis=1))


def intervals(weights: Weights, importance: Column, at_price: float, policy: Policy = Policy.VALUE) -> Column:
    """Seconds after which pages are due again, between `LEAST` and `MOST`."""
    weights = np.atleast_2d(weights)
    if policy is Policy.UNIFORM:
        return np.full(len(weights), min(max(at_price, LEAST), MOST))
    if policy is Policy.PROPORTIONAL:
        return np.asarray(np.clip(at_price / rate(weights), LEAST, MOST))
    return _reached(weights @ _TABLE, at_price / importance)


def _reached(values: Weights, wanted: Column) -> Column:
    """The time at which each row of values, which grow along `TIMES`, reaches the wanted value."""
    after = (values < wanted[:, None]).sum(axis=1)
    at = np.clip(after, 1, len(TIMES) - 1)
    rows = np.arange(len(values))
    low, high = np.log(values[rows, at - 1]), np.log(values[rows, at])
    part = np.clip((np.log(wanted) - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
    logs = _LOG_TIMES[at - 1] + part * (_LOG_TIMES[at] - _LOG_TIMES[at - 1])
    return np.asarray(np.where(after >= len(TIMES), MOST, np.exp(logs)))


def price(
    weights: Weights,
    importance: Column,
    fetches: float,
    policy: Policy = Policy.VALUE,
    *,
    since: Column | None = None,
    saved: float = 0.0,
) -> float:
    """The price at which these pages ask for `fetches` fetches per second, as nearly as possible.

    `since`: the seconds since each was fetched; None: only the long run counts. `saved`: fetches that were not made
    in time, and can be made besides."""
    count = len(weights)
    if not count or fetches <= 0:
        return float(MOST)
    ahead = max(DAY, AHEAD / fetches)
    wanted = fetches + saved / ahead
    values = weights @ _TABLE if policy is Policy.VALUE else weights
    rates = rate(weights)

    def asked(at: float) -> float:
        if policy is Policy.UNIFORM:
            gaps = np.full(count, min(max(at, LEAST), MOST))
        elif policy is Policy.PROPORTIONAL:
            gaps = np.clip(at / rates, LEAST, MOST)
        else:
            gaps = _reached(values, at / importance)
        if since is None:
            return float((1 / gaps).sum())
        first = np.maximum(gaps - since, 0.0)
        return float(np.where(first <= ahead, 1 + np.floor((ahead - first) / gaps), 0.0).sum() / ahead)

    low, high = 1e-6, 1e12
    for _ in range(_STEPS):
        middle = float(np.sqrt(low * high))
        if asked(middle) > wanted:
            low = middle
        else:
            high = middle
    return high


def freshness(weights: Weights, since: Column) -> Column:
    """The probability that a page is still as it was `since` seconds ago."""
    return np.asarray((weights * np.exp(-np.asarray(since, np.float64)[:, None] * RATES)).sum(axis=1))


def age(weights: Weights, since: Column) -> Column:
    """The expected age of pages fetched `since` seconds ago: seconds since the first change, 0 before it."""
    since = np.asarray(since, np.float64)
    x = since[:, None] * RATES
    fresh = np.where(x < 1e-6, 1 - x / 2, -np.expm1(-x) / np.maximum(x, 1e-300))
    return np.asarray(since * (1 - (weights * fresh).sum(axis=1)))
