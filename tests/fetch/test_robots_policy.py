"""What follows from each way in which a request for robots.txt can end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.fetch.protocol import Response
from lycosa.fetch.robots_policy import Act, Decision, Outcome, RobotsOptions, decide, expiry, outcome_of
from lycosa.records import Timing

NOW = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.mark.parametrize("status", [200, 203, 204, 206, 299])
def test_success_is_parsed_for_a_day(status: int) -> None:
    assert decide(Outcome(status), NOW) == Decision(Act.PARSE, NOW + DAY)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 499])
def test_unavailable_allows(status: int) -> None:
    assert decide(Outcome(status), NOW) == Decision(Act.ALLOW, NOW + DAY, detail=f"status {status}")


@pytest.mark.parametrize("status", [429, 500, 502, 503, 599, 100, 600, 999])
def test_unreachable_denies(status: int) -> None:
    assert decide(Outcome(status), NOW) == Decision(Act.DENY, NOW + 60_000, detail=f"status {status}")


@pytest.mark.parametrize("failure", ["timeout", "dns", "connect", "tls"])
def test_no_answer_denies(failure: str) -> None:
    assert decide(Outcome(failure=failure), NOW) == Decision(Act.DENY, NOW + 60_000, detail=failure)
    assert decide(Outcome(), NOW).act is Act.DENY


def test_a_body_that_broke_off_is_no_answer() -> None:
    assert decide(Outcome(200, failure="disconnect"), NOW).act is Act.DENY


def test_five_redirects_are_followed_and_no_sixth() -> None:
    for hops in range(5):
        there = Outcome(301, "https://other.example/robots.txt", hops)
        assert decide(there, NOW) == Decision(Act.FOLLOW, NOW, "https://other.example/robots.txt")
    assert decide(Outcome(301, "https://other.example/robots.txt", 5), NOW).act is Act.ALLOW
    assert decide(Outcome(302), NOW).act is Act.ALLOW
    assert decide(Outcome(302, "http://a/", 1), NOW, options=RobotsOptions(redirects=1)).act is Act.ALLOW


def test_retries_grow_to_six_hours() -> None:
    waits = [(decide(Outcome(503), NOW, attempt=n, since=NOW).until - NOW) // 1000 for n in range(12)]
    assert waits == [60, 120, 240, 480, 960, 1920, 3840, 7680, 15360, 21600, 21600, 21600]
    assert decide(Outcome(503), NOW, attempt=10**9).until == NOW + 6 * HOUR


def test_retry_after_is_kept_and_bounded() -> None:
    assert decide(Outcome(503, retry_after=5), NOW).until == NOW + 60_000
    assert decide(Outcome(429, retry_after=7200), NOW).until == NOW + 2 * HOUR
    assert decide(Outcome(503, retry_after=1e12), NOW).until == NOW + DAY


def test_thirty_days_unreachable_allow() -> None:
    assert decide(Outcome(503), NOW, attempt=50, since=NOW - 30 * DAY + 1).act is Act.DENY
    at_last = decide(Outcome(503), NOW, attempt=50, since=NOW - 30 * DAY)
    assert at_last == Decision(Act.ALLOW, NOW + DAY, detail="status 503, for 30 days")


@pytest.mark.parametrize(
    ("header", "hours"),
    [
        ("", 24),
        ("max-age=7200", 2),
        ("public, max-age=7200", 2),
        ('max-age="7200"', 2),
        ("MAX-AGE = 7200", 2),
        ("max-age=0", 1),
        ("no-store", 1),
        ("private, no-cache", 1),
        ("max-age=999999999999", 24),
        ("s-maxage=7200", 24),
        ("max-age=soon", 24),
    ],
)
def test_expiry(header: str, hours: int) -> None:
    assert expiry(header) == hours * HOUR
    assert decide(Outcome(200, cache_control=header), NOW).until == NOW + hours * HOUR


@given(
    st.integers(-5, 1000), st.text(max_size=10), st.integers(0, 20), st.text(max_size=5), st.text(max_size=40)
)
def test_any_outcome_has_a_bounded_answer(
    status: int, location: str, hops: int, failure: str, cache_control: str
) -> None:
    decision = decide(Outcome(status, location, hops, failure, cache_control), NOW)
    assert NOW <= decision.until <= NOW + DAY
    assert (decision.act is Act.FOLLOW) == bool(decision.location)


def _moved(to: str) -> Response:
    return Response("http://a.test/robots.txt", 302, "HTTP/1.1", b"", b"", b"", b"", Timing(), location=to)


@pytest.mark.parametrize(
    "to",
    [
        "file:///etc/passwd",
        "FILE:/etc/passwd",
        "gemini://h/",
        "ftp://h/",
        "data:,x",
        "javascript:x",
        "http://",
    ],
)
def test_a_place_that_is_not_on_the_web_is_none(to: str) -> None:
    """Also where a package brings a fetcher for the scheme."""
    outcome = outcome_of(_moved(to), "http://a.test/robots.txt", 0)
    assert outcome.location == ""
    assert decide(outcome, NOW).act is Act.ALLOW


@pytest.mark.parametrize("to", ["/r2", "//a.test/r2", "http:r2", " http://a.test/r2#x"])
def test_a_place_on_the_web_is_followed(to: str) -> None:
    assert outcome_of(_moved(to), "http://a.test/robots.txt", 0).location == "http://a.test/r2"
