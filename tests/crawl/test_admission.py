"""Admission with little room: what is left behind comes back, nothing is lost or twice (seed 000, §3)."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from lycosa.clock import ManualClock
from lycosa.crawl.admission import Admission
from lycosa.crawl.replay import LinkPass, read_back
from lycosa.fetch.protocol import Failure, Request
from lycosa.lab import virtual
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.lab.network import Reply
from lycosa.lab.virtual import VirtualClock
from lycosa.log.reader import LogReader
from lycosa.records import Fetched
from lycosa.url.parts import host_of, path_of
from lycosa.url.scope import Scope
from tests.crawl.scripted import HOSTS, crawl, make_agent

PAGES = 60


def hub(request: Request, before: int) -> Reply | Failure:
    """Four hosts of sixty pages; each page links thirty of its own host and five of each other."""
    host, path = HOSTS.index(host_of(request.url)), path_of(request.url)
    if path == "/robots.txt":
        return Reply(b"", 404)
    page = int(path[2:] or 0) if path == "/" or path.startswith("/p") else -1
    if not 0 <= page < PAGES:
        return Reply(b"no such page", 404)
    random = Random(host * PAGES + page)
    near = [f"/p{n}" if n else "/" for n in random.sample(range(PAGES), 30)]
    near += [f"/p{n}" for n in (2 * page + 1, 2 * page + 2) if n < PAGES]  # every page can be reached
    far = [
        f"http://{name}/p{random.randrange(1, PAGES)}"
        for name in HOSTS
        for _ in range(5)
        if name != HOSTS[host]
    ]
    far += [f"http://{name}/" for name in HOSTS]
    return Reply("".join(f'<a href="{href}">to {href}</a>' for href in near + far).encode())


def truth() -> set[str]:
    pages = {f"http://{host}/p{n}" for host in HOSTS for n in range(1, PAGES)}
    return pages | {f"http://{host}/" for host in HOSTS}


def fetched(files: FaultyFiles) -> Counter[str]:
    return Counter(
        record.url
        for number in range(4)
        for _, record in LogReader(files.within(f"shards/{number:02d}/log")).scan()
        if isinstance(record, Fetched) and record.status == 200
    )


COMPLETE: list[dict[str, Any]] = [
    {"admit": "sample", "sample": 1},
    {"admit": "sample", "sample": 3},
    {"admit": "sample", "sample": 8},
    {"admit": "adaptive", "memory": 1 << 12},
    {"admit": "adaptive", "memory": 1 << 12, "sample": 2},
    {"admit": "sample", "sample": 3, "directories": 1},
]


@pytest.mark.parametrize("frontier", COMPLETE)
def test_a_bounded_crawl_fetches_what_an_unbounded_one_does(frontier: dict[str, Any]) -> None:
    files = FaultyFiles()
    run = crawl(files, answer=hub, frontier=frontier)
    found = fetched(files)
    assert set(found) == truth()
    assert set(found.values()) == {1}
    assert run.end == "finished"
    assert sum(shard.admission.returns for shard in run.agent.shards) > 0
    assert sum(len(shard.left) for shard in run.agent.shards) == 0
    assert sum(shard.admission.dropped for shard in run.agent.shards) == 0


@pytest.mark.parametrize("store", ["veuniq", "drum", "mercator"])
def test_answers_that_come_late_count_as_entered(store: str) -> None:
    files = FaultyFiles()
    crawl(files, answer=hub, frontier={"admit": "sample", "sample": 2}, seen={"store": store})
    assert fetched(files) == Counter(truth())


def test_a_truncated_crawl_drops_the_rest_and_says_how_much() -> None:
    files = FaultyFiles()
    run = crawl(files, answer=hub, frontier={"admit": "truncated", "sample": 1})
    assert set(fetched(files)) < truth()
    assert sum(shard.admission.dropped for shard in run.agent.shards) > 0
    assert all(len(shard.left) == 0 for shard in run.agent.shards)


def test_a_fixed_budget_leaves_behind_until_it_is_full_and_then_drops() -> None:
    files = FaultyFiles()
    run = crawl(files, answer=hub, frontier={"admit": "fixed", "memory": 1 << 12, "sample": 4})
    assert run.end == "finished"
    assert set(fetched(files)) <= truth()


def test_the_sample_does_not_depend_on_when_it_is_drawn() -> None:
    runs = []
    for _ in range(2):
        files = FaultyFiles()
        crawl(files, answer=hub, frontier={"admit": "sample", "sample": 2})
        runs.append(list(fetched(files)))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("frontier", [COMPLETE[0], COMPLETE[3]])
def test_a_bounded_crawl_goes_on_where_it_stopped(frontier: dict[str, Any]) -> None:
    files = FaultyFiles()
    start = 0.0
    ends = []
    for pages in (40, 90, 160, 0):
        run = crawl(files, start, answer=hub, frontier=frontier, limits={"pages": pages})
        start = run.until
        ends.append(str(run.end))
    assert ends == ["limit", "limit", "limit", "finished"]
    assert fetched(files) == Counter(truth())


@pytest.mark.parametrize("crash", range(20, 420, 40))
def test_a_bounded_crawl_survives_a_crash(crash: int) -> None:
    """What was left behind since the last snapshot is found in the log; at any operation on a file."""
    options: dict[str, Any] = {
        "frontier": {"admit": "sample", "sample": 2},
        "snapshot": {"records": 60, "seconds": 2.0},
    }
    files = FaultyFiles(crash_at=crash)
    random = Random(crash)
    for _ in range(3):
        with suppress(Crash):
            crawl(files, 1000.0, answer=hub, **options)
        files = files.restart(random, crash_at=crash if files.crashed else None)
    files = files.restart(random)
    crawl(files, 5000.0, answer=hub, **options)
    found = fetched(files)
    assert set(found) == truth() and set(found.values()) == {1}


def test_the_frontier_never_holds_more_bytes_than_it_may() -> None:
    """URLs that hardly pack, far more of them than fit; retries and what comes back are held to the limit, too."""
    pages, limit = 500, 256 << 10
    names = {n: Random(n).randbytes(90).hex() for n in range(pages)}

    def answer(request: Request, before: int) -> Reply | Failure:
        path = path_of(request.url)
        if path == "/robots.txt":
            return Reply(b"", 404)
        number = int(path[1:].partition("-")[0] or 0)
        if number % 50 == 7 and before == 0:
            return Reply(b"", 503)
        targets = [n for n in range(8 * number + 1, 8 * number + 9) if n < pages]
        targets += Random(number).sample(range(pages), 16)
        hrefs = [f"http://{host}/{n}-{names[n]}" for n in targets for host in HOSTS]
        return Reply("".join(f'<a href="{href}">x</a>' for href in hrefs).encode())

    files = FaultyFiles()
    most = [0, 0, 0]

    async def go(clock: VirtualClock) -> None:
        agent, _ = make_agent(files, clock, answer, frontier={"memory": limit})
        run = asyncio.ensure_future(agent.run())
        while not run.done():
            most[0] = max(most[0], sum(shard.frontier.nbytes for shard in agent.shards))
            most[1] = max(most[1], sum(len(shard.left) for shard in agent.shards))
            most[2] = max(most[2], sum(shard.frontier.pending for shard in agent.shards))
            await clock.sleep(0.05)
        await run

    virtual.run(go, 0.0)
    expected = {f"http://{host}/{n}-{names[n]}" for host in HOSTS for n in range(1, pages)}
    found = fetched(files)
    assert expected <= set(found) and set(found.values()) == {1}
    assert most[0] <= limit
    assert most[1] > 0, "nothing was left behind: the limit was never met"
    assert 200 * most[2] > 0.4 * limit, "the memory is there to be used"


def test_a_record_left_behind_is_read_in_a_thread_and_survives_in_a_snapshot() -> None:
    """The loop never reads a file for it; what is being fetched when the machine stops is not lost."""
    options: dict[str, Any] = {"frontier": {"admit": "sample", "sample": 1}, "commit_seconds": 0.05}
    files, caught, read = FaultyFiles(), 0, 0

    async def go(clock: VirtualClock) -> None:
        nonlocal caught, read, files
        agent, _ = make_agent(files, clock, hub, **options)
        before = files
        for shard in agent.shards:
            block_of = shard.log.reader.block_of

            def loop_reads(position: int, block_of: Any = block_of) -> Any:
                nonlocal read
                read += 1
                return block_of(position)

            shard.log.reader.block_of = loop_reads  # type: ignore[method-assign]
            fetch = shard.log.fetch

            def fetched_apart(position: int, fetch: Any = fetch) -> Any:
                nonlocal caught, files
                caught += 1
                if caught == 5:
                    save.append(asyncio.ensure_future(agent.saver.snapshot()))
                if save and save[0].done() and files is before:
                    files = before.restart(Random(1))
                return fetch(position)

            shard.log.fetch = fetched_apart  # type: ignore[method-assign]
        save: list[asyncio.Future[None]] = []
        with suppress(Crash):
            await agent.run()

    virtual.run(go, 0.0)
    assert caught > 5 and not read
    crawl(files, 1000.0, answer=hub, **options)
    assert fetched(files) == Counter(truth())


def test_what_a_merge_answered_is_put_in_slices_and_a_snapshot_in_between_has_all_of_it() -> None:
    """A large merge answers for more URLs than the loop may be held for."""
    shard = make_agent(FaultyFiles(), ManualClock(), seeds=[])[0].shards[0]
    urls = [f"http://{HOSTS[0]}/p{n}" for n in range(10)]
    shard.admission.answered((shard.keyer.key(url), f"1 0 2 {url}".encode()) for url in urls)
    assert shard.admission.put_answered(3) and shard.frontier.pending == 3
    assert shard.admission.put_answered(3) and shard.frontier.pending == 6
    pieces = {name: list(part.freeze()) for name, part in shard.parts.items()}
    again = make_agent(FaultyFiles(), ManualClock(), seeds=[])[0].shards[0]
    again.frontier.thaw(pieces["frontier"])
    assert again.frontier.pending == 10
    assert not shard.admission.put_answered(3) and shard.frontier.pending == 10


def test_the_loop_is_not_held_for_all_that_a_merge_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    files, sizes = FaultyFiles(), list[int]()
    monkeypatch.setattr("lycosa.crawl.chores.ANSWERS", 3)
    put = Admission.put_answered

    def noted(self: Admission, most: int | None = None) -> bool:
        before = self._frontier.pending
        more = put(self, most)
        sizes.append(self._frontier.pending - before)
        return more

    monkeypatch.setattr(Admission, "put_answered", noted)
    crawl(files, answer=hub, seen={"store": "veuniq"})
    assert fetched(files) == Counter(truth())
    assert max(sizes) == 3


def test_a_link_outside_is_judged_once_though_every_page_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: Counter[str] = Counter()
    inside = Scope.all_inside

    def counted(scope: Scope, urls: list[str], depth: int) -> list[bool]:
        judged.update(urls)
        return inside(scope, urls, depth)

    monkeypatch.setattr(Scope, "all_inside", counted)
    files = FaultyFiles()
    crawl(files, answer=hub, scope={"mode": "host"})  # the links to the other three hosts are outside
    assert set(fetched(files)) == {url for url in truth() if host_of(url) == HOSTS[0]}
    outside = {url: count for url, count in judged.items() if host_of(url) != HOSTS[0]}
    assert len(outside) > 50 and set(outside.values()) == {1}


DEEP = {"/": ["/a", "/slow"], "/a": ["/b"], "/b": ["/c", "http://b.test/c"]}
DEEP["/slow"] = DEEP["/b"]


def deep(request: Request, before: int) -> Reply | Failure:
    """The same links on a page at the limit of the depth, and on one above it that is read later."""
    path = path_of(request.url)
    if path == "/robots.txt":
        return Reply(b"", 404)
    if path == "/slow" and before < 2:
        return Reply(b"", 503)
    return Reply("".join(f'<a href="{href}">x</a>' for href in DEEP.get(path, [])).encode())


DEEPEST: dict[str, Any] = {"scope": {"mode": "any", "max_depth": 2}}


def test_a_link_that_was_too_deep_is_followed_where_it_is_not() -> None:
    asked = [url for _, _, url in crawl(FaultyFiles(), answer=deep, **DEEPEST).requests]
    assert asked.index("http://a.test/b") < len(asked) - 1 - asked[::-1].index("http://a.test/slow")
    assert {"http://a.test/c", "http://b.test/c"} <= set(asked)


def test_a_link_that_was_too_deep_first_is_pending_after_a_replay() -> None:
    files = FaultyFiles()
    crawl(files, answer=deep, limits={"pages": 4}, **DEEPEST)
    for shard in files.list("shards"):
        for name in files.list(f"shards/{shard}/snapshots"):
            files.remove(f"shards/{shard}/snapshots/{name}")
    asked = {url for _, _, url in crawl(files, answer=deep, **DEEPEST).requests}
    assert {"http://a.test/c", "http://b.test/c"} <= asked


def test_a_link_of_another_shard_that_was_too_deep_first_is_read_back() -> None:
    shards = crawl(FaultyFiles(), answer=deep, **DEEPEST).agent.shards
    rows = [
        row.url
        for shard in shards
        for mine in read_back(
            shard, LinkPass(shard.log.reader.files).take(shard.log.committed), range(4)
        ).rows.values()
        for row in mine
    ]
    assert rows == ["http://b.test/c"]
