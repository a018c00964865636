"""A crawl that comes back: whole runs on virtual time, of a web that changes."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from lycosa.archive.reader import read_exchange
from lycosa.clock import ManualClock, milliseconds
from lycosa.crawl import scheduling
from lycosa.crawl.agent import Agent, End
from lycosa.crawl.refreshing import Refreshing
from lycosa.crawl.shard import Shard
from lycosa.crawl.underway import NAME, Underway
from lycosa.fetch.protocol import Failure, FailureKind, Request
from lycosa.files import DiskFiles, Files
from lycosa.frontier import Calendar
from lycosa.frontier.orders.order import DepthOrder
from lycosa.lab import virtual
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.lab.network import Reply, ScriptedFetcher
from lycosa.lab.virtual import VirtualClock
from lycosa.log.reader import LogReader
from lycosa.pages.summary import Summary, joined, of_fetch
from lycosa.records import Before, Deferred, Fetched, Record, Skipped, Waiting, Why
from lycosa.refresh.options import RefreshOptions
from lycosa.url.parts import path_of
from tests.crawl.scripted import make_agent

SEED = "http://a.test/"
DAY = 86_400.0
PROSE = "This paragraph is long enough to count as main text of the page, and it says the same thing {}."
NAMES = ("still", "news", "gone", "tagged")


@pytest.fixture(autouse=True)
def long_naps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual day is a hundred turns of the loop, and not ten thousand."""
    monkeypatch.setattr(scheduling, "IDLE", 900.0)


class ChangingWeb:
    """Pages of one site: each says what its clock and its counter make of it."""

    def __init__(self) -> None:
        self.clock: VirtualClock | None = None
        self.asked: Counter[str] = Counter()
        self.conditional: Counter[str] = Counter()
        self.down: Callable[[float], bool] = lambda day: False

    def __call__(self, request: Request, before: int) -> Reply | Failure:
        assert self.clock is not None
        day, path = self.clock.monotonic() / DAY, path_of(request.url)
        if self.down(day):
            return Failure(FailureKind.CONNECT, "nobody is there")
        if path == "/robots.txt":
            return Reply(b"", 404)
        self.asked[path] += 1
        self.conditional[path] += bool(request.etag)
        # A nonce in every answer: the bytes always differ, what they say does not.
        nonce = f"<script>var nonce = '{self.asked[path]:08x}'</script>"
        if path == "/gone" and day > 1:
            return Reply(b"no more", 404)
        if path == "/tagged":
            tag = f'"v{int(day / 4)}"'
            if request.etag == tag:
                return Reply(b"", 304, (("ETag", tag),))
            return self._page("tagged", int(day / 4), "", (("ETag", tag),))
        if path == "/news":
            return self._page("news", int(day * 4), nonce)
        links = "".join(f'<a href="/{name}">{name}</a>' for name in NAMES)
        return self._page(path, 0, nonce + links)

    @staticmethod
    def _page(name: str, version: int, more: str, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
        words = PROSE.format(f"{name} version {'abcdefghijklmnopqrstuvwxyz'[version % 26]} of many words")
        body = f"<html><title>{name}</title><body><p>{words}</p>{more}</body></html>"
        return Reply(body.encode(), 200, (("Content-Type", "text/html; charset=utf-8"), *headers))


def come_back(
    files: Files,
    web: ChangingWeb,
    days: float,
    start: float = 0.0,
    seeds: list[str] | None = None,
    **options: Any,
) -> tuple[End, Agent, ScriptedFetcher, float]:
    """A continuous run of so many days."""
    given: dict[str, Any] = {
        "refresh": {"continuous": True, "per_page": 2.0},
        "limits": {"seconds": days * DAY},
        "commit_seconds": 900.0,
        "politeness": {"wait": 1.0, "address_wait": 0.05},
        "robots": {"attempts": 1},
        **options,
    }

    async def go(clock: VirtualClock) -> tuple[End, Agent, ScriptedFetcher, float]:
        web.clock = clock
        agent, fetcher = make_agent(files, clock, web, [SEED] if seeds is None else seeds, **given)
        return await agent.run(), agent, fetcher, clock.monotonic()

    return virtual.run(go, start)


def records(files: Files) -> list[Record]:
    return [
        row for number in range(4) for _, row in LogReader(files.within(f"shards/{number:02d}/log")).scan()
    ]


def test_pages_are_come_back_to_and_those_that_change_more_often() -> None:
    web, files = ChangingWeb(), FaultyFiles()
    end, agent, _, _ = come_back(files, web, 8)
    assert end is End.LIMIT
    asked = web.asked
    assert asked["/news"] > 2 * asked["/still"] > 2, asked
    totals = agent.totals()
    assert (totals.pages, totals.fetched) == (5, sum(asked.values()))
    rate = totals.again / 5 / 8
    assert 1.0 < rate < 2.4, "about as many fetches as the budget has"
    rows = records(files)
    for url in ("still", "news"):
        mine = [row for row in rows if getattr(row, "url", "") == SEED + url]
        fetches = [row for row in mine if isinstance(row, Fetched)]
        assert [row.before for row in fetches] == [Before.NEVER] + [Before.PAGE] * (len(fetches) - 1)
        assert not any(row.duplicate for row in fetches)
        changes = sum(a.content != b.content for a, b in pairwise(fetches))
        assert changes == 0 if url == "still" else changes > 8
        dues = [row for row in mine if isinstance(row, Deferred) and row.why is Why.REFRESH]
        assert len(dues) == len(fetches) and all(row.before is Before.PAGE for row in dues)


def fetches_of(files: Files, path: str) -> list[Fetched]:
    return [row for row in records(files) if isinstance(row, Fetched) and row.url == SEED + path]


def test_a_page_that_says_it_has_not_changed_is_a_revisit_and_keeps_its_links() -> None:
    web, files = ChangingWeb(), FaultyFiles()
    _, agent, _, _ = come_back(files, web, 9)
    rows = fetches_of(files, "tagged")
    confirmed = [row for row in rows if row.status == 304]
    assert web.conditional["/tagged"] == len(rows) - 1 and confirmed
    first = rows[0]
    assert first.stored is not None and first.body is None
    for row in rows[1:]:
        before = next(old for old in reversed(rows[: rows.index(row)]) if old.status == 200)
        if row.status == 304:
            assert (row.digest, row.content, row.body) == (before.digest, before.content, before.stored)
            assert row.stored is not None
            exchange = read_exchange(files.within("archive"), row.stored)
            assert exchange.kind == "revisit" and not exchange.body
        else:
            assert row.content != before.content, "a new version every four days"
    shard = max(agent.shards, key=lambda each: each.totals.fetched)
    found = shard.pages.find(shard.keyer.key(SEED + "tagged"))
    assert found is not None and (found.fetches, found.changes) == (len(rows), len(rows) - 1 - len(confirmed))


def test_the_same_bytes_once_more_are_a_revisit() -> None:
    def answer(self: ChangingWeb, request: Request, before: int) -> Reply:
        if path_of(request.url) == "/robots.txt":
            return Reply(b"", 404)
        return Reply(b"<p>" + PROSE.encode() + b'<a href="/x">x</a>')

    web, files = type("Same", (ChangingWeb,), {"__call__": answer})(), FaultyFiles()
    come_back(files, web, 6)
    first, *rest = fetches_of(files, "")
    assert rest
    for row in rest:
        assert row.links == first.links and row.body == first.stored and row.stored is not None
        assert read_exchange(files.within("archive"), row.stored).kind == "revisit"
        assert not row.duplicate


def test_what_a_page_said_before_is_no_duplicate_of_itself() -> None:
    """A, B, A: the third is known, but from the page itself."""
    turn = Counter[str]()

    def answer(self: ChangingWeb, request: Request, before: int) -> Reply:
        path = path_of(request.url)
        if path == "/robots.txt":
            return Reply(b"", 404)
        turn[path] += 1
        return Reply(PROSE.format("odd" if turn[path] % 2 else "even and quite other").encode())

    web, files = type("Turning", (ChangingWeb,), {"__call__": answer})(), FaultyFiles()
    come_back(files, web, 4)
    rows = fetches_of(files, "")
    assert len({row.digest for row in rows}) == 2 and len(rows) > 3
    assert not any(row.duplicate for row in rows)


def test_what_is_gone_comes_back_ever_more_rarely() -> None:
    web, files = ChangingWeb(), FaultyFiles()
    come_back(files, web, 24)
    gone = [row.at / 1000 / DAY for row in fetches_of(files, "gone") if row.status == 404]
    waits = [b - a for a, b in pairwise(gone)]
    assert 3 <= len(waits) <= 7 and waits[-1] > 2 * waits[0], waits


def test_a_host_that_dies_costs_next_to_nothing_and_may_live_again() -> None:
    web, files = ChangingWeb(), FaultyFiles()
    web.down = lambda day: 2 < day < 14
    _, _, fetcher, _ = come_back(files, web, 24, retry={"attempts": 1})
    dead = [start / DAY for start, _, _ in fetcher.requests if 2 < start / DAY < 14]
    assert 3 < len(dead) < 30, len(dead)
    assert not any(getattr(row, "why", None) is Why.FAILED for row in records(files)), "none is given up"
    for name in ("still", "news", "tagged"):
        assert any(row.at / 1000 - 1_700_000_000 > 14 * DAY for row in fetches_of(files, name)), name


def test_an_existing_crawl_becomes_continuous_and_stops_being_so() -> None:
    web, files = ChangingWeb(), FaultyFiles()
    once = {"refresh": {"continuous": False}, "limits": {}}
    end, agent, _, now = come_back(files, web, 0, **once)
    assert end is End.FINISHED and sum(web.asked.values()) == 5
    assert not any(
        row.weight or row.content or row.previous for row in records(files) if isinstance(row, Fetched)
    )
    assert not any(len(shard.revisits) for shard in agent.shards)
    end, agent, _, now = come_back(files, web, 5, now + DAY)
    assert end is End.LIMIT
    assert all(web.asked[f"/{name}"] > 1 for name in ("", *NAMES)), web.asked
    assert sum(len(shard.revisits) for shard in agent.shards) == 5
    told, asked = len(records(files)), dict(web.asked)
    end, _, _, now = come_back(files, web, 0, now + DAY, **once)
    assert end is End.FINISHED and asked == web.asked
    assert len(records(files)) == told + 4, "but for the options of four shards nothing was logged"
    _, agent, _, _ = come_back(files, web, 5, now + DAY)
    assert sum(len(shard.revisits) for shard in agent.shards) == 5
    assert all(web.asked[f"/{name}"] > asked[f"/{name}"] for name in NAMES if name != "gone"), web.asked


def test_a_limit_of_pages_bounds_the_collection_and_not_the_crawl() -> None:
    web, files = ChangingWeb(), FaultyFiles()
    end, agent, _, _ = come_back(files, web, 2, limits={"pages": 3, "seconds": 2 * DAY})
    assert end is End.LIMIT and agent.totals().pages == 3
    assert agent.totals().again > 3


def test_a_budget_is_shared_between_new_and_known_pages() -> None:
    web, files = ChangingWeb(), FaultyFiles()
    _, agent, _, _ = come_back(files, web, 10, refresh={"continuous": True, "fetches": 6.0})
    totals = agent.totals()
    assert totals.pages == 5
    assert 35 <= totals.fetched <= 66, "six a day, and what new pages do not use known ones have"


@pytest.mark.parametrize("others", [{}, {"visits": 7}])
def test_a_fetch_that_a_crash_left_without_its_due_time_gets_one(others: dict[str, Any]) -> None:
    web, files = ChangingWeb(), FaultyFiles()
    _, _, _, now = come_back(files, web, 1)

    async def leave(clock: VirtualClock) -> None:
        web.clock = clock
        agent, _ = make_agent(files, clock, web, [], **_continuous(1))
        shard = max(agent.shards, key=lambda each: each.totals.fetched)
        old = next(row for _, row in shard.log.reader.scan() if isinstance(row, Fetched))
        shard.append(msgspec.structs.replace(old, url=SEED + "new", at=old.at + 5))
        shard.log.commit()

    async def look(clock: VirtualClock) -> None:
        web.clock = clock
        agent, _ = make_agent(files, clock, web, [], **{**_continuous(1), **others})
        assert SEED + "new" in [url for shard in agent.shards for url in _entries(shard.revisits)]

    virtual.run(leave, now)
    virtual.run(look, now + 1)


@pytest.mark.parametrize("released", [False, True])
def test_a_known_page_that_was_being_read_at_a_kill_is_come_back_to(released: bool, tmp_path: Path) -> None:
    """Its blame takes it from the revisits into the calendar of retries, and from there into the frontier."""
    web, files, url = ChangingWeb(), DiskFiles(tmp_path), SEED + "still"
    _, _, _, now = come_back(files, web, 1)
    asked = web.asked["/still"]

    async def look(clock: VirtualClock) -> None:
        Underway(tmp_path / NAME).begin(Waiting(url, 0, 1, 0, 0, Before.PAGE), milliseconds(clock))
        agent, _ = make_agent(files, clock, web, [], **_continuous(1))
        if released:  # a snapshot has it pending, and the process ends before it is asked
            for shard in agent.shards:
                shard.release_due(milliseconds(clock))
            await agent.saver.snapshot()
            agent, _ = make_agent(files, clock, web, [], **_continuous(1))
        shard = agent.shards.of_url(url)
        assert shard is not None and len(shard.calendar) == (not released)
        assert shard.frontier.pending == released and len(shard.revisits) == 4
        check_folds(agent)

    virtual.run(look, now + 60)
    come_back(files, web, 1, now + 120)
    assert web.asked["/still"] > asked
    mine = [row for row in records(files) if getattr(row, "url", "") == url]
    tried = next(row for row, each in enumerate(mine) if getattr(each, "why", None) is Why.POISON)
    assert [type(row) for row in mine[tried : tried + 3]] == [Deferred, Fetched, Deferred]


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))]
)
def test_due_times_and_histories_outlive_power_cuts(seed: int) -> None:
    """Cut off at a random moment, again and again: what is recovered is what the log says."""
    random = Random(seed)
    web, files, now = ChangingWeb(), FaultyFiles(), 0.0
    for _ in range(4):
        files, now = _cut_short(files, web, now, random)

    async def look(clock: VirtualClock) -> None:
        web.clock = clock
        agent, _ = make_agent(files, clock, web, [], **_continuous(1))
        check_folds(agent)

    virtual.run(look, now)
    assert sum(web.asked.values()) > 12


def check_folds(agent: Agent) -> None:
    """Histories and due times of an agent that was just recovered are those of its log."""
    for shard in agent.shards:
        shard.log.commit()  # recovery logs, too: a due time that was missing, a page that was being read
        last: dict[str, Record] = {}
        pages: dict[str, Summary] = {}
        for position, row in shard.log.reader.scan():
            if isinstance(row, Fetched | Deferred | Skipped) and row.url:
                last[row.url] = row
            if isinstance(row, Fetched):
                new = of_fetch(row, position)
                pages[row.url] = joined(pages[row.url], new) if row.url in pages else new
        for url, summary in pages.items():
            assert shard.pages.find(shard.keyer.key(url)) == summary
        waiting = Counter(_entries(shard.revisits))
        retried = [row.url for row in _all_of(shard.calendar) if row.before is Before.PAGE]
        pending = {
            item.url for item in _pending(shard) if item.before is Before.PAGE
        }  # released, not yet asked
        due = {url for url, row in last.items() if isinstance(row, Deferred) and row.before is Before.PAGE}
        assert {*waiting, *retried, *pending} == due
        assert set(waiting.values()) <= {1} and not pending.intersection(retried)
        assert not waiting.keys() & set(retried), "a page is waited for in one place"
        left = [url for url, row in last.items() if isinstance(row, Fetched)]
        assert not left, "what a crash left without a due time got one"


def _pending(shard: Shard) -> Iterator[Waiting]:
    while (host := shard.frontier.begin(math.inf)) is not None:
        while (item := shard.frontier.take(host)) is not None:
            yield item


def _entries(calendar: Calendar) -> list[str]:
    """The URLs that wait in a calendar."""
    return [row.url for row in _all_of(calendar)]


def _all_of(calendar: Calendar) -> list[Deferred]:
    found = calendar.due(1 << 60, 10_000)
    while more := calendar.due(1 << 60, 10_000):
        found += more
    return found


def _cut_short(files: FaultyFiles, web: ChangingWeb, now: float, random: Random) -> tuple[FaultyFiles, float]:
    """Crawl for some days and stop in the middle of a file operation."""
    files = files.restart(random, random.randrange(100, 900))

    async def go(clock: VirtualClock) -> None:
        web.clock = clock
        agent, _ = make_agent(files, clock, web, [SEED], **_continuous(6))
        await agent.run()

    loop = virtual.VirtualLoop(now)
    with contextlib.suppress(Crash):
        virtual.run(go, loop=loop)
    return files.restart(random), loop.time() + 60


def _continuous(days: float) -> dict[str, Any]:
    return {
        "refresh": {"continuous": True, "per_page": 2.0},
        "limits": {"seconds": days * DAY},
        "commit_seconds": 600.0,
        "snapshot": {"records": 12},
        "politeness": {"wait": 1.0, "address_wait": 0.05},
    }


def test_the_live_figures_of_agents_add_up() -> None:
    _, agent, _, _ = come_back(FaultyFiles(), ChangingWeb(), 2)
    meters = agent.read_meters()
    assert meters["refresh.pages"] == meters["refresh.waiting"] == 5
    for name in ("fresh", "plain"):
        assert 0.3 < meters[f"refresh.{name}"] / 5 < 1.0
    assert 0 < meters["refresh.variance"] ** 0.5 / 5 < 1 and meters["refresh.age"] > 0
    assert 5 < meters["refresh.asked"] * DAY < 15, "about two fetches a page and day"


def test_the_price_of_a_small_crawl_is_not_moved_by_two_fetches() -> None:
    """How many of the available fetches were made counts once there were a hundred of them."""
    clock, rate = ManualClock(), 1 / 600
    refreshing = Refreshing(RefreshOptions(continuous=True), [], DepthOrder(), clock)
    for _ in range(99):
        clock.advance(600)
        assert refreshing._steered(rate) == rate
    clock.advance(700)
    assert refreshing._steered(rate) == pytest.approx(1.1 * rate), "none of a hundred was made"
    clock.advance(600)
    assert refreshing._steered(rate) == pytest.approx(1.1 * rate)
