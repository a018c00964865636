"""The main text of pages: what is in it, what is not, and that any page has one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.content import feature_kernels
from lycosa.content import main_text as module
from lycosa.content.blocks import Blocks
from lycosa.content.main_text import Trees, main_text, model, scores

PROSE = (
    "Tomatoes want sun, water and patience, and a gardener who looks after them every single day of the summer.",
    "Plant them in spring, half a metre apart, when the nights are warm; water the soil and never the leaves.",
    "In a good year a plant bears five kilos of fruit, which taste best when they are picked on a warm afternoon.",
    "What is still green in autumn ripens indoors, in a drawer, beside an apple, within two or three weeks.",
)
FRAME = """<html lang="en"><head><title>Growing tomatoes | The Gardener</title></head><body>
<header class="site-header"><a href="/">The Gardener</a><nav class="main-menu"><ul><li><a href="/">Home</a></li>
<li><a href="/shop">Shop</a></li><li><a href="/about">About us</a></li><li><a
href="/login">Login</a></li></ul></nav></header> {body}
<aside class="sidebar"><h3>Popular posts</h3><ul><li><a href="/1">Ten ways to kill weeds</a></li>
<li><a href="/2">Best spades of the year</a></li><li><a href="/3">Why bees matter so much</a></li></ul></aside>
<div id="cookie-consent"><p>We use cookies to improve your experience on this site. Read our policy.</p>
<button>Accept all</button></div>
<footer><p>Copyright 2024 The Gardener. All rights reserved.</p><a
href="/privacy">Privacy</a></footer></body></html>"""
BOILERPLATE = (
    "Shop",
    "Login",
    "Popular posts",
    "Best spades",
    "cookies",
    "Accept all",
    "Copyright",
    "Privacy",
)


def article() -> str:
    return FRAME.replace(
        "{body}",
        "<main><article class='post'><h1>Growing tomatoes</h1>"
        + "".join(f"<p>{each}</p>" for each in PROSE[:2])
        + "<h2>The harvest</h2>"
        + "".join(f"<p>{each}</p>" for each in PROSE[2:])
        + "</article></main>",
    )


def forum() -> str:
    posts = "".join(
        f"<div class='post message'><div class='author'><a href=/u/{n}>user{n}</a></div>"
        f"<div class='post-body'>{each}</div></div>"
        for n, each in enumerate(PROSE)
    )
    return FRAME.replace(
        "{body}", f"<div id=content><h1>How do I grow tomatoes?</h1><div class=thread>{posts}</div></div>"
    )


@pytest.mark.parametrize("page", [article(), forum()], ids=["article", "forum"])
def test_prose_is_in_it_and_the_frame_of_the_site_is_not(page: str) -> None:
    found = main_text(page)
    assert [each for each in PROSE if each not in found.text] == []
    assert [each for each in BOILERPLATE if each in found.text] == []
    assert found.title == "Growing tomatoes | The Gardener"
    assert found.language == "en"


def test_headings_have_their_level() -> None:
    found = main_text(article())
    assert [(each.level, each.text) for each in found.blocks if each.level] == [
        (1, "Growing tomatoes"),
        (2, "The harvest"),
    ]
    assert found.headings == ["Growing tomatoes", "The harvest"]
    assert found.text.split("\n") == [each.text for each in found.blocks]


def test_a_page_whose_text_is_doubtful_keeps_something() -> None:
    assert main_text("<p>Hello").text == "Hello"
    assert main_text("Hello <b>wor</b>ld").text == "Hello world"
    assert main_text("<title>Only</title>").blocks == []
    assert main_text("") == main_text(b"")
    assert "kept" in main_text("<nav><a href=x>all of it is kept</a></nav>").text


def test_text_is_clean() -> None:
    page = "<p>" + " ".join(PROSE) + " caf&eacute; &#1; a\x02b<br>next &amp; last</p>"
    text = main_text(page).text
    assert "café" in text
    assert text.endswith("next & last")
    assert not any(ord(letter) < 32 and letter != "\n" for letter in text)
    assert main_text("<p>gr\xfcn</p>".encode("latin-1"), "windows-1252").text == "grün"


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300) | st.lists(st.sampled_from(
    ["<p>", "<div class=content>", "</div>", "<a href=x>", "</a>", "many words, and more. ", "<li>", "<h1>",
    "<nav>", "<article>"]
)).map(lambda parts: "".join(parts).encode()))  # fmt: skip
def test_any_page_has_a_main_text(page: bytes) -> None:
    found = main_text(page)
    assert all(each.text == each.text.strip() != "" for each in found.blocks)
    assert found == main_text(page)


@pytest.mark.parametrize(
    "page", ["<div>" * 200_000 + "x", "<p" + " a=b" * 100_000 + ">x", "<p>a b " * 50_000, "w " * 5_000_000]
)
def test_hostile_pages_have_one(page: str) -> None:
    assert main_text(page).text


def test_the_model_is_whole_and_fits_the_features() -> None:
    first, second = model()
    assert first.columns.max() < feature_kernels.FEATURES
    assert second.columns.max() < feature_kernels.FEATURES + feature_kernels.WIDER
    for trees in (first, second):
        again, end = Trees.from_bytes(trees.to_bytes(), 0)
        assert end == len(trees.to_bytes())
        assert (again.leaves == trees.leaves).all()
    assert module._MODEL.stat().st_size < 100_000


def test_scores_are_probabilities() -> None:
    said = scores(Blocks(article().encode()))
    assert ((said >= 0) & (said <= 1)).all()
    assert said.max() > 0.9
    assert said.min() < 0.1


def test_the_one_first_heading_and_the_sign_behind_headings() -> None:
    body = "".join(
        f"<h2>Part {n}<a class=headerlink href=#p{n}>¶</a></h2><p>{'Some words of it. ' * 20}</p>"
        for n in range(3)
    )
    found = main_text(f"<header><h1>All about it<a href=#>¶</a></h1></header><main>{body}</main>")
    assert found.heading == "All about it"
    assert "¶" not in found.text and "Part 1" in found.headings
    assert main_text("<h1>one</h1><h1>two</h1><p>text").heading == ""
    assert main_text("").heading == ""


_PARTS = [
    *(
        "word",
        "Zeit",
        "&amp;",
        "&lt;b&gt;",
        "&quot;",
        "&#39;",
        "&#039;",
        "&#8217;",
        "&#160;",
        "&#8195;",
        "&#182;",
    ),
    *(
        "&para;",
        "¶",
        "&copy",
        "&ampx",
        "&#x41;",
        "&#65",
        "&#",
        "&;",
        "& ",
        "&",
        "&#0;",
        "&#10;",
        "&#127;",
        "&#55296;",
    ),
    *(
        "\u00a0",
        "\u2003",
        "\u3000",
        "\u0085",
        "\u1680",
        "\u202f",
        "\u205f",
        "\ufffe",
        "漢字",
        "\u00e9",
        "<br>",
        " ",
    ),
    *("<b>x</b>", "\x07", "\x1f", "</p><p>", "</p><h2>", "</h2><pre>", "\n", "</pre>"),
]


@given(st.lists(st.sampled_from(_PARTS), max_size=30), st.binary(max_size=4))
def test_blocks_gathered_at_once_are_those_taken_one_by_one(parts: list[str], broken: bytes) -> None:
    blocks = Blocks(b"<p>" + "".join(parts).encode() + broken)
    numbers = np.arange(len(blocks))
    texts, _ = module._gathered(blocks, numbers)
    assert texts == [module.plain_text(blocks, number) for number in range(len(blocks))]
