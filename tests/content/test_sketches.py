"""Sketches: the kernel against plain Python, and estimates against exact similarities."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lycosa.content.sketches import MOST_WORDS, jaccard, plain_sketch, shingles_of, sketch, words_of


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
@example("")
@example("one")
@example("one two")
@example("One, TWO; three – four… don’t")
@example("这个城市每个星期六都有集市，农民在那里。Mixed 中 text")
@example("ª º µ ÀÖ ß İ \ud800 \U0001f600 ＡＢ！ﬁ")
def test_the_kernel_is_what_plain_python_says(text: str) -> None:
    assert sketch(text) == plain_sketch(text)


def prose(seed: int, length: int) -> list[str]:
    source = random.Random(seed)
    return [f"w{source.randrange(5000)}" for _ in range(length)]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(3, 2000))
def test_long_texts_too(seed: int, length: int) -> None:
    text = " ".join(prose(seed, length))
    assert sketch(text) == plain_sketch(text)


def test_words() -> None:
    assert words_of("One, two-three; 4th Été 中文。") == ["one", "two", "three", "4th", "Été", "中", "文"]
    assert sketch("One, two; THREE four") == sketch(" one two\nthree -- four! ")
    assert sketch("one two three") != sketch("three two one")
    assert sketch("") == sketch(" -- ")
    assert sketch("").least == b""


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.9])
def test_estimates_are_near_the_truth(share: float) -> None:
    errors = []
    for seed in range(40):
        words = prose(seed, 600)
        source = random.Random(seed + 1)
        changed = [f"x{source.random()}" if source.random() < share / 3 else word for word in words]
        one, two = " ".join(words), " ".join(changed)
        errors.append(sketch(one).like(sketch(two)) - jaccard(shingles_of(one), shingles_of(two)))
    assert abs(sum(errors) / len(errors)) < 0.03, "no bias"
    assert (sum(error * error for error in errors) / len(errors)) ** 0.5 < 0.06


@pytest.mark.parametrize("length", [300, 1000])
def test_simhashes_tell_near_duplicates_from_others(length: int) -> None:
    near, far = [], []
    for seed in range(30):
        words = prose(seed, length)
        changed = [*words[: length // 2], "changed", *words[length // 2 + 1 :]]
        one = sketch(" ".join(words))
        near.append(one.distance(sketch(" ".join(changed))))
        far.append(one.distance(sketch(" ".join(prose(seed + 1000, length)))))
    assert sum(near) / len(near) < 4
    assert max(near) <= 10 < min(far)


def test_what_follows_many_words_changes_nothing() -> None:
    many = "a b c d " * (MOST_WORDS // 4)
    assert sketch(many) == sketch(many + "e f")
