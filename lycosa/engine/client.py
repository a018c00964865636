"""A client of an engine that keeps a crawl in one process (`kept`): streams and keys, reached over a `Line`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from lycosa.engine.protocol import Conflict, Ends, Entry, Full, Message, Unavailable

_ASKED = 5.0
"""Seconds after which a read is given up."""


class Line(Protocol):
    """A client's connection to what is kept; see `lycosa.engine.kept.KeptCrawl.act` for the commands."""

    patience: float
    """Seconds after which a write of a key is given up."""

    async def do(self, word: str, to: str, *more: Any, seconds: float) -> Any:
        """Have a command executed; its answer, or `Unavailable` when the time is over."""
        ...

    async def wait(self, word: str, to: str, *more: Any, seconds: float) -> Any:
        """The same for a command that finds rows: returns as soon as there are any, or none when the time is
        over."""
        ...


class ClientReading:
    """See `lycosa.engine.protocol.Reading`."""

    def __init__(self, line: Line, name: str, after: int) -> None:
        self._line = line
        self._name = name
        self.last = after

    async def next(self, seconds: float, most: int = 256) -> list[Message] | Unavailable:
        found = await self._line.wait("read", self._name, self.last, most, seconds=seconds)
        if isinstance(found, Unavailable):
            return found
        messages = [Message(*row) for row in found]
        if messages:
            self.last = messages[-1].sequence
        return messages

    async def close(self) -> None:
        """There is nothing to close."""


class ClientStream:
    """See `lycosa.engine.protocol.Stream`."""

    def __init__(self, line: Line, name: str) -> None:
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
        answer: int | Conflict | Full | Unavailable = await self._line.do(
            "append", self.name, lane, dict(headers or {}), data, expected, seconds=seconds
        )
        return answer

    async def at(self, sequence: int) -> Message | Unavailable | None:
        return _message(await self._look("at", sequence))

    async def newest(self, lane: str) -> Message | Unavailable | None:
        return _message(await self._look("newest", lane))

    async def ends(self) -> Ends | Unavailable:
        found = await self._look("ends", None)
        return found if isinstance(found, Unavailable) else Ends(*found)

    async def _look(self, what: str, of: Any) -> Any:
        return await self._line.do("look", self.name, what, of, seconds=_ASKED)

    def read(self, after: int = 0) -> ClientReading:
        return ClientReading(self._line, self.name, after)

    async def purge(self, before: int, lane: str | None = None) -> Unavailable | None:
        answer: Unavailable | None = await self._line.do("purge", self.name, before, lane, seconds=_ASKED)
        return answer


def _message(found: Any) -> Message | Unavailable | None:
    return found if found is None or isinstance(found, Unavailable) else Message(*found)


class ClientWatch:
    """See `lycosa.engine.protocol.Watch`."""

    def __init__(self, line: Line, pattern: str) -> None:
        self._line = line
        self._pattern = pattern
        self._seen = 0

    async def next(self, seconds: float) -> list[Entry] | Unavailable:
        found = await self._line.wait("watch", self._pattern, self._seen, seconds=seconds)
        if isinstance(found, Unavailable):
            return found
        entries = [Entry(*row) for row in found]
        if entries:
            self._seen = entries[-1].revision
        return entries

    async def close(self) -> None:
        """There is nothing to close."""


class ClientBucket:
    """See `lycosa.engine.protocol.Bucket`."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def get(self, key: str) -> Entry | Unavailable | None:
        entry = await self.last(key)
        return None if isinstance(entry, Entry) and entry.value is None else entry

    async def last(self, key: str) -> Entry | Unavailable | None:
        found = await self._line.do("key", key, seconds=_ASKED)
        return found if found is None or isinstance(found, Unavailable) else Entry(*found)

    async def update(self, key: str, value: bytes, revision: int) -> int | Conflict | Unavailable:
        return await self._set(key, value, revision)

    async def put(self, key: str, value: bytes) -> int | Unavailable:
        answer = await self._set(key, value, None)
        assert not isinstance(answer, Conflict)
        return answer

    async def delete(self, key: str, revision: int | None = None) -> Conflict | Unavailable | None:
        answer = await self._set(key, None, revision)
        return None if isinstance(answer, int) else answer

    async def _set(self, key: str, value: bytes | None, revision: int | None) -> int | Conflict | Unavailable:
        answer: int | Conflict | Unavailable = await self._line.do(
            "set", key, value, revision, seconds=self._line.patience
        )
        return answer

    async def all(self, pattern: str) -> list[Entry] | Unavailable:
        found = await self._line.do("all", pattern, seconds=_ASKED)
        return found if isinstance(found, Unavailable) else [Entry(*row) for row in found]

    def watch(self, pattern: str) -> ClientWatch:
        return ClientWatch(self._line, pattern)
