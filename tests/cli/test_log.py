"""`lycosa log`, run as users run it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lycosa.cli.main import main
from lycosa.crawl.config import Options
from lycosa.fetch.protocol import FetchOptions
from lycosa.files import DirectoryLock
from lycosa.log import reader
from lycosa.records import Received, Record, Why, decode
from tests.crawl.made import MadeCrawl, anchors, small

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def crawl(tmp_path: Path) -> str:
    return str(small(tmp_path / "crawl").directory)


def rows(capsys: Capture, *args: str) -> list[dict[str, Any]]:
    assert main(["log", *args]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_configuration_is_short_and_shown_once(tmp_path: Path, capsys: Capture) -> None:
    """Sixteen shards log the same two kilobytes."""
    made = MadeCrawl(tmp_path / "crawl", shards=4)
    changed = Options(visits=7, fetch=FetchOptions(user_agent="me/1 (+https://me.test/)"))
    for options in (Options(), changed, Options()):
        made.configure(options)
    made.commit()
    found = rows(capsys, str(tmp_path / "crawl"))
    assert [row["options"] for row in found] == [
        {},
        {"visits": 7, "fetch": {"user_agent": "me/1 (+https://me.test/)"}},
        {},
    ]
    full = rows(capsys, str(tmp_path / "crawl"), "--full")
    assert len(full) == 12 and len(full[0]["options"]) > 10


def test_everything(crawl: str, capsys: Capture) -> None:
    found = rows(capsys, crawl)
    assert len(found) == 12
    kinds = {row["record"] for row in found}
    assert kinds == {"configured", "seeded", "robots", "fetched", "skipped", "deferred"}
    assert [(row["shard"], row["position"]) for row in found] == sorted(
        (row["shard"], row["position"]) for row in found
    )
    first = next(row for row in found if row["record"] == "fetched")
    assert first["at"] == "2023-11-14T22:13:23.000Z"
    assert first["links"] == 4
    assert first["timing"] == {"dns": 1, "connect": 2, "first_byte": 10, "total": 20}
    assert first["stored"]["offset"] > 0
    robots = next(row for row in found if row["record"] == "robots")
    assert robots["body"] == "User-agent: *\nDisallow: /private\n"


def test_filters(crawl: str, capsys: Capture) -> None:
    assert [row["url"] for row in rows(capsys, crawl, "--kind", "skipped, deferred")] == [
        "http://a.test/private/x",
        "http://b.test/slow",
        "http://b.test/busy",
    ]
    assert [row["record"] for row in rows(capsys, crawl, "--host", "B.test")] == [
        "robots",
        "fetched",
        "skipped",
        "deferred",
    ]
    assert [row["url"] for row in rows(capsys, crawl, "--url", "/gone")] == ["http://a.test/gone"]
    seeded = rows(capsys, crawl, "--url", "http://a.test/", "--kind", "seeded", "--links", "list")
    assert seeded[0]["links"] == [{"url": "http://a.test/", "kind": "seed", "nofollow": False, "text": ""}]
    late = rows(capsys, crawl, "--since", "2023-11-14T22:13:29Z", "--until", "2023-11-14T22:13:31Z")
    assert [row["url"] for row in late] == ["http://b.test/", "http://b.test/slow"]
    assert rows(capsys, crawl, "--since", "1h") == []
    assert len(rows(capsys, crawl, "--until", "1h")) == 12
    assert len(rows(capsys, crawl, "--limit", "3")) == 3
    assert rows(capsys, crawl, "--limit", "0") == []
    shard = rows(capsys, crawl, "--url", "/gone")[0]["shard"]
    part = rows(capsys, crawl, "--shard", str(shard), "--from", "5", "--url", "a.test")
    assert [row["position"] for row in part] == [5, 6, 7]
    assert "links" not in rows(capsys, crawl, "--kind", "fetched", "--links", "none")[0]


def test_by_time(tmp_path: Path, capsys: Capture) -> None:
    made = MadeCrawl(tmp_path, shards=4)
    for number in range(40):
        made.fetch(f"http://h{number}.test/")
    made.close()
    shards = [row["shard"] for row in rows(capsys, str(tmp_path))]
    assert len(set(shards)) > 1 and shards == sorted(shards)
    merged = rows(capsys, str(tmp_path), "--by-time")
    assert [row["url"] for row in merged] == [f"http://h{number}.test/" for number in range(40)]


def test_bytes_and_received_links(tmp_path: Path, capsys: Capture) -> None:
    made = MadeCrawl(tmp_path, shards=1)
    made.robots("http://a.test", b"\xff\xfeU")
    made.log(Received(made.tick(), 3, 9, anchors("http://a.test/1", "http://a.test/2"), [4, 5], b"\0\2"), 0)
    made.close()
    robots, received = rows(capsys, str(tmp_path), "--links", "list")
    assert base64.b64decode(robots["body_base64"]) == b"\xff\xfeU" and "body" not in robots
    assert (received["sender"], received["cursor"]) == (3, 9)
    assert [(link["url"], link["depth"], link["hops"]) for link in received["links"]] == [
        ("http://a.test/1", 4, 0),
        ("http://a.test/2", 5, 2),
    ]


def test_secrets_are_not_shown(tmp_path: Path, capsys: Capture) -> None:
    made = MadeCrawl(tmp_path, shards=1)
    fetch = FetchOptions(
        auth={"a.test": "me:geheim1"},
        cookies=("id=geheim2",),
        headers=("X-Key: geheim3",),
        proxy="http://me:geheim4@proxy.test:1",
        user_agent="bot",
    )
    made.configure(Options(public=False, fetch=fetch))
    made.close()
    assert main(["log", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "geheim" not in out
    shown = json.loads(out)["options"]["fetch"]
    assert shown["auth"] == {"a.test": "..."} and shown["cookies"] == ["id=..."]
    assert shown["proxy"] == "http://...@proxy.test:1"
    assert shown["user_agent"] == "bot"


def test_follow_prints_what_is_committed_until_the_crawl_ends(tmp_path: Path) -> None:
    made = MadeCrawl(tmp_path)
    made.configure()
    made.fetch("http://a.test/first")
    made.commit()
    lock = DirectoryLock(tmp_path)
    command = [sys.executable, "-m", "lycosa.cli.main", "log", str(tmp_path), "--follow", "--kind", "fetched"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())["url"] == "http://a.test/first"
        for number in range(3):
            made.fetch(f"http://h{number}.test/")
            made.commit()
            assert json.loads(process.stdout.readline())["url"] == f"http://h{number}.test/"
        made.fetch("http://a.test/last")
        made.commit()
        lock.release()
        assert [json.loads(line)["url"] for line in process.stdout] == ["http://a.test/last"]
        assert process.wait(240) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_url_search_decodes_only_what_holds_the_text(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeCrawl(tmp_path, shards=1)
    for number in range(50):
        made.fetch(f"http://a.test/{number}")
    made.skip("http://a.test/needle", Why.SCOPE)
    made.close()
    decoded: list[object] = []

    def counting(row: memoryview) -> Record:
        decoded.append(row)
        return decode(row)

    monkeypatch.setattr(reader, "decode", counting)
    assert [row["record"] for row in rows(capsys, str(tmp_path), "--url", "a.test/needle")] == ["skipped"]
    assert len(decoded) == 1


def test_mistakes(crawl: str, tmp_path: Path, capsys: Capture) -> None:
    for args, message in (
        ([str(tmp_path)], "is not the directory of a crawl"),
        ([crawl, "--kind", "fetched,pages"], "--kind 'pages': known are configured, seeded"),
        ([crawl, "--since", "yesterday"], "--since 'yesterday' is no time"),
        ([crawl, "--until", "2023-99-01"], "--until '2023-99-01' is no time"),
        ([crawl, "--shard", "3"], "this crawl has shards 0 to 2"),
        ([crawl, "--from", "-1"], "0 or more"),
    ):
        assert main(["log", *args]) == 2
        found = capsys.readouterr()
        assert message in found.err
        assert found.err.count("\n") == 1
