"""Links of HTML: from every element that has them, and from hostile pages within bounds."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.page.html import HtmlParser, candidates, refresh_target
from lycosa.page.protocol import LIMITS, Limits, Page
from lycosa.records import NOFOLLOW, LinkKind

K = LinkKind


def page(markup: str, media: str = "text/html", limits: Limits = LIMITS) -> Page:
    return HtmlParser(limits).parse(markup.encode(), "http://h/", media, "utf-8")


def links(markup: str) -> list[tuple[str, int, str]]:
    found = page(markup)
    return list(zip(found.hrefs, found.kinds, found.texts, strict=True))


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<a href=x>t</a>", [("x", K.ANCHOR, "t")]),
        ("<A HREF=' x\n'> a\n <b>b</b>\tc </A>", [("x", K.ANCHOR, "a b c")]),
        ("<a href='a b'>t</a>", [("a b", K.ANCHOR, "t")]),
        ("<a href=?a=1&amp;b=2>t</a>", [("?a=1&b=2", K.ANCHOR, "t")]),
        ("<a href=x rel='NoFollow me'>t</a>", [("x", K.ANCHOR | NOFOLLOW, "t")]),
        ("<a href=x rel='ugc sponsored'>t</a>", [("x", K.ANCHOR, "t")]),
        ("<a href=x rel=nofollowed>t</a>", [("x", K.ANCHOR, "t")]),
        (
            "<a href=x><img src=i alt=' an  image '></a>",
            [("x", K.ANCHOR, "an image"), ("i", K.IMAGE, "an image")],
        ),
        ("<a href=x title=tip></a>", [("x", K.ANCHOR, "tip")]),
        ("<a href=x></a>", [("x", K.ANCHOR, "")]),
        ("<a name=x>t</a><a>u</a><a href>v</a><a href='  '>w</a>", []),
        ("<a href='#top'>t</a>", []),
        ("<base href=/b/><a href='#top'>t</a>", [("#top", K.ANCHOR, "t")]),
        (
            "<a href='JavaScript:void(0)'>t</a><a href=mailto:a@b>t</a><a href=data:,x>t</a><a href=tel:1>",
            [],
        ),
        (
            "<a href=javascript.html>t</a><a href=data/x>u</a>",
            [("javascript.html", 0, "t"), ("data/x", 0, "u")],
        ),
        ("<a href=file:///x>t</a>", [("file:///x", K.ANCHOR, "t")]),
        ("<map><area href=x alt=' A  b'></map>", [("x", K.AREA, "A b")]),
        ("<map><area href=x rel=nofollow></map>", [("x", K.AREA | NOFOLLOW, "")]),
        ("<frameset><frame src=x></frameset>", [("x", K.FRAME, "")]),
        ("<iframe src=x></iframe><iframe data-src=y></iframe>", [("x", K.FRAME, ""), ("y", K.FRAME, "")]),
        ("<meta http-equiv=Refresh content='3; URL=x'>", [("x", K.REFRESH, "")]),
        ("<meta http-equiv=Refresh content='3'>", []),
        ("<form action=x></form><form></form>", [("x", K.FORM, "")]),
        (
            "<button formaction=x></button><input type=submit formaction=y>",
            [("x", K.FORM, ""), ("y", K.FORM, "")],
        ),
        ("<input type=IMAGE src=x><input src=y>", [("x", K.IMAGE, "")]),
        (
            "<blockquote cite=a></blockquote><q cite=b></q><ins cite=c></ins><del cite=d></del>",
            [(c, K.RELATED, "") for c in "abcd"],
        ),
        ("<link rel=stylesheet href=x>", [("x", K.STYLE, "")]),
        ("<link rel='alternate stylesheet' href=x title=t>", [("x", K.STYLE, "")]),
        (
            "<link rel='shortcut icon' href=x><link rel=apple-touch-icon href=y>",
            [("x", K.ICON, ""), ("y", K.ICON, "")],
        ),
        ("<link rel=manifest href=x>", [("x", K.MANIFEST, "")]),
        ("<link rel=Canonical href=x>", [("x", K.CANONICAL, "")]),
        ("<link rel=alternate hreflang=de href=x title=Deutsch>", [("x", K.ALTERNATE, "Deutsch")]),
        ("<link rel=alternate type=application/rss+xml href=x title=F>", [("x", K.FEED, "F")]),
        ("<link rel=alternate type=application/atom+xml href=x>", [("x", K.FEED, "")]),
        ("<link rel=sitemap href=x>", [("x", K.SITEMAP, "")]),
        ("<link rel=next href=x><link href=y>", [("x", K.RELATED, ""), ("y", K.RELATED, "")]),
        ("<link rel='next nofollow' href=x>", [("x", K.RELATED | NOFOLLOW, "")]),
        (
            "<link rel=preload as=script href=a><link rel=preload as=font href=b>"
            "<link rel=modulepreload href=c>",
            [("a", K.SCRIPT, ""), ("b", K.OBJECT, ""), ("c", K.SCRIPT, "")],
        ),
        ("<link rel=dns-prefetch href=//x><link rel=preconnect href=//y><link rel=next>", []),
        ("<script src=x></script><script>a='<a href=y>'</script>", [("x", K.SCRIPT, "")]),
        ("<img src=x alt=t>", [("x", K.IMAGE, "t")]),
        ("<img src=x srcset='a 1x, b 2x'>", [("x", K.IMAGE, ""), ("a", K.IMAGE, ""), ("b", K.IMAGE, "")]),
        (
            "<img src='data:image/gif;base64,R0' data-src=x data-srcset='a 1x'>",
            [("x", K.IMAGE, ""), ("a", K.IMAGE, "")],
        ),
        ("<img src=x data-src=y>", [("x", K.IMAGE, "")]),
        ("<picture><source srcset='a, b 2x'><img src=c></picture>", [(c, K.IMAGE, "") for c in "abc"]),
        (
            "<video src=a poster=b><source src=c><track src=d></video>",
            [("a", K.MEDIA, ""), ("b", K.IMAGE, ""), ("c", K.MEDIA, ""), ("d", K.MEDIA, "")],
        ),
        ("<audio src=x></audio>", [("x", K.MEDIA, "")]),
        ("<embed src=a><object data=b></object>", [("a", K.OBJECT, ""), ("b", K.OBJECT, "")]),
        ("<body background=x>", [("x", K.IMAGE, "")]),
        (
            "<svg><a xlink:href=a>t</a><a href=b>u</a><image href=c /><use xlink:href='d#e'/><use href='#f'/>"
            "<script href=g></script></svg>",
            [("a", 0, "t"), ("b", 0, "u"), ("c", K.IMAGE, ""), ("d#e", K.IMAGE, ""), ("g", K.SCRIPT, "")],
        ),
        (
            "<noscript><a href=x>t</a></noscript><template><a href=y>u</a></template>",
            [("x", 0, "t"), ("y", 0, "u")],
        ),
        (
            "<style>@import 'a.css'; b{background:url( \"c.png\" )}</style>",
            [("a.css", K.STYLE, ""), ("c.png", K.IMAGE, "")],
        ),
        ("<!-- <a href=x>t</a> -->", []),
        ("<table><a href=x>t</a></table>", [("x", 0, "t")]),
        ("<a href=x>one<a href=y>two", [("x", 0, "one"), ("y", 0, "two")]),
        ("<a href=x>t", [("x", 0, "t")]),
        ("<a href=x", []),
    ],
)
def test_links(markup: str, expected: list[tuple[str, int, str]]) -> None:
    assert links(markup) == expected


def test_the_head() -> None:
    found = page(
        "<html lang=de-AT><title> A\n title </title><title>no</title><base target=_top><base href=' /b/ '>"
        "<base href=/c/><link rel=canonical href=' x '><link rel=canonical href=y>"
        "<meta name=ROBOTS content='NoIndex'><meta name=otherbot content='nofollow, noarchive'>"
        "<meta name=description content='all about'><meta name=keywords content='index cards'>"
        "<meta name=robots><body><svg><title>not this</title></svg>"
    )
    assert found.title == "A title"
    assert found.language == "de-AT"
    assert found.base == "/b/"
    assert found.canonical == "x"
    assert found.robots == [("robots", "NoIndex"), ("otherbot", "nofollow, noarchive")]
    assert found.type == "text/html" and found.charset == "utf-8"
    assert page("<svg><title>s</title></svg>").title == ""


def test_xhtml_empty_elements_are_complete() -> None:
    markup = (
        '<html><head><script src="a"/><title/></head>'
        '<body><a id="n"/><iframe src="b"/><a href="c">t</a></body></html>'
    )
    assert page(markup, "application/xhtml+xml").hrefs == ["a", "b", "c"]
    assert page(markup, "text/html").hrefs == ["a"]
    assert page('<p title="a>b"/><a href="x" title="1 > 0/">t</a>', "application/xhtml+xml").hrefs == ["x"]


def test_charset_is_used() -> None:
    found = HtmlParser().parse(
        "<title>é</title><a href=é>ü".encode("latin-1"), "u", "text/html", "windows-1252"
    )
    assert (found.title, found.hrefs, found.texts) == ("é", ["é"], ["ü"])


@pytest.mark.parametrize(
    ("srcset", "urls"),
    [
        ("a", ["a"]),
        ("a 1x, b 2x", ["a", "b"]),
        ("a,b 2x", ["a,b"]),
        ("a, b", ["a", "b"]),
        (" , a 100w ,\n b 200w", ["a", "b"]),
        ("data:x,y 1x, b 2x", ["data:x,y", "b"]),
        ("", []),
        (",,", []),
        ("  ", []),
    ],
)
def test_srcset(srcset: str, urls: list[str]) -> None:
    assert list(candidates(srcset)) == urls


@pytest.mark.parametrize(
    ("content", "url"),
    [
        ("0;url=x", "x"),
        ("5; URL = 'x y' z", "x y"),
        ('5, url="x', "x"),
        ("5 x", "x"),
        ("5;x", "x"),
        (".5;url=x", "x"),
        ("5", ""),
        ("5;", ""),
        ("url=x", ""),
        ("5x;url=y", ""),
        ("", ""),
    ],
)
def test_refresh(content: str, url: str) -> None:
    assert refresh_target(content) == url


def test_limits() -> None:
    limits = Limits(body=1000, links=3, href=10, text=5, title=4)
    found = page("<title>123456</title>" + "<a href=x>1234567</a>" * 5, limits=limits)
    assert (found.title, found.hrefs, found.texts) == ("1234", ["x"] * 3, ["12345"] * 3)
    assert found.dropped == 2 and not found.cut
    found = page(f"<a href={'y' * 11}>t</a><a href={'y' * 10}>t</a>", limits=limits)
    assert found.hrefs == ["y" * 10] and found.dropped == 1
    found = page("<a href=x>" + " " * 1000 + "</a><a href=y>", limits=limits)
    assert found.hrefs == ["x"] and found.cut
    assert page("<a href=x>" + " " * 10**5 + "t" * 10**5, limits=LIMITS).texts == ["t" * 100]


HOSTILE = {
    "nested": "<div>" * 200_000 + "<a href=x>t",
    "anchors": "<a href=x>t" * 200_000,
    "svg anchors": "<svg>" + "<a href=x>" * 100_000 + "t",
    "svg anchors around much": "<svg>" + "<a href=x>" * 600 + "<g/>" * 200_000 + "t" * 1_000_000,
    "object anchors": "<a href=x><object>" * 50_000,
    "formatting": "<a href=x><b><i><u><p>" * 20_000,
    "tables": "<table><a href=x>" * 50_000,
    "attributes": "<a " + " ".join(f"a{i}=1" for i in range(100_000)) + " href=x>t",
    "no end of a tag": "<a href='" + "x" * 4_000_000,
    "no end of a comment": "<!--" * 500_000,
    "no end of a script": "<script>" + "<a href=x>" * 200_000,
    "references": "<a href=x>" + "&amp;" * 500_000,
    "less than": "<" * 1_000_000,
    "srcset": "<img srcset='" + "," * 1_000_000 + "'>" + "<img srcset='" + "a," * 500_000 + "'>",
    "styles": "<style>" + "url(" * 300_000 + "</style><style>" + "@import " * 100_000 + "'</style>",
    "refresh": "<meta http-equiv=refresh content='" + "1" * 500_000 + "." * 500_000 + "'>",
    "robots": "<meta name=robots content=none>" * 100_000,
    "whitespace": "<a href='" + " " * 2_000_000 + "x'>" + "\n" * 2_000_000,
    "templates": "<template>" * 100_000,
    "empty tags": "<p " * 200_000 + "<p '" * 100_000 + '<p "' * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("media", ["text/html", "application/xhtml+xml"])
def test_hostile_pages_are_bounded(name: str, media: str) -> None:
    start = time.process_time()
    found = page(HOSTILE[name], media)
    # Each takes some tens of milliseconds; the quadratic way would take minutes.
    assert time.process_time() - start < 5
    assert len(found.hrefs) == len(found.kinds) == len(found.texts) <= LIMITS.links
    assert len(found.robots) <= 100


PIECES = st.sampled_from(
    [
        "<a href=",
        "x",
        ">",
        "</a>",
        "<svg>",
        "<base href=",
        "'",
        '"',
        "<img srcset=",
        " 1x,",
        "<link rel=canonical href=",
        "<meta http-equiv=refresh content='1;url=",
        "<style>",
        "@import url(",
        ")",
        "\\d800 ",
        "<title>",
        "<template>",
        "&#xD800;",
        "\0",
        "é",
        "\ud83d",
        "<!--",
        "<![CDATA[",
        "<table>",
        "\r\n\u2028\x85",
    ]
)


def check(found: Page) -> None:
    assert len(found.hrefs) == len(found.kinds) == len(found.texts)
    for href, kind, text in zip(found.hrefs, found.kinds, found.texts, strict=True):
        assert href and href == href.strip("\t\n\f\r ")
        LinkKind(kind & 0x7F)
        assert text == " ".join(text.split()) and len(text) <= LIMITS.text


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=500),
        st.lists(PIECES, max_size=40).map(lambda p: "".join(p).encode("utf-8", "replace")),
    ),
    st.sampled_from(["utf-8", "windows-1252", "utf-16le", "gbk", "replacement", ""]),
    st.sampled_from(["text/html", "application/xhtml+xml"]),
)
def test_any_bytes(body: bytes, charset: str, media: str) -> None:
    check(HtmlParser().parse(body, "http://h/", media, charset))


def test_without_repeats_each_target_comes_once_and_the_better_anchor_stays() -> None:
    body = (
        b'<a href="x.html" rel=nofollow>first</a><a href="x.html#a">second</a><a href="x.html#b">third</a>'
        b'<a href="y.html"></a><a href="y.html">why</a><a href="y.html">again</a><a href="#top">up</a>'
    )
    page = HtmlParser(Limits(repeats=False)).parse(body, "http://a.test/", "text/html", "utf-8")
    assert list(zip(page.hrefs, page.kinds, page.texts, strict=True)) == [
        ("x.html", NOFOLLOW, "first"),
        ("x.html", 0, "second"),
        ("y.html", 0, ""),
        ("y.html", 0, "why"),
    ]


def test_a_space_before_a_fragment_stays() -> None:
    markup = b"<a href='home.html #x'>1</a><a href='home.html#y'>2</a><a href='home.html'>3</a>"
    found = HtmlParser(Limits(repeats=False)).parse(markup, "http://h/", "text/html", "utf-8")
    assert found.hrefs == ["home.html #x", "home.html"]


@pytest.mark.parametrize("repeats", [True, False])
def test_an_empty_href_is_the_base(repeats: bool) -> None:
    markup = b"<a href=''>0</a><base href='/b/'><a href=' '>1</a><map><area href=''></map><img src=''>"
    found = HtmlParser(Limits(repeats=repeats)).parse(markup, "http://h/", "text/html", "utf-8")
    assert found.hrefs == ["#", "#"] and found.kinds == [0, 1]


def test_noframes_is_read() -> None:
    markup = (
        b"<frameset><frame src=f><noframes><body background=b><a href=x title=t></a><noframes><a href=no>"
        b"</noframes></frameset>"
    )
    found = HtmlParser().parse(markup, "http://h/", "text/html", "utf-8")
    assert sorted(found.hrefs) == ["b", "f", "x"]
    deep = b"<noframes>" * 100_000 + b"<a href=x>"
    assert HtmlParser().parse(deep, "http://h/", "text/html", "utf-8").hrefs == []
