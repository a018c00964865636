"""Blocklist files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.errors import ConfigError
from lycosa.url.blocklist import blocklist_entry, canonical_host, read_blocklist


def test_a_file() -> None:
    data = b"""\xef\xbb\xbf# comment
ads.example.com
  Tracker.Example.COM   # another
*.below.example
.also.example

0.0.0.0 a.example b.example # hosts file
127.0.0.1 localhost
::1 ip6-localhost ip6-loopback
0.0.0.0 0.0.0.0
192.0.2.7
2001:db8::1
b\xc3\xbccher.example
"""
    assert read_blocklist(data, "list.txt") == (
        ".also.example",
        ".below.example",
        "192.0.2.7",
        "[2001:db8::1]",
        "a.example",
        "ads.example.com",
        "b.example",
        "tracker.example.com",
        "xn--bcher-kva.example",
    )
    assert read_blocklist(b"", "list.txt") == ()
    assert read_blocklist(b"localhost\n", "list.txt") == ("localhost",), "asked for by name"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ok.example\nhttp://a.example/\n", "list.txt line 2: 'http://a.example/' is not a host"),
        (b"a.example b.example\n", "list.txt line 1: one host a line, not 'a.example b.example'"),
        (b"a.example:80\n", "list.txt line 1: 'a.example:80' is not a host"),
        (b"\xff\xfe\n", "list.txt line 1: .* is not a host"),
    ],
)
def test_bad_lines(data: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read_blocklist(data, "list.txt")
    assert "\n" not in str(caught.value)


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    try:
        entries = read_blocklist(data, "list.txt")
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert read_blocklist("\n".join(entries).encode(), "again") == entries


def test_hosts() -> None:
    assert canonical_host("EXAMPLE.com") == "example.com"
    assert canonical_host("::1") == canonical_host("[::1]") == "[::1]"
    for bad in ("", "a b", "a/b", "a:80", "[::1]:80", "u@a", "a?b", "a#b", "a\\b", "a\n", "[", "%"):
        assert canonical_host(bad) is None, bad
    assert blocklist_entry("*.") is None
