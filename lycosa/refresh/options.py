"""The options of a continuous crawl: how pages are fetched again."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Literal

import msgspec


class Policy(StrEnum):
    """How the times between two fetches of a page are chosen."""

    VALUE = "value"
    UNIFORM = "uniform"
    PROPORTIONAL = "proportional"


class RefreshOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How pages are fetched again. Without `continuous` each page is fetched once, and the rest has no effect."""

    continuous: bool = False  # a page is fetched again when it is due, and the crawl does not end by itself
    policy: Literal["value", "uniform", "proportional"] = "value"
    importance: Literal["depth", "equal", "order"] = "depth"
    """How a page's importance is set: depth halves it with each link from a seed, order uses the order's level."""
    fetches: float = 0.0
    """Fetches per day, of new and known pages together; 0: `per_page` for known pages, no limit for new ones."""
    bytes: int = 0  # bytes per day, of bodies as sent; 0: no limit
    per_page: float = 0.3  # fetches per day and page, if `fetches` is 0
    per_host: float = 0.0  # at most so many repeated fetches per day of one host's pages; 0: only politeness
    share: float = 0.0  # the share of `fetches` for known pages; 0: half at first, then by yield
    shortest: float = 600.0  # seconds between two fetches of a page, at least ...
    longest: float = 7_776_000.0  # ... and at most, if the budget allows it

    def __post_init__(self) -> None:
        for name in ("fetches", "per_page", "per_host", "bytes", "share"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be at least 0, not {value}")
        if self.share > 1:
            raise ValueError(f"share is a part of 1, not {self.share}")
        if not self.fetches and not self.per_page:
            raise ValueError(
                "fetches or per_page says how often pages are fetched again: one of them is above 0"
            )
        if not 0 < self.shortest <= self.longest < math.inf:
            raise ValueError("shortest is above 0, and longest not below it")
