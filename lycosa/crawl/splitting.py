"""Which shard a URL belongs to: a hash of its registered domain, so that a domain has one owner.

Manning et al. §20.2.1 call this the host splitter. Budgets and politeness are per domain and host, so a
domain is never split; the hash spreads domains evenly. Hosts are looked up by their 64-bit hash (which the
key scan gives for free) in a bounded memo.
"""

from __future__ import annotations

import xxhash

from lycosa.url.domains import Domains
from lycosa.url.parts import host_of

_MEMO = 1 << 16


class Splitter:
    """Host to shard."""

    def __init__(self, shards: int, domains: Domains) -> None:
        self.shards = shards
        self.domains = domains
        self._memo: dict[int, int] = {}

    def shard_of(self, host: str) -> int:
        """The shard that owns a host."""
        if self.shards == 1:
            return 0
        return int(xxhash.xxh64_intdigest(self.domains.domain(host).encode()) % self.shards)

    def shard_of_url(self, host_hash: int, url: str) -> int:
        """The shard that owns a URL, remembered by the hash of its host."""
        found = self._memo.get(host_hash)
        if found is None:
            if len(self._memo) >= _MEMO:
                self._memo.clear()
            found = self._memo[host_hash] = self.shard_of(host_of(url))
        return found
