"""`lycosa demo`: from nothing to a crawl that was checked, reported and explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.ask.reading import CrawlReader
from lycosa.cli import demo
from lycosa.cli.main import main
from lycosa.lab.webs import PRESETS, WebOptions

Capture = pytest.CaptureFixture[str]


def test_the_demo_shows_all_it_promises_and_keeps_the_crawl(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small web, with waits that suit it; the truth is still compared URL by URL."""
    kinds = ("robots", "redirects", "statuses", "directives", "copies")
    small = WebOptions(hosts=12, pages=80, kinds=kinds, retry_after=0, crawl_delay=0.05, failures=1)
    monkeypatch.setitem(PRESETS, "small", small)
    quick = {"wait": 0.02, "address_wait": 0.0, "factor": 0.0}
    monkeypatch.setitem(demo.OPTIONS, "politeness", quick)
    monkeypatch.setitem(demo.OPTIONS, "retry", {"first": 0.2, "growth": 1.5, "most": 1.0})
    monkeypatch.setitem(demo.OPTIONS, "robots", {"first_retry": 0.2})
    into = tmp_path / "kept"
    assert main(["demo", "--web", "small", "--into", str(into)]) == 0
    captured = capsys.readouterr()
    out = captured.out
    for number in range(1, 6):
        assert f"{number}. " in out
    assert "URLs that must be fetched were, and none of those that must not" in out
    assert "differences" not in out
    assert "robots" in out.partition("5. why was this URL not fetched?")[2]
    assert f"the crawl is in {into}" in out
    assert "Traceback" not in captured.err
    assert CrawlReader(into).manifest.shards == 16


def test_a_directory_that_is_not_empty(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "x").write_text("")
    assert main(["demo", "--into", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "is not empty: the demo needs a new directory" in error and len(error.splitlines()) == 1
    assert main(["demo", "--into", str(tmp_path / "x")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_unknown_web(capsys: Capture) -> None:
    assert main(["demo", "--web", "huge-ish"]) == 2
    assert "there are " in capsys.readouterr().err
