"""The site table: what a shard knows of each site and host it has asked.

A fold over `Robots`, `Fetched` and `Deferred`: where in the log a site's robots file lies and until when it
holds, how often it could not be had, what Crawl-delay it names, how many pages the site has given, how long
its last answer took. Robots files themselves stay in the log; parsed rules are in a bounded cache of the agent.

    snapshot = [[name, Site fields ...]*]       pieces of 5,000 sites
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

_SLICE = 5_000


class Site(msgspec.Struct, array_like=True):
    """What is known of one site (and, under its host's name, of a host)."""

    robots_position: int = -1  # of the Robots record in this shard's log; -1: never asked
    robots_status: int = 0
    robots_expires: int = 0  # milliseconds since the epoch
    robots_failures: int = 0  # in a row
    robots_retry: int = 0  # while failing: do not ask before
    crawl_delay: float = 0.0
    pages: int = 0
    last_ms: int = 0  # how long the last fetch took
    dns_failures: int = 0  # in a row (hosts only)
    asked: bool = False


class SiteTable:
    """Sites by name ("scheme://host:port") and hosts by name, in one table."""

    def __init__(self) -> None:
        self._sites: dict[str, Site] = {}

    def __len__(self) -> int:
        return len(self._sites)

    def get(self, name: str) -> Site:
        """The entry of a site or host, made at its first mention."""
        found = self._sites.get(name)
        if found is None:
            found = self._sites[name] = Site()
        return found

    def peek(self, name: str) -> Site | None:
        return self._sites.get(name)

    def asked(self) -> Iterator[tuple[str, Site]]:
        """Sites that were ever asked."""
        return ((name, site) for name, site in self._sites.items() if site.asked)

    def items(self) -> Iterable[tuple[str, Site]]:
        return self._sites.items()

    # -- Durable

    def freeze(self) -> Iterator[bytes]:
        # Encoding 5,000 sites takes some 3 ms; all of them at once is what makes the cut consistent.
        rows = list(self._sites.items())
        pieces = [msgspec.msgpack.encode(rows[at : at + _SLICE]) for at in range(0, len(rows), _SLICE)]
        return iter(pieces)

    def files(self) -> list[str]:
        return []

    def settle(self) -> None:
        """Nothing of it lies in files of its own."""

    def thaw(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self._sites.update(msgspec.msgpack.decode(piece, type=list[tuple[str, Site]]))
