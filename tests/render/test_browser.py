"""A browser that dies, hangs or grows loses nothing, and outlives nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lycosa.errors import LocalError
from lycosa.render.browser import Browser, held
from lycosa.render.options import RenderOptions
from lycosa.render.page import Answer, Wish
from tests.render.needed import chromium

pytestmark = [chromium, pytest.mark.timeout(240)]

URL = "http://site.test/"


def page(body: str) -> Answer:
    return Answer(200, [("content-type", "text/html; charset=utf-8")], f"<!DOCTYPE html>{body}".encode())


async def nothing(wish: Wish) -> Answer | None:
    return None


@asynccontextmanager
async def running(told: Callable[[str], None] | None = None, **options: object) -> AsyncIterator[Browser]:
    browser = Browser(RenderOptions(**options), told=told)  # type: ignore[arg-type]
    try:
        yield browser
    finally:
        await browser.close()


async def test_pages_come_and_go_and_share_nothing() -> None:
    leave = "<script>localStorage.x = 1; document.cookie = 'x=1'; document.body.append('left')</script>"
    look = "<body><script>document.body.append(`[${localStorage.x}|${document.cookie}]`)</script>"
    async with running(pages_per_browser=3) as browser:
        assert "left" in (await browser.show(URL, page(f"<body>{leave}"), nothing)).html
        assert "[undefined|]" in (await browser.show(URL, page(look), nothing)).html
        assert browser.started == 1
        again = await browser.show(URL, page("<body><script>document.body.append('a'+'b')</script>"), nothing)
        assert "ab" in again.html
        assert browser.started == 1
        assert "last" in (await browser.show(URL, page("<p>last"), nothing)).html
        assert browser.started == 2  # the first had had its three pages


async def test_redirects_are_asked_for_one_by_one() -> None:
    asked: list[str] = []

    async def ask(wish: Wish) -> Answer | None:
        asked.append(wish.url)
        if wish.url == f"{URL}a.js":
            return Answer(302, [("location", "http://other.test/b.js")], b"")
        return Answer(200, [("content-type", "text/javascript")], b"document.body.append('from afar')")

    async with running() as browser:
        shown = await browser.show(URL, page("<body><script src=a.js></script>"), ask)
    assert "from afar" in shown.html
    assert asked[:2] == [f"{URL}a.js", "http://other.test/b.js"]


async def test_a_page_that_never_ends_loses_its_time_and_no_other_page() -> None:
    async with running(seconds=0.5) as browser:
        shown = await browser.show(URL, page("<p>before</p><script>while (true);</script>"), nothing)
        assert shown.problem == "time"
        shown = await browser.show(URL, page("<body><script>document.body.append('a'+'b')</script>"), nothing)
        assert shown.problem in ("", "time")  # half a second may be short where much else runs


async def test_a_browser_that_is_killed_is_started_anew_and_the_page_tried_again() -> None:
    killed = []

    async def ask(wish: Wish) -> Answer | None:
        if wish.url.endswith("/data") and len(killed) < 1:
            killed.append(browser.pid)
            os.kill(browser.pid, signal.SIGKILL)
        return Answer(200, [("content-type", "text/plain")], b"the data")

    code = "<body><script>fetch('/data').then((r) => r.text()).then((t) => document.body.append(t))</script>"
    async with running() as browser:
        shown = await browser.show(URL, page(code), ask)
        assert "the data" in shown.html
        assert shown.problem == ""
        assert (browser.started, len(killed)) == (2, 1)


async def test_a_page_that_ends_the_browser_each_time_is_given_up() -> None:
    async def ask(wish: Wish) -> Answer | None:
        os.kill(browser.pid, signal.SIGKILL)
        return None

    async with running() as browser:
        shown = await browser.show(URL, page("<script>fetch('/data')</script>"), ask)
        assert shown.html == ""
        assert shown.problem.startswith("browser: it ended twice")
        pid = browser.pid
    assert not pid


async def test_a_browser_that_holds_too_much_is_replaced() -> None:
    said: list[str] = []
    hoard = """<body><script>
      window.kept = []; for (let i = 0; i < 12; i++) kept.push(new Uint8Array(40 << 20).fill(i));
      fetch("/wait");
    </script>"""
    async with running(said.append, memory=500 << 20) as browser:

        async def ask(wish: Wish) -> Answer | None:
            assert browser._tools is not None
            await browser._tools.gone.wait()  # somebody sees to it
            return None

        shown = await browser.show(URL, page(hoard), ask)
        assert shown.problem.startswith("browser: it ended twice")
        assert any("500 MB" in line for line in said)


async def test_a_browser_that_cannot_start_is_one_line(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho no display for you >&2\nexit 1\n")
    program.chmod(0o755)
    async with running(browser=str(program)) as browser:
        with pytest.raises(LocalError, match="does not start: no display for you"):
            await browser.show(URL, page("x"), nothing)


def test_the_browser_ends_with_whoever_started_it() -> None:
    code = """
        import asyncio
        from lycosa.render.browser import Browser
        from lycosa.render.options import RenderOptions
        from lycosa.render.page import Answer

        async def ask(wish):
            print(browser.pid, flush=True)
            await asyncio.sleep(1000)

        async def go():
            await browser.show("http://site.test/", Answer(200, [("content-type", "text/html")],
                               b"<script src=/a.js></script>"), ask)

        browser = Browser(RenderOptions())
        asyncio.run(go())
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    assert held(pid) > 0
    child.kill()
    child.wait()
    child.stdout.close()
    while Path(f"/proc/{pid}").exists() and held(pid):  # pytest's timeout ends this
        time.sleep(0.05)
