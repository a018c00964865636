"""The link graph in pages and for programs: who matters, who links to whom, and a map of hosts.

`lycosa graph build` makes the graph; without one these pages say so. Ranks (PageRank of pages and of hosts) are
calculated when first asked for, in a thread, and kept until another graph was built: the graph of a million pages
takes some seconds.

The map is a drawing in SVG: some hosts on a circle, the largest rank at the top and on in the order of ranks, with
a line for each pair that is linked, bent towards the middle. `/graph?host=H` is the map around one host: those that
it links to and that link to it. So one zooms by links, without scripts.
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
from lycosa.graph.store import GraphStore, read_manifest
from lycosa.serve.guard import OURS
from lycosa.serve.responses import Json

Handler = Callable[[Request], Awaitable[Response]]
TOP = 25
ON_MAP = 28
NEIGHBOURS = 50
_RADIUS, _WIDTH, _HEIGHT = 165.0, 680, 680


class MakePage(Protocol):
    """Makes a page of ours."""

    def __call__(self, title: str, body: str, here: str, status: int = 200) -> Response: ...


class Ranked(NamedTuple):
    """Something with its rank; the mean is 1."""

    name: str
    rank: float


class HostMap(NamedTuple):
    """Some hosts, and which of them link to which (by their places in the list)."""

    hosts: list[Ranked]
    links: list[tuple[int, int]]
    centre: str
    """The host that it is around; empty: none."""


class Overview(NamedTuple):
    """The graph at a glance."""

    nodes: int
    arcs: int
    host_count: int
    pages: list[Ranked]
    hosts: list[Ranked]


class Neighbours(NamedTuple):
    """What links to a URL, and what it links to: how many, and the first of them."""

    count_in: int
    count_out: int
    into: list[str]
    out: list[str]


class Graphs:
    """The graph of one crawl; asked in threads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._store: GraphStore | None = None
        self._ranks: tuple[Any, Any] | None = None

    def _open(self) -> GraphStore:
        """The graph as it was built last."""
        files = DiskFiles(self._directory / "graph")
        manifest = read_manifest(files) if (self._directory / "graph").is_dir() else None
        if manifest is None:
            raise ConfigError(f"there is no link graph yet: lycosa graph build {self._directory} makes it")
        if self._store is None or self._store.manifest.generation != manifest.generation:
            self._store, self._ranks = GraphStore(files, manifest), None
        return self._store

    def _ranked(self, store: GraphStore) -> tuple[Any, Any]:
        """Ranks of pages and of hosts; of each the mean is 1."""
        if self._ranks is None:
            found = [pagerank(store.graph(name)).values for name in ("out", "host-out")]
            self._ranks = found[0] * len(found[0]), found[1] * len(found[1])
        return self._ranks

    def overview(self) -> Overview:
        with self._lock:
            store = self._open()
            pages, hosts = self._ranked(store)
            first, best = top(pages, TOP), top(hosts, TOP)
            manifest = store.manifest
            return Overview(
                manifest.nodes,
                manifest.arcs,
                manifest.hosts,
                _named(store.urls.urls(first), first, pages),
                _named(store.hosts.names(best), best, hosts),
            )

    def map(self, centre: str = "") -> HostMap:
        """The hosts of the highest ranks; or one, with those that are linked with it."""
        with self._lock:
            store = self._open()
            _, ranks = self._ranked(store)
            out = store.graph("host-out")
            chosen = top(ranks, ON_MAP)
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
        """The links of a URL; None if the graph does not have it, or there is none."""
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
    """Paths, and who answers."""

    async def graph(request: Request) -> Response:
        host = request.query_params.get("host", "")[:300]
        try:
            found = await asyncio.to_thread(graphs.overview)
            drawn = await asyncio.to_thread(graphs.map, host)
        except ConfigError as error:
            return page("Graph", f"<h1>Graph</h1><p>{text(str(error))}</p>", "/graph", 404)
        return page("Graph", show(found, drawn), "/graph")

    async def api_graph(request: Request) -> Response:
        try:
            found = await asyncio.to_thread(graphs.overview)
            drawn = await asyncio.to_thread(graphs.map, request.query_params.get("host", "")[:300])
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
        f"<h1>Graph</h1>{lead}<h2>Map</h2>{around}{_drawing(drawn)}"
        f"<h2>Pages of the highest rank</h2>{table(('#Rank', 'Page'), pages)}"
        f"<h2>Hosts of the highest rank</h2>{table(('#Rank', 'Host'), hosts)}"
    )


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
    lines = "".join(_line(places[a], places[b]) for a, b in drawn.links)
    most = max(row.rank for row in drawn.hosts) or 1.0
    dots = "".join(_dot(row, place, most) for row, place in zip(drawn.hosts, places, strict=True))
    faint = min(max(40 / (len(drawn.links) or 1), 0.07), 0.5)  # many lines would hide each other
    label = f"Map of {count} hosts with {len(drawn.links)} links between them"
    return (
        f'<figure class="map"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="group" aria-label="{label}">'
        f'<g stroke-opacity="{faint:.2f}">{lines}</g>{dots}</svg></figure>'
    )


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Bent towards the middle."""
    bend = [(a + b) / 2 * 0.45 + c / 2 * 0.55 for a, b, c in zip(start, end, (_WIDTH, _HEIGHT), strict=True)]
    return (
        f'<path class="arc" d="M{start[0]:.1f},{start[1]:.1f} Q{bend[0]:.1f},{bend[1]:.1f}'
        f' {end[0]:.1f},{end[1]:.1f}"/>'
    )


def _dot(row: Ranked, place: tuple[float, float], most: float) -> str:
    """A host; its name goes outwards, so that names do not meet."""
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
