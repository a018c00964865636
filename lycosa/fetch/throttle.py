"""The bandwidth cap: a token bucket that may go into debt.

Bytes are counted as they arrive, when it is too late to refuse them, so the bucket goes below zero and new
transfers wait until it is out of debt. Over any span the bytes of transfers started in it stay below
`rate * span + burst` plus what the transfers in flight at its beginning still owe; the fetcher itself holds a
single transfer to the rate. Waiting transfers are admitted one after the other, in order, each after a look at
the bucket, so a paid-off debt does not release them all at once.
"""

from __future__ import annotations

import asyncio

from lycosa.clock import Clock


class Throttle:
    """Admits starts while fewer than `rate` bytes per second are spent."""

    def __init__(self, rate: int, clock: Clock, burst: int = 0) -> None:
        if rate <= 0:
            raise ValueError("a throttle needs a rate above zero")
        self._rate = rate
        self._burst = burst or rate
        self._clock = clock
        self._level = float(self._burst)
        self._at = clock.monotonic()
        self._turn = asyncio.Lock()

    def spend(self, size: int) -> None:
        """Count bytes that were received."""
        self._level -= size

    def wait(self) -> float:
        """Seconds until a start is admitted; 0 if it is now."""
        now = self._clock.monotonic()
        self._level = min(self._level + (now - self._at) * self._rate, float(self._burst))
        self._at = now
        # Exactly out of debt is out of debt; the margin keeps rounding from asking for a zero-length sleep.
        return 0.0 if self._level > -1e-6 else -self._level / self._rate

    async def admit(self) -> None:
        """Return when a transfer may start."""
        async with self._turn:
            while (wait := self.wait()) > 0:
                await self._clock.sleep(wait)
