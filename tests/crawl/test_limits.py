"""Limits: pages to the very page, bytes and time about, sites, depths and redirects; runs and crashes included."""

from __future__ import annotations

from random import Random

import pytest

from lycosa.clock import ManualClock
from lycosa.crawl.agent import End
from lycosa.crawl.config import Limits, read_options
from lycosa.crawl.limits import RunLimits
from lycosa.errors import ConfigError
from lycosa.fetch.protocol import Failure, FailureKind
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply
from lycosa.records import Fetched, Why
from tests.crawl.little import Answer, PowerCut, crawl, html, moved, records

HOSTS = [f"h{n}.test" for n in range(8)]
SEEDS = [f"http://{host}/" for host in HOSTS]
QUICK = {"wait": 0.1, "factor": 0.0}


def web(pages: int = 20) -> dict[str, Answer]:
    """Eight hosts of twenty pages, all linked from their home pages: many visits run at once."""
    found: dict[str, Answer] = {}
    for host in HOSTS:
        found[f"http://{host}/"] = html(*(f"/p{n}" for n in range(pages)))
        found |= {f"http://{host}/p{n}": html("/") for n in range(pages)}
    return found


def pages_in(files: FaultyFiles) -> int:
    return sum(isinstance(row, Fetched) for row in records(files))


@pytest.mark.parametrize("limit", [1, 2, 7, 8, 9, 50, 167, 168, 1000])
def test_pages_are_counted_to_the_very_page(limit: int) -> None:
    ran = crawl(FaultyFiles(), web(), SEEDS, limits={"pages": limit}, politeness=QUICK)
    assert len(ran.fetched) == min(limit, 168)
    assert ran.end is (End.FINISHED if limit > 168 else End.LIMIT)
    asked = [url for url in ran.urls if not url.endswith("/robots.txt")]
    assert len(asked) == len(ran.fetched), "and not one more is asked for than is logged"


def test_the_limit_is_that_of_all_runs_together() -> None:
    files = FaultyFiles()
    now = 0.0
    for limit in (5, 5, 12, 12, 40):
        ran = crawl(files, web(), SEEDS, start=now, limits={"pages": limit}, politeness=QUICK)
        assert ran.end is End.LIMIT
        assert len(ran.fetched) == limit
        now = ran.until
    assert len(crawl(files, web(), SEEDS, start=now, politeness=QUICK).fetched) == 168


def test_the_limit_holds_across_crashes() -> None:
    random = Random(4)
    files, now = FaultyFiles(), 0.0
    for _ in range(12):
        cut = PowerCut(files, random.uniform(0.02, 0.6), random)
        ran = crawl(
            files,
            web(),
            SEEDS,
            start=now,
            limits={"pages": 30},
            politeness=QUICK,
            commit_seconds=0.1,
            during=cut,
        )
        now, files = ran.until, cut.after
        assert pages_in(files) <= 30
    crawl(files, web(), SEEDS, start=now, limits={"pages": 30}, politeness=QUICK)
    assert pages_in(files) == 30


def test_what_is_no_page_costs_no_quota() -> None:
    """Failures, retries and what robots forbid use nothing up."""
    pages: dict[str, Answer] = {
        **web(),
        "http://h0.test/p0": Failure(FailureKind.TIMEOUT, "no answer"),
        "http://h0.test/p1": lambda before: Reply(b"", 503) if before == 0 else html(),
        "http://h1.test/robots.txt": Reply(
            b"User-agent: *\nDisallow: /p", 200, (("Content-Type", "text/plain"),)
        ),
    }
    ran = crawl(
        FaultyFiles(),
        pages,
        SEEDS,
        limits={"pages": 147},
        politeness=QUICK,
        retry={"first": 1.0, "growth": 1.0},
    )
    assert ran.end is End.LIMIT
    assert len(ran.fetched) == 147  # all there are: 168 - 20 of h1 - the one that never answers


def test_bytes_end_the_run_soon_after() -> None:
    page = Reply(b"<p>" + b"x" * 10_000)
    pages: dict[str, Answer] = {url: page if "/p" in url else answer for url, answer in web().items()}
    files = FaultyFiles()
    ran = crawl(files, pages, SEEDS, limits={"bytes": 200_000}, politeness=QUICK)
    assert ran.end is End.LIMIT
    size = ran.agent.totals().size
    assert 200_000 <= size <= 200_000 + len(HOSTS) * 8 * 10_003, "what was under way may end"
    again = crawl(files, pages, SEEDS, start=ran.until, limits={"bytes": 200_000}, politeness=QUICK)
    assert (again.end, again.sent) == (End.LIMIT, []), "bytes are those of all runs together"


def test_time_is_that_of_one_run() -> None:
    files = FaultyFiles()
    polite = {"wait": 5.0, "factor": 0.0, "pages_per_visit": 1}
    first = crawl(files, web(), SEEDS, limits={"seconds": 30.0}, politeness=polite)
    assert first.end is End.LIMIT
    assert 30 <= first.until < 32
    before = len(first.fetched)
    second = crawl(files, web(), SEEDS, start=first.until, limits={"seconds": 30.0}, politeness=polite)
    assert second.end is End.LIMIT
    assert len(second.fetched) > before


def test_pages_per_site_to_the_very_page() -> None:
    files = FaultyFiles()
    ran = crawl(files, web(), SEEDS, scope={"mode": "any", "max_pages_per_site": 6}, politeness=QUICK)
    assert ran.end is End.FINISHED
    for host in HOSTS:
        assert sum(f"//{host}/" in url for url in ran.fetched) == 6
    assert set(ran.skipped.values()) == {Why.SITE_LIMIT}
    assert len(ran.skipped) == 8 * 15


def test_depth_counts_links_and_not_redirects() -> None:
    pages: dict[str, Answer] = {
        "http://a.test/": html("/1"),
        "http://a.test/1": moved("/1b"),
        "http://a.test/1b": html("/2"),
        "http://a.test/2": html("/3"),
    }
    ran = crawl(FaultyFiles(), pages, ["http://a.test/"], scope={"max_depth": 2})
    assert {row.url: row.depth for row in ran.records if isinstance(row, Fetched)} == {
        "http://a.test/": 0,
        "http://a.test/1": 1,
        "http://a.test/1b": 1,
        "http://a.test/2": 2,
    }
    ran = crawl(FaultyFiles(), pages, ["http://a.test/"], scope={"max_depth": 0})
    assert set(ran.fetched) == {"http://a.test/"}


@pytest.mark.parametrize("most", [0, 1, 4])
def test_redirects_in_a_row_are_limited(most: int) -> None:
    pages: dict[str, Answer] = {f"http://a.test/r{n}": moved(f"/r{n + 1}") for n in range(20)}
    ran = crawl(FaultyFiles(), pages, ["http://a.test/r0"], follow={"redirects": most})
    assert set(ran.fetched) == {f"http://a.test/r{n}" for n in range(most + 1)}
    assert [row.hops for row in ran.records if isinstance(row, Fetched)] == list(range(most + 1))


def test_a_redirect_that_goes_in_a_circle_ends() -> None:
    pages: dict[str, Answer] = {"http://a.test/x": moved("/y"), "http://a.test/y": moved("/x")}
    ran = crawl(FaultyFiles(), pages, ["http://a.test/x"])
    assert ran.end is End.FINISHED
    assert ran.urls.count("http://a.test/x") == 1


def test_a_page_resets_the_count_of_redirects() -> None:
    pages: dict[str, Answer] = {
        "http://a.test/0": moved("/1"),
        "http://a.test/1": html("/2"),
        "http://a.test/2": moved("/3"),
        "http://a.test/3": html(),
    }
    ran = crawl(FaultyFiles(), pages, ["http://a.test/0"], follow={"redirects": 1})
    assert len(ran.fetched) == 4


def test_what_waits_beyond_the_horizon_ends_the_run_and_is_kept() -> None:
    pages: dict[str, Answer] = {
        "http://a.test/": lambda before: (
            Reply(b"", 503, (("Retry-After", "7200"),)) if before == 0 else html()
        )
    }
    files = FaultyFiles()
    first = crawl(files, pages, ["http://a.test/"], horizon=3600.0)
    assert first.end is End.FINISHED
    assert (first.fetched, first.until < 100) == ({}, True)
    answered: dict[str, Answer] = {"http://a.test/": html()}
    early = crawl(files, answered, ["http://a.test/"], start=first.until, horizon=3600.0)
    assert early.sent == []
    later = crawl(files, answered, ["http://a.test/"], start=first.until + 7200, horizon=3600.0)
    assert later.fetched == {"http://a.test/": 200}


# -- the counter by itself


def limits(given: Limits) -> tuple[RunLimits, ManualClock]:
    clock = ManualClock()
    return RunLimits(given, [], clock), clock


def test_quota_is_given_once_and_given_back() -> None:
    run, _ = limits(Limits(pages=2))
    assert (run.take(), run.take(), run.take()) == (True, True, False)
    assert not run.open()
    run.give_back()
    assert run.open() and run.take() and not run.take()
    assert not run.reached(), "granted is not fetched"


def test_no_limits_are_never_reached() -> None:
    run, clock = limits(Limits())
    assert all(run.take() for _ in range(100))
    clock.advance(1e9)
    assert run.open() and not run.reached()


def test_time_counts_from_the_start_of_the_run() -> None:
    run, clock = limits(Limits(seconds=10.0))
    clock.advance(100.0)
    run.start()
    assert not run.reached()
    clock.advance(9.9)
    assert not run.reached()
    clock.advance(0.2)
    assert run.reached()


@pytest.mark.parametrize(
    ("table", "option", "value"),
    [
        ("limits", "pages", -1),
        ("limits", "bytes", -1),
        ("limits", "seconds", -0.5),
        ("limits", "seconds", float("nan")),
        ("limits", "seconds", float("inf")),
        ("follow", "redirects", -1),
        ("follow", "redirects", 256),
        ("robots", "attempts", 0),
        ("robots", "first_retry", -1.0),
        ("robots", "agent", " "),
        ("snapshot", "records", 0),
        ("snapshot", "seconds", -1.0),
        ("scope", "max_depth", -1),
        ("scope", "max_pages_per_site", 0),
        ("politeness", "pages_per_visit", 0),
        ("politeness", "wait", -1.0),
        ("retry", "attempts", 0),
        ("", "visits", 0),
        ("", "commit_seconds", 0.0),
        ("", "horizon", -1.0),
    ],
)
def test_numbers_that_make_no_sense_are_refused_by_name(table: str, option: str, value: object) -> None:
    given = {"public": False, **({table: {option: value}} if table else {option: value})}
    with pytest.raises(ConfigError, match=option) as caught:
        read_options(given)
    assert "\n" not in str(caught.value)
