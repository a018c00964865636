"""Meters and clocks."""

from __future__ import annotations

import asyncio
import time

from lycosa.clock import ManualClock, SystemClock, milliseconds
from lycosa.lab.virtual import VirtualClock, run
from lycosa.meters import Meters


def test_counters_are_made_at_their_first_mention_and_shared() -> None:
    meters = Meters()
    meters.counter("fetch.pages").add()
    meters.counter("fetch.pages").add(4)
    assert meters.counter("fetch.pages") is meters.counter("fetch.pages")
    assert meters.counter("fetch.pages").value == 5
    assert meters.read() == {"fetch.pages": 5}


def test_gauges_are_asked_when_read() -> None:
    meters = Meters()
    length = 3
    meters.gauge("frontier.pending", lambda: length)
    assert meters.read()["frontier.pending"] == 3
    length = 8
    assert meters.read()["frontier.pending"] == 8
    meters.gauge("frontier.pending", lambda: -1)
    assert meters.read() == {"frontier.pending": -1}, "the last owner of a name counts"


def test_values_are_sorted_by_name() -> None:
    meters = Meters()
    for name in ("z.last", "a.first", "m.middle"):
        meters.counter(name)
    meters.gauge("b.gauge", lambda: 0.5)
    assert list(meters.read()) == ["a.first", "b.gauge", "m.middle", "z.last"]


def test_the_system_clock_is_the_machines() -> None:
    clock = SystemClock()
    assert abs(clock.wall() - time.time()) < 5
    assert abs(clock.monotonic() - time.monotonic()) < 5
    assert abs(milliseconds(clock) - time.time() * 1000) < 5000
    began = time.monotonic()
    asyncio.run(clock.sleep(0.05))
    assert time.monotonic() - began >= 0.045


def test_a_manual_clock_moves_when_told_and_never_back() -> None:
    clock = ManualClock(wall=1000.0)
    assert (clock.wall(), clock.monotonic(), milliseconds(clock)) == (1000.0, 0.0, 1_000_000)
    clock.advance(2.5)
    clock.advance(-10.0)
    assert (clock.wall(), clock.monotonic()) == (1002.5, 2.5)
    asyncio.run(clock.sleep(7.5))
    assert clock.monotonic() == 10.0
    asyncio.run(clock.sleep(-1.0))
    assert clock.monotonic() == 10.0


def test_a_sleeping_manual_clock_lets_others_run() -> None:
    clock = ManualClock()
    order: list[str] = []

    async def sleeper() -> None:
        order.append("begin")
        await clock.sleep(5)
        order.append("end")

    async def main() -> None:
        await asyncio.gather(sleeper(), sleeper())

    asyncio.run(main())
    assert order == ["begin", "begin", "end", "end"]


def test_milliseconds_are_whole() -> None:
    assert milliseconds(ManualClock(wall=1.9999)) == 1999


def test_wall_and_monotonic_of_virtual_time_move_together() -> None:
    async def main(clock: VirtualClock) -> tuple[float, float]:
        wall, steady = clock.wall(), clock.monotonic()
        await clock.sleep(86_400)
        return clock.wall() - wall, clock.monotonic() - steady

    wall, steady = run(main, start=50.0)
    assert abs(wall - 86_400) < 1e-3 and abs(steady - 86_400) < 1e-3
