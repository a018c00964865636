"""Tuning: what is proposed for a recorded crawl, and that a crawl with the proposal goes as predicted."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lycosa.cli.lab_tune import toml
from lycosa.cli.main import main
from lycosa.crawl.agent import build
from lycosa.crawl.config import read_options
from lycosa.files import DiskFiles
from lycosa.lab import virtual
from lycosa.lab.costs import Costs
from lycosa.lab.network import ScriptedResolver
from lycosa.lab.predict import Wanted, network_of
from lycosa.lab.predict_network import fetchers_of
from lycosa.lab.predict_web import PredictedWeb
from lycosa.lab.tune import hit_rates, tune
from lycosa.lab.virtual import VirtualClock
from tests.lab.test_predict import web_of

Capture = pytest.CaptureFixture[str]


def quiet(_: str) -> None:
    """Nobody listens."""


def crawl(web: PredictedWeb, place: Path, **options: Any) -> float:
    """Crawl an embedded web into a directory, and say how long it took."""
    table = {"public": False, "allow": ["127.0.0.0/8"], "scope": {"mode": "any"}, **options}
    read = read_options(table)
    network = network_of(web, Wanted(), Costs(), read.visits)
    network.whole = True

    async def go(clock: VirtualClock) -> None:
        agent = build(
            DiskFiles(place),
            read,
            web.seeds,
            shards=1,
            hash_seed=5,
            clock=clock,
            fetchers=fetchers_of(network),
            resolver=ScriptedResolver({host: site.address for host, site in web.sites.items()}),
        )
        await agent.run()

    place.mkdir()
    virtual.run(go)
    return network.times[-1]


def test_a_crawl_with_the_proposal_goes_as_predicted(tmp_path: Path, capsys: Capture) -> None:
    web = web_of(12, 12, latency=0.2, bandwidth=50_000.0)
    before = crawl(web, tmp_path / "before", visits=3, politeness={"wait": 2.0})
    assert main(["lab", "tune", "--crawl", str(tmp_path / "before"), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    by_what = {(row["what"], row["value"]): row for row in made["trials"]}
    base, proposed = by_what["as it was", ""], by_what["proposed", ""]
    assert base["seconds"] == pytest.approx(before, rel=0.1) and base["binding"] == "visits"
    assert made["options"]["visits"] == 12, "there are twelve hosts: more would not help, fewer would"
    options = made["options"]
    assert ("batch" in options.get("frontier", {})) == (options.get("frontier", {}).get("order") == "partial")
    again = crawl(
        web,
        tmp_path / "after",
        **{**options, "politeness": {"wait": 2.0, **options.get("politeness", {})}},
    )
    assert again == pytest.approx(proposed["seconds"], rel=0.1) and again < before / 2


def test_what_is_printed_is_toml_of_a_crawl(tmp_path: Path, capsys: Capture) -> None:
    web = web_of(6, 6, latency=0.2)
    crawl(web, tmp_path / "before", visits=2)
    assert main(["lab", "tune", "--crawl", str(tmp_path / "before")]) == 0
    shown = capsys.readouterr().out
    assert "for crawl.toml:" in shown and "hits of the URL cache" in shown
    table = tomllib.loads(shown.partition("for crawl.toml:")[2])
    assert read_options({**table, "public": False}).visits == table["visits"] > 2
    assert main(["lab", "tune"]) == 2
    assert "give the crawl" in capsys.readouterr().err


def test_nothing_is_proposed_where_nothing_helps() -> None:
    web = web_of(1, 10)
    made = tune(web, Wanted(visits=1, pages_per_visit=1, wait=5.0, order="depth"), quiet)
    assert "visits" not in made.options, "one host is visited once at a time"
    assert (
        made.options["politeness"]["pages_per_visit"] == 4
        and made.proposed.seconds < made.baseline.seconds / 2
    )


def test_hits_are_those_of_the_links_met() -> None:
    web = web_of(1, 2)
    web.met = np.array([1, 2, 3, 1, 2, 3], np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert hit_rates(web, [0, 6]) == {1: 0.0, 64: 0.5}


def test_toml_has_rooms_after_what_has_none() -> None:
    made = toml({"frontier": {"order": "length"}, "visits": 8})
    assert tomllib.loads(made) == {"visits": 8, "frontier": {"order": "length"}} and made.startswith("visits")
