"""Spelling and completion: a word that hardly any page has is replaced by one of similar spelling that many have;
and the last word of a text is completed.

The index has terms, not words. For a term, the word shown is its most frequent form on the first pages
that have it.
"""

from __future__ import annotations

from collections import Counter

from lycosa.index.broker import Broker
from lycosa.index.near import within
from lycosa.index.plan import All, AnyOf, Plan
from lycosa.index.query import Query, parse
from lycosa.index.reader import Clause
from lycosa.index.words import fold, is_unspaced, runs_of, terms_of

_RARER = 20
"""How many times as many pages must have the suggested word."""
_VOCABULARY = 5_000
"""Terms of a shard that are examined to complete a word."""
_SHORTEST = 3
_PAGES = 3
"""Pages on which the word of a term is looked up."""
_MOST_WORDS = 8
"""A longer query counts as a text, and is not checked."""


def suggestion(broker: Broker, query: Query) -> str:
    """The query with misspelled words replaced; "" if there is nothing to suggest."""
    words = [run for text in query.words for run in runs_of(text)]
    if len(words) > _MOST_WORDS:
        return ""
    languages = broker.languages(query)
    better = query.text
    for word in words:
        if len(word) < 4 or is_unspaced(word) or word.isdigit():
            continue
        terms = {terms_of(word, language) for language in languages}
        count = max((broker.statistics.df("body", term) for term in terms if term), default=0)
        if count * _RARER >= broker.statistics.totals.pages:
            continue  # no word is that much more frequent
        found = {
            near: broker.statistics.df("body", near)
            for term in terms
            if term
            for near in broker.expand("body", term, 1 if len(term) < 6 else 2)
            if near not in terms
        }
        best = min(found, key=lambda term: (-found[term], term), default="")
        if best and found[best] > count * _RARER:
            shown = _shown(broker, best, languages)
            if shown and within(shown, word.lower(), 1 if count else 2):  # a known word must be closer
                better = better.replace(word, shown, 1)
    return better if better != query.text else ""


def completions(broker: Broker, text: str, most: int = 8) -> list[str]:
    """The text with its last word completed, most frequent words first; none for less than two letters."""
    runs = runs_of(text)
    start = fold(runs[-1]) if runs and text.endswith(runs[-1]) else ""
    if len(start) < 2 or is_unspaced(start):
        return []
    found: Counter[str] = Counter()
    for reader in broker.readers:
        found.update(dict(reader.counted("body", start, _VOCABULARY)))
        # The term of a word may be shorter than the part typed so far.
        for end in range(_SHORTEST, len(start)):
            found[start[:end]] += reader.df("body", start[:end])
    languages = broker.languages(parse(text))
    before = text[: len(text) - len(runs[-1])]
    words: dict[str, None] = {}
    for term, count in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[: 3 * most]:
        if count and len(words) < most and (word := _shown(broker, term, languages, start)):
            words[before + word] = None
    return list(words)


def _shown(broker: Broker, term: str, languages: list[str], start: str = "") -> str:
    clause = Clause("body", (term,))
    words: Counter[str] = Counter()
    for page in broker.pages(broker.top(Plan((clause,), (), All(should=(AnyOf((0,)),)), True), _PAGES)):
        language = page.language or languages[0]
        words.update(
            run.lower()
            for run in runs_of(f"{page.title}\n{page.text[:50_000]}")
            if terms_of(run, language) == term and fold(run).startswith(start)
        )
    return min(words, key=lambda word: (-words[word], word), default="")
