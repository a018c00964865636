"""`lycosa repair`, run as users run it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.files import DirectoryLock
from tests.crawl.recorded import FLAGS, Site, chain, fetched, serving

Capture = pytest.CaptureFixture[str]
COUNT = 12


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(chain(COUNT)) as running:
        yield running


@pytest.fixture
def lossy(site: Site, tmp_path: Path) -> Path:
    """A crawl whose shard with all pages has lost its log."""
    into = tmp_path / "c"
    assert main(["crawl", site.url(), "--into", str(into), "--max-pages", "8", *FLAGS]) == 0
    rows = sorted(
        into.glob("shards/*/log"), key=lambda path: sum(each.stat().st_size for each in path.iterdir())
    )
    shutil.rmtree(rows[-1])
    return into


def test_refused_looked_at_repaired_and_finished(lossy: Path, site: Site, capsys: Capture) -> None:
    capsys.readouterr()
    assert main(["crawl", site.url(), "--into", str(lossy), *FLAGS]) == 3
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and f"lycosa repair {lossy}" in said[0]
    before = {path: path.stat().st_mtime_ns for path in lossy.rglob("*") if path.name != "lock"}
    assert main(["repair", str(lossy)]) == 1
    out = capsys.readouterr().out
    assert "the log ends at record 0" in out and "nothing was changed" in out
    assert "the logs hold 0 pages" in out and "8 more are in the archive and in no log" in out
    assert before == {path: path.stat().st_mtime_ns for path in lossy.rglob("*") if path.name != "lock"}
    assert main(["repair", str(lossy), "--yes"]) == 0
    assert "set-aside" in capsys.readouterr().out
    (urls,) = lossy.glob("set-aside/*/urls.txt")
    assert len(urls.read_text().splitlines()) == 8
    assert main(["repair", str(lossy)]) == 0
    assert "is whole" in capsys.readouterr().out
    assert main(["crawl", site.url(), "--into", str(lossy), *FLAGS]) == 0
    rows = [row.url for row in fetched(lossy)]
    assert len(rows) == len(set(rows)) == COUNT


def test_where_there_is_nothing_to_repair(lossy: Path, tmp_path: Path, capsys: Capture) -> None:
    capsys.readouterr()
    assert main(["repair", str(tmp_path / "none")]) == 2
    assert main(["repair", str(tmp_path)]) == 2
    assert not (tmp_path / "lock").exists(), "no crawl: nothing is made there"
    manifest = json.loads((lossy / "crawl.json").read_text())
    (lossy / "crawl.json").write_text(json.dumps({**manifest, "cluster": True}))
    assert main(["repair", str(lossy), "--yes"]) == 2
    assert "cluster fetch" in capsys.readouterr().err


def test_a_crawl_that_runs_is_left_alone(lossy: Path, capsys: Capture) -> None:
    capsys.readouterr()
    lock = DirectoryLock(lossy)
    try:
        assert main(["repair", str(lossy)]) == 2
        assert "in use by process" in capsys.readouterr().err
    finally:
        lock.release()
