"""The DevTools protocol over two pipes: JSON messages that end in a zero byte.

    {"id": N, "method": M, "params": P, "sessionId": S}      a call; S: of the target that it is for
    {"id": N, "result": R} | {"id": N, "error": E}            its answer
    {"method": M, "params": P, "sessionId": S}                an event

Chromium reads calls from descriptor 3 and writes to 4 (--remote-debugging-pipe), and ends itself when they close:
so no browser is left behind if this process is killed. A shell connects its standard input and output to them.

`call` raises `CallError` where the browser refuses, and `BrowserGoneError` where it has ended, before or meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

_PUT = 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null'
MOST = 256 << 20
"""The most bytes of one message; a browser that sends more is treated as broken."""

Event = Callable[[str, dict[str, Any]], None]
"""A handler of events: takes a method and its parameters."""


class BrowserGoneError(Exception):
    """The browser has ended."""


class CallError(Exception):
    """The browser refuses a call."""


class _Message(msgspec.Struct):
    id: int = 0
    method: str = ""
    params: dict[str, Any] = {}
    result: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    sessionId: str = ""  # noqa: N815 (the protocol's name)


class DevTools:
    """A browser process and the connection to it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last = 0
        self._calls: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._sessions: dict[str, Event] = {}
        self._decode = msgspec.json.Decoder(_Message).decode
        self._encode = msgspec.json.Encoder().encode
        self.said = b""
        """The end of what the browser wrote to its standard error."""
        self.gone = asyncio.Event()
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._overhear())]

    @staticmethod
    async def start(command: Sequence[str], environment: dict[str, str] | None = None) -> DevTools:
        """Start the browser; `OSError` if the program is not there."""
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", _PUT, "sh", *command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=environment,
        )
        return DevTools(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def listen(self, session: str, event: Event | None) -> None:
        """Pass the events of a session ("": of the browser itself) to `event`; None: to nobody."""
        if event is None:
            self._sessions.pop(session, None)
        else:
            self._sessions[session] = event

    def send(self, method: str, session: str = "", **params: Any) -> asyncio.Future[dict[str, Any]]:
        """Call without waiting; the future is the answer, which may be ignored."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_looked_at)
        stdin = self._process.stdin
        if self.gone.is_set() or stdin is None or stdin.is_closing():
            future.set_exception(BrowserGoneError(self.last_words()))
            return future
        self._last += 1
        self._calls[self._last] = future
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        stdin.write(self._encode(message) + b"\0")
        return future

    async def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """Call, and wait for the answer."""
        return await self.send(method, session, **params)

    async def drain(self) -> None:
        """Wait until the browser has taken most of what was sent."""
        if self._process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                await self._process.stdin.drain()

    def last_words(self) -> str:
        """The last line that the browser wrote."""
        lines = self.said.decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"

    def kill(self) -> None:
        """End the browser with all its processes at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._end()

    async def close(self) -> None:
        """End the browser, and wait until it has ended."""
        self.kill()
        await self._process.wait()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- listening

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        parts: list[bytes] = []
        held = 0
        try:
            while data := await self._process.stdout.read(1 << 18):
                first, *more = data.split(b"\0")
                parts.append(first)
                held += len(first)
                for each in more:
                    self._hear(b"".join(parts))
                    parts, held = [each], len(each)
                if held > MOST:
                    break
        finally:
            self.kill()

    async def _overhear(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(1 << 14):
            self.said = (self.said + data)[-4096:]

    def _hear(self, data: bytes) -> None:
        try:
            message = self._decode(data)
        except msgspec.MsgspecError:
            return
        if message.id:
            future = self._calls.pop(message.id, None)
            if future is None or future.done():
                return
            if message.error is not None:
                future.set_exception(CallError(str(message.error.get("message", ""))))
            else:
                future.set_result(message.result)
            return
        heard = self._sessions.get(message.sessionId)
        if heard is not None:
            heard(message.method, message.params)

    def _end(self) -> None:
        if self.gone.is_set():
            return
        self.gone.set()
        calls, self._calls = self._calls, {}
        for future in calls.values():
            if not future.done():
                future.set_exception(BrowserGoneError(self.last_words()))
        if self._process.stdin is not None:
            self._process.stdin.close()


def _looked_at(future: asyncio.Future[dict[str, Any]]) -> None:
    """Retrieve the error of an answer that nobody waits for, lest asyncio log it."""
    if not future.cancelled():
        future.exception()
