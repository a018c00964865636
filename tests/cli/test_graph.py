"""`lycosa graph`, as a user calls it, on the log of a small crawl."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
import pytest

from lycosa.cli.main import main
from lycosa.crawl import manifest
from lycosa.files import DiskFiles
from lycosa.log.log import Log
from lycosa.records import Fetched, Link, LinkKind, Links, Lost, Record, Seeded, Timing

A, B, C, D = "http://a.example.org/", "http://a.example.org/b", "http://www.example.com/c", "http://d.org/"


def page(url: str, *targets: str, kind: LinkKind = LinkKind.ANCHOR, status: int = 200) -> Fetched:
    links = Links.pack(Link(target, kind, False, "") for target in targets)
    return Fetched(0, url, 0, 0, 0, status, "text/html", "utf-8", 1, 1, 1, Timing(), "", links)


def log(directory: Path, shard: int, *records: Record) -> None:
    out = Log(DiskFiles(directory).within(f"{manifest.shard_directory(shard)}/log"))
    for record in records:
        out.append(record)
    out.commit()


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    directory = tmp_path / "crawl"
    manifest.create(DiskFiles(directory), 0, shards=2)
    log(
        directory, 0, Seeded(0, Links.pack([Link(A, LinkKind.SEED, False, "")])), page(A, B, C), page(B, A, D)
    )
    log(directory, 1, page(D, C, kind=LinkKind.REDIRECT, status=301), page(C, A))
    return directory


@pytest.fixture
def built(crawl: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["graph", "build", str(crawl)]) == 0
    capsys.readouterr()
    return crawl


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_build_says_what_it_made(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "build", str(crawl)]) == 0
    assert lines(capsys)[0].startswith("4 URLs on 3 hosts of 3 domains, 6 links,")
    assert main(["graph", "build", str(crawl), "--json", "--memory", "1M"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["nodes"], row["arcs"], row["generation"]) == (4, 6, 2)


def test_ask(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "out", str(built), A]) == 0
    assert lines(capsys) == [C, B]  # com.example.www comes before org.example.a
    assert main(["graph", "in", str(built), "HTTP://www.example.com:80/c"]) == 0
    assert lines(capsys) == [D, A, B]
    assert main(["graph", "in", str(built), A, B]) == 0
    assert lines(capsys) == [f"{A}\t{C}", f"{A}\t{B}", f"{B}\t{A}"]
    assert main(["graph", "path", str(built), D, B]) == 0
    assert lines(capsys) == [D, C, A, B]
    assert main(["graph", "common", str(built), A, C]) == 0
    assert lines(capsys) == [B]
    assert main(["graph", "common", str(built), A, B, "--out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["common"] == [C]


def test_answers_that_are_no(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "out", str(built), "http://nowhere.org/"]) == 1
    assert "not in the graph" in capsys.readouterr().err
    assert main(["graph", "out", str(built), "http://nowhere.org/", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"url": "http://nowhere.org/", "known": False, "out": []}
    log(built, 0, page("http://e.org/"))
    assert main(["graph", "path", str(built), A, "http://e.org/"]) == 1
    assert "no links lead" in capsys.readouterr().err


def test_the_tail_counts_unless_told_otherwise(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(built, 0, page(A, "http://e.org/", D))
    assert main(["graph", "out", str(built), A]) == 0
    assert lines(capsys) == [C, "http://e.org/"]
    assert main(["graph", "out", str(built), A, "--no-tail"]) == 0
    assert lines(capsys) == [C, B]
    assert main(["graph", "build", str(built)]) == 0
    capsys.readouterr()
    assert main(["graph", "out", str(built), A, "--no-tail"]) == 0
    assert lines(capsys) == [C, "http://e.org/"]


def test_pages_that_were_taken_back_are_no_pages_of_the_graph(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the next build goes on after the records that say so."""
    gone = "http://gone.org/"
    log(crawl, 1, page(gone, A), Lost(0, gone, 0, 0, "x", 2, 200, 1, 1, 1))
    assert main(["graph", "build", str(crawl)]) == 0
    capsys.readouterr()
    assert main(["graph", "in", str(crawl), A]) == 0
    assert lines(capsys) == [C, B]
    kept = json.loads((crawl / "graph" / "graph.json").read_bytes())
    assert kept["positions"] == {"0": 3, "1": 4}
    log(crawl, 1, page(gone, A))
    assert main(["graph", "in", str(crawl), A]) == 0
    assert lines(capsys) == [C, B, gone]


def test_the_current_directory_is_the_default(
    built: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(built)
    assert main(["graph", "out", A]) == 0
    assert lines(capsys) == [C, B]


def test_a_long_build_says_how_far_it_is(
    crawl: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lycosa.cli.streams._PATIENCE", 0.0)
    log(crawl, 1, *(page(f"http://e.org/{n}") for n in range(1100)))
    assert main(["graph", "build", str(crawl)]) == 0
    assert "lycosa graph: reading the log: 1,024 records" in capsys.readouterr().err


def test_stats_name_the_page_that_has_most(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "stats", str(built)]) == 0
    shown = dict(line.rsplit(None, 1) for line in lines(capsys) if "most" in line)
    assert shown["out most url"] in (A, B) and shown["in most url"] == C
    assert "out most at" not in shown
    assert main(["graph", "stats", str(built), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["in"]["most_url"] == C


@pytest.mark.parametrize("form", ["parquet", "webgraph"])
def test_only_edges_go_to_standard_output(
    form: str,
    built: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert main(["graph", "export", str(built), "--as", form, "--to", "-"]) == 2
    assert "only edges go to standard output" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_stats(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "stats", str(built), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["nodes"], row["arcs"], row["hosts"], row["fetched"]) == (4, 6, 3, 4)
    assert row["reach"]["by_distance"] == [1, 2]  # nothing links to D any more: it redirects
    assert row["strong"] == {"count": 2, "largest": 3}
    assert main(["graph", "stats", str(built / "graph" / "out-1"), "--quick"]) == 0
    text = capsys.readouterr().out
    assert "bits per link" in text and "strong" not in text
    assert main(["graph", "stats", str(built / "graph" / "out-1.graph"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reach"] is None


def test_top(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "top", str(built), "--count", "2"]) == 0
    assert [line.split()[1] for line in lines(capsys)] == [A, C]
    assert main(["graph", "top", str(built), "--of", "hosts", "--by", "harmonic", "--json"]) == 0
    rows = [json.loads(line) for line in lines(capsys)]
    assert [row["name"] for row in rows] == ["www.example.com", "a.example.org", "d.org"]
    assert rows[0]["harmonic"] == 2.0
    assert main(["graph", "top", str(built), "--of", "domains", "--by", "in-degree", "--count", "1"]) == 0
    assert lines(capsys)[0].split() == ["2", "example.com"]


def test_export_and_import(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = tmp_path / "edges.tsv"
    assert main(["graph", "export", str(built), "--to", str(edges)]) == 0
    pairs = {tuple(line.split("\t")) for line in edges.read_text().splitlines()}
    assert pairs == {(A, B), (A, C), (B, A), (B, C), (C, A), (D, C)}
    assert main(["graph", "import", str(edges), "--into", str(tmp_path / "again")]) == 0
    assert "4 URLs on 3 hosts, 6 links" in capsys.readouterr().out
    assert main(["graph", "in", str(tmp_path / "again"), C]) == 0
    assert lines(capsys) == [D, A, B]
    parquet = tmp_path / "hosts.parquet"
    assert (
        main(["graph", "export", str(built), "--as", "parquet", "--of", "hosts", "--to", str(parquet)]) == 0
    )
    table = pyarrow.parquet.read_table(parquet).to_pydict()
    assert set(zip(table["source"], table["target"], strict=True)) == {
        ("a.example.org", "www.example.com"),
        ("www.example.com", "a.example.org"),
        ("d.org", "www.example.com"),
    }
    numbers = tmp_path / "numbers"
    assert main(["graph", "export", str(built), "--numbers", "--to", str(numbers)]) == 0
    assert main(["graph", "import", str(numbers), "--into", str(tmp_path / "bv")]) == 0
    assert (
        main(["graph", "import", str(tmp_path / "bv"), "--into", str(tmp_path / "fast"), "--preset", "fast"])
        == 0
    )
    web = tmp_path / "web"
    assert main(["graph", "export", str(tmp_path / "fast-t"), "--as", "webgraph", "--to", str(web)]) == 0
    capsys.readouterr()
    assert main(["graph", "export", str(web), "--to", str(tmp_path / "back")]) == 0
    turned = {tuple(line.split("\t"))[::-1] for line in (tmp_path / "back").read_text().splitlines()}
    assert turned == {tuple(line.split("\t")) for line in numbers.read_text().splitlines()}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["out", "{dir}", A], 2, "graph build"),
        (["build", "{dir}/nowhere"], 2, "not a directory"),
        (["stats", "{dir}/nowhere"], 2, "not a graph"),
        (["top", "{dir}", "--count", "0"], 2, "--count takes a number of rows: 1 or more, not 0"),
        (["out", "{dir}", "http://"], 2, "not a URL"),
        (["out", "{dir}"], 2, "no URL"),
        (["out"], 2, "usage"),
        (["export", "{dir}"], 2, "--to FILE"),
        (["path", A], 2, "usage"),
        (["out", "nonsense", A], 2, "neither a directory nor a URL"),
        (["build", "{dir}", "--preset", "tiny"], 2, "no preset"),
        (["import", "{dir}/crawl.json", "--into", "{dir}/x"], 2, "line 1"),
        (["top", "{dir}/shards", "--of", "hosts"], 2, "no link graph"),
    ],
)
def test_mistakes_get_one_line(
    crawl: Path, words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", *(word.format(dir=crawl) for word in words)]) == code
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_damaged_graph_names_its_file(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urls = built / "graph" / "urls-1"
    urls.write_bytes(urls.read_bytes()[:-1])
    assert main(["graph", "out", str(built), A]) == 3
    assert "urls-1 is damaged" in capsys.readouterr().err
