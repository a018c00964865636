"""Words that are spelled nearly the same: found among many, and compared letter by letter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.index.near import Vocabulary, within

words = st.text(alphabet="abcéßж漢\U0001f577", min_size=1, max_size=7)


@given(st.lists(words, unique=True, max_size=30), words, st.sampled_from((1, 2)))
def test_what_is_near_is_found_among_many(known: list[str], word: str, most: int) -> None:
    assert Vocabulary(known).near(word, most) == [each for each in known if within(each, word, most)]


def test_what_is_near_a_word_of_any_letters() -> None:
    known = ["spider", "spiders", "spied", "snider", "cyder"]
    assert Vocabulary(known).near("spidre", 1) == ["spider"]
    assert Vocabulary(known).near("spidre", 2) == ["spider", "spiders", "snider"]
    assert Vocabulary([]).near("spider", 2) == []


@pytest.mark.parametrize(
    ("word", "other", "most", "near"),
    [
        ("ape", "ape", 0, True),
        ("ape", "appe", 1, True),
        ("spider", "spdier", 1, True),
        ("spider", "spyder", 1, True),
        ("spider", "spyter", 1, False),
        ("spider", "spyter", 2, True),
        ("ab", "ba", 1, True),
        ("", "ab", 1, False),
        ("cat", "cats", 1, True),
    ],
)
def test_within(word: str, other: str, most: int, near: bool) -> None:
    assert within(word, other, most) is near
    assert within(other, word, most) is near
