"""Orders by rank: best known pages first (Castillo, §6.3).

    batch     PageRank of the known graph every K pages; the best K are next, pages found since then last
    partial   the same, but a page found since then has a temporary rank: the sum, over the pages that point to
              it, of their rank divided by the number of their links
    optimal   the ranks of an oracle, from a file

The ranks are calculated elsewhere (`lycosa.crawl.ranking`): an order is given `Ranks`, calculates the level of
every page (`planner`, in a thread), and adopts the plan: from then on it gives new URLs their levels, and the
`Levels` it returns re-level pending URLs. How ranks become levels:

    0 … 126     the best K ranked pages that are not done, in 127 equal parts
    127 … 254   the other ranked pages that are not done, in 128 equal parts
    255         pages without a rank

A level is bounded by the lowest rank in its part, so that equal ranks have equal levels, and any rank, also a
temporary one or an oracle's, has a level: that of the first part whose bound it reaches; below all bounds, 254.

Before the first ranks all home pages are alike (§6.3): `batch` goes breadth-first with seeds and home pages in
front, `partial` gives each of them the rank 1 and has eight levels per halving of the rank. In a resumed crawl,
pending URLs already have levels made from ranks, so until there are ranks again new URLs are last (`resume`).

Ranks may be of hosts rather than pages (`by_host`): then a URL, even a new one, has the rank of its host.
`host_name` identifies a host: 48 bits of its hash, which a frontier can tell.

Deliberate differences from the thesis. A pending URL keeps its temporary rank's level until the next calculation,
though more pages may point to it by then: the seen store drops repeats, and moving a URL within the queues for each
of them costs more than it gains. And K counts known pages, in scope or not: an order knows keys, not URLs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lycosa.errors import ConfigError
from lycosa.frontier.orders.order import LEVELS, Order, Ranking, Sighting
from lycosa.frontier.orders.shares import SLOTS, Shares
from lycosa.frontier.protocol import Levels
from lycosa.records import Waiting
from lycosa.url.canonical import canonicalise
from lycosa.url.key import Keyer, Keys
from lycosa.url.parts import host_of

WORST = LEVELS - 1
_TOP = 127  # levels of the batch
_RANKED = WORST  # levels of ranked pages
HOST_BITS = 0xFFFF_0000_FFFF_FFFF
_HOST_MASK = np.uint64(HOST_BITS)
_NONE = np.empty(0, np.uint64)
_PER_HALVING = 8
_LEAST_SHARE = 2.0**-31
"""Before the first ranks, the rank of an unknown source: below every level's bound."""


def host_name(hashes: Keys) -> Keys:
    """The identifiers of hosts in ranks by host: their hashes without bits 32 to 47.

    The top 16 bits begin the keys of the host's URLs, and the low 32 are what a frontier keeps of a host.
    """
    return hashes & _HOST_MASK


class Ranks(NamedTuple):
    """The outcome of a calculation."""

    keys: Keys  # ascending: of pages, or the names of hosts
    values: NDArray[np.float32]  # their ranks
    done: Keys  # ascending: pages that are fetched or skipped, hence not pending
    by_host: bool = False


class Over(NamedTuple):
    """What a wrapping order puts over the levels of the inner one (`lycosa.frontier.orders.scoring`)."""

    rows: int  # how many of its rows it was made of
    kept: NDArray[Any]  # what is left of these
    levels: Levels


class Plan(NamedTuple):
    """Ranks, and the levels made from them."""

    ranks: Ranks
    levels: NDArray[np.uint8]  # of each key
    bounds: NDArray[np.float32]  # the lowest rank of each level, 0 to 254; descending
    batch: int  # how many of the best are next
    middle: float  # the median of all ranks
    mean: float
    lowest: float
    best: NDArray[np.float32] | None = (
        None  # of ranks by host: the highest for each value of a key's top 16 bits
    )
    over: Over | None = None

    def level_of(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The level of each rank."""
        found = np.searchsorted(-self.bounds, -values.astype(np.float32), "left")
        return np.minimum(found, _RANKED - 1)


class Noted(NamedTuple):
    """A fetched page, with the links that count for its rank."""

    source: int  # its key
    host: int  # the name of its host
    keys: Keys  # of its links
    hosts: Keys  # the names of their hosts
    start: bool  # a seed or a home page


@runtime_checkable
class Judging(Protocol):
    """An order that knows ranks of pages."""

    def rank_of(self, key: int) -> float | None:
        """The rank of a page; None if it has none (ranks by host cannot be asked for a page)."""
        ...

    def is_low(self, key: int) -> bool:
        """Whether a page is known to be in the lower half of the ranks."""
        ...


@runtime_checkable
class RankedOrder(Order, Judging, Protocol):
    """An order that is given new ranks from time to time.

    Calls of `planner` and `adopt` alternate. The function that `planner` returns touches nothing that changes: it
    is for a thread.
    """

    batch: int

    def resume(self) -> None:
        """The crawl is a resumed one: pending URLs have their levels already."""
        ...

    def note(self, noted: Noted) -> None:
        """A page was fetched. To be called before its links are given levels."""
        ...

    def planner(self) -> Callable[[Ranks], Plan]:
        """The function that makes a plan from ranks."""
        ...

    def adopt(self, plan: Plan) -> Levels:
        """Use the plan from now on; returns the new levels of pending URLs."""
        ...


# -- ranks become levels


def plan_levels(ranks: Ranks, batch: int) -> Plan:
    """The plan made from ranks; see the module's docstring."""
    values = ranks.values
    if not len(values):
        bounds = np.full(_RANKED, np.inf, np.float32)
        return Plan(ranks, np.empty(0, np.uint8), bounds, 0, 0.0, 1.0, _LEAST_SHARE)
    waiting = np.ones(len(values), np.bool_)
    if len(ranks.done):
        found, at = find(ranks.keys, ranks.done)
        waiting[at[found]] = False
    best = np.sort(values[waiting])[::-1]
    # Hosts are never done: all of them are ranked over all levels, whatever K is.
    batch = max(len(best) // 2, 1) if ranks.by_host else batch
    batch = min(batch, len(best))
    bounds = np.concatenate([_bounds(best[:batch], _TOP), _bounds(best[batch:], _RANKED - _TOP)])
    np.minimum.accumulate(bounds, out=bounds)
    middle = float(np.median(values))
    levels = np.minimum(np.searchsorted(-bounds, -values, "left"), _RANKED - 1).astype(np.uint8)
    highest = None
    if ranks.by_host:
        highest = np.zeros(1 << 16, np.float32)
        prefixes = (ranks.keys >> np.uint64(48)).astype(np.int64)
        firsts = np.flatnonzero(np.concatenate([[True], prefixes[1:] != prefixes[:-1]]))
        highest[prefixes[firsts]] = np.maximum.reduceat(values, firsts)
    return Plan(ranks, levels, bounds, batch, middle, float(values.mean()), float(values.min()), highest)


def _bounds(best: NDArray[np.float32], parts: int) -> NDArray[np.float32]:
    """The lowest value of each of `parts` equal parts of a descending sequence; infinity if it is empty."""
    if not len(best):
        return np.full(parts, np.inf, np.float32)
    ends = -(-np.arange(1, parts + 1) * len(best) // parts)
    return best[ends - 1]


def find(table: Keys, keys: Keys) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Which keys are in an ascending table, and where."""
    at = np.searchsorted(table, keys)
    if not len(table):
        return np.zeros(len(keys), np.bool_), at
    at[at == len(table)] = 0
    return table[at] == keys, at


def is_home(url: str) -> bool:
    """Whether a URL is the home page of its site."""
    return url.endswith("/") and url.count("/") == 3


# -- the orders


class BatchOrder:
    """The best K next, then calculate again (§6.3, "Batch")."""

    ranking = Ranking.LEVEL
    bias = 0
    sighted = False
    other = WORST  # the level of pending URLs without a rank

    def __init__(self, batch: int, keyer: Keyer) -> None:
        self.batch = batch
        self._keyer = keyer
        self._plan: Plan | None = None
        self._resumed = False

    def rank(self, host: str, queued: int, level: int) -> float:
        return float(level)

    def resume(self) -> None:
        self._resumed = True

    def note(self, noted: Noted) -> None:
        """Between calculations nothing changes."""

    def planner(self) -> Callable[[Ranks], Plan]:
        batch = self.batch
        return lambda ranks: plan_levels(ranks, batch)

    def adopt(self, plan: Plan) -> Levels:
        self._plan = plan
        return Levels(plan.ranks.keys, plan.levels, self.other, plan.ranks.by_host)

    def levels(self, items: Sequence[Waiting], sighting: Sighting | None) -> list[int]:
        plan = self._plan
        if plan is None:
            return [self._early(item) for item in items]
        found, at = find(plan.ranks.keys, self._names(items, plan))
        if not found.any():
            return [WORST] * len(items)
        levels: list[int] = np.where(found, plan.levels[at], WORST).tolist()
        return levels

    def rank_of(self, key: int) -> float | None:
        plan = self._plan
        if plan is None or plan.ranks.by_host:
            return None
        found, at = find(plan.ranks.keys, np.array([key], np.uint64))
        return float(plan.ranks.values[at[0]]) if found[0] else None

    def is_low(self, key: int) -> bool:
        if self._plan is None:
            return False
        if self._plan.best is not None:
            # A key holds only 16 bits of its host: a page is low only if every host with these bits is.
            return 0.0 < float(self._plan.best[key >> 48]) < self._plan.middle
        rank = self.rank_of(key)
        return rank is not None and rank < self._plan.middle

    def _early(self, item: Waiting) -> int:
        """The level before there are ranks."""
        if self._resumed:
            return WORST
        return 0 if is_home(item.url) else min(item.depth, WORST - 1)

    def _names(self, items: Sequence[Waiting], plan: Plan) -> Keys:
        """The identifiers of these URLs in the plan: keys, or host names."""
        if not plan.ranks.by_host:
            return np.fromiter((item.key for item in items), np.uint64, len(items))
        host_hash = self._keyer.host_hash
        return np.fromiter(
            (host_hash(host_of(item.url)) & HOST_BITS for item in items), np.uint64, len(items)
        )


class PartialOrder(BatchOrder):
    """As Batch, with temporary ranks for pages found between calculations (§6.3, "Partial")."""

    sighted = True
    other = -1  # what was found during the calculation keeps the level of its temporary rank

    def __init__(self, batch: int, keyer: Keyer, slots: int = SLOTS) -> None:
        super().__init__(batch, keyer)
        self.shares = Shares(slots)

    def note(self, noted: Noted) -> None:
        plan = self._plan
        by_host = plan is not None and plan.ranks.by_host
        targets = noted.hosts if by_host else noted.keys
        if len(targets):
            value = self._value(noted.host if by_host else noted.source, noted.start)
            self.shares.add(targets, value / len(targets), plan.ranks.keys if plan else _NONE)

    def adopt(self, plan: Plan) -> Levels:
        self.shares.clear()
        return super().adopt(plan)

    def levels(self, items: Sequence[Waiting], sighting: Sighting | None) -> list[int]:
        plan = self._plan
        if plan is None:
            names = np.fromiter((item.key for item in items), np.uint64, len(items))
            values = self._temporary(items, names, sighting)
            if self._resumed:
                return [WORST] * len(items)
            return [_early_level(value) for value in values.tolist()]
        names = self._names(items, plan)
        found, at = find(plan.ranks.keys, names)
        if found.all():
            known: list[int] = plan.levels[at].tolist()
            return known
        values = self._temporary(items, names, sighting)
        levels = np.where(values > 0, plan.level_of(values), WORST)
        levels[found] = plan.levels[at[found]]
        out: list[int] = levels.tolist()
        return out

    def _temporary(
        self, items: Sequence[Waiting], names: Keys, sighting: Sighting | None
    ) -> NDArray[np.float64]:
        """The temporary rank of each URL; 0 if it has none."""
        values = self.shares.read(names)
        if sighting is not None and not values.all():
            source = sighting.key
            if self._plan is not None and self._plan.ranks.by_host:
                source = self._keyer.host_hash(host_of(sighting.source)) & HOST_BITS
            share = self._value(source, is_home(sighting.source)) / max(sighting.links, 1)
            values[values == 0] = share
        start = self._plan.mean if self._plan else 1.0
        for row, item in enumerate(items):
            if item.depth == 0 or (self._plan is None and is_home(item.url)):
                values[row] = max(values[row], start)
        return values

    def _value(self, name: int, start: bool) -> float:
        """The rank of a source: its own, else its temporary one, else that of a start page, else the least."""
        plan = self._plan
        key = np.array([name], np.uint64)
        if plan is not None:
            found, at = find(plan.ranks.keys, key)
            if found[0]:
                return max(float(plan.ranks.values[at[0]]), _TINY)
        sum_ = float(self.shares.read(key)[0])
        if sum_ > 0:
            return sum_
        if plan is None:
            return 1.0 if start else _LEAST_SHARE
        return max(plan.mean if start else plan.lowest, _TINY)


_TINY = 1e-30
"""The least share, so that shares are always above 0."""


def _early_level(value: float) -> int:
    """The level of a temporary rank before there are others to compare it with; a seed's is 1."""
    if value <= 0:
        return WORST
    return min(max(round(-_PER_HALVING * math.log2(value)), 0), WORST - 1)


class OptimalOrder:
    """The ranks of an oracle (§6.3, "Optimal"); pages that it does not list come last.

    The file has a line per page: a rank (any number; the higher the better) and a URL, with white space between.
    Empty lines and those that begin with # are ignored. Of two lines for one URL the higher rank holds.
    """

    ranking = Ranking.LEVEL
    bias = 0
    sighted = False

    def __init__(self, keys: Keys, values: NDArray[np.float32]) -> None:
        """Ranks of keys, in any order, each key once."""
        order = np.argsort(keys)
        ranks = Ranks(keys[order], values[order], _NONE)
        self._plan = plan_levels(ranks, max(len(keys) * _TOP // _RANKED, 1))

    @classmethod
    def load(cls, path: Path | str, keyer: Keyer) -> OptimalOrder:
        """Read an oracle's file."""
        try:
            with Path(path).open("rb") as lines:
                return cls.parse(lines, keyer, str(path))
        except OSError as error:
            raise ConfigError(f"frontier.oracle: cannot read {path}: {error.strerror}") from None

    @classmethod
    def parse(cls, lines: Iterable[bytes], keyer: Keyer, name: str = "oracle") -> OptimalOrder:
        """Read the lines of an oracle's file; `name` is for complaints."""
        known: dict[int, float] = {}
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].startswith(b"#"):
                continue
            where = f"{name} line {number}"
            if len(words) != 2:
                raise ConfigError(f"{where}: a rank and a URL, not {_shown(line)}")
            try:
                rank = float(words[0])
            except ValueError:
                raise ConfigError(f"{where}: {_shown(words[0])} is not a number") from None
            # A value beyond single precision would become infinite.
            if not abs(rank) < 1e38:
                raise ConfigError(f"{where}: {_shown(words[0])} is not a rank")
            url = canonicalise(words[1].decode("utf-8", "surrogateescape"))
            if url is None:
                raise ConfigError(f"{where}: {_shown(words[1])} is not a URL")
            key = keyer.key(url)
            known[key] = max(rank, known.get(key, rank))
        count = len(known)
        return cls(
            np.fromiter(known, np.uint64, count),
            np.fromiter(known.values(), np.float64, count).astype(np.float32),
        )

    def rank(self, host: str, queued: int, level: int) -> float:
        return float(level)

    def levels(self, items: Sequence[Waiting], sighting: Sighting | None) -> list[int]:
        keys = np.fromiter((item.key for item in items), np.uint64, len(items))
        found, at = find(self._plan.ranks.keys, keys)
        if not found.any():
            return [WORST] * len(items)
        levels: list[int] = np.where(found, self._plan.levels[at], WORST).tolist()
        return levels

    def rank_of(self, key: int) -> float | None:
        found, at = find(self._plan.ranks.keys, np.array([key], np.uint64))
        return float(self._plan.ranks.values[at[0]]) if found[0] else None

    def is_low(self, key: int) -> bool:
        rank = self.rank_of(key)
        return rank is not None and rank < self._plan.middle


def _shown(text: bytes) -> str:
    return repr(text.strip()[:60].decode("utf-8", "replace"))
