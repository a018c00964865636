"""`lycosa text`."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from lycosa.cli.main import main
from tests.content.test_main_text import article
from tests.crawl.made import small


def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.html"
    file.write_text(article())
    assert main(["text", str(file)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "Growing tomatoes"
    assert "Copyright" not in shown
    assert main(["text", str(file), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["type"], row["title"], row["language"]) == (
        "text/html",
        "Growing tomatoes | The Gardener",
        "en",
    )
    assert row["blocks"][0] == {"level": 1, "text": "Growing tomatoes"}


def test_an_office_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("word/document.xml", "<w:p><w:t>Hello</w:t></w:p>")
    (tmp_path / "a.docx").write_bytes(packed.getvalue())
    assert main(["text", str(tmp_path / "a.docx")]) == 0
    assert capsys.readouterr().out == "Hello\n"


def test_what_has_no_text_and_what_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert main(["text", str(tmp_path / "a.png")]) == 1
    assert main(["text", str(tmp_path / "none.html")]) == 2
    assert main(["text", str(tmp_path / "a.png"), "http://a/"]) == 2
    assert "not the directory of a crawl" in capsys.readouterr().err
    assert main(["text", str(tmp_path)]) == 2, "a directory that is no crawl"


def test_a_page_of_a_crawl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl = str(small(tmp_path / "crawl").directory)
    assert main(["text", crawl, "http://A.test"]) == 0
    assert capsys.readouterr().out == "The home page of a site that was never there, in some words.\n"
    assert main(["text", crawl]) == 2
    assert main(["text", crawl, "http://a.test/none"]) == 2
    assert main(["text", crawl, "http://b.test/"]) == 2
    shown = capsys.readouterr().err
    assert "name the page" in shown
    assert "is no page of the crawl" in shown
    assert "does not have" in shown
