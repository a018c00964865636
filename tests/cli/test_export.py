"""`lycosa export`, run as users run it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from lycosa.archive.cdxj import Index
from lycosa.archive.reader import read_head
from lycosa.cli.main import main
from lycosa.files import DiskFiles
from tests.crawl.made import MadeCrawl, small

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    return small(tmp_path / "crawl").directory


def test_to_standard_output(crawl: Path, capsys: Capture) -> None:
    assert main(["export", str(crawl), "pages"]) == 0
    found = capsys.readouterr()
    assert [json.loads(line)["status"] for line in found.out.splitlines()] == [200, 200, 404, 301, 200]
    assert found.err == ""
    assert main(["export", str(crawl), "--text", "pages", "--to", "-"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["text"].startswith("The home page")


def test_to_files_by_name(crawl: Path, tmp_path: Path, capsys: Capture) -> None:
    import pyarrow.parquet

    assert main(["export", str(crawl), "links"]) == 0
    expected = capsys.readouterr().out.encode()
    assert expected.count(b"\n") == 8
    names = ("l.jsonl", "l.jsonl.gz", "l.jsonl.zst", "l.parquet")
    for name in names:
        assert main(["export", str(crawl), "links", "--to", str(tmp_path / name)]) == 0
        assert capsys.readouterr().err == f"wrote 8 links to {tmp_path / name}\n"
    assert (tmp_path / "l.jsonl").read_bytes() == expected
    assert gzip.decompress((tmp_path / "l.jsonl.gz").read_bytes()) == expected
    with zstandard.open(tmp_path / "l.jsonl.zst", "rb") as file:
        assert file.read() == expected
    assert pyarrow.parquet.read_table(tmp_path / "l.parquet").num_rows == 8
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == sorted(names)


def test_csv(crawl: Path, tmp_path: Path, capsys: Capture) -> None:
    """The same rows as in JSON lines, by the name of the file or by --format."""
    for what, flags in (("links", []), ("pages", ["--text", "--body"])):
        assert main(["export", str(crawl), what, *flags]) == 0
        expected = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        for name in (f"{what}.csv", f"{what}.csv.gz"):
            assert main(["export", str(crawl), what, *flags, "--to", str(tmp_path / name)]) == 0
        assert main(["export", str(crawl), what, *flags, "--format", "csv"]) == 0
        text = (tmp_path / f"{what}.csv").read_bytes().decode()
        assert gzip.decompress((tmp_path / f"{what}.csv.gz").read_bytes()).decode() == text
        assert capsys.readouterr().out == text
        found = list(csv.DictReader(io.StringIO(text, newline="")))
        assert [{name: _cell(value) for name, value in row.items()} for row in expected] == found


def _cell(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("name", ["l.xlsx", "l.tsv", "l.parquet.gz", "l.xml.zst"])
def test_a_name_of_no_format_is_refused(name: str, crawl: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["export", str(crawl), "links", "--to", str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"lycosa export: {name} names no format: let it end in .jsonl, .csv")
    assert len(said.splitlines()) == 1 and not (tmp_path / name).exists()
    if "parquet" not in name:
        assert main(["export", str(crawl), "links", "--to", str(tmp_path / name), "--format", "jsonl"]) == 0


def test_the_index_of_the_archive(crawl: Path, tmp_path: Path, capsys: Capture) -> None:
    for to in (crawl / "archive" / "index.cdxj", tmp_path / "other.cdxj"):
        args = [] if to.parent.name == "archive" else ["--to", str(to)]
        assert main(["export", str(crawl), "cdxj", *args]) == 0
        assert capsys.readouterr().err == f"wrote 3 captures to {to}\n"
        index = Index(DiskFiles(to.parent), to.name)
        assert [entry.url for entry in index] == ["http://a.test/", "http://a.test/1", "http://a.test/gone"]
        (gone,) = index.lookup("http://a.test/gone")
        assert gone.status == "404"
        record = read_head(DiskFiles(crawl / "archive"), gone.filename, gone.offset, gone.length)
        assert record.kind == "response" and record.fields["warc-target-uri"] == "http://a.test/gone"


def test_a_reader_that_leaves(tmp_path: Path) -> None:
    made = MadeCrawl(tmp_path / "crawl")
    for number in range(3000):
        made.fetch(f"http://a.test/{number}", title="x" * 100)
    made.close()
    command = f"{sys.executable} -m lycosa.cli.main export {tmp_path / 'crawl'} pages | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, timeout=170)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == b""


def test_mistakes(crawl: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = MadeCrawl(tmp_path / "bare")
    bare.fetch("http://a.test/")
    bare.close()
    for args, message in (
        ([str(tmp_path), "pages"], "is not the directory of a crawl"),
        ([str(crawl), "links", "--text"], "belong to pages"),
        ([str(crawl), "pages", "--format", "parquet"], "add --to pages.parquet"),
        ([str(crawl), "pages", "--to", str(tmp_path / "no/x.jsonl")], "cannot write"),
        ([str(crawl), "pages", "--to", str(tmp_path / "no/x.parquet")], "cannot write"),
        ([str(crawl), "pages", "--to", str(tmp_path)], "it is a directory"),
        ([str(crawl), "cdxj", "--to", str(tmp_path / "no/x.cdxj")], "cannot write"),
        ([str(crawl), "cdxj", "--to", str(tmp_path)], "it is a directory"),
        ([str(crawl), "cdxj", "--to", "-"], "give --to a file"),
        ([str(crawl), "cdxj", "--format", "jsonl"], "leave --format out"),
        ([str(tmp_path / "bare"), "cdxj"], "nothing to index"),
    ):
        assert main(["export", *args]) == 2, args
        found = capsys.readouterr()
        assert message in found.err
        assert found.err.count("\n") == 1
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["export", str(crawl), "pages", "--to", str(tmp_path / "x.parquet")]) == 2
    assert "pip install 'lycosa[parquet]'" in capsys.readouterr().err
    assert not any(path.name.endswith((".part", ".parquet")) for path in tmp_path.iterdir())


def test_a_damaged_archive_is_said(crawl: Path, tmp_path: Path, capsys: Capture) -> None:
    (file,) = (crawl / "archive").glob("*.warc.gz")
    os.truncate(file, file.stat().st_size - 30)
    assert main(["export", str(crawl), "pages", "--text", "--to", str(tmp_path / "x.jsonl")]) == 3
    found = capsys.readouterr().err
    assert "damaged archive" in found and found.count("\n") == 1
    assert not (tmp_path / "x.jsonl").exists()


def test_columns_from_the_archive(crawl: Path, tmp_path: Path, capsys: Capture) -> None:
    import pyarrow.parquet

    wanted = "status,url,headers,language,text"
    assert main(["export", str(crawl), "pages", "--columns", wanted]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert list(rows[0]) == wanted.split(",")
    assert {"name": "Content-Type", "value": "text/html; charset=utf-8"} in rows[0]["headers"]
    assert rows[0]["text"].startswith("The home page") and rows[0]["language"] == "en"
    file = tmp_path / "p.parquet"
    assert main(["export", str(crawl), "pages", "--columns", wanted, "--to", str(file)]) == 0
    assert pyarrow.parquet.read_table(file).to_pylist() == rows
    assert main(["export", str(crawl), "pages", "--columns", wanted, "--to", str(tmp_path / "p.csv")]) == 0
    first = next(csv.DictReader(io.StringIO((tmp_path / "p.csv").read_text())))
    assert json.loads(first["headers"]) == rows[0]["headers"]
    assert main(["export", str(crawl), "pages", "--columns", "url,langauge"]) == 2
    assert "did you mean language?" in capsys.readouterr().err


@pytest.mark.parametrize("partition", ["site", "day", "shard"])
def test_partitions(crawl: Path, tmp_path: Path, partition: str) -> None:
    """A directory for each value; what a reader of partitions finds is the table of one file."""
    import pyarrow.dataset
    import pyarrow.parquet

    whole, parted, text = tmp_path / "whole.parquet", tmp_path / "parted.parquet", tmp_path / "parted.csv"
    assert main(["export", str(crawl), "pages", "--to", str(whole)]) == 0
    for to in (parted, text):
        assert main(["export", str(crawl), "pages", "--partition", partition, "--to", str(to)]) == 0
    rows = pyarrow.parquet.read_table(whole).to_pylist()
    found = pyarrow.dataset.dataset(parted, format="parquet", partitioning="hive").to_table().to_pylist()
    days = {row.pop("day") for row in found} if partition == "day" else set()
    assert not days or {row["at"].strftime("%Y-%m-%d") for row in rows} == set(map(str, days))
    assert sorted(found, key=str_of) == sorted(rows, key=str_of)
    names = {path.relative_to(text).parent.name for path in text.rglob("*.csv")}
    assert names == {path.relative_to(parted).parent.name for path in parted.rglob("*.parquet")}
    assert {name.partition("=")[0] for name in names} == {partition}
    lines = [row for path in text.rglob("*.csv") for row in csv.DictReader(path.open())]
    assert sorted(row["url"] for row in lines) == sorted(row["url"] for row in rows)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "no drafts are left"
    assert main(["export", str(crawl), "pages", "--partition", partition, "--to", str(parted)]) == 2


def str_of(row: dict[str, object]) -> str:
    return str((row["url"], row["at"]))


def test_partitions_go_on_and_are_cut_back_to_their_mark(tmp_path: Path) -> None:
    """Each fetch once, over several rounds and after a kill that left parts behind."""
    made = MadeCrawl(tmp_path / "crawl")
    made.fetch("http://a.test/")
    made.fetch("http://a.test/b")
    made.commit()
    to = tmp_path / "pages.csv"
    command = ["export", str(made.directory), "pages", "--incremental", "--partition", "site"]
    command += ["--columns", "url,status", "--to", str(to)]
    assert main(command) == 0
    stray = to / "site=http%3A%2F%2Fnew.test" / "part-00001.csv"
    stray.parent.mkdir()
    stray.write_text("url,status\r\nhttp://new.test/torn,200\r\n")
    made.fetch("http://new.test/")
    made.close()
    assert main(command) == 0
    assert main(command) == 0
    rows = [row["url"] for path in to.rglob("*.csv") for row in csv.DictReader(path.open())]
    assert sorted(rows) == ["http://a.test/", "http://a.test/b", "http://new.test/"]
    assert stray.exists(), "made anew, with what counts"
    assert main([*command[:-1], str(tmp_path / "x.jsonl")]) == 2
