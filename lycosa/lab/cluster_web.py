"""The web that simulated agents crawl: its servers, which note every request, and the agents' clients.

Servers belong to no agent: a request is answered, even if its sender is gone; but the connections of a killed
process are closed at once.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from lycosa.clock import Clock
from lycosa.fetch.protocol import Failure, FailureKind, Request, Response
from lycosa.lab.network import Reply, Script, answer, at_once
from lycosa.lab.simulate_loop import AgentLoop
from lycosa.lab.virtual import VirtualClock
from lycosa.records import Timing

_CONNECT = 0.01


class SimulatedWeb(NamedTuple):
    """The web that is crawled."""

    script: Script
    names: Mapping[str, str]
    """Addresses by host."""
    seeds: Sequence[str]
    latency: float = 0.05
    slow: Mapping[str, float] = {}
    """Seconds that the answer for a URL takes, where it takes longer."""
    spread: bool = False
    """Whether every agent resolves a host to another address."""
    serve: Callable[[str, Request], Awaitable[Reply | Failure]] | None = None
    """Answers an agent's request, taking its own time, instead of `script`, `latency` and `slow`."""

    def names_for(self, agent: str) -> Mapping[str, str]:
        """What an agent's resolver answers."""
        if not self.spread:
            return self.names
        net = 2 + int(agent.removeprefix("agent")) % 200
        return {host: address.replace("127.1.", f"127.{net}.") for host, address in self.names.items()}


class Asked(NamedTuple):
    """A request as the web saw it; times in seconds of the run."""

    agent: str
    start: float
    end: float
    url: str
    address: str
    status: int = 0
    """0: no answer was given, or the client did not wait for it."""
    wait: float = 0.0
    """Seconds that the answer told the client to stay away."""
    run: str = ""
    """Which run of the agent."""
    broken_off: bool = False
    """The client did not wait for the answer, or ended without reading it."""


class Web:
    """The servers of the web, which note every request; they belong to no agent."""

    def __init__(self, web: SimulatedWeb, clock: VirtualClock, loop: AgentLoop) -> None:
        self.web = web
        self.clock = clock
        self.seen: list[Asked] = []
        self._loop = loop
        self._before: Counter[str] = Counter()
        self._context = contextvars.copy_context()

    def ask(self, agent: str, run: str, request: Request) -> asyncio.Task[Reply | Failure]:
        """Called when a request arrives."""
        return self._loop.create_task(self._serve(agent, run, request), context=self._context)

    def note_unread(self, run: str, url: str) -> None:
        """The last answer for a URL arrived, but the client ended without reading it, as if stopped."""
        row = max(row for row, asked in enumerate(self.seen) if (asked.run, asked.url) == (run, url))
        self.seen[row] = self.seen[row]._replace(status=0, wait=0.0, broken_off=True)

    async def _serve(self, agent: str, run: str, request: Request) -> Reply | Failure:
        start = self.clock.monotonic()
        reply: Reply | Failure | None = None
        try:
            if self.web.serve is not None:
                reply = await self.web.serve(agent, request)
                return reply
            await self.clock.sleep(self.web.slow.get(request.url, self.web.latency))
            before = self._before[request.url]
            self._before[request.url] += 1
            reply = self.web.script(request, before)
            return reply
        finally:
            status = reply.status if isinstance(reply, Reply) else 0
            wait = 0.0
            if isinstance(reply, Reply):
                wait = float(dict(reply.headers).get("Retry-After", 0.0))
            end = self.clock.monotonic()
            self.seen.append(
                Asked(agent, start, end, request.url, request.address, status, wait, run, reply is None)
            )


class WebLine:
    """An agent's client to the web; `lycosa.fetch.protocol.Fetcher`."""

    needs_address = True

    def __init__(self, web: Web, clock: Clock, agent: str, run: str) -> None:
        self._web = web
        self._clock = clock
        self._agent = agent
        self._run = run
        self._open: dict[asyncio.Task[Reply | Failure], None] = {}
        self.off = False

    @property
    def waits(self) -> bool:
        """Whether an answer is under way."""
        return bool(self._open)

    async def fetch(self, request: Request) -> Response | Failure:
        if request.may_send is not None and not request.may_send():
            return Failure(FailureKind.LATE, "it may not be asked any more")
        start = self._clock.monotonic()
        if not request.reuse:
            await self._clock.sleep(_CONNECT)
            if request.may_send is not None and not request.may_send():
                return Failure(FailureKind.LATE, "it may not be asked any more")
        if self.off:
            await asyncio.Event().wait()  # no answer, until the client is cancelled
        serving = self._web.ask(self._agent, self._run, request)
        self._open[serving] = None
        try:
            reply = await asyncio.shield(serving)
        except asyncio.CancelledError:
            if serving.done():
                self._web.note_unread(self._run, request.url)
            raise
        finally:
            serving.cancel()  # a client that stops waiting closes the connection
            self._open.pop(serving, None)
        seconds = self._clock.monotonic() - start
        if isinstance(reply, Failure):
            total = int(seconds * 1000)
            return msgspec.structs.replace(reply, timing=Timing(0, 0, total, total))
        return answer(request, reply, at_once(seconds))

    def hang_up(self) -> None:
        """Close the connections: the process is gone."""
        self.off = True
        for serving in self._open:
            serving.cancel()

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""
