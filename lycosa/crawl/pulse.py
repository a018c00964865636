"""What moves an agent's loop on: news that wakes it, and the first failure of anything, which ends it."""

from __future__ import annotations

import asyncio

from lycosa.clock import Clock


class Pulse:
    """Of one agent; whoever works beside its loop has it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._news = asyncio.Event()
        self.failure: BaseException | None = None

    def wake(self) -> None:
        """Something has changed: the loop is to look again."""
        self._news.set()

    def fail(self, error: BaseException) -> None:
        """The run is over. The first failure counts: whoever fails after it only trips over it."""
        self.failure = self.failure or error
        self.wake()

    def check(self) -> None:
        """Raise what failed, if anything did."""
        if self.failure is not None:
            raise self.failure

    async def rest(self, seconds: float) -> None:
        """Until there is news, or the time is over."""
        await nap(self._clock, seconds, self._news)
        self._news.clear()


async def nap(clock: Clock, seconds: float, unless: asyncio.Event) -> None:
    """Let time pass, but not past the event."""
    sleeper = asyncio.ensure_future(clock.sleep(seconds))
    waker = asyncio.ensure_future(unless.wait())
    try:
        await asyncio.wait((sleeper, waker), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeper.cancel()
        waker.cancel()
