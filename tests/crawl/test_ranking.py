from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lycosa.clock import ManualClock
from lycosa.compiled import Kernel
from lycosa.crawl.config import FollowOptions
from lycosa.crawl.rank_fold import SOURCE, RankFold, lists_of, lists_plain, rank_lists, summed_up
from lycosa.crawl.ranking import Ranker, make_order, ranked, warm_ranking
from lycosa.crawl.shard import followed_kinds
from lycosa.errors import ConfigError
from lycosa.frontier import (
    BatchOrder,
    Boost,
    DepthOrder,
    Frontier,
    FrontierOptions,
    LengthOrder,
    Levels,
    OptimalOrder,
    Order,
    PackedFrontier,
    PartialOrder,
    PlainFrontier,
    RankedOrder,
    Ranking,
    Ranks,
    ScoredRankedOrder,
)
from lycosa.frontier.orders import rank_kernels
from lycosa.frontier.orders.ranked import WORST, host_name, plan_levels
from lycosa.graph import walk_kernels
from lycosa.graph.bv import Lists
from lycosa.meters import Meters
from lycosa.records import (
    Fetched,
    Link,
    LinkKind,
    Links,
    Record,
    Robots,
    Seeded,
    Skipped,
    Timing,
    Waiting,
    Why,
)
from lycosa.url.key import Keyer
from lycosa.url.parts import host_of

KEYER = Keyer(99)
FOLLOW = followed_kinds(FollowOptions())
PLENTY = 64 << 20


def fetched(url: str, *links: str | Link, depth: int = 1, status: int = 200) -> Fetched:
    rows = [link if isinstance(link, Link) else Link(link, LinkKind.ANCHOR, False, "") for link in links]
    packed = Links.pack(rows)
    return Fetched(0, url, depth, 0, 0, status, "text/html", "utf-8", 0, 0, 0, Timing(), "", packed)


def seeded(*urls: str) -> Seeded:
    return Seeded(0, Links.pack(Link(url, LinkKind.SEED, False, "") for url in urls))


def url(number: int, host: int = 0) -> str:
    return f"http://h{host}.test/p{number}"


def waiting(address: str, depth: int = 1) -> Waiting:
    return Waiting(address, KEYER.key(address), depth)


def by_url(ranks: Ranks, urls: list[str]) -> dict[str, float]:
    known = dict(zip(ranks.keys.tolist(), ranks.values.tolist(), strict=True))
    assert len(known) == len(urls)
    return {address: known[KEYER.key(address)] for address in urls}


def name_of(host: str) -> int:
    return int(host_name(np.array([KEYER.host_hash(host)], np.uint64))[0])


def fold_of(*records: Record, memory: int = PLENTY) -> RankFold:
    fold = RankFold(KEYER, memory, FOLLOW)
    for record in records:
        fold.add(record)
    return fold


def random_web(seed: int, pages: int = 300, fetched_pages: int = 120, hosts: int = 7) -> list[Fetched]:
    """Some pages of which some are fetched; the first are the popular ones."""
    rng = random.Random(seed)
    records = []
    for source in range(fetched_pages):
        targets = {int(pages * rng.random() ** 2) for _ in range(rng.randrange(12))}
        records.append(fetched(url(source, source % hosts), *(url(n, n % hosts) for n in sorted(targets))))
    return records


# -- the fold


def test_ranks_equal_those_of_networkx() -> None:
    records = random_web(1)
    graph = nx.DiGraph()
    for record in records:
        graph.add_node(record.url)
        graph.add_edges_from((record.url, link.url) for link in record.links)
    ranks = fold_of(*records).cut().run()
    found = by_url(ranks, list(graph))
    expected = nx.pagerank(graph, tol=1e-12, max_iter=500)
    for address, rank in expected.items():
        assert found[address] == pytest.approx(rank, rel=1e-4)
    assert not ranks.by_host
    assert ranks.done.tolist() == sorted(KEYER.key(record.url) for record in records)
    assert (np.diff(ranks.keys.astype(object)) > 0).all()


def test_ranks_by_hand() -> None:
    # Two pages point to c, one to b. With d = 0.85, x the rank of a page that nobody points to:
    # a = x, b = x + .85 a/2, c = x + .85 (a/2 + b); what c has goes to all.
    a, b, c = url(1), url(2), url(3)
    found = by_url(fold_of(fetched(a, b, c), fetched(b, c)).cut().run(), [a, b, c])
    assert found[b] / found[a] == pytest.approx(1.425, rel=1e-4)
    assert found[c] / found[a] == pytest.approx(1 + 0.85 * (0.5 + 1.425), rel=1e-4)
    assert sum(found.values()) == pytest.approx(1.0)


def test_what_counts() -> None:
    links = (
        Link(url(1), LinkKind.ANCHOR, False, ""),
        Link(url(2), LinkKind.ANCHOR, True, ""),  # nofollow
        Link(url(3), LinkKind.IMAGE, False, ""),
        Link(url(4), LinkKind.FORM, False, ""),
        Link(url(5), LinkKind.REDIRECT, False, ""),
    )
    fold = fold_of(
        fetched(url(0), *links),
        fetched(url(6), status=404),
        seeded(url(7)),
        Robots(0, "http://h0.test", 200, b"", 0, seeded(url(8)).links),
        Skipped(0, url(1), 1, Why.ROBOTS),
    )
    ranks = fold.cut().run()
    found = by_url(ranks, [url(n) for n in (0, 1, 5, 6, 7, 8)])
    assert found[url(1)] == found[url(5)] > found[url(6)] == found[url(7)] == found[url(0)]
    assert ranks.done.tolist() == sorted(KEYER.key(url(n)) for n in (0, 1, 6))
    assert (fold.pages, fold.links, fold.mode) == (2, 2, "pages")


def test_what_add_says_of_a_page() -> None:
    fold = RankFold(KEYER, PLENTY, FOLLOW)
    noted = fold.add(fetched(url(0), url(1), "http://other.test/x", Link(url(9), LinkKind.IMAGE, False, "")))
    assert noted is not None
    assert (noted.source, noted.host, noted.start) == (KEYER.key(url(0)), name_of("h0.test"), False)
    assert noted.keys.tolist() == [KEYER.key(url(1)), KEYER.key("http://other.test/x")]
    assert noted.hosts.tolist() == [name_of("h0.test"), name_of("other.test")]
    assert [fold.add(page).start for page in (fetched(url(1), depth=0), fetched("http://h.test/"))] == [
        True
    ] * 2  # type: ignore[union-attr]
    assert fold.add(seeded(url(3))) is None


def test_a_page_fetched_again_counts_with_its_last_links() -> None:
    a, b, c, d = (url(n) for n in range(4))
    twice = fold_of(fetched(a, b, c), fetched(d, c), fetched(a, d)).cut().run()
    once = fold_of(fetched(d, c), fetched(a, d), seeded(b)).cut().run()
    assert twice.keys.tolist() == once.keys.tolist()
    assert twice.values.tolist() == once.values.tolist()


def test_an_empty_fold_has_no_ranks() -> None:
    ranks = fold_of().cut().run()
    assert len(ranks.keys) == 0
    order = BatchOrder(5, KEYER)
    order.adopt(order.planner()(ranks))
    assert order.levels([waiting(url(1))], None) == [WORST]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, 20), max_size=6)), max_size=12),
    st.integers(1, 7),
)
def test_lists_equal_the_plain_form(pages: list[tuple[int, list[int]]], chunk: int) -> None:
    groups = np.array([(source, len(links)) for source, links in pages], SOURCE)
    targets = np.array([link for _, links in pages for link in links], np.uint64)
    keys = np.unique(np.concatenate([groups["key"], targets, np.array([50], np.uint64)]))
    chunks = [targets[at : at + chunk] for at in range(0, len(targets), chunk)]
    fast, plain = lists_of(keys, groups, chunks), lists_plain(keys, groups, targets)
    assert fast.starts.tolist() == plain.starts.tolist()
    assert fast.nodes.tolist() == plain.nodes.tolist()


def test_a_cut_does_not_see_what_comes_later() -> None:
    records = random_web(2)
    fold = fold_of(*records[:60])
    cut = fold.cut()
    for record in records[60:]:
        fold.add(record)
    early, late = cut.run(), fold_of(*records[:60]).cut().run()
    assert early.keys.tolist() == late.keys.tolist()
    assert early.values.tolist() == late.values.tolist()
    fold.settle(cut)
    whole = fold_of(*records).cut().run()
    assert fold.cut().run().values.tolist() == whole.values.tolist()


# -- bounds, and hosts instead of pages


def host_web(pages: int) -> Iterator[Fetched]:
    """h0 links once to h1, h1 a hundred times to h2 and once to h3, all of them much within themselves."""
    for number in range(pages):
        host = number % 4
        own = [url(10 * number + n, host) for n in range(20)]
        if host == 0:
            own += [url(1, 1)] if number == 0 else []
        if host == 1:
            own += [url(number, 2)] + ([url(1, 3)] if number == 1 else [])
        yield fetched(url(number, host), *own)


def test_above_its_memory_it_ranks_hosts() -> None:
    fold = RankFold(KEYER, 1 << 20, FOLLOW)
    for record in host_web(4 * 128):
        fold.add(record)
    assert not fold.by_host
    for record in host_web(30_000):
        fold.add(record)
        assert fold.nbytes <= 1 << 20
        if fold.by_host:
            break
    assert (fold.by_host, fold.mode) == (True, "hosts")
    assert fold.pages > 4000  # 20 links of 8 bytes each, and some for hosts
    ranks = fold.cut().run()
    assert ranks.by_host
    assert len(ranks.done) == 0
    assert ranks.keys.tolist() == sorted(name_of(f"h{n}.test") for n in range(4))
    assert fold.dropped == 0


def test_hosts_are_ranked_by_the_logarithm_of_their_links() -> None:
    records = list(host_web(4 * 100))
    fold = fold_of(*records)
    fold._fits(1 << 40)
    assert fold.by_host
    ranks = fold.cut().run()
    graph = nx.DiGraph()
    graph.add_nodes_from(range(4))
    graph.add_weighted_edges_from([(0, 1, 1), (1, 2, 1 + 6), (1, 3, 1)])  # 100 times: 1 + 6
    expected = nx.pagerank(graph, tol=1e-12)
    known = dict(zip(ranks.keys.tolist(), ranks.values.tolist(), strict=True))
    for number, rank in expected.items():
        assert known[name_of(f"h{number}.test")] == pytest.approx(rank, rel=1e-4)


def test_rows_of_hosts_are_summed_up() -> None:
    fold = fold_of(*host_web(400))
    before = fold._hosts.whole()
    calculation = fold.cut()
    fold.add(fetched(url(7, 9), url(8, 8)))  # while it runs
    calculation.run()
    fold.settle(calculation)
    after = fold._hosts.whole()
    assert len(after) < 10 < len(before)
    own = name_of("h0.test")
    assert after[(after["from"] == own) & (after["to"] == own)]["times"].tolist() == [100 * 20]
    assert (after["from"] == name_of("h9.test")).sum() == 1
    assert fold.cut()._hosts is None  # nothing new worth it


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), max_size=40),
    st.integers(1, 50),
)
def test_summing_up_keeps_the_most_frequent(rows: list[tuple[int, int, int]], most: int) -> None:
    table = np.array(rows, [("from", np.uint64), ("to", np.uint64), ("times", np.uint32)])
    found, dropped = summed_up(table, most * table.dtype.itemsize)
    sums: dict[tuple[int, int], int] = {}
    for source, to, times in rows:
        sums[source, to] = sums.get((source, to), 0) + times
    assert dropped == max(len(sums) - most, 0)
    assert [tuple(row)[:2] for row in found.tolist()] == sorted(tuple(row)[:2] for row in found.tolist())
    kept = {(source, to): times for source, to, times in found.tolist()}
    assert len(kept) == len(sums) - dropped
    assert all(sums[pair] == times for pair, times in kept.items())
    if dropped:
        assert min(kept.values()) >= max(sums[pair] for pair in set(sums) - set(kept))


def test_memory_holds_whatever_comes() -> None:
    """Every page links to new hosts: even rows of hosts outgrow the memory."""
    memory = 1 << 20
    fold = RankFold(KEYER, memory, FOLLOW)
    summed = 0
    for number in range(3_000):
        fold.add(fetched(url(number, number), *(url(0, 1_000_000 + 50 * number + n) for n in range(40))))
        assert fold.nbytes <= memory
        if fold.crowded and summed < 2:
            calculation = fold.cut()
            calculation.sum_up()
            fold.settle(calculation)
            summed += 1
            assert not fold.crowded
            assert fold.nbytes <= memory // 2 + memory // 8
    assert fold.by_host
    assert fold.dropped > 0
    assert len(fold.cut().run().keys) > 1000


# -- the orders that the options ask for


def test_make_order(tmp_path: Path) -> None:
    def make(**options: object) -> object:
        return make_order(FrontierOptions(**options), 99)  # type: ignore[arg-type]

    assert type(make()) is DepthOrder
    assert type(make(order="length")) is LengthOrder
    batch = make(order="batch", batch=17)
    assert isinstance(batch, BatchOrder)
    assert batch.batch == 17
    assert type(make(order="partial")) is PartialOrder
    oracle = tmp_path / "ranks"
    oracle.write_text(f"1 {url(1)}\n")
    optimal = make(order="optimal", oracle=str(oracle))
    assert isinstance(optimal, OptimalOrder)
    assert optimal.levels([waiting(url(1)), waiting(url(2))], None) == [0, WORST]
    boosted = make(order="batch", boosts=(Boost(pattern="x", levels=1),))
    assert type(boosted) is ScoredRankedOrder
    assert ranked(boosted) is boosted
    assert ranked(DepthOrder()) is None
    assert ranked(optimal) is None
    given_order = make_order(FrontierOptions(), 99, lambda url, depth, text, source: 1.0)
    assert given_order.levels([waiting(url(1), 9)], None) == [0]
    with pytest.raises(ConfigError, match="no_such_module_here"):
        make(scorer="no_such_module_here:score")


def test_make_a_biased_order() -> None:
    order = make_order(FrontierOptions(order="biased", front_queues=9), 99)
    assert (order.ranking, order.bias) == (Ranking.BIASED, 9)


# -- the ranker


class LittleFrontier:
    """What the ranker and `crawl_order` ask of a frontier, on a list; one URL a step."""

    def __init__(self, clock: ManualClock, order: Order) -> None:
        self._rows: list[tuple[int, Waiting]] = []

    def put(self, items: Sequence[Waiting], levels: Sequence[int]) -> None:
        self._rows += zip(levels, items, strict=True)

    def relevel(self, levels: Levels) -> Iterator[int]:
        table = dict(zip(levels.keys.tolist(), levels.levels.tolist(), strict=True))
        for row, (level, item) in enumerate(self._rows):
            self._rows[row] = table.get(item.key, level if levels.other < 0 else levels.other), item
            yield 1

    def begin(self, now: float) -> str | None:
        return host_of(self._best()[1].url) if self._rows else None

    def take(self, host: str) -> Waiting | None:
        self._rows.remove(best := self._best())
        return best[1]

    def done(self, key: int) -> None: ...

    def end(self, host: str, ready: float) -> None: ...

    def _best(self) -> tuple[int, Waiting]:
        return min(self._rows, key=lambda row: row[0])


def plain(clock: ManualClock, order: Order) -> Frontier:
    return PlainFrontier(clock, order)


def packed(clock: ManualClock, order: Order) -> Frontier:
    return PackedFrontier(clock, order, KEYER.seed)


FRONTIERS = pytest.mark.parametrize("make", [LittleFrontier, plain, packed])


def make_ranker(
    order: RankedOrder, *, clock: ManualClock | None = None, rank: object = rank_lists
) -> tuple[Ranker, Meters]:
    meters = Meters()
    fold = RankFold(KEYER, PLENTY, FOLLOW, rank)  # type: ignore[arg-type]
    lock = asyncio.Lock()
    return Ranker(order, fold, lock=lock, clock=clock or ManualClock(), meters=meters), meters


def crawl_order(frontier: Frontier) -> list[str]:
    out = []
    while (host := frontier.begin(1e9)) is not None:
        item = frontier.take(host)
        assert item is not None
        out.append(item.url)
        frontier.done(item.key)
        frontier.end(host, 1e9)
    return out


@FRONTIERS
async def test_batch_crawls_by_rank_after_a_calculation(make: Any) -> None:
    """§6.3, "Batch": PageRank on the known pages once K are fetched, then the best first."""
    order = BatchOrder(2, KEYER)
    ranker, meters = make_ranker(order)
    frontiers = [make(ManualClock(), order) for _ in range(2)]  # two shards
    # Host 1 and host 2 have popular pages found late, host 0 a poor one found first.
    poor, good, best = url(1, 0), url(2, 1), url(3, 2)
    frontiers[0].put(
        [waiting(poor, 1), waiting(best, 3)], order.levels([waiting(poor, 1), waiting(best, 3)], None)
    )
    frontiers[1].put([waiting(good, 2)], order.levels([waiting(good, 2)], None))
    ranker.note(fetched(url(10), poor, good, best))
    assert not ranker.due(1, 0, 0)
    ranker.note(fetched(url(11), good, best))
    ranker.note(fetched(url(12), best))
    assert ranker.due(3, 0, 0)
    await ranker.recalculate(frontiers)
    assert not ranker.due(3, 0, 0)
    new = waiting(url(4, 3), 0)
    frontiers[0].put([new], order.levels([new], None))
    assert crawl_order(frontiers[0]) == [best, poor, new.url]
    assert crawl_order(frontiers[1]) == [good]
    assert order.rank_of(KEYER.key(best)) > order.rank_of(KEYER.key(good))  # type: ignore[operator]
    values = meters.read()
    assert values["rank.calculations"] == 1
    assert values["rank.moved"] == 3 or make is not LittleFrontier  # others may count what stays, too
    assert values["rank.known"] == 6
    assert values["rank.by_host"] == 0


@FRONTIERS
async def test_partial_crawls_a_new_page_as_soon_as_it_is_found_if_it_is_good(make: Any) -> None:
    """§6.3, "Partial": between calculations the temporary rank decides."""
    order = PartialOrder(1, KEYER, 1 << 10)
    ranker, _ = make_ranker(order)
    frontier = make(ManualClock(), order)
    hub, low = url(1), url(2, 1)
    for number in range(20, 30):
        ranker.note(fetched(url(number), hub, *(url(n, 5) for n in range(100 * number, 100 * number + 5))))
    ranker.note(fetched(url(31), low, *(url(n, 5) for n in range(50))))
    frontier.put([waiting(low)], order.levels([waiting(low)], None))
    ranker.due(11, 0, 0)
    await ranker.recalculate([frontier])
    new = waiting(url(99, 2))
    record = fetched(hub, new.url)  # the hub is fetched, and points to one page alone
    ranker.note(record)
    frontier.put([new], order.levels([new], None))
    assert crawl_order(frontier) == [new.url, low]


async def test_when_it_is_due() -> None:
    clock = ManualClock()
    order = BatchOrder(1000, KEYER)
    ranker, _ = make_ranker(order, clock=clock)
    assert not ranker.due(0, 10, 10)
    assert not ranker.due(999, 10, 10)
    assert ranker.due(1000, 10, 10)  # K pages
    assert ranker.due(100, 2, 10)  # few visits are active (§6.4)
    assert not ranker.due(99, 2, 10)
    assert not ranker.due(100, 3, 10)
    assert not ranker.due(100, 10, 10)
    ranker.note(fetched(url(0), *(url(n) for n in range(1, 301))))
    ranker.due(1000, 10, 10)
    began = clock.monotonic()

    def slow(lists: Lists) -> NDArray[np.float64]:
        clock.advance(2.0)
        return rank_lists(lists)

    ranker.fold._rank = slow
    await ranker.recalculate([])
    assert clock.monotonic() - began == 2.0
    # The calculation found 300 pages that are next: with 300 fetched the batch is used up.
    assert not ranker.due(1299, 10, 10)
    assert not ranker.due(1300, 10, 10)  # but early ones take a twentieth of the time
    clock.advance(40.0)
    assert not ranker.due(1299, 10, 10)
    assert ranker.due(1300, 10, 10)
    assert ranker.due(2000, 10, 10)


async def test_one_calculation_at_a_time_and_not_during_a_snapshot() -> None:
    release = threading.Event()

    def patient(lists: Lists) -> NDArray[np.float64]:
        assert release.wait(240)
        return rank_lists(lists)

    order = BatchOrder(1, KEYER)
    meters, lock = Meters(), asyncio.Lock()
    ranker = Ranker(
        order, RankFold(KEYER, PLENTY, FOLLOW, patient), lock=lock, clock=ManualClock(), meters=meters
    )
    frontier = LittleFrontier(ManualClock(), order)
    frontier.put([waiting(url(1), 9)], [9])
    ranker.note(fetched(url(0), url(1)))
    assert ranker.due(5, 1, 1)
    async with lock:  # a snapshot is being frozen
        task = asyncio.create_task(ranker.recalculate([frontier]))
        await asyncio.sleep(0)
        assert not ranker.due(9, 1, 1)
        await ranker.recalculate([frontier])  # returns at once
        release.set()
        while ranker.known != 2:  # noqa: ASYNC110 - the thread sets no event
            await asyncio.sleep(0.001)
        # Calculated, but
        assert order.levels([waiting(url(1), 9)], None) == [9]  # not adopted yet
    await task
    assert order.levels([waiting(url(1), 9)], None) == [0]
    assert meters.read()["rank.calculations"] == 1
    assert ranker.due(9, 1, 1)


async def sliced(records: Sequence[Record]) -> AsyncIterator[Sequence[Record]]:
    for start in range(0, len(records), 100):
        await asyncio.sleep(0)  # a thread reads
        yield records[start : start + 100]


async def test_after_a_restart_the_fold_is_made_again() -> None:
    records: list[Record] = [seeded(url(0)), *random_web(3)]
    live, _ = make_ranker(BatchOrder(10, KEYER))
    for record in records:
        live.note(record)
    order = BatchOrder(10, KEYER)
    order.resume()
    ranker, _ = make_ranker(order, clock=None)
    answers: list[bool] = []

    async def crawl() -> None:
        while True:
            answers.append(ranker.due(10**6, 1, 1))
            await asyncio.sleep(0)

    other = asyncio.create_task(crawl())
    await ranker.rebuild(sliced(records * 5), pages=240)  # again and again: the last links of a page hold
    other.cancel()
    assert len(answers) >= 3  # the crawl went on meanwhile
    assert not any(answers)  # and nothing was calculated of half a graph
    assert ranker.due(240, 5, 5)  # at once: there are no ranks
    ranks, expected = ranker.fold.cut().run(), live.fold.cut().run()
    assert ranks.keys.tolist() == expected.keys.tolist()
    assert ranks.values.tolist() == expected.values.tolist()
    await ranker.recalculate([])
    assert not ranker.due(240, 5, 5)


async def test_the_loop_goes_on_while_ranks_are_calculated() -> None:
    """The calculation waits for the loop here: on the loop itself it would wait in vain."""
    ticked = threading.Event()

    def patient(lists: Lists) -> NDArray[np.float64]:
        assert ticked.wait(170), "the loop stands still"
        return rank_lists(lists)

    rng = np.random.default_rng(5)
    order = BatchOrder(1000, KEYER)
    ranker = Ranker(
        order,
        RankFold(KEYER, PLENTY, FOLLOW, patient),
        lock=asyncio.Lock(),
        clock=ManualClock(),
        meters=Meters(),
    )
    keys = rng.integers(0, 1 << 63, 100_000).astype(np.uint64)
    targets = keys[(len(keys) * rng.random(300_000) ** 3).astype(np.int64)]
    groups = np.empty(10_000, SOURCE)
    groups["key"], groups["links"] = keys[:10_000], 30
    ranker.fold._sources.append(groups)
    ranker.fold._targets.append(targets)
    task = asyncio.create_task(ranker.recalculate([]))
    for _ in range(20):
        await asyncio.sleep(0)
    ticked.set()
    await task
    assert ranker.known > 50_000


def test_kernels_let_other_threads_run() -> None:
    """In a thread they are only beside the loop if they do not hold the interpreter's lock."""
    warm_ranking()
    for module in (rank_kernels, walk_kernels):
        kernels = [value for value in vars(module).values() if isinstance(value, Kernel)]
        assert kernels
        assert all(kernel.options.get("nogil") for kernel in kernels)


async def test_hosts_instead_of_pages_through_the_ranker() -> None:
    order = BatchOrder(10, KEYER)
    ranker, meters = make_ranker(order)
    for record in host_web(400):
        ranker.note(record)
    ranker.fold._fits(1 << 40)
    frontier = LittleFrontier(ManualClock(), order)
    frontier.put([waiting(url(1, 2), 3)], [3])
    await ranker.recalculate([frontier])
    assert meters.read()["rank.by_host"] == 1
    assert meters.read()["rank.moved"] == 1
    liked, other = (order.levels([waiting(url(7, host))], None)[0] for host in (2, 0))
    assert liked == 0 < other < WORST


def test_plans_and_folds_agree_on_names_of_hosts() -> None:
    fold = RankFold(KEYER, PLENTY, FOLLOW)
    noted = fold.add(fetched("http://h1.test:8080/x", "http://[::1]:80/y"))
    assert noted is not None
    assert noted.host == name_of(host_of("http://h1.test:8080/x")) == name_of("h1.test")
    plan = plan_levels(Ranks(np.sort(noted.hosts), np.ones(1, np.float32), noted.keys[:0], True), 1)
    order = BatchOrder(1, KEYER)
    order.adopt(plan)
    assert order.levels([waiting("http://[::1]:80/z")], None) == [0]


def test_a_page_costs_no_call_a_link() -> None:
    """Python's part of the fold's work does not grow with the links of a page."""

    def calls(links: int) -> int:
        fold = RankFold(KEYER, PLENTY, FOLLOW)
        record = fetched(url(0), *(url(n, n % 5) for n in range(1, links + 1)))
        fold.add(record)
        count = 0

        def count_call(frame: object, event: str, arg: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(count_call)
        try:
            fold.add(record)
        finally:
            sys.setprofile(None)
        return count

    assert calls(600) <= calls(60) + 5
