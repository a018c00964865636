"""The contract of `lycosa.frontier.protocol.Frontier`, as tests that every implementation passes.

A test module subclasses `FrontierContract` and says how to make one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from lycosa.clock import ManualClock
from lycosa.errors import LocalError, StorageError
from lycosa.frontier.orders.order import BiasedOrder, LengthOrder, Order
from lycosa.frontier.protocol import STEP, Frontier, Levels
from lycosa.records import Waiting
from lycosa.url.key import Keyer

SEED = 12345
KEYER = Keyer(SEED)


def waiting(url: str, depth: int = 0, hops: int = 0, attempt: int = 0) -> Waiting:
    return Waiting(url, KEYER.key(url), depth, hops, attempt)


def drain(frontier: Frontier, now: float = 1e9) -> list[tuple[str, Waiting]]:
    """Every URL, host by host, as a crawl without waits would take them."""
    out = []
    while (host := frontier.begin(now)) is not None:
        while (item := frontier.take(host)) is not None:
            out.append((host, item))
            frontier.done(item.key)
        frontier.end(host, now)
    return out


def new_levels(rows: Sequence[tuple[str, int]], other: int = -1) -> Levels:
    """New levels of URLs."""
    ordered = sorted((KEYER.key(url), level) for url, level in rows)
    keys = np.array([key for key, _ in ordered], np.uint64)
    return Levels(keys, np.array([level for _, level in ordered], np.uint8), other)


def visit(frontier: Frontier, now: float, pages: int, ready: float) -> str | None:
    """One visit, of so many pages; the host."""
    host = frontier.begin(now)
    if host is not None:
        for _ in range(pages):
            item = frontier.take(host)
            if item is not None:
                frontier.done(item.key)
        frontier.end(host, ready)
    return host


class FrontierContract:
    def make(self, clock: ManualClock, order: Order | None = None, back_queues: int = 0) -> Frontier:
        raise AssertionError("a subclass says how")

    def test_levels_then_order_of_puts(self) -> None:
        f = self.make(ManualClock())
        urls = ["http://h/c", "http://h/a", "http://h/b", "http://h/d", "http://h/"]
        f.put([waiting(u) for u in urls], [7, 0, 255, 7, 0])
        assert [item.url for _, item in drain(f)] == [
            "http://h/a",
            "http://h/",
            "http://h/c",
            "http://h/d",
            "http://h/b",
        ]
        assert (f.pending, f.in_flight, f.hosts) == (0, 0, 0)

    def test_everything_about_a_url_comes_back(self) -> None:
        f = self.make(ManualClock())
        items = [
            waiting("https://example.org:8443/a/b?x=1&y=%20", 3, 2, 1),
            waiting("https://example.org/", 1_000_000, 20, 2),
            waiting("http://[2001:db8::1]:8080/p"),
            waiting("http://[2001:db8::1]/p", 0, 1, 0),
            waiting("http://10.0.0.1:81/" + "x" * 5000, 1),
            waiting("file:///srv/a.html"),
            waiting("http://a/http://b/c"),
        ]
        f.put(items, [0] * len(items))
        hosts = {"example.org", "[2001:db8::1]", "10.0.0.1", "", "a"}
        assert f.hosts == len(hosts)
        got = drain(f)
        assert sorted(item for _, item in got) == sorted(items)
        assert {host for host, _ in got} == hosts

    def test_a_host_is_nobody_elses_and_never_early(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting("http://a/1"), waiting("http://a/2"), waiting("http://b/1")], [0, 0, 0])
        assert f.begin(0.0) == "a"
        assert f.begin(0.0) == "b"
        assert f.begin(0.0) is None
        assert f.take("a") == waiting("http://a/1")
        f.end("a", 5.0)
        assert f.next_ready() == 5.0
        assert f.begin(4.999) is None
        assert f.begin(5.0) == "a"
        f.end("b", 6.0)  # nothing was taken
        assert f.begin(6.0) == "b"

    def test_an_empty_host_still_waits(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting("http://a/1")], [0])
        assert f.begin(0.0) == "a"
        item = f.take("a")
        assert item is not None
        assert f.take("a") is None
        f.done(item.key)
        f.end("a", 10.0)
        assert f.next_ready() is None
        f.put([waiting("http://a/2")], [0])
        assert f.next_ready() == 10.0
        assert f.begin(9.0) is None
        assert f.begin(10.0) == "a"

    def test_hold(self) -> None:
        f = self.make(ManualClock())
        f.hold("a", 10.0)  # not there yet
        f.put([waiting("http://a/1"), waiting("http://b/1"), waiting("http://c/1")], [0, 0, 0])
        f.hold("b", 20.0)  # there
        f.hold("b", 15.0)  # never earlier
        assert f.begin(0.0) == "c"
        f.hold("c", 30.0)  # begun
        f.end("c", 1.0)
        assert [f.begin(t) for t in (9.0, 10.0, 19.0, 20.0, 29.0, 30.0)] == [
            None,
            "a",
            None,
            "b",
            None,
            "c",
        ]

    def test_claim(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting("http://a/1"), waiting("http://b/1")], [0, 0])
        assert f.claim("b", 0.0)
        assert not f.claim("b", 0.0)
        assert f.claim("unknown", 0.0)
        assert f.take("unknown") is None
        assert f.take("b") == waiting("http://b/1")
        assert f.begin(0.0) == "a"
        assert not f.claim("a", 0.0)
        f.end("unknown", 7.0)
        assert not f.claim("unknown", 6.0)
        f.put([waiting("http://unknown/1")], [0])
        assert f.next_ready() == 7.0
        f.end("a", 6.5)
        assert not f.claim("a", 6.0)
        assert f.claim("a", 6.5)
        assert f.begin(7.0) == "unknown"
        f.hold_all(20.0)
        assert not f.claim("new", 19.0)
        assert f.claim("new", 20.0)

    def test_hold_all(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting("http://a/1")], [0])
        f.hold_all(5.0)
        f.hold_all(4.0)
        assert f.next_ready() == 5.0
        assert f.begin(4.5) is None
        assert f.begin(5.0) == "a"

    def test_longest_ready_first_and_idle_hosts_do_not_jump_the_queue(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting(f"http://{h}/1") for h in "abc"], [0, 0, 0])
        for ready, host in ((3.0, "a"), (2.0, "b"), (1.0, "c")):
            assert f.begin(0.0) == host
            f.end(host, ready)
        assert f.begin(2.5) == "c"
        f.put([waiting("http://new/1")], [0])  # its first time is 2.5, not the beginning of time
        assert [f.begin(4.0) for _ in range(4)] == ["b", "new", "a", None]

    def test_put_back_is_first_again(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting(f"http://a/{n}") for n in range(4)], [1, 1, 1, 2])
        assert f.begin(0.0) == "a"
        zero, one = f.take("a"), f.take("a")
        assert zero is not None and one is not None
        assert (f.pending, f.in_flight) == (4, 2)
        f.put_back(one)
        f.put_back(zero)
        assert (f.pending, f.in_flight) == (4, 0)
        f.put([waiting("http://a/low")], [0])
        f.end("a", 0.0)
        paths = [item.url[-3:] for _, item in drain(f)]
        assert paths == ["low", "a/0", "a/1", "a/2", "a/3"]

    def test_put_back_after_the_visit(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting("http://a/1")], [0])
        assert f.begin(0.0) == "a"
        item = f.take("a")
        assert item is not None
        f.end("a", 3.0)
        assert f.next_ready() is None
        assert f.hosts == 1
        f.put_back(item)
        assert f.next_ready() == 3.0
        assert [i for _, i in drain(f)] == [item]

    def test_calls_out_of_turn(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting("http://a/1")], [0])
        with pytest.raises(LocalError):
            f.take("a")
        with pytest.raises(LocalError):
            f.end("a", 0.0)
        with pytest.raises(LocalError):
            f.put_back(waiting("http://a/1"))
        f.done(99)  # nothing in flight: nothing to do
        assert f.pending == 1

    def test_withdraw_first_deep_in_flight_and_absent(self) -> None:
        f = self.make(ManualClock())
        items = [waiting(f"http://a/{n}") for n in range(40)]
        f.put(items, [n % 3 for n in range(40)])
        f.put([waiting("http://b/only")], [0])
        for url in ("http://a/0", "http://a/20", "http://a/39", "http://nobody/", "http://a/none"):
            f.withdraw(url, KEYER.key(url))
        f.withdraw("http://b/only", KEYER.key("http://b/only"))
        f.settle_withdrawn()
        assert f.pending == 37
        assert f.hosts == 1
        left = [item for n, item in enumerate(items) if n not in (0, 20, 39)]
        assert [item for _, item in drain(f)] == sorted(left, key=lambda i: int(i.url[9:]) % 3)

    def test_withdraw_does_not_reach_what_is_put_later(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting(f"http://a/{n}") for n in range(5)], [0] * 5)
        again = waiting("http://a/3", 0, 0, 1)
        f.withdraw(again.url, again.key)
        f.put([again], [0])
        f.settle_withdrawn()
        assert [item.attempt for _, item in drain(f)] == [0, 0, 0, 0, 1]

    def test_withdraw_without_settling_is_skipped_at_take(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting(f"http://a/{n}") for n in range(5)], [0] * 5)
        f.withdraw("http://a/2", KEYER.key("http://a/2"))
        assert [item.url[-1] for _, item in drain(f)] == ["0", "1", "3", "4"]
        f.settle_withdrawn()
        assert f.pending == 0
        f.put([waiting("http://b/1")], [0])
        f.put([waiting("http://c/1"), waiting("http://c/2")], [0, 0])
        assert f.hosts == 2, "each has a place of its own"
        assert [item.url for _, item in drain(f)] == ["http://b/1", "http://c/1", "http://c/2"]

    def test_snapshot_restores_order_waits_and_what_was_in_flight(self) -> None:
        clock = ManualClock()
        f = self.make(clock)
        rng = random.Random(7)
        items = [waiting(f"http://h{rng.randrange(20)}/p/{n}", rng.randrange(4)) for n in range(2000)]
        f.put(items, [item.depth for item in items])
        clock.advance(10.0)
        for _ in range(15):
            host = f.begin(10.0)
            assert host is not None
            for _ in range(3):
                taken = f.take(host)
            if rng.random() < 0.5:
                assert taken is not None
                f.put_back(taken)
            if rng.random() < 0.7:
                f.end(host, 10.0 + rng.randrange(30))
        pieces = list(f.freeze())
        later = ManualClock()
        later.advance(1000.0)
        g = self.make(later)
        g.thaw(pieces)
        assert (g.pending, g.in_flight, g.hosts) == (2000, 0, 20)
        waits = []
        while (ready := g.next_ready()) is not None:
            host = g.begin(ready)
            assert host is not None
            waits.append((ready - 1000.0, host))
        assert waits[0][0] == 0.0
        assert max(waits)[0] > 20.0
        for _, host in waits:
            g.end(host, 0.0)
        assert sorted(item for _, item in drain(g)) == sorted(items)

    def test_freeze_is_a_cut_whatever_happens_meanwhile(self) -> None:
        clock = ManualClock()
        f = self.make(clock)
        items = [waiting(f"http://host{n % 7}.example/path/{n}/x.html") for n in range(20_000)]
        f.put(items, [0] * len(items))
        pieces = []
        frozen = f.freeze()
        for n, piece in enumerate(frozen):
            pieces.append(piece)
            host = f.begin(0.0)
            if host is not None:
                for _ in range(500):
                    item = f.take(host)
                    if item is not None:
                        f.done(item.key)
                f.end(host, 0.0)
            more = [waiting(f"http://host{n % 9}.example/more/{n}/{i}") for i in range(300)]
            f.put(more, [i % 3 for i in range(300)])
        g = self.make(clock)
        g.thaw(pieces)
        assert sorted(item for _, item in drain(g)) == sorted(items)
        got = drain(f)
        assert len(got) == len({item.key for _, item in got})

    def test_abandoned_freeze(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting(f"http://a/{n}") for n in range(100)], [0] * 100)
        frozen = f.freeze()
        close = getattr(frozen, "close", None)
        if close is not None:
            close()
        again = list(f.freeze())
        g = self.make(ManualClock())
        g.thaw(again)
        assert len(drain(g)) == 100

    def test_damaged_snapshots_are_refused(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting(f"http://a/{n}") for n in range(100)], [0] * 100)
        pieces = list(f.freeze())
        for bad in ([b"", *pieces[1:]], [b"\x92\x63\x01"], [pieces[0], b"\xff" * 64], [b"\x91\x63"]):
            with pytest.raises(StorageError):
                self.make(ManualClock()).thaw(bad)

    def test_ranked_order(self) -> None:
        f = self.make(ManualClock(), LengthOrder())
        for host, n in (("small", 1), ("large", 5), ("middle", 3)):
            f.put([waiting(f"http://{host}/{i}") for i in range(n)], [0] * n)
        f.hold("large", 10.0)
        assert f.begin(1.0) == "middle"
        f.put([waiting(f"http://small/x{i}") for i in range(9)], [0] * 9)
        f.end("middle", 1.0)
        assert f.begin(1.0) == "small"
        assert f.begin(1.0) == "middle"
        f.end("middle", 1.0)
        f.hold("middle", 20.0)
        assert f.begin(1.0) is None
        assert f.begin(20.0) == "large"
        assert f.begin(20.0) == "middle"
        assert f.begin(20.0) is None

    def test_idle_hosts_leave(self) -> None:
        f = self.make(ManualClock())
        before = f.nbytes
        for round_ in range(3):
            now = float(round_ * 100)
            names = [f"http://host-{round_}-{n}.example/" for n in range(300)]
            f.put([waiting(name) for name in names], [0] * len(names))
            while (host := f.begin(now)) is not None:
                item = f.take(host)
                assert item is not None
                f.done(item.key)
                f.end(host, now + 50.0)
            if round_ == 0:
                full = f.nbytes
        for _ in range(300):
            assert f.begin(1000.0) is None
        assert f.hosts == 0
        assert f.nbytes < before + 2 * (full - before)

    # -- hosts in play

    def test_a_host_in_play_stays_there_until_it_is_empty(self) -> None:
        for back_queues, order in ((0, "abaa"), (1, "aaab"), (2, "abaa")):
            f = self.make(ManualClock(), None, back_queues)
            f.put([waiting(u) for u in ("http://a/1", "http://b/1", "http://a/2", "http://a/3")], [0] * 4)
            assert "".join(visit(f, 0.0, 1, 0.0) or "-" for _ in range(4)) == order
            assert f.begin(0.0) is None

    def test_no_visit_is_idle_while_a_host_could_be_asked(self) -> None:
        f = self.make(ManualClock(), None, 1)
        f.put([waiting(f"http://{h}/{n}") for h in "abc" for n in range(3)], [0] * 9)
        assert [f.begin(0.0) for _ in range(4)] == ["a", "b", "c", None]
        for host in "abc":
            assert f.take(host) is not None
            f.end(host, 5.0)
        # b and c were in play beyond the one back queue, so a, the last to end, has it.
        assert f.next_ready() == 5.0
        assert [visit(f, 5.0, 1, 9.0) for _ in range(4)] == ["c", "a", "b", None]

    def test_a_host_that_must_wait_takes_no_back_queue(self) -> None:
        f = self.make(ManualClock(), LengthOrder(), 1)
        f.hold("large", 10.0)
        f.put([waiting(f"http://large/{n}") for n in range(9)], [0] * 9)
        f.put([waiting(f"http://small/{n}") for n in range(3)], [0] * 3)
        assert f.next_ready() is not None
        assert visit(f, 1.0, 1, 1.0) == "small"
        assert visit(f, 10.0, 1, 10.0) == "small"  # it is in play ...
        assert visit(f, 10.0, 1, 10.0) == "large"  # ... until its visit ends and a better one is ready

    def test_a_better_host_in_front_takes_over_at_the_end_of_a_visit(self) -> None:
        f = self.make(ManualClock(), LengthOrder(), 1)
        f.put([waiting(f"http://a/{n}") for n in range(3)], [0] * 3)
        assert f.begin(0.0) == "a"
        f.put([waiting(f"http://b/{n}") for n in range(5)], [0] * 5)
        f.end("a", 0.0)
        assert [visit(f, 0.0, 2, 0.0) for _ in range(5)] == ["b", "b", "a", "a", "b"]

    # -- classes

    def test_the_longest_queues_are_told_with_what_they_wait_for(self) -> None:
        f = self.make(ManualClock())
        for host, count in (("a", 1), ("b", 3), ("c", 2)):
            f.put([waiting(f"http://{host}/{n}") for n in range(count)], [0] * count)
        f.hold("c", 50.0)
        assert [(row.host, row.queued) for row in f.longest(2)] == [("b", 3), ("c", 2)]
        assert f.longest(2)[1].ready == 50.0
        begun = f.begin(1.0)
        assert [row.host for row in f.longest(9) if row.begun] == [begun]
        assert begun is not None
        taken = f.take(begun)
        assert taken is not None
        assert sum(row.queued for row in f.longest(9)) == 5
        f.put_back(taken)
        assert sum(row.queued for row in f.longest(9)) == 6

    def test_a_demoted_host_comes_after_those_within_their_budgets(self) -> None:
        for back_queues in (0, 1, 3):
            f = self.make(ManualClock(), None, back_queues)
            f.put([waiting(f"http://{h}/{n}") for n in range(2) for h in "abc"], [0] * 6)
            assert f.demote("a", 2)
            assert f.demote("b", 1)
            assert not f.demote("b", 1)
            assert not f.demote("nobody", 1)
            assert [f.begin(0.0) for _ in range(3)] == ["c", "b", "a"]
            assert not f.demote("a", 0)
            for host in "cba":
                f.take(host)
                f.end(host, 1.0)
            assert f.begin(1.0) in ("c", "a")
            with pytest.raises(LocalError):
                f.demote("a", 256)
            with pytest.raises(LocalError):
                f.demote("a", -1)

    def test_a_class_is_forgotten_with_its_host_and_kept_in_snapshots(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting("http://a/1"), waiting("http://b/1"), waiting("http://c/1")], [0] * 3)
        f.demote("a", 3)
        f.demote("b", 1)
        g = self.make(ManualClock())
        g.thaw(list(f.freeze()))
        for frontier in (f, g):
            assert [host for host, _ in drain(frontier, now=1.0)] == ["c", "b", "a"]
            frontier.put([waiting("http://a/2"), waiting("http://b/2")], [0, 0])
            assert [host for host, _ in drain(frontier, now=2.0)] == ["a", "b"]

    def test_a_class_is_forgotten_when_a_wait_is_over(self) -> None:
        f = self.make(ManualClock())
        f.hold("a", 1.0)
        assert f.demote("a", 5)
        assert f.claim("other", 2.0)
        assert not f.demote("a", 6)
        f.put([waiting("http://a/1"), waiting("http://b/1")], [0, 0])
        assert f.begin(2.0) == "a"

    # -- counts

    def test_queued(self) -> None:
        f = self.make(ManualClock())
        assert f.queued("a") == 0
        f.put([waiting(f"http://a/{n}") for n in range(5)], [0, 1, 2, 3, 4])
        assert (f.queued("a"), f.queued("b")) == (5, 0)
        assert f.begin(0.0) == "a"
        one, two = f.take("a"), f.take("a")
        assert one is not None and two is not None
        assert f.queued("a") == 3
        f.put_back(one)
        f.done(two.key)
        assert f.queued("a") == 4

    # -- new levels

    def test_relevel(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting(f"http://a/{n}") for n in range(6)], [0, 0, 1, 1, 2, 2])
        f.put([waiting("http://b/1")], [7])
        table = new_levels([("http://a/5", 0), ("http://a/0", 9), ("http://a/3", 2), ("http://none/", 1)])
        assert list(f.relevel(table)) == [7]
        assert f.pending == 7
        paths = [item.url[7:] for _, item in drain(f)]
        assert paths == ["a/1", "a/5", "a/2", "a/3", "a/4", "a/0", "b/1"]

    def test_relevel_gives_those_not_named_a_level_too(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting(f"http://a/{n}") for n in range(4)], [3, 2, 1, 0])
        list(f.relevel(new_levels([("http://a/0", 0)], other=5)))
        assert [item.url[-1] for _, item in drain(f)] == ["0", "3", "2", "1"]

    def test_relevel_of_urls_in_flight_and_put_back(self) -> None:
        f = self.make(ManualClock())
        f.put([waiting(f"http://a/{n}") for n in range(6)], [0] * 6)
        assert f.begin(0.0) == "a"
        taken = [f.take("a") for _ in range(4)]
        for item in taken[1:3]:
            assert item is not None
            f.put_back(item)
        # 0 and 3 are in flight; 2 and 1 were put back; 4 and 5 were never taken.
        rows = [("http://a/0", 1), ("http://a/1", 1), ("http://a/2", 2), ("http://a/4", 1), ("http://a/5", 0)]
        assert sum(f.relevel(new_levels(rows, other=3))) == 4
        for item in (taken[0], taken[3]):
            assert item is not None
            f.put_back(item)
        f.end("a", 0.0)
        assert [item.url[-1] for _, item in drain(f)] == ["5", "0", "1", "4", "2", "3"]

    def test_relevel_in_steps_with_a_crawl_between(self) -> None:
        f = self.make(ManualClock())
        rng = random.Random(5)
        hosts = ["large"] * 8 + [f"small{n}" for n in range(8)]
        items = [waiting(f"http://{rng.choice(hosts)}/{n}") for n in range(8000)]
        f.put(items, [rng.randrange(4) for _ in items])
        level = {item.url: rng.randrange(6) for item in items}
        steps = f.relevel(new_levels(list(level.items())))
        out: list[Waiting] = []
        late = [waiting(f"http://large/late/{n}") for n in range(300)]
        now = 0.0
        for moved in steps:
            assert 0 <= moved <= 2 * STEP
            now += 1.0
            for _ in range(2):
                host = f.begin(now)
                assert host is not None
                for _ in range(120):
                    item = f.take(host)
                    if item is None:
                        break
                    out.append(item)
                    f.done(item.key)
                f.end(host, now + 1.0)
            f.put([late.pop()], [0])
            assert f.pending == len(items) + 300 - len(late) - len(out)
        rest = [item for _, item in drain(f)]
        put = [waiting(f"http://large/late/{n}") for n in range(len(late), 300)]
        assert sorted(out + rest) == sorted(items + put)
        for name in set(hosts):  # of each host, what was left at the end came out by level
            levels = [
                level[item.url] for item in rest if item.url.startswith(f"http://{name}/") and item not in put
            ]
            assert levels == sorted(levels)

    def test_relevel_goes_on_when_what_it_has_done_is_taken(self) -> None:
        f = self.make(ManualClock())
        items = [waiting(f"http://a/{n}") for n in range(3500)]
        f.put(items, [n % 3 for n in range(3500)])
        steps = f.relevel(new_levels([], other=1))
        assert next(steps) == STEP
        assert f.begin(0.0) == "a"
        taken = [f.take("a") for _ in range(3501)]
        assert taken == [*items[::3], *items[1::3], *items[2::3], None]
        assert sum(steps) == 0

    def test_relevel_dropped_half_way_leaves_every_url_pending(self) -> None:
        f = self.make(ManualClock())
        items = [waiting(f"http://a/{n}") for n in range(3500)]
        f.put(items, [n % 3 for n in range(3500)])
        steps = f.relevel(new_levels([], other=1))
        next(steps)
        with pytest.raises(LocalError):
            list(f.freeze())
        with pytest.raises(LocalError):
            next(f.relevel(new_levels([])))
        steps.close()  # type: ignore[attr-defined]  # it is a generator
        g = self.make(ManualClock())
        g.thaw(list(f.freeze()))
        assert sorted(item for _, item in drain(g)) == sorted(items)
        assert sum(f.relevel(new_levels([], other=1))) == 3500
        assert sorted(item for _, item in drain(f)) == sorted(items)

    # -- chance

    def test_biased_choice_favours_low_levels_and_starves_none(self) -> None:
        f = self.make(ManualClock(), BiasedOrder(4))
        items = [waiting(f"http://a/{n}", n % 6) for n in range(1500)]
        f.put(items, BiasedOrder(4).levels(items, None))
        assert f.begin(0.0) == "a"
        first = Counter(min(item.depth, 3) for _ in range(300) if (item := f.take("a")) is not None)
        # 1, 1/4, 1/9 and 1/16 of 205 in 144.
        assert (
            190 <= first[0] <= 235 and 35 <= first[1] <= 70 and 12 <= first[2] <= 36 and 5 <= first[3] <= 24
        )
        f.end("a", 0.0)
        by_level: dict[int, list[int]] = {}
        for _, item in drain(f):
            by_level.setdefault(min(item.depth, 3), []).append(int(item.url[9:]))
        assert all(numbers == sorted(numbers) for numbers in by_level.values())

    def test_biased_choice_of_hosts(self) -> None:
        f = self.make(ManualClock(), BiasedOrder(8))
        items = [waiting(f"http://h{n}.example/", n % 2 * 7) for n in range(400)]
        f.put(items, BiasedOrder(8).levels(items, None))
        first = [f.begin(0.0) for _ in range(200)]
        low = sum(1 for host in first if int(str(host)[1:-8]) % 2 == 0)
        assert 185 <= low < 200  # of level 0; 64 times as likely as those of level 7
