"""What other programs fetched is not fetched again, and what it links to is."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lycosa
from lycosa.ask.reading import CrawlReader
from lycosa.cli.main import main
from lycosa.clock import SystemClock
from lycosa.crawl import importing, near_seeds
from lycosa.crawl.importing import Done, Importer
from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.records import Seeded
from tests.archive.test_foreign import record
from tests.crawl.recorded import OPTIONS, chain, serving

HTML = b"Content-Type: text/html\r\n"


def answer(body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    return (
        b"HTTP/1.1 "
        + status
        + b"\r\n"
        + HTML
        + b"".join(field + b"\r\n" for field in fields)
        + b"\r\n"
        + body
    )


def imported(into: Path, scratch: Path, **what: Any) -> Done:
    with Importer(DiskFiles(into), SystemClock(), DiskFiles(scratch), shards=3) as importer:
        for name, value in what.items():
            getattr(importer, name)(value)
    return importer.done


def test_a_crawl_begins_where_another_ended(tmp_path: Path) -> None:
    """Of a chain of pages the first are imported from another crawl's archive: the others alone are asked for."""
    into = tmp_path / "into"
    with serving(chain(20)) as site:
        limited = {**OPTIONS, "limits": {"pages": 8}}
        lycosa.Crawl(site.url(), into=tmp_path / "other", **limited).run()
        first = site.paths()
        assert len(first) == 8
        (path,) = (tmp_path / "other" / "archive").glob("*.warc.gz")
        assert imported(into, tmp_path / "s1", warc=path) == Done(pages=8)
        assert imported(into, tmp_path / "s2", warc=path) == Done(passed=8)
        assert site.paths() == first, "nothing was asked for"
        lycosa.Crawl(site.url(), into=into, **OPTIONS).run()
        assert sorted(site.paths()[8:]) == sorted(f"/{n}" for n in range(8, 20))
    theirs = {page.url: page for page in lycosa.open(tmp_path / "other").pages()}
    ours = {page.url: page for page in lycosa.open(into).pages()}
    assert len(ours) == 20
    for url, page in theirs.items():
        mine = ours[url]
        assert (mine.body, mine.links, mine.title) == (page.body, page.links, page.title)
        assert mine.at == page.at - page.record.timing.total, "when it was asked for"
        assert (mine.record.digest, mine.record.type) == (page.record.digest, page.record.type)


def test_bodies_that_are_chunked_and_packed(tmp_path: Path) -> None:
    page = b"<title>T</title><a href=/b>b</a>"
    packed = gzip.compress(page)
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)
    rows = [
        record(
            "response",
            "http://site.test/",
            answer(chunks, b"Transfer-Encoding: chunked", b"Content-Encoding: gzip"),
        ),
        record("response", "http://site.test/undone", answer(page, b"Transfer-Encoding: chunked")),
        record("response", "http://site.test/moved", answer(b"", b"Location: /c", status=b"301 Moved")),
        record("resource", "http://site.test/file", b"words", Content_Type="text/plain"),
        record("revisit", "http://site.test/again", b""),
        record("response", "http://site.test/robots.txt", answer(b"User-agent: *")),
        record("response", "dns:site.test", b"1.2.3.4"),
        record("request", "http://site.test/", b"GET / HTTP/1.1\r\n\r\n"),
    ]
    path = tmp_path / "a.warc"
    path.write_bytes(b"".join(rows))
    assert imported(tmp_path / "into", tmp_path / "s", warc=path) == Done(pages=4, known=1)
    found = {
        page.url.removeprefix("http://site.test/"): page for page in lycosa.open(tmp_path / "into").pages()
    }
    assert found.keys() == {"", "undone", "moved", "file", "again"}
    assert found[""].body == found["undone"].body == page
    assert [link.url for link in found[""].links] == ["http://site.test/b"]
    assert [link.url for link in found["moved"].links] == ["http://site.test/c"] and found[
        "moved"
    ].status == 301
    assert (found["file"].body, found["file"].type) == (b"words", "text/plain")
    assert found["again"].body is None
    assert found[""].header("transfer-encoding") is None


def test_several_captures_are_fetches_of_one_page(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(
        b"".join(record("response", "http://site.test/", answer(body)) for body in (b"<p>one", b"<p>two"))
    )
    imported(tmp_path / "into", tmp_path / "s", warc=path)
    page = lycosa.open(tmp_path / "into").page("http://site.test/")
    assert page is not None and page.body == b"<p>two" and [row.version for row in page.history] == [1, 2]


def test_indexes_and_lists(tmp_path: Path) -> None:
    """What an index names is not asked for; what a list names is."""
    into = tmp_path / "into"
    with serving(chain(12)) as site:
        (tmp_path / "index.cdxj").write_text(
            "".join(f'x 20240501120000 {{"url": "{site.url(f"/{n}")}", "status": "200"}}\n' for n in (1, 2)),
            encoding="utf-8",
        )
        done = imported(
            into,
            tmp_path / "s",
            cdx=tmp_path / "index.cdxj",
            urls=[site.url("/9"), site.url("/1"), "mailto:nobody@site.test"],
        )
        assert done == Done(known=2, urls=1, passed=1, refused=1)
        lycosa.Crawl(site.url(), into=into, **OPTIONS).run()
        assert sorted(site.paths()) == ["/", "/10", "/11", "/9"], (
            "/1 and /2 are known, and nobody says what they link to"
        )


@pytest.mark.parametrize("few", [0, 1_000])
def test_a_list_alone_is_crawled_by_the_next_run_without_a_seed(
    few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its hosts are in the options or in a file."""
    monkeypatch.setattr(importing, "_FEW", few)
    into = tmp_path / "into"
    with serving(chain(3)) as site:
        host = site.url().removeprefix("http://").rstrip("/")
        assert imported(into, tmp_path / "s", urls=[host]) == Done(urls=1)
        lycosa.Crawl(into=into, **OPTIONS).run()
        assert sorted(site.paths()) == ["/", "/1", "/2"]


def test_a_list_of_many_hosts_is_a_file_beside_the_logs(tmp_path: Path) -> None:
    """It is read as it comes; an import that was broken off, or is repeated, logs nothing twice."""
    into = tmp_path / "into"
    urls = [f"http://h{n}.test/{n}" for n in range(2_500)]

    def breaks() -> Iterator[str]:
        yield from urls[:2_000]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        imported(into, tmp_path / "s1", urls=breaks())
    assert not list(into.glob("seeds*"))
    assert imported(into, tmp_path / "s2", urls=iter([*urls, "no URL", *urls[:10]])) == Done(
        urls=2_500, passed=10, refused=1
    )
    assert imported(into, tmp_path / "s3", urls=iter(urls)) == Done(passed=2_500)
    crawl = CrawlReader(into)
    options = crawl.options()
    assert options is not None and options.near == () and len(options.near_files) == 1
    assert (into / options.near_files[0]).read_text().splitlines() == urls
    scope = near_seeds.scope_of(options, crawl.files, crawl.splitter.domains)
    assert scope.inside("https://www.h2499.test/x", 1) and not scope.inside("http://h2500.test/", 1)
    seeded = [link for _, _, row in crawl.records() if isinstance(row, Seeded) for link in row.links]
    assert sorted(link.url for link in seeded) == sorted(urls)
    (into / options.near_files[0]).unlink()
    with pytest.raises(StorageError, match=r"seeds-.*\.txt, the seeds .* is missing"):
        next(near_seeds.near_seeds(options, crawl.files))


def test_a_file_that_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    rows = [record("response", f"http://site.test/{n}", answer(b"<p>page")) for n in range(3)]
    path.write_bytes(b"".join(rows)[:-40])
    with pytest.raises(StorageError, match="cannot be read"):
        imported(tmp_path / "into", tmp_path / "s", warc=path)
    assert len(list(lycosa.open(tmp_path / "into").pages())) == 2, "what came before it is there"


@pytest.mark.parametrize("size", [b"-6", b"+1", b"0x1", b"1_0", b"-"])
def test_a_size_of_a_chunk_that_is_none(size: bytes, tmp_path: Path) -> None:
    """`int` reads them all; of the first, the body's reader came back to where it was, for ever."""
    path = tmp_path / "a.warc"
    body = size + b"\r\n<p>page"
    path.write_bytes(record("response", "http://site.test/", answer(body, b"Transfer-Encoding: chunked")))
    assert imported(tmp_path / "into", tmp_path / "s", warc=path) == Done(pages=1)
    (page,) = lycosa.open(tmp_path / "into").pages()
    assert page.body == body


def test_a_page_of_the_future_is_one_of_now(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    times = ["9999-12-31T23:59:59.9999Z", "0001-01-01T00:00:00Z", "none"]
    path.write_bytes(
        b"".join(
            record("response", f"http://site.test/{n}", answer(b"<p>page"), WARC_Date=at)
            for n, at in enumerate(times)
        )
    )
    before = time.time() * 1000 - 1
    imported(tmp_path / "into", tmp_path / "s", warc=path)
    found = [page.at for page in lycosa.open(tmp_path / "into").pages()]
    assert len(found) == 3 and all(before <= at <= time.time() * 1000 for at in found)


def test_a_file_of_another_kind_gives_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    assert main(["import", str(tmp_path / "into"), "--cdx", str(path)]) == 1
    assert capsys.readouterr().err == f"nothing to import was found in {path}\n"
