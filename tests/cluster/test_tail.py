"""The tail of a shard's log in a stream: order, fencing, doubts, parts, purge, push-back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.clock import SystemClock
from lycosa.cluster.outcomes import Fenced
from lycosa.cluster.tail import Piece, Tail, pieces, split
from lycosa.engine.nats.engine import NatsEngine
from lycosa.engine.protocol import Engine, Full, Stream, StreamPlan, Unavailable, got
from lycosa.errors import StorageError
from lycosa.lab.nats_servers import Servers
from lycosa.log import blocks
from tests.cluster.logs import block, noise_block
from tests.servers import replicate


async def make(engine: Engine, max_bytes: int = 64 << 20) -> None:
    got(await engine.create([StreamPlan("log.0", max_bytes)], 1))


def tail_of(engine: Engine, **more: Any) -> Tail:
    return Tail(engine.stream("log.0"), SystemClock(), **more)


async def all_of(engine: Engine) -> list[Piece]:
    return [piece async for piece in pieces(engine.stream("log.0"))]


class Odd:
    """A stream whose appends go another way."""

    def __init__(self, stream: Stream, append: Callable[..., Awaitable[Any]]) -> None:
        self._stream = stream
        self.append = append

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


async def test_what_was_appended_is_read_back_in_order(engine: Engine) -> None:
    await make(engine)
    tail = tail_of(engine)
    assert await tail.claim(1) is None
    assert await tail.append(0, block(0, 3), 1) == 3
    assert await tail.append(3, block(3, 2), 1) == 5
    found = await all_of(engine)
    assert [(piece.first, piece.end, piece.epoch) for piece in found] == [(0, 3, 1), (3, 5, 1)]
    assert found[0].data == block(0, 3)


async def test_a_stale_holder_is_refused_for_ever(engine: Engine, other: Engine) -> None:
    await make(engine)
    old, new = tail_of(engine), tail_of(other)
    assert await old.claim(1) is None
    await old.append(0, block(0, 3), 1)
    found: list[Piece] = []
    assert await new.claim(2, found.append) is None
    assert [piece.end for piece in found] == [3]
    assert new.committed == 3
    assert isinstance(await old.append(3, block(3, 1), 1), Fenced)
    await new.append(3, block(3, 4), 2)
    assert isinstance(await old.append(3, block(3, 1), 1), Fenced)
    assert isinstance(await tail_of(engine).claim(1), Fenced)  # the older epoch cannot claim again either
    assert [piece.epoch for piece in await all_of(engine)] == [1, 2]


async def test_an_append_between_reading_and_claiming_is_not_lost(engine: Engine) -> None:
    await make(engine)
    old = tail_of(engine)
    assert await old.claim(1) is None
    await old.append(0, block(0, 1), 1)
    new = tail_of(engine)
    found: list[Piece] = []
    send, raced = new._send, []

    async def slow_send(*given: object) -> object:
        if not raced:
            raced.append(True)
            await old.append(1, block(1, 2), 1)  # the stale holder is faster than the claim
        return await send(*given)  # type: ignore[arg-type]

    new._send = slow_send  # type: ignore[method-assign]
    assert await new.claim(2, found.append) is None
    assert [piece.end for piece in found] == [1, 3]
    assert new.committed == 3


async def test_a_lost_acknowledgement_does_not_append_twice(engine: Engine) -> None:
    await make(engine)
    stream, calls = engine.stream("log.0"), list[object]()

    async def deaf(*given: Any, **more: Any) -> object:
        calls.append(await stream.append(*given, **more))
        return Unavailable("the acknowledgement was lost") if len(calls) == 2 else calls[-1]

    tail = Tail(Odd(stream, deaf), SystemClock())
    assert await tail.claim(1) is None
    assert await tail.append(0, block(0, 2), 1) == 2
    assert await tail.append(2, block(2, 2), 1) == 4
    assert len(calls) == 4
    assert [piece.first for piece in await all_of(engine)] == [0, 2]


async def test_after_a_lost_acknowledgement_anothers_message_is_not_taken_for_ours(
    engine: Engine, other: Engine
) -> None:
    await make(engine)
    stream, rival = engine.stream("log.0"), tail_of(other)
    calls: list[bool] = []

    async def lose(*given: Any, **more: Any) -> object:
        calls.append(True)
        if len(calls) == 2:
            assert await rival.claim(2) is None
            return Unavailable("never sent")
        return await stream.append(*given, **more)

    tail = Tail(Odd(stream, lose), SystemClock())
    assert await tail.claim(1) is None
    assert isinstance(await tail.append(0, block(0, 2), 1), Fenced)
    assert await all_of(engine) == []


async def test_anothers_claim_is_not_taken_for_ours(engine: Engine, other: Engine) -> None:
    """Claims are empty, so only their heads tell them apart."""
    await make(engine)
    stream, rival, lost = engine.stream("log.0"), tail_of(other), list[bool]()

    async def lose(*given: Any, **more: Any) -> object:
        if not lost:
            lost.append(True)
            assert await rival.claim(2) is None
            return Unavailable("never sent")
        return await stream.append(*given, **more)

    tail = Tail(Odd(stream, lose), SystemClock())
    assert isinstance(await tail.claim(1), Fenced)
    assert not tail.claimed and rival.claimed


async def test_what_the_former_holder_purges_during_a_claim_is_left_to_storage(
    engine: Engine, other: Engine
) -> None:
    await make(engine)
    stream, old = engine.stream("log.0"), tail_of(other)
    assert await old.claim(1) is None
    assert await old.append(0, block(0, 3), 1, 0) == 3
    late: list[int] = []

    async def goes_on(*given: Any, **more: Any) -> object:
        if not late:
            late.append(got(await old.append(3, block(3, 3), 1, 3)))
            late.append(got(await old.append(6, block(6, 3), 1, 6)))
            assert await old.purge(6) == 2
        return await stream.append(*given, **more)

    tail, found = Tail(Odd(stream, goes_on), SystemClock()), list[Piece]()
    assert await tail.claim(2, found.append) is None
    assert late == [6, 9]
    firsts = [piece.first for piece in found]
    assert firsts in ([0, 6], [0, 3, 6]), "what is purged may have been on its way"
    assert (tail.committed, tail.sealed) == (9, 6)
    assert await tail.append(9, block(9, 1), 2, 9) == 10
    await tail.purge(9)
    assert [piece.first for piece in await all_of(engine)] == [9]


async def test_a_block_larger_than_a_message_goes_in_parts(engine: Engine) -> None:
    await make(engine)
    tail = tail_of(engine)
    assert await tail.claim(1) is None
    large = noise_block(2, 1_300_000)
    data = block(0, 2) + large + block(3, 1)
    assert await tail.append(0, data, 1) == 4
    found = await all_of(engine)
    assert b"".join(piece.data for piece in found) == data
    assert [(piece.first, piece.end) for piece in found] == [(0, 2), (2, 3), (3, 4)]


async def test_parts_that_a_dead_holder_left_are_not_log(engine: Engine, other: Engine) -> None:
    await make(engine)
    old, new = tail_of(engine), tail_of(other)
    assert await old.claim(1) is None
    await old.append(0, block(0, 2), 1)
    await old._send(2, 1, 0, "1/3", b"a part")  # and here it dies
    found: list[Piece] = []
    assert await new.claim(2, found.append) is None
    assert new.committed == 2 and [piece.end for piece in found] == [2]
    await new.append(2, block(2, 1), 2)
    assert [piece.end for piece in await all_of(engine)] == [2, 3]


async def test_only_sealed_segments_are_purged(engine: Engine) -> None:
    await make(engine)
    tail = tail_of(engine)
    assert await tail.claim(1) is None
    await tail.append(0, block(0, 5), 1, segment=0)
    await tail.append(5, block(5, 5), 1, segment=0)
    with pytest.raises(StorageError, match="sealed up to position 0"):
        await tail.purge(10)  # no later segment has been begun: its bytes may still grow
    await tail.append(10, block(10, 1), 1, segment=10)
    assert await tail.purge(10) == 2
    assert [piece.first for piece in await all_of(engine)] == [10]
    assert await tail.append(11, block(11, 1), 1, segment=10) == 12
    later = tail_of(engine)
    assert await later.claim(2) is None  # sequences go on after a purge
    assert later.committed == 12 and later.sealed == 10


async def test_a_full_stream_pushes_back_and_takes_the_rest_later(engine: Engine) -> None:
    await make(engine, max_bytes=2_000_000)
    tail = tail_of(engine)
    assert await tail.claim(1) is None
    await tail.append(0, noise_block(0, 450_000), 1, segment=0)
    await tail.append(1, noise_block(1, 450_000), 1, segment=1)
    data = noise_block(2, 450_000) + noise_block(3, 450_000) + noise_block(4, 450_000)
    assert isinstance(await tail.append(2, data, 1, segment=1), Full)
    assert tail.committed == 4
    assert isinstance(await tail.append(2, data, 1, segment=1), Full)
    await tail.purge(1)
    assert await tail.append(2, data, 1, segment=1) == 5
    found = await all_of(engine)
    assert [piece.first for piece in found] == [1, 2, 3, 4]


async def test_an_append_gives_up_when_the_lease_is_over(engine: Engine) -> None:
    tail = tail_of(engine, may_go_on=lambda: False)  # and there is no stream at all
    tail.claimed, tail._epoch = True, 1
    answer = await tail.append(0, block(0, 1), 1)
    assert isinstance(answer, Unavailable) and "lease" in str(answer)
    # After a doubt that was not settled nothing may be appended.
    assert isinstance(await tail.append(0, block(0, 1), 1), Fenced)


async def test_a_foreign_message_is_told(engine: Engine) -> None:
    await make(engine)
    got(await engine.stream("log.0").append(b"what is this?"))
    with pytest.raises(StorageError, match="not of a log"):
        await tail_of(engine).claim(1)


async def test_leader_killed_in_the_middle_of_appends(three: Servers, engine3: NatsEngine) -> None:
    """Nothing lost, nothing twice: three servers, the stream's leader dies while blocks are appended and read."""
    await replicate(engine3, StreamPlan("log.0", 64 << 20))
    tail = tail_of(engine3, patience=120.0)
    assert await tail.claim(1) is None
    leader = await engine3.stream("log.0").leader()
    begun, killed = asyncio.Event(), asyncio.Event()
    ordered = engine3.stream("log.0").read()
    read: list[int] = []
    more = asyncio.Event()

    async def kill() -> None:
        await begun.wait()
        await asyncio.to_thread(three.named(leader).kill)
        killed.set()

    async def follow() -> None:
        while True:
            messages = await ordered.next(1.0)
            if not isinstance(messages, Unavailable):
                read.extend(message.sequence for message in messages)
                more.set()

    async def complete(count: int) -> None:
        while len(read) < count:
            more.clear()
            await more.wait()

    killer, follower = asyncio.create_task(kill()), asyncio.create_task(follow())
    position = after = 0
    while after < 20:
        appended = await tail.append(position, block(position, 7), 1)
        assert isinstance(appended, int)
        position = appended
        if position >= 10 * 7:
            begun.set()
        after += killed.is_set()
    await killer
    try:
        found = await all_of(engine3)
        assert [piece.first for piece in found] == list(range(0, position, 7))
        assert b"".join(piece.data for piece in found) == b"".join(block(n, 7) for n in range(0, position, 7))
        assert await engine3.stream("log.0").leader() != leader
        count = position // 7 + 1  # the claim is the first
        async with asyncio.timeout(120):
            await complete(count)
        assert read == list(range(1, count + 1))
    finally:
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
        await ordered.close()
        await asyncio.to_thread(three.named(leader).start)
        await asyncio.to_thread(three.wait_ready)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=0, max_size=12), st.integers(120, 600))
def test_split_keeps_every_byte_and_no_block_is_in_two_entries(sizes: list[int], most: int) -> None:
    data = b"".join(noise_block(first, size) for first, size in enumerate(sizes))
    entries = split(data, most)
    assert b"".join(b"".join(parts) for _, _, parts in entries) == data
    assert sum(count for _, count, _ in entries) == len(sizes)
    at = 0
    for start, count, parts in entries:
        assert start == at and all(len(part) <= most for part in parts)
        whole = b"".join(parts)
        head = blocks.head_of(whole)
        assert head is not None and head.first == start
        assert len(parts) == 1 or count == 1  # only a single block goes in parts
        at += count


@given(st.binary(max_size=200))
def test_split_refuses_what_are_no_blocks(data: bytes) -> None:
    if data:
        with pytest.raises(StorageError):
            split(data + b"no block")
