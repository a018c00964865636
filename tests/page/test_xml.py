"""Sitemaps and feeds: what they list, however broken or hostile."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.page.protocol import LIMITS, Limits, Page
from lycosa.page.xml import XmlParser, attributes
from lycosa.records import LinkKind

K = LinkKind


def page(markup: str, limits: Limits = LIMITS) -> Page:
    return XmlParser(limits).parse(markup.encode(), "http://h/x", "application/xml", "utf-8")


def links(markup: str) -> list[tuple[str, int, str]]:
    found = page(markup)
    return list(zip(found.hrefs, found.kinds, found.texts, strict=True))


SITEMAP = """<?xml version="1.0" encoding="UTF-8"?>
<!-- <urlset><url><loc>http://h/comment</loc></url></urlset> -->
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
  <url><loc> http://h/a?x=1&amp;y=%C3%A9 </loc><lastmod>2024-01-01</lastmod>
    <image:image><image:loc>http://h/i.png</image:loc></image:image>
    <xhtml:link rel="alternate" hreflang="de" href="http://h/de"/>
    <video:video><video:content_loc>http://h/v.mp4</video:content_loc></video:video></url>
  <url><loc><![CDATA[http://h/b?x=1&y=2]]></loc></url>
  <url><loc/></url><url><loc></loc></url>
</urlset>"""


def test_sitemap() -> None:
    assert links(SITEMAP) == [
        ("http://h/a?x=1&y=%C3%A9", K.ANCHOR, "2024-01-01"),
        ("http://h/de", K.ALTERNATE, "de"),
        ("http://h/b?x=1&y=2", K.ANCHOR, ""),
    ]


def test_sitemap_with_a_prefix() -> None:
    markup = "<s:urlset><s:url><s:loc>http://h/a</s:loc><loc>http://h/no</loc></s:url></s:urlset>"
    assert links(markup) == [("http://h/a", K.ANCHOR, "")]


def test_sitemap_index() -> None:
    markup = "<sitemapindex><sitemap><loc>http://h/1.xml.gz</loc></sitemap></sitemapindex>"
    assert links(markup) == [("http://h/1.xml.gz", K.SITEMAP, "")]


def test_broken_sitemaps_give_what_they_hold() -> None:
    assert page("<urlset><url><loc>http://h/a</loc></url><url><loc>http://h/b").hrefs == [
        "http://h/a",
        "http://h/b",
    ]
    assert page("<urlset>&nosuch; < & <url><loc>http://h/a&b=1</url></wrong>").hrefs == ["http://h/a&b=1"]
    assert page("junk <urlset><loc>http://h/a</loc>").hrefs == ["http://h/a"]


def test_entities_are_not_expanded() -> None:
    bomb = "<!DOCTYPE urlset [<!ENTITY a 'aaaaaaaaaa'>" + "".join(
        f"<!ENTITY b{i} '&b{i - 1};&b{i - 1};'>" for i in range(1, 60)
    )
    bomb += "<!ENTITY x SYSTEM 'file:///etc/passwd'>]>"
    found = page(bomb + "<urlset><loc>http://h/&b59;</loc><loc>http://h/&x;</loc></urlset>")
    assert found.hrefs == ["http://h/&b59;", "http://h/&x;"]
    assert page("<!DOCTYPE urlset [<!ENTITY a '<urlset><loc>http://h/a</loc></urlset>'>]>").hrefs == []


RSS = """<rss version="2.0"><channel><title>The &amp; channel</title><link>http://h/</link>
<atom:link rel="self" href="http://h/feed"/><atom:link rel="hub" href="http://hub/"/>
<item><title><![CDATA[One &amp; two]]></title><link>http://h/1</link><guid>http://h/g1</guid>
<media:title>no</media:title><enclosure url="http://h/1.mp3" type="audio/mpeg"/></item>
<item><guid isPermaLink="true">http://h/g2</guid><title>Three</title></item>
<item><guid isPermaLink="false">http://h/g3</guid><title>Four</title></item>
<item><link><![CDATA[http://h/5]]></link></item>
</channel></rss>"""


def test_rss() -> None:
    assert page(RSS).title == "The & channel"
    assert links(RSS) == [
        ("http://h/", K.ANCHOR, ""),
        ("http://h/feed", K.FEED, ""),
        ("http://h/1", K.ANCHOR, "One & two"),
        ("http://h/1.mp3", K.MEDIA, "One & two"),
        ("http://h/g2", K.ANCHOR, "Three"),
        ("http://h/5", K.ANCHOR, ""),
    ]


def test_rdf() -> None:
    markup = """<rdf:RDF><channel><title>C</title><link>http://h/</link></channel>
    <item rdf:about="http://h/1"><title>I</title><link>http://h/1</link></item></rdf:RDF>"""
    assert links(markup) == [("http://h/", K.ANCHOR, ""), ("http://h/1", K.ANCHOR, "I")]


def test_atom() -> None:
    markup = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://h/b/" xml:lang="en">
    <title>F</title>
    <link href="/"/><link rel="self" href="/f"/><link rel="next" href="?page=2"/><link rel="edit" href="/e"/>
    <entry><link rel="alternate" href="1?a=1&amp;b=2"/><link rel='enclosure' href='m'/>
    <title type="html">T</title>
    <link rel="replies" href="r" title="Replies"/>
    <content type="xhtml"><div><a href="no">x</a></div></content>
    </entry></feed>"""
    found = page(markup)
    assert (found.base, found.title, found.language) == ("http://h/b/", "F", "en")
    assert links(markup) == [
        ("/", K.ANCHOR, ""),
        ("/f", K.FEED, ""),
        ("?page=2", K.FEED, ""),
        ("1?a=1&b=2", K.ANCHOR, "T"),
        ("m", K.MEDIA, "T"),
        ("r", K.RELATED, "Replies"),
    ]


def test_other_roots() -> None:
    found = page("<?xml version='1.0'?><!DOCTYPE html><html><script src='a'/><a href='b'>t</a></html>")
    assert found.type == "application/xhtml+xml" and found.hrefs == ["a", "b"]
    assert page("<svg><a href='x'/></svg>").hrefs == []
    assert page("").hrefs == []
    assert page("no tags").hrefs == []


def test_limits() -> None:
    limits = Limits(listed=2, listing=1000, href=20)
    found = page("<urlset>" + "<loc>http://h/</loc>" * 5, limits)
    assert len(found.hrefs) == 2 and found.dropped == 3 and not found.cut
    found = page("<urlset><loc>http://h/a</loc>" + " " * 1000 + "<loc>http://h/b</loc>", limits)
    assert found.hrefs == ["http://h/a"] and found.cut
    assert page(f"<urlset><loc>http://h/{'a' * 20}</loc>", limits).dropped == 1


HOSTILE = {
    "comments": "<urlset>" + "<!--" * 500_000,
    "cdata": "<urlset>" + "<![CDATA[" * 300_000,
    "open tags": "<urlset>" + "<loc" * 500_000,
    "quotes": "<rss>" + "<link '" * 300_000,
    "items": "<rss>" + "<item>" * 300_000,
    "titles": "<rss>" + "<item><title>t" * 200_000,
    "links of one item": "<rss><item>" + "<link>http://h/</link>" * 100_000,
    "doctype": "<!DOCTYPE x [" + "<!ENTITY a 'b'>" * 200_000,
    "no root": "<" * 1_000_000,
    "name": "<" + "a" * 2_000_000,
    "names": "<" + "a:" * 1_000_000,
    "attributes": "<feed><link " + "a='b' " * 300_000 + "/>",
    "white": "<urlset " + " " * 2_000_000 + "<loc " + " " * 1_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_bounded(name: str) -> None:
    start = time.process_time()
    found = page(HOSTILE[name])
    assert time.process_time() - start < 5
    assert len(found.hrefs) == len(found.kinds) == len(found.texts) <= LIMITS.listed


PIECES = st.sampled_from(
    [
        "<urlset>",
        "<rss>",
        "<feed>",
        "<item>",
        "</item>",
        "<entry>",
        "<loc>",
        "</loc>",
        "<link",
        "/>",
        ">",
        "<title>",
        "&lt;",
        "&#0;",
        "&#xD800;",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "<!DOCTYPE",
        "[",
        "]>",
        "x",
        "<guid>http://",
        "href='",
        "'/>",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.lists(PIECES, max_size=30).map(lambda p: "".join(p).encode())))
def test_any_bytes(body: bytes) -> None:
    found = XmlParser().parse(body, "http://h/x", "text/xml", "utf-8")
    assert len(found.hrefs) == len(found.kinds) == len(found.texts)
    for text in found.texts:
        assert text == " ".join(text.split()) and len(text) <= LIMITS.text
        text.encode("utf-8", "strict")


def test_attributes_beside_names_without_values() -> None:
    assert attributes("a b='1' c = \"2&amp;\" x:d='3' b='4' e=f g") == {"b": "1", "c": "2&", "x:d": "3"}
    assert len(attributes(" ".join(f"a{row}=''" for row in range(1000)))) == 100


@pytest.mark.parametrize(
    "unit",
    [
        "<a>",
        "<item><title>t</title>",
        "<!--ab-->",
        "<![CDATA[ab]]>",
        "<link href='x'/>",
        "<loc>&#60;",
        "<b a1='' c=''>",
    ],
)
@pytest.mark.parametrize("root", ["rss", "urlset"])
def test_memory_is_a_small_multiple_of_the_text(root: str, unit: str) -> None:
    body = f"<{root}>{unit * (300_000 // len(unit))}".encode()
    tracemalloc.start()
    try:
        found = XmlParser(Limits(listed=100)).parse(body, "http://h/", "text/xml", "utf-8")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found.hrefs) <= 100
    assert peak < 6 * len(body), f"{peak / len(body):.1f} bytes for each"
