"""The index follows the log: versions, removals, copies, kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lycosa.ask.indexing import Indexing, Round, shard_path
from lycosa.ask.reading import CrawlReader
from lycosa.ask.searching import opened
from lycosa.errors import ConfigError, LycosaError
from lycosa.index.reader import ShardReader
from lycosa.index.search import Answer
from lycosa.records import Duplicates, Lost
from tests.crawl.made import BEGIN, MadeCrawl, anchors


def html(text: str, title: str = "", language: str = "en") -> bytes:
    return f"<html lang={language}><title>{title}</title><h1>{title}</h1><p>{text}</p></html>".encode()


def index(crawl: MadeCrawl) -> Round:
    with Indexing(crawl.reader()) as indexing:
        return indexing.round()


def ask(crawl: MadeCrawl, query: str) -> Answer:
    return opened(crawl.reader()).search(query)


def urls(crawl: MadeCrawl, query: str) -> set[str]:
    return {result.url for result in ask(crawl, query).results}


def documents(directory: Path, shards: int) -> list[tuple[int, str, int, str]]:
    """(shard, URL, position, text) of every page in the index, repeats included."""
    rows = []
    for shard in range(shards):
        reader = ShardReader(shard_path(directory, shard))
        for hit in reader.top(reader.everything(), 100_000).rows:
            page = reader.page(hit.address)
            rows.append((shard, page.url, page.position, page.text))
    return sorted(rows)


def test_pages_become_searchable_and_a_second_round_does_nothing(tmp_path: Path) -> None:
    crawl = MadeCrawl(tmp_path)
    crawl.fetch("http://a.test/", body=html("A wolf spider.", "Spiders"), keep=True, title="Spiders")
    crawl.fetch("http://b.test/de", body=html("Die Häuser.", "Haus", "de-AT"), keep=True, title="Haus")
    crawl.fetch("http://a.test/picture", body=b"\xff\xd8", type="image/jpeg", keep=True)
    crawl.fetch("http://a.test/unkept", body=html("lost", "kept title"), title="kept title")
    with pytest.raises(ConfigError, match="lycosa index"):
        ask(crawl, "spider")
    done = index(crawl)
    assert (done.pages, done.bodiless) == (3, 1)
    assert urls(crawl, "spider") == {"http://a.test/"}
    assert urls(crawl, "haus lang:de") == {"http://b.test/de"}
    assert urls(crawl, "inheading:haus") == {"http://b.test/de"}
    assert urls(crawl, "kept") == {"http://a.test/unkept"}
    again = index(crawl)
    assert (again.records, again.pages, again.removed) == (0, 0, 0)
    assert ask(crawl, "spider").pages == 3
    crawl.fetch("http://a.test/2", body=html("another spider"), keep=True)
    assert index(crawl).pages == 1
    assert urls(crawl, "spider") == {"http://a.test/", "http://a.test/2"}


def test_a_page_that_was_fetched_again_replaces_its_version(tmp_path: Path) -> None:
    crawl = MadeCrawl(tmp_path)
    crawl.fetch("http://a.test/", body=html("first words"), keep=True)
    index(crawl)
    crawl.fetch("http://a.test/", body=html("second words"), keep=True)
    crawl.fetch("http://a.test/", 304)
    crawl.fetch("http://a.test/", 503, body=b"busy")
    assert index(crawl).pages == 1
    assert urls(crawl, "first") == set()
    assert urls(crawl, "second") == {"http://a.test/"}
    assert ask(crawl, "words").total == 1
    crawl.fetch("http://a.test/", body=html("second words"), keep=True)
    assert index(crawl).pages == 0


@pytest.mark.parametrize("gone", [{"status": 404}, {"status": 301}, {"noindex": True}])
def test_a_page_that_is_gone_or_must_not_be_indexed_is_taken_out(
    tmp_path: Path, gone: dict[str, int]
) -> None:
    crawl = MadeCrawl(tmp_path)
    crawl.fetch("http://a.test/", body=html("some words"), keep=True)
    crawl.fetch("http://a.test/secret", body=html("secret words"), keep=True, noindex=True)
    index(crawl)
    assert urls(crawl, "words") == {"http://a.test/"}
    crawl.fetch("http://a.test/", body=html("other words"), keep=True, **gone)  # type: ignore[arg-type]
    assert index(crawl).removed == 1
    assert urls(crawl, "words") == set()


def test_copies_are_named_with_their_original_and_take_its_place(tmp_path: Path) -> None:
    crawl = MadeCrawl(tmp_path, shards=4)
    hosts = [f"http://{name}.test/" for name in "abcdef"]
    assert len({crawl.shard_of(url) for url in hosts}) > 1
    crawl.fetch(hosts[0], body=html("the same lichen"), keep=True)
    for url in hosts[1:]:
        crawl.fetch(url, body=html("the same lichen"), keep=True, duplicate=True)
    done = index(crawl)
    assert (done.pages, done.copies) == (1, 5)
    (result,) = ask(crawl, "lichen").results
    assert result.url == hosts[0] and set(result.others) == set(hosts[1:])
    crawl.fetch(hosts[0], body=html("something else"), keep=True)
    index(crawl)
    (result,) = ask(crawl, "lichen").results
    assert result.url == hosts[1] and set(result.others) == set(hosts[2:])


def test_late_word_of_a_copy_and_a_fetch_that_is_taken_back(tmp_path: Path) -> None:
    crawl = MadeCrawl(tmp_path, shards=1)
    crawl.fetch("http://a.test/", body=html("the same lichen"), keep=True)
    _, late = crawl.fetch("http://b.test/", body=html("the same lichen"), keep=True)
    _, old = crawl.fetch("http://c.test/", body=html("old moss"), keep=True)
    _, new = crawl.fetch("http://c.test/", body=html("new moss"), keep=True)
    assert index(crawl).pages == 4
    crawl.log(Duplicates(crawl.tick(), 0, 9, [late]), 0)
    record = crawl.pages[0, new]
    common = (record.url, 0, 0, "x.warc", new, 200, record.size, 0, record.digest)
    crawl.log(Lost(crawl.tick(), *common, remains=True), 0)
    done = index(crawl)
    assert (done.copies, done.removed, done.pages) == (1, 1, 1)
    assert ask(crawl, "lichen").total == 1
    (moss,) = ask(crawl, "moss").results
    assert "old moss" in moss.snippet.text and old < new
    crawl.log(Lost(crawl.tick(), record.url, 0, 0, "x.warc", old, 200, 9, 0, 5), 0)
    index(crawl)
    assert urls(crawl, "moss") == set()


def test_pages_are_found_by_what_links_call_them(tmp_path: Path) -> None:
    crawl = MadeCrawl(tmp_path, shards=3)
    crawl.fetch(
        "http://a.test/", body=html("plain words"), keep=True, links=anchors(("http://b.test/", "lichens"))
    )
    crawl.fetch("http://b.test/", body=html("other words"), keep=True)
    index(crawl)
    assert urls(crawl, "lichen") == {"http://b.test/"}
    crawl.fetch(
        "http://c.test/", body=html("more"), keep=True, links=anchors(("http://b.test/", "moss and ferns"))
    )
    done = index(crawl)
    assert (done.pages, done.renamed) == (1, 1)
    assert urls(crawl, "inanchor:fern") == urls(crawl, "inanchor:lichen") == {"http://b.test/"}
    assert urls(crawl, "other") == {"http://b.test/"}
    (result,) = ask(crawl, "lichen").results
    assert "other words" in result.snippet.text
    crawl.fetch("http://d.test/", body=html("again"), keep=True, links=anchors(("http://b.test/", "lichens")))
    crawl.fetch(
        "http://d.test/2", body=html("last"), keep=True, links=anchors(("http://b.test/", "moss and ferns"))
    )
    assert index(crawl).renamed == 0


def test_one_at_a_time_and_of_one_crawl(tmp_path: Path) -> None:
    crawl = MadeCrawl(tmp_path / "a")
    crawl.fetch("http://a.test/", body=html("words"), keep=True)
    with Indexing(crawl.reader()) as indexing:
        indexing.round()
        with pytest.raises(LycosaError):
            Indexing(crawl.reader())
    other = MadeCrawl(tmp_path / "b")
    other.commit()
    (tmp_path / "a" / "index").rename(tmp_path / "b" / "index")
    with pytest.raises(LycosaError, match="another crawl: build it anew with --rebuild"):
        Indexing(other.reader())
    with Indexing(other.reader(), rebuild=True) as indexing:
        assert indexing.round().pages == 0


CHILD = """
import sys
import lycosa.index.writer as writer
writer.COMMIT_DOCUMENTS = int(sys.argv[2])
commit = writer.ShardWriter.commit
def told(self, *args):
    print("commit", flush=True)
    commit(self, *args)
writer.ShardWriter.commit = told
from lycosa.ask.indexing import Indexing
from lycosa.ask.reading import CrawlReader
with Indexing(CrawlReader(sys.argv[1])) as indexing:
    indexing.round()
"""
PAGES = 120


def long_crawl(directory: Path, rounds: int) -> MadeCrawl:
    """Pages of which some are fetched again, and some go."""
    crawl = MadeCrawl(directory, shards=2)
    for number in range(PAGES * rounds):
        url = f"http://{'abcd'[number % 4]}.test/{number * 7 % PAGES}"
        status = 404 if number % 11 == 5 else 200
        crawl.fetch(url, status, body=html(f"version {number} of words"), keep=True)
        if not number % 10:
            crawl.commit()
    crawl.commit()
    return crawl


def expected(crawl: MadeCrawl, places: list[int] | None = None) -> list[tuple[int, str, int, str]]:
    """What the index must have when it has come to these positions."""
    pages: dict[str, tuple[int, str, int, str]] = {}
    for (shard, position), record in sorted(crawl.pages.items()):
        if places is not None and position >= places[shard]:
            continue
        pages.pop(record.url, None)
        if record.status == 200:
            number = (record.at - BEGIN) // 1000 - 1  # each fetch is a second after the one before
            pages[record.url] = shard, record.url, position, f"version {number} of words"
    return sorted(pages.values())


def places(directory: Path) -> list[int] | None:
    found = []
    for shard in range(2):
        path = shard_path(directory, shard)
        if not (path / "meta.json").exists():
            return None
        marker = ShardReader(path).marker
        found.append(marker.place[1] if marker is not None else 0)
    return found


def killed(tmp_path: Path, times: int, commit: int, seed: int) -> None:
    draw = random.Random(seed)
    crawl = long_crawl(tmp_path, 3)
    ends = [max(position for shard, position in crawl.pages if shard == each) + 1 for each in range(2)]
    for _ in range(times):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(commit)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert child.stdout is not None
        for _ in range(draw.randrange(1, 6)):  # which commit, and how far into it or behind it
            if not child.stdout.readline():
                break
        try:
            child.wait(draw.random() ** 2 * 0.1)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        child.communicate()
        at = places(tmp_path)
        if at is None:
            continue
        assert documents(tmp_path, 2) == expected(crawl, at)
        if at == ends:  # all is indexed: more happens
            for number in range(30):
                url = f"http://{'abcd'[number % 4]}.test/{draw.randrange(PAGES)}"
                crawl.fetch(url, body=html(f"version {len(crawl.pages)} of words"), keep=True)
            crawl.commit()
            ends = [
                max(position for shard, position in crawl.pages if shard == each) + 1 for each in range(2)
            ]
    with Indexing(CrawlReader(tmp_path)) as indexing:
        indexing.round()
    assert documents(tmp_path, 2) == expected(crawl)


def test_killed_while_indexing(tmp_path: Path) -> None:
    killed(tmp_path, 4, 10, 1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("commit", [3, 40])
def test_killed_thirty_times(tmp_path: Path, commit: int) -> None:
    killed(tmp_path, 30, commit, commit)
