"""Our caches compared with libCacheSim's, an independent implementation: the same trace, the same sizes.

    pip install libcachesim                                            in an environment of your own
    python benchmarks/cache_oracle.py --graph cnr-2000 --requests 1M

The trace is that of `lycosa lab run caching` with 100 visits. LRU and MIN are fully defined, so their hits must be
equal, request by request for LRU; CLOCK and RANDOM leave choices open (where a new entry goes, what is drawn), so
theirs must be near. Exit code 1 if LRU or MIN differ, or CLOCK or RANDOM by more than two points.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import libcachesim
import numpy as np

from lycosa.cli import amounts
from lycosa.files import DiskFiles
from lycosa.graph.bv import BVGraph
from lycosa.lab.experiments.caching_curves import Curves, trace
from lycosa.lab.experiments.caching_policy import LEAST, from_libcachesim
from lycosa.lab.experiments.web import from_graph, from_synthetic

PAIRS = {"LRU": "LRU", "MIN": "Belady", "CLOCK": "Clock", "RANDOM": "Random"}
EXACT = ("LRU", "MIN")
RIVALS = ("FIFO", "ARC", "SLRU", "Sieve", "S3FIFO", "LIRS")


def quiet(_: str) -> None:
    """Discards the text."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graph", type=Path, help="a BV graph; else a synthetic web is drawn")
    parser.add_argument("--synthetic", type=amounts.size, default=20_000)
    parser.add_argument("--requests", type=amounts.size, default=1_000_000)
    parser.add_argument("--orders", default="4,6,8,10,12,14", help="log2 of entries")
    args = parser.parse_args()
    if args.graph is not None:
        web = from_graph(
            BVGraph.open(DiskFiles(args.graph.parent), args.graph.name), args.graph.name, 0, quiet
        )
    else:
        web = from_synthetic(args.synthetic, 0, quiet)
    curves = Curves(web, trace(web, 100, most=args.requests).links)
    count = len(curves.links)
    never = np.iinfo(np.int64).max
    following = np.where(curves.following >= count, never, curves.following.astype(np.int64))
    print(f"{web.name}: {count:,} requests, {curves.distinct:,} different")
    print("| policy | entries | ours | libCacheSim | difference |\n|---|---:|---:|---:|---:|")
    wrong, theirs = 0, np.empty(count, np.bool_)
    orders = [int(text) for text in args.orders.split(",")]
    for ours, name in PAIRS.items():
        for order in orders:
            mine = 1 - curves.rate(ours, order)
            flags = curves.hits.copy()
            other = from_libcachesim(getattr(libcachesim, name), 1 << order, following).probe(
                curves.keys, theirs
            )
            gap = mine - other / count
            same = bool(ours != "LRU" or np.array_equal(flags, theirs))
            wrong += not same or abs(gap) > (0 if ours in EXACT else 0.02)
            print(f"| {ours} | 2^{order} | {mine:.4%} | {other / count:.4%} | {gap:+.4%} |", flush=True)
    orders = [order for order in orders if order >= LEAST]
    print("\n| rival | " + " | ".join(f"2^{order}" for order in orders) + " |\n|---|" + "---:|" * len(orders))
    print("| our CLOCK | " + " | ".join(f"{1 - curves.rate('CLOCK', order):.2%}" for order in orders) + " |")
    for name in RIVALS:
        row = []
        for order in orders:
            found = from_libcachesim(getattr(libcachesim, name), 1 << order).probe(curves.keys, theirs)
            row.append(f"{found / count:.2%}")
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
