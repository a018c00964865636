"""The description of the HTTP interface, in OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

import msgspec

from lycosa.ask.report import Gauge
from lycosa.crawl.acts import WHATS
from lycosa.crawl.status import Status
from lycosa.crawl.totals import Totals
from lycosa.serve.search import DEEPEST, MOST
from lycosa.serve.sites import COLUMNS, LAST, PER_PAGE, SiteRow
from lycosa.version import VERSION

_JSON = "application/json"


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": sorted(properties), "properties": properties}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}
_NUMBER = {"type": "number"}
_TIME = {"type": ["string", "null"], "format": "date-time"}
_RESULT = _object(
    url=_TEXT,
    title=_TEXT,
    score=_NUMBER,
    snippet=_object(text=_TEXT, marks=_list(_list(_COUNT))),
    host=_TEXT,
    language=_TEXT,
    type=_TEXT,
    date=_TIME,
    at=_TIME,
    depth=_COUNT,
    rank=_NUMBER,
    id=_TEXT,
    others=_list(_TEXT),
    alike=_COUNT,
)
_ANSWER = _object(
    query=_TEXT,
    total=_COUNT,
    pages=_COUNT,
    milliseconds=_NUMBER,
    ranked=_TIME,
    suggestion=_TEXT,
    notes=_list(_TEXT),
    missing=_list(_COUNT),
    results=_list(_RESULT),
)
_DOCUMENT = _object(
    url=_TEXT,
    title=_TEXT,
    headings=_list(_TEXT),
    text=_TEXT,
    anchors=_list(_TEXT),
    language=_TEXT,
    type=_TEXT,
    date=_TIME,
    at=_TIME,
    depth=_COUNT,
    digest={"type": ["string", "null"]},
    copy={"type": "boolean"},
    id=_TEXT,
)
_ACT = {
    "type": "object",
    "required": ["what"],
    "properties": {"what": {"type": "string", "enum": list(WHATS)}, "words": _list(_TEXT)},
}
_NAMED, _SCHEMAS = msgspec.json.schema_components(
    (Gauge, SiteRow, Status), ref_template="#/components/schemas/{name}"
)
_GAUGE, _SITE_ROW, _STATUS = _NAMED
_COUNTS = {"type": "object", "additionalProperties": _COUNT}
_TOTALS = _object(
    **{each.name: _COUNT if each.type is int else _COUNTS for each in msgspec.structs.fields(Totals)}
)
_FLAG: dict[str, Any] = {"type": "integer", "enum": [0, 1], "default": 0}


def _maybe(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_STANDING = _object(
    directory=_TEXT,
    crawl=_TEXT,
    shards=_COUNT,
    state={"enum": ["running", "finished", "limit", "stopped", "failed", "killed", "unknown"]},
    process={"type": ["integer", "null"]},
    age={"type": ["number", "null"]},
    last_commit=_TIME,
    status=_maybe(_STATUS),
    totals=_maybe(_TOTALS),
    caches={"type": "object"},
)
_SITES = _object(count=_COUNT, page=_COUNT, behind={"type": "boolean"}, sites=_list(_SITE_ROW))
_SITE = _object(
    site=_TEXT,
    **dict.fromkeys(("pages", "fetches", "bytes", "errors", "skipped", "mean_ms", "first", "last"), _COUNT),
    **dict.fromkeys(("reasons", "rules", "waits", "statuses"), _COUNTS),
    robots=_maybe(_object(at=_TIME, status=_COUNT, delay=_NUMBER)),
    over_time=_list(_object(at=_TIME, fetches=_COUNT, errors=_COUNT)),
    queue=_maybe(_object(host=_TEXT, queued=_COUNT, wait=_NUMBER, why=_TEXT)),
)
_EXPLANATION = {
    "type": "object",
    "description": "All fields: docs/formats/json.md.",
    "required": ["url", "key", "shard", "state", "why", "scope", "inside", "fetches", "skips", "deferrals"],
    "properties": {
        "url": _TEXT,
        "key": _TEXT,
        "shard": _COUNT,
        "state": {"enum": ["fetched", "skipped", "deferred", "pending", "not followed", "unknown"]},
        "why": _TEXT,
        "scope": _TEXT,
        "inside": {"type": "boolean"},
        "path": _list(_TEXT),
        "discoveries": _COUNT,
        **dict.fromkeys(("fetches", "skips", "deferrals"), _list({"type": "object"})),
    },
}
_RANKED = _list(_object(name=_TEXT, rank=_NUMBER))
_GRAPH = _object(
    pages=_COUNT,
    links=_COUNT,
    hosts=_COUNT,
    top_pages=_RANKED,
    top_hosts=_RANKED,
    map=_object(hosts=_RANKED, links=_list(_list(_COUNT))),
)
_LINKS = _object(count_in=_COUNT, count_out=_COUNT, into=_list(_TEXT), out=_list(_TEXT))
_CONTROL = _object(
    paused={"type": "boolean"},
    sites={"type": "object"},
    blocked=_list(_TEXT),
    quarantined=_list(_object(pattern=_TEXT, since=_TIME, why=_TEXT, skipped=_COUNT)),
    set={"type": "object"},
    acts=_list(_object(at=_TIME, who=_TEXT, what=_TEXT)),
)
_SUGGESTED = _object(query=_TEXT, completions=_list(_TEXT), suggestion=_TEXT)


def description() -> dict[str, Any]:
    """The document of `/openapi.json`."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lycosa",
            "version": VERSION,
            "description": "Questions about one crawl, running or not, and acts on it.",
        },
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _SCHEMAS,
        },
        "paths": {
            "/api/status": _get(
                "status", "How the crawl goes; the document of `lycosa status --json`.", answer=_STANDING
            ),
            "/api/history": _get(
                "history", "What the crawl's processes said of themselves over time.", answer=_list(_GAUGE)
            ),
            "/api/sites": _get(
                "sites",
                f"Sites, {PER_PAGE} at a time.",
                _parameter("q", "Letters that their names hold."),
                _parameter("sort", "What they are sorted by.", enum=list(COLUMNS), default="pages"),
                _parameter("up", "1: the smallest first.", **_FLAG),
                _parameter(
                    "page",
                    "Which page of the table, from 0.",
                    type="integer",
                    default=0,
                    minimum=0,
                    maximum=LAST,
                ),
                wrong="A parameter is wrong; the error names it.",
                answer=_SITES,
            ),
            "/api/site": _get(
                "site",
                "One site: counts, why URLs were skipped, its robots.txt.",
                _parameter("s", "scheme://host or scheme://host:port", required=True),
                missing="The crawl has not met the site.",
                answer=_SITE,
            ),
            "/api/explain": _get(
                "explain",
                "All that is known of a URL; the document of `lycosa explain --json`.",
                _parameter("u", "The URL, with or without its scheme.", required=True),
                missing="It is no URL.",
                answer=_EXPLANATION,
            ),
            "/api/search": _get(
                "search",
                "Pages that match, the best first.",
                _parameter("q", "Words, and what `lycosa search --help` says of queries."),
                _parameter("like", "A URL: pages like that one, instead of a query."),
                _parameter("count", "How many results.", type="integer", default=10, minimum=1, maximum=MOST),
                _parameter(
                    "skip", "Results to pass over.", type="integer", default=0, minimum=0, maximum=DEEPEST
                ),
                _parameter("site", "Only of this host, or of this directory of it (example.org/docs/)."),
                _parameter("type", "Only of this type: pdf, html, text/plain."),
                _parameter("lang", "Only in this language, two or three letters."),
                _parameter("after", "Only modified (or else fetched) then or later: 2024, 2024-05-01."),
                _parameter("before", "Only modified (or else fetched) before: 2024, 2024-05-01."),
                _parameter(
                    "per_host", "At most so many of a host; 0: any number.", type="integer", default=0
                ),
                _parameter("fold", "0: copies are results of their own.", type="integer", default=1),
                _parameter("expand", "1: add words of the best results.", type="integer", default=0),
                _parameter("rank_weight", "What the pages' rank counts.", type="number", default=0.2),
                missing="There is no index (the error names the command that makes it), or no such page.",
                wrong="A parameter is wrong; the error names it.",
                answer=_ANSWER,
            ),
            "/api/doc": _get(
                "doc",
                "What the index keeps of a page.",
                _parameter("u", "Its URL.", required=True),
                missing="There is no index, or no such page in it.",
                answer=_DOCUMENT,
            ),
            "/api/suggest": _get(
                "suggest",
                "What a reader may be about to write, or may have meant.",
                _parameter("q", "What is written so far.", required=True),
                missing="There is no index.",
                answer=_SUGGESTED,
            ),
            "/api/graph": _get(
                "graph",
                "The link graph: pages and hosts of the highest rank, and a map of hosts.",
                _parameter("host", "The map is around this host, instead of those of the highest ranks."),
                missing="There is no link graph (the error names the command that makes it), or no such host.",
                answer=_GRAPH,
            ),
            "/api/links": _get(
                "links",
                "What links to a URL, and what it links to: how many, and the first of them.",
                _parameter("u", "The URL.", required=True),
                missing="The link graph does not have it, or there is none.",
                answer=_LINKS,
            ),
            "/api/control": _get(
                "control",
                "Whether the crawl is paused, what was said of sites, what acts have set, and the last acts.",
                answer=_CONTROL,
            ),
            "/api/act": {
                "post": {
                    "operationId": "act",
                    "summary": "Have the crawl do something while it runs: the acts of `lycosa control`.",
                    "requestBody": {"required": True, "content": {_JSON: {"schema": _ACT}}},
                    "responses": {
                        "200": {
                            "description": "It is done, or kept for the next start.",
                            "content": {_JSON: {"schema": _object(said=_TEXT)}},
                        },
                        "400": {"description": "It cannot be done; the error says why."},
                        "401": {"description": "The token is missing or wrong."},
                        "403": {"description": "The request comes from a page of somebody else's."},
                    },
                }
            },
            "/metrics": _get("metrics", "The crawl for Prometheus.", media="text/plain"),
            "/ready": {
                "get": {
                    "operationId": "ready",
                    "summary": "Whether the crawl is well, or has ended cleanly. Needs no token.",
                    "security": [],
                    "responses": {
                        "200": {"description": "It is."},
                        "503": {"description": "Its process was killed, or says nothing."},
                    },
                }
            },
            "/health": {
                "get": {
                    "operationId": "health",
                    "summary": "Whether this server answers. Needs no token.",
                    "security": [],
                    "responses": {"200": {"description": "It does."}},
                }
            },
        },
    }


def _parameter(name: str, words: str, *, required: bool = False, **schema: Any) -> Any:
    return {
        "name": name,
        "in": "query",
        "description": words,
        "required": required,
        "schema": {"type": "string", **schema},
    }


def _get(
    name: str,
    words: str,
    *parameters: Any,
    media: str = _JSON,
    missing: str = "",
    wrong: str = "",
    answer: Any = None,
) -> dict[str, Any]:
    schema = {"schema": answer or {"type": "object" if media == _JSON else "string"}}
    responses: dict[str, Any] = {
        "200": {"description": "The answer.", "content": {media: schema}},
        "401": {"description": "The token is missing or wrong."},
    }
    if missing:
        responses["404"] = {"description": missing}
    if wrong:
        responses["400"] = {"description": wrong}
    told: dict[str, Any] = {"operationId": name, "summary": words, "responses": responses}
    if parameters:
        told["parameters"] = list(parameters)
    return {"get": told}
