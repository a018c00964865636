"""Warming: compile the crawl's kernels before it begins, not in the middle of it.

Numba compiles a kernel at its first call and keeps the result beside the source (or in the user's cache
directory, where that cannot be written). On a new installation that takes half a minute in all, during which an
event loop would stand still: so every kernel of a crawl is called once, on next to nothing, before the loop
runs. With everything compiled it takes some milliseconds.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lycosa.clock import SystemClock
from lycosa.files import DiskFiles
from lycosa.frontier.orders import BiasedOrder, DepthOrder, Ranking
from lycosa.frontier.packed import PackedFrontier
from lycosa.frontier.protocol import Levels
from lycosa.meters import Meters
from lycosa.records import Waiting
from lycosa.seen.cache import CachedSeen, ScatterCache
from lycosa.seen.memory import MemorySeen
from lycosa.url.key import Keyer

_PATIENCE = 1.0
"""Seconds after which the operator is told what takes so long."""


def warm(told: Callable[[str], None] | None = None) -> None:
    """Have every kernel of a crawl compiled."""
    done = threading.Event()
    if told is not None:
        threading.Thread(target=_tell, args=(done, told), daemon=True).start()
    try:
        with tempfile.TemporaryDirectory(prefix="lycosa-") as place:
            _exercise(Path(place))
    finally:
        done.set()


def _tell(done: threading.Event, told: Callable[[str], None]) -> None:
    if not done.wait(_PATIENCE):
        told("compiling for this machine (once after an installation, about half a minute) ...")


def _exercise(place: Path) -> None:
    keyer = Keyer(7)
    urls = [f"http://host{n % 3}.test/page/{n}" for n in range(600)]
    keys, _ = keyer.scan("\n".join(urls).encode("ascii"))
    seen = CachedSeen(ScatterCache(1 << 10), MemorySeen(DiskFiles(place)), Meters())
    seen.certain(keys)
    seen.offer(keys, [b""] * len(keys))
    seen.certain(keys[:5])
    seen.mark(np.array([1], np.uint64))
    items = [Waiting(url, int(key), n % 4) for n, (url, key) in enumerate(zip(urls, keys, strict=True))]
    _exercise_frontier(items, keyer.seed)


class _AskedOrder(DepthOrder):
    ranking = Ranking.ASKED


def _exercise_frontier(items: list[Waiting], seed: int) -> None:
    clock = SystemClock()
    frontier = PackedFrontier(clock, BiasedOrder(4), seed, back_queues=2)
    frontier.put(items, [item.depth for item in items])
    frontier.hold_all(0.5)
    frontier.begin(0.0)
    frontier.hold("host1.test", 0.0)
    frontier.claim("host9.test", 1.0)
    frontier.demote("host2.test", 1)
    frontier.queued("host2.test")
    for n in range(100):  # so that names are compacted
        frontier.hold(f"{n:060d}.test", 0.0)
    keys = np.sort(np.array([item.key for item in items[::2]], np.uint64))
    for _ in frontier.relevel(Levels(keys, np.ones(len(keys), np.uint8), -1)):
        pass
    host = frontier.begin(1.0)
    assert host is not None
    for _ in range(3):
        taken = frontier.take(host)
        assert taken is not None
        frontier.done(taken.key)
    pieces = frontier.freeze()
    back = frontier.take(host)
    assert back is not None
    frontier.put_back(back)
    again = frontier.take(host)
    assert again is not None
    frontier.end(host, 2.0)
    list(pieces)
    thawed = PackedFrontier(clock, _AskedOrder(), seed)
    thawed.thaw(frontier.freeze())
    for item in (items[0], items[300]):
        thawed.withdraw(item.url, item.key)
    thawed.settle_withdrawn()
    thawed.next_ready()


if __name__ == "__main__":
    warm(lambda text: print(text, file=sys.stderr))
