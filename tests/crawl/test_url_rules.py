"""Learned rules about URLs in a whole crawl: applied, explained, withdrawn; the same fold after a crash."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from lycosa.ask.explain import explain
from lycosa.ask.reading import CrawlReader
from lycosa.ask.report import make_report
from lycosa.ask.report_html import render
from lycosa.cli.explain import tell
from lycosa.content.joins import Joins
from lycosa.content.options import VariantOptions
from lycosa.crawl.agent import End
from lycosa.crawl.shard_set import ShardSet
from lycosa.fetch.protocol import Failure, Request
from lycosa.files import DiskFiles, Files
from lycosa.lab import virtual
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.lab.network import Reply, Script
from lycosa.lab.virtual import VirtualClock
from lycosa.records import Deferred, Fetched, Learned, Skipped, Why
from lycosa.url.parts import path_of
from tests.crawl.scripted import Run, crawl, make_agent
from tests.crawl.test_content_seen import page, records, text

RULE = "param:sid@http://a.test/s/"
ITEMS, SESSIONS = 6, 10
BUSY: dict[str, Any] = {
    "snapshot": {"records": 30, "seconds": 2.0},
    "archive": {"keep": False},
    "variants": {"apply": True},
}


def site(matters: int = 10**9) -> Script:
    """A home page that links to /s/N?sid=M for all N and M; from item `matters` on the parameter matters."""

    def script(request: Request, before: int) -> Reply | Failure:
        path = path_of(request.url)
        if path == "/robots.txt":
            return Reply(b"", 404)
        if path == "/":
            return page(text("home"), *(f"/s/{n}?sid={m}" for n in range(ITEMS) for m in range(SESSIONS)))
        where, _, session = path.removeprefix("/s/").partition("?sid=")
        return page(text("item", where, session if int(where) >= matters else ""))

    return script


def run(files: Files, start: float = 0.0, script: Script | None = None, **options: Any) -> Run:
    return crawl(files, start, script or site(), ["http://a.test/"], **{**BUSY, **options})


def test_a_rule_is_applied_and_the_log_says_so(tmp_path: Path) -> None:
    assert run(DiskFiles(tmp_path)).end is End.FINISHED
    rows = records(DiskFiles(tmp_path))
    (learned,) = [row for row in rows if isinstance(row, Learned)]
    assert (learned.what, learned.subject, learned.holds, learned.pages) == ("rule", RULE, True, 8)
    fetched = [row.url for row in rows if isinstance(row, Fetched)]
    held = [row for row in rows if isinstance(row, Skipped)]
    assert len(fetched) + len(held) == 1 + ITEMS * SESSIONS
    assert {url.partition("?")[0] for url in fetched} == {"http://a.test/"} | {
        f"http://a.test/s/{n}" for n in range(ITEMS)
    }
    assert len(held) >= 30 and {row.why for row in held} == {Why.VARIANT}
    crawl = CrawlReader(tmp_path)
    found = explain(crawl, held[0].url)
    assert found.state == "skipped"
    assert found.why == f"variant: {RULE} says that it is the page of {held[0].url.partition('?')[0]}"
    assert [row.subject for row in found.learned] == [RULE]
    assert any(line.startswith("learned ") and f"{RULE} applied: " in line for line in tell(found, 0.0))
    report = make_report(crawl, at=1)
    assert (report.rules.applied, report.rules.withdrawn, report.rules.urls) == (1, 0, len(held))
    assert report.rules.largest[0].skipped == len(held)
    assert RULE in render(report)


def test_by_default_nothing_is_skipped() -> None:
    files = FaultyFiles()
    run(files, variants={})
    rows = records(files)
    assert sum(isinstance(row, Fetched) for row in rows) == 1 + ITEMS * SESSIONS
    assert not any(isinstance(row, Learned | Skipped) for row in rows)


def test_a_wrong_rule_is_withdrawn_and_everything_comes_back() -> None:
    files = FaultyFiles()
    assert run(files, script=site(matters=3)).end is End.FINISHED
    rows = records(files)
    assert [row.holds for row in rows if isinstance(row, Learned)] == [True, False]
    held = {row.url for row in rows if isinstance(row, Skipped)}
    back = {row.url for row in rows if isinstance(row, Deferred) and row.why is Why.VARIANT}
    fetched = Counter(row.url for row in rows if isinstance(row, Fetched))
    assert held and held == back
    assert len(fetched) == 1 + ITEMS * SESSIONS and max(fetched.values()) == 1


def test_who_turns_it_off_gets_what_was_skipped() -> None:
    files = FaultyFiles()
    first = run(files)
    run(files, first.until, variants={"apply": False})
    fetched = Counter(row.url for row in records(files) if isinstance(row, Fetched))
    assert len(fetched) == 1 + ITEMS * SESSIONS and max(fetched.values()) == 1


def state(joins: Joins) -> list[Any]:
    return [msgspec.msgpack.decode(piece) for piece in joins.freeze()]


def folded(files: Files) -> Joins:
    """The fold over the log alone."""
    joins = Joins()
    joins.configure(VariantOptions(apply=True), 0)
    for row in records(files):
        if isinstance(row, Fetched):
            joins.note_fetch(row.url, row.status, True, lambda _: False)
        elif isinstance(row, Skipped):
            joins.note_held(row.detail.partition(" ")[0])
        elif isinstance(row, Learned):
            joins.note_learned(row.subject, row.holds, row.why, 1)
    return joins


@pytest.mark.parametrize("part", range(2))
def test_a_crash_anywhere_leaves_the_fold_that_the_log_says(part: int) -> None:
    whole = FaultyFiles()
    run(whole)
    for crash_at in range(12 + 17 * part, whole.steps, 34):
        files = FaultyFiles(crash_at)

        async def go(clock: VirtualClock, files: FaultyFiles = files) -> float:
            agent, _ = make_agent(files, clock, site(), ["http://a.test/"], **BUSY)
            await agent.run()
            return clock.monotonic()

        try:
            until = virtual.run(go, 0.0)
        except Crash:
            until = 100.0
        files = files.restart(Random(crash_at))
        second = run(files, until + 1.0)
        assert second.end is End.FINISHED
        rows = records(files)
        counts = Counter(row.url for row in rows if isinstance(row, Fetched | Skipped))
        assert max(counts.values()) == 1, f"crash at {crash_at}"
        assert len(counts) == 1 + ITEMS * SESSIONS
        (shard,) = [shard for shard in second.agent.shards if shard.log.end > 2]
        assert state(shard.joins) == state(folded(files)), f"crash at {crash_at}"


def test_a_shard_that_is_about_to_leave_is_not_told_what_is_learned(tmp_path: Path) -> None:
    ran = run(DiskFiles(tmp_path))
    shards = ran.agent.shards
    assert isinstance(shards, ShardSet)
    shard = shards.staying("a.test")
    assert shard is not None and shard.joins.row(RULE) is not None
    shards.leave(shard.number)
    assert shards.staying("a.test") is None
