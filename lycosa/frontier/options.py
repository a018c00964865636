"""The options of the frontier: its order, its memory, its budgets."""

from __future__ import annotations

import math
import re
from typing import Literal

import msgspec

ORDERS = ("depth", "length", "batch", "partial", "optimal", "biased")
ADMITS = ("adaptive", "sample", "fixed", "truncated")
LEAST_MEMORY = 1 << 12


class Boost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """URLs that match a pattern come earlier, or later, by so many levels."""

    pattern: str  # a regular expression, searched for in the whole URL
    levels: int  # above 0: earlier; below: later

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"pattern {self.pattern!r} is not a regular expression: {error}") from None


class FrontierOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the frontier orders, bounds and shares out its URLs."""

    order: Literal["depth", "length", "batch", "partial", "optimal", "biased"] = "depth"
    memory: int = 256 << 20
    """Bytes that waiting URLs and the state of their hosts may take, over all shards of an agent."""
    admit: Literal["adaptive", "sample", "fixed", "truncated"] = "adaptive"
    """What happens when a page has more new links than there is room for: see `lycosa.frontier.sydney`."""
    sample: int = 0
    """*t*: at most so many new links of a page enter at once; 0: no bound but that of the memory."""
    directories: int = 0
    """Sample only pages with fewer directories in their path than this; 0: all pages (seed 000, §5.2)."""
    quality: bool = False
    """A page of many links and a low rank is left behind first (seed 000, §5.2). Ranks need an order by rank."""
    back_queues: int = 0
    """Hosts in play at a time in the whole crawl, as Mercator's back queues (seed 003, §20.2.3), divided evenly
    among the shards, at least one each; 0: three times the visits."""
    front_queues: int = 16
    """*F* of the biased order."""
    batch: int = 10_000
    """*K*: pages between two calculations of ranks (orders batch and partial)."""
    rank_memory: int = 256 << 20
    """Bytes that the links for the ranks may take; above it hosts are ranked instead of pages."""
    oracle: str = ""
    """A file of ranks for the order optimal: lines of a rank and a URL."""
    scorer: str = ""
    """A function of the operator's own, as module:function or file.py:function."""
    boosts: tuple[Boost, ...] = ()
    host_budget: int = 0
    """Pages per budget: hosts that have used up fewer budgets go before those that have used up more; 0: none."""
    domain_budget: int = 0
    """The same for a registered domain; it grows with the number of other domains that link to it."""

    def __post_init__(self) -> None:
        for name, least in (
            ("memory", LEAST_MEMORY),
            ("sample", 0),
            ("directories", 0),
            ("back_queues", 0),
            ("front_queues", 1),
            ("batch", 1),
            ("rank_memory", LEAST_MEMORY),
            ("host_budget", 0),
            ("domain_budget", 0),
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= least):
                raise ValueError(f"{name} must be at least {least}, not {value}")
        if self.front_queues > 256:
            raise ValueError(f"front_queues must be at most 256, not {self.front_queues}")
        if self.order == "optimal" and not self.oracle:
            raise ValueError("order optimal needs oracle, a file of ranks")
        if self.admit == "truncated" and not self.sample:
            raise ValueError("admit truncated needs sample, the number of links taken of a page")
