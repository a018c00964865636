"""Registered domains by the public suffix list."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from publicsuffixlist import PublicSuffixList

from lycosa.errors import ConfigError
from lycosa.url import domains as module
from lycosa.url.domains import Domains

BUNDLED = Domains(Domains.bundled_list())

SMALL = b"""
// ===BEGIN ICANN DOMAINS===
com
uk
co.uk
*.ck
!www.ck
\xe4\xb8\xad\xe5\x9b\xbd
// ===END ICANN DOMAINS===
// ===BEGIN PRIVATE DOMAINS===
github.io
// ===END PRIVATE DOMAINS===
"""


@pytest.mark.parametrize(
    ("host", "want"),
    [
        ("example.com", "example.com"),
        ("a.b.example.com", "example.com"),
        ("example.com.", "example.com"),
        ("com", "com"),
        ("example.co.uk", "example.co.uk"),
        ("www.example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("x.test.ck", "x.test.ck"),
        ("y.x.test.ck", "x.test.ck"),
        ("test.ck", "test.ck"),
        ("www.ck", "www.ck"),
        ("a.www.ck", "www.ck"),
        ("alice.github.io", "alice.github.io"),
        ("www.alice.github.io", "alice.github.io"),
        ("www.example.xn--fiqs8s", "example.xn--fiqs8s"),
        ("a.b.test", "b.test"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("a..com", "a..com"),
        (".", "."),
        ("", ""),
    ],
)
def test_domains(host: str, want: str) -> None:
    assert Domains(SMALL).domain(host) == want
    assert BUNDLED.domain(host) == want


def test_the_given_list_decides() -> None:
    assert Domains(b"com\nexample.com\n").domain("a.b.example.com") == "b.example.com"


@pytest.mark.parametrize("psl", [b"", b"// only a comment\n\n", b"\xff\xfe\x00"])
def test_a_list_without_rules_is_refused(psl: bytes) -> None:
    with pytest.raises(ConfigError, match="public suffix list has no rules"):
        Domains(psl)


@settings(max_examples=300)
@given(st.text(st.characters(codec="ascii")))
def test_anything(host: str) -> None:
    domain = BUNDLED.domain(host)
    assert bool(domain) == bool(host)
    assert BUNDLED.domain(domain) == domain


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEMO", 10)
    domains = Domains(SMALL)
    for i in range(100):
        assert domains.domain(f"www.{i}.com") == f"{i}.com"
    assert domains._remembered.cache_info().currsize == 10


def test_rules_are_those_that_the_library_makes() -> None:
    """Which encodes every rule, and not only those that need it."""
    text = Domains.bundled_list().decode("utf-8")
    assert module._parsed(text)._publicsuffix == PublicSuffixList(source=text)._publicsuffix
    text = "\u4e2d\u56fd // a remark\n!\u00fc.\u4e2d\u56fd\nUPPER.\u4e2d\u56fd  \n// \u4e2d\n"
    assert module._parsed(text)._publicsuffix == PublicSuffixList(source=text)._publicsuffix
