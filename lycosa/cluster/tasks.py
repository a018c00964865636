"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

_AGAIN = 0.5


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for them; again and again, if need be.

    `asyncio.wait_for` forgets a cancellation (before Python 3.12) that comes at the moment when what it waits for
    is done: a task that loops for ever would then go on, and whoever waits for its end with it.
    """
    left = [task for task in tasks if not task.done()]  # in order: a simulation repeats it
    while left:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=_AGAIN)
        left = [task for task in left if not task.done()]
