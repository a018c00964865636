"""`lycosa status`, run as users run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lycosa.ask.alive import process_of
from lycosa.cli.main import main
from lycosa.crawl.status import Status
from lycosa.files import DirectoryLock
from lycosa.records import Lost
from tests.crawl.made import MadeCrawl, small

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    return small(tmp_path / "crawl").directory


def leave(directory: Path, **fields: Any) -> None:
    """Write a status.json as a process would."""
    known: dict[str, Any] = {
        "at": time.time() - 0.2,
        "pid": os.getpid(),
        "state": "running",
        "elapsed": 100.0,
        "pages": 5000,
        "pages_run": 2500,
        "bytes": 12_300_000,
        "links": 70_000,
        "duplicates": 12,
        "statuses": {"2xx": 4900, "4xx": 100},
        "skipped": {"robots": 7},
        "errors": {"timeout": 3},
        "pending": 1234,
        "left_behind": 0,
        "deferred": 5,
        "visits": 60,
        "hosts": 80,
        "rss": 150_000_000,
        "memory_limit": 8_000_000_000,
        "page_limit": 10_000,
        "meters": {"url.hrefs": 1000, "url.href_hits": 810, "seen.probes": 400, "seen.hits": 300},
    }
    (directory / "status.json").write_bytes(msgspec.json.encode(Status(**{**known, **fields})))


def shown(capsys: Capture, *args: str) -> str:
    assert main(["status", *args]) == 0
    return capsys.readouterr().out


def test_a_running_crawl(crawl: Path, capsys: Capture) -> None:
    leave(crawl)
    lock = DirectoryLock(crawl)
    text = shown(capsys, str(crawl))
    lock.release()
    assert text.startswith(f"{crawl}: running for 1m40s (process {os.getpid()})\n")
    assert "pages        5,000 (2xx 4,900, 4xx 100), 25.0/s in this run" in text
    assert "1,234 pending" in text and "60 at a time" in text and "5,000 of 10,000 pages" in text
    assert "cache hits   hrefs 81.0% of 1,000, seen 75.0% of 400" in text
    assert "memory       150.0 MB of 8.0 GB" in text
    assert "last commit" in text and "robots 7" in text and "timeout 3" in text


def test_a_process_that_is_silent(crawl: Path, capsys: Capture) -> None:
    leave(crawl, at=time.time() - 62)
    lock = DirectoryLock(crawl)
    assert "; silent for 1m" in shown(capsys, str(crawl))
    lock.release()


def test_a_process_that_has_just_begun(crawl: Path, capsys: Capture) -> None:
    leave(crawl, pid=1, state="finished")
    lock = DirectoryLock(crawl)
    assert "recovering or just begun" in shown(capsys, str(crawl))
    lock.release()


def test_a_crawl_that_was_killed(crawl: Path, capsys: Capture) -> None:
    leave(crawl, pid=1)
    text = shown(capsys, str(crawl))
    assert ": killed after 20" in text
    assert "run the same command to resume (lycosa crawl ... --into " in text


def test_a_crawl_that_ended(crawl: Path, capsys: Capture) -> None:
    leave(crawl, state="finished", pending=0, deferred=0)
    text = shown(capsys, str(crawl))
    assert ": finished, 20" in text and "nothing is left to do" in text
    leave(crawl, state="limit")
    assert "run the same command to resume" in shown(capsys, str(crawl))


def test_without_a_status_the_log_is_added_up(crawl: Path, capsys: Capture) -> None:
    text = shown(capsys, str(crawl))
    assert "not running; it left no status" in text
    assert "pages        5 (2xx 3, 3xx 1, 4xx 1)" in text
    assert "skipped      robots 1, failed 1" in text
    (crawl / "status.json").write_bytes(b'{"at": 1')
    (crawl / "running").write_bytes(b"")
    assert "killed: nothing that was committed is lost" in shown(capsys, str(crawl))


def test_a_page_that_was_lost_is_taken_off_once(tmp_path: Path, capsys: Capture) -> None:
    made = MadeCrawl(tmp_path / "crawl")
    made.configure()
    shard, at = made.fetch("http://a.test/", 200, body=b"12345", keep=True)
    made.fetch("http://a.test/2", 404, body=b"678")
    made.log(Lost(made.tick(), "http://a.test/", 0, 0, "x.warc.gz", at, 200, 5, 0, 0), shard)
    made.fetch("http://a.test/", 200, body=b"12345", keep=True)
    made.close()
    manifest = json.loads((made.directory / "crawl.json").read_text())
    (made.directory / "crawl.json").write_text(json.dumps({**manifest, "cluster": True}))
    text = shown(capsys, str(made.directory))
    assert "pages        2 (2xx 1, 4xx 1)" in text
    assert ": a copy of a cluster's crawl" in text and "lycosa cluster fetch" in text and "resume" not in text


def test_json(crawl: Path, capsys: Capture) -> None:
    found = json.loads(shown(capsys, str(crawl), "--json"))
    assert (found["state"], found["process"], found["status"], found["age"]) == ("unknown", None, None, None)
    assert found["totals"]["fetched"] == 5
    assert found["last_commit"].startswith("20")
    leave(crawl)
    lock = DirectoryLock(crawl)
    found = json.loads(shown(capsys, str(crawl), "--json"))
    lock.release()
    assert (found["state"], found["process"]) == ("running", os.getpid())
    assert found["status"]["pages"] == 5000
    assert found["caches"]["hrefs"] == {"asked": 1000, "hits": 810, "rate": 0.81}
    assert 0 <= found["age"] < 60


def test_watching_ends_with_the_crawl(crawl: Path) -> None:
    leave(crawl, pid=os.getpid())
    lock = DirectoryLock(crawl)
    command = [sys.executable, "-m", "lycosa.cli.main", "status", str(crawl), "--watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["state"] == "running"
            leave(crawl, state="stopped")
            lock.release()
            assert json.loads(process.stdout.read().splitlines()[-1])["state"] == "stopped"
            assert process.wait(240) == 0
        finally:
            process.kill()


def test_whether_a_process_crawls(crawl: Path) -> None:
    assert process_of(crawl) is None
    lock = DirectoryLock(crawl)
    assert process_of(crawl) == os.getpid()
    lock.release()
    assert process_of(crawl) is None  # the number is still there, and lives, but nobody holds the lock
    again = DirectoryLock(crawl)  # asking did not take it
    again.release()
    for text in (b"", b"x\n", b"-1\n", b"999999999999999999999\n"):
        (crawl / "lock").write_bytes(text)
        assert process_of(crawl) is None


def test_mistakes(tmp_path: Path, capsys: Capture) -> None:
    assert main(["status", str(tmp_path)]) == 2
    found = capsys.readouterr()
    assert "is not the directory of a crawl" in found.err and found.err.count("\n") == 1
