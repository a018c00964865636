"""The stretch that is shown, and what is marked in it."""

from __future__ import annotations

from lycosa.index.snippets import WIDTH, Snippet, finder, snippet
from lycosa.index.words import terms_of


def made(text: str, query: str, language: str = "en", title: str = "") -> tuple[str, list[str]]:
    terms = set(terms_of(query, language).split())
    found: Snippet = snippet(text, terms, language, finder(terms), title)
    return found.text, [found.text[start:end] for start, end in found.marks]


def test_the_stretch_with_most_words() -> None:
    filler = "nothing to see here and there " * 30
    text = f"A spider. {filler}The wolf spiders are hunting here. {filler}A wolf. {filler}"
    shown, marks = made(text, "wolf spider hunts")
    assert "The wolf spiders are hunting here." in shown
    assert marks == ["wolf", "spiders", "hunting"]
    assert shown.startswith("… ") and shown.endswith(" …") and len(shown) <= WIDTH + 4


def test_words_far_into_a_text_are_found_and_the_best_passage_is_of_all_of_it() -> None:
    filler = "nothing to see here and there " * 200
    shown, marks = made(f"A wolf. {filler}A spider. {filler}The wolf spiders hunt. {filler}", "wolf spider")
    assert "The wolf spiders hunt." in shown and marks == ["wolf", "spiders"]
    assert made(f"A wolf. {filler}A wolf, a wolf. {filler}", "wolf zebra")[1] == ["wolf", "wolf"]
    for before in range(1_980, 2_000):  # wherever a part ends, half a word is none
        assert made(f"{'x' * before} unspidered {filler}", "spider")[1] == []


def test_accents_case_and_scripts() -> None:
    assert made("Les ÉTUDES et l'école", "etudes ecole", "fr")[1] == ["ÉTUDES", "école"]
    assert made("我们去东京都看看", "东京都", "zh")[1] == ["东京都"]
    assert made("İSTANBUL and İzmir", "izmir", "")[0] == "İSTANBUL and İzmir"


def test_the_end_is_not_before_what_was_asked_for() -> None:
    near = f"asyncio has things that {'are here and ' * 10}await asyncio.gather("
    text = f"{'before that ' * 20}{near}\n{'after' * 30}"
    shown, marks = made(text, "asyncio gather")
    assert "gather" in marks and shown.endswith("asyncio.gather( …")
    assert len(made("京" * 50 + "東京" + "都" * 500, "東京", "ja")[0]) > WIDTH - 10


def test_a_word_between_underscores_is_one() -> None:
    assert made("At most max_connections of them", "max_connections")[1] == ["max", "connections"]
    assert made("remaxed connections", "max_connections")[1] == ["connections"]


def test_without_a_hit_the_text_begins() -> None:
    assert made("Title\nThe text itself.", "zebra", title="Title") == ("The text itself.", [])
    assert made("", "zebra") == ("", [])
    assert made("Titles differ", "zebra", title="Title")[0] == "Titles differ"
    assert snippet("some text", set(), "en", finder(set())) == Snippet("some text")


def test_a_word_longer_than_a_snippet() -> None:
    word = "ab" * 40
    shown, _ = made(f"{'x' * 1000} abab {word * 20} abab", "abab")
    assert len(shown) <= WIDTH + 4


def test_a_first_line_that_the_title_has_is_not_repeated() -> None:
    text = "Virtual hosts\nWhat they are."
    assert snippet(text, (), "en", finder(()), "Virtual hosts - Apache").text == "What they are."
    assert snippet(text, (), "en", finder(()), "Other").text.startswith("Virtual hosts")
    assert snippet("Virtual hosts", (), "en", finder(()), "Virtual hosts").text == "Virtual hosts"
