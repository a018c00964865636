"""Acts from the page and from programs: carried out by a crawl that runs, and refused to everybody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote, urlencode

import msgspec
import pytest
from starlette.types import ASGIApp

import lycosa
from lycosa.crawl.agent import End
from lycosa.records import Learned, Skipped, Why
from lycosa.serve.app import application
from lycosa.serve.guard import Guard
from lycosa.serve.sites import Sites
from tests.crawl.made import MadeCrawl, anchors
from tests.crawl.recorded import OPTIONS, chain, serving
from tests.crawl.test_steering import SLOW, acts, until
from tests.serve.asking import Answer, ask

TOKEN = "a-token-of-24-letters-00"
GUARD = Guard(TOKEN, frozenset({"here.test"}))
COOKIE = f"lycosa={TOKEN}"


async def post(app: ASGIApp, *words: str, back: str = "/", csrf: str = GUARD.csrf, **headers: str) -> Answer:
    fields = [("csrf", csrf), ("what", words[0]), ("back", back), *(("word", word) for word in words[1:])]
    headers = {"origin": "http://here.test", "cookie": COOKIE, **headers}
    return await ask(app, "/act", "POST", urlencode(fields).encode(), **headers)


@pytest.fixture
def app(tmp_path: Path) -> ASGIApp:
    made = MadeCrawl(tmp_path, shards=1)
    made.configure()
    made.seed("http://a.test/")
    made.fetch("http://a.test/")
    made.close()
    return application(tmp_path, GUARD)


async def test_a_running_crawl_is_paused_and_stopped_by_forms_and_by_programs(tmp_path: Path) -> None:
    with serving(chain(2_000)) as site:
        crawl = lycosa.Crawl(site.url(), into=tmp_path, **{**OPTIONS, "politeness": SLOW})
        await crawl.start()
        await until(lambda: crawl.status().pages >= 3)
        app = application(tmp_path, GUARD)
        answer = await post(app, "pause")
        assert answer.status == 303
        shown = await ask(app, answer.headers["location"], cookie=COOKIE)
        assert "pause: done" in shown.text and 'value="go-on"' in shown.text
        await until(lambda: crawl.status().visits == 0)
        name = site.url().rstrip("/")
        held = await post(app, "site", "site.test", "hold", back=f"/site?s={name}")
        assert "site.test is held" in (await ask(app, held.headers["location"], cookie=COOKIE)).text
        asked = b'{"what": "set", "words": ["limits.bytes=1000000000"]}'
        said = await ask(app, "/api/act", "POST", asked, authorization=f"Bearer {TOKEN}")
        assert said.status == 200 and b"done" in said.body
        found = msgspec.json.decode((await ask(app, "/api/control", authorization=f"Bearer {TOKEN}")).body)
        assert found["paused"] and found["sites"]["site.test"]["hold"]
        assert found["set"]["limits.bytes"] == 1_000_000_000 and len(found["acts"]) == 3
        page = await ask(app, "/control", cookie=COOKIE)
        assert "site site.test hold" in page.text and "(page)" in page.text
        assert (await post(app, "stop")).status == 303
        assert await crawl.wait() is End.STOPPED
    told = ["pause", "site site.test hold", "set limits.bytes=1000000000", "stop"]
    assert [what for _, what in acts(tmp_path)] == told
    assert all(who.endswith("(page)") for who, _ in acts(tmp_path))


@pytest.mark.parametrize(
    ("headers", "csrf", "status"),
    [
        ({"origin": "http://evil.test"}, GUARD.csrf, 403),
        ({"origin": "null"}, GUARD.csrf, 403),
        ({"cookie": ""}, GUARD.csrf, 401),
        ({"cookie": "lycosa=wrong"}, GUARD.csrf, 401),
        ({"host": "evil.test", "origin": "http://evil.test"}, GUARD.csrf, 421),
        ({}, "", 403),
        ({}, "0" * 32, 403),
        ({}, TOKEN, 403),
    ],
)
async def test_nobody_else_acts(
    app: ASGIApp, tmp_path: Path, headers: dict[str, str], csrf: str, status: int
) -> None:
    answer = await post(app, "pause", csrf=csrf, **headers)
    assert answer.status == status
    assert not (tmp_path / "control").exists()


async def test_without_origin_a_browser_must_say_that_it_is_ours(app: ASGIApp, tmp_path: Path) -> None:
    body = urlencode({"csrf": GUARD.csrf, "what": "pause"}).encode()
    assert (await ask(app, "/act", "POST", body, cookie=COOKIE)).status == 403
    assert (await ask(app, "/api/act", "POST", b'{"what":"pause"}', cookie=COOKIE)).status == 403
    assert (await ask(app, "/act", cookie=COOKIE)).status == 405
    assert not (tmp_path / "control").exists()


async def test_what_cannot_be_done_is_said_on_the_page(app: ASGIApp) -> None:
    for words, told in ((("fly",), "there is no act"), (("set", "fetch.proxy=x"), "cannot be changed")):
        answer = await post(app, *words, back="//evil.test/")
        assert answer.status == 303 and answer.headers["location"].startswith("/?act=")
        page = await ask(app, answer.headers["location"], cookie=COOKIE)
        assert "Not done" in page.text and told in page.text
    for body in (b"{", b'{"a":' * 100_000 + b"1" + b"}" * 100_000):
        bad = await ask(app, "/api/act", "POST", body, authorization=f"Bearer {TOKEN}")
        assert bad.status == 400 and b"error" in bad.body


async def test_a_line_of_a_field_is_one_word(app: ASGIApp, tmp_path: Path) -> None:
    lines = "scope.exclude_hosts = ['b.test', 'c.test']\r\n\r\n limits.pages=5 "
    fields = {"csrf": GUARD.csrf, "what": "set", "back": "/", "words": lines}
    headers = {"origin": "http://here.test", "cookie": COOKIE}
    answer = await ask(app, "/act", "POST", urlencode(fields).encode(), **headers)
    assert "kept for the next start" in (await ask(app, answer.headers["location"], cookie=COOKIE)).text
    act = msgspec.json.decode(next((tmp_path / "control").glob("*.act")).read_bytes())
    assert act["words"] == ["scope.exclude_hosts = ['b.test', 'c.test']", "limits.pages=5"]


async def test_what_is_quarantined_is_released_from_the_page(tmp_path: Path) -> None:
    made = MadeCrawl(tmp_path, shards=1)
    made.configure()
    made.seed("http://a.test/")
    made.fetch("http://a.test/", links=anchors("http://a.test/c?d=2", "http://a.test/c?d=3"))
    held, over = "http://a.test/c?d", "http://a.test/e?f"
    for pattern in (held, over):
        made.log(Learned(made.tick(), "trap", pattern, True, 9, "9 pages gave nothing new"), 0)
    made.log(Learned(made.tick(), "trap", over, False, 11, "tests found something"), 0)
    for number in (2, 3):
        url = f"http://a.test/c?d={number}"
        made.log(Skipped(made.tick(), url, 1, Why.TRAP, f"{held} is quarantined: ..."), 0)
    made.close()
    Sites(made.reader(), tmp_path / "serve").catch_up()
    app = application(tmp_path, GUARD)
    page = await ask(app, "/control", cookie=COOKIE)
    assert "9 pages gave nothing new" in page.text and over not in page.text
    found = msgspec.json.decode((await ask(app, "/api/control", authorization=f"Bearer {TOKEN}")).body)
    assert [(row["pattern"], row["skipped"]) for row in found["quarantined"]] == [(held, 2)]
    shown = await ask(app, f"/url?u={quote('http://a.test/c?d=2', safe='')}", cookie=COOKIE)
    assert 'value="release"' in shown.text and f'value="{held}"' in shown.text
    await post(app, "release", held)
    act = msgspec.json.decode(next((tmp_path / "control").glob("*.act")).read_bytes())
    assert (act["what"], act["words"]) == ("release", [held])


async def test_hostile_words_come_back_as_text(app: ASGIApp) -> None:
    answer = await post(app, "site", "<script>alert(1)</script>", "hold")
    page = await ask(app, answer.headers["location"], cookie=COOKIE)
    assert "&lt;script&gt;alert(1)" in page.text and "<script>alert" not in page.text


async def test_read_only_has_no_forms_and_does_nothing(app: ASGIApp, tmp_path: Path) -> None:
    closed = application(tmp_path, GUARD, acts=False)
    for path in ("/", "/control", "/site?s=http://a.test"):
        assert 'method="post"' not in (await ask(closed, path, cookie=COOKIE)).text
    answer = await post(closed, "pause")
    assert "--read-only" in (await ask(closed, answer.headers["location"], cookie=COOKIE)).text
    assert not (tmp_path / "control").exists()
    await asyncio.sleep(0)
