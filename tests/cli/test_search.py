"""`lycosa index` and `lycosa search`, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.ask.reading import CrawlReader
from lycosa.cli.main import main
from tests.crawl.made import MadeCrawl, anchors


def made(directory: Path) -> MadeCrawl:
    crawl = MadeCrawl(directory)
    body = b"<html lang=en><title>Wolf spiders</title><p>The wolf spider hunts on foot.</p></html>"
    crawl.fetch("http://a.test/", body=body, keep=True, title="Wolf spiders", links=anchors("http://b.test/"))
    crawl.fetch("http://b.test/", body=body, keep=True, title="Wolf spiders", duplicate=True)
    crawl.fetch(
        "http://a.test/bad", body=b"<title>\x1b[31m</title>spider \x9b2J", keep=True, title="\x1b[31mred"
    )
    crawl.close()
    return crawl


def test_index_and_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path)
    assert main(["search", str(tmp_path), "spider"]) == 2
    assert f"run `lycosa index {tmp_path}` first" in capsys.readouterr().err
    assert main(["index", str(tmp_path)]) == 0
    assert "indexed 2 pages" in (said := capsys.readouterr().out) and "1 copy" in said
    assert main(["search", str(tmp_path), "hunting", "spiders"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(" 1. Wolf spiders\n    http://a.test/\n    The wolf spider hunts on foot.\n")
    assert "also at http://b.test/" in out and "\x1b" not in out
    assert "2 pages match of 2" in out
    assert main(["index", str(tmp_path), "--follow"]) == 0
    assert "indexed 0 pages" in capsys.readouterr().out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path)
    main(["index", str(tmp_path)])
    capsys.readouterr()
    assert main(["search", str(tmp_path), "wolf before:never", "--json"]) == 0
    head, *rows = map(json.loads, capsys.readouterr().out.splitlines())
    assert (head["total"], head["pages"], head["missing"]) == (1, 2, [])
    assert "before:never is no date" in head["notes"][0]
    assert [row["url"] for row in rows] == ["http://a.test/"]
    assert rows[0]["others"] == ["http://b.test/"] and rows[0]["at"].startswith("2023-11-14T")


def test_nothing_found_and_wrong_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path)
    main(["index", str(tmp_path)])
    assert main(["search", str(tmp_path), "zebra"]) == 1
    assert main(["search", str(tmp_path)]) == 2
    assert main(["search", str(tmp_path), "x", "--count", "0"]) == 2
    assert main(["search", str(tmp_path), "--like", "http://nowhere.test/"]) == 2
    assert main(["search", str(tmp_path), "--like", "http://a.test/"]) == 0
    assert main(["index", str(tmp_path), "--language", "xx"]) == 2
    assert main(["index", str(tmp_path / "none")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_word_may_begin_with_a_minus_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path)
    main(["index", str(tmp_path)])
    capsys.readouterr()
    assert main(["search", str(tmp_path), "spider", "-wolf", "--count", "3"]) == 0
    assert "1 page matches of 2" in capsys.readouterr().out
    assert main(["search", str(tmp_path), "-hunt", "spider"]) == 0
    assert "1 page matches of 2" in capsys.readouterr().out
    for wrong in ("--cuont", "-h"):
        with pytest.raises(SystemExit):
            main(["search", str(tmp_path), "spider", wrong])


def test_from_python(tmp_path: Path) -> None:
    import lycosa

    made(tmp_path)
    main(["index", str(tmp_path)])
    answer = lycosa.open(tmp_path).search("spider", count=1)
    assert answer.total == 2 and len(answer.results) == 1


def test_follow_goes_on_as_long_as_the_crawl_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = MadeCrawl(tmp_path)
    crawl.fetch("http://a.test/", body=b"<p>first lichens</p>", keep=True)
    crawl.commit()
    running = [True]

    def pause(_: float) -> None:
        """While the indexer waits the crawl fetches another page, and ends."""
        crawl.fetch("http://a.test/2", body=b"<p>second lichens</p>", keep=True)
        crawl.close()
        running[0] = False

    monkeypatch.setattr(CrawlReader, "is_running", lambda _: running[0])
    monkeypatch.setattr("lycosa.cli.index.time.sleep", pause)
    assert main(["index", str(tmp_path), "--follow"]) == 0
    assert "indexed 2 pages" in capsys.readouterr().out
    assert main(["search", str(tmp_path), "lichens"]) == 0
    assert "2 pages match" in capsys.readouterr().out
