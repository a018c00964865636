"""Fetchers by scheme: http and https, file, and whatever entry points of `lycosa.fetchers` bring."""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.clock import Clock
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.http import HttpFetcher
from lycosa.fetch.protocol import Fetcher, FetchOptions
from lycosa.meters import Meters


class Fetchers:
    """Fetchers by scheme; used by the crawl as `get(scheme)` and `close()`."""

    def __init__(self, by_scheme: Mapping[str, Fetcher]) -> None:
        self._by_scheme = dict(by_scheme)

    def get(self, scheme: str) -> Fetcher | None:
        return self._by_scheme.get(scheme)

    async def close(self) -> None:
        for fetcher in {id(f): f for f in self._by_scheme.values()}.values():
            await fetcher.close()


def make_fetchers(options: FetchOptions, guard: AddressGuard, clock: Clock, meters: Meters) -> Fetchers:
    """The fetchers of a crawl."""
    http = HttpFetcher(options, clock, meters, guard)
    return Fetchers({"http": http, "https": http})
