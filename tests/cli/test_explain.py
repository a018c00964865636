"""`lycosa explain`, run as users run it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lycosa.ask.explain import explain
from lycosa.cli.main import main
from lycosa.log import blocks
from lycosa.records import Why
from tests.crawl.made import MadeCrawl, anchors, small

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def crawl(tmp_path: Path) -> str:
    return str(small(tmp_path / "crawl").directory)


def explained(capsys: Capture, *args: str, code: int = 0) -> list[str]:
    assert main(["explain", *args]) == code
    found = capsys.readouterr()
    assert found.err == ""
    return found.out.splitlines()


def test_a_page_that_was_fetched(crawl: str, capsys: Capture) -> None:
    lines = explained(capsys, crawl, "http://a.test/gone#top")
    assert lines[:2] == ["http://a.test/gone", "  fetched: status 404"]
    text = "\n".join(lines)
    assert "on http://a.test/ (anchor), with the text 'a dead page'" in text
    assert "2 links to it in all; depth 1" in text
    assert "path       seed\n           -> http://a.test/\n           -> http://a.test/gone" in text
    assert "scope      inside" in text
    assert "archive lycosa-" in text


def test_a_seed_and_its_duplicate(crawl: str, capsys: Capture) -> None:
    assert any("found      as a seed" in line for line in explained(capsys, crawl, "a.test"))
    assert "same as    http://b.test/" in explained(capsys, crawl, "http://a.test/1")


def test_what_robots_forbid(crawl: str, capsys: Capture) -> None:
    lines = explained(capsys, crawl, "a.test/private/x", "--robots")
    assert lines[1] == "  skipped: robots: line 2: Disallow: /private"
    assert "robots     forbidden, line 2: Disallow: /private" in lines
    assert any("record 2 of shard" in line for line in lines)
    assert lines[-2:] == ["     1  User-agent: *", ">    2  Disallow: /private"]


def test_what_is_deferred(tmp_path: Path, capsys: Capture) -> None:
    made = MadeCrawl(tmp_path)
    made.configure()
    now = int(time.time() * 1000)
    made.fetch("http://a.test/", links=anchors("http://a.test/busy", "http://a.test/late"))
    made.defer("http://a.test/busy", Why.BUSY, now + 298_000, "status 503")
    made.defer("http://a.test/late", Why.RETRY, now - 60_000, "timeout: none")
    made.close()
    line = explained(capsys, str(tmp_path), "http://a.test/busy")[1]
    assert line.startswith("  deferred: busy: status 503; due in 4m")
    line = explained(capsys, str(tmp_path), "http://a.test/late")[1]
    assert line.startswith("  deferred: retry: timeout: none; due since 1m")


def test_without_a_scheme_https_is_tried_too(tmp_path: Path, capsys: Capture) -> None:
    made = MadeCrawl(tmp_path)
    made.configure()
    made.seed("https://s.test:8443/x")
    made.close()
    assert explained(capsys, str(tmp_path), "s.test:8443/x")[0] == "https://s.test:8443/x"
    assert explained(capsys, str(tmp_path), "other.test/x", code=1)[0] == "http://other.test/x"


def test_a_url_never_met(crawl: str, capsys: Capture) -> None:
    lines = explained(capsys, crawl, "http://nowhere.test/", code=1)
    assert lines[1].startswith("  unknown: ")
    assert explained(capsys, crawl, "http://nowhere.test/", "--robots", code=1)[-1].endswith(
        "was not asked for"
    )


def test_json(crawl: str, capsys: Capture) -> None:
    found = json.loads("\n".join(explained(capsys, crawl, "http://b.test/busy", "--json", "--robots")))
    assert (found["state"], found["due"]) == ("deferred", "2023-11-14T22:17:30.000Z")
    assert found["deferrals"][0]["why"] == "busy"
    assert found["robots"]["at"] == "2023-11-14T22:13:28.000Z"
    assert found["robots"]["body"] == ""
    found = json.loads("\n".join(explained(capsys, crawl, "http://a.test/gone", "--json")))
    assert found["fetches"][0]["status"] == 404
    assert found["path"] == ["seed", "http://a.test/"]


def test_texts_of_sites_are_escaped(tmp_path: Path, capsys: Capture) -> None:
    made = MadeCrawl(tmp_path)
    made.configure()
    made.robots("http://a.test", b"User-agent: *\nDisallow: /\x1b[2J\n")
    made.fetch("http://a.test/", links=anchors(("http://a.test/x", "\x1b[2J")), title="\x1b[2J\u202e")
    made.close()
    for url in ("http://a.test/", "http://a.test/x"):
        text = "\n".join(explained(capsys, str(tmp_path), url, "--robots"))
        assert "\x1b" not in text and "\u202e" not in text


def test_mistakes(crawl: str, tmp_path: Path, capsys: Capture) -> None:
    MadeCrawl(tmp_path / "fresh").close()
    for args, message in (
        ([str(tmp_path), "http://a.test/"], "is not the directory of a crawl"),
        ([crawl, "http://"], "is not a URL"),
        ([crawl, "mailto://x y"], "is not a URL"),
        ([crawl, " "], "give the URL"),
        ([str(tmp_path / "fresh"), "http://a.test/"], "has not begun yet"),
    ):
        assert main(["explain", *args]) == 2
        found = capsys.readouterr()
        assert message in found.err
        assert found.err.count("\n") == 1


def test_the_path_reads_no_further_than_it_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step back is an earlier part of the log; clocks that run apart make it longer, not wrong."""
    made = MadeCrawl(tmp_path, shards=1)
    made.configure()
    made.seed("http://a.test/0")
    for number in range(200):
        made.fetch(f"http://a.test/{number}", links=anchors(f"http://a.test/{number + 1}"), depth=number)
        made.commit()
    crawl = made.reader()
    counted = 0
    unpack = blocks.unpack

    def counting(block: bytes, head: blocks.Head) -> list[memoryview] | None:
        nonlocal counted
        counted += 1
        return unpack(block, head)

    monkeypatch.setattr(blocks, "unpack", counting)
    answer = explain(crawl, "http://a.test/5")
    assert answer.path == ["seed", *(f"http://a.test/{number}" for number in range(5))]
    assert counted < 6 * 200, "links to it, its own records, its robots.txt, the same content; and a little"

    late = MadeCrawl(tmp_path / "apart", shards=1)
    late.configure()
    late.seed("http://a.test/0")
    late.at -= 60_000
    late.fetch("http://a.test/0", links=anchors("http://a.test/1"))
    late.at += 60_000
    late.fetch("http://a.test/1", links=anchors("http://a.test/2"))
    assert explain(late.reader(), "http://a.test/2").path == ["seed", "http://a.test/0", "http://a.test/1"]
