"""Crawling from Python, over real sockets."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lycosa
from lycosa.crawl.agent import RUNNING, End
from lycosa.crawl.api import Crawl
from lycosa.crawl.pages import FetchedPage, Pages
from lycosa.crawl.status import read_status
from lycosa.errors import ConfigError, StorageError
from lycosa.records import LinkKind
from tests.crawl.recorded import OPTIONS, Said, Site, chain, fetched, page, pages, serving

FEW = 60


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(chain(FEW)) as running:
        yield running


def crawl_of(site: Site, into: Path, **more: Any) -> Crawl:
    return lycosa.Crawl(site.url(), into=into, **{**OPTIONS, **more})


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - there is no event; what never comes is ended by the test's timeout
        await asyncio.sleep(0.01)


async def test_pages_come_in_the_order_of_the_log_each_once(site: Site, tmp_path: Path) -> None:
    got = [page async for page in crawl_of(site, tmp_path)]
    logged = fetched(tmp_path)
    assert [page.url for page in got] == [row.url for row in logged]
    assert len(got) == FEW
    assert [page.record for page in got] == logged


async def test_a_page_has_what_people_ask_for(tmp_path: Path) -> None:
    body = "<title>Wölfe &amp; Spinnen</title><p>Die Wolfsspinne jagt zu Fuß.<p><a href=/b#x>die andere</a>"
    head = (("Content-Type", "text/html; charset=iso-8859-1"), ("X-Who", "me"))
    table = {
        "/": Said(body.encode("latin-1"), 200, head),
        "/b": Said(b"gone", 410, (("Content-Type", "text/plain"),)),
    }
    with serving(pages(table)) as site:
        first, second = [page async for page in lycosa.crawl([site.url()], into=tmp_path, **OPTIONS)]
        assert (first.url, first.status, first.depth, first.type) == (site.url(), 200, 0, "text/html")
        assert first.title == "Wölfe & Spinnen"
        assert first.body == body.encode("latin-1")
        assert "Die Wolfsspinne jagt zu Fuß." in first.text
        assert first.header("x-who") == "me"
        assert first.header("x-other") is None
        assert first.head.startswith(b"HTTP/1.1 200")
        (link,) = first.links
        assert (link.url, link.kind, link.text) == (site.url("/b"), LinkKind.ANCHOR, "die andere")
        assert (second.url, second.status, second.depth, second.text) == (site.url("/b"), 410, 1, "gone")
        assert repr(second) == f"<410 {site.url('/b')}>"


async def test_the_short_form_is_the_long_one(site: Site, tmp_path: Path) -> None:
    assert lycosa.crawl.api.Crawl is Crawl and issubclass(lycosa.Crawl, Crawl)
    short = lycosa.crawl([site.url()], into=tmp_path, **OPTIONS)
    assert isinstance(short, Crawl)
    assert len([page async for page in short]) == FEW


async def test_without_a_loop_over_pages(site: Site, tmp_path: Path) -> None:
    crawl = crawl_of(site, tmp_path)
    await crawl.start()
    assert await crawl.wait() is End.FINISHED
    assert await crawl.wait() is End.FINISHED, "it stays so"
    assert len(fetched(tmp_path)) == FEW
    with pytest.raises(ConfigError, match="from the start"):
        async for _ in crawl:
            pass


async def test_stop_in_the_middle_and_go_on_with_the_same_call(site: Site, tmp_path: Path) -> None:
    first: list[str] = []
    crawl = crawl_of(site, tmp_path)
    async for one in crawl:
        first.append(one.url)
        if len(first) == 7:
            assert await crawl.stop() is End.STOPPED
    assert len(first) == 7, "the loop ends with the crawl"
    before = {row.url for row in fetched(tmp_path)}
    assert set(first) <= before
    assert len(before) < FEW
    second = [page.url async for page in crawl_of(site, tmp_path)]
    assert not before & set(second), "nothing is fetched again"
    assert len(before) + len(second) == FEW
    assert len(site.paths()) == FEW


async def test_leaving_the_block_stops_the_crawl(site: Site, tmp_path: Path) -> None:
    async with crawl_of(site, tmp_path) as crawl:
        async for one in crawl:
            if one.depth == 2:
                break
    assert crawl.status().state == "stopped"
    assert len(fetched(tmp_path)) < FEW
    async with crawl_of(site, tmp_path) as crawl:
        assert len([page async for page in crawl]) == FEW - len(site.paths()) + crawl.status().pages_run
    assert crawl.status().state == "finished"
    assert len(fetched(tmp_path)) == FEW


async def test_an_error_in_the_block_goes_on_and_the_crawl_is_whole(site: Site, tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with crawl_of(site, tmp_path) as crawl:
            async for one in crawl:
                raise KeyError(one.url)
    assert len([page async for page in crawl_of(site, tmp_path)]) + crawl.status().pages == FEW


async def test_waiting_in_the_block_without_reading_does_not_hang(site: Site, tmp_path: Path) -> None:
    with serving(chain(160)) as long:
        async with crawl_of(long, tmp_path) as crawl:
            assert await asyncio.wait_for(crawl.wait(), 240) is End.FINISHED
    assert len(fetched(tmp_path)) == 160


async def test_a_slow_consumer_slows_the_crawl_and_loses_nothing(tmp_path: Path) -> None:
    """The crawl runs ahead by the room for pages, and one page a visit, and not further."""
    count = 260
    with serving(chain(count)) as site:
        crawl = crawl_of(site, tmp_path)
        got: list[str] = []
        async for one in crawl:
            got.append(one.url)
            if len(got) == 1:
                assert crawl._pages is not None
                await until(lambda: len(crawl._pages._writers) == 1)  # the one visit waits for room
                assert len(site.paths()) == 1 + 100 + 1, "what was read, the room, and one page a visit"
                for _ in range(100):
                    await asyncio.sleep(0)
                assert len(site.paths()) == 1 + 100 + 1
        assert len(got) == len(set(got)) == count


async def test_a_limit_reached_while_the_consumer_is_slow_loses_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Visits that wait for the consumer are cut short at the end; their pages are logged, so they must come."""
    monkeypatch.setattr("lycosa.crawl.scheduling.GRACE", 0.1)
    limit = 3 + 100 + 1  # what is read before the wait, the room, and the page of the visit that waits
    with serving(chain(260)) as site:
        got = []
        crawl = crawl_of(site, tmp_path, limits={"pages": limit})
        async for one in crawl:
            got.append(one.url)
            if len(got) == 3:
                await until(lambda: crawl.status().state == "limit")
    assert got == [row.url for row in fetched(tmp_path)]
    assert len(got) == limit


async def test_pause_and_resume(site: Site, tmp_path: Path) -> None:
    crawl = crawl_of(site, tmp_path, politeness={**OPTIONS["politeness"], "wait": 0.02, "pages_per_visit": 2})
    await crawl.start()
    await until(lambda: crawl.status().pages >= 4)
    crawl.pause()
    await until(lambda: crawl.status().visits == 0)
    held = crawl.status().pages
    turns = 0
    agent: Any = crawl._agent
    look = agent.chores.step

    def counted() -> None:
        nonlocal turns
        turns += 1
        agent.wake()  # look again at once: if a visit could begin, it would
        look()

    agent.chores.step = counted
    await until(lambda: turns > 20)
    assert crawl.status().pages == held < FEW
    agent.chores.step = look
    crawl.resume()
    assert await asyncio.wait_for(crawl.wait(), 240) is End.FINISHED
    assert crawl.status().pages == FEW


async def test_a_paused_crawl_can_be_stopped(site: Site, tmp_path: Path) -> None:
    crawl = crawl_of(site, tmp_path)
    await crawl.start()
    crawl.pause()
    assert await asyncio.wait_for(crawl.stop(), 240) is End.STOPPED


async def test_stats_and_status(site: Site, tmp_path: Path) -> None:
    crawl = crawl_of(site, tmp_path)
    for ask in (crawl.stats, crawl.status, crawl.pause, crawl.resume, crawl.stop_soon):
        with pytest.raises(ConfigError, match="not been started"):
            ask()
    with pytest.raises(ConfigError, match="not been started"):
        await crawl.stop()
    await crawl.start()
    assert crawl.status().state == "running"
    await crawl.wait()
    stats = crawl.stats()
    assert stats["fetch.pages"] == FEW
    assert stats["seen.urls"] == FEW
    assert stats["frontier.pending"] == 0
    assert stats["http.requests"] == len(site.asked) == FEW + 1
    status = crawl.status()
    assert (status.state, status.pages, status.pages_run, status.pending) == ("finished", FEW, FEW, 0)
    left = read_status(tmp_path)
    assert left is not None
    assert (left.state, left.pages, left.pid) == ("finished", FEW, os.getpid())


async def test_one_crawl_a_directory(site: Site, tmp_path: Path) -> None:
    crawl = crawl_of(site, tmp_path, politeness={**OPTIONS["politeness"], "wait": 5.0, "pages_per_visit": 2})
    await crawl.start()
    with pytest.raises(ConfigError, match=f"in use by process {os.getpid()}"):
        await crawl_of(site, tmp_path).start()
    with pytest.raises(ConfigError, match="has been started"):
        await crawl.start()
    assert await crawl.stop() is End.STOPPED
    again = crawl_of(site, tmp_path)
    await again.start()
    await again.stop()


async def test_mistakes_are_told_before_anything_is_written(site: Site, tmp_path: Path) -> None:
    into = tmp_path / "new"
    for wrong, words in (
        ({"fetch": {"headers": ["no colon"]}}, "not a header"),
        ({"fetch": {"cookie_file": "/nowhere/cookies"}}, "/nowhere/cookies"),
        ({"fetch": {"cookies": ["empty"]}}, "not a cookie"),
        ({"fetch": {"proxy": "gopher://x"}}, "not a proxy"),
        ({"fetch": {"proxy": "localhost:3128"}}, "not a proxy"),
        ({"fetch": {"proxy": "http://"}}, "not a proxy"),
        ({"fetch": {"ca_file": "/nowhere/ca.pem"}}, "ca_file"),
        ({"scope": {"include_patterns": ["("]}}, "not a regular expression"),
        ({"scope": {"exclude_paths": ["no-slash"]}}, "exclude_paths"),
        ({"allow": ["10.0.0.0/99"]}, "not a network"),
        ({"dns": {"resolve": ["host"]}}, "not an override"),
        ({"rules": ["drop-everythin"]}, "unknown URL rule"),
        ({"polite": {}}, "did you mean 'politeness'"),
    ):
        with pytest.raises(ConfigError, match=words):
            await crawl_of(site, into, **wrong).start()
        assert not into.exists(), wrong
    for seed in ("http://", "mailto:me@example.org", "javascript:alert(1)", "ftp://example.org/", "", "a b"):
        with pytest.raises(ConfigError, match="is not a URL"):
            await lycosa.Crawl([seed], into=into, **OPTIONS).start()
        assert not into.exists(), seed


async def test_a_directory_of_something_else_is_refused(site: Site, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"holds something else \(thesis.tex\)"):
        await crawl_of(site, tmp_path).start()
    assert os.listdir(tmp_path) == ["thesis.tex"]  # noqa: PTH208 - pathlib's is no better in a coroutine
    home = tmp_path / "home"
    home.mkdir()
    (home / "crawl.toml").write_text("")
    (home / "lock").write_text("")  # a start that was cut short
    assert await crawl_of(site, home).wait() is End.FINISHED


async def test_a_file_in_place_of_the_directory(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/below"):
        with pytest.raises(ConfigError, match="cannot crawl into"):
            await crawl_of(site, tmp_path / place).start()
    assert (tmp_path / "file").read_text() == "mine"


async def test_a_failing_disk_reaches_the_consumer(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the disk is full every write fails; the loop over pages hears of it, and the crawl can go on."""
    real = os.write
    full = False

    def write(fd: int, data: bytes) -> int:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)
    polite = {**OPTIONS["politeness"], "wait": 0.05, "pages_per_visit": 2}
    with pytest.raises(StorageError, match="the disk is full"):
        async for _ in crawl_of(site, tmp_path, politeness=polite):
            full = True
    full = False
    await crawl_of(site, tmp_path).wait()
    assert len({row.url for row in fetched(tmp_path)}) == len(fetched(tmp_path)) == FEW


async def test_a_failure_that_nobody_heard_of_is_raised_at_the_end_of_the_block(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawl_of(site, tmp_path)
    with pytest.raises(StorageError, match="as told"):
        async with crawl:
            assert crawl._agent is not None
            crawl._agent._pulse.fail(StorageError("as told"))
            await until(lambda: crawl.status().state != "running")


async def test_a_second_loop_over_a_finished_crawl_says_where_its_pages_are(
    site: Site, tmp_path: Path
) -> None:
    crawl = crawl_of(site, tmp_path)
    assert len([page async for page in crawl]) == FEW
    with pytest.raises(ConfigError, match=r"have been read: lycosa\.open\("):
        [page async for page in crawl]


async def test_a_second_loop_in_the_block_goes_on(site: Site, tmp_path: Path) -> None:
    async with crawl_of(site, tmp_path) as crawl:
        seen = []
        async for one in crawl:
            seen.append(one.url)
            break
        rest = [page.url async for page in crawl]
    assert [*seen, *rest] == [row.url for row in fetched(tmp_path)]
    assert len(rest) == FEW - 1


# -- loops that are left without a block


def ended_cleanly(into: Path) -> int:
    """The pages of a crawl that was stopped as it should be."""
    status = read_status(into)
    assert status is not None
    assert status.state == "stopped"
    assert not (into / RUNNING).exists(), "the mark of a process that was cut short"
    return len(fetched(into))


async def test_a_loop_that_is_left_stops_the_crawl(site: Site, tmp_path: Path) -> None:
    crawl = crawl_of(site, tmp_path)
    async for one in crawl:
        if one.depth == 2:
            break
    assert await crawl.wait() is End.STOPPED
    before = ended_cleanly(tmp_path)
    assert before < FEW
    assert len([page async for page in crawl_of(site, tmp_path)]) == FEW - before


async def test_closing_the_loop_waits_for_the_end(site: Site, tmp_path: Path) -> None:
    crawl = crawl_of(site, tmp_path)
    loop = aiter(crawl)
    await anext(loop)
    await loop.aclose()
    assert crawl.status().state == "stopped"
    assert ended_cleanly(tmp_path) < FEW


@pytest.mark.parametrize("how", ["break", "error", "started"])
def test_an_event_loop_that_ends_stops_the_crawl(site: Site, tmp_path: Path, how: str) -> None:
    """The usual script: the coroutine returns while the crawl runs, and `asyncio.run` cancels all tasks at once."""

    async def main() -> None:
        crawl = crawl_of(site, tmp_path)
        if how == "started":
            await crawl.start()
            await until(lambda: crawl.status().pages >= 3)
            return
        async for one in crawl:
            if one.depth == 2 and how == "error":
                raise KeyError(one.url)
            if one.depth == 2:
                break

    if how == "error":
        with pytest.raises(KeyError):
            asyncio.run(main())
    else:
        asyncio.run(main())
    before = ended_cleanly(tmp_path)
    asyncio.run(crawl_of(site, tmp_path).wait())
    assert before < FEW == len(fetched(tmp_path)) == len({row.url for row in fetched(tmp_path)})
    assert len(site.paths()) <= FEW + 1, "of the visit that was cut short one page may be asked for again"


async def test_to_wait_no_longer_is_not_to_stop(site: Site, tmp_path: Path) -> None:
    crawl = crawl_of(site, tmp_path)
    await crawl.start()
    waiting = asyncio.create_task(crawl.wait())
    await until(lambda: crawl.status().pages >= 3)
    waiting.cancel()
    assert await crawl.wait() is End.FINISHED
    assert waiting.cancelled()


# -- what is said


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"public": True}, "user_agent"),
        ({"splitter": {"by": "region"}}, "regions"),
        ({"splitter": {"by": "region", "regions": {"a": ["a"], "b": ["b"]}}, "shards": 2}, "shards"),
        ({"splitter": {"way": "host"}}, "unknown option 'splitter.way'"),
    ],
)
async def test_errors_speak_of_keywords_and_not_of_flags(
    site: Site, tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as told:
        await crawl_of(site, tmp_path / "new", **wrong).start()
    assert "--" not in str(told.value)


async def test_what_never_changes_is_told_in_keywords(site: Site, tmp_path: Path) -> None:
    await crawl_of(site, tmp_path, shards=4).wait()
    for wrong in ({"shards": 5}, {"splitter": {"by": "host"}}):
        with pytest.raises(ConfigError, match="cannot be changed") as told:
            await crawl_of(site, tmp_path, **wrong).start()
        assert "--" not in str(told.value)


async def test_the_short_form_has_agents(site: Site, tmp_path: Path) -> None:
    crawl = lycosa.crawl([site.url()], into=tmp_path, agents=2, **OPTIONS)
    with pytest.raises(ConfigError, match="agents=1"):
        await crawl.start(pages=True)


async def test_seeds_may_be_hosts_and_repeat(tmp_path: Path) -> None:
    with serving(lambda asked: page("home") if asked.path == "/" else Said(b"", 404)) as site:
        seeds = [
            f"site.test:{site.port}",
            f"http://SITE.test:{site.port}/",
            f"http://site.test:{site.port}/#x",
        ]
        got = [page.url async for page in lycosa.Crawl(seeds, into=tmp_path, **OPTIONS)]
    assert got == [site.url()]


# -- the room between crawl and consumer


class Nothing(FetchedPage):
    """A page by its number."""

    def __init__(self, number: int) -> None:
        self.number = number


async def test_room_is_bounded_and_in_order() -> None:
    room = Pages(3)
    puts = [asyncio.ensure_future(room.put(Nothing(n))) for n in range(6)]
    await asyncio.sleep(0)
    assert [put.done() for put in puts] == [True] * 3 + [False] * 3
    assert len(room) == 6, "those that wait are in it: a visit cut short loses no page"
    numbers = []
    for _ in range(3):
        got = await room.get()
        assert isinstance(got, Nothing)
        numbers.append(got.number)
        await asyncio.sleep(0)
    assert [put.done() for put in puts] == [True] * 6
    room.close()
    while (got := await room.get()) is not None:
        assert isinstance(got, Nothing)
        numbers.append(got.number)
    assert numbers == list(range(6))
    assert await room.get() is None


async def test_a_cancelled_put_is_delivered_and_wakes_nobody_for_nothing() -> None:
    room = Pages(1)
    puts = [asyncio.ensure_future(room.put(Nothing(n))) for n in range(4)]
    await asyncio.sleep(0)
    puts[1].cancel()
    await asyncio.sleep(0)
    first = await room.get()
    await asyncio.sleep(0)
    assert isinstance(first, Nothing) and first.number == 0
    assert puts[1].cancelled() and puts[2].done() and not puts[3].done()
    room.drop()
    await asyncio.gather(puts[2], puts[3])
    assert len(room) == 0
    await room.put(Nothing(9))
    assert len(room) == 0, "dropping goes on"


async def test_several_readers_share_the_pages() -> None:
    room = Pages(10)

    async def read() -> list[int]:
        found = []
        while (got := await room.get()) is not None:
            assert isinstance(got, Nothing)
            found.append(got.number)
            await asyncio.sleep(0)
        return found

    readers = [asyncio.ensure_future(read()) for _ in range(3)]
    await asyncio.sleep(0)
    for n in range(20):
        await room.put(Nothing(n))
    room.close()
    shares = await asyncio.wait_for(asyncio.gather(*readers), 170)
    assert sorted(number for share in shares for number in share) == list(range(20))


# -- run: without asynchronous code, and where a loop runs already


def test_run_crawls_to_the_end(site: Site, tmp_path: Path) -> None:
    assert lycosa.Crawl(site.url(), into=tmp_path, **OPTIONS).run() is End.FINISHED
    assert len(list(lycosa.open(tmp_path).pages())) == len(set(site.paths()))


async def test_run_where_a_loop_is_running(site: Site, tmp_path: Path) -> None:
    """As in a notebook; the function is called once a page, in order."""
    seen: list[str] = []
    assert (
        lycosa.crawl(site.url(), into=tmp_path, **OPTIONS).run(lambda page: seen.append(page.url))
        is End.FINISHED
    )
    assert seen == [page.url for page in lycosa.open(tmp_path).pages(by_time=True)]
    with pytest.raises(ConfigError):
        lycosa.crawl(["mailto:x"], into=tmp_path / "other", **OPTIONS).run()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_function_that_fails_does_not_end_the_crawl(site: Site, tmp_path: Path, asynchronous: bool) -> None:
    seen: list[str] = []

    def look(page: lycosa.FetchedPage) -> None:
        seen.append(page.url)
        if len(seen) % 2:
            raise ValueError(f"no luck with {page.url}")

    async def wait(page: lycosa.FetchedPage) -> None:
        await asyncio.sleep(0)
        look(page)

    crawl = lycosa.Crawl(site.url(), into=tmp_path, **OPTIONS)
    assert crawl.run(wait if asynchronous else look) is End.FINISHED
    assert len(seen) == len(list(lycosa.open(tmp_path).pages())) > 2
    assert crawl.failed == (len(seen) + 1) // 2
    assert [url for url, _ in crawl.failures] == seen[::2]
    assert all(isinstance(error, ValueError) for _, error in crawl.failures)
