"""The engine of one machine: what one run of a crawl has, kept by its supervisor; no service, no files.

`LocalServer` keeps streams and keys in memory (as `memory` does) in a thread with an event loop of its own, so that
nothing which its process does holds up the agents. Every client has one connection to it, one side of a pair of
sockets: `connect` makes the pair, and the other side may be handed down to another process.

    frame    := length:u32le body
    body     := msgpack [id, operation, arguments]       client to server; each is answered, but for id 0
                msgpack [id, outcome, value]             its answer; outcome "" is done
                msgpack [-n, subject, data]              server to client: a question, answered by
                msgpack [0, "said", [n, data or nil]]

**What it promises.** All that `protocol` says, for as long as the server lives, and that is one run of the crawl. A
client that dies takes nothing with it but its answering; the server sees it at once, by the end of the connection.
When the server ends, everything in it is gone, and the next one begins empty: what agents of one machine tell each
other is in their logs, and each run begins from there. Only sequences must not be used again, since logs name them:
a server is told where to begin (`after`).

Streams are bounded (`StreamPlan.bytes`), so the memory is. What is said in one step of an event loop goes out in
one piece, and whoever waits for something is answered when all of a piece was heard: links go in batches, and a
batch costs about as much as a message. A client that is asked by itself answers without the server.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from lycosa.engine.kept import KeptCrawl, KeptStream
from lycosa.engine.protocol import Absent, Conflict, Ends, Entry, Full, Message, StreamPlan, Unavailable

_LENGTH = struct.Struct("<I")
_ASKED = 5.0
_LATE = 5.0
"""Seconds after the end of a waiting call when the server is given up."""
_OUTCOMES: dict[str, type[Unavailable | Conflict | Full]] = {
    each.__name__: each for each in (Unavailable, Absent, Conflict, Full)
}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class _Frames(asyncio.Protocol):
    """One side of a connection: whole frames in, whole frames out."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._out: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at = 0
        while at + 4 <= len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            if at + 4 + length > len(data):
                break
            self.heard(*_decode(memoryview(data)[at + 4 : at + 4 + length]))
            at += 4 + length
        self._rest = data[at:]

    def heard(self, number: int, word: str, more: Any) -> None:
        """A frame has come."""
        raise NotImplementedError

    def say(self, *frame: Any) -> None:
        if not self.closed:
            if not self._out:
                asyncio.get_running_loop().call_soon(self._flush)
            body = _encode(frame)
            self._out += (_LENGTH.pack(len(body)), body)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and out and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def hang_up(self) -> None:
        self._flush()
        if self._transport is not None:
            self._transport.close()

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()


# -- the server


class _Waiting:
    """A call that waits for something to change."""

    def __init__(self, client: _Client, number: int, look: Callable[[], list[Any]], seconds: float) -> None:
        self.client = client
        self._number = number
        self._look = look
        self.over = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self.answer, True)

    def answer(self, late: bool = False) -> bool:
        """Answer if anything is found, or if it is late; whether that is done."""
        if not self.over and ((found := self._look()) or late):
            self.client.say(self._number, "", found)
            self.end()
        return self.over

    def end(self) -> None:
        self.over = True
        self._timer.cancel()


class _Client(_Frames):
    """A client as the server has it."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__()
        self._server = server

    def heard(self, number: int, word: str, more: Any) -> None:
        self._server.act(self, number, word, more)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.forget(self)


class _Asked:
    """A question that was passed on, and who has not answered it yet."""

    def __init__(self, asker: _Client, number: int, left: list[_Client]) -> None:
        self.asker = asker
        self.number = number
        self.left = left


class LocalServer:
    """Keeps what one run of a crawl has; see the module."""

    def __init__(self, after: int = 0) -> None:
        """`after`: sequences up to this one were used in earlier runs."""
        self._kept = KeptCrawl(after)
        self._waiting: dict[str, list[_Waiting]] = {}  # by stream; "" the keys
        self._news: set[str] = set()
        self._answering: dict[str, list[_Client]] = {}
        self._asked: dict[int, _Asked] = {}
        self._questions = 0
        self._clients: set[_Client] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def connect(self) -> socket.socket:
        """A connection: the client's side of it."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        asyncio.run_coroutine_threadsafe(self._adopt(ours), self._loop)
        return theirs

    async def _adopt(self, ours: socket.socket) -> None:
        _, client = await self._loop.create_connection(lambda: _Client(self), sock=ours)
        self._clients.add(client)

    def close(self) -> None:
        """End all connections, and forget everything."""

        def end() -> None:
            for client in self._clients:
                client.hang_up()
            self._loop.call_soon(self._loop.stop)  # after the sockets are closed

        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(end)
            self._thread.join()

    # -- on the loop of the server

    def act(self, client: _Client, number: int, word: str, more: list[Any]) -> None:
        """Do what a client wants, and answer."""
        answer = getattr(self, f"_{word}")(client, number, *more)
        if number and answer is not _LATER:
            outcome = type(answer).__name__ if isinstance(answer, Unavailable | Conflict | Full) else ""
            client.say(number, outcome, str(answer) if outcome else answer)

    def forget(self, client: _Client) -> None:
        """A client is gone."""
        self._clients.discard(client)
        for answering in self._answering.values():
            if client in answering:
                answering.remove(client)
        for number, asked in list(self._asked.items()):
            if asked.asker is client:
                del self._asked[number]
            elif client in asked.left:
                self._answered(number, client, None)
                if number in self._asked and not asked.left:
                    del self._asked[number]
                    asked.asker.say(asked.number, "Unavailable", "who was asked is gone")
        for waiting in self._waiting.values():
            for each in waiting:
                if each.client is client:
                    each.end()

    def _changed(self, of: str) -> None:
        if self._waiting.get(of):
            if not self._news:
                self._loop.call_soon(self._tell_news)
            self._news.add(of)

    def _tell_news(self) -> None:
        for of in self._news:
            self._waiting[of] = [each for each in self._waiting[of] if not each.answer()]
        self._news.clear()

    def _wait(
        self, client: _Client, number: int, of: str, look: Callable[[], list[Any]], seconds: float
    ) -> Any:
        if (found := look()) or seconds <= 0:
            return found
        waiting = [each for each in self._waiting.get(of, []) if not each.over]
        self._waiting[of] = [*waiting, _Waiting(client, number, look, seconds)]
        return _LATER

    def _stream(self, name: str) -> KeptStream | Absent:
        return self._kept.streams.get(name) or Absent(f"there is no stream {name}")

    def _append(
        self,
        client: _Client,
        number: int,
        name: str,
        lane: str,
        headers: dict[str, str],
        data: bytes,
        expected: int | None,
    ) -> Any:
        stream = self._stream(name)
        if isinstance(stream, Absent):
            return stream
        answer = stream.append(lane, headers, data, expected)
        if isinstance(answer, int):
            self._changed(name)
        return answer

    def _look(self, client: _Client, number: int, name: str, what: str, of: Any) -> Any:
        stream = self._stream(name)
        if isinstance(stream, Absent):
            return stream
        if what == "at":
            return stream.messages.get(of)
        return stream.newest(of) if what == "newest" else stream.ends

    def _read(self, client: _Client, number: int, name: str, after: int, most: int, seconds: float) -> Any:
        stream = self._stream(name)
        if isinstance(stream, Absent):
            return stream
        return self._wait(client, number, name, lambda: stream.after(after, most), seconds)

    def _purge(self, client: _Client, number: int, name: str, before: int, lane: str | None) -> Any:
        stream = self._stream(name)
        return stream if isinstance(stream, Absent) else stream.purge(before, lane)

    def _key(self, client: _Client, number: int, key: str) -> Any:
        keys = self._keys()
        return keys if isinstance(keys, Absent) else keys.get(key)

    def _keys(self) -> dict[str, Entry] | Absent:
        return Absent("there is no crawl") if self._kept.keys is None else self._kept.keys

    def _set(self, client: _Client, number: int, key: str, value: bytes | None, revision: int | None) -> Any:
        keys = self._keys()
        if isinstance(keys, Absent):
            return keys
        answer = self._kept.set(keys, key, value, revision)
        if isinstance(answer, int):
            self._changed("")
        return answer

    def _all(self, client: _Client, number: int, pattern: str) -> Any:
        keys = self._keys()
        return keys if isinstance(keys, Absent) else self._kept.all(keys, pattern)

    def _watch(self, client: _Client, number: int, pattern: str, revision: int, seconds: float) -> Any:
        keys = self._keys()
        if isinstance(keys, Absent):
            return keys
        return self._wait(client, number, "", lambda: self._kept.since(pattern, revision), seconds)

    def _create(self, client: _Client, number: int, plans: list[list[Any]]) -> None:
        self._kept.create([StreamPlan(*plan) for plan in plans])

    def _remove(self, client: _Client, number: int, names: list[str]) -> None:
        self._kept.remove(names)

    def _answer(self, client: _Client, number: int, subject: str) -> None:
        self._answering.setdefault(subject, []).append(client)

    def _silent(self, client: _Client, number: int, subject: str) -> None:
        if client in self._answering.get(subject, []):
            self._answering[subject].remove(client)

    def _ask(self, client: _Client, number: int, subject: str, data: bytes) -> Any:
        there = list(self._answering.get(subject, []))
        if not there:
            return Unavailable(f"{subject}: nobody answers")
        self._questions += 1
        if number:
            self._asked[self._questions] = _Asked(client, number, list(there))
        for each in there:
            each.say(-self._questions, subject, data)
        return _LATER

    def _said(self, client: _Client, number: int, question: int, data: bytes | None) -> Any:
        self._answered(question, client, data)
        return _LATER

    def _answered(self, question: int, client: _Client, data: bytes | None) -> None:
        asked = self._asked.get(question)
        if asked is None or client not in asked.left:
            return
        asked.left.remove(client)
        if data is not None:
            del self._asked[question]
            asked.asker.say(asked.number, "", data)

    def _unasked(self, client: _Client, number: int, asked: int) -> Any:
        """A client waits for an answer no more."""
        for question, each in list(self._asked.items()):
            if each.asker is client and each.number == asked:
                del self._asked[question]
        return _LATER


_LATER = object()
"""The answer comes later, or none does."""


# -- the client


class _Line(_Frames):
    """A client's connection."""

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._calls: dict[int, tuple[asyncio.Future[Any], asyncio.TimerHandle]] = {}
        self.answering: dict[str, list[LocalAnswering]] = {}
        self.gone = asyncio.Event()

    async def call(self, word: str, *more: Any, seconds: float = _ASKED) -> Any:
        """Have something done; its answer, or the outcome that stands in its place."""
        if self.closed:
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
            if self._calls.pop(number, None) is not None:  # whoever waited was cancelled
                timer.cancel()

    def tell(self, word: str, *more: Any) -> None:
        self.say(0, word, more)

    def heard(self, number: int, word: str, more: Any) -> None:
        if number < 0:
            self.tell("said", -number, self.answer_of(word, more))
            return
        self._end(number, _OUTCOMES[word](more) if word else more)

    def answer_of(self, subject: str, data: bytes) -> bytes | None:
        """What we ourselves answer."""
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

    def connection_lost(self, error: Exception | None) -> None:
        self.gone.set()
        for number in list(self._calls):
            self._end(number, Unavailable("the engine is gone"))


class LocalReading:
    """See `lycosa.engine.protocol.Reading`."""

    def __init__(self, line: _Line, name: str, after: int) -> None:
        self._line = line
        self._name = name
        self.last = after

    async def next(self, seconds: float, most: int = 256) -> list[Message] | Unavailable:
        found = await self._line.call("read", self._name, self.last, most, seconds, seconds=seconds + _LATE)
        if isinstance(found, Unavailable):
            return found
        messages = [Message(*row) for row in found]
        if messages:
            self.last = messages[-1].sequence
        return messages

    async def close(self) -> None:
        """There is nothing to close."""


class LocalStream:
    """See `lycosa.engine.protocol.Stream`."""

    def __init__(self, line: _Line, name: str) -> None:
        self.name = name
        self._line = line

    async def append(
        self,
        data: bytes,
        *,
        lane: str = "",
        headers: Mapping[str, str] | None = None,
        expected: int | None = None,
        seconds: float = 5.0,
    ) -> int | Conflict | Full | Unavailable:
        answer: int | Conflict | Full | Unavailable = await self._line.call(
            "append", self.name, lane, dict(headers or {}), data, expected, seconds=seconds
        )
        return answer

    async def at(self, sequence: int) -> Message | Unavailable | None:
        return _message(await self._line.call("look", self.name, "at", sequence))

    async def newest(self, lane: str) -> Message | Unavailable | None:
        return _message(await self._line.call("look", self.name, "newest", lane))

    async def ends(self) -> Ends | Unavailable:
        found = await self._line.call("look", self.name, "ends", None)
        return found if isinstance(found, Unavailable) else Ends(*found)

    def read(self, after: int = 0) -> LocalReading:
        return LocalReading(self._line, self.name, after)

    async def purge(self, before: int, lane: str | None = None) -> Unavailable | None:
        answer: Unavailable | None = await self._line.call("purge", self.name, before, lane)
        return answer


def _message(found: Any) -> Message | Unavailable | None:
    return Message(*found) if isinstance(found, list) else found


class LocalWatch:
    """See `lycosa.engine.protocol.Watch`."""

    def __init__(self, line: _Line, pattern: str) -> None:
        self._line = line
        self._pattern = pattern
        self._seen = 0

    async def next(self, seconds: float) -> list[Entry] | Unavailable:
        found = await self._line.call("watch", self._pattern, self._seen, seconds, seconds=seconds + _LATE)
        if isinstance(found, Unavailable):
            return found
        entries = [Entry(*row) for row in found]
        if entries:
            self._seen = entries[-1].revision
        return entries

    async def close(self) -> None:
        """There is nothing to close."""


class LocalBucket:
    """See `lycosa.engine.protocol.Bucket`."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    async def get(self, key: str) -> Entry | Unavailable | None:
        entry = await self.last(key)
        return None if isinstance(entry, Entry) and entry.value is None else entry

    async def last(self, key: str) -> Entry | Unavailable | None:
        found = await self._line.call("key", key)
        return Entry(*found) if isinstance(found, list) else found

    async def update(self, key: str, value: bytes, revision: int) -> int | Conflict | Unavailable:
        answer: int | Conflict | Unavailable = await self._line.call("set", key, value, revision)
        return answer

    async def put(self, key: str, value: bytes) -> int | Unavailable:
        answer: int | Unavailable = await self._line.call("set", key, value, None)
        return answer

    async def delete(self, key: str, revision: int | None = None) -> Conflict | Unavailable | None:
        answer = await self._line.call("set", key, None, revision)
        return None if isinstance(answer, int) else answer

    async def all(self, pattern: str) -> list[Entry] | Unavailable:
        found = await self._line.call("all", pattern)
        return found if isinstance(found, Unavailable) else [Entry(*row) for row in found]

    def watch(self, pattern: str) -> LocalWatch:
        return LocalWatch(self._line, pattern)


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
            return own  # whoever else would answer is not heard first
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
        self.bucket = LocalBucket(line)
        self.requests = LocalRequests(line)
        self.denied = ""

    @classmethod
    async def open(cls, side: socket.socket, crawl: str) -> LocalEngine:
        """`side`: what `LocalServer.connect` made."""
        side.setblocking(False)
        _, line = await asyncio.get_running_loop().create_connection(_Line, sock=side)
        return cls(line, crawl)

    @property
    def gone(self) -> asyncio.Event:
        """Set when the server is there no more."""
        return self._line.gone

    def stream(self, name: str) -> LocalStream:
        return LocalStream(self._line, name)

    async def create(self, streams: Sequence[StreamPlan], replicas: int) -> Unavailable | None:
        answer: Unavailable | None = await self._line.call("create", list(streams))
        return answer

    async def remove(self, streams: Sequence[str]) -> Unavailable | None:
        answer: Unavailable | None = await self._line.call("remove", list(streams))
        return answer

    async def close(self) -> None:
        self._line.hang_up()
