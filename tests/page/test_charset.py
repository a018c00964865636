"""Encodings: labels, declarations, and decoding of anything."""

from __future__ import annotations

import pytest
import turbohtml
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.page.charset import (
    LOOKAHEAD,
    PRESCAN,
    charset_of,
    content_charset,
    is_utf8,
    prescan,
    xml_encoding,
)
from lycosa.page.encodings import LABELS, NAMES, decode, encoding_of


def test_every_label_agrees_with_the_parser_library() -> None:
    assert len(LABELS) == 228
    for label, name in LABELS.items():
        assert str(turbohtml.parse(b"x", encoding=label).encoding).lower() == name, label


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("latin1", "windows-1252"),
        ("ISO-8859-1", "windows-1252"),
        ("us-ascii", "windows-1252"),
        (" UTF8\n", "utf-8"),
        ("gb2312", "gbk"),
        ("x-sjis", "shift_jis"),
        ("ks_c_5601-1987", "euc-kr"),
        ("utf-16", "utf-16le"),
        ("iso-8859-9", "windows-1254"),
        ("hz-gb-2312", "replacement"),
        ("x-user-defined", "x-user-defined"),
        ("utf-7", None),
        ("", None),
        ("no such", None),
    ],
)
def test_labels(label: str, name: str | None) -> None:
    assert encoding_of(label) == name


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        (b"caf\xe9 \x80\x81", "windows-1252", "café €\x81"),
        (b"\xef\xbb\xbfabc", "utf-8", "abc"),
        (b"a\xff\xc3", "utf-8", "a\ufffd\ufffd"),
        (b"\xff\xfea\x00", "utf-16le", "a"),
        (b"\xfe\xff\x00a\xd8", "utf-16be", "a\ufffd"),
        (b"\xc4\xe3\xba\xc3", "gbk", "你好"),
        (b"\x93\xfa\x96{", "shift_jis", "日本"),
        (b"anything", "replacement", "\ufffd"),
        (b"\x80a", "x-user-defined", "\uf780a"),
        (b"\xcf\xd2", "koi8-r", "ор"),
        (b"abc", "no such charset", "abc"),
        (b"", "utf-8", ""),
    ],
)
def test_decode(data: bytes, charset: str, text: str) -> None:
    assert decode(data, charset) == text


@given(st.binary(max_size=300), st.sampled_from([*sorted(NAMES), "", "zz"]))
def test_decode_takes_any_bytes(data: bytes, charset: str) -> None:
    decode(data, charset).encode("utf-8")  # no lone surrogates either: they could not be logged


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b'<meta charset="utf-8">', "utf-8"),
        (b"<META CHARSET=koi8-r>", "koi8-r"),
        (b"<meta charset='windows-1251' >", "windows-1251"),
        (b"<meta/charset=big5/>", None),  # an unquoted value takes the slash
        (b"<meta charset=big5 />", "big5"),
        (b'<meta charset="utf-16">', "utf-8"),
        (b'<meta charset="x-user-defined">', "windows-1252"),
        (b'<meta charset="bogus"><meta charset="euc-jp">', "euc-jp"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2">', "iso-8859-2"),
        (b'<meta content="text/html; charset=iso-8859-2" http-equiv=content-type>', "iso-8859-2"),
        (b'<meta content="text/html; charset=iso-8859-2">', None),  # no pragma
        (b'<meta http-equiv=refresh content="text/html; charset=iso-8859-2">', None),
        (b'<meta charset=bogus http-equiv=content-type content="x;charset=gbk">', None),
        (b'<meta charset=a charset=utf-8><meta charset="gbk">', "gbk"),  # the first attribute counts
        (b'<!-- <meta charset="utf-8"> --><meta charset="gbk">', "gbk"),
        (b'<!--><meta charset="utf-8">', "utf-8"),
        (b'<!-- <meta charset="utf-8">', None),
        (b'<a title="<meta charset=utf-8>"><meta charset="gbk">', "gbk"),
        (b'<a title="unterminated <meta charset=utf-8>', None),
        (b'</p x=">"><meta charset="gbk">', "gbk"),
        (b'<!doctype html><?pi x><meta charset="gbk">', "gbk"),
        (b'<metal charset="utf-8"><meta charset="gbk">', "gbk"),
        (b'< <1 <meta charset="gbk">', "gbk"),
        (b'<meta charset="gbk"', None),
        (b"<meta charset=gbk", None),
        (b"<meta = charset=gbk>", "gbk"),
        (b"<meta charset = gbk>", "gbk"),
        (b"charset=utf-8", None),
        (b'<?xml version="1.0" encoding="euc-kr"?><html>', "euc-kr"),
        (b'<?xml version="1.0" encoding="euc-kr"?><meta charset="gbk">', "gbk"),
        (b"<\0?\0x\0m\0", "utf-16le"),
        (b"\0<\0?\0x\0m", "utf-16be"),
        (b"", None),
    ],
)
def test_prescan(head: bytes, name: str | None) -> None:
    assert prescan(head) == name


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"text/html; charset=utf-8", "utf-8"),
        (b"text/html; CHARSET = 'gbk'", "gbk"),
        (b'charset="gbk', None),
        (b"charset charset=gbk;x", "gbk"),
        (b"charset=", None),
        (b"text/html", None),
    ],
)
def test_content_charset(content: bytes, name: str | None) -> None:
    assert content_charset(content) == name


def test_xml_declaration() -> None:
    assert xml_encoding(b"<?xml version=\"1.0\" encoding = 'ISO-8859-1'?>") == "windows-1252"
    assert xml_encoding(b'<?xml version="1.0" encoding="utf-16"?>') == "utf-8"
    assert xml_encoding(b' <?xml version="1.0" encoding="gbk"?>') is None
    assert xml_encoding(b'<?xml version="1.0"?><a encoding="gbk">') is None


def test_the_order_of_what_is_believed() -> None:
    page = b'<meta charset="gbk">'
    assert charset_of(b"\xef\xbb\xbf" + page, "koi8-r", html=True) == "utf-8"
    assert charset_of(b"\xff\xfe" + page, "koi8-r", html=True) == "utf-16le"
    assert charset_of(page, "koi8-r", html=True) == "koi8-r"
    assert charset_of(page, "bogus", html=True) == "gbk"
    assert charset_of(page, None) == "utf-8"  # no HTML, no prescan
    assert charset_of(b'<?xml version="1.0" encoding="gbk"?>', None, xml=True) == "gbk"
    assert charset_of(b"plain", None) == "utf-8"
    assert charset_of("naïve café".encode(), None, html=True) == "utf-8"
    assert charset_of("Он сказал, что сегодня хорошая погода".encode("cp1251"), None) == "windows-1251"
    assert charset_of(b"\xe9", None) == "windows-1252"


def test_a_declaration_after_the_prescan_is_found_where_it_matters() -> None:
    late = b"<!--" + b"x" * PRESCAN + b"-->" + b'<meta charset="koi8-r">'
    assert charset_of(late + b"\xcf\xd2", None, html=True) == "koi8-r"
    assert charset_of(late, None, html=True) == "utf-8"
    beyond = b"<!--" + b"x" * LOOKAHEAD + b'--><meta charset="koi8-r">\xd0\xb0'
    assert charset_of(beyond, None, html=True) == "utf-8"


def test_utf8_cut_short_is_utf8() -> None:
    text = "日本語".encode()
    assert is_utf8(text) and is_utf8(text[:-1]) and is_utf8(text[:-2])
    assert not is_utf8(text[:-1] + b"a")
    assert not is_utf8(b"\xe9t\xe9")
    assert not is_utf8(b"caf\xe9")


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            [
                b"<",
                b"meta ",
                b"charset",
                b"=",
                b"'",
                b'"',
                b">",
                b"/",
                b"gbk",
                b"!--",
                b"-->",
                b"<?xml",
                b"encoding",
                b" ",
                b"content",
                b"http-equiv",
                b"\0",
                b"\xff",
            ]
        ),
        max_size=40,
    ).map(b"".join),
    st.booleans(),
    st.booleans(),
)
def test_charset_of_takes_any_bytes(body: bytes, html: bool, xml: bool) -> None:
    assert charset_of(body, None, html=html, xml=xml) in NAMES
