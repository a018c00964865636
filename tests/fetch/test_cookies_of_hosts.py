"""Cookies that a host sets: taken, sent and written down as browsers do."""

from __future__ import annotations

from lycosa.fetch.cookies import HostCookies, hidden


def test_where_cookies_go() -> None:
    jar = HostCookies("www.a.test")
    for line, path in [
        ("all=1; Path=/", "/x"),
        ("here=2", "/deep/er"),
        ("safe=3; Secure; Path=/", "/"),
        ("wide=4; Domain=.a.test; Path=/", "/"),
        ("other=5; Domain=b.test", "/"),
        ("late=6; Max-Age=10; Path=/", "/"),
        ("gone=7; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "/"),
        ("no cookie", "/"),
        ("bad=\x01", "/"),
        ("odd=8; Max-Age=\u00b2; Path=/odd", "/"),  # a digit to Python, and no number
        ("far=9; Expires=Thu, 01 Jan 9999 00:00:00 +9999999999; Path=/odd", "/"),
    ]:
        jar.take(line, path, True, 100.0)
    assert jar.header("/", True, 100.0) == "all=1; safe=3; wide=4; late=6"
    assert jar.header("/deep/x?y", False, 100.0) == "here=2; all=1; wide=4; late=6"
    assert jar.header("/", False, 111.0) == "all=1; wide=4"
    jar.take("all=; Max-Age=0; Path=/", "/", True, 100.0)
    assert "all" not in jar.header("/", True, 100.0)
    jar.take("sly=1; Secure", "/", False, 100.0)
    assert "sly" not in jar.header("/", True, 100.0), "no secure cookie over plain http"


def test_what_is_written_is_read_and_only_changes_count() -> None:
    jar = HostCookies("a.test")
    jar.take("a=b=c; Path=/p", "/", True, 100.0)
    jar.take("keep=1; Max-Age=99999; Secure", "/", True, 100.0)
    assert jar.changed
    again = HostCookies("a.test", jar.dump())
    assert not jar.changed and not again.changed and len(again) == 2
    assert again.header("/p/q", True, 200.0) == jar.header("/p/q", True, 200.0) == "a=b=c; keep=1"
    again.take("keep=1; Max-Age=99999; Secure", "/", True, 160.0)
    assert not again.changed, "the same, a minute later"
    again.take("keep=2; Secure", "/", True, 160.0)
    assert again.changed


def test_a_head_without_values() -> None:
    head = b"HTTP/1.1 200 OK\r\nset-cookie: sid=abc=; Path=/\r\nX-Y: sid=abc\r\n\r\n"
    assert hidden(head) == b"HTTP/1.1 200 OK\r\nset-cookie: sid=...\r\nX-Y: sid=abc\r\n\r\n"
