from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lycosa.clock import ManualClock
from lycosa.errors import LocalError, StorageError
from lycosa.frontier.orders.order import Order
from lycosa.frontier.packed.frontier import MAX_URL, PackedFrontier
from lycosa.frontier.packed.store import BLOCK, QUEUE
from lycosa.frontier.protocol import Frontier, Levels
from lycosa.records import Waiting
from tests.frontier.contract import SEED, FrontierContract, drain, waiting


class TestPacked(FrontierContract):
    def make(self, clock: ManualClock, order: Order | None = None, back_queues: int = 0) -> Frontier:
        return PackedFrontier(clock, order, SEED, back_queues=back_queues)


WORDS = ["about", "news", "article", "category", "blog", "post", "archive", "docs", "guide", "forum"]


def pages(hosts: int, per_host: int) -> Iterator[list[Waiting]]:
    """Links of pages on hosts with sections and titles, 50 a page, four in five on the page's own host."""
    rng = random.Random(3)
    for n in range(hosts * per_host // 50):
        own = n % hosts
        links = []
        for _ in range(50):
            host = own if rng.random() < 0.8 else rng.randrange(hosts)
            section = "/".join(WORDS[(host * 7 + rng.randrange(4) * k) % 10] for k in (1, 2))
            title = "-".join(rng.choice(WORDS) for _ in range(3))
            url = f"https://www.site-number-{host}.example/{section}/{title}-{rng.randrange(10**6)}.html"
            links.append(Waiting(url, 0, 2))
        yield links


def test_bytes_per_url_and_what_a_freeze_adds() -> None:
    frontier = PackedFrontier(ManualClock(), None, SEED)
    total = 0
    for links in pages(hosts=1000, per_host=100):
        frontier.put(links, [2] * len(links))
        total += sum(len(link.url) for link in links)
    assert total / frontier.pending > 70
    assert frontier.nbytes / frontier.pending < 44  # 40 here; 64 is the promise
    before = frontier.nbytes
    frozen = frontier.freeze()
    for _ in range(200):
        host = frontier.begin(0.0)
        assert host is not None
        for _ in range(8):
            frontier.take(host)
        frontier.end(host, 1.0)
        next(frozen, None)
    assert frontier.nbytes < before * 1.10 + 2_000_000  # those in flight are Python's
    assert all(len(piece) <= 1 << 20 for piece in frozen)


def test_memory_of_what_was_taken_is_used_again() -> None:
    frontier = PackedFrontier(ManualClock(), None, SEED)
    for links in pages(hosts=200, per_host=50):
        frontier.put(links, [2] * len(links))
    before = frontier.nbytes
    for round_ in range(5):
        drain(frontier, now=float(round_))
        assert frontier.pending == 0
        for links in pages(hosts=200, per_host=50):
            frontier.put(links, [2] * len(links))
    assert frontier.nbytes <= before * 1.10


def test_limits() -> None:
    frontier = PackedFrontier(ManualClock(), None, SEED)
    longest = waiting("http://h/" + "x" * (MAX_URL - 9))
    frontier.put([longest], [255])
    for item, level in ((longest._replace(url=longest.url + "x"), 0), (longest, 256), (longest, -1)):
        with pytest.raises(LocalError):
            frontier.put([item], [level])
    with pytest.raises(LocalError):
        frontier.put([longest], [])
    name = "n" * (MAX_URL - 8)
    frontier.put([waiting(f"http://{name}/")], [0])
    assert frontier.pending == 2
    again = PackedFrontier(ManualClock(), None, SEED)
    again.thaw(frontier.freeze())
    assert [item for _, item in drain(again)] == [longest, waiting(f"http://{name}/")]


def test_names_of_forgotten_hosts_are_forgotten() -> None:
    frontier = PackedFrontier(ManualClock(), None, SEED)
    frontier.put([waiting("http://stays.example/1")], [0])
    frontier.hold("stays.example", 1e9)
    sizes = []
    for round_ in range(10):
        items = [waiting(f"http://host-{round_}-{n}-{'x' * 50}.example/") for n in range(1500)]
        frontier.put(items, [0] * len(items))
        assert len(drain(frontier, now=float(round_))) == 1500
        sizes.append(frontier.nbytes)
    assert sizes[-1] <= sizes[2] * 1.1
    assert frontier.begin(1e9) == "stays.example"


@settings(max_examples=150, deadline=None)
@example(which=1, at=7, value=128, how="change")  # a count of words beyond 2^63
@given(
    which=st.integers(0, 100),
    at=st.integers(0, 10**6),
    value=st.integers(0, 255),
    how=st.sampled_from(["change", "change", "change", "cut", "insert"]),
)
def test_damaged_pieces_never_crash(which: int, at: int, value: int, how: str) -> None:
    """A snapshot's checksums guard it; should they fail to, the worst is an error or wrong URLs."""
    frontier = PackedFrontier(ManualClock(), None, SEED)
    frontier.put([waiting(f"http://h{n % 3}/p/{n}") for n in range(200)], [n % 2 for n in range(200)])
    assert frontier.begin(0.0) == "h0"
    for _ in range(5):
        frontier.take("h0")
    pieces = [bytearray(piece) for piece in frontier.freeze()]
    piece = pieces[which % len(pieces)]
    at %= len(piece)
    if how == "cut":
        del piece[at:]
    elif how == "insert":
        piece.insert(at, value)
    else:
        piece[at] = value
    damaged = PackedFrontier(ManualClock(), None, SEED)
    try:
        damaged.thaw([bytes(p) for p in pieces])
    except StorageError:
        return
    pending = damaged.pending
    assert len(drain(damaged)) == pending


# -- memory


def test_a_small_frontier_is_small() -> None:
    """Sixteen shards share a limit of 1 MB."""
    frontier = PackedFrontier(ManualClock(), None, SEED)
    assert frontier.nbytes < 4 << 10
    items = [waiting(f"http://host{n % 3}.example/section/page-{n}.html{'x' * 60}") for n in range(100)]
    frontier.put(items, [n % 3 for n in range(100)])
    assert frontier.nbytes < 10 << 10
    long = PackedFrontier(ManualClock(), None, SEED)
    long.put([waiting("http://host.example/" + "x" * 2000)], [0])
    assert long.nbytes < 16 << 10


def test_a_host_takes_160_bytes_at_most() -> None:
    """Its row, its places in the heaps and in the table, and a name of 20 bytes; its queues apart."""
    frontier = PackedFrontier(ManualClock(), None, SEED, back_queues=8)
    items = [waiting(f"http://www.site-{n:07d}.org/") for n in range(20_000)]
    frontier.put(items, [0] * len(items))
    store = frontier._queues.store
    queues = store.length("queues") * QUEUE.itemsize + store.length("links") * (BLOCK + 4)
    assert (frontier.nbytes - queues) / len(items) < 120


def test_urls_of_documentation_take_32_bytes_at_most() -> None:
    """A tree of documentation as its pages list it, 100 waiting URLs a host and up."""
    rng = random.Random(11)
    frontier = PackedFrontier(ManualClock(), None, SEED)
    kinds = ["struct", "enum", "trait", "fn", "macro", "type"]
    length = 0
    for host in range(40):
        for _ in range(5):
            crate = "".join(rng.choices("abcdefghijklmnop", k=rng.randrange(4, 9)))
            module = "/".join("".join(rng.choices("qrstuvwxyz_", k=rng.randrange(4, 9))) for _ in range(2))
            names = ["".join(rng.choices("ABCDEFabcdefghi", k=rng.randrange(4, 16))) for _ in range(25)]
            links = [
                waiting(f"https://docs{host}.example.org/{crate}/{module}/{rng.choice(kinds)}.{name}.html")
                for name in names
            ]
            frontier.put(links, [2] * len(links))
            length += sum(len(link.url) for link in links)
    assert length / frontier.pending > 55
    assert frontier.nbytes / frontier.pending < 32


@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_memory_held_follows_memory_used(data: st.DataObject) -> None:
    """While it grows. (What was used by URLs is not given to hosts, nor the other way round.)"""
    frontier = PackedFrontier(ManualClock(), None, SEED, back_queues=data.draw(st.sampled_from([0, 5])))
    peak = 0
    count = 0
    for _ in range(data.draw(st.integers(1, 12))):
        hosts = data.draw(st.sampled_from([1, 10, 1000]))
        levels = data.draw(st.sampled_from([1, 4, 100]))
        number = data.draw(st.integers(1, 3000))
        size = data.draw(st.sampled_from([10, 60, 400]))
        for at in range(0, number, 50):
            some = range(count + at, count + min(at + 50, number))
            items = [waiting(f"http://h{n % hosts}.example/{n}/{'x' * (n % size)}") for n in some]
            frontier.put(items, [n % levels for n in some])
            peak = max(peak, frontier.used)
            assert frontier.used <= frontier.nbytes <= 1.15 * peak + (64 << 10)
        count += number
        if data.draw(st.booleans()):
            table = Levels(np.zeros(0, np.uint64), np.zeros(0, np.uint8), data.draw(st.integers(0, 3)))
            for _ in frontier.relevel(table):
                peak = max(peak, frontier.used)
        assert frontier.used <= frontier.nbytes <= 1.15 * peak + (64 << 10)


def test_what_is_used_is_given_back() -> None:
    frontier = PackedFrontier(ManualClock(), None, SEED)
    empty = frontier.used
    frontier.put(
        [waiting(f"http://h{n % 50}.example/{n}") for n in range(5000)], [n % 7 for n in range(5000)]
    )
    full = frontier.used
    assert full > empty + 5000 * 8
    drain(frontier)
    assert frontier.used <= empty + 128  # room for a longer URL than before
