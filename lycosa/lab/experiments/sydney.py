"""The Sydney strategy on a whole graph: how long do the queues get, and what does that cost?

Castillo, Nelli and Panconesi, "Crawling the Web with Limited Memory", simulated crawls of graphs of 18 to 118
million pages: no network, no time, only the two queues. This does the same with any BV graph, under the rules that
the frontier implements (`lycosa.frontier.sydney`) and, for comparison, under others.

A crawl takes pages from P (the pending), first in first out. A page gives at most *t* of its new links, in the
pseudo-random order that the frontier gives a record's links; if more are new it is left behind in S, with a cursor.
When P is empty the first page of S comes back: it gives at most *t* of the links that are new by then, and goes to
the end of S if that was not all. `Rule` lists all variations.

Words: the *explored space* is what a breadth-first crawl reaches from the start pages; all shares here are shares
of it, except that of BFS. A *return* is a page coming back once; the paper calls pages that come back re-visited.

Deliberate differences from the paper: its Figure 2 empties S into P and visits those pages again, which is rule
`emptied`; many pages then come back at the same moment. A page's sample is not drawn afresh on each visit but
continues in one order, drawn once: that is what the frontier can do with a position and a cursor. A page whose new
links all enter gives them in its own order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lycosa.crawl.admission import LEAST, RETURNS
from lycosa.errors import ConfigError
from lycosa.frontier import FrontierOptions, Room, Sampler
from lycosa.frontier.sydney.room import ALL, FULL, MOST_BACK, PER_URL
from lycosa.graph import walk_kernels
from lycosa.graph.bv import Lists
from lycosa.lab.experiments import sydney_kernels as kernels
from lycosa.url.key import Keys, mix, mix_array

_KINDS = {"none": kernels.NONE, "fifo": kernels.FIFO, "lifo": kernels.LIFO, "emptied": kernels.EMPTIED}
POINTS = 1024
"""Points of a curve."""
_ENDLESS = 1 << 40
_PATIENT = 1 << 10
"""A frontier without a limit that is still low with so many URLs is assumed to be low always."""

PAPER_PEAK = {ALL: 0.14, 64: 0.12, 32: 0.11, 16: 0.09, 8: 0.07}
PAPER_RETURNED = {ALL: 0.0, 64: 0.001, 32: 0.004, 16: 0.010, 8: 0.022}
"""Table 1: the largest |P|+|S| as a share of the pages, and pages that come back. WebBase, 118M pages, 2001."""
PAPER_COVERAGE = {
    (8, 0.03): 0.938, (8, 0.05): 0.975, (8, 0.07): 0.999, (16, 0.03): 0.890, (16, 0.05): 0.948, (16, 0.07): 0.981,
}  # fmt: skip
"""Table 2: coverage by t and budget. (The figure that belongs to it is of IT, 41M pages, 2004.)"""


@dataclass(frozen=True, slots=True)
class Rule:
    """How a crawl fills its queues; the defaults are Sydney's, with t unbounded: breadth-first."""

    name: str
    t: int = ALL
    again: int = 0
    """How many links a page gives on a return; 0: t."""
    shuffled: bool = True
    """Whether a sample is drawn from the page's pseudo-random order; else it is the first links of the page."""
    pending: Literal["fifo", "lifo"] = "fifo"
    left: Literal["fifo", "lifo", "emptied", "none"] = "fifo"
    """What S is: a queue; a stack; a queue that is emptied into P when P is empty; nothing (§3.1)."""
    budget: float = 0.0
    """Limit of |P|+|S|, as a share of the explored space; what does not fit is dropped (§3.3). 0: no limit."""
    whole: bool = False
    """With a budget: a page that is fetched while it is not reached adds all its links and itself, exceeding it if
    need be, and one fetched when it is reached adds nothing. Otherwise links get the remaining places, one by one,
    and the page gets one after them."""
    mode: Literal["", "adaptive", "sample", "fixed", "truncated"] = ""
    """Not the paper's rule but the frontier's, in that mode (`lycosa.frontier.options`), with `sample` t."""
    room: float = 0.0
    """In a mode of the frontier: how many URLs fill it, as a share of the explored space. 0: no limit."""
    shallow: int = 0
    """Sample only pages at a smaller depth than this (§5.2); 0: all."""
    quality: bool = False
    """A page with more than t links and a rank in the lower half gives none at first (§5.2)."""


class Plan(NamedTuple):
    """A rule, worked out for a graph: the parameters of the kernel and its plain twin."""

    first: NDArray[np.int64]  # new links that each page gives when it is fetched; -1: all, if any may enter
    again: int  # new links that a page gives on a return
    returns: int = 0  # unless 0: on a return a page gives at least its links divided by this
    least: int = 0  # and at least this if nothing else is pending
    low: int = 1  # pages come back while fewer are pending
    budget: int = -1  # most of |P|+|S|; -1: no limit
    base: int = 0  # the position of the first page's record: positions salt the pages' orders
    kind: int = kernels.FIFO
    lifo: bool = False
    shuffled: bool = True
    whole: bool = False
    table: NDArray[np.int64] = np.empty((0, 4), np.int64)
    """Unless empty, by |P|: most links that a page gives, URLs that fit, URLs that fit without hurry (a page whose
    new links are at most this, and at most the most, gives them in its own order), whether pages are left behind.
    The last row is that of a full frontier."""


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A graph to crawl, and the properties of its pages."""

    lists: Lists
    sources: NDArray[np.int64]
    keys: Keys
    """What a page's order is computed from: keys of URLs, or for mere numbers their hash."""
    depths: NDArray[np.int32]
    """Directories of the URL; for mere numbers the steps from the start, below 0 for unreachable pages."""
    ranks: NDArray[np.float64]
    worth: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """The value of finding a page, by the name of the measure."""

    def is_low(self) -> NDArray[np.bool_]:
        """For each page whether its rank is in the lower half."""
        return self.ranks < (np.median(self.ranks) if len(self.ranks) else 0.0)


class Trace(NamedTuple):
    """One crawl."""

    order: NDArray[np.int32]  # pages as they were fetched
    curve: NDArray[np.int32]  # |P| and |S| at the largest state of each interval of `stride` pages
    stride: int
    returned: int  # pages that came back at least once
    peak: int  # of |P|+|S|
    peak_at: int  # pages fetched by then
    peak_p: int
    peak_s: int
    left: int  # times that a page was left behind
    returns: int
    barren: int  # returns that gave nothing: other pages had found the links meanwhile
    dropped: int  # links that did not fit the budget
    forgotten: int  # pages with new links that did not fit the budget


class Row(NamedTuple):
    """The results of a crawl, as shares."""

    rule: str
    coverage: float
    peak: float
    of_bfs: float
    peak_p: float
    peak_s: float
    peak_at: float
    returned: float
    returns: float
    barren: float
    dropped: float
    forgotten: float
    worth: dict[str, list[float | None]]
    """By measure: its share when 25, 50 and 75% of the explored space are fetched (None: never), and at the end."""


def number_keys(count: int, seed: int) -> Keys:
    """Keys of pages that are only numbers."""
    return mix_array(np.arange(count, dtype=np.uint64) ^ np.uint64(mix(seed + 1)))


def reshuffled(subject: Subject, number: int) -> Subject:
    """The same graph with other random samples."""
    return replace(subject, keys=mix_array(subject.keys ^ np.uint64(mix(number))))


def reach(lists: Lists, sources: NDArray[np.int64]) -> NDArray[np.int32]:
    """Steps from the nearest source to each page; -1 if it cannot be reached."""
    steps = np.empty(lists.count, np.int32)
    walk_kernels.distances(lists.starts, lists.nodes, sources, steps, np.empty(lists.count, np.int32))
    return steps


def best_start(lists: Lists, candidates: int = 64) -> int:
    """The start page: among the pages with most links, and those most linked to, the one that reaches most.

    Among several that reach as much, the one with the lowest mean number of steps to a page: a page with
    thousands of links to dead ends reaches everything too, by one long way.
    """
    if not lists.count:
        raise ConfigError("the graph has no nodes")
    out = np.diff(lists.starts)
    into = np.bincount(lists.nodes, minlength=lists.count)
    likely = {int(v) for by in (out, into) for v in np.argsort(-by, kind="stable")[:candidates]}

    def merit(v: int) -> tuple[int, int, int]:
        steps = reach(lists, np.array([v]))
        near = steps[steps >= 0]
        return len(near), -int(near.sum(dtype=np.int64)), -v

    return max(likely, key=merit)


def plan_of(rule: Rule, subject: Subject, explored: int, base: int = 0) -> Plan:
    """Work out a rule; `explored` is what its shares are shares of."""
    if rule.t < 1 or rule.again < 0:
        raise ConfigError(f"rule {rule.name!r}: a page gives at least one link")
    if rule.mode:
        return _frontier_plan(rule, subject, explored, base)
    return Plan(
        first=_first(rule, subject),
        again=rule.again or rule.t,
        budget=max(int(rule.budget * explored), 1) if rule.budget else -1,
        base=base,
        kind=_KINDS[rule.left],
        lifo=rule.pending == "lifo",
        shuffled=rule.shuffled,
        whole=rule.whole,
    )


def _first(rule: Rule, subject: Subject) -> NDArray[np.int64]:
    first = np.full(subject.lists.count, rule.t, np.int64)
    if rule.quality:
        first[(np.diff(subject.lists.starts) > min(rule.t, MOST_BACK)) & subject.is_low()] = 0
    if rule.shallow:
        first[(subject.depths >= rule.shallow) | (subject.depths < 0)] = kernels.DEEP
    return first


def options_of(rule: Rule) -> FrontierOptions:
    """The frontier's options for a rule in one of its modes."""
    assert rule.mode, "not a rule of the frontier's"
    return FrontierOptions(
        admit=rule.mode,
        sample=0 if rule.t == ALL else rule.t,
        directories=rule.shallow,
        quality=rule.quality,
    )


def room_for(rule: Rule, explored: int) -> Room:
    """A frontier's memory that is filled by so many URLs of equal size; without a limit if the rule has none."""
    urls = max(int(rule.room * explored), 1) if rule.room else _ENDLESS
    return Room(math.ceil(urls * PER_URL / FULL))


def _frontier_plan(rule: Rule, subject: Subject, explored: int, base: int) -> Plan:
    """The plan of `lycosa.crawl.admission` when every page is a host of its own and answers come at once."""
    sampler = Sampler(options_of(rule))
    room = room_for(rule, explored)
    rows: list[tuple[int, int, int, int]] = []
    low = 0
    while not rows or rows[-1][0]:
        room.used = len(rows) * PER_URL
        fill = room.fill
        if low == len(rows) and sampler.is_low(fill, low):
            low += 1
        rows.append((sampler.t(fill), room.urls_left(1.0), room.urls_left(0.5), int(sampler.keeps(fill))))
        if not rule.room and (low < len(rows) or low > _PATIENT):
            break  # constant from here on
    return Plan(
        first=_first(rule, subject),
        again=min(rule.t, MOST_BACK),
        returns=RETURNS,
        least=LEAST,
        low=max(low, 1),
        base=base,
        kind=kernels.FIFO,
        table=np.array(rows, np.int64),
    )


def crawl(subject: Subject, plan: Plan) -> Trace:
    """Crawl the graph by a plan."""
    n = subject.lists.count
    stride = max(-(-n // POINTS), 1)
    order = np.empty(n, np.int32)
    curve = np.zeros((n // stride + 1, 2), np.int32)
    returned = np.zeros(n, np.bool_)
    c = np.zeros(kernels.COUNTS, np.int64)
    kernels.crawl(
        subject.lists.starts,
        subject.lists.nodes.copy(),
        subject.keys,
        np.array(list(dict.fromkeys(subject.sources.tolist())), np.int64),
        plan.first,
        plan[1:11],
        plan.table,
        stride,
        order,
        curve,
        returned,
        c,
    )
    fetched = int(c[kernels.FETCHED])
    return Trace(
        order=order[:fetched],
        curve=curve[: fetched // stride + 1],
        stride=stride,
        returned=int(returned.sum()),
        **{name: int(c[getattr(kernels, name.upper())]) for name in _COUNTED},
    )


_COUNTED = ("peak", "peak_at", "peak_p", "peak_s", "left", "returns", "barren", "dropped", "forgotten")


def found(trace: Trace, worth: NDArray[np.float64], inside: NDArray[np.bool_]) -> NDArray[np.float64]:
    """After each page, the share found of the total worth inside the explored space."""
    total = float(worth[inside].sum())
    return np.cumsum(worth[trace.order]) / (total or 1.0)


def row_of(rule: Rule, trace: Trace, subject: Subject, bfs: Trace) -> Row:
    """The results of a crawl."""
    explored = len(bfs.order)
    whole = max(explored, 1)
    inside = np.zeros(subject.lists.count, np.bool_)
    inside[bfs.order] = True
    fetched = len(trace.order)
    worth: dict[str, list[float | None]] = {}
    for name, values in subject.worth.items():
        sums = found(trace, values, inside)
        points: list[float | None] = []
        for share in (0.25, 0.5, 0.75):
            at = max(round(share * explored), 1)
            points.append(float(sums[at - 1]) if at <= fetched else None)
        worth[name] = [*points, float(sums[-1]) if fetched else 0.0]
    return Row(
        rule=rule.name,
        coverage=fetched / whole,
        peak=trace.peak / whole,
        of_bfs=trace.peak / max(bfs.peak, 1),
        peak_p=trace.peak_p / whole,
        peak_s=trace.peak_s / whole,
        peak_at=trace.peak_at / whole,
        returned=trace.returned / whole,
        returns=trace.returns / whole,
        barren=trace.barren / whole,
        dropped=trace.dropped,
        forgotten=trace.forgotten,
        worth=worth,
    )


def median_row(rows: Sequence[Row]) -> Row:
    """The median of each number over several crawls under one rule; None for a worth that not all reached."""

    def middle(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return float(np.median(known)) if len(known) == len(values) else None

    worth = {
        name: [middle(points) for points in zip(*(row.worth[name] for row in rows), strict=True)]
        for name in rows[0].worth
    }
    numbers = {name: middle([getattr(row, name) for row in rows]) for name in Row._fields[1:-1]}
    return Row(rule=rows[0].rule, worth=worth, **numbers)  # type: ignore[arg-type]  # none of these is None


BFS = Rule("breadth-first", shuffled=False)


def rules(samples: Sequence[int], budgets: Sequence[float], shallow: int) -> list[Rule]:
    """Everything that the experiment compares; the first is breadth-first."""
    made = [
        BFS,
        Rule("last in, first out", shuffled=False, pending="lifo"),
        # One link at a time, and back to the page opened last: a depth-first walk.
        Rule("depth-first", t=1, shuffled=False, left="lifo"),
    ]
    made += [Rule(f"t={t}", t=t) for t in samples]
    small = sorted(samples)[:2]
    for t in reversed(small):
        made += [
            Rule(f"t={t}, back with all", t=t, again=ALL),
            Rule(f"t={t}, S emptied", t=t, left="emptied"),
            Rule(f"t={t}, S emptied, all", t=t, again=ALL, left="emptied"),
            Rule(f"t={t}, truncated", t=t, left="none"),
            Rule(f"t={t}, shallow", t=t, shallow=shallow),
            Rule(f"t={t}, quality", t=t, quality=True),
        ]
    made += [Rule(f"t={t}, budget {share:.0%}", t=t, budget=share) for t in small for share in budgets]
    made += [Rule(f"frontier, t={t}", t=t, mode="sample") for t in samples]
    made += [Rule(f"frontier, adaptive, room {share:.0%}", mode="adaptive", room=share) for share in budgets]
    return made


def experiment(
    subject: Subject, chosen: Sequence[Rule], told: Callable[[Rule], None] | None = None
) -> Iterator[tuple[Rule, Trace, Row]]:
    """Crawl under each rule. `told` is called with each rule before its crawl."""
    bfs = crawl(subject, plan_of(BFS, subject, subject.lists.count))
    for rule in chosen:
        if told is not None:
            told(rule)
        trace = bfs if rule == BFS else crawl(subject, plan_of(rule, subject, len(bfs.order)))
        yield rule, trace, row_of(rule, trace, subject, bfs)
