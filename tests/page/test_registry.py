"""From bytes to a page: dispatch, gzip, plain text, plug-ins."""

from __future__ import annotations

import gzip
import time
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.errors import ConfigError
from lycosa.page import registry
from lycosa.page.protocol import Limits, Page
from lycosa.page.registry import Parsers, read_page, unpack

SITEMAP = b"<?xml version='1.0'?><urlset><url><loc>http://h/a</loc></url></urlset>"


@pytest.mark.parametrize(
    ("body", "said", "media", "charset", "hrefs"),
    [
        (b"<a href=x>", "text/html", "text/html", "utf-8", ["x"]),
        (b"<a href=\xe9>", "text/html; charset=latin1", "text/html", "windows-1252", ["é"]),
        (b"<meta charset=gbk><a href=\xc4\xe3>", "text/html", "text/html", "gbk", ["你"]),
        (b"<p><a href=x>", None, "text/html", "utf-8", ["x"]),
        (b"<a href='x'/>", "application/xhtml+xml", "application/xhtml+xml", "utf-8", ["x"]),
        (SITEMAP, "application/xml", "application/xml", "utf-8", ["http://h/a"]),
        (SITEMAP, "text/plain", "text/xml", "utf-8", ["http://h/a"]),
        (SITEMAP, None, "text/xml", "utf-8", ["http://h/a"]),
        (b"<rss><item><link>http://h/</link>", "text/html", "application/rss+xml", "utf-8", ["http://h/"]),
        (b"<feed><link href='x'/>", "application/atom+xml", "application/atom+xml", "utf-8", ["x"]),
        (b"a{b:url(c)}", "text/css", "text/css", "utf-8", ["c"]),
        (
            b"http://h/a\r\n\r\n https://h/b \n",
            "text/plain",
            "text/plain",
            "utf-8",
            ["http://h/a", "https://h/b"],
        ),
        (b"http://h/a\nand more", "text/plain", "text/plain", "utf-8", []),
        (b"see http://h/a", "text/plain", "text/plain", "utf-8", []),
        ("http://h/é".encode("utf-16"), "text/plain", "text/plain", "utf-16le", ["http://h/é"]),
        (b"\x89PNG\r\n\x1a\n", "image/png", "image/png", "", []),
        (b"{}", "application/json; charset=latin1", "application/json", "windows-1252", []),
        (b"", "text/html", "text/html", "utf-8", []),
        (b"", None, "text/plain", "utf-8", []),
    ],
)
def test_read_page(body: bytes, said: str | None, media: str, charset: str, hrefs: list[str]) -> None:
    found = read_page(body, said, "http://h/x")
    assert (found.type, found.charset, found.hrefs) == (media, charset, hrefs)


def test_a_text_named_sitemap_may_hold_other_lines() -> None:
    body = b"# our pages\nhttp://h/a\nnot one\nhttp://h/b c\nhttp://h/d"
    assert read_page(body, "text/plain", "http://h/sitemap-1.txt?x").hrefs == ["http://h/a", "http://h/d"]
    assert read_page(body, "text/plain", "http://h/list.txt").hrefs == []


@pytest.mark.parametrize(
    "said", ["application/gzip", "application/x-gzip", "application/octet-stream", "text/xml", None]
)
def test_gzipped_sitemaps(said: str | None) -> None:
    found = read_page(gzip.compress(SITEMAP), said, "http://h/sitemap.xml.gz")
    assert found.hrefs == ["http://h/a"] and found.type == "text/xml"


def test_gzipped_text_sitemap() -> None:
    assert read_page(gzip.compress(b"http://h/a\n"), "application/gzip", "http://h/s").hrefs == ["http://h/a"]


def test_gzip_of_anything_else_stays_closed() -> None:
    found = read_page(gzip.compress(b"\0tar\0" * 100), "application/gzip", "http://h/x.tar.gz")
    assert (found.type, found.hrefs) == ("application/gzip", [])


def test_damaged_gzip_gives_what_it_holds() -> None:
    body = SITEMAP.replace(
        b"</urlset>", b"".join(b"<url><loc>http://h/%d</loc></url>" % i for i in range(5000))
    )
    packed = gzip.compress(body)
    assert len(read_page(packed[: len(packed) // 2], None, "u").hrefs) > 1000
    broken = packed[: len(packed) // 2] + b"\xff" * 100 + packed[len(packed) // 2 :]
    assert len(read_page(broken, None, "u").hrefs) > 500
    assert unpack(gzip.compress(b"a") + gzip.compress(b"b"), 10) == b"ab"
    assert unpack(b"\x1f\x8b", 10) == b"" and unpack(b"\x1f\x8bxxxx", 10) == b""


def test_a_bomb_is_cut_at_the_limit() -> None:
    limits = Limits(listing=100_000)
    bomb = gzip.compress(SITEMAP + b" " * 50_000_000)
    found = Parsers(limits).read(bomb, None, "u")
    assert found.hrefs == ["http://h/a"] and found.cut
    assert len(unpack(bomb, 1000)) == 1000


class Failing:
    def parse(self, body: bytes, url: str, media: str, charset: str) -> Page:
        raise RuntimeError("a plug-in's mistake")


class Fixed:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def parse(self, body: bytes, url: str, media: str, charset: str) -> Page:
        return Page(type=media, charset=charset, hrefs=["fixed"], kinds=[0], texts=[""])


def test_a_parser_that_fails_costs_its_page_only() -> None:
    parsers = Parsers()
    parsers.register("Application/PDF", Failing())
    assert parsers.read(b"%PDF-1", "application/pdf", "u") == Page(type="application/pdf", charset="utf-8")
    assert parsers.failed == 1


def test_plug_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("application/pdf", f"{__name__}:Fixed", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints(points).select(group=group))
    assert Parsers.load().read(b"%PDF-1", None, "u").hrefs == ["fixed"]
    assert Parsers().find("application/pdf") is None
    points[0] = EntryPoint("application/pdf", "no_such_module:Parser", registry.GROUP)
    with pytest.raises(ConfigError, match="no_such_module"):
        Parsers.load()


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=400),
        st.binary(max_size=100).map(gzip.compress),
        st.binary(max_size=100).map(lambda b: b"\x1f\x8b\x08" + b),
        st.text(max_size=200).map(lambda t: t.encode("utf-16", "replace")),
    ),
    st.sampled_from(
        [None, "text/html", "text/plain", "text/xml", "text/css", "image/svg+xml", "x", "a/b;charset=gbk"]
    ),
    st.sampled_from(["http://h/", "http://h/sitemap.txt", "http://h/sitemap.xml.gz", ""]),
)
def test_any_bytes(body: bytes, said: str | None, url: str) -> None:
    parsers = Parsers()
    found = parsers.read(body, said, url)
    assert parsers.failed == 0
    assert len(found.hrefs) == len(found.kinds) == len(found.texts)


@pytest.mark.parametrize(
    "body", [b"http://h/\n" * 300_000, b"\n" * 3_000_000 + b"x", b"http://" + b"x" * 3_000_000]
)
def test_hostile_texts_are_bounded(body: bytes) -> None:
    start = time.process_time()
    assert len(read_page(body, "text/plain", "http://h/sitemap.txt").hrefs) <= 50_000
    assert time.process_time() - start < 5
