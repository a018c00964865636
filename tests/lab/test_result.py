"""Results: verdicts in words, JSON there and back, tables, figures and the page."""

from __future__ import annotations

import dataclasses
import json
from xml.etree import ElementTree

import pytest

from lycosa.lab.experiments.drawing import svg
from lycosa.lab.experiments.report_page import markdown, page
from lycosa.lab.experiments.result import Curve, Figure, Line, Result, sizes_curve, table, thinned


@pytest.mark.parametrize(
    ("ours", "paper", "unit", "verdict"),
    [
        (0.21, 0.20, "share", "agrees"),
        (0.001, 0.02, "share", "differs"),
        (0.0012, 0.0005, "share", "agrees"),
        (0.25, 0.20, "share", "close"),
        (0.835, 0.89, "share", "close"),
        (0.86, 0.89, "share", "agrees"),
        (0.35, 0.20, "share", "same size"),
        (0.70, 0.20, "share", "differs"),
        (110, 100, "number", "agrees"),
        (0.0, 0.0, "number", "agrees"),
        (5, 0, "number", "differs"),
        (True, True, "number", "holds"),
        (False, True, "number", "does not hold here"),
        (3, None, "number", "ours alone"),
    ],
)
def test_verdicts(ours: float, paper: float | None, unit: str, verdict: str) -> None:
    assert Line("Table 1", "it", ours, paper, unit).verdict == verdict  # type: ignore[arg-type]


FIGURE = Figure(
    "Figure 2",
    "a <b> & c",
    "entries",
    "miss rate",
    [Curve("one", [1, 10, 100], [0.9, 0.5, 0.0]), Curve("two", [1, 10, 100], [0.8, 0.4, 0.1])],
    log_x=True,
)
RESULT = Result(
    "caching",
    "A paper",
    "Something <holds>.",
    {"name": "w", "pages": 10, "links": 20},
    {"ties": "any"},
    [Line("Fig. 2", "misses", 0.123, 0.1, "share", "because"), Line("§5", "it is so", True, True)],
    [FIGURE],
)


def test_json_there_and_back() -> None:
    text = json.dumps(RESULT.as_json())
    again = Result.from_json(text)
    assert json.dumps(again.as_json()) == text
    line = json.loads(text)["lines"][0]
    assert line["ours"] == 0.123 and line["verdict"] == "close" and line["difference"] == 0.023
    assert json.loads(text)["definitions"] == {"ties": "any"}


def test_a_table_has_ours_the_papers_and_a_verdict() -> None:
    head, first, second = table(RESULT.lines)
    assert head[2:] == ["ours", "paper", "difference", "verdict"]
    assert first == ["Fig. 2", "misses", "12.3%", "10.0%", "+2.3%", "close"]
    assert second[2:] == ["yes", "yes", "", "holds"]


@pytest.mark.parametrize("log", [False, True])
def test_figures_are_xml_with_a_point_for_each_value(log: bool) -> None:
    drawn = svg(FIGURE._replace(log_y=log))
    root = ElementTree.fromstring(drawn)
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    # A log axis has no place for 0.
    assert [len(line.attrib["points"].split()) for line in lines] == [2 if log else 3, 3]
    xs = [float(pair.split(",")[0]) for pair in lines[1].attrib["points"].split()]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2), "decades are alike"
    ys = [float(pair.split(",")[1]) for pair in lines[1].attrib["points"].split()]
    assert ys == sorted(ys), "less is lower"


def test_the_papers_own_points_are_ringed_and_are_told_from_ours() -> None:
    theirs = Curve("the paper", [1, 100], [0.7, 0.2], True)
    figure = FIGURE._replace(curves=[*FIGURE.curves, theirs])
    rings = ElementTree.fromstring(svg(figure)).findall("{http://www.w3.org/2000/svg}circle")
    assert len(rings) == 3 and {ring.attrib["stroke"] for ring in rings} == {"#000000"}  # one in the legend
    both = figure._replace(curves=[*figure.curves, Curve("another of its", [10], [0.5], True)])
    marks = [one for one in ElementTree.fromstring(svg(both)) if one.attrib.get("fill") == "none"]
    assert [one.tag[-4:] for one in marks if one.attrib["stroke"] == "#000000"] == ["rcle"] * 2 + [
        "rect",
        "rcle",
        "rect",
    ]
    kept = Result.from_json(json.dumps(dataclasses.replace(RESULT, figures=[figure]).as_json()))
    assert [curve.paper for curve in kept.figures[0].curves] == [False, False, True]


@pytest.mark.parametrize("above", [True, False])
def test_the_legend_stands_where_no_curve_is(above: bool) -> None:
    """It once stood at the top on the right, over curves that end there."""
    ys = [1.0, 0.9, 1.0] if above else [0.0, 0.1, 0.0]
    curves = [Curve("one", [0, 5, 10], ys), Curve("two", [0, 5, 10], [1.0 if above else 0.0] * 3)]
    root = ElementTree.fromstring(
        svg(Figure("Figure 1", "t", "x", "y", [*curves, Curve("0", [0], [1 - above])]))
    )
    place = root.findall("{http://www.w3.org/2000/svg}rect")[-1]
    top, tall = float(place.attrib["y"]), float(place.attrib["height"])
    across = root.findall("{http://www.w3.org/2000/svg}polyline")[:2]
    points = [float(pair.split(",")[1]) for line in across for pair in line.attrib["points"].split()]
    assert not any(top <= y <= top + tall for y in points)


@pytest.mark.parametrize("values", [[], [0.0], [5.0, 5.0], [1e-9, 1e12]])
def test_figures_of_nothing_much(values: list[float]) -> None:
    for log in (False, True):
        figure = Figure("Figure 1", "t", "x", "y", [Curve("a", values, values)], log, log, dots=log)
        ElementTree.fromstring(svg(figure))


def test_the_page_holds_everything_and_needs_nothing() -> None:
    made = page([RESULT])
    assert "Something &lt;holds&gt;." in made and "<svg" in made and "because" in made and "12.3%" in made
    assert "src=" not in made and 'href="http' not in made and "<script" not in made


def test_thinned_keeps_the_ends() -> None:
    xs, ys = thinned(list(range(1000)), 10)
    assert len(xs) == 10 and (xs[0], xs[-1]) == (0.001, 1.0) and (ys[0], ys[-1]) == (0, 999)
    assert thinned([]) == ([], [])


def test_a_distribution_adds_up() -> None:
    curve = sizes_curve("s", [1, 1, 2, 50, 0])
    assert curve.ys[0] == pytest.approx(0.5) and len(curve.xs) == 3


def test_markdown_has_the_table() -> None:
    made = markdown([RESULT]).splitlines()
    assert made[0] == "## caching, on w" and "- ties: any" in made and "- because" in made
    assert "| Fig. 2 | misses | 12.3% | 10.0% | +2.3% | close |" in made
