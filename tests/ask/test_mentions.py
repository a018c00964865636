"""Filters of mentions: what `explain` says with them is what it says without, and it reads less."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest

from lycosa.ask import mentions
from lycosa.ask.explain import as_plain, explain
from lycosa.ask.follower import Stretch
from lycosa.ask.mentions import Mentions
from lycosa.ask.reading import CrawlReader
from lycosa.log import blocks
from lycosa.records import Duplicates, Fetched, Lost, Why
from tests.crawl.made import MadeCrawl, anchors

URLS = [f"http://h{n % 7}.test/{n}" for n in range(60)]


@pytest.fixture(autouse=True)
def small_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mentions, "TERMS", 40)


def known(crawl: CrawlReader, place: Path) -> list[Mentions]:
    found = [Mentions(log, place / f"{n:02d}", crawl.manifest.hash_seed) for n, log in enumerate(crawl.logs)]
    for each in found:
        while each.catch_up(10):
            pass
    return found


def grow(made: MadeCrawl, random: Random, pages: int) -> None:
    """Pages that link to each other, skips, waits, robots files, copies, and some that are taken back."""
    for _ in range(pages):
        url = random.choice(URLS)
        kind = random.random()
        if kind < 0.1:
            made.skip(url, Why.ROBOTS, "line 1: Disallow: /")
        elif kind < 0.2:
            made.defer(url, Why.RETRY, made.at + 1000)
        elif kind < 0.25:
            made.robots(url.rpartition("/")[0], b"User-agent: *\nDisallow: /3\n")
        else:
            made.fetch(url, links=anchors(*random.sample(URLS, 6)), digest=random.randrange(1, 9))
        if random.random() < 0.3:
            made.commit()
    made.commit()


@pytest.fixture
def made(tmp_path: Path) -> MadeCrawl:
    made = MadeCrawl(tmp_path, shards=2)
    made.configure()
    made.seed(URLS[0])
    grow(made, Random(5), 150)
    return made


def same(crawl: CrawlReader, filters: list[Mentions], urls: Sequence[str] = URLS) -> None:
    for url in [*urls, "http://nobody.test/"]:
        with_them = explain(crawl, url, logs=[each.stretch() for each in filters])
        assert as_plain(with_them) == as_plain(explain(crawl, url)), url


def test_the_same_is_explained_as_without_them(made: MadeCrawl, tmp_path: Path) -> None:
    crawl = made.reader()
    filters = known(crawl, tmp_path / "m")
    assert all(each.end > 0 for each in filters)
    same(crawl, filters)


def test_what_came_later_and_what_was_amended_is_found_too(made: MadeCrawl, tmp_path: Path) -> None:
    filters = known(made.reader(), tmp_path / "m")
    for shard in range(2):
        fetched = [
            (at, row) for at, row in Stretch(made.reader().logs[shard]).read() if isinstance(row, Fetched)
        ]
        (gone, lost), (late, _) = fetched[3], fetched[5]
        said = (
            lost.depth,
            lost.hops,
            "a.warc.gz",
            gone,
            lost.status,
            lost.size,
            len(lost.links),
            lost.digest,
        )
        made.log(Lost(made.tick(), lost.url, *said), shard)
        made.log(Duplicates(made.tick(), 0, 0, [late]), shard)
    grow(made, Random(6), 3)
    same(made.reader(), filters)
    grow(made, Random(7), 100)
    crawl = made.reader()
    same(crawl, known(crawl, tmp_path / "m"))


def test_few_blocks_are_read(made: MadeCrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made.fetch("http://rare.test/", links=anchors("http://h0.test/rare"))
    grow(made, Random(8), 200)
    crawl = made.reader()
    filters = known(crawl, tmp_path / "m")
    read = 0
    unpack = blocks.unpack

    def counting(block: bytes, head: blocks.Head) -> list[memoryview] | None:
        nonlocal read
        read += 1
        return unpack(block, head)

    monkeypatch.setattr(blocks, "unpack", counting)
    explain(crawl, "http://h0.test/rare")
    whole, read = read, 0
    explain(crawl, "http://h0.test/rare", logs=[each.stretch() for each in filters])
    assert read < whole / 3


@pytest.mark.parametrize("harm", ["cut", "overwritten", "amends gone", "gone", "rubbish"])
def test_a_damaged_file_is_made_anew(made: MadeCrawl, tmp_path: Path, harm: str) -> None:
    crawl = made.reader()
    ends = [each.end for each in known(crawl, tmp_path / "m")]
    file = tmp_path / "m" / "01"
    data = bytearray(file.read_bytes())
    if harm == "cut":
        file.write_bytes(data[:-10])
    elif harm == "overwritten":
        data[-100:] = bytes(100)
        file.write_bytes(data)
    elif harm == "amends gone":
        file.with_suffix(".amends").unlink()
    elif harm == "gone":
        file.unlink()
    else:
        file.write_bytes(b"x" * len(data))
    filters = known(crawl, tmp_path / "m")
    assert [each.end for each in filters] == ends
    same(crawl, filters, URLS[::4])


def test_what_was_not_durable_and_was_written_anew_is_read_anew(made: MadeCrawl, tmp_path: Path) -> None:
    """The machine lost power after the filters had seen the last commit."""
    crawl = made.reader()
    filters = known(crawl, tmp_path / "m")
    log = tmp_path / "shards" / "00" / "log"
    segment = next(log.glob("*.seg"))
    last = filters[0]._entries[-1]
    with segment.open("r+b") as file:
        file.truncate(last[mentions._LAST])
    crawl = CrawlReader(tmp_path)
    assert known(crawl, tmp_path / "m")[0].end < filters[0].end
    same(crawl, known(crawl, tmp_path / "m"))


def test_links_to_a_front_page_are_not_all_looked_at(made: MadeCrawl, tmp_path: Path) -> None:
    for _ in range(30):
        made.fetch(URLS[7], links=anchors("http://front.test/"))
    made.commit()
    crawl = made.reader()
    found = explain(crawl, "http://front.test/", most=5)
    assert found.more_discoveries and 5 <= found.discoveries <= 10
    assert msgspec.to_builtins(found.first) == msgspec.to_builtins(explain(crawl, "http://front.test/").first)
