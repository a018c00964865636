"""Levels by host: all URLs of a host get the level of its host, in both frontiers."""

from __future__ import annotations

import numpy as np
import pytest

from lycosa.clock import ManualClock
from lycosa.frontier.orders.order import DepthOrder
from lycosa.frontier.orders.ranked import host_name
from lycosa.frontier.packed.frontier import PackedFrontier
from lycosa.frontier.plain import PlainFrontier
from lycosa.frontier.protocol import Frontier, Levels
from lycosa.records import Waiting
from lycosa.url.key import Keyer

SEED = 7
KEYER = Keyer(SEED)


def made(kind: str) -> Frontier:
    clock = ManualClock()
    if kind == "plain":
        return PlainFrontier(clock, DepthOrder(), seed=SEED)
    return PackedFrontier(clock, DepthOrder(), SEED)


@pytest.mark.parametrize("kind", ["plain", "packed"])
def test_a_host_has_one_level(kind: str) -> None:
    frontier = made(kind)
    urls = [f"http://{host}.test/{n}" for host in "abc" for n in range(40)]
    frontier.put(
        [Waiting(url, KEYER.key(url), n % 5) for n, url in enumerate(urls)], [n % 5 for n in range(120)]
    )
    assert (
        frontier.begin(0.0) is not None
    )  # one of them is being visited, with a URL in flight and one put back
    flown = [frontier.take("a.test"), frontier.take("a.test")]
    assert flown[0] is not None and flown[1] is not None
    frontier.put_back(flown[1])
    hashes = np.array([KEYER.host_hash(f"{host}.test") for host in "ab"], np.uint64)
    names = host_name(hashes)
    order = np.argsort(names)
    levels = Levels(names[order], np.array([9, 3], np.uint8)[order], 200, by_host=True)
    assert sum(frontier.relevel(levels)) >= 118
    frontier.end("a.test", 0.0)
    again = Levels(levels.keys, levels.levels, 200, by_host=True)
    assert list(frontier.relevel(again)) != []
    found: dict[str, list[str]] = {}
    while (host := frontier.begin(1.0)) is not None:
        while (waiting := frontier.take(host)) is not None:
            found.setdefault(host, []).append(waiting.url)
            frontier.done(waiting.key)
        frontier.end(host, 0.0)
    frontier.done(flown[0].key)
    assert sorted(url for rows in found.values() for url in rows) == sorted(set(urls) - {flown[0].url})
