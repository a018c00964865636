"""The shapes of URLs."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lycosa.content.patterns import Level, Pattern, is_pattern, patterns_of, patterns_plain, without_ids


def texts(url: str) -> list[str]:
    return [pattern.text.removeprefix("http://a.test") for pattern in patterns_of(url)]


@pytest.mark.parametrize(
    ("path", "shapes"),
    [
        ("/", ["/*", "/**"]),
        ("/about.html", ["/*.html", "/**"]),
        ("/shop/about.html", ["/shop/*.html", "/shop/**", "/**"]),
        ("/2024.html", ["/0.html", "/*.html", "/**"]),
        ("/item-0.html", ["/item-0.html", "/*.html", "/**"]),
        ("/www.b.test", ["/{host}/**~host", "/*/**~host", "/{host}~host", "/**~host"]),
        ("/www.b.test/x", ["/{host}/**~host", "/*/**~host", "/**~host"]),
        ("/shop/item-3.html", ["/shop/item-0.html", "/shop/*.html", "/shop/**", "/**"]),
        (
            "/shop/item-3.html?sid=ab12&b=1",
            ["/shop/item-0.html?b,sid", "/shop/*.html?b,sid", "/shop/**?*", "/**?*"],
        ),
        ("/calendar/2024-05/", ["/calendar/0-0/", "/calendar/0-0/*", "/calendar/**", "/**"]),
        ("/x/0a1b2c3d4e5f6a7b/y", ["/x/*/y", "/x/*/*", "/x/**", "/**"]),
        ("/a/b/c/d/e/f/g", ["/a/b/c/d/e/**", "/a/b/c/d/*/**", "/a/**", "/**"]),
        ("/2024/01/01/x", ["/0/0/x", "/0/0/*", "/0/**", "/**"]),
        ("/a/2026/november/19/", ["/a/0/0/", "/a/0/0/*", "/a/**", "/**"]),
        ("/a/Nov-2026/", ["/a/0-0/", "/a/0-0/*", "/a/**", "/**"]),
        ("/a/maybe/", ["/a/maybe/*", "/a/**", "/**"]),
        ("/tags/red+blue+green", ["/tags/*+*", "/tags/*", "/tags/**", "/**"]),
        ("/e?view=day&year=2026&month=1&day=2", ["/e?date,view", "/*?date,view", "/e?*", "/**?*"]),
        ("/c++/x", ["/c++/x", "/c++/*", "/c++/**", "/**"]),
        ("/d-1.jsp;jsessionid=0A", ["/d-0.jsp?jsessionid", "/*.jsp?jsessionid", "/d-0.jsp?*", "/**?*"]),
        ("/(S(0a1b2c3d4e5f6a7b))/x", ["/*/x", "/*/*", "/*/**", "/**"]),
    ],
)
def test_shapes_from_fine_to_coarse(path: str, shapes: list[str]) -> None:
    assert texts(f"http://a.test{path}") == shapes


@pytest.mark.parametrize(
    ("path", "flags"),
    [
        ("/deep/a/b/a/", "~repeat"),
        ("/2024/05/05/", ""),
        ("/n/www.b.test/", "~host"),
        ("/n/index.html", ""),
        ("/l?a=1&amp;b=2", "~amp"),
        ("/l?a=1&amp;amp;amp;b=2", "~amp"),
        ("/l?a=1&a=2", "~again"),
        ("/l?a=1&amp;a=2", "~amp~again"),
        ("/a/b/c/d/e/f/g/h/i/j/k", "~deep"),
    ],
)
def test_what_traps_look_like_is_part_of_the_shape(path: str, flags: str) -> None:
    for pattern in patterns_of(f"http://a.test{path}"):
        assert pattern.text.partition("~")[1] + pattern.text.partition("~")[2] == flags
        assert (pattern.suspicion == 2) == bool(flags)


def test_a_shape_that_others_can_have_is_a_pattern_of_each() -> None:
    """Only what is certain to stay alone is left out: else a trap of such URLs would be counted nowhere."""
    for one, other in [
        ("item-0", "item-7"),
        ("*", "0a1b2c3d4e5f6a7b"),
        ("x?q", "x?q=1"),
        ("a/b/c/d/e/f", "a/b/c/d/e/g"),
    ]:
        fine, like = (texts(f"http://a.test/{name}")[0] for name in (one, other))
        assert fine == like


def test_hosts_in_a_row_are_one_shape() -> None:
    one, many = (texts("http://a.test/n/" + "www.b.test/" * n)[0] for n in (1, 3))
    assert many == one.replace("~host", "~host~repeat")


def test_suspicion() -> None:
    assert Pattern(Level.FINE, "http://a.test/x").suspicion == 0
    assert Pattern(Level.FINE, "http://a.test/x?q").suspicion == 1
    assert Pattern(Level.FINE, "http://a.test/x?q,sid").suspicion == 2
    assert Pattern(Level.FINE, "http://a.test/c/0-0/").suspicion == 1
    assert Pattern(Level.FINE, "http://a.test/tags/*+*").suspicion == 1


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("/v?id=7&PHPSESSID=0a1b2c", "/v?id=7"),
        ("/v?sid=1", "/v"),
        ("/s/7?ref=3-ab12cd", "/s/7"),
        ("/(S(0a1b2c3d4e5f6a7b))/d-1.aspx", "/*/d-1.aspx"),
        ("/events?date=2026-11-19&view=day", "/events?date=2026-11-19&view=day"),
        ("/a/b.html", "/a/b.html"),
    ],
)
def test_urls_without_their_ids(url: str, form: str) -> None:
    assert without_ids(f"http://a.test{url}") == f"http://a.test{form}"


def test_long_patterns_are_cut_and_stay_apart() -> None:
    one, two = (
        texts("http://a.test/x?" + "&".join(f"{c}{'n' * 60}{n}=1" for n in "abcdefgh"))[0] for c in "pq"
    )
    assert one != two and len(one) <= 200


def test_patterns_are_told_from_other_words() -> None:
    assert is_pattern("http://a.test/**") and is_pattern("*.a.test")
    assert not is_pattern("shop") and not is_pattern("http://a b/")


SEGMENTS_OF_PATHS = st.one_of(
    st.text("aZ09-._~=", max_size=14),
    st.sampled_from(
        ["", "index.html", "page7", "page0", "0", "2026", "may", "5may.html", "www.b1.test", "b1.test"]
    ),
    st.sampled_from(["0a1b2c3d4e5f6a", "x1,y2", "a+b2", "a;b=1", "x?page=3", "*", "0-0"]),
)


@given(st.lists(SEGMENTS_OF_PATHS, min_size=1, max_size=12))
@example(["page0", "page7"])
@example(["a", "b", "c", "d", "e", "page7"])
@example(["b1.test"])
@example(["2026", "may"])
def test_patterns_that_are_remembered_are_those_of_the_plain_way(segments: list[str]) -> None:
    url = "http://a.test/" + "/".join(segments)
    patterns_of(url.replace("7", "3"))  # one of the same shape came before
    assert patterns_of(url) == patterns_plain(url)
