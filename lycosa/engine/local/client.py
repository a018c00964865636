"""A client of one machine's engine: see the package."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

from lycosa.engine.client import ClientBucket, ClientStream
from lycosa.engine.local.wire import Frames
from lycosa.engine.protocol import Absent, Conflict, Full, StreamPlan, Unavailable

_ASKED = 5.0
_LATE = 5.0
"""Seconds after a waiting call's time limit at which the server is given up."""
_OUTCOMES: dict[str, type[Unavailable | Conflict | Full]] = {
    each.__name__: each for each in (Unavailable, Absent, Conflict, Full)
}


class _Line(Frames):
    """A client's connection; implements `lycosa.engine.client.Line`."""

    patience = _ASKED

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._calls: dict[int, tuple[asyncio.Future[Any], asyncio.TimerHandle]] = {}
        self.answering: dict[str, list[LocalAnswering]] = {}
        self.gone = asyncio.Event()

    async def do(self, word: str, to: str, *more: Any, seconds: float) -> Any:
        return await self.call(word, to, *more, seconds=seconds)

    async def wait(self, word: str, to: str, *more: Any, seconds: float) -> Any:
        return await self.call(word, to, *more, seconds, seconds=seconds + _LATE)

    async def call(self, word: str, *more: Any, seconds: float = _ASKED) -> Any:
        """Have a command executed; its answer, or the outcome in its place."""
        if self.closed:
            await asyncio.sleep(0)  # a caller that asks in a loop must not block the event loop
            return Unavailable("the engine is closed")
        loop = asyncio.get_running_loop()
        self._number += 1
        number = self._number
        answer = loop.create_future()
        timer = loop.call_later(seconds, self._give_up, number, word)
        self._calls[number] = (answer, timer)
        self.say(number, word, more)
        try:
            return await answer
        finally:
            if self._calls.pop(number, None) is not None:  # the waiting caller was cancelled
                timer.cancel()

    def tell(self, word: str, *more: Any) -> None:
        self.say(0, word, more)

    def heard(self, number: int, word: str, more: Any) -> None:
        if number < 0:
            self.tell("said", -number, self.answer_of(word, more))
            return
        self._end(number, _OUTCOMES[word](more) if word else more)

    def answer_of(self, subject: str, data: bytes) -> bytes | None:
        """This client's own answer to a question."""
        said = [each.answer(data) for each in list(self.answering.get(subject, []))]
        return next((each for each in said if each is not None), None)

    def _end(self, number: int, answer: Any) -> None:
        call = self._calls.pop(number, None)
        if call is not None:
            call[1].cancel()
            if not call[0].done():
                call[0].set_result(answer)

    def _give_up(self, number: int, word: str) -> None:
        self._end(number, Unavailable(f"{word}: no answer"))
        if word == "ask":
            self.tell("unasked", number)

    def hang_up(self) -> None:
        super().hang_up()
        self.gone.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.gone.set()
        for number in list(self._calls):
            self._end(number, Unavailable("the engine is gone"))


class LocalAnswering:
    """See `lycosa.engine.protocol.Answering`."""

    def __init__(self, line: _Line, subject: str, answer: Callable[[bytes], bytes | None]) -> None:
        self.answer = answer
        self._line = line
        self._subject = subject

    async def stop(self) -> None:
        there = self._line.answering.get(self._subject, [])
        if self in there:
            there.remove(self)
            if not there:
                await self._line.call("silent", self._subject)


class LocalRequests:
    """See `lycosa.engine.protocol.Requests`."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    async def ask(self, subject: str, data: bytes, seconds: float) -> bytes | Unavailable:
        if (own := self._line.answer_of(subject, data)) is not None:
            return own  # others that answer are not waited for
        answer: bytes | Unavailable = await self._line.call("ask", subject, data, seconds=seconds)
        return answer

    async def tell(self, subject: str, data: bytes) -> None:
        self._line.tell("ask", subject, data)

    async def answer(
        self, subject: str, answer: Callable[[bytes], bytes | None]
    ) -> LocalAnswering | Unavailable:
        made = LocalAnswering(self._line, subject, answer)
        there = self._line.answering.setdefault(subject, [])
        there.append(made)
        if len(there) == 1 and isinstance(away := await self._line.call("answer", subject), Unavailable):
            there.remove(made)
            return away
        return made


class LocalEngine:
    """One client of a `LocalServer`."""

    def __init__(self, line: _Line, crawl: str) -> None:
        self._line = line
        self.crawl = crawl
        self.bucket = ClientBucket(line)
        self.requests = LocalRequests(line)
        self.denied = ""

    @classmethod
    async def open(cls, side: socket.socket, crawl: str) -> LocalEngine:
        """`side`: a socket that `LocalServer.connect` returned."""
        side.setblocking(False)
        _, line = await asyncio.get_running_loop().create_connection(_Line, sock=side)
        return cls(line, crawl)

    @property
    def gone(self) -> asyncio.Event:
        """Set when the server is no longer there, or the connection is closed."""
        return self._line.gone

    def stream(self, name: str) -> ClientStream:
        return ClientStream(self._line, name)

    async def create(self, streams: Sequence[StreamPlan], replicas: int) -> Unavailable | None:
        answer: Unavailable | None = await self._line.call("create", list(streams))
        return answer

    async def remove(self, streams: Sequence[str]) -> Unavailable | None:
        answer: Unavailable | None = await self._line.call("remove", list(streams))
        return answer

    async def close(self) -> None:
        self._line.hang_up()
