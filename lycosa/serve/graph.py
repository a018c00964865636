"""The link graph in pages and for programs: the highest ranks, neighbours, and a map of hosts.

`lycosa graph build` makes the graph; without one these pages say so. Ranks (PageRank of pages and of hosts) are
calculated in the background when first asked for (`making`), and kept until another graph is built: for the graph
of a million pages this takes some seconds. Until then the page says so, and programs get 503.

The map is a drawing in SVG: some hosts on a circle, the highest rank at the top and the others following in order,
with a line for each linked pair, bent towards the middle. `/graph?host=H` is the map around one host: those that
it links to and that link to it. So one navigates by links, without scripts.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from lycosa.ask.html_parts import Cell, plural, short, table, text
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles
from lycosa.graph.pagerank import pagerank, top
from lycosa.graph.store import GraphStore, Manifest, read_manifest
from lycosa.serve.guard import LATER, OURS
from lycosa.serve.making import Look, Making, Tell
from lycosa.serve.pages import awaited
from lycosa.serve.responses import Json

Handler = Callable[[Request], Awaitable[Response]]
TOP = 25
ON_MAP = 28
NEIGHBOURS = 50
_RADIUS, _WIDTH, _HEIGHT = 160.0, 620, 620


class MakePage(Protocol):
    """Makes one of our pages."""

    def __call__(self, title: str, body: str, here: str, status: int = 200) -> Response: ...


class Ranked(NamedTuple):
    """A page or host with its rank; the mean is 1."""

    name: str
    rank: float


class HostMap(NamedTuple):
    """Some hosts, and the links between them (as indices into the list)."""

    hosts: list[Ranked]
    links: list[tuple[int, int]]
    centre: str
    """The host in the centre; empty: none."""


class Overview(NamedTuple):
    """The graph at a glance."""

    nodes: int
    arcs: int
    host_count: int
    pages: list[Ranked]
    hosts: list[Ranked]


class Neighbours(NamedTuple):
    """The pages that link to a URL and those it links to: how many, and the first of them."""

    count_in: int
    count_out: int
    into: list[str]
    out: list[str]


class Ranks(NamedTuple):
    """The slow part: the ranks of all hosts, and the pages and hosts with the highest."""

    generation: int
    hosts: Any
    highest: Any
    overview: Overview


class Graphs:
    """The graph of one crawl; called in threads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._store: GraphStore | None = None
        self._ranking = Making(self._rank, lambda: self._manifest().generation)

    def _manifest(self) -> Manifest:
        """The manifest of the last build."""
        there = (self._directory / "graph").is_dir()
        manifest = read_manifest(DiskFiles(self._directory / "graph")) if there else None
        if manifest is None:
            raise ConfigError(f"there is no link graph yet: lycosa graph build {self._directory} makes it")
        return manifest

    def _fresh(self) -> GraphStore:
        return GraphStore(DiskFiles(self._directory / "graph"), self._manifest())

    def _open(self) -> GraphStore:
        """The graph of the last build."""
        if self._store is None or self._store.manifest.generation != self._manifest().generation:
            self._store = self._fresh()
        return self._store

    def _rank(self, tell: Tell) -> Ranks:
        """Ranks of pages and hosts, and the highest. Opens its own files: other queries run at the same time."""
        store = self._fresh()
        tell("ranking its pages", 0)
        pages = pagerank(store.graph("out")).values
        tell("ranking its hosts", 0)
        hosts = pagerank(store.graph("host-out")).values
        pages, hosts = pages * len(pages), hosts * len(hosts)
        first, best = top(pages, TOP), top(hosts, TOP)
        manifest = store.manifest
        overview = Overview(
            manifest.nodes,
            manifest.arcs,
            manifest.hosts,
            _named(store.urls.urls(first), first, pages),
            _named(store.hosts.names(best), best, hosts),
        )
        return Ranks(manifest.generation, hosts, top(hosts, ON_MAP), overview)

    def ranks(self) -> Look[Ranks]:
        """The ranks, if they are ready and belong to the current graph."""
        made, telling = self._ranking.look()
        return Look(None if telling else made, telling)

    def map(self, ranked: Ranks, centre: str = "") -> HostMap:
        """The hosts with the highest ranks; or one host, with those linked with it."""
        with self._lock:
            store, ranks = self._open(), ranked.hosts
            if store.manifest.generation != ranked.generation:
                raise ConfigError("another link graph has just been built: ask again")
            out = store.graph("host-out")
            chosen = ranked.highest
            if centre:
                number = store.hosts.number(centre)
                if number is None:
                    raise ConfigError(f"the link graph does not have the host {centre}")
                near = np.union1d(out.successors(number), store.graph("host-in").successors(number))
                near = near[near != number]
                near = near[np.argsort(-ranks[near], kind="stable")][: ON_MAP - 1]
                chosen = np.concatenate([[number], near]).astype(np.int64)
            place = {int(number): at for at, number in enumerate(chosen.tolist())}
            links = [
                (place[number], place[other])
                for number in place
                for other in out.successors(number).tolist()
                if other in place and other != number
            ]
            return HostMap(_named(store.hosts.names(chosen), chosen, ranks), links, centre)

    def neighbours(self, url: str) -> Neighbours | None:
        """The links of a URL; None if it is not in the graph, or there is no graph."""
        with self._lock:
            try:
                store = self._open()
            except ConfigError:
                return None
            number = store.urls.number(url)
            if number is None:
                return None
            into = store.graph("in").successors(number)
            out = store.graph("out").successors(number)
            urls = store.urls.urls
            return Neighbours(len(into), len(out), urls(into[:NEIGHBOURS]), urls(out[:NEIGHBOURS]))


def _named(names: Sequence[str], numbers: Any, ranks: Any) -> list[Ranked]:
    return [
        Ranked(name, round(float(ranks[at]), 3)) for name, at in zip(names, numbers.tolist(), strict=True)
    ]


def graph_handlers(graphs: Graphs, page: MakePage) -> dict[str, Handler]:
    """Handlers by path."""

    async def graph(request: Request) -> Response:
        host = request.query_params.get("host", "")[:300]
        try:
            ranks, telling = await asyncio.to_thread(graphs.ranks)
            if ranks is None:
                return page(
                    "Graph",
                    awaited("Graph", "The ranks of the link graph are being made.", telling),
                    "/graph",
                )
            found, drawn = ranks.overview, await asyncio.to_thread(graphs.map, ranks, host)
        except ConfigError as error:
            return page("Graph", _absent(str(error)), "/graph", 404)
        return page("Graph", show(found, drawn), "/graph")

    async def api_graph(request: Request) -> Response:
        try:
            ranks, telling = await asyncio.to_thread(graphs.ranks)
            if ranks is None:
                return Json({"error": f"the ranks are being made: {telling}"}, 503, headers=LATER)
            host = request.query_params.get("host", "")[:300]
            found, drawn = ranks.overview, await asyncio.to_thread(graphs.map, ranks, host)
        except ConfigError as error:
            return Json({"error": str(error)}, 404, headers=OURS)
        answer = {
            "pages": found.nodes,
            "links": found.arcs,
            "hosts": found.host_count,
            "top_pages": [row._asdict() for row in found.pages],
            "top_hosts": [row._asdict() for row in found.hosts],
            "map": {"hosts": [row._asdict() for row in drawn.hosts], "links": drawn.links},
        }
        return Json(answer, headers=OURS)

    async def api_links(request: Request) -> Response:
        found = await asyncio.to_thread(graphs.neighbours, request.query_params.get("u", ""))
        if found is None:
            return Json({"error": "the link graph does not have it"}, 404, headers=OURS)
        return Json(found._asdict(), headers=OURS)

    return {"/graph": graph, "/api/graph": api_graph, "/api/links": api_links}


# -- drawing


def show(found: Overview, drawn: HostMap) -> str:
    """The page."""
    lead = (
        f"<p>{plural(found.nodes, 'page')} on {plural(found.host_count, 'host')}, {plural(found.arcs, 'link')}."
        " Ranks are PageRank; the mean is 1.</p>"
    )
    around = (
        f'<p>Hosts linked with <b>{text(short(drawn.centre, 80))}</b>. <a href="/graph">All of them</a></p>'
        if drawn.centre
        else "<p>The hosts of the highest ranks, and who links to whom. Choose one to see it with its own.</p>"
    )
    pages: list[list[Cell]] = [
        [
            ("n", f"{row.rank:,.2f}"),
            ("u", f'<a href="/url?u={quote(row.name, safe="")}">{text(short(row.name))}</a>'),
        ]
        for row in found.pages
    ]
    hosts: list[list[Cell]] = [
        [("n", f"{row.rank:,.2f}"), ("u", f'<a href="{_host(row.name)}">{text(row.name)}</a>')]
        for row in found.hosts
    ]
    return (
        f'<h1>Graph</h1>{lead}<h2>Map</h2>{around}<div class="pair">{_drawing(drawn)}'
        f"{table(('#Rank', 'Host'), hosts)}</div>"
        f"<h2>Pages of the highest rank</h2>{table(('#Rank', 'Page'), pages)}"
    )


def _absent(words: str) -> str:
    return f'<h1>Graph</h1><div class="empty">{text(words[:1].upper() + words[1:])}.</div>'


def _host(name: str) -> str:
    return text(f"/graph?host={quote(name, safe='')}")


def _drawing(drawn: HostMap) -> str:
    count = len(drawn.hosts)
    if count < 2:
        return '<p class="soft">It has no links with others.</p>'
    ring = count - 1 if drawn.centre else count
    places: list[tuple[float, float]] = []
    for at in range(count):
        step = at - 1 if drawn.centre else at
        turn = 2 * math.pi * step / ring - math.pi / 2
        away = 0.0 if drawn.centre and at == 0 else _RADIUS
        places.append((_WIDTH / 2 + away * math.cos(turn), _HEIGHT / 2 + away * math.sin(turn)))
    most = max(row.rank for row in drawn.hosts) or 1.0
    # Grouped with its lines, so that those of the host under the pointer can be highlighted.
    hosts = "".join(
        f'<g class="host">{"".join(_line(place, places[b]) for a, b in drawn.links if a == at)}'
        f"{_dot(row, place, most)}</g>"
        for at, (row, place) in enumerate(zip(drawn.hosts, places, strict=True))
    )
    faint = min(max(40 / (len(drawn.links) or 1), 0.07), 0.5)  # many lines would hide each other
    label = f"Map of {count} hosts with {len(drawn.links)} links between them"
    return (
        f'<figure class="map"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="group" aria-label="{label}">'
        f'<g stroke-opacity="{faint:.2f}">{hosts}</g></svg></figure>'
    )


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A line bent towards the middle."""
    bend = [(a + b) / 2 * 0.45 + c / 2 * 0.55 for a, b, c in zip(start, end, (_WIDTH, _HEIGHT), strict=True)]
    return (
        f'<path class="arc" d="M{start[0]:.1f},{start[1]:.1f} Q{bend[0]:.1f},{bend[1]:.1f}'
        f' {end[0]:.1f},{end[1]:.1f}"/>'
    )


def _dot(row: Ranked, place: tuple[float, float], most: float) -> str:
    """A host; its name points outwards, so that names do not overlap."""
    radius = 4 + 8 * math.sqrt(max(row.rank, 0.0) / most)
    x, y = place
    turn = math.degrees(math.atan2(y - _HEIGHT / 2, x - _WIDTH / 2))
    if math.hypot(x - _WIDTH / 2, y - _HEIGHT / 2) < 1:
        label = f'<text x="{x:.1f}" y="{y - radius - 6:.1f}" text-anchor="middle">'
    elif abs(turn) <= 90:
        label = f'<text x="{radius + 6:.1f}" y="4" transform="translate({x:.1f} {y:.1f}) rotate({turn:.1f})">'
    else:
        label = (
            f'<text x="{-radius - 6:.1f}" y="4" text-anchor="end"'
            f' transform="translate({x:.1f} {y:.1f}) rotate({turn + 180:.1f})">'
        )
    return (
        f'<a href="{_host(row.name)}"><circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'
        f"{label}{text(short(row.name, 24))}</text></a>"
    )
