"""Links of style sheets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.page.css import _LINK, CssParser, _links
from lycosa.page.protocol import Limits
from lycosa.records import LinkKind

STYLE, IMAGE = LinkKind.STYLE, LinkKind.IMAGE


@pytest.mark.parametrize(
    ("sheet", "expected"),
    [
        ("@import 'a.css';", [("a.css", STYLE)]),
        ('@import url("a.css") screen;', [("a.css", STYLE)]),
        ("@IMPORT URL(a.css);", [("a.css", STYLE)]),
        ("a{background:url(i.png)}", [("i.png", IMAGE)]),
        ("a{background:url( 'i j.png' )}b{c:URL(k)}", [("i j.png", IMAGE), ("k", IMAGE)]),
        ("a{background:url(a\\20 b)}", [("a b", IMAGE)]),
        ("a{b:url('\\d800 x\\g')}", [("\ufffdxg", IMAGE)]),
        ("a{b:url(data:image/png;base64,AA)}", []),
        ("a{b:url('x\n')} c{d:url(y)}", [("y", IMAGE)]),
        ("a{b:url()}", []),
        ("a{color:red}", []),
    ],
)
def test_links(sheet: str, expected: list[tuple[str, int]]) -> None:
    found = CssParser().parse(sheet.encode(), "u", "text/css", "utf-8")
    assert list(zip(found.hrefs, found.kinds, strict=True)) == expected
    assert len(found.texts) == len(found.hrefs)


def test_limits() -> None:
    found = CssParser(Limits(body=100, links=2)).parse(b"url(a) " * 20, "u", "text/css", "utf-8")
    assert len(found.hrefs) == 2 and found.dropped > 0 and found.cut


@given(st.one_of(st.binary(max_size=300), st.text("@import url()'\"\\a\n", max_size=100).map(str.encode)))
def test_any_bytes(body: bytes) -> None:
    CssParser().parse(body, "u", "text/css", "utf-8")


@given(
    st.lists(
        st.sampled_from([b"@import", b"url(", b"URL(", b"'a'", b'"', b" ", b"x)", b"\\", b"\n", b"@"]),
        max_size=20,
    )
)
def test_looking_at_the_two_words_finds_what_the_pattern_finds(pieces: list[bytes]) -> None:
    sheet = b"".join(pieces)
    assert [found.span() for found in _links(sheet)] == [found.span() for found in _LINK.finditer(sheet)]
