"""Frontier: which URL is fetched next, and when.

`protocol.py` is the contract of a frontier, `plain.py` the reference implementation for the tests. Four parts:

    orders    which URL of a host first, and which host     levels, ranks, the operator's scores
    packed    `PackedFrontier`, used by crawls              flat arrays, changed in place by kernels
    sydney    how many of a page's new links enter          fill of the memory, what was left behind
    waits     how long hosts, addresses and URLs wait       politeness, retries, the calendar

`fields.py` and `checking.py` are for stores of packed arrays: names for the numbers that kernels share with Python,
and a mode in which the invariants of a store are checked after its operations.

Imports go one way: `packed` and `plain` know `orders`; `sydney` and `waits` know none of the others. The parts of a
crawl are imported from here, by name; each name is loaded at its first use, so that importing the options alone
does not load the kernels. Constants and kernels are imported from their module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lycosa.frontier.options import Boost, FrontierOptions
    from lycosa.frontier.orders.order import BiasedOrder, DepthOrder, LengthOrder, Order, Ranking, Sighting
    from lycosa.frontier.orders.ranked import (
        BatchOrder,
        Judging,
        Noted,
        OptimalOrder,
        PartialOrder,
        Plan,
        RankedOrder,
        Ranks,
    )
    from lycosa.frontier.orders.scoring import ScoredOrder, ScoredRankedOrder, Scorer, load_scorer, scored
    from lycosa.frontier.orders.shares import Shares
    from lycosa.frontier.packed.frontier import PackedFrontier
    from lycosa.frontier.plain import PlainFrontier
    from lycosa.frontier.protocol import Frontier, Levels
    from lycosa.frontier.sydney.left_behind import Entry, LeftBehind
    from lycosa.frontier.sydney.left_packed import PackedLeftBehind
    from lycosa.frontier.sydney.left_plain import PlainLeftBehind
    from lycosa.frontier.sydney.room import Room, Sampler
    from lycosa.frontier.waits.calendar import Calendar
    from lycosa.frontier.waits.politeness import AddressTable, PolitenessOptions, pages_per_visit, wait_after
    from lycosa.frontier.waits.retries import RetryOptions, retry_due

_WHERE = {
    "options": "Boost FrontierOptions",
    "orders.order": "BiasedOrder DepthOrder LengthOrder Order Ranking Sighting",
    "orders.ranked": "BatchOrder Judging Noted OptimalOrder PartialOrder Plan RankedOrder Ranks",
    "orders.scoring": "ScoredOrder ScoredRankedOrder Scorer load_scorer scored",
    "orders.shares": "Shares",
    "packed.frontier": "PackedFrontier",
    "plain": "PlainFrontier",
    "protocol": "Frontier Levels",
    "sydney.left_behind": "Entry LeftBehind",
    "sydney.left_packed": "PackedLeftBehind",
    "sydney.left_plain": "PlainLeftBehind",
    "sydney.room": "Room Sampler",
    "waits.calendar": "Calendar",
    "waits.politeness": "AddressTable PolitenessOptions pages_per_visit wait_after",
    "waits.retries": "RetryOptions retry_due",
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names.split()}

__all__ = [
    "AddressTable",
    "BatchOrder",
    "BiasedOrder",
    "Boost",
    "Calendar",
    "DepthOrder",
    "Entry",
    "Frontier",
    "FrontierOptions",
    "Judging",
    "LeftBehind",
    "LengthOrder",
    "Levels",
    "Noted",
    "OptimalOrder",
    "Order",
    "PackedFrontier",
    "PackedLeftBehind",
    "PartialOrder",
    "PlainFrontier",
    "PlainLeftBehind",
    "Plan",
    "PolitenessOptions",
    "RankedOrder",
    "Ranking",
    "Ranks",
    "RetryOptions",
    "Room",
    "Sampler",
    "ScoredOrder",
    "ScoredRankedOrder",
    "Scorer",
    "Shares",
    "Sighting",
    "load_scorer",
    "pages_per_visit",
    "retry_due",
    "scored",
    "wait_after",
]

if not TYPE_CHECKING:  # a type checker goes by the imports above, and finds names that are not there

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
