"""The link graph in pages: ranks, the map, a URL's neighbours, and what is said where there is no graph."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from starlette.types import ASGIApp

from lycosa.cli.main import main
from lycosa.errors import ConfigError
from lycosa.serve.app import application
from lycosa.serve.graph import ON_MAP, Graphs
from lycosa.serve.guard import Guard
from tests.crawl.made import MadeCrawl, anchors
from tests.lab.test_result import RESULT
from tests.serve.asking import ask

TOKEN = "a-token-of-24-letters-00"
HUB = "http://hub.test/"


@pytest.fixture
def made(tmp_path: Path) -> MadeCrawl:
    """Forty hosts link to a hub, which links to three of them."""
    made = MadeCrawl(tmp_path, shards=2)
    made.configure()
    made.seed(HUB)
    made.tick(60_000)
    made.fetch(HUB, links=anchors(*(f"http://h{n}.test/" for n in range(3))))
    for n in range(40):
        made.fetch(f"http://h{n}.test/", links=anchors(HUB))
    made.close()
    return made


@pytest.fixture
def app(made: MadeCrawl) -> ASGIApp:
    assert main(["graph", "build", str(made.directory)]) == 0
    return application(made.directory, Guard(TOKEN, frozenset({"here.test"})))


async def get(app: ASGIApp, target: str) -> str:
    return (await ask(app, target, accept="text/html", authorization=f"Bearer {TOKEN}")).text


async def made_at_last(app: ASGIApp, target: str) -> str:
    """The answer, once it is no more that the ranks are being made."""
    while "ranks" in (found := await get(app, target)) and "being made" in found:
        assert "it has just begun" in found or "ranking its" in found
    return found


async def test_ranks_and_the_map(app: ASGIApp, tmp_path: Path) -> None:
    found = msgspec.json.decode(await made_at_last(app, "/api/graph"))
    assert (found["pages"], found["hosts"], found["links"]) == (41, 41, 43)
    assert found["top_hosts"][0]["name"] == "hub.test" and found["top_pages"][0]["name"] == HUB
    assert found["top_hosts"][0]["rank"] > 10 > 1 > found["top_hosts"][-1]["rank"]
    assert len(found["map"]["hosts"]) == ON_MAP
    into_hub = [pair for pair in found["map"]["links"] if pair[1] == 0]
    assert len(into_hub) == ON_MAP - 1, "each of the others links to the first"
    graphs = Graphs(tmp_path)
    while (ranks := graphs.ranks().made) is None:
        pass
    near = graphs.map(ranks, "h39.test")
    assert [row.name for row in near.hosts] == ["h39.test", "hub.test"] and near.links == [(0, 1)]
    page = await made_at_last(app, "/graph")
    assert page.count('class="dot"') == ON_MAP and "/graph?host=hub.test" in page
    assert page.count('class="arc"') == len(found["map"]["links"])
    assert "does not have the host nobody.test" in await get(app, "/graph?host=nobody.test")


async def test_the_links_of_a_url_are_on_its_page(app: ASGIApp) -> None:
    found = msgspec.json.decode(await get(app, f"/api/links?u={HUB}"))
    assert (found["count_in"], found["count_out"]) == (40, 3) and len(found["into"]) == 40
    page = await get(app, f"/url?u={HUB}")
    assert "40 pages with links to it" in page and "3 links of it" in page
    assert 'class="event s2"' in page, "its fetch is in the picture"


async def test_without_a_graph(made: MadeCrawl) -> None:
    app = application(made.directory, Guard(TOKEN, frozenset({"here.test"})))
    assert "lycosa graph build" in await get(app, "/graph")
    assert "3 links of it, as last fetched" in await get(app, f"/url?u={HUB}")
    with pytest.raises(ConfigError, match="graph build"):
        Graphs(made.directory).ranks()
    assert Graphs(made.directory).neighbours(HUB) is None


async def test_results_of_experiments_that_were_kept(app: ASGIApp, made: MadeCrawl) -> None:
    assert "No results are kept" in await get(app, "/lab")
    keep = made.directory / "lab"
    keep.mkdir()
    (keep / "one.json").write_bytes(msgspec.json.encode(RESULT.as_json()))
    (keep / "other.json").write_bytes(b"{}")
    assert RESULT.experiment in await get(app, "/lab") and 'src="/lab/page"' in await get(app, "/lab")
    kept = await ask(app, "/lab/page", authorization=f"Bearer {TOKEN}")
    assert "<h1" in kept.text and kept.headers["content-security-policy"].startswith("sandbox;")
