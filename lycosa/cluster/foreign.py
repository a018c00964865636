"""Foreign data in the streams and keys of a crawl: skipped, counted, and reported once per place.

Any user who may write to the servers can put anything there, mostly by mistake. It must not end an agent, nor the
status. It is skipped where nothing is lost by that: keys, presence, requests, and messages of the exchange that are
not frames. Foreign data in place of a record or a frame of ours (a shard's log, a damaged frame) is never
skipped: `StorageError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

R = TypeVar("R", bound=msgspec.Struct)


def decoded(data: bytes, kind: type[R]) -> R | None:
    """The value that JSON bytes encode; None if they are not valid for this type."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class Foreign:
    """Counts foreign data, and reports the first of every place."""

    def __init__(self, told: Callable[[str], None] = lambda _: None) -> None:
        self._told = told
        self.count = 0
        self.places: dict[str, str] = {}
        """By place: what was first found there."""

    def note(self, place: str, what: str) -> None:
        """Note foreign data of a kind at a place."""
        self.count += 1
        if place not in self.places:
            self.places[place] = what
            self._told(f"passed over: {place} {what}")

    def request(self, data: bytes, kind: type[R], subject: str) -> R | None:
        """The request sent on a subject; None if it is not valid."""
        if (found := decoded(data, kind)) is None:
            self.note(f"the subject {subject}", "has requests that cannot be read")
        return found

    def value(self, data: bytes, kind: type[R], key: str) -> R | None:
        """The value of a key; None if it is foreign."""
        if (found := decoded(data, kind)) is None:
            self.note(f"the key {key}", "cannot be read")
        return found
