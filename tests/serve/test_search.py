"""Search over HTTP: the page and the JSON are one answer."""

from __future__ import annotations

import asyncio
import html
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.types import ASGIApp

from lycosa.ask.indexing import Indexing
from lycosa.serve.app import application
from lycosa.serve.guard import Guard
from tests.crawl.made import MadeCrawl
from tests.serve.asking import Answer, ask

TOKEN = "a-token-of-24-letters-00"
EVIL = '"><script>alert(1)</script>'


def body(text: str, language: str = "en") -> bytes:
    return f"<html lang={language}><p>{html.escape(text)}</p></html>".encode()


def index(made: MadeCrawl, rebuild: bool = False) -> None:
    with Indexing(made.reader(), rebuild=rebuild) as indexing:
        indexing.round()


@pytest.fixture
def made(tmp_path: Path) -> MadeCrawl:
    made = MadeCrawl(tmp_path, shards=2)
    made.configure()
    for number in range(25):
        words = f"wolf spiders of kind{number} hunt at night number{number} in field{number} and wood{number}"
        made.fetch(f"http://a.test/{number}", body=body(words), keep=True, title=f"Kind {number}")
    made.fetch("http://b.test/evil", body=body(f"evil {EVIL} spider & co"), keep=True, title=EVIL)
    made.fetch(
        "http://b.test/copy", body=body(f"evil {EVIL} spider & co"), keep=True, title=EVIL, duplicate=True
    )
    made.fetch(
        "http://b.test/de", body=body("Die Spinne jagt nachts auf dem Feld", "de"), keep=True, title="Spinne"
    )
    made.commit()
    return made


def get(app: ASGIApp, target: str, accept: str = "text/html") -> Answer:
    return asyncio.run(ask(app, target, accept=accept, authorization=f"Bearer {TOKEN}"))


def json(app: ASGIApp, target: str, status: int = 200) -> Any:
    answer = get(app, target, "application/json")
    assert answer.status == status
    return msgspec.json.decode(answer.body)


@pytest.fixture
def app(made: MadeCrawl) -> ASGIApp:
    index(made)
    return application(made.directory, Guard(TOKEN, frozenset({"here.test"})))


def results(page: str) -> list[str]:
    return [html.unescape(url) for url in re.findall(r'<li><h2><a href="([^"]+)"', page)]


QUERIES = (
    "q=spider",
    "q=spider&skip=10",
    "q=spider&count=3",
    "q=&lang=de",
    "q=spinne",
    "q=night+kind3",
    "like=a.test/7",
)


@pytest.mark.parametrize("query", QUERIES)
def test_the_page_has_the_answer_of_the_json(app: ASGIApp, query: str) -> None:
    told = json(app, f"/api/search?{query}")
    assert told == json(app, f"/search?{query}") | {"milliseconds": told["milliseconds"]}
    page = get(app, f"/search?{query}")
    assert page.headers["content-type"].startswith("text/html")
    assert results(page.text) == [row["url"] for row in told["results"]] and told["results"]
    for row in told["results"]:
        for start, end in row["snippet"]["marks"]:
            assert f"<mark>{html.escape(row['snippet']['text'][start:end])}</mark>" in page.text


def test_one_goes_through_all_results_by_the_links(app: ASGIApp) -> None:
    target, seen = "/search?q=spider&site=a.test", []
    while target:
        page = get(app, target).text
        seen += results(page)
        found = re.search(r'<a href="([^"]+)" rel="next"', page)
        target = html.unescape(found[1]) if found else ""
    assert sorted(seen) == sorted(f"http://a.test/{number}" for number in range(25))


def test_filters_narrow_whatever_the_query_is(app: ASGIApp) -> None:
    # An open quotation mark or parenthesis must not take the filters in.
    for words in ("spider", 'spider "evil', "spider (evil OR", "spider OR night"):
        found = json(app, f"/api/search?q={words.replace(' ', '+')}&site=b.test")["results"]
        assert {row["host"] for row in found} == {"b.test"}, words
    assert [row["url"] for row in json(app, "/api/search?q=spinne&lang=de")["results"]] == [
        "http://b.test/de"
    ]
    assert json(app, "/api/search?q=spinne&lang=en")["total"] == 0
    assert json(app, "/api/search?q=spider&after=2030")["total"] == 0
    assert json(app, "/api/search?q=spider&after=soon")["notes"]
    near = json(app, "/api/search?like=a.test/7&site=b.test")["results"]
    assert {row["host"] for row in near} == {"b.test"}
    page = get(app, "/search?q=spinne&lang=de").text
    assert '<option value="de" selected>de (1)</option>' in page and '<option value="html">html (27)' in page


def test_a_hostile_title_and_text_are_shown_and_do_nothing(app: ASGIApp) -> None:
    for query in (
        "q=evil",
        f"q={EVIL}",
        f"q=evil&site={EVIL}",
        f"like={EVIL}",
        f"q=evil&type={EVIL}&lang={EVIL}",
    ):
        page = get(app, f"/search?{query}").text
        assert "<script>alert" not in page and 'value=""><' not in page
    row = json(app, "/api/search?q=evil")["results"][0]
    assert (row["title"], row["others"]) == (EVIL, ["http://b.test/copy"])
    page = get(app, "/search?q=evil").text
    assert "&lt;script&gt;" in page and "Also at another URL" in page and "http://b.test/copy" in page


def test_spelling_and_completions(app: ASGIApp) -> None:
    page = get(app, "/search?q=spidrs&lang=en").text
    assert re.search('Did you mean <a href="/search[?]q=(spiders?)&amp;lang=en">\\1</a>[?]', page)
    told = json(app, "/api/suggest?q=wolf+spid")
    assert told == {"query": "wolf spid", "completions": ["wolf spiders"], "suggestion": ""}
    # The term is "night": longer than what is written, and shorter.
    assert json(app, "/api/suggest?q=nig")["completions"] == ["night"]
    assert json(app, "/api/suggest?q=spiders")["completions"] == ["spiders"]
    assert json(app, "/api/suggest?q=s")["completions"] == []


def test_what_the_index_keeps_of_a_page(app: ASGIApp) -> None:
    told = json(app, "/api/doc?u=http://b.test/de")
    assert told["language"] == "de" and "jagt nachts" in told["text"] and told["title"] == "Spinne"
    assert "no page of the index" in json(app, "/doc?u=http://b.test/none", 404)["error"]


def test_what_cannot_be_asked_is_named(app: ASGIApp) -> None:
    for query in ("count=0", "count=1.5", "count=x", "skip=-1", "rank_weight=nan", "fold=2", "count=101"):
        name = query.partition("=")[0]
        assert json(app, f"/api/search?q=a&{query}", 400)["error"].startswith(f"{name}=")
        page = get(app, f"/search?q=a&{query}")
        assert page.status == 400 and f"{name}=" in page.text
    assert "q=WORDS" in json(app, "/api/search", 400)["error"]


def test_a_crawl_without_an_index_says_what_makes_one_and_sees_it_when_it_is_there(made: MadeCrawl) -> None:
    app = application(made.directory, Guard(TOKEN, frozenset({"here.test"})))
    for target in ("/api/search?q=a", "/api/doc?u=a.test/", "/api/suggest?q=a"):
        assert f"lycosa index {made.directory}" in json(app, target, 404)["error"]
    page = get(app, "/search?q=spider")
    assert page.status == 404 and f"lycosa index {made.directory}" in page.text
    index(made)
    assert json(app, "/api/search?q=evil")["total"] == 1
    made.fetch("http://b.test/more", body=body("evil again"), keep=True)
    made.commit()
    index(made)
    assert json(app, "/api/search?q=evil")["total"] == 2
    index(made, rebuild=True)
    assert json(app, "/api/search?q=evil")["total"] == 2
