"""`lycosa history`: versions of a page, from a crawl that came back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.crawl import scheduling
from lycosa.files import DiskFiles
from tests.crawl.test_continuous import SEED, ChangingWeb, come_back


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("history")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduling, "IDLE", 900.0)
        come_back(DiskFiles(place), ChangingWeb(), 5)
    return place


def test_versions_and_their_differences(crawled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(crawled), SEED + "tagged", "--diff"]) == 0
    text = capsys.readouterr().out
    assert "2 versions, 1 change" in text and "not modified" in text
    assert "-This paragraph" in text and "+This paragraph" in text and "version b" in text


def test_the_bytes_of_a_version(crawled: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["history", str(crawled), "a.test/tagged", "--body", "2"]) == 0
    assert b"version b of many words" in capfdbinary.readouterr().out


def test_json_and_what_is_not_there(crawled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(crawled), SEED + "still", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (
        len(rows) > 1 and {row["version"] for row in rows} == {1} and not any(row["changed"] for row in rows)
    )
    assert len({row["digest"] for row in rows}) == len(rows), "its bytes differ at every fetch"
    assert main(["history", str(crawled), SEED + "never"]) == 1
    assert main(["history", str(crawled), SEED + "still", "--body", "7"]) == 2


def test_explain_says_when_a_page_is_due_and_why(crawled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(crawled), SEED + "news"]) == 0
    text = capsys.readouterr().out
    assert "fetched: status 200, fetched" in text and ", because it changes every" in text


def test_the_report_says_how_fresh_each_site_is(
    crawled: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["report", str(crawled), "--json"]) == 0
    whole, *hosts = json.loads(capsys.readouterr().out)["freshness"]
    assert (whole["host"], whole["pages"]) == ("", 5) and [row["host"] for row in hosts] == ["a.test"]
    for row in (whole, *hosts):
        assert (
            0 <= row["fresh"] <= 1 and 0 <= row["error"] <= 1 and 0 <= row["plain"] <= 1 and row["age"] >= 0
        )
    assert main(["report", str(crawled), "--html", str(tmp_path / "r.html")]) == 0
    assert "How fresh it is" in (text := (tmp_path / "r.html").read_text()) and "±" in text
    assert main(["report", str(crawled)]) == 0
    assert "Fresh, estimated" in capsys.readouterr().out
