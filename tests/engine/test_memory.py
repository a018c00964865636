"""The engine in memory: what a network does to calls, on a virtual clock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from lycosa.engine.memory import Fate, MemoryEngine, MemoryServers
from lycosa.engine.protocol import Conflict, Ends, StreamPlan, Unavailable, got
from lycosa.lab.virtual import VirtualClock, run


class Script:
    """Fates in turn; then all is well again."""

    def __init__(self, *fates: Fate) -> None:
        self.fates = list(fates)

    def fate(self, client: str, to: str) -> Fate:
        return self.fates.pop(0) if self.fates else Fate()


def engines(clock: VirtualClock, script: Script) -> tuple[MemoryEngine, MemoryEngine]:
    """One with that network, and one whose network is perfect."""
    servers = MemoryServers()
    odd = MemoryEngine(servers, "web", clock, client="odd", network=script)
    return odd, MemoryEngine(servers, "web", clock, client="well")


def played(act: Callable[[MemoryEngine, MemoryEngine, VirtualClock], Awaitable[None]], *fates: Fate) -> None:
    async def main(clock: VirtualClock) -> None:
        odd, well = engines(clock, Script(*fates))
        got(await well.create([StreamPlan("s", 1 << 20)], 1))
        await act(odd, well, clock)

    run(main)


def test_a_lost_call_does_nothing_and_is_given_up_at_its_deadline() -> None:
    async def act(odd: MemoryEngine, well: MemoryEngine, clock: VirtualClock) -> None:
        began = clock.monotonic()
        assert isinstance(await odd.stream("s").append(b"x", expected=0, seconds=3.0), Unavailable)
        assert round(clock.monotonic() - began, 3) == 3.0
        assert await well.stream("s").ends() == Ends(1, 0)
        assert await odd.stream("s").append(b"x", expected=0) == 1

    played(act, Fate(None))


def test_a_lost_answer_leaves_what_was_done() -> None:
    async def act(odd: MemoryEngine, well: MemoryEngine, clock: VirtualClock) -> None:
        assert isinstance(await odd.stream("s").append(b"x", expected=0), Unavailable)
        assert await well.stream("s").ends() == Ends(1, 1)
        assert isinstance(await odd.stream("s").append(b"x", expected=0), Conflict), "one copy at most"

    played(act, Fate(0.5, None))


def test_a_late_call_takes_effect_when_nobody_waits_any_more() -> None:
    async def act(odd: MemoryEngine, well: MemoryEngine, clock: VirtualClock) -> None:
        assert isinstance(await odd.bucket.put("k", b"late"), Unavailable)
        assert await well.bucket.get("k") is None
        await clock.sleep(10.0)
        found = got(await well.bucket.get("k"))
        assert found is not None and found.value == b"late"

    played(act, Fate(8.0, 0.0))


def test_a_call_that_is_given_up_by_its_caller_arrives_all_the_same() -> None:
    async def act(odd: MemoryEngine, well: MemoryEngine, clock: VirtualClock) -> None:
        task = asyncio.ensure_future(odd.bucket.put("k", b"on its way"))
        await clock.sleep(0.1)
        task.cancel()
        await clock.sleep(1.0)
        assert got(await well.bucket.get("k")) is not None

    played(act, Fate(0.5, 0.5))


def test_a_call_that_arrives_twice() -> None:
    async def act(odd: MemoryEngine, well: MemoryEngine, clock: VirtualClock) -> None:
        assert await odd.stream("s").append(b"x") == 1
        assert await well.stream("s").ends() == Ends(1, 2), "without an expected sequence both are taken"
        assert await odd.stream("s").append(b"y", expected=2) == 3
        assert await well.stream("s").ends() == Ends(1, 3), "with one, one of them"

    played(act, Fate(0.1, 0.1, twice=True), Fate(0.1, 0.1, twice=True))


def test_a_partition_silences_readings_and_they_go_on_behind_it() -> None:
    cut = [False]

    class Cable:
        def fate(self, client: str, to: str) -> Fate:
            return Fate(None, None) if cut[0] and client == "odd" else Fate(0.01, 0.01)

    async def main(clock: VirtualClock) -> None:
        servers = MemoryServers()
        odd = MemoryEngine(servers, "web", clock, client="odd", network=Cable())
        well = MemoryEngine(servers, "web", clock, client="well", network=Cable())
        got(await well.create([StreamPlan("s", 1 << 20)], 1))
        reading, watch = odd.stream("s").read(), odd.bucket.watch("k")
        got(await well.stream("s").append(b"1"))
        assert [each.data for each in got(await reading.next(1.0))] == [b"1"]
        answering = got(await odd.requests.answer("who", lambda asked: b"odd"))
        assert await well.requests.ask("who", b"?", 1.0) == b"odd"
        cut[0] = True
        got(await well.stream("s").append(b"2"))
        got(await well.bucket.put("k", b"v"))
        began = clock.monotonic()
        assert isinstance(await reading.next(5.0), Unavailable)
        assert isinstance(await watch.next(5.0), Unavailable)
        assert 9.9 < clock.monotonic() - began < 10.1
        assert isinstance(await well.requests.ask("who", b"?", 1.0), Unavailable)
        waiting = asyncio.ensure_future(reading.next(60.0))
        await clock.sleep(3.0)
        cut[0] = False
        assert [each.data for each in got(await waiting)] == [b"2"]
        assert [each.value for each in got(await watch.next(1.0))] == [b"v"]
        assert await well.requests.ask("who", b"?", 1.0) == b"odd"
        await answering.stop()

    run(main)


def test_one_who_vanished_answers_nobody_and_is_heard_no_more() -> None:
    async def act(odd: MemoryEngine, well: MemoryEngine, clock: VirtualClock) -> None:
        got(await odd.requests.answer("who", lambda asked: b"odd"))
        odd.vanish()
        assert isinstance(await well.requests.ask("who", b"?", 1.0), Unavailable)
        assert isinstance(await odd.bucket.put("k", b"v"), Unavailable)
        assert await well.bucket.get("k") is None

    played(act)


def test_the_same_seed_gives_the_same_history() -> None:
    class Dice:
        def __init__(self, seed: int) -> None:
            self.random = random.Random(seed)

        def fate(self, client: str, to: str) -> Fate:
            there, back, twice = self.random.random(), self.random.random(), self.random.random() < 0.2
            return Fate(None if there > 0.9 else there, None if back > 0.9 else back, twice)

    async def main(clock: VirtualClock, seed: int) -> list[tuple[float, bytes]]:
        servers, dice = MemoryServers(), Dice(seed)
        clients = [MemoryEngine(servers, "web", clock, client=str(n), network=dice) for n in range(3)]
        got(await clients[0].create([StreamPlan("s", 1 << 20)], 1))

        async def write(number: int) -> None:
            for step in range(10):
                await clients[number].stream("s").append(b"%d %d" % (number, step), seconds=1.0)

        seen: list[tuple[float, bytes]] = []

        async def follow() -> None:
            reading = MemoryEngine(servers, "web", clock).stream("s").read()
            while True:
                seen.extend((clock.monotonic(), each.data) for each in got(await reading.next(5.0)))

        follower = asyncio.ensure_future(follow())
        await asyncio.gather(*(write(number) for number in range(3)))
        await clock.sleep(5.0)
        follower.cancel()
        return seen

    first, again, another = (run(lambda clock, n=n: main(clock, n)) for n in (1, 1, 2))  # type: ignore[misc]
    assert first == again != another and len(first) > 20
