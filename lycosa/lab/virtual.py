"""Virtual time for a whole agent: an event loop whose clock jumps to the next event that is due.

    result = run(lambda clock: crawl(clock))

Nothing waits: when no callback is ready the loop's time moves to the earliest timer. Work that the agent gives to
threads runs at once, in the loop's own thread, so a run is a function of its inputs: the same seed gives the
same interleaving, and a crawl of days takes only as long as its computation.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from lycosa.errors import LocalError

T = TypeVar("T")


class _JumpingSelector(selectors.BaseSelector):
    """Never waits: instead of waiting it tells the loop to jump."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        self._real = selectors.DefaultSelector()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise LocalError("virtual time stands still: every task waits for something that never comes")
        self._jump(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Any:
        return self._real.get_map()

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.get_key(fileobj)

    def close(self) -> None:
        self._real.close()


class _InlineExecutor(ThreadPoolExecutor):
    """Runs submitted work immediately."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time."""

    def __init__(self, start: float = 0.0) -> None:
        self._virtual = start
        super().__init__(_JumpingSelector(self._advance))
        self._clock_resolution = _grain(start)
        self.set_default_executor(_InlineExecutor(1))

    def time(self) -> float:
        return self._virtual

    def _advance(self, seconds: float) -> None:
        # Slightly more than asked, or rounding may leave the timer in the future for ever.
        self._virtual += seconds + _grain(self._virtual + seconds)
        self._clock_resolution = _grain(self._virtual)


def _grain(at: float) -> float:
    """How near to a time timers count as due: after 194 days the next number is more than a nanosecond away."""
    return max(1e-9, math.ulp(at))


class VirtualClock:
    """The clock of a `VirtualLoop`; wall time begins at `wall`."""

    def __init__(self, loop: VirtualLoop, wall: float = 1_700_000_000.0) -> None:
        self._loop = loop
        self._wall = wall

    def wall(self) -> float:
        return self._wall + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run(
    main: Callable[[VirtualClock], Awaitable[T]], start: float = 0.0, loop: VirtualLoop | None = None
) -> T:
    """Run `main` to its end on virtual time, beginning at `start` seconds; on the loop given, if any."""
    loop = loop or VirtualLoop(start)
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(_ensure(main(VirtualClock(loop))))
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()


async def _ensure(awaitable: Awaitable[T]) -> T:
    return await awaitable
