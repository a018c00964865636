"""A crawl's state in the bucket: creation, what is wanted, reports, the end, exact quotas."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.clock import SystemClock
from lycosa.cluster.control import (
    About,
    Control,
    Ending,
    Quota,
    Report,
    Wanted,
    granting,
    settling,
)
from lycosa.cluster.names import streams_of
from lycosa.cluster.outcomes import Fenced
from lycosa.cluster.storage import DirectoryStorage
from lycosa.engine.nats.engine import NatsEngine
from lycosa.engine.protocol import Engine
from lycosa.errors import ConfigError

ABOUT = About(crawl="ab12", shards=2, hash_seed=7, created=1, storage="/shared", replicas=1)


def control_of(engine: Engine) -> Control:
    return Control(engine, SystemClock())


async def created(engine: Engine, tmp_path: Path) -> Control:
    control = control_of(engine)
    await control.create(ABOUT, '{"limits":{}}', DirectoryStorage(tmp_path), b"com\norg\n")
    return control


async def test_a_crawl_is_created_once(engine: Engine, tmp_path: Path) -> None:
    control = await created(engine, tmp_path)
    await control.create(ABOUT, "{}", DirectoryStorage(tmp_path), b"com\norg\n")  # cut short, and again
    assert await control.about() == ABOUT
    assert (tmp_path / engine.crawl / "public_suffix.dat").read_bytes() == b"com\norg\n"
    assert await engine.stream("log.1").ends() == (1, 0)
    with pytest.raises(ConfigError, match="already"):
        await control.create(
            msgspec.structs.replace(ABOUT, hash_seed=8), "{}", DirectoryStorage(tmp_path), b""
        )
    state = await control.state()
    assert state.wanted is Wanted.STOPPED and state.options == '{"limits":{}}'
    names = [plan.name for plan in streams_of(2)]
    assert await engine.remove(names) is None and await engine.remove(names) is None
    assert not await control.exists()


async def test_too_many_replicas_are_told(nats_engine: NatsEngine, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="3 copies"):
        about = msgspec.structs.replace(ABOUT, replicas=3)
        await control_of(nats_engine).create(about, "{}", DirectoryStorage(tmp_path), b"")


async def test_wanting_and_finishing(engine: Engine, tmp_path: Path) -> None:
    control = await created(engine, tmp_path)
    assert (await control.want(Wanted.RUNNING)).wanted is Wanted.RUNNING
    await control.want(Wanted.PAUSED)
    assert (await control.finish()).finished
    assert (await control.state()).wanted is Wanted.PAUSED
    assert not (await control.want(Wanted.RUNNING)).finished
    assert (await control.next_round(3)).round == 3
    assert (await control.next_round(2)).round == 3


async def test_reports(engine: Engine, tmp_path: Path) -> None:
    control = await created(engine, tmp_path)
    assert await control.reports() == {}
    await control.report(report(0))
    await control.report(report(1, end=9))
    assert await control.reports() == {0: report(0), 1: report(1, end=9)}


async def test_pages_are_granted_up_to_the_limit_by_many_at_once(engine: Engine, tmp_path: Path) -> None:
    control = await created(engine, tmp_path)
    await control.limit_pages(100)

    async def crawl(shard: int) -> int:
        total = 0
        while True:
            got = await control.take_pages(shard, 1, total, 7)
            if got == total:
                return total
            total = got

    totals = await asyncio.gather(*(crawl(shard) for shard in range(4)))
    assert sum(totals) == 100
    await control.settle_pages(0, 2, totals[0] - 5)  # a new holder: five were never logged
    assert await control.take_pages(1, 1, totals[1], 7) == totals[1] + 5
    with pytest.raises(Fenced):
        await control.take_pages(0, 1, 0, 7)
    await control.limit_pages(110)
    assert await control.take_pages(1, 1, totals[1] + 5, 20) == totals[1] + 15


_acts = st.tuples(
    st.sampled_from(["take", "lose", "log", "die", "settle"]), st.integers(0, 2), st.integers(1, 9)
)


@given(st.integers(0, 30), st.lists(_acts, max_size=40))
def test_what_is_logged_never_passes_the_limit_and_reaches_it(
    limit: int, acts: list[tuple[str, int, int]]
) -> None:
    """Holders fetch, die, and are replaced; answers get lost; stale holders go on in vain."""
    quota = Quota(limit)
    logged, have, epoch = [0, 0, 0], [0, 0, 0], [1, 1, 1]
    for act, shard, wanted in acts:
        if act in ("take", "lose"):
            quota, total = granting(quota, shard, epoch[shard], have[shard], wanted)
            have[shard] = total if act == "take" else have[shard]
        elif act == "log" and logged[shard] < have[shard]:
            logged[shard] += 1
        elif act == "die":
            epoch[shard] += 1
            quota = settling(quota, shard, epoch[shard], logged[shard])
            have[shard] = logged[shard]
        elif act == "settle":
            quota = settling(quota, shard, epoch[shard], logged[shard])
            have[shard] = logged[shard]
        assert sum(logged) <= limit
    for shard in range(3):
        quota = settling(quota, shard, epoch[shard], logged[shard])
    quota, total = granting(quota, 0, epoch[0], logged[0], 100)
    assert total + logged[1] + logged[2] == limit


# -- the end


def report(shard: int, *, round_: int = 0, end: int = 5, received: int = 2, **more: object) -> Report:
    values: dict[str, object] = {"committed": end, "sent": end, "idle": True, **more}
    return Report(shard=shard, agent="a", epoch=1, round=round_, end=end, received=received, **values)  # type: ignore[arg-type]


ENDS = {0: 2, 1: 2}


def test_the_end_is_seen_in_two_rounds() -> None:
    ending = Ending(2)
    first = {0: report(0), 1: report(1)}
    assert ending.look(first, ENDS, 0) == (False, 1)
    assert ending.look(first, ENDS, 0) == (False, 1)  # the new round has not been written yet
    assert ending.look({0: report(0, round_=1), 1: report(1)}, ENDS, 1) == (False, 1)
    assert ending.look({0: report(0, round_=1), 1: report(1, round_=1)}, ENDS, 1).over


def test_an_append_between_the_rounds_begins_anew() -> None:
    ending = Ending(2)
    ending.look({0: report(0), 1: report(1)}, ENDS, 0)
    moved = {0: report(0, round_=1, end=6), 1: report(1, round_=1)}
    assert ending.look(moved, ENDS, 1) == (False, 2)
    again = {0: report(0, round_=2, end=6), 1: report(1, round_=2)}
    assert ending.look(again, ENDS, 2).over


@pytest.mark.parametrize(
    "other",
    [
        {"idle": False},
        {"committed": 4},
        {"sent": 4},
        {"received": 1},
    ],
)
def test_no_end_while_anything_is_under_way(other: dict[str, object]) -> None:
    ending = Ending(2)
    for round_ in range(3):
        rows = {0: report(0, round_=round_), 1: report(1, round_=round_, **other)}  # type: ignore[arg-type]
        assert not ending.look(rows, ENDS, round_).over
    assert not ending.look({0: report(0, round_=3)}, ENDS, 3).over  # a shard that nobody reports


_steps = st.lists(
    st.tuples(st.sampled_from(["receive", "send", "report", "report", "look"]), st.integers(0, 1)),
    max_size=80,
)


@given(st.integers(0, 3), _steps)
def test_a_crawl_is_not_over_while_a_link_travels(ttl: int, steps: list[tuple[str, int]]) -> None:
    """Two shards send each other links, reports are old when they are read; the end is called only at the end."""
    ends_, inbox = {0: 0, 1: 1}, {0: list[int](), 1: [ttl]}
    logs, received, unsent = [0, 0], [0, 0], [list[int](), list[int]()]
    asked = 0
    reports: dict[int, Report] = {}
    ending = Ending(2)
    for act, shard in steps:
        if act == "receive" and received[shard] < ends_[shard]:
            hops = inbox[shard][received[shard]]
            received[shard] += 1
            logs[shard] += 1
            if hops:
                unsent[shard].append(hops - 1)
        elif act == "send" and unsent[shard]:
            inbox[1 - shard].append(unsent[shard].pop())
            ends_[1 - shard] += 1
        elif act == "report":
            sent = logs[shard] - len(unsent[shard])
            reports[shard] = report(shard, round_=asked, end=logs[shard], received=received[shard], sent=sent)
        elif act == "look":
            verdict = ending.look(reports, dict(ends_), asked)
            if verdict.over:
                assert received == [ends_[0], ends_[1]] and not any(unsent)
                return
            asked = max(asked, verdict.round)
