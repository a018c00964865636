"""Rows of pages and links, as JSON lines and Parquet."""

from __future__ import annotations

import base64
import gzip
import io
import json
from pathlib import Path

import brotli
import pytest

from lycosa.ask import export
from lycosa.records import Link, LinkKind, Links, Received
from tests.crawl.made import MadeCrawl, anchors, small

PAGE = b"<html><title>T</title><body><p>Plain words of a page, enough of them to be read.</p></body></html>"


def lines(rows: object) -> list[dict[str, object]]:
    out = io.BytesIO()
    export.write_jsonl(rows, out)  # type: ignore[arg-type]  # an iterator of rows
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_pages(tmp_path: Path) -> None:
    rows = lines(export.pages(small(tmp_path).reader()))
    assert [row["url"] for row in rows] == [
        "http://a.test/",
        "http://a.test/1",
        "http://a.test/gone",
        "http://a.test/old",
        "http://b.test/",
    ]
    first = rows[0]
    assert tuple(first) == export.PAGE_COLUMNS
    assert first["at"] == "2023-11-14T22:13:23.000Z"
    assert (first["host"], first["site"], first["links"]) == ("a.test", "http://a.test", 4)
    assert isinstance(first["digest"], str) and len(first["digest"]) == 16
    assert first["total_ms"] == 20
    assert first["archive_file"] is not None and rows[3]["archive_file"] is None
    assert rows[3]["digest"] is None


def test_text_and_bodies_come_decoded_from_the_archive(tmp_path: Path) -> None:
    crawl = MadeCrawl(tmp_path)
    coded = {
        "gzip": gzip.compress(PAGE),
        "br": brotli.compress(PAGE),
        "": PAGE,
    }
    for name, sent in coded.items():
        headers = [f"Content-Encoding: {name}"] if name else []
        crawl.fetch(f"http://a.test/{name}", body=PAGE, sent=sent, headers=headers, keep=True)
    crawl.fetch("http://a.test/unkept", body=PAGE)
    crawl.fetch("http://a.test/picture", body=b"\xff\xd8\xff", keep=True, type="image/jpeg")
    rows = lines(export.pages(crawl.reader(), text=True, body=True))
    for row in rows[:3]:
        assert base64.b64decode(str(row["body"])) == PAGE
        assert "Plain words" in str(row["text"])
    assert (rows[3]["text"], rows[3]["body"]) == (None, None)
    assert rows[4]["text"] == ""
    assert base64.b64decode(str(rows[4]["body"])) == b"\xff\xd8\xff"


def test_links(tmp_path: Path) -> None:
    crawl = MadeCrawl(tmp_path)
    crawl.configure()
    crawl.seed("http://a.test/")
    crawl.robots(
        "http://a.test", b"", links=Links.pack([Link("http://a.test/map", LinkKind.SITEMAP, False, "")])
    )
    both = [
        Link("http://a.test/1", LinkKind.ANCHOR, True, "één"),
        Link("http://a.test/i", LinkKind.IMAGE, False, ""),
    ]
    crawl.fetch("http://a.test/", links=Links.pack(both))
    crawl.log(Received(crawl.tick(), 1, 5, anchors("http://a.test/copy"), [1], b"\0"), 0)
    rows = lines(export.links(crawl.reader()))
    assert rows == [
        {
            "source": None,
            "target": "http://a.test/",
            "kind": "seed",
            "nofollow": False,
            "text": "",
            "status": None,
        },
        {
            "source": "http://a.test/robots.txt",
            "target": "http://a.test/map",
            "kind": "sitemap",
            "nofollow": False,
            "text": "",
            "status": None,
        },
        {
            "source": "http://a.test/",
            "target": "http://a.test/1",
            "kind": "anchor",
            "nofollow": True,
            "text": "één",
            "status": 200,
        },
        {
            "source": "http://a.test/",
            "target": "http://a.test/i",
            "kind": "image",
            "nofollow": False,
            "text": "",
            "status": 200,
        },
    ]
    assert tuple(rows[0]) == export.LINK_COLUMNS


def test_batches_are_bounded_by_rows_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "BATCH_ROWS", 3)
    assert [len(batch) for batch in export.batches({"n": n} for n in range(8))] == [3, 3, 2]
    monkeypatch.setattr(export, "BATCH_BYTES", 1000)
    assert [len(batch) for batch in export.batches({"s": "x" * 900} for _ in range(3))] == [1, 1, 1]
    assert list(export.batches(())) == []


def test_parquet_holds_what_json_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet

    monkeypatch.setattr(export, "BATCH_ROWS", 2)
    crawl = small(tmp_path / "crawl").reader()
    file = str(tmp_path / "pages.parquet")
    assert (
        export.write_parquet(
            export.pages(crawl, text=True, body=True),
            file,
            "pages",
            columns=export.page_columns(None, text=True, body=True),
        )
        == 5
    )
    assert pyarrow.parquet.ParquetFile(file).num_row_groups == 3
    table = pyarrow.parquet.read_table(file)
    rows = table.to_pylist()
    for row, other in zip(rows, lines(export.pages(crawl, text=True, body=True)), strict=True):
        assert row.pop("at").isoformat(timespec="milliseconds").replace("+00:00", "Z") == other.pop("at")
        body = other.pop("body")
        assert row.pop("body") == (None if body is None else base64.b64decode(str(body)))
        assert row == other
    file = str(tmp_path / "links.parquet")
    assert export.write_parquet(export.links(crawl), file, "links") == 8
    assert pyarrow.parquet.read_table(file).to_pylist() == lines(export.links(crawl))


def test_an_empty_crawl_gives_an_empty_table(tmp_path: Path) -> None:
    import pyarrow.parquet

    crawl = MadeCrawl(tmp_path / "crawl").reader()
    file = str(tmp_path / "pages.parquet")
    assert export.write_parquet(export.pages(crawl), file, "pages") == 0
    assert tuple(pyarrow.parquet.read_table(file).column_names) == export.PAGE_COLUMNS
