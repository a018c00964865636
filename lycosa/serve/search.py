"""Search over HTTP: one answer, as a page for readers and as JSON for programs.

    /search         a page; JSON for clients that do not accept text/html
    /api/search     an answer and its results          ?q= or ?like=, see `question`
    /api/doc        the index's entry for a URL        ?u=
    /api/suggest    completions, and spelling          ?q=

(`/doc` and `/suggest` are the same as with `/api`.) For a crawl without an index the answer names the command that
makes one. A parameter that is wrong (`count=x`) is named in an error, 400.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from lycosa.ask.reading import CrawlReader
from lycosa.ask.searching import AbsentError, Searching, answer_plain, like, page_of, page_plain, result_plain
from lycosa.errors import ConfigError
from lycosa.index.query import FILTERS
from lycosa.index.reader import Totals
from lycosa.index.search import Answer, Asked, Search
from lycosa.serve import search_page
from lycosa.serve.guard import OURS
from lycosa.serve.responses import Json, Page

MOST = 100
"""Most results of an answer."""
DEEPEST = 10_000
"""Most results that may be skipped."""
_LONGEST = 20_000

Handler = Callable[[Request], Awaitable[Response]]


class Question(NamedTuple):
    """What is searched for: words, or pages similar to one."""

    text: str
    like: str
    asked: Asked


def question(query: Mapping[str, str]) -> Question:
    """A question from the parameters of an address; `ConfigError` names the one that is wrong."""
    defaults = Asked()
    filters = tuple((name, value) for name in FILTERS if (value := query.get(name, "").strip()[:200]))
    return Question(
        query.get("q", "")[:_LONGEST],
        query.get("like", "").strip(),
        Asked(
            count=_whole(query, "count", defaults.count, 1, MOST),
            skip=_whole(query, "skip", 0, 0, DEEPEST),
            per_host=_whole(query, "per_host", 0, 0, MOST),
            fold=bool(_whole(query, "fold", 1, 0, 1)),
            expand=bool(_whole(query, "expand", 0, 0, 1)),
            rank_weight=_number(query, "rank_weight", defaults.rank_weight, 0.0, 100.0),
            filters=filters,
        ),
    )


def _whole(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    value = _number(query, name, default, least, most)
    if value != int(value):
        raise ConfigError(f"{name}={query[name][:40]}: give a whole number from {least} to {most:,}")
    return int(value)


def _number(query: Mapping[str, str], name: str, default: float, least: float, most: float) -> float:
    text = query.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise ConfigError(f"{name}={text[:40]}: give a number from {least:g} to {most:g}")
    return value


def answered(search: Search, question: Question) -> Answer:
    """The answer, for people and programs alike."""
    if question.like:
        return like(search, question.like, question.asked)
    return search.search(question.text, question.asked)


def search_handlers(crawl: CrawlReader, page: Callable[[str, str, str, int], Page]) -> dict[str, Handler]:
    """The handlers by path; `page` makes a page from title, body, place in the menu, status."""
    searching = Searching(crawl)

    async def search(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return await api_search(request)
        given = dict(request.query_params)
        try:
            wanted = question(given)
            found, kinds = await asyncio.to_thread(searching.ask, lambda search: _page(search, wanted))
        except ConfigError as error:
            absent = isinstance(error, AbsentError)
            told = search_page.absent if absent else search_page.trouble
            body = search_page.form(given, Totals(0, {}, {})) + told(str(error))
            return page("Search", body, "/search", 404 if absent else 400)
        body = search_page.form(given, kinds)
        if found is not None:
            body += search_page.results(given, wanted.asked, found)
        title = f"{wanted.text or wanted.like} · Search" if found is not None else "Search"
        return page(title, body, "/search", 200)

    async def api_search(request: Request) -> Response:
        try:
            wanted = question(request.query_params)
            if not wanted.text.strip() and not wanted.like and not wanted.asked.filters:
                raise ConfigError("give q=WORDS, or like=URL")
            found = await asyncio.to_thread(searching.ask, lambda search: answered(search, wanted))
        except ConfigError as error:
            return _error(error)
        return Json(
            {**answer_plain(found), "results": [result_plain(row) for row in found.results]}, headers=OURS
        )

    async def doc(request: Request) -> Response:
        asked = request.query_params.get("u", "")
        try:
            found = await asyncio.to_thread(searching.ask, lambda search: page_of(search, asked))
        except ConfigError as error:
            return _error(error)
        return Json(page_plain(found), headers=OURS)

    async def suggest(request: Request) -> Response:
        text = request.query_params.get("q", "")[:200]
        try:
            return Json(
                await asyncio.to_thread(searching.ask, lambda search: search.suggest(text)), headers=OURS
            )
        except ConfigError as error:
            return _error(error)

    return {
        "/search": search,
        "/doc": doc,
        "/suggest": suggest,
        "/api/search": api_search,
        "/api/doc": doc,
        "/api/suggest": suggest,
    }


def _page(search: Search, wanted: Question) -> tuple[Answer | None, Totals]:
    nothing = not wanted.text.strip() and not wanted.like and not wanted.asked.filters
    return None if nothing else answered(search, wanted), search.kinds()


def _error(error: ConfigError) -> Json:
    return Json({"error": str(error)}, 404 if isinstance(error, AbsentError) else 400, headers=OURS)
