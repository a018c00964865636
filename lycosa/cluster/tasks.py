"""Ending asyncio tasks reliably."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

_AGAIN = 0.5


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for them, repeatedly if needed.

    Before Python 3.12, `asyncio.wait_for` loses a cancellation that comes at the moment when the awaited future
    completes: a task with an endless loop would then continue, and block those that wait for its end.
    """
    left = [task for task in tasks if not task.done()]  # in order, so that a simulation is repeatable
    while left:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=_AGAIN)
        left = [task for task in left if not task.done()]
