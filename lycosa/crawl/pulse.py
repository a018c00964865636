"""Signals to an agent's loop: news that wake it, and the first failure of anything, which ends it."""

from __future__ import annotations

import asyncio

from lycosa.clock import Clock


class Pulse:
    """The signals of one agent, shared by everything that works beside its loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._news = asyncio.Event()
        self.failure: BaseException | None = None

    def wake(self) -> None:
        """Something has changed: the loop must check its state."""
        self._news.set()

    def fail(self, error: BaseException) -> None:
        """End the run. The first failure counts: later ones are usually consequences of it."""
        self.failure = self.failure or error
        self.wake()

    def check(self) -> None:
        """Raise the failure, if there is one."""
        if self.failure is not None:
            raise self.failure

    async def rest(self, seconds: float) -> None:
        """Wait until there is news, or the time is over."""
        await nap(self._clock, seconds, self._news)
        self._news.clear()


async def nap(clock: Clock, seconds: float, unless: asyncio.Event) -> None:
    """Sleep for some time, or until the event is set."""
    sleeper = asyncio.ensure_future(clock.sleep(seconds))
    waker = asyncio.ensure_future(unless.wait())
    try:
        await asyncio.wait((sleeper, waker), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeper.cancel()
        waker.cancel()
