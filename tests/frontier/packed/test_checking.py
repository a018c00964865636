"""The packed frontier in the checking mode, and what it finds."""

from __future__ import annotations

import random

import pytest

from lycosa.clock import ManualClock
from lycosa.frontier import checking
from lycosa.frontier.checking import BrokenError
from lycosa.frontier.packed.frontier import PackedFrontier
from lycosa.frontier.packed.store import BLOCK
from tests.frontier.contract import SEED, waiting


@pytest.fixture
def frontier() -> PackedFrontier:
    """Hosts that wait, hosts whose visit is under way; queues of several blocks; blocks and rows that are free."""
    frontier = PackedFrontier(ManualClock(), None, SEED, back_queues=4)
    draw = random.Random(1)
    for _ in range(400):
        url = f"http://host-{draw.randrange(12)}.example/{draw.randrange(10**9)}/{'x' * draw.randrange(40)}"
        frontier.put([waiting(url)], [draw.randrange(4)])
    for now in range(8):
        host = frontier.begin(float(now))
        assert host is not None
        for _ in range(12):
            taken = frontier.take(host)
            if taken is not None:
                frontier.done(taken.key)
        if now % 3:
            frontier.end(host, now + 5.0 * (now % 2))
    frontier.hold("idle.example", 1e6)
    frontier.check()
    return frontier


def test_a_frontier_that_is_being_frozen_or_relevelled_is_sound(frontier: PackedFrontier) -> None:
    pieces = frontier.freeze()
    next(pieces)
    host = frontier.begin(100.0)
    assert host is not None
    while (taken := frontier.take(host)) is not None:
        frontier.done(taken.key)
    assert frontier._queues.fields.limbo_pairs
    frontier.check()
    for _ in pieces:
        frontier.check()
    frontier.check()


@pytest.mark.parametrize("number", ["queued", "active", "live", "playing", "free_blocks", "free_queues"])
def test_a_count_that_is_off_by_one_is_found(frontier: PackedFrontier, number: str) -> None:
    fields = frontier._queues.fields
    setattr(fields, number, getattr(fields, number) + 1)
    with pytest.raises(BrokenError, match=r"broken: .*(number|as many)"):
        frontier.check()


def test_a_hosts_count_that_is_off_by_one_is_found(frontier: PackedFrontier) -> None:
    frontier._queues.store.hosts["queued"][frontier._queues.find("host-3.example")] += 1
    with pytest.raises(BrokenError, match="a host has as many URLs as its queues"):
        frontier.check()


def chain(frontier: PackedFrontier) -> list[int]:
    """The blocks of the longest queue."""
    store = frontier._queues.store
    rows, links = store.array("queues"), store.array("links")
    chains = []
    for host in store.rows():
        q = int(host["queue"])
        while q >= 0:
            blocks = [int(rows["head_block"][q])]
            while blocks[-1] != rows["end_block"][q]:
                blocks.append(int(links[blocks[-1]]))
            chains.append(blocks)
            q = int(rows["next"][q])
    return max(chains, key=len)


def test_a_cycle_in_a_list_is_found(frontier: PackedFrontier) -> None:
    blocks = chain(frontier)
    links = frontier._queues.store.array("links")
    links[blocks[2]] = blocks[0]
    with pytest.raises(BrokenError, match="blocks: no element is in two lists, or twice in one"):
        frontier.check()
    # One that nothing leads into: each of its elements is pointed at once.
    links[blocks[2]] = blocks[1]
    links[blocks[0]] = blocks[3]
    with pytest.raises(BrokenError, match="blocks: no list is a cycle"):
        frontier.check()


def test_a_lost_block_is_found(frontier: PackedFrontier) -> None:
    fields, links = frontier._queues.fields, frontier._queues.store.array("links")
    assert fields.free_blocks > 1
    lost = fields.free_block
    fields.free_block, links[lost] = int(links[lost]), -1
    fields.free_blocks -= 1
    with pytest.raises(BrokenError, match="blocks: no element is lost"):
        frontier.check()


def test_a_pointer_out_of_the_arrays_is_found(frontier: PackedFrontier) -> None:
    frontier._queues.store.array("links")[chain(frontier)[0]] = 1 << 20
    with pytest.raises(BrokenError, match="blocks: every pointer is within the arrays"):
        frontier.check()


def test_bytes_that_are_no_entries_are_found(frontier: PackedFrontier) -> None:
    arena = frontier._queues.store.array("arena")
    block = chain(frontier)[1]
    arena[block * BLOCK : (block + 1) * BLOCK] = 255
    with pytest.raises(BrokenError, match="a queue's bytes are its entries"):
        frontier.check()


def test_a_heap_out_of_order_is_found(frontier: PackedFrontier) -> None:
    store = frontier._queues.store
    assert frontier._queues.fields.in_front > 2
    top = int(store.array("front")[0])
    store.hosts["place"][top] += 1000
    store.hosts["rank"][top] += 1000
    with pytest.raises(BrokenError, match="heap front: no host is before its parent"):
        frontier.check()


@pytest.mark.parametrize("rounds", [1, 5])
def test_operations_find_it(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """After `EVERY` of them; of a large store after more."""
    monkeypatch.setattr(checking, "CHECKING", True)

    class Toy:
        def work(self) -> None: ...

        def check(self) -> None:
            checking.demand(False, "nothing holds")

    checking.checked(lambda toy: rounds * checking.EVERY * checking.SHARE, "work")(Toy)
    toy = Toy()
    for _ in range(rounds * checking.EVERY - 1):
        toy.work()
    with pytest.raises(BrokenError, match="nothing holds"):
        toy.work()


def test_the_frontiers_of_tests_are_checked() -> None:
    frontier = PackedFrontier(ManualClock(), None, SEED)
    frontier.put([waiting("http://a.example/")], [0])
    frontier._queues.fields.queued -= 1
    with pytest.raises(BrokenError, match="the number of URLs in queues is that of the hosts"):
        for _ in range(checking.EVERY):
            frontier.hold("idle.example", 1e6)
