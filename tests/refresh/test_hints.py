"""What hints are worth: honest ones move due times, lying ones nothing."""

from __future__ import annotations

from random import Random

import pytest

from lycosa.refresh.hints import Hints, Hubs, Kind, date_of, effective, lifetime
from lycosa.refresh.rates import DAY, Looks, posterior

SITE = 7
BELIEF = posterior(Looks.of(20 * DAY, 4 * DAY, 2))


def taught(said: float, otherwise: float, rounds: int = 200, kind: Kind = Kind.LASTMOD) -> Hints:
    """Hints of a site of which one in five pages changes between fetches; of those that did it is said with
    probability `said`, of the others with `otherwise`."""
    random, hints = Random(5), Hints()
    for page in range(rounds):
        changed = random.random() < 0.2
        if random.random() < (said if changed else otherwise):
            hints.say(SITE, page, kind)
        else:
            hints.say(SITE, -1, kind)  # of another page: the hint exists
        hints.found(SITE, page, changed, 0.2, 0.0)
    return hints


def judged(hints: Hints, spoken: bool) -> float:
    """The odds for a page of which it is said, or not."""
    if spoken:
        hints.say(SITE, 10_000, Kind.LASTMOD)
    return hints.ratio(SITE, 10_000, 0.0)[0]


def test_an_honest_sitemap_is_believed() -> None:
    hints = taught(0.95, 0.02)
    assert judged(hints, False) < 0.5
    assert judged(hints, True) > 10
    assert hints.trust(SITE, Kind.LASTMOD) > 0.8
    assert hints.ratio(SITE, 10_000, 0.0)[1] == "its sitemap says so"


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0], ids=["stale", "by chance", "all are new"])
def test_a_lying_sitemap_moves_nothing(share: float) -> None:
    hints = taught(share, share)
    assert 0.6 < judged(hints, False) < 1.6
    assert 0.6 < judged(hints, True) < 1.6 or share == 0.0
    assert hints.trust(SITE, Kind.LASTMOD) == 0


def test_a_hint_that_nobody_has_tested_is_worth_nothing() -> None:
    hints = Hints()
    assert judged(hints, True) == 1.0
    assert hints.ratio(SITE + 1, 10_000, 0.0) == (1.0, "")


def test_a_site_that_begins_to_lie_is_found_out() -> None:
    hints = taught(1.0, 0.0)
    random = Random(6)
    for page in range(500):
        hints.say(SITE, page, Kind.LASTMOD)
        hints.found(SITE, page, random.random() < 0.2, 0.2, 0.0)
    assert judged(hints, True) < 2.5


def test_sites_are_judged_apart() -> None:
    hints = taught(1.0, 0.0)
    for page in range(50):
        hints.say(SITE + 1, page, Kind.LASTMOD)
        hints.found(SITE + 1, page, page % 5 == 0, 0.2, 0.0)
    assert hints.trust(SITE, Kind.LASTMOD) > 0.8 and hints.trust(SITE + 1, Kind.LASTMOD) == 0


def test_what_was_said_is_forgotten_with_the_fetch() -> None:
    hints = taught(1.0, 0.0)
    hints.say(SITE, 3, Kind.LASTMOD)
    hints.found(SITE, 3, True, 0.2, 0.0)
    assert hints.ratio(SITE, 3, 0.0)[0] < 1


def lived(honest: bool) -> Hints:
    """Lifetimes of an hour: pages change after it, or at any time."""
    random, hints = Random(8), Hints()
    for page in range(300):
        hints.lives(SITE, page, 3600.0)
        at = random.uniform(0, 7200)
        changed = random.random() < 0.5 and (at > 3600 or not honest)
        hints.found(SITE, page, changed, 0.25 if honest else 0.5, at)
    hints.lives(SITE, 9_999, 3600.0)
    return hints


def test_a_lifetime_that_holds_keeps_a_page_from_being_fetched_before_its_end() -> None:
    hints = lived(True)
    assert hints.ratio(SITE, 9_999, 1800.0)[0] < 0.3
    assert hints.ratio(SITE, 9_999, 3601.0) == (
        pytest.approx(hints.ratio(SITE, 9_999, 5000.0)[0]),
        "its lifetime is over",
    )
    assert hints.expires(SITE, 9_999, 1800.0) == 3600.0 and hints.expires(SITE, 9_999, 3700.0) is None


def test_a_lifetime_that_means_nothing() -> None:
    hints = lived(False)
    assert 0.7 < hints.ratio(SITE, 9_999, 1800.0)[0] < 1.4
    assert hints.expires(SITE, 9_999, 1800.0) is None


def test_odds_are_time() -> None:
    since = 3 * DAY
    assert effective(BELIEF, since, 1.0) == since
    times = [effective(BELIEF, since, ratio) for ratio in (0.05, 0.5, 2.0, 20.0)]
    assert times == sorted(times) and times[0] < 0.2 * since and times[-1] > 4 * since
    assert effective(BELIEF, 0.0, 20.0) == 0.0, "just fetched: it cannot have changed"


def test_what_time_alone_explains_is_no_merit_of_a_hint() -> None:
    """Pages that were not looked at for long have changed more often, and more was said of them."""
    random, hints = Random(9), Hints()
    for page in range(400):
        old = page % 2 == 1
        if old:
            hints.say(SITE, page, Kind.LASTMOD)
        hints.found(SITE, page, random.random() < (0.6 if old else 0.1), 0.6 if old else 0.1, 0.0)
    assert 0.6 < judged(hints, False) < 1.6
    assert 0.6 < judged(hints, True) < 1.6


def test_a_hub_leads_to_good_pages_and_session_ids_make_none() -> None:
    hubs = Hubs()
    for _ in range(50):
        hubs.note_new(SITE, True)
        hubs.note_new(SITE + 1, False)
    for _ in range(10):
        hubs.brought(SITE, 1, 5)
        hubs.brought(SITE, 2, 0)
        hubs.brought(SITE + 1, 3, 5)
        hubs.brought(SITE + 1, 4, 0, 3.0)
    assert hubs.factor(1) > 4 and hubs.factor(2) == 1.0
    assert hubs.factor(3) < 1.05, "all new URLs of its site were copies of known pages"
    assert hubs.factor(4) > 3, "what it says of others is right"
    for _ in range(30):
        hubs.brought(SITE, 1, 0)
    assert hubs.factor(1) == 1.0, "it was one"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", 2 * DAY - 1),
        ("1970-01-02T00:00:00Z", DAY),
        ("1970-01-02T02:00:00+02:00", DAY),
        ("1970-01-02T00:00", DAY),
        ("yesterday", None),
        ("A title of 2020", None),
        ("2020-13-45", None),
        ("9999-12-31", 253402300799.0),
        ("\u00b2\u00b2\u00b2\u00b2-01-01", None),
        ("", None),
    ],
)
def test_dates(text: str, seconds: float | None) -> None:
    assert date_of(text) == seconds


@pytest.mark.parametrize(
    ("control", "expires", "seconds"),
    [
        ("max-age=600", "", 600.0),
        ('public, Max-Age="60"', "", 60.0),
        ("max-age=600, no-cache", "Thu, 01 Jan 1970 01:00:00 GMT", 600.0),
        ("no-store, max-age=600", "", 0.0),
        ("", "Thu, 01 Jan 1970 01:00:00 GMT", 3600.0),
        ("", "0", 0.0),
        ("max-age=soon", "", 0.0),
        ("max-age=\u00b2", "", 0.0),  # a digit to Python, and no number
        ("", "Thu, 01 Jan 1970 01:00:00 +99999999999999", 0.0),
        ("max-age=99999999999", "", 365 * DAY),
    ],
)
def test_lifetimes(control: str, expires: str, seconds: float) -> None:
    assert lifetime(control, expires, "Thu, 01 Jan 1970 00:00:00 GMT") == seconds
