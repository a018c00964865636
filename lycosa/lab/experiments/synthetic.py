"""A web at graph scale, drawn from a seed: the shape of a real one, without its data.

Pages lie on sites, numbered site by site; the first page of a site is its home page.

- **Sites** have Pareto sizes (shape 1.1), at most `largest` pages (25,000: Castillo's crawl stopped there) or a
  fiftieth of all, `per_site` on average (70 as there).
- **Out-degrees** are double-Pareto (Mitzenmacher; the Sydney paper's Figure 4): x^(rise-1) below the knee,
  x^(-fall-1) above; a share of the pages has none. Repeats within a page are dropped, so lists come out shorter.
- **A page's links**: first *children*, pages of its site that have no link yet, so that every page can be reached
  from its home page; then, with probability `copy`, stretches of the list of one of the preceding pages (copied
  neighbourhoods), of 1 to `run` links; else new links. A new link leads to another site with probability `remote`,
  chosen by popularity (number = sites · u^a), to its home page or deep into it; or to a page of its own site,
  chosen by popularity (number = size · u^a). Numbers u^a have a power law of exponent 2 + 1/(a-1).

`synthetic_fit` finds the parameters for a web like a given one. Everything follows from the seed; `fit` measures
the result. What it lacks: dates, languages, spam, and any reason why sites link to each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lycosa.graph.bv import Lists
from lycosa.graph.bv_writer import BVWriter
from lycosa.lab.experiments import synthetic_kernels as kernels
from lycosa.lab.faults import FaultyFiles

STRETCH = 100_000
"""Pages whose lists are compressed to measure the bits per link."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of a web; the defaults approximate .it in the Sydney paper's Figure 5, and 81% local links."""

    knee: float = 12.0
    rise: float = 1.0
    fall: float = 1.3
    none: float = 0.08
    most: int = 3_000
    copy: float = 0.6
    run: float = 8.0
    window: int = 7
    remote: float = 0.255
    home: float = 0.6
    inside: float = 6.0
    abroad: float = 9.0
    children: float = 0.25
    per_site: float = 70.0
    largest: int = 25_000
    by_size: bool = False
    """Whether the larger a site the more popular: its number is its place by size."""


class Drawn(NamedTuple):
    """A web: its lists, and the first page of each site, followed by the number of pages."""

    lists: Lists
    bounds: npt.NDArray[np.int64]


def site_bounds(pages: int, seed: int, shape: Shape) -> npt.NDArray[np.int64]:
    """Cut the pages into sites."""
    dice = np.random.default_rng([seed, 1])
    count = max(int(pages / shape.per_site), 1)
    sizes = 1 + dice.pareto(1.1, count) * 8
    most = max(min(shape.largest, pages // 50), 1)
    for _ in range(8):  # what the largest lose goes to the others
        sizes = np.minimum(sizes * (pages / sizes.sum()), most)
    if shape.by_size:
        sizes[::-1].sort()
    whole = np.maximum(sizes, 1).astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum(whole)])
    bounds = np.append(bounds[bounds < pages], pages)
    # The remaining pages, if sizes came out short, become sites of the same kind.
    tail = int(bounds[-1] - bounds[-2])
    if tail > most:
        cuts = np.arange(bounds[-2] + most, pages, most)
        bounds = np.concatenate([bounds[:-1], cuts, [pages]])
    return bounds.astype(np.int64)


def draw(pages: int, seed: int, shape: Shape | None = None) -> Drawn:
    """Draw a web of that many pages."""
    shape = shape or Shape()
    bounds = site_bounds(pages, seed, shape)
    wanted = np.empty(pages, np.int32)
    kernels.degrees(seed, shape.knee, shape.rise, shape.fall, shape.none, shape.most, wanted)
    nodes = np.empty(int(wanted.sum(dtype=np.int64)) + pages, np.int32)
    starts = np.zeros(pages + 1, np.int64)
    how = (
        shape.copy,
        shape.run,
        shape.window,
        shape.remote,
        shape.home,
        shape.inside,
        shape.abroad,
        shape.children,
    )
    end = kernels.fill(seed, bounds, wanted, how, starts, nodes)
    return Drawn(Lists(starts, nodes[:end]), bounds)


def sites_of(drawn: Drawn) -> npt.NDArray[np.int32]:
    """The site of each page."""
    return np.repeat(np.arange(len(drawn.bounds) - 1, dtype=np.int32), np.diff(drawn.bounds))


def bits_a_link(lists: Lists) -> float:
    """Bits per link in WebGraph's format with default parameters; for a large web those of pages in its middle."""
    first = max((lists.count - STRETCH) // 2, 0)
    last = min(first + STRETCH, lists.count)
    writer = BVWriter(FaultyFiles(), "sample")
    writer.append(np.zeros(first + 1, np.int64), np.empty(0, np.int32))
    before = writer.bits
    begin, end = int(lists.starts[first]), int(lists.starts[last])
    writer.append(lists.starts[first : last + 1] - begin, lists.nodes[begin:end])
    return (writer.bits - before) / max(end - begin, 1)


def fit(lists: Lists, sites: npt.NDArray[np.int32]) -> dict[str, Any]:
    """The measures of a web: degrees, their exponents, locality, how well it is compressed."""
    out = np.diff(lists.starts)
    into = np.bincount(lists.nodes, minlength=lists.count)
    sizes = np.bincount(sites)
    local = 0
    step = 1 << 20
    for first in range(
        0, lists.count, step
    ):  # in pieces: an array of all links' sources would be as large as the links
        last = min(first + step, lists.count)
        nodes = lists.nodes[lists.starts[first] : lists.starts[last]]
        source = np.repeat(np.arange(first, last), out[first:last])
        local += int(np.count_nonzero(sites[source] == sites[nodes]))
    neighbours = np.linspace(1, max(lists.count - 1, 1), min(lists.count - 1, 20_000)).astype(np.int64)
    alike = int(kernels.alike(lists.starts, lists.nodes, neighbours))
    links = max(len(lists.nodes), 1)
    return {
        "links a page": round(links / max(lists.count, 1), 2),
        "pages without links": _share(out == 0),
        "pages of more than 8 links": _share(out > 8),
        "pages of more than 16 links": _share(out > 16),
        "most links": int(out.max(initial=0)),
        "most linked to": int(into.max(initial=0)),
        "exponent of in-degrees": round(tail_exponent(into), 2),
        "exponent of out-degrees": round(tail_exponent(out), 2),
        "exponent of site sizes": round(tail_exponent(sizes), 2),
        "largest site": int(sizes.max(initial=0)),
        "links that stay on their site": round(local / links, 4),
        "neighbours that share a link": round(alike / max(len(neighbours), 1), 3),
        "bits a link": round(bits_a_link(lists), 2),
    }


def _share(there: npt.NDArray[np.bool_]) -> float:
    return round(float(there.mean()), 4) if len(there) else 0.0


def tail_exponent(values: npt.NDArray[np.int64]) -> float:
    """The exponent of the largest hundredth (at least 50 values), by Hill's estimate."""
    ordered = np.sort(values[values > 0])[::-1].astype(np.float64)
    count = min(max(len(ordered) // 100, 50), len(ordered) - 1)
    if count < 1:
        return 0.0
    mean = float(np.mean(np.log(ordered[:count] / ordered[count])))
    return 1.0 + 1.0 / mean if mean > 0 else 0.0
