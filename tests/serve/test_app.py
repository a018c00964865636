"""The pages and the interface for programs, asked without a network."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.types import ASGIApp

from lycosa.ask.indexing import Indexing
from lycosa.ask.report import Gauge
from lycosa.cli.main import main
from lycosa.errors import ConfigError
from lycosa.records import Skipped, Why
from lycosa.serve.app import application
from lycosa.serve.guard import Guard
from lycosa.serve.now_page import lately, rates
from tests.crawl.made import MadeCrawl, anchors
from tests.serve.asking import Answer, ask

TOKEN = "a-token-of-24-letters-00"
EVIL = '"><script>alert(1)</script>'
PAGE = "http://a.test/x?q=" + "%22%3E%3Cscript%3E"


@pytest.fixture
def made(tmp_path: Path) -> MadeCrawl:
    made = MadeCrawl(tmp_path, shards=2)
    made.configure()
    made.seed("http://a.test/")
    made.fetch(
        "http://a.test/", links=anchors((PAGE, EVIL), "http://a.test/no"), body=b"<h1>hello</h1>", keep=True
    )
    made.fetch(PAGE, title=EVIL, body=b"<script>alert(2)</script>", keep=True)
    made.log(Skipped(made.tick(), "http://a.test/no", 1, Why.ROBOTS, EVIL), made.shard_of("http://a.test/"))
    made.close()
    assert main(["graph", "build", str(made.directory)]) == 0
    with Indexing(made.reader()) as indexing:
        indexing.round()
    return made


@pytest.fixture
def app(made: MadeCrawl) -> ASGIApp:
    return application(made.directory, Guard(TOKEN, frozenset({"here.test"})))


def get(app: ASGIApp, target: str) -> Answer:
    return asyncio.run(ask(app, target, accept="text/html", authorization=f"Bearer {TOKEN}"))


QUESTIONS = {
    "/api/site": "?s=http://a.test",
    "/api/explain": "?u=a.test",
    "/api/search": "?q=hello",
    "/api/doc": "?u=http://a.test/",
    "/api/suggest": "?q=hel",
    "/api/links": "?u=http://a.test/",
}
PATHS = (
    *("/", "/part/now", "/sites", "/site?s=http://a.test", "/url", "/url?u=http://a.test/", "/report"),
    *("/archived?u=http://a.test/", "/api/status", "/api/history", "/api/sites"),
    *("/api/site?s=http://a.test", "/api/explain?u=a.test/", "/metrics", "/openapi.json"),
    *("/search", "/search?q=hello", "/search?q=nothing+at+all", "/search?like=http://a.test/"),
    *(
        "/api/search?q=hello",
        "/api/doc?u=http://a.test/",
        "/api/suggest?q=hel",
        "/doc?u=a.test/",
        "/suggest?q=a",
    ),
    *("/static/style.css", "/static/page.js", "/control", "/api/control"),
    *("/graph", "/graph?host=a.test", "/api/graph", "/api/links?u=http://a.test/", "/lab"),
)


@pytest.mark.parametrize("path", PATHS)
def test_every_path_answers_with_the_token_and_only_with_it(app: ASGIApp, path: str) -> None:
    answer = get(app, path)
    assert answer.status == 200 and (answer.body or path == "/part/now")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and answer.headers["x-content-type-options"] == "nosniff"
    refused = asyncio.run(ask(app, path))
    assert refused.status == 401 and TOKEN not in refused.text and b"hello" not in refused.body
    assert asyncio.run(ask(app, path, host="evil.test", authorization=f"Bearer {TOKEN}")).status == 421


def test_health_needs_no_token(app: ASGIApp) -> None:
    assert asyncio.run(ask(app, "/health")).text == "ok\n"
    assert asyncio.run(ask(app, "/ready")).status == 200


def test_a_crawl_that_was_killed_is_not_ready(app: ASGIApp, made: MadeCrawl) -> None:
    (made.directory / "running").write_bytes(b"")
    answer = asyncio.run(ask(app, "/ready"))
    assert (answer.status, answer.text) == (503, "killed\n")


def test_the_printed_link_sets_a_cookie_that_is_taken(app: ASGIApp) -> None:
    entered = asyncio.run(ask(app, f"/url?u=a.test&token={TOKEN}"))
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    assert TOKEN not in entered.text and "0;url=/url?u=a.test" in entered.text
    assert asyncio.run(ask(app, "/", cookie=cookie.partition(";")[0])).status == 200


@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith(("/static", "/archived"))])
def test_nothing_of_a_site_becomes_markup(app: ASGIApp, path: str) -> None:
    answer = get(app, path)
    if answer.headers["content-type"] != "application/json":  # which no browser takes for a page: nosniff
        assert "<script>alert" not in answer.text
    assert re.search(r"\son\w+=", get(app, f"/url?u={PAGE}").text) is None


def test_hostile_questions_are_answered_with_their_text(app: ASGIApp) -> None:
    for path in ("/url?u=", "/site?s=", "/sites?q=", "/sites?sort=", "/sites?page=", "/api/explain?u="):
        for what in (EVIL, "%00", "%ff%fe", "'" * 300, "http://[", "%F0%9F%92%A9", "9" * 40, "-1"):
            answer = get(app, path + what)
            assert answer.status in (200, 404), (path, what)
            is_page = answer.headers["content-type"].startswith("text/html")
            assert is_page == (not path.startswith("/api"))
            assert not is_page or "<script>alert" not in answer.text


def test_the_archived_page_is_as_it_was_sent_and_can_do_nothing(app: ASGIApp) -> None:
    answer = get(app, f"/archived?u={PAGE.replace('%', '%25')}")
    assert answer.body == b"<script>alert(2)</script>"
    assert answer.headers["content-security-policy"].startswith("sandbox;")
    frame = get(app, f"/url?u={PAGE.replace('%', '%25')}").text
    assert '<iframe sandbox="" src="/archived?u=' in frame
    assert get(app, "/archived?u=http://a.test/no").status == 404
    assert get(app, "/archived?u=").status == 404


def test_a_url_is_explained(app: ASGIApp) -> None:
    page = get(app, "/url?u=http://a.test/no").text
    assert "skipped" in page and "robots" in page
    found = msgspec.json.decode(get(app, "/api/explain?u=http://a.test/no").body)
    assert (found["state"], found["path"]) == ("skipped", ["seed", "http://a.test/"])


def test_the_description_has_every_path_for_programs_and_what_they_answer(app: ASGIApp) -> None:
    document = msgspec.json.decode(get(app, "/openapi.json").body)
    told = document["paths"]
    wanted = {path.partition("?")[0] for path in PATHS if path.startswith(("/api", "/metrics"))}
    assert set(told) == {*wanted, "/health", "/ready", "/api/act"}
    for path, entry in told.items():
        if path == "/api/act":
            continue  # nothing to get
        target = path + QUESTIONS.get(path, "")
        content = entry["get"]["responses"]["200"].get("content", {"text/plain": None})
        media, answer = next(iter(content)), get(app, target)
        assert answer.headers["content-type"].startswith(media)
        if media == "application/json":
            value = msgspec.json.decode(answer.body)
            assert misfits(value, content[media]["schema"], document["components"]["schemas"], path) == []


def misfits(value: Any, schema: dict[str, Any], named: dict[str, Any], where: str) -> list[str]:
    """Where a value is not as a schema has it."""
    if "$ref" in schema:
        return misfits(value, named[schema["$ref"].rpartition("/")[2]], named, where)
    if "anyOf" in schema:
        tried = [misfits(value, each, named, where) for each in schema["anyOf"]]
        return [] if [] in tried else [found for each in tried for found in each]
    kinds = schema.get("type", [])
    fits = any(isinstance(value, _KINDS[kind]) for kind in ([kinds] if isinstance(kinds, str) else kinds))
    if (kinds and not fits) or value not in schema.get("enum", [value]):
        return [f"{where}: {value!r:.80}"]
    if isinstance(value, dict):
        found = [f"{where}: no {name}" for name in schema.get("required", ()) if name not in value]
        rest = schema.get("additionalProperties") or {}
        for name, each in value.items():
            found += misfits(each, schema.get("properties", {}).get(name, rest), named, f"{where}.{name}")
        return found
    rows = value if isinstance(value, list) else []
    return [found for each in rows for found in misfits(each, schema.get("items", {}), named, f"{where}[]")]


_KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def test_programs_are_told_what_they_got_wrong(app: ASGIApp) -> None:
    for query in ("sort=error", "up=yes", "page=-1", "page=9999999999"):
        answer = get(app, f"/api/sites?{query}")
        assert answer.status == 400 and query.partition("=")[0] in msgspec.json.decode(answer.body)["error"]
    nothing = get(app, "/api/sitse")
    assert nothing.status == 404 and "openapi" in msgspec.json.decode(nothing.body)["error"]


def test_what_is_not_here(app: ASGIApp) -> None:
    assert get(app, "/nothing").status == 404
    assert get(app, "/static/../app.py").status == 404
    assert asyncio.run(ask(app, "/", "POST", authorization=f"Bearer {TOKEN}")).status == 405


def test_a_directory_without_a_crawl(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not the directory of a crawl"):
        application(tmp_path, Guard(TOKEN, frozenset()))


def test_a_rate_is_nothing_where_a_run_ends_and_where_the_next_begins() -> None:
    def at(second: int, pages: int, *, running: bool = True) -> Gauge:
        rest = {"visits": 0, "pending": 0, "left_behind": 0, "deferred": 0, "hosts": 0, "rss": 0}
        return Gauge(at=f"2026-01-01T00:00:{second:02d}Z", pages=pages, running=running, **rest)

    rows = [at(0, 0), at(1, 5), at(2, 10, running=False), at(40, 10), at(42, 18)]
    assert rates(rows, [row.pages for row in rows]) == [0, 5, 0, 0, 4]


def test_the_rate_is_that_of_the_last_minutes_however_far_apart_the_lines_are() -> None:
    def at(second: int, pages: int) -> Gauge:
        rest = {"visits": 0, "pending": 0, "left_behind": 0, "deferred": 0, "hosts": 0, "rss": 0}
        moment = f"2026-01-01T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
        return Gauge(at=moment, pages=pages, running=True, **rest)

    assert lately([at(0, 0), at(1_000, 10_000), at(1_060, 10_060), at(1_120, 10_120)]).pages == 1
    assert lately([at(0, 0), at(3_600, 7_200)]).pages == 2
    assert lately([at(0, 0)]).pages == 0
