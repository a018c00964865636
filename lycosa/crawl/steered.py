"""The traces of an operator's acts in the options of a crawl: values only (`acts` makes them).

`Options.site` is the operator's, by host (`site_options`); `Options.steered` is kept by the program. Both are in
every Configured, so the log tells under which acts each event happened, and recovery restores them
without a further fold.
"""

from __future__ import annotations

import msgspec

REMEMBERED = 32
"""Number of acts that are remembered, so that an act that arrives twice is done once."""


class Did(msgspec.Struct, frozen=True, array_like=True):
    """An act that was done."""

    id: str
    at: int  # when it was asked for
    who: str
    text: str  # as a person would write it: "set limits.pages=20"


class Steered(msgspec.Struct, frozen=True, kw_only=True):
    """What acts have changed."""

    paused: bool = False
    did: tuple[Did, ...] = ()  # the latest of them
    values: dict[str, tuple[str, str]] = {}
    """Options that acts have set: the value before the first of them, and the value they set, as JSON."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(row.id for row in self.did)

    def has(self, act: str) -> bool:
        """Whether an act of this id was done."""
        return any(row.id == act for row in self.did)
