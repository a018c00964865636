"""Castillo's scheduling experiments: which order finds important pages early, and what is the gain of connections?

Chapter 6 of the thesis, over the simulation of `scheduling_sim`: Figures 6.3 and 6.5 to 6.13, Tables 6.1 and 6.2.

What the text leaves open, and how it is read here: *speed-up* (Table 6.1) is the time for the first half of the
pages with one connection and a link of 20 MB/s, divided by the time in question; over whole crawls no speed-up of
220 is possible, since the largest site, at 15 s per page, takes longer than that allows. A *day* of the crawl of
§6.5 is an eighth of the simulated crawl. The *batch* of Figures 6.7 to 6.9 is the next N/35 pages that Length
fetches after the middle.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lycosa.graph.pagerank import pagerank
from lycosa.lab.experiments.result import Curve, Figure, Line, Result, Told, sizes_curve, thinned
from lycosa.lab.experiments.scheduling_bandwidths import bandwidths
from lycosa.lab.experiments.scheduling_sim import Run, Setting, simulate
from lycosa.lab.experiments.sydney import reach
from lycosa.lab.experiments.web import Web

PAPER = "Castillo: Effective Web Crawling (2004), chapter 6: Scheduling Algorithms for Web Crawling"
CLAIM = (
    "Visiting the site with most waiting pages first (Length) finds important pages nearly as early as an oracle "
    "could, at no cost; connections pay until the link is full; several pages a connection pay for the waiting."
)
BANDWIDTHS = (20_000_000, 2_000_000, 200_000, 20_000, 2_000, 200)
CONNECTIONS = (1, 64, 256)
SPEEDUPS = {
    20_000_000: (1.0, 54.6, 220.1),
    2_000_000: (1.0, 54.3, 204.3),
    200_000: (1.0, 43.0, 114.1),
    20_000: (1.0, 27.0, 83.3),
    2_000: (0.7, 3.8, 16.0),
    200: (0.2, 1.6, 3.0),
}
"""Table 6.1."""
PARTS = (350, 70, 35)
DAYS = 8
LONG = 1_500.0
"""Seconds between two visits of a site, a hundred times the thesis's: so one connection serves a hundred times as
many sites."""
KEPT = 12
"""Crawls that are kept, the last ones used: one of ten million pages takes 160 MB."""
Floats = npt.NDArray[np.float64]


class Bench:
    """A web with its ranks, and the crawls of it made so far."""

    def __init__(self, web: Web, told: Told) -> None:
        told("ranking the pages")
        self.web, self._told = web, told
        ranks = pagerank(web.lists, tolerance=1e-9).values
        self.steps = reach(web.lists, web.start)
        self.reached = int(np.count_nonzero(self.steps >= 0))
        self.ranks: Floats = ranks / ranks[self.steps >= 0].sum()
        self._made: dict[Setting, Run] = {}

    def run(self, setting: Setting) -> Run:
        made = self._made.pop(setting, None)
        if made is None:
            link = "unlimited" if setting.link >= 1e12 else f"{setting.link:,.0f} B/s"
            k = f", K={setting.between:,}" if setting.between > 1 else ""
            self._told(
                f"crawling: {setting.order}{k}, r={setting.r}, c={setting.c}, w={setting.w:g} s, link {link}"
            )
            made = simulate(self.web, setting, self.ranks)
        self._made[setting] = made
        if len(self._made) > KEPT:
            del self._made[next(iter(self._made))]
        return made

    def found(self, setting: Setting) -> Floats:
        """PageRank fetched after each page."""
        return np.cumsum(self.ranks[self.run(setting).pages])

    def earliness(self, setting: Setting) -> float:
        """The area below that curve: 1 if all came at once, 0.5 if rank and time were
        uncorrelated."""
        return float(self.found(setting).mean())


def strategies(pages: int, r: int) -> dict[str, Setting]:
    """All orders, with all values of K."""
    made = {name.capitalize(): Setting(name, r=r) for name in ("optimal", "depth", "length")}
    for part in PARTS:
        made[f"Batch, N/{part}"] = Setting("batch", r=r, between=max(pages // part, 1))
        made[f"Partial, N/{part}"] = Setting("partial", r=r, between=max(pages // part, 1))
    return made


def run(web: Web, told: Told) -> Result:
    """Everything of chapter 6 that a simulation can reproduce."""
    bench = Bench(web, told)
    lines: list[Line] = []
    figures = [_site_sizes(web)]
    _orders(bench, lines, figures)
    _connections(bench, lines, figures)
    _speedups(bench, lines)
    _batch(bench, lines, figures, told)
    _days(bench, lines, figures)
    _recorded(bench, lines, figures)
    definitions = {
        "start set": f"{len(np.unique(web.start)):,} start pages, known from the beginning with the same rank",
        "N": f"{bench.reached:,} pages that can be reached from there",
        "queue": "pages found and not fetched; a page in flight is in no queue",
        "sites as listed": "the other reading of Depth: pages of a site by depth, sites by their numbers",
        "ties": "of pages: found first; of sites: ready for longer, then in line for longer",
        "parameters": "w = 15 s, c = 1 unless said otherwise; a link without limit unless said otherwise",
        "ranks": "PageRank, damping 0.85, of the whole web as the oracle; of what is known for Batch and Partial",
        "speed-up": "time for the first half of the pages with r = 1 and 20 MB/s, over the time in question",
        "batch": f"Figures 6.7 to 6.9: the next N/{PARTS[-1]} pages that Length fetches behind the middle, r = 64; "
        "2 and 20 kB/s are the bandwidth of the median site",
        "day": f"an eighth of the simulated crawl: the thesis's took {DAYS} days",
        "times": web.come_by["times"],
        "seed": str(web.seed),
    }
    return Result("scheduling", PAPER, CLAIM, web.head(), definitions, lines, figures)


def _site_sizes(web: Web) -> Figure:
    curve = sizes_curve("sites", np.bincount(web.sites))
    return Figure("Figure 6.3", "pages of sites", "pages", "share of sites", [curve], True, True, dots=True)


def _orders(bench: Bench, lines: list[Line], figures: list[Figure]) -> None:
    """Figure 6.5: one connection."""
    chosen = strategies(bench.reached, 1)
    area = {name: bench.earliness(setting) for name, setting in chosen.items()}
    lines += [
        Line("Fig. 6.5", f"r=1: mean PageRank fetched over the crawl, {name}", area[name], None, "share")
        for name in chosen
    ]
    others = [name for name in chosen if name not in ("Optimal", "Length")]
    lines.append(
        Line(
            "Fig. 6.5",
            "r=1: Length is ahead of Depth, Batch and Partial",
            all(area["Length"] >= area[name] for name in others),
            True,
            why="by the area below the curves; with one connection Length stays with few large sites; the thesis"
            " does not say how ties are broken, nor what ranks a site's pages",
        )
    )
    one = Setting("length")
    serves = one.w * (bench.reached // 2) / _half(bench.run(one))
    lines.append(Line("Fig. 6.5", "r=1: sites that the connection serves within w", serves))
    for name, setting in (("Length", Setting("length", w=LONG)), ("Depth", Setting("depth", w=LONG))):
        said = f"r=1, w={LONG:,.0f} s: mean PageRank fetched over the crawl, {name}"
        lines.append(Line("Fig. 6.5", said, bench.earliness(setting), None, "share"))
    best = bench.found(chosen["Optimal"])
    late = slice(int(0.8 * len(best)), len(best) - 1)
    passed = max(float((bench.found(chosen[name])[late] - best[late]).max(initial=0.0)) for name in chosen)
    lines.append(Line("Fig. 6.5", "r=1: Optimal is surpassed towards the end", passed > 0, True))
    last = slice(int(0.8 * len(best)), len(best))
    tails = [bench.found(setting)[last] for name, setting in chosen.items() if name != "Length"]
    lines.append(
        Line(
            "§6.3",
            "r=1: over the last fifth of the pages all but Length differ at most by",
            float(np.ptp(np.array(tails), axis=0).max(initial=0.0)),
            0.0,
            "share",
            "the thesis says that they have the same performance there, and gives no number",
        )
    )
    by_time = {name: bench.run(setting).times[-1] / 86_400 for name, setting in chosen.items()}
    lines.append(
        Line("§6.3", "r=1: days of Optimal over those of Length", by_time["Optimal"] / by_time["Length"])
    )
    figures.append(_cumulative("Figure 6.5", "PageRank fetched, one connection", bench, chosen))


def _cumulative(name: str, title: str, bench: Bench, chosen: dict[str, Setting]) -> Figure:
    curves = [Curve(label, *thinned(bench.found(setting))) for label, setting in chosen.items()]
    return Figure(name, title, "share of the pages fetched", "PageRank fetched", curves)


def _connections(bench: Bench, lines: list[Line], figures: list[Figure]) -> None:
    """Figure 6.6: more connections."""
    chosen = {
        f"{name.capitalize()}, r={r}": Setting(name, r=r) for name in ("length", "depth") for r in CONNECTIONS
    }
    figures.append(_cumulative("Figure 6.6", "PageRank fetched by connections", bench, chosen))
    length = [bench.found(chosen[f"Length, r={r}"]) for r in CONNECTIONS]
    apart = max(float(np.abs(one - length[0]).max()) for one in length[1:])
    lines.append(
        Line(
            "Fig. 6.6",
            "Length with r=64 and 256 differs from r=1 at most by",
            apart,
            0.0,
            "share",
            "with more connections it is at more than the largest sites",
        )
    )
    depth = [bench.earliness(chosen[f"Depth, r={r}"]) for r in CONNECTIONS]
    lines.append(
        Line(
            "Fig. 6.6",
            "Depth improves with the connections",
            depth[0] < depth[1] < depth[2],
            True,
            why="the thesis does not say what ranks sites for Depth; here the least depth of their pages",
        )
    )
    listed = [bench.earliness(Setting("listed", r=r)) for r in CONNECTIONS]
    lines += [
        Line(
            "Fig. 6.6",
            f"r={r}: mean PageRank fetched over the crawl, Depth with sites as listed",
            area,
            None,
            "share",
        )
        for r, area in zip(CONNECTIONS, listed, strict=True)
    ]
    lines.append(
        Line(
            "Fig. 6.6",
            "Depth with sites as listed improves with the connections",
            listed[0] < min(listed[1:]),
            True,
        )
    )


def _half(run: Run) -> float:
    return float(run.times[max(len(run.times) // 2 - 1, 0)])


def _speedups(bench: Bench, lines: list[Line]) -> None:
    """Table 6.1."""
    base = bench.run(Setting("length", link=BANDWIDTHS[0]))
    mean = float(bench.web.sizes[base.pages].mean())
    alone = len(base.pages) / 2 / _half(base)  # pages per second
    by_sites = len(bench.web.homes) / Setting("length").w / alone
    for link in BANDWIDTHS:
        most = link / mean / alone
        for place, r in enumerate(CONNECTIONS):
            ours = _half(base) / _half(bench.run(Setting("length", r=r, link=link)))
            paper = SPEEDUPS[link][place]
            why = ""
            if paper > 1.05 * most:
                why = f"{link:,} B/s carry pages of {mean / 1000:.1f} kB at {most:.3g} times the base rate at most"
            elif paper > by_sites:
                why = f"{len(bench.web.homes):,} sites, asked every 15 s, give {by_sites:.3g} times the base rate"
            lines.append(Line("Table 6.1", f"speed-up at {link:,} B/s, r={r}", ours, paper, "number", why))


def _batch(bench: Bench, lines: list[Line], figures: list[Figure], told: Told) -> None:
    """Figures 6.7 to 6.9: the middle of a crawl, N/35 pages."""
    whole = bench.run(Setting("length", r=256))
    middle = len(whole.pages) // 2
    only = whole.pages[middle : middle + max(len(whole.pages) // PARTS[-1], 1)].astype(np.int64)
    counts = np.bincount(bench.web.sites[only])
    figures.append(
        Figure(
            "Figure 6.7",
            "a batch: pages of sites",
            "pages",
            "share of sites",
            [sizes_curve("batch", counts)],
            True,
            True,
            True,
        )
    )
    r = 64
    ends: dict[tuple[int, int], float] = {}
    for c, name in ((1, "Figure 6.8"), (100, "Figure 6.9")):
        curves = []
        for link in (2_000, 20_000):
            told(f"a batch, c={c}, link {link} B/s")
            # Bandwidth is that of each site here: "small (2 Kb/s) and large (20 Kb/s) bandwidth".
            made = simulate(_slowed(bench.web, link), Setting("length", r=r, c=c), bench.ranks, only=only)
            ends[c, link] = float(made.times[-1])
            at = np.linspace(0, len(made.times) - 1, min(len(made.times), 200)).astype(np.int64)
            shares = (made.times[at] / made.times[-1]).tolist()
            curves.append(Curve(f"{link // 1000} kB/s", shares, made.active[at].astype(float).tolist()))
            if c == 1:
                busy = _mean_active(made) / r
                lines.append(
                    Line(
                        "Fig. 6.8",
                        f"connections in use over a batch, {link // 1000} kB/s",
                        busy,
                        None,
                        "share",
                    )
                )
                if link == 20_000:
                    lines += _stopped(made, r)
        figures.append(
            Figure(name, f"open connections over a batch, c={c}", "share of the time", "connections", curves)
        )
    idle = [line.ours < 0.5 for line in lines if line.where == "Fig. 6.8"]
    lines.append(Line("Fig. 6.8", "most connections are idle most of the time", all(idle), True))
    lines += _stopping(bench)
    lines += _adjusted(bench)
    for link in (2_000, 20_000):
        gain = ends[1, link] / ends[100, link]
        lines.append(Line("Fig. 6.9", f"time of a batch with c=1 over c=100, {link // 1000} kB/s", gain))
    lines.append(
        Line(
            "Fig. 6.9",
            "several pages a connection shorten a batch",
            all(ends[1, b] > ends[100, b] for b in (2_000, 20_000)),
            True,
        )
    )


def _slowed(web: Web, most: float) -> Web:
    """The same web, scaled so that the median site has this bandwidth."""
    return replace(web, bandwidth=web.bandwidth * (most / float(np.median(web.bandwidth))))


def _mean_active(made: Run) -> float:
    gaps = np.diff(np.concatenate([[0.0], made.times]))
    return float((gaps * made.active).sum() / max(float(made.times[-1]), 1e-9))


def _stopping(bench: Bench) -> list[Line]:
    """§6.4: whole crawls in batches, each stopped or not stopped when few connections are left in use."""
    whole = Setting("batch", r=64, between=max(bench.reached // PARTS[-1], 1))
    runs = {name: bench.run(whole._replace(stop=stop)) for name, stop in (("whole", 0.0), ("stopped", 0.25))}
    saved = 1 - float(runs["stopped"].times[-1] / runs["whole"].times[-1])
    half = 1 - _half(runs["stopped"]) / _half(runs["whole"])
    early = {stop: bench.earliness(whole._replace(stop=stop)) for stop in (0.0, 0.25)}
    where = "§6.4"
    return [
        Line(where, "batches of N/35, r=64, each stopped at a quarter: time saved", saved, None, "share"),
        Line(where, "the same until half of the pages were there", half, None, "share"),
        Line(where, "mean PageRank fetched, batches to their end", early[0.0], None, "share"),
        Line(where, "mean PageRank fetched, batches stopped", early[0.25], None, "share"),
    ]


def _adjusted(bench: Bench) -> list[Line]:
    """§6.4: connections opened while the predicted bandwidths of their sites leave room on the link.

    Up to twice what the link carries: about half of the time a connection waits for an answer.
    """
    lines = []
    for link in (2_000_000, 200_000):
        every = Setting("length", r=CONNECTIONS[-1], link=link)
        all_, few = bench.run(every), bench.run(every._replace(fill=2.0))
        said = f"{CONNECTIONS[-1]} connections at {link:,} B/s, adjusted to predicted bandwidths:"
        lines += [
            Line("§6.4", f"{said} in use", _mean_active(few) / every.r, None, "share"),
            Line("§6.4", f"{said} in use if all are used", _mean_active(all_) / every.r, None, "share"),
            Line("§6.4", f"{said} time for half of the pages, over all used", _half(few) / _half(all_)),
        ]
    return lines


def _stopped(made: Run, r: int) -> list[Line]:
    """§6.4: end a batch when few connections are left in use; the rest goes to the next."""
    many = np.flatnonzero(made.active >= r / 4)
    at = int(many[-1]) if len(many) else 0
    return [
        Line(
            "§6.4",
            "a batch stopped at a quarter of the connections: time saved",
            1 - float(made.times[at] / made.times[-1]),
            None,
            "share",
        ),
        Line(
            "§6.4",
            "a batch stopped at a quarter of the connections: pages left over",
            1 - (at + 1) / len(made.times),
            None,
            "share",
        ),
    ]


def _days(bench: Bench, lines: list[Line], figures: list[Figure]) -> None:
    """§6.5: the whole crawl with Length and many connections, and rank by depth."""
    setting = Setting("length", r=1000)
    made, sums = bench.run(setting), bench.found(setting)
    count = len(made.pages)
    day = float(made.times[-1]) / DAYS
    ends = [max(int(np.searchsorted(made.times, day * number)), 1) for number in range(1, DAYS + 1)]
    ends[-1] = count
    why = (
        "the last sites take as long as their pages times 15 s: how long a day is depends on the largest site"
    )
    lines += [
        Line("§6.5", "pages by the end of day 2", ends[1] / count, 0.5, "share", why),
        Line("§6.5", "PageRank by the end of day 2", float(sums[ends[1] - 1]), 0.8, "share", why),
        Line("§6.5", "pages by the end of day 4", ends[3] / count, 0.8, "share", why),
        Line("§6.5", "PageRank by the end of day 4", float(sums[ends[3] - 1]), 0.95, "share", why),
        Line(
            "§6.5", "PageRank when half of the pages are fetched", float(sums[count // 2 - 1]), 0.8, "share"
        ),
        Line(
            "§6.5",
            "PageRank when 80% of the pages are fetched",
            float(sums[int(0.8 * count) - 1]),
            0.95,
            "share",
        ),
        Line("Table 6.2", "pages", count, 3.0e6, "count"),
        Line(
            "Table 6.2",
            "successful downloads",
            1.0,
            0.8,
            "share",
            "nothing fails here: pages that fail are not drawn",
        ),
        Line("Table 6.2", "bytes", float(bench.web.sizes[made.pages].sum()), 57e9, "bytes"),
        Line("Table 6.2", "sites", len(np.unique(bench.web.sites[made.pages])), 53_196, "count"),
    ]
    days = [float(number) for number in range(1, DAYS + 1)]
    figures.append(
        Figure(
            "Figure 6.10",
            "pages and PageRank by day",
            "day (an eighth of the crawl)",
            "share",
            [
                Curve("PageRank", days, [float(sums[end - 1]) for end in ends]),
                Curve("pages", days, [end / count for end in ends]),
                Curve("PageRank, the thesis", [2.0, 4.0], [0.8, 0.95], True),
                Curve("pages, the thesis", [2.0, 4.0], [0.5, 0.8], True),
            ],
        )
    )
    bounds = [0, *ends]
    means = [
        float((sums[b - 1] - (sums[a - 1] if a else 0.0)) / max(b - a, 1))
        for a, b in zip(bounds, ends, strict=False)
    ]
    lines.append(
        Line("Fig. 6.11", "average PageRank of day 1 over that of the last", means[0] / max(means[-1], 1e-12))
    )
    lines.append(Line("Fig. 6.11", "the average falls from day 1 to day 4", means[0] > means[3], True))
    figures.append(
        Figure(
            "Figure 6.11",
            "average PageRank by day",
            "day (an eighth of the crawl)",
            "PageRank",
            [Curve("mean", days, means)],
        )
    )
    steps = bench.steps
    deep = min(int(steps.max()), 20)
    by_depth = [
        float(bench.ranks[steps == number].mean()) for number in range(deep + 1) if (steps == number).any()
    ]
    figures.append(
        Figure(
            "Figure 6.12",
            "average PageRank by depth",
            "steps from a start page",
            "PageRank",
            [Curve("mean", [float(n) for n in range(len(by_depth))], by_depth)],
        )
    )
    homes = bench.ranks[steps == 0].mean()
    lines.append(
        Line(
            "Fig. 6.12",
            "start pages have a low PageRank on average: below that of all pages",
            bool(homes < bench.ranks[steps >= 0].mean()),
            True,
            why="many sites of the thesis were known from their registration alone, and nothing linked to them;"
            " here every site's start page is linked to",
        )
    )
    low = np.corrcoef(steps[(steps >= 0) & (steps <= 3)], bench.ranks[(steps >= 0) & (steps <= 3)])[0, 1]
    high = np.corrcoef(steps[steps > 4], bench.ranks[steps > 4])[0, 1] if (steps > 4).sum() > 2 else 0.0
    lines.append(
        Line("Fig. 6.12", "correlation of depth and PageRank, depths 0 to 3", float(np.nan_to_num(low)))
    )
    lines.append(
        Line("Fig. 6.12", "correlation of depth and PageRank, from depth 5 on", float(np.nan_to_num(high)))
    )


def _recorded(bench: Bench, lines: list[Line], figures: list[Figure]) -> None:
    """Figure 6.13: a recorded crawl beside its own simulation; nothing if there is no record.

    Simulated twice: as the thesis crawled, and with the order, connections, pages per connection and waits of
    the crawl itself.
    """
    recorded = bench.web.recorded
    if not len(recorded):
        return
    lines += bandwidths(bench.web)
    settings = {"Length": Setting("length", r=64)}
    if bench.web.own:
        settings["as it was crawled"] = Setting(**bench.web.own)
    curves: list[Curve] = []
    for name, setting in settings.items():
        pages = bench.run(setting).pages
        real = np.cumsum(bench.ranks[recorded[np.isin(recorded, pages)]])
        simulated = np.cumsum(bench.ranks[pages[np.isin(pages, recorded)]])
        whole = max(float(real[-1]) if len(real) else 0.0, 1e-12)
        apart = float(np.abs(simulated - real).max() / whole) if len(real) else 0.0
        said = f"PageRank by pages fetched: the record and its simulation, {name}, differ at most by"
        lines.append(Line("Fig. 6.13", said, apart, None, "share"))
        if not curves:
            curves.append(Curve("recorded", *thinned(real / whole)))
        curves.append(Curve(f"simulated, {name}", *thinned(simulated / whole)))
    title = "a recorded crawl and its simulation"
    figures.append(Figure("Figure 6.13", title, "share of the pages fetched", "PageRank", curves))
