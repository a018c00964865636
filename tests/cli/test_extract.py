"""`lycosa extract`, and `lycosa crawl --extract`: rows beside the crawl, one page tried, mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.files import DirectoryLock
from tests.crawl.recorded import Site, chain, serving

CODE = "def row(page):\n    return {'title': page.title}\ndef bad(page):\n    raise ValueError(page.title)\n"


def crawl(site: Site, tmp_path: Path, *more: str) -> int:
    (tmp_path / "code.py").write_text(CODE, encoding="utf-8")
    words = [
        "crawl",
        site.url(host="127.0.0.1"),
        "--into",
        str(tmp_path / "crawl"),
        "--private",
        "--own-site",
    ]
    return main([*words, "--allow", "127.0.0.0/8", "--quiet", "--shards", "1", *more])


def test_rows_beside_a_crawl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(chain(30)) as site:
        assert crawl(site, tmp_path, "--extract", f"{tmp_path}/code.py:row") == 0
        told = capsys.readouterr()
        assert "extracted 30 rows from 30 pages" in told.err
        rows = (tmp_path / "crawl" / "extract" / "rows.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(row)["title"] for row in rows] == [f"page {number}" for number in range(30)]
        again = ("--extract", f"{tmp_path}/code.py:row")
        assert crawl(site, tmp_path, *again) == 0
        assert "extracted 0 rows from 0 pages" in capsys.readouterr().err


def test_one_page_is_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(chain(3)) as site:
        assert crawl(site, tmp_path) == 0
        capsys.readouterr()
        url = site.url("/2", "127.0.0.1")
    words = ["extract", str(tmp_path / "crawl")]
    assert main([*words, f"{tmp_path}/code.py:row", "--url", url]) == 0
    assert json.loads(capsys.readouterr().out) == {"url": url, "title": "page 2"}
    assert main([*words, f"{tmp_path}/code.py:bad", "--url", url]) == 1
    told = capsys.readouterr().err
    assert "code.py" in told and told.endswith("ValueError: page 2\n")
    assert main([*words, f"{tmp_path}/code.py:row", "--url", url + "0"]) == 2
    assert "is not a page of the crawl" in capsys.readouterr().err
    assert main([*words, f"{tmp_path}/code.py:row"]) == 2
    assert "--to rows.jsonl" in capsys.readouterr().err
    assert main([*words, f"{tmp_path}/code.py:row", "--to", str(tmp_path / "a.jsonl"), "--timeout", "0"]) == 2
    assert "--timeout must be above zero" in capsys.readouterr().err
    assert main([*words, f"{tmp_path}/code.py:bad", "--to", str(tmp_path / "b.jsonl")]) == 1
    assert "extracted 0 rows from 3 pages" in (told := capsys.readouterr().out)
    assert f"it failed at 3 pages: {tmp_path}/b.jsonl.extract/failed.jsonl" in told


def test_one_that_is_at_work_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one beside a crawl that was killed goes on for a while, when the next crawl begins."""
    with serving(chain(3)) as site:
        assert crawl(site, tmp_path) == 0
    to = tmp_path / "rows.jsonl"
    held = DirectoryLock(tmp_path / "rows.jsonl.extract")
    words = ["extract", str(tmp_path / "crawl"), f"{tmp_path}/code.py:row", "--to", str(to)]
    assert main(words) == 2
    assert "is in use by process" in capsys.readouterr().err
    monkeypatch.setattr("lycosa.cli.extract.time.sleep", lambda _seconds: held.release())
    assert main([*words, "--follow"]) == 0
    assert len(to.read_bytes().splitlines()) == 3


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--extract", "code.py"), "FILE.py:FUNCTION"),
        (("--extract", "nowhere.py:row"), "there is no file nowhere.py"),
        (("--extract-to", "rows.jsonl"), "say what makes them"),
        (("--extract", "json:loads", "--extract-to", "rows.txt"), "names no format"),
        (("--extract", "json:loads", "--no-archive"), "leave --no-archive out"),
    ],
)
def test_mistakes_are_told_before_the_crawl(
    more: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(chain(1)) as site:
        assert crawl(site, tmp_path, *more) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "crawl").exists()
