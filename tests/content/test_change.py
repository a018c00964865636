"""What counts as a change of a page's content, and what does not."""

from __future__ import annotations

from random import Random

import pytest

from lycosa.content.change import content_digest, content_words, links_digest, version_of
from lycosa.content.main_text import main_text

PAGE = """<html lang=en><head><title>A page</title></head><body>
<nav class=menu><a href=/>Home</a> <a href=/a>About us</a></nav>
<main><h1>Growing tomatoes</h1>
<p class=byline>By Jo, <time>12 May 2024</time>, {views} views</p>
<p>Tomatoes want sun, water and patience; plant them in spring, {apart} cm apart, and wait for warm nights.</p>
<p>They cost $3.50 a kilo on the market of our town, when there are any to be had at all.</p></main>
<aside><p>Today's quote, which is long enough to be prose: {quote} said somebody once upon a time.</p></aside>
<footer>Copyright {year} Somebody. Page made in {ms} ms. <a href="/?sid={nonce}">Login</a></footer>
<script>var nonce = "{nonce}"</script></body></html>"""
SAME = {"views": "17", "apart": "50", "quote": "haste", "year": "2024", "ms": "12", "nonce": "8f3a9c"}


def page(**other: str) -> str:
    text = PAGE
    for name, value in {**SAME, **other}.items():
        text = text.replace("{" + name + "}", value)
    return text


COSMETIC = {
    "a counter": page(views="18,201"),
    "a rotating quote": page(quote="love is all you need"),
    "the year of the copyright": page(year="2026"),
    "a nonce in a script and in a link": page(nonce="99aa01"),
    "the time that it took": page(ms="340"),
    "a date": page().replace("12 May 2024", "3 June 2025"),
    "white space": page().replace("\n", "\n\n  \t"),
    "attributes": page().replace("<p>", '<p class="x1" data-n="7">'),
    "inline markup": page().replace("patience", "<b>patience</b>"),
    "punctuation and case": page().replace("Tomatoes want sun,", "TOMATOES want sun -"),
    "an advertisement": page().replace(
        "<h1>", '<div class="ad-slot"><p>Buy our new and much better soap now!</p></div><h1>'
    ),
    "a banner for consent": page().replace(
        "<main>",
        '<div id="cookie-consent"><p>We and our 817 partners use cookies to show you things.</p></div><main>',
    ),
    "an entry of the menu": page().replace("About us", "About all of us"),
    "a comment of the markup": page().replace("<main>", "<!-- built at 12:33:01 --><main>"),
    "a session id in the text": page().replace("They cost", "ab93ff0c1e7d55aa They cost"),
}
REAL = {
    "a word": page().replace("patience", "pruning"),
    "a number in prose": page(apart="70"),
    "a price": page().replace("$3.50", "$4.10"),
    "a paragraph more": page().replace(
        "</main>", "<p>In autumn the last of them ripen indoors, in a drawer.</p></main>"
    ),
    "a paragraph less": page().replace(
        "<p>They cost $3.50 a kilo on the market of our town, when there are any to be had at all.</p>", ""
    ),
    "a heading": page().replace("Growing tomatoes", "Growing potatoes"),
}


@pytest.mark.parametrize("case", COSMETIC)
def test_cosmetic_churn_is_no_change(case: str) -> None:
    assert COSMETIC[case] != page()
    assert content_digest(COSMETIC[case]) == content_digest(page())


@pytest.mark.parametrize("case", REAL)
def test_a_real_change_is_one(case: str) -> None:
    assert content_digest(REAL[case]) != content_digest(page())


PIECES = (
    *(
        "views",
        "comments",
        "12",
        "1,024",
        "3.5",
        "2.1.4",
        "12/05/2024",
        "12:30",
        "5%",
        "$4",
        "20",
        "minutes",
        "ago",
    ),
    *(
        "May",
        "monday",
        "x1",
        "8f3a9c8f3a9c",
        "don't",
        "na\u00efve",
        "\u2013",
        "\u00a0",
        "&amp;",
        "&nbsp;",
        "&unended",
    ),
    *("A-B", "a_b", "10-20", "v2", "2.12-2.5.0", "page", "7", "total", "300", "\u00b2", "\u20ac9", "end."),
)


def test_the_digest_is_one_of_the_words_that_count() -> None:
    """By words, in plain Python: versions have one digest if, and only if, their blocks have the same words."""
    random = Random(4)
    pages = [page(), *COSMETIC.values(), *REAL.values()]
    for _ in range(120):
        words = page().split(" ")
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(words))
            words[at : at + random.randrange(2)] = random.choices(PIECES, k=random.randrange(1, 4))
        pages.append(" ".join(words))
    pages += ["<p>" + " ".join(random.choices(PIECES, k=random.randrange(1, 7))) for _ in range(200)]
    groups: dict[int, set[str]] = {}
    for each in pages:
        groups.setdefault(content_digest(each), set()).add(repr(sorted(content_words(each))))
    assert all(len(words) == 1 for words in groups.values()), "one digest, different words"
    every = [next(iter(words)) for words in groups.values()]
    assert len(set(every)) == len(every), "the same words, two digests"
    assert 100 < len(groups) < len(pages)


def test_a_change_is_not_one_of_the_text_that_is_shown() -> None:
    """A date is shown, and is no change; what is left out of the shown text may be one."""
    newer = page().replace("12 May 2024", "3 June 2025").replace("They cost", "Since 3 June 2025 they cost")
    older = newer.replace("Since 3 June 2025", "Since 12 May 2024")
    assert main_text(older).text != main_text(newer).text
    assert content_words(older) == content_words(newer) and content_digest(older) == content_digest(newer)


def test_a_list_of_links_has_content_too() -> None:
    def index(*names: str) -> str:
        return (
            "<ul>" + "".join(f"<li><a href=/{name}>All about {name} and more</a>" for name in names) + "</ul>"
        )

    one = index("cats", "dogs", "cows", "hens")
    assert content_digest(one) == content_digest(index("hens", "dogs", "cows", "cats")), "in another order"
    assert content_digest(one) != content_digest(index("cats", "dogs", "cows", "hens", "mice"))


def test_text_and_bytes_are_pages_too() -> None:
    text = "Tomatoes want sun, water and patience.\nPlant them in spring, when the nights are warm."
    assert content_digest(text) == content_digest(text.encode()) != 0
    assert content_digest("grün".encode("latin-1"), "windows-1252") == content_digest("grün")
    assert content_digest("") == content_digest(b"") == content_digest("<p> </p>") == 0
    assert 0 < content_digest(text) < 1 << 64


def test_links_are_a_signal_of_their_own() -> None:
    assert links_digest([]) == 0
    assert links_digest(["http://a/", "http://b/"]) == links_digest(["http://b/", "http://a/", "http://a/"])
    assert links_digest(["http://a/"]) != links_digest(["http://b/"])
    one, two = version_of(page(), ["http://a/"]), version_of(page(views="99"), ["http://b/"])
    assert one.same(two)
    assert one.links != two.links
    assert one.like(two) == 1.0


def test_how_much_has_changed() -> None:
    one = version_of(page())
    little, much = (version_of(REAL[case]) for case in ("a word", "a paragraph less"))
    assert 0.3 < much.like(one) < little.like(one) < 1
    other = "<p>" + " ".join(f"something{n} else" for n in range(60))
    assert version_of(other).like(one) < 0.1
