"""What looks at pages tell of their rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.refresh.priors import Priors, survey
from lycosa.refresh.rates import DAY, DEFAULT, RATES, Looks, likelihood, posterior, rate, spread


def test_without_looks_the_prior_is_all_there_is() -> None:
    assert posterior(Looks.of(0, 0, 0)) == pytest.approx(DEFAULT[None, :])


@given(st.floats(0, 1e7), st.floats(1, 1e7), st.integers(0, 200))
def test_the_likelihood_is_that_of_the_formula(still: float, moved: float, changes: int) -> None:
    logs = np.array(
        [
            -r * still + (changes * np.log(-np.expm1(-r * max(moved, 1.0) / changes)) if changes else 0.0)
            for r in RATES
        ]
    )
    found = likelihood(Looks.of(still, moved, changes))[0]
    assert found.max() == 1.0
    assert found == pytest.approx(np.exp(logs - logs.max()), abs=1e-12)


@pytest.mark.parametrize("per_day", [0.02, 0.3, 5.0, 1000.0])
def test_rates_are_found_from_irregular_looks(per_day: float) -> None:
    random = np.random.default_rng(5)
    gaps = random.exponential(1 / per_day, 300) * DAY + 60
    changed = random.random(300) < -np.expm1(-per_day / DAY * gaps)
    looks = Looks.of(gaps[~changed].sum(), gaps[changed].sum(), changed.sum())
    found = posterior(looks)
    assert float(rate(found)[0]) * DAY == pytest.approx(per_day, rel=0.35)
    low, high = spread(found)
    assert low[0] <= per_day / DAY * 1.3 and high[0] >= per_day / DAY / 1.3


def test_looks_that_always_saw_a_change_leave_room_above() -> None:
    """Censored: a page that changed at each of five daily looks may change hourly."""
    found = posterior(Looks.of(0, 5 * DAY, 5))
    naive = 1.0  # changes a day that were seen
    assert float(rate(found)[0]) * DAY > 2 * naive


def test_a_site_teaches_what_its_pages_are_like() -> None:
    random = np.random.default_rng(1)
    sites = np.repeat(np.arange(2, dtype=np.int64), 200)
    rates = np.where(sites == 0, 3.0, 0.01) / DAY
    gaps = np.full(400, 0.5 * DAY)
    changed = random.random(400) < -np.expm1(-rates * gaps)
    looks = Looks(np.where(changed, 0, gaps), np.where(changed, gaps, 0), changed.astype(float))
    priors = survey(sites, looks)
    busy, quiet, other = (float((priors.of(np.array([n])) @ RATES)[0]) * DAY for n in (0, 1, 7))
    assert busy > 1.0 > 0.2 > quiet
    assert quiet < other < busy, "a site that is not known is like all of them"


def test_pages_that_were_looked_at_once_teach_nothing() -> None:
    nothing = np.zeros(9)
    assert np.array_equal(survey(np.arange(9), Looks(nothing, nothing, nothing)).whole, Priors().whole)
