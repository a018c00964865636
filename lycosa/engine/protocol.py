"""The engine: what a crawl's agents need of the world around them, in three small protocols.

    Stream      messages in order: append at an expected sequence, read from a place, purge
    Bucket      keys with small values: create, read, compare-and-set, watch
    Requests    ask and answer, with a deadline

An `Engine` is one client's door to all that one crawl has. It is implemented by `local` (one machine: kept by the
supervisor for one run), by `nats` (JetStream: a cluster) and by `memory` (one process: simulation and tests). One
contract suite runs on each, with the plain memory one as oracle.

**Outcomes are values.** What an engine may answer besides *done* is part of every signature, and no method
raises it:

    Unavailable     no answer in time; whether it took effect is not known, now or later. Ask again.
    Conflict        the stream's last sequence, or the key's revision, is not the one named. Nothing happened.
    Full            the stream has reached its limit. Nothing happened, nothing was dropped to make room; wait.

They are errors too (`LocalError`), because a caller that can do nothing about one may let it end what it does,
and the operator then reads one line: `got` returns an answer or raises the outcome. What the operator must mend
(no permission, not enough servers) is raised as `ConfigError`.

**Guarantees.** A message that was acknowledged lasts as long as the engine does (`nats`: for good; `local`: as long
as the run), and is read by every reader that begins before it,
in order of sequences. Sequences begin with 1, rise, and are never used again, also not after a purge of
everything. With `expected`, appending the same again is harmless: one of the copies is taken at most. Reads
that a decision rests on (`at`, `last`, `ends`, `get`) see everything that was acknowledged before they began. A
watch may skip values, never the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from lycosa.errors import LocalError

T = TypeVar("T")


class Unavailable(LocalError):  # noqa: N818
    """No answer in time; the outcome is unknown."""


class Absent(Unavailable):
    """The engine has nothing of that crawl."""


class Conflict(LocalError):  # noqa: N818
    """Something else was there than was expected."""


class Full(LocalError):  # noqa: N818
    """The stream takes no more for now."""


def got(answer: T | Unavailable | Conflict | Full) -> T:
    """The answer; an outcome that its caller can do nothing about is raised."""
    if isinstance(answer, Unavailable | Conflict | Full):
        raise answer
    return answer


class Message(NamedTuple):
    """A message of a stream."""

    sequence: int
    lane: str
    """Messages of one stream may be told apart by a word: the sender, say."""
    headers: Mapping[str, str]
    data: bytes


class Ends(NamedTuple):
    """The first and the last sequence of a stream; first = last + 1 if it holds nothing."""

    first: int
    last: int


class Reading(Protocol):
    """A stream's messages in order, none missing (but for those purged before they were read), none twice."""

    @property
    def last(self) -> int:
        """The sequence of the last message handed over; or where the reading began."""
        ...

    async def next(self, seconds: float, most: int = 256) -> list[Message] | Unavailable:
        """Messages that have come, at most so many; none if none came in time."""
        ...

    async def close(self) -> None: ...


class Stream(Protocol):
    """A durable sequence of messages with a limit of bytes."""

    @property
    def name(self) -> str:
        """As the operator finds it."""
        ...

    async def append(
        self,
        data: bytes,
        *,
        lane: str = "",
        headers: Mapping[str, str] | None = None,
        expected: int | None = None,
        seconds: float = 5.0,
    ) -> int | Conflict | Full | Unavailable:
        """Append a message; its sequence. `expected`: only if the stream's last sequence is that one."""
        ...

    async def at(self, sequence: int) -> Message | Unavailable | None:
        """The message of a sequence; None if there is none (any more, or yet)."""
        ...

    async def newest(self, lane: str) -> Message | Unavailable | None:
        """The last message of a lane that was not purged."""
        ...

    async def ends(self) -> Ends | Unavailable: ...

    def read(self, after: int = 0) -> Reading:
        """From `after` + 1 on, or from the first message that is left. The place is the reader's to keep."""
        ...

    async def purge(self, before: int, lane: str | None = None) -> Unavailable | None:
        """Forget the messages with sequences below `before` (those of a lane only).

        `before` is at most one more than the last: JetStream would go on behind a later one.
        """
        ...


class Entry(NamedTuple):
    """A key's value as of a revision; None: it was deleted."""

    key: str
    revision: int
    value: bytes | None


class Watch(Protocol):
    """Changes of some keys."""

    async def next(self, seconds: float) -> list[Entry] | Unavailable:
        """First every key as it is, then what changed, as it comes; none if nothing did in time. What is known may
        come again after a break: revisions tell."""
        ...

    async def close(self) -> None: ...


class Bucket(Protocol):
    """Small values under names; revisions rise over the whole bucket."""

    async def get(self, key: str) -> Entry | Unavailable | None:
        """The value of a key; None if it has none. `Absent` if there is no such bucket."""
        ...

    async def last(self, key: str) -> Entry | Unavailable | None:
        """Like `get`, but a deleted key is an entry without value, whose revision an update must name."""
        ...

    async def update(self, key: str, value: bytes, revision: int) -> int | Conflict | Unavailable:
        """Set a key that still has that revision (0: that was never set); its new one."""
        ...

    async def put(self, key: str, value: bytes) -> int | Unavailable:
        """Set a key, whatever it was; its new revision."""
        ...

    async def delete(self, key: str, revision: int | None = None) -> Conflict | Unavailable | None:
        """Delete a key (that still has that revision)."""
        ...

    async def all(self, pattern: str) -> list[Entry] | Unavailable:
        """The keys of a pattern that have values. `lease.*`: those of two words whose first is `lease`."""
        ...

    def watch(self, pattern: str) -> Watch: ...


class Answering(Protocol):
    """Somebody who answers."""

    async def stop(self) -> None:
        """Answer no more."""
        ...


class Requests(Protocol):
    """Questions and answers between agents. Nothing is kept: who is not there hears nothing."""

    async def ask(self, subject: str, data: bytes, seconds: float) -> bytes | Unavailable:
        """The first answer; `Unavailable` if none came in time, also when nobody answers for that subject."""
        ...

    async def tell(self, subject: str, data: bytes) -> None:
        """Say something to whoever answers, without waiting to be heard; it may be lost."""
        ...

    async def answer(self, subject: str, answer: Callable[[bytes], bytes | None]) -> Answering | Unavailable:
        """Begin to answer; None is silence. Whoever else answers for the subject is asked as well."""
        ...


class StreamPlan(NamedTuple):
    """A stream to be made."""

    name: str
    bytes: int
    """At this many a stream refuses (`Full`)."""
    lanes: bool = False


class Engine(Protocol):
    """All that one crawl has, for one client."""

    @property
    def crawl(self) -> str:
        """The crawl's name."""
        ...

    @property
    def bucket(self) -> Bucket: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def denied(self) -> str:
        """What this client was first refused for want of a permission; empty if nothing: it looks like silence."""
        ...

    def stream(self, name: str) -> Stream:
        """The stream of that name; whether it is there is seen when it is used."""
        ...

    async def create(self, streams: Sequence[StreamPlan], replicas: int) -> Unavailable | None:
        """Make the bucket and the streams, those that are not there. `ConfigError` if they cannot be had."""
        ...

    async def remove(self, streams: Sequence[str]) -> Unavailable | None:
        """Remove them, and the bucket; what is not there is no matter."""
        ...

    async def close(self) -> None: ...
