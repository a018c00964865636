"""Crash safety: whatever operation on a file the machine stops at, the next run makes the crawl whole.

The disk of these tests also drops and reorders what was not synced, which SIGKILL alone never does.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from lycosa.archive.reader import leftovers, scan
from lycosa.crawl import agent as agents
from lycosa.crawl.agent import Agent, End
from lycosa.lab import virtual
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.lab.network import ScriptedFetcher
from lycosa.lab.virtual import VirtualClock
from lycosa.log.reader import LogReader
from lycosa.pages.packed import PackedPages
from lycosa.pages.plain import PlainPages
from lycosa.pages.rows import ROW_BYTES
from lycosa.pages.summary import of_fetch
from lycosa.records import Fetched, Robots, Skipped
from lycosa.url.domains import Domains
from lycosa.url.parts import host_of
from tests.crawl import scripted
from tests.crawl.scripted import OPTIONS, crawl, expected, make_agent

HOSTS = ("a.test", "b.test", "www.d.test")


@pytest.fixture(autouse=True)
def small_crawls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two shards, few hosts and pages, for there are hundreds of crawls; page tables that go to files after a few
    pages, and merge them."""
    monkeypatch.setattr(scripted, "SHARDS", 2)
    monkeypatch.setattr(scripted, "PAGES", 3)
    monkeypatch.setattr(scripted, "HOSTS", HOSTS)
    monkeypatch.setattr(
        agents, "PackedPages", lambda files, memory: PackedPages(files, memory=4 * ROW_BYTES, recent=3)
    )


# Small segments, WARC files and snapshots, so that a short crawl rotates and snapshots several times.
BUSY = {"snapshot": {"records": 40, "seconds": 2.0}, "archive": {"rotate_bytes": 4_000}}


def fetched(files: FaultyFiles) -> Counter[str]:
    """How often each URL is in the committed log."""
    counts: Counter[str] = Counter()
    for number in range(scripted.SHARDS):
        log = LogReader(files.within(f"shards/{number:02d}/log"))
        counts.update(record.url for _, record in log.scan() if isinstance(record, Fetched | Skipped))
    return counts


def archived(files: FaultyFiles) -> Counter[str]:
    """How often each URL's response is in the archive; raises at a torn record."""
    place = files.within("archive")
    return Counter(
        found.record.fields["warc-target-uri"].strip("<>")
        for name in place.list("")
        if name.endswith(".warc.gz")
        for found in scan(place, name)
        if found.record.kind == "response"
    )


class Attempt:
    """One run that may crash."""

    def __init__(self, files: FaultyFiles, start: float, store: str = "auto") -> None:
        self.fetcher: ScriptedFetcher | None = None
        self.until = start
        self.end: End | None = None
        self.agent: Agent | None = None

        async def go(clock: VirtualClock) -> End:
            try:
                self.agent, self.fetcher = make_agent(files, clock, seen={"store": store}, **BUSY)
                return await self.agent.run()
            finally:
                self.until = clock.monotonic()

        try:
            self.end = virtual.run(go, start)
        except Crash:
            assert files.crashed

    @property
    def requests(self) -> list[tuple[float, float, str]]:
        return self.fetcher.requests if self.fetcher else []


def check_politeness(requests: list[tuple[float, float, str]]) -> None:
    """Never two requests at a host at once, and the wait between visits kept; robots files included."""
    wait, most = OPTIONS["politeness"]["wait"], 8
    by_host: dict[str, list[tuple[float, float]]] = {}
    for start, end, url in sorted(requests):
        by_host.setdefault(host_of(url), []).append((start, end))
    for host, spans in by_host.items():
        run = 1
        for (_, end), (start, _) in pairwise(spans):
            assert start >= end, f"two requests at {host} at once"
            if start - end >= wait - 1e-6:
                run = 1
            else:
                run += 1
                assert run <= most + 1, f"more than {most} requests in one visit of {host}"
                assert start - end < 0.02, f"{host} asked {start - end:.3f} s after a visit"


def check_page_tables(attempt: Attempt) -> None:
    """What the tables know is what the logs say."""
    assert attempt.agent is not None
    for shard in attempt.agent.shards:
        expected = PlainPages()
        for position, record in shard.log.reader.scan():
            if isinstance(record, Fetched):
                expected.note(shard.keyer.key(record.url), of_fetch(record, position))
        assert list(shard.pages.items()) == list(expected.items())


def steps_of_a_whole_crawl() -> int:
    files = FaultyFiles()
    ran = crawl(files, **BUSY)
    assert ran.end is End.FINISHED
    assert all(shard.totals.fetched > 5 for shard in ran.agent.shards), "both shards must have their share"
    assert len(files.list("archive")) > 2, "and archives be rotated"
    return files.steps


@pytest.mark.parametrize("part", range(4))
def test_a_crash_at_every_file_operation_loses_nothing(part: int) -> None:
    total = steps_of_a_whole_crawl()
    assert total > 150, "the crawl must write enough to be worth crashing"
    for crash_at in range(1 + part, total + 1, 4):
        check_crash(crash_at, Random(crash_at))


def check_crash(crash_at: int, random: Random) -> None:
    files = FaultyFiles(crash_at)
    first = Attempt(files, 0.0)
    files = files.restart(random)
    before = fetched(files)
    second = Attempt(files, first.until + random.random())
    assert second.end is End.FINISHED, f"crash at step {crash_at}"
    after = fetched(files)
    assert set(after) - {url for url in after if "secret" in url or "nowhere" in url} == expected() - {
        url for url in expected() if "secret" in url
    }
    assert max(after.values()) == 1, f"logged twice: {after.most_common(3)}"
    again = {url for _, _, url in second.requests} & set(before)
    assert not again, f"fetched again although logged: {again}"
    pages = {url: n for url, n in archived(files).items() if not url.endswith("/robots.txt")}
    assert set(pages) == expected(), "the archive has every page"
    assert max(pages.values()) == 1, "and each once"
    check_politeness([*first.requests, *second.requests])
    check_page_tables(second)


@pytest.mark.parametrize("store", ["auto", "veuniq", "drum"])
@pytest.mark.parametrize("seed", range(4))
def test_many_crashes_in_a_row(seed: int, store: str) -> None:
    random = Random(seed)
    files = FaultyFiles(random.randint(20, 120))
    requests: list[tuple[float, float, str]] = []
    now = 0.0
    for _ in range(60):
        attempt = Attempt(files, now, store)
        requests += attempt.requests
        now = attempt.until + random.random()
        if attempt.end is End.FINISHED:
            break
        files = files.restart(random, crash_at=random.randint(20, 200))
    else:
        files = files.restart(random)
        attempt = Attempt(files, now, store)
        requests += attempt.requests
    assert attempt.end is End.FINISHED
    counts = fetched(files)
    assert expected() <= set(counts)
    assert max(counts.values()) == 1
    check_politeness(requests)
    check_page_tables(attempt)


def test_what_a_cut_commit_left_in_the_archive_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive is durable, some logs are, others are not: their exchanges lie between others that count."""
    monkeypatch.setattr(Domains, "bundled_list", staticmethod(lambda: b"com\n"))
    seldom = {"commit_seconds": 5.0, "snapshot": {"records": 10_000, "seconds": 600.0}}
    whole = FaultyFiles()
    assert crawl(whole, **seldom).end is End.FINISHED
    left = 0
    for crash_at in range(4, whole.steps, 4):
        files = FaultyFiles(crash_at)
        with contextlib.suppress(Crash):
            crawl(files, **seldom)
        files = files.restart(Random(crash_at))
        assert crawl(files, 1000.0, **seldom).end is End.FINISHED
        spans: dict[str, list[tuple[int, int]]] = {}
        for number in range(scripted.SHARDS):
            for _, record in LogReader(files.within(f"shards/{number:02d}/log")).scan():
                place = record.stored if isinstance(record, Fetched | Robots) else None
                if place is not None:
                    spans.setdefault(place.file, []).append((place.offset, place.offset + place.length))
        counts = archived(files)
        for name in spans:
            for row in leftovers(files.within("archive"), name, spans[name]):
                if row.record.kind == "response":
                    counts[row.record.url] -= 1
                    left += 1
        assert max(counts.values()) == 1, counts.most_common(3)
    assert left, "no commit was cut between two logs: the test shows nothing"
