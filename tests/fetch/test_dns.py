"""The resolver against a real name server on loopback, on a clock that runs a hundred times as fast."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from lycosa.clock import SystemClock
from lycosa.errors import ConfigError, LocalError
from lycosa.fetch.dns import (
    AresResolver,
    DnsFailure,
    DnsKind,
    DnsOptions,
    OverridingResolver,
    Resolution,
    literal,
    parse_override,
    waits,
)
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.http import HttpFetcher
from lycosa.fetch.protocol import FailureKind, FetchOptions, Request, Response
from lycosa.meters import Meters

from .servers import (
    AAAA,
    NXDOMAIN,
    REFUSED,
    SERVFAIL,
    A,
    Answer,
    NameServer,
    answering,
    name_server,
    serving,
    until,
)

SPEED = 100


class FastClock:
    """The system's clock, `SPEED` times as fast."""

    def __init__(self, speed: float = SPEED) -> None:
        self._speed = speed

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)


class StillClock:
    """Time passes only when a test says so: nothing expires, and no attempt runs out."""

    def __init__(self) -> None:
        self.now = 1000.0

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def resolving(
    clock: Any = None, meters: Meters | None = None, **options: Any
) -> AsyncIterator[tuple[NameServer, AresResolver]]:
    async with name_server() as server:
        resolver = AresResolver(
            DnsOptions(nameservers=(f"127.0.0.1:{server.port}",), **options),
            clock or StillClock(),
            meters or Meters(),
        )
        try:
            yield server, resolver
        finally:
            await resolver.close()


async def addresses(resolver: AresResolver, host: str) -> tuple[str, ...]:
    found = await resolver.resolve(host)
    assert isinstance(found, Resolution), found
    return found.addresses


async def failure(resolver: AresResolver, host: str) -> DnsFailure:
    found = await resolver.resolve(host)
    assert isinstance(found, DnsFailure), found
    return found


async def test_addresses_are_found_and_cached_for_their_ttl() -> None:
    clock = StillClock()
    async with resolving(clock, ttl_floor=0) as (server, resolver):
        server.names["a.test"] = [Answer(("192.0.2.1", "192.0.2.2"), ttl=100)]
        found = await resolver.resolve("a.test")
        assert isinstance(found, Resolution)
        assert found.addresses == ("192.0.2.1", "192.0.2.2")
        assert found.expires == clock.now + 100
        asked = list(server.asked)
        assert set(asked) == {("a.test", A)}
        clock.now += 99
        assert await resolver.resolve("a.test") is found
        assert server.asked == asked
        clock.now += 1
        assert await resolver.resolve("a.test") is not found


async def test_an_answer_that_has_expired_is_asked_for_again() -> None:
    async with resolving(ttl_floor=0) as (server, resolver):
        server.names["a.test"] = [Answer(("192.0.2.1",), ttl=0), Answer(("192.0.2.2",), ttl=0)]
        assert await addresses(resolver, "a.test") == ("192.0.2.1",)
        assert await addresses(resolver, "a.test") == ("192.0.2.2",)


@pytest.mark.parametrize(("ttl", "kept"), [(0, 60), (10**6, 500), (200, 200)])
async def test_the_ttl_has_a_floor_and_a_ceiling(ttl: int, kept: int) -> None:
    clock = StillClock()
    async with resolving(clock, ttl_floor=60, ttl_ceiling=500) as (server, resolver):
        server.names["a.test"] = [Answer(("192.0.2.1",), ttl=ttl)]
        found = await resolver.resolve("a.test")
        assert found.expires == clock.now + kept


async def test_an_alias_is_followed_and_its_ttl_counts() -> None:
    async with resolving() as (server, resolver):
        server.names["www.a.test"] = [Answer(("192.0.2.1",), cname="real.a.test")]
        assert await addresses(resolver, "www.a.test") == ("192.0.2.1",)


async def test_nxdomain_is_final_and_cached() -> None:
    async with resolving(StillClock()) as (server, resolver):
        found = await failure(resolver, "no.test")
        assert (found.kind, found.final) == (DnsKind.NXDOMAIN, True)
        asked = len(server.asked)
        assert await resolver.resolve("no.test") is found
        assert len(server.asked) == asked


async def test_a_negative_answer_expires() -> None:
    clock = StillClock()
    async with resolving(clock, negative_ttl=5) as (server, resolver):
        server.names["a.test"] = [Answer(code=NXDOMAIN), Answer(("192.0.2.1",))]
        await failure(resolver, "a.test")
        clock.now += 6
        assert await addresses(resolver, "a.test") == ("192.0.2.1",)


async def test_nodata_of_both_families() -> None:
    async with resolving() as (server, resolver):
        server.names["a.test"] = [Answer()]
        found = await failure(resolver, "a.test")
        assert (found.kind, found.final) == (DnsKind.NODATA, True)
        assert list(dict.fromkeys(server.asked)) == [("a.test", A), ("a.test", AAAA)]


@pytest.mark.parametrize(
    ("family", "expected", "asked"),
    [
        ("prefer-v4", ("192.0.2.1",), [A]),
        ("prefer-v6", ("2001:db8::1",), [AAAA]),
        ("v4", ("192.0.2.1",), [A]),
        ("v6", ("2001:db8::1",), [AAAA]),
        ("both", ("192.0.2.1", "2001:db8::1"), [A, AAAA]),
    ],
)
async def test_families(family: str, expected: tuple[str, ...], asked: list[int]) -> None:
    async with resolving(family=family) as (server, resolver):
        server.names["a.test"] = [Answer(("192.0.2.1", "2001:db8::1"))]
        server.names["six.test"] = [Answer(("2001:db8::6",))]
        assert await addresses(resolver, "a.test") == expected
        assert {kind for _, kind in server.asked} == set(asked)
        six = await resolver.resolve("six.test")
        if family == "v4":
            assert isinstance(six, DnsFailure) and six.kind is DnsKind.NODATA
        else:
            assert isinstance(six, Resolution) and six.addresses == ("2001:db8::6",)


def test_waits_grow_from_one_second_to_ninety() -> None:
    grown = waits(5, 1, 90)
    assert len(grown) == 5
    assert grown[0] == 1 and round(grown[-1], 6) == 90
    ratios = [b / a for a, b in pairwise(grown)]
    assert max(ratios) - min(ratios) < 1e-9
    assert waits(1, 1, 90) == [1]


@pytest.mark.parametrize(("code", "kind"), [(SERVFAIL, DnsKind.SERVFAIL), (REFUSED, DnsKind.REFUSED)])
async def test_five_attempts_with_growing_waits_then_a_failure_that_is_not_final(
    code: int, kind: DnsKind
) -> None:
    stamps: list[float] = []

    passed: list[float] = []

    class Stamped(StillClock):
        async def sleep(self, seconds: float) -> None:
            stamps.append(seconds)
            if len(stamps) == 5:
                await super().sleep(seconds)  # the last answer is not followed by a wait
            await asyncio.sleep(seconds / SPEED)
            passed.append(seconds)

    async with resolving(Stamped()) as (server, resolver):
        server.names["a.test"] = [Answer(code=code)]
        found = await failure(resolver, "a.test")
        assert (found.kind, found.final) == (kind, False)
        assert [round(wait) for wait in stamps] == [1, 3, 9, 29, 90]
        assert passed == stamps[:4]
        assert await resolver.resolve("a.test") is found


async def test_a_server_that_recovers_is_believed() -> None:
    async with resolving(FastClock(20)) as (server, resolver):
        # c-ares itself repeats a failing query within an attempt, so several failures are one attempt.
        server.names["a.test"] = [Answer(code=SERVFAIL)] * 6 + [Answer(("192.0.2.1",))]
        assert await addresses(resolver, "a.test") == ("192.0.2.1",)


async def test_a_server_that_drops_everything_times_out() -> None:
    async with resolving(FastClock(), attempts=2, first_wait=10, last_wait=20) as (server, resolver):
        server.names["a.test"] = [Answer(drop=True)]
        found = await failure(resolver, "a.test")
        assert (found.kind, found.final) == (DnsKind.TIMEOUT, False)


async def test_a_late_answer_to_an_earlier_attempt_counts() -> None:
    async with resolving(FastClock(), attempts=2, first_wait=5, last_wait=10_000) as (server, resolver):
        server.names["a.test"] = [Answer(("192.0.2.1",), delay=0.15), Answer(drop=True)]
        assert await addresses(resolver, "a.test") == ("192.0.2.1",)


async def test_lookups_of_one_name_are_joined() -> None:
    meters = Meters()
    async with resolving(SystemClock(), meters) as (server, resolver):
        server.names["a.test"] = [Answer(("192.0.2.1",), delay=0.02)]
        found = await asyncio.gather(*(resolver.resolve("a.test") for _ in range(50)))
        assert len(set(found)) == 1
        assert set(server.asked) == {("a.test", A)}
        assert meters.read()["dns.queries"] == 1
        assert meters.read()["dns.in_flight"] == 0


async def test_cancelling_one_waiter_leaves_the_others() -> None:
    async with resolving() as (server, resolver):
        server.names["a.test"] = [Answer(("192.0.2.1",), delay=0.05)]
        one, two = (asyncio.ensure_future(resolver.resolve("a.test")) for _ in range(2))
        await until(lambda: server.asked)
        one.cancel()
        found = await two
        assert isinstance(found, Resolution)
        assert one.cancelled()


async def test_many_names_are_looked_up_at_once() -> None:
    async with resolving(SystemClock()) as (server, resolver):
        for number in range(200):
            server.names[f"h{number}.test"] = [Answer((f"10.0.{number // 250}.{number % 250}",))]
        server.hold = 200  # no answer before all have been asked for
        found = await asyncio.gather(*(resolver.resolve(f"h{number}.test") for number in range(200)))
        for number, each in enumerate(found):
            assert isinstance(each, Resolution)
            assert each.addresses == (f"10.0.{number // 250}.{number % 250}",)


async def test_the_cache_is_bounded() -> None:
    meters = Meters()
    async with resolving(StillClock(), meters, cache=10) as (server, resolver):
        for number in range(30):
            server.names[f"h{number}.test"] = [Answer(("192.0.2.1",))]
            await resolver.resolve(f"h{number}.test")
        assert meters.read()["dns.cached"] == 10
        asked = len(server.asked)
        await resolver.resolve("h29.test")
        assert len(server.asked) == asked


async def test_what_is_never_asked() -> None:
    async with resolving() as (server, resolver):
        assert await addresses(resolver, "192.0.2.7") == ("192.0.2.7",)
        assert await addresses(resolver, "[2001:db8::7]") == ("2001:db8::7",)
        assert await addresses(resolver, "localhost") == ("127.0.0.1", "::1")
        assert await addresses(resolver, "x.LOCALHOST.") == ("127.0.0.1", "::1")
        for host in ("x.invalid", "abc.onion", "", "."):
            assert (await failure(resolver, host)).final
        assert server.asked == []


@pytest.mark.parametrize("host", ["bad..name", "a" * 300, "x" * 70 + ".test", "\udcff.test", "a\x00b.test"])
async def test_names_that_are_none(host: str) -> None:
    async with resolving(attempts=1) as (_, resolver):
        found = await failure(resolver, host)
        assert found.kind in (DnsKind.NXDOMAIN, DnsKind.SERVFAIL)


async def test_no_server_at_all() -> None:
    async with name_server() as server:
        port = server.port
    resolver = AresResolver(
        DnsOptions(nameservers=(f"127.0.0.1:{port}",), attempts=2, first_wait=1, last_wait=2),
        FastClock(),
        Meters(),
    )
    found = await resolver.resolve("a.test")
    assert isinstance(found, DnsFailure) and not found.final
    await resolver.close()
    with pytest.raises(LocalError):
        await resolver.resolve("b.test")


async def test_closing_ends_lookups() -> None:
    async with resolving() as (server, resolver):
        server.names["a.test"] = [Answer(drop=True)]
        lookup = asyncio.ensure_future(resolver.resolve("a.test"))
        await until(lambda: server.asked)
        await resolver.close()
        with pytest.raises(asyncio.CancelledError):
            await lookup


def test_bad_options_are_the_operators() -> None:
    for options in ({"attempts": 0}, {"first_wait": 0.0}, {"first_wait": 9.0, "last_wait": 1.0}):
        with pytest.raises(ConfigError):
            AresResolver(DnsOptions(**options), FastClock(), Meters())
    for server in ("oops", "1.2.3.4:", "1.2.3.4:99999", "::1:x", "", "name.test:53"):
        with pytest.raises(ConfigError):
            AresResolver(DnsOptions(nameservers=(server,)), FastClock(), Meters())
    AresResolver(DnsOptions(nameservers=("1.2.3.4", "[::1]:53", "::1", "1.2.3.4:53")), FastClock(), Meters())


# Overrides -------------------------------------------------------------------------------------------------


async def test_overrides_answer_first() -> None:
    async with resolving() as (server, inner):
        server.names["real.test"] = [Answer(("192.0.2.1",))]
        resolver = OverridingResolver(
            inner,
            [
                "One.test:127.0.0.1",
                "*.demo.test:127.0.0.5",
                "*.a.demo.test:127.0.0.6",
                "six.test:[::1],127.0.0.9",
            ],
        )

        async def ask(host: str) -> tuple[str, ...] | str:
            found = await resolver.resolve(host)
            return found.addresses if isinstance(found, Resolution) else found.kind.value

        assert await ask("one.TEST.") == ("127.0.0.1",)
        assert await ask("x.demo.test") == ("127.0.0.5",)
        assert await ask("x.y.demo.test") == ("127.0.0.5",)
        assert await ask("x.a.demo.test") == ("127.0.0.6",)
        assert await ask("demo.test") == "nxdomain"
        assert await ask("six.test") == ("::1", "127.0.0.9")
        assert await ask("real.test") == ("192.0.2.1",)
        assert await ask("192.0.2.3") == ("192.0.2.3",)
        everything = OverridingResolver(inner, ["*:127.0.0.1"])
        assert (await everything.resolve("any.thing")).addresses == ("127.0.0.1",)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.test:1.2.3.4", ("a.test", ("1.2.3.4",))),
        ("a.test:443:1.2.3.4", ("a.test", ("1.2.3.4",))),
        ("a.test:2001:db8::1", ("a.test", ("2001:db8::1",))),
        ("a.test:443:[2001:db8::1]", ("a.test", ("2001:db8::1",))),
        ("*:::1", ("*", ("::1",))),
    ],
)
def test_override_forms(text: str, expected: tuple[str, tuple[str, ...]]) -> None:
    assert parse_override(text) == expected


@pytest.mark.parametrize(
    "text", ["", "a.test", "a.test:", ":1.2.3.4", "a.test:name", "a*.test:1.2.3.4", "a:1.2"]
)
def test_bad_overrides(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_override(text)


def test_literals() -> None:
    assert literal("[::FFFF:1.2.3.4]") in ("::ffff:1.2.3.4", "::ffff:102:304")
    assert literal("1.2.3.4") == "1.2.3.4"
    for host in ("1.2.3", "a.test", "", "[]", "1.2.3.4.", "0x7f.1", "fe80::zz", "beef"):
        assert literal(host) is None


# Rebinding -------------------------------------------------------------------------------------------------


async def test_a_name_that_changes_its_answer_reaches_only_what_was_checked() -> None:
    """Public first, loopback later: the fetch goes to the first address, and the second is refused."""
    guard = AddressGuard(["127.0.0.2/32"])  # stands for a public address: tests may not leave loopback
    async with resolving(ttl_floor=0) as (server, resolver):
        server.names["evil.test"] = [Answer(("127.0.0.2",), ttl=0), Answer(("127.0.0.1",), ttl=0)]
        async with serving(answering(body=b"secret")) as inside:
            public = serving(answering(body=b"public"), host="127.0.0.2", port=inside.port)
            fetcher = HttpFetcher(FetchOptions(), SystemClock(), Meters(), guard)
            async with public:
                first = (await addresses(resolver, "evil.test"))[0]
                assert guard.refuses(first) is None
                # The name has changed by now; the fetch does not ask it again.
                assert await addresses(resolver, "evil.test") == ("127.0.0.1",)
                for _ in range(3):
                    answer = await fetcher.fetch(Request(inside.url(host="evil.test"), first))
                    assert isinstance(answer, Response)
                    assert (answer.body, answer.address) == (b"public", "127.0.0.2")
                second = (await addresses(resolver, "evil.test"))[0]
                assert "loopback" in (guard.refuses(second) or "")
                # Even a caller that forgets to ask the guard does not get there.
                refused = await fetcher.fetch(Request(inside.url(host="evil.test"), second))
                assert not isinstance(refused, Response)
                assert refused.kind is FailureKind.REFUSED_ADDRESS
            await fetcher.close()
            assert inside.connections == 0
