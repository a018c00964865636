"""Virtual time: the same code, the same order, no waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from random import Random

import pytest

from lycosa.errors import LocalError
from lycosa.lab.virtual import VirtualClock, VirtualLoop, run


def test_days_pass_in_no_time_and_timers_fire_in_order() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, float]]:
        rows: list[tuple[str, float]] = []

        async def at(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            rows.append((name, clock.monotonic()))

        await asyncio.gather(at("late", 172_800.0), at("soon", 0.25), at("noon", 43_200.0))
        return rows

    began = time.process_time()
    rows = run(main)
    assert time.process_time() - began < 2
    assert [name for name, _ in rows] == ["soon", "noon", "late"]
    assert [when for _, when in rows] == pytest.approx([0.25, 43_200.0, 172_800.0], abs=1e-3)


def test_a_run_begins_where_the_last_one_ended() -> None:
    async def main(clock: VirtualClock) -> tuple[float, float]:
        await clock.sleep(10)
        return clock.monotonic(), clock.wall()

    assert run(main)[0] == pytest.approx(10, abs=1e-6)
    steady, wall = run(main, start=90.0)
    assert steady == pytest.approx(100, abs=1e-6)
    assert wall == pytest.approx(1_700_000_100, abs=1e-3)


def test_threads_run_at_once_in_the_loop_s_own() -> None:
    async def main(clock: VirtualClock) -> tuple[int, float]:
        before = clock.monotonic()
        ident = await asyncio.to_thread(threading.get_ident)
        return ident, clock.monotonic() - before

    ident, passed = run(main)
    assert ident == threading.get_ident()
    assert passed == 0.0


def test_what_a_thread_raises_is_raised() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def main(clock: VirtualClock) -> None:
        await asyncio.to_thread(fail)

    with pytest.raises(ZeroDivisionError):
        run(main)


def test_a_run_is_a_function_of_its_inputs() -> None:
    """Many tasks with random sleeps: twice the same seed, twice the same order."""

    async def main(clock: VirtualClock, seed: int) -> list[int]:
        random, order = Random(seed), []

        async def worker(number: int) -> None:
            for _ in range(5):
                await clock.sleep(random.random())
                order.append(number)
                await asyncio.to_thread(lambda: None)

        await asyncio.gather(*(worker(number) for number in range(20)))
        return order

    first = run(lambda clock: main(clock, 1))
    assert first == run(lambda clock: main(clock, 1))
    assert first != run(lambda clock: main(clock, 2))


def test_time_that_stands_still_is_an_error_and_no_hang() -> None:
    async def main(clock: VirtualClock) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(LocalError, match="stands still"):
        run(main)


def test_timeouts_are_on_virtual_time() -> None:
    async def main(clock: VirtualClock) -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 3600)
        return clock.monotonic()

    assert run(main) == pytest.approx(3600, abs=1e-3)


def test_what_is_left_running_is_cancelled() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append("cancelled")

    async def main(clock: VirtualClock) -> asyncio.Task[None]:
        task = asyncio.ensure_future(forever())
        await clock.sleep(10)
        return task

    task = run(main)
    assert task.cancelled() and ended == ["cancelled"]


def test_errors_come_out() -> None:
    async def main(clock: VirtualClock) -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        run(main)


@pytest.mark.parametrize(
    "start", [0.0, 2.0**24 + 1, 2.0**33], ids=["at once", "after 194 days", "after 272 years"]
)
def test_time_goes_on_however_late_it_is(start: float) -> None:
    """Where the next number is more than a nanosecond away, a jump of one leaves the time as it was."""

    async def main(clock: VirtualClock) -> float:
        for seconds in (1e-12, 1e-9, 0.1, 1 / 3, 86_400.1):
            await clock.sleep(seconds)
        return clock.monotonic()

    turns = 0

    class Counting(VirtualLoop):
        def time(self) -> float:
            nonlocal turns
            turns += 1
            assert turns < 1000, "the loop turns on the spot"
            return super().time()

    assert run(main, loop=Counting(start)) - start == pytest.approx(86_400.533, abs=1e-2)
