"""The scope of a crawl changes between its runs: narrower acts at once, wider brings everything back."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lycosa.crawl.agent import End
from lycosa.lab.faults import FaultyFiles
from lycosa.records import Configured, Received, Skipped, Why
from tests.crawl.little import Answer, PowerCut, Ran, crawl, html, records

HOSTS = ("a.test", "b.test", "c.test", "d.test", "e.test")
PAGES = 5
SEEDS = ["http://a.test/"]
ANY = {"mode": "any"}


def web() -> dict[str, Answer]:
    """Every page links its host's next page and pages of the next two hosts."""
    pages: dict[str, Answer] = {}
    for h, host in enumerate(HOSTS):
        for n in range(PAGES):
            others = [f"http://{HOSTS[(h + step) % len(HOSTS)]}/p{n}" for step in (1, 2)]
            pages[f"http://{host}/p{n}" if n else f"http://{host}/"] = html(f"/p{n + 1}", *others)
    return pages


WEB = web()
WHOLE = set(crawl(FaultyFiles(), WEB, SEEDS).fetched)


def run(files: FaultyFiles, scope: dict[str, Any], start: float = 0.0, **options: Any) -> Ran:
    return crawl(files, WEB, SEEDS, start=start, scope=scope, politeness={"wait": 0.1}, **options)


def test_the_web_of_these_tests_spans_shards() -> None:
    ran = run(FaultyFiles(), ANY)
    assert len(WHOLE) > len(HOSTS) * PAGES
    assert set(ran.fetched) == WHOLE
    assert len({shard.number for shard in ran.agent.shards if shard.totals.fetched}) >= 3
    assert any(isinstance(row, Received) for row in ran.records)


def test_narrowing_acts_at_take() -> None:
    files = FaultyFiles()
    first = run(files, ANY, limits={"pages": 6})
    assert first.end is End.LIMIT
    pending = first.agent.totals()
    assert pending.fetched == 6
    second = run(files, {"mode": "any", "exclude_hosts": ["c.test"]}, first.until)
    assert second.end is End.FINISHED
    assert not [url for url in second.urls if "//c.test/" in url]
    assert set(second.skipped.values()) <= {Why.SCOPE}
    assert all("//c.test/" in url for url in second.skipped)


def test_widening_brings_back_what_was_skipped_and_what_was_never_offered() -> None:
    files = FaultyFiles()
    first = run(files, ANY, limits={"pages": 6})
    second = run(files, {"mode": "host"}, first.until)
    assert second.skipped, "pending URLs of other hosts were skipped at take"
    assert all(row.detail for row in second.records if isinstance(row, Skipped)), "and the rule is told"
    never = WHOLE - set(second.fetched) - set(second.skipped)
    assert never, "and some links were never offered"
    third = run(files, ANY, second.until)
    assert third.end is End.FINISHED
    assert set(third.fetched) == WHOLE


def test_a_narrow_crawl_widened_from_the_start() -> None:
    files = FaultyFiles()
    first = run(files, {"mode": "host"})
    assert first.end is End.FINISHED
    assert {url.split("/")[2] for url in first.fetched} == {"a.test"}
    second = run(files, ANY, first.until)
    assert set(second.fetched) == WHOLE
    assert not set(second.urls) & set(first.fetched), "nothing is fetched again"


def test_depth_is_scope_too() -> None:
    files = FaultyFiles()
    first = run(files, {"mode": "any", "max_depth": 1})
    assert set(first.fetched) == {
        "http://a.test/",
        "http://a.test/p1",
        "http://b.test/p0",
        "http://c.test/p0",
    }
    second = run(files, {"mode": "any", "max_depth": 2}, first.until)
    assert set(first.fetched) < set(second.fetched) < WHOLE
    third = run(files, ANY, second.until)
    assert set(third.fetched) == WHOLE


def test_the_blocklist_is_scope_too() -> None:
    files = FaultyFiles()
    first = run(files, ANY, limits={"pages": 6})
    second = run(files, {"mode": "any", "blocklist": ["b.test", ".c.test"]}, first.until)
    assert set(second.skipped.values()) == {Why.BLOCKED}
    third = run(files, ANY, second.until)
    assert set(third.fetched) == WHOLE


def test_following_more_is_a_change_of_scope() -> None:
    pages = {"http://a.test/": html("/next", head='<img src="/i.png"><a rel=nofollow href="/n">n</a>')}
    files = FaultyFiles()
    first = crawl(files, pages, SEEDS)
    assert set(first.fetched) == {"http://a.test/", "http://a.test/next"}
    second = crawl(files, pages, SEEDS, start=first.until, follow={"requisites": True, "nofollow": True})
    assert set(second.fetched) == {f"http://a.test/{name}" for name in ("", "next", "i.png", "n")}


def test_a_change_that_leaves_a_url_pending_does_not_double_it() -> None:
    """Skipped, brought back, still pending, and then the scope changes again: it is there once."""
    files = FaultyFiles()
    first = run(files, ANY, limits={"pages": 6})
    second = run(files, {"mode": "host"}, first.until)
    third = run(files, ANY, second.until, limits={"pages": len(second.fetched) + 1})
    assert third.end is End.LIMIT
    fourth = run(files, {"mode": "any", "exclude_paths": ["/nothing"]}, third.until)
    assert fourth.end is End.FINISHED
    assert set(fourth.fetched) == WHOLE  # which also says: none twice


def test_a_larger_site_limit_brings_back_what_the_smaller_one_skipped() -> None:
    files = FaultyFiles()
    first = run(files, {"mode": "any", "max_pages_per_site": 2})
    assert first.end is End.FINISHED
    counts: dict[str, int] = {}
    for url in first.fetched:
        counts[url.split("/")[2]] = counts.get(url.split("/")[2], 0) + 1
    assert set(counts.values()) == {2}
    assert set(first.skipped.values()) == {Why.SITE_LIMIT}
    second = run(files, ANY, first.until)
    assert set(second.fetched) == WHOLE


def test_the_same_scope_again_writes_no_new_configuration() -> None:
    files = FaultyFiles()
    first = run(files, ANY)
    before = sum(isinstance(row, Configured) for row in first.records)
    second = run(files, ANY, first.until)
    assert sum(isinstance(row, Configured) for row in second.records) == before
    assert second.sent == []


SCOPES: list[dict[str, Any]] = [
    ANY,
    {"mode": "host"},
    {"mode": "any", "exclude_hosts": ["b.test", "d.test"]},
    {"mode": "any", "max_depth": 2},
    {"mode": "any", "blocklist": [".c.test"]},
    {"mode": "host", "include_hosts": ["e.test"]},
    {"mode": "any", "exclude_patterns": ["p[23]$"]},
]


@pytest.mark.parametrize("seed", range(12))
def test_any_changes_with_any_crashes_end_with_everything_once(seed: int) -> None:
    """Scopes change at random, runs are cut short at random; the last run, of everything, completes it."""
    random = Random(seed)
    files = FaultyFiles()
    now = 0.0
    for _ in range(6):
        scope = random.choice(SCOPES)
        options = {"snapshot": {"records": random.choice((15, 10_000))}, "commit_seconds": 0.2}
        if random.random() < 0.6:
            cut = PowerCut(files, random.uniform(0.05, 1.5), random)
            ran = run(files, scope, now, during=cut, **options)
            files = cut.after
        else:
            pages = len(records(files)) // 4 if random.random() < 0.5 else 0
            ran = run(files, scope, now, limits={"pages": pages}, **options)
        now = ran.until + random.random()
    last = run(files, ANY, now)
    assert last.end is End.FINISHED
    assert set(last.fetched) == WHOLE
