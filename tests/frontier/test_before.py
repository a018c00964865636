"""What the log had of a URL goes with it through a frontier, put back and through a snapshot."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from lycosa.clock import ManualClock
from lycosa.frontier import DepthOrder, PackedFrontier
from lycosa.frontier.plain import PlainFrontier
from lycosa.frontier.protocol import Frontier
from lycosa.records import Before, Waiting
from lycosa.url.key import Keyer

SEED = 7
MAKES: list[Callable[[], Frontier]] = [
    lambda: PackedFrontier(ManualClock(), DepthOrder(), SEED),
    lambda: PlainFrontier(ManualClock()),
]


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("attempt", [0, 1, 200])
def test_before(make: Callable[[], Frontier], attempt: int) -> None:
    key = Keyer(SEED).key
    items = [
        Waiting(url, key(url), 1, 2, attempt, before)
        for before in Before
        for url in (f"http://a.test/{before}",)
    ]
    frontier = make()
    frontier.put(items, [1] * len(items))
    host = frontier.begin(1.0)
    assert host == "a.test"
    first = frontier.take(host)
    assert first is not None
    frontier.put_back(first)
    second = frontier.take(host)
    assert second == first
    pieces = list(frontier.freeze())
    other = make()
    other.thaw(pieces)
    found = []
    assert other.begin(1.0) == host
    while (taken := other.take(host)) is not None:
        found.append(taken)
    assert sorted(found) == sorted(items)


def test_a_url_of_an_older_snapshot_was_never_fetched() -> None:
    older = msgspec.msgpack.encode(["http://a.test/", 5, 1, 2, 3])
    assert msgspec.msgpack.decode(older, type=Waiting) == Waiting("http://a.test/", 5, 1, 2, 3, Before.NEVER)


def test_tries_of_what_was_never_fetched_are_its_attempts() -> None:
    for before in Before:
        waiting = Waiting("http://a.test/", 5, 1, 2, 3, before)
        assert Waiting.of_tries(*waiting[:4], waiting.tries) == waiting
    assert Waiting("http://a.test/", 5, attempt=3).tries == 3
