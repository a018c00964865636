"""Predictions: what binds is found, a recorded crawl is predicted as it was, and the seed says it all."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from lycosa.cli.main import main
from lycosa.crawl.agent import build
from lycosa.crawl.config import read_options
from lycosa.files import DiskFiles
from lycosa.lab import virtual
from lycosa.lab.costs import Costs
from lycosa.lab.network import ScriptedResolver
from lycosa.lab.predict import Predicted, Wanted, network_of, predict
from lycosa.lab.predict_network import fetchers_of
from lycosa.lab.predict_web import NEVER, Page, PredictedWeb, Site, address_of
from lycosa.lab.simulate_loop import AgentLoop
from lycosa.lab.virtual import VirtualClock

Capture = pytest.CaptureFixture[str]


def web_of(
    hosts: int, pages: int, *, latency: float = 0.1, bandwidth: float = 1e6, size: int = 10_000
) -> PredictedWeb:
    """So many hosts with so many pages each; every page links its host's next four, the first all homes."""
    urls = {(h, p): f"http://h{h}.test/{p or ''}" for h in range(hosts) for p in range(pages)}
    made = {
        url: Page(200, size, [urls[h, n] for n in range(p + 1, min(p + 5, pages))])
        for (h, p), url in urls.items()
    }
    homes = [urls[h, 0] for h in range(hosts)]
    made[homes[0]].links = [*made[homes[0]].links, *homes[1:]]
    sites = {f"h{h}.test": Site(address_of(h), latency, latency, bandwidth) for h in range(hosts)}
    return PredictedWeb("web", homes[:1], made, sites)


def comparable(made: Predicted) -> dict[str, object]:
    row = dataclasses.asdict(made)
    return {
        name: value for name, value in row.items() if name not in ("web", "simulated_cpu", "state", "log")
    }


def test_a_host_alone_takes_its_waits() -> None:
    made = predict(web_of(1, 21), Wanted(wait=10.0, pages_per_visit=1))
    assert made.pages == 21 and made.end == "finished" and made.requests == 22
    # robots.txt is a visit, too: twenty-one waits of ten seconds, and some tenths for each page.
    assert 210 < made.seconds < 210 + 22 * 0.5
    assert made.binding == "politeness" and made.bound["politeness"] > 0.9
    more = predict(web_of(1, 21), Wanted(wait=10.0, pages_per_visit=7))
    assert 30 < more.seconds < 36


def test_what_binds() -> None:
    slow = {"politeness": {"wait": 0.0, "factor": 0.0, "address_wait": 0.0}}
    link = predict(web_of(20, 10), Wanted(link=20_000.0, options=slow))
    assert link.binding == "bandwidth" and link.seconds >= link.traffic / 20_000 * 0.99
    few = predict(web_of(20, 10, latency=1.0), Wanted(visits=2, options=slow))
    assert few.binding == "visits" and few.seconds > 200 / 2
    many = predict(web_of(20, 10, latency=1.0), Wanted(visits=50, options=slow))
    assert many.seconds < few.seconds / 4
    cpu = predict(web_of(20, 10), Wanted(options=slow), Costs().with_values({"page_cpu": 1.0}, "here"))
    assert cpu.binding == "processor" and cpu.seconds >= 200


def test_failures_are_tried_again_and_nothing_is_missing() -> None:
    made = predict(web_of(4, 10), Wanted(errors=0.2, seed=3))
    assert made.failed > 0 and made.requests > 44
    assert 36 <= made.pages <= 40, "three attempts, then a page is given up"


def test_what_failed_fails_again_as_often() -> None:
    web = web_of(1, 6)
    web.pages["http://h0.test/2"].failures = 2
    web.pages["http://h0.test/3"].failures, web.pages["http://h0.test/3"].busy = 1, 50.0
    web.pages["http://h0.test/4"].failures = NEVER
    made = predict(web, Wanted(options={"retry": {"first": 20.0, "growth": 2.0}}))
    assert made.pages == 5 and made.failed == 2 + 1 + 3, "three attempts, then a page is given up"
    assert 60 < made.seconds < 120, (
        "twenty seconds and forty, with their jitter; fifty that the site asked for"
    )


def test_a_seed_says_it_all() -> None:
    web = web_of(5, 8)
    first, again = (predict(web, Wanted(errors=0.1, seed=5)) for _ in range(2))
    assert comparable(first) == comparable(again)


def test_a_limit_of_pages_is_kept() -> None:
    made = predict(web_of(5, 20), Wanted(pages=30))
    assert made.pages == 30 and made.end == "limit"


def test_two_agents_crawl_the_same_pages() -> None:
    web = web_of(4, 5)
    alone, both = predict(web, Wanted()), predict(web, Wanted(agents=2))
    assert alone.pages == both.pages == 20 and both.end == "finished"
    assert both.memory > alone.memory


@pytest.fixture
def crawled(tmp_path: Path) -> tuple[Path, float]:
    """A crawl whose directory is there, made on the model's own network; and the seconds that it took."""
    web = web_of(3, 12, latency=0.3, bandwidth=20_000.0)
    web.sites["h1.test"].robots = b"User-agent: *\nCrawl-delay: 4\n"
    options = read_options(
        {"public": False, "allow": ["127.0.0.0/8"], "scope": {"mode": "any"}, "politeness": {"wait": 3.0}}
    )
    network = network_of(web, Wanted(), Costs(), options.visits)
    network.whole = True

    async def go(clock: VirtualClock) -> None:
        agent = build(
            DiskFiles(tmp_path / "crawl"),
            options,
            web.seeds,
            shards=2,
            hash_seed=5,
            clock=clock,
            fetchers=fetchers_of(network),
            resolver=ScriptedResolver({host: site.address for host, site in web.sites.items()}),
        )
        await agent.run()

    (tmp_path / "crawl").mkdir()
    virtual.run(go)
    return tmp_path / "crawl", network.times[-1]


def test_a_recorded_crawl_is_predicted_as_it_was(crawled: tuple[Path, float], capsys: Capture) -> None:
    directory, seconds = crawled
    assert main(["lab", "predict", "--crawl", str(directory), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["pages"] == 36 and made["wanted"]["politeness"]["wait"] == 3.0
    assert made["recorded"] == pytest.approx(seconds, rel=0.05)
    # The host with a Crawl-delay decides: twelve pages, four seconds and what they take.
    assert made["seconds"] == pytest.approx(seconds, rel=0.15) and made["last_host"] == "h1.test"
    assert main(["lab", "predict", "--crawl", str(directory), "--wait", "30"]) == 0
    shown = capsys.readouterr().out
    assert "the prediction is" in shown and "politeness" in shown


def test_a_drawn_web_and_what_is_wrong(capsys: Capture) -> None:
    assert main(["lab", "predict", "--synthetic", "150", "--visits", "4", "--cost", "page_cpu=0.002"]) == 0
    assert "150 pages on" in capsys.readouterr().out
    for more, says in (
        ([], "give what is to be crawled"),
        (["--synthetic", "150", "--cost", "page=1"], "there is no cost 'page'"),
        (["--synthetic", "150", "--errors", "1"], "--errors must be at least 0"),
        (["--synthetic", "150", "--order", "sideways"], "--order is one of depth, length"),
        (["--crawl", "/nowhere"], "is not a directory"),
    ):
        assert main(["lab", "predict", *more]) == 2
        assert says in capsys.readouterr().err


def test_several_agents_that_wait_hardly_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a simulated second costs is what wakes in it: a week must take minutes."""
    timers = 0
    plain = AgentLoop.call_at

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal timers
        timers += 1
        return plain(*args, **more)

    monkeypatch.setattr(AgentLoop, "call_at", counted)
    web = web_of(4, 4)
    made = predict(web, Wanted(agents=2, wait=120.0, pages_per_visit=1))
    assert made.pages == 16 and made.end == "finished" and made.seconds > 500
    assert timers < 8 * made.seconds, "four a second; with the looks of a crawl there are eighty"
    alone = predict(web, Wanted(wait=120.0, pages_per_visit=1))
    assert made.seconds < alone.seconds + 1.1 * 120, (
        "whoever looks less often crawls as fast, but for one wait"
    )
