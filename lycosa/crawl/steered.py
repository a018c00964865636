"""What acts of the operator leave in the options of a crawl: values only (`acts` makes them).

`Options.site` is the operator's, by host (`site_options`); `Options.steered` is kept by the program. Both are in
every Configured, so the log knows under which acts each thing happened, and whoever recovers a crawl has them
without a fold more.
"""

from __future__ import annotations

import msgspec

REMEMBERED = 32
"""Acts that are remembered: what one did that is taken up twice is done once."""


class Did(msgspec.Struct, frozen=True, array_like=True):
    """An act that was done."""

    id: str
    at: int  # when it was asked for
    who: str
    text: str  # as a person would write it: "set limits.pages=20"


class Steered(msgspec.Struct, frozen=True, kw_only=True):
    """What acts have changed."""

    paused: bool = False
    did: tuple[Did, ...] = ()  # the last of them
    values: dict[str, tuple[str, str]] = {}
    """Options that acts have set: what was there before the first of them, and what they set, as JSON."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(row.id for row in self.did)

    def has(self, act: str) -> bool:
        """Whether an act of this id was done."""
        return any(row.id == act for row in self.did)
