"""Near duplicates on the crawl's path: pages that are like earlier ones are not expanded, if that is asked for."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from lycosa.ask.explain import explain
from lycosa.ask.reading import CrawlReader
from lycosa.crawl.near_pages import NearPages
from lycosa.fetch.protocol import Failure, Request
from lycosa.files import DiskFiles, Files
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply
from lycosa.log.reader import LogReader
from lycosa.records import Fetched
from lycosa.url.parts import path_of
from tests.crawl.scripted import SHARDS, Run, crawl

LEAF: dict[str, Any] = {"duplicates": {"alike": "leaf"}, "archive": {"keep": False}}
WORDS = ["".join(Random(n).choices("abcdefghij", k=6)) for n in range(400)]


def prose(seed: int, other: int = 0) -> str:
    """Three hundred words, of which the last is another."""
    return " ".join([*Random(seed).choices(WORDS, k=300), f"word{other}"])


def script(request: Request, before: int) -> Reply | Failure:
    """/ leads to /one, /like and /other; each of these, and each of what they lead to, has a page of its own."""
    path = path_of(request.url)
    below = path.count("/") > 1
    links = ["/one", "/like", "/other"] if path == "/" else [] if below else [f"{path}/below"]
    said = {"/": 1, "/one": 2, "/like": 2, "/other": 3}.get(path, 10 + len(path))
    if path == "/robots.txt" or (said > 3 and not below):
        return Reply(b"", 404)
    anchors = "".join(f'<a href="{each}">x</a>' for each in links)
    return Reply(f"<title>{path}</title><p>{prose(said, len(path))}</p>{anchors}".encode())


def run(files: Files, start: float = 0.0, **options: Any) -> Run:
    return crawl(files, start, script, ["http://a.test/"], **{**LEAF, **options})


def fetched(files: Files) -> dict[str, Fetched]:
    rows = (
        row
        for number in range(SHARDS)
        for _, row in LogReader(files.within(f"shards/{number:02d}/log")).scan()
    )
    return {path_of(row.url): row for row in rows if isinstance(row, Fetched)}


def test_a_page_that_is_like_another_is_no_place_to_go_on_from(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    run(files)
    rows = fetched(files)
    later = next(path for path in ("/one", "/like") if rows[path].like)
    first = "/like" if later == "/one" else "/one"
    assert {path for path, row in rows.items() if row.like} == {later}
    assert rows[later].like == f"http://a.test{first}"
    assert set(rows) == {"/", "/one", "/like", "/other", f"{first}/below", "/other/below"}
    crawl_ = CrawlReader(tmp_path)
    assert f"says nearly what http://a.test{first} says" in explain(crawl_, f"http://a.test{later}").why
    left = explain(crawl_, f"http://a.test{later}/below")
    assert left.state == "not followed" and "near duplicate" in left.why


def test_by_default_every_page_is_expanded() -> None:
    files = FaultyFiles()
    run(files, duplicates={})
    rows = fetched(files)
    assert {"/one/below", "/like/below", "/other/below"} < set(rows)
    assert not any(row.like for row in rows.values())
    assert not files.exists("near/manifest.json")


def test_what_was_fetched_in_an_earlier_run_counts() -> None:
    files = FaultyFiles()
    run(files, limits={"pages": 2})
    run(files, start=1000.0, limits={})
    rows = fetched(files)
    assert sum(bool(row.like) for row in rows.values()) == 1
    assert len(rows) == 6


@pytest.mark.parametrize("place", [1 << 60, 1 << 20])
def test_a_place_that_is_no_more_makes_nobody_a_duplicate(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another agent has the shard by now, or the tail of the log was lost."""
    files = FaultyFiles()
    add = NearPages._add
    monkeypatch.setattr(
        NearPages, "_add", lambda self, key, found, hidden, _: add(self, key, found, hidden, place)
    )
    run(files)
    assert not any(row.like for row in fetched(files).values())
