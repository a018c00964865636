"""Acts on a crawl that runs, over real sockets: each does what it says, is in the log once, and survives a kill."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lycosa
from lycosa.ask.explain import explain
from lycosa.ask.reading import CrawlReader
from lycosa.ask.report import make_report
from lycosa.crawl.agent import End
from lycosa.crawl.steering import ActFiles, Steering, new_act
from lycosa.errors import ConfigError
from lycosa.records import Configured, Skipped, Why
from tests.crawl.recorded import FLAGS, OPTIONS, Asked, Said, Site, chain, fetched, page, serving

LONG = 2_000
SLOW = {**OPTIONS["politeness"], "wait": 0.02, "pages_per_visit": 1}


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - there is no event; what never comes is ended by the test's timeout
        await asyncio.sleep(0.01)


async def asked(into: Path, *words: str) -> str:
    return await asyncio.to_thread(Steering(into, who="ann@here").act, *words)


async def begun(site: Site, into: Path, **more: Any) -> lycosa.Crawl:
    crawl = lycosa.Crawl(site.url(), into=into, **{**OPTIONS, "politeness": SLOW, **more})
    await crawl.start()
    await until(lambda: crawl.status().pages >= 3)
    return crawl


def acts(into: Path) -> list[tuple[str, str]]:
    """Who did what, as each shard's log has it; every log must say the same."""
    reader = CrawlReader(into)
    told: dict[int, list[tuple[str, str]]] = {shard: [] for shard in range(len(reader.logs))}
    for shard, _, record in reader.records():
        if isinstance(record, Configured):
            told[shard] += [(who, what) for _, _, who, what in record.acts]
    (same,) = {tuple(rows) for rows in told.values()}
    return list(same)


async def test_pause_go_on_and_stop(tmp_path: Path) -> None:
    with serving(chain(LONG)) as site:
        crawl = await begun(site, tmp_path)
        assert await asked(tmp_path, "pause") == "done"
        await until(lambda: crawl.status().visits == 0)
        held = crawl.status().pages
        assert await asked(tmp_path, "set", "limits.bytes=1000000000") == "done"  # another act: still paused
        assert crawl.status().pages == held
        assert await asked(tmp_path, "go-on") == "done"
        await until(lambda: crawl.status().pages > held)
        assert await asked(tmp_path, "stop") == "done"
        assert await crawl.wait() is End.STOPPED
    told = [("ann@here", text) for text in ("pause", "set limits.bytes=1000000000", "go-on", "stop")]
    assert acts(tmp_path) == told
    assert [(row.who, row.what) for row in make_report(CrawlReader(tmp_path), at=0).acts] == told
    assert not list((tmp_path / "control").iterdir()), "acts and answers are gone when they are done"


async def test_more_seeds_and_another_limit(tmp_path: Path) -> None:
    with serving(lambda row: chain(LONG)(row) if row.host.startswith("site") else page("other")) as site:
        crawl = await begun(site, tmp_path)
        more = site.url("/", "more.test")
        assert await asked(tmp_path, "seed", more) == "done"
        await until(lambda: site.paths("more.test") == ["/"])
        assert await asked(tmp_path, "pause") == "done"  # else it may be past the limit when that arrives
        await until(lambda: crawl.status().visits == 0)
        limit = crawl.status().pages + 20
        assert await asked(tmp_path, "set", f"limits.pages={limit}") == "done"
        assert await asked(tmp_path, "go-on") == "done"
        assert await crawl.wait() is End.LIMIT
        assert crawl.status().pages == limit
    found = explain(CrawlReader(tmp_path), more)
    assert found.state == "fetched"
    assert [(who, what) for _, _, who, what in found.acts] == [("ann@here", f"seed {more}")]


async def test_a_site_is_held_released_and_blocked(tmp_path: Path) -> None:
    with serving(chain(LONG)) as site:
        crawl = await begun(site, tmp_path)
        assert await asked(tmp_path, "site", "site.test", "hold") == "done"
        await until(lambda: crawl.status().visits == 0)
        held = len(site.asked)
        assert await asked(tmp_path, "set", "visits=7") == "done"  # half a second has gone by, at least
        assert len(site.asked) == held
        assert await asked(tmp_path, "site", "site.test", "release") == "done"
        await until(lambda: len(site.asked) > held + 3)
        assert await asked(tmp_path, "site", "site.test", "block") == "done"
        assert await crawl.wait() is End.FINISHED  # nothing else is in scope
    skips = [row for _, _, row in CrawlReader(tmp_path).records() if isinstance(row, Skipped)]
    assert skips and {row.why for row in skips} == {Why.SCOPE}
    assert len(fetched(tmp_path)) < LONG


async def test_a_site_has_a_budget_and_more_of_it_brings_back_what_was_skipped(tmp_path: Path) -> None:
    with serving(chain(200)) as site:
        crawl = await begun(site, tmp_path)
        assert await asked(tmp_path, "pause") == "done"
        await until(lambda: crawl.status().visits == 0)
        some = crawl.status().pages + 5
        assert await asked(tmp_path, "site", "site.test", "budget", str(some)) == "done"
        assert await asked(tmp_path, "go-on") == "done"
        assert await crawl.wait() is End.FINISHED
        assert len(fetched(tmp_path)) == some
        assert "next start" in await asked(tmp_path, "site", "site.test", "budget", "0")
        again = lycosa.Crawl(site.url(), into=tmp_path, **{**OPTIONS, "politeness": SLOW})
        await again.start()
        assert await again.wait() is End.FINISHED
    assert len(fetched(tmp_path)) == 200


async def test_a_boosted_host_goes_before_the_others(tmp_path: Path) -> None:
    """Slowly at first, so that all are still at it when it is paused; then as fast as it can."""
    leaves = [f"/{n}" for n in range(120)]
    with serving(lambda row: page("leaf") if row.path != "/" else page("all", *leaves)) as site:
        hosts = [f"h{n}.test" for n in range(12)]
        wanted = hosts[-1]
        crawl = lycosa.Crawl(
            [site.url("/", host) for host in hosts],
            into=tmp_path,
            **{**OPTIONS, "visits": 1, "politeness": {**SLOW, "wait": 0.3}},
        )
        await crawl.start()
        await until(lambda: len(site.paths(wanted)) >= 2)
        for words in (("pause",), ("site", wanted, "boost"), ("set", "politeness.wait=0")):
            assert await asked(tmp_path, *words) == "done"
        await until(lambda: crawl.status().visits == 0)
        before = {host: len(site.paths(host)) for host in hosts}
        assert await asked(tmp_path, "go-on") == "done"
        await until(lambda: len(site.paths(wanted)) == len(leaves) + 1)
        grown = {host: len(site.paths(host)) - before[host] for host in hosts}
        await crawl.stop()
    assert max(grown[host] for host in hosts[:-1]) < grown[wanted] / 3, (
        "its pages come before those of others"
    )


async def test_what_cannot_be_done_is_said_and_leaves_no_trace(tmp_path: Path) -> None:
    with serving(chain(LONG)) as site:
        crawl = await begun(site, tmp_path, scope={"include_paths": ["/"]})
        with pytest.raises(ConfigError, match="cannot be changed"):
            await asked(tmp_path, "set", "fetch.user_agent=x")
        files = ActFiles(tmp_path)
        bad = new_act("set", ("limits.pages=x",))  # left by somebody who does not check
        files.leave(bad)
        (tmp_path / "control" / "00-junk.act").write_bytes(b"{")
        await until(lambda: not list((tmp_path / "control").glob("*.act")))
        answer = files.answer_to(bad)
        assert answer is not None and not answer.ok and "pages" in answer.text
        await crawl.stop()
    assert acts(tmp_path) == []
    with pytest.raises(ConfigError, match="nothing to stop"):
        Steering(tmp_path).stop()
    with pytest.raises(ConfigError, match="not the directory of a crawl"):
        Steering(tmp_path / "nowhere")


def start(site: Site, into: Path) -> subprocess.Popen[bytes]:
    words = [
        "crawl",
        site.url(),
        "--into",
        str(into),
        *FLAGS,
        "--agents",
        "1",
        "--set",
        "politeness.wait=0.05",
    ]
    words += ["--set", "politeness.pages_per_visit=1"]
    return subprocess.Popen([sys.executable, "-m", "lycosa.cli.main", *words], stderr=subprocess.PIPE)


def wait_for(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.02)


def test_an_act_that_a_kill_cut_short_is_done_once_by_the_next_run(tmp_path: Path) -> None:
    """Killed with an act logged and its file not yet removed, and with another not seen: the same in the end."""
    into = tmp_path / "crawl"
    pages, go_on = chain(LONG), threading.Event()

    def gated(row: Asked) -> Said:
        """Before the kill the limit is not reached, however late that comes: later pages do not answer yet."""
        if row.path[1:].isdigit() and int(row.path[1:]) >= 20:
            go_on.wait(170)
        return pages(row)

    with serving(gated) as site:
        process = start(site, into)
        wait_for(lambda: len(site.asked) > 5)
        first = new_act("set", ("limits.pages=40",), "ann@here")
        ActFiles(into).leave(first)
        wait_for(lambda: not (into / "control" / f"{first.id}.act").exists())
        process.send_signal(signal.SIGSTOP)  # a second one comes, and nobody sees it before the kill
        second = new_act("pause", (), "ann@here")
        ActFiles(into).leave(second)
        process.kill()
        process.communicate()
        go_on.set()
        ActFiles(into).leave(first)  # as if the kill had come before its file was removed
        process = start(site, into)
        wait_for(lambda: not list((into / "control").glob("*.act")))
        steering = Steering(into, who="ann@here")
        assert steering.go_on() == "done"
        assert process.wait(timeout=240) == 0
        process.communicate()
    assert acts(into) == [("ann@here", text) for text in ("set limits.pages=40", "pause", "go-on")]
    assert len(fetched(into)) == 40
