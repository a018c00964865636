"""Which links a shard has met: one uniqueness store with two doors.

    found       links of the shard's own pages; the agent's URL cache stands before the store
    received    links that others sent, or that are read back from the log: past the cache, which the sender put
                them into when it sent them

The same cache stands before the outbox: a link of another shard that is in it is known there, or on its way.
"""

from __future__ import annotations

from lycosa.meters import Meters
from lycosa.seen.cache import Cache, CachedSeen
from lycosa.seen.protocol import Merging


class LinkStore:
    """Of one shard; see the module."""

    def __init__(self, store: Merging, cache: Cache, meters: Meters | None = None) -> None:
        """Without `meters` links that are found here go past the cache, too."""
        self.received = store
        self.found: Merging = store if meters is None else CachedSeen(cache, store, meters)
        self.sent = cache
