"""The crawl in a browser: one application for one crawl's directory, running or not.

    /               now: live numbers of the crawl, charts, answers
    /sites, /site   the table of sites, and one of them
    /url            what happened to a URL: explain, and the page in the archive
    /search         the index of its pages, searched
    /graph          the most important pages and hosts, and a map of hosts
    /report, /lab   the report; saved results of experiments
    /control, /act  actions on the running crawl (`control`)
    /api/...        the same for programs, as JSON (`/openapi.json` describes it); /metrics for Prometheus
    /events         server-sent events: the numbers of the first page, every second
    /health, /ready without a token: 200 if this server answers; if the crawl is well or ended cleanly, else 503

Everything is read from the crawl's files; except for acts the crawling process is not contacted or disturbed.
Slow work runs in threads. `guard` decides who has access, for every path but those two.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lycosa.ask.explain import Explanation, as_plain, find
from lycosa.ask.export import body_of
from lycosa.ask.html_parts import text
from lycosa.ask.json_form import iso
from lycosa.ask.mentions import DIRECTORY, Mentions
from lycosa.ask.reading import CrawlReader
from lycosa.ask.report import Gauge, make_report
from lycosa.ask.report_html import content
from lycosa.ask.report_time import read_gauges, seconds_of
from lycosa.ask.standing import Standing
from lycosa.crawl.status import Ahead
from lycosa.errors import ConfigError, LycosaError
from lycosa.files import Files
from lycosa.lab.experiments.register import EXPERIMENTS
from lycosa.lab.experiments.report_page import page as lab_report
from lycosa.lab.experiments.result import Result
from lycosa.records import Robots
from lycosa.serve import now_page, pages
from lycosa.serve.control import Acting, control_handlers
from lycosa.serve.description import description
from lycosa.serve.graph import Graphs, graph_handlers
from lycosa.serve.guard import ARCHIVED, OURS, Asked, Guard, Verdict, without_token
from lycosa.serve.making import Look, Making, Tell
from lycosa.serve.metrics import TYPE, exposition
from lycosa.serve.responses import Json, Page
from lycosa.serve.search import search_handlers
from lycosa.serve.sites import COLUMNS, LAST, Quarantined, SiteRow, Sites
from lycosa.url.parts import host_of

T = TypeVar("T")

_AT_ONCE = 20_000
"""Records that are read for the sites between two progress messages."""
_DISCOVERIES = 50
"""Links to a URL that are looked at in each shard: the front page of a large site has one on each of its pages."""
OPEN = ("/health", "/ready")
"""Paths that need no token: they answer one word."""
_STALE = 60.0
"""Seconds after which a running crawl that reports nothing counts as not well."""
_SECOND = 1.0
_HISTORY = 3.0
"""Seconds for which the history is cached: it may have some megabytes, and every page asks for it."""
_SHOWN = (
    "text/html",
    "application/xhtml+xml",
    "text/plain",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
)
"""Types of archived bodies that are sent to a browser; of others the first part is sent as plain text."""
_LARGEST = 8 << 20
LAB = "lab"
"""The subdirectory of the crawl's directory with results of experiments on it."""


class Table(NamedTuple):
    """One page of the table of sites."""

    rows: list[SiteRow]
    total: int
    behind: bool
    """Whether there may be more of the log to read."""


class Site(NamedTuple):
    """One site, as `pages.site` shows it."""

    row: SiteRow
    reasons: list[tuple[str, int]]
    robots: Robots | None
    rules: list[tuple[str, int]]
    """Rules of its robots.txt that forbade URLs, with how many."""
    waits: list[tuple[str, int]]
    statuses: list[tuple[str, int]]
    slots: list[tuple[int, int, int]]
    ahead: Ahead | None
    """Its queue, if that is among the longest now."""


class Crawl:
    """The answers about one crawl, each of them computed in a thread."""

    def __init__(self, directory: Path) -> None:
        self.reader = CrawlReader(directory)
        self.name = str(directory)
        self.sites = Sites(self.reader, directory / "serve")
        self.mentions = [
            Mentions(log, directory / "serve" / DIRECTORY / f"{shard:02d}", self.reader.manifest.hash_seed)
            for shard, log in enumerate(self.reader.logs)
        ]
        self._counting = Making(self._count, object)
        self._reporting = Making(self._report, self.reader.end, rest=9.0)
        self._gauges: tuple[list[Gauge], list[Gauge]] = [], []
        self._looked = float("-inf")

    def standing(self) -> Standing:
        return Standing(self.reader)

    def explain(self, url: str) -> Explanation:
        """All that is known about a URL; also from new records of the log, if these are read quickly."""
        self._catch_up()
        return find(self.reader, url, logs=[each.stretch() for each in self.mentions], most=_DISCOVERIES)

    def now(self) -> tuple[Standing, list[Gauge], list[Gauge]]:
        """The current state, its whole history, and that of the last hour."""
        if time.monotonic() - self._looked >= _HISTORY:
            whole = read_gauges(self.reader.directory)
            last = seconds_of(whole[-1].at) if whole else 0.0
            hour = read_gauges(self.reader.directory, last - now_page.HOUR)
            self._gauges, self._looked = (whole, hour), time.monotonic()
        return self.standing(), *self._gauges

    def words(self) -> dict[str, str]:
        """The live numbers."""
        standing, whole, hour = self.now()
        return now_page.shown(standing, now_page.lately(hour or whole))

    def table(self, search: str, sort: str, up: bool, number: int) -> Table:
        """One page of the table of sites, after reading some new records of the log."""
        behind = self._catch_up()
        return Table(self.sites.page(search, sort, up=up, number=number), self.sites.count(search), behind)

    def quarantined(self) -> list[Quarantined]:
        """The URL patterns that are skipped as traps."""
        self._catch_up()
        return self.sites.quarantined()

    def site(self, name: str) -> Site | None:
        """One site, if the crawl has met it."""
        self._catch_up()
        row = self.sites.one(name)
        if row is None:
            return None
        rules, waits, statuses = (self.sites.reasons(name, kind) for kind in ("robots", "wait", "status"))
        standing, host = self.standing(), host_of(name + "/")
        queues = standing.status.ahead if standing.status is not None and standing.state == "running" else []
        queue = next((each for each in queues if each.host == host), None)
        reasons, robots, slots = self.sites.reasons(name), self.sites.robots(name), self.sites.slots(name)
        return Site(row, reasons, robots, rules, waits, statuses, slots, queue)

    def _catch_up(self) -> bool:
        """Read some new records of the log for the sites; returns whether there may be more."""
        return bool(self._counting.look().telling)

    def begin(self) -> None:
        """Read the existing log in advance, so that answers are ready."""
        self._catch_up()

    def _count(self, tell: Tell) -> bool:
        read = 0
        while (count := self.sites.catch_up(_AT_ONCE)) >= _AT_ONCE:
            read += count
            tell("reading the log", read)
        for each in self.mentions:
            while (count := each.catch_up(_AT_ONCE)) > 0:
                read += count
                tell("reading the log", read)
        return True

    def _report(self, tell: Tell) -> str:
        return content(make_report(self.reader, at=int(time.time() * 1000), told=tell), "Report")

    def report(self) -> Look[str]:
        """The report, made again when the logs have grown."""
        return self._reporting.look()

    def archived(self, url: str) -> tuple[bytes, str] | None:
        """The body and type of a URL's last fetch that has a body."""
        for fetch in reversed(self.explain(url).fetches):
            if (body := body_of(self.reader, fetch)) is not None:
                charset = f"; charset={fetch.charset}" if fetch.charset.replace("-", "").isalnum() else ""
                kind = fetch.type if fetch.type in _SHOWN else "text/plain"
                return body[:_LARGEST], kind + (charset if kind.startswith("text/") else "")
        return None


def application(directory: Path, guard: Guard, *, acts: bool = True, archive: Files | None = None) -> ASGIApp:
    """The application; `ConfigError` if the directory holds no crawl.

    `acts`: whether anything can be changed. `archive`: where bodies are, if not in the directory.
    """
    crawl = Crawl(directory)
    crawl.reader.archive_files = archive or crawl.reader.archive_files
    acting = Acting(directory, crawl.reader, guard, allowed=acts)
    graphs = Graphs(directory)

    def page(title: str, body: str, here: str, status: int = 200) -> Page:
        return Page(pages.frame(title, body, here=here, crawl=crawl.name), status, headers=OURS)

    async def now(request: Request) -> Response:
        standing, whole, hour = await _thread(crawl.now)
        paused = standing.status is not None and standing.status.paused
        bar = acting.said(request) + acting.bar(running=standing.state == "running", paused=paused)
        return page("Now", now_page.now(standing, whole, hour, bar), "/")

    async def now_part(_: Request) -> Response:
        return Page(now_page.now_part(*await _thread(crawl.now)), headers=OURS)

    async def events(request: Request) -> Response:
        async def lines() -> AsyncIterator[bytes]:
            while not await request.is_disconnected():
                yield b"data: " + msgspec.json.encode(await _thread(crawl.words)) + b"\n\n"
                await asyncio.sleep(_SECOND)

        return StreamingResponse(lines(), media_type="text/event-stream", headers=OURS)

    async def sites(request: Request) -> Response:
        search, sort, up, number = _table(request.query_params)
        rows, count, behind = await _thread(lambda: crawl.table(search, sort, up, number))
        body = pages.sites(rows, count=count, search=search, sort=sort, up=up, page=number, behind=behind)
        return page("Sites", body, "/sites")

    async def site(request: Request) -> Response:
        name = request.query_params.get("s", "")
        found = await _thread(lambda: crawl.site(name))
        if found is None:
            return page(
                "Sites", pages.problem("No such site", f"The crawl has not met {name}."), "/sites", 404
            )
        bar = await _thread(lambda: acting.site_bar(name, host_of(name + "/")))
        return page(name, acting.said(request) + pages.site(found, bar), "/sites")

    async def url(request: Request) -> Response:
        asked = request.query_params.get("u", "")
        if not asked:
            return page("A URL", pages.ask_url(), "/url")
        try:
            found = await _thread(lambda: crawl.explain(asked))
        except ConfigError as error:
            return page("A URL", pages.ask_url(str(error)), "/url", 404)
        links = await _thread(lambda: graphs.neighbours(found.url))
        bar = acting.said(request) + acting.url_bar(found)
        return page(found.url, pages.explanation(found, links, bar), "/url")

    async def archived(request: Request) -> Response:
        asked = request.query_params.get("u", "")
        try:
            found = await _thread(lambda: crawl.archived(asked))
        except LycosaError as error:
            return PlainTextResponse(f"{error}\n", 404, headers=ARCHIVED)
        if found is None:
            return PlainTextResponse("The archive has no body of it.\n", 404, headers=ARCHIVED)
        return Response(found[0], headers={**ARCHIVED, "Content-Type": found[1]})

    async def report(_: Request) -> Response:
        made, telling = await _thread(crawl.report)
        if made is None:
            return page("Report", pages.awaited("Report", "The report is being made.", telling), "/report")
        newer = f'<p class="soft">A newer one is being made: {text(telling)}.</p>' if telling else ""
        return page("Report", newer + made, "/report")

    async def lab(_: Request) -> Response:
        kept = await _thread(lambda: lab_results(directory))
        return page("Lab", pages.lab([one.experiment for one in kept], crawl.name), "/lab")

    async def lab_page(_: Request) -> Response:
        return HTMLResponse(await _thread(lambda: lab_report(lab_results(directory))), headers=ARCHIVED)

    async def api_status(_: Request) -> Response:
        return Json((await _thread(crawl.standing)).as_plain(), headers=OURS)

    async def api_history(_: Request) -> Response:
        return Json(await _thread(lambda: read_gauges(directory)), headers=OURS)

    async def api_sites(request: Request) -> Response:
        if problem := _wrong(request.query_params):
            return Json({"error": problem}, 400, headers=OURS)
        search, sort, up, number = _table(request.query_params)
        rows, count, behind = await _thread(lambda: crawl.table(search, sort, up, number))
        return Json({"count": count, "page": number, "behind": behind, "sites": rows}, headers=OURS)

    async def api_site(request: Request) -> Response:
        name = request.query_params.get("s", "")
        found = await _thread(lambda: crawl.site(name))
        if found is None:
            return Json({"error": f"the crawl has not met {name}"}, 404, headers=OURS)
        robots = found.robots
        told = (
            None if robots is None else {"at": iso(robots.at), "status": robots.status, "delay": robots.delay}
        )
        answer = {
            **msgspec.to_builtins(found.row),
            "reasons": dict(found.reasons),
            "robots": told,
            "rules": dict(found.rules),
            "waits": dict(found.waits),
            "statuses": dict(found.statuses),
            "over_time": [{"at": iso(at), "fetches": n, "errors": bad} for at, n, bad in found.slots],
            "queue": found.ahead,
        }
        return Json(answer, headers=OURS)

    async def api_explain(request: Request) -> Response:
        asked = request.query_params.get("u", "")
        try:
            return Json(as_plain(await _thread(lambda: crawl.explain(asked))), headers=OURS)
        except ConfigError as error:
            return Json({"error": str(error)}, 404, headers=OURS)

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(
            exposition(await _thread(crawl.standing)), headers={**OURS, "Content-Type": TYPE}
        )

    async def openapi(_: Request) -> Response:
        return Json(description(), headers=OURS)

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n", headers=OURS)

    async def ready(_: Request) -> Response:
        standing = await _thread(crawl.standing)
        stale = (
            standing.state == "running"
            and standing.status is not None
            and time.time() - standing.status.at > _STALE
        )
        word, code = ("stale", 503) if stale else (standing.state, 200 if standing.state != "killed" else 503)
        return PlainTextResponse(f"{word}\n", code, headers=OURS)

    async def failed(request: Request, error: Exception) -> Response:
        words = str(error).partition("\n")[0]
        if request.url.path.startswith("/api/"):
            return Json({"error": words}, 500, headers=OURS)
        return page("Trouble", pages.problem("This cannot be answered", words), "", 500)

    async def missing(request: Request, _: Exception) -> Response:
        if request.url.path.startswith("/api/"):
            return Json({"error": "there is no such question: see /openapi.json"}, 404, headers=OURS)
        return page("Not here", pages.problem("Not here", "There is no such page."), "", 404)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await _thread(crawl.begin)
        yield
        crawl.sites.close()

    handlers: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/": now,
        "/part/now": now_part,
        "/events": events,
        "/sites": sites,
        "/site": site,
        "/url": url,
        "/archived": archived,
        "/report": report,
        "/api/status": api_status,
        "/api/history": api_history,
        "/api/sites": api_sites,
        "/api/site": api_site,
        "/api/explain": api_explain,
        **search_handlers(crawl.reader, page),
        **graph_handlers(graphs, page),
        "/lab": lab,
        "/lab/page": lab_page,
        "/metrics": metrics,
        "/openapi.json": openapi,
        "/health": health,
        "/ready": ready,
        **{f"/static/{name}": _file(name, kind) for name, kind in _STATIC.items()},
    }
    routes = [Route(path, handler, methods=["GET"]) for path, handler in handlers.items()]
    for path, (method, handler) in control_handlers(acting, page, guard, crawl.quarantined).items():
        routes.append(Route(path, handler, methods=[method]))
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={404: missing, LycosaError: failed, OSError: failed},
    )
    return Guarded(app, guard)


def lab_results(directory: Path) -> list[Result]:
    """Results of experiments saved with the crawl (`lycosa lab run ... --keep DIR/lab`)."""
    order = [entry.name for entry in EXPERIMENTS]
    found: list[Result] = []
    for path in sorted((directory / LAB).glob("*.json")):
        with suppress(ValueError, KeyError, TypeError, OSError):  # not a result, but some other file
            found.append(Result.from_json(path.read_bytes()))
    return sorted(
        found, key=lambda one: order.index(one.experiment) if one.experiment in order else len(order)
    )


_STATIC = {"style.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    ours = resources.files("lycosa.serve").joinpath("static")
    if name == "style.css":  # the same style for the report and for pages
        parts = [resources.files("lycosa.ask").joinpath("report.css"), ours.joinpath("serve.css")]
    else:
        parts = [ours.joinpath(name)]
    data = b"\n".join(part.read_bytes() for part in parts)

    async def answer(_: Request) -> Response:
        return Response(data, headers={**OURS, "Content-Type": kind})

    return answer


def _table(query: Any) -> tuple[str, str, bool, int]:
    """The parameters of a table of sites: search, column, whether ascending, page."""
    sort = query.get("sort", "pages")
    number = query.get("page", "0")
    return (
        query.get("q", "")[:200],
        sort if sort in COLUMNS else "pages",
        query.get("up") == "1",
        int(number) if number.isascii() and number.isdigit() and int(number[:11]) <= LAST else 0,
    )


def _wrong(query: Any) -> str:
    """The error in a program's parameters for the table of sites; a page shows the default table instead."""
    search, sort, up, number = _table(query)
    given = (
        ("sort", sort, "one of " + ", ".join(COLUMNS)),
        ("up", str(int(up)), "0 or 1"),
        ("page", str(number), f"0 to {LAST}"),
        ("q", search, "200 characters at most"),
    )
    for name, used, takes in given:
        if query.get(name, used) != used:
            return f"{name} takes {takes}, not {query[name]!r}"
    return ""


async def _thread(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


class Guarded:
    """The application with the guard in front of it."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            query = scope["query_string"].decode("latin-1")
            verdict = self._guard.judge(Asked(scope["method"], query, headers))
            if verdict is not Verdict.PASS:
                await self._refused(verdict, scope["path"], query)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refused(self, verdict: Verdict, path: str, query: str) -> Response:
        if verdict is Verdict.ENTER:
            return self._entered(without_token(path, query), query)
        if verdict is Verdict.ASK:
            words = "This needs the token: open the link that `lycosa serve` printed.\n"
            return PlainTextResponse(words, 401, headers={**OURS, "WWW-Authenticate": "Bearer"})
        if verdict is Verdict.ELSEWHERE:
            return PlainTextResponse("Another host was asked for.\n", 421, headers=OURS)
        return PlainTextResponse("This does not come from a page of ours.\n", 403, headers=OURS)

    def _entered(self, address: str, query: str) -> Response:
        """Set the cookie and go on. By a page, not by a redirect: a strict cookie is not sent with a redirect that
        began on another site's page."""
        token = next(part.partition("=")[2] for part in query.split("&") if part.startswith("token="))
        body = (
            '<!doctype html><meta charset="utf-8"><title>lycosa</title><link rel="icon" href="data:,">'
            f'<meta http-equiv="refresh" content="0;url={text(address)}"><a href="{text(address)}">Go on</a>'
        )
        answer = HTMLResponse(body, headers=OURS)
        answer.set_cookie(self._guard.cookie, token, httponly=True, samesite="strict", path="/")
        return answer
