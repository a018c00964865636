"""The main text of pages, their digests and their sketches."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.page.fingerprint import MOST_WORDS, digest, distance, sketch, words_of
from lycosa.page.text import text_of

ARTICLE = (
    "<p>"
    + "A sentence of the article that is long enough to count, with commas, and a full stop. " * 4
    + "</p>"
)
HTML = f"""<html><head><title>The title</title><style>css</style><script>code</script></head><body>
<nav><a href=/>Home</a></nav><div role=navigation>Menu</div><article><h1>Head line</h1>{ARTICLE * 3}
<ul><li>first<li>second</ul><table><tr><td>cell a<td>cell b</table></article>
<noscript>enable</noscript><template>inert</template><footer>Imprint</footer></body></html>"""


def test_html_text() -> None:
    text = text_of(HTML.encode(), "text/html", "utf-8")
    lines = text.split("\n")
    assert lines[0] == "The title" and "Head line" in lines
    assert text.count("A sentence of the article") == 12
    for gone in ("css", "code", "Home", "Menu", "enable", "inert", "Imprint"):
        assert gone not in text
    assert "first" in lines and "second" in lines


def test_short_pages_keep_their_text() -> None:
    assert (
        text_of(b"<title>T</title><p>Hello <b>wor</b>ld</p><p>Bye", "text/html", "utf-8")
        == "T\nHello world\nBye"
    )
    assert text_of(b"<title>Same</title><h1>Same</h1>x", "text/html", "utf-8") == "Same\nx"
    assert text_of(b"<title>Only</title>", "text/html", "utf-8") == "Only"
    assert text_of(b"", "text/html", "utf-8") == ""


def test_other_types() -> None:
    assert text_of(b" a \n\n b\x01c", "text/plain", "utf-8") == "a\nb c"
    assert text_of(b"caf\xe9", "text/plain", "windows-1252") == "café"
    feed = (
        b"<rss><title>T</title><!-- no --><description>&lt;p&gt;one&lt;/p&gt;"
        b"<![CDATA[<b>two</b>]]></description></rss>"
    )
    assert text_of(feed, "application/rss+xml", "utf-8") == "T\none\ntwo"
    assert (
        text_of(b"<html><title>T</title><body>x<script>y</script></body></html>", "text/xml", "utf-8")
        == "T\nx"
    )
    assert text_of(b"\x89PNG", "image/png", "") == ""


@pytest.mark.parametrize(
    "body", ["<div>" * 200_000 + "x", "<p>a b c" * 100_000, "<table><tr><td>x" * 50_000, "<" * 500_000]
)
def test_hostile_pages_are_bounded(body: str) -> None:
    start = time.process_time()
    text_of(body.encode(), "text/html", "utf-8")
    text_of(body.encode(), "text/xml", "utf-8")
    assert time.process_time() - start < 5


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["text/html", "text/xml", "text/plain", "a/b"]))
def test_text_of_takes_any_bytes(body: bytes, media: str) -> None:
    text = text_of(body, media, "utf-8")
    assert "\n\n" not in text and text == text.strip("\n")
    sketch(text)


def test_digest() -> None:
    assert digest(b"") == 0
    assert digest(b"a") == 0xE6C632B61E964E1F  # XXH3_64bits("a")
    assert digest(b"a") != digest(b"b")
    assert digest(b"a") == 0xE6C632B61E964E1F, "the same in every crawl: logs hold it"


@given(st.binary(min_size=1))
def test_digest_is_64_bits_and_not_zero(body: bytes) -> None:
    assert 0 < digest(body) < 2**64


def prose(seed: int, length: int) -> list[str]:
    """Words as frequent as words are: a few very common, most rare."""
    dice = random.Random(seed)
    return [f"w{int(3000 ** dice.random())}" for _ in range(length)]


@pytest.mark.parametrize("length", [300, 1000, 5000])
def test_sketches_tell_near_duplicates_from_others(length: int) -> None:
    near, far = [], []
    for seed in range(40):
        words = prose(seed, length)
        changed = list(words)
        changed[seed * 7 % length] = "changed"
        one = sketch(" ".join(words))
        near.append(distance(one, sketch(" ".join(changed))))
        far.append(distance(one, sketch(" ".join(prose(seed + 1000, length)))))
    assert max(near) <= 10 < min(far)
    assert sum(near) / len(near) <= 4
    assert 24 <= sum(far) / len(far) <= 36


def test_sketches_do_not_see_markup_case_or_spacing() -> None:
    assert sketch("One, two; THREE four") == sketch(" one two\nthree -- four! ")
    assert sketch("one two three") != sketch("three two one")
    assert sketch("") == sketch(" -- ") == 0
    assert sketch("one") != sketch("two")


def test_scripts_without_spaces_have_characters_for_words() -> None:
    text = "日本語の文章には単語の間に空白がありませんので文字を数えます" * 20
    assert len(words_of(text)) == len(text)
    changed = text[:200] + "変" + text[201:]
    assert distance(sketch(text), sketch(changed)) <= 10


def test_only_so_many_words_count() -> None:
    many = "a b c d " * (MOST_WORDS // 4)
    assert len(words_of(many + "e f")) == MOST_WORDS
    assert sketch(many) == sketch(many + "e f")


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_distance(a: int, b: int) -> None:
    assert distance(a, b) == distance(b, a) == bin(a ^ b).count("1")
    assert distance(a, a) == 0
