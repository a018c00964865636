"""`lycosa duplicates` and what `lycosa explain` says of what it found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.cli.main import main
from tests.ask.test_clustering import html
from tests.crawl.made import MadeCrawl


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    made = MadeCrawl(tmp_path / "crawl")
    made.configure()
    for name in "ab":
        made.fetch(f"http://a.test/{name}", body=html(1, ord(name) % 2), keep=True)
    made.fetch("http://a.test/else", body=html(2), keep=True)
    made.close()
    return made.directory


def test_clusters_are_shown_and_explained(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["duplicates", str(crawl)]) == 0
    said = capsys.readouterr().out
    assert "looked at 3 pages" in said
    assert "2 pages in 1 cluster" in said
    assert "http://a.test/a  (2 pages)" in said
    assert main(["explain", str(crawl), "http://a.test/b"]) == 0
    assert "nearly the same as http://a.test/a (similarity " in capsys.readouterr().out
    assert main(["explain", str(crawl), "http://a.test/a"]) == 0
    assert "it stands for 2 pages" in capsys.readouterr().out
    assert main(["duplicates", str(crawl), "--json"]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["representative"], row["pages"]) == ("http://a.test/a", 2)
    assert [near["url"] for near in row["others"]] == ["http://a.test/b"]
