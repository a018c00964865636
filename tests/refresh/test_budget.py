"""Budgets per second, day, host and byte, and the share between what is new and what is known."""

from __future__ import annotations

from typing import Any

import pytest

from lycosa.refresh.budget import AT_LEAST, KNOWN, NEW, Budget
from lycosa.refresh.options import RefreshOptions
from lycosa.refresh.rates import DAY

PAGES = 1_000


def spend(
    budget: Budget,
    seconds: float,
    step: float = 60.0,
    start: float = 0.0,
    new: bool = True,
    known: bool = True,
    size: int = 0,
) -> tuple[int, int]:
    """Fetch as much as the budget allows of what there is any amount of; how many of new and of known pages."""
    made = [0, 0]
    now = start
    while now < start + seconds:
        now += step
        budget.fill(PAGES, now)
        while new and budget.take_new(PAGES, now):
            made[NEW] += 1
            budget.note(False, made[NEW] % 10 < 2, size)  # one in five is worth keeping
        while known and budget.known:
            budget.take_known()
            made[KNOWN] += 1
            budget.note(True, made[KNOWN] % 10 < 6, size)  # six in ten have changed
    return made[NEW], made[KNOWN]


def budget(size: int = 1, **options: Any) -> Budget:
    return Budget(RefreshOptions(continuous=True, **options), 0.0, size)


@pytest.mark.parametrize("a_day", [24.0, 5_000.0, 2 * DAY], ids=["24/d", "5000/d", "2/s"])
def test_so_many_fetches_a_day_of_both_together(a_day: float) -> None:
    made = sum(spend(budget(fetches=a_day, share=0.5), DAY / 4, 30.0))
    assert made == pytest.approx(a_day / 4, abs=3)


def test_no_second_has_more_than_a_minute_saved_up() -> None:
    whole = budget(fetches=2 * DAY, share=0.5)  # two a second
    made = spend(whole, 1.0, 1.0, start=6 * 3600)  # after hours in which there was nothing
    assert sum(made) <= 2 * 120 + 2
    small = budget(fetches=24.0, share=0.5)
    assert sum(spend(small, 1.0, 1.0, start=6 * 3600)) <= 2 * AT_LEAST


def test_what_one_kind_does_not_use_the_other_has() -> None:
    for kinds in ({"new": False}, {"known": False}):
        made = sum(spend(budget(fetches=960.0, share=0.5), DAY, **kinds))
        assert made == pytest.approx(960, rel=0.02)


def test_half_at_first_and_then_by_yield() -> None:
    shared = budget(fetches=4_000.0)
    assert shared.share == 0.5
    new, known = spend(shared, 2 * 3600)
    assert new == pytest.approx(known, abs=3) and shared.share == 0.5, "too few to tell"
    spend(shared, DAY, start=2 * 3600)
    assert shared.share == pytest.approx(0.6 / 0.8, abs=0.01)
    new, known = spend(shared, DAY, start=DAY + 2 * 3600)
    assert known / (new + known) == pytest.approx(0.75, abs=0.01)


def test_a_share_that_the_operator_gives_stays() -> None:
    new, known = spend(budget(fetches=4_000.0, share=0.2), DAY)
    assert known / (new + known) == pytest.approx(0.2, abs=0.01)


def test_neither_starves() -> None:
    shared = budget(fetches=4_000.0)
    for _ in range(300):
        shared.note(True, False, 0)
        shared.note(False, True, 0)
    assert shared.share == pytest.approx(0.1)


def test_without_a_number_new_urls_are_not_held_back_and_pages_have_some_fetches_each() -> None:
    free = budget(per_page=0.3)
    assert all(free.take_new(PAGES, 0.0) for _ in range(10_000))
    assert spend(free, DAY, new=False)[KNOWN] == pytest.approx(0.3 * PAGES, rel=0.02)


def test_what_a_lull_saves_of_them_is_there_for_a_day() -> None:
    free = budget(per_page=0.3)
    assert spend(free, 60.0, start=DAY / 2, new=False)[KNOWN] == pytest.approx(0.15 * PAGES, abs=2)
    free.fill(PAGES, 9 * DAY)
    assert free.saved == pytest.approx(0.3 * PAGES) and budget(per_page=0.3).saved <= 1


@pytest.mark.parametrize("fetches", [0.0, 40_000.0], ids=["by bytes alone", "and by number"])
def test_bytes_a_day_bound_what_is_fetched_again(fetches: float) -> None:
    """Also where the number of fetches would allow far more."""
    bounded = budget(bytes=3_000_000, fetches=fetches, per_page=40.0)
    new, known = spend(bounded, DAY, new=bool(fetches), size=10_000)
    assert known == pytest.approx(300, abs=3)
    assert not fetches or new > 10_000, "what is new is not bound by it"


def test_a_body_larger_than_expected_is_paid_back() -> None:
    bounded = budget(bytes=86_400, per_page=1_000.0)  # a byte a second
    bounded.fill(PAGES, 10.0)
    assert bounded.known == 1 + int(10.0)
    bounded.take_known()
    bounded.note(True, True, 3_600)
    bounded.fill(PAGES, 3_000.0)
    assert bounded.known == 0 and bounded.patience(KNOWN, PAGES, 3_000.0) == pytest.approx(600, abs=2)
    bounded.fill(PAGES, 3_700.0)
    assert bounded.known == 1


def test_fetches_of_a_host_are_spaced() -> None:
    spaced = budget(per_host=24.0)
    taken = {"a": 0, "b": 0}
    for minute in range(24 * 60):
        for host in taken:
            if host == "a" or minute > 12 * 60:
                taken[host] += spaced.host_waits(host, minute * 60_000) is None
    assert taken["a"] == 24 and taken["b"] == 12
    assert budget().host_waits("a", 0) is None


def test_agents_share_a_budget() -> None:
    assert sum(spend(budget(4, fetches=960.0, share=0.5), DAY)) == pytest.approx(240, abs=3)


def test_patience_is_the_time_until_there_is_a_token() -> None:
    slow = budget(fetches=24.0, share=0.5)
    assert slow.take_new(PAGES, 0.0) and not slow.take_new(PAGES, 0.0)
    wait = slow.patience(NEW, PAGES, 0.0)
    assert (
        wait == pytest.approx(7_200)
        and not slow.take_new(PAGES, wait - 60)
        and slow.take_new(PAGES, wait + 60)
    )
