"""A synthetic web like a given graph: finds the `synthetic.Shape` that draws one with the graph's measures.

What the graph shows directly is taken from it: pages without links, most links, pages of a site, the largest site.
The other parameters are searched for: each in turn is made larger and smaller, a small web is drawn, and what
brings the measures nearer is kept; steps get smaller. *Nearer* is the sum, over `MEASURES`, of the squared
logarithm of measure over measure (for shares p: of p/(1-p)). It follows from the seed.

A site has at most a fiftieth of the pages, so the largest may be smaller than the graph's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lycosa.graph.bv import Lists
from lycosa.lab.experiments.result import Told
from lycosa.lab.experiments.synthetic import Shape, draw, fit, sites_of

SAMPLE = 20_000
STEPS = (1.5, 1.2, 1.07)
MEASURES = (
    "links a page",
    "pages of more than 8 links",
    "pages of more than 16 links",
    "exponent of in-degrees",
    "links that stay on their site",
    "neighbours that share a link",
    "bits a link",
)
"""Measures of `synthetic.fit` that are compared."""
_SHARES = frozenset(MEASURES[1:3] + MEASURES[4:6])
_SEARCHED = {
    "knee": (1.0, 200.0),
    "rise": (0.2, 5.0),
    "fall": (0.5, 5.0),
    "copy": (0.05, 0.97),
    "remote": (0.005, 0.9),
    "home": (0.05, 0.95),
    "inside": (1.2, 20.0),
    "abroad": (1.2, 20.0),
    "children": (0.02, 0.9),
    "run": (1.0, 64.0),
}
"""The parameters that are searched for, each between two bounds."""


def fitted(lists: Lists, sites: npt.NDArray[np.int32], seed: int, told: Told, sample: int = SAMPLE) -> Shape:
    """The shape of webs like this one, found with webs of `sample` pages."""
    wanted = fit(lists, sites)
    sizes = np.bincount(sites)
    shape = replace(
        Shape(),
        none=float(wanted["pages without links"]),
        most=max(int(wanted["most links"]), 1),
        per_site=lists.count / max(len(sizes), 1),
        largest=int(sizes.max(initial=1)),
    )
    best = distance(shape, seed, wanted, sample)
    for step in STEPS:
        for number, (name, (low, high)) in enumerate(_SEARCHED.items()):
            told(f"fitting a web: steps of {step:g}, {number} of {len(_SEARCHED)} numbers, {best:.3f} apart")
            for factor in (step, 1 / step):
                while low <= (value := getattr(shape, name) * factor) <= high:
                    changed: dict[str, Any] = {name: value}
                    tried = replace(shape, **changed)
                    apart = distance(tried, seed, wanted, sample)
                    if apart >= best:
                        break
                    shape, best = tried, apart
    return shape


def distance(shape: Shape, seed: int, wanted: Mapping[str, Any], sample: int) -> float:
    """The distance of a web of this shape from what is wanted."""
    drawn = draw(sample, seed, shape)
    found = fit(drawn.lists, sites_of(drawn))
    return sum((_place(name, found) - _place(name, wanted)) ** 2 for name in MEASURES)


def _place(name: str, measures: Mapping[str, Any]) -> float:
    value = float(measures[name])
    if name in _SHARES:
        value = min(max(value, 0.001), 0.999)
        return math.log(value / (1 - value))
    return math.log(max(value, 0.01))
