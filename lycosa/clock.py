"""Time as a port: code that needs the time is handed a `Clock`.

There are two times. `wall()` is calendar time (seconds since 1970), for records and due times; it may jump.
`monotonic()` never goes back, and is the only one used for politeness. `sleep` belongs to the clock so that a
simulated crawl can run on virtual time.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def wall(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary origin; never decreases."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` of this clock pass."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that moves only when told; `sleep` moves it, so sequential code runs at once."""

    def __init__(self, wall: float = 1_700_000_000.0) -> None:
        self._wall = wall
        self._monotonic = 0.0

    def wall(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        if seconds > 0:
            self._wall += seconds
            self._monotonic += seconds

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await asyncio.sleep(0)


def milliseconds(clock: Clock) -> int:
    """The wall time as records carry it: whole milliseconds since the epoch."""
    return int(clock.wall() * 1000)
