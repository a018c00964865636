"""Bodies as files: below the directory whatever the URL, none lost where names meet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lycosa
from lycosa.ask.mirror import INDEX, names_of, write_files
from lycosa.ask.reading import CrawlReader
from tests.crawl.recorded import OPTIONS, Said, page, pages, serving


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("https://a.test/", ["a.test", "index.html"]),
        ("http://a.test:8080/x/y.html", ["a.test:8080", "x", "y.html"]),
        ("http://a.test/x/?q=/etc", ["a.test", "x", "index.html?q=%2Fetc"]),
        ("http://a.test//x/./..", ["a.test", "_", "x", "_.", "_.."]),
        ("file:///srv/x", ["local", "srv", "x"]),
    ],
)
def test_names(url: str, names: list[str]) -> None:
    assert names_of(url) == names


def test_long_names_differ() -> None:
    first, second = (names_of(f"http://a.test/{'x' * 300}{n}")[-1] for n in (1, 2))
    assert first != second and len(first) < 255


def test_every_body_is_there(tmp_path: Path) -> None:
    """A path that is both a file and a directory, an index of their own, an error that is no page."""
    table = {
        "/": page("home", "/a", "/a/b", "/a/b/c", "/index.html", "/index.jsonl", "/gone", "/q?x=1"),
        "/a": page("a"),
        "/a/b": page("b"),
        "/a/b/c": page("c"),
        "/index.html": page("another"),
        "/index.jsonl": Said(b"mine"),
        "/q?x=1": page("query"),
    }
    with serving(pages(table)) as site:
        lycosa.Crawl(site.url(), into=tmp_path / "crawl", **OPTIONS).run()
    to = tmp_path / "mirror"
    assert write_files(CrawlReader(tmp_path / "crawl"), to, lambda *_: None) == len(table)
    rows = [json.loads(line) for line in (to / INDEX).read_text(encoding="utf-8").splitlines()]
    found = {row["url"].removeprefix(site.url("")): row["file"] for row in rows}
    assert found.keys() == table.keys() and len(set(found.values())) == len(table)
    for path, file in found.items():
        assert (to / file).read_bytes() == table[path].body


def test_what_would_be_written_over_another_page_has_another_name(tmp_path: Path) -> None:
    """A site chooses its names so that they meet: with those that are added here, escaped, or of another case."""
    paths = [
        *("/a", "/a/x", "/a.d/x", "/a.d", "/b/", "/b/index.html", "/b/index.html.page", "/b/index.html.page.page"),
        *("/q?x=1/2", "/q?x=1%2F2", "/Read", "/read", "/f%00", "/f%2500"),
    ]  # fmt: skip
    table = {"/": page("home", *paths), **{path: page(path) for path in paths}}
    with serving(pages(table)) as site:
        lycosa.Crawl(site.url(), into=tmp_path / "crawl", **OPTIONS).run()
    to = tmp_path / "mirror"
    for _ in range(2):  # over itself, too
        assert write_files(CrawlReader(tmp_path / "crawl"), to, lambda *_: None) == len(table)
        rows = [json.loads(line) for line in (to / INDEX).read_text(encoding="utf-8").splitlines()]
        found = {row["url"].removeprefix(site.url("")): row["file"] for row in rows}
        assert found.keys() == table.keys() and len({file.lower() for file in found.values()}) == len(table)
        for path, file in found.items():
            assert (to / file).read_bytes() == table[path].body, path


def test_a_path_that_no_file_system_takes_is_cut(tmp_path: Path) -> None:
    first, second = (names_of(f"http://a.test/{'d/' * 4000}{n}") for n in (1, 2))
    assert first != second and len(first) == len(second) == 2
    tmp_path.joinpath(first[0]).mkdir()
    tmp_path.joinpath(*first).write_bytes(b"")
