"""`lycosa lab list`, `run` and `report`, as a user calls them."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.files import DiskFiles
from lycosa.graph.build import build_from_edges
from lycosa.graph.bv_writer import BVWriter
from lycosa.graph.gather import Options
from lycosa.lab.experiments import distribution, synthetic, synthetic_fit
from lycosa.lab.experiments.register import EXPERIMENTS
from lycosa.lab.experiments.web import Web
from lycosa.url.domains import Domains

Capture = pytest.CaptureFixture[str]


def test_the_list_has_every_experiment_and_each_can_be_loaded(capsys: Capture) -> None:
    assert main(["lab", "list"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    for entry in EXPERIMENTS:
        assert entry.name in shown and entry.paper in " ".join(shown.split())
        module = entry.load()
        assert module.PAPER and module.CLAIM and (hasattr(module, "run") or hasattr(module, "run_alone"))


def test_a_table_json_figures_and_a_page(tmp_path: Path, capsys: Capture) -> None:
    kept, figures = tmp_path / "kept", tmp_path / "figures"
    more = ["--keep", str(kept), "--plot", str(figures)]
    assert main(["lab", "run", "distribution", "--synthetic", "2k", *more]) == 0
    shown = capsys.readouterr().out
    assert "verdict" in shown and "synthetic-2000: 2,000 pages" in shown and "start set:" in shown
    assert [path.name for path in kept.iterdir()] == ["distribution.synthetic-2000.json"]
    assert all(path.read_text().startswith("<svg") for path in figures.iterdir())
    assert main(["lab", "run", "distribution", "--synthetic", "2k", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == json.loads((kept / "distribution.synthetic-2000.json").read_bytes()), (
        "not the same again"
    )
    assert answer["definitions"]["seed"] == "0" and answer["lines"][0]["verdict"]
    assert main(["lab", "run", "distribution", "--synthetic", "2k", "--json", "--seed", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["lines"] != answer["lines"], "the seed changes nothing"
    assert main(["lab", "report", str(kept)]) == 0
    assert "1 result" in capsys.readouterr().out
    page = (kept / "report.html").read_text()
    assert "distribution, on synthetic-2000" in page and "<svg" in page
    assert main(["lab", "report", str(kept), "--to", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_text() == page
    assert main(["lab", "report", str(kept), "--to", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text().startswith("## distribution, on synthetic-2000")


def test_it_runs_on_a_graph_on_a_web_like_it_and_on_a_crawls_own(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = synthetic.draw(500, 2)
    writer = BVWriter(DiskFiles(tmp_path), "small")
    writer.append(drawn.lists.starts, drawn.lists.nodes)
    writer.close()
    assert main(["lab", "run", "distribution", "--graph", str(tmp_path / "small.graph"), "--json"]) == 0
    web = json.loads(capsys.readouterr().out)["web"]
    assert web["name"] == "small" and web["pages"] == 500 and "numbers" in web["sites from"]
    monkeypatch.setattr(synthetic_fit, "SAMPLE", 200)
    monkeypatch.setattr(synthetic_fit, "STEPS", ())
    like = ["--like", str(tmp_path / "small")]
    assert main(["lab", "run", "distribution", "--synthetic", "1k", *like, "--json"]) == 0
    web = json.loads(capsys.readouterr().out)["web"]
    assert web["name"] == "synthetic-1000-like-small" and web["fitted to"].startswith(
        "small (500 pages: links"
    )
    assert "bits a link" in web["fitted to"] and web["bits a link"] > 0
    links = [(b"http://a.test/", b"http://a.test/x/%d" % i) for i in range(20)]
    links += [(b"http://a.test/x/%d" % i, b"http://b.test/") for i in range(20)]
    build_from_edges(DiskFiles(tmp_path / "made"), links, Options(), Domains(Domains.bundled_list()).domain)
    assert main(["lab", "run", "distribution", "--crawl", str(tmp_path / "made"), "--json"]) == 0
    web = json.loads(capsys.readouterr().out)["web"]
    assert (web["pages"], web["sites"], web["sites from"]) == (22, 2, "hosts of URLs")
    assert web["links that stay on their site"] == 0.5
    crawl = ["--like", str(tmp_path / "made")]
    assert main(["lab", "run", "distribution", "--synthetic", "1k", *crawl, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["web"]["name"] == "synthetic-1000-like-made"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run"], "name an experiment"),
        (["run", "nothing", "--synthetic", "1k"], "no experiment 'nothing': there are s"),
        (["run", "caching"], "give what to run on"),
        (["run", "caching", "--synthetic", "1k", "--graph", "g"], "one of --graph"),
        (["run", "caching", "--synthetic", "10"], "at least 100"),
        (["run", "caching", "--graph", "nowhere"], "not a BV graph"),
        (["run", "caching", "--crawl", "."], "no link graph"),
        (["run", "caching", "--graph", "g", "--like", "g"], "--synthetic web"),
        (["run", "caching", "--synthetic", "1k", "--like", "nowhere"], "not a BV graph"),
        (["run", "caching", "--synthetic", "1k", "--like", "."], "no link graph"),
        (["run", "uniqueness", "--synthetic", "1M", "--like", "g"], "draws its own URLs"),
        (["run", "caching", "--synthetic", "1k", "--keep", "FILE"], "is a file"),
        (["run", "uniqueness", "--graph", "g"], "draws its own URLs"),
        (["report"], "give the directory of the results"),
        (["report", "."], "holds no results"),
        (["report", "DAMAGED"], "is not a result"),
        (["list", "extra"], "list takes no name: extra"),
        (
            ["freshness", "--pages", "0"],
            "freshness has no --pages: it is an option of predict, plan, tune, sim",
        ),
        (["list", "--graph", "g"], "list has no --graph: it is an option of run"),
    ],
)
def test_mistakes_get_one_line(
    args: list[str], says: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("")
    Path("DAMAGED").mkdir()
    Path("DAMAGED/x.json").write_text("{}")
    assert main(["lab", *args]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert says in error[-1] and len(error) == 1


@pytest.mark.parametrize("option", ["--keep", "--plot"])
def test_a_place_that_cannot_be_made_is_told_before_the_run(
    option: str, tmp_path: Path, capsys: Capture
) -> None:
    """It was told after it, and the result of hours was lost."""
    (tmp_path / "file").write_text("")
    assert main(["lab", "run", "caching", "--synthetic", "1k", option, str(tmp_path / "file" / "kept")]) == 3
    said = capsys.readouterr()
    assert "cannot make" in said.err and len(said.err.splitlines()) == 1 and not said.out


def test_a_web_larger_than_the_machine_is_refused(capsys: Capture) -> None:
    assert main(["lab", "run", "caching", "--synthetic", "1T"]) == 2
    assert "of memory, and this machine has" in capsys.readouterr().err


def test_a_signal_ends_a_run_while_its_kernel_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel in the main thread would hold the signal back until its end."""
    over, under = threading.Event(), threading.Event()

    def kernel(web: Web, told: Callable[[str], None]) -> None:
        under.set()
        os.kill(os.getpid(), signal.SIGINT)
        over.wait()

    monkeypatch.setattr(distribution, "run", kernel)
    try:
        assert main(["lab", "run", "distribution", "--synthetic", "2k"]) == 130
        assert under.is_set() and not over.is_set()
    finally:
        over.set()
