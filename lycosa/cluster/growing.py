"""A crawl that begins with one agent, in this process, and continues with several when there is work for them.

Most crawls are small, or wait for their sites: one agent is enough for them, and each further one would cost a
process of some 200 MB and seconds at the start. There is work for more when one agent has kept a core nearly busy
for some seconds, and many pages of several shards were pending all that time (`Need`).

Then the first agent ends as at any clean stop (fetches under way may finish, everything is saved), and several
agents recover what it saved: the same as stopping and restarting the command, except that the lock is kept, and
pages and time are counted on. The number of agents does not change again in the run.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from lycosa.crawl.acts import Act
from lycosa.crawl.agent import Agent, End
from lycosa.crawl.api import Running
from lycosa.crawl.status import Status

ENOUGH = 10_000
"""Pending pages below which more agents do not pay: one agent fetches as many in some twenty seconds."""
_SHARE = 0.8
_SECONDS = 5.0
_LOOK = 0.5


class Need:
    """Decides from repeated samples whether there is work for more than one agent."""

    def __init__(self, enough: int = ENOUGH, share: float = _SHARE, seconds: float = _SECONDS) -> None:
        self._enough = enough
        self._share = share
        self._seconds = seconds
        self._looks: deque[tuple[float, float]] = deque()

    def judge(self, now: float, cpu: float, pending: int, shards: int) -> bool:
        """`cpu`: core seconds used so far; `pending`: pages that may be fetched now, in `shards` shards."""
        if pending < self._enough or shards < 2:
            self._looks.clear()
            return False
        looks = self._looks
        looks.append((now, cpu))
        while len(looks) > 1 and now - looks[1][0] >= self._seconds:
            looks.popleft()
        began, used = looks[0]
        return now - began >= self._seconds and cpu - used >= self._share * (now - began)


class Growing:
    """One agent, then several; implements `Running` throughout."""

    def __init__(
        self,
        agent: Agent,
        grow: Callable[[Status], Awaitable[Running]],
        need: Need,
    ) -> None:
        """`grow` opens the crawl again, with several agents; it is given the status that the first one left."""
        self._first: Agent = agent
        self._running: Running | None = agent
        self._grow = grow
        self._need = need
        self._refused = agent.refused_seeds
        self.underway = agent.underway
        self._growing = False
        self._stopped = False
        self._paused = False
        self._left: Status | None = None
        """The status that the first agent left, shown until all of the others have reported."""

    async def run(self) -> End:
        """Crawl until the end, with one agent or several."""
        watcher = asyncio.create_task(self._watch(self._first))
        try:
            end = await self._first.run()
        finally:
            watcher.cancel()
        if end is not End.STOPPED or not self._goes_on():
            return end
        self._left = self.status()
        self._running = None
        del self._first
        gc.collect()  # the agents to come need the memory
        self._running = await self._grow(self._left)
        if self._paused:
            self._running.pause()
        if self._stopped:
            self._running.stop()
        return await self._running.run()

    def _goes_on(self) -> bool:
        return self._growing and not self._stopped

    async def _watch(self, agent: Agent) -> None:
        """Return when there is work for more agents."""
        while True:
            pending = [shard.frontier.pending for shard in agent.shards]
            limit, pages = agent.options.limits.pages, agent.totals().pages
            left = min(sum(pending), limit - pages) if limit else sum(pending)
            cpu = agent.read_meters()["agent.cpu"]
            if self._need.judge(time.monotonic(), cpu, left, sum(map(bool, pending))) and not self._paused:
                self._growing = True
                agent.stop()
                return
            await asyncio.sleep(_LOOK)

    # -- called from outside

    def stop(self) -> bool:
        first = not self._stopped
        self._stopped = True
        if self._running is not None:
            self._running.stop()
        return first

    def pause(self) -> None:
        self._paused = True
        if self._running is not None:
            self._running.pause()

    def go_on(self) -> None:
        self._paused = False
        if self._running is not None:
            self._running.go_on()

    async def act(self, act: Act) -> str | None:
        return None if self._running is None else await self._running.act(act)

    @property
    def refused_seeds(self) -> list[tuple[str, str]]:
        return self._refused

    def read_meters(self) -> dict[str, float]:
        return self.status().meters if self._running is None else self._running.read_meters()

    def status(self, state: str = "running") -> Status:
        found = None if self._running is None else self._running.status(state)
        if found is not None and (self._left is None or found.pages >= self._left.pages):
            return found
        assert self._left is not None
        return msgspec.structs.replace(self._left, at=time.time(), state=state)
