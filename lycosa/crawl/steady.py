"""Tasks that end by themselves, also when the event loop is shut down.

`asyncio.run` cancels all running tasks when its coroutine has returned, once, and waits for them. For a crawl that
would be a stop in the middle of a commit. A steady task treats the cancellation as a request: it calls `asked` and
continues to its end. It must not use `asyncio.timeout`, which works by cancelling the task it is in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class SteadyTask(asyncio.Task[T]):
    """A task that cannot be cancelled."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], asked: Callable[[], object] | None = None) -> None:
        self._asked = asked
        super().__init__(coroutine, loop=asyncio.get_running_loop())

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask the task to end; it is never cancelled."""
        if self._asked is not None and not self.done():
            self._asked()
        return False
