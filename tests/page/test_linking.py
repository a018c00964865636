"""Links packed by kernels against those that Python packs: the same URLs, kinds and texts."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from lycosa.crawl.harvest import pack_links
from lycosa.meters import Meters
from lycosa.page import link_kernels as kernels
from lycosa.page import linking
from lycosa.page.html import HtmlParser
from lycosa.page.linking import Linker, undeferred
from lycosa.page.protocol import Limits, Page
from lycosa.page.scan import ScanParser
from lycosa.records import Link, LinkKind, Links
from lycosa.url.canonical import NO_RULES, canonicalise
from lycosa.url.hrefs import HrefMemo
from lycosa.url.key import Keyer
from lycosa.url.memo import LinkMemo
from tests.page.test_scan import SAME, pages

LIMITS = Limits(repeats=False)
KEYER = Keyer(7)
SCANNER = ScanParser(LIMITS, deferred=True)
URL = "http://h.test/dir/page.html?q=1"


def linker(capacity: int = 2_000, limits: Limits = LIMITS) -> Linker:
    plain = HrefMemo(1_000, NO_RULES, Meters())
    return Linker(LinkMemo(capacity, KEYER), plain, KEYER, NO_RULES, limits, Meters())


def base_of(page: Page, url: str) -> str:
    return (canonicalise(page.base, url) or url) if page.base else url


def packed(one: Linker, body: bytes, url: str = URL, charset: str = "utf-8") -> Links:
    page = SCANNER.parse(body, url, "text/html", charset)
    found = one.links(page, base_of(page, url))
    assert found is not None
    return found[0]


def plainly(body: bytes, url: str = URL, charset: str = "utf-8") -> Links:
    page = HtmlParser(LIMITS).parse(body, url, "text/html", charset)
    resolved = HrefMemo(10, NO_RULES, Meters()).resolve(base_of(page, url), page.hrefs)
    return pack_links(resolved, page.kinds, page.texts, 0)


def by_url(links: Links) -> dict[str, Link]:
    rows = {link.url: link for link in links}
    assert len(rows) == len(links)
    return rows


@pytest.mark.parametrize("body", SAME)
def test_the_same_links_as_from_the_tree(body: str) -> None:
    one = linker()
    for _ in range(2):  # unknown hrefs, then known ones
        assert by_url(packed(one, body.encode())) == by_url(plainly(body.encode()))


HREFS = [
    "x", "./x", "../x", "/x", "//h2.test/x", "http://h3.test/x", "HTTPS://h3.test/y", "?x", "?x=1&amp;y=2",
    "#x", "", "x#y", "/x#y",
    "x y", "x\ty", "x\\y", "/\\h4.test/x", "\\\\h5.test", "http:x", "http:?y", "https:x", "mailto:a@b",
    "javascript:void(0)", "tel:1",
    "c:/x", "x:y", "a%20b", "a|b", "%zz", "http://[::1]/", "http://", "http://h.test:80/x", "é", "x?é",
    "&#47;x", "x&#35;y", ".", "..",
    "http://h3.test", "/", "//", "///x", " /x ", "\x01x", "data:,x", "HTTP://H.test/%7Ex", "x" * 9_000,
    "ftp://h/x", "file:///etc/x",
]  # fmt: skip


def test_every_kind_of_href_from_every_kind_of_base() -> None:
    one = linker()
    bases = [
        URL,
        "http://h.test/",
        "https://h.test/dir/",
        "http://h.test/dir/other.html",
        "http://h6.test:81/a/b/c",
    ]
    body = "".join(f'<a href="{href}">{n}</a>' for n, href in enumerate(HREFS)).encode()
    for url in bases * 2:
        assert by_url(packed(one, body, url)) == by_url(plainly(body, url))
        for href in HREFS:
            alone = f'<a href="{href}">t</a>'.encode()
            assert by_url(packed(one, alone, url)) == by_url(plainly(alone, url)), href


def test_the_better_followed_of_two_kinds_is_kept_whichever_comes_first() -> None:
    pieces = [
        "<form action=s></form>",
        "<a href=s>t</a>",
        "<link rel=search href=s title=S>",
        "<img src=s alt=i>",
    ]
    for first in pieces:
        for second in pieces:
            body = (first + second).encode()
            assert by_url(packed(linker(), body)) == by_url(plainly(body)), body
            if first != second and "form" in first and "img" not in second:
                (link,) = packed(linker(), body)
                assert link.kind is not LinkKind.FORM


@pytest.mark.parametrize(
    ("body", "ours", "tree"),
    [  # handlers in Python come first, hrefs that the memo cannot keep last
        ("<link rel=alternate href=/s><link rel=canonical href=/s>", (5, ""), (6, "")),
        ("<base href=/s><a href='?a'>1</a><a href='/s?a'>2</a>", (0, "2"), (0, "1")),
        ("<a href=/é>1</a><a href=/%C3%A9>2</a>", (0, "2"), (0, "1")),
    ],
)
def test_of_several_that_are_followed_alike_one_is_kept(
    body: str, ours: tuple[int, str], tree: tuple[int, str]
) -> None:
    for links, expected in ((packed(linker(), body.encode()), ours), (plainly(body.encode()), tree)):
        (link,) = links
        assert (link.kind, link.text) == expected


SOURCES = [
    "", "x", " /x ", "data:,x", "dAtA:,x", "d&#97;ta:,x", "#x", "x#y", "é", "?q", "a:b", "//h2.test/x", "x\0",
]  # fmt: skip
SETS = [
    "", " , ", "x", "x 1x, y 2x", "x,,y z, ,/w", "x 1x,y 2x", "\n x 1x,\n\ty 2x\n", "x?a=1&amp;b=2 1x, y",
    "x?a=1&b=2 1x", "x?a&copy 1x", "x&#44; y", "x&comma; y", "x&Tab;y", "data:,x 1x, y", "#x, y", "é, y",
    "x#y 2x, z", "x, x#y, x 2x", "?q 1x, y", "HTTPS://h3.test/y 2x", "a:b, y", "./a:b, y", "x\0, y", "\x01, y",
    ",x,", "x (,) 2x, y", "x" * 9_000 + ", y",
]  # fmt: skip


@pytest.mark.parametrize("base", ["", "<base href=/other/>"])
def test_every_kind_of_image(base: str) -> None:
    one = linker()
    pairs = [("src", "srcset"), ("data-src", "data-srcset"), ("src=data:, data-src", "data-srcset")]
    values: list[tuple[str | None, str | None]] = [(source, each) for source in (None, "x") for each in SETS]
    values += [(source, each) for source in SOURCES for each in (None, "y 1x", "?q")]
    for (src, srcset), (source, given) in product(pairs, values):
        said = [f'{name}="{value}"' for name, value in ((src, source), (srcset, given)) if value is not None]
        image = f"<img {' '.join(said)} alt='A &lt; B'>"
        body = f"{base}<a href=z>{image}</a><img src=other alt='x &amp; é'>".encode()
        assert by_url(packed(one, body)) == by_url(plainly(body)), body


def test_an_image_has_one_text_however_many_urls() -> None:
    many = ", ".join(f"{n} {n}w" for n in range(3_000))
    body = f"<img alt='{'x' * 1_000}' srcset='{many}'>".encode()
    assert by_url(packed(linker(10_000), body)) == by_url(plainly(body))
    page = SCANNER.parse(body, URL, "text/html", "utf-8")
    assert linker(10).links(page, URL) is None  # its memo cannot hold them


def test_a_base_element_changes_what_hrefs_stand_for() -> None:
    one = linker()
    for base in ("", "<base href=/other/>", "<base href='http://h9.test/'>", "<base href=''>"):
        body = (base + "<a href=x>1</a><a href='#y'>2</a><a href='/z'>3</a>").encode()
        assert by_url(packed(one, body)) == by_url(plainly(body))


def test_bytes_beyond_ascii_are_read_in_the_encoding_of_their_page() -> None:
    one = linker()
    for charset in ("utf-8", "windows-1252", "gbk"):
        body = b"<a href='caf\xc3\xa9'>\xc3\xa9t\xc3\xa9 \xc2\xa0x</a>"
        assert by_url(packed(one, body, charset=charset)) == by_url(plainly(body, charset=charset))


def test_pages_of_random_markup() -> None:
    """Texts may differ where the tree opens anchors again, and URLs be more: none that the tree has is missing."""
    one = linker(500)
    for body in pages(300):
        mine, theirs = by_url(packed(one, body)), by_url(plainly(body))
        missing = set(theirs) - set(mine)
        assert not missing or b"<base" in body  # an anchor opened again behind a base is met with another one


def test_a_small_memo_forgets_and_goes_on() -> None:
    one = linker(64)
    draw = random.Random(1)
    for _ in range(200):
        body = "".join(f"<a href=p{draw.randrange(500)}>t</a>" for _ in range(20)).encode()
        assert by_url(packed(one, body)) == by_url(plainly(body))


def test_a_page_that_the_memo_cannot_hold_is_given_whole() -> None:
    one = linker(64)
    body = "".join(f"<a href=p{n}>t{n}</a>" for n in range(1_000)).encode()
    page = SCANNER.parse(body, URL, "text/html", "utf-8")
    assert one.links(page, URL) is None
    whole = undeferred(page, LIMITS)
    assert whole.hrefs == [f"p{n}" for n in range(1_000)]
    assert whole.texts[5] == "t5"
    assert by_url(packed(one, b"<a href=x>1</a>")) == by_url(plainly(b"<a href=x>1</a>"))


def test_long_columns_are_grown() -> None:
    one = linker(20_000)
    body = "".join(f"<a href='/{'x' * 200}{n}'>{'ü' * 100}</a>" for n in range(6_000)).encode()
    links = packed(one, body)
    assert len(links) == 6_000
    assert by_url(links) == by_url(plainly(body))


def test_a_page_of_more_elements_than_usual_has_all_its_links() -> None:
    body = b"<meta name=x http-equiv=y content=z>" * 70_000 + b"<a href=/last>z</a>"
    assert by_url(packed(linker(), body)) == by_url(plainly(body))


def test_links_beyond_the_limit_are_counted() -> None:
    limits = Limits(links=10, repeats=False)
    page = ScanParser(limits, deferred=True).parse(
        b"".join(b"<a href=%d>y</a>" % n for n in range(30)), URL, "text/html", ""
    )
    found = linker(limits=limits).links(page, URL)
    assert found is not None
    assert (len(found[0]), found[1]) == (10, 20)


def test_other_bases_than_the_webs_are_left_to_the_plain_way() -> None:
    page = SCANNER.parse(b"<a href=x>1</a>", "file:///x/y", "text/html", "utf-8")
    assert linker().links(page, "file:///x/y") is None


def test_a_memo_says_the_keys_of_its_urls() -> None:
    memo = LinkMemo(100, KEYER)
    one = Linker(memo, HrefMemo(10, NO_RULES, Meters()), KEYER, NO_RULES, LIMITS, Meters())
    packed(one, b"<a href=x>1</a><a href='mailto:q'>2</a><a href=/y>3</a>")
    stored = {}
    for entry in range(len(memo)):
        at, length = (int(word) for word in memo.places[entry, 2:])
        if length >= 0:
            stored[memo.arena[at : at + length].tobytes().decode()] = int(memo.keys[entry])
    assert stored == {url: KEYER.key(url) for url in ("http://h.test/dir/x", "http://h.test/y")}
    assert memo.nbytes < 100_000
    assert np.count_nonzero(memo.slots) == len(memo) == 3


RELS = [
    "", "next", "stylesheet", "STYLESHEET", "alternate stylesheet", "shortcut icon", "icon\tnofollow",
    "canonical", "canonical next", "alternate", "amphtml", "preconnect", "preconnect icon", "dns-prefetch",
    "preload", "preload manifest", "modulepreload", "nofollow", "apple-touch-icon-precomposed",
    "apple-touch-ico", "iconx", "mask-icon", "sitemap", "pingback", "n&#101;xt", "ic\u00f6n", "icon\x0b",
    "\x1dicon\x1c",
]  # fmt: skip


@pytest.mark.parametrize(
    "more", ["", " title='a  title'", " title='&lt;\u00e9'", " type=application/rss+xml", " as=style"]
)
def test_a_link_element_says_what_the_tree_makes_of_it(more: str) -> None:
    one = linker()
    for rel in RELS:
        for href in (" href=/x", " href=''", " href='#f'", " href='mailto:q'", ""):
            for body in (
                f"<link rel='{rel}'{href}{more}>",
                f"<link{href}{more}>",
                f"<svg><link rel='{rel}'{href}{more}>",
            ):
                page = SCANNER.parse(body.encode(), URL, "text/html", "utf-8")
                assert by_url(packed(one, body.encode())) == by_url(plainly(body.encode())), body
                tree = HtmlParser(LIMITS).parse(body.encode(), URL, "text/html", "utf-8")
                assert page.canonical == tree.canonical


TEXTS = [
    "a &amp; b", "&amp;lt;", "&amp", "&", "& b", "a&", "&;", "&1", "&x;", "AT&T", "&eacute;", "a&#8203;(b)",
    "&#x1F600;&#X1f600;", "&#38;amp;", "&#38;#38;", "&#128;", "&#x85;", "&#xD800;", "&#1114111;",
    "&#1114112;", "&#99999999999999999999999;", "&#0233;", "&#233", "&#;", "&#x;", "&#x2003;", "&thetasym;",
    "&thetasymx;", "&notit;", "&rarr;&raquo;&copy;&AMP;&NotEqualTilde;&fjlig;&emsp;x", "&Hat;", "&lbrace;",
    "&copy", "&copyx;", "&#233;", "&nbsp;x&nbsp;", "é", "\u00b6", "日本語", "😀 x", "x\u00a0y",
    "\u00a0", "\u2003x", "\u3000", "x\u200b", "\u200b", "\u1680a", "\u202fb", "\u2029", "é " * 99,
    "&amp;" * 150, "é" * 99 + "  z", "日" * 2_000, " é ", "a\u0085b", "a\x00é",
    "<b>é</b> &amp; <i>x</i>", "\uffff",
]  # fmt: skip
BYTES = [
    b"\xff", b"\xc3", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\xf0\x8f\xbf\xbf", b"a\xe2\x82", b"\xf5\x80\x80\x80", b"\xc3\xc3", b"\x80",
]  # fmt: skip


@pytest.mark.parametrize("charset", ["utf-8", "windows-1252", "gbk"])
def test_texts_that_need_more_than_a_copy(charset: str) -> None:
    one = linker()
    for text in [*(text.encode() for text in TEXTS), *BYTES]:
        for body in (
            b"<a href=/x>" + text + b"</a>",
            b"<a href=/x title='" + text + b"'></a>",
            b"<a href=/x><img src=/y alt='" + text + b"'></a>",
            b"<link rel=next href=/x title='" + text + b"'>",
            b"<a href=/x></a><a href=/x>" + text + b"</a><a href=/x>z</a>",
        ):
            assert by_url(packed(one, body, charset=charset)) == by_url(plainly(body, charset=charset)), body


@pytest.mark.parametrize("title", ["", " ", "&nbsp;", "\u00a0", "\0", "t"])
def test_an_empty_title_leaves_the_word_to_the_image(title: str) -> None:
    for body in (
        f"<a href=/x title='{title}'><img src=/y alt='An image'></a>",
        f"<a href=/x title='{title}'><img src=/y></a><a href=/x>later</a>",
    ):
        assert by_url(packed(linker(), body.encode())) == by_url(plainly(body.encode())), body


def test_no_text_is_written_behind_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of an image is also that of the anchor around it."""
    ends = []

    def choose(*args: Any) -> Any:
        found = kernels.choose(*args)
        ends.append((found[2], len(args[14])))
        return found

    monkeypatch.setattr(linking, "choose", choose)
    long = b"z" * 1_500
    bodies = [
        b"<a href=/x><img src=/y alt='" + long + b"'></a>",
        b"<a href=/x title='" + long + b"'><img src=/y alt='" + long + b"'></a>",
        b"<link rel=next href=/x title='" + long + b"'><map><area href=/y alt='" + long + b"'>",
    ]
    for body in [*bodies, *pages(100)]:
        packed(linker(), body)
    assert all(end <= size for end, size in ends)
    assert len(ends) == 103


def test_whoever_scans_the_links_of_a_page_next_is_given_keys_that_are_right() -> None:
    one = linker()
    body = "".join(f'<a href="{href}">t</a>' for href in HREFS).encode()
    for _ in range(2):
        links = packed(one, body)
        keys, hosts = KEYER.scan(links.urls)
        wanted_keys, wanted_hosts = KEYER.scan_plain(links.urls)
        assert keys.tolist() == wanted_keys.tolist()
        assert hosts.tolist() == wanted_hosts.tolist()
