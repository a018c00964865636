"""The invariant of recovery, at every prefix of a log.

Each in-scope link that a shard's log holds is exactly one of: done, pending, deferred; or, if none of these,
behind the cursor of a record left behind; or, if it belongs to another shard, on its way there. With a snapshot
taken at any earlier position, too, and however little room there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import msgspec
import numpy as np
import pytest

from lycosa.clock import Clock, ManualClock
from lycosa.crawl import manifest as manifests
from lycosa.crawl.admission import Shared
from lycosa.crawl.budgets import Budgets
from lycosa.crawl.config import Options
from lycosa.crawl.link_store import LinkStore
from lycosa.crawl.replay import LinkPass, read_back, replay
from lycosa.crawl.shard import ContentIndex, Shard, followed_kinds
from lycosa.crawl.sites import SiteTable
from lycosa.crawl.splitting import Splitter
from lycosa.files import Files
from lycosa.frontier import (
    Calendar,
    DepthOrder,
    Frontier,
    FrontierOptions,
    PackedFrontier,
    PlainFrontier,
    PlainLeftBehind,
    Room,
    Sampler,
)
from lycosa.lab.faults import FaultyFiles
from lycosa.log import snapshot
from lycosa.log.log import Log
from lycosa.log.reader import LogReader
from lycosa.log.snapshot import SnapshotWriter
from lycosa.pages.packed import PackedPages
from lycosa.pages.plain import PlainPages
from lycosa.pages.rows import ROW_BYTES
from lycosa.pages.summary import Summary, of_fetch, of_loss
from lycosa.records import Before, Deferred, Fetched, LinkKind, Links, Lost, Received, Record, Skipped, Why
from lycosa.seen.cache import ScatterCache
from lycosa.seen.memory import MemorySeen
from lycosa.seen.plain import PlainSeen
from lycosa.seen.protocol import Merging
from lycosa.url.key import Keyer
from lycosa.url.parts import host_of, site_of
from lycosa.url.scope import Scope
from tests.crawl.scripted import crawl

SHARDS = 4
ROOMY = FrontierOptions()
Make = Callable[[Files, Clock, int], tuple[Frontier, Merging]]


def packed(files: Files, clock: Clock, seed: int) -> tuple[Frontier, Merging]:
    return PackedFrontier(clock, DepthOrder(), seed), MemorySeen(files.within("seen"))


def plain(files: Files, clock: Clock, seed: int) -> tuple[Frontier, Merging]:
    return PlainFrontier(clock), PlainSeen()


class World:
    """A whole crawl's logs, and what a shard needs to be replayed."""

    def __init__(self) -> None:
        self.files = FaultyFiles()
        crawl(self.files)
        manifest = manifests.load(self.files)
        assert manifest is not None
        self.domains = manifests.domains_of(self.files)
        self.splitter = Splitter(SHARDS, self.domains)
        self.keyer = Keyer(manifest.hash_seed)
        self.records = [
            [record for _, record in LogReader(self.files.within(f"shards/{n:02d}/log")).scan()]
            for n in range(SHARDS)
        ]

    def scope_of(self, options: Options) -> Scope:
        return Scope(options.scope, options.near, self.domains)

    def shard(
        self, number: int, files: Files, make: Make, options: FrontierOptions = ROOMY, filled: int = 0
    ) -> Shard:
        clock = ManualClock()
        frontier, seen = make(files, clock, self.keyer.seed)
        content = PlainSeen()
        room = Room(options.memory)
        room.tell(-1, filled)
        return Shard(
            number,
            log=Log(files.within("log")),
            links=LinkStore(seen, ScatterCache(1 << 10)),
            frontier=frontier,
            calendar=Calendar(files.within("calendar")),
            revisits=Calendar(files.within("revisits")),
            content=ContentIndex([content]),
            content_store=content,
            left=PlainLeftBehind(),
            sites=SiteTable(),
            budgets=Budgets(2, 3, self.domains.domain),
            shared=Shared(
                DepthOrder(), self.keyer, self.splitter, Sampler(options), room, clock, self.scope_of
            ),
            pages=PackedPages(files.within("pages"), memory=4 * ROW_BYTES, recent=2),
        )


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def write_log(files: Files, records: list[Record]) -> None:
    log = Log(files.within("log"))
    for record in records:
        log.append(record)
    log.commit()
    log.close()


def state_of(shard: Shard) -> tuple[list[str], list[str], set[str]]:
    """What is pending, what is deferred, what is on its way."""
    pending: list[str] = []
    while (host := shard.frontier.begin(1e15)) is not None:
        while (waiting := shard.frontier.take(host)) is not None:
            pending.append(waiting.url)
            shard.frontier.done(waiting.key)
        shard.frontier.end(host, 0.0)
    deferred = [row.url for row in shard.calendar.due(10**16, 10**6)]
    away = {row.url for owner in range(SHARDS) for row in shard.outbox.take(owner, 10**9)}
    return pending, deferred, away


def pages_of(world: World, records: list[Record]) -> list[tuple[int, Summary]]:
    """The page table that the log says, record by record."""
    table = PlainPages()
    for position, record in enumerate(records):
        if isinstance(record, Fetched):
            table.note(world.keyer.key(record.url), of_fetch(record, position))
        elif isinstance(record, Lost):
            table.note(world.keyer.key(record.url), of_loss(record, position))
    return list(table.items())


def check(world: World, number: int, shard: Shard, records: list[Record]) -> None:
    assert list(shard.pages.items()) == pages_of(world, records)
    pages = {url for url, n in valid_fetches(records).items() if n}
    assert shard.totals.pages == len(pages)
    assert sum(site.pages for name, site in shard.sites.items()) == len(pages)
    behind = set(shard.admission.behind())
    pending, deferred, away = state_of(shard)
    done: set[str] = set()
    waiting: set[str] = set()
    for record in records:
        if isinstance(record, Fetched | Skipped):
            done.add(record.url)
            waiting.discard(record.url)
        elif isinstance(record, Deferred) and record.url:
            waiting.add(record.url)
            done.discard(record.url)
        elif isinstance(record, Lost):
            done.discard(record.url)
    assert len(pending) == len(set(pending)), "pending twice"
    assert len(deferred) == len(set(deferred)), "deferred twice"
    assert set(deferred) == waiting
    assert not set(pending) & done and not set(pending) & set(deferred)
    for url in found_links(world, shard, records):
        if world.splitter.shard_of(host_of(url)) == number:
            places = [url in done, url in pending, url in deferred]
            key = np.array([world.keyer.key(url)], np.uint64)
            known = shard.links.found.certain(key)[0]
            if not any(places):
                assert url in behind, f"{url} is nowhere"
                assert not known, f"{url} is behind a cursor only, but known"
                continue
            assert sum(places) == 1, f"{url} is in {places} (done, pending, deferred)"
            assert known, f"{url} is not known"
        else:
            assert url in away, f"{url} of another shard is lost"


def valid_fetches(records: list[Record]) -> Counter[str]:
    """How many fetches of each URL count."""
    counts: Counter[str] = Counter()
    for record in records:
        counts[getattr(record, "url", "")] += isinstance(record, Fetched) - isinstance(record, Lost)
    return counts


def found_links(world: World, shard: Shard, records: list[Record]) -> set[str]:
    """Every link that the log holds, is followed, and is in scope."""
    if shard.options == b"":
        return set()
    from lycosa.crawl.config import decode_options

    options = decode_options(shard.options)
    follow, scope = followed_kinds(options.follow), world.scope_of(options)
    found = set()
    for record in records:
        links = getattr(record, "links", None)
        if not isinstance(links, Links):
            continue
        for link, byte in zip(links, links.kinds, strict=True):
            hops = record.hops if isinstance(record, Fetched) and link.kind is LinkKind.REDIRECT else 0
            if (isinstance(record, Received) or follow[byte]) and hops < 10 and scope.inside(link.url, 0):
                found.add(link.url)
    return found


LITTLE = [FrontierOptions(admit="sample", sample=1), FrontierOptions(memory=1 << 12)]


def refill(shard: Shard) -> None:
    """As recovery does: what is on its way is found from the cursors."""
    reading = LinkPass(shard.log.reader.files)
    found = read_back(shard, reading.take(shard.log.committed, 1 << 30), range(SHARDS))
    shard.outbox._rows = found.rows


@pytest.mark.parametrize("way", [Shard.replay, replay])
@pytest.mark.parametrize("room", LITTLE)
@pytest.mark.parametrize("number", range(SHARDS))
def test_with_little_room_what_does_not_enter_is_behind_a_cursor(
    world: World, number: int, room: FrontierOptions, way: Callable[[Shard, int], int]
) -> None:
    records = world.records[number]
    left = 0
    for end in range(len(records) + 1):
        files = FaultyFiles()
        write_log(files, records[:end])
        # With the least memory: as if other shards had filled it.
        shard = world.shard(number, files, packed, room, (1 << 13) * (room.memory == 1 << 12))
        assert way(shard, 0) == end
        left += len(shard.left)
        shard.outbox.clear()
        refill(shard)
        check(world, number, shard, records[:end])
    pages = any(isinstance(row, Fetched) for row in records)
    assert left > 0 or not pages, "nothing was ever left behind: the test shows nothing"


@pytest.mark.parametrize("way", [Shard.replay, replay])
@pytest.mark.parametrize("make", [packed, plain])
@pytest.mark.parametrize("number", range(SHARDS))
def test_every_prefix_of_the_log_replays_to_a_whole_state(
    world: World, number: int, make: Make, way: Callable[[Shard, int], int]
) -> None:
    records = world.records[number]
    for end in range(len(records) + 1):
        files = FaultyFiles()
        write_log(files, records[:end])
        shard = world.shard(number, files, make)
        assert way(shard, 0) == end
        shard.outbox.clear()
        refill(shard)
        check(world, number, shard, records[:end])


@pytest.mark.parametrize("way", [Shard.replay, replay])
@pytest.mark.parametrize("make", [packed, plain])
@pytest.mark.parametrize("number", range(SHARDS))
def test_a_snapshot_at_any_position_and_the_tail_replay_to_the_same(
    world: World, number: int, make: Make, way: Callable[[Shard, int], int]
) -> None:
    random = Random(number)
    records = world.records[number]
    for end in range(1, len(records) + 1, 2):
        start = random.randint(0, end)
        files = FaultyFiles()
        write_log(files, records[:start])
        early = world.shard(number, files, make)
        early.replay(0)
        writer = SnapshotWriter(files.within("snapshots"), start)
        for name, part in early.parts.items():
            for piece in part.freeze():
                writer.add(name, piece)
        for filed in early.filed.values():
            filed.settle()
        writer.seal({})
        early.log.close()
        log = Log(files.within("log"))
        for record in records[start:end]:
            log.append(record)
        log.commit()
        log.close()
        late = world.shard(number, files, make)
        found = snapshot.newest(files.within("snapshots"))
        assert found is not None and found.position == start
        for name, part in late.parts.items():
            part.thaw(found.pieces.get(name, []))
        assert way(late, start) == end - start
        late.outbox.clear()
        refill(late)
        check(world, number, late, records[:end])


def with_repeats(records: list[Record], seed: int) -> list[Record]:
    """The log as if pages were due again, some more than once, and some of what was fetched were lost."""
    random = Random(seed)
    found: list[Record] = []
    pages: dict[str, tuple[int, Fetched]] = {}
    for record in records:
        found.append(record)
        if isinstance(record, Fetched):
            pages[record.url] = len(found) - 1, record
        for url in random.sample(sorted(pages), min(len(pages), random.randrange(3))):
            position, last = pages[url]
            kind = random.choice(("again", "changed", "confirmed", "failed", "lost"))
            at = last.at + random.randrange(1, 10**8)
            before = Before.PAGE
            if kind == "lost":
                remains = valid_fetches(found)[url] > 1
                what = last.status, last.size, len(last.links), last.digest, last.duplicate, remains
                found.append(Lost(at, url, last.depth, last.hops, "f", position, *what))
                before = Before.PAGE if remains else Before.LOST
            else:
                due = Deferred(at, url, site_of(url), last.depth, last.hops, 0, Why.RETRY, at, "", before)
                found.append(due)
            again = msgspec.structs.replace(last, at=at, before=before)
            if kind == "changed":
                again = msgspec.structs.replace(again, digest=random.randrange(1, 1 << 60))
            elif kind == "confirmed":
                again = msgspec.structs.replace(again, status=304, links=Links())
            elif kind == "failed":
                again = msgspec.structs.replace(again, status=500, links=Links())
            found.append(again)
            if kind in ("again", "changed", "lost"):
                pages[url] = len(found) - 1, again
    return found


@pytest.mark.parametrize("way", [Shard.replay, replay])
@pytest.mark.parametrize("number", range(SHARDS))
def test_a_log_in_which_pages_are_fetched_again_replays_to_a_whole_state(
    world: World, number: int, way: Callable[[Shard, int], int]
) -> None:
    records = with_repeats(world.records[number], number)
    repeated = max(valid_fetches(records).values())
    assert repeated > 2 or len(records) < 4, "no page was fetched again: the test shows nothing"
    for end in range(len(records) + 1):
        files = FaultyFiles()
        write_log(files, records[:end])
        shard = world.shard(number, files, packed)
        assert way(shard, 0) == end
        shard.outbox.clear()
        refill(shard)
        check(world, number, shard, records[:end])
