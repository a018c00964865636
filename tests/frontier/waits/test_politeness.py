from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa import options
from lycosa.clock import ManualClock
from lycosa.errors import ConfigError
from lycosa.frontier.packed.frontier import PackedFrontier
from lycosa.frontier.plain import PlainFrontier
from lycosa.frontier.protocol import Frontier, Levels
from lycosa.frontier.waits.politeness import AddressTable, PolitenessOptions, pages_per_visit, wait_after
from lycosa.frontier.waits.retries import RetryOptions, retry_due
from lycosa.records import Waiting
from tests.frontier.contract import SEED, waiting
from tests.frontier.packed.test_machine import ORDERS

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


class Servers:
    """A crawl of many hosts on few addresses, on a virtual clock, seen from the servers' side."""

    def __init__(self, frontier: Frontier, clock: ManualClock, rng: random.Random) -> None:
        self.frontier, self.clock, self.rng = frontier, clock, rng
        self.chosen = PolitenessOptions(wait=1.0, pages_per_visit=3)
        self.addresses = AddressTable(self.chosen.address_wait)
        self.hosts = [f"h{n}.example" for n in range(20)]
        self.delay = {host: rng.choice([None, None, 4.0]) for host in self.hosts}
        self.address_of = {host: f"192.0.2.{rng.randrange(4)}" for host in self.hosts}
        self.free_host: dict[str, float] = {}
        self.free_address: dict[str, float] = {}
        self.busy: set[str] = set()
        self.fetched: list[str] = []
        self.ends: list[
            tuple[float, str, float]
        ] = []  # visits under way: when they end, the last fetch's time
        self.steps: Iterator[int] | None = None

    def begun(self, host: str) -> None:
        """A visit begins: it must not be early, nor one of two."""
        now = self.clock.monotonic()
        assert host not in self.busy
        assert now >= self.free_host.get(host, 0.0)
        address = self.address_of[host]
        again = self.addresses.try_begin(address, now)
        if again:
            self.frontier.end(host, again)
            self.free_host[host] = max(self.free_host.get(host, 0.0), again)
            return
        assert address not in self.busy
        assert now >= self.free_address.get(address, 0.0)
        self.busy |= {host, address}
        took = last = 0.0
        for _ in range(pages_per_visit(self.chosen, self.delay[host])):
            item = self.frontier.take(host)
            if item is None:
                break
            if self.rng.random() < 0.1:
                self.frontier.put_back(item)  # the visit was cut short
                break
            last = self.rng.choice([0.01, 0.2])
            took += last
            self.fetched.append(item.url)
            self.frontier.done(item.key)
        heapq.heappush(self.ends, (now + took, host, last))

    def end_visits(self) -> None:
        now = self.clock.monotonic()
        while self.ends and self.ends[0][0] <= now:
            _, host, last = heapq.heappop(self.ends)
            wait = wait_after(self.chosen, self.delay[host], None, last)
            self.frontier.end(host, now + wait)
            address = self.address_of[host]
            self.addresses.end(address, now)
            self.free_host[host] = max(self.free_host.get(host, 0.0), now + wait)
            self.free_address[address] = now + self.chosen.address_wait
            self.busy -= {host, address}

    def disturb(self) -> None:
        """What else may happen in a crawl."""
        now = self.clock.monotonic()
        host = self.rng.choice(self.hosts)
        chance = self.rng.random()
        if chance < 0.1:
            self.frontier.demote(host, self.rng.randrange(3))
        elif chance < 0.2:
            wait = self.rng.choice([0.5, 8.0])
            self.frontier.hold(host, now + wait)
            self.free_host[host] = max(self.free_host.get(host, 0.0), now + wait)
        elif chance < 0.3 and self.frontier.claim(host, now):
            self.begun(host)
        elif chance < 0.35 and self.steps is None:
            self.steps = self.frontier.relevel(Levels(np.zeros(0, np.uint64), np.zeros(0, np.uint8), 1))
        elif self.steps is not None and next(self.steps, None) is None:
            self.steps = None

    def run(self, todo: list[Waiting], visits: int) -> None:
        self.frontier.put(todo[::2], [item.depth for item in todo[::2]])
        more = todo[1::2]
        while self.frontier.pending or more or self.ends:
            now = self.clock.monotonic()
            self.end_visits()
            while len(self.ends) < visits and (host := self.frontier.begin(now)) is not None:
                self.begun(host)
            self.disturb()
            if more:
                item = more.pop()
                self.frontier.put([item], [item.depth])
            times = [self.ends[0][0]] if self.ends else []
            if len(self.ends) < visits and (ready := self.frontier.next_ready()) is not None:
                times.append(ready)
            if times:
                self.clock.advance(max(min(times) - now, 0.001))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["plain", "packed"])
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 32), back_queues=st.sampled_from([0, 1, 3, 24]), visits=st.integers(1, 8))
def test_no_host_or_address_is_asked_twice_at_once_or_early(
    kind: str, order: str, seed: int, back_queues: int, visits: int
) -> None:
    rng = random.Random(seed)
    clock = ManualClock()
    frontier: Frontier
    if kind == "plain":
        frontier = PlainFrontier(clock, ORDERS[order], back_queues=back_queues)
    else:
        frontier = PackedFrontier(clock, ORDERS[order], SEED, back_queues=back_queues)
    servers = Servers(frontier, clock, rng)
    todo = [waiting(f"http://{rng.choice(servers.hosts)}/{n}", rng.randrange(3)) for n in range(150)]
    servers.run(todo, visits)
    assert sorted(servers.fetched) == sorted(item.url for item in todo)


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
