"""The result of a paper's experiment: its claim, its definitions, numbers beside the paper's, and figures.

    result  := experiment, paper, claim, web, definitions, lines, figures
    line    := what, ours, the paper's, how the two compare
    figure  := curves over one axis, in the form that the paper has

A *verdict* is a word, by fixed bounds. For numbers, with d the difference and q the larger of the two over the
smaller: `agrees` (q at most 1.1, and for shares d at most 5 points; for shares also if d is at most 2 points and
both are above 10%, or at most 0.1 points), `close` (q at most 1.3), `same size` (q at most 2), else `differs`. For
statements: `holds` or `does not hold here`. A line for which the paper has no number is `ours alone`. The reason
for a difference is the line's `why`, written by its author; it never changes the verdict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Told = Callable[[str], None]
Unit = Literal["share", "number", "count", "seconds", "bytes"]


class Line(NamedTuple):
    """One number or statement of a paper, and ours."""

    where: str  # "Table 1", "§5.2"
    what: str
    ours: float | bool
    paper: float | bool | None = None
    unit: Unit = "number"
    why: str = ""

    @property
    def difference(self) -> float | None:
        if self.paper is None or isinstance(self.ours, bool) or isinstance(self.paper, bool):
            return None
        return self.ours - self.paper

    @property
    def verdict(self) -> str:
        if isinstance(self.ours, bool):
            return "holds" if self.ours else "does not hold here"
        if self.paper is None:
            return "ours alone"
        low, high = sorted((abs(self.ours), abs(float(self.paper))))
        share = self.unit == "share"
        near = share and high - low <= (0.02 if low >= 0.1 else 0.001)
        # 80 and 87% are not the same: the missing parts differ by half.
        if near or (high <= 1.1 * low and not (share and high - low > 0.05)):
            return "agrees"
        if high <= 1.3 * low:
            return "close"
        return "same size" if high <= 2 * low else "differs"

    def as_json(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "ours": _rounded(self.ours),
            "difference": None if self.difference is None else _rounded(self.difference),
            "verdict": self.verdict,
        }


class Curve(NamedTuple):
    """Points of one line of a figure."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    paper: bool = False
    """Whether these are the paper's own numbers, as far as its text gives them."""


class Figure(NamedTuple):
    """A figure as the paper has it."""

    name: str  # "Figure 2"
    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False
    dots: bool = False
    """Whether points are not joined by a line: a distribution."""


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one experiment."""

    experiment: str
    paper: str
    claim: str
    web: Mapping[str, Any]
    """What it ran on: name, pages, links, and the origin of its other properties."""
    definitions: Mapping[str, str]
    """What the paper leaves open, and how it was interpreted here: start set, queue, ties, seeds …"""
    lines: Sequence[Line]
    figures: Sequence[Figure] = field(default_factory=tuple)

    def as_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "paper": self.paper,
            "claim": self.claim,
            "web": dict(self.web),
            "definitions": dict(self.definitions),
            "lines": [line.as_json() for line in self.lines],
            "figures": [
                {
                    **figure._asdict(),
                    "curves": [
                        {
                            "name": curve.name,
                            "xs": [_rounded(x) for x in curve.xs],
                            "ys": [_rounded(y) for y in curve.ys],
                            "paper": curve.paper,
                        }
                        for curve in figure.curves
                    ],
                }
                for figure in self.figures
            ],
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Result:
        """Reads what `as_json` wrote."""
        kept = json.loads(text)
        lines = [Line(*(line[name] for name in Line._fields)) for line in kept["lines"]]
        figures = [
            Figure(
                **{
                    **figure,
                    "curves": [Curve(**one) for one in figure["curves"]],
                }
            )
            for figure in kept["figures"]
        ]
        head = {name: kept[name] for name in ("experiment", "paper", "claim", "web", "definitions")}
        return cls(**head, lines=lines, figures=figures)


def _rounded(value: float | bool) -> Any:
    """Six digits: as much as a figure shows, and the same bytes from the same run."""
    return value if isinstance(value, bool) else float(f"{float(value):.6g}")


def shown(value: float | bool | None, unit: Unit) -> str:
    """A value formatted for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit == "share":
        return f"{100 * value:.1f}%"
    if unit == "count":
        return f"{value:,.0f}"
    if unit == "bytes":
        return f"{value / 1e9:.2f} GB"
    return f"{value:.3g} s" if unit == "seconds" else f"{value:.3g}"


def table(lines: Sequence[Line]) -> list[list[str]]:
    """Lines as cells, with a title row."""
    rows = [["", "", "ours", "paper", "difference", "verdict"]]
    for line in lines:
        gap = line.difference
        sign = "" if gap is None or gap < 0 else "+"
        rows.append(
            [
                line.where,
                line.what,
                shown(line.ours, line.unit),
                shown(line.paper, line.unit) if line.paper is not None else "",
                "" if gap is None else sign + shown(gap, line.unit),
                line.verdict,
            ]
        )
    return rows


def thinned(ys: npt.ArrayLike, most: int = 240) -> tuple[list[float], list[float]]:
    """At most `most` points of a long curve: places from 0 to 1, and the values there."""
    values = np.asarray(ys, np.float64)
    if not len(values):
        return [], []
    at = np.unique(np.linspace(0, len(values) - 1, min(len(values), most)).astype(np.int64))
    return ((at + 1) / len(values)).tolist(), values[at].tolist()


def sizes_curve(name: str, counts: npt.ArrayLike) -> Curve:
    """The share of items of each size, in bins that grow by a fifth: a distribution for two log axes."""
    values = np.asarray(counts, np.int64)
    values = values[values > 0]
    if not len(values):
        return Curve(name, [], [])
    edges = np.unique(
        np.ceil(1.2 ** np.arange(0, np.log(values.max() + 1) / np.log(1.2) + 2)).astype(np.int64)
    )
    found, _ = np.histogram(values, edges)
    widths = np.diff(edges)
    middle = np.sqrt(edges[:-1] * np.maximum(edges[1:] - 1, edges[:-1]))
    there = found > 0
    return Curve(name, middle[there].tolist(), (found / widths / len(values))[there].tolist())
