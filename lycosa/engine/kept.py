"""What an engine keeps of one crawl, as plain values: streams and keys. No I/O, no clock, no waiting.

Both engines that keep a crawl in the memory of one process, `memory` and `local`, keep this.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from lycosa.engine.protocol import Conflict, Ends, Entry, Full, Message, StreamPlan

_HEAD = 32
"""Bytes that a message counts besides its data."""


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

    def newest(self, lane: str) -> Message | None:
        return next((each for each in reversed(self.messages.values()) if each.lane == lane), None)

    def after(self, sequence: int, most: int) -> list[Message]:
        if sequence >= self.last:
            return []
        found: list[Message] = []
        for each in self.messages.values():
            if each.sequence > sequence:
                found.append(each)
                if len(found) == most:
                    break
        return found

    @property
    def ends(self) -> Ends:
        return Ends(next(iter(self.messages), self.last + 1), self.last)

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

    def create(self, streams: Sequence[StreamPlan]) -> None:
        self.keys = {} if self.keys is None else self.keys
        for plan in streams:
            self.streams.setdefault(plan.name, KeptStream(plan.bytes, self._last))

    def remove(self, streams: Sequence[str]) -> None:
        self.keys = None
        for name in streams:
            self.streams.pop(name, None)

    def set(
        self, keys: dict[str, Entry], key: str, value: bytes | None, revision: int | None
    ) -> int | Conflict:
        """Set a key (that still has that revision), or delete it (None); its new revision."""
        known = keys[key].revision if key in keys else 0
        if revision is not None and revision != known:
            return Conflict(f"{key} was changed by somebody else")
        self.revision += 1
        keys.pop(key, None)  # they stay in the order of their revisions
        keys[key] = Entry(key, self.revision, value)
        return self.revision

    def all(self, keys: dict[str, Entry], pattern: str) -> list[Entry]:
        return [row for row in keys.values() if row.value is not None and fits(row.key, pattern)]

    def since(self, pattern: str, revision: int) -> list[Entry]:
        """The keys of a pattern that changed after a revision, in order."""
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
