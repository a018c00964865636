"""The contract of an engine, on every implementation; the plain one in memory is the oracle of the last test."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from lycosa.clock import SystemClock
from lycosa.engine.memory import MemoryEngine, MemoryServers
from lycosa.engine.protocol import (
    Absent,
    Conflict,
    Ends,
    Engine,
    Entry,
    Full,
    Message,
    Reading,
    Stream,
    StreamPlan,
    Unavailable,
    Watch,
    got,
)

PATIENCE = 170.0
"""Seconds that something which must come may take on a busy machine."""
SILENCE = 0.2


@pytest.fixture
async def stream(engine: Engine) -> Stream:
    got(await engine.create([StreamPlan("s", 1 << 20)], 1))
    return engine.stream("s")


@pytest.fixture
async def lanes(engine: Engine) -> Stream:
    got(await engine.create([StreamPlan("x", 1 << 20, lanes=True)], 1))
    return engine.stream("x")


async def read(reading: Reading, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        found += got(await reading.next(PATIENCE))
    return found


# -- streams


async def test_what_was_appended_is_read_in_order_with_its_headers(lanes: Stream) -> None:
    assert await lanes.append(b"one", lane="a", headers={"Kind": "x"}) == 1
    assert await lanes.append(b"two", lane="b") == 2
    assert await lanes.append(b"", lane="a") == 3
    reading = lanes.read()
    first, second, third = await read(reading, 3)
    assert (first.sequence, first.lane, first.data, first.headers.get("Kind")) == (1, "a", b"one", "x")
    assert (second.sequence, second.lane, second.data) == (2, "b", b"two")
    assert (third.sequence, third.lane, third.data) == (3, "a", b"")
    assert reading.last == 3
    await reading.close()


async def test_a_reading_begins_at_its_place_and_waits_for_more(stream: Stream) -> None:
    for number in range(3):
        got(await stream.append(b"%d" % number))
    reading = stream.read(2)
    assert [each.sequence for each in await read(reading, 1)] == [3]
    assert await reading.next(SILENCE) == []
    later = asyncio.create_task(read(reading, 1))
    got(await stream.append(b"3"))
    assert [each.data for each in await later] == [b"3"]
    await reading.close()


async def test_at_most_so_many_at_a_time(stream: Stream) -> None:
    for number in range(5):
        got(await stream.append(b"%d" % number))
    reading = stream.read()
    found = []
    while len(found) < 5:
        some = got(await reading.next(PATIENCE, most=2))
        assert len(some) <= 2
        found += some
    assert [each.sequence for each in found] == [1, 2, 3, 4, 5]
    await reading.close()


async def test_of_two_writers_the_one_who_knows_the_end_is_taken(stream: Stream, other: Engine) -> None:
    theirs = other.stream("s")
    assert await stream.append(b"mine", expected=0) == 1
    assert isinstance(await theirs.append(b"theirs", expected=0), Conflict)
    assert await theirs.append(b"theirs", expected=1) == 2
    assert isinstance(await stream.append(b"stale", expected=1), Conflict)
    assert await stream.ends() == Ends(1, 2)


async def test_of_many_at_once_one_is_taken(stream: Stream, other: Engine) -> None:
    writers = [stream, other.stream("s")] * 8
    answers = await asyncio.gather(*(each.append(b"x", expected=0) for each in writers))
    assert sorted(map(str, (isinstance(each, int) for each in answers))) == ["False"] * 15 + ["True"]
    assert all(each == 1 or isinstance(each, Conflict) for each in answers)
    assert await stream.ends() == Ends(1, 1)


async def test_many_append_and_everyone_reads_the_same(stream: Stream, other: Engine) -> None:
    theirs = other.stream("s")
    readings = [stream.read(), theirs.read()]
    reads = [asyncio.create_task(read(each, 40)) for each in readings]
    mine = [stream.append(b"m%d" % n) for n in range(20)]
    more = [theirs.append(b"t%d" % n) for n in range(20)]
    sequences = [got(each) for each in await asyncio.gather(*mine, *more)]
    assert sorted(sequences) == list(range(1, 41))
    first, second = await asyncio.gather(*reads)
    assert [each.sequence for each in first] == list(range(1, 41))
    assert [each.data for each in first] == [each.data for each in second]
    for each in readings:
        await each.close()


async def test_one_message_by_its_place_and_the_newest_of_a_lane(lanes: Stream) -> None:
    assert await lanes.newest("a") is None and await lanes.at(1) is None
    for lane, data in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        got(await lanes.append(data, lane=lane))
    third, second = got(await lanes.newest("a")), got(await lanes.at(2))
    assert third is not None and (third.sequence, third.lane, third.data) == (3, "a", b"3")
    assert second is not None and (second.sequence, second.lane, second.data) == (2, "b", b"2")
    assert await lanes.at(4) is None and await lanes.newest("c") is None


async def test_after_a_purge_a_reading_goes_on_with_what_is_left(lanes: Stream) -> None:
    assert await lanes.ends() == Ends(1, 0)
    for number in range(1, 7):
        got(await lanes.append(b"%d" % number, lane="ab"[number % 2]))
    assert await lanes.purge(3) is None
    assert await lanes.ends() == Ends(3, 6) and await lanes.at(2) is None
    assert await lanes.purge(5, "b") is None  # 3 goes, 4 is of another lane, 5 stays
    reading = lanes.read(1)
    assert [each.sequence for each in await read(reading, 3)] == [4, 5, 6]
    assert await lanes.purge(7) is None
    assert await lanes.ends() == Ends(7, 6), "nothing is left, and sequences are not used again"
    assert await lanes.append(b"7", lane="a", expected=6) == 7
    assert [each.sequence for each in await read(reading, 1)] == [7]
    await reading.close()


async def test_a_full_stream_pushes_back_until_there_is_room(engine: Engine) -> None:
    got(await engine.create([StreamPlan("small", 10_000)], 1))
    small = engine.stream("small")
    taken = 0
    while not isinstance(answer := await small.append(bytes(2_000)), Full):
        taken = got(answer)
        assert taken < 10
    assert taken >= 3, "nothing was refused while there was room"
    assert isinstance(await small.append(bytes(2_000), expected=taken), Full)
    assert await small.ends() == Ends(1, taken), "nothing was dropped to make room"
    assert await small.purge(3) is None
    assert await small.append(bytes(2_000), expected=taken) == taken + 1


async def test_a_stream_that_is_not_there_is_an_outcome(engine: Engine) -> None:
    nowhere = engine.stream("nowhere")
    assert isinstance(await nowhere.append(b"x", seconds=1.0), Unavailable)
    for answer in (await nowhere.at(1), await nowhere.ends(), await nowhere.purge(1)):
        assert isinstance(answer, Unavailable)
    reading = nowhere.read()
    assert isinstance(await reading.next(1.0), Unavailable)
    await reading.close()


# -- keys


async def test_keys_change_by_compare_and_set(engine: Engine, other: Engine) -> None:
    got(await engine.create([], 1))
    mine, theirs = engine.bucket, other.bucket
    assert await mine.get("a") is None and await mine.last("a") is None
    first = got(await mine.update("a", b"1", 0))
    assert isinstance(await theirs.update("a", b"2", 0), Conflict)
    second = got(await theirs.update("a", b"2", first))
    assert second > first
    assert await mine.get("a") == Entry("a", second, b"2")
    assert isinstance(await mine.update("a", b"3", first), Conflict)
    assert got(await mine.put("a", b"4")) > second


async def test_a_deleted_key_has_a_revision_that_must_be_named(engine: Engine) -> None:
    got(await engine.create([], 1))
    bucket = engine.bucket
    first = got(await bucket.put("a", b"1"))
    assert isinstance(await bucket.delete("a", first + 7), Conflict)
    assert await bucket.delete("a", first) is None
    assert await bucket.get("a") is None
    gone = got(await bucket.last("a"))
    assert gone is not None and gone.value is None and gone.revision > first
    assert isinstance(await bucket.update("a", b"2", 0), Conflict)
    assert got(await bucket.update("a", b"2", gone.revision)) > gone.revision
    assert await bucket.delete("a") is None and await bucket.all("a") == []


async def test_keys_of_a_pattern(engine: Engine) -> None:
    got(await engine.create([], 1))
    bucket = engine.bucket
    for key in ("b.x", "b.y", "b.y.z", "c.x", "b"):
        got(await bucket.put(key, key.encode()))
    assert await bucket.delete("b.x") is None
    found = got(await bucket.all("b.*"))
    assert {each.key: each.value for each in found} == {"b.y": b"b.y"}
    assert await bucket.all("nothing.*") == []


async def test_of_many_who_set_a_key_at_once_one_is_taken(engine: Engine, other: Engine) -> None:
    got(await engine.create([], 1))
    everyone = [engine.bucket, other.bucket] * 6
    answers = await asyncio.gather(*(each.update("k", b"%d" % n, 0) for n, each in enumerate(everyone)))
    won = [n for n, answer in enumerate(answers) if isinstance(answer, int)]
    assert len(won) == 1
    found = got(await engine.bucket.get("k"))
    assert found is not None and found.value == b"%d" % won[0] and found.revision == answers[won[0]]


async def until_seen(watch: Watch, wanted: dict[str, bytes | None]) -> None:
    """Until the last value seen of every key is that one; revisions of a key never fall."""
    seen: dict[str, Entry] = {}
    while {key: entry.value for key, entry in seen.items()} != wanted:
        for entry in got(await watch.next(PATIENCE)):
            assert entry.key not in seen or entry.revision >= seen[entry.key].revision
            seen[entry.key] = entry


async def test_a_watch_sees_what_is_there_and_every_last_value(engine: Engine, other: Engine) -> None:
    got(await engine.create([], 1))
    got(await engine.bucket.put("w.a", b"old"))
    got(await engine.bucket.put("v.a", b"another's"))
    watch = other.bucket.watch("w.*")
    await until_seen(watch, {"w.a": b"old"})
    assert await watch.next(SILENCE) == []
    for number in range(30):
        got(await engine.bucket.put(f"w.{'abc'[number % 3]}", b"%d" % number))
    assert await engine.bucket.delete("w.c") is None
    await until_seen(watch, {"w.a": b"27", "w.b": b"28", "w.c": None})
    await watch.close()


async def test_a_bucket_that_is_not_there_is_an_outcome(engine: Engine) -> None:
    for answer in (await engine.bucket.get("crawl"), await engine.bucket.last("crawl")):
        assert isinstance(answer, Absent)
    assert isinstance(await engine.bucket.all("a.*"), Unavailable)


# -- requests


async def test_asked_and_answered(engine: Engine, other: Engine) -> None:
    answering = got(await engine.requests.answer("who", lambda asked: b"I: " + asked))
    assert await other.requests.ask("who", b"you?", PATIENCE) == b"I: you?"
    assert await engine.requests.ask("who", b"me?", PATIENCE) == b"I: me?", "also by whoever answers itself"
    answers = await asyncio.gather(*(other.requests.ask("who", b"%d" % n, PATIENCE) for n in range(20)))
    assert answers == [b"I: %d" % n for n in range(20)]
    await answering.stop()
    assert isinstance(await other.requests.ask("who", b"you?", SILENCE), Unavailable)
    await answering.stop()


async def test_nobody_answers(engine: Engine) -> None:
    assert isinstance(await engine.requests.ask("nobody", b"?", SILENCE), Unavailable)
    await engine.requests.tell("nobody", b"!")


async def test_silence_lasts_until_the_deadline(engine: Engine, other: Engine) -> None:
    heard: list[bytes] = []

    def silent(asked: bytes) -> None:
        heard.append(asked)

    answering = got(await engine.requests.answer("who", silent))
    clock = SystemClock()
    began = clock.monotonic()
    assert isinstance(await other.requests.ask("who", b"?", SILENCE), Unavailable)
    assert clock.monotonic() - began >= SILENCE * 0.9 and heard == [b"?"]
    await answering.stop()


async def test_what_is_told_is_heard_and_not_answered(engine: Engine, other: Engine) -> None:
    heard: list[bytes] = []
    event = asyncio.Event()

    def hear(said: bytes) -> bytes:
        heard.append(said)
        event.set()
        return b"nobody waits for this"

    answering = got(await engine.requests.answer("who", hear))
    await other.requests.tell("who", b"hello")
    await asyncio.wait_for(event.wait(), PATIENCE)
    assert heard == [b"hello"]
    await answering.stop()


async def test_of_two_who_answer_the_silent_one_does_not_matter(engine: Engine, other: Engine) -> None:
    """The holder of a shard that lost its lease keeps silent, and its successor answers."""
    first = got(await engine.requests.answer("who", lambda asked: None))
    second = got(await other.requests.answer("who", lambda asked: b"I do"))
    assert await engine.requests.ask("who", b"?", PATIENCE) == b"I do"
    await first.stop()
    await second.stop()


# -- all of it


async def test_made_twice_and_removed_twice(engine: Engine) -> None:
    plans = [StreamPlan("s", 1 << 20), StreamPlan("x", 1 << 20, lanes=True)]
    assert await engine.create(plans, 1) is None
    got(await engine.stream("s").append(b"kept"))
    got(await engine.bucket.put("a", b"kept"))
    assert await engine.create(plans, 1) is None
    assert await engine.stream("s").ends() == Ends(1, 1)
    assert (await engine.bucket.get("a")) is not None
    assert await engine.remove(["s", "x"]) is None and await engine.remove(["s", "x"]) is None
    assert isinstance(await engine.bucket.get("a"), Absent)


def kind_of(answer: Any) -> Any:
    """An answer as it can be compared between implementations."""
    if isinstance(answer, Unavailable | Conflict | Full):
        return type(answer).__name__
    if isinstance(answer, Message):
        return (answer.sequence, answer.lane, answer.data)
    if isinstance(answer, list):
        return sorted((each.key, each.value) for each in answer)
    return answer


@pytest.mark.parametrize("seed", range(3))
async def test_any_steps_have_the_outcome_that_the_plain_one_has(engines: Any, seed: int) -> None:
    dice = random.Random(seed)
    clients = [await engines(), await engines()]
    plain = MemoryEngine(MemoryServers(), clients[0].crawl, SystemClock())
    plan = [StreamPlan("x", 1 << 20, lanes=True)]
    got(await clients[0].create(plan, 1))
    got(await plain.create(plan, 1))
    revisions: dict[str, list[tuple[int, int]]] = {"a": [(0, 0)], "b": [(0, 0)]}
    for _ in range(150):
        client = dice.choice(clients)
        key, lane = dice.choice("ab"), dice.choice("lm")
        number, value = dice.randrange(40), dice.randbytes(3)
        act = dice.choice(["append", "expect", "expect", "at", "newest", "ends", "purge", "update", "update"])
        act = dice.choice([act, act, "delete", "get", "last", "all"])
        both: list[Any] = []
        mine, theirs = dice.choice(revisions[key])
        for each, revision in ((client, mine), (plain, theirs)):
            stream, bucket = each.stream("x"), each.bucket
            if act == "append":
                both.append(await stream.append(value, lane=lane))
            elif act == "expect":
                last = got(await stream.ends()).last
                both.append(await stream.append(value, lane=lane, expected=last - number % 2))
            elif act == "at":
                both.append(await stream.at(number + 1))
            elif act == "newest":
                both.append(await stream.newest(lane))
            elif act == "ends":
                both.append(await stream.ends())
            elif act == "purge":
                last = got(await stream.ends()).last
                both.append(await stream.purge(min(number, last + 1), lane if number % 2 else None))
            elif act == "update":
                both.append(await bucket.update(key, value, revision))
            elif act == "delete":
                both.append(await bucket.delete(key, revision))
            elif act == "get":
                found = await bucket.get(key)
                both.append(found and found.value)
            elif act == "last":
                found = await bucket.last(key)
                both.append(found and (found.key, found.value))
            else:
                both.append(await bucket.all("*"))
        if act == "update" and isinstance(both[0], int) and isinstance(both[1], int):
            revisions[key].append((both[0], both[1]))
        else:
            assert kind_of(both[0]) == kind_of(both[1]), (act, both)
        if act == "delete" and both[0] is None:
            tombs = [got(await each.bucket.last(key)) for each in (client, plain)]
            revisions[key].append((tombs[0].revision, tombs[1].revision))
