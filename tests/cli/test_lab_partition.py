"""`lycosa lab partition`, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.cli.main import main
from tests.crawl.made import MadeCrawl, anchors


def test_partition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl = MadeCrawl(tmp_path)
    for number in range(12):
        body = f"<html lang=en><p>the wolf spider number{number} of field{number % 3}</p></html>".encode()
        links = anchors((f"http://{(number - 1) % 3}.test/{number - 1}", f"spider field{number % 3}"))
        crawl.fetch(f"http://{number % 3}.test/{number}", body=body, keep=True, links=links)
    crawl.close()
    assert main(["lab", "partition"]) == 2
    assert main(["lab", "partition", str(tmp_path)]) == 2
    assert f"run `lycosa index {tmp_path}` first" in capsys.readouterr().err
    assert main(["index", str(tmp_path)]) == 0
    queries = tmp_path / "queries"
    queries.write_text("wolf\nspider field1\nthe field2 spider\nnothing\nwolf spider\n")
    capsys.readouterr()
    assert main(["lab", "partition", str(tmp_path), "--nodes", "2", "--queries", str(queries), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    several = {row["scheme"]: row for row in rows if row["what"] == "partition" and row["words"] == "several"}
    assert several["by URL"]["asked"] == 2 and several["by URL"]["read"] == several["by term"]["read"] == 20
    assert [row["share"] for row in rows if row["what"] == "tiers"] == [0.1, 0.1, 0.25, 0.25, 0.5, 0.5]
    assert main(["lab", "partition", str(tmp_path), "--nodes", "0"]) == 2
    assert main(["lab", "partition", str(tmp_path), "--nodes", "2"]) == 0
    assert "by term, balanced" in capsys.readouterr().out
