"""The parts that a cluster's agent is made of: what was lost, what is brought, who may fetch, what travels."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lycosa.archive.reader import scan
from lycosa.archive.writer import Archive, ArchiveOptions
from lycosa.clock import ManualClock, SystemClock
from lycosa.cluster.control import Control
from lycosa.cluster.courier import Courier
from lycosa.cluster.held import Event, Held, HeldShards, Holder, Pace, Stage
from lycosa.cluster.lease import Holding, Lease
from lycosa.cluster.links import send_seeds
from lycosa.cluster.losses import lost_pages, records_of, valid_ends
from lycosa.cluster.member import _demand_consent
from lycosa.cluster.names import cursors_of, streams_of
from lycosa.cluster.outcomes import Fenced
from lycosa.cluster.rations import Rations
from lycosa.cluster.saves import Saves
from lycosa.cluster.storage import Away, DirectoryStorage
from lycosa.cluster.streaming import Incoming, Outgoing, StreamExchange
from lycosa.cluster.tasks import end_tasks
from lycosa.cluster.turns import TurnAsker, TurnHosts, TurnKeeper, of_hosts
from lycosa.crawl.agent import Agent, Team, build
from lycosa.crawl.config import SnapshotOptions, read_options
from lycosa.crawl.saving import OwnDisk
from lycosa.crawl.shard import Shard
from lycosa.engine.protocol import Engine, Unavailable, got
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles, Files
from lycosa.frontier import AddressTable
from lycosa.lab.network import Reply, ScriptedFetcher, ScriptedFetchers, ScriptedResolver
from lycosa.log.log import Batch, pack
from lycosa.records import (
    Before,
    Deferred,
    Duplicates,
    Fetched,
    Link,
    LinkKind,
    Links,
    Lost,
    Received,
    Robots,
    Seeded,
    Stored,
    Timing,
    Why,
    decode,
    encode,
)
from tests.cluster.crawled import until
from tests.cluster.nodes import NoHosts

OPTIONS: dict[str, Any] = {"public": False, "scope": {"mode": "any"}, "archive": {"keep": False}}
SHARDS = 3
PATIENCE = 170.0
"""Seconds to wait for what is certain to happen, on however busy a machine."""


def page(
    url: str,
    links: tuple[str, ...] = (),
    digest: int = 0,
    stored: Stored | None = None,
    before: Before = Before.NEVER,
) -> Fetched:
    packed = Links.pack(Link(link, LinkKind.ANCHOR, False, "") for link in links)
    return Fetched(
        *(1, url, 1, 0, 0, 200, "text/html", "", 10, 10, digest, Timing(), "", packed, stored), before=before
    )


# -- what was lost


def test_pages_whose_bytes_are_gone_are_taken_back() -> None:
    kept, gone = Stored("kept.warc.gz", 0, 5), Stored("gone.warc.gz", 0, 5)
    records = [
        (10, page("http://a/1", ("http://b/",), digest=7, stored=gone)),
        (11, page("http://a/2", stored=kept)),
        (12, page("http://a/3", stored=gone)),
        (13, page("http://a/4")),  # nothing was stored
        (14, Robots(1, "http://a", 200, b"", 9, stored=gone)),  # its rules are in the log
        (15, Lost(1, "http://a/3", 1, 0, "gone.warc.gz", 12, 200, 10, 0, 0)),
        (16, Duplicates(1, 2, 5, [10, 11])),
    ]
    asked: list[str] = []

    def had(name: str) -> int:
        asked.append(name)
        return 5 * name.startswith("kept")

    found = lost_pages(records, had, 99)
    assert found == [Lost(99, "http://a/1", 1, 0, "gone.warc.gz", 10, 200, 10, 1, 7, True)]
    assert sorted(asked) == ["gone.warc.gz", "kept.warc.gz"], "each file is looked for once"
    assert decode(encode(found[0])) == found[0]


def test_a_page_beyond_the_end_of_its_file_is_lost() -> None:
    """An agent that came back cut the file to what the logs knew of it; then its last append arrived there."""
    records = [
        (10, page("http://a/1", stored=Stored("cut.warc.gz", 0, 50))),
        (11, page("http://a/2", stored=Stored("cut.warc.gz", 50, 30))),
    ]
    assert [lost.position for lost in lost_pages(records, lambda name: 50, 99)] == [11]
    assert not lost_pages(records, lambda name: 80, 99)


def test_a_file_is_valid_up_to_its_last_record_that_is() -> None:
    records = [
        (0, page("http://a/1", stored=Stored("x", 100, 50))),
        (1, Robots(1, "http://a", 200, b"", 9, stored=Stored("x", 150, 10))),
        (2, page("http://a/2", stored=Stored("x", 160, 40))),
        (3, page("http://a/2", stored=Stored("y", 0, 40))),
        (4, Lost(1, "http://a/2", 1, 0, "x", 2, 200, 10, 0, 0)),
        (5, Lost(1, "http://a/2", 1, 0, "y", 3, 200, 10, 0, 0)),
    ]
    assert valid_ends(records) == {"x": 160}
    assert valid_ends(records[:4]) == {"x": 200, "y": 40}


def test_blocks_are_read_as_records() -> None:
    batch = Batch(3, 40, [encode(page(f"http://a/{n}")) for n in range(5)])
    data = pack(batch) + pack(Batch(4, 45, [encode(Deferred(1, "u", "s", 0, 0, 1, Why.RETRY, 9))]))
    assert [position for position, _ in records_of(data)] == list(range(40, 46))


# -- what is brought


def archive_in(tmp_path: Path, agent: str = "a") -> tuple[Archive, DiskFiles]:
    files = DiskFiles(tmp_path / "work/archive")
    return Archive(files, ArchiveOptions(), SystemClock(), crawl="c1", agent=agent), files


def store(archive: Archive, url: str) -> Stored:
    return archive.store(
        url=url, at=1, request_head=b"GET /\r\n\r\n", head=b"HTTP/1.1 200 OK\r\n\r\n", body=b"x"
    )


def test_sealed_a_file_takes_no_more(tmp_path: Path) -> None:
    archive, files = archive_in(tmp_path)
    archive.seal()  # nothing is there yet
    first = store(archive, "http://a/1")
    assert archive.growing == [first.file]
    archive.seal()
    assert archive.growing == [] and files.size(first.file) == first.offset + first.length
    second = store(archive, "http://a/2")
    assert second.file != first.file and archive.growing == [second.file]
    archive.close()
    assert len([record for name in archive.names() for record in scan(files, name)]) == 6


async def test_the_courier_brings_what_is_good_for_something(tmp_path: Path) -> None:
    archive, files = archive_in(tmp_path)
    (tmp_path / "shared").mkdir()
    storage = DirectoryStorage(tmp_path / "shared")
    ends_now: dict[str, int] = {}
    order: list[str] = []

    async def valid() -> Mapping[str, int]:
        order.append("asked")
        return ends_now

    async def commit() -> None:
        order.append("commit")
        assert not archive.growing, "sealed before the commit"

    courier = Courier(archive, files, storage, "web", valid)
    first = store(archive, "http://a/1")
    await courier.bring(commit)
    assert storage.list("web/archive") == [first.file] and not files.list("")
    assert order == ["commit"], "nothing was in doubt"
    assert courier.had(first.file) and not courier.had("none.warc.gz")

    kept, cut = store(archive, "http://a/2"), store(archive, "http://a/3")
    await courier.doubt_all()
    gone = store(archive, "http://a/4")
    assert courier.had(gone.file), "it is not even written, but it can be had"
    await courier.doubt_all()
    ends_now[kept.file] = kept.offset + kept.length
    await courier.bring()
    assert storage.list("web/archive") == sorted([first.file, kept.file]) and not files.list("")
    assert cut.file == kept.file and storage.size(f"web/archive/{kept.file}") == kept.offset + kept.length
    assert courier.had(kept.file) == cut.offset, "what was cut off cannot be had"
    assert not courier.had(gone.file), "of that file nothing was valid"


async def test_a_file_that_is_being_judged_worthless_does_not_count_as_had(tmp_path: Path) -> None:
    """A last append of ours reaches the tail after the courier has looked at the logs: whoever takes the shard and
    asks for the page's bytes meanwhile would go on with a page whose file is removed a moment later."""
    archive, files = archive_in(tmp_path)
    (tmp_path / "shared").mkdir()
    looked, go_on = asyncio.Event(), asyncio.Event()

    async def valid() -> Mapping[str, int]:
        looked.set()
        await go_on.wait()
        return {}  # as the logs were at the look

    courier = Courier(archive, files, DirectoryStorage(tmp_path / "shared"), "web", valid)
    page = store(archive, "http://a/1")
    await courier.doubt_all()
    bringing = asyncio.create_task(courier.bring())
    await looked.wait()
    there, had = files.exists(page.file), courier.had(page.file)
    go_on.set()
    await bringing
    assert there and not files.exists(page.file)
    assert not had, "the log keeps a page whose bytes are nowhere"


async def test_a_file_that_comes_into_doubt_while_another_is_copied_is_judged_by_the_next_look(
    tmp_path: Path,
) -> None:
    """The look at the logs was before the doubt, or there was none: it says nothing of the file."""
    archive, files = archive_in(tmp_path)
    (tmp_path / "shared").mkdir()
    loop, copied = asyncio.get_running_loop(), list[str]()

    class Storage(DirectoryStorage):
        def put_file(self, name: str, source: Files, local: str, size: int | None = None) -> None:
            if not copied:  # meanwhile a shard is lost
                asyncio.run_coroutine_threadsafe(courier.doubt_all(), loop).result()
            copied.append(local)
            super().put_file(name, source, local, size)

    async def valid() -> Mapping[str, int]:
        return {page.file: page.offset + page.length for page in (first, second)}

    courier = Courier(archive, files, Storage(tmp_path / "shared"), "web", valid)
    first = store(archive, "http://a/1")
    archive.seal()
    second = store(archive, "http://a/2")
    await courier.bring()
    assert files.exists(second.file), "removed, though the logs point into it"
    await courier.bring()
    assert copied == [first.file, second.file]
    assert courier.had(second.file) >= second.offset + second.length


async def test_a_file_that_was_brought_before_a_crash_is_not_cut_by_the_logs_since_the_checkpoint(
    tmp_path: Path,
) -> None:
    """A disk that lost its last writes has a file again that is on storage, and that a checkpoint counts on."""
    archive, files = archive_in(tmp_path)
    storage = DirectoryStorage(tmp_path / "shared")
    (tmp_path / "shared").mkdir()

    async def valid() -> Mapping[str, int]:
        return {first.file: first.offset + first.length}  # of the second, the record is before the checkpoint

    courier = Courier(archive, files, storage, "web", valid)
    first, second = store(archive, "http://a/1"), store(archive, "http://a/2")
    archive.seal()
    data = files.read(first.file)
    await courier.bring()
    assert first.file == second.file and storage.size(f"web/archive/{first.file}") == len(data)
    (tmp_path / "work/archive" / first.file).write_bytes(data)
    await courier.doubt_all()
    await courier.bring()
    assert storage.size(f"web/archive/{first.file}") == len(data) and not files.list("")


async def test_archives_go_to_storage_every_so_often_or_when_there_is_much() -> None:
    clock, done, waiting = ManualClock(), list[str](), [0]
    limits = SnapshotOptions(seconds=100.0, archive_seconds=30.0, archive_bytes=1_000)

    class Holds:
        def __init__(self) -> None:
            self.held: dict[int, object] = {}

        async def bring(self) -> None:
            done.append("bring")
            waiting[0] = 0

        async def tidy(self) -> None: ...

    holder: Any = Holds()
    courier: Any = SimpleNamespace(waiting=lambda: waiting[0])
    saves = Saves(holder, courier, lambda: limits, clock, lambda text: None)

    async def step(seconds: float, size: int | None = None) -> list[str]:
        clock.advance(seconds)
        waiting[0] = waiting[0] if size is None else size
        done.clear()
        await saves.step()
        return list(done)

    assert await step(29.0, 10) == [] and await step(1.0) == ["bring"]
    assert await step(31.0) == [], "nothing is here to be brought"
    assert await step(1.0, 999) == [] and await step(1.0, 1_000) == ["bring"]
    assert await step(1.0, 5) == [] and await step(29.0) == ["bring"]


def test_what_becomes_of_a_shard_that_is_held() -> None:
    def held(*events: Event) -> Stage:
        one: Any = Held(0, Holding(Lease("a", 1, 10.0), 1, began=0.0), None)  # type: ignore[arg-type]
        for event in events:
            one.on(event)
        return one.stage

    assert held() is Stage.OPENING and held(Event.READY) is Stage.CRAWLING
    assert held(Event.READY, Event.CLOSED) is Stage.CLOSING
    for before in ((), (Event.READY,), (Event.READY, Event.CLOSED), (Event.REFUSED,)):
        assert held(*before, Event.REFUSED) is Stage.REFUSED
    assert held(Event.REFUSED, Event.READY) is Stage.REFUSED, "the lease was lost while it was opened"
    for wrong in ((Event.CLOSED,), (Event.READY, Event.READY), (Event.READY, Event.CLOSED, Event.CLOSED)):
        with pytest.raises(KeyError):
            held(*wrong)


def test_how_fast_a_number_grew() -> None:
    pace = Pace(10.0)
    assert pace.add(0.0, 100) == 0.0, "nothing is known yet"
    assert pace.add(5.0, 150) == 10.0
    assert [pace.add(float(second), 150) for second in (10, 15, 20)] == [5.0, 0.0, 0.0]


# -- pages


async def test_pages_are_granted_exactly(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    got(await engine.create([], 1))
    control = Control(engine, SystemClock())
    await control.limit_pages(10)
    monkeypatch.setattr("lycosa.cluster.rations._LOOK", 0.01)
    agents = [Rations(control, 10, SystemClock()) for _ in range(2)]
    for shard, rations in enumerate(agents):
        assert not rations.may(shard), "not ours yet"
        await rations.begin(shard, 1, 0, lambda: True)
    taken = 0
    for _ in range(20):
        for shard, rations in enumerate(agents):
            while rations.take(shard):
                taken += 1
            await rations.tend()
    assert taken == 10
    agents[0].give_back(0)
    assert agents[0].take(0) and not agents[0].take(0)
    # Its next holder finds one page less in the log: that one is free again, for whoever asks first.
    fetched = (await control.quota()).granted[0][1] - 1
    await agents[1].begin(0, 2, fetched, lambda: True)
    for _ in range(3):
        assert not agents[1].may(0) or not agents[1].may(1)
        await agents[1].tend()
    assert agents[1].take(0) + agents[1].take(1) == 1
    assert not agents[1].take(0) and not agents[1].take(1)
    with pytest.raises(Fenced):
        await control.take_pages(0, 1, 5, 5)
    unlimited = Rations(control, 0, SystemClock())
    await unlimited.begin(0, 3, 0, lambda: True)
    assert all(unlimited.take(0) for _ in range(100))


async def test_shards_without_work_wish_for_nothing(engine: Engine) -> None:
    got(await engine.create([], 1))
    control = Control(engine, SystemClock())
    await control.limit_pages(4)
    rations = Rations(control, 4, SystemClock())
    await rations.begin(0, 1, 0, lambda: False)
    assert not rations.may(0)
    assert not await rations.tend()
    assert (await control.quota()).granted == {0: (1, 0)}


# -- turns of hosts


class Frontier:
    def __init__(self) -> None:
        self.claimed: list[str] = []
        self.ended: list[tuple[str, float]] = []

    def claim(self, host: str, now: float) -> bool:
        if host in self.claimed:
            return False
        self.claimed.append(host)
        return True

    def end(self, host: str, ready: float) -> None:
        self.claimed.remove(host)
        self.ended.append((host, ready))


async def test_a_hosts_turn_is_its_holders_to_give(
    engine: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lycosa.cluster.turns._ANSWER", PATIENCE)
    clock = ManualClock()
    frontier = Frontier()
    may = [True]
    keeper = TurnKeeper(engine.requests, clock, expiry=60.0, host_wait=2.0)
    await keeper.keep(1, frontier, lambda: may[0])
    subject = of_hosts(lambda host: 1 if host == "b.test" else 0)
    asker = TurnHosts(TurnAsker(other.requests, subject, clock), clock)
    assert not await asker.claim("a.test"), "nobody holds shard 0"
    while not await asker.claim("b.test"):  # until the server knows of the subscription
        pass
    assert not await asker.claim("b.test")
    asker.end("b.test", clock.monotonic() + 3.0)
    await until(lambda: bool(frontier.ended))
    assert frontier.ended == [("b.test", pytest.approx(clock.monotonic() + 3.0))]
    assert await asker.claim("b.test")
    clock.advance(61.0)
    keeper.end_late()  # whoever had it is dead
    assert frontier.ended[-1] == ("b.test", clock.monotonic() + 2.0)
    may[0] = False
    monkeypatch.setattr("lycosa.cluster.turns._ANSWER", 0.2)
    assert not await asker.claim("b.test"), "who is late with his lease says nothing"
    await keeper.drop(1)


# -- links that travel


class Node:
    """An agent that holds all shards, whose links go through the streams; nothing is fetched."""

    def __init__(self, engine: Engine, root: Path) -> None:
        self.clock = ManualClock()
        self.engine = engine
        self.failed: list[Exception] = []
        self.exchange = StreamExchange(fail=self.failed.append)
        team = Team(
            name="a",
            size=1,
            exchange=self.exchange,
            addresses=AddressTable(0.1),
            hosts=NoHosts(),
            quota=Rations(Control(engine, self.clock), 0, self.clock),
            ledger=OwnDisk(),
        )
        fetchers = ScriptedFetchers(ScriptedFetcher(lambda request, before: Reply(b""), self.clock))
        self.agent: Agent = build(
            DiskFiles(root),
            read_options(OPTIONS),
            shards=SHARDS,
            hash_seed=7,
            clock=self.clock,
            fetchers=fetchers,
            resolver=ScriptedResolver({}),
            team=team,
        )
        for number in range(SHARDS):
            self.agent.shards.add(self.agent.moves.opened(number))
        self.agent.begin([], {}, unclean=False)

    def shard(self, number: int) -> Shard:
        found = self.agent.shards.find(number)
        assert found is not None
        return found

    def host(self, number: int) -> str:
        splitter = self.shard(0).splitter
        return next(host for n in range(99) if splitter.shard_of(host := f"h{n}.test") == number)

    async def begin(self, number: int, epoch: int = 1) -> None:
        shard = self.shard(number)
        meters = self.agent.meters
        out = Outgoing(self.engine, shard, SHARDS, epoch, SystemClock(), meters)
        assert await out.resume() is None
        incoming = Incoming(
            self.engine.stream(f"x.{number}"),
            shard,
            clock=SystemClock(),
            meters=meters,
            woken=lambda: None,
            refresh=self._nothing,
        )
        self.exchange.add(number, out, incoming)

    async def _nothing(self) -> None:
        """There are no newer options."""

    async def settle(self) -> None:
        """Until everything has arrived everywhere, and stays so."""
        quiet = 0
        while quiet <= 3:  # a test that hangs is ended by its time limit
            await self.agent.saver.commit()
            await asyncio.sleep(0.02)
            assert not self.failed, self.failed
            done = True
            for number in range(SHARDS):
                _, last = got(await self.engine.stream(f"x.{number}").ends())
                done &= self.exchange.is_quiet(number) and self.exchange.received(number) >= last
                done &= self.exchange.sent(number) == self.shard(number).log.end
            quiet = quiet + 1 if done else 0

    def received(self, number: int) -> list[str]:
        rows = [record for _, record in self.shard(number).log.reader.scan() if isinstance(record, Received)]
        return [link.url for record in rows for link in record.links]


async def streams(engine: Engine, room: int) -> None:
    got(await engine.create(streams_of(SHARDS, 1 << 20, room), 1))
    for number in range(SHARDS):  # nobody has received anything
        got(await engine.bucket.put(cursors_of(number), b"{}"))


async def test_every_link_arrives_once_also_through_a_full_stream(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lycosa.cluster.streaming._PURGE", 0.1)
    monkeypatch.setattr("lycosa.cluster.streaming._BLOCKED", 0.1)
    await streams(engine, 32_000)
    node = Node(engine, tmp_path)
    hosts = [node.host(number) for number in range(SHARDS)]
    await node.begin(0)
    await node.begin(1)  # shard 2 has no reader: its stream fills, and that of shard 1 must not mind
    wanted: dict[int, list[str]] = {1: [], 2: []}
    for n in range(240):
        # Links that cannot be packed well: the streams must fill.
        links = {to: [f"http://{hosts[to]}/{os.urandom(24).hex()}" for _ in range(8)] for to in wanted}
        for to, urls in links.items():
            wanted[to] += urls
        node.shard(0).append(page(f"http://{hosts[0]}/{n}", (*links[1], *links[2], links[1][0])))
        if n % 20 == 19:
            await node.agent.saver.commit()
            await asyncio.sleep(0.05)
    while len(node.received(1)) < len(wanted[1]):
        await node.agent.saver.commit()
        await asyncio.sleep(0.02)
        assert not node.failed, node.failed
    assert sorted(node.received(1)) == sorted(wanted[1])
    assert not node.exchange.is_quiet(0), "something waits for shard 2, in the log"
    assert len(node.shard(0).outbox) == 0, "and takes no memory"
    await node.begin(2)
    await node.settle()
    assert sorted(node.received(2)) == sorted(wanted[2])
    for number in (0, 1, 2):
        await node.exchange.remove(number)


async def test_a_new_holder_goes_on_where_the_last_one_was(
    engine: Engine,
    tmp_path: Path,
) -> None:
    await streams(engine, 8 << 20)
    node = Node(engine, tmp_path)
    hosts = [node.host(number) for number in range(SHARDS)]
    await send_seeds(engine.stream("x.2"), 2, [f"http://{hosts[2]}/seed"])
    for number in range(SHARDS):
        await node.begin(number)
    for n in range(6):
        node.shard(0).append(
            page(f"http://{hosts[0]}/{n}", (f"http://{hosts[1]}/{n}",), digest=SHARDS * 7 + 1)
        )
        await node.settle()
        if n == 2:  # another takes the shards over: nothing is kept but logs and streams
            for number in (0, 1):
                await node.exchange.remove(number)
                await node.begin(number, epoch=2)
    await node.settle()
    assert node.received(1) == [f"http://{hosts[1]}/{n}" for n in range(6)]
    sequences = [r.sequence for _, r in node.shard(1).log.reader.scan() if isinstance(r, Received)]
    assert sequences == sorted(set(sequences)) and node.shard(1).received == sequences[-1]
    # The content belongs to shard 1: its first page was new, the others were not.
    late = [r for _, r in node.shard(0).log.reader.scan() if isinstance(r, Duplicates)]
    assert sum(len(record.positions) for record in late) == 5
    assert node.shard(0).totals.duplicates == 5
    seeded = [r for _, r in node.shard(2).log.reader.scan() if isinstance(r, Seeded)]
    assert [link.url for record in seeded for link in record.links] == [f"http://{hosts[2]}/seed"]
    for number in range(SHARDS):
        await node.exchange.remove(number)


def test_a_page_with_another_valid_fetch_remains_one() -> None:
    kept, gone = Stored("kept.warc.gz", 0, 5), Stored("gone.warc.gz", 0, 5)
    records = [
        (10, page("http://a/old", stored=gone, before=Before.PAGE)),  # its first is older than the checkpoint
        (11, page("http://a/both", stored=gone)),
        (12, page("http://a/later", stored=gone)),
        (13, page("http://a/first", stored=kept)),
        (14, page("http://a/both", stored=gone, before=Before.PAGE)),
        (15, page("http://a/later", stored=kept, before=Before.PAGE)),
        (16, page("http://a/first", stored=gone, before=Before.PAGE)),
        (17, page("http://a/thrice", stored=gone)),
        (18, Lost(1, "http://a/thrice", 1, 0, "gone.warc.gz", 17, 200, 10, 0, 0)),
        (19, page("http://a/thrice", stored=gone, before=Before.LOST)),
    ]
    found = lost_pages(records, lambda name: 5 * name.startswith("kept"), 99)
    assert {(lost.position, lost.remains) for lost in found} == {
        *((10, True), (11, True), (12, True), (14, False), (16, True), (19, False)),
    }


# -- a page that is taken back


async def test_a_lost_page_is_pending_again_and_counts_once(
    engine: Engine,
    tmp_path: Path,
) -> None:
    node = Node(engine, tmp_path)
    shard = node.shard(0)
    host = node.host(0)
    urls = [f"http://{host}/{n}" for n in range(4)]
    shard.append(Seeded(1, Links.pack(Link(url, LinkKind.SEED, False, "") for url in urls)))

    def fetch(url: str) -> int:
        assert shard.frontier.begin(node.clock.monotonic()) == host
        others = []
        while (taken := shard.frontier.take(host)) is not None and taken.url != url:
            others.append(taken)
        for waiting in others:
            shard.frontier.put_back(waiting)
        assert taken is not None
        position = shard.append(page(url, (urls[1],), digest=SHARDS * 5, before=taken.before))
        shard.frontier.end(host, node.clock.monotonic())
        return position

    at = fetch(urls[0])
    before = shard.totals.fetched, shard.frontier.pending
    lost = Lost(2, urls[0], 0, 0, "f.warc.gz", at, 200, 10, 1, SHARDS * 5)
    shard.append(lost)
    assert (shard.totals.fetched, shard.frontier.pending) == (before[0] - 1, before[1] + 1)
    assert shard.totals.lost == 1 and shard.totals.size == shard.totals.links == 0
    again = page(urls[0], digest=SHARDS * 5, before=Before.LOST)
    other = page(urls[1], digest=SHARDS * 5)
    assert not shard.is_duplicate(again) and shard.is_duplicate(other), "of itself nothing is a duplicate"
    await node.agent.saver.commit()

    def reopened() -> Shard:
        again = node.agent.moves._open_shard(0)
        node.agent.saver.recover_one(again)
        again.log.close()
        return again

    replayed = reopened()
    assert replayed.frontier.pending == shard.frontier.pending == 4
    assert replayed.totals == shard.totals and list(replayed.pages.items()) == list(shard.pages.items())
    assert not replayed.is_duplicate(again) and replayed.is_duplicate(other)
    fetch(urls[0])
    await node.agent.saver.commit()
    replayed = reopened()
    assert replayed.frontier.pending == shard.frontier.pending == 3
    assert replayed.totals == shard.totals and shard.totals.fetched == shard.totals.pages == 1
    assert list(replayed.pages.items()) == list(shard.pages.items())


# -- ending tasks


async def test_a_task_that_forgets_its_cancellation_ends_all_the_same() -> None:
    forgotten = [0]

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                forgotten[0] += 1
                if forgotten[0] > 1:
                    raise

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await asyncio.wait_for(end_tasks([task]), PATIENCE)
    assert task.cancelled() and forgotten == [2]


def test_code_that_the_options_name_is_not_run_without_consent() -> None:
    _demand_consent("", "")
    _demand_consent("taste.py:score", "taste.py:score")
    for allowed in ("", "other.py:score"):
        with pytest.raises(ConfigError, match=r"--scorer taste\.py:score"):
            _demand_consent("taste.py:score", allowed)


@pytest.mark.parametrize("seconds", [9.0, 11.0])
async def test_a_hand_over_waits_for_storage_while_the_lease_lasts(seconds: float, tmp_path: Path) -> None:
    """What is not on storage when the lease is given back would be lost: it is away for so long."""
    done: list[str] = []
    clock = ManualClock()

    async def sleep(some: float) -> None:
        clock.advance(some)

    async def note(what: str) -> None:
        done.append(what)

    async def bring(commit: object) -> None:
        if clock.monotonic() < seconds:
            raise Away("it does not answer")
        done.append("brought")

    async def save(position: int, about: dict[str, int]) -> None:
        done.append("saved")

    async def tidy() -> Unavailable:
        return Unavailable("nor do the servers")

    clock.sleep = sleep  # type: ignore[method-assign]
    saver = SimpleNamespace(commit=None, covered=lambda number: 7, forget=lambda shard: None)
    moves = SimpleNamespace(
        leave=lambda number: note("visits end"),
        hand_over=lambda number: note("handed over"),
    )
    agent: Any = SimpleNamespace(saver=saver, moves=moves)
    keeping: Any = SimpleNamespace(bring=bring, saved=lambda shard: None, drop=lambda number: None)
    holder: Any = Holder(
        held=HeldShards(clock, lambda text: None),
        agent=agent,
        keeping=keeping,
        engine=None,  # type: ignore[arg-type]
        leases=SimpleNamespace(release=lambda number, turns: note("released")),  # type: ignore[arg-type]
        exchange=SimpleNamespace(remove=lambda number: note("quiet")),  # type: ignore[arg-type]
        turns=SimpleNamespace(  # type: ignore[arg-type]
            end=lambda number, wait: note("turns"), drop_hosts=lambda number: note("hosts")
        ),
        rations=SimpleNamespace(settle=lambda *pages: note("settled"), end=lambda number: None),  # type: ignore[arg-type]
        clock=clock,
        about=None,  # type: ignore[arg-type]
        refresh=lambda: note(""),
        closed=lambda held: note("reported"),
        told=lambda text: None,
        foreign=None,  # type: ignore[arg-type]
    )
    holder.let_go = lambda number: note("let go")
    keeper: Any = SimpleNamespace(save=save, tidy=tidy)
    held = holder.held[0] = Held(0, Holding(Lease("a", 1, 10.0), 1, began=0.0), keeper)
    log = SimpleNamespace(end=7)
    held.shard = SimpleNamespace(received=1, archive_ends={}, totals=SimpleNamespace(pages=3), log=log)
    held.on(Event.READY)
    await holder.hand_over(0)
    if seconds < 10:
        assert done[-5:] == ["saved", "reported", "settled", "turns", "released"]
    else:
        assert done[-1] == "let go" and "brought" not in done and "released" not in done


async def test_a_shard_is_let_go_only_when_nobody_reads_its_files() -> None:
    """A sealed segment was on its way to storage when the lease was lost: the agent ended for want of the file."""
    done: list[str] = []
    reading, may_end = asyncio.Event(), asyncio.Event()
    clock = ManualClock()

    async def note(what: str) -> None:
        done.append(what)

    async def tidy() -> int:
        reading.set()
        await may_end.wait()
        done.append("segment is on storage")
        return 1

    holder: Any = Holder(
        held=HeldShards(clock, lambda text: None),
        agent=SimpleNamespace(shards=SimpleNamespace(find=lambda number: None)),  # type: ignore[arg-type]
        keeping=SimpleNamespace(drop=lambda number: done.append("files are gone")),  # type: ignore[arg-type]
        engine=None,  # type: ignore[arg-type]
        leases=SimpleNamespace(release=lambda number: note("released")),  # type: ignore[arg-type]
        exchange=SimpleNamespace(remove=lambda number: note("quiet")),  # type: ignore[arg-type]
        turns=SimpleNamespace(drop=lambda number: note("turns")),  # type: ignore[arg-type]
        rations=SimpleNamespace(end=lambda number: None),  # type: ignore[arg-type]
        clock=clock,
        about=None,  # type: ignore[arg-type]
        refresh=lambda: note(""),
        closed=lambda held: note(""),
        told=lambda text: None,
        foreign=None,  # type: ignore[arg-type]
    )
    keeper: Any = SimpleNamespace(tidy=tidy)
    held = holder.held[0] = Held(0, Holding(Lease("a", 1, 10.0), 1, began=0.0), keeper)
    held.on(Event.READY)
    tidying = asyncio.create_task(holder.tidy())
    await reading.wait()
    leaving = asyncio.create_task(holder.let_go(0))
    for _ in range(20):
        await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(tidying, leaving)
    assert done.index("segment is on storage") < done.index("files are gone")


async def test_storage_that_is_away_is_told_once_and_asked_again() -> None:
    said: list[str] = []
    saves: Any = Saves(None, None, SnapshotOptions, ManualClock(), said.append)  # type: ignore[arg-type]
    answers: list[Exception | None] = [Away("x is away"), Away("x is away"), None, Away("x is away")]

    async def due() -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    saves._what_is_due = due
    for _ in range(4):
        await saves.step()
    assert said == ["x is away: the crawl goes on, and is saved when shared storage is back"] * 2
