"""Documents against terms, on a corpus small enough to count by hand; and tiers."""

from __future__ import annotations

import pytest

from lycosa.lab.experiments.partition import (
    PARTIAL,
    RESULT,
    Corpus,
    Document,
    Row,
    balanced,
    known,
    partitions,
    tiers,
)

TEXTS = ("ape bee", "ape", "ape cat", "bee cat cat", "dog", "ape bee cat dog")
CORPUS = Corpus(
    Document(f"http://{n % 2}.test/{n}", f"{n % 2}.test", text.split(), n / 10)
    for n, text in enumerate(TEXTS)
)


def row(rows: list[Row], scheme: str, nodes: int, words: str) -> Row:
    (found,) = (r for r in rows if (r.scheme, r.nodes, r.words) == (scheme, nodes, words))
    return found


def test_what_is_read_and_sent() -> None:
    queries = known(CORPUS, [["ape"], ["none"], ["ape", "bee", "ape"], ["dog"], ["ape", "bee"]])
    assert queries == [("ape",), ("ape", "bee"), ("dog",), ("ape", "bee")]
    rows = partitions(CORPUS, queries, [1, 50], k=2)
    for scheme in ("by host", "by URL", "by term", "by term, balanced"):
        one = row(rows, scheme, 1, "several")
        # ape is on four pages, bee on three; five pages match, the best two are sent.
        assert (one.queries, one.asked, one.read, one.path, one.shipped, one.busiest) == (
            1,
            1,
            7,
            7,
            2 * RESULT,
            1,
        )
    terms = row(rows, "by term, balanced", 50, "several")
    # The three pages with bee, the shorter list, are sent to where ape is.
    assert (terms.asked, terms.read, terms.shipped) == (2, 7, 3 * PARTIAL + 2 * RESULT)
    assert terms.page_nodes > 1
    urls = row(rows, "by URL", 50, "several")
    assert (urls.asked, urls.read, urls.page_nodes) == (50, 7, 1) and urls.path < 7
    assert row(rows, "by host", 50, "one").asked == 50


def test_terms_are_given_to_the_node_with_the_least_to_read() -> None:
    nodes = balanced(CORPUS, [("ape",), ("bee",), ("cat",), ("dog",)], 2)
    # ape (4) | bee (3), cat (3) to the lighter, dog (2) to the lighter again
    assert nodes["ape"] != nodes["bee"] and nodes["cat"] == nodes["bee"] and nodes["dog"] == nodes["ape"]
    assert set(nodes) == {"ape", "bee", "cat", "dog"}


def test_the_best_pages_are_those_of_bm25_times_the_rank() -> None:
    assert CORPUS.best(["cat"], 3, 0.0).tolist() == [3, 2, 5]
    assert CORPUS.best(["ape"], 1, 0.0).tolist() == [1]  # the shortest
    assert CORPUS.best(["ape"], 1, 100.0).tolist() == [5]  # of the highest rank
    assert CORPUS.best(["ape"], 3, 0.0, CORPUS.ranks < 0.2).tolist() == [1, 0]


def test_tiers_read_less_and_say_what_they_lose() -> None:
    (any_word, all_words) = tiers(CORPUS, [("ape", "bee")], [0.5], k=2, rank_weight=0.0)
    # The high tier has pages 3, 4 and 5: two of them match any word, and one matches both.
    assert (any_word.enough, all_words.enough) == (1.0, 0.0)
    assert any_word.read == pytest.approx(3 / 7) and all_words.read == 1.0
    truth = set(CORPUS.best(["ape", "bee"], 2, 0.0).tolist())
    assert any_word.lost == len(truth - {3, 5}) / 2 and all_words.lost == 0.0
    (whole, _) = tiers(CORPUS, [("ape", "bee")], [1.0], k=2)
    assert (whole.enough, whole.read, whole.lost) == (1.0, 1.0, 0.0)
