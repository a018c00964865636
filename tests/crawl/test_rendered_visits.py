"""What scripts ask for keeps to the rules of a visit: robots, turns, waits, guard. Virtual time, no browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from lycosa.clock import Clock
from lycosa.crawl import rendering
from lycosa.crawl.agent import Agent, End
from lycosa.errors import ConfigError
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply
from lycosa.records import Fetched, Rendered
from lycosa.render.page import Answer, Asker, Shown, Wish
from tests.crawl.little import Ran, crawl, moved, rules

ROOT = "http://a.test/"
WANTS = re.compile(r'wants="([^"]+)"')


class ScriptedBrowser:
    """Shows pages whose scripts want what their attributes say, all at once, and then show what came."""

    started = 1

    def __init__(self, *args: Any) -> None:
        pass

    async def show(self, url: str, first: Answer, ask: Asker) -> Shown:
        wanted = WANTS.findall(first.body.decode())
        answers = await asyncio.gather(*(self._follow(one, ask) for one in wanted))
        rows = [
            f"<p>{one} {'none' if found is None else found.status}</p>"
            for one, found in zip(wanted, answers, strict=True)
        ]
        return Shown("".join(["<title>shown</title><a href=/found>x</a>", *rows]), url, url)

    async def _follow(self, url: str, ask: Asker) -> Answer | None:
        while True:
            found = await ask(Wish(url, "GET", "XHR", {}))
            if found is None or found.status != 302:
                return found
            url = dict(found.headers)["Location"]

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "Browser", ScriptedBrowser)
    monkeypatch.setattr("lycosa.render.browser.find", lambda named: "/bin/true")


def shell(*wanted: str) -> Reply:
    tags = "".join(f'<div wants="{each}"></div>' for each in wanted)
    return Reply(f"{tags}<script>0</script>".encode(), 200, (("Content-Type", "text/html"),))


def run(pages: dict[str, Any], **options: Any) -> Ran:
    return crawl(FaultyFiles(), pages, [ROOT], render={"when": "auto"}, **options)


def rendered(ran: Ran, url: str = ROOT) -> Rendered:
    (record,) = (row for row in ran.records if isinstance(row, Fetched) and row.url == url)
    assert record.rendered is not None
    return record.rendered


def spaced(spans: list[tuple[float, float]], most: int, wait: float) -> bool:
    """Whether requests came one after the other, and at most so many without a wait."""
    run = 1
    for before, after in pairwise(spans):
        if after[0] < before[1]:
            return False
        run = 1 if after[0] - before[1] >= wait else run + 1
        if run > most:
            return False
    return True


def test_files_of_a_page_are_pages_of_a_visit() -> None:
    files = [f"{ROOT}file{n}" for n in range(20)]
    ran = run({ROOT: shell(*files), **{url: Reply(b"x") for url in files}})
    assert ran.end is End.FINISHED
    assert rendered(ran).requests == 20
    assert {ROOT, f"{ROOT}found"} == set(ran.fetched)
    assert spaced(ran.times("a.test"), 8 + 1, 1.0)  # robots.txt is no page of a visit
    assert not spaced(ran.times("a.test"), 4, 1.0)


def test_a_crawl_delay_holds_for_files() -> None:
    files = [f"{ROOT}file{n}" for n in range(3)]
    text = "User-agent: *\nCrawl-delay: 7\nDisallow: /file1\n"
    ran = run({ROOT: shell(*files), f"{ROOT}robots.txt": rules(text), **{url: Reply(b"x") for url in files}})
    assert spaced(ran.times("a.test"), 1, 7.0)
    assert rendered(ran).refused == [f"robots (line 3: Disallow: /file1) {files[1]}"]
    assert files[1] not in ran.urls


def test_another_hosts_files_take_its_turn_its_rules_and_its_waits() -> None:
    files = [f"http://cdn.test/file{n}" for n in range(10)]
    pages = {ROOT: shell(*files, "http://cdn.test/no"), **{url: Reply(b"x") for url in files}}
    pages["http://cdn.test/robots.txt"] = rules("User-agent: *\nDisallow: /no")
    pages["http://b.test/"] = shell(files[0], "http://cdn.test/other")
    ran = crawl(FaultyFiles(), pages, [ROOT, "http://b.test/"], render={"when": "auto"})
    assert ran.end is End.FINISHED
    assert rendered(ran).requests == 10
    assert [each.partition(" http")[0] for each in rendered(ran).refused] == [
        "robots (line 2: Disallow: /no)"
    ]
    assert spaced(ran.times("cdn.test"), 8 + 1, 1.0)
    assert ran.urls.count("http://cdn.test/robots.txt") == 1
    assert ran.urls.count(files[0]) == 1  # the other site's page had it from the cache
    assert [row.site for row in ran.robots].count("http://cdn.test") == 1


@pytest.mark.parametrize("place", ["http://inside.test/x", "http://10.0.0.1/x", "http://nowhere.test/x"])
@pytest.mark.parametrize(
    "how", [lambda url: {ROOT: shell(url)}, lambda url: {ROOT: shell(f"{ROOT}hop"), f"{ROOT}hop": moved(url)}]
)
def test_the_guard_holds_for_files_and_their_redirects(
    place: str, how: Callable[[str], dict[str, Any]]
) -> None:
    ran = run(how(place), names={"inside.test": "10.1.2.3", "10.0.0.1": "10.0.0.1"})
    assert rendered(ran).refused[0].startswith("address (")
    assert place not in ran.urls
    assert f"{ROOT}found" in ran.fetched


def test_a_host_that_wants_a_pause_is_asked_for_nothing_more() -> None:
    busy = Reply(b"", 429, (("Retry-After", "100"),))
    ran = run({ROOT: shell(f"{ROOT}busy", f"{ROOT}next"), f"{ROOT}busy": busy})
    assert f"{ROOT}next" not in ran.urls
    assert rendered(ran).refused == [f"turn (its host wants none now) {ROOT}next"]
    assert ran.times(url=f"{ROOT}found")[0][0] - ran.times(url=f"{ROOT}busy")[0][1] >= 100


def test_a_page_whose_run_stops_is_rendered_by_the_next() -> None:
    files, pages = FaultyFiles(), {ROOT: shell(*(f"{ROOT}file{n}" for n in range(40)))}

    async def stop(agent: Agent, clock: Clock) -> None:
        await clock.sleep(2.5)
        agent.stop()

    first = crawl(files, pages, [ROOT], during=stop, render={"when": "auto"})
    assert first.end is End.STOPPED
    assert first.fetched == {}
    assert 1 < len(first.urls) < 30
    second = crawl(files, pages, [], start=first.until, render={"when": "auto"})
    assert second.end is End.FINISHED
    assert set(second.fetched) == {ROOT, f"{ROOT}found"}
    assert rendered(second).requests == 40


def test_a_missing_browser_is_told_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    files = FaultyFiles()
    with pytest.raises(ConfigError, match="not a program on this machine"):
        crawl(files, {ROOT: shell()}, [ROOT], render={"when": "always", "browser": "/no/such"})
    assert not files.exists("crawl.json")
