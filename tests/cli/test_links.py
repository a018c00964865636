"""`lycosa links`, as a user calls it."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from lycosa.cli.main import main

PAGE = """<html lang=en><title>A page</title><base href=/b/><link rel=canonical href=c>
<meta name=robots content=nofollow><a href=x rel=nofollow>one  link</a><img src=//i/p.png>
<a href="http://[bad">\x1b[31mred</a>"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    return path


def test_columns(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["links", str(file), "--base", "http://h/dir/"]) == 0
    head, rows = capsys.readouterr().out.split("\n\n")
    assert "type: text/html" in head and "charset: utf-8" in head and "title: A page" in head
    assert "base: http://h/b/" in head and "canonical: http://h/b/c" in head and "robots: nofollow" in head
    lines = rows.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["canonical", "-", "http://h/b/c"],
        ["anchor", "nofollow", "http://h/b/x", "one", "link"],
        ["image", "-", "http://i/p.png"],
    ]
    assert lines[3].startswith("!anchor") and "http://[bad" in lines[3]
    assert "\x1b" not in rows and "\\x1b[31mred" in lines[3]


def test_json_lines(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["links", str(file), "--base", "http://h/", "--json"]) == 0
    first, *rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert first["page"]["title"] == "A page" and first["page"]["links"] == len(rows) == 4
    assert rows[1] == {
        "kind": "anchor",
        "nofollow": True,
        "url": "http://h/b/x",
        "href": "x",
        "text": "one link",
    }
    assert rows[3]["url"] is None


def test_standard_input_and_type(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"<a href=\xe9>t")))
    assert main(["links", "-", "--base", "http://h/", "--type", "text/html; charset=latin1"]) == 0
    out = capsys.readouterr().out
    assert "charset: windows-1252" in out and "http://h/%C3%A9" in out


def test_packed_sitemap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sitemap.xml.gz"
    path.write_bytes(gzip.compress(b"<?xml version='1.0'?><urlset><loc>http://h/a</loc></urlset>"))
    assert main(["links", str(path)]) == 0
    assert "http://h/a" in capsys.readouterr().out


@pytest.mark.parametrize("given", [["no such file"], ["."], ["page.html", "--base", "not a url"]])
def test_mistakes_get_one_line(
    given: list[str], file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(file.parent)
    assert main(["links", *given]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.splitlines()) == 1
