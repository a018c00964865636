"""No input makes a parser's work grow faster than the input: a search over every parser that reads the web.

An input is a start, a unit or two repeated, and an end, all drawn from the parser's own alphabet. It is read at a
size, at twice and at four times that size. Where both doublings make the work grow by more than `WORST`, it is read
again, several times, and the best times count: noise makes a run slower, never faster. Times are of the process, not
of the clock on the wall; what takes less than a floor at the largest size is not judged.

The normal run tries what once froze a reader, and a few inputs of a fixed seed for every parser; the slow tests look
longer, for other inputs each time.

And nothing makes them raise: the same parsers, with values at the edge of what numbers, dates and texts can be.
"""

# ruff: noqa: E501  (tables of pieces)

from __future__ import annotations

import contextlib
import gc
import gzip
import io
import os
import random
import re
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import brotli
import pytest
import zstandard

from lycosa.archive import foreign
from lycosa.ask.mirror import names_of
from lycosa.content.change import content_digest
from lycosa.content.documents import text_of
from lycosa.content.language import language
from lycosa.content.news import names_of as names_in
from lycosa.content.patterns import patterns_of, patterns_plain
from lycosa.content.sketches import sketch
from lycosa.content.variants import candidates as rules_of
from lycosa.content.variants import form_of, parse
from lycosa.crawl.importing import _dechunked
from lycosa.errors import StorageError
from lycosa.fetch import head as heads
from lycosa.fetch.cookies import CookieJar, HostCookies, hidden
from lycosa.fetch.decode import decode
from lycosa.fetch.protocol import find_header, find_headers
from lycosa.fetch.robots import RobotsRules
from lycosa.fetch.robots_directives import directives
from lycosa.fetch.robots_policy import expiry
from lycosa.index.query import parse as questions
from lycosa.meters import Meters
from lycosa.page.charset import charset_of, prescan
from lycosa.page.css import CssParser
from lycosa.page.forms import asks_again, filled
from lycosa.page.html import HtmlParser, candidates, refresh_target
from lycosa.page.plain import PlainParser
from lycosa.page.protocol import Limits
from lycosa.page.registry import Parsers, unpack
from lycosa.page.sniff import declared, sniff
from lycosa.page.xml import XmlParser, attributes
from lycosa.refresh.hints import date_of, lifetime
from lycosa.render.needs import has_scripts, text_length
from lycosa.serve.guard import Asked, Guard, without_token
from lycosa.url.canonical import canonicalise
from lycosa.url.hrefs import HrefMemo
from lycosa.url.parts import surt
from lycosa.url.rules import TABLE, Rules

WORST = 2.8
"""Growth of the work when the size doubles: 2 is linear, 4 quadratic."""

OFFICE = "application/vnd.openxmlformats-officedocument."
_ALL_RULES = Rules.named(TABLE)


class Target(NamedTuple):
    """A parser, and what inputs for it are made of."""

    read: Callable[[bytes], object]
    starts: list[bytes]
    pieces: list[bytes]
    largest: int = 1 << 20


Made = tuple[bytes, tuple[bytes, ...], bytes]
"""A start, one or two units to be repeated, an end."""


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "replace"))


_HTML, _XML, _CSS, _PLAIN = HtmlParser(), XmlParser(), CssParser(), PlainParser()
_ONCE = HtmlParser(Limits(repeats=False))
_READER = Parsers()

_MARKS = [
    b"<",
    b">",
    b"/",
    b'"',
    b"'",
    b"=",
    b" ",
    b"\n",
    b"a",
    b"&",
    b"&#",
    b"&#x",
    b"9",
    b";",
    b"!",
    b"-",
    b"?",
]
_TAGS = [
    b"<a href=", b"<a href='x'>", b"</a>", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<!DOCTYPE ", b"<svg>", b"<style>",
    b"<script>", b"</script>", b"<title>", b"<template>", b"<noscript>", b"<table>", b"<td>", b"<b>", b"<p>", b"<div ",
    b"<img srcset=", b"<base href=", b"<meta name=robots content=", b"<meta http-equiv=refresh content=", b"<link rel=",
    b"<select>", b"<form>", b"<iframe>", b"<math>", b"<input ", b"<body ", b"<frameset>", b"<noframes>", b"<plaintext>",
    b"xlink:href=", b"rel=nofollow ", b"title=", b"@import url(", b"url(", b"\0", b"\xff", b"<title", b"<i>", b"<li>",
]  # fmt: skip
_XMLS = [
    b"<item>", b"<entry>", b"<link ", b"<link>", b"</link>", b"href=", b"rel=", b"<title>", b"<guid>", b"<guid ",
    b"<enclosure url=", b"<loc>", b"<url>", b"<x:loc>", b"<x:link ", b"xml:base=", b":", b"a:", b"a.b", b"http://h/",
    b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<!DOCTYPE ", b"[", b"]>", b"<?", b"?>", b"&lt;", b"&amp;", b"&#60;",
    b"</item>", b"isPermaLink='false'",
]  # fmt: skip
_SHEETS = [
    b"@import", b"url(", b"URL(", b" ", b"\t", b"\n", b'"', b"'", b"(", b")", b"\\", b"\\41 ", b"\\0", b"a", b"/*",
    b"*/", b";", b"{", b"}",
]  # fmt: skip
_URLS = [
    b"http://h/", b"https:", b"//", b"/", b"\\", b".", b"..", b"../", b"%2e", b"%", b"%25", b"%%33", b"?", b"#", b"@",
    b":", b"c:", b"c|", b"a", b"b=", b"&", b"sid=", b"jsessionid=", b";", b"(", b")", b"S(", b"x.aspx", b"\t", b" ",
    b"index.html", b"www.", b"[", b"]", b"^", b"\xc3\xa9", b"0x7f.", b"utm_a=", b"xn--", b"0123456789abcdef01234567",
]  # fmt: skip
_ROBOTS = [
    b"User-agent: a\n", b"User-agent: *\n", b"Disallow: /\n", b"Disallow: /*a*b\n", b"Allow: /a$\n", b"Crawl-delay: 1\n",
    b"Sitemap: http://h/s\n", b"#", b"\n", b"\r", b":", b"*", b"$", b"%41", b"a", b" ", b"\xef\xbb\xbf", b"Disallow:",
    b"User-agent:", b"bot/1.0 (compatible; ", b"\0",
]  # fmt: skip
_HEADS = [
    b"\r\n",
    b"\n",
    b"X: ",
    b"Retry-After: ",
    b":",
    b" ",
    b"\t",
    b"a",
    b"9",
    b",",
    b";",
    b'"',
    b"\\",
    b"=",
]


def _gzips(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


_EMPTY_GZIP = _gzips(b"")
_SKIPPABLE = b"\x50\x2a\x4d\x18\0\0\0\0"
_PACKED = [
    _EMPTY_GZIP, _gzips(b"a"), _gzips(b"<a href='x'>" * 9), zlib.compress(b"abc"), brotli.compress(b"abc"), b"\0", b"\x1f\x8b",
    _SKIPPABLE, zstandard.compress(b"abc"), zstandard.compress(b""), b"(\xb5/\xfd\0\0\0\0\0", b"\0\0\xff\xff", b"\xff",
    b"\1\0\0\xff\xff", b"\2\0\0\0\xff\xff\3\0", b"\x06\0", b"\x03",
]  # fmt: skip


def _decoded(coding: str) -> Callable[[bytes], object]:
    return lambda data: decode(data, coding, 16 << 20)


def _robots(data: bytes) -> object:
    rules = RobotsRules.parse(data)
    return rules.judge("bot", "http://h/a/b/aaab"), rules.crawl_delay("bot"), rules.only("bot")


def _hrefs(data: bytes) -> object:
    parts = data.decode("utf-8", "replace").split("\n")
    return HrefMemo(1000, _ALL_RULES, Meters()).resolve("http://h/a/b?c", parts)


def _cookies(data: bytes) -> object:
    return CookieJar(data).header("a.b.h", "/a/b", True, 0.0)


def _set_cookies(data: bytes) -> object:
    jar = HostCookies("a.test")
    for line in data.decode("latin-1").split("\n"):
        jar.take(line, "/a/b", True, 0.0)
    return jar.header("/a/b", True, 0.0), HostCookies("a.test", jar.dump()), hidden(b"Set-Cookie: " + data)


def _form(data: bytes) -> object:
    said = {"u": "1", "p": "2"}
    return filled(data, "utf-8", "https://a.test/in", "", said, {"p"}), asks_again(data, "utf-8", {"p"})


def _address(text: str) -> object:
    """What is made of a URL beside its canonical form."""
    url = canonicalise("http://a.test/" + text[:8000])
    if url is None:
        return None
    forms = [form_of(parse(rule.text), url) for rule in rules_of(url)]
    return forms, patterns_of(url), patterns_plain(url), names_in(url), names_of(url)


def _office(data: bytes) -> object:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name in ("word/document.xml", "xl/sharedStrings.xml", "xl/worksheets/sheet1.xml"):
            file.writestr(name, data)
        file.writestr("docProps/core.xml", b"<dc:title>" + data)
    return [
        text_of(out.getvalue(), OFFICE + kind)
        for kind in ("wordprocessingml.document", "spreadsheetml.sheet")
    ]


def _file(read: Callable[[Path], Iterator[object]]) -> Callable[[bytes], object]:
    """A reader of files, which says of a damaged one that it is."""

    def take(data: bytes) -> object:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            with contextlib.suppress(StorageError):
                return sum(1 for _ in read(Path(file.name)))
            return 0

    return take


def _guarded(data: bytes) -> object:
    text, guard = data.decode("latin-1"), Guard("token", frozenset(["h"]))
    headers = {"host": "h", "origin": text, "cookie": text, "authorization": text}
    return [
        guard.judge(Asked("GET", text, {"host": "h"})),
        *(guard.judge(Asked("POST", "", {"host": "h", name: text})) for name in headers),
        guard.judge(Asked("POST", "", headers)),
        without_token(text, text),
    ]


def _lifetime(text: str) -> object:
    return lifetime(text, "", ""), lifetime("", text, text), date_of(text)


_MARKUP = [
    b"",
    b"<",
    b"<a ",
    b"<a href='",
    b"<!--",
    b"<svg><style>",
    b"<svg>",
    b"<!DOCTYPE html><title>",
    b"<p>" * 400,
]
_LISTS = [
    b"<urlset>", b"<x:urlset>", b"<sitemapindex>", b"<rss>", b"<rss><item>", b"<feed>", b"<feed><entry>", b"<RDF>",
    b"<rss><link ", b"<urlset ", b"<!DOCTYPE x [", b"<html>", b"<feed><link href='", b"<urlset><x:link ", b"<feed><title>",
]  # fmt: skip

TARGETS = {
    "html": Target(lambda data: _HTML.parse(data, "http://h/", "text/html", "utf-8"), _MARKUP, _MARKS + _TAGS),
    "html once": Target(lambda data: _ONCE.parse(data, "http://h/", "text/html", "utf-8"), _MARKUP, _MARKS + _TAGS),
    "xhtml": Target(
        lambda data: _HTML.parse(data, "http://h/", "application/xhtml+xml", "utf-8"),
        _MARKUP, [*_MARKS, *_TAGS, b"/>", b"<p ", b"<a/", b"<x:a "],
    ),
    "xml": Target(lambda data: _XML.parse(data, "http://h/", "text/xml", "utf-8"), _LISTS, _MARKS + _XMLS),
    "xml attributes": Target(_text(attributes), [b"", b"a='"], [*_MARKS, b":", b".", b"a=", b'=""', b"a='b'"]),
    "css": Target(lambda data: _CSS.parse(data, "http://h/", "text/css", "utf-8"), [b"", b"@import url(", b"url('"], _SHEETS),
    "plain": Target(
        lambda data: _PLAIN.parse(data, "http://h/sitemap.txt", "text/plain", "utf-8"),
        [b"", b"http://h/"], [b"http://h/", b"\n", b"\r", b" ", b"a", b"\t", b"https://", b"\x0b", b"\xe2\x80\xa8"],
    ),
    "text of html": Target(
        lambda data: text_of(data, "text/html", "utf-8"), _MARKUP, [*_MARKS, *_TAGS, b"word. "], largest=1 << 18
    ),
    "digest of content": Target(content_digest, _MARKUP, [*_MARKS, *_TAGS, b"word. ", b"12 ", b"views "]),
    "text of xml": Target(lambda data: text_of(data, "text/xml", "utf-8"), _LISTS, [*_MARKS, *_XMLS, b"&lt;a&gt;"]),
    "sketch": Target(_text(sketch), [b""], [b"a", b"b ", b"_", b"\xe4\xb8\xad", b"aaaaaaaaaaaaaaaa"]),
    "charset of html": Target(
        lambda data: charset_of(data, None, html=True), [b"", b"\xff", b"\xff<meta ", b"\xff<meta content='", b"<!--"],
        [*_MARKS, b"<meta ", b"charset", b"charset=", b"content=", b"http-equiv=content-type ", b"<!--", b"-->", b"\xff"],
    ),
    "prescan": Target(
        prescan, [b"", b"charset<meta ", b"charset<a ", b"charset<meta content=\""],
        [*_MARKS, b"<meta ", b"charset", b"charset=", b"content=", b"<!--", b"-->", b"</a", b"<a"], largest=64 << 10,
    ),
    "charset of xml": Target(
        lambda data: charset_of(data, None, xml=True), [b"<?xml ", b"<?xml encoding=", b""],
        [*_MARKS, b"encoding", b"encoding=", b"\0", b"\xff"],
    ),
    "sniff": Target(
        lambda data: [sniff(data, said) for said in ("", "text/html", "text/plain")], [b"", b"\xef\xbb\xbf", b"<"],
        [*_MARKS, b"<!--", b"-->", b"<?", b"?>", b"<rss", b"\0", b"PK\x03\x04"],
    ),
    "content type": Target(
        _text(declared.__wrapped__), [b"", b"text/html", b"text/html;charset="],
        [b"text", b"/", b"html", b";", b"charset", b"=", b'"', b"\\", b" ", b"\t", b","],
    ),
    "read": Target(lambda data: _READER.read(data, None, "http://h/sitemap.txt"), [b"", *_MARKUP, *_LISTS], _MARKS + _TAGS),
    "unpack": Target(lambda data: unpack(data, 50 << 20), [b"", _EMPTY_GZIP], _PACKED),
    "srcset": Target(_text(lambda text: list(candidates(text))), [b""], [b",", b" ", b"a", b"1x", b"(", b")", b"\n", b"a,", b", "]),
    "refresh": Target(
        _text(refresh_target), [b"", b"0;", b"0;url='", b"1 "],
        [b"0", b".", b";", b",", b" ", b"\n", b"url", b"=", b"'", b'"', b"a"],
    ),
    "robots.txt": Target(_robots, [b"", b"User-agent: bot\n", b"User-agent: *\nDisallow: /"], _ROBOTS, largest=1 << 19),
    "robots directives": Target(
        _text(lambda text: directives([text], "bot")), [b"", b"unavailable_after:"],
        [b"a:", b"bot:", b"*:", b",", b" ", b"noindex", b"unavailable_after:", b"Fri", b"a", b"1", b"\t"], largest=64 << 10,
    ),
    "cache control": Target(_text(expiry), [b""], [b"max-age", b"=", b" ", b"\t", b",", b"9", b'"', b"no-store", b";"]),
    "gzip": Target(_decoded("gzip"), [_EMPTY_GZIP, _gzips(os.urandom(99))], _PACKED),
    "deflate": Target(_decoded("deflate"), [b"", zlib.compress(b"abc")[:-4]], _PACKED),
    "brotli": Target(_decoded("br"), [b"", brotli.compress(b"abc")], _PACKED),
    "zstd": Target(_decoded("zstd"), [b"", zstandard.compress(b"abc")], _PACKED),
    "header": Target(
        lambda data: (find_header(data, "x"), find_headers(data, "x"), find_header(data, "none")),
        [b"HTTP/1.1 200 OK\r\n"], _HEADS,
    ),
    "retry after": Target(
        _text(lambda text: heads.retry_after(text, 0.0)), [b"", b"Mon, 01 Jan 2024 "],
        [b"9", b" ", b",", b"-", b":", b"Jan", b"Mon", b"+", b"(", b")", b'"', b"\\", b"GMT"], largest=1 << 18,
    ),
    "request target": Target(_text(heads.split), [b"", b"http://h", b"http://a@"], [b"/", b"?", b"#", b"@", b":", b"a", b" "]),
    "cookies": Target(
        _cookies, [b"", b"h\tTRUE\t/\tFALSE\t0\ta\tb\n"],
        [b"h\tTRUE\t/\tFALSE\t0\ta\tb\n", b"\t", b"\n", b"#HttpOnly_", b".", b"9", b"a", b"\r"],
    ),
    "canonical": Target(_text(lambda text: canonicalise(text, "http://h/a/b")), [b"", b"http://h/", b"http:"], _URLS),
    "base": Target(
        _text(lambda text: canonicalise("../x", "http://h/" + text)), [b""], _URLS
    ),
    "rules": Target(
        _text(lambda text: canonicalise(text[:8000], "http://h/a/b", _ALL_RULES)), [b"", b"http://h/?"], _URLS, largest=1 << 13
    ),
    "surt": Target(_text(lambda text: surt("http://h/" + text)), [b"", b"?"], _URLS, largest=1 << 13),
    "hrefs": Target(_hrefs, [b""], [*_URLS, b"\n", b"\n", b"\n"]),
    "set-cookie": Target(
        _set_cookies, [b"", b"a=b;"],
        [b"a=b", b";", b"=", b"\n", b" ", b"Max-Age=", b"Expires=", b"Path=/", b"Domain=.", b"9", b"Set-Cookie:", b"a."],
    ),
    "forms": Target(
        _form, [b"", b"<form method=post><input type=password name=p><input name=u>"],
        [*_MARKS, *_TAGS, b"<form method=post>", b"</form>", b"<input type=password name=p>", b"<input name=u>",
         b"<option>", b"<textarea>", b"<button name=b>", b"form=x ", b"<fieldset disabled>", b"<legend>"], largest=1 << 18,
    ),
    "what is made of URLs": Target(_text(_address), [b"", b"?"], _URLS, largest=1 << 13),
    "query": Target(
        _text(questions), [b"", b'"'],
        [b"a", b" ", b'"', b"(", b")", b"+", b"-", b"~", b"*", b"AND ", b"OR ", b"NOT ", b"site:", b"intitle:", b"before:", b"9", b"/"],
    ),
    "needs scripts": Target(lambda data: (text_length(data, 1 << 30), has_scripts(data)), _MARKUP, [*_MARKS, *_TAGS]),
    "office": Target(_office, [b"", b"<"], [*_MARKS, b"<w:p>", b"</w:p>", b"<w:br ", b"<v>", b"<f>", b"</v>", b"<dc:title>", b"&lt;"]),
    "language": Target(_text(lambda text: language(text, text)), [b""], [b"the ", b"der ", b"a", b"\xe4\xb8\xad", b" ", b"9", b"."]),
    "chunks": Target(
        _dechunked, [b""], [b"1\r\na\r\n", b"\r\n", b"0", b"1", b"-", b"-6\r\n", b";", b" ", b"f", b"a\r\n", b"x"]
    ),
    "warc of others": Target(
        _file(foreign.records), [b"WARC/1.0\r\n", b"WARC/1.0\r\na: b\r\n"],
        [b"WARC/1.0\r\n", b"Content-Length: 0\r\n", b"\r\n", b" a\r\n", b"a: b\r\n", b":", b"a", b" "],
    ),
    "index of others": Target(
        _file(foreign.captures), [b"", b" CDX N b a m s\n", b"{"],
        [b" CDX N b a m s\n", b"\n", b" ", b"a", b"{", b"}", b'"url":', b'"http://a/"', b",", b"[", b"2024", b'{"url":"http://a/"}\n'],
    ),
    "guard": Target(
        _guarded, [b"", b"token=", b"lycosa="],
        [b"a", b"=", b"&", b";", b" ", b"token=", b"lycosa=", b'"', b"\\", b"%", b"/", b":", b"[", b"Bearer ", b"http://", b","],
        largest=1 << 17,
    ),
    "lifetime": Target(
        _text(_lifetime), [b"", b"Mon, 01 Jan 2024 "],
        [b"max-age=", b",", b"9", b" ", b"Mon", b"Jan", b"+", b"-", b":", b"(", b")", b'"', b"T"], largest=1 << 17,
    ),
}  # fmt: skip


EDGES = [
    b"\xb2", b"\xc2\xb2", b"\xd9\xa3", b"\xef\xbc\x91", b"9" * 5000, b"0" * 5000 + b"65;", b"-1", b"1e999", b"nan", b"inf",
    b"1_0", b"0x1", b"\0", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xae\xe2\x80\xa8\xef\xbb\xbf", b"9999-12-31", b"0000-00-00",
    b"0001-01-01T00:00:00+14:00", b"9999-12-31T23:59:59-14:00", b"Thu, 01 Jan 9999 00:00:00 +9999999999",
    b"Thu, 99 Jan 1 99:99:99", b'{"a":' * 2000, b'{"a":' * 2000 + b"1" + b"}" * 2000, b"[" * 2000, b"&#" + b"9" * 5000 + b";", b"&#xD800;",
    b"%ED%A0%80", b"%zz", b"xn--a", b"[::1", b"a" * 70 + b".b", b"\r", b"\r\n\r\n", b"\x85", b"\x1c", b"\x0b", b"charset=utf-7",
    b"charset=rot13", b"charset=idna", b"99999999999999999999",
]  # fmt: skip


def growth(target: Target, made: Made, largest: int, floor: float) -> tuple[float, int]:
    """By how much the work grows at least at each of two doublings in a row, and the size that showed it."""
    start, units, end = made

    def spent(size: int, tries: int) -> float:
        count = max(1, size // sum(map(len, units)))
        data = start + b"".join(unit * count for unit in units) + end
        best = float("inf")
        for _ in range(tries):
            began = time.process_time()
            target.read(data)
            best = min(best, time.process_time() - began)
        return max(best, floor / 100)

    largest = min(largest, target.largest)
    size = largest >> 6
    worst = 0.0, 0
    while size < largest:  # upwards, so that a parser of squares is caught while it still ends
        size *= 2
        if spent(size, 1) < floor:
            continue
        for tries in (1, 3, 8):
            times = [spent(size >> shift, tries) for shift in (0, 1, 2)]
            grown = min(times[0] / times[1], times[1] / times[2])
            if grown < WORST:
                break
        else:
            return grown, size
        worst = max(worst, (grown, size))
    return worst


def drawn(target: Target, chance: random.Random, row: int) -> Made:
    """An input: of every piece by itself first, then of any few together."""
    count = len(target.pieces)
    if row < count:
        units = [target.pieces[row]]
    else:
        units = [
            b"".join(chance.choices(target.pieces, k=chance.choice((1, 2, 2, 3, 4, 6))))
            for _ in range(chance.choice((1, 1, 1, 2)))
        ]
    return chance.choice(target.starts), tuple(units), chance.choice([b"", *target.pieces])


def _assert_linear(name: str, made: Made, largest: int, floor: float) -> None:
    grown, size = growth(TARGETS[name], made, largest, floor)
    start, units, end = made
    text = " + ".join(f"{unit!r} × n" for unit in units)
    assert grown < WORST, (
        f"{name}: {start!r} + {text} + {end!r}: work grows {grown:.1f} times at {size:,} bytes"
    )


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    ("name", "start", "units"),
    [
        ("xml attributes", b"", [b"a"]),
        ("xml", b"<feed><link ", [b"a"]),
        ("html", b"<svg>", [b"<style>@import url("]),
        ("unpack", b"", [_EMPTY_GZIP]),
        ("prescan", b"<?xml ", [b"encoding='a' "]),
        ("surt", b"?", [b"cfid="]),
        ("robots.txt", b"", [b"User-agent: a\n", b"Crawl-delay: 1\n"]),
        ("robots directives", b"", [b"a:"]),
        ("gzip", b"", [_EMPTY_GZIP]),
        ("zstd", b"", [_SKIPPABLE]),
        ("guard", b'lycosa="', [b'\\"']),
        ("warc of others", b"WARC/1.0\r\na: b\r\n", [b" a\r\n"]),
    ],
)
def test_what_once_froze_a_reader_is_linear(name: str, start: bytes, units: list[bytes]) -> None:
    _assert_linear(name, (start, tuple(units), b""), 1 << 18, 0.01)


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_inputs_are_read_in_linear_time(name: str) -> None:
    chance = random.Random(f"a few of {name}")
    for _ in range(4):
        made = drawn(TARGETS[name], chance, chance.randrange(2 * len(TARGETS[name].pieces)))
        _assert_linear(name, made, 1 << 15, 0.01)


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_makes_a_reader_raise(name: str) -> None:
    """Values at the edge of what numbers, dates, texts and JSON can be, by themselves and between its own pieces."""
    target, chance = TARGETS[name], random.Random(f"the edge of {name}")
    for nasty in EDGES:
        target.read(nasty)
        for piece in (*target.starts, *target.pieces):
            target.read(target.starts[0] + piece + nasty)
            target.read(chance.choice(target.starts) + piece + nasty + chance.choice(target.pieces))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_is_read_in_more_than_linear_time(name: str) -> None:
    chance = random.Random()
    until = time.process_time() + 10.0
    row = 0
    while time.process_time() < until:
        _assert_linear(name, drawn(TARGETS[name], chance, row), 1 << 19, 0.04)
        row += 1


def test_the_search_finds_squares() -> None:
    target = Target(lambda data: re.findall(rb"a+b", data), [b""], [b"a"])
    assert growth(target, (b"", (b"a",), b""), 1 << 15, 0.01)[0] >= WORST
