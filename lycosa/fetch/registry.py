"""Fetchers by scheme: the built-in ones, and those of other packages.

A package adds a scheme by an entry point of the group `lycosa.fetchers`, whose name is the scheme and whose
value is a factory:

    [project.entry-points."lycosa.fetchers"]
    gemini = "my_package:GeminiFetcher"

    def GeminiFetcher(context: FetchContext) -> Fetcher: ...

An entry point may replace a built-in scheme. Factories run, and their modules are imported, only at the first URL
of the scheme; one that cannot be loaded is reported to the operator by name. Schemes that share a factory share
the fetcher it made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from lycosa.clock import Clock
from lycosa.errors import ConfigError
from lycosa.fetch.dns import AresResolver, DnsOptions, OverridingResolver, Resolver
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.protocol import Fetcher, FetchOptions
from lycosa.meters import Meters
from lycosa.plugins import entry_points

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "lycosa.fetchers"


class FetchContext(NamedTuple):
    """What a factory is given to make a fetcher."""

    options: FetchOptions
    clock: Clock
    meters: Meters
    guard: AddressGuard


Factory = Callable[[FetchContext], Fetcher]


def _http(context: FetchContext) -> Fetcher:
    from lycosa.fetch.http import HttpFetcher

    return HttpFetcher(context.options, context.clock, context.meters, context.guard)


def _file(context: FetchContext) -> Fetcher:
    from lycosa.fetch.file import FileFetcher

    return FileFetcher(context.options, context.clock, context.meters)


BUILT_IN: dict[str, Factory] = {"http": _http, "https": _http, "file": _file}


def known_schemes() -> frozenset[str]:
    """Every scheme that has a fetcher on this machine, built in or from another package."""
    return frozenset(BUILT_IN) | {plugin.name.lower() for plugin in entry_points(group=GROUP)}


def make_resolver(options: DnsOptions, guard: AddressGuard, clock: Clock, meters: Meters) -> Resolver:
    """A resolver that uses the operator's table, then DNS.

    A crawl confined to this machine asks only name servers that the operator names: the system's would pass the
    names on.
    """
    silent = guard.stays_here and not options.nameservers
    return OverridingResolver(AresResolver(options, clock, meters, silent=silent), options.resolve)


class Fetchers:
    """The fetchers of one agent."""

    def __init__(self, context: FetchContext, plugins: Iterable[EntryPoint] | None = None) -> None:
        self._context = context
        self._factories = dict(BUILT_IN)
        found = entry_points(group=GROUP) if plugins is None else plugins
        self._plugins = {plugin.name.lower(): plugin for plugin in found}
        self._by_scheme: dict[str, Fetcher] = {}
        self._by_factory: dict[Factory, Fetcher] = {}

    @property
    def schemes(self) -> list[str]:
        """Every scheme that has a fetcher."""
        return sorted({*self._factories, *self._plugins})

    def register(self, scheme: str, factory: Factory) -> None:
        """Add or replace a scheme from Python; before its first URL."""
        self._plugins.pop(scheme.lower(), None)
        self._factories[scheme.lower()] = factory

    def of(self, url: str) -> Fetcher | None:
        """The fetcher for a URL; None if its scheme has none."""
        return self.for_scheme(url.partition(":")[0])

    def for_scheme(self, scheme: str) -> Fetcher | None:
        """The fetcher for a scheme, made at its first mention."""
        fetcher = self._by_scheme.get(scheme)
        if fetcher is None:
            factory = self._factory(scheme)
            if factory is None:
                return None
            fetcher = self._by_factory.get(factory)
            if fetcher is None:
                fetcher = self._by_factory[factory] = factory(self._context)
            self._by_scheme[scheme] = fetcher
        return fetcher

    def _factory(self, scheme: str) -> Factory | None:
        plugin = self._plugins.get(scheme)
        if plugin is None:
            return self._factories.get(scheme)
        try:
            factory: Factory = plugin.load()
        except Exception as error:  # a stranger's module may raise anything when imported
            raise ConfigError(
                f"the fetcher for {scheme!r} ({plugin.value}) cannot be loaded: {error}; "
                "repair or uninstall the package that brings it"
            ) from error
        if not callable(factory):
            raise ConfigError(f"the fetcher for {scheme!r} ({plugin.value}) is not a factory")
        return factory

    async def close(self) -> None:
        """Close every fetcher that was made."""
        for fetcher in self._by_factory.values():
            await fetcher.close()
        self._by_factory.clear()
        self._by_scheme.clear()
