"""What is found in the streams and keys of a crawl and is none of ours: passed over, counted, and said once.

Whoever may write to the servers can put anything there, by mistake mostly. It must not end an agent, nor the
status. It is passed over where nothing is lost by that: keys, presence, requests, messages of the exchange that are
no frames. What stands where a record or a frame of ours must be (a shard's log, a damaged frame) is never passed
over: `StorageError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

R = TypeVar("R", bound=msgspec.Struct)


def decoded(data: bytes, kind: type[R]) -> R | None:
    """What bytes of JSON say; None if they are no such thing."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class Foreign:
    """Counts it, and says the first of every place."""

    def __init__(self, told: Callable[[str], None] = lambda _: None) -> None:
        self._told = told
        self.count = 0
        self.places: dict[str, str] = {}
        """Where it was found, and what it was; the first of each place."""

    def note(self, place: str, what: str) -> None:
        """Something of that kind is at that place."""
        self.count += 1
        if place not in self.places:
            self.places[place] = what
            self._told(f"passed over: {place} {what}")

    def request(self, data: bytes, kind: type[R], subject: str) -> R | None:
        """What was asked on a subject; None if it is no such request."""
        if (found := decoded(data, kind)) is None:
            self.note(f"the subject {subject}", "has requests that cannot be read")
        return found

    def value(self, data: bytes, kind: type[R], key: str) -> R | None:
        """What a key holds; None if that is none of ours."""
        if (found := decoded(data, kind)) is None:
            self.note(f"the key {key}", "cannot be read")
        return found
