"""Heads, cookies and the throttle: the parts of fetching that need no network."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.clock import ManualClock
from lycosa.fetch import head as heads
from lycosa.fetch.cookies import CookieJar
from lycosa.fetch.protocol import find_header, find_headers
from lycosa.fetch.throttle import Throttle

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60.0),
        ("Sun Nov  6 08:50:37 1994", 60.0),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0.0),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("Sun, 99 Nov 1994 08:50:37 GMT", None),
        ("\u0661\u0662", None),
        ("9" * 400, 999_999_999_999.0),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert heads.retry_after(value, NOW) == seconds


@given(st.text(max_size=60))
def test_retry_after_takes_anything(text: str) -> None:
    found = heads.retry_after(text, NOW)
    assert found is None or found >= 0


@pytest.mark.parametrize(
    ("url", "host", "path", "credentials"),
    [
        ("http://a.test", "a.test", "/", ""),
        ("http://a.test?x", "a.test", "/?x", ""),
        ("https://a.test:8443/p?q#f", "a.test:8443", "/p?q", ""),
        ("http://u:p%40@a.test/", "a.test", "/", "u:p%40"),
        ("http://[::1]:80/", "[::1]:80", "/", ""),
        ("http://a.test/#a#b\n", "a.test", "/", ""),
    ],
)
def test_split(url: str, host: str, path: str, credentials: str) -> None:
    found = heads.split(url)
    assert found is not None
    assert (found.host, found.path, found.credentials) == (host, path, credentials)


@given(st.text(max_size=80))
def test_split_never_lets_a_line_break_through(text: str) -> None:
    found = heads.split("http://a.test/" + text)
    if found is not None:
        assert found.url.isascii() and found.url.isprintable() and " " not in found.url


@given(st.binary(max_size=200), st.sampled_from(["etag", "X-Y", "content-type"]))
def test_headers_are_found_in_any_bytes(head: bytes, name: str) -> None:
    many = find_headers(head, name)
    assert find_header(head, name) == (many[0] if many else None)


def test_headers_are_whole_names_at_line_starts() -> None:
    head = b"HTTP/1.1 200 OK\r\nX-ETag: no\r\nY: etag: no\r\nETAG:  yes \r\netag:\r\n\r\n"
    assert find_header(head, "ETag") == "yes"
    assert find_headers(head, "etag") == ["yes", ""]


# Cookies ---------------------------------------------------------------------------------------------------


def jar(*lines: str) -> CookieJar:
    return CookieJar("\n".join(lines).encode())


def test_cookies_go_where_they_belong() -> None:
    some = jar(
        "# Netscape HTTP Cookie File",
        "",
        "a.test\tFALSE\t/\tFALSE\t0\thost\t1",
        ".a.test\tTRUE\t/\tFALSE\t0\twide\t2",
        "a.test\tFALSE\t/x\tFALSE\t0\tdeep\t3",
        "a.test\tFALSE\t/\tTRUE\t0\tsafe\t4",
        f"a.test\tFALSE\t/\tFALSE\t{NOW + 5:.0f}\tsoon\t5",
        f"a.test\tFALSE\t/\tFALSE\t{NOW - 5:.0f}\tgone\t6",
        "127.0.0.1\tFALSE\t/\tFALSE\t0\taddress\t7",
        "a.test\tFALSE\t/\tFALSE\t0\tempty",
    )
    assert some.ignored == 0 and len(some) == 8
    assert some.header("a.test", "/", False, NOW) == "host=1; wide=2; soon=5; empty="
    assert some.header("A.test.", "/x/y?q", False, NOW) == "deep=3; host=1; wide=2; soon=5; empty="
    assert some.header("a.test", "/xy", False, NOW).startswith("host=1")
    assert "safe=4" in some.header("a.test", "/", True, NOW)
    assert some.header("b.a.test", "/", False, NOW) == "wide=2"
    assert some.header("ba.test", "/", False, NOW) == ""
    assert some.header("test", "/", False, NOW) == ""
    assert some.header("127.0.0.1", "/", False, NOW) == "address=7"


def test_lines_that_could_not_stand_in_a_header_are_ignored() -> None:
    bad = jar(
        "only three\tfields\there",
        "a.test\tFALSE\tnopath\tFALSE\t0\ta\tb",
        "a.test\tFALSE\t/\tFALSE\tnever\ta\tb",
        "a.test\tFALSE\t/\tFALSE\tnan\ta\tb",
        "a.test\tFALSE\t/\tFALSE\t0\ta\tb; c=d",
        "a.test\tFALSE\t/\tFALSE\t0\ta\tb\x7f",
        "a.test\tFALSE\t/\tFALSE\t0\t\tb",
        "\tFALSE\t/\tFALSE\t0\ta\tb",
    )
    assert (len(bad), bad.ignored) == (0, 8)


@given(st.binary(max_size=300))
def test_any_cookie_file(data: bytes) -> None:
    value = CookieJar(data).header("a.test", "/", True, 0)
    assert heads.sendable(value)


# Throttle --------------------------------------------------------------------------------------------------


async def test_starts_wait_until_the_debt_is_paid() -> None:
    clock = ManualClock()
    throttle = Throttle(1000, clock)
    await throttle.admit()
    assert clock.monotonic() == 0
    throttle.spend(4000)  # a second's worth was there
    await throttle.admit()
    assert clock.monotonic() == pytest.approx(3)
    clock.advance(100)
    throttle.wait()
    throttle.spend(1500)  # what was not used is not saved up beyond the burst
    assert throttle.wait() == pytest.approx(0.5)


async def test_the_rate_holds_over_many_starts() -> None:
    clock = ManualClock()
    throttle = Throttle(10_000, clock, burst=1000)
    spent = 0

    async def one() -> None:
        nonlocal spent
        await throttle.admit()
        throttle.spend(5000)
        spent += 5000

    await asyncio.gather(*(one() for _ in range(40)))
    assert spent / 10_000 - 1 < clock.monotonic() < spent / 10_000 + 1


def test_a_rate_of_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="above zero"):
        Throttle(0, ManualClock())
