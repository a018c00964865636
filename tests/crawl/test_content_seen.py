"""Traps in a whole crawl: quarantine, tests, release; the same fold after a crash and by either way of replay."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from lycosa.ask.explain import as_plain, explain
from lycosa.ask.reading import CrawlReader
from lycosa.ask.report import make_report
from lycosa.cli.explain import tell
from lycosa.content.yields import Yields
from lycosa.crawl.agent import End
from lycosa.crawl.shard import Shard
from lycosa.fetch.protocol import Failure, Request
from lycosa.files import DiskFiles, Files
from lycosa.lab import virtual
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.lab.network import Reply, Script
from lycosa.lab.virtual import VirtualClock
from lycosa.log.reader import LogReader
from lycosa.records import Deferred, Fetched, Learned, Record, Skipped, Why
from lycosa.url.parts import path_of
from tests.crawl.scripted import Run, crawl, make_agent

SHARDS = 4
TRAP = "http://a.test/t?q"
REAL = 6
NEWS = 2000
"""From this number on the pages of the trap are not alike, in a site that has changed."""
BUSY: dict[str, Any] = {
    "snapshot": {"records": 30, "seconds": 2.0},
    "archive": {"keep": False},
    "traps": {"quarantine": True},
}


def text(*parts: object) -> str:
    """Words that only these parts have."""
    random = Random(repr(parts))
    return " ".join("".join(random.choices("abcdefghij", k=6)) for _ in range(40))


def page(body: str, *links: str) -> Reply:
    anchors = "".join(f'<a href="{each}">x</a>' for each in links)
    return Reply(f"<p>{body}</p>{anchors}".encode())


def site(alike: bool = True) -> Script:
    """A home page, some real pages, and /t?q=n, each of which links to three more."""

    def script(request: Request, before: int) -> Reply | Failure:
        path = path_of(request.url)
        if path == "/robots.txt":
            return Reply(b"", 404)
        if path.startswith("/t?q="):
            number = int(path[5:])
            own = () if alike and number < NEWS else (number,)
            links = [f"/t?q={3 * number + n}" for n in (1, 2, 3)] if number < NEWS else []
            return page(text("trap", *own), *links)
        number = int(path[2:] or 0)
        links = [f"/p{n}" for n in range(1, REAL)] + ["/t?q=1"] if not number else []
        return page(text("real", number), *links)

    return script


def records(files: Files) -> list[Record]:
    return [
        record
        for number in range(SHARDS)
        for _, record in LogReader(files.within(f"shards/{number:02d}/log")).scan()
    ]


def run(files: Files, start: float = 0.0, alike: bool = True, **options: Any) -> Run:
    traps = {**BUSY["traps"], **options.pop("traps", {})}
    return crawl(files, start, site(alike), ["http://a.test/"], **{**BUSY, **options, "traps": traps})


def test_a_trap_is_quarantined_and_the_log_says_so(tmp_path: Path) -> None:
    ran = run(DiskFiles(tmp_path))
    assert ran.end is End.FINISHED
    rows = records(DiskFiles(tmp_path))
    fetched = [row for row in rows if isinstance(row, Fetched)]
    trapped = [row for row in fetched if "/t?" in row.url]
    assert len([row for row in fetched if "/t?" not in row.url]) == REAL
    assert 12 <= len(trapped) <= 24, "two nobody looked at, one that was new, a dozen in a row, and tests"
    (learned,) = [row for row in rows if isinstance(row, Learned)]
    assert (learned.subject, learned.holds) == (TRAP, True)
    held = [row for row in rows if isinstance(row, Skipped)]
    assert len(held) >= 8 and {row.why for row in held} == {Why.TRAP}
    found = explain(CrawlReader(tmp_path), held[0].url)
    assert found.state == "skipped"
    assert found.why == f"trap: {TRAP} is quarantined: {learned.why}"
    assert [row["subject"] for row in as_plain(found)["learned"]] == [TRAP]
    lines = tell(found, 0.0)
    assert [line for line in lines if line.startswith("learned ") and "quarantined" in line]
    assert sum("evidence: http://a.test/t?q=" in line for line in lines) == 3
    report = make_report(CrawlReader(tmp_path), at=1)
    assert (report.traps.quarantined, report.traps.released, report.traps.urls) == (1, 0, len(held))
    assert report.traps.largest[0].pattern == TRAP and report.traps.largest[0].skipped == len(held)


def test_broken_links_are_no_trap_unless_they_lead_to_more() -> None:
    def script(leading: bool) -> Script:
        def answer(request: Request, before: int) -> Reply | Failure:
            path = path_of(request.url)
            if path == "/":
                return page(text("home"), *(f"/gone/{n}" for n in range(60)))
            more = f'<a href="{path}1">more</a>' if leading and path != "/robots.txt" else ""
            return Reply(f"<p>{text('gone')}</p>{more}".encode(), 404)

        return answer

    for leading in (False, True):
        files = FaultyFiles()
        crawl(files, 0.0, script(leading), ["http://a.test/"], **BUSY, limits={"pages": 100})
        rows = records(files)
        assert any(isinstance(row, Learned) for row in rows) == leading
        assert (sum(isinstance(row, Fetched) for row in rows) == 61) == (not leading)


def test_off_means_off() -> None:
    files = FaultyFiles()
    run(files, traps={"quarantine": False}, limits={"pages": 60})
    rows = records(files)
    assert sum(isinstance(row, Fetched) for row in rows) == 60
    assert not any(isinstance(row, Learned) for row in rows)
    assert not any(row.gain for row in rows if isinstance(row, Fetched))


def test_a_pattern_released_by_hand_is_fetched_after_all() -> None:
    files = FaultyFiles()
    first = run(files)
    held = {row.url for row in records(files) if isinstance(row, Skipped)}
    second = run(files, first.until, traps={"release": [TRAP]}, limits={"pages": 600})
    assert second.end in (End.LIMIT, End.FINISHED)
    fetched = Counter(row.url for row in records(files) if isinstance(row, Fetched))
    assert held <= set(fetched)
    assert max(fetched.values()) == 1
    released = [row for row in records(files) if isinstance(row, Deferred) and row.why is Why.TRAP]
    assert {row.url for row in released} == held
    (report,) = {row.subject for row in records(files) if isinstance(row, Learned)}
    assert report == TRAP


def test_a_pattern_that_pays_again_is_released_by_its_tests() -> None:
    """The site has changed: what is found from now on is new."""
    files = FaultyFiles()
    first = run(files)
    held = {row.url for row in records(files) if isinstance(row, Skipped)}
    more = [f"http://a.test/t?q={number}" for number in range(NEWS, NEWS + 60)]
    second = crawl(files, first.until, linking(more), ["http://a.test/", "http://a.test/p77"], **BUSY)
    assert second.end is End.FINISHED
    rows = records(files)
    learned = [row for row in rows if isinstance(row, Learned)]
    assert [row.holds for row in learned][:2] == [True, False]
    assert learned[1].why.startswith("2 tests in a row gave something new")
    fetched = Counter(row.url for row in rows if isinstance(row, Fetched))
    assert set(more) <= set(fetched)
    returned = {row.url for row in rows if isinstance(row, Deferred) and row.why is Why.TRAP}
    assert held <= returned and held & set(fetched)
    assert max(fetched.values()) == 1


def linking(urls: list[str]) -> Script:
    """The site with one page more, which links to these."""
    inner = site()

    def script(request: Request, before: int) -> Reply | Failure:
        if path_of(request.url) == "/p77":
            return page(text("more"), *urls)
        return inner(request, before)

    return script


def folded(files: Files, number: int, shard: Shard) -> Yields:
    """The fold over a shard's log alone."""
    yields, pages = Yields(), Counter[str]()
    for position, record in LogReader(files.within(f"shards/{number:02d}/log")).scan():
        if isinstance(record, Fetched):
            yields.note_fetch(record.url, record.gain, "a.test", not pages["a"])
            pages["a"] += 1
        elif isinstance(record, Skipped) and record.why is Why.TRAP:
            yields.note_held(record.detail.partition(" ")[0])
        elif isinstance(record, Learned):
            yields.note_learned(record.subject, record.holds, record.why, record.examples, position)
    yields.returning = shard.yields.returning
    return yields


def state(yields: Yields) -> list[Any]:
    return [msgspec.msgpack.decode(piece) for piece in yields.freeze()]


@pytest.mark.parametrize("part", range(3))
def test_a_crash_anywhere_leaves_the_fold_that_the_log_says(part: int) -> None:
    whole = FaultyFiles()
    run(whole)
    for crash_at in range(10 + 9 * part, whole.steps, 27):
        files = FaultyFiles(crash_at)
        random = Random(crash_at)
        until = 0.0

        async def go(clock: VirtualClock, files: FaultyFiles = files) -> float:
            agent, _ = make_agent(files, clock, site(), ["http://a.test/"], **BUSY)
            await agent.run()
            return clock.monotonic()

        try:
            until = virtual.run(go, 0.0)
        except Crash:
            until = 100.0
        files = files.restart(random)
        second = run(files, until + 1.0)
        assert second.end is End.FINISHED
        rows = records(files)
        counts = Counter(row.url for row in rows if isinstance(row, Fetched | Skipped))
        assert max(counts.values()) == 1, f"crash at {crash_at}"
        fetched = {row.url for row in rows if isinstance(row, Fetched)}
        assert {f"http://a.test/p{n}" for n in range(1, REAL)} <= fetched
        assert len(fetched) <= REAL + 45, "a restart forgets what was said, and not what was learned"
        assert [row.subject for row in rows if isinstance(row, Learned)] == [TRAP]
        for shard in second.agent.shards:
            assert state(shard.yields) == state(folded(files, shard.number, shard))


@pytest.mark.parametrize("plain", [False, True])
def test_both_ways_of_replay_end_in_the_same_fold(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FaultyFiles()
    first = run(files, snapshot={"records": 10**9, "seconds": 10**9})
    live = {shard.number: state(shard.yields) for shard in first.agent.shards}
    for name in files.list("shards"):
        for each in files.within(f"shards/{name}/snapshots").list(""):
            files.within(f"shards/{name}/snapshots").remove(each)
    if plain:
        monkeypatch.setattr("lycosa.crawl.saving.replay", lambda shard, start: shard.replay(start))

    async def open_again(clock: VirtualClock) -> dict[int, list[Any]]:
        agent, _ = make_agent(files, clock, site(), [], **BUSY)
        return {shard.number: state(shard.yields) for shard in agent.shards}

    assert virtual.run(open_again, first.until) == live


@pytest.mark.parametrize("breeding", [False, True])
def test_a_manual_of_pages_that_are_nearly_alike_is_no_trap(breeding: bool) -> None:
    """An index leads to 200 pages that differ in their own name; as a trap each would lead to the next."""

    def script(request: Request, before: int) -> Reply | Failure:
        path = path_of(request.url)
        if path == "/":
            return (
                page(text("home"), "/fn/1.html")
                if breeding
                else page(text("home"), *(f"/fn/{n}.html" for n in range(1, 201)))
            )
        if path == "/robots.txt":
            return Reply(b"", 404)
        number = int(path.removeprefix("/fn/").removesuffix(".html"))
        more = (f"/fn/{number + 1}.html",) if breeding else ("/", f"/fn/{number % 200 + 1}.html")
        return page(f"{text('fn')} {number}", *more)

    files = FaultyFiles()
    crawl(files, 0.0, script, ["http://a.test/"], **BUSY, limits={"pages": 300})
    rows = records(files)
    fetched = sum(isinstance(row, Fetched) for row in rows)
    assert any(isinstance(row, Learned) for row in rows) == breeding
    assert fetched < 40 if breeding else fetched == 201
