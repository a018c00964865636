"""What the supervisor and its agents say to each other: JSON lines over a pair of sockets that the agent inherits.

    supervisor                          agent
    Start         --------------------> opens its shards and recovers them
                  <-------------------- Recovered: cursors, archive ends, options, totals
    Go            --------------------> logs options and seeds, begins to send from the cursors
                  <-------------------- Begun, then a Report every quarter of a second
    Grant, Recall --------------------> pages that may be fetched
                  <-------------------- Wish, Returned
    Settle        --------------------> commits, and says how far everything is
                  <-------------------- Settled
    Stop          --------------------> ends cleanly
                  <-------------------- Ended; or, at any time, Failed

Between two agents, passed on by the supervisor: `Claim`, `Claimed` and `Release` (turns of hosts), `GoBack` (the
exchange lost something), `TellCursors` and `Cursors` (for an agent that begins again).

The end of the stream means that the other side is gone. Nothing listens on the network.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Generic, TypeVar

import msgspec

from lycosa.crawl.status import Status

_LONGEST = 256 << 20
"""A line may hold all seeds."""


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One line."""


# -- to an agent


class Start(_Message, frozen=True):
    directory: str
    agent: int
    agents: int
    options: bytes
    limited: bool
    """Whether pages are rationed."""


class Go(_Message, frozen=True):
    options: bytes
    seeds: list[str]
    cursors: dict[int, dict[int, int]]
    """For each shard of this agent: how far each shard of others has come in its log."""
    ends: dict[str, int]
    """Of each archive file: the last end that any log knows."""
    unclean: bool


class Grant(_Message, frozen=True):
    pages: int


class Recall(_Message, frozen=True):
    """Give back what is not in use."""


class Settle(_Message, frozen=True):
    round: int


class TellCursors(_Message, frozen=True):
    for_agent: int
    senders: list[int]


class Pause(_Message, frozen=True):
    on: bool


class Stop(_Message, frozen=True):
    """End cleanly."""


# -- either way


class Claim(_Message, frozen=True):
    """May the turn of a host be had, which a shard of another agent owns?"""

    id: int
    by: int
    shard: int
    host: str


class Claimed(_Message, frozen=True):
    id: int
    by: int
    granted: bool


class Release(_Message, frozen=True):
    by: int
    shard: int
    host: str
    ready: float


class GoBack(_Message, frozen=True):
    sender: int
    receiver: int
    cursor: int


# -- from an agent


class Told(_Message, frozen=True):
    text: str


class Recovered(_Message, frozen=True):
    cursors: dict[int, dict[int, int]]
    """For each shard of this agent: its cursor in the log of each sender."""
    ends: dict[str, int]
    options: list[bytes]
    fetched: int
    answers: dict[int, dict[int, int]]
    logs: dict[int, int]
    """Where the log of each shard ends."""


class Begun(_Message, frozen=True):
    refused: list[tuple[str, str]]


class Report(_Message, frozen=True):
    status: Status
    idle: bool
    left: int
    """Pages that were granted and are not in use."""


class Wish(_Message, frozen=True):
    """More pages, please."""


class Returned(_Message, frozen=True):
    pages: int


class Settled(_Message, frozen=True):
    round: int
    idle: bool
    appended: int
    """The sum of the ends of all logs."""
    ends: dict[int, tuple[int, int]]
    reads: dict[int, tuple[int, int]]


class Cursors(_Message, frozen=True):
    for_agent: int
    cursors: dict[int, dict[int, int]]


class Ended(_Message, frozen=True):
    status: Status


class Failed(_Message, frozen=True):
    """The operator, the disk or the program must be seen to: starting again would not help."""

    kind: str
    text: str


ToAgent = (
    Start | Go | Grant | Recall | Settle | TellCursors | Pause | Stop | Claim | Claimed | Release | GoBack
)
FromAgent = (
    Told
    | Recovered
    | Begun
    | Report
    | Wish
    | Returned
    | Settled
    | Cursors
    | Ended
    | Failed
    | Claim
    | Claimed
    | Release
    | GoBack
)

T = TypeVar("T")


class Channel(Generic[T]):
    """One side of the pair; `T` is what the other side says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kind: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = msgspec.json.Decoder(kind)
        self._encoder = msgspec.json.Encoder()

    @staticmethod
    async def over(sock: socket.socket, kind: Any) -> Channel[Any]:
        reader, writer = await asyncio.open_connection(sock=sock, limit=_LONGEST)
        return Channel(reader, writer, kind)

    def send(self, message: _Message) -> None:
        """Say something; nothing happens if the other side is gone."""
        if not self._writer.is_closing():
            self._writer.write(self._encoder.encode(message) + b"\n")

    async def receive(self) -> T | None:
        """What the other side says next; None at its end."""
        try:
            line = await self._reader.readline()
            if not line.endswith(b"\n"):
                return None
            message: T = self._decoder.decode(line)
            return message
        except (OSError, ValueError):  # msgspec's errors are ValueErrors, too
            return None

    async def drain(self) -> None:
        """Until all that was said is on its way."""
        try:
            await self._writer.drain()
        except OSError:
            return

    def close(self) -> None:
        self._writer.close()
