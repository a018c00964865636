"""The loop of simulated agents: virtual time as on the plain one; agents that stand still, or end at a callback."""

from __future__ import annotations

import asyncio

import pytest

from lycosa.errors import LocalError
from lycosa.lab.simulate_loop import AGENT, AgentLoop, Delay
from lycosa.lab.virtual import VirtualClock, run


def test_timers_fire_in_order_and_what_was_cancelled_does_not() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, float]]:
        rows: list[tuple[str, float]] = []
        loop = asyncio.get_running_loop()
        for name, seconds in (("late", 86_400.0), ("soon", 0.5), ("same", 0.5), ("gone", 0.4)):
            timer = loop.call_later(seconds, lambda name=name: rows.append((name, clock.monotonic())))
            if name == "gone":
                timer.cancel()
        await clock.sleep(90_000)
        return rows

    assert run(main, loop=AgentLoop()) == [("soon", 0.5), ("same", 0.5), ("late", 86_400.0)]


def test_time_that_stands_still_is_an_error() -> None:
    async def waits(clock: VirtualClock) -> None:
        await asyncio.get_running_loop().create_future()

    async def spins(clock: VirtualClock) -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    for main in (waits, spins):
        with pytest.raises(LocalError, match="stands still"):
            run(main, loop=AgentLoop())


def test_an_agent_that_is_halted_runs_what_was_due_when_it_goes_on() -> None:
    loop = AgentLoop()

    async def main(clock: VirtualClock) -> list[float]:
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                await clock.sleep(1.0)
                ticks.append(clock.monotonic())

        AGENT.set("a")
        task = asyncio.ensure_future(tick())
        AGENT.set("")
        await clock.sleep(2.5)
        loop.halt("a")
        await clock.sleep(5.0)
        loop.go_on("a")
        await clock.sleep(1.6)
        task.cancel()
        return ticks

    assert run(main, loop=loop) == pytest.approx([1.0, 2.0, 7.5, 8.5])


def test_an_agent_ends_at_its_nth_callback_and_others_go_on() -> None:
    loop = AgentLoop()

    async def main(clock: VirtualClock) -> tuple[int, int]:
        steps, ended = 0, 0

        async def work() -> None:
            nonlocal steps
            while True:
                await clock.sleep(0)
                steps += 1

        def end() -> None:
            nonlocal ended
            ended += 1

        AGENT.set("a")
        task = asyncio.ensure_future(work())
        AGENT.set("")
        loop.end_at("a", 10, end)
        await clock.sleep(1.0)
        task.cancel()
        loop.go_on("a")
        return steps, ended

    assert run(main, loop=loop) == (9, 1)


def test_a_thread_takes_the_time_that_it_is_told_to() -> None:
    loop = AgentLoop()
    loop.threads = lambda agent: Delay(before=2.0, after=3.0)

    async def main(clock: VirtualClock) -> tuple[float, float]:
        return await asyncio.to_thread(clock.monotonic), clock.monotonic()

    assert run(main, loop=loop) == (2.0, 5.0)
