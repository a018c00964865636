"""`lycosa lab`, as a user calls it, on graphs written for the purpose."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from lycosa.cli.main import main
from lycosa.files import DiskFiles
from lycosa.graph.build import build_from_edges
from lycosa.graph.bv_writer import BVWriter
from lycosa.graph.gather import Options
from lycosa.url.domains import Domains

Capture = pytest.CaptureFixture[str]
N = 300


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hubs of 30 links, each of which leads to two pages and to the next hub; pages lead back."""
    place = tmp_path_factory.mktemp("graph")
    random = np.random.default_rng(5)
    rows: list[list[int]] = []
    for v in range(N):
        near = [(v + step) % N for step in range(1, 31 if v % 10 == 0 else 3)]
        rows.append(sorted({*near, *random.integers(0, N, 2).tolist()}))
    starts = np.zeros(N + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=starts[1:])
    writer = BVWriter(DiskFiles(place), "small")
    writer.append(starts, np.array([w for row in rows for w in row], np.int32))
    writer.close()
    return place / "small"


def answers(capsys: Capture, *args: str) -> list[dict[str, Any]]:
    assert main(["lab", "sydney", *args, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_table_has_every_rule_and_the_papers_numbers(graph: Path, capsys: Capture) -> None:
    assert main(["lab", "sydney", str(graph)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("small: 300 pages, ")
    names = [line.partition("  ")[0] for line in shown[4:]]
    assert names[:7] == [
        "breadth-first",
        "last in, first out",
        "depth-first",
        "t=64",
        "t=32",
        "t=16",
        "t=8",
    ]
    eight = next(line for line in shown if line.startswith("t=8 "))
    assert "(7)" in eight and "(2.2)" in eight
    assert any(line.startswith("t=8, budget 3%") and "(93.8)" in line for line in shown)
    assert any(line.startswith("frontier, adaptive, room 5%") for line in shown)


def test_json_says_the_same_in_full(graph: Path, capsys: Capture) -> None:
    head, *rows = answers(capsys, f"{graph}.graph", "--t", "8,4", "--budget", "20", "--start", "3,8")
    assert (head["nodes"], head["explored"], head["start"]) == (N, N, [3, 8])
    by_name = {row["rule"]: row for row in rows}
    bfs, four = by_name["breadth-first"], by_name["t=4"]
    assert (bfs["coverage"], bfs["of_bfs"], bfs["returns"]) == (1.0, 1.0, 0.0)
    assert four["coverage"] == 1.0 and four["returned"] > 0 and four["peak"] < bfs["peak"]
    assert four["returns"] >= four["returned"]
    assert by_name["t=4, truncated"]["returned"] == 0
    assert by_name["t=4, budget 20%"]["peak"] <= 0.2
    assert by_name["frontier, t=4"]["coverage"] == 1.0
    for row in rows:
        for points in row["worth"].values():
            known = [x for x in points if x is not None]
            assert known == sorted(known) and known[-1] <= 1.0 + 1e-9
    assert answers(capsys, str(graph), "--t", "8,4", "--budget", "20", "--start", "3,8") == [head, *rows]
    other = answers(capsys, str(graph), "--t", "8,4", "--budget", "20", "--start", "3,8", "--seed", "1")
    assert other[1:] != rows, "the seed changes nothing"


def test_repeated(graph: Path, capsys: Capture) -> None:
    args = [str(graph), "--t", "4", "--budget", "20", "--repeat", "4"]
    rows = {row["rule"]: row for row in answers(capsys, *args)[1:]}
    assert len(set(rows["breadth-first"]["peaks"])) == 1
    four = rows["t=4"]
    assert len(four["peaks"]) == 4 and len(set(four["peaks"])) > 1 and four["peak"] == median(four["peaks"])
    assert set(four["coverages"]) == {1.0}
    assert main(["lab", "sydney", *args]) == 0
    shown = capsys.readouterr().out
    assert "medians of 4 crawls" in shown and "|P|+|S|: least, most" in shown


def test_a_crawls_own_graph_starts_at_its_seeds_and_knows_home_pages(tmp_path: Path, capsys: Capture) -> None:
    links = [(b"http://a.test/", b"http://a.test/x/%d" % i) for i in range(20)]
    links += [(b"http://a.test/x/%d" % i, b"http://b.test/") for i in range(20)]
    directory = tmp_path / "made"
    domains = Domains(Domains.bundled_list())
    build_from_edges(DiskFiles(directory), links, Options(), domains.domain)
    head, *rows = answers(capsys, str(directory), "--start", "0", "--t", "4", "--budget", "50")
    assert head["explored"] == 22
    assert rows[0]["worth"].keys() == {"PageRank", "in-degree", "home pages"}
    assert rows[0]["worth"]["home pages"][-1] == 1.0, "both home pages are found"
    assert main(["lab", "sydney", str(directory)]) == 2
    assert "no seeds" in capsys.readouterr().err


def test_through_a_shard(graph: Path, capsys: Capture) -> None:
    args = [str(graph), "--t", "4", "--budget", "20", "--through"]
    rows = [row for row in answers(capsys, *args) if row.get("through")]
    assert [row["rule"] for row in rows] == ["frontier, t=4", "frontier, adaptive, room 20%"]
    assert all(row["as_kernel"] and row["coverage"] == 1.0 for row in rows)


def test_plot(graph: Path, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "sydney.png"
    assert main(["lab", "sydney", str(graph), "--t", "4", "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [picture]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere"], "is not a graph"),
        (["."], "no link graph"),
        (["GRAPH", "--start", "300"], "no node 300"),
        (["GRAPH", "--start", "-1"], "no node -1"),
        (["GRAPH", "--t", "0"], "--t must be at least 1"),
        (["GRAPH", "--budget", "0"], "--budget must be at least 1"),
        (["GRAPH", "--repeat", "0"], "--repeat must be at least 1"),
        (["GRAPH", "--shallow", "-1"], "--shallow must be at least 0"),
        (["GRAPH", "--plot", "."], "directory"),
    ],
)
def test_mistakes_get_one_line(
    graph: Path, args: list[str], says: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    args = [str(graph) if arg == "GRAPH" else arg for arg in args]
    if "--start" in args:
        args = [*args[:1], f"--start={args[2]}"]
    assert main(["lab", "sydney", *args]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert says in error[-1] and len(error) == 1


def test_a_plot_without_matplotlib_is_refused_at_once(
    graph: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name)
    )
    assert main(["lab", "sydney", str(graph), "--plot", "x.png"]) == 2
    assert "pip install 'lycosa[lab]'" in capsys.readouterr().err
