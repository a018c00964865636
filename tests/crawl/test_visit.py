"""Robots and politeness as a whole crawl keeps them, on virtual time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from lycosa.clock import Clock
from lycosa.crawl.agent import Agent, End
from lycosa.fetch.dns import DnsFailure, DnsKind, Resolution
from lycosa.fetch.protocol import Failure, FailureKind
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply
from lycosa.records import Why
from lycosa.url.parts import site_of
from tests.crawl.little import Names, PowerCut, crawl, html, moved, rules

DAY = 86_400.0
ROOT = "http://a.test/"
ROBOTS = "http://a.test/robots.txt"


def many(count: int, host: str = "a.test") -> dict[str, Reply]:
    """A home page that links `count` others."""
    return {f"http://{host}/": html(*(f"/p{n}" for n in range(count)))}


def gaps(spans: list[tuple[float, float]]) -> list[float]:
    """From the end of each request to the start of the next."""
    return [after[0] - before[1] for before, after in pairwise(spans)]


# -- robots


def test_rules_are_obeyed_and_robots_is_asked_once_a_site() -> None:
    pages = {
        ROOT: html("/open", "/secret/a", "/secret/b"),
        ROBOTS: rules("User-agent: *\nDisallow: /secret\n\nUser-agent: other\nDisallow: /open"),
    }
    ran = crawl(FaultyFiles(), pages, [ROOT])
    assert set(ran.fetched) == {ROOT, "http://a.test/open"}
    assert ran.skipped == {"http://a.test/secret/a": Why.ROBOTS, "http://a.test/secret/b": Why.ROBOTS}
    assert ran.urls.count(ROBOTS) == 1
    assert ran.urls[0] == ROBOTS, "before anything else"


def test_the_group_of_our_own_name_holds_alone() -> None:
    text = "User-agent: *\nDisallow: /\n\nUser-agent: spider\nDisallow: /x"
    pages = {ROOT: html("/x", "/y"), ROBOTS: rules(text)}
    ran = crawl(FaultyFiles(), pages, [ROOT], robots={"agent": "spider"})
    assert set(ran.fetched) == {ROOT, "http://a.test/y"}


def test_ignoring_robots_asks_for_none() -> None:
    ran = crawl(FaultyFiles(), {ROBOTS: rules("User-agent: *\nDisallow: /")}, [ROOT], robots={"obey": False})
    assert ran.urls == [ROOT]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_client_error_means_no_rules(status: int) -> None:
    ran = crawl(FaultyFiles(), {ROOT: html(), ROBOTS: Reply(b"Disallow: /", status)}, [ROOT])
    assert ran.fetched == {ROOT: 200}
    assert [row.status for row in ran.robots] == [status]


@pytest.mark.parametrize(
    "trouble",
    [Reply(b"", 500), Reply(b"", 503), Reply(b"", 429), Failure(FailureKind.TIMEOUT, "no answer")],
    ids=["500", "503", "429", "unreachable"],
)
def test_robots_that_fail_once_hold_the_site_back_until_they_do_not(trouble: Reply | Failure) -> None:
    pages = {
        ROOT: html("/secret"),
        ROBOTS: lambda before: trouble if before == 0 else rules("User-agent: *\nDisallow: /secret"),
    }
    ran = crawl(FaultyFiles(), pages, [ROOT], robots={"first_retry": 60.0})
    assert ran.end is End.FINISHED
    assert ran.fetched == {ROOT: 200}
    assert ran.skipped == {"http://a.test/secret": Why.ROBOTS}
    (first, second) = ran.times(url=ROBOTS)
    assert second[0] - first[1] >= 60, "no sooner than the first retry"
    assert ran.times(url=ROOT)[0][0] >= second[1], "and nothing was fetched without rules"
    assert [row.why for row in ran.deferred] == [Why.ROBOTS_UNREACHABLE]


def test_robots_that_stay_unreachable_give_the_site_up() -> None:
    pages = {ROBOTS: Reply(b"", 500), "http://b.test/": html()}
    ran = crawl(FaultyFiles(), pages, [ROOT, "http://a.test/2", "http://b.test/"], robots={"attempts": 3})
    assert ran.end is End.FINISHED
    assert set(ran.fetched) == {"http://b.test/"}
    assert ran.skipped == {
        ROOT: Why.ROBOTS_UNREACHABLE,
        "http://a.test/2": Why.ROBOTS_UNREACHABLE,
    }
    asked = ran.times(url=ROBOTS)
    assert len(asked) == 3
    waits = gaps(asked)
    assert waits[0] >= 60 and waits[1] >= 120, "one minute, then two"


def test_retry_after_of_robots_is_waited_for() -> None:
    pages = {
        ROOT: html(),
        ROBOTS: lambda before: (
            Reply(b"", 503, (("Retry-After", "900"),)) if before == 0 else rules("User-agent: *\nAllow: /")
        ),
    }
    first, second = crawl(FaultyFiles(), pages, [ROOT]).times(url=ROBOTS)
    assert 900 <= second[0] - first[1] < 960


def test_robots_may_be_elsewhere() -> None:
    """A redirected robots.txt holds for the site that was asked first, and takes the other host's turn."""
    pages = {
        ROOT: html("/secret"),
        ROBOTS: moved("http://rules.test/common"),
        "http://rules.test/common": rules("User-agent: *\nDisallow: /secret"),
    }
    ran = crawl(FaultyFiles(), pages, [ROOT])
    assert ran.fetched == {ROOT: 200}
    assert ran.skipped == {"http://a.test/secret": Why.ROBOTS}
    assert [row.site for row in ran.robots] == ["http://a.test"], "not the rules of rules.test"


def test_robots_may_be_at_another_host_of_the_same_address() -> None:
    """As example.org sends its visitors to www.example.org: the visit has the address's turn already."""
    pages = {
        ROOT: html("/secret"),
        ROBOTS: moved("http://www.a.test/robots.txt"),
        "http://www.a.test/robots.txt": rules("User-agent: *\nDisallow: /secret"),
    }
    ran = crawl(FaultyFiles(), pages, [ROOT], names={"a.test": "127.1.0.1", "www.a.test": "127.1.0.1"})
    assert ran.fetched == {ROOT: 200}
    assert ran.skipped == {"http://a.test/secret": Why.ROBOTS}
    assert ran.urls.count(ROBOTS) == 1
    assert gaps(ran.times())[0] >= 0.5, "the wait between two connections to an address"


def test_a_redirect_to_a_busy_host_is_not_asked_for_again() -> None:
    """The next visits of the site go on from where the redirect led, as soon as that host may be asked."""
    pages = {
        ROOT: html(),
        ROBOTS: moved("/moved"),
        "http://a.test/moved": moved("http://busy.test/common"),
        "http://busy.test/common": rules("User-agent: *\nAllow: /"),
        **many(60, "busy.test"),
    }
    ran = crawl(FaultyFiles(), pages, ["http://busy.test/", ROOT], latency=0.5)
    assert ran.end is End.FINISHED
    assert ran.fetched[ROOT] == 200
    busy = ran.times("busy.test")
    assert all(gap >= 0 for gap in gaps(busy)), "one at a time"
    assert ran.times(url="http://busy.test/common")[0][0] > 10, "it had to wait"
    assert ran.urls.count(ROBOTS) == ran.urls.count("http://a.test/moved") == 1


STALE = Failure(FailureKind.STALE, "the kept connection had ended")


def test_a_server_that_closes_each_time_gives_its_redirected_robots() -> None:
    """A stale connection is no attempt, and the redirect goes on where it stood."""
    pages = {
        ROOT: html("/secret"),
        ROBOTS: moved("/r1"),
        "http://a.test/r1": lambda before: STALE if before == 0 else moved("/r2"),
        "http://a.test/r2": lambda before: (
            STALE if before == 0 else rules("User-agent: *\nDisallow: /secret")
        ),
    }
    ran = crawl(FaultyFiles(), pages, [ROOT])
    assert ran.fetched == {ROOT: 200}
    assert ran.skipped == {"http://a.test/secret": Why.ROBOTS}
    assert [url.rpartition("/")[2] for url in ran.urls] == ["robots.txt", "r1", "r1", "r2", "r2", ""]


def test_from_the_second_in_a_row_a_stale_connection_is_an_attempt() -> None:
    pages = {ROOT: STALE, ROBOTS: moved("/r1"), "http://a.test/r1": STALE, "http://b.test/": STALE}
    ran = crawl(FaultyFiles(), pages, [ROOT, "http://b.test/"], robots={"attempts": 3})
    assert ran.end is End.FINISHED
    assert ran.skipped == {ROOT: Why.ROBOTS_UNREACHABLE, "http://b.test/": Why.FAILED}
    assert ran.urls.count(ROBOTS) == 3 and ran.urls.count("http://a.test/r1") == 6
    assert ran.urls.count("http://b.test/") == 4, "the one that does not count, and three attempts"


def test_rules_expire_after_a_day_and_the_new_ones_are_judged_by() -> None:
    pages = {
        **many(6),
        ROBOTS: lambda before: rules("User-agent: *\nDisallow: /p5" if before == 0 else ""),
    }
    changed = {**pages, ROBOTS: rules("User-agent: *\nDisallow: /p3\nDisallow: /p4")}
    files = FaultyFiles()
    first = crawl(files, pages, [ROOT], limits={"pages": 2})
    asked = first.times(url=ROBOTS)[0][1]
    second = crawl(files, changed, [ROOT], start=asked + DAY - 60, limits={"pages": 4})
    assert ROBOTS not in second.urls, "a minute before the day is over they still hold"
    third = crawl(files, changed, [ROOT], start=asked + DAY + 1)
    assert third.urls[0] == ROBOTS and third.urls.count(ROBOTS) == 1
    assert third.end is End.FINISHED
    assert set(third.fetched) == {ROOT, *(f"http://a.test/p{n}" for n in (0, 1, 2, 5))}
    assert third.skipped == {f"http://a.test/p{n}": Why.ROBOTS for n in (3, 4)}


def test_a_shorter_life_of_rules_is_observed_within_a_run() -> None:
    """max-age may shorten the day to an hour; a Crawl-delay of five minutes makes the crawl last longer."""
    headers = (("Content-Type", "text/plain"), ("Cache-Control", "max-age=60"))
    text = b"User-agent: *\nCrawl-delay: 300\n"
    pages = {**many(20), ROBOTS: lambda before: Reply(text + b"Disallow: /" * bool(before), 200, headers)}
    ran = crawl(FaultyFiles(), pages, [ROOT], commit_seconds=5.0)
    first, second = ran.times(url=ROBOTS)
    assert 3600 <= second[0] - first[1] <= 3600 + 601
    assert max(end for _, end, url, _ in ran.sent if url != ROBOTS) <= second[0], "judged by the new rules"
    assert list(ran.skipped.values()) == [Why.ROBOTS] * (21 - len(ran.fetched))


def test_rules_are_judged_at_the_fetch_and_not_at_the_link() -> None:
    """The link is found on another site long before its own site's rules are known."""
    pages = {
        "http://b.test/": html("http://a.test/secret"),
        ROBOTS: lambda before: Reply(b"", 500) if before == 0 else rules("User-agent: *\nDisallow: /secret"),
    }
    ran = crawl(FaultyFiles(), pages, ["http://b.test/"])
    assert ran.skipped == {"http://a.test/secret": Why.ROBOTS}


# -- what pages ask for


def test_meta_nofollow_keeps_the_links_in_the_log_and_follows_none() -> None:
    pages = {ROOT: html("/x", head='<meta name="robots" content="nofollow,noindex">')}
    ran = crawl(FaultyFiles(), pages, [ROOT])
    assert ran.fetched == {ROOT: 200}
    (record,) = [row for row in ran.records if getattr(row, "url", "") == ROOT]
    assert [(link.url, link.nofollow) for link in record.links] == [("http://a.test/x", True)]
    assert record.noindex


def test_robots_tags_for_us_hold_and_those_for_others_do_not() -> None:
    def page(*tags: str) -> Reply:
        return html("/of" + str(len(tags)) + tags[0][:1], headers=tuple(("X-Robots-Tag", t) for t in tags))

    pages = {
        ROOT: html("/ours", "/others", "/all"),
        "http://a.test/ours": page("lycosa: nofollow"),
        "http://a.test/others": page("otherbot: nofollow"),
        "http://a.test/all": page("nofollow", "otherbot: follow"),
    }
    ran = crawl(FaultyFiles(), pages, [ROOT])
    assert set(ran.fetched) - {ROOT} == {
        "http://a.test/ours",
        "http://a.test/others",
        "http://a.test/all",
        "http://a.test/of1o",
    }


def test_rel_nofollow_is_honoured_link_by_link_unless_told_otherwise() -> None:
    pages = {ROOT: Reply(b'<a rel="nofollow" href="/no">n</a><a rel="noopener" href="/yes">y</a>')}
    assert set(crawl(FaultyFiles(), pages, [ROOT]).fetched) == {ROOT, "http://a.test/yes"}
    told = crawl(FaultyFiles(), pages, [ROOT], follow={"nofollow": True})
    assert set(told.fetched) == {ROOT, "http://a.test/yes", "http://a.test/no"}


def test_requisites_only_if_asked_for() -> None:
    pages = {
        ROOT: Reply(
            b'<link rel=stylesheet href=/s.css><img src=/i.png srcset="/j.png 2x"><script src=/x.js></script>'
            b'<a href="/next">n</a>'
        )
    }
    assert set(crawl(FaultyFiles(), pages, [ROOT]).fetched) == {ROOT, "http://a.test/next"}
    told = crawl(FaultyFiles(), pages, [ROOT], follow={"requisites": True})
    assert set(told.fetched) == {
        f"http://a.test/{name}" for name in ("", "next", "s.css", "i.png", "j.png", "x.js")
    }


# -- politeness


def visits(spans: list[tuple[float, float]], wait: float) -> list[int]:
    """How many requests each visit had; a gap below the wait is within a visit."""
    sizes = [1]
    for gap in gaps(spans):
        if gap >= wait - 1e-6:
            sizes.append(1)
        else:
            assert gap < 0.01, f"neither within a visit nor after the wait: {gap:.3f} s"
            sizes[-1] += 1
    return sizes


def test_a_visit_has_its_pages_and_then_the_host_is_left_alone() -> None:
    ran = crawl(
        FaultyFiles(), many(30), [ROOT], politeness={"wait": 3.0, "pages_per_visit": 5, "factor": 0.0}
    )
    sizes = visits(ran.times("a.test"), 3.0)
    assert sum(sizes) == 32  # robots.txt, the home page, and thirty others
    assert max(sizes) == 5, "robots.txt counts, too"
    assert len(sizes) <= 9


def test_the_wait_is_ten_times_the_last_fetch() -> None:
    politeness = {"wait": 1.0, "pages_per_visit": 1, "factor": 10.0, "max_wait": 60.0}
    ran = crawl(FaultyFiles(), many(5), [ROOT], latency=2.0, politeness=politeness)
    assert all(20 - 1e-3 <= gap < 21 for gap in gaps(ran.times("a.test")))
    ran = crawl(FaultyFiles(), many(5), [ROOT], latency=30.0, politeness=politeness)
    assert all(60 - 1e-3 <= gap < 61 for gap in gaps(ran.times("a.test"))), "up to max_wait"


def test_a_crawl_delay_is_kept_between_pages() -> None:
    pages = {**many(6), ROBOTS: rules("User-agent: *\nCrawl-delay: 7")}
    ran = crawl(FaultyFiles(), pages, [ROOT])
    assert len(ran.fetched) == 7
    assert all(7 - 1e-6 <= gap < 8.1 for gap in gaps(ran.times("a.test"))), gaps(ran.times("a.test"))


def test_a_crawl_delay_is_kept_when_another_sites_robots_lead_here() -> None:
    """Whoever asks for another site's robots.txt here does not know of the delay; the host's own shard does."""
    others = [f"http://s{n}.test/" for n in range(6)]
    pages = {**many(6), ROBOTS: rules("User-agent: *\nCrawl-delay: 7")}
    pages |= {other: html() for other in others}
    pages |= {f"{other}robots.txt": moved("http://a.test/common") for other in others}
    pages["http://a.test/common"] = rules("User-agent: *\nAllow: /")
    ran = crawl(FaultyFiles(), pages, [ROOT, *others])
    assert len(ran.fetched) == 7 + len(others)
    assert ran.urls.count("http://a.test/common") == len(others)
    known = [span for span in ran.times("a.test") if span[0] > ran.times(url=ROBOTS)[0][0]]
    assert min(gaps(known)) >= 7 - 1e-6


def test_a_crawl_delay_is_kept_across_a_crash() -> None:
    """The next process must not ask within the delay, though it finds the rules only in the log."""
    pages = {**many(6), ROBOTS: rules("User-agent: *\nCrawl-delay: 50")}
    cut = PowerCut(FaultyFiles(), 70.0)
    first = crawl(cut.files, pages, [ROOT], during=cut)
    assert first.end is None
    assert 2 <= len(first.sent) < 5
    second = crawl(cut.after, pages, [ROOT], start=first.until + 1.0)
    assert second.end is End.FINISHED
    assert len(second.fetched) == 7
    spans = sorted([*first.times("a.test"), *second.times("a.test")])
    assert min(gaps(spans)) >= 50 - 1e-6


def test_the_wait_is_kept_across_a_clean_stop() -> None:
    files = FaultyFiles()
    politeness = {"wait": 40.0, "factor": 0.0, "pages_per_visit": 2}
    first = crawl(files, many(6), [ROOT], limits={"pages": 1}, politeness=politeness)
    assert first.end is End.LIMIT
    second = crawl(files, many(6), [ROOT], start=first.until + 0.5, politeness=politeness)
    spans = sorted([*first.times("a.test"), *second.times("a.test")])
    assert max(visits(spans, 40.0)) == 2


def test_a_machine_that_was_restarted_does_not_wait_for_its_old_uptime() -> None:
    """The monotonic clock of the second run begins at zero, that of the first ended at a million seconds."""
    files = FaultyFiles()
    crawl(files, many(6), [ROOT], start=1e6, limits={"pages": 1})
    second = crawl(files, many(6), [ROOT], start=0.0)
    assert second.end is End.FINISHED
    assert second.until < 100


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_holds_the_whole_host(status: int) -> None:
    pages = {
        **many(4),
        "http://a.test/p0": lambda before: (
            Reply(b"", status, (("Retry-After", "500"),)) if before == 0 else html()
        ),
    }
    retry = {"first": 1.0, "growth": 1.0}
    ran = crawl(FaultyFiles(), pages, [ROOT], retry=retry, politeness={"wait": 1.0, "factor": 0.0})
    assert ran.fetched["http://a.test/p0"] == 200
    busy = ran.times(url="http://a.test/p0")[0][1]
    later = [start for start, _ in ran.times("a.test") if start > busy]
    assert len(later) == 4 and min(later) >= busy + 500 - 0.01


def test_retry_after_is_kept_across_a_crash() -> None:
    pages = {
        **many(4),
        "http://a.test/p0": lambda before: Reply(b"", 503, (("Retry-After", "500"),)),
    }
    cut = PowerCut(FaultyFiles(), 20.0)
    first = crawl(cut.files, pages, [ROOT], during=cut)
    busy = first.times(url="http://a.test/p0")[0][1]
    second = crawl(cut.after, {**pages, "http://a.test/p0": html()}, [ROOT], start=first.until + 1.0)
    assert len(second.fetched) == 5
    assert second.times("a.test")[0][0] >= busy + 500 - 1.0


def test_three_attempts_and_no_more() -> None:
    pages = {ROOT: Failure(FailureKind.TIMEOUT, "no answer"), "http://a.test/b": Reply(b"broken", 500)}
    ran = crawl(FaultyFiles(), pages, [ROOT, "http://a.test/b"], retry={"first": 100.0, "growth": 5.0})
    assert ran.urls.count(ROOT) == 3
    assert ran.skipped == {ROOT: Why.FAILED}
    assert ran.urls.count("http://a.test/b") == 3
    assert ran.fetched == {"http://a.test/b": 500}, "a site that answers, answers: the last one counts"
    waits = gaps(ran.times(url=ROOT))
    assert waits[0] >= 100 and waits[1] >= 500


def test_a_failure_that_will_not_mend_is_not_tried_again() -> None:
    broken = Failure(FailureKind.TLS, "a certificate of somebody else", transient=False)
    ran = crawl(FaultyFiles(), {ROOT: broken}, [ROOT])
    assert ran.urls.count(ROOT) == 1
    assert ran.skipped == {ROOT: Why.FAILED}


def test_a_name_that_does_not_exist_is_final() -> None:
    ran = crawl(FaultyFiles(), {ROOT: html("http://nowhere.test/x")}, [ROOT])
    assert ran.skipped == {"http://nowhere.test/x": Why.DNS}
    assert ran.until < 30


SHARED = "127.9.9.9"


@pytest.mark.parametrize("shards", [1, 16])
def test_two_hosts_at_one_address_take_turns(shards: int) -> None:
    """Hosts of different shards included: the address table is the agent's."""
    hosts = [f"h{n}.test" for n in range(6)]
    pages = {key: value for host in hosts for key, value in many(3, host).items()}
    seeds = [f"http://{host}/" for host in hosts]
    politeness = {"wait": 0.1, "factor": 0.0, "address_wait": 0.5, "pages_per_visit": 2}
    ran = crawl(
        FaultyFiles(),
        pages,
        seeds,
        shards=shards,
        latency=0.2,
        names=dict.fromkeys(hosts, SHARED),
        politeness=politeness,
    )
    assert len(ran.fetched) == 24
    if shards > 1:
        used = {shard.number for shard in ran.agent.shards if shard.totals.fetched}
        assert len(used) > 1, "the hosts must lie in several shards for this to mean anything"
    turns: list[tuple[str, float, float]] = []  # host, begin and end of each stay at the address
    for start, end, url, address in sorted(ran.sent):
        assert address == SHARED
        host = url.split("/")[2]
        if turns and turns[-1][0] == host and start - turns[-1][2] < 0.01:
            turns[-1] = (host, turns[-1][1], end)
        else:
            turns.append((host, start, end))
    assert min(gaps([(start, end) for _, start, end in turns])) >= 0.5 - 1e-6


def test_hosts_at_different_addresses_do_not_wait_for_each_other() -> None:
    hosts = [f"h{n}.test" for n in range(6)]
    pages = {key: value for host in hosts for key, value in many(3, host).items()}
    ran = crawl(FaultyFiles(), pages, [f"http://{host}/" for host in hosts], latency=1.0)
    assert len(ran.fetched) == 24
    starts = [ran.times(host)[0][0] for host in hosts]
    assert max(starts) - min(starts) < 1.0


# -- stopping


def test_a_fetch_that_never_ends_does_not_hold_the_stop() -> None:
    files = FaultyFiles()

    async def stop(agent: Agent, clock: Clock) -> None:
        await clock.sleep(100.0)
        assert agent.stop() and not agent.stop(), "the second time says that it was asked before"

    first = crawl(files, many(3), [ROOT], latency=1000.0, during=stop)
    assert first.end is End.STOPPED
    assert 100 <= first.until < 110, "some seconds for what is under way, and no more"
    assert first.fetched == {}
    second = crawl(files, many(3), [ROOT], start=first.until)
    assert len(second.fetched) == 4, "it was still pending"


def test_a_fetch_that_ends_soon_is_waited_for() -> None:
    files = FaultyFiles()

    async def stop(agent: Agent, clock: Clock) -> None:
        await clock.sleep(4.5)
        agent.stop()

    ran = crawl(files, many(3), [ROOT], latency=2.0, politeness={"factor": 0.0, "wait": 0.0}, during=stop)
    assert ran.end is End.STOPPED
    assert len(ran.fetched) == 2
    assert 6.0 <= ran.until < 6.5


def test_the_time_of_a_request_that_was_broken_off_counts_for_the_wait() -> None:
    """A shard's visits are cut when its lease is near its end: the site was kept busy all the same."""
    cut: list[float] = []

    async def break_off(agent: Agent, clock: Clock) -> None:
        await clock.sleep(3.0)
        for shard in agent.shards:
            await agent.visits.cut(shard.number)
        cut.append(clock.monotonic())

    politeness = {"wait": 1.0, "pages_per_visit": 1, "factor": 10.0, "max_wait": 60.0}
    ran = crawl(FaultyFiles(), many(0), [ROOT], latency=4.0, politeness=politeness, during=break_off)
    assert ran.times("a.test")[0][0] >= cut[0] + 30 - 1e-3, "ten times the three seconds"
    assert len(ran.fetched) == 1


# -- one connection a visit


def closing(answer: Reply) -> Reply:
    """The same, from a server that closes after it."""
    return answer._replace(closed=True)


def test_where_the_server_closes_each_page_waits_its_turn() -> None:
    pages = {
        ROOT: closing(html(*(f"/p{n}" for n in range(4)))),
        ROBOTS: closing(Reply(b"", 404)),
        **{f"{ROOT}p{n}": closing(html()) for n in range(4)},
    }
    ran = crawl(FaultyFiles(), pages, [ROOT], politeness={"wait": 2.0, "factor": 0.0})
    assert len(ran.fetched) == 5 and len(ran.sent) == 6
    assert min(gaps(ran.times(host="a.test"))) >= 2.0, "robots.txt closed its connection, too"


def test_another_port_of_the_host_is_another_connection_and_waits() -> None:
    pages = {
        ROOT: html("http://a.test:8080/x", "/y", "http://a.test:8080/z"),
        "http://a.test:8080/x": html(),
        "http://a.test:8080/z": html(),
        "http://a.test/y": html(),
    }
    ran = crawl(FaultyFiles(), pages, [ROOT], politeness={"wait": 2.0, "factor": 0.0})
    assert len(ran.fetched) == 4
    rows = sorted(ran.sent)
    for before, after in pairwise(rows):
        if site_of(before.url) != site_of(after.url):
            assert after.start - before.end >= 2.0, (before, after)


def test_a_robots_file_that_moves_to_https_on_its_own_host_is_followed_after_the_wait() -> None:
    pages = {ROBOTS: moved("https://a.test/robots.txt"), "https://a.test/robots.txt": rules(""), ROOT: html()}
    ran = crawl(FaultyFiles(), pages, [ROOT], politeness={"wait": 2.0, "factor": 0.0})
    assert ran.urls == [ROBOTS, "https://a.test/robots.txt", ROOT]
    assert min(gaps(ran.times(host="a.test"))) >= 2.0, "each is a connection of its own"


def test_a_robots_file_that_loses_its_connection_at_each_redirect_is_read_all_the_same() -> None:
    """The connection that the redirect came over is dead when the next request needs it."""
    stale = Failure(FailureKind.STALE, "the kept connection had ended")
    pages = {
        ROBOTS: moved("/rules.txt"),
        f"{ROOT}rules.txt": lambda before: rules("") if before % 2 else stale,
        ROOT: html(),
    }
    ran = crawl(FaultyFiles(), pages, [ROOT], politeness={"wait": 2.0, "factor": 0.0})
    assert ran.urls == [ROBOTS, f"{ROOT}rules.txt", f"{ROOT}rules.txt", ROOT]


# -- what this machine lacks

SHORT = Failure(FailureKind.LOCAL, "cannot open a socket: Too many open files")


def short(times: int, then: Reply) -> Callable[[int], Reply | Failure]:
    """The answer, once the machine has what it takes."""
    return lambda before: SHORT if before < times else then


@pytest.mark.parametrize("where", [ROOT, ROBOTS])
def test_our_own_shortage_costs_a_site_no_attempt(where: str) -> None:
    said: list[str] = []
    pages = {ROOT: html(), ROBOTS: rules(""), where: short(20, html() if where == ROOT else rules(""))}
    ran = crawl(FaultyFiles(), pages, [ROOT], told=said.append)
    assert ran.end is End.FINISHED
    assert ran.fetched == {ROOT: 200} and not ran.skipped and not ran.deferred
    assert [row.status for row in ran.robots] == [200]
    assert len(ran.times(url=where)) == 21
    assert len(said) == 1 and "Too many open files" in said[0], "once a minute"
    assert ran.agent.read_meters()["error.local"] == 20


@pytest.mark.parametrize("where", [ROOT, ROBOTS])
def test_a_request_that_came_too_late_to_be_sent_is_no_attempt(where: str) -> None:
    late = Failure(FailureKind.LATE, "the right to ask ended")
    reply = html() if where == ROOT else rules("")
    pages = {ROOT: html(), ROBOTS: rules(""), where: lambda before: late if before < 20 else reply}
    ran = crawl(FaultyFiles(), pages, [ROOT])
    assert ran.fetched == {ROOT: 200} and not ran.skipped and not ran.deferred
    assert len(ran.times(url=where)) == 21


def test_a_robots_file_elsewhere_waits_for_our_shortage_too() -> None:
    pages = {
        ROBOTS: moved("http://b.test/rules.txt"),
        "http://b.test/rules.txt": short(5, rules("User-agent: *\nDisallow: /x")),
        ROOT: html("/x"),
    }
    ran = crawl(FaultyFiles(), pages, [ROOT])
    assert ran.fetched == {ROOT: 200} and ran.skipped == {f"{ROOT}x": Why.ROBOTS}


def test_while_the_machine_is_short_no_visit_begins() -> None:
    """Other hosts would only fail the same way."""
    pages: dict[str, object] = {f"http://h{n}.test/": short(1, html()) for n in range(50)}
    seeds = list(pages)
    ran = crawl(FaultyFiles(), pages, seeds, visits=1, robots={"obey": False})  # type: ignore[arg-type]
    assert len(ran.fetched) == 50
    assert ran.until >= 50.0, "each of them was followed by a second of rest"


def test_a_name_that_cannot_be_asked_for_says_nothing_of_the_host() -> None:
    class Short(Names):
        asked = 0

        async def resolve(self, host: str) -> Resolution | DnsFailure:
            self.asked += 1
            if self.asked <= 20:
                return DnsFailure(DnsKind.LOCAL, "Too many open files", False)
            return await super().resolve(host)

    ran = crawl(FaultyFiles(), {ROOT: html()}, [ROOT], names=Short({}))
    assert ran.fetched == {ROOT: 200} and not ran.skipped and not ran.deferred
