"""Names to addresses: asynchronous, cached both ways, patient.

`AresResolver` asks through c-ares. An answer is kept for its TTL, held between a floor and a ceiling; a name
that does not exist, or could not be asked for, is kept for a fixed time too, so that a page full of links
to a dead host costs one lookup. Lookups of one name that is already on its way join it; lookups of different
names all run at once.

Timeouts follow Mercator (Manning, Raghavan and Schütze, §20.2.2): five attempts, the first of one second, the
last of ninety, each longer than the one before by the same factor. After an error answer (SERVFAIL, REFUSED) the
next attempt begins only when the time of this one has passed; an answer to an earlier attempt that arrives during
a later one counts. An answer that a name does not exist is final at once. Within an attempt c-ares resends by
its own measure of the server's speed (from 0.25 s on, doubling); it has TCP fallback, random ports and the
system's list of servers.

Names are absolute: no search domains, no hosts file (`OverridingResolver` is for private webs). An IP address
resolves to itself. `localhost` and names below it are loopback (RFC 6761 §6.3); `invalid` and `onion`
are never looked up (RFC 6761 §6.4, RFC 7686).

Whether an address may be contacted is decided by the guard on every use, cached or not, and not here.

If the machine has no descriptor left for a query, nothing was learnt about the name: the failure (`DnsKind.LOCAL`)
is returned at once and never cached. c-ares does not report this (it gives up, or times out), so the module checks
for free descriptors before each query and after one that failed.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import msgspec

from lycosa.clock import Clock
from lycosa.errors import ConfigError, LocalError
from lycosa.fetch.shortage import descriptors_left
from lycosa.meters import Meters

if TYPE_CHECKING:
    import aiodns

Family = Literal["prefer-v4", "prefer-v6", "v4", "v6", "both"]


class Resolution(NamedTuple):
    """A host's addresses, best first, good until `expires` of the monotonic clock."""

    addresses: tuple[str, ...]
    expires: float


class DnsKind(StrEnum):
    """Why a host has no address."""

    NXDOMAIN = "nxdomain"  # there is no such name
    NODATA = "nodata"  # the name has no address of the kinds asked for
    SERVFAIL = "servfail"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    LOCAL = "local"  # this machine is short of something: the name was not asked for


class DnsFailure(NamedTuple):
    """No address. `final`: asking again soon would be pointless."""

    kind: DnsKind
    detail: str
    final: bool
    expires: float = 0.0


class Resolver(Protocol):
    """Turns hosts into addresses. Nothing remote raises."""

    async def resolve(self, host: str) -> Resolution | DnsFailure:
        """The addresses of a host (a name, an address, or an address in brackets)."""
        ...

    async def close(self) -> None: ...


class DnsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to look names up. Times in seconds."""

    nameservers: tuple[str, ...] = ()  # "address" or "address:port"; none: the system's
    family: Family = "prefer-v4"
    attempts: int = 5
    first_wait: float = 1.0
    last_wait: float = 90.0
    ttl_floor: float = 60.0
    ttl_ceiling: float = 86_400.0
    negative_ttl: float = 300.0
    cache: int = 200_000  # hosts
    resolve: tuple[str, ...] = ()  # overrides: "host:address", "*.domain:address"


_FINAL = {DnsKind.NXDOMAIN, DnsKind.NODATA}
_RECORD = {"A": 1, "AAAA": 28}
_QUESTION, _CHANNEL = 2, 12
"""Descriptors needed for a query, and for a channel with its thread."""
_SHORTEST = 0.25  # the shortest time that c-ares gives a server, by its own measure


@cache
def _kinds() -> dict[int, DnsKind]:
    """The kinds of c-ares' codes; every other code is a server failure."""
    from aiodns import error

    return {
        error.ARES_ENODATA: DnsKind.NODATA,
        error.ARES_ENOTFOUND: DnsKind.NXDOMAIN,
        error.ARES_EBADNAME: DnsKind.NXDOMAIN,
        error.ARES_ETIMEOUT: DnsKind.TIMEOUT,
        error.ARES_EREFUSED: DnsKind.REFUSED,
        error.ARES_ECONNREFUSED: DnsKind.REFUSED,
    }


def waits(attempts: int, first: float, last: float) -> list[float]:
    """The time limit of each attempt: from `first` to `last`, in geometric progression."""
    if attempts <= 1:
        return [first]
    factor = (last / first) ** (1 / (attempts - 1))
    return [first * factor**number for number in range(attempts)]


def literal(host: str) -> str | None:
    """The host as an address, if it is one."""
    text = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not text or (text[-1].isalpha() and ":" not in text):
        return None
    try:
        return str(ip_address(text))
    except ValueError:
        return None


def _is_server(text: str) -> bool:
    """Whether c-ares takes the text for a server: an address, IPv6 in brackets if a port follows."""
    if literal(text):
        return True
    address, colon, port = text.rpartition(":")
    return bool(colon and port.isascii() and port.isdigit() and 0 < int(port) < 65_536 and literal(address))


class AresResolver:
    """A `Resolver` on c-ares; see the module's docstring."""

    def __init__(
        self,
        options: DnsOptions,
        clock: Clock,
        meters: Meters,
        left: Callable[[int], bool] = descriptors_left,
        silent: bool = False,
    ) -> None:
        """`left`: whether that many descriptors are free. `silent`: no name server is asked."""
        if options.attempts < 1 or not 0 < options.first_wait <= options.last_wait:
            raise ConfigError("dns: attempts must be at least 1 and 0 < first_wait <= last_wait")
        for server in options.nameservers:
            if not _is_server(server):
                raise ConfigError(
                    f"dns: {server!r} is not a name server: write 192.0.2.1, 192.0.2.1:53 or [2001:db8::1]:53"
                )
        self._options = options
        self._clock = clock
        self._left = left
        self._silent = silent
        self._waits = waits(options.attempts, options.first_wait, options.last_wait)
        self._channels: list[aiodns.DNSResolver] = []
        if not silent:
            _kinds()  # loads c-ares now: not in the middle of a crawl, and not when only the options are imported
        self._cache: dict[str, Resolution | DnsFailure] = {}
        self._lookups: dict[str, asyncio.Task[Resolution | DnsFailure]] = {}
        self._closed = False
        self._queries = meters.counter("dns.queries")
        self._hits = meters.counter("dns.hits")
        self._failures = meters.counter("dns.failures")
        meters.gauge("dns.in_flight", lambda: len(self._lookups))
        meters.gauge("dns.cached", lambda: len(self._cache))

    async def resolve(self, host: str) -> Resolution | DnsFailure:
        known = self._cache.get(host)
        if known is not None and known.expires > self._clock.monotonic():
            self._hits.add()
            return known
        at_once = self._without_asking(host)
        if at_once is not None:
            return at_once
        if self._closed:
            raise LocalError("the resolver is closed")
        lookup = self._lookups.get(host)
        if lookup is None:
            lookup = asyncio.ensure_future(self._look_up(host))
            self._lookups[host] = lookup
        # Others may wait for the same lookup: a cancelled caller leaves it running.
        return await asyncio.shield(lookup)

    async def close(self) -> None:
        self._closed = True
        lookups = list(self._lookups.values())
        for lookup in lookups:
            lookup.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)
        for channel in self._channels:
            await channel.close()
        self._channels.clear()

    def _without_asking(self, host: str) -> Resolution | DnsFailure | None:
        address = literal(host)
        if address is not None:
            return Resolution((address,), math.inf)
        name = host.lower().rstrip(".")
        last = name.rpartition(".")[2]
        if last == "localhost":
            both = {"v4": ("127.0.0.1",), "v6": ("::1",), "prefer-v6": ("::1", "127.0.0.1")}
            return Resolution(both.get(self._options.family, ("127.0.0.1", "::1")), math.inf)
        if last in ("invalid", "onion", ""):
            return DnsFailure(
                DnsKind.NXDOMAIN, f"{last or 'an empty name'} is never looked up", True, math.inf
            )
        if self._silent:
            detail = "not looked up: --only-network keeps the crawl on this machine (see --resolve)"
            return DnsFailure(DnsKind.REFUSED, detail, True, math.inf)
        return None

    async def _look_up(self, host: str) -> Resolution | DnsFailure:
        try:
            result = await self._ask_patiently(host.rstrip("."))
            if isinstance(result, DnsFailure):
                if result.kind is DnsKind.LOCAL:
                    return result
                self._failures.add()
            self._cache.pop(host, None)
            while len(self._cache) >= self._options.cache:
                del self._cache[next(iter(self._cache))]  # the oldest
            self._cache[host] = result
            return result
        finally:
            self._lookups.pop(host, None)

    async def _ask_patiently(self, name: str) -> Resolution | DnsFailure:
        failure = DnsFailure(DnsKind.TIMEOUT, "no answer", False)
        pending: set[asyncio.Task[Resolution | DnsFailure]] = set()
        sleeping: asyncio.Task[None] | None = None
        try:
            for number, wait in enumerate(self._waits):
                pending.add(asyncio.ensure_future(self._ask(name, number)))
                sleeping = asyncio.ensure_future(self._clock.sleep(wait))
                while pending and not sleeping.done():
                    done, _ = await asyncio.wait({*pending, sleeping}, return_when="FIRST_COMPLETED")
                    for task in [task for task in pending if task in done]:
                        pending.discard(task)
                        result = task.result()
                        if isinstance(result, Resolution) or result.final or result.kind is DnsKind.LOCAL:
                            return result
                        failure = result
                if number < len(self._waits) - 1:
                    await sleeping
                sleeping.cancel()
            expires = self._clock.monotonic() + self._options.negative_ttl
            return failure._replace(expires=expires)
        finally:
            for each in (*pending, sleeping):
                if each is not None:
                    each.cancel()

    async def _ask(self, name: str, attempt: int) -> Resolution | DnsFailure:
        """One attempt: the record types of the family, one after the other or together."""
        family = self._options.family
        if family == "v4":
            return await self._query(name, "A", attempt)
        if family == "v6":
            return await self._query(name, "AAAA", attempt)
        first, second = ("A", "AAAA") if family != "prefer-v6" else ("AAAA", "A")
        if family == "both":
            one, two = await asyncio.gather(
                self._query(name, first, attempt), self._query(name, second, attempt)
            )
            if isinstance(one, Resolution) and isinstance(two, Resolution):
                return Resolution(one.addresses + two.addresses, min(one.expires, two.expires))
            if isinstance(one, Resolution):
                return one
            return two if isinstance(two, Resolution) or one.final else one
        one = await self._query(name, first, attempt)
        if isinstance(one, DnsFailure) and one.kind is DnsKind.NODATA:
            return await self._query(name, second, attempt)
        return one

    async def _query(self, name: str, kind: str, attempt: int) -> Resolution | DnsFailure:
        from aiodns import error as ares

        made = attempt < len(self._channels)
        if not self._left(_QUESTION if made else _CHANNEL):
            return DnsFailure(DnsKind.LOCAL, os.strerror(errno.EMFILE), False)
        self._queries.add()
        now = self._clock.monotonic()
        try:
            result = await self._channel(attempt).query_dns(name, kind)
        except ares.DNSError as error:
            code, text = (*error.args, "")[:2]
            why = _kinds().get(code, DnsKind.SERVFAIL)
            if code == ares.ARES_ENOMEM or (why not in _FINAL and not self._left(_QUESTION)):
                return DnsFailure(DnsKind.LOCAL, str(text), False)
            until = self._clock.monotonic() + self._options.negative_ttl
            return DnsFailure(why, str(text) or why.value, why in _FINAL, until)
        except (UnicodeError, ValueError) as error:
            until = now + self._options.negative_ttl
            return DnsFailure(DnsKind.NXDOMAIN, f"not a name: {error}", True, until)
        return self._resolution(result.answer, kind)

    def _resolution(self, records: Iterable[Any], kind: str) -> Resolution | DnsFailure:
        wanted = _RECORD[kind]
        addresses: list[str] = []
        ttl = self._options.ttl_ceiling
        for record in records:
            ttl = min(ttl, record.ttl)  # aliases on the way expire too
            if record.type == wanted:
                addresses.append(str(record.data.addr))
        now = self._clock.monotonic()
        if not addresses:
            return DnsFailure(
                DnsKind.NODATA, "an answer without an address", True, now + self._options.negative_ttl
            )
        return Resolution(tuple(dict.fromkeys(addresses)), now + max(ttl, self._options.ttl_floor))

    def _channel(self, attempt: int) -> aiodns.DNSResolver:
        """The c-ares channel for an attempt, with enough resends to fill the attempt's time.

        One channel per attempt, made when first needed: most crawls never need the later ones.
        """
        import aiodns

        while len(self._channels) <= attempt:
            wait = self._waits[len(self._channels)]
            servers = list(self._options.nameservers) or None
            channel = aiodns.DNSResolver(
                nameservers=servers,
                timeout=min(wait, 5.0),
                tries=max(1, math.ceil(math.log2(wait / _SHORTEST + 1))),
            )
            self._channels.append(channel)
        return self._channels[attempt]


class OverridingResolver:
    """Answers for some hosts itself, like curl's `--resolve`; asks `inner` for the others."""

    def __init__(self, inner: Resolver, overrides: Sequence[str]) -> None:
        self._inner = inner
        self._exact: dict[str, Resolution] = {}
        self._below: dict[str, Resolution] = {}
        for text in overrides:
            host, addresses = parse_override(text)
            answer = Resolution(addresses, math.inf)
            if host == "*":
                self._below[""] = answer
            elif host.startswith("*."):
                self._below[host[2:]] = answer
            else:
                self._exact[host] = answer

    async def resolve(self, host: str) -> Resolution | DnsFailure:
        name = host.lower().rstrip(".")
        found = self._exact.get(name)
        if found is None and self._below and literal(host) is None:
            while found is None and name:
                name = name.partition(".")[2]
                found = self._below.get(name)
        return found if found is not None else await self._inner.resolve(host)

    async def close(self) -> None:
        await self._inner.close()


def parse_override(text: str) -> tuple[str, tuple[str, ...]]:
    """`host:address[,address]`, where the host may be `*.domain` or `*`; curl's `host:port:address` too."""
    host, _, rest = text.strip().partition(":")
    host = host.lower().rstrip(".")
    for given in (rest, rest.partition(":")[2]):
        addresses = [literal(each.strip()) for each in given.split(",")]
        if host and given and all(addresses) and "*" not in host.removeprefix("*"):
            return host, tuple(each for each in addresses if each)
    raise ConfigError(f"{text!r} is not an override: write it as host:address or *.domain:address")
