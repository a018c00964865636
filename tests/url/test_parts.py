"""Parts, graph order and CDX keys of canonical URLs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.url.canonical import SCHEMES, canonicalise
from lycosa.url.parts import (
    Parts,
    directory_of,
    host_of,
    is_address,
    path_of,
    site_of,
    split,
    surt,
)

WPT_URLS = sorted(
    {
        url
        for text, base, _ in json.loads((Path(__file__).parent / "wpt_cases.json").read_text())
        if (url := canonicalise(text, base, schemes=SCHEMES | {"ftp", "foo", "sc", "non-special"}))
    }
)


@pytest.mark.parametrize(
    ("url", "parts", "site", "directory"),
    [
        (
            "http://example.com/",
            Parts("http", "example.com", 80, "/"),
            "http://example.com",
            "http://example.com/",
        ),
        (
            "https://example.com:8443/a/b?c=/d/e:f",
            Parts("https", "example.com", 8443, "/a/b?c=/d/e:f"),
            "https://example.com:8443",
            "https://example.com:8443/a/",
        ),
        (
            "http://[2001:db8::1]/x",
            Parts("http", "[2001:db8::1]", 80, "/x"),
            "http://[2001:db8::1]",
            "http://[2001:db8::1]/",
        ),
        (
            "https://[::1]:8080/?x",
            Parts("https", "[::1]", 8080, "/?x"),
            "https://[::1]:8080",
            "https://[::1]:8080/",
        ),
        ("file:///etc/hosts", Parts("file", "", 0, "/etc/hosts"), "file://", "file:///etc/"),
        ("file://h/x://y", Parts("file", "h", 0, "/x://y"), "file://h", "file://h/x://"),
        ("gopher://h:70/", Parts("gopher", "h", 70, "/"), "gopher://h:70", "gopher://h:70/"),
        ("gopher://h/", Parts("gopher", "h", 0, "/"), "gopher://h", "gopher://h/"),
    ],
)
def test_parts(url: str, parts: Parts, site: str, directory: str) -> None:
    assert split(url) == parts
    assert site_of(url) == site
    assert host_of(url) == parts.host
    assert path_of(url) == parts.path_and_query
    assert directory_of(url) == directory


def test_parts_of_every_wpt_url() -> None:
    assert len(WPT_URLS) > 200
    for url in WPT_URLS:
        scheme, host, port, path = split(url)
        assert site_of(url) in (f"{scheme}://{host}", f"{scheme}://{host}:{port}")
        assert site_of(url) + path == url
        assert host_of(url) == host
        assert path_of(url) == path


@given(st.text())
def test_anything_returns(text: str) -> None:
    for function in (split, site_of, host_of, path_of, directory_of, surt):
        function(text)


def test_addresses() -> None:
    assert is_address("127.0.0.1") and is_address("[::1]")
    assert not is_address("a1") and not is_address("1.2.3.a") and not is_address("example.com")
    assert not is_address("")


# Answers of the Internet Archive's `surt` package 0.3.1, which pywb uses.
SURT = json.loads((Path(__file__).parent / "surt_cases.json").read_text())


@pytest.mark.parametrize(("url", "want"), SURT)
def test_surt(url: str, want: str) -> None:
    assert surt(url) == want


@settings(max_examples=300)
@given(st.text(), st.text())
def test_surt_is_a_line_without_spaces(path: str, query: str) -> None:
    url = canonicalise(f"http://example.com/{path}?{query}")
    if url is not None:
        key = surt(url)
        assert key.isascii() and key.isprintable() and " " not in key


def test_surt_of_deep_escapes_ends() -> None:
    deep = "http://example.com/%" + "25" * 4000
    assert surt(deep).startswith("com,example)/%25")
