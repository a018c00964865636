"""Which shard a URL belongs to: a host has one owner, whichever shard finds the link.

Manning et al. §20.2.1 call this the host splitter. A crawl is created with one of three ways:

    domain    a hash of the registered domain: all hosts of a domain have one owner (the default)
    host      a hash of the host: a domain of thousands of hosts is spread over all shards
    region    a table from the operator: named regions, each a list of domains or suffixes ("de", "co.uk",
              "example.org"); the regions, and the rest of the web after them, have equal and contiguous shares of
              the shards, and within its share a domain is hashed. So an agent can be given a part of the web, to
              run near it or under rules of its own.

Politeness is per host and limits are per site, so none of the three ever divides what they count. Hosts are looked
up by their 64-bit hash (a by-product of the key scan) in a bounded memo.
"""

from __future__ import annotations

import msgspec
import xxhash

from lycosa.errors import ConfigError
from lycosa.url.domains import Domains
from lycosa.url.parts import host_of

_MEMO = 1 << 16
WAYS = ("domain", "host", "region")


class SplitterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a crawl is cut into shards: part of its manifest, never changed."""

    by: str = "domain"
    regions: dict[str, tuple[str, ...]] = {}  # name -> domains or suffixes


def check_splitter(options: SplitterOptions, shards: int) -> None:
    """Refuse invalid options."""
    if options.by not in WAYS:
        raise ConfigError(f"there is no splitter {options.by!r}; choose one of {', '.join(WAYS)}")
    if (options.by == "region") != bool(options.regions):
        raise ConfigError(
            "the splitter 'region' and regions go together: give both (like NAME=example.org), or neither"
        )
    if len(options.regions) >= shards:
        raise ConfigError(
            f"{len(options.regions)} regions and the rest of the web need at least {len(options.regions) + 1}"
            f" shards, not {shards}"
        )
    owners: dict[str, str] = {}
    for name, suffixes in options.regions.items():
        for suffix in suffixes:
            if not suffix or suffix != suffix.strip(".").lower():
                raise ConfigError(
                    f"region {name}: {suffix!r} is not a domain or suffix; write it like example.org"
                )
            if owners.setdefault(suffix, name) != name:
                raise ConfigError(f"{suffix} is in two regions, {owners[suffix]} and {name}")


class Splitter:
    """Maps a host to its shard."""

    def __init__(self, shards: int, domains: Domains, options: SplitterOptions | None = None) -> None:
        options = options or SplitterOptions()
        self.shards = shards
        self.domains = domains
        self._by = options.by
        self._memo: dict[int, int] = {}
        names = sorted(options.regions)
        self._table = {suffix: names.index(name) for name in names for suffix in options.regions[name]}
        groups = len(names) + 1
        self._shares = [(shards * group // groups, shards * (group + 1) // groups) for group in range(groups)]

    @property
    def splits_domains(self) -> bool:
        """Whether the hosts of one domain may have different owners."""
        return self._by == "host" or (self._by == "region" and any("." in suffix for suffix in self._table))

    def shard_of(self, host: str) -> int:
        """The shard that owns a host."""
        if self.shards == 1:
            return 0
        if self._by == "host":
            return int(xxhash.xxh64_intdigest(host.encode()) % self.shards)
        digest = int(xxhash.xxh64_intdigest(self.domains.domain(host).encode()))
        if self._by == "domain":
            return digest % self.shards
        first, end = self._shares[self._region(host)]
        return first + digest % (end - first)

    def _region(self, host: str) -> int:
        """The region of the longest suffix of a host that is in the table; else the rest of the web."""
        suffix = host
        while suffix:
            found = self._table.get(suffix)
            if found is not None:
                return found
            suffix = suffix.partition(".")[2]
        return len(self._shares) - 1

    def shard_of_url(self, host_hash: int, url: str) -> int:
        """The shard that owns a URL, remembered by the hash of its host."""
        found = self._memo.get(host_hash)
        if found is None:
            if len(self._memo) >= _MEMO:
                self._memo.clear()
            found = self._memo[host_hash] = self.shard_of(host_of(url))
        return found
