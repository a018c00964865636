"""The tail of a shard's log in a stream: order, fencing, doubts, parts, purge, push-back."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nats.aio.client import Client

from lycosa.cluster.engine import tail as tails
from lycosa.cluster.engine.ordered import Ordered
from lycosa.cluster.engine.outcomes import Fenced, Full, Unavailable
from lycosa.cluster.engine.server import Servers
from lycosa.cluster.engine.streams import Names, ends, ensure, leader_of, log_config
from lycosa.cluster.engine.tail import Piece, Tail, pieces, split
from lycosa.errors import StorageError
from lycosa.log import blocks
from tests.cluster.engine.logs import block, noise_block


async def make(client: Client, names: Names, max_bytes: int = 64 << 20, replicas: int = 1) -> None:
    await ensure(client.jetstream(), log_config(names, 0, replicas=replicas, max_bytes=max_bytes))


def tail_of(client: Client, names: Names, **more: object) -> Tail:
    return Tail(client, client.jetstream(), names, 0, **more)  # type: ignore[arg-type]


async def all_of(client: Client, names: Names) -> list[Piece]:
    return [piece async for piece in pieces(client, client.jetstream(), names, 0)]


async def test_what_was_appended_is_read_back_in_order(client: Client, names: Names) -> None:
    await make(client, names)
    tail = tail_of(client, names)
    await tail.claim(1)
    assert await tail.append(0, block(0, 3), 1) == 3
    assert await tail.append(3, block(3, 2), 1) == 5
    got = await all_of(client, names)
    assert [(piece.first, piece.end, piece.epoch) for piece in got] == [(0, 3, 1), (3, 5, 1)]
    assert got[0].data == block(0, 3)


async def test_a_stale_holder_is_refused_for_ever(client: Client, other: Client, names: Names) -> None:
    await make(client, names)
    old, new = tail_of(client, names), tail_of(other, names)
    await old.claim(1)
    await old.append(0, block(0, 3), 1)
    found: list[Piece] = []
    await new.claim(2, found.append)
    assert [piece.end for piece in found] == [3]
    assert new.committed == 3
    with pytest.raises(Fenced):
        await old.append(3, block(3, 1), 1)
    await new.append(3, block(3, 4), 2)
    with pytest.raises(Fenced):
        await old.append(3, block(3, 1), 1)
    with pytest.raises(Fenced):
        await tail_of(client, names).claim(1)  # the older epoch cannot claim again either
    assert [piece.epoch for piece in await all_of(client, names)] == [1, 2]


async def test_an_append_between_reading_and_claiming_is_not_lost(client: Client, names: Names) -> None:
    await make(client, names)
    old = tail_of(client, names)
    await old.claim(1)
    await old.append(0, block(0, 1), 1)
    new = tail_of(client, names)
    found: list[Piece] = []
    send, raced = new._send, []

    async def slow_send(*given: object) -> None:
        if not raced:
            raced.append(True)
            await old.append(1, block(1, 2), 1)  # the stale holder is faster than the claim
        await send(*given)  # type: ignore[arg-type]

    new._send = slow_send  # type: ignore[method-assign]
    await new.claim(2, found.append)
    assert [piece.end for piece in found] == [1, 3]
    assert new.committed == 3


async def test_a_lost_acknowledgement_does_not_append_twice(
    client: Client, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(client, names)
    tail = tail_of(client, names)
    await tail.claim(1)
    publish, calls = tails.publish, []

    async def deaf(*given: object, **more: object) -> object:
        answer = await publish(*given, **more)  # type: ignore[arg-type]
        calls.append(answer)
        if len(calls) == 1:
            raise Unavailable("the acknowledgement was lost")
        return answer

    monkeypatch.setattr(tails, "publish", deaf)
    assert await tail.append(0, block(0, 2), 1) == 2
    assert await tail.append(2, block(2, 2), 1) == 4
    assert len(calls) == 3
    assert [piece.first for piece in await all_of(client, names)] == [0, 2]


async def test_after_a_lost_acknowledgement_anothers_message_is_not_taken_for_ours(
    client: Client, other: Client, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(client, names)
    tail, rival = tail_of(client, names), tail_of(other, names)
    await tail.claim(1)
    publish = tails.publish
    lost: list[bool] = []

    async def lose(*given: object, **more: object) -> object:
        if not lost:
            lost.append(True)
            await rival.claim(2)
            raise Unavailable("never sent")
        return await publish(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(tails, "publish", lose)
    with pytest.raises(Fenced):
        await tail.append(0, block(0, 2), 1)
    assert await all_of(client, names) == []


async def test_anothers_claim_is_not_taken_for_ours(
    client: Client, other: Client, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims are empty, so only their heads tell them apart."""
    await make(client, names)
    tail, rival = tail_of(client, names), tail_of(other, names)
    publish, lost = tails.publish, list[bool]()

    async def lose(*given: object, **more: object) -> object:
        if not lost:
            lost.append(True)
            await rival.claim(2)
            raise Unavailable("never sent")
        return await publish(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(tails, "publish", lose)
    with pytest.raises(Fenced):
        await tail.claim(1)
    assert not tail.claimed and rival.claimed


async def test_a_block_larger_than_a_message_goes_in_parts(client: Client, names: Names) -> None:
    await make(client, names)
    tail = tail_of(client, names)
    await tail.claim(1)
    large = noise_block(2, 1_300_000)
    data = block(0, 2) + large + block(3, 1)
    assert await tail.append(0, data, 1) == 4
    got = await all_of(client, names)
    assert b"".join(piece.data for piece in got) == data
    assert [(piece.first, piece.end) for piece in got] == [(0, 2), (2, 3), (3, 4)]


async def test_parts_that_a_dead_holder_left_are_not_log(client: Client, other: Client, names: Names) -> None:
    await make(client, names)
    old, new = tail_of(client, names), tail_of(other, names)
    await old.claim(1)
    await old.append(0, block(0, 2), 1)
    await old._send(2, 1, 0, "1/3", b"a part")  # and here it dies
    found: list[Piece] = []
    await new.claim(2, found.append)
    assert new.committed == 2 and [piece.end for piece in found] == [2]
    await new.append(2, block(2, 1), 2)
    assert [piece.end for piece in await all_of(client, names)] == [2, 3]


async def test_only_sealed_segments_are_purged(client: Client, names: Names) -> None:
    await make(client, names)
    tail = tail_of(client, names)
    await tail.claim(1)
    await tail.append(0, block(0, 5), 1, segment=0)
    await tail.append(5, block(5, 5), 1, segment=0)
    with pytest.raises(StorageError, match="sealed up to position 0"):
        await tail.purge(10)  # no later segment has been begun: its bytes may still grow
    await tail.append(10, block(10, 1), 1, segment=10)
    assert await tail.purge(10) == 2
    assert [piece.first for piece in await all_of(client, names)] == [10]
    assert await tail.append(11, block(11, 1), 1, segment=10) == 12
    later = tail_of(client, names)
    await later.claim(2)  # sequences go on after a purge
    assert later.committed == 12 and later.sealed == 10


async def test_a_full_stream_pushes_back_and_takes_the_rest_later(client: Client, names: Names) -> None:
    await make(client, names, max_bytes=2_000_000)
    tail = tail_of(client, names)
    await tail.claim(1)
    await tail.append(0, noise_block(0, 450_000), 1, segment=0)
    await tail.append(1, noise_block(1, 450_000), 1, segment=1)
    data = noise_block(2, 450_000) + noise_block(3, 450_000) + noise_block(4, 450_000)
    with pytest.raises(Full):
        await tail.append(2, data, 1, segment=1)
    assert tail.committed == 4
    with pytest.raises(Full):
        await tail.append(2, data, 1, segment=1)
    await tail.purge(1)
    assert await tail.append(2, data, 1, segment=1) == 5
    got = await all_of(client, names)
    assert [piece.first for piece in got] == [1, 2, 3, 4]


async def test_an_append_gives_up_when_the_lease_is_over(names: Names, client: Client) -> None:
    tail = tail_of(client, names, may_go_on=lambda: False)  # and there is no stream at all
    tail.claimed, tail._epoch = True, 1
    with pytest.raises(Unavailable, match="lease"):
        await tail.append(0, block(0, 1), 1)
    with pytest.raises(Fenced):  # after a doubt that was not settled nothing may be appended
        await tail.append(0, block(0, 1), 1)


async def test_a_foreign_message_is_told(client: Client, names: Names) -> None:
    await make(client, names)
    await client.jetstream().publish(names.log_subject(0), b"what is this?")
    with pytest.raises(StorageError, match="not of a log"):
        await tail_of(client, names).claim(1)


async def test_leader_killed_in_the_middle_of_appends(three: Servers, client3: Client, names: Names) -> None:
    """Nothing lost, nothing twice: three servers, the stream's leader dies while blocks are appended and read."""
    js = client3.jetstream()
    await make(client3, names, replicas=3)
    tail = tail_of(client3, names, patience=120.0)
    await tail.claim(1)
    leader = await leader_of(js, names.log(0))
    begun, killed = asyncio.Event(), asyncio.Event()
    ordered = Ordered(client3, js, names.log(0))
    read: list[int] = []
    more = asyncio.Event()

    async def kill() -> None:
        await begun.wait()
        await asyncio.to_thread(three.named(leader).kill)
        killed.set()

    async def follow() -> None:
        while True:
            with contextlib.suppress(Unavailable):
                read.extend(message.sequence for message in await ordered.next(1.0))
                more.set()

    async def complete(count: int) -> None:
        while len(read) < count:
            more.clear()
            await more.wait()

    killer, follower = asyncio.create_task(kill()), asyncio.create_task(follow())
    position = after = 0
    while after < 20:
        position = await tail.append(position, block(position, 7), 1)
        if position >= 10 * 7:
            begun.set()
        after += killed.is_set()
    await killer
    try:
        got = await all_of(client3, names)
        assert [piece.first for piece in got] == list(range(0, position, 7))
        assert b"".join(piece.data for piece in got) == b"".join(block(n, 7) for n in range(0, position, 7))
        assert await leader_of(js, names.log(0)) != leader
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


async def test_the_ends_of_an_empty_stream(client: Client, names: Names) -> None:
    await make(client, names)
    assert await ends(client.jetstream(), names.log(0)) == (0, 0)
