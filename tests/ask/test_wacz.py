"""A crawl as WACZ: every file is what the package says, every capture is where the index says."""

from __future__ import annotations

import gzip
import hashlib
import json
import zipfile
from pathlib import Path

import pytest

import lycosa
from lycosa.ask.reading import CrawlReader
from lycosa.ask.wacz import write_wacz
from lycosa.errors import ConfigError
from tests.crawl.recorded import OPTIONS, chain, serving


def test_a_package_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lycosa.ask.wacz._LINES", 7)
    with serving(chain(20)) as site:
        lycosa.Crawl(site.url(), into=tmp_path / "crawl", **OPTIONS).run()
    to, scratch = tmp_path / "a.wacz", tmp_path / "scratch"
    scratch.mkdir()
    count = write_wacz(
        CrawlReader(tmp_path / "crawl"), to, scratch, title="T", text=True, told=lambda *_: None
    )
    assert count == 20
    with zipfile.ZipFile(to) as package:
        assert package.testzip() is None
        for entry in package.infolist():  # ReplayWeb.page finds a member by its entry in the directory alone
            header = to.read_bytes()[entry.header_offset :][:30]
            assert int.from_bytes(header[28:], "little") == len(entry.extra)
        data = package.read("datapackage.json")
        said = json.loads(data)
        digest = json.loads(package.read("datapackage-digest.json"))
        assert digest == {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(data).hexdigest()}"}
        assert (said["profile"], said["wacz_version"], said["title"]) == ("data-package", "1.1.1", "T")
        assert {row["path"] for row in said["resources"]} | {
            digest["path"],
            "datapackage-digest.json",
        } == set(package.namelist())
        for row in said["resources"]:
            content = package.read(row["path"])
            assert (row["bytes"], row["hash"]) == (
                len(content),
                f"sha256:{hashlib.sha256(content).hexdigest()}",
            )
        head, *pages = [json.loads(line) for line in package.read("pages/pages.jsonl").splitlines()]
        assert head["format"] == "json-pages-1.0"
        assert {row["url"] for row in pages} == {page.url for page in lycosa.open(tmp_path / "crawl").pages()}
        assert all(
            row["ts"] and row["title"].startswith("page") and row["title"] in row["text"] for row in pages
        )
        packed = package.read("indexes/index.cdx.gz")
        meta, *places = package.read("indexes/index.idx").splitlines()
        assert meta.startswith(b"!meta 0 ")
        lines = []
        for place in places:
            at = json.loads(place.split(b" ", 2)[2])
            member = gzip.decompress(packed[at["offset"] : at["offset"] + at["length"]]).splitlines()
            assert member[0].split(b" ")[:2] == place.split(b" ")[:2]
            lines += member
        assert len(places) == 3 and lines == sorted(lines) and len(lines) == 21, "and robots.txt"
        for line in lines:
            row = json.loads(line.split(b" ", 2)[2])
            archive = package.read(f"archive/{row['filename']}")
            record = gzip.decompress(archive[int(row["offset"]) :][: int(row["length"])])
            assert f"WARC-Target-URI: {row['url']}".encode() in record


def test_nothing_to_write(tmp_path: Path) -> None:
    with serving(chain(1)) as site:
        lycosa.Crawl(site.url(), into=tmp_path / "crawl", archive={"keep": False}, **OPTIONS).run()
    with pytest.raises(ConfigError, match="no archive kept"):
        write_wacz(CrawlReader(tmp_path / "crawl"), tmp_path / "a.wacz", tmp_path, told=lambda *_: None)
