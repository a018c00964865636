"""What will happen next: the hosts with the most URLs pending, and why each is or is not visited now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lycosa.clock import Clock
from lycosa.crawl.shard import Shard
from lycosa.crawl.shard_set import ShardSet
from lycosa.crawl.site_options import SiteOptions
from lycosa.crawl.status import Ahead

MOST = 20
_LOOK = 5.0
"""Seconds between two looks at the longest queues."""


class Longest:
    """The hosts with the most URLs pending, as of a few seconds ago."""

    def __init__(self, shards: ShardSet, clock: Clock) -> None:
        self._shards = shards
        self._clock = clock
        self._rows: list[Ahead] = []
        self._next = float("-inf")

    def rows(self) -> list[Ahead]:
        now = self._clock.monotonic()
        if now >= self._next:
            self._rows, self._next = ahead(self._shards, self._shards.options.site, now), now + _LOOK
        return self._rows


def ahead(
    shards: Iterable[Shard], said: Mapping[str, SiteOptions], now: float, most: int = MOST
) -> list[Ahead]:
    """The hosts with the longest queues at the monotonic time `now`; `said`: the operator's settings of sites."""
    rows = [(row, shard) for shard in shards for row in shard.frontier.longest(most)]
    rows.sort(key=lambda pair: (-pair[0].queued, pair[0].host))
    found: list[Ahead] = []
    for row, shard in rows[:most]:
        wait = max(row.ready - now, 0.0)
        if (site := said.get(row.host)) is not None and site.hold:
            why = "held by the operator"
        elif row.begun:
            wait, why = 0.0, "a visit is under way"
        elif wait:
            why = _waiting(shard, row.host)
        else:
            why = "ready, but over its budget" if row.tier else "ready"
        found.append(Ahead(host=row.host, queued=row.queued, wait=round(wait, 1), why=why))
    return found


def _waiting(shard: Shard, host: str) -> str:
    """Why a host waits, as far as the site table knows."""
    own = shard.sites.peek(host)
    if own is not None and own.dns_failures:
        return "its name has no address"
    for scheme in ("https", "http"):
        site = shard.sites.peek(f"{scheme}://{host}")
        if site is not None and site.robots_failures:
            return "its robots.txt could not be fetched"
        if site is not None and site.crawl_delay:
            return f"Crawl-delay of {site.crawl_delay:g} s"
    return "the wait between two visits"
