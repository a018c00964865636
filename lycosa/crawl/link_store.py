"""The links known to a shard: one uniqueness store with two entrances.

    found       links of the shard's own pages; the agent's URL cache is in front of the store
    received    links that others sent, or that are read back from the log: they bypass the cache, which got
                them when they were sent

The same cache is in front of the outbox: a link of another shard that is in it is known there, or under way.
"""

from __future__ import annotations

from lycosa.meters import Meters
from lycosa.seen.cache import Cache, CachedSeen
from lycosa.seen.protocol import Merging


class LinkStore:
    """The link store of one shard; see the module."""

    def __init__(self, store: Merging, cache: Cache, meters: Meters | None = None) -> None:
        """Without `meters`, links that are found here bypass the cache, too."""
        self.received = store
        self.found: Merging = store if meters is None else CachedSeen(cache, store, meters)
        self.sent = cache
