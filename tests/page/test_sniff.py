"""Media types: as said, as seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.page.sniff import declared, is_text, is_xml, sniff


@pytest.mark.parametrize(
    ("header", "media", "charset"),
    [
        ("text/html", "text/html", ""),
        ("TEXT/HTML; Charset=UTF-8", "text/html", "utf-8"),
        ('text/html;charset="utf-8"', "text/html", "utf-8"),
        ("text/html; charset='utf-8'", "text/html", "utf-8"),
        ("text/html; a=b; charset=gbk; charset=big5", "text/html", "gbk"),
        (" text/html ;charset=gbk", "text/html", "gbk"),
        ("text/html, text/plain", "text/html", ""),
        ("text", "", ""),
        ("text/ html", "", ""),
        ("", "", ""),
        (None, "", ""),
        ("x" * 2000, "", ""),
        ('text/html; charset="' + "\\" * 500, "text/html", "\\" * 500),
    ],
)
def test_declared(header: str | None, media: str, charset: str) -> None:
    found = declared(header)
    assert found.type == media
    assert found.charset.strip("\\") == charset.strip("\\")


@given(st.text(max_size=200))
def test_declared_takes_any_text(header: str) -> None:
    declared(header)


PNG = b"\x89PNG\r\n\x1a\n\0\0"


@pytest.mark.parametrize(
    ("body", "said", "media"),
    [
        (b"<!DOCTYPE html><p>", "", "text/html"),
        (b"  \n<html>", "", "text/html"),
        (b"<a href=x>", "", "text/html"),
        (b"<article>", "", "text/plain"),  # no pattern of the standard
        (b"<!-- c -->", "", "text/html"),
        (b"<?xml version='1.0'?><x/>", "", "text/xml"),
        (b"%PDF-1.4", "", "application/pdf"),
        (b"%PDF-1.4", "text/html", "application/pdf"),
        (PNG, "", "image/png"),
        (PNG, "text/html", "image/png"),
        (PNG, "text/plain", "image/png"),
        (PNG, "application/unknown", "image/png"),
        (PNG, "image/gif", "image/gif"),
        (b"GIF89a..", "", "image/gif"),
        (b"\xff\xd8\xff\xe0", "", "image/jpeg"),
        (b"RIFF....WEBPVP8 ", "", "image/webp"),
        (b"RIFF....WAVE", "", "audio/wave"),
        (b"\0\0\0\x18ftypmp42", "", "video/mp4"),
        (b"BM\x36\0\0\0", "", "image/bmp"),
        (b"BMW cars", "", "text/plain"),
        (b"\x1f\x8b\x08\0", "", "application/x-gzip"),
        (b"PK\x03\x04", "", "application/zip"),
        (b"hello", "", "text/plain"),
        (b"hel\x01lo", "", "application/octet-stream"),
        (b"hello", "text/plain", "text/plain"),
        (b"<html>", "text/plain", "text/plain"),
        (b"hel\0lo", "text/plain", "application/octet-stream"),
        (b"\xff\xfeh\0e\0", "text/plain", "text/plain"),
        (b"hel\0lo", "text/html", "text/html"),
        (b"<rss version='2.0'>", "text/html", "application/rss+xml"),
        (
            b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- c --><!DOCTYPE x><feed>",
            "text/html",
            "application/atom+xml",
        ),
        (
            b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'>",
            "text/html",
            "application/rss+xml",
        ),
        (b"<rdf:RDF>", "text/html", "text/html"),
        (b"<!--", "text/html", "text/html"),
        (b"<?", "text/html", "text/html"),
        (b"", "text/html", "text/html"),
        (b"", "", "text/plain"),
        (b"\x89PNG", "application/json", "application/json"),
    ],
)
def test_sniff(body: bytes, said: str, media: str) -> None:
    assert sniff(body, said) == media


@given(st.binary(max_size=200), st.sampled_from(["", "text/html", "text/plain", "text/xml", "*/*", "a/b"]))
def test_sniff_takes_any_bytes(body: bytes, said: str) -> None:
    assert "/" in sniff(body, said)


def test_families() -> None:
    assert is_xml("image/svg+xml") and is_xml("text/xml") and not is_xml("text/html")
    assert is_text("text/css") and is_text("application/json") and not is_text("image/png")
