"""Verifying that URLs are new: VEUNIQ against DRUM (Henrique, Ziviani and others, SPIRE 2011, slides).

The cost table by the formulas of `lycosa.seen.cost_model`, and the crawl simulation with the production stores
(`uniqueness_cycles`): repositories of growing size, the time of a cycle for each.

The slides have cycles of 1M URLs and repositories of 1M to 350M. Here the largest repository is a parameter, and
everything else is scaled in proportion: `--synthetic 35M` is a tenth of the slides, cycles of 100,000 URLs.
Absolute seconds are of another machine, disk and language; comparable are the ratio of the two stores, and how
each grows with the repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lycosa.errors import ConfigError
from lycosa.files import scratch
from lycosa.lab.experiments.result import Curve, Figure, Line, Result, Told
from lycosa.lab.experiments.uniqueness_cycles import simulate
from lycosa.seen import cost_model

PAPER = "Henrique, Ziviani, Cristo, Moura, Silva, Carvalho: A New Approach for Verifying URL Uniqueness, SPIRE 2011"
CLAIM = (
    "Keeping known URLs by server, in repositories that are updated in turn, costs a third of DRUM's traffic and a "
    "ninth of its time."
)
SIZES = (1, 50, 100, 150, 200, 250, 300, 350)
"""Millions of URLs stored, in the slides' table."""
DRUM = (16.28, 26.39, 35.62, 44.70, 53.99, 64.46, 73.18, 82.85)
VEUNIQ = (1.38, 2.78, 3.62, 4.50, 5.47, 7.20, 7.44, 9.26)
"""Seconds to update the repository with 1M URLs."""
RANGES = 16
DRUM_CYCLES = 2
LEAST = 350_000


def run_alone(urls: int, seed: int, told: Told) -> Result:
    """Both tables and the figure, with at most so many URLs stored."""
    if urls < LEAST:
        raise ConfigError(f"uniqueness needs at least {LEAST:,} URLs: cycles are a 350th of them")
    per_cycle = urls // SIZES[-1]
    memory = max(int(256e6 * urls / 350e6), 8 << 20)
    rows: dict[int, dict[str, dict[str, Any]]] = {}
    with scratch("lycosa-lab-") as place:
        for size in SIZES:
            stored = per_cycle * size
            told(f"a repository of {stored:,} URLs")
            made = simulate(
                stored,
                Path(place) / "stores",
                ranges=RANGES,
                memory=memory,
                drum_cycles=DRUM_CYCLES,
                say=told,
                per_cycle=per_cycle,
                seed=seed + 1,
            )
            rows[size] = {row["store"]: row for row in made}
    lines = [*_times(rows), *_traffic(rows), *_cost_table()]
    definitions = {
        "start set": "repositories preloaded with so many known URLs of hosts of Pareto sizes",
        "cycle": f"{per_cycle:,} URLs: a tenth crawled (marked), the others extracted (offered with their URLs)",
        "time": "of a whole cycle: marks, offers, the merge, a snapshot and its syncs",
        "VEUNIQ": f"{RANGES} repositories by turns; the mean of one rotation, after one that is not timed",
        "DRUM": f"{RANGES} buckets, all merged in every cycle, the mean of {DRUM_CYCLES}; and every 16 cycles",
        "memory": f"{memory / 1e6:.0f} MB of buffers",
        "ties": "none",
        "seed": str(seed),
    }
    web = {"name": f"urls-{urls}", "pages": urls, "cycle": per_cycle}
    return Result("uniqueness", PAPER, CLAIM, web, definitions, lines, [_figure(rows, per_cycle)])


def _times(rows: dict[int, dict[str, dict[str, Any]]]) -> list[Line]:
    scale = "ours are cycles of fewer URLs, on another machine: compare the ratio"
    lines = []
    for place, size in enumerate(SIZES):
        found = rows[size]
        drum, veuniq = found["drum"]["seconds"], found["veuniq"]["seconds"]
        where = f"at {size} cycles' URLs"
        lines += [
            Line("Time to update", f"DRUM, {where}", drum, DRUM[place], "seconds", scale),
            Line("Time to update", f"VEUNIQ, {where}", veuniq, VEUNIQ[place], "seconds", scale),
            Line("Time to update", f"DRUM over VEUNIQ, {where}", drum / veuniq, DRUM[place] / VEUNIQ[place]),
            Line("Time to update", f"DRUM merging every 16 cycles, over VEUNIQ, {where}",
                 found["drum, every 16 cycles"]["seconds"] / veuniq),
        ]  # fmt: skip
    for name, paper in (("drum", DRUM), ("veuniq", VEUNIQ)):
        ours = rows[SIZES[-1]][name]["seconds"] / rows[SIZES[1]][name]["seconds"]
        lines.append(
            Line(
                "Time to update",
                f"{name.upper()}: time at 350 cycles' URLs over that at 50",
                ours,
                paper[-1] / paper[1],
            )
        )
    grows = [rows[size]["drum"]["seconds"] for size in SIZES[1:]]
    lines.append(Line("Time per cycle", "DRUM's time grows with the repository", grows[-1] > grows[0], True))
    faster = all(rows[size]["drum"]["seconds"] > rows[size]["veuniq"]["seconds"] for size in SIZES[1:])
    lines.append(Line("Time per cycle", "VEUNIQ is faster at every size from 50 on", faster, True))
    return lines


def _traffic(rows: dict[int, dict[str, dict[str, Any]]]) -> list[Line]:
    """Disk traffic in bytes per byte of URL, measured, beside the model with our own parameters."""
    last = rows[SIZES[-1]]
    return [
        Line("Cost model", f"{name}, largest repository: bytes moved a byte of URL, measured (paper: the model)",
             last[name]["overhead"], last[name]["model"])
        for name in ("drum", "veuniq")
    ]  # fmt: skip


def _cost_table() -> list[Line]:
    """All forty cells."""
    lines = []
    formulas = cost_model.table()
    for n, (_, paper) in cost_model.TABLE.items():
        for place, value in enumerate(formulas[n]):
            store, ram = ("DRUM", "VEUNIQ")[place % 2], cost_model.RAM[place // 2] >> 30
            what = f"{store}, n = {n / 1e9:g}G, RAM {ram} GB: overhead"
            lines.append(Line("Cost table", what, value, paper[place]))
    return lines


def _figure(rows: dict[int, dict[str, dict[str, Any]]], per_cycle: int) -> Figure:
    stored = [float(size) for size in SIZES]
    names = (("drum", "DRUM"), ("drum, every 16 cycles", "DRUM, every 16 cycles"), ("veuniq", "VEUNIQ"))
    curves = [Curve(label, stored, [rows[size][name]["seconds"] for size in SIZES]) for name, label in names]
    curves += [
        Curve("DRUM, the slides (cycles of 1M)", stored, DRUM, True),
        Curve("VEUNIQ, the slides", stored, VEUNIQ, True),
    ]
    title = f"time spent in each crawl cycle of {per_cycle:,} URLs"
    return Figure("Time per cycle", title, "URLs stored, in cycles", "seconds", curves, log_y=True)
