"""Amounts for people."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.cli.amounts import counted, show_time
from lycosa.cli.main import main
from tests.crawl.made import MadeCrawl

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock is not set to UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XYZ-5")
        time.tzset()
        yield
    time.tzset()


def test_counts() -> None:
    assert (counted(1, "page"), counted(0, "page"), counted(1234, "page")) == (
        "1 page",
        "0 pages",
        "1,234 pages",
    )
    assert counted(2, "copy", "copies") == "2 copies"


@pytest.mark.usefixtures("elsewhere")
def test_times_are_of_utc_and_say_so(tmp_path: Path, capsys: Capture) -> None:
    assert show_time(0.0) == "1970-01-01 00:00:00Z"
    assert show_time(1e300) == "never"
    made = MadeCrawl(tmp_path / "c", shards=1)
    made.configure()
    made.seed("http://a.test/")
    made.fetch("http://a.test/")
    made.commit()
    directory = str(tmp_path / "c")
    assert main(["explain", directory, "http://a.test/"]) == 0
    assert "fetched    2023-11-14 22:13:2" in capsys.readouterr().out
    assert main(["report", directory]) == 0
    out = capsys.readouterr().out
    assert "1 page of 1 site, " in out
    assert "2023-11-14 22:13:2" in out and "Z to 2023-11-14 22:13:2" in out
    html = tmp_path / "r.html"
    assert main(["report", directory, "--html", str(html)]) == 0
    assert "2023-11-14 22:13 UTC" in html.read_text()
    assert "<b>1</b><span>page</span>" in html.read_text()
    capsys.readouterr()
    assert main(["status", directory]) == 0
    assert "Z (" in next(
        line for line in capsys.readouterr().out.splitlines() if line.startswith("last commit")
    )
