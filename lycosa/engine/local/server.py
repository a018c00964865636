"""The server of one machine's engine: see the package."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

from lycosa.engine.kept import KeptCrawl
from lycosa.engine.local.wire import Frames
from lycosa.engine.protocol import Conflict, Full, StreamPlan, Unavailable

_KEPT = ("append", "look", "purge", "key", "set", "all")
"""Commands that are answered at once from what is kept."""
_WAITING = ("read", "watch")
"""Commands answered from what is kept, whose caller may wait for a result."""
_LATER = object()
"""Marks that the answer comes later, or that there is none."""


class _Waiting:
    """A call that waits for something to change."""

    def __init__(self, client: _Client, number: int, look: Callable[[], Any], seconds: float) -> None:
        self.client = client
        self._number = number
        self._look = look
        self.over = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self.answer, True)

    def answer(self, late: bool = False) -> bool:
        """Answer if anything is found, or if it is late; returns whether the call is answered."""
        if not self.over and ((found := self._look()) or late):
            self.client.answer(self._number, found)
            self.end()
        return self.over

    def end(self) -> None:
        self.over = True
        self._timer.cancel()


class _Client(Frames):
    """A client as the server sees it."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__()
        self._server = server

    def heard(self, number: int, word: str, more: Any) -> None:
        self._server.act(self, number, word, more)

    def answer(self, number: int, answer: Any) -> None:
        """Send the result of a call."""
        outcome = type(answer).__name__ if isinstance(answer, Unavailable | Conflict | Full) else ""
        self.say(number, outcome, str(answer) if outcome else answer)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.forget(self)


class _Asked:
    """A question that was passed on, and the clients that have not answered it yet."""

    def __init__(self, asker: _Client, number: int, left: list[_Client]) -> None:
        self.asker = asker
        self.number = number
        self.left = left


def _keys_of(key: str) -> str:
    """A name shared by keys, or patterns, with the same first word: a write wakes only the watchers of that
    name."""
    return f"={key.partition('.')[0]}"


class LocalServer:
    """Keeps the streams and keys of one run of a crawl; see the package."""

    def __init__(self, after: int = 0) -> None:
        """`after`: sequences up to this one were used in earlier runs."""
        self._kept = KeptCrawl(after)
        self._waiting: dict[str, list[_Waiting]] = {}  # by stream, or by `_keys_of`
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
        """Make a connection; returns the client's side of it."""
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

    # -- on the event loop of the server

    def act(self, client: _Client, number: int, word: str, more: list[Any]) -> None:
        """Execute a client's command, and answer."""
        if word in _KEPT:
            answer = self._kept.act(word, *more)
            if word in ("append", "set") and isinstance(answer, int):
                self._changed(more[0] if word == "append" else _keys_of(more[0]))
        elif word in _WAITING:
            *what, seconds = more
            of = what[0] if word == "read" else _keys_of(what[0])
            answer = self._wait(client, number, of, lambda: self._kept.act(word, *what), seconds)
        else:
            answer = getattr(self, f"_{word}")(client, number, *more)
        if number and answer is not _LATER:
            client.answer(number, answer)

    def forget(self, client: _Client) -> None:
        """A client has disconnected."""
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

    def _wait(self, client: _Client, number: int, of: str, look: Callable[[], Any], seconds: float) -> Any:
        if (found := look()) or seconds <= 0:
            return found
        waiting = [each for each in self._waiting.get(of, []) if not each.over]
        self._waiting[of] = [*waiting, _Waiting(client, number, look, seconds)]
        return _LATER

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
        """A client no longer waits for an answer."""
        for question, each in list(self._asked.items()):
            if each.asker is client and each.number == asked:
                del self._asked[question]
        return _LATER
