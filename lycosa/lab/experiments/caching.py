"""Broder, Najork and Wiener's caching experiments: which links of a crawl does a cache of k entries catch?

Figures 2 to 11, what §5 says about them, and two of the open questions of §7: a separate cache for each visit, and
another order. `caching_curves` makes the traces and drives the caches.

Two properties of the paper's trace are missing in a graph: repeated links within a page, which are drawn (30% of
all links, §4.2); and the four machines, to which sites are assigned by a hash. As in the paper (§5) the *full
trace* is what one of the four meets, and the *cross sub-trace* the part of it that is sent to the others.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lycosa.lab.experiments.caching_curves import (
    LARGEST,
    MOST,
    POLICIES,
    PROCESSES,
    REPEATS,
    Curves,
    Rates,
    Region,
    cross,
    per_visit,
    region,
    speed,
    trace,
)
from lycosa.lab.experiments.result import Curve, Figure, Line, Result, Told
from lycosa.lab.experiments.web import Web

PAPER = "Broder, Najork, Wiener: Efficient URL Caching for World Wide Web Crawling, WWW 2003"
CLAIM = (
    "A cache of some 50,000 entries (100 to 500 for each of 500 threads) catches almost 80% of the links; a much "
    "smaller one far fewer, a much larger one hardly more; CLOCK and LRU are nearly as good as the clairvoyant MIN."
)
VISITS = (20, 100, 500)
TOLD = Curve("the paper's text", (2.0**14, 50_000.0, 2.0**18), (0.70, 0.20, 0.20), True)
"""Points of Figure 2 given in the text (§5, §7): the ends of the critical region, and the recommended size."""


class Measured(NamedTuple):
    """The results kept from a trace, or from its cross sub-trace, after its links are freed."""

    rates: Rates
    infinite: float
    links: int
    over_time: dict[str, list[float]]  # miss rates of the parts of the trace, at 2^`order` entries
    order: int


def run(web: Web, told: Told) -> Result:
    """Figures 2 to 11, and what §5 and §7 say about them."""
    by_visits: dict[str, dict[int, list[float]]] = {"full": {}, "cross": {}}
    kept: dict[str, Measured] = {}
    crossing, fetched, fast, apart = 0.0, 0, 0.0, 0.0
    in_use: dict[int, float] = {}
    for visits in reversed(VISITS):
        told(f"crawling with {visits} visits")
        made, whole = trace(web, visits, machines=PROCESSES), visits == VISITS[-1]
        flags, in_use[visits] = cross(web, made), made.in_use or 1.0
        curves = Curves(web, made.links)
        found = curves.rates(POLICIES if whole else ("CLOCK",), told, f"full trace, {visits} visits")
        by_visits["full"][visits] = found["CLOCK"]
        spot = region(found["CLOCK"])
        if whole:
            crossing, fetched = float(flags.mean()) if len(flags) else 0.0, made.fetched
            told("CLOCK once more, for its speed")
            fast = speed(curves)
            kept["full"] = _measured(curves, found, min(18, spot.end + 1), told)
        if visits == 100:
            apart = per_visit(web, made, visits, 1 << spot.end)
        links = made.links[flags]
        del made, flags, curves  # freed before the sub-trace makes its own
        curves = Curves(web, links)
        found = curves.rates(POLICIES if whole else ("CLOCK",), told, f"cross trace, {visits} visits")
        by_visits["cross"][visits] = found["CLOCK"]
        if whole:
            kept["cross"] = _measured(curves, found, kept["full"].order, told)
        del curves, links
    spots = {visits: region(by_visits["full"][visits]) for visits in VISITS}
    told("another order")
    size = spots[100].end
    other = Curves(web, trace(web, 100, machines=PROCESSES, lifo=True).links).rate("CLOCK", size)
    lines = _lines(by_visits, spots, kept, crossing, in_use)
    lines += [
        Line(
            "§7",
            "misses of one cache for 100 visits, at the end of its region",
            by_visits["full"][100][size],
            None,
            "share",
        ),
        Line("§7", "misses of 100 caches, together at least as large", apart, None, "share"),
        Line("§7", "misses of the one cache if sites are crawled last in, first out", other, None, "share"),
        Line("", "references a second, CLOCK at 2^16", fast, None, "count"),
    ]
    return Result(
        "caching",
        PAPER,
        CLAIM,
        web.head(),
        _definitions(web, fetched),
        lines,
        _figures(by_visits, kept, in_use),
    )


def _measured(curves: Curves, rates: Rates, order: int, told: Told) -> Measured:
    told("miss rates over time")
    over_time = {policy: curves.over_time(policy, order) for policy in (*POLICIES, "INFINITE")}
    return Measured(rates, curves.infinite, len(curves.links), over_time, order)


def _lines(
    by_visits: dict[str, dict[int, list[float]]],
    spots: dict[int, Region],
    kept: dict[str, Measured],
    crossing: float,
    in_use: dict[int, float],
) -> list[Line]:
    full, across = kept["full"].rates, kept["cross"].rates
    most = VISITS[-1]
    at = spots[most]
    inside = range(at.end + 1)  # beyond this all policies are alike
    versus = [lru / best for lru, best in zip(full["LRU"], full["MIN"], strict=True) if best]
    both = zip(full["LRU"], full["CLOCK"], strict=True)
    scale = "the web is smaller than the paper's, and so is what a visit meets at a time"
    lines = [
        Line(
            "§4.2",
            "links met in the trace",
            kept["full"].links,
            26.86e9 / 4,
            "count",
            "the paper's is one machine of four, for 33 days",
        ),
        Line(
            "§4.2",
            "links that other machines are sent",
            crossing,
            0.195,
            "share",
            "the paper says 19.5% (§4.2), 18.5% (§4.1: 81.5% are local), and 4.92 of 26.86 billion, which is 18.3%",
        ),
        Line(
            "Fig. 2",
            "misses of CLOCK where the critical region begins",
            full["CLOCK"][at.start],
            0.70,
            "share",
        ),
        Line("Fig. 2", "misses of CLOCK where it ends", full["CLOCK"][at.end], 0.20, "share"),
        Line("Fig. 2", f"critical region with {most} visits begins at 2^", at.start, 14, "number", scale),
        Line("Fig. 2", f"critical region with {most} visits ends at 2^", at.end, 18, "number", scale),
        Line("Fig. 2", f"knee with {most} visits at 2^", at.knee, None),
        Line("§7", "hits of CLOCK at 2^16 (the paper: 50,000 entries)", 1 - full["CLOCK"][16], 0.80, "share"),
        Line(
            "Fig. 2",
            "largest distance of CLOCK from LRU, over all sizes",
            max(abs(a - b) for a, b in both),
            None,
            "share",
        ),
        Line(
            "Fig. 3",
            "share of sizes with LRU within 1.05 of MIN",
            float(np.mean([v < 1.05 for v in versus])),
            None,
            "share",
        ),
        Line(
            "Fig. 3",
            "LRU is within 1.05 of MIN at most sizes",
            sum(v < 1.05 for v in versus) * 2 > len(versus),
            True,
        ),
        Line("Fig. 3", "LRU is below twice MIN at every size", bool(max(versus, default=1.0) < 2), True),
        Line(
            "Fig. 2",
            "RANDOM misses more than CLOCK, by less than 5 points, at every size of the region",
            all(-0.005 <= full["RANDOM"][i] - full["CLOCK"][i] < 0.05 for i in range(at.start, at.end + 1)),
            True,
        ),
        Line(
            "Fig. 2",
            "STATIC is the worst up to the end of the region",
            all(
                full["STATIC"][i] >= max(full[name][i] for name in POLICIES[:4]) - 0.005
                for i in inside
                if i >= 4
            ),
            True,
        ),
        Line(
            "Fig. 2",
            "STATIC overtakes MIN in large caches (its loading is not charged)",
            full["STATIC"][-1] < full["MIN"][-1],
            True,
        ),
        Line(
            "Fig. 4",
            "STATIC does relatively better on the cross sub-trace",
            bool(_static_gap(across, at) < _static_gap(full, at)),
            True,
        ),
        Line("Fig. 2", "misses of an infinite cache, full trace", kept["full"].infinite, None, "share"),
        Line("Fig. 4", "misses of an infinite cache, cross sub-trace", kept["cross"].infinite, None, "share"),
    ]
    ends = [spots[visits].end for visits in VISITS]
    lines.append(
        Line(
            "Fig. 6",
            "the fewer visits, the smaller the cache that is enough",
            ends == sorted(ends) and ends[0] < ends[-1],
            True,
        )
    )
    lines += [
        Line("Fig. 8", f"visits in use, on average, of {visits}", in_use[visits], None) for visits in VISITS
    ]
    lines += [
        Line(
            "Fig. 8",
            f"entries a visit in use at the end of the region, {visits} visits",
            2.0 ** spots[visits].end / in_use[visits],
            2.0**18 / 500,
            "number",
            scale,
        )
        for visits in VISITS
    ]
    spread = _per_visit_spread(by_visits["full"], in_use)
    lines.append(
        Line(
            "Fig. 8",
            "by entries a visit in use, miss rates of 20, 100, 500 visits differ at most by",
            spread,
            None,
            "share",
        )
    )
    return lines


def _static_gap(rates: Rates, at: Region) -> float:
    """How much more STATIC misses than CLOCK, relative to CLOCK, on average over the region."""
    inside = range(at.start, at.end + 1)
    return float(np.mean([rates["STATIC"][i] / max(rates["CLOCK"][i], 1e-9) for i in inside]))


def _per_visit_spread(rates: dict[int, list[float]], in_use: dict[int, float]) -> float:
    """The largest distance between the curves, each over its entries per visit in use, where all are defined."""
    at = np.linspace(0, LARGEST - math.log2(max(in_use.values())), 60)
    sizes = np.arange(LARGEST + 1)
    drawn = [np.interp(at, sizes - math.log2(in_use[v]), values) for v, values in rates.items()]
    return float(np.max(np.ptp(np.array(drawn), axis=0)))


def _definitions(web: Web, fetched: int) -> dict[str, str]:
    return {
        "start set": f"{len(web.start):,} start pages, in the order of their numbers",
        "crawl": f"{PROCESSES} machines, sites by hash, so many visits each at a time, a page each in turn; a "
        "visit keeps its site until nothing of it waits",
        "visits in use": "visits that have a site when a page is fetched, on average over the pages: where few "
        "sites have pages waiting, most visits have none; the paper's threads were all busy",
        "request": f"every link of every page that the first machine fetches ({fetched:,} pages), in its order; "
        f"at most {MOST:,}",
        "repeats": f"{REPEATS:.0%} of the links repeat one of the same page, drawn: a graph has each link once",
        "cross sub-trace": "those of its links whose sites are another machine's",
        "hit": "the key is in the cache at the request; a miss enters; STATIC is loaded before and not charged",
        "critical region": "doublings from 2^5 that take off at least half as much as the steepest one",
        "ties": "MIN: of keys never requested again any; RANDOM: xorshift64*, seed 1",
        "seed": str(web.seed),
    }


def _figures(
    by_visits: dict[str, dict[int, list[float]]], kept: dict[str, Measured], in_use: dict[int, float]
) -> list[Figure]:
    sizes = [2.0**order for order in range(LARGEST + 1)]
    entries, misses = "entries of the cache", "miss rate"
    made = []
    for number, name, title in ((2, "full", "full trace"), (4, "cross", "cross sub-trace")):
        found, best = kept[name].rates, kept[name].rates["MIN"]
        infinite = Curve("INFINITE", sizes, [kept[name].infinite] * len(sizes))
        curves = [Curve(policy, sizes, values) for policy, values in found.items()]
        if name == "full":
            curves.append(TOLD)
        made.append(
            Figure(
                f"Figure {number}", f"miss rate, {title}", entries, misses, [*curves, infinite], log_x=True
            )
        )
        ratio = [
            Curve(policy, sizes, [v / m if m else 1.0 for v, m in zip(values, best, strict=True)])
            for policy, values in [*found.items(), ("INFINITE", infinite.ys)]
        ]
        made.append(
            Figure(
                f"Figure {number + 1}",
                f"miss rate over that of MIN, {title}",
                entries,
                "miss rate over that of MIN",
                ratio,
                log_x=True,
            )
        )
    for number, name, title in ((6, "full", "full trace"), (7, "cross", "cross sub-trace")):
        curves = [Curve(f"{visits} visits", sizes, by_visits[name][visits]) for visits in VISITS]
        made.append(
            Figure(
                f"Figure {number}", f"CLOCK by visits at a time, {title}", entries, misses, curves, log_x=True
            )
        )
        each = [
            Curve(
                f"{visits} visits ({in_use[visits]:.3g} in use)",
                [s / in_use[visits] for s in sizes],
                by_visits[name][visits],
            )
            for visits in VISITS
        ]
        made.append(
            Figure(
                f"Figure {number + 2}",
                f"the same by entries a visit in use, {title}",
                "entries a visit in use",
                misses,
                each,
                log_x=True,
            )
        )
    for number, name, title in ((10, "full", "full trace"), (11, "cross", "cross sub-trace")):
        one = kept[name]
        curves = []
        for policy, values in one.over_time.items():
            places = np.linspace(0, one.links, len(values) + 1)[1:]
            curves.append(Curve(policy, places.tolist(), values))
        made.append(
            Figure(
                f"Figure {number}",
                f"miss rate over time at 2^{one.order}, {title}",
                "links met",
                misses,
                curves,
            )
        )
    return sorted(made, key=lambda figure: int(figure.name.split()[1]))
