"""The keeper of robots rules: what it keeps, and what it logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from lycosa.clock import SystemClock
from lycosa.crawl import rules as module
from lycosa.crawl.rules import RulesKeeper, Ruling
from lycosa.crawl.shard import Shard
from lycosa.crawl.sites import SiteTable
from lycosa.fetch.protocol import Failure, FailureKind, Response
from lycosa.fetch.robots_policy import RobotsOptions
from lycosa.records import Robots, RobotsState, Timing, decode, encode

Ask = Callable[[str], Awaitable[Response | Failure | None]]


class Log:
    """As much of a shard as the keeper uses."""

    def __init__(self) -> None:
        self.sites = SiteTable()
        self.log = self
        self.records: list[Robots] = []

    def append(self, record: Robots) -> int:
        self.records.append(decode(encode(record)))  # type: ignore[arg-type]
        Shard._learn_robots(cast(Shard, self), record, len(self.records) - 1)
        return len(self.records) - 1

    def holds(self, position: int) -> bool:
        return True

    def read(self, position: int) -> Robots:
        return self.records[position]

    def _remember_end(self, stored: object) -> None:
        """There is no archive."""


def keeper() -> RulesKeeper:
    harvester: Any = SimpleNamespace(store=lambda response, at: None)
    return RulesKeeper(
        agent="us", attempts=3, policy=RobotsOptions(), clock=SystemClock(), harvester=harvester
    )


def saying(body: bytes, status: int = 200) -> Ask:
    async def ask(url: str) -> Response:
        return Response(url, status, "HTTP/1.1", b"", b"\r\n\r\n", body, body, Timing())

    return ask


def rule(rules: RulesKeeper, log: Log, site: str, ask: Ask) -> Ruling:
    return asyncio.run(rules.ruling(cast(Shard, log), site, ask))


async def nobody(url: str) -> None:
    raise AssertionError(f"{url} was asked for")


def test_the_cache_has_a_limit_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 200_000)
    rules, log = keeper(), Log()
    body = b"User-agent: *\n" + b"".join(b"Disallow: /%d\n" % n for n in range(100))
    for n in range(20):
        rule(rules, log, f"http://h{n}.test", saying(body))
        assert 0 < rules.nbytes <= 200_000
    for n in range(20):  # those that were dropped are read from the log
        ruling = rule(rules, log, f"http://h{n}.test", nobody)
        assert ruling.rules is not None and not ruling.rules.judge("us", "/7").allowed
        assert rules.nbytes <= 200_000


def test_rules_of_other_agents_are_not_kept() -> None:
    rules, log = keeper(), Log()
    foreign = b"".join(b"User-agent: a%d\nDisallow: /%d\n" % (n, n) for n in range(10_000))
    ruling = rule(
        rules, log, "http://h.test", saying(foreign + b"User-agent: us\nDisallow: /x\nCrawl-delay: 4\n")
    )
    assert rules.nbytes < 5_000
    assert ruling.rules is not None and not ruling.rules.judge("us", "/x").allowed
    assert log.records[0].delay == 4.0


def test_one_file_that_is_larger_than_the_cache_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be parsed again for each of its site's URLs."""
    monkeypatch.setattr(module, "KEPT", 1_000)
    rules, log = keeper(), Log()
    body = b"User-agent: *\n" + b"Disallow: /x*y*z\n" * 5_000
    first = rule(rules, log, "http://h.test", saying(body))
    assert rule(rules, log, "http://h.test", nobody).rules is first.rules


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (saying(b"User-agent: *\n"), RobotsState.READ),
        (saying(b"", 404), RobotsState.NONE),
        (saying(b"", 503), RobotsState.UNREACHABLE),
    ],
)
def test_the_record_says_what_it_came_to(answer: Ask, state: RobotsState) -> None:
    rules, log = keeper(), Log()
    ruling = rule(rules, log, "http://h.test", answer)
    (record,) = log.records
    assert record.state is state
    assert record.unreachable is (ruling.rules is None) is (state is RobotsState.UNREACHABLE)
    assert log.sites.get("http://h.test").robots_failures == (state is RobotsState.UNREACHABLE)


def test_no_answer_is_unreachable() -> None:
    async def ask(url: str) -> Failure:
        return Failure(FailureKind.CONNECT, "refused")

    log = Log()
    assert rule(keeper(), log, "http://h.test", ask).rules is None
    assert log.records[0].unreachable
    assert log.records[0].detail == "connect: refused"


@pytest.mark.parametrize(
    ("detail", "unreachable"), [("unreachable: status 503", True), ("status 404", False)]
)
def test_logs_without_the_state_are_read(detail: str, unreachable: bool) -> None:
    written = msgspec.msgpack.encode(
        ["R", 1, "http://h.test", 503, b"", 2, [b"", b"", b""], None, detail, 0.0]
    )
    record = decode(written)
    assert isinstance(record, Robots)
    assert record.state is None
    assert record.unreachable is unreachable
