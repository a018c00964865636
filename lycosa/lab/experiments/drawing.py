"""Figures as SVG, without a library: lines or dots over two axes, each linear or logarithmic.

A figure is one self-contained `<svg>`: it can be a file of its own, or part of a page. Text is text. Colours differ
in lightness too, and lines in dashes, so that a print in grey can be read. The paper's own points are black rings,
and squares for a second of its curves; no line joins them, since its text gives no more of the
curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise

from lycosa.lab.experiments.result import Curve, Figure

WIDTH, HEIGHT = 560, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 46
_COLOURS = ("#1f4e9c", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#16a0a0", "#555555", "#c2185b")
_RING = 'fill="none" stroke="#000000" stroke-width="1.4"'
_SQUARE = "square"  # instead of dashes
_DASHES = ("", "6 3", "2 2", "8 3 2 3")


class _Axis:
    """Maps values to coordinates, with ticks."""

    def __init__(self, values: Sequence[float], low_at: float, high_at: float, log: bool) -> None:
        self._log = log
        usable = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        low, high = (min(usable), max(usable)) if usable else (1.0 if log else 0.0, 1.0)
        self._low: float
        self._high: float
        if log:
            self._low, self._high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        else:
            step = _step(high - min(low, 0.0) or 1.0)
            self._low, self._high = (
                min(0.0, math.floor(low / step) * step),
                math.ceil(high / step - 1e-6) * step,
            )
        if self._high <= self._low:
            self._high = self._low + 1
        self._at, self._span = low_at, high_at - low_at

    def place(self, value: float) -> float:
        at = math.log10(value) if self._log else value
        return self._at + self._span * (at - self._low) / (self._high - self._low)

    def shows(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self._log)

    def ticks(self) -> list[tuple[float, str]]:
        if self._log:
            low, high = int(self._low), int(self._high)
            every = max((high - low) // 6, 1)
            return [(10.0**e, _short(10.0**e)) for e in range(low, high + 1, every)]
        step = _step(self._high - self._low)
        first = math.ceil(self._low / step - 1e-9)
        count = int((self._high - self._low) / step + 1e-9)
        return [((first + i) * step, _short((first + i) * step)) for i in range(count + 1)]


def _step(span: float) -> float:
    """A round distance between ticks, so that some five to ten fit into a range."""
    base = 10.0 ** math.floor(math.log10(span / 5))
    return next(base * factor for factor in (1, 2, 5, 10) if span / (base * factor) <= 7)


def _short(value: float) -> str:
    if value == 0:
        return "0"
    for least, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= least:
            unit = 1e3 if letter == "k" else least
            return f"{value / unit:.4g}{letter}"
    return f"{value:.4g}" if abs(value) >= 1e-3 else f"{value:.0e}"


def svg(figure: Figure) -> str:
    """The figure, drawn."""
    xs = [x for curve in figure.curves for x in curve.xs]
    ys = [y for curve in figure.curves for y in curve.ys]
    across = _Axis(xs, _LEFT, WIDTH - _RIGHT, figure.log_x)
    up = _Axis(ys, HEIGHT - _BOTTOM, _TOP, figure.log_y)
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="11" role="img">',
        f"<title>{escape(figure.name)}: {escape(figure.title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-size="13">{escape(figure.name)}: {escape(figure.title)}</text>',
    ]
    for value, text in across.ticks():
        x = across.place(value)
        made.append(f'<path d="M{x:.1f} {_TOP}V{HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        made.append(f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 15}" text-anchor="middle">{text}</text>')
    for value, text in up.ticks():
        y = up.place(value)
        made.append(f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="#ddd"/>')
        made.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    made.append(
        f'<path d="M{_LEFT} {_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}" fill="none" stroke="#333"/>'
        f'<text x="{(_LEFT + WIDTH - _RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(figure.x)}</text>'
        f'<text x="14" y="{(HEIGHT - _BOTTOM + _TOP) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(HEIGHT - _BOTTOM + _TOP) / 2})">{escape(figure.y)}</text>'
    )
    for number, curve in enumerate(figure.curves):
        made.append(_drawn(curve, number, figure.dots, across, up))
    made += _legend(figure.curves, figure.dots, across, up)
    return "\n".join([*made, "</svg>\n"])


def _points(curve: Curve, across: _Axis, up: _Axis) -> list[tuple[float, float]]:
    return [
        (across.place(x), up.place(y))
        for x, y in zip(curve.xs, curve.ys, strict=True)
        if across.shows(x) and up.shows(y)
    ]


def _drawn(curve: Curve, number: int, dots: bool, across: _Axis, up: _Axis) -> str:
    colour, dash = _style(curve, number)
    points = _points(curve, across, up)
    if curve.paper:
        return "".join(_ring(x, y, dash) for x, y in points)
    if dots:
        return "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>' for x, y in points)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    style = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"{style}/>'


def _style(curve: Curve, number: int) -> tuple[str, str]:
    """Colour and dashes; for the paper's own points the mark."""
    if curve.paper:
        return "#000000", _SQUARE if number % 2 else ""
    again = number // len(_COLOURS)
    return _COLOURS[number % len(_COLOURS)], _DASHES[again % len(_DASHES) if again else number % 2]


def _ring(x: float, y: float, kind: str) -> str:
    if kind == _SQUARE:
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" {_RING}/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {_RING}/>'


def _along(points: Sequence[tuple[float, float]], dots: bool) -> list[tuple[float, float]]:
    """The points that a curve covers, its lines included."""
    found = list(points)
    if not dots:
        for (x, y), (u, v) in pairwise(points):
            steps = int(math.hypot(u - x, v - y) // 8)
            found += [(x + (u - x) * i / steps, y + (v - y) * i / steps) for i in range(1, steps)]
    return found


def _legend(curves: Sequence[Curve], dots: bool, across: _Axis, up: _Axis) -> list[str]:
    """The legend, in the corner where it hides least; nothing for a single curve."""
    if len(curves) < 2:
        return []
    wide = 7 * max(len(curve.name) for curve in curves) + 30
    tall = 15 * len(curves) + 6
    corners = [
        (left, top)
        for top in (_TOP + 4, HEIGHT - _BOTTOM - tall - 4)
        for left in (WIDTH - _RIGHT - wide - 4, _LEFT + 4)
    ]
    inked = [spot for curve in curves for spot in _along(_points(curve, across, up), dots or curve.paper)]
    left, top = min(
        corners,
        key=lambda at: sum(at[0] <= x <= at[0] + wide and at[1] <= y <= at[1] + tall for x, y in inked),
    )
    made = [f'<rect x="{left}" y="{top}" width="{wide}" height="{tall}" fill="white" fill-opacity=".8"/>']
    for number, curve in enumerate(curves):
        y = top + 14 + 15 * number
        colour, dash = _style(curve, number)
        style = f' stroke-dasharray="{dash}"' if dash and not dots else ""
        if curve.paper:
            made.append(_ring(left + 12, y - 4, dash))
        else:
            made.append(f'<path d="M{left + 4} {y - 4}h16" stroke="{colour}" stroke-width="2"{style}/>')
        made.append(f'<text x="{left + 24}" y="{y}">{escape(curve.name)}</text>')
    return made
