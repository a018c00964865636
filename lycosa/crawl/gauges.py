"""The gauges that an agent's meters have for its shards, computed when read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lycosa.clock import Clock
from lycosa.crawl.refreshing import Refreshing
from lycosa.crawl.shard import Shard
from lycosa.crawl.shard_set import ShardSet
from lycosa.meters import Meters

_SUMS: dict[str, Callable[[Shard], float]] = {
    "frontier.pending": lambda shard: shard.frontier.pending,
    "frontier.in_flight": lambda shard: shard.frontier.in_flight,
    "frontier.hosts": lambda shard: shard.frontier.hosts,
    "frontier.bytes": lambda shard: shard.frontier.nbytes,
    "frontier.used": lambda shard: shard.frontier.used,
    "frontier.left_behind": lambda shard: len(shard.left),
    "frontier.left_bytes": lambda shard: shard.left.nbytes,
    "frontier.returns": lambda shard: shard.admission.returns,
    "frontier.dropped": lambda shard: shard.admission.dropped,
    "frontier.deferred": lambda shard: len(shard.calendar),
    "seen.urls": lambda shard: len(shard.links.found),
    "seen.waiting": lambda shard: shard.links.found.waiting,
    "seen.bytes": lambda shard: shard.links.received.nbytes,
    "sites.known": lambda shard: len(shard.sites),
    "exchange.offered": lambda shard: shard.outbox.offered,
    "exchange.sent": lambda shard: shard.outbox.sent,
    "log.records": lambda shard: shard.log.end,
    "log.committed": lambda shard: shard.log.committed,
}
_REFRESH = ("pages", "fresh", "variance", "plain", "age", "asked")


def show(meters: Meters, shards: ShardSet, clock: Clock, refreshing: Refreshing | None) -> None:
    """Register the gauges of the shards."""

    def total(of: Callable[[Shard], float]) -> float:
        return sum(map(of, shards))

    def next_due() -> float:
        """Seconds until the first deferred URL is due; 0 if there is none."""
        dues = [due for shard in shards if (due := shard.calendar.next_due()) is not None]
        return max(min(dues) / 1000 - clock.wall(), 0.0) if dues else 0.0

    for name, of in _SUMS.items():
        meters.gauge(name, partial(total, of))
    meters.gauge("frontier.next_due", next_due)
    if refreshing is not None:
        meters.gauge("refresh.waiting", partial(total, lambda shard: len(shard.revisits)))
        for name in _REFRESH:
            meters.gauge(f"refresh.{name}", partial(refreshing.figure, name))
