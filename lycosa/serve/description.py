"""The description of the HTTP interface, as OpenAPI 3.1 has it."""

from __future__ import annotations

from typing import Any

from lycosa.serve.sites import COLUMNS, PER_PAGE
from lycosa.version import VERSION

_JSON = "application/json"


def description() -> dict[str, Any]:
    """The document of `/openapi.json`."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lycosa",
            "version": VERSION,
            "description": "Questions about one crawl, running or not.",
        },
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": {
            "/api/status": _get("status", "How the crawl goes; the document of `lycosa status --json`."),
            "/api/history": _get("history", "What the crawl's processes said of themselves over time."),
            "/api/sites": _get(
                "sites",
                f"Sites, {PER_PAGE} at a time.",
                _parameter("q", "Letters that their names hold."),
                _parameter("sort", "What they are sorted by.", enum=list(COLUMNS), default="pages"),
                _parameter("up", "1: the smallest first.", kind="integer", default=0),
                _parameter("page", "Which page of the table, from 0.", kind="integer", default=0),
            ),
            "/api/site": _get(
                "site",
                "One site: counts, why URLs were skipped, its robots.txt.",
                _parameter("s", "scheme://host or scheme://host:port", required=True),
                missing="The crawl has not met the site.",
            ),
            "/api/explain": _get(
                "explain",
                "All that is known of a URL; the document of `lycosa explain --json`.",
                _parameter("u", "The URL, with or without its scheme.", required=True),
                missing="It is no URL.",
            ),
            "/metrics": _get("metrics", "The crawl for Prometheus.", media="text/plain"),
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


def _parameter(name: str, words: str, *, kind: str = "string", required: bool = False, **more: Any) -> Any:
    return {
        "name": name,
        "in": "query",
        "description": words,
        "required": required,
        "schema": {"type": kind, **more},
    }


def _get(name: str, words: str, *parameters: Any, media: str = _JSON, missing: str = "") -> dict[str, Any]:
    schema: dict[str, Any] = (
        {"schema": {"type": "object"}} if media == _JSON else {"schema": {"type": "string"}}
    )
    responses: dict[str, Any] = {
        "200": {"description": "The answer.", "content": {media: schema}},
        "401": {"description": "The token is missing or wrong."},
    }
    if missing:
        responses["404"] = {"description": missing}
    answer: dict[str, Any] = {"operationId": name, "summary": words, "responses": responses}
    if parameters:
        answer["parameters"] = list(parameters)
    return {"get": answer}
