"""The page table within a crawl: rebuilt for crawls that are older than it, and what it decides of fetches."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from lycosa.clock import milliseconds
from lycosa.crawl import agent as agents
from lycosa.crawl.agent import End
from lycosa.crawl.totals import Totals
from lycosa.fetch.protocol import Failure, Request
from lycosa.files import DiskFiles
from lycosa.lab import virtual
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply
from lycosa.lab.virtual import VirtualClock
from lycosa.log import snapshot
from lycosa.log.snapshot import SnapshotWriter
from lycosa.pages.packed import PackedPages
from lycosa.pages.rows import ROW_BYTES
from lycosa.pages.summary import of_fetch
from lycosa.records import Before, Deferred, Fetched, Lost, Record, Why, decode, encode
from lycosa.url.parts import path_of, site_of
from tests.crawl.scripted import crawl, make_agent
from tests.pages.fetches import fetched

SEED = "http://a.test/"


def test_a_snapshot_from_before_the_table_has_it_made_from_the_log(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    assert crawl(files).end is End.FINISHED
    for number in range(4):
        places = files.within(f"shards/{number:02d}/snapshots")
        for position in snapshot.positions(places):
            found = snapshot.read(places, position)
            assert found is not None
            writer = SnapshotWriter(places, position)
            for name, pieces in found.pieces.items():
                for piece in pieces if name != "pages" else ():
                    writer.add(name, piece)
            about = dict(found.about)
            about["files"] = {name: names for name, names in about["files"].items() if name != "pages"}
            del about["position"]
            writer.seal(about)

    async def go(clock: VirtualClock) -> None:
        agent, _ = make_agent(files, clock)
        for shard in agent.shards:
            expected = [
                (shard.keyer.key(record.url), of_fetch(record, position))
                for position, record in shard.log.reader.scan()
                if isinstance(record, Fetched)
            ]
            assert list(shard.pages.items()) == sorted(expected)
        assert agent.totals().pages == agent.totals().fetched > 30

    virtual.run(go)


LINKS = b"".join(b'<a href="/%s">x</a>' % name for name in (b"same", b"news", b"flaky", b"more"))


@pytest.mark.parametrize("seed", range(2))
def test_pages_that_come_back_from_the_calendar_are_fetched_again(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits of pages let them pass, counts tell them apart, and all of it outlives a power cut."""
    monkeypatch.setattr(
        agents, "PackedPages", lambda files, memory: PackedPages(files, memory=2 * ROW_BYTES, recent=2)
    )
    asked: Counter[str] = Counter()

    def answer(request: Request, before: int) -> Reply | Failure:
        path = path_of(request.url)
        if path == "/robots.txt":
            return Reply(b"", 404)
        asked[path] += 1
        if path == "/flaky" and asked[path] == 2:
            return Reply(b"", 503)
        if path == "/news":
            return Reply(b"news, round %d" % asked[path] + LINKS)
        return Reply(b"always the same" + LINKS)

    # Five pages may be had, four of the site: what is fetched again takes nothing of either.
    options: dict[str, Any] = {"limits": {"pages": 5}, "scope": {"mode": "any", "max_pages_per_site": 4}}

    async def go(clock: VirtualClock, files: FaultyFiles, turn: int) -> float:
        agent, _ = make_agent(files, clock, answer, [SEED], **options)
        shard = max(agent.shards, key=lambda each: each.totals.fetched + each.frontier.pending)
        for path in ("", "same", "news", "flaky") if turn else ():
            url, at = SEED + path, milliseconds(clock)
            shard.append(Deferred(at, url, site_of(url), 0, 0, 0, Why.RETRY, at, "due", Before.PAGE))
        assert await agent.run() is End.FINISHED
        totals = agent.totals()
        assert (totals.pages, totals.fetched) == (4, 4 * (turn + 1))
        assert sum(site.pages for _, site in shard.sites.items()) == 4
        for path, changes in (("same", 0), ("news", turn), ("flaky", 0)):
            found = shard.pages.find(shard.keyer.key(SEED + path))
            assert found is not None
            assert (found.fetches, found.changes, found.failures) == (turn + 1, changes, 0)
        records = [row for _, row in shard.log.reader.scan() if isinstance(row, Fetched)]
        first = {row.url: row for row in reversed(records)}
        assert all(row.before is (Before.NEVER if row is first[row.url] else Before.PAGE) for row in records)
        assert all(row.duplicate == first[row.url].duplicate for row in records), "none is one of itself"
        return clock.monotonic()

    files, now = FaultyFiles(), 0.0
    for turn in range(3):
        now = 1.0 + virtual.run(partial(go, files=files, turn=turn), now)
        files = files.restart(Random(seed))


def test_totals_of_older_snapshots_have_as_many_pages_as_fetches() -> None:
    older = msgspec.msgpack.encode(msgspec.structs.astuple(Totals(fetched=7, lost=1))[:-1])
    totals = Totals()
    totals.thaw([older])
    assert (totals.pages, totals.fetched, totals.again) == (7, 7, 0)


@pytest.mark.parametrize("kind", [Fetched, Deferred, Lost])
def test_records_of_older_logs_are_read(kind: type[Any]) -> None:
    """They end before the fields that say what was before."""
    older: Record = {
        Fetched: fetched(1),
        Deferred: Deferred(1, SEED, "http://a.test", 0, 0, 1, Why.RETRY, 5, "x"),
        Lost: Lost(1, SEED, 0, 0, "f", 1, 200, 1, 0, 7, True),
    }[kind]
    values = msgspec.msgpack.decode(encode(older))
    assert decode(msgspec.msgpack.encode(values[:-1])) == older
