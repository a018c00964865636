"""Plain hrefs that a kernel joins, against the parser: the same URLs and keys."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.page import references
from lycosa.url.canonical import canonicalise
from lycosa.url.key import Keyer
from lycosa.url.memo import LinkMemo
from lycosa.url.memo_kernels import PENDING, find_or_add
from lycosa.url.resolve_kernels import LONGEST

KEYER = Keyer(11)
BASES = (
    "http://h.test/",
    "https://h.test:8443/a/b/page.html?q=/x/",
    "http://[::1]/a//",
    "http://127.0.0.1:8400/java/c%20d/x",
    "http://h.test/c:/d/e",
)


def resolved(hrefs: list[str], base: str) -> dict[str, tuple[str, int] | None]:
    """What the kernel answers: the URL and its key, None for what it leaves."""
    memo = LinkMemo(max(64, len(hrefs)), KEYER)
    above = memo.of_base(base)
    entries = {}
    for href in dict.fromkeys(hrefs):
        data = np.frombuffer(href.encode("ascii") + b"!", np.uint8)
        entries[href] = find_or_add(
            *(memo.slots, memo.hashes, memo.contexts, memo.places, memo.arena, memo.used),
            *(data, 0, len(href), above.contexts[3]),
        )
    left = memo.resolve(0, above)
    found: dict[str, tuple[str, int] | None] = {}
    for href, entry in entries.items():
        _, _, at, length = memo.places[entry].tolist()
        answered = length != PENDING
        found[href] = (
            (memo.arena[at : at + length].tobytes().decode("ascii"), int(memo.keys[entry]))
            if answered
            else None
        )
    assert left == sum(answer is None for answer in found.values())
    return found


def expected(href: str, base: str) -> str | None:
    return canonicalise(references.in_value(href), base)


PIECES = st.sampled_from(
    [
        *(
            "/",
            "//",
            ".",
            "..",
            "...",
            "a",
            "B7",
            "-",
            "~",
            "%2e",
            "%2E",
            "%2f",
            "%",
            "c:",
            "c|",
            ":",
            "@",
            "|",
        ),
        *(
            "?",
            "&amp;",
            "&",
            "&lt;",
            "&amp",
            "#",
            "'",
            '"',
            " ",
            "\\",
            "^",
            "[",
            "{",
            "!",
            "$",
            "(",
            "*",
            "+",
            ",",
            ";",
        ),
        *(
            "http://",
            "https://",
            "HTTP://",
            "h.test",
            "x.y.test",
            "1.2.3.4",
            "xn--a",
            "a..b",
            "h.test:80",
            "u@h.test",
        ),
        *("index.html", "../", "./", "mailto:", "javascript:", "=1", "_"),
    ]
)


@given(st.lists(st.lists(PIECES, min_size=1, max_size=8).map("".join), max_size=20), st.sampled_from(BASES))
def test_what_the_kernel_answers_is_what_the_parser_says(hrefs: list[str], base: str) -> None:
    trimmed = [href.strip() for href in hrefs]
    for href, answer in resolved([href for href in trimmed if href], base).items():
        if answer is not None:
            url = expected(href, base)
            assert url is not None
            assert answer == (url, KEYER.key(url))


@given(
    st.lists(
        st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30), max_size=20
    ),
    st.sampled_from(BASES),
)
def test_any_ascii(hrefs: list[str], base: str) -> None:
    for href, answer in resolved(hrefs, base).items():
        if answer is not None:
            assert answer[0] == expected(href, base)


def test_the_cases_of_web_platform_tests() -> None:
    cases = json.loads((Path(__file__).parent / "wpt_cases.json").read_text("utf-8"))
    hrefs = {case[0].strip() for case in cases}
    hrefs = {href for href in hrefs if href.isascii() and href.isprintable() and 0 < len(href) < 300}
    answers = {base: resolved(sorted(hrefs), base) for base in BASES}
    given = [
        (href, base, answer[0]) for base, found in answers.items() for href, answer in found.items() if answer
    ]
    assert len(given) > 100
    for href, base, url in given:
        assert url == expected(href, base), href


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("x.html", "http://h.test/a/b/x.html"),
        ("../x/./y/", "http://h.test/a/x/y/"),
        ("../../../..", "http://h.test/"),
        ("/x/../y?a=../b&amp;c=?", "http://h.test/y?a=../b&c=?"),
        ("x/..", "http://h.test/a/b/"),
        ("y/c:/../x", "http://h.test/a/b/y/x"),
        ("..//x", "http://h.test/a//x"),
        (".", "http://h.test/a/b/"),
        ("wiki/Help:Contents", "http://h.test/a/b/wiki/Help:Contents"),
        ("https://docs.x-y.test/a/../b.html", "https://docs.x-y.test/b.html"),
        ("http://a_b.test/%7Ejoe/@home", "http://a_b.test/%7Ejoe/@home"),
    ],
)
def test_plain_ones_need_no_parser(href: str, url: str) -> None:
    base = "http://h.test/a/b/page"
    assert expected(href, base) == url
    assert resolved([href], base)[href] == (url, KEYER.key(url))


@pytest.mark.parametrize(
    "href",
    [
        *("mailto:x", "c:/x", "%2e%2e/x", "x/%2E/y", "a&lt;b", "a b", "x'y", "x#y", "//h.test/x", "a\\b"),
        *(
            "http://h.test",
            "http://H.test/x",
            "http://h.test:80/x",
            "http://1.2.3.4/",
            "http://0x7f/",
            "http://xn--a.test/",
        ),
        *("http://u@h.test/", "HTTP://h.test/", "http:x", "x" * LONGEST, "http://a..test/"),
    ],
)
def test_what_needs_the_parser_is_left(href: str) -> None:
    assert resolved([href], "http://h.test/a/b/page")[href] is None


def test_an_arena_without_room_leaves_everything() -> None:
    memo = LinkMemo(64, KEYER)
    above = memo.of_base("http://h.test/")
    data = np.frombuffer(b"x!", np.uint8)
    find_or_add(
        *(memo.slots, memo.hashes, memo.contexts, memo.places, memo.arena, memo.used),
        *(data, 0, 1, above.contexts[3]),
    )
    memo.used[1] = len(memo.arena) - LONGEST + 1
    assert memo.resolve(0, above) == 1
    assert memo.pending(0)[1] == [memo.arena[:1].tobytes()]
