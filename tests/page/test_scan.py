"""The scanner against the tree: the same page, but for differences that have a test each (HTML §13.2.5)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.page.html import HtmlParser
from lycosa.page.protocol import Limits, Page
from lycosa.page.scan import ScanParser
from lycosa.records import LinkKind

TREE = HtmlParser()
SCANNER = ScanParser()


def scanned(body: bytes | str, media: str = "text/html", charset: str = "utf-8") -> Page:
    data = body.encode() if isinstance(body, str) else body
    return SCANNER.parse(data, "http://h.test/", media, charset)


def treed(body: bytes | str, media: str = "text/html", charset: str = "utf-8") -> Page:
    data = body.encode() if isinstance(body, str) else body
    return TREE.parse(data, "http://h.test/", media, charset)


def anchors(page: Page) -> list[tuple[str, str]]:
    rows = zip(page.hrefs, page.kinds, page.texts, strict=True)
    return [(href, text) for href, kind, text in rows if kind & 0x7F == LinkKind.ANCHOR]


SAME = [
    # attributes in every quoting
    "<a href=x>1</a><a href='y'>2</a><a href=\"z\">3</a><a href>4</a><a href=>5</a><a HREF = x/y>6</A>",
    "<a href=x/>1</a><a/href=y>2</a><a href='a'title=b>3</a><a =href=x>4</a><a \"href=x>5</a>",
    "<a href='one' href='two'>the first counts</a><a data-href=x>none</a><a href='a\nb\tc'>t</a>",
    '<a title="a > b" href=x>1</a><a href="x"y="z">2</a><a href=x?a=1&amp;b=2&copy=3&copy;4&notit>3</a>',
    "<a href='&#x2F;&#47;h&period;x'>n</a><a href='&#0;&#x110000;&#128;'>n</a><a href='&ampx&amp'>n</a>",
    "<a href=x rel='external NOFOLLOW'>1</a><a href=x rel=nofollowed>2</a><a href=' x '>3</a>",
    # comments, bogus comments, declarations
    "<!-- <a href=x>no</a> --><a href=y>yes</a><!-->-><a href=z>z</a><!---><a href=w>w</a>",
    "<!-- a --!><a href=x>1</a><!-- -- - --><a href=y>2</a><!doctype html [<a href=z>]><a href=w>4</a>",
    "<?php <a href=x> ?><a href=y>2</a></ <a href=z>3</a></><a href=q>4</a><!x><!><a href=r>5</a>",
    "<![CDATA[<a href=x>1</a>]]><a href=y>2</a>",
    # raw text and escapable raw text
    "<script>'<a href=x>'</script><a href=y>1</a><style><a href=x></style><a href=z>2</a>",
    "<textarea><a href=x></textarea><title>a &amp; <b></title><a href=y>1</a><xmp><a href=q></xmp>",
    "<iframe src=f><a href=x></iframe><noembed><a href=x></noembed><a href=y>1</a><title>second</title>",
    "<script><!-- <script> </script> <a href=x>no</a> --></script><a href=y>yes</a>",
    "<script><!-- </script><a href=y>yes</a><script><!--><a href=x></script><a href=z>z</a>",
    "<script><!--<script ></script/><a href=x>--></script><a href=z>z</a><script>x</scripty></script >q",
    "<SCRIPT>x</ScRiPt\n><a href=x>1</a></script><style>@import 'a.css'; b{background:url(c.png)}</style>",
    "<plaintext><a href=x>no",
    # foreign content
    "<svg><a xlink:href=x>1</a><style>@import 'y'</style><title>t</title><script href=q></script></svg>",
    "<svg><title><a href=x>1</a></title><desc><p><a href=y>2</a></desc><foreignObject><title>no</foreignObject>",
    "<svg><![CDATA[<a href=x>no</a>]]><a href=y>2</a><p><title>html</title><a href=z>3</a>",
    "<math><mi><a href=x>1</a></mi><style><a href=y>2</a></style></math><style><a href=z></style>",
    "<svg/><title>html</title><svg><svg></svg><title>svg</title></svg><title>t</title><image href=i>",
    # texts
    "<a href=x> a <b>b</b>\n c<!-- d -->e<img alt=f></a><a href=y><img alt='the &lt;alt&gt;'><img alt=no></a>",
    "<a href=x title='&quot;t'>\u00a0</a><a href=y>\u2003a\u00a0b&nbsp;c&#160;d\u3000</a>"
    "<a href=z>AT&T &amp; &#38;</a>",
    "<a href=x>a<script>b</script><style>c</style><textarea>d</textarea></a><a href=y>e\0f</a>",
    f"<a href=x>{'wort ' * 50}</a><a href=y>{'ü' * 300}</a><a href=z>{'&uuml;' * 300}</a>",
    "<table><tr><td><a href=1>x</td><td>y</td></tr></table>z<a href=2>open<a href=3>again",
    # everything else that links
    "<html lang=de><html lang=fr><base href=/b/><base href=/c/><body background=b.png><a href=#x>1</a>",
    "<img src=a alt=A><img srcset='b 1x, c 2x' alt=B><img data-src=d><img src=data:, data-src=e><image src=f>",
    "<link rel=stylesheet href=s><link rel='shortcut icon' href=i><link rel=next href=n title=T><link href=q>",
    "<link rel=alternate type=application/rss+xml href=f title=F><link rel=canonical href=c>"
    "<link rel=preload as=image href=p>",
    "<meta name=robots content=noindex><meta name=mybot content='nofollow, x'>"
    "<meta name=description content='all, of it'>",
    "<meta http-equiv=refresh content='1; url=r'><meta name=viewport content='width=1'><meta name=d content=index>",
    "<form action=f rel=nofollow><input type=image src=i formaction=g><button formaction=h></button></form>",
    "<iframe data-src=l></iframe><video src=v poster=p><source src=s srcset='t 1x'><track src=k>"
    "</video><audio src=u>",
    "<embed src=e><object data=o></object><blockquote cite=c></blockquote><q cite=q></q>"
    "<ins cite=i></ins><area href=a alt=A>",
    "<template><a href=x>1</a></template><noscript><a href=y>2</a></noscript><select><a href=z>3</a></select>",
    # the end of the file anywhere
    "<a href=x>1</a><a href='y", "<a href=x>1</a><!-- <a href=y>", "<a href=x>1</a><script><a href=y>",
    "<a href=x>1<",
    "<a href=x>1</", "<a href=x>1</a><a href", "<a href=x>1</a><a href=", "<title>t", "<a href=x>1</a><!", "",
    "<", "<a",
]  # fmt: skip


@pytest.mark.parametrize("body", SAME)
def test_a_page_says_the_same_as_its_tree(body: str) -> None:
    assert scanned(body) == treed(body)


@pytest.mark.parametrize("body", SAME)
def test_every_prefix_of_a_page_holds_the_anchors_of_its_tree(body: str) -> None:
    for stop in range(len(body)):
        tree = {href for href, _ in anchors(treed(body[:stop]))}
        assert tree <= {href for href, _ in anchors(scanned(body[:stop]))}


def test_encodings_that_agree_with_ascii_are_scanned_as_they_are() -> None:
    for charset, codec in (
        ("windows-1252", "cp1252"),
        ("shift_jis", "cp932"),
        ("gbk", "gbk"),
        ("euc-jp", "euc_jp"),
    ):
        text = (
            "<title>été</title><a href=é>é</a>"
            if codec == "cp1252"
            else "<a href='ソ'>表\u3000ソ</a><title>能</title>"
        )
        body = text.encode(codec)
        assert scanned(body, charset=charset) == treed(body, charset=charset)


def test_encodings_that_do_not_are_decoded_first() -> None:
    text = "<title>é表</title><a href='表'>ソ表</a>"
    for charset, codec in (
        ("utf-16le", "utf-16-le"),
        ("utf-16be", "utf-16-be"),
        ("iso-2022-jp", "iso2022_jp"),
    ):
        body = text.replace("é", "").encode(codec)
        assert scanned(body, charset=charset) == treed(body, charset=charset)
    assert scanned(b"<a href=x>1</a>", charset="replacement") == treed(
        b"<a href=x>1</a>", charset="replacement"
    )


def test_empty_elements_of_xhtml_hold_nothing() -> None:
    body = "<html><head><script src='s'/><title/><style/></head><body><a href='x'/><a href='y'>2</a></body></html>"
    page = scanned(body, "application/xhtml+xml")
    assert [("x", ""), ("y", "2")] == anchors(page) == anchors(treed(body, "application/xhtml+xml"))


# -- differences that are wanted: more links than the tree has, or another text


def test_an_anchor_that_the_tree_would_open_again_is_one_link() -> None:
    body = "<p><a href=x>one</p><p>two</a>"
    assert anchors(treed(body)) == [("x", "one"), ("x", "two")]
    assert anchors(scanned(body)) == [("x", "onetwo")]


def test_what_the_tree_ignores_where_it_stands_is_still_a_link() -> None:
    for body in ("<frameset><frame src=f></frameset><a href=x>1</a>", "<body><frame src=f>"):
        assert set(treed(body).hrefs) < set(scanned(body).hrefs)


def test_large_pages_have_whole_texts() -> None:
    body = "<a href=x><b>inside</b></a>" + "<p>" * 400_000
    assert anchors(treed(body)) == [("x", "")]
    assert anchors(scanned(body)) == [("x", "inside")]


def test_links_of_declarative_shadow_roots_are_links() -> None:
    body = "<div><template shadowrootmode=open><a href=x>shown</a></template></div><a href=y>2</a>"
    assert anchors(treed(body)) == [("y", "2")]
    assert anchors(scanned(body)) == [("x", "shown"), ("y", "2")]


# -- bounds


@pytest.mark.parametrize("element", [b"<a href=x>y</a>", b"<a>y", b"<q cite=x>"])
def test_a_page_of_more_elements_than_usual_is_read_whole(element: bytes) -> None:
    body = element * 100_000 + b"<a href=last>z</a>"
    page = ScanParser(Limits(links=200_000)).parse(body, "", "text/html", "utf-8")
    assert not page.cut
    assert len(page.hrefs) == (1 if element == b"<a>y" else 100_001)
    assert page.hrefs[-1] == "last"


def test_links_beyond_the_limit_are_counted() -> None:
    page = ScanParser(Limits(links=10)).parse(
        b"".join(b"<a href=%d>y</a>" % n for n in range(30)), "", "text/html", ""
    )
    assert (len(page.hrefs), page.dropped) == (10, 20)


_PIECES = [
    b"<", b">", b'"', b"'", b"=", b" ", b"/", b"&", b"&amp;", b"&#", b"\0", b"\xff", b"<!--", b"-->", b"--!>",
    b"<script>",
    b"</script>", b"<!--<script>", b"<style>", b"</style>", b"<title>", b"</title>", b"<svg>", b"</svg>",
    b"<math>", b"<mi>",
    b"<![CDATA[", b"]]>", b"<textarea>", b"</textarea>", b"<a href=q1>", b"</a>", b"<a href='q2'",
    b"<plaintext>", b"<table>",
    b"<td>", b"</td>", b"</table>", b"<p>", b"</p>", b"<iframe>", b"<xmp>", b"</", b"<!", b"<?", b"<template>",
    b"<desc>",
    b"<foreignObject>", b"</foreignObject>", b"<b>", b"</div>", b"<br/>", b"<img src=z alt='q'>", b"href=",
    b"<base href=/zz/>",
    b"<link rel=next href=n>", b"<meta name=robots content=none>", b"text of some words",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(_PIECES), st.binary(max_size=6)), max_size=40).map(b"".join))
def test_any_bytes_may_come(body: bytes) -> None:
    for media in ("text/html", "application/xhtml+xml"):
        page = scanned(body, media)
        assert len(page.hrefs) == len(page.kinds) == len(page.texts)
        assert all("\n" not in text and len(text) <= 100 for text in page.texts)


_HEADS = [
    b'<link rel=next href="a" rel=x>', b"<link rel=next href='a\" rel=x'>", b"<link rel=next href=a\" rel=x>",
    b'<link href="a" rel="canonical">', b"<link href=a rel=canonical>", b'<link href="a&amp;b" rel="canonical">',
    b'<link title="T" href="a" rel="alternate" type="application/rss+xml">', b"<link>", b"<meta>",
    b'<link title="T" href="a" rel="alternate nofollow">', b'<link href="\xe4" rel="next">',
    b'<meta name="robots" content="noindex">', b"<meta content=noindex name=robots>", b"<meta name=x content=y>",
    b'<meta http-equiv="refresh" content="0;url=z">', b'<meta name="" content="none">', b"<base href=/q/>",
    b'<link rel="stylesheet" href="#">', b'<link rel="next" href="' + b"l" * 600 + b'">',
]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(_HEADS), max_size=6).map(b"".join), max_size=5),
    st.sampled_from(["utf-8", "windows-1252"]),
)
def test_heads_read_before_change_nothing(heads: list[bytes], charset: str) -> None:
    """A parser remembers what elements of heads say; one that has read nothing says the same of each page."""
    for head in heads:
        page, fresh = (
            scanned(head, charset=charset),
            ScanParser().parse(head, "http://h.test/", "text/html", charset),
        )
        assert page == fresh


def pages(count: int) -> list[bytes]:
    """Pages from one seed."""
    draw = random.Random(20_261_116)
    return [b"".join(draw.choices(_PIECES, k=draw.randrange(60))) for _ in range(count)]


def tapes(count: int) -> str:
    """A digest of what the kernel writes about them."""
    digest = sha256()
    for body in pages(count):
        marks = SCANNER.scan(body, "text/html", "utf-8")
        digest.update(json.dumps(marks.tape.tolist()).encode() + marks.text_data.tobytes())
    return digest.hexdigest()


def test_the_kernel_writes_what_plain_python_writes() -> None:
    """The same functions, not compiled, on arrays whose bounds are checked."""
    ask = "from tests.page.test_scan import tapes; print(tapes(120))"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    root = Path(__file__).parent.parent.parent
    plain = subprocess.run(
        [sys.executable, "-c", ask], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    assert plain.stdout.strip() == tapes(120)
