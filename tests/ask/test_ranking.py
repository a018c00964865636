"""PageRank in the index: it decides between equal texts, grows with the log, and says of when it is."""

from __future__ import annotations

from pathlib import Path

from lycosa.ask.indexing import DIRECTORY, Indexing
from lycosa.ask.searching import opened
from lycosa.files import DiskFiles
from lycosa.index.ranks import RankFile
from lycosa.index.search import Answer, Asked
from lycosa.records import Link, LinkKind, Links
from tests.crawl.made import MadeCrawl, anchors


def body(text: str) -> bytes:
    return f"<html lang=en><p>{text}</p></html>".encode()


def ask(crawl: MadeCrawl, weight: float = 0.2) -> Answer:
    return opened(crawl.reader()).search("spider", Asked(rank_weight=weight, fold=False))


def order(crawl: MadeCrawl, weight: float = 0.2) -> list[str]:
    return [result.url for result in ask(crawl, weight).results]


def test_a_page_that_important_pages_link_to_comes_first(tmp_path: Path) -> None:
    crawl = MadeCrawl(tmp_path)
    # Five unknown pages link to "many"; one page that all link to links to "one".
    crawl.fetch("http://a.test/many", body=body("spider one"), keep=True)
    crawl.fetch("http://b.test/one", body=body("spider two"), keep=True)
    crawl.fetch("http://c.test/none", body=body("spider six"), keep=True)
    crawl.fetch("http://c.test/hub", links=anchors(("http://b.test/one", "")), body=body("hub"), keep=True)
    for number in range(30):
        links = [("http://c.test/hub", "")] + ([("http://a.test/many", "")] if number < 5 else [])
        crawl.fetch(f"http://d.test/{number}", links=anchors(*links), body=body(f"x{number}"), keep=True)
    # Links that a page asks not to follow count for nothing.
    ignored = Links.pack([Link("http://c.test/none", LinkKind.ANCHOR, True, "")])
    for number in range(40):
        crawl.fetch(f"http://e.test/{number}", links=ignored, body=body(f"y{number}"), keep=True)
    with Indexing(crawl.reader()) as indexing:
        indexing.round()
        assert ask(crawl).ranked == 0
        assert indexing.rank(77) == 74
        assert order(crawl) == ["http://b.test/one", "http://a.test/many", "http://c.test/none"]
        answer = ask(crawl)
        assert answer.ranked == 77 and [result.rank for result in answer.results] == sorted(
            (result.rank for result in answer.results), reverse=True
        )
        assert {result.score for result in ask(crawl, 0.0).results} == {ask(crawl, 0.0).results[0].score}

        # Nothing new: nothing is done. A little: only if it is wanted.
        assert indexing.rank(78) == 0
        links = anchors(("http://a.test/many", ""))
        for number in range(30, 60):
            crawl.fetch(f"http://d.test/{number}", links=links, body=body(f"z{number}"), keep=True)
        indexing.round()
        assert indexing.rank(79, grown=0.9) == 0 and ask(crawl).ranked == 77
        assert indexing.rank(80, grown=0.1) == 104 and ask(crawl).ranked == 80
        assert order(crawl)[0] == "http://a.test/many"

    whole = RankFile(DiskFiles(tmp_path / DIRECTORY))
    with Indexing(crawl.reader(), rebuild=True) as indexing:
        assert RankFile(DiskFiles(tmp_path / DIRECTORY)).made == 0
        assert indexing.rank(81) == len(whole)
    again = RankFile(DiskFiles(tmp_path / DIRECTORY))
    keys = [int(key) for key in again._keys]
    assert again(keys) == whole(keys)
