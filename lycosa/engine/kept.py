"""The state that an engine keeps for one crawl, as plain values: streams and keys. No I/O, no clock, no waiting.

Both engines that keep a crawl in the memory of one process, `memory` and `local`, use it. A client
(`lycosa.engine.client`) acts on it by a command and its arguments (`KeptCrawl.act`); a refusal is an answer too,
returned as a value.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from lycosa.engine.protocol import Absent, Conflict, Ends, Entry, Full, Message, StreamPlan

_HEAD = 32
"""Bytes that a message counts in addition to its data."""


class KeptStream:
    """A stream as the servers keep it."""

    def __init__(self, limit: int, last: int = 0) -> None:
        """`last`: sequences up to this one were used before."""
        self.limit = limit
        self.bytes = 0
        self.last = last
        self.messages: dict[int, Message] = {}  # by sequence, rising

    def append(
        self, lane: str, headers: Mapping[str, str], data: bytes, expected: int | None
    ) -> int | Conflict | Full:
        if expected is not None and expected != self.last:
            return Conflict(f"wrong last sequence: {self.last}")
        size = _size(lane, headers, data)
        if self.limit and self.bytes + size > self.limit:
            return Full("the stream is full")
        self.last += 1
        self.bytes += size
        self.messages[self.last] = Message(self.last, lane, dict(headers), data)
        return self.last

    def look(self, what: str, of: Any) -> Message | Ends | None:
        if what == "at":
            return self.messages.get(of)
        if what == "newest":
            return next((each for each in reversed(self.messages.values()) if each.lane == of), None)
        return Ends(next(iter(self.messages), self.last + 1), self.last)

    def read(self, sequence: int, most: int) -> list[Message]:
        if sequence >= self.last:
            return []
        found: list[Message] = []
        for each in self.messages.values():
            if each.sequence > sequence:
                found.append(each)
                if len(found) == most:
                    break
        return found

    def purge(self, before: int, lane: str | None) -> None:
        for sequence in [n for n in self.messages if n < before]:
            if lane is None or self.messages[sequence].lane == lane:
                gone = self.messages.pop(sequence)
                self.bytes -= _size(gone.lane, gone.headers, gone.data)


def _size(lane: str, headers: Mapping[str, str], data: bytes) -> int:
    return _HEAD + len(lane) + sum(len(name) + len(value) for name, value in headers.items()) + len(data)


class KeptCrawl:
    """What the servers keep of one crawl."""

    def __init__(self, last: int = 0) -> None:
        """`last`: sequences of streams up to this one were used before."""
        self.streams: dict[str, KeptStream] = {}
        self.keys: dict[str, Entry] | None = None
        self.revision = 0
        self._last = last

    def act(self, word: str, to: str, *more: Any) -> Any:
        """Execute a client's command on a stream or on the keys; returns the answer, or the outcome in its place.

        append  stream  lane headers data expected      look  stream  "at" "newest" "ends" of
        read    stream  after most                      purge stream  before lane
        key     key                                     set   key     value revision
        all     pattern                                 watch pattern revision
        """
        if word in ("key", "set", "all", "watch"):
            if self.keys is None:
                return Absent("there is no crawl")
            return getattr(self, word)(to, *more)
        stream = self.streams.get(to)
        return getattr(stream, word)(*more) if stream is not None else Absent(f"there is no stream {to}")

    def create(self, streams: Sequence[StreamPlan]) -> None:
        self.keys = {} if self.keys is None else self.keys
        for plan in streams:
            self.streams.setdefault(plan.name, KeptStream(plan.bytes, self._last))

    def remove(self, streams: Sequence[str]) -> None:
        self.keys = None
        for name in streams:
            self.streams.pop(name, None)

    def key(self, key: str) -> Entry | None:
        return (self.keys or {}).get(key)

    def set(self, key: str, value: bytes | None, revision: int | None) -> int | Conflict:
        """Set a key (if it still has that revision), or delete it (None); returns its new revision."""
        assert self.keys is not None
        known = self.keys[key].revision if key in self.keys else 0
        if revision is not None and revision != known:
            return Conflict(f"{key} was changed by somebody else")
        self.revision += 1
        self.keys.pop(key, None)  # keys stay in the order of their revisions
        self.keys[key] = Entry(key, self.revision, value)
        return self.revision

    def all(self, pattern: str) -> list[Entry]:
        return [row for row in (self.keys or {}).values() if row.value is not None and fits(row.key, pattern)]

    def watch(self, pattern: str, revision: int) -> list[Entry]:
        """The keys that match a pattern and changed after a revision, in order of revision."""
        found: list[Entry] = []
        for each in reversed((self.keys or {}).values()):
            if each.revision <= revision:
                break
            if fits(each.key, pattern):
                found.append(each)
        return found[::-1]


@functools.lru_cache(4_096)
def fits(key: str, pattern: str) -> bool:
    words, wanted = key.split("."), pattern.split(".")
    return len(words) == len(wanted) and all(
        want in ("*", word) for word, want in zip(words, wanted, strict=True)
    )
