"""The pages in a real Chromium, on a crawl that runs: they open and complain of nothing, hostile pages do nothing,
acts are carried out, and axe finds nothing serious.

Skipped where there is no Chromium. axe-core is not part of the project: `npm pack axe-core`, unpack it, and name
its axe.min.js in LYCOSA_AXE.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from lycosa.crawl.status import Status, read_status
from tests.crawl.recorded import FLAGS, Asked, Said, Site, chain, page, serving
from tests.serve.browser import CHROMIUM, Browser
from tests.serve.screens import served

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.timeout(600),
]
EVIL = "/evil?<script>window.hacked=1</script>"
HOSTILE = (
    "<title></title><img src=x onerror=top.hacked=1></title>"
    "<title>\"'><img src=x onerror='window.hacked=1'></title>"
    "<script>try { parent.hacked = 1; top.location = '/leak?top' } catch {} fetch('/leak?fetch')</script>"
    "<img src='/leak?image'><link rel=stylesheet href='/leak?style'><form action='/leak?form'></form>"
    "<iframe src='/leak?frame'></iframe><meta http-equiv=refresh content='0;url=/leak?refresh'>"
)


def answer(asked: Asked) -> Said:
    if asked.path.startswith("/evil"):
        return Said(HOSTILE.encode())
    if asked.path == "/":
        return page("\"><img src=x onerror='window.hacked=1'>", "/1", "/2", EVIL)
    if asked.path.startswith("/leak"):
        return Said(b"leaked")
    return chain(100_000)(asked)


class Scene(NamedTuple):
    """A crawl that runs, its web, and a browser that has entered."""

    browser: Browser
    base: str
    into: Path
    site: Site

    def status(self) -> Status:
        status = read_status(self.into)
        assert status is not None
        return status

    def pages(self) -> dict[str, str]:
        seed = quote(self.site.url(), safe="")
        return {
            "now": "/",
            "sites": "/sites",
            "site": f"/site?s={quote(self.site.url().rstrip('/'), safe='')}",
            "url": f"/url?u={seed}",
            "ask": "/url",
            "search": "/search",
            "graph": "/graph",
            "report": "/report",
            "lab": "/lab",
            "control": "/control",
        }


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    into = tmp_path_factory.mktemp("scene") / "crawl"
    with serving(answer) as site:
        words = ["crawl", site.url(), "--into", str(into), *FLAGS, "--agents", "1"]
        words += ["--set", "politeness.wait=0.2", "--set", "politeness.pages_per_visit=1"]
        crawl = subprocess.Popen([sys.executable, "-m", "lycosa.cli.main", *words], stderr=subprocess.DEVNULL)
        try:
            while not any(path.startswith("/evil") for path in site.paths()) or len(site.paths()) < 6:
                assert crawl.poll() is None
                time.sleep(0.02)
            while (status := read_status(into)) is None or status.pages < 5:
                assert crawl.poll() is None
                time.sleep(0.02)
            with served(into) as link, Browser() as browser:
                browser.enter(link)
                yield Scene(browser, link.split("/?")[0], into, site)
        finally:
            crawl.kill()
            crawl.wait()


def test_every_page_opens_and_asks_nobody_else(scene: Scene) -> None:
    for name, path in scene.pages().items():
        scene.browser.open(scene.base + path)
        assert scene.browser.js("document.querySelectorAll('h1').length") == 1, name
        assert scene.browser.js("document.querySelector('nav [aria-current]') !== null"), name
        asked = {url for url in scene.browser.requests() if not url.startswith((scene.base + "/", "data:"))}
        assert not asked, name
        missing = ("404",) if name in ("graph", "search") else ()  # there is neither graph nor index
        assert not [
            told for told in scene.browser.complaints() if not any(code in told for code in missing)
        ], name


def test_nothing_is_wider_than_a_telephone(scene: Scene) -> None:
    for name, path in scene.pages().items():
        scene.browser.look(400)
        scene.browser.open(scene.base + path)
        wide = scene.browser.js("document.documentElement.scrollWidth")
        assert wide <= 400, name
    scene.browser.look(1200)


def test_hostile_titles_urls_and_pages_do_nothing(scene: Scene) -> None:
    browser = scene.browser
    evil = next(path for path in scene.site.paths() if path.startswith("/evil"))
    for url in (scene.site.url(evil), scene.site.url()):
        browser.open(f"{scene.base}/url?u={quote(url, safe='')}")
        browser.js("document.querySelector('iframe').scrollIntoView()")  # it is loaded when it is seen
        browser.until(lambda: any("/archived" in asked for asked in browser.requests()) or browser.js("0"))
        browser.js("new Promise((done) => setTimeout(done, 1000))")
        assert browser.js("window.hacked") is None
        assert browser.js("document.querySelectorAll('script').length") == 1, "ours"
        assert browser.js("document.querySelectorAll('main [onerror], main img').length") == 0
        assert browser.js("location.pathname") == "/url"
    browser.open(f"{scene.base}/sites?q={quote('<img src=x onerror=window.hacked=1>', safe='')}")
    assert (
        browser.js("window.hacked") is None
        and browser.js("document.querySelectorAll('main img').length") == 0
    )
    by_browser = [row.path for row in scene.site.asked if "Chrome" in row.headers.get("user-agent", "")]
    assert not by_browser, "the archived page asked for something"


def test_an_archived_page_is_of_no_origin(scene: Scene) -> None:
    scene.browser.open(f"{scene.base}/url?u={quote(scene.site.url(), safe='')}")
    frame = scene.browser.js("document.querySelector('iframe').getAttribute('sandbox')")
    assert frame == ""
    assert scene.browser.js("document.querySelector('iframe').contentDocument") is None


@pytest.mark.parametrize(
    "name", ["now", "sites", "site", "url", "search", "graph", "report", "lab", "control"]
)
def test_axe_finds_nothing_serious(scene: Scene, name: str) -> None:
    axe = os.environ.get("LYCOSA_AXE", "")
    if not axe:
        pytest.skip("LYCOSA_AXE does not name axe.min.js")
    for dark in (False, True):
        scene.browser.look(1200, dark=dark)
        scene.browser.open(scene.base + scene.pages()[name])
        scene.browser.call("Runtime.evaluate", expression=Path(axe).read_text())
        found: list[dict[str, Any]] = scene.browser.js(
            "axe.run(document, {iframes: false}).then((found) => found.violations.map("
            "(row) => ({id: row.id, impact: row.impact, nodes: row.nodes.slice(0, 3).map((n) => n.html)})))"
        )
        serious = [row for row in found if row["impact"] in ("serious", "critical")]
        assert not serious, serious


def test_acts_are_carried_out(scene: Scene) -> None:
    """The last: the crawl ends."""
    browser = scene.browser
    browser.look(1200)
    browser.open(scene.base + "/")
    browser.press('input[value="pause"] ~ button')
    assert "pause: done" in browser.js("document.querySelector('.said').textContent")
    assert browser.js("document.querySelector('.state').textContent") == "paused"
    assert scene.status().paused
    browser.press('input[value="go-on"] ~ button')
    assert not scene.status().paused
    browser.until(
        lambda: browser.js("document.querySelector('.state').textContent") == "running"
    )  # by an event
    browser.open(scene.base + scene.pages()["site"])
    browser.press('input[value="hold"] ~ button')
    assert "site.test is held" in browser.js("document.querySelector('main').textContent")
    browser.press('input[value="release"] ~ button')
    browser.open(scene.base + "/control")
    browser.js("document.querySelector('#setting').value = 'limits.pages=999999'")
    browser.press("form:has(#setting) button")
    assert scene.status().page_limit == 999_999
    assert "limits.pages=999999" in browser.js("document.querySelector('main').textContent")
    browser.js("document.querySelector('#setting').value = 'limits.pagse=1'")
    browser.press("form:has(#setting) button")
    assert "did you mean" in browser.js("document.querySelector('.said').textContent")
    browser.open(scene.base + "/")
    browser.press('input[value="stop"] ~ button')
    browser.until(lambda: scene.status().state == "stopped")
