"""Leases and presence in the bucket, with two agents at one server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from lycosa.clock import ManualClock
from lycosa.cluster.leases import Gone, Leases, Presence, end_leases
from lycosa.engine.protocol import Bucket, Engine, Unavailable, got


@pytest.fixture
async def bucket(engine: Engine) -> Bucket:
    got(await engine.create([], 1))
    return engine.bucket


class Slow:
    """A bucket whose updates go another way."""

    def __init__(self, bucket: Bucket, update: Callable[[str, bytes, int], Awaitable[Any]]) -> None:
        self._bucket = bucket
        self.update = update

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bucket, name)


def leases(bucket: Bucket, me: str, clock: ManualClock) -> Leases:
    return Leases(bucket, me, 10.0, clock)


async def test_one_of_many_gets_a_lease(bucket: Bucket) -> None:
    clock = ManualClock()
    all_of_them = [leases(bucket, f"agent-{n}", clock) for n in range(8)]
    all_got = await asyncio.gather(*(one.acquire(0) for one in all_of_them))
    won = [holding for holding in all_got if holding is not None]
    assert len(won) == 1 and won[0].epoch == 1


async def test_a_lease_is_renewed_expires_and_passes_on_with_the_next_epoch(bucket: Bucket) -> None:
    mine, theirs = ManualClock(), ManualClock()
    a, b = leases(bucket, "a", mine), leases(bucket, "b", theirs)
    holding = await a.acquire(3)
    assert holding is not None
    assert await b.acquire(3) is None  # seen now for the first time: its time begins
    theirs.advance(9.0)
    mine.advance(9.0)
    assert not holding.may_fetch(mine.monotonic())
    assert await a.renew(3)
    assert holding.may_fetch(mine.monotonic())
    assert await b.follow(2.0)
    theirs.advance(9.9)
    assert await b.acquire(3) is None and b.holder_of(3) == "a"
    theirs.advance(0.1)
    assert b.holder_of(3) == ""
    taken = await b.acquire(3)
    assert taken is not None and taken.epoch == 2
    assert not await a.renew(3)
    assert holding.lost and not holding.may_write(mine.monotonic()) and 3 not in a.held
    await a.close()
    await b.close()


async def test_one_who_missed_renewals_cannot_take(bucket: Bucket) -> None:
    """The watcher was cut off and believes that the lease ran out: compare-and-set knows better."""
    mine, theirs = ManualClock(), ManualClock()
    a, b = leases(bucket, "a", mine), leases(bucket, "b", theirs)
    await a.acquire(0)
    assert await b.acquire(0) is None
    assert await a.renew(0)
    theirs.advance(60.0)  # b has seen nothing since
    assert await b.acquire(0) is None
    assert await a.renew(0)


async def test_a_released_lease_is_taken_at_once(bucket: Bucket) -> None:
    clock = ManualClock()
    a, b = leases(bucket, "a", clock), leases(bucket, "b", clock)
    await a.acquire(0)
    assert await b.acquire(0) is None
    await a.release(0)
    await b.follow(2.0)
    taken = await b.acquire(0)
    assert taken is not None and taken.epoch == 2
    await b.close()


async def test_a_lost_answer_does_not_lose_the_lease(bucket: Bucket) -> None:
    clock = ManualClock()
    deaf = True

    async def lose(key: str, value: bytes, revision: int) -> object:
        answer = await bucket.update(key, value, revision)
        return Unavailable("the answer was lost") if deaf else answer

    a = leases(Slow(bucket, lose), "a", clock)
    holding = await a.acquire(0)  # written, unheard, read back
    assert holding is not None and holding.epoch == 1
    clock.advance(8.5)
    with pytest.raises(Unavailable):
        await a.renew(0)
    assert not holding.may_fetch(clock.monotonic())  # a renewal that nobody confirmed is none
    deaf = False
    assert await a.renew(0)
    assert holding.may_fetch(clock.monotonic())


async def test_a_renewal_counts_from_when_it_began(bucket: Bucket) -> None:
    clock = ManualClock()

    async def slow(key: str, value: bytes, revision: int) -> object:
        clock.advance(3.0)
        return await bucket.update(key, value, revision)

    a = leases(Slow(bucket, slow), "a", clock)
    holding = await a.acquire(0)  # from 0 to 3
    assert holding is not None
    assert holding.may_fetch(7.9) and not holding.may_fetch(8.0)
    assert await a.renew(0)  # from 3 to 6
    assert holding.may_fetch(10.9) and not holding.may_fetch(11.0)


async def test_presence_is_a_key_that_changes(bucket: Bucket) -> None:
    clock = ManualClock()
    a, b = Presence(bucket, "a", 10.0, clock), Presence(bucket, "b", 10.0, clock)
    await a.beat(b'{"host":"hello"}')
    await b.beat()
    while len(a.alive()) < 2:
        await a.follow(2.0)
    assert a.alive() == ["a", "b"] and a.about("a") == b'{"host":"hello"}'
    clock.advance(6.0)
    await b.beat()
    await a.follow(2.0)
    clock.advance(6.0)
    assert a.alive() == ["b"]
    await b.leave()
    await a.follow(2.0)
    assert a.alive() == []
    await a.close()
    await b.close()


async def test_who_falls_silent_is_buried_but_not_by_one_who_was_deaf(bucket: Bucket) -> None:
    clock, slept = ManualClock(), ManualClock()
    a, b, c = (Presence(bucket, name, 10.0, one) for name, one in (("a", clock), ("b", slept), ("c", clock)))
    for each in (a, b, c):
        await each.beat()
    for each in (a, b):
        while len(each.alive()) < 3:
            await each.follow(60.0)
    clock.advance(9.0)
    await b.beat()
    while (await bucket.last("agent.b")) is None or not await a.follow(60.0):
        pass
    clock.advance(2.0)
    assert a.fallen_silent() == [("c", 11.0)]
    gone = Gone(at=5.0, silent=11.0, shards={0: "a", 2: "b", 1: "a"})
    assert gone.said() == "its shards go on: 0, 1 to a; 2 to b"
    assert await a.bury("c", gone)
    assert a.fallen_silent() == [], "once"
    found = got(await bucket.get("gone.c"))
    assert found is not None and msgspec.json.decode(found.value or b"", type=Gone) == gone
    assert await bucket.get("agent.c") is None, "whoever starts now does not take it for one that lives"
    # b lay still, and heard nothing: it must not bury a, who has spoken since.
    await a.beat()
    slept.advance(60.0)
    assert sorted(name for name, _ in b.fallen_silent()) == ["a", "c"]
    assert not await b.bury("a", gone) and await b.bury("c", gone)
    assert await bucket.get("agent.a") is not None and await bucket.get("gone.a") is None
    await a.close()
    await b.close()


async def test_a_released_lease_brings_the_turns_that_are_out(bucket: Bucket) -> None:
    clock = ManualClock()
    a, b = leases(bucket, "a", clock), leases(bucket, "b", clock)
    first = await a.acquire(0)
    assert first is not None and first.turns == {}, "nobody was before it: nothing is out"
    await a.release(0, {"192.0.2.7": ("x", 3.0)})
    second = await b.acquire(0)
    assert second is not None and second.turns == {"192.0.2.7": ("x", 3.0)}
    await b.release(0)
    third = await a.acquire(0)
    if third is None:
        await a.follow(60.0)
        third = await a.acquire(0)
    assert third is not None and third.turns is None, "b did not say: wait"
    clock.advance(20.0)
    await b.follow(60.0)
    await b.follow(1.0)
    clock.advance(20.0)
    fourth = await b.acquire(0)
    assert fourth is not None and fourth.turns is None, "expired: nobody could say"
    await a.close()
    await b.close()


async def test_the_leases_of_a_dead_process_are_given_back_for_it(engine: Engine) -> None:
    """On one machine leases do not run out: whoever saw the process end says so."""
    got(await engine.create([], 1))
    clock = ManualClock()
    dead, other = (Leases(engine.bucket, name, 1e9, clock) for name in ("a0", "a1"))
    for number in (1, 2):
        assert await dead.acquire(number) is not None
    assert await other.acquire(3) is not None
    clock.advance(1e6)
    again = Leases(engine.bucket, "a0", 1e9, clock)
    assert await again.acquire(1) is None, "a process of that name may still be writing"
    assert sorted(await end_leases(engine.bucket, "a0")) == [1, 2]
    assert await end_leases(engine.bucket, "a0") == []
    again = Leases(engine.bucket, "a0", 1e9, clock)
    taken = await again.acquire(1)
    assert taken is not None and taken.epoch == 2 and taken.turns is None
    assert await again.acquire(3) is None
