"""A Scrapy spider with Lycosa's scheduler, killed with SIGKILL again and again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from lycosa.ask.export import body_of
from lycosa.ask.reading import CrawlReader
from lycosa.records import Fetched, Robots, Seeded
from tests.crawl.recorded import Asked, Said, Site, serving

pytest.importorskip("scrapy")

LISTS, QUOTES = 12, 5


def quotes(asked: Asked) -> Said:
    """Lists of quotes, each leading to the next; answers take a moment, so that a kill finds some under way."""
    kind, _, number = asked.path.strip("/").partition("/")
    if kind == "quote":
        return Said(f"<h1>Quote {number}</h1>".encode(), delay=0.15)
    if kind not in ("", "page"):
        return Said(b"", 404)
    page = int(number or 1)
    rows = [
        f'<div class=quote><span>Quote {page}.{n}</span><a href="/quote/{page}.{n}">more</a></div>'
        for n in range(QUOTES)
    ]
    last = f'<li class=next><a href="/page/{page + 1}">next</a></li>' if page < LISTS else ""
    return Said(("".join(rows) + last).encode(), delay=0.15)


class Quotes:
    """The site, which answers only so much at a time: no run comes to its end before it is killed."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._asked = self._most = 0

    def allow(self, more: int) -> None:
        with self._change:
            self._most = self._asked + more
            self._change.notify_all()

    def __call__(self, asked: Asked) -> Said:
        with self._change:
            self._asked += 1
            mine = self._asked
            self._change.wait_for(lambda: mine <= self._most, 170)
        return quotes(asked)


ALL = {f"Quote {page}.{n}" for page in range(1, LISTS + 1) for n in range(QUOTES)}


def start(site: Site, scheduler: str, directory: Path) -> subprocess.Popen[bytes]:
    words = [
        sys.executable,
        "-m",
        "tests.scrapy.spider",
        site.url(host="127.0.0.1"),
        scheduler,
        str(directory),
    ]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL)


def size(directory: Path) -> int:
    """Bytes of what a scheduler keeps."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def killed(site: Site, web: Quotes, scheduler: str, directory: Path, kills: int) -> int:
    """Kill it each time that it has read some pages and kept something of them; then let it end. How many kills."""
    done = 0
    for _ in range(kills):
        asked, kept = len(site.paths()), size(directory)
        web.allow(30)
        process = start(site, scheduler, directory)
        while process.poll() is None and (len(site.paths()) < asked + 8 or size(directory) <= kept + 8):
            time.sleep(0.005)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            done += 1
        process.wait()
    web.allow(1_000)
    assert start(site, scheduler, directory).wait(170) == 0
    return done


def items(directory: Path) -> Counter[str]:
    rows = (directory / "items.jsonl").read_text(encoding="utf-8").splitlines()
    return Counter(json.loads(row)["text"] for row in rows)


def archived(crawl: Path, site: Site, paths: set[str]) -> None:
    """The run is a crawl: every page that is done is in log and archive, with what Scrapy knew of it."""
    reader = CrawlReader(crawl)
    kept = {row.url: row for _, _, row in reader.records() if isinstance(row, Fetched)}
    assert kept.keys() == {site.url(path, host="127.0.0.1") for path in paths}
    first, second = (site.url(path, host="127.0.0.1") for path in ("/", "/quote/1.0"))
    assert kept[second].depth == 1 and kept[second].address == "127.0.0.1"
    assert second in [link.url for link in kept[first].links]
    assert body_of(reader, kept[second]) == b"<h1>Quote 1.0</h1>"
    assert [row.site for _, _, row in reader.records() if isinstance(row, Robots)]
    assert [row for _, _, row in reader.records() if isinstance(row, Seeded)], "the start request is a seed"
    for file in (crawl / "archive").glob("*.warc.gz"):
        with file.open("rb") as stream:  # nothing torn, and others can read it
            types = [record.rec_type for record in ArchiveIterator(stream)]
        assert types.count("request") == types.count("response") > 0


@pytest.mark.timeout(280)
def test_nothing_is_lost_or_doubled_across_kills(tmp_path: Path) -> None:
    web = Quotes()
    with serving(web) as site:
        assert killed(site, web, "lycosa", tmp_path, kills=2) == 2
        asked = Counter(site.paths())
        assert items(tmp_path) == Counter(ALL), "each item once"
        assert asked.keys() >= {f"/quote/{text.removeprefix('Quote ')}" for text in ALL}
        archived(tmp_path / "crawl", site, set(asked))
        again = sum(asked.values()) - len(asked)
        assert again < len(asked), "only what was under way, or not committed, was asked for again"
        before = len(site.asked)
        assert start(site, "lycosa", tmp_path).wait(170) == 0
        assert len(site.asked) == before, "a run that is finished asks for nothing"
