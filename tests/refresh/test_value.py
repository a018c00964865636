"""Due times and prices: each rule against what it is to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from lycosa.refresh import importance
from lycosa.refresh.options import Policy
from lycosa.refresh.rates import DAY, DEFAULT, RATES, Looks, posterior
from lycosa.refresh.value import LEAST, MOST, age, freshness, intervals, price, worth

ONE = np.ones(1)


def known(column: int) -> np.ndarray:
    weights = np.zeros((1, len(RATES)))
    weights[0, column] = 1.0
    return weights


@given(st.integers(5, 30), st.floats(0.01, 5))
def test_the_worth_of_a_fetch_is_the_integral(column: int, changes: float) -> None:
    per_second = RATES[column]
    since = changes / per_second
    expected = integrate.quad(lambda s: s * per_second * np.exp(-per_second * s), 0, since)[0]
    assert worth(known(column), ONE, np.array([since]))[0] == pytest.approx(expected, rel=1e-6)


@given(st.integers(3, 33), st.floats(1e-3, 0.95), st.floats(0.01, 50))
def test_a_page_is_due_when_its_worth_reaches_the_price(column: int, part: float, weight: float) -> None:
    weights, importance_ = known(column), np.array([weight])
    at_price = part * weight / RATES[column]
    found = intervals(weights, importance_, at_price)
    if LEAST < found[0] < MOST:
        assert worth(weights, importance_, found)[0] == pytest.approx(at_price, rel=0.02)


def test_a_page_that_always_changes_does_not_win() -> None:
    """Fetching it buys little: at a price it is due later than one that changes now and then."""
    always, sometimes = posterior(Looks.of(0, 30 * 600, 30)), posterior(Looks.of(20 * DAY, 10 * DAY, 10))
    at_price = DAY
    assert intervals(always, ONE, at_price)[0] > 10 * intervals(sometimes, ONE, at_price)[0]


@pytest.mark.parametrize("policy", Policy)
def test_the_price_asks_for_the_budget(policy: Policy) -> None:
    random = np.random.default_rng(3)
    looks = Looks(
        random.random(500) * 9e5, random.random(500) * 9e5, random.integers(0, 9, 500).astype(float)
    )
    weights, weight = posterior(looks), random.pareto(1.5, 500) + 0.1
    for fetches in (0.1, 1.0):
        at_price = price(weights, weight, 500 * fetches / DAY, policy)
        asked = (1 / intervals(weights, weight, at_price, policy)).sum()
        assert asked * DAY / 500 == pytest.approx(fetches, rel=0.01)


@pytest.mark.parametrize("policy", Policy)
def test_the_price_asks_for_the_budget_of_the_day_ahead(policy: Policy) -> None:
    """Also when all pages were just fetched, and what was saved up besides."""
    random = np.random.default_rng(3)
    looks = Looks(
        random.random(900) * 9e5, random.random(900) * 9e5, random.integers(0, 9, 900).astype(float)
    )
    weights, weight = posterior(looks), random.pareto(1.5, 900) + 0.1
    for since, fetches, saved in ((0.1, 270.0, 0.0), (20.0, 270.0, 0.0), (20.0, 180.0, 90.0)):
        last = random.random(900) * since * DAY
        at_price = price(weights, weight, fetches / DAY, policy, since=last, saved=saved)
        gaps = intervals(weights, weight, at_price, policy)
        dues = [np.arange(max(gap - ago, 0.0), DAY, gap) for gap, ago in zip(gaps, last, strict=True)]
        assert sum(len(due) for due in dues) == pytest.approx(270, rel=0.05)


def test_few_pages_are_looked_at_for_as_long_as_a_hundred_fetches_take() -> None:
    """In the day ahead none of them is due, and a price for that would let each wait a day and no longer."""
    weights, since = np.repeat(known(20), 20, axis=0), np.linspace(0, 10 * DAY, 20)
    at_price = price(weights, np.ones(20), 2 / DAY, since=since)
    assert intervals(weights[:1], ONE, at_price)[0] == pytest.approx(10 * DAY, rel=0.1)


def test_nothing_to_spend_is_the_longest_wait() -> None:
    assert price(DEFAULT[None, :], ONE, 0.0) == MOST
    assert price(DEFAULT[:0].reshape(0, len(RATES)), np.empty(0), 1.0) == MOST


def test_the_mean_of_freshness_is_above_that_of_the_mean_rate() -> None:
    weights = posterior(Looks.of(3 * DAY, DAY, 1))
    mean = float((weights @ RATES)[0])
    for days in (1, 10, 100):
        assert freshness(weights, np.array([days * DAY]))[0] > np.exp(-mean * days * DAY)


@given(st.integers(5, 30), st.floats(0.01, 20))
def test_age_is_the_time_since_the_first_change(column: int, changes: float) -> None:
    per_second = RATES[column]
    since = changes / per_second
    density = lambda s: per_second * np.exp(-per_second * s) * (since - s)  # noqa: E731
    expected = integrate.quad(density, 0, since)[0]
    assert age(known(column), np.array([since]))[0] == pytest.approx(expected, rel=1e-5)


def test_weights_are_importance_in_five_bits() -> None:
    for weight in range(1, 32):
        assert importance.weight_of(float(importance.importance_of([weight])[0])) == weight
    assert importance.weight_of(0.0) == 1 and importance.weight_of(1e9) == 31
    assert importance.importance_of([0, 16]).tolist() == [1.0, 1.0]
    assert importance.by_depth(0) == 16 and importance.by_depth(99) == importance.by_depth(4) == 8
