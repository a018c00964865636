"""The engine in one process: plain data structures, and a simulated network between them and their clients.

`MemoryServers` is what servers keep: streams, keys, who answers. It changes at once and never errs, so it is
the oracle of the contract suite. `MemoryEngine` is one client's access to it. Between the two lies a network; an
injected `Network` decides the `Fate` of each call:

    there   seconds until the call arrives and takes effect; None: it never does (lost, or cut off)
    back    seconds until the answer arrives; None: never, although the call has taken effect
    twice   the call arrives, and takes effect, two times; the second time `again` seconds after the first

A call whose answer does not arrive within its deadline is `Unavailable` at the deadline, by the client's own clock;
it may take effect later, when the client no longer waits for it. Readings and watches poll the servers, each poll
with a fate of its own; so they may be late or silent, but keep their order, as the protocol demands.

All waiting goes through the client's `Clock`. With a virtual clock and a `Network` drawn from a seed, every event
is a function of the seed.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from lycosa.clock import Clock
from lycosa.engine.client import ClientBucket, ClientStream
from lycosa.engine.kept import KeptCrawl
from lycosa.engine.protocol import StreamPlan, Unavailable

T = TypeVar("T")
_AGAIN = 0.1


class Fate(NamedTuple):
    """What happens to a call on its way; see the module."""

    there: float | None = 0.0
    back: float | None = 0.0
    twice: bool = False
    again: float = 0.0


_AT_ONCE = Fate()


class Network(Protocol):
    """Decides the fate of every call."""

    def fate(self, client: str, to: str) -> Fate:
        """The fate of a call by `client` to the stream, key or subject named `to`."""
        ...


class PerfectNetwork:
    """Everything arrives at once."""

    def fate(self, client: str, to: str) -> Fate:
        return Fate()


class MemoryServers:
    """The servers' state, which outlives clients."""

    def __init__(self) -> None:
        self._crawls: dict[str, KeptCrawl] = {}
        self._answering: dict[tuple[str, str], list[MemoryAnswering]] = {}
        self._travelling: set[asyncio.Task[Any]] = set()
        self._waiting: dict[tuple[str, str], list[tuple[asyncio.Future[None], Callable[[], object]]]] = {}
        self._context = contextvars.copy_context()

    def crawl(self, name: str) -> KeptCrawl:
        return self._crawls.setdefault(name, KeptCrawl())

    def answering(self, crawl: str, subject: str) -> list[MemoryAnswering]:
        """The clients that answer for a subject."""
        return self._answering.setdefault((crawl, subject), [])

    def hang_up(self, line: _Line) -> None:
        """A client no longer answers."""
        for answering in self._answering.values():
            answering[:] = [each for each in answering if each.line is not line]

    def changed(self, crawl: str, of: str) -> None:
        """A stream was written to, or a key (""): waiting calls that now find something are woken."""
        waiting = self._waiting.get((crawl, of), [])
        for change, look in waiting:
            if not change.done() and look():
                change.set_result(None)
        waiting[:] = [row for row in waiting if not row[0].done()]

    def change(self, crawl: str, of: str, look: Callable[[], object]) -> asyncio.Future[None]:
        """Done at the first change after which `look` finds something; or when the caller completes it."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault((crawl, of), [])
        waiting[:] = [row for row in waiting if not row[0].done()]
        waiting.append((change, look))
        return change

    def start(self, travel: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a call, which arrives even if its sender is cancelled."""
        task = asyncio.get_running_loop().create_task(travel, context=self._context)  # not the sender's
        self._travelling.add(task)
        task.add_done_callback(self._travelling.discard)
        return task


class _Line:
    """A client's connection to the servers; implements `lycosa.engine.client.Line`."""

    patience = 2.0

    def __init__(
        self, servers: MemoryServers, crawl: str, client: str, clock: Clock, network: Network
    ) -> None:
        self.servers = servers
        self.crawl = crawl
        self.clock = clock
        self._client = client
        self._network = network
        self.closed = False

    @property
    def kept(self) -> KeptCrawl:
        return self.servers.crawl(self.crawl)

    async def call(self, to: str, seconds: float, act: Callable[[], T]) -> T | Unavailable:
        """Have `act` executed by the servers."""
        fate = self._network.fate(self._client, to)
        if self.closed:
            fate = Fate(None)
        if fate.there is None:
            return await self.silence(to, seconds)
        if fate == _AT_ONCE:
            await asyncio.sleep(0)
            return act()
        there = fate.there

        async def travel() -> T:
            await self.clock.sleep(there)
            answer = act()
            if fate.twice and fate.again:
                self.servers.start(once_more())
            elif fate.twice:
                act()
            return answer

        async def once_more() -> None:
            await self.clock.sleep(fate.again)
            act()

        arriving = self.servers.start(travel())
        if fate.back is None or there + fate.back > seconds:
            return await self.silence(to, seconds)
        answer = await asyncio.shield(arriving)
        await self.clock.sleep(fate.back)
        return answer

    async def do(self, word: str, to: str, *more: Any, seconds: float) -> Any:
        def act() -> Any:
            answer = self.kept.act(word, to, *more)
            if word in ("append", "set"):
                self.servers.changed(self.crawl, to if word == "append" else "")
            return answer

        return await self.call(to, seconds, act)

    async def wait(self, word: str, to: str, *more: Any, seconds: float) -> Any:
        of = to if word == "read" else ""
        return await self.news(of, to, seconds, lambda: self.kept.act(word, to, *more))

    def hears(self, subject: str) -> bool:
        """Whether a question reaches this client."""
        return not self.closed and self._network.fate(self._client, subject).there is not None

    async def silence(self, to: str, seconds: float) -> Unavailable:
        await self.clock.sleep(seconds)
        return Unavailable(f"{to}: no answer")

    async def news(
        self, of: str, to: str, seconds: float, look: Callable[[], list[T]]
    ) -> list[T] | Unavailable:
        """What `look` finds, as soon as it finds anything; asked again while the network is cut."""
        until = self.clock.monotonic() + seconds
        while True:
            left = until - self.clock.monotonic()
            if left > 0 and not look():
                await self._wait(of, left, look)
                continue
            fate = self._network.fate(self._client, to)
            if fate.there is None or fate.back is None or self.closed:
                if left <= _AGAIN:
                    await self.clock.sleep(max(left, 0.0))
                    return Unavailable(f"{to}: no answer")
                await self.clock.sleep(_AGAIN)
                continue
            found = look()
            if found:
                await self.clock.sleep(fate.there + fate.back)
            return found

    async def _wait(self, of: str, seconds: float, look: Callable[[], object]) -> None:
        """Wait until something is found, or the time is over."""
        change = self.servers.change(self.crawl, of, look)
        sleeping = asyncio.ensure_future(self.clock.sleep(seconds))

        def over(_: object) -> None:
            if not change.done():
                change.set_result(None)

        sleeping.add_done_callback(over)
        try:
            await change
        finally:
            sleeping.cancel()


class MemoryAnswering:
    """See `lycosa.engine.protocol.Answering`."""

    def __init__(self, line: _Line, subject: str, answer: Callable[[bytes], bytes | None]) -> None:
        self.line = line
        self.answer = answer
        self._subject = subject

    async def stop(self) -> None:
        self.leave()

    def leave(self) -> None:
        answering = self.line.servers.answering(self.line.crawl, self._subject)
        if self in answering:
            answering.remove(self)


class MemoryRequests:
    """See `lycosa.engine.protocol.Requests`."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    async def ask(self, subject: str, data: bytes, seconds: float) -> bytes | Unavailable:
        if not self._there(subject) and not self._line.closed:
            return Unavailable(f"{subject}: nobody answers")  # the servers say so at once
        answer = await self._line.call(subject, seconds, lambda: self._say(subject, data))
        if answer is None:
            return await self._line.silence(subject, seconds)
        return answer

    async def tell(self, subject: str, data: bytes) -> None:
        await self._line.call(subject, 0.0, lambda: self._say(subject, data))

    def _say(self, subject: str, data: bytes) -> bytes | None:
        said = [each.answer(data) for each in list(self._there(subject)) if each.line.hears(subject)]
        return next((each for each in said if each is not None), None)

    def _there(self, subject: str) -> list[MemoryAnswering]:
        return self._line.servers.answering(self._line.crawl, subject)

    async def answer(
        self, subject: str, answer: Callable[[bytes], bytes | None]
    ) -> MemoryAnswering | Unavailable:
        made = MemoryAnswering(self._line, subject, answer)
        self._there(subject).append(made)
        return made


class MemoryEngine:
    """One client of `MemoryServers`."""

    def __init__(
        self,
        servers: MemoryServers,
        crawl: str,
        clock: Clock,
        *,
        client: str = "client",
        network: Network | None = None,
    ) -> None:
        self._line = _Line(servers, crawl, client, clock, network or PerfectNetwork())
        self.crawl = crawl
        self.bucket = ClientBucket(self._line)
        self.requests = MemoryRequests(self._line)
        self.denied = ""

    def stream(self, name: str) -> ClientStream:
        return ClientStream(self._line, name)

    async def create(self, streams: Sequence[StreamPlan], replicas: int) -> Unavailable | None:
        self._line.kept.create(streams)
        return None

    async def remove(self, streams: Sequence[str]) -> Unavailable | None:
        self._line.kept.remove(streams)
        return None

    async def close(self) -> None:
        self.vanish()

    def vanish(self) -> None:
        """The client is gone, whatever it was about to do: it answers no requests, and nothing it sends arrives."""
        self._line.closed = True
        self._line.servers.hang_up(self._line)
