"""The engine: what a crawl's agents need from their environment, in three small protocols.

    Stream      messages in order: append at an expected sequence, read from a place, purge
    Bucket      keys with small values: create, read, compare-and-set, watch
    Requests    ask and answer, with a deadline

An `Engine` is one client's access to all that one crawl has. It is implemented by `local` (one machine: kept by the
supervisor for one run), by `nats` (JetStream: a cluster) and by `memory` (one process: simulation and tests). One
contract suite runs on each, with the plain memory one as oracle.

**Outcomes are values.** The possible outcomes besides *done* are part of every signature, and no method
raises them:

    Unavailable     no answer in time; it may have taken effect, now or later. Ask again.
    Conflict        the stream's last sequence, or the key's revision, is not the expected one. Nothing happened.
    Full            the stream has reached its limit. Nothing happened, nothing was dropped to make room; wait.

They are errors too (`LocalError`), so that a caller that cannot handle one may raise it, and the operator then
reads one line: `got` returns an answer or raises the outcome. What the operator must fix (no permission, not enough
servers) is raised as `ConfigError`.

**Guarantees.** A message that was acknowledged lasts as long as the engine does (`nats`: for good; `local`: as long
as the run), and is read, in order of sequences, by every reader that begins before it. Sequences begin with 1,
rise, and are never used again, even after a purge of everything. With `expected`, appending the same again is
harmless: at most one of the copies is taken. Reads that a decision rests on (`at`, `last`, `ends`, `get`) see
everything that was acknowledged before they began. A watch may skip values, but never the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from lycosa.errors import LocalError

T = TypeVar("T")


class Unavailable(LocalError):  # noqa: N818
    """No answer in time; the outcome is unknown."""


class Absent(Unavailable):
    """The engine has nothing for that crawl."""


class Conflict(LocalError):  # noqa: N818
    """The present sequence or revision is not the expected one."""


class Full(LocalError):  # noqa: N818
    """The stream accepts no more for now."""


def got(answer: T | Unavailable | Conflict | Full) -> T:
    """The answer; an outcome that the caller cannot handle is raised."""
    if isinstance(answer, Unavailable | Conflict | Full):
        raise answer
    return answer


class Message(NamedTuple):
    """A message of a stream."""

    sequence: int
    lane: str
    """A word that tells apart the messages of one stream, for example the sender."""
    headers: Mapping[str, str]
    data: bytes


class Ends(NamedTuple):
    """The first and the last sequence of a stream; first = last + 1 if it holds nothing."""

    first: int
    last: int

    @property
    def newest(self) -> int:
        """The sequence of the last message that is still there; 0 if there is none."""
        return self.last if self.first <= self.last else 0


class Reading(Protocol):
    """A stream's messages in order, none twice, none missing (except those purged before they were read)."""

    @property
    def last(self) -> int:
        """The sequence of the last message handed over; or where the reading began."""
        ...

    async def next(self, seconds: float, most: int = 256) -> list[Message] | Unavailable:
        """The messages that have arrived, at most `most`; none if none came in time."""
        ...

    async def close(self) -> None: ...


class Stream(Protocol):
    """A durable sequence of messages, limited in bytes."""

    @property
    def name(self) -> str:
        """The name under which the operator finds it."""
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
        """Append a message; returns its sequence. `expected`: only if the stream's last sequence is this one."""
        ...

    async def at(self, sequence: int) -> Message | Unavailable | None:
        """The message of a sequence; None if there is none (any longer, or yet)."""
        ...

    async def newest(self, lane: str) -> Message | Unavailable | None:
        """The last message of a lane that has not been purged."""
        ...

    async def ends(self) -> Ends | Unavailable: ...

    def read(self, after: int = 0) -> Reading:
        """Read from `after` + 1 on, or from the first message that is left. The reader keeps its own place."""
        ...

    async def purge(self, before: int, lane: str | None = None) -> Unavailable | None:
        """Delete the messages with sequences below `before` (`lane`: only those of that lane).

        `before` is at most one more than the last: with a larger one, JetStream would skip sequences.
        """
        ...


class Entry(NamedTuple):
    """The value of a key as of a revision; None: it was deleted."""

    key: str
    revision: int
    value: bytes | None


class Watch(Protocol):
    """Changes of some keys."""

    async def next(self, seconds: float) -> list[Entry] | Unavailable:
        """First the present value of every key, then every change; none if nothing changed in time. Entries may be
        repeated after a break; their revisions tell."""
        ...

    async def close(self) -> None: ...


class Bucket(Protocol):
    """Small values under names; revisions rise over the whole bucket."""

    async def get(self, key: str) -> Entry | Unavailable | None:
        """The value of a key; None if it has none. `Absent` if the bucket does not exist."""
        ...

    async def last(self, key: str) -> Entry | Unavailable | None:
        """Like `get`, but a deleted key is an entry without value, whose revision an update must name."""
        ...

    async def update(self, key: str, value: bytes, revision: int) -> int | Conflict | Unavailable:
        """Set a key if it still has that revision (0: it was never set); returns the new revision."""
        ...

    async def put(self, key: str, value: bytes) -> int | Unavailable:
        """Set a key unconditionally; returns the new revision."""
        ...

    async def delete(self, key: str, revision: int | None = None) -> Conflict | Unavailable | None:
        """Delete a key (`revision`: only if it still has that revision)."""
        ...

    async def all(self, pattern: str) -> list[Entry] | Unavailable:
        """The keys of a pattern that have values. `lease.*`: keys of two words whose first is `lease`."""
        ...

    def watch(self, pattern: str) -> Watch: ...


class Answering(Protocol):
    """A subscription that answers questions."""

    async def stop(self) -> None:
        """Stop answering."""
        ...


class Requests(Protocol):
    """Questions and answers between agents. Nothing is stored: an absent agent misses the question."""

    async def ask(self, subject: str, data: bytes, seconds: float) -> bytes | Unavailable:
        """The first answer; `Unavailable` if none came in time, also when nobody answers for that subject."""
        ...

    async def tell(self, subject: str, data: bytes) -> None:
        """Send something to all that answer, without confirmation; it may be lost."""
        ...

    async def answer(self, subject: str, answer: Callable[[bytes], bytes | None]) -> Answering | Unavailable:
        """Begin to answer; None means no answer. All others that answer for the subject are asked as well."""
        ...


class StreamPlan(NamedTuple):
    """The settings of a stream to be made."""

    name: str
    bytes: int
    """The size at which the stream refuses messages (`Full`)."""
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
        """What this client was first refused for lack of a permission (a refusal looks like silence); empty if
        nothing."""
        ...

    def stream(self, name: str) -> Stream:
        """The stream of that name; whether it exists shows when it is used."""
        ...

    async def create(self, streams: Sequence[StreamPlan], replicas: int) -> Unavailable | None:
        """Create the bucket and the streams that do not exist yet. `ConfigError` if that is impossible."""
        ...

    async def remove(self, streams: Sequence[str]) -> Unavailable | None:
        """Remove them, and the bucket; those that do not exist are ignored."""
        ...

    async def close(self) -> None: ...
