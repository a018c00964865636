from __future__ import annotations

import heapq
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa import options
from lycosa.clock import ManualClock
from lycosa.errors import ConfigError
from lycosa.frontier.orders import DepthOrder, LengthOrder, Order
from lycosa.frontier.packed import PackedFrontier
from lycosa.frontier.plain import PlainFrontier
from lycosa.frontier.politeness import AddressTable, PolitenessOptions, pages_per_visit, wait_after
from lycosa.frontier.protocol import Frontier
from lycosa.frontier.retries import RetryOptions, retry_due
from tests.frontier.contract import SEED, waiting

ANY = st.none() | st.floats()


@pytest.mark.parametrize(
    ("crawl_delay", "retry_after", "last", "expected"),
    [
        (None, None, 0.0, 1.0),
        (None, None, 0.25, 2.5),
        (None, None, 100.0, 60.0),
        (5.0, None, 0.25, 5.0),
        (0.1, None, 0.0, 1.0),
        (1e9, None, 0.0, 300.0),
        (5.0, 120.0, 0.25, 120.0),
        (None, 1e9, 0.0, 86_400.0),
        (math.nan, -3.0, 0.0, 1.0),
        (math.inf, None, 0.0, 300.0),
    ],
)
def test_wait_is_the_largest_of_four(
    crawl_delay: float | None, retry_after: float | None, last: float, expected: float
) -> None:
    assert wait_after(PolitenessOptions(), crawl_delay, retry_after, last) == expected


@given(ANY, ANY, st.floats())
def test_wait_is_finite_and_never_below_the_minimum(
    crawl_delay: float | None, retry_after: float | None, last: float
) -> None:
    chosen = PolitenessOptions(wait=2.0)
    assert 2.0 <= wait_after(chosen, crawl_delay, retry_after, last) <= 86_400.0


def test_with_a_crawl_delay_a_visit_has_one_page() -> None:
    chosen = PolitenessOptions(pages_per_visit=8)
    assert pages_per_visit(chosen, None) == 8
    assert pages_per_visit(chosen, 0.0) == 8
    assert pages_per_visit(chosen, 0.5) == 1


def test_options_are_checked() -> None:
    assert options.read(PolitenessOptions, {"wait": 0, "pages_per_visit": 1}).wait == 0
    for bad in ({"wait": -1.0}, {"pages_per_visit": 0}, {"max_wait": math.inf}, {"address_wait": math.nan}):
        with pytest.raises(ConfigError):
            options.read(PolitenessOptions, bad)


def test_address_table() -> None:
    table = AddressTable(0.5)
    assert table.try_begin("192.0.2.1", 10.0) == 0.0
    assert table.try_begin("192.0.2.2", 10.0) == 0.0
    assert 10.0 < table.try_begin("192.0.2.1", 10.0) < 10.5
    table.end("192.0.2.1", 11.0)
    assert table.try_begin("192.0.2.1", 11.2) == 11.5
    assert table.try_begin("192.0.2.1", 11.5) == 0.0
    table.hold("192.0.2.3", 20.0)
    table.hold("192.0.2.3", 15.0)
    assert table.try_begin("192.0.2.3", 15.0) == 20.0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1), st.booleans()), max_size=200),
    st.sampled_from([0.0, 0.5, 2.0]),
)
def test_connections_to_an_address_never_overlap(steps: list[tuple[int, float, bool]], wait: float) -> None:
    table = AddressTable(wait)
    now = 0.0
    open_: set[str] = set()
    ended: dict[str, float] = {}
    for which, passed, ends in steps:
        now += passed
        address = f"192.0.2.{which}"
        if ends and address in open_:
            table.end(address, now)
            open_.remove(address)
            ended[address] = now
            continue
        answer = table.try_begin(address, now)
        if answer == 0.0:
            assert address not in open_
            assert now >= ended.get(address, -math.inf) + wait
            open_.add(address)
        else:
            assert answer > now
            assert address in open_ or answer == ended[address] + wait
    for address in open_:
        table.end(address, now)
    assert table.try_begin("198.51.100.1", now + wait) == 0.0
    assert len(table) == 1  # all others were forgotten


@pytest.mark.parametrize("order", [DepthOrder(), LengthOrder()], ids=["depth", "length"])
@pytest.mark.parametrize("kind", ["plain", "packed"])
@pytest.mark.parametrize("seed", range(5))
def test_no_host_or_address_is_asked_twice_at_once_or_early(kind: str, order: Order, seed: int) -> None:
    """A crawl of many hosts on few addresses, on a virtual clock, seen from the servers' side."""
    rng = random.Random(seed)
    clock = ManualClock()
    frontier: Frontier
    frontier = PlainFrontier(clock, order) if kind == "plain" else PackedFrontier(clock, order, SEED)
    chosen = PolitenessOptions(wait=1.0, pages_per_visit=3)
    addresses = AddressTable(chosen.address_wait)
    hosts = [f"h{n}.example" for n in range(30)]
    delay = {host: rng.choice([None, None, 4.0]) for host in hosts}
    address_of = {host: f"192.0.2.{rng.randrange(5)}" for host in hosts}
    todo = [waiting(f"http://{rng.choice(hosts)}/{n}", rng.randrange(3)) for n in range(400)]
    frontier.put(todo[:200], [item.depth for item in todo[:200]])
    more = todo[200:]
    free_host: dict[str, float] = {}
    free_address: dict[str, float] = {}
    busy: set[str] = set()
    fetched: list[str] = []
    ends: list[tuple[float, str, float]] = []  # visits under way: when they end
    while frontier.pending or more or ends:
        now = clock.monotonic()
        while ends and ends[0][0] <= now:
            _, host, last = heapq.heappop(ends)
            wait = wait_after(chosen, delay[host], None, last)
            frontier.end(host, now + wait)
            addresses.end(address_of[host], now)
            free_host[host] = now + wait
            free_address[address_of[host]] = now + chosen.address_wait
            busy -= {host, address_of[host]}
        while (begun := frontier.begin(now)) is not None:
            assert begun not in busy
            assert now >= free_host.get(begun, 0.0)
            address = address_of[begun]
            again = addresses.try_begin(address, now)
            if again:
                frontier.end(begun, again)
                free_host[begun] = max(free_host.get(begun, 0.0), again)
                continue
            assert address not in busy
            assert now >= free_address.get(address, 0.0)
            busy |= {begun, address}
            took = 0.0
            last = 0.0
            for _ in range(pages_per_visit(chosen, delay[begun])):
                item = frontier.take(begun)
                if item is None:
                    break
                last = rng.choice([0.01, 0.2])
                took += last
                fetched.append(item.url)
                frontier.done(item.key)
            heapq.heappush(ends, (now + took, begun, last))
        if more:
            item = more.pop()
            frontier.put([item], [item.depth])
        times = [t for t in (frontier.next_ready(), ends[0][0] if ends else None) if t is not None]
        if times:
            clock.advance(max(min(times) - now, 0.001))
    assert sorted(fetched) == sorted(item.url for item in todo)


def test_three_attempts_with_growing_waits() -> None:
    chosen = RetryOptions()
    assert retry_due(chosen, 1, 1000) == 1000 + 120_000
    assert retry_due(chosen, 2, 1000) == 1000 + 3_600_000
    assert retry_due(chosen, 3, 1000) is None


def test_retry_after_is_respected_within_bounds() -> None:
    chosen = RetryOptions()
    assert retry_due(chosen, 1, 0, 1.0) == 120_000
    assert retry_due(chosen, 1, 0, 7200.0) == 7_200_000
    assert retry_due(chosen, 1, 0, 1e12) == 86_400_000
    assert retry_due(chosen, 3, 0, 1.0) is None


@given(st.integers(0, 1000), ANY, st.integers(1, 1000))
def test_retries_are_finite_and_later(attempt: int, retry_after: float | None, attempts: int) -> None:
    due = retry_due(RetryOptions(attempts=attempts), attempt, 5, retry_after)
    assert (due is None) == (attempt >= attempts)
    assert due is None or 5 + 120_000 <= due <= 5 + 86_400_000


def test_retry_options_are_checked() -> None:
    for bad in ({"attempts": 0}, {"growth": 0.5}, {"first": -1.0}, {"most": math.inf}):
        with pytest.raises(ConfigError):
            options.read(RetryOptions, bad)
