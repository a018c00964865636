"""What decides the place of Length at r = 1 (Castillo, Figure 6.5)? One thing is changed at a time.

    python benchmarks/length.py --pages 50000 --graph cnr-2000

Each row is a web, or a start set, or a wait; each cell the mean PageRank fetched over a crawl with one connection
(the area below the curve of Figure 6.5), and for Length and Depth also with 64. The document with the results is
docs/reproduction.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from lycosa.files import DiskFiles
from lycosa.graph.bv import BVGraph
from lycosa.lab.experiments.scheduling import Bench
from lycosa.lab.experiments.scheduling_sim import Setting
from lycosa.lab.experiments.synthetic import Shape
from lycosa.lab.experiments.web import Web, from_graph, from_synthetic

FLAT = Shape(home=0.0, inside=1.0, by_size=True)
WAITS = (0.0, 15.0, 150.0, 1_500.0)
HEAD = (
    "web",
    "w",
    "PageRank of the largest sites with a tenth of the pages",
    "PageRank of home pages over the mean",
    "Optimal",
    "Depth",
    "Depth, sites as listed",
    "Length",
    "Batch",
    "Partial",
    "Depth, r=64",
    "Length, r=64",
)


def quiet(_: str) -> None:
    """Progress is the rows themselves."""


def webs(pages: int, graph: Path | None) -> Iterator[tuple[str, Web]]:
    if graph is not None:
        opened = BVGraph.open(DiskFiles(graph.parent), graph.name)
        yield graph.name, from_graph(opened, graph.name, 0, quiet)
    yield "default", from_synthetic(pages, 0, quiet)
    yield "links lead to large sites", from_synthetic(pages, 0, quiet, shape=Shape(by_size=True))
    flat = from_synthetic(pages, 0, quiet, shape=FLAT)
    yield "the same, and to any page of a site alike", flat
    yield "the same, one page known at the start", replace(flat, start=flat.homes[-1:])
    most = replace(FLAT, abroad=20.0)
    yield "any page alike, and nearly all to the largest", from_synthetic(pages, 0, quiet, shape=most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=50_000)
    parser.add_argument("--graph", type=Path)
    args = parser.parse_args()
    print("| " + " | ".join(HEAD) + " |\n|:--|" + "--:|" * (len(HEAD) - 1))
    for at, (name, web) in enumerate(webs(args.pages, args.graph)):
        bench = Bench(web, quiet)
        for w in WAITS if at < 2 else WAITS[1:2]:
            print(row(bench, name, w), flush=True)


def row(bench: Bench, name: str, w: float) -> str:
    web = bench.web
    sizes = np.bincount(web.sites)
    largest = np.argsort(-sizes, kind="stable")
    tenth = largest[np.cumsum(sizes[largest]) <= 0.1 * web.pages]
    top = bench.ranks[np.isin(web.sites, tenth)].sum()
    homes = bench.ranks[web.homes].mean() / bench.ranks.mean()
    between = max(bench.reached // 70, 1)
    asked = [Setting(order, w=w) for order in ("optimal", "depth", "listed", "length")]
    asked += [Setting(order, w=w, between=between) for order in ("batch", "partial")]
    asked += [Setting(order, w=w, r=64) for order in ("depth", "length")]
    cells = [f"{bench.earliness(setting):.1%}" for setting in asked]
    return f"| {name} | {w:g} | {top:.0%} | {homes:.1f} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
