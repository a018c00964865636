"""The URL cache: kernels against plain references, bits per entry, and the contract with a store behind."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from lycosa.errors import ConfigError, StorageError
from lycosa.meters import Meters
from lycosa.seen import cache as caches
from lycosa.seen.cache import CachedSeen, ChainedCache, LruCache, ScatterCache, StaticCache
from lycosa.seen.cache_plain import Dice, PlainChained, PlainLru, PlainScatter, min_hits
from lycosa.seen.memory import MemorySeen
from lycosa.seen.plain import PlainSeen
from lycosa.seen.veuniq import VeuniqSeen
from lycosa.url.key import mix, unmix
from tests.seen.contract import Contract

FLAG = np.empty(1, np.bool_)


def one(cache, key: int) -> bool:
    cache.probe(np.array([key], np.uint64), FLAG)
    return bool(FLAG[0])


def scatter_lists(cache: ScatterCache) -> dict[int, list[tuple[int, int]]]:
    """Every list by its home: (slot, mixed key) in the order of links."""
    r, words = cache._r, cache._words.tolist()
    low = (1 << r) - 1
    lists = {}
    for home in range(1 << r):
        if cache._firsts[home >> 3] >> (home & 7) & 1:
            slots, e = [], home
            while True:
                slots.append((e, (home << (64 - r)) | words[e] >> r))
                e = words[e] & low
                if e == home:
                    break
            lists[home] = slots
    return lists


def traces(r: int) -> st.SearchStrategy[list[int]]:
    """Keys with few homes, so that lists grow long and aliens are common; and arbitrary ones."""
    crowded = st.tuples(st.integers(0, (1 << r) - 1), st.integers(0, 5)).map(
        lambda p: unmix((p[0] << (64 - r)) % (1 << 64) | p[1])
    )
    return st.lists(
        st.one_of(crowded, st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2, 2**64 - 1])),
        max_size=150,
    )


@pytest.mark.parametrize("clock", [True, False])
@pytest.mark.parametrize("r", [1, 2, 3, 4])
def test_scatter_equals_the_plain_one_operation_by_operation(r: int, clock: bool) -> None:
    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(traces(r))
    def run(trace: list[int]) -> None:
        cache = ScatterCache(1 << r, clock=clock, seed=9)
        plain = PlainScatter(r, clock, Dice(int(cache._state[2])))
        for key in trace:
            assert one(cache, key) == plain.request(key)
            lists = scatter_lists(cache)
            assert {h: [s for s, _ in its] for h, its in lists.items()} == plain.lists
            for its in lists.values():
                for slot, mixed in its:
                    assert plain.slots[slot] == mixed
                    if clock:
                        assert (cache._marks[slot >> 3] >> (slot & 7) & 1) == plain.marks[slot]
            assert len(cache) == sum(slot is not None for slot in plain.slots)

    run()


@pytest.mark.parametrize("clock", [True, False])
@pytest.mark.parametrize(("r", "x"), [(1, 0), (2, 2), (3, 1), (4, 2), (5, 3)])
def test_chained_equals_the_plain_one_operation_by_operation(r: int, x: int, clock: bool) -> None:
    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(traces(r))
    def run(trace: list[int]) -> None:
        cache = ChainedCache(1 << r, clock=clock, x=x, seed=5)
        plain = PlainChained(r, clock, Dice(int(cache._state[2])))
        for key in trace:
            assert one(cache, key) == plain.request(key)
            assert len(cache) == len(plain.slots)
            held = np.array(plain.slots, np.uint64)
            before = cache._marks.copy()
            assert cache.touch(held, np.empty(len(held), np.bool_)) == len(held)
            cache._marks[:] = before
            if clock:
                bits = [bool(before[s >> 3] >> (s & 7) & 1) for s in range(len(held))]
                assert bits == plain.marks

    run()


@pytest.mark.parametrize("size", [1, 2, 8, 32])
def test_lru_equals_the_plain_one(size: int) -> None:
    dice = random.Random(size)
    cache, plain = LruCache(size), PlainLru(size)
    for _ in range(4000):
        key = int(dice.paretovariate(0.6))
        assert one(cache, key) == plain.request(key)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 12), max_size=80), st.integers(1, 6))
def test_min_equals_looking_ahead(trace: list[int], size: int) -> None:
    assert caches.min_hits(np.array(trace, np.uint64), size) == min_hits(trace, size)


def test_a_batch_is_the_same_as_its_keys_one_by_one() -> None:
    dice = random.Random(2)
    trace = np.array([mix(int(dice.paretovariate(0.5)) % 5000) for _ in range(20_000)], np.uint64)
    for make in (
        lambda: ScatterCache(256),
        lambda: ScatterCache(256, clock=False),
        lambda: ChainedCache(256),
        lambda: ChainedCache(256, clock=False),
        lambda: LruCache(256),
    ):
        whole, single = make(), make()
        hits = np.empty(len(trace), np.bool_)
        count = whole.probe(trace, hits)
        assert hits.tolist() == [one(single, key) for key in trace.tolist()]
        assert count == hits.sum()


def test_the_policies_rank_as_the_paper_has_them() -> None:
    """On a stream with locality: INFINITE >= MIN >= LRU ~ CLOCK >= RANDOM, and STATIC far behind."""
    dice = random.Random(11)
    trace_list = []
    for host in range(300):
        pages = [host << 48 | dice.getrandbits(40) for _ in range(60)]
        trace_list += [dice.choice(pages) for _ in range(400)]
    trace = np.array(trace_list, np.uint64)
    hits = np.empty(len(trace), np.bool_)
    size = 64
    values, counts = np.unique(trace, return_counts=True)
    popular = values[np.argsort(-counts)[:size]]
    infinite, best = caches.infinite_hits(trace), caches.min_hits(trace, size)
    lru = LruCache(size).probe(trace, hits)
    clock = ScatterCache(size).probe(trace, hits)
    chance = ScatterCache(size, clock=False).probe(trace, hits)
    static = StaticCache(popular).probe(trace, hits)
    assert infinite >= best >= max(lru, clock, chance)
    assert abs(lru - clock) < 0.05 * lru
    assert chance > 0.8 * clock
    assert static < 0.5 * chance


@pytest.mark.parametrize("r", [8, 16, 20])
def test_bits_per_entry(r: int) -> None:
    entries = 1 << r
    assert ScatterCache(entries).nbytes * 8 == entries * (64 + 2)
    assert ScatterCache(entries, clock=False).nbytes * 8 == entries * (64 + 1)
    # section 6: 2^(r-x) r + 2^r (l + x + 1), and a bit an entry for CLOCK
    for x in (1, 2):
        random_bits = (entries >> x) * r + entries * (64 + x + 1)
        assert ChainedCache(entries, clock=False, x=x).nbytes * 8 == random_bits
        assert ChainedCache(entries, x=x).nbytes * 8 == random_bits + entries
    assert LruCache(entries).nbytes * 8 == entries * (64 + 4 * 32)


def test_the_papers_example() -> None:
    """2^16 entries, 2^14 heads: l + 7 bits for RANDOM, l + 8 for CLOCK."""
    assert ChainedCache(1 << 16, clock=False).nbytes * 8 == (64 + 7) << 16
    assert ChainedCache(1 << 16).nbytes * 8 == (64 + 8) << 16


def test_a_cache_never_claims_a_key_it_was_not_given() -> None:
    dice = random.Random(4)
    for cache in (ScatterCache(1024), ChainedCache(1024), ChainedCache(1024, clock=False)):
        given_keys: set[int] = set()
        for _ in range(6000):
            # the rests are few, so that only the place tells most keys apart
            key = unmix((dice.getrandbits(10) << 54) | dice.getrandbits(3))
            if one(cache, key):
                assert key in given_keys
            given_keys.add(key)


def test_touch_changes_nothing_but_marks() -> None:
    for cache in (ScatterCache(16), ChainedCache(16)):
        keys = np.arange(10, dtype=np.uint64)
        flags = np.empty(10, np.bool_)
        assert cache.touch(keys, flags) == 0
        assert len(cache) == 0
        assert cache.probe(keys, flags) == 0
        assert cache.touch(keys, flags) == 10
        cache.clear()
        assert cache.touch(keys, flags) == 0 and len(cache) == 0


@pytest.mark.parametrize("entries", [0, 3, -8, 1 << 29])
def test_odd_sizes_are_refused(entries: int) -> None:
    with pytest.raises(ConfigError):
        ScatterCache(entries)


class TestCachedMemory(Contract):
    factory = staticmethod(lambda files: CachedSeen(ScatterCache(16), MemorySeen(files), Meters()))


class TestCachedVeuniq(Contract):
    factory = staticmethod(
        lambda files: CachedSeen(ChainedCache(32), VeuniqSeen(files, memory=64 << 10, split=700), Meters())
    )
    examples = 25


def test_hits_are_metered_once() -> None:
    meters = Meters()
    seen = CachedSeen(ScatterCache(64), PlainSeen(), meters)
    keys = np.arange(10, dtype=np.uint64)
    seen.offer(keys, [b""] * 10)
    seen.offer(keys, [b""] * 10)
    assert meters.read() == {"seen.hits": 10, "seen.probes": 20}
    more = np.arange(5, 15, dtype=np.uint64)
    known = seen.certain(more)
    assert known.tolist() == [True] * 5 + [False] * 5
    seen.offer(more[~known], [b""] * 5)
    assert meters.read() == {"seen.hits": 15, "seen.probes": 30}


def test_a_failed_offer_leaves_no_key_in_the_cache() -> None:
    class Failing(PlainSeen):
        def offer(self, keys, payloads):
            raise StorageError("the disk is full")

    store = Failing()
    seen = CachedSeen(ScatterCache(64), store, Meters())
    keys = np.arange(10, dtype=np.uint64)
    with pytest.raises(StorageError):
        seen.offer(keys, [b""] * 10)
    assert not seen.certain(keys).any()
