"""The memo before the parser: equal to the parser, and bounded."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lycosa.meters import Meters
from lycosa.url.canonical import MAX_URL, NO_RULES, Rules, canonicalise, schemes_from
from lycosa.url.hrefs import MAX_HREF, HrefMemo

ALL_RULES = Rules.named(["tracking", "www", "index", "sorted"])

BASES = [
    "http://example.com/",
    "http://example.com/a/b?c=/d/e",
    "http://example.com/a/x#f",
    "http://example.com:81/a/b",
    "https://example.com/a/b",
    "https://[::1]:8/x/y/z",
    "HTTP://EXAMPLE.com/A/../b",
    "http://user:pw@example.com/a",
    "http://www.example.com/index.html?utm_source=x",
    "file:///C:/a/b",
    "file:///a/b",
    "ftp://example.com/a/b",
    "mailto:x",
    "no base",
    "",
    "\ud800",
]
PIECES = [
    "http:", "https:", "HTTP:", "http://", "https://", "file://", "//", "/", "\\", "?", "#", "..", ".", ":",
    "a", "b.c", "example.com", "%2e", " ", "\t", "\n", "\x00", "\ud800", "ü", "@", "javascript:",
    "index.html", "x=1", "C|", "utm_a=1",
]  # fmt: skip
hrefs = st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(), max_size=12)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(BASES), hrefs), max_size=6),
    st.sampled_from([0, 10, 40, 10_000]),
    st.sampled_from([NO_RULES, ALL_RULES]),
)
@example([("http://example.com/a", ["http:", "http:?x", "x"]), ("http://example.com/b?c", ["http:", "http:?x"])], 99, NO_RULES)  # fmt: skip  # noqa: E501
@example([("http://example.com/a", [" #x", " ?x", " "]), ("http://example.com/b", [" #x", " ?x", " "])], 99, NO_RULES)  # fmt: skip  # noqa: E501
@example([("http://example.com/a", ["/\t/x"]), ("https://example.com/b", ["/\t/x"])], 99, NO_RULES)
@example([("http://example.com/a", ["h\tttp:?x"]), ("http://example.com/b", ["h\tttp:?x"])], 99, NO_RULES)
def test_equal_to_the_parser(pages: list[tuple[str, list[str]]], capacity: int, rules: Rules) -> None:
    memo = HrefMemo(capacity, rules, Meters())
    for base, links in pages * 2:
        assert memo.resolve(base, links) == [
            canonicalise(href, base, rules, schemes_from(base)) for href in links
        ]


def test_equal_on_the_web_platform_tests() -> None:
    memo = HrefMemo(100_000, NO_RULES, Meters())
    cases = json.loads((Path(__file__).parent / "wpt_cases.json").read_text())
    bases = sorted({base for _, base, _ in cases if base}) + BASES
    inputs = [text for text, _, _ in cases]
    for base in bases:
        wanted = [canonicalise(text, base, NO_RULES, schemes_from(base)) for text in inputs]
        assert memo.resolve(base, inputs) == wanted
        assert memo.resolve(base, inputs) == wanted


def test_what_is_remembered_where() -> None:
    meters = Meters()
    memo = HrefMemo(1000, NO_RULES, meters)

    def hits(base: str, *links: str) -> int:
        before = meters.read()["url.href_hits"]
        memo.resolve(base, links)
        return int(meters.read()["url.href_hits"] - before)

    links = ("/r", "http://other.example/x", "//other.example/y", "rel", "?q", "#f", "", "mailto:x")
    assert hits("http://example.com/a/b", *links) == 0
    assert hits("http://example.com/a/c?d", *links) == 4, "same directory"
    assert hits("http://example.com/z/c", *links) == 3, "same site"
    assert hits("http://example.org/", *links) == 2, "same scheme"
    assert hits("https://example.org/", *links) == 1, "absolute alone"
    assert hits("https://example.org/", "/twice", "/twice", "bad:", "//\x7f", "//\x7f") == 2
    assert meters.read()["url.hrefs"] == 5 * len(links) + 5


def test_long_hrefs_are_not_remembered() -> None:
    meters = Meters()
    memo = HrefMemo(1000, NO_RULES, meters)
    at_limit, over = "/" + "x" * (MAX_HREF - 1), "/" + "x" * MAX_HREF
    for _ in range(3):
        assert memo.resolve("http://a.test/", [at_limit, over]) == [
            "http://a.test" + at_limit,
            "http://a.test" + over,
        ]
    assert meters.read()["url.href_hits"] == 2


def test_limits_of_length_are_the_parser_s() -> None:
    memo = HrefMemo(1000, NO_RULES, Meters())
    space, long = " " * MAX_URL, "x" * MAX_URL
    links = [
        space + "/a",
        space + "#",
        space,
        "#" + long,
        "a#" + long,
        "a" + space,
        "/" + long,
        "http://a.test/" + long,
    ]
    for base in (
        "http://a.test/b",
        "http://a.test/b#" + long,
        space + "http://a.test/b",
        "http://a.test/" + long,
    ):
        assert memo.resolve(base, links) == [canonicalise(href, base) for href in links]
    assert memo.resolve("http://a.test/b#" + long, ["c"]) == ["http://a.test/c"]


def test_memory_is_bounded_and_what_is_used_stays() -> None:
    meters = Meters()
    memo = HrefMemo(400, NO_RULES, meters)
    for i in range(2000):
        memo.resolve(f"http://{i % 7}.test/", [f"/{i}", "http://hot.test/"])
        assert len(memo) <= 400 + 20
    assert meters.read()["url.href_hits"] == 1999, "the one in use was never forgotten"
    held = sum(len(t) for generation in (memo._young, memo._old) for t in generation.values())
    assert held <= 400


def test_many_directories_are_bounded_too() -> None:
    memo = HrefMemo(400, NO_RULES, Meters())
    for i in range(1000):
        memo.resolve(f"http://a.test/{i}/", ["x"])
        assert len(memo._young) + len(memo._old) <= 400 // 4 + 8


def test_memory_is_bounded_in_bytes() -> None:
    memo = HrefMemo(4000, NO_RULES, Meters())
    base = "http://a.test/" + "x" * 8000 + "/"

    def held() -> int:
        tables = [each for generation in (memo._young, memo._old) for each in generation.items()]
        return sum(len(name) + sum(len(a) + len(b or "") for a, b in t.items()) for name, t in tables)

    for page in range(20):
        memo.resolve(base, [f"{page}-{i}" for i in range(1000)])
        memo.resolve(f"{base}{page}/", [f"/{page}-{i}" + "y" * 480 for i in range(1000)])
        assert held() <= 2 * 4000 * 250
