"""The pass after a change of scope: in slices, resumed after a kill, to what a wide scope from the start gives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest

from lycosa.clock import Clock, ManualClock
from lycosa.crawl import rescoping
from lycosa.crawl.admission import Offer
from lycosa.crawl.agent import Agent, End
from lycosa.crawl.config import encode_options, read_options
from lycosa.crawl.replay import LinkPass, replay
from lycosa.crawl.rescoping import Rescoping
from lycosa.crawl.shard import Change, Shard, _Small
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.records import Configured, Deferred, Fetched, Received, Reread, Seeded, Skipped, Waiting, Why
from lycosa.url.parts import host_of
from tests.crawl.little import OPTIONS
from tests.crawl.test_invariant import SHARDS, World, found_links, packed, state_of, world, write_log
from tests.crawl.test_scope_changes import ANY, WHOLE, run

__all__ = ["world"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices and portions so small that a short log has many."""
    monkeypatch.setattr(rescoping, "_RECORDS", 4)
    monkeypatch.setattr(rescoping, "_LINKS", 3)
    monkeypatch.setattr(rescoping, "_HEADS", 5)


def options(**scope: Any) -> bytes:
    return encode_options(read_options({**OPTIONS, "scope": scope}))


# -- whole crawls


class Watched:
    """Given to `crawl` as `during`: hears of every portion of every shard."""

    def __init__(self, files: FaultyFiles, cut: int = 0, snapshot: int = 0) -> None:
        self.files = files
        self.after = files
        self.portions = 0
        self._cut = cut
        self._snapshot = snapshot
        self._tasks: list[asyncio.Future[None]] = []

    async def __call__(self, agent: Agent, clock: Clock) -> None:
        for shard in agent.shards:
            self._watch(agent, shard)

    def _watch(self, agent: Agent, shard: Shard) -> None:
        judge, bring = shard.judge_again, shard.bring_back

        def judged(change: Change, stop: int, offers: Sequence[tuple[int, Offer]], at: int) -> None:
            judge(change, stop, offers, at)
            self._count(agent)

        def brought(change: Change, stop: int, items: Sequence[Waiting]) -> None:
            bring(change, stop, items)
            self._count(agent)

        shard.judge_again, shard.bring_back = judged, brought  # type: ignore[method-assign]

    def _count(self, agent: Agent) -> None:
        self.portions += 1
        if self.portions == self._snapshot:
            self._tasks.append(asyncio.ensure_future(self._save(agent)))
        if self._tasks and not self._tasks[0].done():
            self._cut += 1  # not before the snapshot is whole
        if self.portions == self._cut:
            self.after = self.files.restart(Random(self._cut))

    @staticmethod
    async def _save(agent: Agent) -> None:
        with suppress(Crash):
            await agent.saver.snapshot()


def narrow() -> tuple[FaultyFiles, float]:
    """A crawl that skipped some URLs, never offered others, and has ended."""
    files = FaultyFiles()
    first = run(files, ANY, limits={"pages": 6})
    second = run(files, {"mode": "host"}, first.until)
    assert second.skipped and second.end is End.FINISHED
    return files, second.until


def test_the_pass_of_these_tests_has_many_portions_and_brings_everything() -> None:
    files, now = narrow()
    watched = Watched(files)
    ran = run(files, ANY, now, during=watched)
    assert set(ran.fetched) == WHOLE and ran.end is End.FINISHED
    assert watched.portions > 12
    assert any(isinstance(row, Reread) for row in ran.records)


@pytest.mark.parametrize("lead", [0, 1, 6])
def test_a_kill_in_the_middle_of_the_pass_loses_nothing(lead: int) -> None:
    """At every portion; without a snapshot of the pass, and so many portions after one."""
    resumed = 0
    for cut in range(1 + lead, 40, 3):
        files, now = narrow()
        watched = Watched(files, cut, snapshot=cut - lead if lead else 0)
        ran = run(files, ANY, now, during=watched, commit_seconds=0.05)
        if ran.end is not None:
            break  # it ended before
        last = run(watched.after, ANY, ran.until, during=(again := Watched(watched.after)))
        assert last.end is End.FINISHED
        assert set(last.fetched) == WHOLE, f"cut at portion {cut}"  # which also says: none twice
        resumed += 0 < again.portions < 30
    assert cut >= 10, "it was cut often enough"
    assert resumed or not lead, "the snapshot had the pass's cursor"


def test_a_stop_in_the_middle_goes_on_from_the_cursor() -> None:
    files, now = narrow()

    class Stopping(Watched):
        def _count(self, agent: Agent) -> None:
            super()._count(agent)
            if self.portions == 12:
                agent.stop()

    ran = run(files, ANY, now, during=(stopping := Stopping(files)))
    assert ran.end is End.STOPPED
    before = {shard.number: shard.changes[-1].links for shard in ran.agent.shards}
    assert any(before.values()) and any(shard.rescoping for shard in ran.agent.shards)
    watched = Watched(files)
    last = run(files, ANY, ran.until, during=watched)
    assert set(last.fetched) == WHOLE
    whole, now = narrow()
    counted = Watched(whole)
    run(whole, ANY, now, during=counted)
    assert stopping.portions + watched.portions <= counted.portions + 2 * SHARDS, "nothing was read again"


def test_another_change_in_the_middle_begins_anew() -> None:
    files, now = narrow()
    wider = read_options({**OPTIONS, "scope": {**ANY, "exclude_paths": ["/nothing"]}})

    class Changing(Watched):
        def _count(self, agent: Agent) -> None:
            super()._count(agent)
            if self.portions in (5, 20):
                agent.reconfigure(msgspec.structs.replace(wider, visits=self.portions))
                agent.reconfigure(wider if self.portions == 5 else agent.options)

    ran = run(files, {"mode": "host", "include_hosts": ["c.test"]}, now, during=Changing(files))
    assert ran.end is End.FINISHED and set(ran.fetched) == WHOLE


def test_a_shard_that_is_handed_over_in_the_middle_takes_its_cursor_with_it() -> None:
    files, now = narrow()
    strange: list[int] = []

    class Moving(Watched):
        def _count(self, agent: Agent) -> None:
            super()._count(agent)
            if self.portions == 6:
                self._tasks.append(asyncio.ensure_future(self._move(agent)))

        async def _move(self, agent: Agent) -> None:
            for number in range(SHARDS):
                await agent.moves.hand_over(number)
                for _ in range(20):
                    await asyncio.sleep(0)
                    strange.extend(n for n in agent.chores._rescopings if agent.shards.find(n) is None)
                await agent.moves.adopt(number)

    ran = run(files, ANY, now, during=(moving := Moving(files)))
    assert moving._tasks[0].done() and not strange, "nobody reads the log of a shard that is gone"
    assert ran.end is End.FINISHED and set(ran.fetched) == WHOLE


def test_links_found_since_the_last_commit_are_judged_again_too() -> None:
    """The scope changes while the crawl runs: nothing of what is not yet committed may be passed over."""
    fresh = 0

    async def widen(agent: Agent, clock: Clock) -> None:
        nonlocal fresh
        await clock.sleep(0.04)
        fresh = sum(shard.log.end - shard.log.committed for shard in agent.shards)
        agent.reconfigure(read_options({**OPTIONS, "scope": ANY, "politeness": {"wait": 0.1}}))

    ran = run(FaultyFiles(), {"mode": "host"}, during=widen, commit_seconds=3.0)
    assert fresh > 4, "pages were fetched and not committed"
    assert ran.end is End.FINISHED and set(ran.fetched) == WHOLE


# -- one shard


def widened(world: World, number: int, commit: bool = True) -> Shard:
    """A shard whose log was written under a narrow scope, which has just become wide."""
    files = FaultyFiles()
    narrowed = Configured(1, options(mode="any", exclude_paths=["/p3", "/p4", "/flaky"]))
    write_log(files, [narrowed, *world.records[number][1:]])
    shard = world.shard(number, files, packed)
    replay(shard, 0)
    shard.append(Configured(2, options(mode="any")))
    if commit:
        shard.log.commit()
    return shard


async def steps(shard: Shard, count: int, commits: bool = True) -> Rescoping:
    change = shard.rescoping
    assert change is not None
    made = Rescoping(shard, change, ManualClock())
    for _ in range(count):
        if commits:
            shard.log.commit()
        if not made.is_wanted or not await made.step():
            break
    return made


@pytest.mark.parametrize("number", range(SHARDS))
def test_during_the_pass_every_link_is_somewhere(world: World, number: int) -> None:
    """What was not come to is behind the pass's cursor; the rest is done, pending or deferred, exactly one."""
    for count in range(200):
        shard = widened(world, number)
        rescope = asyncio.run(steps(shard, count))
        records = [record for _, record in shard.log.reader.scan()]
        done = {row.url for row in records if isinstance(row, Fetched)}
        skipped = {row.url for row in records if isinstance(row, Skipped)}
        behind = found_links(world, shard, records[shard.changes[-1].links : shard.changes[-1].position])
        pending, deferred, away = state_of(shard)
        assert len(pending) == len(set(pending)) and not set(pending) & done
        done |= skipped - set(pending)  # what the rules of a site forbade is asked about again
        for url in found_links(world, shard, records):
            if world.splitter.shard_of(host_of(url)) == number:
                places = [url in done, url in pending, url in deferred]
                assert sum(places) == 1 or (not any(places) and url in behind), f"{url}: {places}"
            else:
                assert url in away or url in behind, f"{url} of another shard is lost"
        if not rescope.is_wanted:
            return
    raise AssertionError("the pass never ends")


def test_the_loop_is_never_handed_more_than_a_portion(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescoping, "_RECORDS", 400)
    monkeypatch.setattr(rescoping, "_LINKS", 10)
    shard = widened(world, max(range(SHARDS), key=lambda n: len(world.records[n])))
    sizes: list[tuple[int, int]] = []
    judge = shard.judge_again

    def judged(change: Change, stop: int, offers: Sequence[tuple[int, Offer]], at: int) -> None:
        sizes.append((len(offers), sum(offer.links for _, offer in offers)))
        judge(change, stop, offers, at)

    monkeypatch.setattr(shard, "judge_again", judged)
    asyncio.run(steps(shard, 1))
    assert len(sizes) > 3
    assert all(links <= 10 or count == 1 for count, links in sizes), (
        "a record is never cut, and nothing else is more"
    )


def test_the_pass_waits_for_the_commit(world: World) -> None:
    shard = widened(world, 0)
    shard.append(Configured(3, options(mode="host")))
    shard.append(Configured(4, options(mode="any")))

    async def go() -> None:
        made = await steps(shard, 1000, commits=False)
        assert made.is_wanted and made.change.links == shard.log.committed
        shard.log.commit()
        while made.is_wanted:
            shard.log.commit()
            assert await made.step()

    asyncio.run(go())


def test_links_of_others_are_found_at_the_reread_that_judged_them(world: World) -> None:
    """Whoever sends from a cursor past the records finds their links at the Reread, and the digests only once."""
    shard = widened(world, 0)
    end = shard.log.committed
    asyncio.run(steps(shard, 1000))
    assert shard.log.end > end, "Rereads were logged"
    shard.log.commit()
    reading = LinkPass(shard.log.reader.files, end)
    rows = []
    while got := reading.take(shard.log.committed, 2):
        rows += got
    assert all(position >= end for position, _ in rows)
    sources = [record for _, record in rows if isinstance(record, Fetched | Seeded)]
    found = {link.url for record in sources for link in record.links}
    wanted = found_links(world, shard, world.records[0])
    assert {url for url in wanted if world.splitter.shard_of(host_of(url)) != 0} <= found
    assert not any(row.digest for row in sources if isinstance(row, Fetched))
    assert not any(isinstance(record, Received) for _, record in rows)


def skipping(world: World) -> tuple[Shard, str]:
    """A shard with one URL that was skipped, and then brought back by a change."""
    host = next(f"h{n}.test" for n in range(99) if world.splitter.shard_of(f"h{n}.test") == 0)
    url = f"http://{host}/back"
    files = FaultyFiles()
    write_log(files, [Configured(1, options(mode="host")), Skipped(1, url, 0, Why.SCOPE, "")])
    shard = world.shard(0, files, packed)
    replay(shard, 0)
    shard.append(Configured(2, options(mode="any")))
    shard.log.commit()
    asyncio.run(steps(shard, 100)).close()
    assert shard.rescoping is None and shard.frontier.pending == 1
    return shard, url


def widen_again(shard: Shard) -> None:
    shard.append(Configured(3, options(mode="any", exclude_paths=["/other"])))
    shard.log.commit()
    asyncio.run(steps(shard, 100)).close()
    assert shard.rescoping is None


def test_what_an_earlier_change_brought_back_stays_where_it_is(world: World) -> None:
    shard, url = skipping(world)
    widen_again(shard)
    assert state_of(shard)[0] == [url], "once"


def test_what_is_in_flight_is_not_brought_back_a_second_time(world: World) -> None:
    shard, url = skipping(world)
    host = shard.frontier.begin(1e9)
    assert host is not None
    taken = shard.frontier.take(host)
    assert taken is not None and taken.url == url
    widen_again(shard)
    assert shard.frontier.pending == shard.frontier.in_flight == 1
    shard.frontier.put_back(taken)  # the visit is broken off
    shard.frontier.end(host, 0.0)
    assert state_of(shard)[0] == [url]


@pytest.mark.parametrize("record", [Skipped, Deferred])
def test_what_has_a_record_since_is_not_brought_back(world: World, record: type) -> None:
    """Also if the record comes while the pass looks for what to bring back."""
    shard, url = skipping(world)
    shard.append(Configured(3, options(mode="any", exclude_paths=["/back"])))
    (taken,) = [shard.frontier.take(host) for host in [shard.frontier.begin(1e9)] if host]
    assert taken is not None
    shard.append(Skipped(4, url, 0, Why.SCOPE, ""))
    shard.append(Configured(5, options(mode="any")))
    shard.log.commit()

    async def go() -> None:
        made = await steps(shard, 0)
        while shard.settled is None:
            assert await made.step()
        if record is Skipped:
            shard.append(Skipped(6, url, 0, Why.FAILED, ""))
        else:
            shard.append(Deferred(6, url, "", 0, 0, 1, Why.RETRY, 10**15))
        while made.is_wanted:
            shard.log.commit()
            assert await made.step()

    asyncio.run(go())
    pending, deferred, _ = state_of(shard)
    assert pending == [] and deferred == ([url] if record is Deferred else [])


def test_a_snapshot_of_the_version_before_has_its_links_read_once_more(world: World) -> None:
    shard, _ = skipping(world)
    small = msgspec.msgpack.decode(next(shard.freeze()), type=_Small)
    small.changes = [2]
    shard.thaw([msgspec.msgpack.encode(small)])
    assert shard.changes == [Change(2, 0, 2)] and shard.rescoping is not None
    asyncio.run(steps(shard, 100)).close()
    assert shard.rescoping is None and shard.frontier.pending == 1, "and nothing is brought back twice"
