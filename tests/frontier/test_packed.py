from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.clock import ManualClock
from lycosa.errors import LocalError, StorageError
from lycosa.frontier.orders import Order
from lycosa.frontier.packed import MAX_URL, PackedFrontier
from lycosa.frontier.protocol import Frontier
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


@settings(max_examples=30, deadline=None)
@given(which=st.integers(0, 100), at=st.integers(0, 10**6), value=st.integers(0, 255), cut=st.booleans())
def test_damaged_pieces_never_crash(which: int, at: int, value: int, cut: bool) -> None:
    """A snapshot's checksums guard it; should they fail to, the worst is an error or wrong URLs."""
    frontier = PackedFrontier(ManualClock(), None, SEED)
    frontier.put([waiting(f"http://h{n % 3}/{n}") for n in range(60)], [n % 2 for n in range(60)])
    pieces = [bytearray(piece) for piece in frontier.freeze()]
    piece = pieces[which % len(pieces)]
    if cut:
        del piece[at % len(piece) :]
    else:
        piece[at % len(piece)] = value
    with suppress(StorageError):
        PackedFrontier(ManualClock(), None, SEED).thaw([bytes(p) for p in pieces])
