"""Text from the web in the output of every verb: nothing of it is obeyed by a terminal."""

from __future__ import annotations

import base64
import io
import json
import os
import pty
import unicodedata
from pathlib import Path

import pytest

from lycosa.cli import streams
from lycosa.cli.main import main
from lycosa.cli.screen import Screen
from lycosa.cli.streams import printable, write_found
from lycosa.records import Why
from tests.crawl.made import MadeCrawl, anchors
from tests.crawl.recorded import Asked, Said, serving

Capture = pytest.CaptureFixture[str]

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202egnp.exe\u2066\u200b\u2028\ufeff\U000e0041"
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def is_safe(text: str) -> bool:
    return not any(unicodedata.category(char) in HIDDEN for char in text.replace("\n", "").replace("\t", ""))


@pytest.fixture
def crawl(tmp_path: Path) -> str:
    made = MadeCrawl(tmp_path / "crawl", shards=1)
    made.configure()
    made.seed("http://a.test/")
    made.robots("http://a.test", f"User-agent: *\nDisallow: /x{HOSTILE}\n".encode(), detail=HOSTILE)
    links = anchors(("http://a.test/1", f"one {HOSTILE}"), ("http://a.test/gone", f"two {HOSTILE}"))
    body = f"<title>{HOSTILE}</title><p>{HOSTILE} and words enough to be the main text of a page.".encode()
    odd = {
        "title": HOSTILE,
        "type": f"text/{HOSTILE}",
        "etag": HOSTILE,
        "modified": HOSTILE,
        "charset": HOSTILE,
    }
    made.fetch("http://a.test/", 200, links, body, keep=True, **odd)
    made.fetch("http://a.test/gone", 404, body=b"none", depth=1, **odd)
    made.skip("http://a.test/skipped", Why.FAILED, HOSTILE)
    made.skip("http://a.test/robots", Why.ROBOTS, f"line 2: {HOSTILE}")
    made.defer("http://a.test/later", Why.RETRY, made.at + 240_000, HOSTILE)
    made.close()
    return str(made.directory)


VERBS = [
    ["log", "{}", "--links", "list"],
    ["explain", "{}", "http://a.test/", "--robots"],
    ["explain", "{}", "http://a.test/gone", "--json", "--robots"],
    ["explain", "{}", "http://a.test/skipped"],
    ["explain", "{}", "http://a.test/later"],
    ["report", "{}"],
    ["report", "{}", "--json"],
    ["status", "{}"],
    ["status", "{}", "--json"],
    ["export", "{}", "pages", "--text"],
    ["export", "{}", "links"],
]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(verb))
def test_nothing_of_a_crawl_is_obeyed(crawl: str, verb: list[str], capsys: Capture) -> None:
    assert main([word.format(crawl) for word in verb]) == 0
    said = capsys.readouterr()
    assert said.out
    assert is_safe(said.out) and is_safe(said.err)
    if verb[0] in ("log", "export"):
        texts = repr([json.loads(line) for line in said.out.splitlines()])
        assert repr(HOSTILE)[1:-1] in texts, "and to a program it is the same text"


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_nothing_of_a_file_is_obeyed(flags: list[str], tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        f"<title>{HOSTILE}</title><meta name=robots content='{HOSTILE}'><a href='{HOSTILE}:x'>{HOSTILE}</a>"
    )
    assert main(["links", str(page), *flags]) == 0
    assert is_safe(capsys.readouterr().out)
    robots = tmp_path / "robots.txt"
    robots.write_text(f"User-agent: *\nDisallow: /{HOSTILE.replace(chr(0x2028), '')}\n")
    main(["robots", str(robots), f"/{HOSTILE}", *flags])
    assert is_safe(capsys.readouterr().out)


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_nothing_of_an_answer_is_obeyed(flags: list[str], capsys: Capture) -> None:
    latin = "a\x1b[2Jb\x9b31m"

    def answer(asked: Asked) -> Said:
        if asked.path == "/robots.txt":
            return Said(f"User-agent: *\nAllow: /{HOSTILE}\nAllow: /\nSitemap: {HOSTILE}\n".encode())
        return Said(b"", 302, (("Content-Type", latin), ("Location", f"x:{latin}"), ("X", latin)))

    with serving(answer) as site:
        assert main(["fetch", "--allow-private", f"http://127.0.0.1:{site.port}/", *flags]) == 0
    said = capsys.readouterr()
    assert is_safe(said.out) and is_safe(said.err)


def test_notes_are_safe(capsys: Capture) -> None:
    for mode in ("json", "lines"):
        Screen(mode, "title").note(f"note: {HOSTILE}")
        said = capsys.readouterr()
        assert is_safe(said.out + said.err)


def test_errors_are_safe(capsys: Capture) -> None:
    assert main(["fetch", f"http://{HOSTILE}/"]) == 2
    assert is_safe(capsys.readouterr().err)


def test_bytes_go_to_a_terminal_as_safe_text(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, child = pty.openpty()
    data = f"one\ttwo\r\n{HOSTILE}\r\n".encode()
    try:
        with os.fdopen(child, "w", encoding="utf-8") as terminal:
            monkeypatch.setattr(streams.sys, "stdout", terminal)
            write_found(data)
            read = b""
            while read.count(b"\n") < 2:
                read += os.read(parent, 4096)
            shown = read.decode()
    finally:
        os.close(parent)
    assert shown.startswith("one\ttwo\r\n\\x1b]0;owned")
    assert is_safe(shown.replace("\r", ""))


def test_bytes_go_elsewhere_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    monkeypatch.setattr(streams.sys, "stdout", io.TextIOWrapper(file, encoding="utf-8"))
    write_found(HOSTILE.encode() + b"\xff\r\n")
    assert file.getvalue() == HOSTILE.encode() + b"\xff\r\n"


def test_a_robots_file_of_any_bytes_in_json(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"User-agent: *\nDisallow: /caf\xe9\n"
    asked = [
        {"robots_base64": base64.b64encode(body).decode(), "url": "/caf%E9"},
        {"robots_base64": "not base64!", "url": "/"},
        {"robots": "", "robots_base64": "", "url": "/"},
        {"url": "/"},
        {"robots": "User-agent: *\nDisallow: /\n", "url": "/"},
    ]
    given = io.TextIOWrapper(io.BytesIO("\n".join(map(json.dumps, asked)).encode()))
    monkeypatch.setattr("sys.stdin", given)
    assert main(["robots"]) == 2
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row.get("allowed") for row in answers] == [False, None, None, None, False]
    assert answers[0]["line"] == 2


def test_printable_text_stays_as_it_is() -> None:
    for text in ("", "plain", "Grüße, 日本語 \N{SNOWMAN}", "a\\nb"):
        assert printable(text) == text
