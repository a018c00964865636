"""Extraction: each page's rows once, whatever ends the process; a function that misbehaves costs its page only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import lycosa
from lycosa.ask import extraction as extractions
from lycosa.ask.extract_rows import JsonLines, Parts, table_of
from lycosa.ask.extraction import Extraction
from lycosa.ask.reading import CrawlReader
from lycosa.errors import ConfigError, StorageError
from tests.crawl.recorded import OPTIONS, chain, serving

PAGES = 40
CODE = """
import os, time
def heads(page):
    for number, row in enumerate(page.tree.select("h1, a")):
        yield {"title": row.text, "number": number, "price": 1 if number else 0.5}
def bad(page):
    path = page.url.rpartition("/")[2]
    if path == "3": raise ValueError("three\\nis bad")
    if path == "4": os._exit(7)
    if path == "5": time.sleep(60)
    if path == "6": return 6
    if path == "7": return {"element": page.tree.select_one("h1"), "bytes": b"\\xff"}
    if path == "8": print("noise on standard output")
    return {"title": page.title} if path else None
def slow(page):
    time.sleep(0.01)
    number = int(page.url.rpartition("/")[2] or 0)
    while number > int(open(os.environ["STOP"]).read()): time.sleep(0.01)
    return {"title": page.title}
"""


@pytest.fixture(name="crawl", scope="module")
def _crawl(tmp_path_factory: pytest.TempPathFactory) -> CrawlReader:
    place = tmp_path_factory.mktemp("extract")
    (place / "code.py").write_text(CODE, encoding="utf-8")
    with serving(chain(PAGES)) as site:
        lycosa.Crawl(site.url(), into=place / "crawl", **OPTIONS).run()
    return CrawlReader(place / "crawl")


def function(crawl: CrawlReader, name: str) -> str:
    return f"{crawl.directory.parent / 'code.py'}:{name}"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows_of(to: Path) -> list[tuple[Any, ...]]:
    if to.suffix == ".jsonl":
        found = lines(to)
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        found = parquet.read_table(to).to_pylist()
    return [(row["url"], row["number"], row["title"], row["price"]) for row in found]


def expected(crawl: CrawlReader) -> list[tuple[Any, ...]]:
    """What the function makes of each page, called here."""
    return [
        (page.url, number, row.text, 1 if number else 0.5)
        for page in lycosa.open(crawl.directory).pages()
        for number, row in enumerate(page.tree.select("h1, a"))
    ]


class _KilledError(BaseException):
    """What ends a process at once."""


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_rows_are_once_wherever_it_is_cut_short(
    crawl: CrawlReader, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit after each page; now and then it ends before the place is kept, rows being on disk."""
    ticks = count(0, 1000)
    kept = extractions.write_whole
    turn = count(1)

    def keep(*args: Any) -> None:
        if not next(turn) % 14:
            raise _KilledError
        kept(*args)

    monkeypatch.setattr(extractions, "write_whole", keep)
    ends = 0
    while True:
        try:
            with Extraction(
                crawl, function(crawl, "heads"), tmp_path / name, clock=lambda: float(next(ticks))
            ) as extraction:
                extraction.round()
        except _KilledError:
            ends += 1
            if ends > 2:  # often enough: the rest in one go
                monkeypatch.setattr(extractions, "write_whole", kept)
        else:
            break
    assert ends == 3
    assert rows_of(tmp_path / name) == expected(crawl)
    assert (extraction.called, extraction.made) == (PAGES, len(expected(crawl)))


def test_a_function_that_misbehaves(
    crawl: CrawlReader,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # which would hide what is held back
    to = tmp_path / "rows.jsonl"
    with Extraction(crawl, function(crawl, "bad"), to, seconds=3.0) as extraction:
        done = extraction.round()
    assert (done.pages, done.failed) == (PAGES, 4)
    failed = {
        row["url"].rpartition("/")[2]: (row["why"], row["detail"])
        for row in lines(tmp_path / "rows.jsonl.extract" / "failed.jsonl")
    }
    assert failed == {
        "3": ("error", "ValueError: three is bad"),
        "4": ("ended", "its process ended (code 7)"),
        "5": ("time", "no answer in 3 s"),
        "6": ("error", "TypeError: 'int' object is not iterable"),
    }
    rows = {row["url"].rpartition("/")[2]: row for row in lines(to)}
    assert rows.keys() == {str(number) for number in range(1, PAGES)} - failed.keys()
    assert rows["7"]["bytes"] == "/w==" and "page 7" in rows["7"]["element"]
    assert rows["8"]["title"] == "page 8" and rows["8"]["at"].endswith("Z")
    assert "noise" in capfd.readouterr().err


def test_it_goes_on_where_it_was(crawl: CrawlReader, tmp_path: Path) -> None:
    to = tmp_path / "rows.jsonl"
    named = function(crawl, "heads")
    for pages in (PAGES, 0):
        with Extraction(crawl, named, to) as extraction:
            assert extraction.round().pages == pages
    for wrong, words in (
        (function(crawl, "bad"), "another function"),
        (function(crawl, "nothing"), "no function 'nothing'"),
        ("nowhere.py:heads", "there is no file"),
    ):
        with pytest.raises(ConfigError, match=words):
            Extraction(crawl, wrong, tmp_path / "other.jsonl" if "no " in words else to)
    to.write_bytes(to.read_bytes()[:-9])
    with pytest.raises(StorageError, match="--anew"):
        Extraction(crawl, named, to)
    with Extraction(crawl, named, to, anew=True) as extraction:
        assert extraction.round().pages == PAGES
    assert rows_of(to) == expected(crawl)
    mine = tmp_path / "mine.jsonl"
    mine.write_text("my own\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="not from an extraction"):
        Extraction(crawl, named, mine)
    assert mine.read_text(encoding="utf-8") == "my own\n"


def test_killed_with_sigkill(crawl: CrawlReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command itself, killed while it writes: the same command again, and each page's rows are there once.

    Before each kill it comes only so far, however late that is."""
    stop = tmp_path / "stop"
    monkeypatch.setenv("STOP", str(stop))
    to = tmp_path / "rows.jsonl"
    kept = tmp_path / "rows.jsonl.extract" / "place.json"
    code = (
        "import lycosa.ask.extract_rows as rows; rows.JsonLines.linger = 0.05;"
        "from lycosa.cli.main import main; raise SystemExit(main())"
    )
    words = ["extract", str(crawl.directory), function(crawl, "slow"), "--to", str(to)]
    last = 0
    for upto in (PAGES // 3, 2 * PAGES // 3):
        stop.write_text(str(upto))
        process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.DEVNULL)
        while process.poll() is None:
            called = json.loads(kept.read_bytes())["called"] if kept.exists() else 0
            if called > last:
                os.kill(process.pid, signal.SIGKILL)
                last = called
                break
            time.sleep(0.005)
        assert process.wait() == -signal.SIGKILL, "it was at work"
    assert 0 < last < PAGES
    stop.write_text(str(PAGES))
    subprocess.run([sys.executable, "-c", code, *words], check=True, stdout=subprocess.DEVNULL)
    assert [row["url"] for row in lines(to)] == [page.url for page in lycosa.open(crawl.directory).pages()]


def test_columns_have_the_type_of_their_values() -> None:
    arrow = pytest.importorskip("pyarrow")
    rows = [{"a": 1, "b": 1, "c": None, "e": [1]}, {"a": 2.5, "b": "x", "d": True, "e": {"k": 1}}]
    table = table_of(arrow, rows)
    assert [str(kind) for kind in table.schema.types] == ["double", "string", "string", "string", "bool"]
    assert table.to_pylist()[1] == {"a": 2.5, "b": "x", "c": None, "e": '{"k":1}', "d": True}
    assert table_of(arrow, [{"n": 1 << 80}]).to_pylist() == [{"n": str(1 << 80)}]


def test_sinks_are_cut_back_to_their_mark(tmp_path: Path) -> None:
    for sink in (JsonLines(tmp_path / "a.jsonl"), Parts(tmp_path / "a.parquet")):
        sink.restore(0)
        sink.add([{"n": 1}])
        mark = sink.commit()
        sink.add([{"n": 2}])
        assert sink.commit() > mark
        sink.close()
    again = JsonLines(tmp_path / "a.jsonl")
    again.restore(8)
    again.close()
    assert lines(tmp_path / "a.jsonl") == [{"n": 1}]
    Parts(tmp_path / "a.parquet").restore(1)
    assert [path.name for path in (tmp_path / "a.parquet").iterdir()] == ["part-00000.parquet"]


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.parquet"])
def test_an_export_that_goes_on(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fetches of a crawl that went on in between, each once, with the columns of any export."""
    from lycosa.cli.main import main

    into, to = tmp_path / "crawl", tmp_path / name
    words = ["export", str(into), "pages", "--incremental", "--text", "--to", str(to)]
    with serving(chain(9)) as site:
        for pages in (4, 9):
            lycosa.Crawl(site.url(), into=into, **{**OPTIONS, "limits": {"pages": pages}}).run()
            assert main(words) == 0
    assert "added 5 fetches" in capsys.readouterr().err
    if name.endswith("jsonl"):
        rows = lines(to)
    else:
        rows = pytest.importorskip("pyarrow.parquet").read_table(to).to_pylist()
        assert len(list(to.glob("part-*.parquet"))) == 2
    pages_there = list(lycosa.open(into).pages())
    assert [(row["url"], row["position"], row["text"]) for row in rows] == [
        (page.url, page.position, page.text) for page in pages_there
    ]
    assert main([*words[:-3], "--to", str(to)]) == 2, "without the text they are other rows"
    assert main(["export", str(into), "links", "--incremental", "--to", str(to)]) == 2
