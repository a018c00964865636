"""An event loop on virtual time that knows the owner of each callback: an agent may be stopped, or end, at any.

Every callback belongs to the agent in whose context it was made (`AGENT`), and to none otherwise: servers and the
web go on whatever happens to agents. A *halted* agent runs nothing; what was due meanwhile runs when it
continues, as after SIGSTOP. With `end_at` an agent ends instead of its n-th callback from now: at any
`await`, not only at those that look dangerous.

Work that an agent gives to a thread takes the time that `threads` says: before it is done, or after, when it is
done but the agent does not know yet. The rest of the agent goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio import events
from collections.abc import Callable
from typing import Any, NamedTuple

from lycosa.errors import LocalError
from lycosa.lab.virtual import VirtualLoop

AGENT = contextvars.ContextVar("agent", default="")


_SPINS = 200_000
"""Iterations of the loop at one moment of virtual time, after which it is considered stuck."""


class Delay(NamedTuple):
    """The delays of a thread's work: seconds before it is done, and after that until its result is known."""

    before: float = 0.0
    after: float = 0.0


class AgentLoop(VirtualLoop):
    """See the module's text."""

    def __init__(self) -> None:
        self._parked: dict[str, list[events.Handle]] = {}
        self._ends: dict[str, tuple[int, Callable[[], None]]] = {}
        self.threads: Callable[[str], Delay] = lambda agent: Delay()
        self._timers: list[tuple[float, int, events.TimerHandle]] = []
        self._count = 0
        self._spins = 0
        super().__init__()

    # -- whose turn it is

    def admits(self, agent: str, handle: events.Handle) -> bool:
        """Whether an agent's callback may run now; if not, it is kept for later."""
        if agent in self._parked:
            self._parked[agent].append(handle)
            return False
        if agent in self._ends:
            left, end = self._ends[agent]
            if left > 0:
                self._ends[agent] = (left - 1, end)
                return True
            del self._ends[agent]
            self.halt(agent)
            self._parked[agent].append(handle)
            end()
            return False
        return True

    def halt(self, agent: str) -> None:
        """Stop an agent: run none of its callbacks."""
        self._parked.setdefault(agent, [])

    def is_halted(self, agent: str) -> bool:
        return agent in self._parked

    def go_on(self, agent: str) -> None:
        """Continue an agent, with what was due meanwhile first."""
        for handle in self._parked.pop(agent, []):
            self._ready.append(handle)  # type: ignore[attr-defined]

    def end_at(self, agent: str, callbacks: int, end: Callable[[], None]) -> None:
        """End an agent for good after so many callbacks, and call `end` then."""
        self._ends[agent] = (callbacks, end)

    # -- the event loop

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> events.TimerHandle:
        timer = events.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, timer))
        return timer

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """Does nothing: a cancelled timer is skipped when its time comes."""

    def _run_once(self) -> None:
        """One iteration of the loop: what is ready now. Sockets are not polled, since there are none."""
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if ready or self._stopping:  # type: ignore[attr-defined]
            self._spins += 1
            if self._spins > _SPINS:
                self._spins = 0
                raise LocalError(
                    "virtual time stands still: some task goes on and on without waiting for anything"
                )
        elif not timers:
            raise LocalError("virtual time stands still: every task waits for something that never comes")
        else:
            self._spins = 0
            self._virtual = max(self._virtual, timers[0][0])
        now = self._virtual
        while timers and timers[0][0] <= now:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            agent = handle._context.get(AGENT)
            if not agent or self.admits(agent, handle):
                handle._run()

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Do it at once, or after the time that threads take."""
        future: asyncio.Future[Any] = self.create_future()
        delay = self.threads(AGENT.get())

        def done(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        def work() -> None:
            try:
                result, error = func(*args), None
            except Exception as failure:
                result, error = None, failure
            if delay.after:
                self.call_later(delay.after, done, result, error)
            else:
                done(result, error)

        if delay.before:
            self.call_later(delay.before, work)
        else:
            work()
        return future
