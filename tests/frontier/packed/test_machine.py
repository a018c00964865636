"""`PackedFrontier` against `PlainFrontier`, call by call, over random histories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from xxhash import xxh64_intdigest

from lycosa.clock import ManualClock
from lycosa.frontier.orders.order import BiasedOrder, DepthOrder, LengthOrder, Order, Ranking, draw
from lycosa.frontier.packed import draw_kernels
from lycosa.frontier.packed.frontier import PackedFrontier
from lycosa.frontier.packed.store import FREE
from lycosa.frontier.plain import PlainFrontier
from lycosa.frontier.protocol import Levels
from lycosa.records import Waiting
from tests.frontier.contract import KEYER, SEED, drain, waiting

SITES = ["a", "b.example", "c.example:8080", "[::1]", "long-" + "x" * 200 + ".example"]
NAMES = ["a", "b.example", "c.example", "[::1]", "new.example", "robots.example"]
PATHS = ["", "x", "path/to/page-", "path/to/", "q?session=", "z" * 130 + "/", "y" * 300]


class LevelOrder(DepthOrder):
    ranking = Ranking.LEVEL

    def rank(self, host: str, queued: int, level: int) -> float:
        return float(level)


class AskedOrder(DepthOrder):
    """A ranked order that looks at every argument."""

    ranking = Ranking.ASKED

    def rank(self, host: str, queued: int, level: int) -> float:
        return level * 10 - queued + len(host) / 1000


ORDERS: dict[str, Order] = {
    "time": DepthOrder(),
    "length": LengthOrder(),
    "level": LevelOrder(),
    "biased": BiasedOrder(4),
    "asked": AskedOrder(),
}


class FollowingFrontier(PlainFrontier):
    """Takes hosts to relevel in the order in which the packed one does: by slot."""

    packed: PackedFrontier

    def _to_relevel(self) -> Iterator[Any]:
        queues = self.packed._queues
        for slot in range(queues.fields.slots):
            if queues.store.hosts[slot]["where"] != FREE and (host := self._hosts.get(queues.name(slot))):
                yield host


class Machine(RuleBasedStateMachine):
    order: Order = DepthOrder()

    @initialize(back_queues=st.sampled_from([0, 1, 2, 4]))
    def start(self, back_queues: int) -> None:
        self.back_queues = back_queues
        self.clock = ManualClock()
        self.plain = FollowingFrontier(self.clock, self.order, back_queues=back_queues, seed=SEED)
        self.packed = PackedFrontier(self.clock, self.order, SEED, back_queues=back_queues)
        self.plain.packed = self.packed
        self.begun: list[str] = []
        self.flying: list[Waiting] = []
        self.count = 0
        self.put_urls: list[Waiting] = []
        self.frozen: Iterator[bytes] | None = None
        self.cut: list[bytes] = []
        self.cut_packed: list[bytes] = []
        self.steps: tuple[Iterator[int], Iterator[int]] | None = None

    def url(self, host: int, path: int, depth: int = 0, attempt: int = 0) -> Waiting:
        self.count += 1
        return waiting(f"http://{SITES[host]}/{PATHS[path]}{self.count}", depth, attempt % 3, attempt)

    @rule(
        rows=st.lists(
            st.tuples(
                st.integers(0, len(SITES) - 1),
                st.integers(0, len(PATHS) - 1),
                st.integers(0, 3),
                st.integers(0, 300),
            ),
            max_size=40,
        )
    )
    def put(self, rows: list[tuple[int, int, int, int]]) -> None:
        items = [self.url(h, p, d, a) for h, p, d, a in rows]
        levels = [d for _, _, d, _ in rows]
        self.put_urls.extend(items)
        self.plain.put(items, levels)
        self.packed.put(items, levels)

    @rule(host=st.integers(0, len(SITES) - 1), number=st.integers(100, 1200), levels=st.integers(1, 4))
    def put_many(self, host: int, number: int, levels: int) -> None:
        """More than a step of a relevelling moves."""
        if len(self.put_urls) < 2500:
            self.put([(host, n % 3, n % levels, 0) for n in range(number)])

    @rule(seconds=st.sampled_from([0.0, 0.25, 1.0, 5.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(times=st.integers(1, 3))
    def begin(self, times: int) -> None:
        now = self.clock.monotonic()
        for _ in range(times):
            host = self.plain.begin(now)
            assert self.packed.begin(now) == host
            if host is not None:
                assert host not in self.begun
                self.begun.append(host)

    @rule(host=st.sampled_from(["a", "b.example", "[::1]", "robots.example"]))
    def claim(self, host: str) -> None:
        now = self.clock.monotonic()
        granted = self.plain.claim(host, now)
        assert self.packed.claim(host, now) == granted
        if granted:
            assert host not in self.begun
            self.begun.append(host)

    @rule(which=st.integers(0, 9), times=st.sampled_from([1, 2, 5, 30, 30, 1100]))
    def take(self, which: int, times: int) -> None:
        if not self.begun:
            return
        host = self.begun[which % len(self.begun)]
        for _ in range(times):
            item = self.plain.take(host)
            assert self.packed.take(host) == item
            if item is not None:
                self.flying.append(item)

    @rule(which=st.integers(0, 99), times=st.integers(1, 20))
    def done(self, which: int, times: int) -> None:
        for _ in range(min(times, len(self.flying))):
            item = self.flying.pop(which % len(self.flying))
            self.plain.done(item.key)
            self.packed.done(item.key)

    @rule(which=st.integers(0, 99), times=st.integers(1, 3))
    def put_back(self, which: int, times: int) -> None:
        for _ in range(min(times, len(self.flying))):
            item = self.flying.pop(which % len(self.flying))
            self.plain.put_back(item)
            self.packed.put_back(item)

    @rule(which=st.integers(0, 9), wait=st.sampled_from([-1.0, 0.0, 1.0, 3.0, 20.0]))
    def end(self, which: int, wait: float) -> None:
        if self.begun:
            host = self.begun.pop(which % len(self.begun))
            ready = self.clock.monotonic() + wait
            self.plain.end(host, ready)
            self.packed.end(host, ready)

    @rule(host=st.sampled_from(["a", "b.example", "new.example"]), wait=st.sampled_from([-1.0, 1.0, 9.0]))
    def hold(self, host: str, wait: float) -> None:
        ready = self.clock.monotonic() + wait
        self.plain.hold(host, ready)
        self.packed.hold(host, ready)

    @rule(wait=st.sampled_from([0.0, 0.5]))
    def hold_all(self, wait: float) -> None:
        ready = self.clock.monotonic() + wait
        self.plain.hold_all(ready)
        self.packed.hold_all(ready)

    @rule(host=st.sampled_from(NAMES), to=st.sampled_from([0, 1, 2, 255]))
    def demote(self, host: str, to: int) -> None:
        assert self.packed.demote(host, to) == self.plain.demote(host, to)

    @rule(picks=st.lists(st.integers(0, 10_000), max_size=5))
    def withdraw(self, picks: list[int]) -> None:
        if not self.put_urls:
            return
        for pick in picks:
            item = self.put_urls[pick % len(self.put_urls)]
            self.plain.withdraw(item.url, item.key)
            self.packed.withdraw(item.url, item.key)
            self.flying = [other for other in self.flying if other.url != item.url]
        self.packed.settle_withdrawn()

    @rule(pick=st.integers(0, 10_000), again=st.booleans())
    def withdraw_unsettled(self, pick: int, again: bool) -> None:
        """Without settling only the count may differ, so look at what comes out and settle after."""
        if not self.put_urls:
            return
        item = self.put_urls[pick % len(self.put_urls)]
        self.plain.withdraw(item.url, item.key)
        self.packed.withdraw(item.url, item.key)
        self.flying = [other for other in self.flying if other.url != item.url]
        if again:
            retried = item._replace(attempt=item.attempt + 1)
            self.plain.put([retried], [2])
            self.packed.put([retried], [2])
        if self.begun:
            self.take(pick, 5)
        self.packed.settle_withdrawn()

    @rule(
        some=st.integers(0, 3),
        other=st.sampled_from([-1, 0, 3, 200]),
        shift=st.integers(1, 7),
        by_host=st.booleans(),
    )
    def relevel(self, some: int, other: int, shift: int, by_host: bool) -> None:
        """Begin to give levels anew: to some of the URLs, by key or by host, and to the others all alike."""
        if self.steps is not None or self.frozen is not None:
            return
        if by_host:
            hashes = {xxh64_intdigest(name.encode("ascii"), SEED) for name in NAMES[some:]}
            chosen = {digest & 0xFFFF0000FFFFFFFF for digest in hashes}
        else:
            chosen = {item.key for item in self.put_urls[some::2]}
        keys = np.array(sorted(chosen), np.uint64)
        table = Levels(keys, (keys >> np.uint64(shift)).astype(np.uint8) % np.uint8(5), other, by_host)
        self.steps = (self.packed.relevel(table), self.plain.relevel(table))

    @rule(times=st.integers(1, 3), drop=st.integers(0, 9))
    def step(self, times: int, drop: int) -> None:
        for _ in range(times):
            if self.steps is None:
                return
            mine, theirs = (next(steps, None) for steps in self.steps)
            assert (mine or 0) == (theirs or 0)
            if not mine:  # the last one may have found nothing to move
                assert not any(list(steps) for steps in self.steps)
                self.steps = None
        if self.steps is not None and drop == 0:
            for steps in self.steps:
                steps.close()  # type: ignore[attr-defined]  # they are generators
            self.steps = None

    @rule()
    def freeze(self) -> None:
        if self.frozen is None and self.steps is None:
            self.frozen = self.packed.freeze()
            self.cut = list(self.plain.freeze())
            self.cut_packed = []

    @rule(n=st.integers(1, 3), abandon=st.integers(0, 9))
    def pieces(self, n: int, abandon: int) -> None:
        if self.frozen is None:
            return
        if abandon == 0:
            self.frozen.close()  # type: ignore[attr-defined]  # iterators of freezes can be closed
            self.frozen = None
            return
        for _ in range(n):
            piece = next(self.frozen, None)
            if piece is None:
                self.frozen = None
                self.compare_thawed()
                return
            self.cut_packed.append(piece)

    def compare_thawed(self) -> None:
        clock = ManualClock()
        clock.advance(7.0)
        plain = PlainFrontier(clock, self.order, back_queues=self.back_queues)
        packed = PackedFrontier(clock, self.order, SEED, back_queues=self.back_queues)
        plain.thaw(self.cut)
        packed.thaw(self.cut_packed)
        assert (packed.pending, packed.hosts) == (plain.pending, plain.hosts)
        late = [waiting(f"http://{host}/late") for host in SITES]
        plain.put(late, [1] * len(late))
        packed.put(late, [1] * len(late))
        assert self.visits(packed) == self.visits(plain)

    @staticmethod
    def visits(frontier: PlainFrontier | PackedFrontier) -> list[object]:
        """What comes out, one visit after the other, the first 300 in small ones."""
        out: list[object] = []
        while (ready := frontier.next_ready()) is not None:
            now = max(ready, 7.0)
            host = frontier.begin(now)
            assert host is not None
            for _ in range(1 if len(out) < 300 else 1000):
                item = frontier.take(host)
                if item is None:
                    break
                frontier.done(item.key)
                out.append((now, host, item))
            frontier.end(host, now + 0.125)
        return out

    @invariant()
    def same_counts(self) -> None:
        assert self.packed.pending == self.plain.pending
        assert self.packed.in_flight == self.plain.in_flight == len(self.flying)
        assert self.packed.hosts == self.plain.hosts
        assert [self.packed.queued(name) for name in NAMES] == [self.plain.queued(name) for name in NAMES]
        now = self.clock.monotonic()
        mine, theirs = self.packed.next_ready(), self.plain.next_ready()
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert max(mine, now) == max(theirs, now)
        assert 0 < self.packed.used <= self.packed.nbytes

    def teardown(self) -> None:
        if self.frozen is not None:
            self.cut_packed.extend(self.frozen)
            self.compare_thawed()
        if self.steps is not None:
            mine, theirs = (sum(steps) for steps in self.steps)
            assert mine == theirs
        for host in self.begun:
            self.plain.end(host, 0.0)
            self.packed.end(host, 0.0)
        for item in self.flying:
            self.plain.done(item.key)
            self.packed.done(item.key)
        assert drain(self.packed) == drain(self.plain)
        assert self.packed.pending == 0


@pytest.mark.parametrize("order", ORDERS)
def test_packed_is_plain(order: str) -> None:
    quick = settings(
        max_examples=25,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    machine = type("Machine", (Machine,), {"order": ORDERS[order]})
    run_state_machine_as_test(machine, settings=quick)


@given(st.text("abc.-0123", max_size=60), st.integers(0, 1 << 40), st.integers(0, 255))
def test_draws_are_the_orders(name: str, number: int, level: int) -> None:
    digest = np.uint64(xxh64_intdigest(name.encode("ascii")))
    assert draw_kernels.draw(digest, number, level) == draw(name, number, level) >= 0


def test_keys_are_the_keyers() -> None:
    f = PackedFrontier(ManualClock(), None, SEED)
    items = [waiting(f"https://h{n}.example:81/{n}?{'é'.encode().hex()}") for n in range(50)]
    f.put(items, [0] * 50)
    assert all(item.key == KEYER.key(item.url) for _, item in drain(f))
