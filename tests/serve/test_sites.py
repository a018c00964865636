"""The table of sites."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lycosa.ask.reading import CrawlReader
from lycosa.records import Before, Lost, Skipped, Why
from lycosa.records import Robots as RobotsRecord
from lycosa.serve.sites import FILE, Sites
from tests.crawl.made import MadeCrawl


@pytest.fixture
def made(tmp_path: Path) -> MadeCrawl:
    made = MadeCrawl(tmp_path / "crawl", shards=3)
    made.configure()
    for number in range(40):
        for page in range(number % 5 + 1):
            made.fetch(
                f"http://h{number}.test/p{page}", status=404 if page == 3 else 200, body=b"x" * (number + 1)
            )
    commit(made)
    return made


def commit(made: MadeCrawl) -> None:
    for log in made.logs:
        log.commit()


def counted(sites: Sites) -> dict[str, int]:
    found: dict[str, int] = {}
    for number in range(10):
        found |= {row.site: row.pages for row in sites.page(sort="site", up=True, number=number)}
    return found


def truth(made: MadeCrawl) -> Counter[str]:
    return Counter(record.url.rpartition("/")[0] for record in made.pages.values())


def test_counts_are_those_of_the_log_however_it_is_read(made: MadeCrawl, tmp_path: Path) -> None:
    reader = CrawlReader(made.directory)
    whole = Sites(reader, None)
    whole.catch_up()
    pieces = Sites(reader, tmp_path / "serve")
    while pieces.catch_up(7):
        pieces.close()  # as if it had been killed: each time from the file
        pieces = Sites(reader, tmp_path / "serve")
    assert counted(whole) == counted(pieces) == truth(made)
    assert pieces.count() == 40 and pieces.count("h1") == 11
    row = pieces.one("http://h38.test")
    assert row is not None and (row.pages, row.errors, row.bytes) == (4, 1, 4 * 39)


def test_what_is_taken_back_and_what_is_skipped(made: MadeCrawl) -> None:
    url = "http://h4.test/p0"
    shard = made.shard_of(url)
    position = next(at for (where, at), record in made.pages.items() if record.url == url)
    lost = made.pages[shard, position]
    sites = Sites(CrawlReader(made.directory), None)
    sites.catch_up()
    made.log(Lost(made.tick(), url, 0, 0, "f", position, lost.status, lost.size, 0, 0), shard)
    made.log(Skipped(made.tick(), "http://h4.test/x", 0, Why.ROBOTS), shard)
    made.fetch("http://h4.test/p1", before=Before.PAGE)
    commit(made)
    sites.catch_up()
    row = sites.one("http://h4.test")
    assert row is not None and (row.pages, row.fetches, row.skipped) == (4, 5, 1)
    assert sites.reasons("http://h4.test") == [("robots", 1)]
    assert [count for _, count in sites.reasons("http://h4.test", "robots")] == [1]
    assert dict(sites.reasons("http://h8.test", "status")) == {"200": 3, "404": 1}
    assert [row[1:] for row in sites.slots("http://h8.test")] == [(4, 1)]


def test_the_newest_robots_file(made: MadeCrawl) -> None:
    site = "http://h2.test"
    shard = made.shard_of(site + "/")
    for body in (b"User-agent: *\nDisallow: /a", b"User-agent: *\nDisallow: /b"):
        made.log(RobotsRecord(made.tick(), site, 200, body, made.at + 1), shard)
    commit(made)
    sites = Sites(CrawlReader(made.directory), None)
    sites.catch_up()
    found = sites.robots(site)
    assert found is not None and found.body.endswith(b"/b")
    assert sites.robots("http://h3.test") is None and sites.robots("nothing") is None


def test_sorted_searched_and_paged(made: MadeCrawl) -> None:
    sites = Sites(CrawlReader(made.directory), None)
    sites.catch_up()
    sizes = [row.bytes for row in sites.page(sort="bytes")]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == 40
    assert [row.pages for row in sites.page(sort="pages", up=True)][:8] == [1] * 8
    assert sites.page(sort="; drop table site", number=-3) == sites.page(sort="pages")
    assert sites.page(number=9) == []
    assert [row.site for row in sites.page("H39.test")] == ["http://h39.test"]
    assert sites.page("%") == sites.page("_") == sites.page("'") == sites.page("\\") == []


def test_a_damaged_file_is_made_anew(made: MadeCrawl, tmp_path: Path) -> None:
    place = tmp_path / "serve"
    place.mkdir()
    (place / FILE).write_bytes(b"no database at all" * 1000)
    sites = Sites(CrawlReader(made.directory), place)
    sites.catch_up()
    assert counted(sites) == truth(made)


def test_of_another_crawl_nothing_is_kept(made: MadeCrawl, tmp_path: Path) -> None:
    place = tmp_path / "serve"
    first = Sites(CrawlReader(made.directory), place)
    first.catch_up()
    first.close()
    other = MadeCrawl(tmp_path / "other", shards=1)
    other.configure()
    other.fetch("http://z.test/")
    commit(other)
    sites = Sites(CrawlReader(other.directory), place)
    sites.catch_up()
    assert counted(sites) == {"http://z.test": 1}
