"""Plots of the Sydney experiment, after the paper's Figures 1, 3 and 7 to 9. Needs matplotlib (the extra `lab`)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lycosa.lab.experiments.sydney import Rule, Subject, Trace, found

Runs = Mapping[str, tuple[Rule, Trace]]


def plot(path: Path, title: str, subject: Subject, runs: Runs) -> None:
    """Write a PNG with six panels. `runs` has the rules by name, breadth-first among them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from PIL import Image  # which matplotlib brings

    explored = max(len(runs["breadth-first"][1].order), 1)
    sampled = [name for name, (rule, _) in runs.items() if name == f"t={rule.t}"]
    small = sampled[-1:] or ["breadth-first"]
    figure, axes = pyplot.subplots(2, 3, figsize=(14, 7.5), layout="constrained")
    figure.suptitle(title)
    back = [name for name in runs if name.startswith((f"{small[0]}, S emptied", f"{small[0]}, back"))]
    bounded = [name for name in runs if name.startswith(f"{small[0]}, budget") or "room" in name]
    lines: list[tuple[Any, str, Sequence[str]]] = [
        (axes[0, 0], "|P|+|S|", ["breadth-first", "depth-first", *sampled]),
        (axes[0, 2], "coming back", [*back, *small]),
        (axes[1, 0], "budgets and the frontier", bounded),
    ]
    for axis, name, names in lines:
        for run in names:
            _, trace = runs[run]
            axis.plot(_times(trace, explored), trace.curve.sum(axis=1) / explored, label=run, linewidth=1)
        _dress(axis, name, "share of the explored pages waiting")
    bfs, (_, trace) = runs["breadth-first"][1], runs[small[0]]
    axis = axes[0, 1]
    axis.plot(_times(bfs, explored), bfs.curve.sum(axis=1) / explored, label="breadth-first", linewidth=1)
    for column, label in enumerate(("|P|", "|S|")):
        axis.plot(_times(trace, explored), trace.curve[:, column] / explored, label=label, linewidth=1)
    _dress(axis, f"P and S apart, {small[0]}", "share of the explored pages")
    inside = np.zeros(subject.lists.count, np.bool_)
    inside[bfs.order] = True
    for axis, (measure, values) in zip(axes[1, 1:], subject.worth.items(), strict=False):
        for run in ["breadth-first", "depth-first", *sampled[-2:]]:
            _, trace = runs[run]
            sums = found(trace, values, inside)
            at = np.linspace(0, max(len(sums) - 1, 0), min(len(sums), 500)).astype(np.int64)
            axis.plot((at + 1) / explored, sums[at], label=run, linewidth=1)
        _dress(axis, f"{measure} found", "share of all")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=80, format="png")
    pyplot.close(figure)
    # A palette halves the file without visible loss.
    Image.open(drawn).convert("RGB").quantize(256).save(path, format="png", optimize=True)


def _times(trace: Trace, explored: int) -> Any:
    return np.arange(len(trace.curve)) * trace.stride / explored


def _dress(axis: Any, title: str, y: str) -> None:
    axis.set_title(title)
    axis.set_xlabel("share of the explored pages fetched")
    axis.set_ylabel(y)
    axis.set_xlim(0, 1)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
