"""`PackedFrontier` against `PlainFrontier`, call by call, over random histories."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from lycosa.clock import ManualClock
from lycosa.frontier.orders import DepthOrder, LengthOrder, Order
from lycosa.frontier.packed import PackedFrontier
from lycosa.frontier.plain import PlainFrontier
from lycosa.records import Waiting
from tests.frontier.contract import KEYER, SEED, drain, waiting

HOSTS = ["a", "b.example", "c.example:8080", "[::1]", "long-" + "x" * 200 + ".example"]
PATHS = ["", "x", "path/to/page-", "path/to/", "q?session=", "z" * 130 + "/", "y" * 300]


class Level(LengthOrder):
    """A ranked order that looks at every argument."""

    def rank(self, host: str, queued: int, level: int) -> float:
        return level * 10 - queued + len(host) / 1000


class Machine(RuleBasedStateMachine):
    order: Order = DepthOrder()

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.plain = PlainFrontier(self.clock, self.order)
        self.packed = PackedFrontier(self.clock, self.order, SEED)
        self.begun: list[str] = []
        self.flying: list[Waiting] = []
        self.count = 0
        self.put_urls: list[Waiting] = []
        self.frozen: Iterator[bytes] | None = None
        self.cut: list[bytes] = []
        self.cut_packed: list[bytes] = []

    def url(self, host: int, path: int, depth: int = 0, attempt: int = 0) -> Waiting:
        self.count += 1
        return waiting(f"http://{HOSTS[host]}/{PATHS[path]}{self.count}", depth, attempt % 3, attempt)

    @rule(
        rows=st.lists(
            st.tuples(
                st.integers(0, len(HOSTS) - 1),
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

    @rule(seconds=st.sampled_from([0.0, 0.25, 1.0, 5.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def begin(self) -> None:
        now = self.clock.monotonic()
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

    @rule(which=st.integers(0, 9), times=st.integers(1, 30))
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

    @rule(which=st.integers(0, 99))
    def put_back(self, which: int) -> None:
        if self.flying:
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

    @rule()
    def freeze(self) -> None:
        if self.frozen is None:
            self.frozen = self.packed.freeze()
            self.cut = list(self.plain.freeze())
            self.cut_packed = []
            self.cut_time = self.clock.monotonic()

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
        plain = PlainFrontier(clock, self.order)
        packed = PackedFrontier(clock, self.order, SEED)
        plain.thaw(self.cut)
        packed.thaw(self.cut_packed)
        assert (packed.pending, packed.hosts) == (plain.pending, plain.hosts)
        late = [waiting(f"http://{host}/late") for host in HOSTS]
        plain.put(late, [1] * len(late))
        packed.put(late, [1] * len(late))
        assert self.visits(packed) == self.visits(plain)

    @staticmethod
    def visits(frontier: PlainFrontier | PackedFrontier) -> list[object]:
        out: list[object] = []
        while (ready := frontier.next_ready()) is not None:
            now = max(ready, 7.0)
            host = frontier.begin(now)
            assert host is not None
            item = frontier.take(host)
            assert item is not None
            frontier.done(item.key)
            out.append((now, host, item))
            frontier.end(host, now + 0.125)
        return out

    @invariant()
    def same_counts(self) -> None:
        assert self.packed.pending == self.plain.pending
        assert self.packed.in_flight == self.plain.in_flight == len(self.flying)
        assert self.packed.hosts == self.plain.hosts
        now = self.clock.monotonic()
        mine, theirs = self.packed.next_ready(), self.plain.next_ready()
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert max(mine, now) == max(theirs, now)

    def teardown(self) -> None:
        if self.frozen is not None:
            self.cut_packed.extend(self.frozen)
            self.compare_thawed()
        for host in self.begun:
            self.plain.end(host, 0.0)
            self.packed.end(host, 0.0)
        for item in self.flying:
            self.plain.done(item.key)
            self.packed.done(item.key)
        assert drain(self.packed) == drain(self.plain)
        assert self.packed.pending == 0


class RankedMachine(Machine):
    order = Level()


@pytest.mark.parametrize("machine", [Machine, RankedMachine])
def test_packed_is_plain(machine: type[Machine]) -> None:
    quick = settings(
        max_examples=80,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=quick)


def test_keys_are_the_keyers() -> None:
    f = PackedFrontier(ManualClock(), None, SEED)
    items = [waiting(f"https://h{n}.example:81/{n}?{'é'.encode().hex()}") for n in range(50)]
    f.put(items, [0] * 50)
    assert all(item.key == KEYER.key(item.url) for _, item in drain(f))
