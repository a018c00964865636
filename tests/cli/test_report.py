"""`lycosa report`, run as users run it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.cli.streams import Progress, printable
from lycosa.clock import ManualClock
from tests.crawl.made import MadeCrawl, anchors, small

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def crawl(tmp_path: Path) -> str:
    return str(small(tmp_path / "crawl").directory)


def test_text(crawl: str, capsys: Capture) -> None:
    assert main(["report", crawl]) == 0
    out = capsys.readouterr().out
    assert "5 pages of 2 sites" in out
    assert re.search(r"^404 +1 ", out, re.M)
    assert (
        "http://a.test/gone\n    status 404; 2 pages link to it\n    from http://a.test/  'a dead page'"
        in out
    )
    assert "line 2: Disallow: /private" in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100
    assert not any(line.endswith(" ") for line in out.splitlines())


def test_text_over_time(crawl: str, capsys: Capture) -> None:
    rows = [{"at": 1_700_000_000 + n, "visits": n % 5, "pending": 9, "rss": 9_000_000} for n in range(9)]
    Path(crawl, "meters.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["report", crawl]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^active visits +[ ▁▂▃▄▅▆▇█]+mean \d\.\d of 256; half or more 0% of time", out, re.M)
    assert re.search(r"^memory .*at most 9\.0 MB$", out, re.M)
    assert max(map(len, out.splitlines())) <= 100
    assert main(["report", crawl, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["active"]["limit"] == 256
    assert document["active"]["most"] == 4
    assert [row["visits"] for row in document["gauges"]] == [n % 5 for n in range(9)]


def test_json(crawl: str, capsys: Capture) -> None:
    assert main(["report", crawl, "--json", "--broken", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["pages"] == 5
    assert document["broken"]["urls"] == 2
    assert [row["url"] for row in document["broken"]["shown"]] == ["http://a.test/gone"]
    assert document["broken"]["shown"][0]["holders"][0] == {
        "url": "http://a.test/",
        "text": "a dead page",
        "kind": "anchor",
    }


def test_html(crawl: str, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "report.html"
    assert main(["report", crawl, "--html", str(page)]) == 0
    assert capsys.readouterr().out == ""
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "http://a.test/gone" in text
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.html"]
    assert main(["report", crawl, "--html", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>") and not Path("-").exists()


def test_what_a_site_sends_does_not_move_the_cursor(tmp_path: Path, capsys: Capture) -> None:
    made = MadeCrawl(tmp_path)
    made.fetch(
        "http://a.test/", links=anchors(("http://a.test/x", "\x1b[2J\u202e[red]")), type="\x1b]0;x\x07"
    )
    made.fetch("http://a.test/x", 404)
    made.close()
    assert main(["report", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out
    assert "[red]" in out


def test_mistakes(crawl: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty").mkdir()
    for args, message in (
        ([str(tmp_path / "none")], "is not a directory"),
        ([str(tmp_path / "empty")], "is not the directory of a crawl"),
        ([crawl, "--top", "-1"], "0 or more"),
        ([crawl, "--html", str(tmp_path / "no" / "dir.html")], "cannot write"),
        ([crawl, "--html", str(tmp_path)], "it is a directory"),
    ):
        assert main(["report", *args]) == 2
        found = capsys.readouterr()
        assert found.out == ""
        assert message in found.err
        assert found.err.count("\n") == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "lines"), [(io.StringIO(), 2), (Terminal(), 26)])
def test_progress_waits_two_seconds(stream: io.StringIO, lines: int) -> None:
    clock = ManualClock()
    with Progress("report", stream, clock.monotonic) as told:
        for step in range(30):
            told("reading", step * 100)
            clock.advance(0.5)
    text = stream.getvalue()
    assert text.count("lycosa report: reading") == lines
    assert text.lstrip("\r\x1b[K").startswith("lycosa report: reading: 400 records")
    assert text.endswith("\r\x1b[K") == stream.isatty()


def test_printable() -> None:
    assert printable("a\x1b\u202eé\n") == "a\\x1b\\u202eé\\n"
