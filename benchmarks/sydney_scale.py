"""The Sydney strategy at the size of the paper's largest graph: seconds, memory, and the cost per link by size.

    python benchmarks/sydney_scale.py --pages 115k,1.15M,11.5M
    python benchmarks/sydney_scale.py --pages 118M --knee 8           WebBase's: 118M pages, some 1,019M links

For each size, ascending: a synthetic web is drawn, and crawled with t=8 from its first page by the kernel of
`lycosa lab run sydney`. CPU is that of the process; memory its peak so far. `--knee`: how many links pages have.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np

from lycosa.cli import amounts
from lycosa.lab.experiments import synthetic
from lycosa.lab.experiments.sydney import Rule, Subject, crawl, number_keys, plan_of


def subject_of(pages: int, seed: int, knee: float) -> Subject:
    """The web, with only what a crawl of the rule t=8 needs of it: no ranks, no depths."""
    lists = synthetic.draw(pages, seed, synthetic.Shape(knee=knee)).lists
    none = np.empty(0)
    return Subject(lists, np.zeros(1, np.int64), number_keys(pages, seed), none.astype(np.int32), none)


def measure(pages: int, seed: int, knee: float, t: int) -> dict[str, float]:
    began = time.process_time()
    subject = subject_of(pages, seed, knee)
    drawn = time.process_time()
    wall = time.monotonic()
    made = crawl(subject, plan_of(Rule(f"t={t}", t=t), subject, pages))
    cpu, links = time.process_time() - drawn, len(subject.lists.nodes)
    return {
        "pages": pages,
        "links": links,
        "draw_cpu": round(drawn - began, 2),
        "crawl_cpu": round(cpu, 2),
        "crawl_wall": round(time.monotonic() - wall, 2),
        "ns_per_link": round(cpu / links * 1e9, 1),
        "coverage": round(len(made.order) / pages, 4),
        "peak_queue": round(made.peak / pages, 4),
        "came_back": round(made.returned / pages, 4),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", default="115k,1.15M,11.5M", help="sizes, ascending")
    parser.add_argument("--t", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--knee", type=float, default=synthetic.Shape().knee, help="more: more links a page")
    args = parser.parse_args()
    measure(2_000, args.seed, args.knee, args.t)  # compiles kernels
    for text in args.pages.split(","):
        print(json.dumps(measure(amounts.size(text), args.seed, args.knee, args.t)), flush=True)


if __name__ == "__main__":
    main()
