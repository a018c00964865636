"""The tables and figures of "Crawling the Web with Limited Memory", beside ours; the experiment itself is `sydney`.

Figures 1 and 3 to 9, Tables 1 and 2, and the claims in the text: truncated t=8 and t=16 (§3.1, §4), the largest
loss by fixed budgets (§4). `lycosa lab sydney` has the rules that the paper does not have, and the frontier's own.

The rules are those of the paper's Figure 2: S is emptied into P when P is empty. The frontier takes pages out of S
one at a time instead; those rows say so. A budget can be read in two ways (`Rule.whole`); both are run.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lycosa.frontier.sydney.room import ALL
from lycosa.graph.pagerank import pagerank
from lycosa.lab.experiments.result import Curve, Figure, Line, Result, Told, sizes_curve, thinned
from lycosa.lab.experiments.sydney import (
    BFS,
    PAPER_COVERAGE,
    PAPER_PEAK,
    PAPER_RETURNED,
    Row,
    Rule,
    Subject,
    Trace,
    best_start,
    experiment,
    found,
    reach,
)
from lycosa.lab.experiments.web import Web

PAPER = (
    "Castillo, Nelli, Panconesi: Crawling the Web with Limited Memory (WebBase 118M, .it 41M, .uk 18M pages)"
)
CLAIM = (
    "Taking at most t new links of a page at a time, and coming back for the others, halves the longest queue, "
    "covers everything and finds important pages no later."
)
DFS = Rule("depth-first", t=1, shuffled=False, left="lifo")
SAMPLES = (64, 32, 16, 8)
BUDGETS = (0.03, 0.05, 0.07)
LATER = 0.005
"""The difference that does not count as later, in shares of the total."""
TRUNCATED = {8: (0.45, 0.81), 16: (0.75, 0.89)}
"""§4: coverage and PageRank. §3.1 and Figure 6 say 55% for t=8."""
_ANOTHER = (
    "another and smaller web, one sample of the links each; what in it makes the difference is not known"
)
_READ = "the other reading of a budget, and coming back one at a time, are in the rows that say so"
_ONE = "one back at a time"
_WHOLE = "page by page"
Made = dict[str, tuple[Trace, Row]]


def subject_of(web: Web, told: Told) -> Subject:
    """The web as a subject of the experiment. If pages are numbers, the start is the page that reaches most."""
    told("ranking the pages")
    ranks = pagerank(web.lists, tolerance=1e-8).values
    into = np.bincount(web.lists.nodes, minlength=web.pages).astype(np.float64)
    homes = np.zeros(web.pages)
    homes[web.homes] = 1.0
    told("looking for a start")
    crawled = web.come_by["sites from"].startswith("hosts")
    start = web.start if crawled else np.array([best_start(web.lists, candidates=16)], np.int64)
    worth = {"PageRank": ranks, "in-degree": into, "home pages": homes}
    return Subject(web.lists, start, web.keys, reach(web.lists, start), ranks, worth)


def chosen_rules() -> list[Rule]:
    """The rules of the paper."""
    made = [BFS, DFS, *(Rule(f"t={t}", t=t, left="emptied") for t in SAMPLES)]
    made += [Rule(f"t={t}, truncated", t=t, left="none") for t in TRUNCATED]
    for t in (8, 16):
        made.append(Rule(f"t={t}, {_ONE}", t=t))
        for share in BUDGETS:
            name = f"t={t}, budget {share:.0%}"
            made += [
                Rule(name, t=t, left="emptied", budget=share),
                Rule(f"{name}, {_WHOLE}", t=t, left="emptied", budget=share, whole=True),
                Rule(f"{name}, {_ONE}", t=t, budget=share),
            ]
    return made


def run(web: Web, told: Told) -> Result:
    """Crawl under every rule."""
    subject = subject_of(web, told)
    made: Made = {}
    for rule, trace, row in experiment(subject, chosen_rules(), lambda rule: told(f"crawling, {rule.name}")):
        made[rule.name] = (trace, row)
    explored = len(made["breadth-first"][0].order)
    inside = np.zeros(web.pages, np.bool_)
    inside[made["breadth-first"][0].order] = True
    lines = [*_degrees(web), *_table_1(made), *_truncated(made), *_table_2(made), *_quality(made, web)]
    definitions = {
        "start set": f"{len(subject.sources):,} pages, the first {subject.sources[:5].tolist()}: "
        + (
            "seeds of the crawl"
            if len(subject.sources) > 1
            else "the page that reaches most, by the fewest steps"
        ),
        "explored space": f"{explored:,} pages that breadth-first reaches: the whole of every share",
        "queue": "|P|+|S| after each page; a page in S counts once, however many links it still has",
        "return": "when P is empty all of S goes into P, and each of its pages gives t links more (Figure 2);"
        " one back at a time: only the first page of S does",
        "budget": "links get the places that are left, then the page; what does not fit is dropped for good;"
        " page by page: a page adds all it may while the limit is not reached, and nothing when it is",
        "ties": "links of a page in a pseudo-random order fixed once; P and S first in, first out",
        "home pages": web.come_by["home pages"],
        "seed": str(web.seed),
    }
    return Result(
        "sydney", PAPER, CLAIM, web.head(), definitions, lines, _figures(web, subject, made, explored, inside)
    )


def _degrees(web: Web) -> list[Line]:
    out = np.diff(web.lists.starts)
    return [
        Line("Figure 5", f"pages of more than {t} links", float(np.mean(out > t)), None, "share")
        for t in (8, 16)
    ]


def _table_1(made: Made) -> list[Line]:
    lines = []
    bfs = made["breadth-first"][1]
    for t in (ALL, *SAMPLES):
        name = "breadth-first" if t == ALL else f"t={t}"
        row = made[name][1]
        lines.append(Line("Table 1", f"{name}: longest queue", row.peak, PAPER_PEAK[t], "share"))
        if t != ALL:
            lines.append(
                Line(
                    "Table 1",
                    f"{name}: of breadth-first's",
                    row.of_bfs,
                    PAPER_PEAK[t] / PAPER_PEAK[ALL],
                    "share",
                    _ANOTHER,
                )
            )
            lines.append(
                Line("Table 1", f"{name}: pages visited again", row.returned, PAPER_RETURNED[t], "share")
            )
            lines.append(Line("Table 1", f"{name}: covers everything", row.coverage == bfs.coverage, True))
    lines += [
        Line("Figure 1", "depth-first: longest queue", made["depth-first"][1].peak, None, "share"),
        Line(
            "Figure 1",
            "depth-first's longest queue is less than half of breadth-first's",
            made["depth-first"][1].of_bfs < 0.5,
            True,
        ),
        Line("Figure 7", "t=8: longest secondary queue", made["t=8"][1].peak_s, 0.03, "share"),
    ]
    for t in (16, 8):
        row = made[f"t={t}, {_ONE}"][1]
        lines.append(Line("Figure 2", f"t={t}, {_ONE}: longest queue", row.peak, PAPER_PEAK[t], "share"))
    return lines


def _at_end(row: Row, measure: str = "PageRank") -> float:
    return float(row.worth[measure][-1] or 0.0)


def _truncated(made: Made) -> list[Line]:
    lines = []
    for t, (coverage, rank) in TRUNCATED.items():
        row = made[f"t={t}, truncated"][1]
        why = "the paper has 55% in §3.1 and 45% in §4" if t == 8 else _ANOTHER
        lines += [
            Line("Figure 6", f"t={t}, truncated: coverage", row.coverage, coverage, "share", why),
            Line("§4", f"t={t}, truncated: PageRank", _at_end(row), rank, "share", _ANOTHER),
            Line(
                "§4", f"t={t}, truncated: loses less PageRank than pages", _at_end(row) > row.coverage, True
            ),
        ]
    return lines


def _table_2(made: Made) -> list[Line]:
    """The two readings of a budget, and the frontier's, side by side."""
    readings = {"": "", f", {_WHOLE}": f" ({_WHOLE})", f", {_ONE}": f" ({_ONE})"}
    bfs = made["breadth-first"][1]
    lines = []
    for name, said in readings.items():
        rows = {key: made[f"t={key[0]}, budget {key[1]:.0%}{name}"][1] for key in PAPER_COVERAGE}
        lines += [
            Line(
                "Table 2",
                f"t={t}, budget {share:.0%}{said}: coverage",
                row.coverage,
                PAPER_COVERAGE[t, share],
                "share",
            )
            for (t, share), row in rows.items()
        ]
        better = all(rows[8, share].coverage >= rows[16, share].coverage - 1e-9 for share in BUDGETS)
        pages = max(1 - row.coverage for row in rows.values())
        rank = max(1 - _at_end(row) for row in rows.values())
        ahead = min(_ahead(row, bfs, "PageRank") for row in rows.values())
        lines += [
            Line("Table 2", f"with the same budget t=8 covers no less than t=16{said}", better, True),
            Line("§4", f"largest loss of coverage by a budget{said}", pages, 0.11, "share", _READ),
            Line("§4", f"largest loss of PageRank by a budget{said}", rank, 0.05, "share", _READ),
            Line(
                "§4", f"every budget finds PageRank no later than breadth-first{said}", ahead > -LATER, True
            ),
        ]
    return lines


def _ahead(row: Row, bfs: Row, measure: str) -> float:
    """How much more it has found than breadth-first, averaged over the points where a quarter, a half and three
    quarters of the explored pages are fetched, as far as it gets."""
    points = zip(row.worth[measure][:3], bfs.worth[measure][:3], strict=True)
    return float(np.mean([a - b for a, b in points if a is not None and b is not None] or [0.0]))


def _quality(made: Made, web: Web) -> list[Line]:
    """Figure 9: the means of the curves, BFS beside the samples."""
    lines = []
    bfs = made["breadth-first"][1]
    for measure in bfs.worth:
        guessed = measure == "home pages" and web.come_by["sites from"].startswith("numbers")
        why = "home pages are guessed from the numbers of pages: this line says little" if guessed else ""
        for t in (8, 16):
            gain = _ahead(made[f"t={t}"][1], bfs, measure)
            what = f"t={t}: {measure} found, ahead of breadth-first by (mean at 25, 50, 75%)"
            lines += [
                Line("Figure 9", what, gain, None, "share"),
                Line(
                    "Figure 9",
                    f"t={t} finds {measure} no later than breadth-first",
                    gain > -LATER,
                    True,
                    why=why,
                ),
            ]
    return lines


def _figures(
    web: Web, subject: Subject, made: Made, explored: int, inside: npt.NDArray[np.bool_]
) -> list[Figure]:
    done, waits = "share of the pages fetched", "share of the pages waiting"

    def queues(names: list[str]) -> list[Curve]:
        curves = []
        for name in names:
            trace = made[name][0]
            at = (np.arange(len(trace.curve)) * trace.stride / explored).tolist()
            curves.append(Curve(name, at, (trace.curve.sum(axis=1) / explored).tolist()))
        return curves

    eight = made["t=8"][0]
    at = (np.arange(len(eight.curve)) * eight.stride / explored).tolist()
    apart = [
        Curve(name, at, (eight.curve[:, place] / explored).tolist()) for place, name in enumerate(("P", "S"))
    ]
    degrees = np.diff(web.lists.starts)
    figures = [
        Figure(
            "Figure 1",
            "queue of breadth-first and depth-first",
            done,
            waits,
            queues(["breadth-first", "depth-first"]),
        ),
        Figure(
            "Figure 3",
            "queues of the Sydney strategy",
            done,
            waits,
            queues(["breadth-first", "depth-first", "t=8", "t=16"]),
        ),
        Figure(
            "Figure 4",
            "out-degrees",
            "links",
            "share of pages",
            [sizes_curve("pages", degrees)],
            True,
            True,
            True,
        ),
        Figure(
            "Figure 5",
            "pages of more than t links",
            "t",
            "share of pages",
            [Curve("pages", [8.0, 16.0], [float(np.mean(degrees > 8)), float(np.mean(degrees > 16))])],
            dots=True,
        ),
        Figure(
            "Figure 6",
            "coverage of the primary queue alone",
            done,
            waits,
            queues(["breadth-first", "depth-first", "t=8, truncated", "t=16, truncated"]),
        ),
        Figure(
            "Figure 7",
            "both queues, t=8",
            done,
            waits,
            [
                *queues(["breadth-first"]),
                *(together._replace(name="P and S") for together in queues(["t=8"])),
                *apart,
            ],
        ),
        *(
            Figure(
                f"Figure 8, t={t}",
                f"budgets, t={t}",
                done,
                waits,
                queues([*(f"t={t}, budget {share:.0%}" for share in BUDGETS), f"t={t}"]),
            )
            for t in (8, 16)
        ),
    ]
    for measure, values in subject.worth.items():
        curves = []
        for name in ("breadth-first", "depth-first", "t=8", "t=16"):
            xs, ys = thinned(found(made[name][0], values, inside))
            share = len(made[name][0].order) / max(explored, 1)
            curves.append(Curve(name, [x * share for x in xs], ys))
        figures.append(Figure(f"Figure 9, {measure}", f"{measure} found", done, "share of all", curves))
    return figures
